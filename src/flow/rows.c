#include "flow/rows.h"

#include "flow/members.h"

/* What the log says of one id. */
struct row {
    struct slice id;
    const struct kinds *kinds;
    struct sums *sums;
    struct sums_entry *sum;
    uint32_t incarnation; /* that what follows is of */
    bool is_item;
    struct op_create create;
    int64_t deadline_ms;
    int64_t written_ms;
};

static void begin_life(struct row *row, uint32_t incarnation)
{
    row->incarnation = incarnation;
    row->is_item = false;
    row->create = (struct op_create){.shards = 1};
    row->deadline_ms = 0;
}

/* Behind the sums, which know what is late. */
static void take_event(struct row *row, const struct event *event)
{
    struct slice id = event->id;
    uint8_t kind = KIND_NONE;
    if (event->type == EVENT_CREATE)
        kinds_split(row->kinds, event->id, &id, &kind);
    if (!slice_equal(id, row->id) || event->origin >= LIMIT_CELLS ||
        event->sequence > row->sum->until[event->origin])
        return;
    if (row->incarnation != row->sum->incarnation)
        begin_life(row, row->sum->incarnation);
    if (event->incarnation < row->incarnation || !event_changes(event->type))
        return;
    row->is_item |= event->type == EVENT_REACT || kind != KIND_NONE;
    row->written_ms = event->time_ms;
    if (event->type == EVENT_CREATE)
        row->create = event->create;
    else if (event->type == EVENT_EXPIRE)
        row->deadline_ms = event->deadline_ms;
}

static enum err take_section(void *arg, struct slice section, struct log_position next,
                             struct error *error)
{
    struct row *row = arg;
    struct section_reader reader;
    struct event event;
    (void)next;
    enum err err = section_open(&reader, section, error);
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        sums_take(row->sums, &event);
        take_event(row, &event);
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err read_base(struct desk_seat *seat, struct slice id, struct number *ret_base,
                          struct number *ret_discarded, struct log_position *ret_from,
                          struct error *error)
{
    struct store_reader *reader;
    *ret_base = *ret_discarded = number_of(0);
    *ret_from = (struct log_position){0};
    enum err err = seat_reader(seat, &reader, error);
    if (!err)
        err = store_base(reader, id, ret_base, ret_discarded, ret_from, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err make_counter(const struct row *row, struct store *store,
                             struct state_target *target, const struct number *base,
                             const struct number *discarded, struct slice text, int64_t now_ms,
                             struct error *error)
{
    struct number value = number_copy(&row->sum->value);
    if (!row->sum->begins)
        number_add(&value, base);
    number_subtract(&value, discarded);
    target->value = value;
    enum err err = store_make(store, target, text, now_ms, error);
    number_done(&value);
    return err;
}

/* The log reaches back to its beginning: there are no bases, but there may be letters that were
 * given up. */
static enum err make_item(struct desk_seat *seat, const struct row *row, struct store *store,
                          struct state_target *target, struct slice text, int64_t now_ms,
                          struct error *error)
{
    struct slice kinds[LIMIT_KINDS];
    int64_t counts[LIMIT_KINDS];
    for (uint8_t i = 0; i < row->kinds->count; i++) {
        char name[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
        struct number base;
        struct number discarded;
        struct log_position from;
        kinds[i] = kinds_name(row->kinds, (uint8_t)(i + 1));
        memcpy(name, row->id.data, row->id.size);
        name[row->id.size] = '/';
        memcpy(name + row->id.size + 1, kinds[i].data, kinds[i].size);
        enum err err = read_base(seat, (struct slice){name, row->id.size + 1 + kinds[i].size},
                                 &base, &discarded, &from, error);
        counts[i] = row->sum->counts[i] - discarded.small;
        number_done(&base);
        number_done(&discarded);
        if (err)
            return err;
    }
    target->kinds = kinds;
    target->counts = counts;
    target->kind_count = row->kinds->count;
    return store_make(store, target, text, now_ms, error);
}

static enum err make(struct desk_seat *seat, const struct row *row, struct store *store,
                     uint32_t incarnation, const struct number *base,
                     const struct number *discarded, struct slice text, struct error *error)
{
    int64_t now_ms = env_wall_ms(seat->desk->options.env);
    bool has_base = !row->sum->begins && number_compare(base, &(struct number){0}) != 0;
    if (row->sum->events == 0 && !has_base)
        return ERR_NOT_FOUND;
    struct state_target target = {
        .id = row->id,
        .is_item = row->is_item,
        .incarnation = row->sum->events > 0 ? row->sum->incarnation : incarnation,
        .written_ms = row->written_ms != 0 ? row->written_ms : now_ms,
        .create = row->create,
        .deadline_ms = row->deadline_ms,
    };
    if (!row->is_item)
        return make_counter(row, store, &target, base, discarded, text, now_ms, error);
    enum err err = members_reach(seat, error);
    return err ? err : make_item(seat, row, store, &target, text, now_ms, error);
}

enum err rows_make(struct desk_seat *seat, struct store *store, struct slice id,
                   uint32_t incarnation, struct slice text, bool *ret_is_item, struct error *error)
{
    struct state_mark mark;
    struct number base;
    struct number discarded;
    struct log_position from;
    enum err err = store_mark(store, &mark, error);
    if (err)
        return err;
    err = read_base(seat, id, &base, &discarded, &from, error);
    struct sums *sums = sums_new(seat->desk->kinds, env_random(seat->desk->options.env));
    struct row row = {.id = id,
                      .kinds = seat->desk->kinds,
                      .sums = sums,
                      .sum = sums_watch(sums, id, mark.sequences, NULL)};
    begin_life(&row, 0);
    if (!err)
        err = seat_read_log(seat, from, NULL, take_section, &row, NULL, NULL, error);
    if (!err)
        err = make(seat, &row, store, incarnation, &base, &discarded, text, error);
    *ret_is_item = row.is_item;
    sums_free(sums);
    number_done(&base);
    number_done(&discarded);
    return err;
}
