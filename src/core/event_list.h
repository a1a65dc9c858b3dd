/* event_list.h - events of several sections, one behind the other.
 *
 * They point into the sections' bytes, which have to stay. One list serves many calls. */
#ifndef CORE_EVENT_LIST_H
#define CORE_EVENT_LIST_H

#include <stddef.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/event.h"

struct event_list {
    struct event *events; /* owned */
    size_t count;
    size_t capacity;
};

/* Adds the events of a section. ERR_CORRUPT when it cannot be read; those before stay. */
enum err event_list_add(struct event_list *list, struct slice section, struct error *error);

/* Empties the list. */
void event_list_clear(struct event_list *list);

void event_list_done(struct event_list *list);

#endif
