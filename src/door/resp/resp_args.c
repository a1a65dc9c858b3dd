#include "door/resp/resp_args.h"

#include "base/decimal.h"
#include "core/op.h"
#include "door/resp/resp_client.h"

#define PAGE_COUNT_MAX 10000u

bool resp_args_word(struct resp_args *args, struct slice word)
{
    if (args->left == 0 || !slice_equal_nocase(args->next[0], word))
        return false;
    args->next++;
    args->left--;
    return true;
}

bool resp_args_option(struct resp_args *args, struct slice word, struct slice *ret_value)
{
    if (args->left < 2 || !slice_equal_nocase(args->next[0], word))
        return false;
    *ret_value = args->next[1];
    args->next += 2;
    args->left -= 2;
    return true;
}

bool resp_args_write_options(struct resp_args *args, struct op *op)
{
    while (args->left > 0) {
        if (!resp_args_option(args, SLICE("id"), &op->key) &&
            !resp_args_option(args, SLICE("region"), &op->region))
            return false;
    }
    return true;
}

bool resp_args_page_option(struct resp_args *args, uint64_t *ret_cursor, uint32_t *ret_count)
{
    struct slice value;
    uint64_t number;
    if (resp_args_option(args, SLICE("cursor"), &value))
        return decimal_parse_unsigned(value, ret_cursor);
    if (!resp_args_option(args, SLICE("count"), &value) ||
        !decimal_parse_unsigned(value, &number) || number == 0)
        return false;
    *ret_count = number < PAGE_COUNT_MAX ? (uint32_t)number : PAGE_COUNT_MAX;
    return true;
}

bool resp_args_page(struct resp_args *args, uint64_t *ret_cursor, uint32_t *ret_count)
{
    while (args->left > 0) {
        if (!resp_args_page_option(args, ret_cursor, ret_count))
            return false;
    }
    return true;
}

bool resp_args_number(struct resp_client *client, struct slice text, struct number *ret_number)
{
    int64_t small;
    if (decimal_parse(text, &small)) {
        *ret_number = number_of(small);
        return true;
    }
    if (number_parse(text, ret_number) == ERR_OK)
        return true;
    resp_client_fail_integer(client);
    return false;
}

bool resp_args_int(struct resp_client *client, struct slice text, int64_t *ret_number)
{
    if (decimal_parse(text, ret_number))
        return true;
    resp_client_fail_integer(client);
    return false;
}
