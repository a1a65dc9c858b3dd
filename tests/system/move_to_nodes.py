"""move_to_nodes.py - from one machine to many nodes, as docs/distributed.md tells it: the machine copies
its store to PostgreSQL, follows its log there, and hands over to nodes that wait for it."""

import contextlib
import http.client
import os
import signal
import sys
import threading
import time

import agreement
import deployment
import tallyd
import web
from journal import Journal, Writer

BIG = 10**40
MOVED_WITHIN_S = 60
ITEMS = [f"video{i}" for i in range(6)]
TRIMS = ("--segment-size", "64KiB", "--log-keep-bytes", "128KiB")
FAST = ("--flush-interval", "100ms")


def fill(client):
    client.call("INCRBY", "views", 41)
    client.call("COUNTER.ADD", "big", str(BIG))
    client.call("COUNTER.CREATE", "stock", "FLOOR", "0", "SHARDS", "1")
    client.call("INCRBY", "stock", 3)
    client.call("COUNTER.CREATE", "wide", "SHARDS", "8")
    for _ in range(20):
        client.call("INCR", "wide")
    client.call("INCR", "gone")
    client.call("DEL", "gone")
    client.call("INCR", "a\\b\x01")
    for user in range(100):
        client.call("LIKE", "video1", f"user{user}")
    for user in range(5000):
        client.send(("LIKE", "video2", str(user)))
    for _ in range(5000):
        client.read()
    client.call("DISLIKE", "video1", "user7")
    client.call("LIKE", "old", "ann")
    client.call("DEL", "old")
    client.call("LIKE", "old", "bob")
    client.call("COUNTER.ADD", "views", "1", "ID", "the-first")


class Patient(tallyd.Connection):
    """Repeats what a node that has only just come up cannot answer yet, as clients do."""

    def call(self, *args):
        deadline = time.monotonic() + MOVED_WITHIN_S
        while True:
            try:
                return super().call(*args)
            except tallyd.ReplyError as error:
                if error.word != "UNAVAILABLE" or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)


class Reader(threading.Thread):
    """Asks the machine for a count, and the nodes if it has gone, all the time."""

    def __init__(self, places):
        super().__init__(daemon=True)
        self.places = places
        self.answers = 0
        self.missed = []
        self.is_told_to_stop = threading.Event()
        self.start()

    def run(self):
        while not self.is_told_to_stop.is_set():
            if any(self._asks(place) for place in self.places):
                self.answers += 1
            else:
                self.missed.append(time.monotonic())
            self.is_told_to_stop.wait(0.01)

    @staticmethod
    def _asks(place):
        with contextlib.suppress(OSError, http.client.HTTPException):
            with contextlib.closing(web.Web(place.http_port)) as client:
                return client.get(f"/v1/items/{ITEMS[0]}").status == 200
        return False

    def end(self):
        self.is_told_to_stop.set()
        self.join()


