#include "server/move.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "flow/aggregator.h"
#include "log/file/file.h"
#include "server/value.h"
#include "store/sqlite/sqlite.h"

#define AGAIN_MS       1000u  /* the next try, if PostgreSQL does not answer or is not ours; */
#define AGAIN_MAX_MS   30000u /* a copy that fails is dear */
#define LOOK_MS        1000u
#define TELL_NS        (UINT64_C(5) * 1000 * 1000 * 1000)
#define GIVE_WITHIN_MS 10000u  /* clients wait for that long at most, and then write here again */
#define GIVE_EVENTS    100000u /* not to be begun while there is more to carry over */
#define STOP_WITHIN_MS 2000u
#define SHORT_MS       20u
#define WHY_BYTES      256u
#define MARKER         "handed-over"

enum stage { STAGE_COPIES, STAGE_FOLLOWS, STAGE_GIVES, STAGE_GIVEN };

struct move {
    struct move_options options;   /* url and folder are owned */
    struct store *target;          /* owned; NULL: not there yet */
    struct aggregator *aggregator; /* owned; NULL: nothing was copied yet */
    uint64_t told_ns;              /* when the operator last heard how it goes */

    pthread_t thread;
    struct bell bell;
    atomic_bool stop;
    atomic_bool is_wanted; /* somebody wants it to hand over */

    struct lock lock; /* guards what follows */
    enum stage stage;
    uint64_t rows;       /* copied so far */
    char why[WHY_BYTES]; /* it does not go on; "": it does */
};

static uint64_t now_ns(const struct move *move)
{
    return env_monotonic_ns(move->options.env);
}

/* --- names --- */

struct move_name move_name(const struct move_options *options)
{
    struct move_name name;
    char host[64] = "";
    char *path = realpath(options->folder, NULL);
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(name.machine, sizeof(name.machine), "%016" PRIx64, file_log_id(options->log));
    (void)snprintf(name.who, sizeof(name.who), "%s:%.180s", host, path ? path : options->folder);
    free(path);
    return name;
}

const char *move_url(const struct move *move)
{
    return move->options.url;
}

/* --- the file that says that PostgreSQL has to be asked --- */

static const char *marker_path(const struct move_options *options, char to[4096])
{
    (void)snprintf(to, 4096, "%.4000s/" MARKER, options->folder);
    return to;
}

static enum err write_marker(const struct move_options *options, struct error *error)
{
    char path[4096];
    char url[256];
    char text[400];
    value_hide_password(options->url, url, sizeof(url));
    int size = snprintf(text, sizeof(text),
                        "This folder was handed over to many nodes at %s: what they have counted "
                        "since is not in it.\n",
                        url);
    struct disk_file *file;
    enum err err =
        disk_open(options->env->disk, marker_path(options, path), DISK_CREATE, &file, error);
    if (err && err != ERR_EXISTS)
        return err;
    if (!err) {
        err = disk_file_write(file, 0, text, (size_t)size, error);
        if (!err)
            err = disk_file_sync(file, error);
        disk_file_close(file);
        if (err) { /* nothing is handed over, and nothing shall say so */
            (void)disk_remove(options->env->disk, path, NULL);
            return err;
        }
    }
    /* Also of one that was there: whoever made it may have ended before this. */
    return disk_sync_folder(options->env->disk, options->folder, error);
}

