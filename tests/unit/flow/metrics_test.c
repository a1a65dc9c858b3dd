/* The page is compared with metrics.txt, which the rules and the dashboard of deploy/ are
 * checked against, and read by a parser that is stricter than Prometheus. */
#include "flow/metrics.h"

#include "unit/test.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/flow/rig.h"

/* --- a strict little parser --- */

#define FAMILIES_MAX 200u
#define SAMPLES_MAX  2000u
#define LINE_BYTES   600u

struct sample {
    char key[LINE_BYTES]; /* name and labels, as written */
    char name[128];
    char labels[LINE_BYTES];
    double value;
};

struct parsed {
    unsigned family_count;
    char families[FAMILIES_MAX][128];
    char type[32]; /* of the family that is being read */
    unsigned sample_count;
    struct sample samples[SAMPLES_MAX];
};

static bool is_name(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(islower((unsigned char)text[i]) || text[i] == '_' ||
              (i > 0 && isdigit((unsigned char)text[i]))))
            return false;
    return size > 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    return size >= strlen(end) && strcmp(text + size - strlen(end), end) == 0;
}

/* "name="value",..." up to the closing brace; returns what follows it. */
static const char *skip_labels(const char *at)
{
    do {
        at++; /* the brace or comma */
        const char *equals = strchr(at, '=');
        assert_non_null(equals);
        assert_true(is_name(at, (size_t)(equals - at)));
        assert_int_equal(equals[1], '"');
        at = equals + 2;
        while (*at != '"') {
            assert_true(*at != '\0' && *at != '\n');
            if (*at == '\\') {
                at++;
                assert_true(*at == 'n' || *at == '\\' || *at == '"');
            }
            at++;
        }
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    return at + 1;
}

static void family_line(struct parsed *parsed, const char *help, const char *type)
{
    assert_memory_equal(help, "# HELP ", 7);
    assert_memory_equal(type, "# TYPE ", 7);
    const char *name = help + 7;
    size_t size = strcspn(name, " ");
    assert_true(is_name(name, size));
    assert_memory_equal(name, "tally_", 6);
    assert_true(strlen(name + size) > 3);          /* it says something */
    assert_int_equal(name[strlen(name) - 1], '.'); /* in a sentence */
    assert_memory_equal(type + 7, name, size + 1);
    assert_true(parsed->family_count < FAMILIES_MAX);
    char *family = parsed->families[parsed->family_count];
    snprintf(family, sizeof(parsed->families[0]), "%.*s", (int)size, name);
    for (unsigned i = 0; i < parsed->family_count; i++)
        assert_string_not_equal(parsed->families[i], family);
    parsed->family_count++;
    snprintf(parsed->type, sizeof(parsed->type), "%s", type + 7 + size + 1);
    assert_true(strcmp(parsed->type, "counter") == 0 || strcmp(parsed->type, "gauge") == 0 ||
                strcmp(parsed->type, "summary") == 0 || strcmp(parsed->type, "histogram") == 0);
    assert_int_equal(ends_with(family, "_total"), strcmp(parsed->type, "counter") == 0);
}

/* Does a sample of this name belong to the family? */
static bool is_of(const struct parsed *parsed, const char *name)
{
    const char *family = parsed->families[parsed->family_count - 1];
    size_t size = strlen(family);
    if (strncmp(name, family, size) != 0)
        return false;
    const char *rest = name + size;
    if (strcmp(parsed->type, "counter") == 0 || strcmp(parsed->type, "gauge") == 0)
        return *rest == '\0';
    return strcmp(rest, "_sum") == 0 || strcmp(rest, "_count") == 0 ||
           (strcmp(rest, "_bucket") == 0 && strcmp(parsed->type, "histogram") == 0);
}

static void sample_line(struct parsed *parsed, const char *line)
{
    assert_true(parsed->sample_count < SAMPLES_MAX);
    struct sample *sample = &parsed->samples[parsed->sample_count];
    size_t size = strcspn(line, "{ ");
    assert_true(is_name(line, size) && size < sizeof(sample->name));
    snprintf(sample->name, sizeof(sample->name), "%.*s", (int)size, line);
    assert_true(parsed->family_count > 0 && is_of(parsed, sample->name));
    const char *at = line + size;
    if (*at == '{')
        at = skip_labels(at);
    snprintf(sample->labels, sizeof(sample->labels), "%.*s", (int)(at - line - (long)size),
             line + size);
    snprintf(sample->key, sizeof(sample->key), "%.*s", (int)(at - line), line);
    assert_int_equal(*at, ' ');
    char *end;
    sample->value = strtod(at + 1, &end);
    assert_true(end > at + 1 && *end == '\0');
    for (unsigned i = 0; i < parsed->sample_count; i++)
        assert_string_not_equal(parsed->samples[i].key, sample->key);
    parsed->sample_count++;
}

static struct parsed *parse(const struct buffer *page)
{
    struct parsed *parsed = calloc(1, sizeof(*parsed));
    assert_non_null(parsed);
    char help[LINE_BYTES] = "";
    size_t at = 0;
    while (at < page->size) {
        const char *end = memchr(page->data + at, '\n', page->size - at);
        assert_non_null(end); /* the last line has an end, too */
        char line[LINE_BYTES];
        size_t size = (size_t)(end - page->data) - at;
        assert_true(size > 0 && size < sizeof(line));
        memcpy(line, page->data + at, size);
        line[size] = '\0';
        at += size + 1;
        if (strncmp(line, "# HELP", 6) == 0)
            snprintf(help, sizeof(help), "%s", line);
        else if (line[0] == '#')
            family_line(parsed, help, line);
        else
            sample_line(parsed, line);
    }
    return parsed;
}

static double value_of(const struct parsed *parsed, const char *key)
{
    for (unsigned i = 0; i < parsed->sample_count; i++)
        if (strcmp(parsed->samples[i].key, key) == 0)
            return parsed->samples[i].value;
    fail_msg("there is no %s", key);
    return NAN;
}

static bool has_family(const struct parsed *parsed, const char *name)
{
    for (unsigned i = 0; i < parsed->family_count; i++)
        if (strcmp(parsed->families[i], name) == 0)
            return true;
    return false;
}

/* --- a server with something of everything --- */

static void fill_door(struct metrics_door *door, const char *name, uint64_t by)
{
    *door = (struct metrics_door){
        .door = name,
        .reads = {100 * by, 20 * by, 3 * by},
        .writes = {400 * by, 50 * by, 6 * by},
        .connections = 7 * by,
        .accepted = 8 * by,
        .rejected = 9 * by,
        .bytes_in = 10 * by,
        .bytes_out = 11 * by,
        .protocol_errors = 12 * by,
        .auth_failures = 13 * by,
        .timeouts = 14 * by,
        .evicted = 15 * by,
        .buffer_bytes = 16 * by,
    };
    histogram_observe(&door->read_time, 30000, 120 * by);
    histogram_observe(&door->read_time, 7000000000, 3 * by);
    histogram_observe(&door->write_time, 2000000, 456 * by);
}

static struct metrics_hottest hottest[2] = {
    {.id = {"video1", 6}, .shards = 2, .totals = {10, -20}},
    {.id = {"a\"b\\c\nd\xc3\xa9", 9}, .shards = 1, .totals = {INT64_MIN}},
};

static struct metrics_sources full_sources(void)
{
    struct metrics_sources sources = {
        .version = "1.2.3",
        .ack = "durable",
        .started_ms = 1700000000123,
        .now_ms = 1700000060623,
        .process = {.resident_bytes = 1,
                    .heap_bytes = 2,
                    .cpu_ns = 1500000000,
                    .open_files = 3,
                    .open_files_max = 4,
                    .disk_free_bytes = 5,
                    .disk_bytes = 6},
        .hot = {.counters = 21,
                .items = 22,
                .members = 23,
                .users = 24,
                .keys = 25,
                .big = 26,
                .spread = 27,
                .spread_events = 28,
                .lock_waits = 29,
                .expired = 30,
                .refused = 31,
                .hot_counters = 32,
                .hot_items = 33,
                .cold_misses = 34,
                .loads = 35,
                .dropped = 36,
                .memory_bytes = 37,
                .memory_max = 38,
                .memory_refused = 39,
                .outbox_entries = 57,
                .outbox_longest = 58,
                .outbox_max = 59},
        .log = {.sections = 41,
                .bytes = 42,
                .groups = 43,
                .sync_ns = 4400000001,
                .sync_ns_max = 45000000,
                .pending_bytes = 46,
                .segments = 47,
                .disk_bytes = 48,
                .verified_bytes = 987654,
                .damaged_segments = 2,
                .full_since_ms = 49},
        .has_nodes = true,
        .has_relay = true,
        .relay = {.leased = 7,
                  .opening = 8,
                  .sections = 9,
                  .waiting = 10,
                  .weak = 11,
                  .opened = 12,
                  .kept = 13},
        .pipeline = {.runs = true,
                     .lanes = 32,
                     .lanes_held = 2,
                     .lanes_stuck = 1,
                     .paused = true,
                     .reason = "the disk is full of ann's likes",
                     .lag_events = 51,
                     .lag_is_estimated = true,
                     .lag_bytes = 52,
                     .lag_ms = 53001,
                     .events = 54,
                     .batches = 55,
                     .batch_events = 56,
                     .flush_ns = 57,
                     .flush_ns_all = 58000000000,
                     .outages = 59,
                     .refused = 60,
                     .failed = 61,
                     .cold_loads = 62,
                     .cold_load_ns_all = 63,
                     .audited = 64,
                     .drifts = 65,
                     .repairs = 66,
                     .audit_ended_ms = 1700000000000,
                     .trimmed_bytes = 67,
                     .store = {.bytes = 68,
                               .pending = 69,
                               .retrying = 70,
                               .succeeded = 71,
                               .failed = 72,
                               .history_rows = 73}},
        .door_count = 2,
        .hottest = hottest,
        .hottest_count = 2,
    };
    fill_door(&sources.doors[0], "http", 1);
    fill_door(&sources.doors[1], "resp", 2);
    return sources;
}

static void write_page(struct buffer *page, const struct metrics_sources *sources)
{
    buffer_init(page, METRICS_BYTES_MAX);
    assert_int_equal(metrics_write(page, sources), ERR_OK);
}

/* --- tests --- */

/* METRICS_PAGE=tests/unit/flow/metrics.txt writes the file anew. */
TEST(the_page_is_the_one_that_the_rules_and_the_dashboard_are_checked_against)
{
    struct metrics_sources sources = full_sources();
    struct buffer page;
    write_page(&page, &sources);

    const char *anew = getenv("METRICS_PAGE");
    FILE *file = fopen(anew ? anew : "tests/unit/flow/metrics.txt", anew ? "w" : "r");
    assert_non_null(file);
    if (anew) {
        assert_int_equal(fwrite(page.data, 1, page.size, file), page.size);
    } else {
        char *text = calloc(1, METRICS_BYTES_MAX);
        size_t size = fread(text, 1, METRICS_BYTES_MAX - 1, file);
        buffer_append(&page, "", 1);
        assert_string_equal(page.data, text);
        assert_int_equal(page.size - 1, size);
        free(text);
    }
    fclose(file);
    buffer_done(&page);
}

TEST(a_strict_parser_takes_the_page)
{
    struct metrics_sources sources = full_sources();
    struct buffer page;
    write_page(&page, &sources);
    struct parsed *parsed = parse(&page);
    assert_true(parsed->family_count > 60);
    free(parsed);
    buffer_done(&page);
}

TEST(times_are_seconds_and_the_rest_is_as_it_was_handed_in)
{
    struct metrics_sources sources = full_sources();
    struct buffer page;
    write_page(&page, &sources);
    struct parsed *parsed = parse(&page);
    assert_true(value_of(parsed, "tally_uptime_seconds") == 60.5);
    assert_true(value_of(parsed, "tally_cpu_seconds_total") == 1.5);
    assert_true(value_of(parsed, "tally_log_sync_duration_seconds_sum") == 4.400000001);
    assert_true(value_of(parsed, "tally_log_sync_duration_seconds_count") == 43);
    assert_true(value_of(parsed, "tally_pipeline_lag_seconds") == 53.001);
    assert_true(value_of(parsed, "tally_log_full") == 1);
    assert_true(value_of(parsed, "tally_store_up") == 1);
    assert_true(value_of(parsed, "tally_dead_letters") == 72);
    assert_true(value_of(parsed, "tally_store_units{state=\"retrying\"}") == 70);
    assert_true(value_of(parsed, "tally_connections{door=\"resp\"}") == 14);
    assert_true(value_of(parsed, "tally_operations_total{door=\"http\",op=\"write\",result="
                                 "\"refused\"}") == 50);
    free(parsed);
    buffer_done(&page);
}

TEST(the_buckets_of_a_histogram_add_up)
{
    struct metrics_sources sources = full_sources();
    struct buffer page;
    write_page(&page, &sources);
    struct parsed *parsed = parse(&page);
    double before = 0;
    unsigned buckets = 0;
    for (unsigned i = 0; i < parsed->sample_count; i++) {
        const struct sample *sample = &parsed->samples[i];
        if (!ends_with(sample->name, "_bucket") || !strstr(sample->labels, "\"http\",op=\"read\""))
            continue;
        assert_true(sample->value >= before);
        before = sample->value;
        buckets++;
    }
    assert_int_equal(buckets, HISTOGRAM_BUCKETS);
    const char *name = "tally_operation_duration_seconds";
    char key[200];
    snprintf(key, sizeof(key), "%s_bucket{door=\"http\",op=\"read\",le=\"0.00005\"}", name);
    assert_true(value_of(parsed, key) == 120);
    snprintf(key, sizeof(key), "%s_bucket{door=\"http\",op=\"read\",le=\"5\"}", name);
    assert_true(value_of(parsed, key) == 120);
    snprintf(key, sizeof(key), "%s_bucket{door=\"http\",op=\"read\",le=\"+Inf\"}", name);
    assert_true(value_of(parsed, key) == 123);
    snprintf(key, sizeof(key), "%s_count{door=\"http\",op=\"read\"}", name);
    assert_true(value_of(parsed, key) == 123);
    snprintf(key, sizeof(key), "%s_sum{door=\"http\",op=\"read\"}", name);
    assert_true(fabs(value_of(parsed, key) - 21.0036) < 1e-9);
    free(parsed);
    buffer_done(&page);
}

TEST(ids_are_escaped_and_what_is_not_text_is_left_out)
{
    static const char *const bad[] = {
        "\xff", "a\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"};
    struct metrics_sources sources = full_sources();
    struct buffer page;
    write_page(&page, &sources);
    struct parsed *parsed = parse(&page);
    assert_true(value_of(parsed, "tally_shard_value{counter=\"video1\",shard=\"1\"}") == -20);
    assert_true(value_of(parsed, "tally_shard_value{counter=\"a\\\"b\\\\c\\nd\xc3\xa9\",shard="
                                 "\"0\"}") == (double)INT64_MIN);
    free(parsed);
    buffer_done(&page);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct metrics_hottest one = {.id = slice_of(bad[i]), .shards = 1, .totals = {1}};
        sources.hottest = &one;
        sources.hottest_count = 1;
        write_page(&page, &sources);
        assert_null(memmem(page.data, page.size, "tally_shard_value{", 18));
        buffer_done(&page);
    }
}

