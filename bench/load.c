/* load.c - the load generator: how fast does a RESP server answer?
 *
 * One thread and one epoll. Every connection owns a batch of requests, laid out
 * before the clock starts; it writes the batch, waits for all the replies,
 * renews the numbers in the batch and writes it again. The client therefore does
 * little but system calls, and the server is what is measured.
 *
 * A latency is that of a batch, from its first write to its last reply: what a
 * caller who pipelines waits for. When the time is over no more batches are
 * written, and the clock stops with the last reply, so that requests and replies,
 * and the server's CPU time around the run, belong together.
 *
 * With --rate a batch waits for its turn when the run is ahead of the rate: to see
 * how a server does that is not asked for all it can.
 *
 * Left out on purpose: threads (run two) and TLS. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "reply.h"
#include "work.h"

#define INPUT_BYTES      ((size_t)64 * 1024)
#define BATCH_BYTES_MAX  ((size_t)64 * 1024 * 1024)
#define CONNECTIONS_MAX  60000
#define EVENTS_PER_WAIT  256
#define SILENCE_LIMIT_MS 10000
#define SCRIPT_BYTES_MAX 65536
#define SHA_CHARS        40
#define NS_PER_S         1000000000.0

enum exit_code { EXIT_GOOD, EXIT_ERROR_REPLIES, EXIT_CANNOT_RUN };
enum format { FORMAT_HUMAN, FORMAT_CSV, FORMAT_JSON };

struct options {
    const char *host;
    uint16_t port;
    unsigned connections;
    unsigned pipeline;
    double seconds;
    uint64_t requests; /* 0: as many as fit into `seconds` */
    uint64_t rate;     /* requests a second; 0: as many as the server takes */
    const char *work_name;
    const char *template;
    const char *script; /* file name, or NULL */
    struct work_numbers numbers;
    enum format format;
};

struct connection {
    int fd;
    bool waits_to_write; /* EPOLLOUT is asked for */
    char *batch;         /* owned */
    size_t batch_bytes;  /* of the batch under way */
    size_t written;
    uint64_t expected; /* replies that end the batch */
    uint64_t written_at_ns;
    bool waits_for_turn; /* ahead of the rate */
    struct reply_scanner scanner;
    char *input; /* owned; begins with the piece of a line that was left over */
    size_t input_bytes;
};

struct load {
    const struct options *options;
    struct work work;
    struct work_numbers numbers;
    int epoll_fd;
    struct connection *connections; /* owned */
    unsigned busy;                  /* connections with a batch under way */
    unsigned waiting;               /* connections that wait for their turn */
    uint64_t sent;
    uint64_t answered;
    uint64_t began_ns;
    uint64_t deadline_ns;
    uint64_t ended_ns;
    struct reply_errors errors;
    struct histogram latency_ns;
};

/* --- small things ------------------------------------------------------- */

static _Noreturn void __attribute__((format(printf, 1, 2))) die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("bench_load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_CANNOT_RUN);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        die("out of memory");
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * (uint64_t)NS_PER_S + (uint64_t)now.tv_nsec;
}

/* --- connecting --------------------------------------------------------- */

