/* proof_mend.c - a count is put right where it stands. */
#include "flow/proof_own.h"

#include "base/message.h"
#include "flow/members.h"
#include "flow/rows.h"

struct mend_ask {
    const struct proof *proof;
    const struct sight *sight;
    const struct number *by;
    uint32_t life; /* that the row ought to be of */
    struct slice text;
    enum err err;
    struct error *error;
};

/* Both are made of all that the log has up to the mark. Units that wait would be in it twice. */
static enum err make_anew(const struct mend_ask *ask, struct store *store)
{
    const struct sight *sight = ask->sight;
    struct desk_seat *seat = ask->proof->seat;
    bool waits = false;
    enum err err = proof_has_waiting(ask->proof, sight->id, &waits, ask->error);
    if (err || waits)
        return err ? err : ERR_BUSY;
    bool has_members = sight->place == PLACE_STORE_MEMBERS;
    if (sight->is_missing)
        err = rows_make(seat, store, sight->id, sight->record.incarnation, ask->text, &has_members,
                        ask->error);
    if (!err && has_members)
        err = members_mend(seat, store, sight->id, ask->text, ask->error);
    return err == ERR_EXISTS ? ERR_BUSY : err;
}

static void ask_mend(void *arg, struct store *store)
{
    struct mend_ask *ask = arg;
    struct desk *desk = ask->proof->seat->desk;
    int64_t now_ms = env_wall_ms(desk->options.env);
    struct slice kind = kinds_name(desk->kinds, ask->sight->kind);
    if (ask->sight->place == PLACE_STORE && !ask->sight->is_missing)
        ask->err = store_mend(store, ask->sight->id, ask->sight->record.incarnation, kind, ask->by,
                              ask->text, now_ms, ask->error);
    else
        ask->err = make_anew(ask, store);
}

static void ask_mend_life(void *arg, struct store *store)
{
    struct mend_ask *ask = arg;
    const struct sight *sight = ask->sight;
    int64_t now_ms = env_wall_ms(ask->proof->seat->desk->options.env);
    ask->err = store_mend_life(store, sight->id, sight->record.incarnation, ask->life, ask->text,
                               now_ms, ask->error);
}

static void ignore_entry(void *arg, const struct hot_entry *entry)
{
    (void)arg;
    (void)entry;
}

/* Memory may have asked for the row while there was none, and remember that. */
static void ask_again(const struct proof *proof, struct slice id)
{
    struct hot *hot = proof->seat->desk->hot;
    if (hot_peek(hot, id, ignore_entry, NULL) == ERR_NOT_FOUND)
        (void)hot_drop(hot, id);
}

static enum err mend_store(const struct proof *proof, const struct sight *sight,
                           const struct number *by, struct slice text, struct error *error)
{
    struct mend_ask ask = {.proof = proof, .sight = sight, .by = by, .text = text, .error = error};
    aggregator_ask(proof->seat->desk->options.aggregator, ask_mend, &ask);
    if (!ask.err && sight->is_missing)
        ask_again(proof, sight->id);
    return ask.err;
}

/* Out of memory with it: the store has it right. Only what is saved can go. */
static enum err drop_hot(const struct proof *proof, struct slice id, struct error *error)
{
    enum err err = ERR_BUSY;
    for (unsigned i = 0; err == ERR_BUSY && i < 5; i++) {
        err = seat_catch_up(proof->seat, error);
        if (!err)
            err = hot_drop(proof->seat->desk->hot, id);
    }
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    return err ? error_set(error, err, "it is being written to and stays in memory") : ERR_OK;
}

static enum err mend_place(const struct proof *proof, const struct sight *sight,
                           const struct number *by, struct slice text, struct error *error)
{
    struct desk *desk = proof->seat->desk;
    enum err err;
    switch (sight->place) {
    case PLACE_HOT:
        err = hot_mend(desk->hot, sight->id, &sight->record, sight->kind, by);
        return err == ERR_INVALID ? drop_hot(proof, sight->id, error) : err;
    case PLACE_HOT_MEMBERS:
        return drop_hot(proof, sight->id, error);
    case PLACE_STORE:
    case PLACE_STORE_MEMBERS:
        return mend_store(proof, sight, by, text, error);
    }
    return ERR_INVALID;
}

/* The repair is an event: whoever reads the log can see that it was done, and why. */
static void write_repair(const struct proof *proof, const struct sight *sight,
                         const struct number *by)
{
    struct desk *desk = proof->seat->desk;
    struct event event = {.type = EVENT_REPAIR,
                          .id = sight->id,
                          .kind = kinds_name(desk->kinds, sight->kind),
                          .amount = *by,
                          .place = sight->place};
    enum err err = hot_note(desk->hot, &event, env_wall_ms(desk->options.env));
    if (err)
        message_warning("a repair could not be written to the log reason=\"%s\"", err_meaning(err));
}

enum err sight_mend(const struct proof *proof, const struct sight *sight, const struct number *by,
                    struct slice text, struct error *error)
{
    enum err err = mend_place(proof, sight, by, text, error);
    if (!err && text.size > 0)
        write_repair(proof, sight, by);
    return err;
}

enum err sight_mend_life(const struct proof *proof, const struct sight *sight, uint32_t incarnation,
                         struct slice text, struct error *error)
{
    struct number nothing = number_of(0);
    struct mend_ask ask = {
        .proof = proof, .sight = sight, .life = incarnation, .text = text, .error = error};
    aggregator_ask(proof->seat->desk->options.aggregator, ask_mend_life, &ask);
    if (!ask.err)
        write_repair(proof, sight, &nothing);
    return ask.err;
}
