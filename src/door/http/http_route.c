#include "door/http/http_route.h"

#include <assert.h>
#include <llhttp.h>
#include <string.h>

#include "door/http/http_handlers.h"

#define OPEN   HTTP_ROUTE_OPEN
#define JSON   HTTP_ROUTE_JSON
#define LINES  HTTP_ROUTE_LINES
#define ALONE  HTTP_ROUTE_ALONE
#define MANY   HTTP_ROUTE_MANY
#define WRITE  HTTP_ROUTE_WRITE
#define TAGGED HTTP_ROUTE_TAGGED
#define SEARCH HTTP_ROUTE_SEARCH

#define SSE    "text/event-stream"
#define TEXT   "text/plain"
#define ANY    "*/*"
#define SCRIPT "text/javascript"

/* The busiest first. */
const struct http_route http_route_table[] = {
    {HTTP_GET, "/v1/counters/{id}", TAGGED, http_counter_get, "getCounter", "counters",
     "The value of a counter", "consistency exact", NULL, 200, "Counter"},
    {HTTP_PUT, "/v1/items/{item}/reactions/{user}", JSON | WRITE, http_reaction_put, "putReaction",
     "reactions", "The user holds this reaction from now on; like if the body does not say", NULL,
     "ReactionChoice", 200, "ReactionChange"},
    {HTTP_DELETE, "/v1/items/{item}/reactions/{user}", WRITE, http_reaction_delete,
     "deleteReaction", "reactions", "The user holds no reaction any more", "kind", NULL, 200,
     "ReactionChange"},
    {HTTP_GET, "/v1/items/{item}/reactions/{user}", TAGGED, http_reaction_get, "getReaction",
     "reactions", "The reaction that the user holds", NULL, NULL, 200, "Reaction"},
    {HTTP_POST, "/v1/items/{item}/reactions/{user}/toggle", JSON | WRITE, http_reaction_toggle,
     "toggleReaction", "reactions", "Takes the reaction back if the user holds it, else gives it",
     NULL, "ReactionChoice", 200, "ReactionChange"},
    {HTTP_GET, "/v1/items/{item}", TAGGED, http_item_get, "getItem", "items",
     "All counts of an item", "exact", NULL, 200, "Item"},
    {HTTP_POST, "/v1/batch", LINES | ALONE | WRITE, http_batch, "batch", "batch",
     "Many writes and reads, a line each, with a line of answer each", NULL, "BatchLine", 200,
     "BatchAnswer"},

    {HTTP_POST, "/v1/counters/{id}/add", JSON | WRITE, http_counter_add, "addToCounter", "counters",
     "Adds to a counter, which begins at 0 if there is none", NULL, "Add", 200, "CounterChange"},
    {HTTP_PUT, "/v1/counters/{id}", JSON | WRITE, http_counter_create, "createCounter", "counters",
     "Makes a counter with shards, policy and floor", NULL, "Create", 201, "CounterChange"},
    {HTTP_POST, "/v1/counters/{id}", JSON | WRITE, http_counter_create, "createCounterByPost",
     "counters", "As PUT", NULL, "Create", 201, "CounterChange"},
    {HTTP_DELETE, "/v1/counters/{id}", WRITE, http_counter_delete, "deleteCounter", "counters",
     "Deletes a counter, or an item with all its reactions", NULL, NULL, 200, "Deletion"},
    {HTTP_POST, "/v1/counters/{id}/reset", JSON | WRITE, http_counter_reset, "resetCounter",
     "counters", "Sets a counter, to 0 if the body does not say; an event like any other", NULL,
     "Reset", 200, "CounterChange"},
    {HTTP_GET, "/v1/counters/{id}/describe", TAGGED, http_counter_describe, "describeCounter",
     "counters", "Shards, policy, floor and times of a counter", NULL, NULL, 200, "Description"},
    {HTTP_GET, "/v1/counters/{id}/shards", TAGGED, http_counter_describe, "describeShards",
     "counters", "As describe", NULL, NULL, 200, "Description"},
    {HTTP_POST, "/v1/counters/{id}/recount", ALONE, http_counter_recount, "recountCounter", "proof",
     "Adds up a counter from the log, and compares", NULL, NULL, 200, "Recount"},
    {HTTP_GET, "/v1/counters/{id}/events", ALONE | TAGGED | SEARCH, http_counter_events,
     "getCounterEvents", "proof", "The events of a counter or item, newest first", "cursor limit",
     NULL, 200, "EventPage"},
    {HTTP_GET, "/v1/counters/{id}/at", ALONE | TAGGED | SEARCH, http_counter_at, "getCounterAt",
     "proof", "The value of a counter at a time", "!time", NULL, 200, "CounterAt"},
    {HTTP_GET, "/v1/counters/{id}/values", ALONE | TAGGED | SEARCH, http_counter_values,
     "getCounterValues", "proof", "The values of a counter at evenly spread times",
     "!since !until points", NULL, 200, "CounterValues"},
    {HTTP_GET, "/v1/counters", ALONE | MANY | TAGGED | SEARCH, http_counters_list, "listCounters",
     "counters", "Counters by their ids, or all that match a pattern, page by page",
     "ids match cursor limit", NULL, 200, "CounterPage"},

    {HTTP_GET, "/v1/items/{item}/members", TAGGED, http_item_members, "getMembers", "items",
     "The users who hold a reaction on an item, page by page", "kind cursor limit", NULL, 200,
     "MemberPage"},
    {HTTP_GET, "/v1/items/{item}/history", ALONE | TAGGED | SEARCH, http_item_history, "getHistory",
     "items", "What users did to an item, newest first", "user cursor limit", NULL, 200,
     "HistoryPage"},
    {HTTP_POST, "/v1/reactions/mine", JSON | MANY, http_reactions_mine, "getMine", "reactions",
     "What a user holds on each of many items", NULL, "Mine", 200, "MineAnswer"},
    {HTTP_GET, "/v1/users/{user}/reactions", ALONE | TAGGED | SEARCH, http_user_reactions,
     "getUserReactions", "users", "The items on which a user holds a reaction, page by page",
     "cursor limit", NULL, 200, "UserPage"},
    {HTTP_DELETE, "/v1/users/{user}", ALONE | WRITE, http_user_erase, "eraseUser", "users",
     "Withdraws all that a user holds, and forgets the name; a task", NULL, NULL, 202, "TaskStart"},

    {HTTP_GET, "/v1/events", ALONE | TAGGED | SEARCH, http_lives, "getLifecycle", "pipeline",
     "What became of the changes on their way to the store, newest first",
     "state counter since until cursor limit", NULL, 200, "LifePage"},
    {HTTP_GET, "/v1/dlq", ALONE | TAGGED | SEARCH, http_letters, "getLetters", "pipeline",
     "The dead letters, newest first", "cursor limit", NULL, 200, "LetterPage"},
    {HTTP_POST, "/v1/dlq/redrive", ALONE | WRITE, http_letters_redrive, "redriveLetters",
     "pipeline", "Tries all dead letters again", NULL, NULL, 200, "LetterCount"},
    {HTTP_POST, "/v1/dlq/discard", ALONE | WRITE, http_letters_discard, "discardLetters",
     "pipeline", "Gives up all dead letters", NULL, NULL, 200, "LetterCount"},
    {HTTP_GET, "/v1/dlq/{event}", ALONE | TAGGED | SEARCH, http_letter, "getLetter", "pipeline",
     "A dead letter with its raw bytes", NULL, NULL, 200, "Letter"},
    {HTTP_POST, "/v1/dlq/{event}", ALONE | WRITE, http_letter_redrive, "redriveLetter", "pipeline",
     "Tries a dead letter again", NULL, NULL, 200, "LetterCount"},
    {HTTP_DELETE, "/v1/dlq/{event}", ALONE | WRITE, http_letter_discard, "discardLetter",
     "pipeline", "Gives up a dead letter", NULL, NULL, 200, "LetterCount"},

    {HTTP_POST, "/v1/recounts", JSON | ALONE | WRITE, http_recounts_start, "startRecount", "proof",
     "Recounts all counters that match a pattern; a task", NULL, "RecountStart", 202, "TaskStart"},
    {HTTP_POST, "/v1/audits", JSON | ALONE | WRITE, http_audits_start, "startAudit", "proof",
     "Compares all places where a count is kept, and repairs; a task", NULL, "AuditStart", 202,
     "TaskStart"},
    {HTTP_GET, "/v1/audits", ALONE | TAGGED | SEARCH, http_audits, "getAudits", "proof",
     "The audit trail, newest first", "cursor limit", NULL, 200, "AuditPage"},
    {HTTP_GET, "/v1/tasks", ALONE | TAGGED, http_tasks, "getTasks", "proof",
     "Tasks of the last hour", NULL, NULL, 200, "TaskList"},
    {HTTP_GET, "/v1/tasks/{task}", ALONE | TAGGED, http_task, "getTask", "proof",
     "How far a task is", NULL, NULL, 200, "Task"},

    {HTTP_GET, "/v1/changes", ALONE | MANY | SEARCH, http_changes, "watch", "changes",
     "Live values of counters, as server-sent events", "ids match", NULL, 200, SSE},
    {HTTP_GET, "/v1/status", ALONE, http_status, "getStatus", "server", "How the server is", NULL,
     NULL, 200, "Status"},

    {HTTP_GET, "/v1/figures", ALONE, http_figures, "getFigures", "server",
     "Figures of the last hour, one sample each second", "since", NULL, 200, "Figures"},

    {HTTP_POST, "/like", JSON | WRITE, http_seed_like, "seedLike", "short paths",
     "Likes a post, or takes the like back", NULL, "SeedLike", 200, "SeedLikeAnswer"},
    {HTTP_GET, "/like/count/{id}", TAGGED, http_seed_like_count, "seedLikeCount", "short paths",
     "The likes of a post", NULL, NULL, 200, "SeedCount"},

    {HTTP_GET, "/openapi.json", ALONE | OPEN | TAGGED, http_openapi, "getOpenapi", "server",
     "This description", NULL, NULL, 200, "Any"},
    {HTTP_GET, "/metrics", ALONE, http_metrics_page, "getMetrics", "server",
     "Figures for Prometheus", NULL, NULL, 200, TEXT},
    {HTTP_GET, "/livez", OPEN, http_livez, "getLive", "server", "Does the server answer?", NULL,
     NULL, 200, TEXT},
    {HTTP_GET, "/readyz", ALONE | OPEN, http_readyz, "getReady", "server",
     "Can the server take writes?", "verbose", NULL, 200, TEXT},
    {HTTP_GET, "/", OPEN, http_index, "getIndex", "server",
     "Where to go from here; who takes text/html gets the web page", NULL, NULL, 200, "Any"},
    {HTTP_GET, "/{video}/count", TAGGED, http_seed_video_count, "seedVideoCount", "short paths",
     "The likes of a video", NULL, NULL, 200, "SeedVideo"},
    /* Below the one above: there may be a video whose name is "page". */
    {HTTP_GET, "/page/{file}", ALONE | OPEN | TAGGED, http_page_asset, "getPageFile", "page",
     "A file of the web page", NULL, NULL, 200, ANY},
    {HTTP_GET, "/tally.js", ALONE | OPEN | TAGGED, http_page_button, "getButton", "page",
     "The button for other sites", NULL, NULL, 200, SCRIPT},
};
const unsigned http_route_count = sizeof(http_route_table) / sizeof(http_route_table[0]);

