#include "door/pass/promise.h"

#include "unit/test.h"

TEST(promises_come_back_in_their_order_however_many)
{
    struct promises promises;
    promises_init(&promises);
    assert_null(promises_first(&promises));

    uint64_t added = 0;
    uint64_t dropped = 0;
    for (int round = 0; round < 20; round++) { /* grows with the first one anywhere in the ring */
        for (int i = 0; i < 700; i++) {
            added++;
            promises_add(&promises, (struct promise){.ticket = added, .end = 2 * added});
        }
        for (int i = 0; i < 300; i++) {
            dropped++;
            assert_int_equal(promises_first(&promises)->ticket, dropped);
            assert_int_equal(promises_first(&promises)->end, 2 * dropped);
            promises_drop_first(&promises);
        }
    }
    while (promises_first(&promises)) {
        dropped++;
        assert_int_equal(promises_first(&promises)->ticket, dropped);
        promises_drop_first(&promises);
    }
    assert_int_equal(added, dropped);
    promises_done(&promises);
}

RUN(cmocka_unit_test(promises_come_back_in_their_order_however_many))
