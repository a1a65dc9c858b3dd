#include "net/redis_info.h"

#include "unit/test.h"

static void assert_value(const char *info, const char *name, const char *value)
{
    assert_true(slice_equal(redis_info_value(slice_of(info), name), slice_of(value)));
}

TEST(values_are_found_at_the_beginning_of_lines)
{
    static const char info[] = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n"
                               "my_role:none\r\nrole:master\r\nempty:\r\nlast:1";
    assert_value(info, "redis_version:", "7.2.4");
    assert_value(info, "server_name:", "valkey");
    assert_value(info, "role:", "master"); /* not that of my_role */
    assert_value(info, "empty:", "");
    assert_value(info, "last:", "1");
    assert_value(info, "name:", "");
    assert_value("", "role:", "");
    assert_value("rol", "role:", "");
}

TEST(what_is_behind_the_end_is_not_looked_at)
{
    struct slice cut = {"role:master", 4};
    assert_int_equal(redis_info_value(cut, "role:").size, 0);
    cut.size = 8;
    assert_true(slice_equal(redis_info_value(cut, "role:"), SLICE("mas")));
}

RUN(cmocka_unit_test(values_are_found_at_the_beginning_of_lines),
    cmocka_unit_test(what_is_behind_the_end_is_not_looked_at))
