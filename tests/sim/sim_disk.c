#include "sim/sim_disk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* A sector rewritten before its sync has been saved in between with this chance. */
#define EARLY_SAVE_PERMILLE 125u

enum sector {
    SECTOR_CLEAN,
    SECTOR_DIRTY, /* a sync will save it */
    SECTOR_LOST,  /* a sync failed on it: the program sees it, nothing will save it */
};

/* The bytes of a file. Beyond their sizes both contents are zero, up to the
 * capacity; they differ in touched sectors only. */
struct inode {
    char *seen;  /* owned; by the program */
    char *saved; /* owned; what a crash leaves for sure */
    size_t seen_size;
    size_t saved_size;
    size_t capacity;       /* of both, whole sectors */
    unsigned char *states; /* owned; enum sector, for each sector */
    uint32_t *touched;     /* owned; the sectors that are not clean, each once */
    size_t touched_count;
    unsigned references; /* from names, changes and open files */
    unsigned users;      /* names seen and open files: while there are any, it takes space */
    struct inode *next;
    struct inode **link; /* what points to us */
};

/* A name of a folder, and the file it stands for, NULL for none. */
struct name {
    struct inode *seen;
    struct inode *saved;
    uint64_t hash;
    char text[];
};

/* What happened to a folder and is not saved: `name` stands for `inode` now and,
 * when it was a rename, `from` for nothing. */
struct change {
    struct name *name;
    struct name *from;
    struct inode *inode; /* NULL: removed */
};

struct folder {
    char *path;          /* owned */
    struct name **names; /* owned */
    size_t name_count;
    struct change *changes; /* owned; in order */
    size_t change_count;
    struct folder *next;
};

struct sim_file {
    struct disk_file base;
    struct sim_disk *disk;
    struct inode *inode;
    bool writable;
    bool locked;
    struct sim_file *next;
    struct sim_file **link; /* what points to us */
};

struct sim_disk_state {
    struct sim_rng rng;
    struct folder *folders;
    struct inode *inodes;
    size_t inode_count;
    struct sim_file *files;
    char *listing; /* owned; names of a walk under way, each closed by a zero */
    uint64_t used_bytes;
    bool crash_is_due; /* the call under way takes effect, then the power goes off */
    bool power_is_off;
};

static const struct disk_ops sim_ops;

static struct sim_disk *sim_disk_of(struct disk *disk)
{
    assert(disk->ops == &sim_ops);
    return (struct sim_disk *)disk;
}

static struct sim_file *sim_file_of(struct disk_file *file)
{
    assert(file->ops == &sim_ops);
    return (struct sim_file *)file;
}

static void *allocate(void *old, size_t size)
{
    void *memory = realloc(old, size > 0 ? size : 1);
    if (!memory)
        abort();
    return memory;
}

