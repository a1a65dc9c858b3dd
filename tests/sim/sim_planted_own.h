/* sim_planted_own.h - what the files of the planted bugs share. */
#ifndef SIM_PLANTED_OWN_H
#define SIM_PLANTED_OWN_H

#include <stdbool.h>

#include "sim/sim_planted.h"

struct planted_disk {
    struct disk base;
    struct disk *inner;
    enum bug bug;
    struct disk_file *synced_note; /* of the inner disk, as long as it is open for writing */
};

struct planted {
    enum bug bug;
    struct planted_disk disk;
    char *last; /* owned; the section that was appended last, and perhaps not kept */
    size_t last_size;
    bool is_lost; /* a start has not found it */
};

#endif
