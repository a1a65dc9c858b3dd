/* resp_job.h - commands whose answer takes a while: it is made on the desk, beside
 * the worker, and the client waits for it alone (door/pass/park.h).
 *
 * The work writes RESP into `things`, in the client's version; what it has to know
 * was copied when the job was made. It touches nothing of client or worker. */
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
    unsigned argc;  /* the request, copied */
    struct slice *argv;
};

/* A new job of `size` bytes, zero beyond its first member. NULL: there is no store, or
 * no desk to ask it, which was answered. */
void *resp_job_new(struct resp_client *client, size_t size, unsigned argc, const struct slice *argv,
                   pass_work_fn *work);

/* Takes the job. */
void resp_job_start(struct resp_client *client, struct resp_job *job);

/* Instead: what is wrong with the request was answered. */
void resp_job_drop(struct resp_job *job);

/* For the work: keeps a failure, with a text of its own where the code says too little
 * (NULL: the error's). */
void resp_job_fail(struct resp_job *job, enum err code, const char *text);

#endif
