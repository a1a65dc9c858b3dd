"""log_descriptors.py - no descriptor is left when the log needs its next segment.

Writes are refused as on a full disk, reads go on, and it heals by itself."""

import resource

import disk_full
import tallyd
import web

FLAGS = ["--segment-size", "256KiB", "--workers", "1"]


class LogDescriptors(tallyd.Case):
    wait_healed = disk_full.DiskFull.wait_healed
    check_reads = disk_full.DiskFull.check_reads

    def count_until_refused(self, client):
        """Fills segments with long names; returns the error, and how often it counted."""
        views = 0
        for i in range(100_000):
            fill = [("INCR", f"{i}.{j}." + "x" * 200) for j in range(50)]
            replies = client.pipeline([("INCR", "views"), *fill])
            if isinstance(replies[0], tallyd.ReplyError):
                return replies[0], views
            views = replies[0]
        return self.fail("the log never wanted a descriptor")

    def leave_no_descriptor(self, server):
        """None, and none of those that are closed either: others are quicker."""
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (3, hard))

    def refuse_and_heal(self, *flags):
        server = self.server(*FLAGS, *flags)
        client = self.client(server)
        self.assertEqual(client.call("LIKE", "video1", "ann"), 1)
        http = web.Web(server.http_port)
        self.addCleanup(http.close)
        self.assertEqual(http.get("/livez").status, 200)
        self.leave_no_descriptor(server)

        error, views = self.count_until_refused(client)
        self.assertEqual(error.word, "MISCONF")
        for what in ("Too many open files", "ulimit -n", "LimitNOFILE="):
            self.assertIn(what, str(error))
        self.assertNotIn("No space left", str(error))
        server.wait_message("no space for the log.*Too many open files")
        answer = http.post("/v1/counters/views/add")
        self.assertEqual((answer.status, answer.problem), (507, "too-many-files"), answer.body)
        self.check_reads(client, views)
        with self.refused("MISCONF"):
            client.call("LIKE", "video1", "bob")

        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
        self.wait_healed(client)
        self.assertIn("there is space for the log again", server.messages())
        self.assertEqual(client.call("INCR", "views"), views + 1)
        server.kill()
        server.start()
        self.check_reads(self.client(server), views + 1)

    def test_with_the_store_behind_it(self):
        self.refuse_and_heal()

    def test_with_the_log_alone(self):
        self.refuse_and_heal("--store", "none")


if __name__ == "__main__":
    tallyd.main()