TEST(only_a_handful_of_counters_is_shown)
{
    static struct metrics_hottest many[METRICS_HOTTEST_MAX + 5];
    char names[METRICS_HOTTEST_MAX + 5][8];
    for (unsigned i = 0; i < METRICS_HOTTEST_MAX + 5; i++) {
        snprintf(names[i], sizeof(names[i]), "c%u", i);
        many[i] = (struct metrics_hottest){.id = slice_of(names[i]), .shards = 1};
    }
    struct metrics_sources sources = full_sources();
    sources.hottest = many;
    sources.hottest_count = METRICS_HOTTEST_MAX + 5;
    struct buffer page;
    write_page(&page, &sources);
    struct parsed *parsed = parse(&page);
    unsigned shown = 0;
    for (unsigned i = 0; i < parsed->sample_count; i++)
        shown += strcmp(parsed->samples[i].name, "tally_shard_value") == 0;
    assert_int_equal(shown, METRICS_HOTTEST_MAX);
    free(parsed);
    buffer_done(&page);
}

TEST(a_server_without_a_store_says_so_and_shows_no_figures_of_one)
{
    struct metrics_sources sources = {.version = "1", .ack = "memory"};
    struct buffer page;
    write_page(&page, &sources);
    struct parsed *parsed = parse(&page);
    assert_true(value_of(parsed, "tally_pipeline_running") == 0);
    assert_false(has_family(parsed, "tally_pipeline_lag_events"));
    assert_false(has_family(parsed, "tally_store_up"));
    assert_false(has_family(parsed, "tally_disk_free_bytes"));
    free(parsed);
    buffer_done(&page);
}

