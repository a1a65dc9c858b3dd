/* print.h - answers for people and for scripts.
 *
 * People get tables; whatever came from outside is escaped, so that nobody's id can
 * send commands to a terminal. Scripts get JSON, a value in each line, in which bytes
 * that are no UTF-8 appear as {"hex": "ff00"}. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/slice.h"

/* Appends the text with control bytes and what is no UTF-8 escaped as \xNN. */
void print_escaped(struct buffer *to, struct slice text);

/* Columns of a terminal that the escaped text takes. */
size_t print_width(struct slice text);

/* --- tables --- */

#define PRINT_COLUMNS_MAX 16u

struct print_table {
    const char *names[PRINT_COLUMNS_MAX]; /* borrowed; a leading '>' puts the column to the right */
    size_t columns;
    struct buffer cells; /* escaped texts, each closed by a zero */
    size_t cell_count;
};

/* `names` are separated by blanks, as in "id >value"; what stands behind a '=' is the heading. */
void print_table_init(struct print_table *table, const char *names);
void print_table_done(struct print_table *table);

/* Cells come row by row, from left to right. */
void print_table_add(struct print_table *table, struct slice text);

/* Writes it to stdout and empties it. Nothing if there are no rows. */
void print_table_write(struct print_table *table, bool colours);

/* --- JSON --- */

/* A string, or {"hex": ...}. */
json_t *print_json_bytes(struct slice text);

/* Writes the value and the end of the line to stdout, and lets go of it. */
void print_json_line(json_t *value);

/* Appends "text" in quotes, or {"hex": ...}: quick, for export. */
void print_json_append(struct buffer *to, struct slice text);

/* --- times --- */

#define PRINT_TIME_BYTES 32u

/* 2026-01-31T12:00:00.123Z; "-" for 0. */
const char *print_time(int64_t time_ms, char to[PRINT_TIME_BYTES]);

#endif
