/* move_steps.c - single steps: calls of lua/move.lua, the map at home, waiting for the log. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/sequence.h"
#include "hot/redis/ask.h"
#include "hot/redis/move_own.h"
#include "hot/redis/spread.h"

#define LOG_MS 3000u /* for the log to have what was written a moment ago */

_Atomic int64_t move_steps_left = -1;

/* ---- calls ---- */

uint64_t move_now_ns(const struct move *move)
{
    return env_monotonic_ns(move->layer->env);
}

bool move_is_late(const struct move *move)
{
    return move_now_ns(move) >= move->deadline_ns;
}

void move_pause(uint64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)};
    nanosleep(&time, NULL);
}

void move_init(struct move *move, struct layer *layer, struct slice id, uint64_t timeout_ms)
{
    *move =
        (struct move){.layer = layer, .id = id, .home = layer_home(hash_stable(id)), .type = 'n'};
    move->deadline_ns = move_now_ns(move) + timeout_ms * 1000000;
    hand_over_init(&move->over, move->home, atomic_load(&layer->has_store));
    call_init(&move->call, layer, move->home, SCRIPT_MOVE);
}

void move_done(struct move *move)
{
    call_done(&move->call);
    words_done(&move->words);
    many_free(move->noted);
    free(move->frozen);
}

/* KEYS cell, record; ARGV run id, verb. */
void move_call(struct move *move, unsigned cell, const char *verb)
{
    call_clear(&move->call, cell, SCRIPT_MOVE);
    call_key_of(&move->call, "r", move->id);
    call_arg_text(&move->call, verb);
}

/* Nothing is under way, or the process is as good as dead: see move_steps_left. */
bool move_is_killed(void)
{
    int64_t left = atomic_load(&move_steps_left);
    while (left > 0 && !atomic_compare_exchange_weak(&move_steps_left, &left, left - 1)) {
    }
    return left == 0;
}

/* Where the cells are is known on the layer's thread only. */
static void take_answer(void *arg, const struct redisReply *reply)
{
    struct move *move = arg;
    words_take(&move->words, reply);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        move->primary_of[cell] = (uint8_t)layer_primary_of(move->layer, cell);
}

enum err move_ask(struct move *move)
{
    if (move_is_killed())
        return ERR_UNAVAILABLE;
    for (unsigned tries = 0;; tries++) {
        enum err err = ask(&move->call, take_answer, move);
        bool is_closed = !err && words_begin_with(&move->words, "closed");
        if (!err && !is_closed)
            return ERR_OK;
        if (err == ERR_REFUSED || spreads_are_closing(move->layer) || move_is_late(move))
            return err ? err : ERR_UNAVAILABLE;
        move_pause(tries < 10 ? 5 : 100);
    }
}

/* What the word says that a step was answered with. */
enum err move_meaning(const struct words *words)
{
    if (words_begin_with(words, "ok"))
        return ERR_OK;
    if (words_begin_with(words, "stale"))
        return ERR_BUSY; /* somebody else was quicker */
    if (words_begin_with(words, "again"))
        return ERR_COLD;
    return ERR_CORRUPT; /* none, odd: a piece was lost */
}

/* m<ss>:<id> or t<version><ss>:<id> of a slice. */
void move_slice_key(struct move *move, const char *letter, unsigned slice)
{
    char name[48];
    snprintf(name, sizeof(name), "%s%02u", letter, slice);
    call_key_of(&move->call, name, move->id);
}

void move_slice_keys(struct move *move, const char *letter, uint64_t slices)
{
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        if (slices & map_bit(s))
            move_slice_key(move, letter, s);
}

void move_arg_slices(struct move *move, uint64_t slices)
{
    char mask[BUCKET_SLICES];
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        mask[s] = slices & map_bit(s) ? '1' : '-';
    call_arg(&move->call, (struct slice){mask, sizeof(mask)});
}

/* "<home>:<id>" */
void move_arg_member(const struct move *move, struct call *call)
{
    char member[LIMIT_ID_BYTES + 8];
    int size = snprintf(member, sizeof(member), "%u:%.*s", move->home, SLICE_ARGS(move->id));
    call_arg(call, (struct slice){member, (size_t)size});
}

