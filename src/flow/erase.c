#include "flow/desk_own.h"

enum err erase_user(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    (void)seat;
    (void)work;
    return error_set(error, ERR_UNAVAILABLE, "not there yet");
}
