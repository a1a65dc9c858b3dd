#include "core/event.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/user.h"
#include "unit/test.h"

/* ---- what the tests share ---- */

/* The section's bytes, on the heap and not a byte longer, so that reading past
 * the end is found out. */
static struct slice section_bytes(const struct section *section, uint32_t origin,
                                  uint64_t first_sequence, int64_t time_ms)
{
    char header[SECTION_HEADER_MAX];
    size_t header_size = section_header(section, origin, first_sequence, time_ms, header);
    size_t size = header_size + section->body.size;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memcpy(bytes, header, header_size);
    if (section->body.size > 0)
        memcpy(bytes + header_size, section->body.data, section->body.size);
    return (struct slice){bytes, size};
}

static struct slice copy_of(struct slice bytes, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes.data, size);
    return (struct slice){copy, size};
}

static void free_bytes(struct slice bytes)
{
    free((void *)bytes.data);
}

/* Reads all events and drops them: ERR_OK when the section is whole. */
static enum err read_all(struct slice bytes, struct error *error)
{
    struct section_reader reader;
    enum err err = section_open(&reader, bytes, error);
    struct event event;
    while (!err) {
        err = section_next(&reader, &event, error);
        if (!err)
            event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void assert_slices_equal(struct slice a, struct slice b)
{
    assert_int_equal(a.size, b.size);
    if (a.size > 0)
        assert_memory_equal(a.data, b.data, a.size);
}

static void assert_numbers_equal(const struct number *a, const struct number *b)
{
    assert_int_equal(number_compare(a, b), 0);
}

static void assert_events_equal(const struct event *a, const struct event *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_slices_equal(a->id, b->id);
    assert_slices_equal(a->user, b->user);
    assert_int_equal(a->user_number, b->user_number);
    assert_int_equal(a->erased, b->erased);
    assert_int_equal(a->erased_bytes, b->erased_bytes);
    assert_slices_equal(a->kind, b->kind);
    assert_int_equal(a->place, b->place);
    assert_slices_equal(a->before, b->before);
    assert_slices_equal(a->after, b->after);
    assert_numbers_equal(&a->amount, &b->amount);
    assert_int_equal(a->next_incarnation, b->next_incarnation);
    assert_int_equal(a->create.shards, b->create.shards);
    assert_int_equal(a->create.policy, b->create.policy);
    assert_int_equal(a->create.has_floor, b->create.has_floor);
    assert_int_equal(a->create.floor, b->create.floor);
    assert_int_equal(a->create.idle_s, b->create.idle_s);
    assert_int_equal(a->deadline_ms, b->deadline_ms);
    assert_slices_equal(a->key, b->key);
    assert_int_equal(a->answer.fingerprint, b->answer.fingerprint);
    assert_int_equal(a->answer.changed, b->answer.changed);
    assert_slices_equal(a->answer.held, b->answer.held);
    assert_numbers_equal(&a->answer.value, &b->answer.value);
    assert_slices_equal(a->region, b->region);
    assert_int_equal(a->origin, b->origin);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->time_ms, b->time_ms);
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

static bool coin(void)
{
    return random64() & 1;
}

/* Of all magnitudes, the smallest and largest among them. */
static uint64_t random_number(void)
{
    switch (random64() % 8) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    default:
        return random64() >> (random64() % 64);
    }
}

static struct slice random_bytes(size_t min, size_t max)
{
    static char bytes[1 << 16];
    if (bytes[0] == 0) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (char)(random64() | (i == 0));
    }
    size_t size = min;
    if (random64() % 8 == 0)
        size = max;
    else if (max > min)
        size = min + random64() % (max - min + 1);
    return (struct slice){bytes + random64() % (sizeof(bytes) - size), size};
}

static struct number random_amount(void)
{
    if (random64() % 4 > 0)
        return number_of((int64_t)random_number());

