/* verbs.h - the commands that are a question and an answer.
 *
 * Each is a row of commands.def, which says what it does; each returns an exit code. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "cli/command.h"

/* counters.c */
command_fn verb_get;
command_fn verb_add;
command_fn verb_set;
command_fn verb_reset;
command_fn verb_create;
command_fn verb_delete;
command_fn verb_info;
command_fn verb_list;

/* reactions.c */
command_fn verb_like;
command_fn verb_unlike;
command_fn verb_dislike;
command_fn verb_undislike;
command_fn verb_react;
command_fn verb_unreact;
command_fn verb_toggle;
command_fn verb_reaction;
command_fn verb_counts;
command_fn verb_members;
command_fn verb_history;
command_fn verb_user;

/* proof.c */
command_fn verb_erase;
command_fn verb_events;
command_fn verb_at;
command_fn verb_recount;
command_fn verb_audit;
command_fn verb_trail;
command_fn verb_dlq;
command_fn verb_task;

/* about.c */
command_fn verb_status;
command_fn verb_raw;
command_fn verb_help;
command_fn verb_version;

#endif
