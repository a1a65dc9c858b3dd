#include "sim/nodes/nodes_pieces.h"

#include <string.h>

#include "core/event.h"
#include "core/sequence.h"

#define EVENTS_MAX 4u

/* The record in an open cell; NULL: it does not answer. */
static struct record *record_at(struct asker_of_piece asker, unsigned cell,
                                struct cell_data **ret_cell)
{
    struct place place = redis_place(asker.model, asker.node, cell);
    if (place.down)
        return NULL;
    if (!redis_is_open(asker.model, place)) {
        redis_note_closed(asker.model, asker.node, cell);
        return NULL;
    }
    *ret_cell = place.data;
    return place.data->entry_count < OUTBOX_ROOM ? &place.data->records[asker.thing] : NULL;
}

/* As type_of_piece() of move.lua: what is only reserved is none. */
static bool has_piece(const struct record *record)
{
    return record->type != 0 && (record->rv == 0 || record->is_piece);
}

static bool is_late_at_home(const struct record *record, uint64_t version)
{
    bool is_piece = record->is_piece || record->rv > 0;
    uint64_t has = record->has_map ? record->map.version : 0;
    return !is_piece && has != version;
}

static struct event after(const struct name *id, unsigned origin, uint64_t sequence)
{
    return (struct event){.type = EVENT_AFTER,
                          .id = slice_of(id->text),
                          .after_origin = origin,
                          .after_sequence = sequence};
}

static void note(struct asker_of_piece asker, struct cell_data *data, unsigned cell,
                 struct record *record, unsigned origin, uint64_t sequence)
{
    struct name id = name_of_thing(asker.thing);
    struct event event = after(&id, origin, sequence);
    redis_append(asker.model, asker.node, data, cell, &event, 1);
    record->written = data->last;
}

static void need(struct cell_data *data, uint64_t sequence)
{
    if (sequence > data->need)
        data->need = sequence;
}

static bool is_moved(const struct map *map, unsigned slice)
{
    return map->slices & map_bit(slice);
}

/* --- at home --- */