    char digits[1 + NUMBER_DIGITS_MAX];
    size_t size = 0;
    if (coin())
        digits[size++] = '-';
    size_t count = 21 + random64() % (NUMBER_DIGITS_MAX - 20);
    digits[size++] = '7';
    while (--count > 0)
        digits[size++] = (char)('0' + random64() % 10);
    struct number amount;
    assert_int_equal(number_parse((struct slice){digits, size}, &amount), ERR_OK);
    assert_non_null(amount.big);
    return amount;
}

static struct slice tildes(size_t size)
{
    static char bytes[LIMIT_KEY_BYTES];
    memset(bytes, '~', sizeof(bytes));
    return (struct slice){bytes, size};
}

static void fill_reaction(struct event *event)
{
    uint32_t own;
    event->before = random_bytes(0, LIMIT_KIND_BYTES);
    event->after = random_bytes(0, LIMIT_KIND_BYTES);
    if (random64() % 8 == 0) {
        event->erased = true;
        event->erased_bytes = 1 + (uint32_t)(random64() % LIMIT_USER_BYTES);
        return;
    }
    event->user = coin() ? random_bytes(1, LIMIT_USER_BYTES) : SLICE("4294967295");
    if (!user_is_numeric(event->user, &own))
        event->user_number = (uint32_t)random_number();
}

static void fill_body(struct event *event)
{
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        event->amount = random_amount();
        break;
    case EVENT_DELETE:
        event->next_incarnation = (uint32_t)random_number();
        break;
    case EVENT_CREATE:
        event->create.shards = 1 + (uint32_t)(random64() % LIMIT_CELLS);
        event->create.policy = (enum policy)(random64() % POLICY_COUNT);
        event->create.idle_s = (uint32_t)random_number();
        event->create.has_floor = coin();
        event->create.floor = event->create.has_floor ? (int64_t)random_number() : 0;
        break;
    case EVENT_EXPIRE:
        event->deadline_ms = (int64_t)random_number();
        break;
    case EVENT_REACT:
        fill_reaction(event);
        break;
    case EVENT_NOTHING:
        break;
    case EVENT_REPAIR:
        event->kind = random_bytes(0, LIMIT_KIND_BYTES);
        event->amount = random_amount();
        event->place = (enum event_place)(random64() % PLACE_COUNT);
        break;
    case EVENT_EPOCH:
        break;
    case EVENT_AFTER:
        event->after_origin = (uint32_t)random_number();
        event->after_sequence = random_number();
        break;
    }
}

static struct event random_event(void)
{
    struct event event = {
        .type = (enum event_type)(EVENT_ADD + random64() % EVENT_TYPE_LAST),
        .incarnation = (uint32_t)random_number(),
        .id = random_bytes(1, LIMIT_ID_BYTES),
        .user_number = EVENT_NO_NUMBER,
    };
    fill_body(&event);
    if (coin() || event.type == EVENT_NOTHING) {
        event.key = random_bytes(1, LIMIT_KEY_BYTES);
        event.answer.fingerprint = random64();
        event.answer.changed = coin();
        event.answer.held = random_bytes(0, LIMIT_KIND_BYTES);
        event.answer.value = random_amount();
    }
    if (event.key.size > 0 && random64() % 8 == 0 && event.type != EVENT_REACT)
        event.erased = true;
    if (event.erased && event.key.size > 0) {
        event.key = tildes(event.key.size);
        event.answer.fingerprint = 0;
    }
    if (coin())
        event.region = random_bytes(1, LIMIT_REGION_BYTES);
    return event;
}

/* Writes it the way that the hot layer does: the common ones by the short cuts. */
static void write_event(struct section *section, const struct event *event)
{
    if (event->type == EVENT_ADD && event->key.size == 0 && !event->amount.big && coin())
        section_add(section, event->incarnation, event->id, event->amount.small, event->region);
    else if (event->type == EVENT_REACT && event->key.size == 0 && !event->erased && coin())
        section_react(section, event->incarnation, event->id, event->user, event->user_number,
                      event->before, event->after, event->region);
    else
        section_event(section, event);
}

/* ---- tests ---- */

#define EVENTS_MAX 12u

