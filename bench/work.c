#include "work.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MAX 256
#define USER_BASE     1000000000u
#define UUID          "550e8400-e29b-41d4-a716-{seq}"
#define SHARDS_8(ten)                                                                              \
    " vc:v0:" #ten "0 vc:v0:" #ten "1 vc:v0:" #ten "2 vc:v0:" #ten "3 vc:v0:" #ten "4 vc:v0:" #ten \
    "5 vc:v0:" #ten "6 vc:v0:" #ten "7"

/* Redis has no LIKE: SADD into the set of likers, or the script like.lua, stand for it. */
static const struct {
    const char *name;
    const char *template;
} named[] = {
    {"ping", "PING"},
    {"get", "GET hot"},
    {"mget64", "MGET" SHARDS_8(0) SHARDS_8(1) SHARDS_8(2) SHARDS_8(3) SHARDS_8(4) SHARDS_8(5)
                   SHARDS_8(6) SHARDS_8(7)},
    {"incr-hot", "INCR hot"},
    {"incr-random", "INCR key:{key}"},
    {"incr-new", "INCR key:{seq}"},
    {"like-new", "LIKE video1 " UUID},
    {"like-numeric", "LIKE video1 {user}"},
    {"like-items", "LIKE video:{item} {user}"},
    {"like-zipf", "LIKE video:{zipf} {user}"},
    {"sadd-new", "SADD video1 " UUID},
    {"sadd-numeric", "SADD video1 {user}"},
    {"sadd-items", "SADD video:{item} {user}"},
    {"evalsha-like-new", "EVALSHA {sha} 3 vlu:v0 vld:v0 vc:v0:37 " UUID},
};

static const struct {
    const char *text;
    unsigned width;
} fields[] = {
    [WORK_KEY] = {"{key}", 12},  [WORK_SEQ] = {"{seq}", 12},  [WORK_USER] = {"{user}", 10},
    [WORK_ITEM] = {"{item}", 8}, [WORK_ZIPF] = {"{zipf}", 8},
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

const char *work_template(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(named); i++)
        if (strcmp(named[i].name, name) == 0)
            return named[i].template;
    return NULL;
}

const char *work_name(size_t index)
{
    return index < COUNT_OF(named) ? named[index].name : NULL;
}

/* --- rendering ---------------------------------------------------------- */

/* The field that `text` begins with, or -1. */
static int field_at(const char *text)
{
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (strncmp(text, fields[i].text, strlen(fields[i].text)) == 0)
            return (int)i;
    return -1;
}

/* Writes one argument with its fields filled in to `out`, noting slots
 * relative to the argument's first byte. NULL, or what is wrong with it. */
static const char *expand_argument(struct work *work, const char *argument, const char *sha,
                                   FILE *out)
{
    for (const char *at = argument; *at != '\0';) {
        int field = field_at(at);
        if (field >= 0) {
            if (work->slot_count == WORK_SLOTS_MAX)
                return "too many fields";
            fflush(out);
            work->slots[work->slot_count++] =
                (struct work_slot){.offset = (size_t)ftell(out), .field = (enum work_field)field};
            fprintf(out, "%0*d", (int)fields[field].width, 0);
            at += strlen(fields[field].text);
        } else if (strncmp(at, "{sha}", 5) == 0) {
            if (!sha)
                return "{sha} needs a script";
            fputs(sha, out);
            at += 5;
        } else {
            fputc(*at++, out);
        }
    }
    return NULL;
}

/* Writes `argument` as a RESP bulk string. */
static const char *render_argument(struct work *work, const char *argument, const char *sha,
                                   FILE *out)
{
    char *text = NULL;
    size_t size = 0;
    size_t first_slot = work->slot_count;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return "out of memory";
    const char *problem = expand_argument(work, argument, sha, memory);
    fclose(memory);

    fprintf(out, "$%zu\r\n", size);
    fflush(out);
    for (size_t i = first_slot; i < work->slot_count; i++)
        work->slots[i].offset += (size_t)ftell(out);
    fprintf(out, "%s\r\n", text);
    free(text);
    return problem;
}

/* Cuts `line` at its spaces; the pieces stay in it. */
static size_t split(char *line, char **arguments)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *piece = strtok_r(line, " ", &rest); piece && count < ARGUMENTS_MAX;
         piece = strtok_r(NULL, " ", &rest))
        arguments[count++] = piece;
    return count;
}

/* Writes the whole command as a RESP array. */
static const char *render(struct work *work, char **arguments, size_t count, const char *sha,
                          FILE *out)
{
    if (count == 0)
        return "the command is empty";
    const char *problem = NULL;
    fprintf(out, "*%zu\r\n", count);
    for (size_t i = 0; i < count && !problem; i++)
        problem = render_argument(work, arguments[i], sha, out);
    return problem;
}

const char *work_init(struct work *work, const char *template, const char *sha)
{
    char *arguments[ARGUMENTS_MAX];
    struct work made = {0};
    const char *problem = "out of memory";
    char *line = strdup(template);
    FILE *request = line ? open_memstream(&made.request, &made.size) : NULL;
    if (!request)
        goto out;

    problem = render(&made, arguments, split(line, arguments), sha, request);
    fclose(request);
    if (problem)
        work_done(&made);
    else
        *work = made;
out:
    free(line);
    return problem;
}

void work_done(struct work *work)
{
    free(work->request);
    *work = (struct work){0};
}

/* --- batches ------------------------------------------------------------ */

static void put_digits(char *to, uint64_t value, unsigned width)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    for (; width >= 2; width -= 2) {
        memcpy(to + width - 2, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
}

/* xorshift64*: fast, and even enough to pick keys. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)next_random(state) * limit) >> 64);
}

/* Multiplying by a prime above `spread` is a permutation of the numbers below
 * it: users come in no order, and none comes twice before all have come. */
static uint64_t scatter(uint64_t seq, uint64_t spread)
{
    const uint64_t prime = 2654435761u;
    return spread == 0 ? seq : seq % spread * prime % spread;
}

/* The inverse of a distribution whose density falls as 1 / n. */
static uint64_t zipf_below(uint64_t *state, uint64_t limit)
{
    double share = (double)(next_random(state) >> 11) * 0x1p-53;
    uint64_t number = (uint64_t)exp(share * log((double)limit + 1)) - 1;
    return number < limit ? number : limit - 1;
}

static uint64_t number_for(enum work_field field, struct work_numbers *numbers)
{
    switch (field) {
    case WORK_KEY:
        return random_below(&numbers->random, numbers->keys);
    case WORK_SEQ:
        return numbers->seq;
    case WORK_USER:
        return USER_BASE + scatter(numbers->seq, numbers->spread);
    case WORK_ITEM:
        return numbers->seq % numbers->items;
    case WORK_ZIPF:
        return zipf_below(&numbers->random, numbers->items);
    }
    return 0;
}

void work_lay_out(const struct work *work, char *batch, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(batch + i * work->size, work->request, work->size);
}

void work_renew(const struct work *work, struct work_numbers *numbers, char *batch, size_t count)
{
    assert(numbers->keys > 0 && numbers->items > 0 && numbers->spread <= WORK_SPREAD_MAX);

    if (work->slot_count == 0)
        return;
    for (size_t i = 0; i < count; i++, numbers->seq++) {
        char *request = batch + i * work->size;
        for (size_t s = 0; s < work->slot_count; s++) {
            const struct work_slot *slot = &work->slots[s];
            put_digits(request + slot->offset, number_for(slot->field, numbers),
                       fields[slot->field].width);
        }
    }
}
