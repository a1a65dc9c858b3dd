/* lookup.h - the addresses of a host, found without holding anybody up.
 *
 * A resolver that is down may take half a minute to say so. It is asked on a thread that lives for
 * one question only, and that nobody waits for: whoever asks looks now and then whether it has been
 * answered, and may forget about it. What is an address already is answered at once.
 *
 * Any thread; a lookup belongs to who has started it. */
#ifndef NET_LOOKUP_H
#define NET_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>

struct lookup;

/* The texts are copied. */
struct lookup *lookup_new(const char *host, const char *port);

bool lookup_is_done(const struct lookup *lookup);

/* What getaddrinfo() said, once it is done: 0, or a code for gai_strerror(). The addresses, in the
 * order in which they are to be tried, are the caller's to free. */
int lookup_take(struct lookup *lookup, struct addrinfo **ret_found);

/* Done or not: the thread goes on until the resolver has answered, and then cleans up. */
void lookup_free(struct lookup *lookup);

#endif
