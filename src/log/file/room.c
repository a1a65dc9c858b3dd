/* room.c - is there room for more?
 *
 * When the disk is full, or the process has no descriptor left, no segment can be prepared. room()
 * then says so as soon as what is left would not take all that may be appended before everybody has
 * noticed, and until there is space again. Whatever slips past that waits in
 * memory, is tried again every second and is not acknowledged before it is on
 * disk. */
#include "base/message.h"
#include "log/file/file_own.h"

/* On a full disk we stop while all that may be pending still has a place, even
 * if a group that does not fit at the end of a segment wastes that end. Since
 * room() is asked once a batch, a batch of each worker may come on top. */
static bool is_full(const struct file_log *log)
{
    uint64_t place = log->left_bytes + (log->next ? log->next_bytes : 0);
    uint64_t reserve = log->options.pending_bytes_max + GROUP_BYTES_MAX;
    return log->commit_full || (log->prepare_full && place < log->pending_bytes + reserve);
}

void room_decide(struct file_log *log)
{
    enum err room = ERR_OK;
    if (log->broken)
        room = ERR_BUSY;
    else if (is_full(log))
        room = log->lacks_files ? ERR_NO_FILES : ERR_FULL;
    else if (log->pending_bytes > log->options.pending_bytes_max)
        room = ERR_BUSY;
    atomic_store_explicit(&log->room, (int)room, memory_order_relaxed);
}

void room_note_space(struct file_log *log, bool *flag, const struct error *why)
{
    bool is_full_now = why != NULL;
    bool was_full = log->prepare_full || log->commit_full;
    *flag = is_full_now;
    if (why)
        log->lacks_files = why->code == ERR_NO_FILES;
    bool full = log->prepare_full || log->commit_full;
    room_decide(log);
    if (full == was_full)
        return;

    log->stats.full_since_ms = full ? (uint64_t)env_wall_ms(log->env) : 0;
    if (full)
        message_warning("no space for the log folder=%s reason=\"%s\"", log->folder.log_path,
                        why->text);
    else
        message_info("there is space for the log again folder=%s", log->folder.log_path);
}
