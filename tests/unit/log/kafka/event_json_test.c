#include "log/kafka/event_json.h"

#include "unit/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/sequence.h"
#include "core/user.h"

/* ---- both ways ---- */

static struct buffer text;
static struct event_json json;

static int begin(void **state)
{
    (void)state;
    buffer_init(&text, 64 << 20);
    event_json_init(&json);
    return 0;
}

static int end(void **state)
{
    (void)state;
    event_json_done(&json);
    buffer_done(&text);
    return 0;
}

static struct slice section_of(struct section *section, uint32_t origin, uint64_t first,
                               int64_t time_ms, struct buffer *to)
{
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(section, origin, first, time_ms, header);
    buffer_init(to, 2 << 20);
    assert_int_equal(buffer_append(to, header, size), ERR_OK);
    assert_int_equal(buffer_append_slice(to, buffer_slice(&section->body)), ERR_OK);
    return buffer_slice(to);
}

/* The message of a section, closed by a zero. */
static const char *written(struct slice section)
{
    struct section_reader reader;
    assert_int_equal(section_open(&reader, section, NULL), ERR_OK);
    struct error error = {0};
    if (event_json_write(&reader, SIZE_MAX, &text, &error))
        fail_msg("%s", error.text);
    assert_int_equal(reader.left, 0);
    assert_int_equal(buffer_append(&text, "", 1), ERR_OK);
    text.size--;
    return text.data;
}

static void assert_comes_back(struct slice section)
{
    (void)written(section);
    struct slice again;
    struct error error = {0};
    if (event_json_read(&json, buffer_slice(&text), &again, &error))
        fail_msg("%s: %.*s", error.text, SLICE_ARGS(buffer_slice(&text)));
    if (!slice_equal(section, again))
        fail_msg("not the same: %.*s", SLICE_ARGS(buffer_slice(&text)));
}

/* ---- random events ---- */

static uint64_t random_state;

static uint64_t random64(void)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = random_state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static uint64_t random_number(void)
{
    return random64() % 4 == 0 ? UINT64_MAX >> random64() % 64 : random64() >> random64() % 64;
}

/* Bytes of any kind: plain, with escapes, other alphabets, and not UTF-8 at all. */
static struct slice random_bytes(size_t min, size_t max)
{
    static char pool[1 << 16];
    static size_t used;
    size_t size = min + random64() % (max - min + 1);
    if (used + size > sizeof(pool))
        used = 0;
    char *bytes = pool + used;
    used += size;
    static const char *const alphabets[] = {"abcXYZ019-_:", "\"\\/\n\t\x01{}~ a",
                                            "\xc3\xa4\xe2\x82\xac", "\xff\xc3\x80\xed\xa0 a"};
    const char *alphabet = alphabets[random64() % 4];
    size_t letters = strlen(alphabet);
    size_t start = random64() % letters;
    for (size_t i = 0; i < size; i++)
        bytes[i] = alphabet[alphabet[0] == '\xc3' ? (start + i) % letters : random64() % letters];
    if (size > 0 && random64() % 8 == 0)
        bytes[random64() % size] = '\0';
    return (struct slice){bytes, size};
}

static struct number random_amount(void)
{
    if (random64() % 4 > 0)
        return number_of((int64_t)random_number());
    char digits[NUMBER_DIGITS_MAX + 1];
    size_t size = 0;
    size_t count = 21 + random64() % (NUMBER_DIGITS_MAX - 21);
    if (random64() & 1)
        digits[size++] = '-';
    digits[size++] = '7';
    while (count-- > 1)
        digits[size++] = (char)('0' + random64() % 10);
    struct number amount;
    assert_int_equal(number_parse((struct slice){digits, size}, &amount), ERR_OK);
    return amount;
}

