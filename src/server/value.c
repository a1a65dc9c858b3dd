#include "server/value.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/message.h"
#include "net/listener.h"

struct unit {
    const char *name;
    uint64_t size;
};

/* Largest first: a value is written in the largest unit that divides it. */
static const struct unit byte_units[] = {
    {"GiB", 1u << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}, {"", 1}, {NULL, 0}};
static const struct unit time_units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000},
                                         {"s", 1000},     {"ms", 1},      {NULL, 0}};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(enum value_kind kind)
{
    return kind == VALUE_BYTES ? byte_units : kind == VALUE_DURATION ? time_units : no_units;
}

static const char *example_of(enum value_kind kind)
{
    return kind == VALUE_BYTES      ? "a size such as 512KiB, 64MiB or 2GiB"
           : kind == VALUE_DURATION ? "a time such as 250ms, 10s, 5m, 24h or 7d"
                                    : "a whole number such as 1000";
}

size_t value_size(enum value_kind kind)
{
    switch (kind) {
    case VALUE_TEXT:
    case VALUE_URL:
    case VALUE_SECRET:
        return sizeof(struct value_text);
    case VALUE_ADDRESS:
        return sizeof(struct value_address);
    case VALUE_CHOICE:
        return sizeof(unsigned);
    case VALUE_BOOLEAN:
        return sizeof(bool);
    case VALUE_BYTES:
    case VALUE_DURATION:
    case VALUE_COUNT:
        break;
    }
    return sizeof(uint64_t);
}

const char *value_noun(enum value_kind kind, const char *limits)
{
    switch (kind) {
    case VALUE_TEXT:
    case VALUE_URL:
    case VALUE_SECRET:
        return limits[0] ? limits : "TEXT";
    case VALUE_ADDRESS:
        return "ADDR:PORT";
    case VALUE_BYTES:
        return "SIZE";
    case VALUE_DURATION:
        return "TIME";
    case VALUE_COUNT:
        return "N";
    case VALUE_CHOICE:
        return limits;
    case VALUE_BOOLEAN:
        break;
    }
    return "yes|no";
}

/* --- numbers ---------------------------------------------------------------- */

/* Digits and a unit. Zero needs no unit. */
static bool number_with_unit(enum value_kind kind, struct slice text, uint64_t *ret_number)
{
    size_t digits = 0;
    while (digits < text.size && text.data[digits] >= '0' && text.data[digits] <= '9')
        digits++;

    uint64_t number;
    if (!decimal_parse_unsigned((struct slice){text.data, digits}, &number))
        return false;

    struct slice name = {text.data + digits, text.size - digits};
    if (number == 0 && name.size == 0) {
        *ret_number = 0;
        return true;
    }
    for (const struct unit *unit = units_of(kind); unit->name; unit++)
        if (slice_equal_nocase(name, slice_of(unit->name)))
            return !__builtin_mul_overflow(number, unit->size, ret_number);
    return false;
}

/* The two ends of "1MiB..1GiB"; everything when there are none. */
static void range_of(enum value_kind kind, const char *limits, uint64_t *ret_least,
                     uint64_t *ret_most)
{
    *ret_least = 0;
    *ret_most = UINT64_MAX;
    const char *dots = strstr(limits, "..");
    if (!dots)
        return;
    bool ok = number_with_unit(kind, (struct slice){limits, (size_t)(dots - limits)}, ret_least) &&
              number_with_unit(kind, slice_of(dots + 2), ret_most);
    assert(ok);
}

static enum err parse_number(enum value_kind kind, const char *limits, struct slice text,
                             uint64_t *ret_number, struct error *error)
{
    char quoted[64];
    uint64_t number;
    if (!number_with_unit(kind, text, &number))
        return error_set(error, ERR_INVALID, "%s is not %s",
                         message_quote(quoted, sizeof(quoted), text), example_of(kind));

    uint64_t least;
    uint64_t most;
    range_of(kind, limits, &least, &most);
    if (number < least || number > most)
        return error_set(error, ERR_INVALID, "%s is outside of %s",
                         message_quote(quoted, sizeof(quoted), text), limits);
    *ret_number = number;
    return ERR_OK;
}

static void format_number(enum value_kind kind, uint64_t number, char *to, size_t size)
{
    const struct unit *unit = units_of(kind);
    while (number % unit->size != 0)
        unit++;
    if (number == 0)
        (void)snprintf(to, size, "0");
    else
        (void)snprintf(to, size, "%llu%s", (unsigned long long)(number / unit->size), unit->name);
}

