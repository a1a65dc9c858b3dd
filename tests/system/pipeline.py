"""pipeline.py - from a like to a row of the database, and what happens to that way when the server
is killed, the store refuses, is locked, read-only, full, damaged or gone.

Another process looks into the database with Python's sqlite3, as the sqlite3 shell would."""

import contextlib
import datetime
import os
import random
import re
import shutil
import sqlite3
import subprocess
import threading
import time

import tallyd
import web

FLUSH_WITHIN_S = 10
FAST = ("--flush-interval", "50ms")


class PipelineCase(tallyd.Case):
    def path(self, server):
        return os.path.join(server.data, "tally.db")

    def open(self, server):
        base = sqlite3.connect(self.path(server), timeout=10, isolation_level=None)
        self.addCleanup(base.close)
        return base

    def ask(self, server, query, *args):
        """All rows, as of now."""
        base = sqlite3.connect(self.path(server), timeout=10)
        try:
            return base.execute(query, args).fetchall()
        finally:
            base.close()

    def one(self, server, query, *args):
        rows = self.ask(server, query, *args)
        return rows[0][0] if rows else None

    def value(self, server, counter):
        return self.one(server, "SELECT value FROM counters WHERE id = ?", counter)

    def wait_value(self, server, counter, value, timeout_s=FLUSH_WITHIN_S):
        tallyd.wait_until(lambda: self.value(server, counter) == value, timeout_s,
                          f"{counter} is {value} in the store")

    def states(self, server):
        return dict(self.ask(server, "SELECT status, count(*) FROM lives GROUP BY status"))

    def task(self, client, *command, timeout_s=30):
        """Starts a task and waits for its end."""
        number = client.call(*command)
        return tallyd.wait_until(lambda: self.ended(client, number), timeout_s, f"{command} ends")

    @staticmethod
    def ended(client, number):
        task = tallyd.pairs(client.call("TASK", number))
        return task if task["state"] != "running" else None

    def assert_proved(self, client, pattern="*"):
        """Hot, members, store and log agree."""
        task = self.task(client, "AUDIT", pattern, "REPAIR", "no")
        self.assertEqual((task["state"], task["drifts"]), ("done", 0), task)


class Rows(PipelineCase):
    def test_a_like_becomes_a_row_a_count_and_a_life_that_succeeds(self):
        server = self.server(*FAST)
        client = self.client(server)
        client.call("LIKE", "video1", "ann")
        client.call("LIKE", "video1", "17")
        client.call("DISLIKE", "video1", "ann")
        client.call("INCRBY", "views", 10 ** 30)
        self.wait_value(server, "video1/dislike", 1)
        self.wait_value(server, "views", str(10 ** 30))
        self.assertEqual(self.value(server, "video1/like"), 1)
        self.assertEqual(
            self.ask(server, "SELECT item, user, kind FROM reactions ORDER BY row"),
            [("video1", "ann", "like"), ("video1", "17", "like"), ("video1", "ann", "dislike")])
        self.assertEqual(
            sorted(self.ask(server, "SELECT user, item, kind FROM who_likes_what")),
            [("17", "video1", "like"), ("ann", "video1", "dislike")])
        self.assertEqual(set(self.states(server)), {"SUCCESS"})
        self.assert_proved(client)

    def test_many_events_do_not_wait_for_the_interval(self):
        server = self.server("--flush-interval", "1h", "--flush-events", "100")
        client = self.client(server)
        client.pipeline([("INCR", "views")] * 99)
        time.sleep(0.3)
        self.assertIsNone(self.value(server, "views"))
        client.call("INCR", "views")
        self.wait_value(server, "views", 100)

    def test_who_likes_what_is_what_is_held_now(self):
        server = self.server(*FAST)
        client = self.client(server)

        def held():
            return sorted(self.ask(server, "SELECT user, item, kind FROM who_likes_what"))
        client.pipeline([("LIKE", "video1", "ann"), ("LIKE", "video1", "7"), ("LIKE", "video2", "ann")])
        tallyd.wait_until(lambda: len(held()) == 3, 10, "three like something")
        client.call("DEL", "video1")
        tallyd.wait_until(lambda: held() == [("ann", "video2", "like")], 10,
                          "nobody likes what was deleted")
        client.call("DISLIKE", "video1", "7")
        tallyd.wait_until(lambda: len(held()) == 2, 10, "somebody does again")
        self.assertEqual(held(), [("7", "video1", "dislike"), ("ann", "video2", "like")])
        self.assertEqual(client.call("MEMBERS", "video1", "like")[1], [])

    def test_deletion_and_expiry_reach_the_store(self):
        server = self.server(*FAST)
        client = self.client(server)
        client.call("INCR", "gone")
        client.call("LIKE", "video1", "ann")
        client.call("INCR", "short")
        client.call("PEXPIRE", "short", "300")
        self.wait_value(server, "gone", 1)
        client.call("DEL", "gone", "video1")
        tallyd.wait_until(lambda: not self.ask(server, "SELECT id FROM counters"), 10,
                          "nothing is left")
        client.call("LIKE", "video1", "bob")
        self.wait_value(server, "video1/like", 1)
        self.assert_proved(client)

    def test_rows_of_finished_events_are_thinned(self):
        server = self.server(*FAST, "--keep-events", "1s", "--keep-history", "1s")
        client = self.client(server)
        for i in range(20):
            client.call("LIKE", f"video{i}", "ann")
        self.wait_value(server, "video19/like", 1)
        tallyd.wait_until(  # the newest row is kept: row numbers never go back
            lambda: self.one(server, "SELECT count(*) FROM lives") == 1 and
            self.one(server, "SELECT count(*) FROM reactions") == 1, 30, "old rows are removed")
        self.assertEqual(client.call("LIKE", "video1", "ann"), 0)
        self.assert_proved(client)

    def test_without_a_store_there_is_none(self):
        server = self.server("--store", "none")
        self.client(server).call("INCR", "views")
        self.assertFalse(os.path.exists(self.path(server)))


