#include "core/event_list.h"

#include <stdlib.h>

#include "base/memory.h"

static struct event *next_event(struct event_list *list)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 16;
        list->events = memory_resize(list->events, list->capacity * sizeof(*list->events));
    }
    return &list->events[list->count];
}

enum err event_list_add(struct event_list *list, struct slice section, struct error *error)
{
    struct section_reader sections;
    enum err err = section_open(&sections, section, error);
    while (!err) {
        err = section_next(&sections, next_event(list), error);
        if (!err)
            list->count++;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

void event_list_clear(struct event_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        event_done(&list->events[i]);
    list->count = 0;
}

void event_list_done(struct event_list *list)
{
    event_list_clear(list);
    free(list->events);
    *list = (struct event_list){0};
}
