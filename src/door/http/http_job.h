/* http_job.h - calls that a thread of the desk answers (door/pass, flow/desk.h).
 *
 * A handler makes a job with whatever it needs behind the struct, and hands it in;
 * `find` runs on a thread of the desk, may wait for disks, and writes the body of
 * the answer; or it fails. */
#ifndef DOOR_HTTP_HTTP_JOB_H
#define DOOR_HTTP_HTTP_JOB_H

#include "door/http/http_call.h"
#include "door/pass/pass.h"

struct http_job;

/* ERR_OK: `text` of the job holds all of the body but what http_job_end() of the answer
 * adds: ,"as_of":"..."} */
typedef enum err http_find_fn(struct http_job *job, struct desk_seat *seat, struct error *error);

struct http_job {
    struct pass_job base;
    struct http_call call; /* a copy; of its slices only those of headers hold */
    http_find_fn *find;
    struct http_text text;
    bool is_write;  /* the answer says `ack` */
    struct age age; /* of what was found */
    size_t bytes;   /* of memory, without the text */
    char *memory;   /* owned: what slices point to */
    struct slice argument;
    struct slice extra;
};

/* `size` of a struct that begins with a struct http_job; zeroed. Copies the call's first
 * argument and `extra`. */
struct http_job *http_job_new(struct http_call *call, size_t size, http_find_fn *find,
                              struct slice extra);

/* For `find`: the text has grown. When nobody waits for it any more, it is freed, and does not grow
 * again. */
void http_job_grown(struct http_job *job);

/* For a job that is not handed in. */
void http_job_free(struct http_job *job);

/* Copies: the call's first argument; what was given as `extra`. */
static inline struct slice http_job_argument(const struct http_job *job)
{
    return job->argument;
}
static inline struct slice http_job_text(const struct http_job *job)
{
    return job->extra;
}

/* ],"cursor":"17" or ],"cursor":null behind the things of a page */
void http_job_cursor(struct http_job *job, uint64_t cursor);

/* Hands it in; frees it, and fails, if that cannot be. */
void http_call_job(struct http_call *call, struct http_job *job);

#endif
