/* The erasure of a user, with the whole pipeline: src/flow/erase.c. */
/* threads */
#include <dirent.h>

#include "base/buffer.h"
#include "unit/flow/pipe_rig.h"

static const char name[] = "elisabeth-the-unforgotten";

/* Is the name in a file of the folder? */
static bool file_has_name(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false; /* a folder, or gone in this moment */
    struct buffer bytes;
    buffer_init(&bytes, (size_t)1 << 30);
    char piece[65536];
    size_t size;
    while ((size = fread(piece, 1, sizeof(piece), file)) > 0)
        assert_int_equal(buffer_append(&bytes, piece, size), ERR_OK);
    fclose(file);
    bool has = bytes.size > 0 && memmem(bytes.data, bytes.size, name, sizeof(name) - 1);
    buffer_done(&bytes);
    return has;
}

static bool folder_has_name(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    bool has = false;
    for (struct dirent *entry; !has && (entry = readdir(dir));) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        has = entry->d_name[0] != '.' && file_has_name(path);
    }
    closedir(dir);
    return has;
}

static bool is_anywhere(const struct pipe *pipe)
{
    char log[128];
    snprintf(log, sizeof(log), "%s/log", pipe->folder);
    return folder_has_name(pipe->folder) || folder_has_name(log);
}

static void fill(struct pipe *pipe)
{
    for (unsigned i = 0; i < 60; i++) {
        char item[16];
        snprintf(item, sizeof(item), "video%u", i);
        pipe_react(pipe, item, name, 1);
        pipe_react(pipe, item, "bob", 1);
    }
    pipe_react(pipe, "video7", name, KIND_NONE);
}

static struct desk_task erase(struct pipe *pipe)
{
    return pipe_task(pipe, pipe_start_erase(pipe, slice_of(name)));
}

TEST(no_file_holds_the_name_any_more_and_counts_are_right)
{
    struct pipe *pipe = pipe_new();
    fill(pipe);
    pipe_reopen(pipe); /* some of it is cold, some new */
    pipe_react(pipe, "new", name, 2);
    pipe_settle(pipe);
    assert_true(is_anywhere(pipe));

    struct desk_task task = erase(pipe);
    assert_int_equal(task.state, DESK_DONE);
    assert_true(task.all > 0);
    assert_int_equal(task.done, task.all);
    assert_null(strstr(task.text, name));
    assert_false(is_anywhere(pipe));
    assert_int_equal(pipe_value(pipe, "video1/like"), 1);
    assert_int_equal(pipe_value(pipe, "new/dislike"), 0);
    struct desk_task audit = pipe_task(pipe, pipe_start_audit(pipe, SLICE("*"), true));
    assert_int_equal(audit.state, DESK_DONE);
    assert_int_equal(audit.found, 0);

    pipe_reopen(pipe);
    assert_false(is_anywhere(pipe));
    assert_int_equal(pipe_value(pipe, "video59/like"), 1);
    pipe_free(pipe);
}

TEST(it_can_be_done_twice_and_for_somebody_who_was_never_here)
{
    struct pipe *pipe = pipe_new();
    assert_int_equal(erase(pipe).state, DESK_DONE);
    fill(pipe);
    assert_int_equal(erase(pipe).state, DESK_DONE);
    assert_int_equal(erase(pipe).state, DESK_DONE);
    assert_false(is_anywhere(pipe));
    pipe_react(pipe, "video1", name, 1); /* who comes again is somebody new */
    assert_int_equal(pipe_value(pipe, "video1/like"), 2);
    pipe_settle(pipe);
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "video1/like"), 2);
    pipe_free(pipe);
}

struct returner {
    struct pipe *pipe;
    atomic_bool stop;
};

static void *come_and_go(void *arg)
{
    struct returner *returner = arg;
    for (unsigned i = 0; !atomic_load(&returner->stop); i++) {
        pipe_react(returner->pipe, "video2", name, (uint8_t)(i % 2));
        if (i % 4 == 0)
            pipe_nap();
    }
    return NULL;
}

/* Whatever happens meanwhile is in memory, in the store and in the log, or in none of them. */
TEST(who_comes_back_meanwhile_is_one_user_in_all_places)
{
    struct pipe *pipe = pipe_new();
    pipe_react(pipe, "video2", "bob", 1);
    for (unsigned turn = 0; turn < 12; turn++) {
        pipe_react(pipe, "video1", name, 1);
        struct returner returner = {.pipe = pipe};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, come_and_go, &returner), 0);
        struct desk_task task = erase(pipe);
        assert_true(task.state == DESK_DONE || strstr(task.text, "goes on reacting"));
        atomic_store(&returner.stop, true);
        pthread_join(thread, NULL);
        pipe_settle(pipe);
        struct desk_task audit = pipe_task(pipe, pipe_start_audit(pipe, SLICE("*"), false));
        assert_int_equal(audit.found, 0);
        int64_t likes = pipe_value(pipe, "video2/like");
        pipe_reopen(pipe);
        assert_int_equal(pipe_value(pipe, "video2/like"), likes);
    }
    pipe_free(pipe);
}

RUN(cmocka_unit_test(no_file_holds_the_name_any_more_and_counts_are_right),
    cmocka_unit_test(who_comes_back_meanwhile_is_one_user_in_all_places),
    cmocka_unit_test(it_can_be_done_twice_and_for_somebody_who_was_never_here))
