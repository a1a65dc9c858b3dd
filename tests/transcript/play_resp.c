/* play_resp.c - plays a transcript of RESP against the door.
 *
 *   play_resp FILE...
 *
 * The door runs in this process, over the memory hot layer and a file log in a
 * folder of its own. A transcript is played once with every block of sent lines
 * whole, once byte by byte, and once cut at every place: the answers must be
 * the same, whatever the network does to the bytes. Then once more with every id
 * cold when it is first asked for. Each time begins with nothing stored.
 *
 *   # a remark
 *   ! kinds like,dislike,wow      settings: kinds, password, output_max, connections_max,
 *                                 cuts (where many would take too long), desk (yes: one that
 *                                 knows a few answers by heart)
 *   > INCR a\r\n                  sent, with the escapes of C
 *   < :1\r\n                      what must come back
 *   ~ $*\r\n                      a line that must match a pattern
 *   2> PING\r\n                   the same for a second connection
 *   closed                        the server must have closed; also "2closed"
 *
 * Lines that follow one another are sent, or expected, together. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/env.h"
#include "base/match.h"
#include "base/message.h"
#include "door/resp/resp.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_worker.h"
#include "flow/recovery.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"
#include "net/timer.h"

#include "cold.h"
#include "fake_desk.h"

#define ANSWER_WITHIN_S 5
#define WHOLE           SIZE_MAX       /* how a block is cut: not at all, */
#define BYTE_BY_BYTE    0              /* everywhere, or at this place */
#define COLD            (SIZE_MAX - 1) /* whole, and everything is cold at first */
#define CONNECTIONS     10
#define CUTS_MAX        400u /* blocks with more bytes are cut at so many places */

static void fail(const char *what, const char *more)
{
    fprintf(stderr, "play_resp: %s%s%s\n", what, more ? ": " : "", more ? more : "");
    exit(1);
}

/* ---- transcripts ---- */

enum step_kind { STEP_SEND, STEP_EXPECT, STEP_MATCH, STEP_CLOSED };

struct step {
    enum step_kind kind;
    int connection;
    int line;
    struct buffer bytes; /* owned */
};

struct transcript {
    const char *path;
    char kinds[256];
    char password[64]; /* empty = none */
    size_t output_max; /* 0 = the default */
    uint32_t connections_max;
    size_t cuts;
    bool desk;
    struct step *steps; /* owned */
    size_t count;
    size_t longest; /* block that is sent */
};

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Copies `text` with the escapes of C replaced. `\*1000{x}` stands for a
 * thousand x. */
static void unescape(char *text, struct buffer *to)
{
    for (char *at = text; *at; at++) {
        char c = *at;
        if (c == '\\') {
            c = *++at;
            if (c == 'r') {
                c = '\r';
            } else if (c == 'n') {
                c = '\n';
            } else if (c == 't') {
                c = '\t';
            } else if (c == 'x') {
                c = (char)(hex(at[1]) << 4 | hex(at[2]));
                at += 2;
            } else if (c == '*') {
                char *open;
                long times = strtol(at + 1, &open, 10);
                char *close = strchr(open, '}');
                if (*open != '{' || !close)
                    fail("a repetition is \\*N{text}", text);
                *close = '\0';
                for (long i = 0; i < times; i++)
                    unescape(open + 1, to);
                at = close;
                continue;
            }
        }
        buffer_append(to, &c, 1);
    }
}

static void add_step(struct transcript *transcript, enum step_kind kind, int connection, int line,
                     char *text)
{
    struct step *last = transcript->count > 0 ? &transcript->steps[transcript->count - 1] : NULL;
    bool joins = last && last->kind == kind && last->connection == connection &&
                 (kind == STEP_SEND || kind == STEP_EXPECT);
    if (!joins) {
        transcript->steps =
            realloc(transcript->steps, (transcript->count + 1) * sizeof(*transcript->steps));
        last = &transcript->steps[transcript->count++];
        *last = (struct step){.kind = kind, .connection = connection, .line = line};
        buffer_init(&last->bytes, 64 << 20);
    }
    unescape(text, &last->bytes);
    if (kind == STEP_SEND && last->bytes.size > transcript->longest)
        transcript->longest = last->bytes.size;
}

