/* proof_sums.c - what the log says that the counts ought to be. */
#include "flow/proof_own.h"

static enum err sum_section(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    (void)next;
    return sums_take_section(arg, section, error);
}

/* What stands in the log no more, or was given up. The position is the same for all. */
static enum err base_of(const struct proof *proof, struct slice id, struct number *ret_base,
                        struct number *ret_discarded, struct log_position *ret_from,
                        struct error *error)
{
    struct store_reader *reader;
    *ret_base = number_of(0);
    *ret_discarded = number_of(0);
    enum err err = seat_reader(proof->seat, &reader, error);
    if (!err)
        err = store_base(reader, id, ret_base, ret_discarded, ret_from, error);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err proof_log_begin(const struct proof *proof, struct log_position *ret_from,
                         struct error *error)
{
    struct number base;
    struct number discarded;
    enum err err = base_of(proof, SLICE("-"), &base, &discarded, ret_from, error);
    number_done(&base);
    number_done(&discarded);
    return err;
}

enum err sights_sum(const struct proof *proof, struct sights *sights, struct error *error)
{
    struct log_position from = {0};
    enum err err = proof_log_begin(proof, &from, error);
    if (err)
        return err;
    return seat_read_log(proof->seat, from, sights->until, sum_section, sights->sums,
                         proof->reading, proof->reading_arg, error);
}

/* Ought there to be a row? Of a log that was trimmed, the deletion may be gone while something
 * that came late is left: only a base, or the record in memory, shows that it lives. */
static bool is_gap(const struct sight *sight, const struct number *base, struct log_position from)
{
    bool has_base = !sight->sum->begins && number_compare(base, &(struct number){0}) != 0;
    bool is_whole = from.segment <= 1 && from.offset == 0;
    bool is_hot = sight->record.stamp != 0 && sight->record.incarnation == sight->sum->incarnation;
    return has_base || (sight->sum->events > 0 && (is_whole || is_hot));
}

enum err sight_difference(const struct proof *proof, const struct sight *sight,
                          struct number *ret_by, bool *ret_is_short, struct error *error)
{
    char name[COUNT_ID_BYTES];
    struct number base;
    struct number discarded;
    struct log_position from;
    struct state_mark mark; /* asked first: a deletion takes the discarded letters along */
    aggregator_mark(proof->seat->desk->options.aggregator, &mark);
    enum err err = base_of(proof, sight_count_id(proof->seat->desk, sight, name), &base, &discarded,
                           &from, error);
    if (!err) {
        struct number by = sight->kind == KIND_NONE
                               ? number_copy(&sight->sum->value)
                               : number_of(sight->sum->counts[sight->kind - 1]);
        if (!sight->sum->begins)
            number_add(&by, &base);
        if (!sums_begins_behind(sight->sum, mark.sequences))
            number_subtract(&by, &discarded);
        number_subtract(&by, &sight->value);
        *ret_by = by;
        *ret_is_short = sight->is_missing ? is_gap(sight, &base, from)
                                          : number_compare(&by, &(struct number){0}) != 0;
    }
    number_done(&base);
    number_done(&discarded);
    return err;
}
