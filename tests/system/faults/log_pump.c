/* log_pump.c - appends to a log of many lanes until its input ends, and follows it meanwhile,
 * whatever happens to its servers.
 *
 *   log_pump URL
 *
 * Prints a line a second, and at the end how many events were acknowledged and seen. Fails if a
 * lane has a gap, or if what was acknowledged is not seen within two minutes. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "core/event.h"
#include "core/log.h"
#include "core/sequence.h"
#include "log/kafka/kafka.h"
#include "log/redis_stream/redis_stream.h"

#define SETTLE_MS 120000u

static struct {
    uint64_t next[LIMIT_CELLS];
    uint64_t ticket[LIMIT_CELLS];
    uint64_t seen[LIMIT_CELLS];
    uint64_t repeated;
    struct log_position at[LIMIT_CELLS];
    unsigned lane;
} pump;

static void die(const char *what, unsigned lane, const char *why)
{
    fprintf(stderr, "lane %u: %s: %s\n", lane, what, why);
    exit(1);
}

static uint64_t now_ms(void)
{
    return env_monotonic_ns(env_system()) / 1000000;
}

static struct log *open_log(const char *url)
{
    struct log *log;
    struct error error;
    struct kafka_log_options kafka = {.url = url, .follows = true, .session_ms = 6000};
    struct redis_stream_log_options stream = {.url = url, .follows = true};
    bool is_kafka = strncmp(url, "kafka:", 6) == 0;
    if (is_kafka ? kafka_log_open(env_system(), &kafka, &log, &error)
                 : redis_stream_log_open(env_system(), &stream, &log, &error))
        die("open", 0, error.text);
    if (log_start(log, &error))
        die("start", 0, error.text);
    return log;
}

static void append(struct log *log, unsigned lane)
{
    struct section section;
    section_init(&section);
    for (unsigned i = 0; i < 3; i++)
        section_add(&section, 0, SLICE("pumped"), 1, (struct slice){0});
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, lane, pump.next[lane], 1700000000000, header);
    pump.ticket[lane] = log_append(log, (struct slice){header, size}, buffer_slice(&section.body));
    pump.next[lane] += section.count;
    section_done(&section);
}

static enum err see(void *arg, struct slice section, struct log_position next, struct error *error)
{
    (void)arg;
    (void)next;
    struct section_reader reader;
    unsigned lane = pump.lane;
    if (section_open(&reader, section, error))
        die("not a section", lane, error->text);
    uint64_t last = reader.first_sequence + reader.left - 1;
    if (reader.first_sequence > pump.seen[lane] + 1)
        die("a gap", lane, "events are missing");
    if (last <= pump.seen[lane])
        pump.repeated += reader.left;
    else
        pump.seen[lane] = last;
    return ERR_OK;
}

static void follow(struct log *log)
{
    uint64_t owned = log_owned(log);
    for (pump.lane = 0; pump.lane < LIMIT_CELLS; pump.lane++) {
        struct error error;
        if (!(owned >> pump.lane & 1))
            continue;
        if (log_follow(log, pump.lane, &pump.at[pump.lane], 1 << 20, see, NULL, &error))
            die("follow", pump.lane, error.text);
    }
}

static bool is_told_to_stop(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

/* All is there, and the log knows that it is well again. */
static bool is_settled(struct log *log)
{
    struct log_stats stats;
    log_stats(log, &stats);
    if (stats.down_since_ms > 0)
        return false;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (log_reached(log, i, LOG_DURABLE) < pump.ticket[i] || pump.seen[i] + 1 < pump.next[i])
            return false;
    return true;
}

static void say(struct log *log, const char *word)
{
    uint64_t appended = 0;
    uint64_t seen = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        appended += sequence_n(pump.next[i]) - 1;
        seen += sequence_n(pump.seen[i]);
    }
    struct log_stats stats;
    log_stats(log, &stats);
    printf("%s appended=%" PRIu64 " sections=%" PRIu64 " seen=%" PRIu64 " repeated=%" PRIu64
           " down=%d\n",
           word, appended, stats.sections, seen, pump.repeated, stats.down_since_ms > 0);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s URL\n", argv[0]);
        return 2;
    }
    struct log *log = open_log(argv[1]);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        pump.next[i] = sequence_of(1, 1);
        pump.seen[i] = sequence_of(1, 0);
    }
    uint64_t say_ms = 0;
    while (!is_told_to_stop()) {
        for (unsigned lane = 0; lane < LIMIT_CELLS && log_room(log) == ERR_OK; lane += 5)
            append(log, lane);
        follow(log);
        if (now_ms() >= say_ms) {
            say(log, "pumping");
            say_ms = now_ms() + 1000;
        }
        usleep(3000);
    }
    uint64_t settle_ms = now_ms() + SETTLE_MS;
    while (!is_settled(log)) {
        if (now_ms() > settle_ms) {
            say(log, "stuck");
            return 1;
        }
        follow(log);
        usleep(3000);
    }
    say(log, "done");
    log_close(log);
    return 0;
}