static void read_setting(struct transcript *transcript, const char *text)
{
    char name[32];
    char value[256];
    if (sscanf(text, "%31s %255s", name, value) != 2)
        fail("not a setting", text);
    if (strcmp(name, "kinds") == 0)
        snprintf(transcript->kinds, sizeof(transcript->kinds), "%s", value);
    else if (strcmp(name, "password") == 0)
        snprintf(transcript->password, sizeof(transcript->password), "%.63s", value);
    else if (strcmp(name, "output_max") == 0)
        transcript->output_max = strtoul(value, NULL, 10);
    else if (strcmp(name, "connections_max") == 0)
        transcript->connections_max = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "cuts") == 0)
        transcript->cuts = strtoul(value, NULL, 10);
    else if (strcmp(name, "desk") == 0)
        transcript->desk = strcmp(value, "yes") == 0;
    else
        fail("no such setting", text);
}

static void read_line(struct transcript *transcript, char *text, int line)
{
    int connection = 1;
    if (*text >= '1' && *text <= '9')
        connection = *text++ - '0';
    if (*text == '\0' || *text == '#')
        return;
    if (strncmp(text, "! ", 2) == 0)
        read_setting(transcript, text + 2);
    else if (strncmp(text, "> ", 2) == 0)
        add_step(transcript, STEP_SEND, connection, line, text + 2);
    else if (strncmp(text, "< ", 2) == 0)
        add_step(transcript, STEP_EXPECT, connection, line, text + 2);
    else if (strncmp(text, "~ ", 2) == 0)
        add_step(transcript, STEP_MATCH, connection, line, text + 2);
    else if (strcmp(text, "closed") == 0)
        add_step(transcript, STEP_CLOSED, connection, line, text + strlen(text));
    else
        fail("not a line of a transcript", text);
}

static void transcript_read(struct transcript *transcript, const char *path)
{
    *transcript = (struct transcript){.path = path, .kinds = "like,dislike", .cuts = CUTS_MAX};
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot open", path);
    char *text = NULL;
    size_t room = 0;
    ssize_t size;
    for (int line = 1; (size = getline(&text, &room, file)) >= 0; line++) {
        if (size > 0 && text[size - 1] == '\n')
            text[size - 1] = '\0';
        read_line(transcript, text, line);
    }
    free(text);
    fclose(file);
}

static void transcript_done(struct transcript *transcript)
{
    for (size_t i = 0; i < transcript->count; i++)
        buffer_done(&transcript->steps[i].bytes);
    free(transcript->steps);
}

/* ---- the server ---- */

struct server {
    char folder[64];
    struct log *log;
    struct hot *hot;
    struct kinds kinds;
    struct service service;
    struct resp *resp;
    struct loop *loop;
    struct timer *tick;
    pthread_t thread;
    bool cold;
};

static void wake(void *arg)
{
    resp_wake_all(((struct server *)arg)->resp);
}

static void *run(void *arg)
{
    loop_run(((struct server *)arg)->loop);
    return NULL;
}

static void tick(void *arg)
{
    struct server *server = arg;
    hot_tick(server->hot, env_wall_ms(env_system()));
}

static void log_broke(void *arg, const struct error *error)
{
    (void)arg;
    fail("the log broke", error->text);
}

static void server_open_pipeline(struct server *server, const struct transcript *transcript)
{
    struct error error;
    snprintf(server->folder, sizeof(server->folder), "/tmp/play_resp_XXXXXX");
    if (!mkdtemp(server->folder))
        fail("cannot make a folder", NULL);
    struct file_log_options log_options = {
        .folder = server->folder,
        .segment_bytes = 1 << 20,
        .pending_bytes_max = 64 << 20,
        .fatal = log_broke,
    };
    if (kinds_parse(&server->kinds, slice_of(transcript->kinds), &error) ||
        file_log_open(env_system(), &log_options, &server->log, &error))
        fail("cannot open", error.text);
    struct memory_hot_options hot_options = {
        .kinds = &server->kinds,
        .log = server->log,
        .workers = 1,
        .keys_kept_ms = 86400000,
        .spread_rate = 1000000,
    };
    server->hot = memory_hot_open(env_system(), &hot_options);
    struct recovery recovery;
    if (recovery_run(env_system(), server->log, server->hot, (struct log_position){0, 0}, &recovery,
                     &error))
        fail("cannot recover", error.text);
    service_init(&server->service, env_system(), server->hot, server->log, &server->kinds,
                 ACK_DURABLE);
    if (transcript->desk)
        server->service.desk = fake_desk_open();
}