static void random_reaction(struct event *event)
{
    event->before = random_bytes(0, LIMIT_KIND_BYTES);
    event->after = random_bytes(0, LIMIT_KIND_BYTES);
    if (random64() % 6 == 0) {
        event->erased = true;
        event->erased_bytes = 1 + (uint32_t)(random64() % EVENT_ERASED_MAX);
        return;
    }
    event->user = random64() & 1 ? random_bytes(1, LIMIT_USER_BYTES) : SLICE("4294967295");
    uint32_t own;
    if ((random64() & 1) && !user_is_numeric(event->user, &own))
        event->user_number = (uint32_t)(random_number() % EVENT_NO_NUMBER);
}

static void random_body(struct event *event)
{
    event->amount = number_of(0);
    switch (event->type) {
    case EVENT_REACT:
        random_reaction(event);
        break;
    case EVENT_ADD:
    case EVENT_RESET:
        event->amount = random_amount();
        break;
    case EVENT_REPAIR:
        event->amount = random_amount();
        event->kind = random_bytes(0, LIMIT_KIND_BYTES);
        event->place = (enum event_place)(random64() % PLACE_COUNT);
        break;
    case EVENT_CREATE:
        event->create = (struct op_create){.shards = 1 + (uint32_t)(random64() % LIMIT_CELLS),
                                           .policy = (enum policy)(random64() % POLICY_COUNT),
                                           .idle_s = (uint32_t)random_number(),
                                           .has_floor = random64() & 1};
        if (event->create.has_floor)
            event->create.floor = (int64_t)random_number();
        break;
    default:
        event->next_incarnation = (uint32_t)random_number();
        event->deadline_ms = (int64_t)random_number();
        event->after_origin = (uint32_t)random_number();
        event->after_sequence = random_number();
    }
}

static void random_key(struct event *event)
{
    event->key = random_bytes(1, LIMIT_KEY_BYTES);
    event->answer = (struct event_answer){.fingerprint = random64(),
                                          .changed = random64() & 1,
                                          .held = random_bytes(0, LIMIT_KIND_BYTES),
                                          .value = random_amount()};
    if (event->type != EVENT_REACT)
        event->erased = random64() % 4 == 0;
    if (!event->erased)
        return;
    static char tildes[LIMIT_KEY_BYTES];
    memset(tildes, '~', sizeof(tildes));
    event->key.data = tildes;
    event->answer.fingerprint = 0;
}

static void random_event(struct section *section)
{
    struct event event = {
        .type = (enum event_type)(EVENT_ADD + random64() % EVENT_TYPE_LAST),
        .incarnation = (uint32_t)(random64() & 1 ? 0 : random_number()),
        .id = random_bytes(1, LIMIT_ID_BYTES),
        .user_number = EVENT_NO_NUMBER,
    };
    random_body(&event);
    if (event.type == EVENT_NOTHING || random64() % 3 == 0)
        random_key(&event);
    if (random64() % 3 == 0)
        event.region = random_bytes(1, LIMIT_REGION_BYTES);
    section_event(section, &event);
    event_done(&event);
}

TEST(whatever_a_section_holds_comes_back_to_the_byte)
{
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        random_state = seed;
        struct section section;
        section_init(&section);
        for (uint64_t i = random64() % 20; i > 0; i--)
            random_event(&section);
        struct buffer bytes;
        uint64_t first = random_number() % (UINT64_MAX - UINT32_MAX);
        assert_comes_back(section_of(&section, (uint32_t)random_number(), first,
                                     (int64_t)random_number(), &bytes));
        buffer_done(&bytes);
        section_done(&section);
    }
}

/* As others read it: every message is JSON. */
TEST(another_parser_reads_what_is_written)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        random_state = seed;
        struct section section;
        section_init(&section);
        for (unsigned i = 0; i < 10; i++)
            random_event(&section);
        struct buffer bytes;
        written(section_of(&section, 7, sequence_of(2, 5), 1763272800123, &bytes));
        json_error_t error;
        json_t *value = json_loadb(text.data, text.size, JSON_ALLOW_NUL, &error);
        if (!value)
            fail_msg("%s: %s", error.text, text.data);
        assert_int_equal(json_array_size(json_object_get(value, "events")), 10);
        assert_int_equal(json_integer_value(json_object_get(value, "seq")), 5);
        assert_string_equal(json_string_value(json_object_get(value, "time")),
                            "2025-11-16T06:00:00.123Z");
        json_decref(value);
        buffer_done(&bytes);
        section_done(&section);
    }
}

