#include "door/pass/password.h"

#include <assert.h>
#include <string.h>

void password_init(struct password *password, const char *text)
{
    lock_init(&password->lock);
    password_set(password, text);
}

void password_done(struct password *password)
{
    lock_done(&password->lock);
    explicit_bzero(password->bytes, sizeof(password->bytes));
}

void password_set(struct password *password, const char *text)
{
    size_t size = text ? strlen(text) : 0;
    assert(size <= PASSWORD_BYTES_MAX);

    lock_take(&password->lock);
    password->size = size;
    explicit_bzero(password->bytes, sizeof(password->bytes));
    if (size > 0)
        memcpy(password->bytes, text, size);
    gauge_set(&password->is_set, text != NULL);
    lock_release(&password->lock);
}

bool password_is_set(const struct password *password)
{
    return gauge_read(&password->is_set) != 0;
}

/* Every byte of the two padded fields is looked at, whatever they hold, so the
 * time tells nothing. */
bool password_is(struct password *password, struct slice said)
{
    char padded[PASSWORD_BYTES_MAX] = {0};
    memcpy(padded, said.data, said.size < sizeof(padded) ? said.size : sizeof(padded));

    lock_take(&password->lock);
    unsigned char differs = password->size != said.size;
    for (size_t i = 0; i < sizeof(padded); i++)
        differs |= (unsigned char)(padded[i] ^ password->bytes[i]);
    lock_release(&password->lock);
    explicit_bzero(padded, sizeof(padded));
    return differs == 0;
}
