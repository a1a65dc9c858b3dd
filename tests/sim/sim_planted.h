/* sim_planted.h - bugs on purpose: a test of the test.
 *
 * Each is a wrapper around a part of the system that works well otherwise: the
 * disk, the log or the hot layer. The simulator has to find every one of them.
 * None of this is in the way of the system when no bug is planted. */
#ifndef SIM_PLANTED_H
#define SIM_PLANTED_H

#include "base/disk.h"
#include "core/hot.h"
#include "core/log.h"

#define BUG_LIST(X)                                                               \
    X(BUG_NONE, "none")                                                           \
    X(BUG_NO_SYNC, "a sync of a file does nothing")                               \
    X(BUG_NO_FOLDER_SYNC, "a sync of a folder does nothing")                      \
    X(BUG_SYNC_RETRIED, "a failed sync is tried again, and believed")             \
    X(BUG_HEADER_UNSYNCED, "a new segment is not synced before it gets its name") \
    X(BUG_NO_CHECKSUM, "checksums of groups are not looked at")                   \
    X(BUG_DAMAGE_CUT, "damage is taken for the end of the log")                   \
    X(BUG_LAST_CUT, "damage to the last group is taken for a torn write")         \
    X(BUG_SYNCED_UNKNOWN, "how far the log was synced is not known")              \
    X(BUG_SYNCED_EARLY, "a group is noted as synced before it is")                \
    X(BUG_UNSETTLED, "recovery counts what is in the system's memory only")       \
    X(BUG_NO_LOCK, "two processes may have one folder")                           \
    X(BUG_FULL_IGNORED, "a write that found no space is believed")                \
    X(BUG_ACK_APPENDED, "answers leave when they are appended")                   \
    X(BUG_ACK_WRITTEN, "answers leave when they are written, not synced")         \
    X(BUG_ACK_ONE_AHEAD, "one answer too many leaves")                            \
    X(BUG_LAST_DROPPED, "replay leaves out the last section")                     \
    X(BUG_REPLAYED_TWICE, "replay takes a section twice")                         \
    X(BUG_SWAPPED, "replay swaps two sections")                                   \
    X(BUG_RESURRECTED, "what a crash has lost comes back at a later start")       \
    X(BUG_NO_BOUND, "there is always room in the log's memory")                   \
    X(BUG_KEYS_FORGOTTEN, "idempotency keys do not outlive the process")          \
    X(BUG_AMOUNT_TWICE, "replay counts the amount of a keyed write twice")        \
    X(BUG_WRONG_KIND, "an unlike takes away a dislike as well")                   \
    X(BUG_ORDER_BY_CLOCK, "replay leaves out what the clock says is old")         \
    X(BUG_NO_TICKET, "answers do not wait")                                       \
    X(BUG_SAME_NOT_WAITING, "answers that nothing has changed do not wait")       \
    X(BUG_RESET_IGNORED, "replay leaves out resets")                              \
    X(BUG_SAVED_TOO_EARLY, "what is not in the store is dropped")                 \
    X(BUG_FILTER_HOLES, "something that the store has is taken for new")          \
    X(BUG_USERS_NOT_TOLD, "users that the store has are taken for new")           \
    X(BUG_NEXT_USER_LOST, "numbers of users begin anew after a restart")          \
    X(BUG_INCARNATIONS_LOST, "incarnations begin anew after a restart")           \
    X(BUG_KEYS_NOT_LOADED, "keys that are in the store only are not known")       \
    X(BUG_STALE_LOAD, "a load gives what was there at the time before")           \
    X(BUG_PENDING_NOT_LOADED, "a load leaves out what waits in the store")        \
    X(BUG_SLICE_FOR_ALL, "a slice's members are left out")                        \
    X(BUG_MARK_APART, "the mark is written after the batch, by itself")           \
    X(BUG_REFUSED_LOST, "a unit that was refused is forgotten")                   \
    X(BUG_OVERTAKES, "a unit overtakes one of its id that waits")                 \
    X(BUG_DEADLINE_LOST, "the store forgets when a counter ends")                 \
    X(BUG_NOT_COMPARED, "sequences are not compared: what comes twice counts twice")

enum bug {
#define X(code, what) code,
    BUG_LIST(X)
#undef X
        BUG_COUNT
};

const char *bug_text(enum bug bug);

/* What a bug remembers through a whole run, restarts included. */
struct planted;
struct planted *planted_new(enum bug bug);
void planted_free(struct planted *planted);

/* Each gives back `inner` itself where the bug is elsewhere. The wrapped disk
 * lives as long as `planted`, the others until they are closed. */
struct disk *planted_disk(struct planted *planted, struct disk *inner);
struct log *planted_log(struct planted *planted, struct log *inner);
struct hot *planted_hot(struct planted *planted, struct hot *inner);

#endif
