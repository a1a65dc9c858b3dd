/* resp_answers.h - the answers that several commands give. */
#ifndef DOOR_RESP_RESP_ANSWERS_H
#define DOOR_RESP_RESP_ANSWERS_H

#include "door/resp/resp_pass.h"

resp_answer_fn resp_answer_value;   /* the value, as a number */
resp_answer_fn resp_answer_digits;  /* the value, as a bulk; nil when there is none */
resp_answer_fn resp_answer_changed; /* 1 or 0 */
resp_answer_fn resp_answer_sum;     /* how many of the ops changed, or found, something */
resp_answer_fn resp_answer_ok;      /* OK, when no op failed */

/* To a command's HELP: its subcommands, one to a line. */
void resp_answer_help(struct resp_client *client, const char *const *lines, size_t count);

#endif
