/* park.h - requests that cannot be answered yet, and wait beside the pass.
 *
 * Two things make a request wait: an op that came back ERR_COLD (core/hot.h:
 * nothing was done, what it lacks is being loaded), and a job that runs on the
 * desk (flow/desk.h). Such a request, and all later ones of the same client in
 * the pass, are parked: taken out of the pass into memory of their own, while
 * everybody else is answered. A client with parked requests is held, so its
 * answers keep their order.
 *
 *   pass       [a1][b1 cold][a2][b2][c1 cold]       answered: a1 a2
 *   parked     [b1 cold][b2][c1 cold]               b and c are held
 *
 * When something has been loaded the cold ops are run again, as a batch; ops that
 * were decided are not. A request is answered once none of its ops is cold and
 * none of its client's earlier requests waits. One that is cold for too long is
 * refused.
 *
 * What a parked request takes in memory is charged to its client. When that is closed
 * meanwhile, what it asked for is done, and the answer thrown away; but a question that the
 * desk has not begun is taken back, and of a client that is closed since its memory is wanted
 * also what is cold (pass_leave()). */
#ifndef DOOR_PASS_PARK_H
#define DOOR_PASS_PARK_H

#include <stddef.h>

struct pass;
struct pass_client;
struct pass_group;
struct pass_job;
struct pass_request;

/* Takes the requests of the group from number `from` on, whose ops have run: answers
 * what can be answered, parks the rest. */
void park_requests(struct pass *pass, struct pass_group *group, size_t from);

/* Parks a request that waits for a job. */
void park_job(struct pass *pass, const struct pass_request *request, struct pass_job *job);

/* At the end of a pass: runs cold ops again if something was loaded, and answers what can be
 * answered. */
void park_look(struct pass *pass);

/* Refuses what has been cold for too long; as soon as it is not being run again. */
void park_tick(struct pass *pass);

/* The room of the group would be cleared now: keeps what parked requests point to. */
void park_clear_room(struct pass_group *group);

/* Refuses what is cold of the client's requests, unless it is being run again. */
void park_give_up(struct pass_client *client);

/* Refuses everything. */
void park_stop(struct pass *pass);

#endif