/* Room for one more in an array that doubles whenever its count is a power of two. */
static void *grow_array(void *array, size_t count, size_t item_size)
{
    if ((count & (count - 1)) != 0)
        return array;
    return allocate(array, (count > 0 ? count * 2 : 1) * item_size);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- the fate of a call ---- */

enum fate {
    CALL_RUNS,
    CALL_FAILS, /* with faults.fail_with */
    CALL_DEAD,  /* the power is off */
};

static void turn_power_off(struct sim_disk *disk)
{
    disk->state->crash_is_due = false;
    disk->state->power_is_off = true;
    if (disk->faults.crash)
        disk->faults.crash(disk->faults.crash_arg);
}

/* Every call starts here. */
static enum fate call_begin(struct sim_disk *disk)
{
    struct sim_disk_state *state = disk->state;
    if (state->power_is_off)
        return CALL_DEAD;

    uint64_t call = ++disk->counts.calls;
    if (call == disk->faults.crash_at_call) {
        state->crash_is_due = sim_rng_chance(&state->rng, 500);
        if (!state->crash_is_due) {
            turn_power_off(disk);
            return CALL_DEAD;
        }
    }
    return call == disk->faults.fail_at_call ? CALL_FAILS : CALL_RUNS;
}

/* Every call that ran ends here, and `err` is its result unless the power went off. */
static enum err call_end(struct sim_disk *disk, enum err err, struct error *error)
{
    if (!disk->state->crash_is_due)
        return err;
    turn_power_off(disk);
    return error_set(error, ERR_IO, "the power is off");
}

/* The result of a call that did not run. */
static enum err call_refuse(struct sim_disk *disk, enum fate fate, bool needs_space,
                            struct error *error)
{
    assert(fate != CALL_RUNS);
    if (fate == CALL_DEAD)
        return error_set(error, ERR_IO, "the power is off");

    disk->counts.faults++;
    enum err err = needs_space && disk->faults.fail_with == ERR_FULL ? ERR_FULL : ERR_IO;
    error_set(error, err, "call %llu was made to fail", (unsigned long long)disk->counts.calls);
    return call_end(disk, err, error);
}

/* ---- inodes: who refers to them ---- */

static struct inode *inode_new(struct sim_disk_state *state)
{
    struct inode *inode = allocate(NULL, sizeof(*inode));
    *inode = (struct inode){.next = state->inodes, .link = &state->inodes};
    if (inode->next)
        inode->next->link = &inode->next;
    state->inodes = inode;
    state->inode_count++;
    return inode;
}

static void inode_free(struct sim_disk_state *state, struct inode *inode)
{
    *inode->link = inode->next;
    if (inode->next)
        inode->next->link = inode->link;
    state->inode_count--;
    free(inode->seen);
    free(inode->saved);
    free(inode->states);
    free(inode->touched);
    free(inode);
}

static void inode_hold(struct inode *inode)
{
    inode->references++;
}

static void inode_drop(struct sim_disk_state *state, struct inode *inode)
{
    if (--inode->references == 0)
        inode_free(state, inode);
}

static void inode_use(struct sim_disk_state *state, struct inode *inode)
{
    inode_hold(inode);
    if (inode->users++ == 0)
        state->used_bytes += inode->seen_size;
}

static void inode_unuse(struct sim_disk_state *state, struct inode *inode)
{
    if (--inode->users == 0)
        state->used_bytes -= inode->seen_size;
    inode_drop(state, inode);
}

/* ---- inodes: their bytes ---- */

static void *grow_zeroed(void *old, size_t old_size, size_t size)
{
    char *memory = allocate(old, size);
    memset(memory + old_size, 0, size - old_size);
    return memory;
}

static void inode_reserve(struct inode *inode, size_t size)
{
    if (size <= inode->capacity)
        return;
    size_t sectors = (larger(size, inode->capacity * 2) + SIM_DISK_SECTOR - 1) / SIM_DISK_SECTOR;
    size_t capacity = sectors * SIM_DISK_SECTOR;
    inode->seen = grow_zeroed(inode->seen, inode->capacity, capacity);
    inode->saved = grow_zeroed(inode->saved, inode->capacity, capacity);
    inode->states = grow_zeroed(inode->states, inode->capacity / SIM_DISK_SECTOR, sectors);
    inode->touched = allocate(inode->touched, sectors * sizeof(*inode->touched));
    inode->capacity = capacity;
}

/* What a sector covers of the file. */
static size_t sector_start(uint32_t sector)
{
    return (size_t)sector * SIM_DISK_SECTOR;
}

static size_t sector_end(const struct inode *inode, uint32_t sector)
{
    return smaller(sector_start(sector) + SIM_DISK_SECTOR, inode->seen_size);
}

static void save_bytes(struct inode *inode, size_t start, size_t end)
{
    memcpy(inode->saved + start, inode->seen + start, end - start);
    inode->saved_size = larger(inode->saved_size, end);
}

static void save_sector(struct inode *inode, uint32_t sector)
{
    save_bytes(inode, sector_start(sector), sector_end(inode, sector));
}

static void touch_sector(struct sim_disk_state *state, struct inode *inode, uint32_t sector)
{
    if (inode->states[sector] == SECTOR_DIRTY) {
        if (sim_rng_chance(&state->rng, EARLY_SAVE_PERMILLE))
            save_sector(inode, sector);
        return;
    }
    if (inode->states[sector] == SECTOR_CLEAN)
        inode->touched[inode->touched_count++] = sector;
    inode->states[sector] = SECTOR_DIRTY;
}

static void inode_write(struct sim_disk_state *state, struct inode *inode, size_t offset,
                        const char *from, size_t size)
{
    if (size == 0)
        return;
    size_t end = offset + size;
    inode_reserve(inode, end);
    for (size_t sector = offset / SIM_DISK_SECTOR; sector <= (end - 1) / SIM_DISK_SECTOR; sector++)
        touch_sector(state, inode, (uint32_t)sector);
    memcpy(inode->seen + offset, from, size);
    if (end > inode->seen_size) {
        state->used_bytes += end - inode->seen_size;
        inode->seen_size = end;
    }
}

static void save_dirty_sectors(struct inode *inode)
{
    size_t left = 0;
    for (size_t i = 0; i < inode->touched_count; i++) {
        uint32_t sector = inode->touched[i];
        if (inode->states[sector] == SECTOR_LOST) {
            inode->touched[left++] = sector;
            continue;
        }
        save_sector(inode, sector);
        inode->states[sector] = SECTOR_CLEAN;
    }
    inode->touched_count = left;
}

static void inode_sync(struct inode *inode)
{
    save_dirty_sectors(inode);
    inode->saved_size = inode->seen_size;
}

/* Some sectors are saved, the others never will be, and no later sync tells. */
static void inode_sync_badly(struct sim_disk *disk, struct inode *inode)
{
    for (size_t i = 0; i < inode->touched_count; i++) {
        uint32_t sector = inode->touched[i];
        if (inode->states[sector] == SECTOR_DIRTY && sim_rng_chance(&disk->state->rng, 500)) {
            inode->states[sector] = SECTOR_LOST;
            disk->counts.sectors_lost++;
        }
    }
    save_dirty_sectors(inode);
}

/* ---- inodes: a crash ---- */

/* What a file that grew has where its bytes did not arrive. */
enum filler { FILLER_ZEROS, FILLER_NOISE, FILLER_STALE, FILLER_COUNT };

/* How a crash treats one file. Each file has a plan of its own, since with one
 * chance for every sector "all" and "none" would hardly ever happen. */
struct crash_plan {
    unsigned keep_permille;
    unsigned tear_permille; /* of those not kept */
    bool keep_size;
    enum filler filler;
    const struct inode *donor; /* of stale bytes */
    size_t saved_size;         /* before the crash */
};

static unsigned pick_permille(struct sim_rng *rng)
{
    switch (sim_rng_below(rng, 4)) {
    case 0:
        return 0;
    case 1:
        return 1000;
    default:
        return (unsigned)sim_rng_below(rng, 1001);
    }
}

/* Any file but `inode`, if there is another. */
static const struct inode *pick_other(const struct sim_disk_state *state, const struct inode *inode,
                                      struct sim_rng *rng)
{
    const struct inode *other = state->inodes;
    for (uint64_t steps = sim_rng_below(rng, state->inode_count); steps > 0; steps--)
        other = other->next;
    if (other != inode)
        return other;
    return other->next ? other->next : state->inodes;
}

static struct crash_plan plan_crash(const struct sim_disk_state *state, const struct inode *inode,
                                    struct sim_rng *rng)
{
    return (struct crash_plan){
        .keep_permille = pick_permille(rng),
        .tear_permille = pick_permille(rng),
        .keep_size = sim_rng_chance(rng, 500),
        .filler = (enum filler)sim_rng_below(rng, FILLER_COUNT),
        .donor = pick_other(state, inode, rng),
        .saved_size = inode->saved_size,
    };
}

/* Fills what was never saved of a stretch; what was saved stays as it is. */
static void fill_unsaved(struct inode *inode, const struct crash_plan *plan, size_t start,
                         size_t end, struct sim_rng *rng)
{
    for (size_t at = larger(start, plan->saved_size); at < end; at++) {
        if (plan->filler == FILLER_NOISE)
            inode->saved[at] = (char)sim_rng_next(rng);
        else if (plan->filler == FILLER_STALE && at < plan->donor->capacity)
            inode->saved[at] = plan->donor->saved[at];
    }
}

/* A torn sector has arrived up to some byte, or from some byte on. */
static void tear_sector(struct inode *inode, size_t start, size_t end, struct sim_rng *rng)
{
    size_t cut = start + sim_rng_below(rng, end - start);
    if (sim_rng_chance(rng, 500))
        save_bytes(inode, start, cut);
    else
        save_bytes(inode, cut, end);
}

static void crash_sector(struct sim_disk *disk, struct inode *inode, uint32_t sector,
                         const struct crash_plan *plan, struct sim_rng *rng)
{
    size_t start = sector_start(sector);
    size_t end = sector_end(inode, sector);
    bool dirty = inode->states[sector] == SECTOR_DIRTY;
    if (dirty && sim_rng_chance(rng, plan->keep_permille)) {
        save_bytes(inode, start, end);
        return;
    }
    fill_unsaved(inode, plan, start, end, rng);
    if (dirty && sim_rng_chance(rng, plan->tear_permille)) {
        tear_sector(inode, start, end, rng);
        disk->counts.sectors_torn++;
    } else {
        disk->counts.sectors_lost += dirty;
    }
}

static void inode_crash(struct sim_disk *disk, struct inode *inode, struct sim_rng *rng)
{
    if (inode->touched_count == 0 && inode->seen_size == inode->saved_size)
        return;

    struct crash_plan plan = plan_crash(disk->state, inode, rng);
    for (size_t i = 0; i < inode->touched_count; i++)
        crash_sector(disk, inode, inode->touched[i], &plan, rng);
    if (plan.keep_size)
        inode->saved_size = inode->seen_size;
    memset(inode->saved + inode->saved_size, 0, inode->seen_size - inode->saved_size);

    for (size_t i = 0; i < inode->touched_count; i++) {
        size_t start = sector_start(inode->touched[i]);
        memcpy(inode->seen + start, inode->saved + start, SIM_DISK_SECTOR);
        inode->states[inode->touched[i]] = SECTOR_CLEAN;
    }
    inode->touched_count = 0;
    if (inode->users > 0)
        disk->state->used_bytes -= inode->seen_size - inode->saved_size;
    inode->seen_size = inode->saved_size;
}

/* ---- folders ---- */

static size_t path_size(const char *path)
{
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    return size;
}

static struct folder *find_folder(struct sim_disk_state *state, const char *path, size_t size)
{
    for (struct folder *folder = state->folders; folder; folder = folder->next) {
        if (strncmp(folder->path, path, size) == 0 && folder->path[size] == '\0')
            return folder;
    }
    return NULL;
}

static void add_folder(struct sim_disk_state *state, const char *path, size_t size)
{
    if (find_folder(state, path, size))
        return;
    struct folder *folder = allocate(NULL, sizeof(*folder));
    *folder = (struct folder){.path = strndup(path, size), .next = state->folders};
    if (!folder->path)
        abort();
    state->folders = folder;
}

/* The folder that `path` is in, NULL if there is none, and the name within it. */
static struct folder *folder_of(struct sim_disk_state *state, const char *path,
                                const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    if (!slash)
        return find_folder(state, ".", 1);
    return find_folder(state, path, slash == path ? 1 : (size_t)(slash - path));
}

static struct name *find_name(const struct folder *folder, const char *text)
{
    uint64_t hash = hash_stable(slice_of(text));
    for (size_t i = 0; i < folder->name_count; i++) {
        struct name *name = folder->names[i];
        if (name->hash == hash && strcmp(name->text, text) == 0)
            return name;
    }
    return NULL;
}

static struct name *find_or_add_name(struct folder *folder, const char *text)
{
    struct name *name = find_name(folder, text);
    if (name)
        return name;

    struct slice bytes = slice_of(text);
    name = allocate(NULL, sizeof(*name) + bytes.size + 1);
    *name = (struct name){.hash = hash_stable(bytes)};
    memcpy(name->text, text, bytes.size + 1);
    folder->names = grow_array(folder->names, folder->name_count, sizeof(struct name *));
    folder->names[folder->name_count++] = name;
    return name;
}

/* The file that `path` stands for, or NULL. */
static struct inode *find_inode(struct sim_disk_state *state, const char *path)
{
    const char *text;
    struct folder *folder = folder_of(state, path, &text);
    struct name *name = folder ? find_name(folder, text) : NULL;
    return name ? name->seen : NULL;
}

static void set_seen(struct sim_disk_state *state, struct name *name, struct inode *inode)
{
    struct inode *old = name->seen;
    name->seen = inode;
    if (inode)
        inode_use(state, inode);
    if (old)
        inode_unuse(state, old);
}

static void set_saved(struct sim_disk_state *state, struct name *name, struct inode *inode)
{
    struct inode *old = name->saved;
    name->saved = inode;
    if (inode)
        inode_hold(inode);
    if (old)
        inode_drop(state, old);
}

/* `name` stands for `inode` from now on, and `from`, if there is one, for nothing. */
static void change_folder(struct sim_disk_state *state, struct folder *folder, struct name *name,
                          struct name *from, struct inode *inode)
{
    if (inode)
        inode_hold(inode); /* by the change */
    folder->changes = grow_array(folder->changes, folder->change_count, sizeof(struct change));
    folder->changes[folder->change_count++] =
        (struct change){.name = name, .from = from, .inode = inode};

    set_seen(state, name, inode);
    if (from)
        set_seen(state, from, NULL);
}

static struct inode *create_inode(struct sim_disk_state *state, struct folder *folder,
                                  const char *text)
{
    struct inode *inode = inode_new(state);
    change_folder(state, folder, find_or_add_name(folder, text), NULL, inode);
    return inode;
}

static void forget_changes(struct sim_disk_state *state, struct folder *folder, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (folder->changes[i].inode)
            inode_drop(state, folder->changes[i].inode);
    }
    folder->change_count -= count;
    if (count > 0)
        memmove(folder->changes, folder->changes + count,
                folder->change_count * sizeof(struct change));
}

