/* http_url.h - what stands in a request's target: segments of a path, and the
 * fields of a query.
 *
 *   /v1/counters/video1%2Flike/events?limit=10&cursor=7
 *
 * Decoded once, in place (it only gets shorter). What is decoded is UTF-8
 * without a zero byte, or is refused. Pure. */
#ifndef DOOR_HTTP_HTTP_URL_H
#define DOOR_HTTP_HTTP_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

#define HTTP_URL_SEGMENTS_MAX 6u

/* Cuts a path at its slashes, still encoded: "/a/b" is two segments, "/" is one
 * that is empty. Returns how many there are; more than HTTP_URL_SEGMENTS_MAX are
 * counted, not kept. */
unsigned http_url_split(struct slice path, struct slice segments[HTTP_URL_SEGMENTS_MAX]);

/* Decodes the percent signs of `text`, whose bytes may be written to; with
 * `is_query` also "+", which stands for a blank there. False when it is not well
 * formed, and then the bytes are of no use any more. */
bool http_url_decode(struct slice *text, bool is_query);

/* Takes the next field off a query, still encoded; false when there is none. */
bool http_url_cut_field(struct slice *query, struct slice *ret_name, struct slice *ret_value);

/* Is it UTF-8, in the shortest form, without surrogates? */
bool http_url_is_utf8(struct slice text);

/* The bytes of the UTF-8 sequence that begins here, 0 if none does. */
size_t http_url_utf8_size(const unsigned char *at, size_t left);

#endif
