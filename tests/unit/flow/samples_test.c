/* Samples of figures that the test makes up, at times that it sets. */
#include "flow/samples.h"

#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "unit/flow/rig.h"

struct scene {
    struct rig *rig;
    struct metrics metrics;
    struct metrics_door door;
    struct metrics_process process;
    struct samples *samples;
    struct sample *copy;
};

static void fill_door(void *arg, struct metrics_door *ret_door)
{
    *ret_door = *(struct metrics_door *)arg;
}

static void fill_process(void *arg, struct metrics_process *ret_process)
{
    *ret_process = *(struct metrics_process *)arg;
}

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.rig = rig_new()};
    rig_recover(scene->rig);
    service_init(&scene->rig->service, &scene->rig->env, scene->rig->hot, scene->rig->log,
                 &scene->rig->kinds, ACK_DURABLE);
    scene->metrics = (struct metrics){
        .service = &scene->rig->service, .brief = fill_process, .process_arg = &scene->process};
    metrics_add_door(&scene->metrics, fill_door, &scene->door);
    scene->samples = samples_new(&scene->metrics);
    scene->copy = calloc(SAMPLES_MAX, sizeof(*scene->copy));
    scene->rig->monotonic_step_ns = 0;
}

static void close_scene(struct scene *scene)
{
    samples_free(scene->samples);
    free(scene->copy);
    service_done(&scene->rig->service);
    rig_free(scene->rig);
}

static void pass(struct scene *scene, uint64_t ms)
{
    scene->rig->now_ms += (int64_t)ms;
    scene->rig->monotonic_ns += ms * 1000000;
    samples_take(scene->samples);
}

TEST(the_first_look_is_no_sample)
{
    struct scene scene;
    open_scene(&scene);
    samples_take(scene.samples);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 0);
    pass(&scene, 1000);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 1);
    assert_int_equal(scene.copy[0].time_ms, scene.rig->now_ms);
    close_scene(&scene);
}

TEST(rates_are_of_the_time_that_has_passed)
{
    struct scene scene;
    open_scene(&scene);
    scene.door.writes[METRICS_OK] = 5000; /* before anybody looked */
    samples_take(scene.samples);
    scene.door.writes[METRICS_OK] += 90;
    scene.door.writes[METRICS_REFUSED] += 10;
    scene.door.reads[METRICS_ERROR] += 30;
    scene.door.connections = 7;
    scene.process.resident_bytes = UINT64_C(5) << 32;
    pass(&scene, 2000);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 1);
    assert_int_equal(scene.copy[0].writes, 50);
    assert_int_equal(scene.copy[0].reads, 15);
    assert_int_equal(scene.copy[0].refused, 5);
    assert_int_equal(scene.copy[0].errors, 15);
    assert_int_equal(scene.copy[0].connections, 7);
    assert_int_equal(scene.copy[0].resident_bytes, UINT64_C(5) << 32);
    pass(&scene, 1000);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 2);
    assert_int_equal(scene.copy[1].writes, 0);
    close_scene(&scene);
}

TEST(percentiles_are_of_the_interval_alone)
{
    struct scene scene;
    open_scene(&scene);
    histogram_observe(&scene.door.write_time, 4000000000, 1000000); /* long ago */
    samples_take(scene.samples);
    histogram_observe(&scene.door.write_time, 80 * 1000, 90);   /* 50 to 100 us */
    histogram_observe(&scene.door.write_time, 7000 * 1000, 10); /* 5 to 10 ms */
    pass(&scene, 1000);
    pass(&scene, 1000);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 2);
    const struct sample *sample = &scene.copy[0];
    assert_in_range(sample->write_p50_us, 50, 99);
    assert_in_range(sample->write_p90_us, sample->write_p50_us, 100);
    assert_in_range(sample->write_p99_us, 5000, 10000);
    assert_int_equal(sample->read_p50_us, SAMPLES_NONE);
    assert_int_equal(scene.copy[1].write_p99_us, SAMPLES_NONE);
    close_scene(&scene);
}

