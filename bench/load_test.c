/* load_test.c - what the load generator's figures rest on. */
#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "histogram.h"
#include "reply.h"
#include "work.h"

static const char transcript[] = ":1\r\n+OK\r\n-ERR no\r\n$5\r\na\r\nb\n\r\n$-1\r\n$0\r\n\r\n"
                                 "*0\r\n*-1\r\n*2\r\n*2\r\n:1\r\n$2\r\n:2\r\n*1\r\n-WRONG\r\n"
                                 ":-12345\r\n:2\r\n";
enum { TRANSCRIPT_REPLIES = 11, TRANSCRIPT_ERRORS = 2 };

/* Feeds the transcript in two pieces, as a connection would. */
static void scan_cut_at(size_t cut)
{
    size_t size = sizeof(transcript) - 1;
    struct reply_errors errors = {0};
    struct reply_scanner scanner = {.errors = &errors};

    size_t done = reply_scan(&scanner, transcript, cut);
    assert(done <= cut);
    done += reply_scan(&scanner, transcript + done, size - done);

    assert(done == size && !scanner.broken && scanner.open == 0);
    assert(scanner.replies == TRANSCRIPT_REPLIES);
    assert(errors.count == TRANSCRIPT_ERRORS && strcmp(errors.first, "ERR no") == 0);
}

static void replies_are_counted_wherever_the_stream_is_cut(void)
{
    for (size_t cut = 0; cut < sizeof(transcript); cut++)
        scan_cut_at(cut);
}

static void what_is_not_resp_is_noticed(void)
{
    const char *streams[] = {"HTTP/1.1 400\r\n", "$x\r\n", "*-2\r\n", "$99999999999\r\n", "\n"};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct reply_errors errors = {0};
        struct reply_scanner scanner = {.errors = &errors};
        reply_scan(&scanner, streams[i], strlen(streams[i]));
        assert(scanner.broken && scanner.replies == 0);
    }
}

static void percentiles_are_off_by_less_than_two_percent(void)
{
    static struct histogram histogram;
    for (uint64_t value = 1; value <= 1000000; value++)
        histogram_add(&histogram, value * 100);

    const double fractions[] = {0.001, 0.5, 0.99, 0.999};
    for (size_t i = 0; i < sizeof(fractions) / sizeof(fractions[0]); i++) {
        double got = (double)histogram_percentile(&histogram, fractions[i]);
        double want = fractions[i] * 1e8;
        assert(got > want * 0.98 && got < want * 1.02);
    }
    assert(histogram_percentile(&histogram, 1) == 100000000 && histogram.max == 100000000);
}

static void a_latency_beyond_the_last_bucket_is_kept(void)
{
    static struct histogram histogram;
    histogram_add(&histogram, UINT64_MAX);
    assert(histogram.max == UINT64_MAX && histogram.buckets[HISTOGRAM_BUCKETS - 1] == 1);
}

static void a_request_carries_its_numbers(void)
{
    struct work work;
    struct work_numbers numbers = {.seq = 41, .random = 1, .keys = 1, .items = 7};
    assert(!work_init(&work, "LIKE v:{item} u-{user}", NULL));
    char *batch = malloc(2 * work.size);
    assert(batch);
    work_lay_out(&work, batch, 2);
    work_renew(&work, &numbers, batch, 2);

    const char *want = "*3\r\n$4\r\nLIKE\r\n$10\r\nv:00000006\r\n$12\r\nu-1000000041\r\n"
                       "*3\r\n$4\r\nLIKE\r\n$10\r\nv:00000000\r\n$12\r\nu-1000000042\r\n";
    assert(2 * work.size == strlen(want) && memcmp(batch, want, strlen(want)) == 0);
    free(batch);
    work_done(&work);
}

static void scattered_users_do_not_repeat(void)
{
    enum { USERS = 10000 };
    static bool seen[USERS];
    struct work work;
    struct work_numbers numbers = {.random = 1, .keys = 1, .items = 1, .spread = USERS};
    assert(!work_init(&work, "{user}", NULL));
    for (int i = 0; i < USERS; i++) {
        work_renew(&work, &numbers, work.request, 1);
        unsigned long user = strtoul(work.request + work.slots[0].offset, NULL, 10) - 1000000000;
        assert(user < USERS && !seen[user]);
        seen[user] = true;
    }
    work_done(&work);
}

static void a_template_that_cannot_be_sent_is_refused(void)
{
    struct work work;
    assert(work_init(&work, "  ", NULL));
    assert(work_init(&work, "EVALSHA {sha} 0", NULL));
    assert(work_init(&work, "MGET {key} {key} {key} {key} {key} {key} {key} {key} {key}", NULL));
}

int main(void)
{
    replies_are_counted_wherever_the_stream_is_cut();
    what_is_not_resp_is_noticed();
    percentiles_are_off_by_less_than_two_percent();
    a_latency_beyond_the_last_bucket_is_kept();
    a_request_carries_its_numbers();
    scattered_users_do_not_repeat();
    a_template_that_cannot_be_sent_is_refused();
    return 0;
}
