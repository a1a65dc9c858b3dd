/* replay_main.c - runs a fuzz target over its corpus, without a fuzzer.
 *
 *   fuzz_event tests/fuzz/corpus/event
 *   fuzz_event tests/fuzz/corpus/event COUNT SECONDS [SEED]
 *
 * Small files are also given cut at every byte. Then, if asked for, come COUNT
 * inputs that are files of the corpus with a few changes, or as many as there is
 * time for. Which changes is decided by the seed alone, which is printed: the
 * n-th input of a seed is always the same, and one that ends the program is
 * named by its number and written to a file. Each input lies in memory of
 * exactly its size, so that a sanitizer sees the first byte read too many. A
 * corpus that is missing or empty is a failure: a test that tests nothing must
 * not pass. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT_BYTES_MAX   (16u << 20)
#define CUT_BYTES_MAX     4096u        /* larger files are given whole only */
#define MUTATED_BYTES_MAX (256u << 10) /* larger ones are cut before they are changed */
#define GROWTH_BYTES_MAX  (64u << 10)
#define FILES_MAX         4096u
#define CHANGES_MAX       6u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const uint8_t *data, size_t size)
{
    uint8_t *input = malloc(size > 0 ? size : 1);
    if (!input)
        abort();
    if (size > 0)
        memcpy(input, data, size);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
}

/* ---- the corpus ---- */

struct file {
    uint8_t *data; /* owned */
    size_t size;
};

struct corpus {
    struct file files[FILES_MAX];
    size_t count;
};

static struct file read_file(const char *path)
{
    FILE *stream = fopen(path, "rb");
    struct file file = {.data = malloc(INPUT_BYTES_MAX)};
    if (!stream || !file.data) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        abort();
    }
    file.size = fread(file.data, 1, INPUT_BYTES_MAX, stream);
    fclose(stream);
    uint8_t *fitting = realloc(file.data, file.size > 0 ? file.size : 1);
    if (fitting)
        file.data = fitting;
    return file;
}

/* In the order of their names, which no file system changes: the seed counts on it. */
static bool read_corpus(struct corpus *corpus, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return false;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && corpus->count < FILES_MAX)
            corpus->files[corpus->count++] = read_file(path);
        free(entries[i]);
    }
    free(entries);
    return corpus->count > 0;
}

/* The number of inputs that the file gave. */
static size_t replay(const struct file *file)
{
    size_t first = file->size <= CUT_BYTES_MAX ? 0 : file->size;
    for (size_t cut = first; cut <= file->size; cut++)
        run(file->data, cut);
    return file->size - first + 1;
}

/* ---- changes ---- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t limit)
{
    return limit > 0 ? (size_t)(next_random(state) % limit) : 0;
}

struct input {
    uint8_t bytes[MUTATED_BYTES_MAX + GROWTH_BYTES_MAX];
    size_t size;
};

static void cut_out(struct input *input, size_t at, size_t size)
{
    memmove(input->bytes + at, input->bytes + at + size, input->size - at - size);
    input->size -= size;
}

static void put_in(struct input *input, size_t at, const void *bytes, size_t size)
{
    if (input->size + size > sizeof(input->bytes))
        return;
    memmove(input->bytes + at + size, input->bytes + at, input->size - at);
    memcpy(input->bytes + at, bytes, size);
    input->size += size;
}

static const char *const words[] = {
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "4294967296",
    "99999999999999999999999",
    "1e999",
    "\r\n",
    "\n",
    " ",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "*",
    "$",
    "%",
    "%00",
    "\xff\xff\xff\xff\xff",
    "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    "\xed\xa0\x80",
    "\\u0000",
    "\\ud800",
    "null",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "\r\n\r\n",
    "*1\r\n$4\r\nPING\r\n",
};

static void change_bytes(struct input *input, uint64_t *random)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '\n', '\r', '0', '9', '-'};
    size_t at = below(random, input->size);
    uint8_t *byte = &input->bytes[at];
    switch (below(random, 4)) {
    case 0:
        *byte = (uint8_t)(*byte ^ 1u << below(random, 8));
        break;
    case 1:
        *byte = edges[below(random, sizeof(edges))];
        break;
    case 2:
        *byte = (uint8_t)(*byte + below(random, 9) - 4);
        break;
    default:
        for (size_t i = 0; i < 8 && at + i < input->size; i++)
            input->bytes[at + i] = (uint8_t)next_random(random);
        break;
    }
}

/* A piece of another file takes the place of the end, or stands in between. */
static void splice(struct input *input, const struct corpus *corpus, uint64_t *random)
{
    const struct file *other = &corpus->files[below(random, corpus->count)];
    size_t from = below(random, other->size);
    size_t size = below(random, other->size - from + 1);
    if (size > GROWTH_BYTES_MAX)
        size = GROWTH_BYTES_MAX;
    size_t at = below(random, input->size + 1);
    if (below(random, 2) == 0)
        input->size = at;
    if (size > 0)
        put_in(input, at, other->data + from, size);
}

