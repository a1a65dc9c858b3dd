/* reader.h - what the readers' files share: a call sees one moment, and survives a connection that
 * has ended meanwhile.
 *
 * A call is a function that asks. Within postgres_read() all of its statements are of one moment;
 * postgres_read_once() is for a single statement, which is so by itself. */
#ifndef STORE_POSTGRES_READER_H
#define STORE_POSTGRES_READER_H

#include "store/postgres/own.h"

typedef enum err postgres_read_fn(struct postgres_reader *reader, void *arg, struct error *error);

enum err postgres_read(struct postgres_reader *reader, postgres_read_fn *read, void *arg,
                       struct error *error);
enum err postgres_read_once(struct postgres_reader *reader, postgres_read_fn *read, void *arg,
                            struct error *error);

/* A statement within a call; what it answers is in reader->pg. */
enum err postgres_reader_query(struct postgres_reader *reader, enum statement which,
                               struct error *error);

/* The numbers of an int8[] of a result. */
size_t postgres_ints_count(struct slice array);
int64_t postgres_ints_get(struct slice array, size_t index);

/* Every origin's sequence, and behind these all times, as an int8[] of the result has them: for
 * postgres_seen() and postgres_seen_ms(). */
void postgres_reader_saw(struct postgres_reader *reader, struct slice sequences);

/* Names of kinds up to a number are looked up, unless they are known. Ends the result. */
enum err postgres_reader_kinds(struct postgres_reader *reader, unsigned up_to, struct error *error);

/* The user_id of a name, numeric or not. ERR_NOT_FOUND. Of a reader's connection or the writer's.
 */
enum err postgres_user_find(struct pg *pg, struct slice name, int64_t *ret_user_id,
                            struct error *error);

/* The events of an id that wait, in reader->events; and they are forgotten with the call. */
enum err postgres_reader_pending(struct postgres_reader *reader, struct slice id,
                                 struct error *error);

#endif
