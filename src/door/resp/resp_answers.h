/* resp_answers.h - the answers that several commands give. */
#ifndef DOOR_RESP_RESP_ANSWERS_H
#define DOOR_RESP_RESP_ANSWERS_H

#include "door/pass/pass.h"

struct resp_client;

pass_answer_fn resp_answer_value;   /* the value, as a number */
pass_answer_fn resp_answer_digits;  /* the value, as a bulk; nil when there is none */
pass_answer_fn resp_answer_changed; /* 1 or 0 */
pass_answer_fn resp_answer_sum;     /* how many of the ops changed, or found, something */
pass_answer_fn resp_answer_ok;      /* OK, when no op failed */

/* To a command's HELP: its subcommands, one to a line. */
void resp_answer_help(struct resp_client *client, const char *const *lines, size_t count);

#endif
