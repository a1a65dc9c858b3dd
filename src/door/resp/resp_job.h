/* resp_job.h - commands whose answer takes a while: it is made on the desk, beside
 * the worker, and the client waits for it alone (door/pass/park.h).
 *
 * The work writes RESP into `things`, in the client's version; what it has to know
 * was copied when the job was made. It touches nothing of client or worker. What it takes in memory
 * is charged to the client. */
#ifndef DOOR_RESP_RESP_JOB_H
#define DOOR_RESP_RESP_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "door/pass/pass.h"
#include "door/resp/resp_reply.h"

struct resp_client;

/* How `things` become the answer. */
enum resp_job_form {
    RESP_JOB_WHOLE, /* they are the answer */
    RESP_JOB_ARRAY, /* an array of `count` */
    RESP_JOB_PAGE,  /* the cursor, and an array of `count` */
    RESP_JOB_PAIRS, /* the cursor, and a map of `count` pairs */
};

/* The first member of what a job needs beyond it, if anything. */
struct resp_job {
    struct pass_job base;
    const struct kinds *kinds; /* borrowed */
    enum resp_job_form form;
    struct resp_reply things;
    size_t count;
    uint64_t cursor;
    uint32_t limit;
    struct age age; /* of what was found */
    size_t bytes;   /* of memory, without `things` */

    /* what is asked about, copied */
    struct slice subject;
    struct slice other;
};

/* A new job of `size` bytes, zero beyond its first member. Of the request it keeps copies of the
 * two slices, which were checked (resp_args.h): they are no larger than ids, users and patterns.
 * NULL: there is no store, or no desk to ask it, which was answered. */
void *resp_job_new(struct resp_client *client, size_t size, struct slice subject,
                   struct slice other, pass_work_fn *work);

/* Takes the job. */
void resp_job_start(struct resp_client *client, struct resp_job *job);

/* For the work: something was added to `things`. When nobody waits for them any more, they are
 * freed, and do not grow again. */
void resp_job_grown(struct resp_job *job);

/* For the work: keeps a failure, with a text of its own where the code says too little
 * (NULL: the error's). */
void resp_job_fail(struct resp_job *job, enum err code, const char *text);

#endif