static void save_changes(struct sim_disk_state *state, struct folder *folder, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct change *change = &folder->changes[i];
        set_saved(state, change->name, change->inode);
        if (change->from)
            set_saved(state, change->from, NULL);
    }
    forget_changes(state, folder, count);
}

/* Frees names that stand for nothing; not while a change points to one. */
static void forget_names(struct folder *folder)
{
    assert(folder->change_count == 0);

    size_t kept = 0;
    for (size_t i = 0; i < folder->name_count; i++) {
        struct name *name = folder->names[i];
        if (name->seen || name->saved)
            folder->names[kept++] = name;
        else
            free(name);
    }
    folder->name_count = kept;
}

static void folder_crash(struct sim_disk_state *state, struct folder *folder, struct sim_rng *rng)
{
    save_changes(state, folder, sim_rng_below(rng, folder->change_count + 1));
    forget_changes(state, folder, folder->change_count);
    for (size_t i = 0; i < folder->name_count; i++)
        set_seen(state, folder->names[i], folder->names[i]->saved);
    forget_names(folder);
}

static void folder_free(struct sim_disk_state *state, struct folder *folder)
{
    forget_changes(state, folder, folder->change_count);
    for (size_t i = 0; i < folder->name_count; i++) {
        set_seen(state, folder->names[i], NULL);
        set_saved(state, folder->names[i], NULL);
    }
    forget_names(folder);
    free(folder->names);
    free(folder->changes);
    free(folder->path);
    free(folder);
}

