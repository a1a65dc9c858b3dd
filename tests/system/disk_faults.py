"""disk_faults.py - a disk that fails, lies in wait or is slow, made by strace.

An error of write or sync ends the process: nobody knows what such a disk has kept. Whatever call
fails, nothing that was answered is lost, and the next start is fine. strace counts calls for each
thread, so that a fault "when=N" meets the thread that comes to its Nth call first."""

import os
import signal
import threading
import time

import tallyd

# Under ptrace the leak checker of a sanitized build cannot work.
ENV = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}


def strace(inject):
    call = inject.split(":")[0]
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
            f"inject={inject}"]


def count(client, until=1000):
    """Counts one by one until the server is gone; returns the last answer."""
    last = 0
    try:
        while last < until:
            reply = client.pipeline([("INCR", "views")])[0]
            if isinstance(reply, tallyd.ReplyError):
                return last
            assert reply == last + 1
            last = reply
    except ConnectionError:
        pass
    return last


class DiskFaults(tallyd.Case):
    def setUp(self):
        self.need_command("strace")

    def server(self, *flags, **options):
        """Without a store, whose calls would be counted as well: pipeline.py has its faults."""
        return super().server("--store", "none", *flags, **options)

    def check_sound(self, server, answered):
        """Starts on a disk that is well again and compares."""
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        server.under = []
        server.start()
        with server.connect() as client:
            value = int(client.call("GET", "views") or 0)
            self.assertIn(value, (answered, answered + 1), "one write may be open")
            self.assertEqual(client.call("INCR", "views"), value + 1)
        self.assertEqual(server.stop(), 0)

    def check_fail_stop(self, inject, *flags):
        """With the fault, the server does not come up or ends, and says why; then it is well."""
        with self.subTest(inject=inject):
            server = self.server(*flags, start=False, env=ENV, under=strace(inject))
            answered = 0
            try:
                server.start()
            except tallyd.StartError:
                pass
            else:
                with server.connect() as client:
                    answered = count(client)
                self.assertNotEqual(server.wait(), 0)
            self.assertRegex(server.messages(), "error .*(Input/output error|cannot)")
            self.check_sound(server, answered)

    def test_an_error_of_sync_ends_the_process(self):
        for when in (1, 2, 3, 6, 20):
            self.check_fail_stop(f"fdatasync:error=EIO:when={when}", "--segment-size", "4MiB")

    def test_an_error_of_sync_while_the_next_segment_is_made_ends_the_process(self):
        for when in (3, 5):
            self.check_fail_stop(f"fdatasync:error=EIO:when={when}", "--segment-size", "64KiB")

    def test_an_error_of_write_ends_the_process(self):
        for when in (1, 5, 30, 200):
            self.check_fail_stop(f"pwrite64:error=EIO:when={when}", "--segment-size", "4MiB")

    def test_an_error_of_rename_or_of_a_folders_sync_ends_the_process(self):
        self.check_fail_stop("rename,renameat,renameat2:error=EIO:when=1")
        self.check_fail_stop("fsync:error=EIO:when=2")

    def test_a_kill_at_a_sync_loses_nothing(self):
        for when in (3, 7, 12, 40):
            with self.subTest(when=when):
                server = self.server("--segment-size", "4MiB", start=False, env=ENV,
                                     under=strace(f"fdatasync:signal=KILL:when={when}"))
                answered = 0
                try:
                    server.start()
                    with server.connect() as client:
                        answered = count(client)
                    self.assertNotEqual(server.wait(), 0)
                except tallyd.StartError:
                    pass
                self.check_sound(server, answered)

    def test_a_disk_that_is_full_for_a_while_is_waited_for(self):
        server = self.server("--segment-size", "64KiB", env=ENV,
                             under=strace("pwrite64:error=ENOSPC:when=10..12"))
        answered = 0
        deadline = time.monotonic() + 20
        with server.connect() as client:
            while answered < 100 and time.monotonic() < deadline:
                reply = client.pipeline([("INCR", "views")])[0]
                if isinstance(reply, tallyd.ReplyError):
                    self.assertEqual(reply.word, "MISCONF")
                    time.sleep(0.1)
                else:
                    answered += 1
                    self.assertEqual(reply, answered)
        self.assertEqual(answered, 100)
        self.assertEqual(server.stop(), 0)
        self.check_sound(server, answered)

    def test_interrupted_calls_are_made_again(self):
        for call in ("fdatasync", "pwrite64"):
            with self.subTest(call=call):
                server = self.server(env=ENV, under=strace(f"{call}:error=EINTR:when=2..9+3"))
                with server.connect() as client:
                    self.assertEqual(count(client, until=50), 50)
                self.assertEqual(server.stop(), 0)
                self.check_sound(server, 50)

    def test_short_writes_are_completed(self):
        library = os.environ.get("SHORT_WRITE")
        self.need(library, "SHORT_WRITE does not name the library that makes short writes")
        server = self.server("--segment-size", "64KiB", env={**ENV, "LD_PRELOAD": library})
        with server.connect() as client:
            replies = client.pipeline([("INCR", "views")] * 5000)
            self.assertEqual(replies, list(range(1, 5001)))
            self.assertEqual(count_from(client, 5000, 500), 5500)
        server.kill()
        server.env = {}
        self.check_sound(server, 5500)

    def test_reads_do_not_wait_for_a_slow_disk(self):
        server = self.server("--workers", "1", env=ENV,
                             under=strace("fdatasync:delay_enter=300000:when=10+"))
        writer = self.client(server)
        reader = self.client(server)
        for _ in range(9):
            writer.call("INCR", "warm")
        writes = []
        thread = threading.Thread(target=lambda: writes.extend(time_calls(writer, "INCR", 6)))
        thread.start()
        reads = []
        while thread.is_alive():
            reads += time_calls(reader, "GET", 1)
            time.sleep(0.01)
        thread.join()

        self.assertGreater(sorted(writes)[len(writes) // 2], 0.25, "the disk is slow")
        self.assertGreater(len(reads), 20)
        self.assertLess(sorted(reads)[len(reads) // 2], 0.1, "and reads do not mind")
        self.assertEqual(server.stop(), 0)

    def test_writes_that_a_slow_disk_cannot_take_are_refused_and_not_counted(self):
        server = self.server("--workers", "1", "--log-pending-max", "2MiB", env=ENV,
                             under=strace("fdatasync:delay_enter=1000000:when=10+"))
        client = self.client(server)
        for _ in range(9):
            client.call("INCR", "warm")
        likes = [("LIKE", "video1", f"{user:0120d}") for user in range(40000)]
        replies = client.pipeline(likes)
        refused = [reply for reply in replies if isinstance(reply, tallyd.ReplyError)]
        self.assertGreater(len(refused), 0)
        self.assertEqual({reply.word for reply in refused}, {"BUSY"})
        counted = replies.count(1)
        self.assertEqual(counted + len(refused), len(likes))
        self.assertEqual(client.call("GET", "video1/like"), str(counted))
        server.kill()
        server.under = []
        server.start()
        self.assertEqual(self.client(server).call("GET", "video1/like"), str(counted))

    def test_a_disk_that_hangs_does_not_keep_it_from_stopping(self):
        server = self.server("--workers", "1", env=ENV,
                             under=strace("fdatasync:delay_enter=12000000:when=10+"))
        client = self.client(server)
        for _ in range(9):
            client.call("INCR", "views")
        client.send(("INCR", "views"))
        time.sleep(0.2)
        server.signal(signal.SIGTERM)
        server.wait_message("did not stop in time: leaving at once", tallyd.STOP_WITHIN_S + 1)
        self.assertEqual(server.wait(), 1)  # strace keeps it until the delay is over
        self.check_sound(server, 9)


def count_from(client, value, times):
    for _ in range(times):
        value += 1
        assert client.call("INCR", "views") == value
    return value


def time_calls(client, command, times):
    """How long each of the calls takes, in seconds."""
    result = []
    for _ in range(times):
        begin = time.monotonic()
        client.call(command, "slow" if command == "INCR" else "warm")
        result.append(time.monotonic() - begin)
    return result


if __name__ == "__main__":
    tallyd.main()