class Restarts(PipelineCase):
    def recovered(self, server):
        return int(server.wait_message(r"recovered events=(\d+)").group(1))

    def test_a_clean_stop_leaves_nothing_to_replay(self):
        server = self.server("--flush-interval", "1h", "--flush-events", "1000000")
        client = self.client(server)
        client.pipeline([("LIKE", "video1", f"user{i}") for i in range(1000)])
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(self.recovered(server), 0)
        client = self.client(server)
        self.assertEqual(client.call("COUNTS", "video1"), ["like", 1000, "dislike", 0])
        self.assertEqual(client.call("LIKE", "video1", "user7"), 0)
        self.assertEqual(client.call("LIKE", "video1", "someone new"), 1)
        self.assertEqual(client.call("REACTION", "video1", "user999"), "like")
        self.assert_proved(client)

    def test_only_what_is_behind_the_mark_is_replayed(self):
        server = self.server("--flush-interval", "1h", "--flush-events", "100")
        client = self.client(server)
        client.pipeline([("INCR", "views")] * 100)
        self.wait_value(server, "views", 100)
        client.pipeline([("INCR", "views")] * 7)
        server.kill()
        server.start()
        self.assertEqual(self.recovered(server), 7)
        self.assertEqual(self.client(server).call("GET", "views"), "107")

    def test_keys_are_known_after_a_restart_that_replays_nothing(self):
        server = self.server(*FAST)
        client = self.client(server)
        self.assertEqual(client.call("COUNTER.ADD", "c", "5", "ID", "k"), 5)
        client.call("COUNTER.ADD", "c", "1")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(self.recovered(server), 0)
        client = self.client(server)
        self.assertEqual(client.call("COUNTER.ADD", "c", "5", "ID", "k"), 5)
        self.assertEqual(client.call("GET", "c"), "6")

    def test_a_trimmed_log_is_counted_from_its_base(self):
        server = self.server("--flush-interval", "20ms", "--segment-size", "64KiB",
                             "--log-keep-bytes", "1MiB", "--audit-every", "100ms")
        client = self.client(server)
        client.call("INCR", "deleted")
        client.call("DEL", "deleted")
        sent = 0
        deadline = time.monotonic() + 120
        while not re.search(r"the oldest part of the log was removed segment=([5-9]|\d\d)",
                            server.messages()):
            self.assertLess(time.monotonic(), deadline)
            client.pipeline([("INCR", f"views{i % 7}") for i in range(700)] +
                            [("LIKE", f"video{i % 3}", f"user{sent + i}") for i in range(300)] +
                            [("INCR", "deleted"), ("DEL", "deleted"), ("INCR", "deleted")])
            sent += 100
            time.sleep(0.02)  # the store comes along, also where others want the core
        server.kill()
        server.start()
        client = self.client(server)
        for i in range(7):
            counted = tallyd.pairs(client.call("COUNTER.RECOUNT", f"views{i}"))
            self.assertEqual([counted[name] for name in ("value", "recount", "drift")],
                             [sent, sent, 0])
            self.assertGreater(counted["base"], 0)
        self.assert_proved(client)
        self.assertNotRegex(server.messages(), "differs from its events")

        self.assertEqual(server.stop(), 0)
        server.flags += ["--store", "none"]  # what was trimmed is there only
        self.assertEqual(server.start_fails(), 1)
        self.assertRegex(server.messages(), "cannot start: the log begins with segment")

    def test_a_store_that_is_moved_away_is_made_anew_from_the_log(self):
        server = self.server(*FAST)
        client = self.client(server)
        for i in range(50):
            client.call("LIKE", f"video{i % 5}", f"user{i}")
        self.assertEqual(server.stop(), 0)
        for name in os.listdir(server.data):
            if name.startswith("tally.db"):
                os.remove(os.path.join(server.data, name))
        server.start()
        self.assertEqual(self.recovered(server), 50)
        self.wait_value(server, "video0/like", 10)
        self.assert_proved(self.client(server))

    def test_a_store_that_is_ahead_of_the_log_is_not_started_with(self):
        server = self.server(*FAST)
        self.client(server).call("INCR", "views")
        self.wait_value(server, "views", 1)
        self.assertEqual(server.stop(), 0)
        shutil.rmtree(os.path.join(server.data, "log"))
        self.assertEqual(server.start_fails(), 1)
        self.assertRegex(server.messages(), "cannot start: the store is at segment .*move the store")

    def test_killed_at_any_moment_store_and_log_and_memory_agree(self):
        server = self.server("--flush-interval", "20ms", "--flush-events", "50")
        chance = random.Random(7)
        for _ in range(8):
            stop = threading.Event()
            writers = [threading.Thread(target=self.write, args=(server.port, chance.random(), stop))
                       for _ in range(3)]
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.1, 0.8))
            server.kill()
            stop.set()
            for writer in writers:
                writer.join()
            server.start()
            with server.connect() as client:
                self.assert_proved(client)
        with server.connect() as client:
            for counter in ("views", "video1/like", "video2/like"):
                counted = tallyd.pairs(client.call("COUNTER.RECOUNT", counter))
                self.assertEqual(counted["drift"], 0, counted)
                self.wait_value(server, counter, int(client.call("GET", counter)))

    def test_killed_at_each_step_of_a_flush(self):
        """A batch is there as a whole or not at all, whichever of its writes is the last."""
        self.need_command("strace")
        server = self.server(*FAST)
        self.client(server).call("INCR", "views")
        self.assertEqual(server.stop(), 0)
        path = self.path(server)
        sent, kills = 1, 0
        for when in list(range(1, 12)) + [15, 20, 30, 45]:
            with self.subTest(when=when):
                server.under = ["strace", "-f", "-qq", "-o", os.devnull, "-P", path + "-wal",
                                "-P", path, "-e", "trace=pwrite64",
                                "-e", f"inject=pwrite64:signal=KILL:when={when}"]
                try:
                    server.start()
                    with server.connect() as client:
                        for i in range(3000):
                            client.call("INCR", "views")
                            sent += 1
                            client.call("LIKE", f"video{i % 50}", f"user{sent}")
                except (tallyd.StartError, ConnectionError):
                    kills += 1
                server.kill()
                server.under = []
                server.start()
                with server.connect() as client:
                    views = int(client.call("GET", "views"))
                    self.assertIn(views, (sent, sent + 1))
                    sent = views
                    self.assert_proved(client)
                    self.wait_value(server, "views", views)
                self.assertEqual(server.stop(), 0)
        self.assertEqual(kills, 15)

    @staticmethod
    def write(port, seed, stop):
        chance = random.Random(seed)
        try:
            with tallyd.Connection(port) as client:
                while not stop.is_set():
                    client.pipeline([chance.choice([
                        ("INCRBY", "views", chance.randint(-5, 10)),
                        ("LIKE", f"video{chance.randint(1, 2)}", f"user{chance.randint(1, 400)}"),
                        ("UNLIKE", f"video{chance.randint(1, 2)}", f"user{chance.randint(1, 400)}"),
                        ("DEL", "video3"), ("LIKE", "video3", "ann")]) for _ in range(20)])
        except ConnectionError:
            pass