static void say_config(void *arg, resp_config_say_fn *say, void *to)
{
    (void)arg;
    say(to, "ack", "durable");
    say(to, "workers", "1");
}

static void server_start(struct server *server, const struct transcript *transcript)
{
    struct error error;
    server_open_pipeline(server, transcript);
    struct resp_options options = RESP_OPTIONS_DEFAULT;
    options.port = 0;
    options.password = transcript->password[0] ? transcript->password : NULL;
    options.version = "test";
    options.config = say_config;
    if (transcript->output_max > 0)
        options.output_bytes_max = transcript->output_max;
    if (transcript->connections_max > 0)
        options.connections_max = transcript->connections_max;
    server->resp = resp_new(&server->service, &options, 1, &error);
    server->loop = loop_new(&error);
    if (!server->resp || !server->loop || resp_listen(server->resp, server->loop, 0, &error))
        fail("cannot listen", error.text);
    server->tick = timer_new(server->loop, tick, server);
    timer_start(server->tick, 100, 100);
    callback_set(&server->log->progress, wake, server);
    if (log_start(server->log, &error))
        fail("cannot start the log", error.text);
    server->hot->arrive = wake;
    server->hot->arrive_arg = server;
    if (server->cold)
        cold_begin(server->hot);
    pthread_create(&server->thread, NULL, run, server);
}

static void drained(void *arg, unsigned worker)
{
    (void)worker;
    loop_stop(((struct server *)arg)->loop);
}

static void remove_folder(const char *folder)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    if (system(command) != 0)
        fail("cannot remove", folder);
}

static void server_stop(struct server *server)
{
    resp_drain(server->resp, 0, drained, server);
    pthread_join(server->thread, NULL);
    if (server->cold)
        cold_end(server->hot);
    fake_desk_close(server->service.desk);
    timer_free(server->tick);
    log_close(server->log);
    resp_free(server->resp);
    loop_free(server->loop);
    hot_close(server->hot);
    service_done(&server->service);
    remove_folder(server->folder);
}

/* ---- playing ---- */

struct play {
    const struct transcript *transcript;
    size_t cut;
    struct server server;
    int connections[CONNECTIONS]; /* descriptors; 0 = not open */
    uint64_t sent;                /* bytes, all together */
};

static void fail_step(const struct play *play, const struct step *step, const char *what,
                      struct slice got)
{
    fprintf(stderr, "%s:%d: %s (", play->transcript->path, step->line, what);
    if (play->cut == WHOLE)
        fprintf(stderr, "played whole)\n");
    else if (play->cut == COLD)
        fprintf(stderr, "everything cold)\n");
    else if (play->cut == BYTE_BY_BYTE)
        fprintf(stderr, "byte by byte)\n");
    else
        fprintf(stderr, "cut at byte %zu)\n", play->cut);
    fprintf(stderr, "  expected: %.*s\n  got:      ", SLICE_ARGS(buffer_slice(&step->bytes)));
    for (size_t i = 0; i < got.size; i++) {
        unsigned char c = (unsigned char)got.data[i];
        if (c == '\r')
            fprintf(stderr, "\\r");
        else if (c == '\n')
            fprintf(stderr, "\\n");
        else if (c >= ' ' && c <= '~')
            fputc(c, stderr);
        else
            fprintf(stderr, "\\x%02x", c);
    }
    fputc('\n', stderr);
    exit(1);
}

static int connection_of(struct play *play, int number)
{
    if (play->connections[number] > 0)
        return play->connections[number];
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(resp_port(play->server.resp))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("cannot connect", NULL);
    int on = 1;
    struct timeval patience = {.tv_sec = ANSWER_WITHIN_S};
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    play->connections[number] = descriptor;
    return descriptor;
}

/* Waits until the door has read all that was sent, so that a cut is a cut. A
 * client that is closing is not read from: then a moment is enough. */
static void wait_until_read(const struct play *play)
{
    const struct resp_worker *worker = resp_door_worker(play->server.resp, 0);
    for (int i = 0; i < 200 && gauge_read(&worker->stats.bytes_in) < play->sent; i++)
        usleep(20);
}

