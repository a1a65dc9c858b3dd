#include "server/turns.h"

#include "base/message.h"
#include "server/process.h"

#define LAG_MAX_MS INT64_C(30000)
#define LAG_LOW_MS INT64_C(2000)
#define CALM_NS    UINT64_C(10000000000) /* without a refusal */

void turns_join(struct turns *turns)
{
    unsigned number = atomic_fetch_add(&turns->count, 1);
    if (number < TURNS_THREADS)
        atomic_store(&turns->threads[number], process_thread());
    (void)process_give_way(process_thread());
}

static void each(struct turns *turns, bool (*set)(pid_t thread))
{
    bool is_set = true;
    for (unsigned i = 0; i < TURNS_THREADS; i++) {
        pid_t thread = atomic_load(&turns->threads[i]);
        if (thread != 0)
            is_set = set(thread) && is_set;
    }
    if (!is_set)
        message_warning("the store falls behind, and its threads may not take more of the cores: "
                        "run as root, or allow it (LimitNICE=+0)");
}

bool turns_look(struct turns *turns, const struct turns_figures *figures)
{
    bool has_refused = figures->refused > turns->refused;
    turns->refused = figures->refused;
    if (has_refused || figures->lag_ms > LAG_LOW_MS)
        turns->calm_ns = figures->now_ns + CALM_NS;
    if (!turns->is_pressed && (has_refused || figures->lag_ms > LAG_MAX_MS)) {
        turns->is_pressed = true;
        each(turns, process_take_turn);
        return true;
    }
    if (turns->is_pressed && figures->now_ns >= turns->calm_ns) {
        turns->is_pressed = false;
        each(turns, process_give_way);
        return true;
    }
    return false;
}
