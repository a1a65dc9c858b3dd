"""crash_loop.py [--kills N] [--seed N] - kill -9 at random moments, again and again.

Writers (writers.py) count and like over both doors, and keep a journal. The server is killed while
they work, sometimes while it recovers as well, and is started again on the same folder. Memory is
short and the retention too, so that counters, items and slices of a large item are dropped and
loaded all the time. After every kill each writer compares the server with its journal. When a folder
has lived through its kills, all that is known about a count has to agree: hot values, recount,
rows of the store, rows of the history, members.

A kill leaves the system's memory alone, so an engine that never syncs would pass: the simulator
is there for the power cuts."""

import argparse
import collections
import os
import random
import sqlite3
import sys
import threading
import time

import tallyd
from writers import CROWD, ITEMS, KINDS, SHARED
from writers import Adder, Owner, Reactor, WebAdder, WebReactor

KILL_AFTER_S = (0.05, 1.5)
KILLS_A_FOLDER = 50  # then a new one begins, since journals and logs grow
CROWD_SIZE = 6000  # more than are held in one slice
RECOUNTS = 6
REFUSALS = [
    "CREATE TRIGGER refuse_new BEFORE INSERT ON entries WHEN abs(random()) % 6 = 0 "
    "BEGIN SELECT RAISE(ABORT, 'refused'); END",
    "CREATE TRIGGER refuse_old BEFORE UPDATE ON entries WHEN abs(random()) % 40 = 0 "
    "BEGIN SELECT RAISE(ABORT, 'refused'); END"]
WRITERS = [Owner, Owner, Adder, Reactor, Reactor, WebAdder, WebReactor]


def members(client, item, kind):
    """All members, by paging."""
    result = []
    cursor = "0"
    while True:
        cursor, page = client.call("MEMBERS", item, kind, "CURSOR", cursor, "COUNT", "1000")
        result += page
        if int(cursor) == 0:
            return result


def figures(client):
    """INFO as a dictionary."""
    lines = client.call("INFO").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