static int connect_to(const struct options *options)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    if (inet_pton(AF_INET, options->host, &address.sin_addr) != 1)
        die("%s: not an IPv4 address", options->host);

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("cannot make a socket: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        die("cannot connect to %s:%u: %s", options->host, options->port, strerror(errno));

    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* Each connection is a descriptor, and the usual soft limit of 1024 is soon reached. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static size_t read_script(const char *name, char *script)
{
    FILE *file = fopen(name, "r");
    if (!file)
        die("cannot open %s: %s", name, strerror(errno));
    size_t size = fread(script, 1, SCRIPT_BYTES_MAX, file);
    fclose(file);
    if (size == 0 || size == SCRIPT_BYTES_MAX)
        die("%s: empty, or larger than a script may be", name);
    return size;
}

/* Hands the script to the server, whose answer is the name to call it by. */
static void load_script(const struct options *options, char *ret_sha)
{
    static char script[SCRIPT_BYTES_MAX];
    size_t size = read_script(options->script, script);

    int fd = connect_to(options);
    dprintf(fd, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%.*s\r\n", size, (int)size, script);

    char reply[SHA_CHARS + 7] = "";
    ssize_t got = recv(fd, reply, sizeof(reply), MSG_WAITALL);
    close(fd);
    if (got != (ssize_t)sizeof(reply) || strncmp(reply, "$40\r\n", 5) != 0)
        die("the server did not take %s: %.*s", options->script, (int)(got > 0 ? got : 0), reply);
    memcpy(ret_sha, reply + 5, SHA_CHARS);
    ret_sha[SHA_CHARS] = '\0';
}

static void open_connection(struct load *load, struct connection *connection)
{
    size_t batch_bytes = load->work.size * load->options->pipeline;
    *connection = (struct connection){
        .fd = connect_to(load->options),
        .batch = allocate(1, batch_bytes),
        .input = allocate(1, INPUT_BYTES),
        .scanner = {.errors = &load->errors},
    };
    work_lay_out(&load->work, connection->batch, load->options->pipeline);

    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) < 0)
        die("epoll: %s", strerror(errno));
}

static void load_open(struct load *load, const struct options *options)
{
    char sha[SHA_CHARS + 1];
    if (options->script)
        load_script(options, sha);
    *load = (struct load){.options = options, .numbers = options->numbers};

    const char *problem = work_init(&load->work, options->template, options->script ? sha : NULL);
    if (problem)
        die("%s: %s", options->template, problem);
    if (load->work.size * options->pipeline > BATCH_BYTES_MAX)
        die("a batch is larger than %zu bytes", BATCH_BYTES_MAX);

    raise_descriptor_limit();
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll_fd < 0)
        die("epoll: %s", strerror(errno));
    load->connections = allocate(options->connections, sizeof(*load->connections));
    for (unsigned i = 0; i < options->connections; i++)
        open_connection(load, &load->connections[i]);
}

static void load_close(struct load *load)
{
    for (unsigned i = 0; i < load->options->connections; i++) {
        close(load->connections[i].fd);
        free(load->connections[i].batch);
        free(load->connections[i].input);
    }
    free(load->connections);
    close(load->epoll_fd);
    work_done(&load->work);
}

/* --- running ------------------------------------------------------------ */

static void ask_to_write(struct load *load, struct connection *connection, bool wanted)
{
    if (connection->waits_to_write == wanted)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0),
                                .data.ptr = connection};
    if (epoll_ctl(load->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) < 0)
        die("epoll: %s", strerror(errno));
    connection->waits_to_write = wanted;
}

static void write_batch(struct load *load, struct connection *connection)
{
    while (connection->written < connection->batch_bytes) {
        ssize_t wrote = send(connection->fd, connection->batch + connection->written,
                             connection->batch_bytes - connection->written, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN)
            break;
        if (wrote < 0)
            die("cannot write: %s", strerror(errno));
        connection->written += (size_t)wrote;
    }
    ask_to_write(load, connection, connection->written < connection->batch_bytes);
}

/* How many requests the next batch may have; 0 when the run is over. */
static size_t next_batch_size(const struct load *load, uint64_t now)
{
    const struct options *options = load->options;
    if (options->requests == 0)
        return now < load->deadline_ns ? options->pipeline : 0;
    uint64_t left = options->requests - load->sent;
    return left < options->pipeline ? (size_t)left : options->pipeline;
}

/* Has the run sent all that its rate allows up to now? */
static bool is_ahead(const struct load *load, uint64_t now)
{
    double seconds = (double)(now - load->began_ns) / NS_PER_S;
    return load->options->rate > 0 && (double)load->sent > seconds * (double)load->options->rate;
}