class Refusals(PipelineCase):
    POISON = ("CREATE TRIGGER poison BEFORE INSERT ON entries WHEN new.id = 'bad' "
              "BEGIN SELECT RAISE(ABORT, 'poison'); END")

    def test_a_poisoned_unit_waits_and_the_others_go_through(self):
        server = self.server(*FAST)
        client = self.client(server)
        base = self.open(server)
        base.execute(self.POISON)
        client.pipeline([("INCR", "good"), ("INCR", "bad"), ("LIKE", "fine", "ann")])
        self.wait_value(server, "good", 1)
        self.wait_value(server, "fine/like", 1)
        self.assertEqual(self.states(server), {"SUCCESS": 2, "RETRYING": 1})
        self.assertEqual(client.call("GET", "bad"), "1")
        client.call("INCRBY", "bad", 10)
        tallyd.wait_until(lambda: self.states(server).get("PENDING") == 1, 10, "the next one waits")
        base.execute("DROP TRIGGER poison")
        self.wait_value(server, "bad", 11, 40)
        self.assertEqual(set(self.states(server)), {"SUCCESS"})
        self.assert_proved(client)

    def test_what_waits_counts_after_a_restart(self):
        server = self.server(*FAST)
        client = self.client(server)
        base = self.open(server)
        base.execute(self.POISON)
        client.call("LIKE", "bad", "ann")
        client.call("LIKE", "bad", "bob")
        tallyd.wait_until(lambda: "RETRYING" in self.states(server), 10, "it is refused")
        self.assertEqual(server.stop(), 0)
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("COUNTS", "bad"), ["like", 2, "dislike", 0])
        self.assertEqual(client.call("LIKE", "bad", "ann"), 0)
        base.execute("DROP TRIGGER poison")
        self.wait_value(server, "bad/like", 2, 40)
        self.assert_proved(client)

    def test_after_five_retries_it_is_a_dead_letter_that_can_be_redriven_or_discarded(self):
        server = self.server(*FAST)
        client = self.client(server)
        base = self.open(server)
        base.execute(self.POISON)
        client.call("INCRBY", "bad", 5)
        tallyd.wait_until(lambda: self.states(server).get("FAILED") == 1, 60, "it fails")
        server.wait_message("dead letter now id=.?\"?bad")
        self.assertEqual(self.ask(server, "SELECT id, reason, retry_count FROM dead_letters"),
                         [("bad", "poison", 5)])
        letters = client.call("DLQ", "LIST")[1]
        self.assertEqual(len(letters), 1)
        base.execute("DROP TRIGGER poison")
        event_id = self.one(server, "SELECT event_id FROM letters")
        self.assertEqual(event_id, tallyd.pairs(letters[0])["event_id"])
        self.assertEqual(client.call("DLQ", "REDRIVE", event_id), 1)
        self.wait_value(server, "bad", 5)
        self.assertEqual(client.call("DLQ", "LIST")[1], [])

    def test_what_is_discarded_counts_nowhere(self):
        server = self.server(*FAST)
        client = self.client(server)
        base = self.open(server)
        client.pipeline([("INCRBY", "bad", 5), ("LIKE", "worse", "ann"), ("LIKE", "worse", "bob")])
        self.wait_value(server, "worse/like", 2)
        base.execute("CREATE TRIGGER poison BEFORE UPDATE ON entries "
                     "BEGIN SELECT RAISE(ABORT, 'poison'); END")
        client.pipeline([("INCRBY", "bad", 7), ("LIKE", "worse", "cid")])
        tallyd.wait_until(lambda: self.states(server).get("FAILED") == 2, 60, "they fail")
        self.assertEqual(client.call("GET", "bad"), "12")
        base.execute("DROP TRIGGER poison")
        self.assertEqual(client.call("DLQ", "DISCARD", "ALL"), 2)
        self.assertEqual(client.call("GET", "bad"), "5")
        self.assertEqual(client.call("COUNTS", "worse"), ["like", 2, "dislike", 0])
        counted = tallyd.pairs(client.call("COUNTER.RECOUNT", "bad"))
        self.assertEqual([counted[name] for name in ("value", "recount", "discarded", "drift")],
                         [5, 5, 7, 0])
        self.assert_proved(client)
        self.assertEqual(client.call("LIKE", "worse", "cid"), 1)
        self.assertEqual(client.call("INCR", "bad"), 6)
        self.wait_value(server, "bad", 6)
        self.wait_value(server, "worse/like", 3)
        self.assert_proved(client)


