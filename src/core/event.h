/* event.h - the immutable record of one change, and how it is written down.
 *
 * Events are written in sections: what one cell changed in one pass of a
 * worker. All events of a section share the origin (the cell) and the time, and
 * their sequences follow one another:
 *
 *   section  = origin(varint) first_sequence(varint) time_ms(varint) count(varint) event*
 *   event    = head(1 byte: type | flags) incarnation(varint) id(bytes) body [key] [region]
 *   bytes    = size(varint) byte*
 *
 *   ADD      amount                  RESET   amount (the difference)
 *   DELETE   incarnation from now on(varint)
 *   CREATE   shards(varint) policy(varint) idle_s(varint) floor flag(varint) floor(zigzag)
 *   EXPIRE   deadline_ms(varint, 0 = never)
 *   REACT    user(bytes) [number(varint)] kind before(bytes) kind after(bytes)
 *            erased: '~'... zero byte, kind before(bytes) kind after(bytes)
 *   NOTHING  a keyed write that changed nothing: only its answer is kept
 *   REPAIR   kind(bytes) amount place(1 byte): the audit has put right what some place
 *            held; changes no sum
 *   EPOCH    the origin begins anew (core/sequence.h); its id is EVENT_EPOCH_ID
 *   AFTER    origin(varint) sequence(varint): what follows in this origin may be applied
 *            once that origin has come so far; changes nothing itself. The id is the item of
 *            which some members have moved here from there
 *
 *   number   the user's number + 1, or 0 for none; not there when the user's name is itself
 *            a number (core/user.h)
 *   erased   with EVENT_ERASED: user and number have given way to so many '~' and a zero
 *            byte, so that the event's size stays; a key's bytes are '~', too, and its
 *            fingerprint is 0. Only the counts can be followed. Of an event that is no
 *            REACT only the key is erased, because it had the user's name in it
 *
 *   amount   = zigzag varint, or bytes of decimal digits when EVENT_BIG is set
 *   key      = key(bytes) fingerprint(8 bytes, low byte first) answer, when EVENT_KEYED is set
 *   answer   = flags(1 byte) held kind(bytes) value(as amount; big when ANSWER_BIG is set)
 *   region   = bytes, when EVENT_REGIONAL is set
 *
 * There is one way to write an event, and reading refuses every other: a number
 * in more bytes than it needs, a small amount written as a big one, a flag or
 * type that is not known, an empty id. So what is read and written again is the
 * same to the byte.
 *
 * An event says everything it needs by itself. A user's number stands beside the
 * name, so that all who read the log agree on it. Pure: no I/O, no clock. */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/op.h"

#define SECTION_HEADER_MAX 40u

enum event_type {
    EVENT_ADD = 1,
    EVENT_RESET,
    EVENT_DELETE,
    EVENT_CREATE,
    EVENT_EXPIRE,
    EVENT_REACT,
    EVENT_NOTHING,
    EVENT_REPAIR,
    EVENT_EPOCH,
    EVENT_AFTER,
};
#define EVENT_TYPE_LAST EVENT_AFTER

#define EVENT_EPOCH_ID "cell"

/* Does an event of this type change the counter or item that it names? */
static inline bool event_changes(enum event_type type)
{
    return type <= EVENT_REACT;
}

/* Where the audit found a wrong value. */
enum event_place { PLACE_HOT, PLACE_HOT_MEMBERS, PLACE_STORE, PLACE_STORE_MEMBERS };
#define PLACE_COUNT 4u

#define EVENT_NO_NUMBER  UINT32_MAX
#define EVENT_ERASED_MAX (2u + LIMIT_USER_BYTES + 5u - 1u) /* erased_bytes */

/* The flags in an event's head, above the four bits of its type. */
#define EVENT_BIG      0x10u /* ADD, RESET, REPAIR: the amount is beyond 64 bits */
#define EVENT_KEYED    0x20u
#define EVENT_REGIONAL 0x40u
#define EVENT_ERASED   0x80u /* REACT, or with EVENT_KEYED */