/* ---- as it has always been ---- */

static void assert_golden(const struct event *event, const char *expected)
{
    struct section section;
    section_init(&section);
    section_event(&section, event);
    struct buffer bytes;
    struct slice whole = section_of(&section, 17, sequence_of(3, 1001), 1763272800123, &bytes);
    const char *message = written(whole);
    const char *events = strstr(message, "\"events\":[");
    assert_non_null(events);
    char got[2048];
    snprintf(got, sizeof(got), "%.*s", (int)(strlen(events) - 12), events + 10);
    assert_string_equal(got, expected);
    assert_comes_back(whole);
    buffer_done(&bytes);
    section_done(&section);
}

TEST(a_message_has_always_looked_like_this)
{
    struct section section;
    section_init(&section);
    section_react(&section, 0, SLICE("video1"), SLICE("ann"), 7, (struct slice){0}, SLICE("like"),
                  (struct slice){0});
    section_add(&section, 2, SLICE("views"), 5, SLICE("eu"));
    struct buffer bytes;
    assert_string_equal(
        written(section_of(&section, 17, sequence_of(3, 1001), 1763272800123, &bytes)),
        "{\"v\":1,\"origin\":17,\"epoch\":3,\"seq\":1001,\"time\":\"2025-11-16T06:00:00.123Z\","
        "\"ms\":1763272800123,\"events\":[{\"type\":\"react\",\"item\":\"video1\",\"user\":\"ann\","
        "\"number\":7,\"before\":null,\"after\":\"like\"},{\"type\":\"add\",\"counter\":\"views\","
        "\"inc\":2,\"delta\":\"5\",\"region\":\"eu\"}]}");
    buffer_done(&bytes);
    section_done(&section);
}

TEST(events_have_always_looked_like_this)
{
    struct event event = {.type = EVENT_RESET, .id = SLICE("a\"b\n\xc3\xa4")};
    event.amount = number_of(INT64_MIN);
    assert_golden(&event, "{\"type\":\"reset\",\"counter\":\"a\\\"b\\u000a\xc3\xa4\",\"delta\":"
                          "\"-9223372036854775808\"}");
    event = (struct event){.type = EVENT_DELETE, .id = SLICE("\xff\x00z"), .next_incarnation = 4};
    assert_golden(&event, "{\"type\":\"delete\",\"id\":{\"hex\":\"ff007a\"},\"next_inc\":4}");
    event = (struct event){.type = EVENT_CREATE, .id = SLICE("c")};
    event.create = (struct op_create){.shards = 8, .policy = POLICY_ROUND_ROBIN, .idle_s = 60};
    assert_golden(&event, "{\"type\":\"create\",\"counter\":\"c\",\"shards\":8,\"policy\":"
                          "\"round-robin\",\"idle_s\":60,\"floor\":null}");
    event.create.has_floor = true;
    assert_golden(&event, "{\"type\":\"create\",\"counter\":\"c\",\"shards\":8,\"policy\":"
                          "\"round-robin\",\"idle_s\":60,\"floor\":\"0\"}");
    event = (struct event){.type = EVENT_EXPIRE, .id = SLICE("c"), .deadline_ms = 99};
    assert_golden(&event, "{\"type\":\"expire\",\"id\":\"c\",\"deadline_ms\":99}");
    event = (struct event){.type = EVENT_REACT,
                           .id = SLICE("v"),
                           .erased = true,
                           .erased_bytes = 5,
                           .before = SLICE("like")};
    assert_golden(&event, "{\"type\":\"react\",\"item\":\"v\",\"erased\":5,\"before\":\"like\","
                          "\"after\":null}");
    event = (struct event){.type = EVENT_NOTHING, .id = SLICE("v"), .key = SLICE("k1")};
    event.answer.fingerprint = 0xabcdef;
    event.answer.held = SLICE("like");
    event.answer.value = number_of(3);
    assert_golden(&event,
                  "{\"type\":\"nothing\",\"id\":\"v\",\"key\":{\"key\":\"k1\",\"fingerprint\":"
                  "\"0000000000abcdef\",\"changed\":false,\"held\":\"like\",\"value\":\"3\"}}");
    event = (struct event){
        .type = EVENT_REPAIR, .id = SLICE("v"), .kind = SLICE("like"), .place = PLACE_HOT_MEMBERS};
    event.amount = number_of(-2);
    assert_golden(&event, "{\"type\":\"repair\",\"id\":\"v\",\"kind\":\"like\",\"missing\":\"-2\","
                          "\"place\":\"hot-members\"}");
    event = (struct event){.type = EVENT_EPOCH, .id = SLICE(EVENT_EPOCH_ID)};
    assert_golden(&event, "{\"type\":\"epoch\",\"id\":\"cell\"}");
    event = (struct event){.type = EVENT_AFTER,
                           .id = SLICE("v"),
                           .after_origin = 9,
                           .after_sequence = sequence_of(3, 77)};
    assert_golden(&event,
                  "{\"type\":\"after\",\"item\":\"v\",\"origin\":9,\"epoch\":3,\"seq\":77}");
}