/* --- text, words, addresses ------------------------------------------------- */

static enum err parse_text(struct slice text, struct value_text *ret_text, struct error *error)
{
    if (text.size > VALUE_TEXT_MAX)
        return error_set(error, ERR_INVALID, "%zu bytes are too many: %u at most", text.size,
                         VALUE_TEXT_MAX);
    if (text.size > 0 && memchr(text.data, 0, text.size))
        return error_set(error, ERR_INVALID, "a zero byte cannot be part of it");
    if (text.size > 0)
        memcpy(ret_text->text, text.data, text.size);
    return ERR_OK;
}

/* Where the password of a URL begins and ends: behind "://name:" up to the last "@" of the hosts,
 * or the value of a parameter "password". False: there is none. */
static bool find_password(const char *url, const char **ret_begin, const char **ret_end)
{
    const char *hosts = strstr(url, "://");
    if (hosts) {
        hosts += 3;
        size_t size = strcspn(hosts, "/?#");
        const char *at = size > 0 ? memrchr(hosts, '@', size) : NULL;
        const char *colon = at ? memchr(hosts, ':', (size_t)(at - hosts)) : NULL;
        if (colon) {
            *ret_begin = colon + 1;
            *ret_end = at;
            return true;
        }
    }
    const char *parameter = strstr(url, "password=");
    if (!parameter)
        return false;
    *ret_begin = parameter + sizeof("password=") - 1;
    *ret_end = *ret_begin + strcspn(*ret_begin, "& ");
    return true;
}

bool value_has_password(const char *url)
{
    const char *begin;
    const char *end;
    return find_password(url, &begin, &end) && end > begin;
}

const char *value_hide_password(const char *url, char *to, size_t size)
{
    assert(url && to && size > 0);

    const char *begin;
    const char *end;
    if (!find_password(url, &begin, &end)) {
        (void)snprintf(to, size, "%s", url);
        return to;
    }
    char rest[VALUE_TEXT_MAX + 1]; /* there may be another behind it */
    value_hide_password(end, rest, sizeof(rest));
    (void)snprintf(to, size, "%.*s***%s", (int)(begin - url), url, rest);
    return to;
}

/* The words of "a|b|c" one after the other; false behind the last. */
static bool next_word(const char **words, struct slice *ret_word)
{
    if (**words == '\0')
        return false;
    size_t size = strcspn(*words, "|");
    *ret_word = (struct slice){*words, size};
    *words += size + ((*words)[size] == '|');
    return true;
}

static enum err parse_choice(const char *words, struct slice text, unsigned *ret_choice,
                             struct error *error)
{
    const char *left = words;
    struct slice word;
    for (unsigned i = 0; next_word(&left, &word); i++)
        if (slice_equal_nocase(text, word)) {
            *ret_choice = i;
            return ERR_OK;
        }
    char quoted[64];
    return error_set(error, ERR_INVALID, "%s is none of %s",
                     message_quote(quoted, sizeof(quoted), text), words);
}

static enum err parse_boolean(struct slice text, bool *ret_boolean, struct error *error)
{
    static const struct {
        const char *word;
        bool means;
    } words[] = {{"yes", true}, {"no", false},  {"true", true}, {"false", false},
                 {"on", true},  {"off", false}, {"1", true},    {"0", false}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (slice_equal_nocase(text, slice_of(words[i].word))) {
            *ret_boolean = words[i].means;
            return ERR_OK;
        }
    char quoted[64];
    return error_set(error, ERR_INVALID, "%s is neither yes nor no",
                     message_quote(quoted, sizeof(quoted), text));
}

/* Cuts "HOST:PORT", "[HOST]:PORT" or "PORT" in two. */
static bool split_address(struct slice text, struct slice *ret_host, struct slice *ret_port)
{
    const char *colon = text.size > 0 ? memrchr(text.data, ':', text.size) : NULL;
    if (!colon) {
        *ret_host = SLICE("127.0.0.1");
        *ret_port = text;
        return true;
    }
    struct slice host = {text.data, (size_t)(colon - text.data)};
    *ret_port = (struct slice){colon + 1, text.size - host.size - 1};
    bool bracketed = host.size > 2 && host.data[0] == '[' && host.data[host.size - 1] == ']';
    bool has_colon = host.size > 0 && memchr(host.data, ':', host.size) != NULL;
    if (bracketed != has_colon)
        return false; /* an IPv6 address needs its brackets, or where would the port begin */
    *ret_host = bracketed ? (struct slice){host.data + 1, host.size - 2} : host;
    return true;
}

/* Numbers only: where a server listens should not depend on a look-up. */
static bool parse_host(struct slice text, struct value_address *ret_address)
{
    if (slice_equal(text, SLICE("localhost")))
        text = SLICE("127.0.0.1");
    if (text.size >= sizeof(ret_address->host) || memchr(text.data, 0, text.size))
        return false;
    memcpy(ret_address->host, text.data, text.size);

    bool loopback;
    return listener_is_address(ret_address->host, &loopback);
}

static enum err parse_address(const char *limits, struct slice text,
                              struct value_address *ret_address, struct error *error)
{
    if (slice_equal(text, SLICE("off")) && strcmp(limits, "off") == 0)
        return ERR_OK; /* all zero */
    char quoted[96];
    struct slice host;
    struct slice port_text;
    uint64_t port;
    if (!split_address(text, &host, &port_text) || !parse_host(host, ret_address) ||
        !decimal_parse_unsigned(port_text, &port))
        return error_set(error, ERR_INVALID,
                         "%s is not an address such as 127.0.0.1:6380, [::1]:6380 or 6380",
                         message_quote(quoted, sizeof(quoted), text));
    if (port > UINT16_MAX)
        return error_set(error, ERR_INVALID, "%s: ports end at %u",
                         message_quote(quoted, sizeof(quoted), text), UINT16_MAX);

