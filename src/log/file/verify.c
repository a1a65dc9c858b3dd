#include "log/file/verify.h"

#include <inttypes.h>

#include "log/file/segment.h"

#define STEP_BYTES (1u << 20)

void verify_init(struct verify *verify, const struct folder *folder, struct segments *segments)
{
    *verify = (struct verify){.folder = folder, .segments = segments, .next = 1};
    view_init(&verify->view, GROUP_BYTES_MAX);
}

static void close_segment(struct verify *verify)
{
    view_close(&verify->view);
    verify->next = verify->here.header.number + 1;
    verify->here = (struct segments_entry){0};
}

void verify_done(struct verify *verify)
{
    view_close(&verify->view);
    view_done(&verify->view);
}

/* ---- a segment ---- */

/* Was it trimmed or written anew since we began to look at it? */
static bool is_still_there(struct verify *verify)
{
    struct log_position place = {.segment = verify->here.header.number};
    return segments_find(verify->segments, place).here.header.number == place.segment;
}

static enum err damage(const struct verify *verify, uint64_t offset, const char *fault,
                       struct error *error)
{
    return error_set(error, ERR_CORRUPT, "%s: offset %" PRIu64 ": %s", verify->view.path, offset,
                     fault);
}

static enum err look_at_header(struct verify *verify, struct error *error)
{
    const struct segment_header *expected = &verify->here.header;
    if (verify->view.file_bytes < verify->here.end)
        return damage(verify, verify->view.file_bytes, "the file ends here", error);
    verify->view.limit = verify->here.end;
    const char *bytes;
    enum err err = view_get(&verify->view, 0, SEGMENT_HEADER_BYTES, &bytes, error);
    if (err)
        return err;
    struct segment_header header;
    struct error why;
    err = segment_header_get(bytes, &header, &why);
    if (err)
        return error_set(error, ERR_CORRUPT, "%s: %s", verify->view.path, why.text);
    if (header.log_id != expected->log_id || header.number != expected->number ||
        header.previous_end != expected->previous_end)
        return damage(verify, 0, "the header is that of another segment", error);
    verify->at = SEGMENT_HEADER_BYTES;
    return ERR_OK;
}

static enum err open_segment(struct verify *verify, struct error *error)
{
    struct error why;
    enum err err = view_open(&verify->view, verify->folder, verify->here.header.number, &why);
    if (err == ERR_NOT_FOUND)
        return damage(verify, 0, "the segment is missing", error);
    return err ? error_set(error, err, "%s", why.text) : look_at_header(verify, error);
}

static enum err look_at_groups(struct verify *verify, uint64_t *bytes_read, struct error *error)
{
    while (verify->at < verify->here.end && *bytes_read < STEP_BYTES) {
        struct group group;
        const char *bytes;
        const char *fault;
        enum err err = view_group(&verify->view, &verify->here.header, verify->at, verify->here.end,
                                  &group, &bytes, &fault, error);
        if (!err && fault)
            err = damage(verify, verify->at, fault, error);
        if (err)
            return err;
        verify->at += group_size(&group);
        *bytes_read += group_size(&group);
    }
    return ERR_OK;
}

/* ---- all of them ---- */

/* The next sealed segment; false if there is none. */
static bool find_segment(struct verify *verify)
{
    struct segments_place place =
        segments_find(verify->segments, (struct log_position){.segment = verify->next});
    if (place.first.number > verify->next)
        place =
            segments_find(verify->segments, (struct log_position){.segment = place.first.number});
    if (place.here.header.number == 0 || !place.here.sealed)
        return false;
    verify->here = place.here;
    return true;
}

enum err verify_some(struct verify *verify, struct verify_step *ret_step, struct error *error)
{
    *ret_step = (struct verify_step){0};
    enum err err = ERR_OK;
    if (verify->here.header.number == 0) {
        if (!find_segment(verify)) {
            verify->next = 1;
            ret_step->is_all = true;
            return ERR_OK;
        }
        ret_step->bytes = SEGMENT_HEADER_BYTES;
        err = open_segment(verify, error);
    }
    if (!err)
        err = look_at_groups(verify, &ret_step->bytes, error);

    if (err && !is_still_there(verify)) /* it was trimmed meanwhile */
        err = ERR_OK;
    else
        ret_step->is_damaged = err == ERR_CORRUPT || err == ERR_IO;
    if (err || verify->at >= verify->here.end || !is_still_there(verify))
        close_segment(verify);
    return ret_step->is_damaged ? ERR_OK : err;
}
