/* proof_tasks.c - recounts and audits of all that there is, as tasks and in the background. */
#include "flow/proof_own.h"

#include <assert.h>
#include <inttypes.h>

#include "base/message.h"
#include "flow/pace.h"
#include "flow/suspects.h"

#define OUTSIDE_IDS     4000u                   /* at once, each with ways to the servers */
#define SCAN_IDS        1000u                   /* that are collected at once */
#define STRAYS_EVERY_NS (3600u * 1000000000ull) /* in the background */

static void collect(void *arg, const struct desk_entry *entry)
{
    proof_ids_add(arg, entry->id);
}

/* Ids from *cursor on, up to `count` or a little more. */
static enum err collect_ids(struct desk_seat *seat, struct slice pattern, uint64_t *cursor,
                            size_t count, struct proof_ids *ids, struct error *error)
{
    proof_ids_clear(ids);
    do {
        enum err err = desk_scan_for_audit(seat, pattern, cursor, SCAN_IDS, collect, ids, error);
        if (err)
            return err;
        if (seat_must_stop(seat))
            return error_set(error, ERR_UNAVAILABLE, "the server is stopping");
    } while (*cursor != 0 && ids->count < count);
    return ERR_OK;
}

static uint64_t count_all(const struct desk *desk)
{
    struct hot_stats stats;
    hot_stats(desk->hot, &stats);
    return stats.counters + stats.items;
}

static enum err check_all(struct desk_seat *seat, struct desk_work *work, struct proof *proof,
                          struct error *error)
{
    struct slice pattern = {work->subject, work->subject_size};
    bool is_all = pattern.size == 0 || slice_equal(pattern, SLICE("*"));
    if (is_all)
        pattern = (struct slice){0};
    struct proof_ids ids;
    proof_ids_init(&ids);
    uint64_t cursor = 0;
    enum err err;
    do {
        err = collect_ids(seat, pattern, &cursor, PROOF_PASS_IDS, &ids, error);
        if (!err && ids.count > 0)
            err = proof_check(proof, &ids, error);
        while (!err && !seat_must_stop(seat) && proof_deal_with_suspects(seat))
            ; /* somebody waits for them; one that fails comes again later */
        uint64_t all = is_all ? count_all(seat->desk) : 0;
        (void)work_progress(seat, work, proof->looked_at,
                            all > proof->looked_at ? all : proof->looked_at, "counters");
    } while (!err && cursor != 0);
    proof_ids_done(&ids);
    if (!err && !proof->values_only)
        err = proof_check_strays(proof, pattern, error);
    if (!err && !proof->values_only && is_all)
        err = proof_check_waiting(proof, error);
    return err;
}

enum err proof_recount_all(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    struct proof proof = {.seat = seat, .work = work, .values_only = !desk_has_lanes(seat->desk)};
    enum err err = check_all(seat, work, &proof, error);
    if (!err)
        work_says(seat, work, "%" PRIu64 " counted anew, %" PRIu64 " differ", proof.looked_at,
                  proof.drifts);
    return err;
}

enum err proof_audit_all(struct desk_seat *seat, struct desk_work *work, struct error *error)
{
    bool may_repair = seat->desk->options.has_hot;
    struct proof proof = {.seat = seat, .work = work, .repair = work->repair && may_repair};
    enum err err = check_all(seat, work, &proof, error);
    if (!err)
        work_says(seat, work, "%" PRIu64 " looked at, %" PRIu64 " differ, %" PRIu64 " put right%s",
                  proof.looked_at, proof.drifts, proof.repairs,
                  work->repair && !may_repair ? ": this node does not serve, ask one that does"
                                              : "");
    return err;
}

/* ERR_REFUSED: there was no error, and its row is as it was. */
static enum err deal_with(struct desk_seat *seat, struct slice id, struct error *error)
{
    struct proof proof = {.seat = seat, .repair = true};
    struct proof_ids ids;
    bool is_wrong = false;
    proof_ids_init(&ids);
    enum err err = seat_catch_up(seat, error);
    if (!err) {
        proof_ids_add(&ids, id);
        err = proof_check(&proof, &ids, error);
    }
    if (!err)
        err = proof_is_wrong(&proof, id, &is_wrong, error);
    proof_ids_done(&ids);
    if (!err && is_wrong)
        err = error_set(error, ERR_REFUSED, "changes of it wait, or the repair was refused");
    return err;
}

bool proof_deal_with_suspects(struct desk_seat *seat)
{
    struct suspects_queue *queue = seat->desk->options.suspects;
    struct env *env = seat->desk->options.env;
    struct suspect suspect;
    if (!queue || !suspects_queue_take(queue, env_monotonic_ns(env), &suspect))
        return false;
    struct error error = {.text = ""};
    char name[128];
    struct slice id = {suspect.id, suspect.size};
    enum err err = deal_with(seat, id, &error);
    if (!err)
        return true;
    suspects_queue_put_back(queue, &suspect, env_monotonic_ns(env));
    if (!seat_must_stop(seat))
        message_error("a row of the store that is not what was written there could not be counted "
                      "anew, and is not used id=%s reason=\"%s\"",
                      message_quote(name, sizeof(name), id),
                      error.text[0] ? error.text : err_meaning(err));
    return true;
}

