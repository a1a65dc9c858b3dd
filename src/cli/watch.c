#include "cli/watch.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/decimal.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "cli/answer.h"
#include "cli/print.h"
#include "cli/session.h"

#define ROWS_MAX     100000u /* ids that are remembered; later ones are left out, and it is said */
#define SLOTS        (4u * 65536u)
#define FIRST_IDS    1000u /* shown before they change */
#define IDS_AT_ONCE  500u  /* that a command names */
#define SCREEN_BYTES ((size_t)4 << 20)

struct row {
    char *id; /* owned */
    size_t id_size;
    char *value; /* owned: may be larger than any register */
    int64_t number;
    bool is_number;
    int64_t drawn; /* number at the last look */
    int64_t first; /* number at the beginning */
    double rate;   /* a second, between the last two looks */
    uint64_t changes;
};

enum order { ORDER_RATE, ORDER_VALUE, ORDER_ID, ORDER_COUNT };
static const char *const order_names[] = {"rate", "value", "id"};

struct watch {
    struct session *session;
    redisContext *context; /* listens; owned */
    struct row *rows;      /* owned */
    size_t count;
    size_t left_out;
    uint32_t *slots; /* owned; place of a row + 1, by hash of its id */
    uint64_t changes;
    enum order order;
    uint64_t looked_ns;
    uint64_t interval_ns;
    uint64_t stop_after; /* looks, or lines in a pipe; 0: never */
    uint64_t looks;
    bool in_terminal;
    bool is_over;
};

static volatile sig_atomic_t is_stopped;

static void stop(int number)
{
    (void)number;
    is_stopped = 1;
}

static void wake(int number)
{
    (void)number; /* poll() comes back, and the size is looked at again */
}

/* --- rows ------------------------------------------------------------------------- */

/* The row of an id; made if it is new. NULL: there are too many. */
static struct row *row_of(struct watch *watch, struct slice id)
{
    uint64_t hash = hash_stable(id);
    for (uint32_t slot = (uint32_t)hash % SLOTS;; slot = (slot + 1) % SLOTS) {
        uint32_t place = watch->slots[slot];
        if (place == 0) {
            if (watch->count == ROWS_MAX)
                return NULL;
            struct row *row = &watch->rows[watch->count++];
            *row = (struct row){.id = memory_take(id.size + 1), .id_size = id.size};
            memcpy(row->id, id.data, id.size);
            row->id[id.size] = 0;
            watch->slots[slot] = (uint32_t)watch->count;
            return row;
        }
        struct row *row = &watch->rows[place - 1];
        if (slice_equal((struct slice){row->id, row->id_size}, id))
            return row;
    }
}

static void set_value(struct row *row, struct slice value, bool is_first)
{
    free(row->value);
    row->value = memory_take(value.size + 1);
    memcpy(row->value, value.data, value.size);
    row->value[value.size] = 0;
    row->is_number = decimal_parse(value, &row->number);
    if (is_first)
        row->drawn = row->first = row->number;
}

/* --- lines, for pipes ------------------------------------------------------------- */

static void print_change(struct watch *watch, struct slice id, struct slice value)
{
    int64_t now_ms = env_wall_ms(env_system());
    if (watch->session->json) {
        print_json_line(json_pack("{s:I, s:o, s:o}", "time_ms", (json_int_t)now_ms, "id",
                                  print_json_bytes(id), "value", print_json_bytes(value)));
    } else {
        char time[PRINT_TIME_BYTES];
        struct buffer text;
        buffer_init(&text, SCREEN_BYTES);
        print_escaped(&text, id);
        (void)printf("%s %.*s %.*s\n", print_time(now_ms, time), (int)text.size,
                     text.size ? text.data : "", SLICE_ARGS(value));
        buffer_done(&text);
    }
    if (fflush(stdout) != 0 || (watch->stop_after > 0 && ++watch->looks >= watch->stop_after))
        watch->is_over = true;
}

/* --- what the server tells ---------------------------------------------------------- */

static void changed(struct watch *watch, struct slice id, struct slice value)
{
    struct row *row = row_of(watch, id);
    if (!row) {
        watch->left_out++;
        return;
    }
    /* One that was not there before began with nothing. */
    bool is_first = !row->value;
    set_value(row, value, is_first);
    if (is_first)
        row->drawn = row->first = 0;
    row->changes++;
    watch->changes++;
    if (!watch->in_terminal && !watch->is_over)
        print_change(watch, id, value);
}