class CrashLoop(tallyd.Case):
    kills = 20
    seed = None

    def setUp(self):
        self.random = random.Random(self.seed)

    def test_what_was_answered_is_there_once_after_every_kill(self):
        for begin in range(0, self.kills, KILLS_A_FOLDER):
            self.live_through(min(self.kills - begin, KILLS_A_FOLDER))

    def test_with_a_store_that_refuses_now_and_then(self):
        self.live_through(min(self.kills // 3, KILLS_A_FOLDER), refuses=True)

    def live_through(self, kills, refuses=False):
        """The life of one folder."""
        self.writers = [kind(f"w{i}", self.random.getrandbits(32))
                        for i, kind in enumerate(WRITERS)]
        self.seen = collections.Counter()
        server = self.server(*self.any_flags(), start=False)
        self.start(server)
        if refuses:
            self.change_store(server, *REFUSALS)
        self.gather_crowd(server)
        for _ in range(kills):
            self.write_and_kill(server)
            if self.random.random() < 0.25:
                self.kill_while_starting(server)
            server.flags = self.any_flags()
            self.start(server)
            self.compare(server)
        if refuses:
            self.change_store(server, "DROP TRIGGER refuse_new", "DROP TRIGGER refuse_old")
            self.settle(server)
            self.compare(server)
        self.prove(server)
        self.assertEqual(server.stop(), 0)
        self.compare_store(server)
        server.start()
        self.compare(server)  # all of it is cold
        self.assertEqual(server.stop(), 0)

        answered = sum(writer.answered for writer in self.writers)
        refusals = sum(writer.refusals for writer in self.writers)
        print(f"{kills} kills, {answered} answers, {refusals} refusals, {dict(self.seen)}",
              file=sys.stderr)
        self.assertGreater(answered, 100 * kills)
        self.assertGreater(self.seen["cold_loads"], 10 * kills)
        self.assertGreater(self.seen["dropped"], 10 * kills)
        self.assertEqual(self.seen["audit_drifts"], 0)
        server.remove()

    def start(self, server):
        is_limited = server.flags[server.flags.index("--max-memory") + 1] != "0"
        for writer in self.writers:
            writer.is_limited = is_limited
        server.start()

    def any_flags(self):
        """Small segments, so that there are many; counters that spread at once, or never."""
        def any_of(*choices):
            return self.random.choice(choices)
        return ["--segment-size", any_of("64KiB", "256KiB", "1MiB"),
                "--workers", any_of("1", "2", "3"),
                "--spread-rate", any_of("100", "1000000"),
                "--ack", any_of("durable", "durable", "written"),
                "--flush-interval", any_of("1ms", "20ms", "100ms"),
                "--flush-events", any_of("50", "2000"),
                "--retention", any_of("100ms", "500ms"),
                "--max-memory", any_of("0", "4MiB", "16MiB"),
                "--log-keep-bytes", any_of("0", "1MiB"),
                "--audit-every", any_of("0", "1s")]

    @staticmethod
    def change_store(server, *statements):
        base = sqlite3.connect(os.path.join(server.data, "tally.db"), timeout=30,
                               isolation_level=None)
        for statement in statements:
            base.execute(statement)
        base.close()

    @staticmethod
    def settle(server):
        """What was refused is tried again and goes through; what was given up is redriven."""
        with server.connect() as client:
            client.call("DLQ", "REDRIVE", "ALL")
            tallyd.wait_until(lambda: all(client.call("EVENTS", "STATE", state, "COUNT", "1")[1] == []
                                          for state in ("RETRYING", "PENDING", "FAILED")),
                              60, "everything is applied")

    def gather_crowd(self, server):
        """An item with so many members that it is loaded in slices."""
        self.crowd = {f"fan{i}" if i % 2 else f"{9_000_000 + i}" for i in range(CROWD_SIZE)}
        with server.connect() as client:
            replies = client.pipeline([("LIKE", CROWD, user) for user in self.crowd])
        self.assertEqual(replies, [1] * CROWD_SIZE)

    def write_and_kill(self, server):
        threads = [threading.Thread(target=writer.work, args=(server,), daemon=True)
                   for writer in self.writers]
        with server.connect() as client:
            for thread in threads:
                thread.start()
            time.sleep(self.random.uniform(*KILL_AFTER_S))
            self.note_figures(client)
        server.kill()
        for thread in threads:
            thread.join(30)
            self.assertFalse(thread.is_alive())
        for writer in self.writers:
            if writer.failure:
                raise writer.failure

    def note_figures(self, client):
        found = figures(client)
        for name in ("cold_loads", "dropped", "audit_counters", "audit_drifts",
                     "memory_refused_writes", "log_trimmed_bytes"):
            self.seen[name] += int(found[name])

    def kill_while_starting(self, server):
        server.spawn()
        time.sleep(self.random.uniform(0, 0.1))
        server.kill()

    # --- comparing ---

    def compare(self, server):
        for writer in self.writers:
            writer.compare(server)
        with server.connect() as client:
            self.compare_counters(client)
            self.compare_items(client)

    def sums(self):
        result = collections.Counter()
        for writer in self.writers:
            for counter, added in writer.sums().items():
                result[counter] += added
        return result

    def held(self):
        """(item, kind) -> the users."""
        result = collections.defaultdict(set)
        result[CROWD, "like"] |= self.crowd
        for writer in self.writers:
            for (item, user), kind in writer.held_by_users().items():
                result[item, kind].add(user)
        return result

    def compare_counters(self, client):
        expected = self.sums()
        for counter in SHARED:
            self.assertEqual(int(client.call("GET", counter) or 0), expected[counter], counter)

    def compare_items(self, client):
        expected = self.held()
        for item in ITEMS:
            counts = tallyd.pairs(client.call("COUNTS", item))
            for kind in KINDS.values():
                found = members(client, item, kind)
                self.assertEqual(len(found), len(set(found)), "a member is listed once")
                self.assertEqual(set(found), expected[item, kind], (item, kind))
                self.assertEqual(int(counts[kind]), len(found), (item, kind))

    def expected_values(self):
        """Every counter and its value, by the journals."""
        values = {counter: value for counter, value in self.sums().items()}
        for (item, kind), users in self.held().items():
            if kind:
                values[f"{item}/{kind}"] = len(users)
        for writer in self.writers:
            if isinstance(writer, Owner):
                values.update({c: v for c, v in writer.values.items() if v is not None})
        return values

    def prove(self, server):
        """The log says the same, and so do all places where a count stands."""
        expected = self.expected_values()
        with server.connect() as client:
            for counter in self.random.sample(sorted(expected), min(RECOUNTS, len(expected))):
                recount = tallyd.pairs(client.call("COUNTER.RECOUNT", counter))
                self.assertEqual((int(recount["value"]), int(recount["recount"]), recount["drift"]),
                                 (expected[counter], expected[counter], 0), counter)
            number = client.call("AUDIT", "*", "REPAIR", "no")
            task = tallyd.wait_until(lambda: self.ended(client, number), 60, "the audit ends")
            self.assertEqual((task["state"], task["drifts"]), ("done", 0), task)
            self.assertEqual(client.call("DLQ", "LIST"), ["0", []])

    @staticmethod
    def ended(client, number):
        task = tallyd.pairs(client.call("TASK", number))
        return task if task["state"] != "running" else None

    def compare_store(self, server):
        """As somebody sees it who knows nothing of Tally but the tables."""
        path = os.path.join(server.data, "tally.db")
        base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            values = {name: int(value) for name, value in
                      base.execute("SELECT id, value FROM counters") if int(value) != 0}
            self.assertEqual(values, {c: v for c, v in self.expected_values().items() if v != 0})
            holders = collections.defaultdict(set)
            for item, kind, user in base.execute("SELECT item, kind, user FROM who_likes_what"):
                holders[item, kind].add(user)
            self.assertEqual(holders, {place: users for place, users in self.held().items()
                                       if place[1] and users})
            self.assertEqual(base.execute("SELECT DISTINCT status FROM lives").fetchall(),
                             [("SUCCESS",)])
            self.assertEqual(base.execute("SELECT count(*) FROM dead_letters").fetchone(), (0,))
        finally:
            base.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=CrashLoop.kills)
    parser.add_argument("--seed", type=int, default=tallyd.seed_of_run())
    options, sys.argv[1:] = parser.parse_known_args()
    CrashLoop.kills = options.kills
    CrashLoop.seed = options.seed
    print(f"--kills {options.kills} --seed {options.seed}", file=sys.stderr)
    tallyd.main()


if __name__ == "__main__":
    main()
