#include "door/resp/resp_args.h"

#include <assert.h>
#include <string.h>

#include "base/decimal.h"
#include "core/op.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_worker.h"
#include "flow/check.h"

#define PAGE_COUNT_MAX 10000u

bool resp_args_word(struct resp_args *args, struct slice word)
{
    if (args->left == 0 || !slice_equal_nocase(args->next[0], word))
        return false;
    args->next++;
    args->left--;
    return true;
}

/* Of whatever was said twice, one would be ignored. */
static bool is_first(struct resp_args *args, const char *word)
{
    for (unsigned i = 0; i < args->option_count; i++) {
        if (strcmp(args->options[i], word) == 0)
            return false;
    }
    assert(args->option_count < RESP_OPTIONS_MAX);
    args->options[args->option_count++] = word;
    return true;
}

bool resp_args_option(struct resp_args *args, struct slice word, struct slice *ret_value)
{
    if (args->left < 2 || !slice_equal_nocase(args->next[0], word) || !is_first(args, word.data))
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

static bool accept(struct resp_client *client, enum err err, const struct error *error)
{
    if (err)
        resp_client_fail_with(client, error);
    return err == ERR_OK;
}

bool resp_args_counter(struct resp_client *client, struct slice id)
{
    struct error error;
    return accept(client, check_counter(client->worker->service->kinds, id, &error), &error);
}

bool resp_args_item(struct resp_client *client, struct slice id)
{
    struct error error;
    return accept(client, check_id(id, &error), &error);
}

bool resp_args_user(struct resp_client *client, struct slice user)
{
    struct error error;
    return accept(client, check_user(user, &error), &error);
}

bool resp_args_pattern(struct resp_client *client, struct slice pattern)
{
    struct error error;
    return accept(client, check_pattern(pattern, &error), &error);
}

bool resp_args_time(struct resp_client *client, int64_t time_ms)
{
    struct error error;
    return accept(client, check_time(time_ms, &error), &error);
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