/* message id value, or pmessage pattern id value */
static void told(struct watch *watch, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || !reply->element[0]->str)
        return;
    size_t at = strcmp(reply->element[0]->str, "message") == 0    ? 1
                : strcmp(reply->element[0]->str, "pmessage") == 0 ? 2
                                                                  : 0;
    if (at == 0 || reply->elements < at + 2)
        return;
    const redisReply *id = reply->element[at];
    char room[ANSWER_NUMBER_BYTES];
    changed(watch, (struct slice){id->str, id->len}, answer_text(reply->element[at + 1], room));
}

static int read_told(struct watch *watch)
{
    if (redisBufferRead(watch->context) != REDIS_OK)
        return session_broke(watch->session, watch->context);
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(watch->context->reader, &reply) != REDIS_OK)
            return session_broke(watch->session, watch->context);
        if (!reply)
            return EXIT_FINE;
        told(watch, reply);
        freeReplyObject(reply);
    }
}

static bool is_pattern(const char *word)
{
    return strpbrk(word, "*?[") != NULL;
}

static int subscribe(struct watch *watch, const struct command_line *line)
{
    int code = EXIT_FINE;
    watch->context = session_open(watch->session, &code);
    if (!watch->context)
        return code;
    for (int i = 0; i < line->word_count || i == 0; i++) {
        const char *word = line->word_count > 0 ? line->words[i] : "*";
        const char *argv[] = {is_pattern(word) ? "PSUBSCRIBE" : "SUBSCRIBE", word};
        if (redisAppendCommandArgv(watch->context, 2, argv, NULL) != REDIS_OK)
            return session_broke(watch->session, watch->context);
    }
    int is_done = 0;
    while (!is_done)
        if (redisBufferWrite(watch->context, &is_done) != REDIS_OK)
            return session_broke(watch->session, watch->context);
    return EXIT_FINE;
}

/* Values of some ids, as they are before anything changes. */
static int read_values(struct watch *watch, const struct slice *ids, size_t count)
{
    struct slice words[IDS_AT_ONCE + 1] = {SLICE("MGET")};
    int code = EXIT_FINE;
    assert(count <= IDS_AT_ONCE);
    memcpy(words + 1, ids, count * sizeof(*ids));
    redisReply *reply = session_send(watch->session, words, count + 1, &code);
    for (size_t i = 0; reply && i < reply->elements && i < count; i++) {
        char room[ANSWER_NUMBER_BYTES];
        struct row *row = row_of(watch, ids[i]);
        if (row && !row->value)
            set_value(row,
                      answer_is_nil(reply->element[i]) ? SLICE("-")
                                                       : answer_text(reply->element[i], room),
                      true);
    }
    freeReplyObject(reply);
    return code;
}

static int read_matching(struct watch *watch, const char *pattern)
{
    char cursor[64] = "0";
    int code = EXIT_FINE;
    do {
        redisReply *page = session_call(watch->session, &code, "SCAN", cursor, "MATCH", pattern,
                                        "COUNT", "1000", NULL);
        if (!page)
            return code;
        const redisReply *found = page->element[1];
        struct slice ids[IDS_AT_ONCE];
        size_t count = 0;
        for (size_t i = 0; code == EXIT_FINE && i < found->elements; i++) {
            ids[count++] = (struct slice){found->element[i]->str, found->element[i]->len};
            if (count == IDS_AT_ONCE || i + 1 == found->elements) {
                code = read_values(watch, ids, count);
                count = 0;
            }
        }
        (void)snprintf(cursor, sizeof(cursor), "%s", page->element[0]->str);
        freeReplyObject(page);
    } while (code == EXIT_FINE && strcmp(cursor, "0") != 0 && watch->count < FIRST_IDS);
    return code;
}

/* Behind the subscription, so that nothing is missed in between. */
static int read_first(struct watch *watch, const struct command_line *line)
{
    int code = EXIT_FINE;
    for (int i = 0; code == EXIT_FINE && (i < line->word_count || i == 0); i++) {
        const char *word = line->word_count > 0 ? line->words[i] : "*";
        struct slice id = slice_of(word);
        code = is_pattern(word) ? read_matching(watch, word) : read_values(watch, &id, 1);
    }
    return code;
}

/* --- the table, for terminals -------------------------------------------------------- */

static enum order sort_order; /* qsort() passes nothing along */

