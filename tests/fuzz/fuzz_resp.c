/* fuzz_resp.c - any bytes as what a Redis client might send.
 *
 * The first byte says where the rest is cut. Whole or cut, the same requests
 * and the same error must come out, and no byte outside may be read. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "door/resp/resp_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

struct seen {
    uint64_t digest;
    size_t taken;
    size_t requests;
    bool broken;
};

static void note(struct seen *seen, struct slice bytes)
{
    seen->digest = hash_stable_seeded(bytes, seen->digest + 1);
}

static void note_request(struct seen *seen, const struct resp_parser *parser, const char *data,
                         size_t size)
{
    check(parser->argc <= RESP_ARGS_MAX);
    check(parser->used > 0 && parser->used <= size);
    for (unsigned i = 0; i < parser->argc; i++) {
        struct slice arg = parser->argv[i];
        bool in_data = arg.data >= data && arg.data + arg.size <= data + size;
        bool in_scratch = arg.data >= parser->scratch &&
                          arg.data + arg.size <= parser->scratch + parser->scratch_used;
        check(in_data || in_scratch);
        note(seen, arg);
    }
    seen->taken += parser->used;
    seen->requests++;
}

/* Takes what is whole in the first `size` bytes. */
static void feed(struct resp_parser *parser, const char *data, size_t size, struct seen *seen)
{
    while (!seen->broken) {
        size_t left = size - seen->taken;
        char *copy = malloc(left > 0 ? left : 1); /* of its own size: no byte too far */
        memcpy(copy, data + seen->taken, left);
        enum resp_found found = resp_parse(parser, (struct slice){copy, left});
        if (found == RESP_REQUEST)
            note_request(seen, parser, copy, left);
        free(copy);
        if (found == RESP_MORE) {
            check(parser->need > left);
            return;
        }
        if (found == RESP_BROKEN) {
            seen->broken = true;
            note(seen, slice_of(parser->error));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct resp_parser parser;
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t count = size - 1;
    size_t cut = count > 0 ? data[0] % (count + 1) : 0;

    for (int stranger = 0; stranger < 2; stranger++) {
        struct seen whole = {0};
        resp_parser_init(&parser);
        parser.stranger = stranger;
        feed(&parser, bytes, count, &whole);

        struct seen halves = {0};
        resp_parser_init(&parser);
        parser.stranger = stranger;
        feed(&parser, bytes, cut, &halves);
        feed(&parser, bytes, count, &halves);
        check(whole.digest == halves.digest && whole.taken == halves.taken &&
              whole.requests == halves.requests && whole.broken == halves.broken);
    }
    return 0;
}