/* ---- open files ---- */

static struct sim_file *file_new(struct sim_disk *disk, struct inode *inode, bool writable)
{
    struct sim_disk_state *state = disk->state;
    struct sim_file *file = allocate(NULL, sizeof(*file));
    *file = (struct sim_file){
        .base.ops = &sim_ops,
        .disk = disk,
        .inode = inode,
        .writable = writable,
        .next = state->files,
        .link = &state->files,
    };
    if (file->next)
        file->next->link = &file->next;
    state->files = file;
    inode_use(state, inode);
    return file;
}

static void file_free(struct sim_file *file)
{
    *file->link = file->next;
    if (file->next)
        file->next->link = file->link;
    inode_unuse(file->disk->state, file->inode);
    free(file);
}

static bool is_locked(const struct sim_disk_state *state, const struct inode *inode)
{
    for (const struct sim_file *file = state->files; file; file = file->next) {
        if (file->inode == inode && file->locked)
            return true;
    }
    return false;
}

/* Ends a call that opened `file`: with the power off, nobody gets it. */
static enum err give_file(struct sim_disk *disk, struct sim_file *file, struct disk_file **ret_file,
                          struct error *error)
{
    enum err err = call_end(disk, ERR_OK, error);
    if (err) {
        file_free(file);
        return err;
    }
    *ret_file = &file->base;
    return ERR_OK;
}