/* --- at a start --- */

static enum err check_settled(struct proof *proof, const struct proof_ids *ids, struct error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < ids->count; i++) {
        struct slice id = proof_ids_next(ids, &at);
        bool is_wrong;
        enum err err = proof_is_wrong(proof, id, &is_wrong, error);
        if (!err && is_wrong)
            err = error_set(error, ERR_REFUSED, "changes of it wait, or the repair was refused");
        if (err)
            return err;
    }
    return ERR_OK;
}

static enum err settle_all(struct desk_seat *seat, const struct proof_ids *ids, struct error *error)
{
    struct proof proof = {.seat = seat, .repair = true};
    message_warning("rows of the store are not what was written there: they are counted anew from "
                    "the log before anybody is served rows=%zu",
                    ids->count);
    enum err err = seat_catch_up(seat, error);
    if (!err)
        err = proof_check(&proof, ids, error);
    return err ? err : check_settled(&proof, ids, error);
}

enum err proof_settle_suspects(struct desk *desk, struct error *error)
{
    assert(desk);

    struct desk_seat *seat = &desk->seats[DESK_JOB_THREADS];
    struct proof_ids ids;
    struct suspect suspect;
    proof_ids_init(&ids);
    while (desk->options.suspects &&
           suspects_queue_take(desk->options.suspects, UINT64_MAX, &suspect))
        proof_ids_add(&ids, (struct slice){suspect.id, suspect.size});
    struct error cause = {.text = ""};
    enum err err = ids.count > 0 ? settle_all(seat, &ids, &cause) : ERR_OK;
    proof_ids_done(&ids);
    if (!err)
        return ERR_OK;
    return error_set(error, ERR_CORRUPT,
                     "rows of the store are not what was written there, and cannot be counted anew "
                     "from the log (%.90s): move the store away, or bring back a copy",
                     cause.text[0] ? cause.text : err_meaning(err));
}

/* After a piece of `done` ids. */
static void set_pace(struct desk *desk, uint64_t done, uint64_t wall_ns, uint64_t cpu_ns)
{
    uint64_t every_ns = desk->options.audit_every_ms * 1000000u;
    uint64_t ids = desk->options.audit_batch;
    struct pace pace =
        desk_has_lanes(desk)
            ? pace_next_outside(&desk->audit_pace, wall_ns, done, every_ns, ids, OUTSIDE_IDS)
            : pace_next(wall_ns, cpu_ns, done, every_ns, ids, PROOF_PASS_IDS);
    desk->audit_ns = env_monotonic_ns(desk->options.env) + pace.pause_ns;
    desk->audit_ids = pace.ids;
}

/* A round is over: what was looked at just now need not be looked at again at once. */
static void end_round(struct desk *desk)
{
    lock_take(&desk->lock);
    desk->audit_ended_ms = env_wall_ms(desk->options.env);
    lock_release(&desk->lock);
    desk->audit_ns = env_monotonic_ns(desk->options.env) + desk->options.audit_every_ms * 1000000u;
}

/* Goes round through all ids, a batch at a time. */
void proof_audit_some(struct desk_seat *seat)
{
    struct desk *desk = seat->desk;
    uint64_t began_ns = env_monotonic_ns(desk->options.env);
    uint64_t ran_ns = env_thread_ns(desk->options.env);
    struct proof proof = {.seat = seat, .repair = true, .in_background = true};
    struct proof_ids ids;
    struct error error = {.text = ""};
    proof_ids_init(&ids);
    enum err err =
        collect_ids(seat, (struct slice){0}, &desk->audit_cursor, desk->audit_ids, &ids, &error);
    if (!err && ids.count > 0)
        err = proof_check(&proof, &ids, &error);
    uint64_t done = ids.count;
    proof_ids_done(&ids);
    if (!err && desk->audit_cursor == 0 && env_monotonic_ns(desk->options.env) >= desk->strays_ns) {
        err = proof_check_strays(&proof, (struct slice){0}, &error);
        if (!err)
            err = proof_check_waiting(&proof, &error);
        desk->strays_ns = env_monotonic_ns(desk->options.env) + STRAYS_EVERY_NS;
    }
    if (err && !seat_must_stop(seat))
        message_warning("the audit could not be done reason=\"%s\"", error.text);
    set_pace(desk, err ? 0 : done, env_monotonic_ns(desk->options.env) - began_ns,
             env_thread_ns(desk->options.env) - ran_ns);
    if (!err && desk->audit_cursor == 0)
        end_round(desk);
}