class Moving(deployment.Case):
    def engines(self, **options):
        tally = deployment.Deployment(self)
        tally.start_engines(cluster=False, brokers=0, fast=True, **options)
        return tally

    def machine(self, *flags):
        return self.server(*FAST, *flags)

    def begin(self, machine, url):
        """Started again, it moves."""
        self.assertEqual(machine.stop(), 0)
        machine.flags += ["--move-to", url]
        machine.start()

    @staticmethod
    def wait_copied(machine):
        machine.wait_message("PostgreSQL follows the log", MOVED_WITHIN_S)

    def hand_over(self, machine):
        """Until it does: it wants PostgreSQL to have caught up."""
        deadline = time.monotonic() + MOVED_WITHIN_S
        while True:
            machine.signal(signal.SIGUSR1)
            try:
                return machine.wait_message("handed over: nodes take.* ms=(\\d+)", 2)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    @staticmethod
    def write_until_trimmed(machine, client):
        deadline = time.monotonic() + MOVED_WITHIN_S
        while "the oldest part of the log was removed" not in machine.messages():
            assert time.monotonic() < deadline, "the log is not trimmed"
            client.pipeline([("INCR", "noise")] * 2000)
            time.sleep(0.05)

    # --- what is moved ---

    def check_move(self, *flags, trimmed=False, members="rows"):
        machine = self.machine(*flags)
        with machine.connect() as client:
            fill(client)
            if trimmed:
                self.write_until_trimmed(machine, client)
        tally = self.engines()
        machine.flags += ["--members", members]
        self.begin(machine, tally.urls["store"])
        machine.wait_message("copying the store", MOVED_WITHIN_S)  # it has claimed PostgreSQL
        node = tally.node("all", *FAST, "--members", members, start=False)
        node.spawn()
        self.wait_copied(machine)
        with machine.connect() as client:
            client.call("INCR", "views")  # this comes by the log
            client.call("LIKE", "video1", "zoe")
            client.call("UNLIKE", "video1", "user99")
        self.hand_over(machine)
        node.wait_ready()
        self.assertEqual(machine.stop(), 0)
        with Patient(node.port) as client:
            self.check_values(client)
            self.check_writes(client)
        return tally

    def check_values(self, client):
        self.assertEqual(client.call("GET", "views"), "43")
        self.assertEqual(client.call("GET", "big"), str(BIG))
        self.assertEqual(client.call("GET", "wide"), "20")
        self.assertIsNone(client.call("GET", "gone"))
        self.assertEqual(client.call("GET", "a\\b\x01"), "1")
        self.assertEqual(client.call("GET", "video1/like"), "99")
        self.assertEqual(client.call("GET", "video1/dislike"), "1")
        self.assertEqual(client.call("GET", "video2/like"), "5000")
        self.assertEqual(client.call("GET", "old/like"), "1")
        self.assertEqual(client.call("REACTION", "video1", "user7"), "dislike")
        self.assertIsNone(client.call("REACTION", "old", "ann"))

    def check_writes(self, client):
        self.assertEqual(client.call("LIKE", "video1", "user3"), 0)  # it was counted there
        self.assertEqual(client.call("LIKE", "video1", "zoe"), 0)
        self.assertEqual(client.call("LIKE", "video1", "user99"), 1)
        self.assertEqual(client.call("LIKE", "video2", "4321"), 0)
        self.assertEqual(client.call("LIKE", "video2", "5001"), 1)
        self.assertEqual(client.call("LIKE", "video1", "user7"), 1)
        self.assertEqual(client.call("GET", "video1/like"), "101")
        self.assertEqual(client.call("GET", "video1/dislike"), "0")
        self.assertEqual(client.call("INCR", "views"), 44)
        self.assertEqual(client.call("INCR", "gone"), 1)
        with self.assertRaises(tallyd.ReplyError):
            client.call("DECRBY", "stock", 4)  # the floor has moved along
        # A repetition of what the machine has counted gets its answer.
        self.assertEqual(client.call("COUNTER.ADD", "views", "1", "ID", "the-first"), 42)
        self.assertEqual(client.call("GET", "views"), "44")

    def test_nodes_go_on_where_one_machine_was(self):
        tally = self.check_move()
        # Since when somebody holds something has come along, and the history.
        rows = tally.postgres.query("SELECT count(*), count(DISTINCT r.time) FROM reactions r "
                                    "JOIN entries e ON e.number = r.item WHERE e.id = 'video1'")
        self.assertGreater(rows[0][1], 10, rows)
        rows = tally.postgres.query("SELECT count(*) FROM history")
        self.assertGreaterEqual(rows[0][0], 5100)

    def test_a_log_that_was_trimmed_is_no_hindrance(self):
        self.check_move(*TRIMS, trimmed=True)

    def test_members_can_become_sets(self):
        self.check_move(*TRIMS, trimmed=True, members="sets")

    # --- under load ---

    def move_under_load(self, tally, machine, counts):
        journal = Journal([Writer(f"w{i}", [machine], ITEMS, ["views"], users=300, pace_s=0.005)
                           for i in range(3)])
        journal.start()
        journal.wait_acknowledged(1000)
        with open(machine.flags[-1], "a", encoding="utf-8") as file:
            file.write(f"move-to {tally.urls['store']}\n")
        machine.signal(signal.SIGHUP)  # no restart is needed
        self.wait_copied(machine)

        made = [tally.node(role, *FAST, start=False) for role, count in counts.items()
                for _ in range(count)]
        for node in made:
            node.spawn()
        for node in made:
            tallyd.wait_until(lambda node=node: "has not handed it over" in node.readiness()[1],
                              MOVED_WITHIN_S, "a node that is too early says so")
        journal.wait_acknowledged(500)
        for writer in journal.writers:
            writer.nodes += tally.serving
        reader = Reader([machine, *tally.serving])
        journal.wait_acknowledged(200)
        self.hand_over(machine)
        tally.wait_ready()
        journal.wait_acknowledged(1000)
        self.assertEqual(machine.stop(), 0)
        for writer in journal.writers:
            writer.nodes.remove(machine)
        journal.wait_acknowledged(500)
        reader.end()
        journal.stop()
        journal.settle()
        agreement.check(tally, journal)
        print(f"{dict(journal.counts())}, writes paused for {journal.longest_s():.1f} s at most, "
              f"{reader.answers} reads", file=sys.stderr)
        self.assertEqual(reader.missed, [], "reads that nobody answered")
        self.assertGreater(reader.answers, 10)

    def test_nothing_is_lost_or_counted_twice_and_reads_never_stop(self):
        tally = self.engines()
        config = os.path.join(self.folder(), "tallyd.conf")
        with open(config, "w", encoding="utf-8"):
            pass
        machine = self.machine(*TRIMS, "--config", config)
        self.move_under_load(tally, machine, {"serve": 2, "aggregate": 1})

    # --- what must not happen ---

    def test_a_machine_and_nodes_never_write_to_one_store(self):
        tally = self.engines()
        machine = self.machine("--store", tally.urls["store"])
        with machine.connect() as client:
            client.call("INCR", "views")
        node = tally.node("all", *FAST, start=False)
        node.spawn()
        tallyd.wait_until(lambda: "has not handed it over" in node.readiness()[1], MOVED_WITHIN_S,
                          "a node waits for the machine")
        machine.kill()  # and leaves its claim: what is in its log only would be lost
        time.sleep(0.5)
        self.assertFalse(node.is_ready())
        machine.start()
        other = self.machine()
        with other.connect() as client:
            client.call("INCR", "views")
        self.assertEqual(other.stop(), 0)
        other.flags += ["--store", tally.urls["store"]]
        self.assertEqual(other.start_fails(), 1)
        self.assertIn("belongs to the server of another machine", other.said)
        self.assertEqual(machine.stop(), 0)  # now everything is there
        node.wait_ready()
        with Patient(node.port) as client:
            self.assertEqual(client.call("INCR", "views"), 2)
        self.assertEqual(machine.start_fails(), 1)
        self.assertIn("the store belongs to many nodes", machine.said)

    def test_a_store_that_holds_something_else_is_not_touched(self):
        tally = self.engines()
        first = self.machine("--store", tally.urls["store"])
        with first.connect() as client:
            client.call("INCR", "views")
        machine = self.machine("--move-to", tally.urls["store"])
        machine.wait_message("moving waits.*another machine", MOVED_WITHIN_S)
        with machine.connect() as client:
            self.assertEqual(client.call("INCR", "views"), 1)  # it goes on as ever
        with first.connect() as client:
            self.assertEqual(client.call("INCR", "views"), 2)

    # --- crashes ---

    def test_killed_while_it_copies_nothing_is_left_and_it_begins_anew(self):
        machine = self.machine()
        with machine.connect() as client:
            fill(client)
        tally = self.engines(proxied=True)
        tally.postgres_proxy.set(delay_ms=300)
        self.begin(machine, tally.urls["store"])
        machine.wait_message("copying the store", MOVED_WITHIN_S)
        machine.signal(signal.SIGUSR1)  # too early
        machine.wait_message("not everything is copied yet", MOVED_WITHIN_S)
        with machine.connect() as client:
            self.assertEqual(client.call("GET", "views"), "42")
        machine.kill()
        tally.postgres_proxy.clear()
        self.assertEqual(tally.postgres.query("SELECT count(*) FROM entries"), [(0,)])
        machine.start()
        self.wait_copied(machine)
        self.hand_over(machine)
        node = tally.node("all", *FAST)
        with Patient(node.port) as client:
            self.assertEqual(client.call("GET", "video2/like"), "5000")
            self.assertEqual(client.call("GET", "views"), "42")

    def test_killed_while_it_hands_over_it_counts_on_and_can_do_it_again(self):
        machine = self.machine()
        tally = self.engines(proxied=True)
        self.begin(machine, tally.urls["store"])
        self.wait_copied(machine)
        with machine.connect() as client:
            client.call("INCR", "views")
            tally.postgres_proxy.set(hole=True)
            client.call("INCR", "views")  # what has to go over first does not
            machine.signal(signal.SIGUSR1)
            machine.wait_message("writes are refused from now on", MOVED_WITHIN_S)
            with self.refused("READONLY"):
                client.call("INCR", "views")
            self.assertEqual(client.call("GET", "views"), "2")
            with contextlib.closing(web.Web(machine.http_port)) as door:
                answer = door.ask("POST", "/v1/counters/views/add", b'{"delta":1}', web.JSON)
                self.assertEqual((answer.status, answer.headers["retry-after"]), (503, "1"))
                self.assertEqual(door.get("/readyz").status, 503)
        machine.kill()
        without = [flag for flag in machine.flags if flag not in ("--move-to", tally.urls["store"])]
        machine.flags, flags = without, machine.flags
        self.assertEqual(machine.start_fails(), 1)  # nobody knows whether nodes count already
        self.assertIn("handed over to many nodes", machine.said)
        machine.flags = flags
        tally.postgres_proxy.clear()
        machine.start()
        machine.wait_message("nothing was handed over after all")
        with machine.connect() as client:
            self.assertEqual(client.call("INCR", "views"), 3)
        self.wait_copied(machine)
        self.hand_over(machine)
        machine.kill()
        machine.start()  # no node has come: it may have it back
        self.wait_copied(machine)
        self.hand_over(machine)
        machine.kill()
        node = tally.node("all", *FAST)
        with Patient(node.port) as client:
            self.assertEqual(client.call("INCR", "views"), 4)
        self.assertEqual(machine.start_fails(), 1)
        self.assertIn("the store belongs to many nodes", machine.said)

    def test_a_store_that_another_has_taken_is_not_handed_over(self):
        machine = self.machine()
        with machine.connect() as client:
            client.call("INCRBY", "views", 41)
        tally = self.engines()
        self.begin(machine, tally.urls["store"])
        self.wait_copied(machine)
        tally.postgres.query("UPDATE claim SET owner = 'another', who = 'elsewhere:/data'")
        machine.signal(signal.SIGUSR1)
        machine.wait_message("nothing was handed over.*belongs to another", MOVED_WITHIN_S)
        self.assertNotIn("handed over: nodes take", machine.messages())
        with Patient(machine.port) as client:
            self.assertEqual(client.call("INCR", "views"), 42)

    def test_a_postgres_that_goes_away_leaves_the_writes_with_the_machine(self):
        machine = self.machine()
        tally = self.engines(proxied=True)
        self.begin(machine, tally.urls["store"])
        self.wait_copied(machine)
        tally.postgres_proxy.set(hole=True)
        with machine.connect() as client:
            client.call("INCR", "views")
        machine.signal(signal.SIGUSR1)
        machine.wait_message("writes are refused from now on", MOVED_WITHIN_S)
        machine.wait_message("writes are taken here again", MOVED_WITHIN_S)
        with machine.connect() as client:
            self.assertEqual(client.call("INCR", "views"), 2)
        tally.postgres_proxy.clear()
        self.hand_over(machine)
        node = tally.node("all", *FAST)
        with Patient(node.port) as client:
            self.assertEqual(client.call("GET", "views"), "2")


if __name__ == "__main__":
    tallyd.main()