class Outages(PipelineCase):
    def test_locked_by_another_program(self):
        server = self.server(*FAST)
        client = self.client(server)
        client.call("INCR", "views")
        self.wait_value(server, "views", 1)
        base = self.open(server)
        base.execute("BEGIN EXCLUSIVE")
        for _ in range(20):
            client.call("INCR", "views")
            client.call("LIKE", "video1", f"user{_}")
        server.wait_message("the store does not answer.*locked", 30)
        self.assertEqual(client.call("GET", "views"), "21")
        base.execute("COMMIT")
        server.wait_message("the store answers again", 30)
        self.wait_value(server, "views", 21)
        self.assertEqual(set(self.states(server)), {"SUCCESS"})
        self.assert_proved(client)

    def test_while_it_is_locked_the_lag_is_the_number_of_events(self):
        server = self.server("--flush-interval", "50ms")
        with server.connect() as client:
            client.call("INCR", "views")
            self.wait_value(server, "views", 1)
            base = sqlite3.connect(self.path(server), isolation_level=None)
            base.execute("BEGIN EXCLUSIVE")
            try:
                for i in range(200):  # events of very different sizes
                    client.call("INCR", f"{i}-" + "x" * 200)
                for _ in range(3000):
                    client.call("INCR", "v")
                info = client.call("INFO", "pipeline")
                self.assertIn("pipeline_lag_events:3200\r\n", info)
                self.assertIn("pipeline_lag_estimated:0\r\n", info)
                http = web.Web(server.http_port)
                self.addCleanup(http.close)
                self.assertIn(b"\ntally_pipeline_lag_estimated 0\n", http.get("/metrics").body)
                self.assertIs(http.get("/v1/figures").json["lag_is_estimated"], False)
                self.assertIs(http.get("/v1/status").json["pipeline"]["lag_is_estimated"], False)
            finally:
                base.execute("ROLLBACK")
                base.close()
            self.wait_value(server, "v", 3000)
            tallyd.wait_until(lambda: "pipeline_lag_events:0\r\n" in client.call("INFO", "pipeline"),
                              30, "a store that has all")

    def test_a_history_of_a_store_that_is_behind_says_so(self):
        server = self.server("--flush-interval", "50ms")
        client = self.client(server)
        http = web.Web(server.http_port)
        self.addCleanup(http.close)

        def history():
            said = http.get("/v1/items/video1/history").json
            return [entry["user"] for entry in said["history"]], said
        client.call("LIKE", "video1", "ann")
        users, said = history()
        self.assertEqual((users, "stale" in said), (["ann"], False), "it waits for the store")
        base = sqlite3.connect(self.path(server), isolation_level=None)
        base.execute("BEGIN IMMEDIATE")  # readers may go on
        try:
            begin = datetime.datetime.now(datetime.timezone.utc)
            client.call("LIKE", "video1", "bob")
            users, said = history()
            self.assertEqual((users, said.get("stale")), (["ann"], True))
            self.assertLess(datetime.datetime.fromisoformat(said["as_of"].replace("Z", "+00:00")),
                            begin)
            with self.refused("STALE"):
                client.call("HISTORY", "video1")
        finally:
            base.execute("ROLLBACK")
            base.close()
        tallyd.wait_until(lambda: history()[0] == ["bob", "ann"], 30, "a store that has all")
        self.assertEqual(len(client.call("HISTORY", "video1")[1]), 2)

    def small_disk(self):
        mount = self.folder()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mount],
                              capture_output=True, check=False)
        self.need(made.returncode == 0, "tmpfs cannot be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", mount], check=False)
        return mount

    def test_an_older_copy_is_put_in_its_place(self):
        server = self.server(*FAST)
        client = self.client(server)
        client.call("INCR", "views")
        self.assertEqual(server.stop(), 0)
        shutil.copy(self.path(server), self.path(server) + ".old")
        server.start()
        client = self.client(server)
        client.call("INCR", "views")
        self.wait_value(server, "views", 2)
        for name in ("tally.db", "tally.db-wal", "tally.db-shm"):
            os.remove(os.path.join(server.data, name))
        os.rename(self.path(server) + ".old", self.path(server))
        self.assertEqual(client.call("INCR", "views"), 3)
        self.wait_value(server, "views", 3, 40)
        self.assert_proved(client)
        server.kill()
        server.start()
        self.assertEqual(self.client(server).call("INCR", "views"), 4)

    def test_read_only(self):
        """As a kernel makes a file system after an error: the log's is another."""
        self.need_command("strace")
        path = os.path.join(self.folder(), "tally.db")
        server = self.server(*FAST, "--store", "sqlite:" + path)
        self.assertEqual(server.stop(), 0)
        server.under = ["strace", "-f", "-qq", "-o", os.devnull, "-P", path + "-wal", "-P", path,
                        "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EROFS:when=20..22"]
        server.start()
        client = self.client(server)
        for i in range(2000):
            client.call("INCR", f"views{i % 10}")
            if "the store does not answer" in server.messages():
                break
        server.wait_message("the store does not answer.*", 30)
        self.assertEqual(client.call("LIKE", "video1", "ann"), 1)
        server.wait_message("the store answers again", 60)
        self.assert_proved(client)

    def test_no_space(self):
        mount = self.small_disk()
        path = os.path.join(mount, "tally.db")
        server = self.server(*FAST, "--store", path)
        client = self.client(server)
        client.call("INCR", "views")
        filler = os.path.join(mount, "filler")
        time.sleep(0.5)
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        for start in range(0, 20000, 1000):
            client.pipeline([("LIKE", f"video{i}", "a rather long name of a user")
                             for i in range(start, start + 1000)])
        server.wait_message("the store does not answer", 30)
        self.assertEqual(client.call("LIKE", "video7", "ann"), 1)
        os.remove(filler)
        subprocess.run(["mount", "-o", "remount,size=64m", mount], check=True)
        server.wait_message("the store answers again", 40)
        self.assert_proved(client)
        base = sqlite3.connect(path)
        self.addCleanup(base.close)
        tallyd.wait_until(lambda: base.execute(
            "SELECT value FROM counters WHERE id = 'video7/like'").fetchone() == (2,), 20,
            "it catches up")
        self.assertEqual(base.execute("SELECT DISTINCT status FROM lives").fetchall(),
                         [("SUCCESS",)])

    def test_deleted_under_the_running_server(self):
        server = self.server(*FAST)
        client = self.client(server)
        client.call("INCR", "views")
        self.wait_value(server, "views", 1)
        for name in ("tally.db", "tally.db-wal", "tally.db-shm"):
            os.remove(os.path.join(server.data, name))
        client.call("INCR", "views")
        server.wait_message("the store does not answer", 30)
        self.assertEqual(client.call("INCR", "views"), 3)
        server.kill()
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("GET", "views"), "3")
        self.wait_value(server, "views", 3)

    def test_damaged_it_is_refused_and_made_anew_when_moved_away(self):
        server = self.server(*FAST)
        client = self.client(server)
        for i in range(3000):
            client.send(("LIKE", f"video{i}", f"user{i}"))
        for _ in range(3000):
            client.read()
        self.assertEqual(server.stop(), 0)
        with open(self.path(server), "r+b") as file:
            file.write(b"\xa5" * 8192)
        self.assertEqual(server.start_fails(), 1)
        self.assertRegex(server.messages(), "cannot start: the store .*tally.db.*made anew")
        os.rename(self.path(server), self.path(server) + ".damaged")
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("LIKE", "video7", "user7"), 0)
        self.wait_value(server, "video2999/like", 1)
        self.assert_proved(client)


