/* event_names.h - the words of events in JSON, for those who write and those who read. */
#ifndef LOG_KAFKA_EVENT_NAMES_H
#define LOG_KAFKA_EVENT_NAMES_H

#include "core/event.h"

/* type, its word, and the field that names what it is about */
#define EVENT_NAMES(X)                   \
    X(EVENT_ADD, "add", "counter")       \
    X(EVENT_RESET, "reset", "counter")   \
    X(EVENT_DELETE, "delete", "id")      \
    X(EVENT_CREATE, "create", "counter") \
    X(EVENT_EXPIRE, "expire", "id")      \
    X(EVENT_REACT, "react", "item")      \
    X(EVENT_NOTHING, "nothing", "id")    \
    X(EVENT_REPAIR, "repair", "id")      \
    X(EVENT_EPOCH, "epoch", "id")        \
    X(EVENT_AFTER, "after", "item")

#define PLACE_NAMES(X)                  \
    X(PLACE_HOT, "hot")                 \
    X(PLACE_HOT_MEMBERS, "hot-members") \
    X(PLACE_STORE, "store")             \
    X(PLACE_STORE_MEMBERS, "store-members")

#endif
