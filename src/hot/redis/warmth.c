/* warmth.c - whether something has become hot enough to be spread, or quiet enough to be folded.
 *
 * A node judges by the writes that go through it, by the rule of core/heat.h. Others may see more:
 * a node that finds something hot says so at home every few seconds, and nothing is folded that
 * any node has found hot of late. On a single primary nothing is spread by itself: its cells share
 * one processor. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hot/redis/mover.h"
#include "hot/redis/spread.h"

#define NOTE_EVERY  4u
#define TELL_HOT_NS UINT64_C(3000000000)

struct warmth {
    uint64_t began_ns; /* of the window */
    uint64_t writes[LIMIT_CELLS];
    struct heat_sample samples[LIMIT_CELLS];
};

struct warmth *warmth_new(void)
{
    return memory_take_zeroed(sizeof(struct warmth));
}

void warmth_note(struct spreads *spreads, const struct op *op, unsigned cell)
{
    struct warmth *warmth = spreads->warmth;
    if (!op->changed || spreads->layer->options.spread_rate == 0)
        return;
    if (warmth->writes[cell]++ % NOTE_EVERY == 0)
        heat_note(&warmth->samples[cell], op->stable, op->target);
}

static struct heat_rule rule_of(const struct spreads *spreads)
{
    bool is_alone = layer_primaries(spreads->layer) <= 1;
    return (struct heat_rule){.spread_rate = spreads->layer->options.spread_rate,
                              .shards_max = is_alone ? 1 : LIMIT_CELLS};
}

static void look_at_cell(struct spreads *spreads, unsigned cell, const struct heat_rule *rule,
                         uint32_t duration_ms)
{
    struct warmth *warmth = spreads->warmth;
    struct heat_sample *sample = &warmth->samples[cell];
    const struct heat_candidate *top = heat_top(sample);
    if (top && sample->noted > 0) {
        struct heat_window window = {.writes = warmth->writes[cell] * top->count / sample->noted,
                                     .duration_ms = duration_ms};
        struct heat_verdict verdict = heat_judge(rule, &window, 1, 1, 0);
        if (verdict.shards > 1)
            mover_ask_id(spreads->mover, heat_candidate_id(top), verdict.shards, verdict.reason);
    }
    heat_clear(sample);
    warmth->writes[cell] = 0;
}

/* ---- what is spread ---- */

struct hot_call {
    struct call call;
};

static void told(void *arg, enum err code, const struct redisReply *reply)
{
    struct hot_call *hot = arg;
    (void)code, (void)reply;
    call_done(&hot->call);
    free(hot);
}

static void tell_hot(struct spread_entry *entry)
{
    struct layer *layer = entry->layer;
    struct hot_call *hot = memory_take_zeroed(sizeof(*hot));
    call_init(&hot->call, layer, entry->home, SCRIPT_MOVE);
    call_key_of(&hot->call, "r", entry->id);
    call_arg_text(&hot->call, "hot");
    call_arg_number(&hot->call, (uint64_t)env_wall_ms(layer->env));
    call_start(&hot->call, 500, told, hot);
}

static void look_at_entry(struct spreads *spreads, struct spread_entry *entry,
                          const struct heat_rule *rule, uint32_t duration_ms, uint64_t now_ns)
{
    struct heat_window window = {.writes = entry->window_writes, .duration_ms = duration_ms};
    entry->last_window_writes = entry->window_writes;
    entry->window_writes = 0;
    if (!entry->has_map || entry->folds || entry->is_moving || entry->map.change != MAP_STEADY)
        return;
    uint32_t asked = entry->create.shards;
    asked = asked >= 1 && asked <= LIMIT_CELLS ? asked : 1;
    struct heat_verdict verdict =
        heat_judge(rule, &window, entry->map.shards, asked, entry->quiet_windows);
    entry->quiet_windows = verdict.quiet_windows;
    bool is_warm = rule->spread_rate > 0 &&
                   window.writes * 8000 / duration_ms >= rule->spread_rate * entry->map.shards;
    if (is_warm && now_ns - entry->told_hot_ns > TELL_HOT_NS) {
        entry->told_hot_ns = now_ns;
        tell_hot(entry);
    }
    if (verdict.shards != entry->map.shards)
        entry->is_moving =
            mover_ask(spreads->mover, entry, MOVER_RESHARD, verdict.shards, verdict.reason);
}

void spreads_balance(struct spreads *spreads)
{
    struct warmth *warmth = spreads->warmth;
    uint64_t now_ns = spreads_now_ns(spreads);
    uint64_t duration_ms = (now_ns - warmth->began_ns) / 1000000;
    if (duration_ms < HEAT_WINDOW_MS)
        return;
    bool is_sound = duration_ms < UINT64_C(10) * HEAT_WINDOW_MS;
    struct heat_rule rule = rule_of(spreads);
    warmth->began_ns = now_ns;
    for (unsigned cell = 0; cell < LIMIT_CELLS && is_sound; cell++)
        look_at_cell(spreads, cell, &rule, (uint32_t)duration_ms);
    for (unsigned i = 0; i < SPREAD_TABLE && spreads->count > 0 && is_sound; i++)
        for (struct spread_entry *entry = spreads->table[i]; entry; entry = entry->next)
            look_at_entry(spreads, entry, &rule, (uint32_t)duration_ms, now_ns);
}