static int compare_text(const struct row *a, const struct row *b)
{
    return strcmp(a->id, b->id);
}

static int compare_rows(const void *one, const void *other)
{
    const struct row *a = *(const struct row *const *)one;
    const struct row *b = *(const struct row *const *)other;
    if (sort_order == ORDER_RATE && a->rate != b->rate)
        return a->rate > b->rate ? -1 : 1;
    if (sort_order != ORDER_ID && a->number != b->number)
        return a->number > b->number ? -1 : 1;
    return compare_text(a, b);
}

static void measure_rates(struct watch *watch, uint64_t now)
{
    double seconds = (double)(now - watch->looked_ns) / 1e9;
    for (size_t i = 0; i < watch->count; i++) {
        struct row *row = &watch->rows[i];
        row->rate = row->is_number && seconds > 0
                        ? ((double)row->number - (double)row->drawn) / seconds
                        : 0;
        row->drawn = row->number;
    }
    watch->looked_ns = now;
}

static void add_line(struct buffer *screen, const char *text, int columns)
{
    (void)buffer_printf(screen, "%.*s\033[K\r\n", columns, text);
}

static void add_row(struct buffer *screen, const struct row *row, int columns)
{
    struct buffer id;
    buffer_init(&id, SCREEN_BYTES);
    print_escaped(&id, (struct slice){row->id, row->id_size});
    int room = columns - 50 > 10 ? columns - 50 : 10;
    size_t width = print_width(buffer_slice(&id));
    int pad = width < (size_t)room ? room - (int)width : 0;
    int shown = width <= (size_t)room ? (int)id.size : room;
    char line[1024];
    (void)snprintf(line, sizeof(line), "%.*s%*s  %20s  %12.1f  %+12lld", shown,
                   id.size ? id.data : "", pad, "", row->value ? row->value : "-", row->rate,
                   (long long)(row->number - row->first));
    add_line(screen, line, columns + (int)(id.size - width));
    buffer_done(&id);
}

static void add_heading(const struct watch *watch, struct buffer *screen, int columns)
{
    char address[SETTINGS_HOST_BYTES + 16];
    char line[1024];
    (void)settings_address(&watch->session->settings, address, sizeof(address));
    (void)snprintf(line, sizeof(line), "%s  %zu counters  %llu changes  by %s  (s sorts, q ends)%s",
                   address, watch->count, (unsigned long long)watch->changes,
                   order_names[watch->order], watch->left_out > 0 ? "  some are left out" : "");
    add_line(screen, line, columns);
    int room = columns - 50 > 10 ? columns - 50 : 10;
    (void)snprintf(line, sizeof(line), "%-*s  %20s  %12s  %12s", room, "id", "value", "a second",
                   "since start");
    bool colours = watch->session->colours;
    (void)buffer_printf(screen, "%s%.*s%s\033[K\r\n", colours ? "\033[7m" : "", columns, line,
                        colours ? "\033[0m" : "");
}

static void draw(struct watch *watch)
{
    struct winsize window = {.ws_row = 24, .ws_col = 80};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    int columns = window.ws_col > 1 ? window.ws_col - 1 : 80;
    size_t room = window.ws_row > 3 ? (size_t)window.ws_row - 3 : 1;
    struct row **order = memory_take((watch->count + 1) * sizeof(struct row *));
    for (size_t i = 0; i < watch->count; i++)
        order[i] = &watch->rows[i];
    sort_order = watch->order;
    qsort(order, watch->count, sizeof(struct row *), compare_rows);

    struct buffer screen;
    buffer_init(&screen, SCREEN_BYTES);
    (void)buffer_printf(&screen, "\033[H");
    add_heading(watch, &screen, columns);
    for (size_t i = 0; i < watch->count && i < room; i++)
        add_row(&screen, order[i], columns);
    (void)buffer_printf(&screen, "\033[J");
    (void)fwrite(screen.data, 1, screen.size, stdout);
    (void)fflush(stdout);
    buffer_done(&screen);
    free(order);
}

static void look(struct watch *watch, uint64_t now)
{
    measure_rates(watch, now);
    draw(watch);
    if (watch->stop_after > 0 && ++watch->looks >= watch->stop_after)
        watch->is_over = true;
}

static void read_key(struct watch *watch)
{
    char key;
    if (read(STDIN_FILENO, &key, 1) != 1)
        return;
    if (key == 'q')
        watch->is_over = true;
    if (key == 's') {
        watch->order = (watch->order + 1) % ORDER_COUNT;
        draw(watch);
    }
}

