#include "flow/suspects.h"

#include "unit/test.h"

#define SECOND_NS 1000000000ull

TEST(one_that_fails_comes_again_later_and_later)
{
    struct suspects_queue queue;
    struct suspect suspect;
    suspects_queue_init(&queue);
    assert_true(suspects_queue_add(&queue, SLICE("a")));
    uint64_t now_ns = SECOND_NS;
    uint64_t waits_ns = SUSPECT_AGAIN_NS;
    for (unsigned i = 0; i < 8; i++) {
        assert_true(suspects_queue_take(&queue, now_ns, &suspect));
        assert_int_equal(suspect.failures, i);
        suspects_queue_put_back(&queue, &suspect, now_ns);
        assert_false(suspects_queue_add(&queue, SLICE("a"))); /* however often somebody asks */
        assert_false(suspects_queue_take(&queue, now_ns + waits_ns - 1, &suspect));
        now_ns += waits_ns;
        waits_ns *= i < 5 ? 2 : 1;
    }
    suspects_queue_done(&queue);
}

TEST(others_do_not_wait_for_one_that_failed)
{
    struct suspects_queue queue;
    struct suspect suspect;
    suspects_queue_init(&queue);
    assert_true(suspects_queue_add(&queue, SLICE("a")));
    assert_true(suspects_queue_add(&queue, SLICE("b")));
    assert_true(suspects_queue_take(&queue, SECOND_NS, &suspect));
    assert_int_equal(suspect.id[0], 'b');
    assert_true(suspects_queue_add(&queue, SLICE("b"))); /* named again while it was dealt with */
    suspects_queue_put_back(&queue, &suspect, SECOND_NS);
    assert_true(suspects_queue_take(&queue, SECOND_NS, &suspect));
    assert_int_equal(suspect.id[0], 'a');
    assert_false(suspects_queue_take(&queue, SECOND_NS, &suspect));
    assert_int_equal(queue.count, 1);
    suspects_queue_done(&queue);
}

RUN(cmocka_unit_test(one_that_fails_comes_again_later_and_later),
    cmocka_unit_test(others_do_not_wait_for_one_that_failed))
