/* http_openapi.h - the description of the door in the words of OpenAPI 3.1,
 * written from the table of routes: what is there is described, and nothing else. */
#ifndef DOOR_HTTP_HTTP_OPENAPI_H
#define DOOR_HTTP_HTTP_OPENAPI_H

#include "core/kinds.h"
#include "door/http/http_text.h"

/* Begins the text and writes it. */
void http_openapi_write(struct http_text *text, const struct kinds *kinds, const char *version);

#endif
