/* newer_segment.c - makes a segment look as if a later Tally had written it.
 *
 *   newer_segment FILE
 *
 * Counts its format version up and puts the checksum right. The places of both
 * are the same in every format: see log/file/segment.h. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define HEADER_BYTES 4096
#define VERSION_AT   8
#define CHECKSUM_AT  (HEADER_BYTES - 8)

int main(int argc, char **argv)
{
    unsigned char header[HEADER_BYTES];
    FILE *file = argc == 2 ? fopen(argv[1], "r+b") : NULL;
    if (!file || fread(header, 1, sizeof(header), file) != sizeof(header)) {
        fprintf(stderr, "usage: newer_segment FILE\n");
        return 1;
    }

    header[VERSION_AT]++;
    uint64_t checksum = XXH3_64bits(header, CHECKSUM_AT);
    for (int i = 0; i < 8; i++)
        header[CHECKSUM_AT + i] = (unsigned char)(checksum >> 8 * i);

    rewind(file);
    size_t written = fwrite(header, 1, sizeof(header), file);
    return fclose(file) == 0 && written == sizeof(header) ? 0 : 1;
}