class Proof(PipelineCase):
    """A wrong value in each of the places is found and put right."""

    def setUp(self):
        self.one_server = self.server(*FAST, "--audit-every", "0")
        self.calls = self.client(self.one_server)
        for i in range(40):
            self.calls.call("LIKE", "video1", f"user{i}")
        self.calls.call("DISLIKE", "video1", "17")
        self.calls.call("INCRBY", "views", 1000)
        self.wait_value(self.one_server, "views", 1000)
        self.wait_value(self.one_server, "video1/dislike", 1)

    def audit(self, repair):
        return self.task(self.calls, "AUDIT", "*", "REPAIR", repair)

    def found(self, pattern):
        """An audit finds what matches, and nothing else; a repair puts it right, once."""
        seen = self.audit("no")
        self.assertEqual(seen["drifts"], 1, seen)
        self.assertRegex(seen["found"][0], pattern)
        mended = self.audit("yes")
        self.assertEqual(mended["drifts"], 1, mended)
        self.assert_proved(self.calls)
        self.one_server.wait_message("a count differs from its events " + pattern)
        self.one_server.wait_message("the count was put right " + pattern)
        tallyd.wait_until(
            lambda: self.one(self.one_server, "SELECT count(*) FROM audit_trail WHERE what = 'drift'"),
            10, "the drift is written down")

    def test_a_wrong_row_of_a_counter(self):
        self.open(self.one_server).execute("UPDATE entries SET value = 7 WHERE id = 'views'")
        self.found('id="views" place="store" is=7 ought=1000')
        self.assertEqual(self.value(self.one_server, "views"), 1000)
        self.assertEqual(self.calls.call("GET", "views"), "1000")

    def test_a_wrong_count_of_an_item(self):
        self.open(self.one_server).execute(
            "UPDATE entries SET counts = '{\"like\":99,\"dislike\":1}' WHERE id = 'video1'")
        self.found('id="video1/like" place="store" is=99 ought=40')
        self.assertEqual(self.value(self.one_server, "video1/like"), 40)

    def change_stopped(self, statement):
        """In a file as an older Tally has left it, whose rows get their sums as they stand; and
        VACUUM, so that the pages are taken over."""
        base = self.open(self.one_server)
        base.execute(statement)
        base.execute("UPDATE entries SET sum = NULL")
        for trigger in ("bases_stay", "waiting_stay", "count_events_stay"):
            base.execute(f"DROP TRIGGER {trigger}")
        base.execute("ALTER TABLE bases DROP COLUMN checksum")
        base.execute("PRAGMA user_version = 3")
        base.execute("VACUUM")
        base.close()

    def test_a_wrong_hot_value(self):
        """What is wrong in the store when it is loaded is wrong in memory."""
        self.assertEqual(self.one_server.stop(), 0)
        self.change_stopped("UPDATE entries SET value = 7 WHERE id = 'views'")
        self.one_server.start()
        self.calls = self.client(self.one_server)
        self.assertEqual(self.calls.call("INCR", "views"), 8)
        self.open(self.one_server).execute(
            "UPDATE entries SET value = value + 993 WHERE id = 'views'")
        self.found('id="views" place="hot" is=8 ought=1001')
        self.assertEqual(self.calls.call("INCR", "views"), 1002)

    def spoil_members(self):
        """The store's members of one item become those of another."""
        for user in ("ann", "bob", "cid"):
            self.calls.call("LIKE", "video2", user)
        self.wait_value(self.one_server, "video2/like", 3)
        self.assertEqual(self.one_server.stop(), 0)
        self.change_stopped(
            "UPDATE entries SET members = (SELECT members FROM entries WHERE id = 'video2') "
            "WHERE id = 'video1'")
        self.one_server.start()
        self.calls = self.client(self.one_server)

    def test_wrong_members_in_the_store(self):
        self.spoil_members()
        seen = self.audit("no")
        self.assertEqual(sorted(seen["found"]),
                         ['id="video1/dislike" place="store members" is=0 ought=1',
                          'id="video1/like" place="store members" is=3 ought=40'])
        self.audit("yes")
        self.assert_proved(self.calls)
        self.assertEqual(self.calls.call("REACTION", "video1", "user7"), "like")
        self.assertEqual(self.calls.call("LIKE", "video1", "user7"), 0)

    def test_wrong_members_in_memory(self):
        self.spoil_members()
        self.assertEqual(self.calls.call("REACTION", "video1", "cid"), "like")  # loaded as they are
        seen = self.audit("no")
        self.assertTrue(any('place="hot' in line for line in seen["found"]), seen)
        self.audit("yes")
        self.assert_proved(self.calls)
        self.assertIsNone(self.calls.call("REACTION", "video1", "cid"))
        self.assertEqual(self.calls.call("COUNTS", "video1"), ["like", 40, "dislike", 1])

    def test_recount_of_all_and_by_pattern(self):
        self.open(self.one_server).execute("UPDATE entries SET value = 7 WHERE id = 'views'")
        every = self.task(self.calls, "RECOUNT", "*")
        self.assertEqual((every["state"], every["done"], every["drifts"]), ("done", 2, 0))
        some = self.task(self.calls, "RECOUNT", "video*")
        self.assertEqual((some["state"], some["done"], some["drifts"]), ("done", 1, 0))

    def test_an_audit_under_load_finds_nothing(self):
        stop = threading.Event()
        writer = threading.Thread(target=Restarts.write, args=(self.one_server.port, 3, stop))
        writer.start()
        try:
            for _ in range(10):
                self.assert_proved(self.calls)
        finally:
            stop.set()
            writer.join()
        self.assert_proved(self.calls)

    def test_events_newest_first_and_the_value_at_a_time(self):
        server, client = self.one_server, self.calls
        time.sleep(0.05)
        before = int(time.time() * 1000)
        time.sleep(0.05)
        client.call("INCRBY", "views", 5)
        client.call("COUNTER.RESET", "views", 0)
        client.call("INCRBY", "views", 3)
        seen, cursor = [], "0"
        while True:
            cursor, page = client.call("COUNTER.EVENTS", "views", "CURSOR", cursor, "COUNT", "2")
            seen += [tallyd.pairs(event) for event in page]
            if cursor == "0":
                break
        self.assertEqual([event["delta"] for event in seen], [3, -1005, 5, 1000])
        self.assertEqual(int(client.call("COUNTER.AT", "views", before)), 1000)
        self.assertEqual(int(client.call("COUNTER.AT", "views", before + 10000)), 3)
        self.assertIsNotNone(server)