/* ---- large sections ---- */

TEST(a_large_section_becomes_several_messages_with_all_its_events)
{
    struct section section;
    section_init(&section);
    unsigned count = 0;
    for (; !section_is_full(&section); count++)
        section_react(&section, 0, SLICE("video"), SLICE("somebody"), count, (struct slice){0},
                      SLICE("like"), (struct slice){0});
    struct buffer bytes;
    struct section_reader reader;
    assert_int_equal(section_open(&reader, section_of(&section, 5, 1, 7, &bytes), NULL), ERR_OK);
    uint64_t next = 1;
    unsigned messages = 0;
    while (reader.left > 0) {
        assert_int_equal(event_json_write(&reader, 500000, &text, NULL), ERR_OK);
        assert_true(text.size < 520000);
        struct slice part;
        assert_int_equal(event_json_read(&json, buffer_slice(&text), &part, NULL), ERR_OK);
        struct section_reader again;
        assert_int_equal(section_open(&again, part, NULL), ERR_OK);
        assert_int_equal(again.first_sequence, next);
        next += again.left;
        messages++;
    }
    assert_int_equal(next, count + 1);
    assert_true(messages > 1);
    buffer_done(&bytes);
    section_done(&section);
}

TEST(what_cannot_be_read_as_a_section_goes_as_it_is)
{
    struct slice bad = {"\x11\x01\x01\x02\x0f junk", 10};
    struct section_reader reader;
    assert_int_equal(section_open(&reader, bad, NULL), ERR_OK);
    assert_int_equal(event_json_write(&reader, 1000, &text, NULL), ERR_CORRUPT);
    event_json_write_raw(17, bad, &text);
    struct slice again;
    assert_int_equal(event_json_read(&json, buffer_slice(&text), &again, NULL), ERR_OK);
    assert_true(slice_equal(bad, again));
}

/* ---- strict ---- */

#define HEAD "{\"v\":1,\"origin\":1,\"epoch\":0,\"seq\":1,\"time\":null,\"ms\":5,\"events\":["