/* ---- the calls: names ---- */

static enum err not_found(struct sim_disk *disk, const char *path, struct error *error)
{
    return call_end(disk, error_set(error, ERR_NOT_FOUND, "%s: no such file or folder", path),
                    error);
}

static enum err sim_open(struct disk *base, const char *path, enum disk_open how,
                         struct disk_file **ret_file, struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    struct sim_disk_state *state = disk->state;
    enum fate fate = call_begin(disk);
    if (fate != CALL_RUNS)
        return call_refuse(disk, fate, how == DISK_CREATE, error);

    const char *text;
    struct folder *folder = folder_of(state, path, &text);
    struct inode *inode = find_inode(state, path);
    if (!folder || (!inode && how != DISK_CREATE))
        return not_found(disk, path, error);
    if (inode && how == DISK_CREATE)
        return call_end(disk, error_set(error, ERR_EXISTS, "%s exists", path), error);

    if (!inode)
        inode = create_inode(state, folder, text);
    return give_file(disk, file_new(disk, inode, how != DISK_READ), ret_file, error);
}

static enum err sim_lock(struct disk *base, const char *path, struct disk_file **ret_file,
                         struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    struct sim_disk_state *state = disk->state;
    enum fate fate = call_begin(disk);
    if (fate != CALL_RUNS)
        return call_refuse(disk, fate, true, error);

    const char *text;
    struct folder *folder = folder_of(state, path, &text);
    if (!folder)
        return not_found(disk, path, error);
    struct inode *inode = find_inode(state, path);
    if (inode && is_locked(state, inode))
        return call_end(disk, error_set(error, ERR_BUSY, "%s is locked", path), error);

    if (!inode)
        inode = create_inode(state, folder, text);
    struct sim_file *file = file_new(disk, inode, true);
    file->locked = true;
    return give_file(disk, file, ret_file, error);
}