void http_routes_init(struct http_routes *routes)
{
    _Static_assert(sizeof(http_route_table) / sizeof(http_route_table[0]) <= HTTP_ROUTES_MAX,
                   "raise HTTP_ROUTES_MAX");
    for (unsigned i = 0; i < http_route_count; i++) {
        struct http_route_parts *parts = &routes->parts[i];
        parts->first = 0;
        parts->count = http_url_split(slice_of(http_route_table[i].path), parts->segments);
        assert(parts->count <= HTTP_URL_SEGMENTS_MAX);
        for (unsigned s = 0; s < parts->count; s++)
            parts->is_arg[s] = parts->segments[s].size > 0 && parts->segments[s].data[0] == '{';
        while (strcmp(http_route_table[parts->first].path, http_route_table[i].path) != 0)
            parts->first++;
    }
}

/* An argument takes any segment that is not empty. */
static bool fits(const struct http_route_parts *parts, const struct slice *segments)
{
    for (unsigned i = 0; i < parts->count; i++) {
        if (parts->is_arg[i] ? segments[i].size == 0
                             : !slice_equal(parts->segments[i], segments[i]))
            return false;
    }
    return true;
}

static void take_args(const struct http_route_parts *parts, const struct slice *segments,
                      struct http_match *match)
{
    unsigned count = 0;
    for (unsigned i = 0; i < parts->count; i++) {
        if (parts->is_arg[i])
            match->args[count++] = segments[i];
    }
}

void http_routes_find(const struct http_routes *routes, unsigned method, struct slice path,
                      struct http_match *ret_match)
{
    struct slice segments[HTTP_URL_SEGMENTS_MAX];
    unsigned count = http_url_split(path, segments);
    unsigned wanted = method == HTTP_HEAD ? HTTP_GET : method;
    ret_match->route = NULL;
    ret_match->methods = 0;
    unsigned first = http_route_count; /* of the path that fits; none yet */
    for (unsigned i = 0; i < http_route_count; i++) {
        const struct http_route_parts *parts = &routes->parts[i];
        if (parts->count != count || (first != http_route_count && parts->first != first) ||
            !fits(parts, segments))
            continue;
        first = parts->first;
        if (http_route_table[i].method == wanted) {
            take_args(parts, segments, ret_match);
            ret_match->route = &http_route_table[i];
            return;
        }
        ret_match->methods |= 1u << http_route_table[i].method;
    }
}