/* Writes the next batch, if there is to be one. */
static void begin_batch(struct load *load, struct connection *connection, uint64_t now)
{
    size_t count = next_batch_size(load, now);
    if (count == 0)
        return;
    if (is_ahead(load, now)) {
        connection->waits_for_turn = true;
        load->waiting++;
        return;
    }
    work_renew(&load->work, &load->numbers, connection->batch, count);
    connection->batch_bytes = count * load->work.size;
    connection->written = 0;
    connection->expected = count;
    connection->scanner.replies = 0;
    connection->written_at_ns = now;
    load->sent += count;
    load->busy++;
    write_batch(load, connection);
}

static void batch_answered(struct load *load, struct connection *connection)
{
    uint64_t now = now_ns();
    histogram_add(&load->latency_ns, now - connection->written_at_ns);
    load->answered += connection->expected;
    load->ended_ns = now;
    load->busy--;
    connection->expected = 0;
    begin_batch(load, connection, now);
}

static void scan_input(struct connection *connection)
{
    size_t done = reply_scan(&connection->scanner, connection->input, connection->input_bytes);
    connection->input_bytes -= done;
    memmove(connection->input, connection->input + done, connection->input_bytes);

    if (connection->scanner.broken || connection->input_bytes == INPUT_BYTES)
        die("what the server sends is not RESP2: %.*s",
            (int)(connection->input_bytes < 60 ? connection->input_bytes : 60), connection->input);
    if (connection->scanner.replies > connection->expected)
        die("the server sent more replies than it was sent requests");
}

static void read_replies(struct load *load, struct connection *connection)
{
    ssize_t got = recv(connection->fd, connection->input + connection->input_bytes,
                       INPUT_BYTES - connection->input_bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < 0)
        die("cannot read: %s", strerror(errno));
    if (got == 0)
        die("the server closed a connection; first error reply: %s",
            load->errors.count ? load->errors.first : "none");

    connection->input_bytes += (size_t)got;
    scan_input(connection);
    if (connection->expected > 0 && connection->scanner.replies == connection->expected)
        batch_answered(load, connection);
}

/* Those that waited for their turn try again. */
static void begin_waiting(struct load *load)
{
    uint64_t now = now_ns();
    for (unsigned i = 0; i < load->options->connections && !is_ahead(load, now); i++) {
        struct connection *connection = &load->connections[i];
        if (!connection->waits_for_turn)
            continue;
        connection->waits_for_turn = false;
        load->waiting--;
        begin_batch(load, connection, now);
    }
}

static void load_run(struct load *load)
{
    struct epoll_event events[EVENTS_PER_WAIT];
    load->began_ns = now_ns();
    load->ended_ns = load->began_ns;
    load->deadline_ns = load->began_ns + (uint64_t)(load->options->seconds * NS_PER_S);
    for (unsigned i = 0; i < load->options->connections; i++)
        begin_batch(load, &load->connections[i], now_ns());

    while (load->busy > 0 || load->waiting > 0) {
        int wait_ms = load->waiting > 0 ? 1 : SILENCE_LIMIT_MS;
        int count = epoll_wait(load->epoll_fd, events, EVENTS_PER_WAIT, wait_ms);
        if (count < 0 && errno != EINTR)
            die("epoll: %s", strerror(errno));
        if (load->waiting > 0)
            begin_waiting(load);
        else if (count == 0)
            die("the server has been silent for %d ms, %u batches being under way",
                SILENCE_LIMIT_MS, load->busy);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                write_batch(load, connection);
            if (events[i].events & ~(uint32_t)EPOLLOUT)
                read_replies(load, connection);
        }
    }
}

/* --- reporting ---------------------------------------------------------- */

struct report {
    double seconds;
    double requests_per_s;
    double p50_us;
    double p99_us;
    double p999_us;
    double max_us;
};

static double percentile_us(const struct load *load, double fraction)
{
    return (double)histogram_percentile(&load->latency_ns, fraction) / 1000;
}