static enum err sim_rename(struct disk *base, const char *from, const char *to, struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    struct sim_disk_state *state = disk->state;
    enum fate fate = call_begin(disk);
    if (fate != CALL_RUNS)
        return call_refuse(disk, fate, true, error);

    const char *from_text;
    const char *to_text;
    struct folder *folder = folder_of(state, from, &from_text);
    const struct folder *folder_to = folder_of(state, to, &to_text);
    assert(folder == folder_to);
    (void)folder_to;
    struct inode *inode = find_inode(state, from);
    if (!inode)
        return not_found(disk, from, error);

    if (strcmp(from_text, to_text) != 0)
        change_folder(state, folder, find_or_add_name(folder, to_text),
                      find_name(folder, from_text), inode);
    return call_end(disk, ERR_OK, error);
}

static enum err sim_remove(struct disk *base, const char *path, struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    struct sim_disk_state *state = disk->state;
    enum fate fate = call_begin(disk);
    if (fate != CALL_RUNS)
        return call_refuse(disk, fate, false, error);

    if (!find_inode(state, path))
        return not_found(disk, path, error);
    const char *text;
    struct folder *folder = folder_of(state, path, &text);
    change_folder(state, folder, find_name(folder, text), NULL, NULL);
    return call_end(disk, ERR_OK, error);
}

/* Copies the names first: the visitor may change the folder, or never come back. */
static size_t take_listing(struct sim_disk_state *state, const struct folder *folder)
{
    size_t size = 0;
    for (size_t i = 0; i < folder->name_count; i++)
        size += strlen(folder->names[i]->text) + 1;
    assert(!state->listing);
    state->listing = allocate(NULL, size);

    /* Starting anywhere, so that nobody relies on an order. */
    size_t first = sim_rng_below(&state->rng, folder->name_count + 1);
    size_t used = 0;
    for (size_t i = 0; i < folder->name_count; i++) {
        const struct name *name = folder->names[(first + i) % folder->name_count];
        size_t text_size = strlen(name->text) + 1;
        if (!name->seen)
            continue;
        memcpy(state->listing + used, name->text, text_size);
        used += text_size;
    }
    return used;
}

static void drop_listing(struct sim_disk_state *state)
{
    free(state->listing);
    state->listing = NULL;
}

static enum err sim_list(struct disk *base, const char *path, disk_list_fn *visit, void *arg,
                         struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    struct sim_disk_state *state = disk->state;
    enum fate fate = call_begin(disk);
    if (fate != CALL_RUNS)
        return call_refuse(disk, fate, false, error);

    struct folder *folder = find_folder(state, path, path_size(path));
    if (!folder)
        return not_found(disk, path, error);
    size_t size = take_listing(state, folder);
    for (size_t at = 0; at < size; at += strlen(state->listing + at) + 1) {
        if (!visit(arg, state->listing + at))
            break;
    }
    drop_listing(state);
    return call_end(disk, ERR_OK, error);
}