static enum err remove_marker(const struct move_options *options, struct error *error)
{
    char path[4096];
    enum err err = disk_remove(options->env->disk, marker_path(options, path), error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    return disk_sync_folder(options->env->disk, options->folder, error);
}

static enum err has_marker(const struct move_options *options, bool *ret_has, struct error *error)
{
    char path[4096];
    struct disk_file *file;
    enum err err =
        disk_open(options->env->disk, marker_path(options, path), DISK_READ, &file, error);
    *ret_has = !err;
    if (!err)
        disk_file_close(file);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* --- PostgreSQL --- */

static enum err open_target(const struct move_options *options, struct store **ret,
                            struct error *error)
{
    struct postgres_store_options store = {.url = options->url, .members = options->members};
    return postgres_store_open(options->env, &store, ret, error);
}

static enum err claim_target(const struct move_options *options, struct store *target,
                             struct error *error)
{
    struct move_name name = move_name(options);
    return postgres_store_claim(target, name.machine, name.who, false, error);
}

static enum err take_back(const struct move_options *options, struct error *error)
{
    struct store *target;
    struct error why = {.text = ""};
    enum err err = open_target(options, &target, &why);
    if (!err) {
        err = claim_target(options, target, &why);
        store_close(target);
    }
    if (err)
        return error_set(error, err,
                         "this folder was to be handed over (%s), and whether it was cannot be "
                         "told, or it was: %.120s",
                         MARKER, why.text);
    message_warning("nothing was handed over after all: this server counts on");
    return remove_marker(options, error);
}

enum err move_check_folder(const struct move_options *options, struct error *error)
{
    bool has;
    enum err err = has_marker(options, &has, error);
    if (err || !has)
        return err;
    if (options->url[0] == '\0')
        return error_set(error, ERR_INVALID,
                         "this folder was handed over to many nodes, which may have counted since "
                         "then. Set move-to as before, and it is found out whether they have; or "
                         "remove its file %s",
                         MARKER);
    return take_back(options, error);
}

/* --- how it goes, for people --- */

static void set_stage(struct move *move, enum stage stage)
{
    lock_take(&move->lock);
    move->stage = stage;
    move->why[0] = '\0';
    lock_release(&move->lock);
}

/* Says it once. */
static void note_trouble(struct move *move, const struct error *error)
{
    lock_take(&move->lock);
    bool is_new = strcmp(move->why, error->text) != 0;
    (void)snprintf(move->why, sizeof(move->why), "%s", error->text);
    lock_release(&move->lock);
    if (is_new)
        message_warning("moving waits: this server counts as ever, and it is tried again "
                        "reason=\"%s\"",
                        error->text);
}

static void tell_more(void *arg, service_say_fn *say, void *to)
{
    struct move *move = arg;
    char why[WHY_BYTES + 64];
    lock_take(&move->lock);
    enum stage stage = move->stage;
    if (move->why[0])
        (void)snprintf(why, sizeof(why), "%s", move->why);
    else if (stage == STAGE_COPIES)
        (void)snprintf(why, sizeof(why), "copying, %" PRIu64 " rows so far", move->rows);
    else
        (void)snprintf(why, sizeof(why), "handed over: writes go to the nodes");
    lock_release(&move->lock);
    say(to, "move (not needed for writes)", stage == STAGE_FOLLOWS, false, why);
}

/* --- copying --- */

static bool note_rows(void *arg, uint64_t rows)
{
    struct move *move = arg;
    lock_take(&move->lock);
    move->rows = rows;
    lock_release(&move->lock);
    uint64_t now = now_ns(move);
    if (now - move->told_ns >= TELL_NS) {
        move->told_ns = now;
        message_info("copying the store to PostgreSQL rows=%" PRIu64, rows);
    }
    return !atomic_load(&move->stop);
}

static bool is_new(const struct state_mark *mark)
{
    uint64_t all = mark->position.segment | mark->position.offset;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        all |= mark->sequences[i];
    return all == 0;
}

static enum err copy_store(struct move *move, struct error *error)
{
    uint64_t began_ns = now_ns(move);
    struct store_reader *reader;
    enum err err = store_reader_open(move->options.store, &reader, error);
    if (err)
        return err;
    message_info("copying the store to PostgreSQL: all of it, or nothing");
    move->told_ns = began_ns;
    err = postgres_store_fill(move->target, sqlite_dump, reader, note_rows, move, error);
    store_reader_close(reader);
    if (!err)
        message_info("copied the store to PostgreSQL rows=%" PRIu64 " seconds=%.1f", move->rows,
                     (double)(now_ns(move) - began_ns) / 1e9);
    return err;
}

/* The log may have been trimmed while nothing was to be moved. */
static enum err check_log(const struct move *move, struct log_position mark, struct error *error)
{
    struct log_segment first;
    if (log_segments(move->options.log, &first, 1) == 0 || first.number <= 1 ||
        first.number <= mark.segment)
        return ERR_OK;
    return error_set(error, ERR_INVALID,
                     "the log has lost what PostgreSQL lacks, it begins with segment %" PRIu64
                     " and not %" PRIu64 ": give an empty database, and the copy begins anew",
                     first.number, mark.segment);
}

static enum err follow_log(struct move *move, const struct state_mark *mark, struct error *error)
{
    const struct move_options *options = &move->options;
    struct aggregator_options aggregator = {
        .env = options->env,
        .log = options->log,
        .store = move->target,
        .kinds = options->kinds,
        .flush_interval_ms = options->flush_interval_ms,
        .flush_events = options->flush_events,
        .keep_events_ms = options->keep_events_ms,
        .keep_history_ms = options->keep_history_ms,
        .keep_keys_ms = options->keep_keys_ms,
        .begin_thread = options->begin_thread,
    };
    struct aggregator *made = aggregator_new(&aggregator, mark);
    enum err err = aggregator_start(made, error);
    if (err)
        aggregator_free(made); /* the next try makes another */
    else
        move->aggregator = made;
    return err;
}

/* One try at all that comes before the log is followed. */
static enum err begin(struct move *move, struct error *error)
{
    enum err err = move->target ? ERR_OK : open_target(&move->options, &move->target, error);
    if (!err)
        err = claim_target(&move->options, move->target, error);
    struct state_mark mark;
    if (!err)
        err = store_mark(move->target, &mark, error);
    if (!err && is_new(&mark)) {
        err = copy_store(move, error);
        if (!err)
            err = store_mark(move->target, &mark, error);
    }
    if (!err)
        err = check_log(move, mark.position, error);
    return err ? err : follow_log(move, &mark, error);
}

/* --- handing over --- */

static bool is_written(struct move *move)
{
    struct log_stats stats;
    log_stats(move->options.log, &stats);
    return stats.pending_bytes == 0;
}

/* Nobody writes any more, and all that was accepted is in PostgreSQL. */
static bool drain(struct move *move)
{
    log_shut(move->options.log, true);
    hot_settle(move->options.hot);
    uint64_t until_ns = now_ns(move) + GIVE_WITHIN_MS * UINT64_C(1000000);
    while (!is_written(move) && now_ns(move) < until_ns && !atomic_load(&move->stop))
        (void)bell_wait(&move->bell, 1);
    struct state_mark mark;
    return is_written(move) && aggregator_stop(move->aggregator, GIVE_WITHIN_MS) &&
           aggregator_flush(move->aggregator) && !store_mark(move->target, &mark, NULL);
}

static void go_back(struct move *move, const char *why)
{
    struct error error = {.text = ""};
    (void)aggregator_stop(move->aggregator, 0);
    enum err err = aggregator_start(move->aggregator, &error);
    if (!err)
        err = remove_marker(&move->options, &error);
    if (err)
        message_error("nothing was handed over, and moving cannot go on before a restart "
                      "reason=\"%s\"",
                      error.text);
    log_shut(move->options.log, false);
    set_stage(move, STAGE_FOLLOWS);
    message_warning("nothing was handed over: writes are taken here again reason=\"%s\"", why);
}

/* A release whose answer is lost may have been done or not, and nodes may have come: PostgreSQL
 * knows. Writes are refused until it says so. ERR_OK: it is the nodes', or we are being stopped;
 * ERR_EXISTS: it is somebody else's; ERR_UNAVAILABLE: it is ours, as before. */
static enum err release(struct move *move)
{
    struct error error = {.text = ""};
    enum err err = postgres_store_release(move->target, &error);
    while (err && err != ERR_EXISTS) {
        err = claim_target(&move->options, move->target, &error);
        if (!err)
            return ERR_UNAVAILABLE;
        if (err == ERR_EXISTS) { /* whose? */
            err = postgres_store_release(move->target, &error);
            continue;
        }
        note_trouble(move, &error);
        (void)bell_wait(&move->bell, SHORT_MS);
        if (atomic_load(&move->stop))
            return ERR_OK;
    }
    return err;
}

static bool may_give(struct move *move)
{
    struct pipeline_stats stats = {0};
    if (move->stage != STAGE_FOLLOWS)
        return false; /* it was told twice */
    aggregator_stats(move->aggregator, &stats);
    if (!stats.paused && stats.lag_events <= GIVE_EVENTS)
        return true;
    message_warning("told to hand over, but PostgreSQL has to catch up first: nothing was done "
                    "events=%" PRIu64 " reason=\"%s\"",
                    stats.lag_events, stats.reason);
    return false;
}

static void give(struct move *move)
{
    if (!may_give(move))
        return;
    struct error error = {.text = ""};
    if (write_marker(&move->options, &error)) {
        message_error("nothing was handed over: the data folder cannot be written reason=\"%s\"",
                      error.text);
        return;
    }
    uint64_t began_ns = now_ns(move);
    message_info("handing over: writes are refused from now on, reads go on");
    set_stage(move, STAGE_GIVES);
    if (!drain(move)) {
        go_back(move, "PostgreSQL does not take what is in the log");
        return;
    }
    enum err err = release(move);
    if (err) {
        go_back(move, err == ERR_EXISTS ? "PostgreSQL belongs to another server by now"
                                        : "PostgreSQL was lost before it was released");
        return;
    }
    if (atomic_load(&move->stop))
        return;
    set_stage(move, STAGE_GIVEN);
    message_info("handed over: nodes take the writes; this server answers reads until it is "
                 "stopped ms=%.0f",
                 (double)(now_ns(move) - began_ns) / 1e6);
}

/* --- the thread --- */

static bool begin_some_time(struct move *move)
{
    struct error error = {.text = ""};
    uint64_t again_ms = AGAIN_MS;
    while (begin(move, &error)) {
        if (atomic_load(&move->stop))
            return false;
        note_trouble(move, &error);
        (void)bell_wait(&move->bell, again_ms);
        again_ms = again_ms * 2 < AGAIN_MAX_MS ? again_ms * 2 : AGAIN_MAX_MS;
    }
    set_stage(move, STAGE_FOLLOWS);
    message_info("PostgreSQL follows the log: SIGUSR1 hands over to nodes when they wait for it");
    return true;
}

static void *run(void *arg)
{
    struct move *move = arg;
    if (move->options.begin_thread)
        move->options.begin_thread(NULL);
    if (!begin_some_time(move))
        return NULL;
    while (!atomic_load(&move->stop)) {
        if (atomic_exchange(&move->is_wanted, false))
            give(move);
        (void)bell_wait(&move->bell, LOOK_MS);
    }
    return NULL;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(memory_take(size), text, size);
}

/* It has not started: all is as it was. */
static void undo_start(struct move *move)
{
    move->options.service->more = NULL;
    atomic_store(&move->options.service->is_moving, false);
    pipeline_release_trim(move->options.pipeline);
    bell_done(&move->bell);
    lock_done(&move->lock);
    free((char *)move->options.url);
    free((char *)move->options.folder);
    free(move);
}

enum err move_start(const struct move_options *options, struct move **ret, struct error *error)
{
    assert(options && options->store && options->hot && options->pipeline && ret);

