/* proof_drift.c - a difference that is believed: told to everybody, and mended if it was asked for.
 */
#include "flow/proof_own.h"

#include <stdio.h>

#include "base/message.h"
#include "flow/members.h"

#define NUMBER_TEXT (NUMBER_DIGITS_MAX + 2)

static const char *const place_names[PLACE_COUNT] = {"hot", "hot members", "store",
                                                     "store members"};

struct slice sight_count_id(const struct desk *desk, const struct sight *sight, char *to)
{
    if (sight->kind == KIND_NONE)
        return sight->id;
    struct slice kind = kinds_name(desk->kinds, sight->kind);
    memcpy(to, sight->id.data, sight->id.size);
    to[sight->id.size] = '/';
    memcpy(to + sight->id.size + 1, kind.data, kind.size);
    return (struct slice){to, sight->id.size + 1 + kind.size};
}

static void ask_note(void *arg, struct store *store)
{
    struct error error;
    (void)store_note(store, arg, &error); /* a store that is down has told of it */
}

static void note(const struct proof *proof, struct slice id, struct slice text)
{
    struct desk *desk = proof->seat->desk;
    struct store_audit audit = {
        .time_ms = env_wall_ms(desk->options.env), .what = SLICE("drift"), .id = id, .text = text};
    aggregator_ask(desk->options.aggregator, ask_note, &audit);
}

static void describe(const struct proof *proof, const struct sight *sight, const struct number *by,
                     char *to, size_t size)
{
    struct buffer is;
    struct buffer ought;
    buffer_init(&is, NUMBER_TEXT);
    buffer_init(&ought, NUMBER_TEXT);
    struct number right = number_copy(&sight->value);
    number_add(&right, by);
    (void)number_format(&sight->value, &is);
    (void)number_format(&right, &ought);
    char name[COUNT_ID_BYTES];
    char id[160];
    message_quote(id, sizeof(id), sight_count_id(proof->seat->desk, sight, name));
    bool is_damaged = sight->place == PLACE_STORE_MEMBERS && !sight->value.big &&
                      sight->value.small < 0; /* nobody counts those */
    struct slice is_text = sight->is_missing ? SLICE("missing")
                           : is_damaged      ? SLICE("damaged")
                                             : buffer_slice(&is);
    bool is_item = sight->is_missing && sight->sum->is_item;
    struct slice ought_text = is_item ? SLICE("there") : buffer_slice(&ought);
    (void)snprintf(to, size, "id=%s place=\"%s\" is=%.*s ought=%.*s", id, place_names[sight->place],
                   SLICE_ARGS(is_text), SLICE_ARGS(ought_text));
    number_done(&right);
    buffer_done(&is);
    buffer_done(&ought);
}

void proof_tell(struct proof *proof, const char *what, struct slice id, const char *line)
{
    struct desk *desk = proof->seat->desk;
    message_error("%s %s", what, line);
    proof->drifts++;
    desk_count(desk, &desk->drifts, 1);
    note(proof, id, slice_of(line));
    if (proof->work)
        work_found(proof->seat, proof->work, line);
}

static void tell(struct proof *proof, const struct sight *sight, const char *line)
{
    char name[COUNT_ID_BYTES];
    proof_tell(proof, "a count differs from its events",
               sight_count_id(proof->seat->desk, sight, name), line);
}

static void describe_life(const struct proof *proof, const struct sight *sight,
                          uint32_t incarnation, char *to, size_t size)
{
    char name[COUNT_ID_BYTES];
    char id[160];
    message_quote(id, sizeof(id), sight_count_id(proof->seat->desk, sight, name));
    (void)snprintf(to, size, "id=%s place=\"store\" incarnation=%u ought=%u", id,
                   sight->record.incarnation, incarnation);
}

/* Nobody knows what it ought to be: it stays as it is. Once for each count. */
static void tell_unproved(struct proof *proof, const struct sight *sight)
{
    char name[COUNT_ID_BYTES];
    char id[160];
    char line[256];
    struct slice count = sight_count_id(proof->seat->desk, sight, name);
    if (sight->place != PLACE_STORE && !proof->values_only)
        return;
    if (sight->is_of_another_life) {
        describe_life(proof, sight, sight->sum->incarnation, line, sizeof(line));
        proof_tell(proof,
                   "a row of the store is not what was written there, and says that it is of "
                   "another life than the log does: it is not used",
                   count, line);
        return;
    }
    (void)snprintf(line, sizeof(line), "id=%s place=\"bases\" is=damaged ought=unknown",
                   message_quote(id, sizeof(id), count));
    proof_tell(proof, "what a count begins with is not what was written there: it cannot be proved",
               count, line);
}