class Erasure(PipelineCase):
    def test_no_file_holds_the_name_and_the_counts_are_right(self):
        server = self.server(*FAST)
        client = self.client(server)
        name = "elisabeth-the-unforgotten"
        for i in range(300):
            client.call("LIKE", f"video{i}", name, "ID", f"{name}-{i}")
            client.call("LIKE", f"video{i}", "bob")
        client.call("UNLIKE", "video7", name)
        self.wait_value(server, "video299/like", 2)
        self.assertEqual(client.call("LIKE", "not saved yet", name), 1)
        task = self.task(client, "USER.ERASE", name)
        self.assertEqual(task["state"], "done", task)
        self.assertEqual(client.call("COUNTS", "video1"), ["like", 1, "dislike", 0])
        self.assertIsNone(client.call("REACTION", "video1", name))
        self.assert_proved(client)
        self.assert_nowhere(server, name)
        trail = self.ask(server, "SELECT what, id FROM audit_trail WHERE what = 'erase'")
        self.assertTrue(trail and trail[-1][1].startswith("erased-"), trail)
        server.kill()
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("COUNTS", "video299"), ["like", 1, "dislike", 0])
        self.assert_proved(client)
        self.assert_nowhere(server, name)

    def assert_nowhere(self, server, name):
        for folder, _, files in os.walk(server.data):
            for file in files:
                with open(os.path.join(folder, file), "rb") as opened:
                    self.assertNotIn(name.encode(), opened.read(), file)


if __name__ == "__main__":
    tallyd.main()