static void round_trip(struct section *section)
{
    struct event events[EVENTS_MAX];
    unsigned count = (unsigned)(random64() % (EVENTS_MAX + 1));
    uint32_t origin = (uint32_t)random_number();
    uint64_t first_sequence = random_number() % (UINT64_MAX - UINT32_MAX);
    int64_t time_ms = (int64_t)random_number();

    section_clear(section);
    for (unsigned i = 0; i < count; i++) {
        events[i] = random_event();
        events[i].origin = origin;
        events[i].sequence = first_sequence + i;
        events[i].time_ms = time_ms;
        size_t before = section->body.size;
        write_event(section, &events[i]);
        assert_true(section->body.size - before <= LIMIT_EVENT_BYTES);
    }
    struct slice bytes = section_bytes(section, origin, first_sequence, time_ms);

    struct section_reader reader;
    struct error error;
    struct event event;
    assert_int_equal(section_open(&reader, bytes, &error), ERR_OK);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(section_next(&reader, &event, &error), ERR_OK);
        assert_events_equal(&event, &events[i]);
        event_done(&event);
        event_done(&events[i]);
    }
    assert_int_equal(section_next(&reader, &event, &error), ERR_NOT_FOUND);
    free_bytes(bytes);
}

TEST(what_is_written_is_read_again_whatever_it_holds)
{
    struct section section;
    section_init(&section);
    for (uint64_t seed = 1; seed < 20000; seed++) {
        random_state = seed;
        round_trip(&section);
    }
    section_done(&section);
}

static void assert_body(const struct section *section, const char *expected, size_t size)
{
    assert_int_equal(section->body.size, size);
    assert_memory_equal(section->body.data, expected, size);
}
#define ASSERT_BODY(section, literal) assert_body(section, literal, sizeof(literal) - 1)

/* The format is for ever: if one of these fails, the logs of all users have
 * become unreadable. */
TEST(an_addition_has_always_had_these_bytes)
{
    struct section section;
    section_init(&section);
    section_add(&section, 0, SLICE("views"), 1, (struct slice){0});
    section_add(&section, 300, SLICE("views"), -2, SLICE("eu"));
    ASSERT_BODY(&section, "\x01\x00\x05"
                          "views\x02"
                          "\x41\xac\x02\x05"
                          "views\x03\x02"
                          "eu");
    section_done(&section);
}

TEST(a_reaction_has_always_had_these_bytes)
{
    struct section section;
    section_init(&section);
    section_react(&section, 1, SLICE("v1"), SLICE("ann"), 299, (struct slice){0}, SLICE("like"),
                  (struct slice){0});
    section_react(&section, 1, SLICE("v1"), SLICE("ann"), EVENT_NO_NUMBER, SLICE("like"),
                  SLICE("dislike"), SLICE("us"));
    section_react(&section, 1, SLICE("v1"), SLICE("17"), EVENT_NO_NUMBER, SLICE("like"),
                  (struct slice){0}, (struct slice){0});
    ASSERT_BODY(&section, "\x06\x01\x02v1\x03"
                          "ann\xac\x02\x00\x04like"
                          "\x46\x01\x02v1\x03"
                          "ann\x00\x04like\x07"
                          "dislike\x02us"
                          "\x06\x01\x02v1\x02"
                          "17\x04like\x00");
    section_done(&section);
}