void move_add_after(struct section *section, const struct move *move, unsigned origin,
                    uint64_t sequence)
{
    section_event(section, &(struct event){.type = EVENT_AFTER,
                                           .incarnation = move->incarnation,
                                           .id = move->id,
                                           .after_origin = origin,
                                           .after_sequence = sequence});
}

/* Events, and the time. */
static void arg_events(struct call *call, const struct section *section)
{
    call_arg(call, buffer_slice(&section->body));
    call_arg_number(call, (uint64_t)env_wall_ms(call->layer->env));
}

void move_arg_after(const struct move *move, struct call *call, unsigned origin, uint64_t sequence)
{
    struct section section;
    section_init(&section);
    move_add_after(&section, move, origin, sequence);
    arg_events(call, &section);
    section_done(&section);
}

/* ---- at home ---- */

/* "<shards> <policy> <has_floor> ..." */
static uint32_t shards_asked(struct slice options)
{
    const char *space = options.size > 0 ? memchr(options.data, ' ', options.size) : NULL;
    uint64_t asked = 1;
    if (space)
        decimal_parse_unsigned((struct slice){options.data, (size_t)(space - options.data)},
                               &asked);
    return asked >= 1 && asked <= LIMIT_CELLS ? (uint32_t)asked : 1;
}

static bool has_floor(struct slice options)
{
    unsigned words = 0;
    for (size_t i = 0; i < options.size; i++)
        if (options.data[i] == ' ' && ++words == 2)
            return i + 1 < options.size && options.data[i + 1] == '1';
    return false;
}

enum err move_read(struct move *move)
{
    move_call(move, move->home, "read");
    enum err err = move_ask(move);
    if (err)
        return err;
    if (words_begin_with(&move->words, "none"))
        return ERR_NOT_FOUND;
    move->type = words_at(&move->words, 0).data[0];
    move->incarnation = (uint32_t)words_number(&move->words, 1);
    move->over.last_version = words_number(&move->words, 3);
    move->stays = has_floor(words_at(&move->words, 4));
    move->asked = shards_asked(words_at(&move->words, 4));
    move->hot_ms = words_number(&move->words, 5);
    struct slice map = words_at(&move->words, 2);
    bool is_item = move->type != 'c' && move->type != 'C';
    if (map.size == 0)
        map_init(&move->over.map, is_item, move->home);
    else if (!map_parse(map, &move->over.map))
        return ERR_CORRUPT;
    return ERR_OK;
}

/* Of home's record, with the map as it is. */
static char type_with(const struct map *map, unsigned home)
{
    if (map->change == MAP_DISSOLVE)
        return 'F';
    if (map_is_folded(map, home))
        return map->is_item ? 's' : 'c';
    return map->is_item ? 'S' : 'C';
}

/* The slices that are at home, if the map is right. */
static uint64_t slices_at_home(const struct move *move)
{
    const struct map *map = &move->over.map;
    uint64_t slices = 0;
    for (unsigned s = 0; s < BUCKET_SLICES && map->change != MAP_DISSOLVE; s++)
        slices |= map->owner[s] == move->home ? map_bit(s) : 0;
    return slices;
}

void move_begin_write(struct move *move, const struct section *events)
{
    const struct map *map = &move->over.map;
    char type = type_with(map, move->home);
    move->text[0] = 0;
    if (!map_is_folded(map, move->home))
        map_format(map, move->text);
    move_call(move, move->home, "map");
    call_key(&move->call, "out");
    call_arg_number(&move->call, move->over.before);
    call_arg_number(&move->call, map->version);
    call_arg_text(&move->call, move->text);
    call_arg(&move->call, (struct slice){&type, 1});
    arg_events(&move->call, events);
    call_arg_number(&move->call, events->count);
    call_arg_number(&move->call, move->incarnation);
    move_arg_slices(move, slices_at_home(move));
}

/* Sent twice, a write finds itself. Two nodes may choose the same version, but not the same map. */
enum err move_end_write(struct move *move)
{
    enum err err = move_ask(move);
    if (err)
        return err;
    bool is_own = words_begin_with(&move->words, "stale") &&
                  words_number(&move->words, 2) == move->over.map.version &&
                  slice_equal(words_at(&move->words, 1), slice_of(move->text));
    return is_own ? ERR_OK : move_meaning(&move->words);
}

