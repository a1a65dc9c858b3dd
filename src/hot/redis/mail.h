/* mail.h - what other threads want done on a loop's thread.
 *
 * Letters are run in the order in which they came. Nothing is allocated for a letter once the box
 * has grown to its usual size. */
#ifndef HOT_REDIS_MAIL_H
#define HOT_REDIS_MAIL_H

#include <stdbool.h>

#include "base/error.h"
#include "net/loop.h"

struct mail;

typedef void mail_fn(void *arg);

struct mail *mail_new(struct loop *loop, struct error *error);

/* When the loop does not run any more; letters that came after mail_shut() were refused. */
void mail_free(struct mail *mail);

/* Any thread. False: the box is shut. */
bool mail_post(struct mail *mail, mail_fn *run, void *arg);

/* Refuses letters from now on. Those that are in the box will be run by mail_read(). Any thread. */
void mail_shut(struct mail *mail);

/* Runs what is in the box. The loop's thread; it does so by itself when it is woken. */
void mail_read(struct mail *mail);

#endif