TEST(the_rarer_events_have_always_had_these_bytes)
{
    struct section section;
    section_init(&section);
    struct event event = {.id = SLICE("c"), .incarnation = 2};

    event.type = EVENT_RESET;
    assert_int_equal(number_parse(SLICE("-9223372036854775809"), &event.amount), ERR_OK);
    section_event(&section, &event);
    number_done(&event.amount);

    event.type = EVENT_DELETE;
    event.next_incarnation = 3;
    section_event(&section, &event);

    event.type = EVENT_CREATE;
    event.create = (struct op_create){
        .shards = 8, .policy = POLICY_LEAST_LOADED, .has_floor = true, .floor = -1, .idle_s = 60};
    section_event(&section, &event);

    event.type = EVENT_EXPIRE;
    event.deadline_ms = 1000;
    section_event(&section, &event);

    event.type = EVENT_NOTHING;
    event.key = SLICE("k1");
    event.answer = (struct event_answer){.fingerprint = 0x0807060504030201,
                                         .changed = true,
                                         .held = SLICE("like"),
                                         .value = number_of(5)};
    section_event(&section, &event);

    event = (struct event){.type = EVENT_REPAIR,
                           .id = SLICE("v"),
                           .kind = SLICE("like"),
                           .amount = number_of(-3),
                           .place = PLACE_STORE};
    section_event(&section, &event);

    ASSERT_BODY(&section, "\x12\x02\x01"
                          "c\x14-9223372036854775809"
                          "\x03\x02\x01"
                          "c\x03"
                          "\x04\x02\x01"
                          "c\x08\x03\x3c\x01\x01"
                          "\x05\x02\x01"
                          "c\xe8\x07"
                          "\x27\x02\x01"
                          "c\x02k1\x01\x02\x03\x04\x05\x06\x07\x08\x02\x04like\x0a"
                          "\x08\x00\x01v\x04like\x05\x02");
    section_done(&section);
}

TEST(a_header_has_always_had_these_bytes)
{
    struct section section;
    section_init(&section);
    section_add(&section, 0, SLICE("c"), 1, (struct slice){0});
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, 63, 1000, 1700000000000, header);
    assert_int_equal(size, 1 + 2 + 6 + 1);
    assert_memory_equal(header, "\x3f\xe8\x07\x80\xd0\x95\xff\xbc\x31\x01", size);
    section_done(&section);
}

/* A section with one event of every type, some with key, region or both. */
static struct slice whole_section(void)
{
    struct section section;
    section_init(&section);
    random_state = 42;
    for (unsigned seen = 0; seen != (1u << (EVENT_TYPE_LAST + 1)) - 2;) {
        struct event event = random_event();
        if (!(seen & 1u << event.type))
            section_event(&section, &event);
        seen |= 1u << event.type;
        event_done(&event);
    }
    struct slice bytes = section_bytes(&section, 7, 1000, 1700000000000);
    section_done(&section);
    return bytes;
}

TEST(a_section_cut_at_any_byte_is_corrupt)
{
    struct slice bytes = whole_section();
    assert_int_equal(read_all(bytes, NULL), ERR_OK);
    for (size_t size = 0; size < bytes.size; size++) {
        struct slice cut = copy_of(bytes, size);
        struct error error;
        assert_int_equal(read_all(cut, &error), ERR_CORRUPT);
        assert_int_equal(strncmp(error.text, "byte ", 5), 0);
        assert_true(strtoul(error.text + 5, NULL, 10) <= size);
        free_bytes(cut);
    }
    free_bytes(bytes);
}

TEST(a_byte_behind_the_last_event_is_corrupt)
{
    struct slice bytes = whole_section();
    char *longer = malloc(bytes.size + 1);
    assert_non_null(longer);
    memcpy(longer, bytes.data, bytes.size);
    longer[bytes.size] = 0;
    assert_int_equal(read_all((struct slice){longer, bytes.size + 1}, NULL), ERR_CORRUPT);
    free(longer);
    free_bytes(bytes);
}

TEST(a_section_with_any_bit_turned_is_read_or_corrupt)
{
    struct slice bytes = whole_section();
    struct slice copy = copy_of(bytes, bytes.size);
    for (size_t bit = 0; bit < 8 * copy.size; bit++) {
        char *byte = (char *)copy.data + bit / 8;
        *byte ^= (char)(1 << bit % 8);
        enum err err = read_all(copy, NULL);
        assert_true(err == ERR_OK || err == ERR_CORRUPT);
        *byte ^= (char)(1 << bit % 8);
    }
    free_bytes(copy);
    free_bytes(bytes);
}

struct refused {
    const char *bytes;
    size_t size;
    const char *text;
};
#define REFUSED(literal, reason)             \
    {                                        \
        literal, sizeof(literal) - 1, reason \
    }

/* Every section begins with origin 1, sequence 1, time 1 and one event. */
#define ONE "\x01\x01\x01\x01"