    struct move *move = memory_take_zeroed(sizeof(*move));
    move->options = *options;
    move->options.url = copy_text(options->url);
    move->options.folder = copy_text(options->folder);
    lock_init(&move->lock);
    bell_init(&move->bell);
    pipeline_hold_trim(options->pipeline);
    atomic_store(&options->service->is_moving, true);
    options->service->more_arg = move;
    options->service->more = tell_more;
    int errnum = pthread_create(&move->thread, NULL, run, move);
    if (errnum != 0) {
        undo_start(move);
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start moving");
    }
    (void)pthread_setname_np(move->thread, "moving");
    *ret = move;
    return ERR_OK;
}

void move_hand_over(struct move *move)
{
    assert(move);

    lock_take(&move->lock);
    enum stage stage = move->stage;
    lock_release(&move->lock);
    if (stage == STAGE_COPIES) {
        message_warning("told to hand over, but not everything is copied yet: nothing was done");
        return;
    }
    if (stage != STAGE_FOLLOWS) {
        message_warning("told to hand over, which is done or under way");
        return;
    }
    atomic_store(&move->is_wanted, true);
    bell_ring(&move->bell);
}

void move_stop(struct move *move)
{
    if (!move)
        return;
    atomic_store(&move->stop, true);
    bell_ring(&move->bell);
    (void)pthread_join(move->thread, NULL);
    if (move->aggregator)
        (void)aggregator_stop(move->aggregator, STOP_WITHIN_MS);
    aggregator_free(move->aggregator);
    store_close(move->target);
    move->options.service->more = NULL;
    pipeline_release_trim(move->options.pipeline);
    bell_done(&move->bell);
    lock_done(&move->lock);
    free((char *)move->options.url);
    free((char *)move->options.folder);
    free(move);
}
