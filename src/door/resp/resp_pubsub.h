/* resp_pubsub.h - telling clients of the counters that have changed.
 *
 * A channel is a counter's id, or a pattern of ids; the message is the value.
 * Each worker keeps its own clients' channels, asks for their changes in its
 * mailbox (flow/watch.h) ten times a second, reads the values like any other
 * request would, and tells. */
#ifndef DOOR_RESP_RESP_PUBSUB_H
#define DOOR_RESP_RESP_PUBSUB_H

struct resp_client;
struct resp_pubsub;
struct resp_worker;

struct resp_pubsub *resp_pubsub_new(struct resp_worker *worker);

/* When no client is left. */
void resp_pubsub_free(struct resp_pubsub *pubsub);

/* Ends all subscriptions of a client. */
void resp_pubsub_forget(struct resp_client *client);

/* The client's version, or how much it listens to, has changed: which commands
 * it may use follows from that. */
void resp_pubsub_update(struct resp_client *client);

void resp_pubsub_end_pass(struct resp_pubsub *pubsub);

#endif