TEST(what_could_not_have_been_written_is_refused_with_its_place)
{
    static const struct refused table[] = {
        REFUSED("", "byte 0 of a section: the origin is cut short or does not fit"),
        REFUSED("\x81\x00", "byte 0 of a section: the origin is longer than it needs to be"),
        REFUSED("\x80\x80\x80\x80\x10", "byte 0 of a section: the origin is out of range"),
        REFUSED("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                "byte 1 of a section: the sequence is out of range"),
        REFUSED("\x01\x01\x01\x00\x01",
                "byte 4 of a section: the section goes on behind its last event"),
        REFUSED(ONE, "byte 4 of a section: the event is cut short"),
        REFUSED(ONE "\x00", "byte 4 of a section: the event is of an unknown type"),
        REFUSED(ONE "\x0b", "byte 4 of a section: the event is of an unknown type"),
        REFUSED(ONE "\x81", "byte 4 of a section: the event is erased, but has no user and no key"),
        REFUSED(ONE "\x16", "byte 4 of a section: the event has a big amount, but no amount"),
        REFUSED(ONE "\x07", "byte 4 of a section: the event changes nothing and has no key"),
        REFUSED(ONE "\x01\x00\x00", "byte 6 of a section: the id is empty"),
        REFUSED(ONE "\x01\x00\x02x", "byte 6 of a section: the id is cut short"),
        REFUSED(ONE "\x01\x00\x81\x02x", "byte 6 of a section: the id is out of range"),
        REFUSED(ONE "\x11\x00\x01x\x02"
                    "12",
                "byte 8 of a section: the amount is not a big number"),
        REFUSED(ONE "\x11\x00\x01x\x03"
                    "1x2",
                "byte 8 of a section: the amount is not a big number"),
        REFUSED(ONE "\x04\x00\x01x\x00\x00\x00\x00\x00",
                "byte 8 of a section: the number of shards is zero"),
        REFUSED(ONE "\x04\x00\x01x\x41", "byte 8 of a section: the number of shards is out of "
                                         "range"),
        REFUSED(ONE "\x04\x00\x01x\x01\x04", "byte 9 of a section: the policy is out of range"),
        REFUSED(ONE "\x04\x00\x01x\x01\x00\x00\x02",
                "byte 11 of a section: the floor's flag is out of range"),
        REFUSED(ONE "\x04\x00\x01x\x01\x00\x00\x00\x01",
                "byte 12 of a section: the floor is there without its flag"),
        REFUSED(ONE "\x06\x00\x01x\x00", "byte 8 of a section: the user is empty"),
        REFUSED(ONE "\x06\x00\x01x\x01u\x00\x21",
                "byte 11 of a section: the kind before is out of range"),
        REFUSED(ONE "\x06\x00\x01x\x01"
                    "7\x21",
                "byte 10 of a section: the kind before is out of range"),
        REFUSED(ONE "\x06\x00\x01x\x01u\x80\x80\x80\x80\x10",
                "byte 10 of a section: the user's number is out of range"),
        REFUSED(ONE "\x86\x00\x01x\x00\x00\x00",
                "byte 8 of a section: the erased user is not erased as it should be"),
        REFUSED(ONE "\x86\x00\x01x~~u\x00\x00\x00",
                "byte 8 of a section: the erased user is not erased as it should be"),
        REFUSED(ONE "\x86\x00\x01x~~",
                "byte 8 of a section: the erased user is not erased as it should be"),
        REFUSED(ONE "\xa6\x00\x01x~\x00\x00\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x00",
                "byte 12 of a section: the key is there although the user was erased"),
        REFUSED(ONE "\xa6\x00\x01x~\x00\x00\x00\x01~\x01\x00\x00\x00\x00\x00\x00\x00",
                "byte 12 of a section: the key is there although the user was erased"),
        REFUSED(ONE "\x08\x00\x01x\x00\x02\x04", "byte 10 of a section: the place is not known"),
        REFUSED(ONE "\x21\x00\x01x\x02\x00", "byte 9 of a section: the key is empty"),
        REFUSED(ONE "\x21\x00\x01x\x02\x01k1234567",
                "byte 11 of a section: the fingerprint is cut short"),
        REFUSED(ONE "\x21\x00\x01x\x02\x01k12345678\x04",
                "byte 19 of a section: the answer's flags are not all known"),
        REFUSED(ONE "\x41\x00\x01x\x02\x00", "byte 9 of a section: the region is empty"),
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct slice bytes = copy_of((struct slice){table[i].bytes, table[i].size}, table[i].size);
        struct error error = {.text = ""};
        assert_int_equal(read_all(bytes, &error), ERR_CORRUPT);
        assert_string_equal(error.text, table[i].text);
        free_bytes(bytes);
    }
}

/* ---- erasing ---- */

static bool contains(struct slice bytes, struct slice part)
{
    return memmem(bytes.data, bytes.size, part.data, part.size) != NULL;
}

/* Two users on one item, with and without number, key and region. */
static void write_likes(struct section *section, struct slice user, uint32_t number)
{
    struct event keyed = {.type = EVENT_REACT,
                          .id = SLICE("v"),
                          .user = user,
                          .user_number = number,
                          .before = SLICE("like"),
                          .key = user,
                          .answer = {.fingerprint = 77, .value = number_of(1)},
                          .region = SLICE("eu")};
    struct slice none = {0};
    section_react(section, 0, SLICE("v"), user, number, none, SLICE("like"), none);
    section_react(section, 0, SLICE("v"), SLICE("bob"), 3, none, SLICE("like"), none);
    section_event(section, &keyed);
}

static void assert_likes_without_user(struct slice bytes, struct slice user)
{
    struct section_reader reader;
    struct event events[3];
    assert_int_equal(section_open(&reader, bytes, NULL), ERR_OK);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(section_next(&reader, &events[i], NULL), ERR_OK);
    assert_int_equal(section_next(&reader, &events[0], NULL), ERR_NOT_FOUND);

    assert_false(contains(bytes, user));
    assert_true(events[2].erased);
    assert_int_equal(events[2].user.size, 0);
    assert_int_equal(events[2].user_number, EVENT_NO_NUMBER);
    assert_slices_equal(events[2].before, SLICE("like"));
    assert_slices_equal(events[2].region, SLICE("eu"));
    assert_slices_equal(events[2].key, tildes(user.size));
    assert_int_equal(events[2].answer.fingerprint, 0);
    assert_int_equal(events[2].answer.value.small, 1);
    assert_false(events[1].erased);
    assert_slices_equal(events[1].user, SLICE("bob"));
    assert_int_equal(events[1].user_number, 3);
}

static void erase_from_likes(struct slice user, uint32_t number)
{
    struct section section;
    section_init(&section);
    write_likes(&section, user, number);
    struct slice bytes = section_bytes(&section, 1, 1, 1);
    uint64_t changed;
    char *section_data = (char *)bytes.data;
    assert_int_equal(section_erase(section_data, bytes.size, user, &changed, NULL), ERR_OK);
    assert_int_equal(changed, 2);
    assert_likes_without_user(bytes, user);
    assert_int_equal(section_erase(section_data, bytes.size, user, &changed, NULL), ERR_OK);
    assert_int_equal(changed, 0);
    free_bytes(bytes);
    section_done(&section);
}

TEST(an_erased_user_leaves_the_counts_and_the_size_of_a_section)
{
    char name[LIMIT_USER_BYTES];
    memset(name, 'x', sizeof(name));
    for (size_t size = 1; size <= sizeof(name); size++) {
        erase_from_likes((struct slice){name, size}, EVENT_NO_NUMBER);
        for (unsigned bits = 0; bits < 32; bits++)
            erase_from_likes((struct slice){name, size}, 1u << bits);
    }
    erase_from_likes(SLICE("5"), EVENT_NO_NUMBER);
    erase_from_likes(SLICE("4294967295"), EVENT_NO_NUMBER);
    erase_from_likes(SLICE("4294967296"), EVENT_NO_NUMBER - 1);
}

static bool is_key_erased(const char *key, const char *user)
{
    struct event event = {
        .type = EVENT_NOTHING, .id = SLICE("v"), .key = slice_of(key), .answer.fingerprint = 77};
    struct section section;
    section_init(&section);
    section_event(&section, &event);
    struct slice bytes = section_bytes(&section, 1, 1, 1);
    uint64_t changed;
    assert_int_equal(section_erase((char *)bytes.data, bytes.size, slice_of(user), &changed, NULL),
                     ERR_OK);
    struct section_reader reader;
    assert_int_equal(section_open(&reader, bytes, NULL), ERR_OK);
    assert_int_equal(section_next(&reader, &event, NULL), ERR_OK);
    assert_int_equal(event.erased, changed == 1);
    assert_int_equal(contains(bytes, slice_of(key)), changed == 0);
    assert_int_equal(event.answer.fingerprint, changed == 1 ? 0 : 77);
    free_bytes(bytes);
    section_done(&section);
    return changed == 1;
}

TEST(keys_that_name_an_erased_user_are_erased_too)
{
    assert_true(is_key_erased("ann", "ann"));
    assert_true(is_key_erased("ann:v:1", "ann"));
    assert_true(is_key_erased("like:ann", "ann"));
    assert_true(is_key_erased("annabel/ann/1", "ann"));
    assert_true(is_key_erased("v-7-1", "7"));
    assert_true(is_key_erased("like7x2", "7"));
    assert_true(is_key_erased("7", "7"));
    assert_true(is_key_erased("17like7", "7"));
    assert_true(is_key_erased("like4711", "4711"));
    assert_true(is_key_erased("likebob2", "bob"));
    assert_true(is_key_erased("like2bob2", "bob"));
    assert_true(is_key_erased("12007", "007")); /* a name, and not the number 7 */
    assert_true(is_key_erased("2al2", "al"));
    assert_true(is_key_erased("x2u7", "u7"));
    assert_true(is_key_erased("likeann2", "ann")); /* whatever it is glued to */
    assert_true(is_key_erased("annabel", "ann"));
    assert_true(is_key_erased("joann", "ann"));
    assert_true(is_key_erased("ann\xc3\xa9", "ann"));
    assert_true(is_key_erased("v-al-1", "al"));
    assert_true(is_key_erased("LikeBob2", "bob")); /* as somebody else writes it */
    assert_true(is_key_erased("like-ann-1", "Ann"));
    assert_true(is_key_erased("V-AL-1", "al"));
    assert_true(is_key_erased("like:ann%40example.com:1", "ann@example.com"));
    assert_true(is_key_erased("like:%61%6E%6e", "ann"));
    assert_true(is_key_erased("like%2Fann%20lee", "ann lee"));
    assert_true(is_key_erased("like=ann+lee", "ann lee"));
    assert_true(is_key_erased("ANN%40EXAMPLE.COM", "ann@example.com"));
    assert_true(is_key_erased("%C3%A9lodie", "\xc3\xa9lodie"));
    assert_true(is_key_erased("v%2F7%2F1", "7"));
    assert_true(is_key_erased("50%25 off", "50% off"));
    assert_true(is_key_erased("x%41x", "x%41x")); /* which looks encoded */
    assert_true(is_key_erased("50%", "50%"));
    assert_true(is_key_erased("ann%4", "ann%4"));
    assert_false(is_key_erased("v%317", "7")); /* 17 */
    assert_false(is_key_erased("%61%6E", "ann"));
    assert_false(is_key_erased("an%6", "ann"));
    assert_false(is_key_erased("algebra", "al"));
    assert_false(is_key_erased("v-17-1", "7"));
    assert_false(is_key_erased("like70x2", "7"));
    assert_false(is_key_erased("v-007", "7"));
    assert_false(is_key_erased("x2u71", "u7"));
    assert_false(is_key_erased("xu7", "u7"));
    assert_false(is_key_erased("an", "ann"));
}

TEST(a_reaction_of_another_stays_and_its_key_and_region_do_not_name_the_erased)
{
    struct section section;
    section_init(&section);
    struct event event = {.type = EVENT_REACT,
                          .id = SLICE("v"),
                          .user = SLICE("bob"),
                          .user_number = 1,
                          .after = SLICE("like"),
                          .key = SLICE("for ann"),
                          .answer.fingerprint = 77,
                          .region = SLICE("ann")};
    section_event(&section, &event);
    struct slice bytes = section_bytes(&section, 1, 1, 1);
    uint64_t changed;
    assert_int_equal(section_erase((char *)bytes.data, bytes.size, SLICE("ann"), &changed, NULL),
                     ERR_OK);
    assert_int_equal(changed, 1);
    assert_false(contains(bytes, SLICE("ann")));
    assert_int_equal(section_erase((char *)bytes.data, bytes.size, SLICE("ann"), &changed, NULL),
                     ERR_OK);
    assert_int_equal(changed, 0);

    struct section_reader reader;
    assert_int_equal(section_open(&reader, bytes, NULL), ERR_OK);
    assert_int_equal(section_next(&reader, &event, NULL), ERR_OK);
    assert_false(event.erased);
    assert_true(slice_equal(event.user, SLICE("bob")));
    assert_true(slice_equal(event.after, SLICE("like")));
    assert_int_equal(event.answer.fingerprint, 77);
    free_bytes(bytes);
    section_done(&section);
}

TEST(erasing_from_a_section_that_cannot_be_read_says_so)
{
    char bytes[] = ONE "\x0b";
    uint64_t changed;
    struct error error;
    assert_int_equal(section_erase(bytes, sizeof(bytes) - 1, SLICE("ann"), &changed, &error),
                     ERR_CORRUPT);
}

TEST(a_full_section_still_has_room_for_the_largest_event)
{
    struct section section;
    section_init(&section);
    random_state = 1;
    while (!section_is_full(&section)) {
        struct event event = random_event();
        section_event(&section, &event);
        event_done(&event);
        assert_true(section.body.size + SECTION_HEADER_MAX <= LOG_SECTION_BYTES_MAX);
    }
    struct slice bytes = section_bytes(&section, 1, 1, 1);
    assert_int_equal(read_all(bytes, NULL), ERR_OK);
    free_bytes(bytes);
    section_done(&section);
}

TEST(a_cleared_section_starts_anew)
{
    struct section section;
    section_init(&section);
    section_add(&section, 0, SLICE("a"), 1, (struct slice){0});
    section_clear(&section);
    section_add(&section, 0, SLICE("b"), 1, (struct slice){0});
    assert_int_equal(section.count, 1);
    ASSERT_BODY(&section, "\x01\x00\x01"
                          "b\x02");
    section_done(&section);
}

RUN(cmocka_unit_test(what_is_written_is_read_again_whatever_it_holds),
    cmocka_unit_test(an_addition_has_always_had_these_bytes),
    cmocka_unit_test(a_reaction_has_always_had_these_bytes),
    cmocka_unit_test(the_rarer_events_have_always_had_these_bytes),
    cmocka_unit_test(a_header_has_always_had_these_bytes),
    cmocka_unit_test(a_section_cut_at_any_byte_is_corrupt),
    cmocka_unit_test(a_byte_behind_the_last_event_is_corrupt),
    cmocka_unit_test(a_section_with_any_bit_turned_is_read_or_corrupt),
    cmocka_unit_test(what_could_not_have_been_written_is_refused_with_its_place),
    cmocka_unit_test(an_erased_user_leaves_the_counts_and_the_size_of_a_section),
    cmocka_unit_test(keys_that_name_an_erased_user_are_erased_too),
    cmocka_unit_test(a_reaction_of_another_stays_and_its_key_and_region_do_not_name_the_erased),
    cmocka_unit_test(erasing_from_a_section_that_cannot_be_read_says_so),
    cmocka_unit_test(a_full_section_still_has_room_for_the_largest_event),
    cmocka_unit_test(a_cleared_section_starts_anew))
