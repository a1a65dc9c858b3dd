/* fuzz_log_segment.c - any bytes as a segment of the log.
 *
 * They are read or refused, never more than that; a log that was read goes on,
 * can be followed and scrubbed, and is read again with what was added; one that
 * was refused for damage can be repaired, and is read after it.
 *
 * Random bytes do not get past a checksum. So the first byte says what is set
 * right before the rest is used: 1 the segment's header, 2 the groups; and 4 that
 * they are of the format before this one. */
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "log/file/file.h"
#include "log/file/segment.h"
#include "sim/sim_disk.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEGMENT_PATH "data/log/000000000001.log"
#define LOG_ID       1u
#define INPUT_MAX    (64u << 10)

struct fuzz_env {
    struct env base;
    struct sim_disk *disk;
    uint64_t now_ns;
};

static void check(bool holds)
{
    if (!holds)
        abort();
}

static uint64_t monotonic_ns(struct env *env)
{
    return ((struct fuzz_env *)env)->now_ns += 1000;
}

static int64_t wall_ms(struct env *env)
{
    (void)env;
    return 1700000000000;
}

static uint64_t random_number(struct env *env)
{
    (void)env;
    return LOG_ID;
}

static void fatal(void *arg, const struct error *error)
{
    (void)arg;
    (void)error;
    abort();
}

static void ignore_line(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

/* ---- bytes that get past the checksums ---- */

static void mend_header(char *bytes, size_t size, bool is_old)
{
    struct segment_header header = {
        .is_old = is_old,
        .log_id = LOG_ID,
        .number = 1,
        .size_bytes = size,
        .first_group = 1,
    };
    segment_header_put(&header, bytes);
}

/* Every group that has its magic gets the place it is at and its checksum. */
static void mend_groups(char *bytes, size_t size, bool is_old)
{
    uint64_t number = 1;
    size_t at = SEGMENT_HEADER_BYTES;
    while (size - at >= GROUP_HEADER_BYTES) {
        struct group group;
        bool is_one = is_old ? group_get_old(bytes + at, &group) : group_get(bytes + at, &group);
        if (!is_one || group_size(&group) > size - at) {
            at += is_old ? GROUP_ALIGN_OLD : GROUP_ALIGN;
            continue;
        }
        group.log_id = LOG_ID;
        group.segment = 1;
        group.offset = at;
        group.number = number++;
        group_seal(bytes + at, &group);
        at += group_size(&group);
    }
}

static void put_segment(struct fuzz_env *env, const uint8_t *data, size_t size)
{
    uint8_t mend = size > 0 ? data[0] : 0;
    size_t bytes_size = size > 0 ? size - 1 : 0;
    size_t whole = (bytes_size + SEGMENT_ALIGN) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    char *bytes = calloc(1, whole);
    check(bytes != NULL);
    if (bytes_size > 0)
        memcpy(bytes, data + 1, bytes_size);
    if (mend & 1)
        mend_header(bytes, whole, mend & 4);
    if (mend & 2)
        mend_groups(bytes, whole, mend & 4);

    struct disk *disk = &env->disk->base;
    struct disk_file *file;
    check(disk_make_folder(disk, "data/log", NULL) == ERR_OK);
    check(disk_open(disk, SEGMENT_PATH, DISK_CREATE, &file, NULL) == ERR_OK);
    check(disk_file_write(file, 0, bytes, mend & 1 ? whole : bytes_size, NULL) == ERR_OK);
    disk_file_close(file);
    free(bytes);
}

/* ---- what is done with them ---- */

struct read {
    uint64_t sections;
    uint64_t sum; /* of all bytes, so that each is looked at */
};

static enum err visit(void *arg, struct slice section, struct log_position next,
                      struct error *error)
{
    (void)next;
    (void)error;
    struct read *read = arg;
    read->sections++;
    for (size_t i = 0; i < section.size; i++)
        read->sum += (unsigned char)section.data[i];
    return ERR_OK;
}

static void check_follow(struct log *log, uint64_t sections)
{
    struct read read = {0};
    struct log_position at = {0};
    struct log_position end = log_end(log, 0);
    check(log_follow(log, 0, &at, UINT64_MAX, visit, &read, NULL) == ERR_OK);
    check(read.sections == sections && at.segment == end.segment && at.offset == end.offset);
}

static bool change_nothing(void *arg, char *section, size_t size)
{
    (void)arg;
    (void)section;
    (void)size;
    return true;
}

/* What a running log is asked for, with a section more than there was. */
static void extend_log(struct log *log, uint64_t sections)
{
    check(log_start(log, NULL) == ERR_OK);
    check_follow(log, sections);
    log_append(log, SLICE("one"), SLICE("more"));
    check(log_rotate(log, NULL) == ERR_OK);
    check_follow(log, sections + 1);

    struct log_segment segments[8];
    size_t count = log_segments(log, segments, 8);
    check(count >= 2 && count <= 8);
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t changed;
        check(log_scrub(log, segments[i].number, change_nothing, NULL, &changed, NULL) == ERR_OK);
    }
    check_follow(log, sections + 1);
}

/* Reads the log; when that went well, goes on with it if `extend`. */
static enum err read_log(struct fuzz_env *env, bool extend, uint64_t *ret_sections)
{
    struct file_log_options options = {
        .folder = "data",
        .segment_bytes = 8192,
        .pending_bytes_max = 1 << 20,
        .manual = true,
        .fatal = fatal,
    };
    struct error error = {.text = ""};
    struct log *log;
    enum err err = file_log_open(&env->base, &options, &log, &error);
    if (!err) {
        struct read read = {0};
        err = log_read(log, (struct log_position){0}, visit, &read, NULL, &error);
        *ret_sections = read.sections;
        if (!err && extend)
            extend_log(log, read.sections);
        log_close(log);
    }
    check(err == ERR_OK || err == ERR_CORRUPT || err == ERR_INVALID);
    check(!err || error.text[0] != '\0');
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    message_set_level(MESSAGE_ERROR);
    struct fuzz_env env = {
        .base = {.monotonic_ns = monotonic_ns, .wall_ms = wall_ms, .random = random_number},
        .disk = sim_disk_new(1),
    };
    env.base.disk = &env.disk->base;
    put_segment(&env, data, size < INPUT_MAX ? size : INPUT_MAX);

    uint64_t sections = 0;
    enum err err = read_log(&env, false, &sections);
    if (err == ERR_CORRUPT) {
        check(file_log_repair(&env.base, "data", ignore_line, NULL, NULL) == ERR_OK);
        check(file_log_check(&env.base, "data", ignore_line, NULL, NULL) == ERR_OK);
        err = read_log(&env, false, &sections);
        check(err == ERR_OK);
    }
    if (!err) {
        uint64_t again = 0;
        check(read_log(&env, true, &again) == ERR_OK && again == sections);
        check(read_log(&env, false, &again) == ERR_OK && again == sections + 1);
    }
    sim_disk_free(env.disk);
    return 0;
}