static struct report make_report(const struct load *load)
{
    double seconds = (double)(load->ended_ns - load->began_ns) / NS_PER_S;
    return (struct report){
        .seconds = seconds,
        .requests_per_s = seconds > 0 ? (double)load->answered / seconds : 0,
        .p50_us = percentile_us(load, 0.5),
        .p99_us = percentile_us(load, 0.99),
        .p999_us = percentile_us(load, 0.999),
        .max_us = (double)load->latency_ns.max / 1000,
    };
}

static void print_human(const struct load *load, const struct report *report)
{
    printf("%s: %.0f requests/s (%" PRIu64 " in %.2f s, %u connections, pipeline %u); a batch took "
           "p50 %.0f, p99 %.0f, p99.9 %.0f, at most %.0f us; %" PRIu64 " errors\n",
           load->options->work_name, report->requests_per_s, load->answered, report->seconds,
           load->options->connections, load->options->pipeline, report->p50_us, report->p99_us,
           report->p999_us, report->max_us, load->errors.count);
}

static void print_json(const struct load *load, const struct report *report)
{
    printf("{\"work\":\"%s\",\"connections\":%u,\"pipeline\":%u,\"requests\":%" PRIu64
           ",\"seconds\":%.6f,\"requests_per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
           "\"p999_us\":%.1f,\"max_us\":%.1f,\"errors\":%" PRIu64 "}\n",
           load->options->work_name, load->options->connections, load->options->pipeline,
           load->answered, report->seconds, report->requests_per_s, report->p50_us, report->p99_us,
           report->p999_us, report->max_us, load->errors.count);
}

static void print_csv(const struct load *load, const struct report *report)
{
    printf("work,connections,pipeline,requests,seconds,requests_per_s,p50_us,p99_us,p999_us,"
           "max_us,errors\n%s,%u,%u,%" PRIu64 ",%.6f,%.1f,%.1f,%.1f,%.1f,%.1f,%" PRIu64 "\n",
           load->options->work_name, load->options->connections, load->options->pipeline,
           load->answered, report->seconds, report->requests_per_s, report->p50_us, report->p99_us,
           report->p999_us, report->max_us, load->errors.count);
}

static void print_report(const struct load *load)
{
    struct report report = make_report(load);
    switch (load->options->format) {
    case FORMAT_HUMAN:
        print_human(load, &report);
        break;
    case FORMAT_CSV:
        print_csv(load, &report);
        break;
    case FORMAT_JSON:
        print_json(load, &report);
        break;
    }
    if (load->errors.count > 0)
        fprintf(stderr, "bench_load: %" PRIu64 " error replies, the first: %s\n",
                load->errors.count, load->errors.first);
}

/* --- options ------------------------------------------------------------ */

static void print_usage(void)
{
    puts("usage: bench_load [options]\n"
         "  --host ADDRESS     IPv4, default 127.0.0.1\n"
         "  --port PORT        default 6380\n"
         "  --connections N    default 50\n"
         "  --pipeline N       requests in a batch, default 16\n"
         "  --seconds S        length of the run, default 1\n"
         "  --requests N       this many requests instead, however long they take\n"
         "  --rate N           at most so many requests a second, default as many as possible\n"
         "  --work NAME        default incr-hot; or: custom COMMAND\n"
         "  --keys N           how many keys {key} picks from, default 1000000\n"
         "  --items N          how many items {item} walks over, default 100000\n"
         "  --users N          the first {seq}, and so the first user, default 0\n"
         "  --spread N         scatter {user} over N ids instead of counting up\n"
         "  --script FILE      load this Lua script; {sha} is its name\n"
         "  --csv | --json     the report for a program\n"
         "fields of a command: {key} {seq} {user} {item} {zipf} {sha}, as in\n"
         "  --work custom \"LIKE video:{item} {user}\"\n"
         "works:");
    for (size_t i = 0; work_name(i); i++)
        printf("  %-18s %.60s\n", work_name(i), work_template(work_name(i)));
}

static uint64_t whole_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end != '\0' || *text == '-' || value < least || value > most)
        die("--%s %s: not a whole number from %" PRIu64 " to %" PRIu64, option, text, least, most);
    return value;
}