    ret_address->port = (uint16_t)port;
    return ERR_OK;
}

bool value_is_loopback(const struct value_address *address)
{
    assert(address);

    bool loopback;
    return address->host[0] == '\0' || (listener_is_address(address->host, &loopback) && loopback);
}

/* --- all of them ------------------------------------------------------------ */

enum err value_parse(enum value_kind kind, const char *limits, struct slice text,
                     union value *ret_value, struct error *error)
{
    assert(limits);
    assert(ret_value);

    union value value;
    memset(&value, 0, sizeof(value));
    enum err err = ERR_OK;
    switch (kind) {
    case VALUE_TEXT:
    case VALUE_URL:
    case VALUE_SECRET:
        err = parse_text(text, &value.text, error);
        break;
    case VALUE_ADDRESS:
        err = parse_address(limits, text, &value.address, error);
        break;
    case VALUE_BYTES:
    case VALUE_DURATION:
    case VALUE_COUNT:
        err = parse_number(kind, limits, text, &value.number, error);
        break;
    case VALUE_CHOICE:
        err = parse_choice(limits, text, &value.choice, error);
        break;
    case VALUE_BOOLEAN:
        err = parse_boolean(text, &value.boolean, error);
        break;
    }
    if (!err)
        *ret_value = value;
    return err;
}

static void format_address(const struct value_address *address, char *to, size_t size)
{
    if (address->host[0] == '\0') {
        (void)snprintf(to, size, "off");
        return;
    }
    bool v6 = strchr(address->host, ':') != NULL;
    (void)snprintf(to, size, "%s%s%s:%u", v6 ? "[" : "", address->host, v6 ? "]" : "",
                   (unsigned)address->port);
}

static void format_choice(const char *words, unsigned choice, char *to, size_t size)
{
    struct slice word = {"", 0};
    for (unsigned i = 0; i <= choice; i++)
        if (!next_word(&words, &word))
            break;
    (void)snprintf(to, size, "%.*s", SLICE_ARGS(word));
}

const char *value_format(enum value_kind kind, const char *limits, const void *value, char *to,
                         size_t size)
{
    assert(limits);
    assert(value);
    assert(to && size > 0);

    switch (kind) {
    case VALUE_TEXT:
        (void)snprintf(to, size, "%s", ((const struct value_text *)value)->text);
        break;
    case VALUE_URL:
        value_hide_password(((const struct value_text *)value)->text, to, size);
        break;
    case VALUE_SECRET:
        (void)snprintf(to, size, "%s",
                       ((const struct value_text *)value)->text[0] ? "(hidden)" : "");
        break;
    case VALUE_ADDRESS:
        format_address(value, to, size);
        break;
    case VALUE_BYTES:
    case VALUE_DURATION:
    case VALUE_COUNT:
        format_number(kind, *(const uint64_t *)value, to, size);
        break;
    case VALUE_CHOICE:
        format_choice(limits, *(const unsigned *)value, to, size);
        break;
    case VALUE_BOOLEAN:
        (void)snprintf(to, size, "%s", *(const bool *)value ? "yes" : "no");
        break;
    }
    return to;
}
