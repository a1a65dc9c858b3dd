/* http_changes.h - GET /v1/changes: clients that listen to counters, as server-sent
 * events.
 *
 * One for each worker. Ten times a second it empties a mailbox of flow/watch.h of
 * its own, asks for the values, and tells who listens to them. */
#ifndef DOOR_HTTP_HTTP_CHANGES_H
#define DOOR_HTTP_HTTP_CHANGES_H

struct http_changes;
struct http_client;
struct http_worker;

struct http_changes *http_changes_new(struct http_worker *worker);

/* When nobody listens any more. */
void http_changes_free(struct http_changes *changes);

/* The client listens to nothing any more. */
void http_changes_forget(struct http_client *client);

void http_changes_end_pass(struct http_changes *changes);

#endif