TEST(what_is_not_a_message_is_refused_with_the_byte)
{
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"v\":2,\"origin\":1,\"raw\":\"00\"}",
        "{\"v\":1,\"v\":1,\"origin\":1,\"raw\":\"00\"}",
        "{\"v\":1,\"origin\":1,\"raw\":\"0\"}",
        "{\"v\":1,\"origin\":1,\"raw\":\"\"}",
        "{\"v\":1,\"origin\":-1,\"raw\":\"00\"}",
        "{\"v\":1.0,\"origin\":1,\"raw\":\"00\"}",
        "{\"v\":1,\"origin\":4294967296,\"raw\":\"00\"}",
        "{\"v\":1,\"origin\":1,\"raw\":\"00\"} x",
        "{\"v\":1,\"origin\":1,\"raw\":\"00\",\"more\":1}",
        HEAD,
        HEAD "]",
        HEAD "]}}",
        HEAD "{}]}",
        HEAD "{\"type\":\"add\"}]}",
        HEAD "{\"type\":\"more\",\"id\":\"x\"}]}",
        HEAD "{\"type\":\"add\",\"id\":\"x\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"x\",\"delta\":1}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"x\",\"delta\":\"01\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"x\",\"delta\":\"1\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"x\",\"delta\":\"1\",\"erased\":0}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"x\",\"delta\":\"1\",\"user\":\"u\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"x\",\"delta\":\"1\"},]}",
        HEAD "{\"type\":\"add\",\"counter\":\"\\ud800\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"\\udc00\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"\\x\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":\"a\nb\",\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":{\"hex\":\"zz\"},\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"add\",\"counter\":{\"hex\":\"00\",\"x\":1},\"delta\":\"1\"}]}",
        HEAD "{\"type\":\"nothing\",\"id\":\"x\"}]}",
        HEAD "{\"type\":\"nothing\",\"id\":\"x\",\"key\":{\"key\":\"k\"}}]}",
        HEAD "{\"type\":\"react\",\"item\":\"x\",\"before\":null,\"after\":\"like\"}]}",
        HEAD "{\"type\":\"react\",\"item\":\"x\",\"user\":\"7\",\"number\":7,\"before\":null,"
             "\"after\":\"like\"}]}",
        HEAD "{\"type\":\"react\",\"item\":\"x\",\"erased\":0,\"before\":null,\"after\":null}]}",
        HEAD "{\"type\":\"create\",\"counter\":\"x\",\"shards\":0,\"policy\":\"random\","
             "\"idle_s\":0,\"floor\":null}]}",
        HEAD "{\"type\":\"create\",\"counter\":\"x\",\"shards\":1,\"policy\":\"random\","
             "\"idle_s\":0,\"floor\":\"99999999999999999999999\"}]}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct slice section;
        struct error error = {0};
        if (event_json_read(&json, slice_of(bad[i]), &section, &error) != ERR_CORRUPT)
            fail_msg("%s", bad[i]);
        assert_non_null(strstr(error.text, "byte "));
    }
}

TEST(blanks_other_escapes_and_another_order_are_read)
{
    struct slice section;
    const char *message = " {\"events\" : [ {\"delta\":\"1\", \"counter\":\"\\u0061\\ud83d\\ude00"
                          "\\/\\n\",\"type\":\"add\"} ],\"ms\":5,\"time\":\"x\",\"seq\":1,"
                          "\"epoch\":0,\"origin\":1,\"v\":1}\n";
    assert_int_equal(event_json_read(&json, slice_of(message), &section, NULL), ERR_OK);
    struct section_reader reader;
    struct event event;
    assert_int_equal(section_open(&reader, section, NULL), ERR_OK);
    assert_int_equal(section_next(&reader, &event, NULL), ERR_OK);
    assert_true(slice_equal(event.id, SLICE("a\xf0\x9f\x98\x80/\n")));
}

TEST(what_is_too_large_is_not_looked_at)
{
    char *huge = malloc(EVENT_JSON_BYTES_MAX + 1u);
    assert_non_null(huge);
    memset(huge, ' ', EVENT_JSON_BYTES_MAX + 1u);
    struct slice section;
    assert_int_equal(
        event_json_read(&json, (struct slice){huge, EVENT_JSON_BYTES_MAX + 1u}, &section, NULL),
        ERR_TOO_LARGE);
    free(huge);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

RUN(PROMISE(whatever_a_section_holds_comes_back_to_the_byte),
    PROMISE(another_parser_reads_what_is_written), PROMISE(a_message_has_always_looked_like_this),
    PROMISE(events_have_always_looked_like_this),
    PROMISE(a_large_section_becomes_several_messages_with_all_its_events),
    PROMISE(what_cannot_be_read_as_a_section_goes_as_it_is),
    PROMISE(what_is_not_a_message_is_refused_with_the_byte),
    PROMISE(blanks_other_escapes_and_another_order_are_read),
    PROMISE(what_is_too_large_is_not_looked_at))
