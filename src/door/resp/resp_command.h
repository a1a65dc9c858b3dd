/* resp_command.h - the commands: what they are called, what they take, who
 * handles them.
 *
 * One table says it all; COMMAND and its relatives answer from it. A name is
 * found by a hash that is made free of collisions at start. */
#ifndef DOOR_RESP_RESP_COMMAND_H
#define DOOR_RESP_RESP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define RESP_COMMANDS_MAX 96u

struct resp_client;

/* Answers at once, or appends ops to the pass (RESP_COMMAND_BATCHED). argv[0]
 * is the command itself; there are as many as its arity wants. */
typedef void resp_handler_fn(struct resp_client *client, unsigned argc, const struct slice *argv);

enum {
    RESP_COMMAND_BATCHED = 1,    /* need not wait for the answers before it */
    RESP_COMMAND_STRANGER = 2,   /* also before the password was said */
    RESP_COMMAND_SUBSCRIBED = 4, /* also while subscribed, in RESP2 */
    RESP_COMMAND_WRITE = 8,
    RESP_COMMAND_READ = 16,
    RESP_COMMAND_FAST = 32,
    RESP_COMMAND_ADMIN = 64,
    RESP_COMMAND_PUBSUB = 128,
    RESP_COMMAND_QUEUING = 256, /* none has it: what a client lacks whose commands are queued */
};

struct resp_command {
    const char *name; /* small letters */
    int arity;        /* with the name; negative: at least so many */
    unsigned flags;
    int first_key; /* 0 = none */
    int last_key;  /* negative: from the end */
    int step;
    const char *group;
    const char *since;
    const char *summary;
    resp_handler_fn *handler;
};

#define RESP_COMMAND_SLOTS 512u

/* A name of up to 16 bytes as two words, in small letters. */
struct resp_command_name {
    uint64_t low;
    uint64_t high;
    size_t size;
};

struct resp_commands {
    uint64_t multiplier;
    uint8_t slots[RESP_COMMAND_SLOTS];                 /* number of the command + 1; 0 = none */
    struct resp_command_name names[RESP_COMMANDS_MAX]; /* by number */
};

extern const struct resp_command resp_command_table[];
extern const unsigned resp_command_count;

void resp_commands_init(struct resp_commands *commands);

/* NULL when there is none of that name, in whatever case. */
const struct resp_command *resp_commands_find(const struct resp_commands *commands,
                                              struct slice name);

/* Do `argc` arguments fit an arity? */
static inline bool resp_command_fits(int arity, unsigned argc)
{
    return arity >= 0 ? argc == (unsigned)arity : argc >= (unsigned)-arity;
}

/* One of the words that CLIENT, COMMAND and CONFIG begin with. */
struct resp_subcommand {
    const char *name; /* small letters */
    int arity;        /* with the command and the name */
    resp_handler_fn *handler;
};

/* Hands the request to the subcommand that argv[1] names, or answers an error. */
void resp_subcommand_run(struct resp_client *client, const struct resp_subcommand *table,
                         size_t count, unsigned argc, const struct slice *argv);

/* Runs one request. False: it has to wait until the requests before it are
 * answered, and nothing was done. */
bool resp_command_run(struct resp_client *client, unsigned argc, const struct slice *argv);

#endif
