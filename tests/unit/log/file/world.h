/* world.h - a file log in manual mode on a simulated disk, and what must be in
 * it, for the tests of this folder.
 *
 * Sections are numbered 1, 2, 3, ... and carry the life in which they were
 * appended, so that one which comes back from an earlier life, after another
 * took its number, is noticed. */
#ifndef WORLD_H
#define WORLD_H

#include "unit/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/message.h"
#include "core/event.h"
#include "core/log.h"
#include "log/file/file.h"
#include "sim/sim_disk.c"

#define WORLD_FOLDER       "data"
#define WORLD_SECTIONS_MAX 4096u

struct world {
    struct env env; /* first: the environment's functions are given its address */
    struct sim_disk *disk;
    struct sim_rng rng;
    uint64_t now_ns;
    struct file_log_options options;
    struct log *log; /* NULL = closed */
    struct error fatal;
    unsigned fatal_count;

    uint32_t life;                        /* grows with every opening */
    uint32_t lives[WORLD_SECTIONS_MAX];   /* in which section n was appended */
    uint64_t tickets[WORLD_SECTIONS_MAX]; /* in this life; 0 = in an earlier one */
    uint64_t appended;                    /* the last number used */
    uint64_t confirmed;                   /* these must be there for ever */
    uint64_t trimmed;                     /* but for these, which may have been removed */
    uint64_t seen;                        /* by the last reading */
    uint64_t padding; /* bytes by which sections are made larger than they need be */
};

static inline uint64_t world_monotonic_ns(struct env *env)
{
    struct world *world = (struct world *)env;
    return world->now_ns += 1000;
}

static inline int64_t world_wall_ms(struct env *env)
{
    return (int64_t)(((struct world *)env)->now_ns / 1000000) + 1700000000000;
}

static inline uint64_t world_random(struct env *env)
{
    return sim_rng_next(&((struct world *)env)->rng);
}

static inline void world_fatal(void *arg, const struct error *error)
{
    struct world *world = arg;
    world->fatal = *error;
    world->fatal_count++;
}

static inline struct world *world_new(uint64_t seed)
{
    message_set_level(MESSAGE_ERROR + 1);
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    world->rng.state = seed;
    world->disk = sim_disk_new(seed);
    world->env = (struct env){
        .monotonic_ns = world_monotonic_ns,
        .wall_ms = world_wall_ms,
        .random = world_random,
        .disk = &world->disk->base,
    };
    world->options = (struct file_log_options){
        .folder = WORLD_FOLDER,
        .segment_bytes = 8192,
        .pending_bytes_max = 1 << 20,
        .manual = true,
        .fatal = world_fatal,
        .fatal_arg = world,
    };
    return world;
}

static inline enum err world_visit(void *arg, struct slice section, struct log_position next,
                                   struct error *error)
{
    (void)next;
    struct world *world = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    assert_int_equal(err, ERR_OK);
    if (world->seen == 0 && reader.first_sequence <= world->trimmed + 1)
        world->seen = reader.first_sequence - 1;
    assert_int_equal(reader.first_sequence, world->seen + 1);
    assert_true(world->seen < world->appended);
    world->seen++;
    assert_int_equal(reader.time_ms, world->lives[world->seen]);
    return ERR_OK;
}

/* Opens the log and reads it. What is read must be a beginning of what was
 * appended, with all that is confirmed. */
static inline enum err world_read(struct world *world, struct error *error)
{
    world->fatal_count = 0;
    enum err err = file_log_open(&world->env, &world->options, &world->log, error);
    if (err) {
        world->log = NULL;
        return err;
    }
    world->seen = 0;
    err = log_read(world->log, (struct log_position){0}, world_visit, world, NULL, error);
    if (!err)
        assert_true(world->seen >= world->confirmed);
    return err;
}

/* The same, and starts it: what was read counts from now on. */
static inline enum err world_start(struct world *world, struct error *error)
{
    enum err err = world_read(world, error);
    if (!err)
        err = log_start(world->log, error);
    if (err)
        return err;
    world->life++;
    world->appended = world->confirmed = world->seen;
    memset(world->tickets, 0, sizeof(world->tickets));
    return ERR_OK;
}

static inline void world_must_start(struct world *world)
{
    struct error error = {0};
    if (world_start(world, &error))
        fail_msg("%s", error.text);
}

static inline void world_close(struct world *world)
{
    if (world->log)
        log_close(world->log);
    world->log = NULL;
}

