/* password.h - the password of a door: may be changed while others compare. Any thread. */
#ifndef DOOR_PASS_PASSWORD_H
#define DOOR_PASS_PASSWORD_H

#include <stdbool.h>

#include "base/lock.h"
#include "base/slice.h"
#include "net/gauge.h"

#define PASSWORD_BYTES_MAX 512u

struct password {
    struct gauge is_set;
    struct lock lock;               /* of what follows */
    char bytes[PASSWORD_BYTES_MAX]; /* filled up with zeros */
    size_t size;
};

/* NULL = nobody needs one; up to PASSWORD_BYTES_MAX bytes. */
void password_init(struct password *password, const char *text);
void password_done(struct password *password);
void password_set(struct password *password, const char *text);

bool password_is_set(const struct password *password);

/* Takes the same time whatever the password is. */
bool password_is(struct password *password, struct slice said);

#endif
