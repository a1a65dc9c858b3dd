#include "core/user.h"

#include <assert.h>

#include "base/decimal.h"

bool user_is_numeric(struct slice name, uint32_t *ret_number)
{
    assert(ret_number);

    uint64_t value;
    if (name.size > sizeof("4294967295") - 1 || !decimal_parse_unsigned(name, &value) ||
        value > UINT32_MAX)
        return false;
    *ret_number = (uint32_t)value;
    return true;
}