bool sight_life_anew(struct proof *proof, const struct sight *sight, uint32_t incarnation)
{
    struct desk *desk = proof->seat->desk;
    struct error error = {.text = ""};
    char line[256];
    describe_life(proof, sight, incarnation, line, sizeof(line));
    enum err err = sight_mend_life(proof, sight, incarnation, slice_of(line), &error);
    if (err && err != ERR_BUSY && err != ERR_NOT_FOUND)
        message_error("the life that a row is of could not be put right %s reason=\"%s\"", line,
                      error.text[0] ? error.text : err_meaning(err));
    if (err || proof->is_expected)
        return !err;
    proof_tell(proof,
               "a row of the store is not what was written there, and said that it is of another "
               "life than the log does",
               sight->id, line);
    proof->repairs++;
    desk_count(desk, &desk->repairs, 1);
    message_info("the life that a row is of was put right %s", line);
    return true;
}

bool sight_members_anew(struct proof *proof, const struct sight *sight)
{
    struct number nothing = number_of(0);
    struct sight row = {.id = sight->id, .place = PLACE_STORE_MEMBERS, .record = sight->record};
    struct error error = {.text = ""};
    char id[160];
    char line[256];
    message_quote(id, sizeof(id), sight->id);
    if (members_reach(proof->seat, &error)) {
        (void)snprintf(line, sizeof(line), "id=%s place=\"store members\"", id);
        proof_tell(proof,
                   "a row of the store is not what was written there, and the log does not go back "
                   "far enough to prove who its members are: they are taken as they stand",
                   sight->id, line);
        return true;
    }
    enum err err = sight_mend(proof, &row, &nothing, SLICE(""), &error);
    if (err && err != ERR_BUSY && err != ERR_NOT_FOUND)
        message_error("the members of a row could not be made anew id=%s reason=\"%s\"", id,
                      error.text[0] ? error.text : err_meaning(err));
    return !err;
}

void sight_sum_anew(const struct proof *proof, const struct sight *sight, bool is_recorded)
{
    struct number nothing = number_of(0);
    struct sight row = {.id = sight->id, .place = PLACE_STORE, .record = sight->record};
    char id[160];
    struct error error = {.text = ""};
    message_quote(id, sizeof(id), sight->id);
    struct slice text =
        is_recorded ? SLICE("its counts agree with the log, and its checksum did not") : SLICE("");
    enum err err = sight_mend(proof, &row, &nothing, text, &error);
    if (err && err != ERR_BUSY && err != ERR_NOT_FOUND)
        message_error("the checksum of a row could not be put right id=%s reason=\"%s\"", id,
                      error.text[0] ? error.text : err_meaning(err));
}

bool sight_deal_with(struct proof *proof, const struct sight *sight, const struct number *by)
{
    if (sight->is_unproved) {
        tell_unproved(proof, sight);
        return false;
    }
    if (sight->is_wrong && number_compare(by, &(struct number){0}) == 0)
        return true; /* only its row's sum is not: that comes last */
    struct desk *desk = proof->seat->desk;
    char line[320];
    describe(proof, sight, by, line, sizeof(line));
    if (!proof->is_expected)
        tell(proof, sight, line);
    if (!proof->repair)
        return false;

    struct error error = {.text = ""};
    enum err err = sight_mend(proof, sight, by, slice_of(line), &error);
    if (err == ERR_BUSY || err == ERR_NOT_FOUND) {
        message_info("the count has gone or come anew since it was looked at %s", line);
        return false;
    }
    if (err) {
        message_error("the count could not be put right %s reason=\"%s\"", line,
                      error.text[0] ? error.text : err_meaning(err));
        return false;
    }
    if (proof->is_expected)
        return true;
    proof->repairs++;
    desk_count(desk, &desk->repairs, 1);
    message_info("the count was put right %s", line);
    return true;
}
