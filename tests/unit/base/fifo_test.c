#include "base/fifo.h"

#include "unit/test.h"

struct thing {
    struct fifo_node node;
    char name;
};

static struct thing things[] = {
    {.node.size = 10, .name = 'a'},
    {.node.size = 20, .name = 'b'},
    {.node.size = 30, .name = 'c'},
};

static struct fifo row_of_three(void)
{
    struct fifo fifo = {0};
    for (size_t i = 0; i < 3; i++)
        fifo_push(&fifo, &things[i].node);
    return fifo;
}

/* Takes all out, and compares their names. */
static void assert_holds(struct fifo *fifo, const char *names)
{
    for (; *names; names++) {
        struct thing *thing = (struct thing *)fifo_pop(fifo);
        assert_non_null(thing);
        assert_int_equal(thing->name, *names);
    }
    assert_null(fifo_pop(fifo));
    assert_null(fifo->last);
    assert_int_equal(fifo->size, 0);
}

TEST(what_comes_first_goes_first)
{
    struct fifo fifo = row_of_three();
    assert_int_equal(fifo.size, 60);
    assert_holds(&fifo, "abc");
    fifo_push(&fifo, &things[1].node);
    assert_holds(&fifo, "b");
}

TEST(a_part_goes_up_to_the_limit_and_is_never_nothing)
{
    struct fifo fifo = row_of_three();
    struct fifo one = fifo_take(&fifo, 1);
    assert_int_equal(one.size, 10);
    assert_int_equal(fifo.size, 50);
    struct fifo two = fifo_take(&fifo, 21);
    struct fifo none = fifo_take(&fifo, 100);
    assert_holds(&one, "a");
    assert_holds(&two, "bc");
    assert_holds(&none, "");
}

TEST(what_is_put_back_comes_before_the_others)
{
    struct fifo fifo = row_of_three();
    struct fifo taken = fifo_take(&fifo, 30);
    fifo_pop(&taken);
    fifo_put_back(&fifo, &taken);
    assert_holds(&taken, "");
    assert_int_equal(fifo.size, 50);
    assert_holds(&fifo, "bc");
}

TEST(all_of_it_can_be_put_back_into_an_empty_row)
{
    struct fifo fifo = row_of_three();
    struct fifo taken = fifo_take(&fifo, UINT64_MAX);
    assert_holds(&fifo, "");
    fifo_put_back(&fifo, &taken);
    fifo_put_back(&fifo, &taken);
    assert_holds(&fifo, "abc");
}

RUN(cmocka_unit_test(what_comes_first_goes_first),
    cmocka_unit_test(a_part_goes_up_to_the_limit_and_is_never_nothing),
    cmocka_unit_test(what_is_put_back_comes_before_the_others),
    cmocka_unit_test(all_of_it_can_be_put_back_into_an_empty_row))