static enum err sim_make_folder(struct disk *base, const char *path, struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    enum fate fate = call_begin(disk);
    if (fate != CALL_RUNS)
        return call_refuse(disk, fate, true, error);

    size_t size = path_size(path);
    for (size_t i = 1; i <= size; i++) {
        if (i == size || path[i] == '/')
            add_folder(disk->state, path, i);
    }
    return call_end(disk, ERR_OK, error);
}

static bool sync_fails(struct sim_disk *disk, enum fate fate)
{
    return fate == CALL_FAILS ||
           sim_rng_chance(&disk->state->rng, disk->faults.sync_failure_permille);
}

static enum err sim_sync_folder(struct disk *base, const char *path, struct error *error)
{
    struct sim_disk *disk = sim_disk_of(base);
    struct sim_disk_state *state = disk->state;
    enum fate fate = call_begin(disk);
    if (fate == CALL_DEAD)
        return call_refuse(disk, fate, false, error);

    struct folder *folder = find_folder(state, path, path_size(path));
    if (!folder)
        return not_found(disk, path, error);
    if (sync_fails(disk, fate)) {
        save_changes(state, folder, sim_rng_below(&state->rng, folder->change_count + 1));
        return call_refuse(disk, CALL_FAILS, false, error);
    }
    save_changes(state, folder, folder->change_count);
    forget_names(folder);
    return call_end(disk, ERR_OK, error);
}

/* ---- the calls: bytes ---- */

static enum err sim_file_read(struct disk_file *base, uint64_t offset, void *to, size_t size,
                              size_t *ret_size, struct error *error)
{
    struct sim_file *file = sim_file_of(base);
    const struct inode *inode = file->inode;
    enum fate fate = call_begin(file->disk);
    if (fate != CALL_RUNS)
        return call_refuse(file->disk, fate, false, error);

    size_t got = offset < inode->seen_size ? smaller(size, inode->seen_size - offset) : 0;
    if (got > 0)
        memcpy(to, inode->seen + offset, got);
    enum err err = call_end(file->disk, ERR_OK, error);
    if (!err)
        *ret_size = got;
    return err;
}

/* How many bytes of a write there is room for. */
static size_t fitting_size(const struct sim_disk *disk, const struct inode *inode, uint64_t offset,
                           size_t size)
{
    uint64_t space = disk->faults.space_bytes;
    uint64_t used = disk->state->used_bytes;
    if (space == 0 || offset + size <= inode->seen_size)
        return size;
    uint64_t end = inode->seen_size + (space > used ? space - used : 0);
    return end > offset ? smaller(size, end - offset) : 0;
}

static enum err sim_file_write(struct disk_file *base, uint64_t offset, const void *from,
                               size_t size, struct error *error)
{
    struct sim_file *file = sim_file_of(base);
    struct sim_disk *disk = file->disk;
    enum fate fate = call_begin(disk);
    if (fate == CALL_DEAD)
        return call_refuse(disk, fate, true, error);
    if (!file->writable)
        return call_end(disk, error_set(error, ERR_IO, "the file is open for reading"), error);

    size_t fitting = fitting_size(disk, file->inode, offset, size);
    if (fate == CALL_FAILS) {
        inode_write(disk->state, file->inode, offset, from,
                    sim_rng_below(&disk->state->rng, fitting + 1));
        return call_refuse(disk, fate, true, error);
    }
    inode_write(disk->state, file->inode, offset, from, fitting);
    if (fitting == size)
        return call_end(disk, ERR_OK, error);
    disk->counts.faults++;
    return call_end(disk, error_set(error, ERR_FULL, "no space left on the disk"), error);
}

static enum err sim_file_sync(struct disk_file *base, struct error *error)
{
    struct sim_file *file = sim_file_of(base);
    struct sim_disk *disk = file->disk;
    enum fate fate = call_begin(disk);
    if (fate == CALL_DEAD)
        return call_refuse(disk, fate, false, error);

    if (sync_fails(disk, fate)) {
        inode_sync_badly(disk, file->inode);
        return call_refuse(disk, CALL_FAILS, false, error);
    }
    inode_sync(file->inode);
    return call_end(disk, ERR_OK, error);
}

