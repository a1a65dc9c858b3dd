/* threads */
#include "server/signals.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "unit/test.h"

/* Exit codes of the children beside those of the module, which are 0 and 1. */
enum { STOPPED = 10, RELOADED_AND_STOPPED, NOTHING_CAME };

typedef int child_fn(void);

/* The child says here that it has been asked for something. */
static int report_ends[2];

static void report(void)
{
    (void)!write(report_ends[1], "x", 1);
}

static void wait_for_report(void)
{
    char byte;
    assert_int_equal(read(report_ends[0], &byte, 1), 1);
}

/* Runs `child` in a process of its own, and waits until it says that it is
 * there by closing a pipe. */
static pid_t start(child_fn *child, bool ready)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(report_ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        message_set_level(MESSAGE_ERROR + 1);
        close(ends[0]);
        if (signals_start(NULL))
            _exit(99);
        if (ready)
            signals_ready();
        close(ends[1]);
        _exit(child());
    }
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    return pid;
}

static int exit_code_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(report_ends[0]);
    close(report_ends[1]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int never_ends(void)
{
    while (pause() != 0)
        continue;
    return NOTHING_CAME;
}

static int waits_for_stop(void)
{
    return signals_wait(0) == SIGNALS_STOP ? STOPPED : NOTHING_CAME;
}

static int waits_for_reload_and_stop(void)
{
    if (signals_wait(0) != SIGNALS_RELOAD)
        return NOTHING_CAME;
    report();
    return signals_wait(0) == SIGNALS_STOP ? RELOADED_AND_STOPPED : NOTHING_CAME;
}

static int stops_slowly(void)
{
    (void)signals_wait(0);
    usleep(1000000);
    return STOPPED;
}

static int never_stops(void)
{
    (void)signals_wait(0);
    report();
    return never_ends();
}

static int waits_a_little(void)
{
    return signals_wait(20) == SIGNALS_NONE ? NOTHING_CAME : STOPPED;
}

TEST(a_stop_while_starting_ends_the_process_at_once)
{
    pid_t pid = start(never_ends, false);
    kill(pid, SIGTERM);
    assert_int_equal(exit_code_of(pid), 0);
}

TEST(term_and_int_ask_the_main_thread_to_stop)
{
    pid_t pid = start(waits_for_stop, true);
    kill(pid, SIGTERM);
    assert_int_equal(exit_code_of(pid), STOPPED);
    pid = start(waits_for_stop, true);
    kill(pid, SIGINT);
    assert_int_equal(exit_code_of(pid), STOPPED);
}

TEST(hup_asks_for_a_reload)
{
    pid_t pid = start(waits_for_reload_and_stop, true);
    kill(pid, SIGHUP);
    wait_for_report();
    kill(pid, SIGTERM);
    assert_int_equal(exit_code_of(pid), RELOADED_AND_STOPPED);
}

TEST(a_second_stop_does_not_wait)
{
    pid_t pid = start(never_stops, true);
    time_t begin = time(NULL);
    kill(pid, SIGTERM);
    wait_for_report();
    siginfo_t ended = {0};
    while (ended.si_pid == 0) { /* those that come soon after the first are the same wish */
        kill(pid, SIGTERM);
        usleep(1000);
        assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    assert_true(time(NULL) - begin < SIGNALS_STOP_WITHIN_S);
    assert_int_equal(exit_code_of(pid), 1);
}

TEST(the_same_wish_sent_twice_is_one_wish)
{
    pid_t pid = start(stops_slowly, true);
    int status;
    kill(pid, SIGSTOP); /* so that no time passes between the two */
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    kill(pid, SIGCONT);
    assert_int_equal(exit_code_of(pid), STOPPED);
}

TEST(a_closed_pipe_is_no_reason_to_die)
{
    pid_t pid = start(waits_for_stop, true);
    kill(pid, SIGPIPE);
    kill(pid, SIGTERM);
    assert_int_equal(exit_code_of(pid), STOPPED);
}

TEST(waiting_ends_after_its_time)
{
    assert_int_equal(exit_code_of(start(waits_a_little, true)), NOTHING_CAME);
}

RUN(cmocka_unit_test(a_stop_while_starting_ends_the_process_at_once),
    cmocka_unit_test(term_and_int_ask_the_main_thread_to_stop),
    cmocka_unit_test(hup_asks_for_a_reload), cmocka_unit_test(a_second_stop_does_not_wait),
    cmocka_unit_test(the_same_wish_sent_twice_is_one_wish),
    cmocka_unit_test(a_closed_pipe_is_no_reason_to_die),
    cmocka_unit_test(waiting_ends_after_its_time))
