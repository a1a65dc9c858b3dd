#include "server/process.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/message.h"
#include "unit/test.h"

#define NOBODY 65534

TEST(every_part_adds_the_files_that_it_needs)
{
    struct process_parts parts = {.workers = 1};
    uint64_t files = process_own_files(&parts);
    struct process_parts one_node = {
        .workers = 2, .listeners = 2, .has_file_log = true, .has_sqlite = true};
    assert_in_range(process_own_files(&one_node), 50, 100);

    uint64_t workers = process_own_files(&(struct process_parts){.workers = 2});
    assert_true(workers > files);
    parts.listeners = 2;
    assert_true(process_own_files(&parts) > files);

    bool *const flags[] = {&parts.has_file_log, &parts.has_sqlite,  &parts.has_postgres,
                           &parts.has_redis,    &parts.has_streams, &parts.has_kafka};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        files = process_own_files(&parts);
        *flags[i] = true;
        assert_true(process_own_files(&parts) >= files + 12);
    }
}

/* In a process of its own, since a limit that is lowered cannot be raised again: the room that is
 * found at that limit, or 0 where the reservation fails. */
static int room_at(rlim_t soft, rlim_t hard, uint64_t own, uint64_t connections)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        message_set_level(MESSAGE_ERROR + 1);
        uint64_t room = 0;
        struct error error;
        if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard}) != 0)
            _exit(255);
        if (geteuid() == 0 && setuid(NOBODY) != 0) /* root may raise any limit */
            _exit(253);
        if (process_reserve_files(own, connections, &room, &error))
            _exit(0);
        struct rlimit limit;
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        _exit(limit.rlim_cur >= own + room ? (int)room : 254);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(own_files_come_first_and_clients_get_the_rest)
{
    assert_int_equal(room_at(300, 300, 100, 150), 150); /* there is room for all */
    assert_int_equal(room_at(120, 300, 100, 150), 150); /* the limit is raised */
    assert_int_equal(room_at(120, 220, 100, 150), 120);
    assert_int_equal(room_at(220, 220, 100, 150), 120);
    assert_int_equal(room_at(101, 101, 100, 150), 1);
    assert_int_equal(room_at(100, 100, 100, 150), 0); /* refused */
    assert_int_equal(room_at(60, 60, 100, 150), 0);
}

RUN(cmocka_unit_test(every_part_adds_the_files_that_it_needs),
    cmocka_unit_test(own_files_come_first_and_clients_get_the_rest))
