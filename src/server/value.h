/* value.h - one value of the configuration: its kinds, and how each is read
 * and written.
 *
 * Reading is strict and its errors say what would be right. Pure: no I/O. */
#ifndef SERVER_VALUE_H
#define SERVER_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define VALUE_TEXT_MAX 1023u

enum value_kind {
    VALUE_TEXT,
    VALUE_URL,      /* text; a password in it is not shown */
    VALUE_SECRET,   /* text that is never shown, nor taken from where others can see it */
    VALUE_ADDRESS,  /* 127.0.0.1:6380, [::1]:6380, or 6380 on loopback; "off" if limits say so */
    VALUE_BYTES,    /* 4096, 64KiB, 64MiB, 2GiB */
    VALUE_DURATION, /* 0, 250ms, 10s, 5m, 24h, 7d */
    VALUE_COUNT,    /* a whole number */
    VALUE_CHOICE,   /* one word of its limits, "durable|written|memory" */
    VALUE_BOOLEAN,  /* yes or no */
};

struct value_text {
    char text[VALUE_TEXT_MAX + 1];
};

struct value_address {
    char host[46]; /* IPv4 or IPv6 in numbers, without brackets; empty = off */
    uint16_t port;
};

/* How a struct keeps a value of each kind. */
#define VALUE_TYPE_TEXT     struct value_text
#define VALUE_TYPE_URL      struct value_text
#define VALUE_TYPE_SECRET   struct value_text
#define VALUE_TYPE_ADDRESS  struct value_address
#define VALUE_TYPE_BYTES    uint64_t
#define VALUE_TYPE_DURATION uint64_t /* milliseconds */
#define VALUE_TYPE_COUNT    uint64_t
#define VALUE_TYPE_CHOICE   unsigned /* place among the words, from 0 */
#define VALUE_TYPE_BOOLEAN  bool

/* Room for a value of any kind. Bytes that a value does not use are zero, so
 * equal values are equal bytes. */
union value {
    struct value_text text;
    struct value_address address;
    uint64_t number;
    unsigned choice;
    bool boolean;
};

/* Bytes that a value of the kind takes, at the beginning of the union. */
size_t value_size(enum value_kind kind);

/* Reads `text`. `limits` are the words of a choice, "smallest..largest" of a
 * number in the way of its kind ("1MiB..1GiB"), what a text stands for ("FILE"),
 * or "". ERR_INVALID with a text that says what would be right. */
enum err value_parse(enum value_kind kind, const char *limits, struct slice text,
                     union value *ret_value, struct error *error);

/* Writes the value in the way that value_parse() reads (but for a secret) to
 * `to`, always closed by a zero and cut if too long; returns `to`. `value`
 * points at value_size() bytes, aligned for the kind. */
const char *value_format(enum value_kind kind, const char *limits, const void *value, char *to,
                         size_t size);

/* What to write for a value, as the help shows it: SIZE, FILE, durable|written. */
const char *value_noun(enum value_kind kind, const char *limits);

/* The URL without its password: "redis://ann:***@h:1/p", "postgres://h/db?password=***". Returns
 * `to`. */
const char *value_hide_password(const char *url, char *to, size_t size);

/* Does it have one? */
bool value_has_password(const char *url);

/* Does the address stand for this machine alone: 127.0.0.0/8, ::1, or off? */
bool value_is_loopback(const struct value_address *address);

#endif
