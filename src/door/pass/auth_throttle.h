/* auth_throttle.h - how often passwords may be guessed, by where they come from.
 *
 * A source is an IPv4 address, or the first 64 bits of an IPv6 one (conn_network()). AUTH_FREE
 * wrong passwords of a source are free; from then on a password from there is looked at every
 * AUTH_EVERY_MS, whether it is right or wrong: an answer that comes at once for the right one would
 * tell as much as the answer itself. Passwords wait for their turn, for AUTH_WAIT_MS at most; what
 * would have to wait longer is refused without having been looked at. A source that is quiet for
 * that time is free again. Who has a /48 of IPv6 has 65536 such sources: all of a /48 together may
 * guess as often as AUTH_SITE_SOURCES of them. New connections change nothing, since sources are
 * remembered here, for all listeners together, in a table of a fixed size.
 *
 * Any thread. */
#ifndef DOOR_PASS_AUTH_THROTTLE_H
#define DOOR_PASS_AUTH_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

#define AUTH_FREE     10u
#define AUTH_EVERY_MS 50u
#define AUTH_WAIT_MS  5000u
#define AUTH_SOURCES  4096u
#define AUTH_NEVER    UINT64_MAX

#define AUTH_SITE_SOURCES  16u
#define AUTH_SITE_EVERY_MS (AUTH_EVERY_MS / AUTH_SITE_SOURCES)

struct auth_source {
    uint64_t network;
    uint64_t debt_ms; /* when all its guesses so far are paid for; loop clock */
};

struct auth_throttle {
    struct lock lock; /* of what follows */
    uint64_t key;     /* of the hash */
    struct auth_source sources[AUTH_SOURCES];
};

/* What a connection knows of its next password. */
struct auth_turn {
    uint64_t at_ms;  /* it is looked at then; 0 = it does not wait */
    bool is_granted; /* it may be looked at now */
};

void auth_throttle_init(struct auth_throttle *throttle, uint64_t key);
void auth_throttle_done(struct auth_throttle *throttle);

/* Asks to have a password from `network` looked at, which is counted as a guess from here on: 0 =
 * now (the turn is granted), or after so many milliseconds, when this is to be called again;
 * AUTH_NEVER = it is to be refused. */
uint64_t auth_throttle_wait(struct auth_throttle *throttle, uint64_t network, uint64_t now_ms,
                            struct auth_turn *turn);

/* The password was looked at: the turn is over, and if it was right costs nothing after all. */
void auth_throttle_used(struct auth_throttle *throttle, uint64_t network, bool was_right,
                        struct auth_turn *turn);

#endif
