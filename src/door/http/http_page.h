/* http_page.h - the web page, which is in the program: its files, and who gets which form of
 * them.
 *
 * The table is made by web/tools/embed.mjs (build/page/page_files.c). A build without Node has
 * one in its place that says so: no_page/page_files.c.
 *
 * Pure, but for the handlers, which are in http_handlers.h. */
#ifndef DOOR_HTTP_HTTP_PAGE_H
#define DOOR_HTTP_HTTP_PAGE_H

#include <stdbool.h>

#include "base/slice.h"

struct http_page_file {
    const char *name; /* "index.html" */
    const char *type; /* of its content */
    struct slice plain;
    struct slice gzip; /* size 0 = there is no such form */
    const char *tag;   /* another for another content */
    bool is_fixed;     /* its name is another, too: this one never changes */
};

extern const struct http_page_file http_page_files[];
extern const unsigned http_page_file_count;
extern const bool http_page_is_whole; /* false: all there is is a page that says why */

/* NULL: there is none of that name. */
const struct http_page_file *http_page_find(const struct http_page_file *files, unsigned count,
                                            struct slice name);

/* Does this Accept name text/html? Browsers do; curl, which takes anything, does not. */
bool http_page_wants_html(struct slice accept);

/* May the answer to this Accept-Encoding be gzipped? */
bool http_page_takes_gzip(struct slice accept_encoding);

#endif
