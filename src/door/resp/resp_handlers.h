/* resp_handlers.h - the handlers of all commands, by the file they stand in. */
#ifndef DOOR_RESP_RESP_HANDLERS_H
#define DOOR_RESP_RESP_HANDLERS_H

#include "door/resp/resp_command.h"

/* resp_counter.c: counters by the words of Redis */
resp_handler_fn resp_incr, resp_incrby, resp_decr, resp_decrby, resp_get, resp_mget, resp_set,
    resp_del, resp_exists;

/* resp_expiry.c */
resp_handler_fn resp_expire, resp_pexpire, resp_expireat, resp_pexpireat, resp_persist, resp_ttl,
    resp_pttl;

/* resp_keyspace.c */
resp_handler_fn resp_scan, resp_keys, resp_type, resp_dbsize;

/* resp_reaction.c */
resp_handler_fn resp_like, resp_unlike, resp_dislike, resp_undislike, resp_toggle, resp_react,
    resp_unreact, resp_reaction, resp_counts, resp_members, resp_reacted;

/* resp_shard.c: counters by our own words */
resp_handler_fn resp_counter_create, resp_counter_add, resp_counter_set, resp_counter_reset,
    resp_counter_delete, resp_counter_info;

/* resp_proof.c: from the log */
resp_handler_fn resp_counter_recount, resp_counter_events, resp_counter_at, resp_recount,
    resp_audit, resp_audits, resp_task, resp_tasks, resp_user_erase;

/* resp_store.c: from the store */
resp_handler_fn resp_events, resp_history, resp_dlq;

/* resp_session.c: who is there */
resp_handler_fn resp_ping, resp_echo, resp_hello, resp_auth, resp_select, resp_reset, resp_quit,
    resp_time;

/* resp_clients.c */
resp_handler_fn resp_client_command;

/* resp_pubsub.c */
resp_handler_fn resp_subscribe, resp_unsubscribe, resp_psubscribe, resp_punsubscribe;

/* resp_multi.c */
resp_handler_fn resp_multi, resp_exec, resp_discard, resp_watch, resp_unwatch;

/* resp_about.c */
resp_handler_fn resp_command_command, resp_config;

/* resp_info.c */
resp_handler_fn resp_info;

#endif
