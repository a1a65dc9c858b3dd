/* http_handlers.h - which handlers there are, and in which file. */
#ifndef DOOR_HTTP_HTTP_HANDLERS_H
#define DOOR_HTTP_HTTP_HANDLERS_H

#include "door/http/http_route.h"

/* http_counters.c */
http_handle_fn http_counter_get;
http_handle_fn http_counter_create;
http_handle_fn http_counter_delete;
http_handle_fn http_counter_add;
http_handle_fn http_counter_reset;
http_handle_fn http_counter_describe;
http_handle_fn http_counters_list;

/* http_reactions.c */
http_handle_fn http_item_get;
http_handle_fn http_item_members;
http_handle_fn http_reaction_get;
http_handle_fn http_reaction_put;
http_handle_fn http_reaction_delete;
http_handle_fn http_reaction_toggle;
http_handle_fn http_reactions_mine;

/* http_lines.c */
http_handle_fn http_batch;

/* http_desk.c: what takes a while */
http_handle_fn http_counter_recount;
http_handle_fn http_counter_events;
http_handle_fn http_counter_at;
http_handle_fn http_counter_values;
http_handle_fn http_item_history;
http_handle_fn http_user_reactions;
http_handle_fn http_lives;
http_handle_fn http_letters;
http_handle_fn http_letter;
http_handle_fn http_letter_redrive;
http_handle_fn http_letter_discard;
http_handle_fn http_letters_redrive;
http_handle_fn http_letters_discard;
http_handle_fn http_audits;

/* http_tasks.c */
http_handle_fn http_user_erase;
http_handle_fn http_recounts_start;
http_handle_fn http_audits_start;
http_handle_fn http_tasks;
http_handle_fn http_task;

/* http_changes.c */
http_handle_fn http_changes;

/* http_seeds.c */
http_handle_fn http_seed_like;
http_handle_fn http_seed_like_count;
http_handle_fn http_seed_video_count;

/* http_page.c */
http_handle_fn http_index;
http_handle_fn http_page_asset;
http_handle_fn http_page_button;

/* http_figures.c */
http_handle_fn http_figures;

/* http_about.c */
http_handle_fn http_status;
http_handle_fn http_openapi;
http_handle_fn http_metrics_page;
http_handle_fn http_livez;
http_handle_fn http_readyz;

#endif