enum err move_write(struct move *move)
{
    struct section section;
    section_init(&section);
    move_add_after(&section, move, move->home, 0);
    move_begin_write(move, &section);
    section_done(&section);
    return move_end_write(move);
}

/* ---- many cells at once ---- */

struct many *many_new(struct move *move, uint64_t cells)
{
    struct many *many = memory_take_zeroed(sizeof(*many));
    many->move = move;
    many->cells = cells;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        call_init(&many->calls[cell], move->layer, cell, SCRIPT_MOVE);
    return many;
}

void many_free(struct many *many)
{
    if (!many)
        return;
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        call_done(&many->calls[cell]);
        words_done(&many->words[cell]);
    }
    free(many);
}

/* Asks those of `cells` once, all at the same time; says who has not answered. */
static uint64_t ask_once(struct many *many, uint64_t cells, many_make_fn *make, enum err *ret_err)
{
    enum err codes[LIMIT_CELLS];
    void *words[LIMIT_CELLS];
    size_t count = 0;
    for (uint64_t left = cells; left != 0; left &= left - 1, count++) {
        unsigned cell = (unsigned)__builtin_ctzll(left);
        call_clear(&many->calls[count], cell, SCRIPT_MOVE);
        make(many->move, &many->calls[count]);
        words[count] = &many->words[cell];
    }
    ask_all(many->calls, count, codes, words_take, words);
    for (size_t i = 0; i < count; i++) {
        unsigned cell = many->calls[i].cell;
        if (codes[i] == ERR_OK && !words_begin_with(&many->words[cell], "closed"))
            cells &= ~map_bit(cell);
        else
            *ret_err = codes[i] ? codes[i] : ERR_UNAVAILABLE;
    }
    return cells;
}

enum err many_ask(struct many *many, many_make_fn *make)
{
    if (move_is_killed())
        return ERR_UNAVAILABLE;
    uint64_t left = many->cells;
    enum err err = ERR_OK;
    for (unsigned tries = 0; left != 0; tries++) {
        left = ask_once(many, left, make, &err);
        if (left == 0)
            break;
        if (err == ERR_REFUSED || spreads_are_closing(many->move->layer) ||
            move_is_late(many->move))
            return err;
        move_pause(tries < 10 ? 5 : 100);
    }
    return ERR_OK;
}

enum err many_meaning(const struct many *many)
{
    for (uint64_t left = many->cells; left != 0; left &= left - 1) {
        enum err err = move_meaning(&many->words[__builtin_ctzll(left)]);
        if (err)
            return err;
    }
    return ERR_OK;
}

void move_begin_call(const struct move *move, struct call *call, const char *verb)
{
    call_key_of(call, "r", move->id);
    call_arg_text(call, verb);
}

/* ---- waiting for the log ---- */

static bool is_relayed(struct slice relayed, uint64_t epoch, uint64_t n)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(relayed));
    uint64_t has_epoch;
    uint64_t has_n;
    if (sscanf(text, "%" SCNu64 "-%" SCNu64, &has_epoch, &has_n) != 2) /* NOLINT: checked */
        return false;
    return sequence_of(has_epoch, has_n) >= sequence_of(epoch, n);
}

enum err move_wait_for_log(struct move *move, unsigned cell, uint64_t epoch, uint64_t n)
{
    uint64_t until_ns = move_now_ns(move) + LOG_MS * UINT64_C(1000000);
    for (unsigned tries = 0;; tries++) {
        move_call(move, cell, "progress");
        enum err err = move_ask(move);
        if (err)
            return err;
        if (words_number(&move->words, 0) != epoch)
            return ERR_BUSY;
        if (is_relayed(words_at(&move->words, 2), epoch, n))
            return ERR_OK;
        if (move_now_ns(move) >= until_ns)
            return ERR_TIMEOUT;
        move_pause(tries < 20 ? 1 : 10);
    }
}

enum err move_wait_home(struct move *move)
{
    move_call(move, move->home, "progress");
    enum err err = move_ask(move);
    return err ? err
               : move_wait_for_log(move, move->home, words_number(&move->words, 0),
                                   words_number(&move->words, 1));
}