/* --- waiting ---------------------------------------------------------------------- */

static int wait_ms(const struct watch *watch)
{
    if (!watch->in_terminal)
        return -1;
    uint64_t now = env_monotonic_ns(env_system());
    uint64_t due = watch->looked_ns + watch->interval_ns;
    return due > now ? (int)((due - now) / 1000000) + 1 : 0;
}

static int watch_changes(struct watch *watch)
{
    struct pollfd pollers[] = {
        {.fd = watch->context->fd, .events = POLLIN},
        {.fd = watch->in_terminal && isatty(STDIN_FILENO) ? STDIN_FILENO : -1, .events = POLLIN}};
    int code = EXIT_FINE;
    if (watch->in_terminal)
        draw(watch);
    while (code == EXIT_FINE && !watch->is_over && !is_stopped) {
        int ready = poll(pollers, 2, wait_ms(watch));
        if (ready < 0 && errno == EINTR && watch->in_terminal && !is_stopped)
            draw(watch); /* the window changed its size */
        if (ready > 0 && pollers[0].revents)
            code = read_told(watch);
        if (ready > 0 && pollers[1].revents)
            read_key(watch);
        uint64_t now = env_monotonic_ns(env_system());
        if (watch->in_terminal && now - watch->looked_ns >= watch->interval_ns)
            look(watch, now);
    }
    return code;
}

/* The terminal as it is wanted: another screen, no cursor, keys at once. */
static int watch_in_terminal(struct watch *watch)
{
    struct termios before;
    bool has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
    if (has_keys) {
        struct termios raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    (void)fputs("\033[?1049h\033[?25l", stdout);
    int code = watch_changes(watch);
    (void)fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return code;
}

static int run(struct watch *watch, const struct command_line *line)
{
    int code = subscribe(watch, line);
    if (code == EXIT_FINE)
        code = read_first(watch, line);
    if (code != EXIT_FINE)
        return code;
    struct sigaction before[3];
    struct sigaction stopper = {.sa_handler = stop};
    struct sigaction waker = {.sa_handler = wake};
    is_stopped = 0;
    (void)sigaction(SIGINT, &stopper, &before[0]);
    (void)sigaction(SIGTERM, &stopper, &before[1]);
    (void)sigaction(SIGWINCH, &waker, &before[2]);
    watch->looked_ns = env_monotonic_ns(env_system());
    code = watch->in_terminal ? watch_in_terminal(watch) : watch_changes(watch);
    (void)sigaction(SIGINT, &before[0], NULL);
    (void)sigaction(SIGTERM, &before[1], NULL);
    (void)sigaction(SIGWINCH, &before[2], NULL);
    return code == EXIT_FINE && is_stopped ? EXIT_STOPPED : code;
}

static int read_interval(struct watch *watch, const struct command_line *line)
{
    const char *text = command_value(line, COMMAND_INTERVAL);
    char *end = NULL;
    double seconds = text ? strtod(text, &end) : 1;
    int64_t count;
    struct error error;
    if (text && (*end || end == text || !(seconds >= 0.1 && seconds <= 3600)))
        return session_fail(EXIT_USAGE, "--interval is a number of seconds from 0.1 to 3600");
    if (command_number(line, COMMAND_COUNT, 0, 0, INT64_MAX, &count, &error))
        return session_fail(EXIT_USAGE, "%s", error.text);
    watch->interval_ns = (uint64_t)(seconds * 1e9);
    watch->stop_after = (uint64_t)count;
    return EXIT_FINE;
}

int watch_run(struct session *session, const struct command_line *line)
{
    struct watch watch = {.session = session,
                          .in_terminal = isatty(STDOUT_FILENO) && !session->json};
    int code = read_interval(&watch, line);
    if (code != EXIT_FINE)
        return code;
    watch.rows = memory_take_zeroed(ROWS_MAX * sizeof(*watch.rows));
    watch.slots = memory_take_zeroed(SLOTS * sizeof(*watch.slots));
    code = run(&watch, line);
    for (size_t i = 0; i < watch.count; i++) {
        free(watch.rows[i].id);
        free(watch.rows[i].value);
    }
    free(watch.rows);
    free(watch.slots);
    if (watch.context)
        redisFree(watch.context);
    return code;
}