static void send_piece(struct play *play, int descriptor, const char *data, size_t size)
{
    if (size > 0 && send(descriptor, data, size, MSG_NOSIGNAL) == (ssize_t)size)
        play->sent += size;
}

static void play_send(struct play *play, const struct step *step)
{
    int descriptor = connection_of(play, step->connection);
    const char *data = step->bytes.data;
    size_t size = step->bytes.size;
    if (play->cut == BYTE_BY_BYTE) {
        for (size_t i = 0; i < size; i++) {
            send_piece(play, descriptor, data + i, 1);
            wait_until_read(play);
        }
        return;
    }
    size_t first = play->cut < size ? play->cut : size;
    send_piece(play, descriptor, data, first);
    if (first < size) {
        wait_until_read(play);
        send_piece(play, descriptor, data + first, size - first);
    }
}

static void play_expect(struct play *play, const struct step *step)
{
    int descriptor = connection_of(play, step->connection);
    struct buffer got;
    buffer_init(&got, step->bytes.size);
    while (got.size < step->bytes.size) {
        char bytes[4096];
        size_t want = step->bytes.size - got.size;
        ssize_t size = recv(descriptor, bytes, want < sizeof(bytes) ? want : sizeof(bytes), 0);
        if (size <= 0)
            break;
        buffer_append(&got, bytes, (size_t)size);
        if (memcmp(got.data, step->bytes.data, got.size) != 0) {
            ssize_t rest = recv(descriptor, bytes, sizeof(bytes), MSG_DONTWAIT);
            struct buffer all = {.max = 1 << 20};
            buffer_append_slice(&all, buffer_slice(&got));
            buffer_append(&all, bytes, rest > 0 ? (size_t)rest : 0);
            fail_step(play, step, "another answer", buffer_slice(&all));
        }
    }
    if (got.size < step->bytes.size)
        fail_step(play, step, "the answer ends early", buffer_slice(&got));
    buffer_done(&got);
}

static void play_match(struct play *play, const struct step *step)
{
    int descriptor = connection_of(play, step->connection);
    struct buffer line;
    buffer_init(&line, 1 << 20);
    char byte = 0;
    while (byte != '\n' && recv(descriptor, &byte, 1, 0) == 1)
        buffer_append(&line, &byte, 1);
    if (!match_glob(buffer_slice(&step->bytes), buffer_slice(&line)))
        fail_step(play, step, "the line does not match", buffer_slice(&line));
    buffer_done(&line);
}

static void play_closed(struct play *play, const struct step *step)
{
    char bytes[256];
    ssize_t size = recv(connection_of(play, step->connection), bytes, sizeof(bytes), 0);
    if (size > 0)
        fail_step(play, step, "more came instead of the end", (struct slice){bytes, (size_t)size});
    if (size < 0 && errno != ECONNRESET)
        fail_step(play, step, "the connection is still open", (struct slice){NULL, 0});
}

static void play_transcript(const struct transcript *transcript, size_t cut)
{
    struct play play = {.transcript = transcript, .cut = cut};
    play.server.cold = cut == COLD;
    server_start(&play.server, transcript);
    for (size_t i = 0; i < transcript->count; i++) {
        const struct step *step = &transcript->steps[i];
        switch (step->kind) {
        case STEP_SEND:
            play_send(&play, step);
            break;
        case STEP_EXPECT:
            play_expect(&play, step);
            break;
        case STEP_MATCH:
            play_match(&play, step);
            break;
        case STEP_CLOSED:
            play_closed(&play, step);
            break;
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        if (play.connections[i] > 0)
            close(play.connections[i]);
    }
    server_stop(&play.server);
}

int main(int argc, char **argv)
{
    message_set_level(MESSAGE_ERROR); /* warnings of what transcripts do on purpose */
    for (int i = 1; i < argc; i++) {
        struct transcript transcript;
        transcript_read(&transcript, argv[i]);
        play_transcript(&transcript, WHOLE);
        play_transcript(&transcript, COLD);
        if (transcript.longest <= 16 * CUTS_MAX)
            play_transcript(&transcript, BYTE_BY_BYTE);
        size_t step = transcript.longest / transcript.cuts + 1;
        for (size_t cut = 1; cut < transcript.longest; cut += step)
            play_transcript(&transcript, cut);
        transcript_done(&transcript);
    }
    return 0;
}