TEST(a_page_that_does_not_fit_is_an_error)
{
    struct metrics_sources sources = full_sources();
    struct buffer page;
    buffer_init(&page, 1000);
    assert_int_equal(metrics_write(&page, &sources), ERR_TOO_LARGE);
    buffer_done(&page);
}

TEST(every_code_has_a_result)
{
    assert_int_equal(metrics_result_of(ERR_OK), METRICS_OK);
    assert_int_equal(metrics_result_of(ERR_NOT_FOUND), METRICS_REFUSED);
    assert_int_equal(metrics_result_of(ERR_BELOW_FLOOR), METRICS_REFUSED);
    assert_int_equal(metrics_result_of(ERR_DENIED), METRICS_REFUSED);
    assert_int_equal(metrics_result_of(ERR_FULL), METRICS_ERROR);
    assert_int_equal(metrics_result_of(ERR_NO_MEMORY), METRICS_ERROR);
    assert_int_equal(metrics_result_of(ERR_UNAVAILABLE), METRICS_ERROR);
}

static void a_door(void *arg, struct metrics_door *ret_door)
{
    fill_door(ret_door, arg, 1);
}

static void a_process(void *arg, struct metrics_process *ret_process)
{
    (void)arg;
    ret_process->open_files = 17;
}

TEST(a_page_asks_the_hot_layer_the_log_the_process_and_the_doors)
{
    struct rig *rig = rig_new();
    rig_recover(rig);
    struct op op = {.kind = OP_ADD, .id = SLICE("views"), .amount = number_of(5)};
    rig_run(rig, &op);
    rig_commit(rig);
    service_init(&rig->service, &rig->env, rig->hot, rig->log, &rig->kinds, ACK_WRITTEN);
    struct metrics metrics = {.version = "1",
                              .started_ms = rig->now_ms - 1000,
                              .service = &rig->service,
                              .process = a_process};
    char http[] = "http";
    char resp[] = "resp";
    metrics_add_door(&metrics, a_door, http);
    metrics_add_door(&metrics, a_door, resp);
    struct buffer page;
    buffer_init(&page, METRICS_BYTES_MAX);
    assert_int_equal(metrics_page(&metrics, &page), ERR_OK);
    struct parsed *parsed = parse(&page);
    assert_true(value_of(parsed, "tally_counters") == 1);
    assert_true(value_of(parsed, "tally_log_sections_total") == 1);
    assert_true(value_of(parsed, "tally_uptime_seconds") == 1);
    assert_true(value_of(parsed, "tally_open_files") == 17);
    assert_true(value_of(parsed, "tally_build_info{version=\"1\",ack=\"written\"}") == 1);
    assert_true(value_of(parsed, "tally_pipeline_running") == 0);
    assert_true(value_of(parsed, "tally_connections{door=\"resp\"}") == 7);
    free(parsed);
    buffer_done(&page);
    service_done(&rig->service);
    rig_free(rig);
}

RUN(cmocka_unit_test(the_page_is_the_one_that_the_rules_and_the_dashboard_are_checked_against),
    cmocka_unit_test(a_strict_parser_takes_the_page),
    cmocka_unit_test(times_are_seconds_and_the_rest_is_as_it_was_handed_in),
    cmocka_unit_test(the_buckets_of_a_histogram_add_up),
    cmocka_unit_test(ids_are_escaped_and_what_is_not_text_is_left_out),
    cmocka_unit_test(only_a_handful_of_counters_is_shown),
    cmocka_unit_test(a_server_without_a_store_says_so_and_shows_no_figures_of_one),
    cmocka_unit_test(a_page_that_does_not_fit_is_an_error),
    cmocka_unit_test(every_code_has_a_result),
    cmocka_unit_test(a_page_asks_the_hot_layer_the_log_the_process_and_the_doors))