/* The flags of an answer. */
#define ANSWER_BIG     0x01u
#define ANSWER_CHANGED 0x02u

/* The answer that an idempotency key repeats. */
struct event_answer {
    uint64_t fingerprint; /* of the write's content */
    bool changed;
    struct slice held; /* kind's name; size 0 = none */
    struct number value;
};

struct event {
    enum event_type type;
    uint32_t incarnation;
    struct slice id;        /* counter or item */
    struct slice user;      /* REACT */
    uint32_t user_number;   /* REACT, of a named user; EVENT_NO_NUMBER = none */
    bool erased;            /* there is no `user`, and `key` says nothing */
    uint32_t erased_bytes;  /* REACT, erased: the '~' in the place of user and number */
    struct slice kind;      /* REPAIR: of an item; size 0 = a counter */
    enum event_place place; /* REPAIR */
    struct slice before;    /* REACT: kind's name, size 0 = none */
    struct slice after;
    struct number amount;       /* ADD, RESET: the difference; REPAIR: what was missing */
    uint32_t next_incarnation;  /* DELETE */
    struct op_create create;    /* CREATE */
    int64_t deadline_ms;        /* EXPIRE */
    uint32_t after_origin;      /* AFTER */
    uint64_t after_sequence;    /* AFTER */
    struct slice key;           /* size 0 = none */
    struct event_answer answer; /* with key */
    struct slice region;

    /* of its section */
    uint32_t origin;
    uint64_t sequence;
    int64_t time_ms;
};

/* A section being written: events are appended, header and body go to the log,
 * and it is cleared for the next. */
struct section {
    struct buffer body; /* events so far */
    uint32_t count;
};

void section_init(struct section *section);
void section_done(struct section *section);
void section_clear(struct section *section);

/* Might one more event be too much for the log? Then the section has to go
 * there before the next event. */
static inline bool section_is_full(const struct section *section)
{
    return section->body.size >
           LOG_SECTION_BYTES_MAX - SECTION_HEADER_MAX - (size_t)LIMIT_EVENT_BYTES;
}

/* The two hot ones, without going through struct event. */
void section_add(struct section *section, uint32_t incarnation, struct slice id, int64_t amount,
                 struct slice region);
void section_react(struct section *section, uint32_t incarnation, struct slice item,
                   struct slice user, uint32_t user_number, struct slice before, struct slice after,
                   struct slice region);

/* Any event. Its origin, sequence and time are the section's. */
void section_event(struct section *section, const struct event *event);

/* Writes the header at `to`, which has SECTION_HEADER_MAX bytes of room;
 * returns its size. Header and body together are the section. */
size_t section_header(const struct section *section, uint32_t origin, uint64_t first_sequence,
                      int64_t time_ms, char *to);

/* Reading: begins with a whole section, gives its events one by one. */
struct section_reader {
    const char *begin;
    const char *at;
    const char *end;
    uint32_t origin;
    uint64_t first_sequence;
    uint64_t next_sequence;
    int64_t time_ms;
    uint64_t left; /* events */
};

enum err section_open(struct section_reader *reader, struct slice section, struct error *error);

/* ERR_OK with the next event, ERR_NOT_FOUND behind the last, ERR_CORRUPT with a
 * text that names the byte. Slices point into the section; big numbers are
 * owned by the event: event_done() frees them. After an error there is nothing
 * to free. */
enum err section_next(struct section_reader *reader, struct event *ret_event, struct error *error);
void event_done(struct event *event);

/* Takes the user out of the section, in place: what a log's scrub does to erase a
 * user. That is out of the user's reactions, and out of keys and regions of all events
 * that have the name in them (a number, or a name of less than three bytes: as a word). The section
 * stays a section of the same size and the same counts. Says how many events it has changed.
 * ERR_CORRUPT when the section cannot be read: its events up to there are done. */
enum err section_erase(char *section, size_t size, struct slice user, uint64_t *ret_changed,
                       struct error *error);

#endif