static double positive_seconds(const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0 && value <= 86400))
        die("--seconds %s: not a number of seconds up to a day", text);
    return value;
}

/* Takes in the option named `name`. */
static void take_option(struct options *options, const char *name, const char *value)
{
    if (strcmp(name, "host") == 0)
        options->host = value;
    else if (strcmp(name, "port") == 0)
        options->port = (uint16_t)whole_number(name, value, 1, UINT16_MAX);
    else if (strcmp(name, "connections") == 0)
        options->connections = (unsigned)whole_number(name, value, 1, CONNECTIONS_MAX);
    else if (strcmp(name, "pipeline") == 0)
        options->pipeline = (unsigned)whole_number(name, value, 1, 100000);
    else if (strcmp(name, "seconds") == 0)
        options->seconds = positive_seconds(value);
    else if (strcmp(name, "requests") == 0)
        options->requests = whole_number(name, value, 1, UINT64_MAX / 2);
    else if (strcmp(name, "rate") == 0)
        options->rate = whole_number(name, value, 1, 1000000000);
    else if (strcmp(name, "work") == 0)
        options->work_name = value;
    else if (strcmp(name, "keys") == 0)
        options->numbers.keys = whole_number(name, value, 1, 1000000000000);
    else if (strcmp(name, "items") == 0)
        options->numbers.items = whole_number(name, value, 1, 100000000);
    else if (strcmp(name, "users") == 0)
        options->numbers.seq = whole_number(name, value, 0, 1000000000000);
    else if (strcmp(name, "spread") == 0)
        options->numbers.spread = whole_number(name, value, 0, WORK_SPREAD_MAX);
    else if (strcmp(name, "script") == 0)
        options->script = value;
    else if (strcmp(name, "csv") == 0)
        options->format = FORMAT_CSV;
    else if (strcmp(name, "json") == 0)
        options->format = FORMAT_JSON;
}

static const char *chosen_template(const struct options *options, int rest_count, char **rest)
{
    bool custom = strcmp(options->work_name, "custom") == 0;
    if (rest_count != (custom ? 1 : 0))
        die(custom ? "--work custom wants one command, in quotes" : "%s: what is this?", rest[0]);
    const char *template = custom ? rest[0] : work_template(options->work_name);
    if (!template)
        die("--work %s: there is no such work; --help lists them", options->work_name);
    return template;
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"host", required_argument, NULL, 0},
        {"port", required_argument, NULL, 0},
        {"connections", required_argument, NULL, 0},
        {"pipeline", required_argument, NULL, 0},
        {"seconds", required_argument, NULL, 0},
        {"requests", required_argument, NULL, 0},
        {"rate", required_argument, NULL, 0},
        {"work", required_argument, NULL, 0},
        {"keys", required_argument, NULL, 0},
        {"items", required_argument, NULL, 0},
        {"users", required_argument, NULL, 0},
        {"spread", required_argument, NULL, 0},
        {"script", required_argument, NULL, 0},
        {"csv", no_argument, NULL, 0},
        {"json", no_argument, NULL, 0},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {
        .host = "127.0.0.1",
        .port = 6380,
        .connections = 50,
        .pipeline = 16,
        .seconds = 1,
        .work_name = "incr-hot",
        .numbers = {.random = 88172645463325252u, .keys = 1000000, .items = 100000},
    };
    int index = 0;
    for (int got; (got = getopt_long(argc, argv, "", known, &index)) != -1;) {
        if (got == 'h') {
            print_usage();
            exit(EXIT_GOOD);
        }
        if (got != 0)
            die("--help lists the options");
        take_option(&options, known[index].name, optarg);
    }
    options.template = chosen_template(&options, argc - optind, argv + optind);
    return options;
}

int main(int argc, char **argv)
{
    static struct load load;
    struct options options = parse_options(argc, argv);
    load_open(&load, &options);
    load_run(&load);
    print_report(&load);
    load_close(&load);
    return load.errors.count > 0 ? EXIT_ERROR_REPLIES : EXIT_GOOD;
}