static enum err sim_file_size(struct disk_file *base, uint64_t *ret_size, struct error *error)
{
    struct sim_file *file = sim_file_of(base);
    enum fate fate = call_begin(file->disk);
    if (fate != CALL_RUNS)
        return call_refuse(file->disk, fate, false, error);

    enum err err = call_end(file->disk, ERR_OK, error);
    if (!err)
        *ret_size = file->inode->seen_size;
    return err;
}

static void sim_file_close(struct disk_file *base)
{
    file_free(sim_file_of(base));
}

static const struct disk_ops sim_ops = {
    .open = sim_open,
    .list = sim_list,
    .rename = sim_rename,
    .remove = sim_remove,
    .make_folder = sim_make_folder,
    .sync_folder = sim_sync_folder,
    .lock = sim_lock,
    .file_read = sim_file_read,
    .file_write = sim_file_write,
    .file_sync = sim_file_sync,
    .file_size = sim_file_size,
    .file_close = sim_file_close,
};

/* ---- the owner's side ---- */

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *disk = allocate(NULL, sizeof(*disk));
    struct sim_disk_state *state = allocate(NULL, sizeof(*state));
    *state = (struct sim_disk_state){.rng = {seed}};
    *disk = (struct sim_disk){
        .base.ops = &sim_ops,
        .faults.fail_with = ERR_IO,
        .state = state,
    };
    add_folder(state, ".", 1);
    add_folder(state, "/", 1);
    return disk;
}

void sim_disk_power_off(struct sim_disk *disk)
{
    assert(disk);
    disk->state->power_is_off = true;
}

void sim_disk_kill(struct sim_disk *disk)
{
    assert(disk);

    struct sim_disk_state *state = disk->state;
    while (state->files)
        file_free(state->files);
    drop_listing(state);
    state->power_is_off = false;
    state->crash_is_due = false;
}

void sim_disk_free(struct sim_disk *disk)
{
    if (!disk)
        return;
    sim_disk_kill(disk);
    while (disk->state->folders) {
        struct folder *folder = disk->state->folders;
        disk->state->folders = folder->next;
        folder_free(disk->state, folder);
    }
    assert(!disk->state->inodes);
    free(disk->state);
    free(disk);
}

void sim_disk_crash(struct sim_disk *disk, struct sim_rng *rng)
{
    assert(disk && rng);

    struct sim_disk_state *state = disk->state;
    sim_disk_kill(disk);
    for (struct folder *folder = state->folders; folder; folder = folder->next)
        folder_crash(state, folder, rng);
    for (struct inode *inode = state->inodes; inode; inode = inode->next)
        inode_crash(disk, inode, rng);
    disk->counts.crashes++;
    disk->faults.crash_at_call = 0;
    disk->faults.fail_at_call = 0;
}

enum err sim_disk_flip(struct sim_disk *disk, const char *path, uint64_t byte, unsigned bit)
{
    assert(disk && path && bit < 8);

    struct inode *inode = find_inode(disk->state, path);
    if (!inode)
        return ERR_NOT_FOUND;
    if (byte >= inode->seen_size)
        return ERR_OUT_OF_RANGE;

    inode->seen[byte] = (char)(inode->seen[byte] ^ (1 << bit));
    if (byte < inode->saved_size)
        inode->saved[byte] = (char)(inode->saved[byte] ^ (1 << bit));
    disk->counts.bits_flipped++;
    return ERR_OK;
}

uint64_t sim_disk_used_bytes(const struct sim_disk *disk)
{
    assert(disk);
    return disk->state->used_bytes;
}

static uint64_t hash_inode(const struct inode *inode, uint64_t hash)
{
    if (!inode)
        return hash + 1;
    hash = hash_stable_seeded((struct slice){inode->seen, inode->seen_size}, hash);
    return hash_stable_seeded((struct slice){inode->saved, inode->saved_size}, hash);
}

uint64_t sim_disk_hash(const struct sim_disk *disk)
{
    assert(disk);

    uint64_t hash = disk->counts.calls;
    for (const struct folder *folder = disk->state->folders; folder; folder = folder->next) {
        hash = hash_stable_seeded(slice_of(folder->path), hash);
        for (size_t i = 0; i < folder->name_count; i++) {
            hash = hash_stable_seeded(slice_of(folder->names[i]->text), hash);
            hash = hash_inode(folder->names[i]->seen, hash);
            hash = hash_inode(folder->names[i]->saved, hash);
        }
    }
    return hash;
}