TEST(what_is_beyond_the_last_bound_is_said_to_be_there)
{
    struct scene scene;
    open_scene(&scene);
    samples_take(scene.samples);
    histogram_observe(&scene.door.read_time, UINT64_C(60000000000), 3);
    pass(&scene, 1000);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 1);
    assert_int_equal(scene.copy[0].read_p50_us, 5000000);
    close_scene(&scene);
}

TEST(an_hour_is_kept_and_only_what_is_newer_is_told)
{
    struct scene scene;
    open_scene(&scene);
    samples_take(scene.samples);
    for (unsigned i = 0; i < SAMPLES_MAX + 50; i++) {
        scene.door.reads[METRICS_OK] += i;
        pass(&scene, 1000);
    }
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), SAMPLES_MAX);
    assert_int_equal(scene.copy[0].reads, 50);
    assert_int_equal(scene.copy[SAMPLES_MAX - 1].reads, SAMPLES_MAX + 49);
    int64_t last_ms = scene.copy[SAMPLES_MAX - 1].time_ms;
    for (size_t i = 1; i < SAMPLES_MAX; i++)
        assert_int_equal(scene.copy[i].time_ms, scene.copy[i - 1].time_ms + 1000);
    assert_int_equal(samples_copy(scene.samples, last_ms, scene.copy), 0);
    assert_int_equal(samples_copy(scene.samples, last_ms - 3000, scene.copy), 3);
    assert_int_equal(samples_copy(scene.samples, last_ms - 3001, scene.copy), 4);
    assert_true(sizeof(struct sample) * SAMPLES_MAX < 600 * 1024);
    close_scene(&scene);
}

TEST(a_clock_that_is_set_back_begins_anew)
{
    struct scene scene;
    open_scene(&scene);
    for (int i = 0; i < 5; i++)
        pass(&scene, 1000);
    scene.rig->now_ms -= 3600000;
    pass(&scene, 1000);
    pass(&scene, 1000);
    assert_int_equal(samples_copy(scene.samples, 0, scene.copy), 2);
    assert_int_equal(scene.copy[1].time_ms, scene.rig->now_ms);
    close_scene(&scene);
}

TEST(columns_have_names_and_values)
{
    struct sample sample = {.time_ms = 17, .writes = 3, .sync_us = SAMPLES_NONE, .disk_bytes = 9};
    uint64_t value;
    unsigned seen = 0;
    for (unsigned i = 0; i < sample_column_count; i++) {
        const struct sample_column *column = &sample_columns[i];
        bool is_there = sample_read(&sample, column, &value);
        if (strcmp(column->name, "sync_us") == 0) {
            assert_false(is_there);
            continue;
        }
        assert_true(is_there);
        seen += (unsigned)value;
        if (strcmp(column->name, "time") == 0)
            assert_int_equal(value, 17);
        if (strcmp(column->name, "disk_bytes") == 0)
            assert_int_equal(value, 9);
    }
    assert_int_equal(seen, 17 + 3 + 9);
    /* Every member has its column. */
    size_t bytes = 0;
    for (unsigned i = 0; i < sample_column_count; i++)
        bytes += sample_columns[i].is_wide ? 8 : 4;
    assert_in_range(sizeof(struct sample) - bytes, 0, 7);
}

RUN(cmocka_unit_test(the_first_look_is_no_sample),
    cmocka_unit_test(rates_are_of_the_time_that_has_passed),
    cmocka_unit_test(percentiles_are_of_the_interval_alone),
    cmocka_unit_test(what_is_beyond_the_last_bound_is_said_to_be_there),
    cmocka_unit_test(an_hour_is_kept_and_only_what_is_newer_is_told),
    cmocka_unit_test(a_clock_that_is_set_back_begins_anew),
    cmocka_unit_test(columns_have_names_and_values))
