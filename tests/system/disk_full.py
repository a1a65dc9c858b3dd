"""disk_full.py - a disk without space: writes are refused, reads go on, and it heals by itself.

The data folder is on a tmpfs of a few MiB, which takes root to mount."""

import os
import subprocess
import time

import tallyd

DISK_BYTES = 8 << 20
FLAGS = ["--segment-size", "256KiB", "--workers", "1"]
HEALS_WITHIN_S = 10


class DiskFull(tallyd.Case):
    def setUp(self):
        self.need(os.geteuid() == 0, "mounting a small tmpfs needs root")
        self.disk = self.folder()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs",
                                  self.disk], capture_output=True, text=True, check=False)
        self.need(mounted.returncode == 0, f"no tmpfs can be mounted: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.disk], check=False)
        self.ballast = os.path.join(self.disk, "ballast")
        self.data = os.path.join(self.disk, "data")

    def leave(self, free_bytes):
        """Fills the disk up to so many bytes."""
        status = os.statvfs(self.disk)
        surplus = status.f_bavail * status.f_bsize - free_bytes
        if surplus > 0:
            with open(self.ballast, "ab") as file:
                os.posix_fallocate(file.fileno(), file.tell(), surplus)

    def count_until_refused(self, client):
        """Counts in a pipeline until an answer is an error; returns it, and the last count."""
        deadline = time.monotonic() + 30
        last = int(client.call("GET", "views") or 0)
        while time.monotonic() < deadline:
            replies = client.pipeline([("INCR", "views")] * 50)
            for i, reply in enumerate(replies):
                if isinstance(reply, tallyd.ReplyError):
                    self.assertTrue(all(isinstance(r, tallyd.ReplyError) for r in replies[i:]))
                    return reply, last
                self.assertEqual(reply, last + 1)
                last = reply
        return self.fail("the disk never became full")

    def wait_healed(self, client):
        def writes():
            reply = client.pipeline([("INCR", "healed")])[0]
            return not isinstance(reply, tallyd.ReplyError)
        tallyd.wait_until(writes, HEALS_WITHIN_S, "writes are taken again")

    def check_reads(self, client, views):
        self.assertEqual(client.call("PING"), "PONG")
        self.assertEqual(int(client.call("GET", "views")), views)
        self.assertEqual(client.call("REACTION", "video1", "ann"), "like")
        self.assertEqual(client.call("EXISTS", "views"), 1)

    def test_writes_are_refused_reads_go_on_and_it_heals_by_itself(self):
        server = self.server(*FLAGS, data=self.data)
        client = self.client(server)
        self.assertEqual(client.call("LIKE", "video1", "ann"), 1)
        self.leave(600 << 10)

        error, views = self.count_until_refused(client)
        self.assertEqual(error.word, "MISCONF")
        self.assertIn("No space left on device", str(error))
        server.wait_message("warning +no space for the log")
        self.check_reads(client, views)
        with self.refused("MISCONF"):
            client.call("LIKE", "video1", "bob")
        with self.refused("MISCONF"):
            client.call("COUNTER.ADD", "views", "1", "ID", "once")
        self.assertEqual(client.call("COUNTS", "video1")[:2], ["like", 1])

        os.remove(self.ballast)
        self.wait_healed(client)
        self.assertIn("there is space for the log again", server.messages())
        self.check_reads(client, views)
        self.assertEqual(client.call("INCR", "views"), views + 1)
        self.assertEqual(client.call("COUNTER.ADD", "views", "1", "ID", "once"), views + 2)
        self.assertEqual(server.stop(), 0)
        server.start()
        self.check_reads(self.client(server), views + 2)

    def test_a_kill_while_full_loses_nothing_and_it_starts_on_the_full_disk(self):
        server = self.server(*FLAGS, data=self.data)
        client = self.client(server)
        client.call("LIKE", "video1", "ann")
        self.leave(600 << 10)
        _, views = self.count_until_refused(client)
        self.leave(0)
        server.kill()

        server.start()
        client = self.client(server)
        self.check_reads(client, views)
        with self.refused("MISCONF"):
            client.call("INCR", "views")

        os.remove(self.ballast)
        self.wait_healed(client)
        self.assertEqual(client.call("INCR", "views"), views + 1)
        server.kill()
        server.start()
        self.check_reads(self.client(server), views + 1)

    def test_it_starts_on_a_disk_that_others_have_filled(self):
        server = self.server(*FLAGS, data=self.data)
        with server.connect() as client:
            client.call("LIKE", "video1", "ann")
            self.assertEqual(client.call("INCR", "views"), 1)
        next_segment = os.path.join(self.data, "log", "next")
        tallyd.wait_until(lambda: os.path.exists(next_segment), 5, "a segment is made beforehand")
        self.leave(0)
        server.kill()

        server.start()
        client = self.client(server)
        self.check_reads(client, 1)
        os.remove(self.ballast)
        self.wait_healed(client)
        self.assertEqual(client.call("INCR", "views"), 2)
        server.kill()
        server.start()
        self.check_reads(self.client(server), 2)

    def test_it_stops_in_order_while_full(self):
        server = self.server(*FLAGS, data=self.data)
        client = self.client(server)
        client.call("LIKE", "video1", "ann")
        self.leave(600 << 10)
        _, views = self.count_until_refused(client)
        self.assertEqual(server.stop(), 0)
        server.start()
        self.check_reads(self.client(server), views)


if __name__ == "__main__":
    tallyd.main()
