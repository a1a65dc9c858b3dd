/* replay_main.c - runs a fuzz target over its corpus, without a fuzzer.
 *
 *   fuzz_event tests/fuzz/corpus/event
 *
 * Small files are also given cut at every byte. Each input lies in memory of
 * exactly its size, so that a sanitizer sees the first byte read too many. A
 * corpus that is missing or empty is a failure: a test that tests nothing must
 * not pass. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (16u << 20)
#define CUT_BYTES_MAX   4096u /* larger files are given whole only */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const uint8_t *data, size_t size)
{
    uint8_t *input = malloc(size > 0 ? size : 1);
    if (!input)
        abort();
    memcpy(input, data, size);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
}

/* The number of inputs that the file gave. */
static size_t run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    if (!file || !data) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        abort();
    }
    size_t size = fread(data, 1, INPUT_BYTES_MAX, file);
    fclose(file);

    size_t first = size <= CUT_BYTES_MAX ? 0 : size;
    for (size_t cut = first; cut <= size; cut++)
        run(data, cut);
    free(data);
    return size - first + 1;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (!folder) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 1;
    }

    size_t files = 0;
    size_t inputs = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        inputs += run_file(path);
        files++;
    }
    closedir(folder);
    printf("%zu files, %zu inputs\n", files, inputs);
    return files > 0 ? 0 : 1;
}