enum err pieces_read(struct asker_of_piece asker, struct map *ret_map, uint64_t *ret_last_version)
{
    struct cell_data *data;
    unsigned home = home_of(asker.thing);
    const struct record *record = record_at(asker, home, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (record->type == 0)
        return ERR_NOT_FOUND;
    if (record->has_map)
        *ret_map = record->map;
    else
        map_init(ret_map, is_item(asker.thing), home);
    *ret_last_version = record->mv;
    return ERR_OK;
}

static char type_with(const struct map *map, unsigned home)
{
    if (map->change == MAP_DISSOLVE)
        return 'F';
    if (map_is_folded(map, home))
        return map->is_item ? 's' : 'c';
    return map->is_item ? 'S' : 'C';
}

static void take_counts(struct record *record, const struct stopped_piece *stopped)
{
    record->value += stopped->value;
    for (unsigned held = 0; held < HELD_COUNT; held++)
        record->counts[held] += stopped->counts[held];
}

/* Has home forgotten that it has adopted what the map says is there? */
static bool lacks_slices(const struct record *record, const struct map *map, unsigned home)
{
    for (unsigned slice = 0; slice < SLICES && map->change != MAP_DISSOLVE; slice++)
        if (map->owner[slice] == home && record->own[slice] == '-')
            return true;
    return false;
}

enum err pieces_write(struct asker_of_piece asker, const struct map *map, uint64_t before,
                      const struct stopped_piece *stopped, uint64_t taken)
{
    struct cell_data *data;
    unsigned home = home_of(asker.thing);
    struct record *record = record_at(asker, home, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (record->type == 0)
        return ERR_CORRUPT;
    uint64_t has = record->has_map ? record->map.version : 0;
    if (record->has_map && has == map->version && memcmp(&record->map, map, sizeof(*map)) == 0)
        return ERR_OK; /* it was sent twice */
    if (has != before || record->mv >= map->version)
        return ERR_BUSY;
    if (lacks_slices(record, map, home) && asker.model->bug != NODES_BUG_HOME_LACKS)
        return ERR_CORRUPT;
    struct name id = name_of_thing(asker.thing);
    struct event events[EVENTS_MAX] = {after(&id, home, 0)};
    size_t count = 0;
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (taken & map_bit(cell)) {
            take_counts(record, &stopped[cell]);
            events[count++] = after(&id, cell, stopped[cell].sequence);
        }
    record->mv = map->version;
    record->has_map = !map_is_folded(map, home);
    record->map = *map;
    record->type = type_with(map, home);
    redis_append(asker.model, asker.node, data, home, events, count > 0 ? count : 1);
    record->written = data->last;
    return ERR_OK;
}

enum err pieces_gone(struct asker_of_piece asker, uint64_t version,
                     const uint64_t sequences[LIMIT_CELLS])
{
    struct cell_data *data;
    unsigned home = home_of(asker.thing);
    struct record *record = record_at(asker, home, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (record->type == 0)
        return ERR_OK;
    if (!record->has_map || record->map.version != version)
        return ERR_BUSY;
    struct name id = name_of_thing(asker.thing);
    struct event events[EVENTS_MAX];
    size_t count = 0;
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (cell != home && sequences[cell] > 0 && asker.model->bug != NODES_BUG_DISSOLVE_EARLY)
            events[count++] = after(&id, cell, sequences[cell]);
    if (count > 0)
        redis_append(asker.model, asker.node, data, home, events, count);
    need(data, count > 0 ? data->last : record->written);
    *record = (struct record){.type = 0};
    return ERR_OK;
}

/* --- pieces --- */

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

enum err pieces_reserve(struct asker_of_piece asker, unsigned cell, uint64_t version)
{
    struct cell_data *data;
    struct record *record = record_at(asker, cell, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    uint64_t knows = max_of(max_of(record->rv, record->pv), max_of(record->fv, record->dv));
    if (record->type != 0 && knows > version)
        return ERR_BUSY;
    if (record->type != 0 && record->rv == 0 && !record->is_piece)
        return ERR_CORRUPT;
    if (record->type == 0 || !record->is_piece || record->dv > 0)
        *record = (struct record){.type = 'F'};
    if (asker.model->bug == NODES_BUG_SERVE_EARLY && !record->is_piece) {
        *record = (struct record){
            .type = is_item(asker.thing) ? 'S' : 'C', .is_piece = true, .pv = version};
        memset(record->own, '-', SLICES);
    }
    record->rv = version;
    data->listed[asker.thing] = true;
    return ERR_OK;
}

static void make_piece(struct record *record, bool is_of_item, uint64_t version)
{
    *record = (struct record){.type = is_of_item ? 'S' : 'C', .is_piece = true, .fv = version};
    memset(record->own, '-', SLICES);
}

enum err pieces_prepare(struct asker_of_piece asker, unsigned cell, const struct map *map,
                        uint64_t *ret_adopted, uint64_t *ret_epoch, uint64_t *last_version)
{
    struct cell_data *data;
    struct record *record = record_at(asker, cell, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    bool is_missing = record->type == 0 || (record->rv > 0 && !record->is_piece &&
                                            (map->change != MAP_JOIN || record->rv < map->version));
    if (is_missing && asker.model->bug == NODES_BUG_MADE_AGAIN && cell != home_of(asker.thing)) {
        make_piece(record, is_item(asker.thing), map->version);
        data->listed[asker.thing] = true;
    } else if (record->type == 0) {
        return ERR_CORRUPT;
    }
    if (is_late_at_home(record, map->version))
        return ERR_BUSY;
    if (max_of(record->pv, record->rv) > map->version) {
        *last_version = max_of(*last_version, max_of(record->pv, record->rv));
        return ERR_BUSY;
    }
    if (record->rv > 0 && !record->is_piece) {
        if (map->change != MAP_JOIN || record->rv != map->version)
            return ERR_CORRUPT;
        make_piece(record, is_item(asker.thing), map->version);
    } else if (record->dv > 0) {
        return ERR_CORRUPT;
    }
    record->rv = 0;
    record->pv = map->version;
    *ret_adopted = record->av;
    *ret_epoch = data->epoch;
    return ERR_OK;
}

static unsigned members_of(const uint8_t held[USERS], unsigned slice)
{
    unsigned members = 0;
    for (unsigned user = slice; user < USERS; user += SLICES)
        members += held[user] != HELD_NONE;
    return members;
}

enum err pieces_freeze(struct asker_of_piece asker, const struct map *map,
                       struct frozen_slices *ret_frozen)
{
    struct cell_data *data;
    struct record *record = record_at(asker, map->from, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (!has_piece(record) || record->type == 'c')
        return ERR_CORRUPT;
    bool has_own = record->own[0] != 0;
    if (!has_own || record->fv > map->version || is_late_at_home(record, map->version))
        return ERR_BUSY;
    bool is_again = record->fv == map->version && record->has_fo;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        char own = record->own[slice];
        bool is_frozen = own == 'm' || own == 'n';
        if (is_again && record->fo[slice] != '-' && !is_frozen &&
            asker.model->bug != NODES_BUG_COPY_RELEASED)
            return ERR_CORRUPT;
        if (!is_again && is_moved(map, slice) && own != '1' && own != '0')
            return ERR_CORRUPT;
    }
    if (!is_again) {
        memset(record->fo, '-', SLICES);
        for (unsigned slice = 0; slice < SLICES; slice++)
            if (is_moved(map, slice)) {
                record->fo[slice] = record->own[slice];
                record->own[slice] = record->own[slice] == '1' ? 'm' : 'n';
                record->slice_tokens[slice] = 0;
            }
        record->has_fo = true;
        record->fv = map->version;
    }
    if (!is_again || sequence_epoch(record->fs) != data->epoch) {
        note(asker, data, map->from, record, map->from, 0);
        record->fs = data->last;
    }
    ret_frozen->sequence = record->fs;
    memcpy(ret_frozen->owned, record->fo, SLICES);
    for (unsigned slice = 0; slice < SLICES; slice++)
        ret_frozen->sizes[slice] = members_of(record->held, slice);
    return ERR_OK;
}

enum err pieces_copy(struct asker_of_piece asker, const struct map *map,
                     const struct frozen_slices *frozen, unsigned slice)
{
    struct cell_data *data;
    const struct record *from = record_at(asker, map->from, &data);
    struct record *to = record_at(asker, map->to, &data);
    if (!from || !to)
        return ERR_UNAVAILABLE;
    if (to->put_version != map->version) {
        to->put_version = map->version;
        memset(to->has_put, 0, sizeof(to->has_put));
        memset(to->put, 0, sizeof(to->put));
    }
    for (unsigned user = slice; user < USERS && frozen->owned[slice] == '1'; user += SLICES)
        to->put[user] = from->held[user];
    to->has_put[slice] = true;
    return ERR_OK;
}

enum err pieces_adopt(struct asker_of_piece asker, const struct map *map,
                      const struct frozen_slices *frozen, uint64_t epoch)
{
    struct cell_data *data;
    enum nodes_bug bug = asker.model->bug;
    struct record *record = record_at(asker, map->to, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (!has_piece(record))
        return ERR_CORRUPT;
    if (is_late_at_home(record, map->version))
        return ERR_BUSY;
    if (record->av >= map->version)
        return ERR_OK;
    if ((record->pv != map->version && bug != NODES_BUG_COPY_REOPENED) || record->own[0] == 0)
        return ERR_BUSY;
    if (data->epoch != epoch && bug != NODES_BUG_ADOPT_AGAIN)
        return ERR_BUSY;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        if (frozen->owned[slice] == '-')
            continue;
        if (record->own[slice] == '1' || record->own[slice] == '0')
            return ERR_CORRUPT;
        bool has_put = record->put_version == map->version && record->has_put[slice] &&
                       members_of(record->put, slice) == frozen->sizes[slice];
        if (frozen->owned[slice] == '1' && !has_put)
            return ERR_COLD;
    }
    bool lacks = false;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        if (frozen->owned[slice] == '-')
            continue;
        record->own[slice] = frozen->owned[slice];
        lacks |= frozen->owned[slice] == '0';
        for (unsigned user = slice; user < USERS && frozen->owned[slice] == '1'; user += SLICES)
            record->held[user] = record->put[user];
    }
    record->put_version = 0;
    record->av = map->version;
    if (record->fv < map->version) {
        record->fv = map->version;
        record->has_fo = false;
    }
    if (bug != NODES_BUG_NO_AFTER)
        note(asker, data, map->to, record, map->from, frozen->sequence);
    if (lacks)
        need(data, data->last);
    return ERR_OK;
}

enum err pieces_release(struct asker_of_piece asker, const struct map *map)
{
    struct cell_data *data;
    struct record *record = record_at(asker, map->from, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (!has_piece(record))
        return ERR_CORRUPT;
    if (record->fv != map->version || is_late_at_home(record, map->version))
        return ERR_BUSY;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        if (!is_moved(map, slice))
            continue;
        if (record->own[slice] == 'm' || record->own[slice] == 'n')
            record->own[slice] = '-';
        for (unsigned user = slice; user < USERS; user += SLICES)
            record->held[user] = HELD_NONE;
    }
    return ERR_OK;
}

enum err pieces_thaw(struct asker_of_piece asker, struct map *map, uint64_t adopted)
{
    struct cell_data *data;
    struct record *record = record_at(asker, map->from, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (!has_piece(record))
        return ERR_CORRUPT;
    if (record->fv > map->version || is_late_at_home(record, map->version))
        return ERR_BUSY;
    bool was_adopted = adopted >= map->base;
    for (unsigned slice = 0; slice < SLICES && record->fv == map->base; slice++) {
        char *own = &record->own[slice];
        if (is_moved(map, slice) && (*own == 'm' || *own == 'n'))
            *own = was_adopted ? '-' : *own == 'm' ? '1' : '0';
    }
    if (record->fv < map->version) {
        record->fv = map->version;
        record->has_fo = false;
    }
    if (was_adopted)
        map->change = MAP_MOVE;
    return ERR_OK;
}

enum err pieces_stop(struct asker_of_piece asker, unsigned cell, const struct map *map,
                     struct stopped_piece *ret_stopped)
{
    struct cell_data *data;
    struct record *record = record_at(asker, cell, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (!has_piece(record))
        return ERR_CORRUPT;
    if (!record->is_piece || record->dv > map->version)
        return ERR_BUSY;
    for (unsigned slice = 0; slice < SLICES; slice++)
        if (record->own[slice] == '1' || record->own[slice] == '0')
            return ERR_CORRUPT;
    if (record->dv != map->version || sequence_epoch(record->ds) != data->epoch) {
        note(asker, data, cell, record, cell, 0);
        record->ds = data->last;
    }
    record->dv = map->version;
    record->type = 'F';
    *ret_stopped = (struct stopped_piece){.sequence = record->ds, .value = record->value};
    memcpy(ret_stopped->counts, record->counts, sizeof(record->counts));
    return ERR_OK;
}

enum err pieces_erase(struct asker_of_piece asker, unsigned cell, const struct map *map,
                      uint64_t *ret_sequence)
{
    struct cell_data *data;
    struct record *record = record_at(asker, cell, &data);
    if (!record)
        return ERR_UNAVAILABLE;
    if (record->type != 0 && record->dv != map->base)
        return ERR_BUSY;
    *record = (struct record){.type = 0};
    data->listed[asker.thing] = false;
    struct name id = name_of_thing(asker.thing);
    struct event event = after(&id, cell, 0);
    if (asker.model->bug != NODES_BUG_ERASE_UNSAID)
        redis_append(asker.model, asker.node, data, cell, &event, 1);
    *ret_sequence = data->last;
    return ERR_OK;
}

/* --- also while the cell is being opened --- */

static struct cell_data *known_cell(struct asker_of_piece asker, unsigned cell)
{
    struct place place = redis_place(asker.model, asker.node, cell);
    if (place.down)
        return NULL;
    if (!redis_is_open(asker.model, place))
        redis_note_closed(asker.model, asker.node, cell);
    return redis_is_known(asker.model, place) ? place.data : NULL;
}

enum err pieces_wipe(struct asker_of_piece asker, unsigned cell, uint64_t version,
                     uint64_t *ret_sequence)
{
    struct cell_data *data = known_cell(asker, cell);
    if (!data)
        return ERR_UNAVAILABLE;
    struct record *record = &data->records[asker.thing];
    bool is_piece = record->is_piece || record->rv > 0;
    if (is_piece && max_of(record->rv, record->pv) <= version) {
        if (data->entry_count == OUTBOX_ROOM)
            return ERR_UNAVAILABLE;
        *record = (struct record){.type = 0};
        struct name id = name_of_thing(asker.thing);
        struct event event = after(&id, cell, 0);
        if (data->state == CELL_OPEN && asker.model->bug != NODES_BUG_WIPE_UNSAID)
            redis_append(asker.model, asker.node, data, cell, &event, 1);
    }
    *ret_sequence = redis_sequence_with_debt(asker.model, data);
    return ERR_OK;
}

enum err pieces_unlist(struct asker_of_piece asker, unsigned cell)
{
    struct cell_data *data = known_cell(asker, cell);
    if (!data)
        return ERR_UNAVAILABLE;
    const struct record *record = &data->records[asker.thing];
    if (record->is_piece || record->rv > 0)
        return ERR_BUSY;
    data->listed[asker.thing] = false;
    return ERR_OK;
}

enum err pieces_progress(struct asker_of_piece asker, unsigned cell, uint64_t *ret_sequence,
                         uint64_t *ret_relayed)
{
    const struct cell_data *data = known_cell(asker, cell);
    if (!data)
        return ERR_UNAVAILABLE;
    *ret_sequence = redis_sequence(data);
    *ret_relayed = data->relayed;
    return ERR_OK;
}