static void change(struct input *input, const struct corpus *corpus, uint64_t *random)
{
    size_t at = below(random, input->size + 1);
    size_t size = below(random, input->size - at + 1);
    const char *word = words[below(random, sizeof(words) / sizeof(words[0]))];
    switch (below(random, 9)) {
    case 0:
        cut_out(input, at, size < 64 ? size : below(random, 64));
        break;
    case 1:
        cut_out(input, at, size);
        break;
    case 2: {
        uint8_t copy[256];
        size = size < sizeof(copy) ? size : sizeof(copy);
        memcpy(copy, input->bytes + at, size);
        put_in(input, at, copy, size);
        break;
    }
    case 3:
    case 4:
        put_in(input, at, word, strlen(word));
        break;
    case 5:
        splice(input, corpus, random);
        break;
    default:
        if (input->size > 0)
            change_bytes(input, random);
        break;
    }
}

static void mutate(struct input *input, const struct corpus *corpus, uint64_t seed, uint64_t number)
{
    uint64_t random = seed ^ number * 0xd1342543de82ef95u;
    const struct file *file = &corpus->files[below(&random, corpus->count)];
    input->size = file->size < MUTATED_BYTES_MAX ? file->size : MUTATED_BYTES_MAX;
    memcpy(input->bytes, file->data, input->size);
    for (size_t changes = 1 + below(&random, CHANGES_MAX); changes > 0; changes--)
        change(input, corpus, &random);
}

/* ---- what ends the program ---- */

static struct input mutated;
static uint64_t mutated_seed;
static uint64_t mutated_number;

/* The sanitizers' own; not there without them. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell_what_it_was(void)
{
    char path[64];
    snprintf(path, sizeof(path), "mutated-%llu-%llu", (unsigned long long)mutated_seed,
             (unsigned long long)mutated_number);
    FILE *stream = fopen(path, "wb");
    if (stream) {
        (void)fwrite(mutated.bytes, 1, mutated.size, stream);
        fclose(stream);
    }
    fprintf(stderr, "it was input %llu of seed %llu, %zu bytes, now in the file %s\n",
            (unsigned long long)mutated_number, (unsigned long long)mutated_seed, mutated.size,
            path);
}

static void aborted(int number)
{
    (void)number;
    tell_what_it_was();
    _Exit(1);
}

/* ---- all of it ---- */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void run_mutated(const struct corpus *corpus, uint64_t count, double seconds, uint64_t seed)
{
    double until = seconds_now() + seconds;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    mutated_seed = seed;
    signal(SIGABRT, aborted);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(tell_what_it_was);
    while (mutated_number < count && seconds_now() < until) {
        mutate(&mutated, corpus, seed, mutated_number);
        run(mutated.bytes, mutated.size);
        mutated_number++;
    }
    printf("%llu inputs with changes\n", (unsigned long long)mutated_number);
}

/* The same always, unless somebody wants another one. */
static uint64_t usual_seed(void)
{
    const char *text = getenv("TALLY_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4 && argc != 5) {
        fprintf(stderr, "usage: %s FOLDER [COUNT SECONDS [SEED]]\n", argv[0]);
        return 2;
    }
    static struct corpus corpus;
    if (!read_corpus(&corpus, argv[1]))
        return 1;
    size_t inputs = 0;
    for (size_t i = 0; i < corpus.count; i++)
        inputs += replay(&corpus.files[i]);
    printf("%zu files, %zu inputs\n", corpus.count, inputs);

    if (argc > 2)
        run_mutated(&corpus, strtoull(argv[2], NULL, 10), strtod(argv[3], NULL),
                    argc > 4 ? strtoull(argv[4], NULL, 10) : usual_seed());
    for (size_t i = 0; i < corpus.count; i++)
        free(corpus.files[i].data);
    return 0;
}
