#include "door/resp/resp_promise.h"

#include "unit/test.h"

TEST(promises_come_back_in_their_order_however_many)
{
    struct resp_promises promises;
    resp_promises_init(&promises);
    assert_null(resp_promises_first(&promises));

    uint64_t added = 0;
    uint64_t dropped = 0;
    for (int round = 0; round < 20; round++) { /* grows with the first one anywhere in the ring */
        for (int i = 0; i < 700; i++) {
            added++;
            resp_promises_add(&promises, (struct resp_promise){.ticket = added, .end = 2 * added});
        }
        for (int i = 0; i < 300; i++) {
            dropped++;
            assert_int_equal(resp_promises_first(&promises)->ticket, dropped);
            assert_int_equal(resp_promises_first(&promises)->end, 2 * dropped);
            resp_promises_drop_first(&promises);
        }
    }
    while (resp_promises_first(&promises)) {
        dropped++;
        assert_int_equal(resp_promises_first(&promises)->ticket, dropped);
        resp_promises_drop_first(&promises);
    }
    assert_int_equal(added, dropped);
    resp_promises_done(&promises);
}

RUN(cmocka_unit_test(promises_come_back_in_their_order_however_many))