static inline void world_free(struct world *world)
{
    world_close(world);
    sim_disk_free(world->disk);
    free(world);
}

static inline void world_append(struct world *world)
{
    uint64_t number = ++world->appended;
    assert_true(number < WORLD_SECTIONS_MAX);
    world->lives[number] = world->life;

    static char id[LIMIT_ID_BYTES];
    memset(id, 'x', sizeof(id));
    struct section section;
    section_init(&section);
    section_add(&section, 1, SLICE("counter"), 1, (struct slice){0});
    for (uint64_t left = world->padding; left > 0;) {
        uint64_t size = left < sizeof(id) ? left : sizeof(id);
        section_add(&section, 1, (struct slice){id, (size_t)size}, 1, (struct slice){0});
        left -= size;
    }
    char header[SECTION_HEADER_MAX];
    size_t header_size = section_header(&section, 7, number, world->life, header);
    world->tickets[number] =
        log_append(world->log, (struct slice){header, header_size}, buffer_slice(&section.body));
    section_done(&section);
}

/* A step of the log; what is durable behind it is confirmed. */
static inline bool world_step(struct world *world)
{
    bool did = file_log_step(world->log);
    uint64_t durable = log_reached(world->log, 0, LOG_DURABLE);
    while (world->confirmed < world->appended && world->tickets[world->confirmed + 1] <= durable)
        world->confirmed++;
    return did;
}

/* Appends a section as a group of its own. */
static inline void world_commit(struct world *world)
{
    world_append(world);
    while (world_step(world))
        ;
}

/* From here on no call reaches the disk, and the log is gone. */
static inline void world_turn_off(struct world *world)
{
    world->disk->faults.crash_at_call = world->disk->counts.calls + 1;
    struct disk_file *file;
    disk_open(&world->disk->base, "none", DISK_READ, &file, NULL);
    world_close(world);
}

/* The process dies; the machine goes on. */
static inline void world_kill(struct world *world)
{
    world_turn_off(world);
    sim_disk_kill(world->disk);
    world->disk->faults.crash_at_call = 0;
    world->disk->faults.fail_at_call = 0;
}

/* The power goes off, and comes back. */
static inline void world_power_cut(struct world *world)
{
    world_turn_off(world);
    sim_disk_crash(world->disk, &world->rng);
}

static inline const char *world_path(unsigned segment)
{
    static char path[64];
    snprintf(path, sizeof(path), WORLD_FOLDER "/log/%012u.log", segment);
    return path;
}

/* The bytes of a file; the caller frees them. */
static inline char *world_get(struct world *world, const char *path, size_t *ret_size)
{
    struct disk_file *file;
    assert_int_equal(disk_open(&world->disk->base, path, DISK_READ, &file, NULL), ERR_OK);
    uint64_t size;
    assert_int_equal(disk_file_size(file, &size, NULL), ERR_OK);
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    assert_int_equal(disk_file_read(file, 0, bytes, size, ret_size, NULL), ERR_OK);
    disk_file_close(file);
    return bytes;
}

/* Makes a file have these bytes. */
static inline void world_put(struct world *world, const char *path, const char *bytes, size_t size)
{
    disk_remove(&world->disk->base, path, NULL);
    struct disk_file *file;
    assert_int_equal(disk_open(&world->disk->base, path, DISK_CREATE, &file, NULL), ERR_OK);
    assert_int_equal(disk_file_write(file, 0, bytes, size, NULL), ERR_OK);
    assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
    disk_file_close(file);
    assert_int_equal(disk_sync_folder(&world->disk->base, WORLD_FOLDER "/log", NULL), ERR_OK);
}

/* As after a power cut that came before the system had written it down by itself:
 * nothing says how far the log was synced. */
static inline void world_forget_synced(struct world *world)
{
    assert_int_equal(disk_remove(&world->disk->base, WORLD_FOLDER "/log/synced", NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(&world->disk->base, WORLD_FOLDER "/log", NULL), ERR_OK);
}

/* Reads the log, expecting to be refused, and checks that file and offset are named. */
static inline void world_expect_refusal(struct world *world, const char *name)
{
    struct error error = {0};
    enum err err = world_read(world, &error);
    if (err != ERR_CORRUPT)
        fail_msg("expected a refusal that names %s, not %d %s", name, err, error.text);
    if (!strstr(error.text, name))
        fail_msg("\"%s\" does not name %s", error.text, name);
    world_close(world);
}

#endif
