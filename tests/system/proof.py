"""proof.py - every number can be proved, a wrong one is found and put right, and a user can be
forgotten: with the real program, its log and its database.

Wrong values are injected with Python's sqlite3, beside the running server (the store is wrong
and memory is right) and while it is stopped (what is loaded afterwards is wrong as well)."""

import contextlib
import os
import random
import struct
import threading
import time

import tallyd
import web
from pipeline import FAST, PipelineCase

FORGETFUL = (*FAST, "--retention", "100ms")  # what is idle is dropped and loaded again


def now_ms():
    return int(time.time() * 1000)


class ProofCase(PipelineCase):
    def figure(self, client, name):
        text = client.call("INFO")
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)[name]

    def site(self, server):
        site = web.Web(server.http_port)
        self.addCleanup(site.close)
        return site

    def metric(self, server, name):
        page = self.site(server).get("/metrics").body.decode()
        return float(next(line for line in page.splitlines() if line.startswith(name + " "))
                     .split()[1])

    def all_pages(self, client, *command):
        """Of a command that pages: everything it lists."""
        result = []
        cursor = "0"
        while True:
            cursor, page = client.call(*command, "CURSOR", cursor)
            result += [tallyd.pairs(entry) if isinstance(entry, list) else entry for entry in page]
            if cursor == "0":
                return result

    def recount(self, client, counter):
        return tallyd.pairs(client.call("COUNTER.RECOUNT", counter))

    def wait_saved(self, server, client):
        """Until the store has everything: a counter that is written now is there, too."""
        value = client.call("INCR", "the last")
        self.wait_value(server, "the last", value)

    @contextlib.contextmanager
    def writers(self, server, plan, count=3):
        """Threads that send what plan(random) gives, as fast as they can, while the block runs."""
        stop = threading.Event()
        failures = []
        done = [0] * count

        def write(number):
            chance = random.Random(number)
            try:
                with server.connect() as client:
                    while not stop.is_set():
                        for reply in client.pipeline([plan(chance) for _ in range(20)]):
                            if isinstance(reply, tallyd.ReplyError):
                                raise reply
                            done[number] += 1
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield done
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])


class Recounts(ProofCase):
    def test_of_one_by_pattern_and_of_all_with_progress(self):
        server = self.server(*FAST)
        client = self.client(server)
        for i in range(20):
            client.call("INCRBY", f"a:{i}", 10 ** i)
            client.call("DECR", f"b:{i}")
            client.call("LIKE", f"video{i}", "ann")
        client.call("UNLIKE", "video0", "ann")
        self.assertEqual(self.recount(client, "a:19"), {
            "id": "a:19", "value": str(10 ** 19), "recount": str(10 ** 19), "base": 0,
            "discarded": 0, "events": 1, "drift": 0})
        counted = self.recount(client, "video0/like")
        self.assertEqual((counted["value"], counted["recount"], counted["events"]), (0, 0, 2))

        for pattern, count in (("a:*", 20), ("*", 60)):
            task = self.task(client, "RECOUNT", pattern)
            self.assertEqual((task["kind"], task["state"], task["drifts"]), ("recount", "done", 0))
            self.assertEqual((task["done"], task["all"], task["unit"]), (count, count, "counters"))
            self.assertRegex(task["text"], str(count))
        self.assertEqual([tallyd.pairs(task)["kind"] for task in client.call("TASKS")],
                         ["recount", "recount"])

    def test_progress_is_seen_while_it_runs(self):
        server = self.server(*FAST)
        client = self.client(server)
        for start in range(0, 100_000, 2000):
            client.pipeline([("INCR", f"c{i}") for i in range(start, start + 2000)])
        number = client.call("RECOUNT", "*")
        seen = []
        while True:
            task = tallyd.pairs(client.call("TASK", number))
            seen.append(int(task["done"]))
            if task["state"] != "running":
                break
        self.assertEqual((task["state"], task["done"], task["all"]), ("done", 100_000, 100_000))
        self.assertEqual(seen, sorted(seen))

    def test_agrees_while_others_write_and_memory_forgets(self):
        server = self.server(*FORGETFUL)
        client = self.client(server)

        def plan(chance):
            return chance.choice([
                ("INCR", "views"), ("INCRBY", "views", chance.randint(-9, 9)),
                ("LIKE", "video1", f"user{chance.randint(1, 5000)}"),
                ("UNLIKE", "video1", str(chance.randint(1, 5000))),
                ("LIKE", "video1", str(chance.randint(1, 5000)))])

        client.call("INCR", "views")
        client.call("LIKE", "video1", "1")
        with self.writers(server, plan):
            for _ in range(10):
                for counter in ("views", "video1/like"):
                    self.assertEqual(self.recount(client, counter)["drift"], 0)
                task = self.task(client, "AUDIT", "*", "REPAIR", "yes")
                self.assertEqual((task["state"], task["drifts"]), ("done", 0), task)
        self.assertEqual(self.figure(client, "audit_repairs"), "0")
        self.assert_proved(client)


class History(ProofCase):
    def test_the_value_at_a_time(self):
        server = self.server(*FAST)
        client = self.client(server)
        moments = [(now_ms(), None)]

        def then(value, *command):
            time.sleep(0.01)
            client.call(*command)
            time.sleep(0.01)
            moments.append((now_ms(), value))

        then(1, "INCR", "views")
        then(str(10 ** 30 + 1), "INCRBY", "views", 10 ** 30)
        then(0, "COUNTER.RESET", "views", "0")
        then(-5, "DECRBY", "views", "5")
        then(None, "DEL", "views")
        then(7, "INCRBY", "views", 7)
        then(7, "LIKE", "video1", "ann")
        for moment, value in moments:
            self.assertEqual(client.call("COUNTER.AT", "views", moment), value)
        self.assertEqual(client.call("COUNTER.AT", "views", 4_000_000_000_000), 7)
        self.assertEqual(client.call("COUNTER.AT", "video1/like", now_ms()), 1)

        answer = self.site(server).get(f"/v1/counters/views/at?time={moments[2][0]}")
        self.assertEqual((answer.status, answer.json["value"]), (200, str(10 ** 30 + 1)))

    def test_events_come_newest_first_page_by_page(self):
        server = self.server(*FAST)
        client = self.client(server)
        for i in range(1, 251):
            client.call("COUNTER.ADD", "views", i, "ID", f"key{i}")
            client.call("INCR", "another")
        events = []
        cursor = "0"
        while True:
            cursor, page = client.call("COUNTER.EVENTS", "views", "CURSOR", cursor, "COUNT", 7)
            self.assertLessEqual(len(page), 7)
            events += [tallyd.pairs(event) for event in page]
            client.call("INCRBY", "views", 1000)  # what is new does not come between
            if cursor == "0":
                break
        self.assertEqual([(event["delta"], event["key"]) for event in events],
                         [(i, f"key{i}") for i in range(250, 0, -1)])
        sequences = [event["sequence"] for event in events]
        self.assertEqual(sequences, sorted(sequences, reverse=True))

    def test_a_reset_loses_no_add_of_others(self):
        server = self.server(*FAST)
        client = self.client(server)
        resets = 30
        with self.writers(server, lambda chance: ("INCR", "views")) as done:
            for _ in range(resets):
                client.call("COUNTER.RESET", "views", "0")
                time.sleep(0.01)
        events = self.all_pages(client, "COUNTER.EVENTS", "views", "COUNT", "10000")
        adds = [event for event in events if event["type"] == "add"]
        self.assertEqual(sum(event["delta"] for event in adds), sum(done))
        running = 0
        for event in reversed(events):
            running += event["delta"]
            if event["type"] == "reset":
                self.assertEqual(running, 0)
        self.assertEqual(sum(event["type"] == "reset" for event in events), resets)
        self.assertEqual(int(client.call("GET", "views")), running)
        self.assert_proved(client)


class Injected(ProofCase):
    """Each case breaks one place, and sees that it is found, told of, and put right."""

    USERS = 100

    def prepare(self, *flags):
        self.tallyd = self.server(*(flags or FAST))
        self.connection = self.client(self.tallyd)
        self.connection.call("INCRBY", "views", 1000)
        self.connection.call("INCRBY", "large", 10 ** 40)
        self.connection.pipeline([("LIKE", "video1", f"user{i}") for i in range(self.USERS)])
        self.connection.pipeline([("DISLIKE", "video1", str(i)) for i in range(self.USERS)])
        self.connection.pipeline([("LIKE", "other", str(i)) for i in range(7)])
        self.connection.pipeline([("LIKE", "crowd", str(i)) for i in range(9000)])
        self.wait_saved(self.tallyd, self.connection)

    def restart(self):
        self.assertEqual(self.tallyd.stop(), 0)
        self.tallyd.start()
        self.connection = self.client(self.tallyd)

    def inject(self, statement, *args):
        base = self.open(self.tallyd)
        self.assertEqual(base.execute(statement, args).rowcount, 1)
        base.close()

    def inject_stopped(self, statement, *args):
        """Afterwards memory holds what was injected, as soon as it is asked for it."""
        self.assertEqual(self.tallyd.stop(), 0)
        self.inject(statement, *args)
        # As a file of an older Tally, whose rows have no sums: they get them as they stand. And the
        # pages are to be taken over as they are.
        base = self.open(self.tallyd)
        base.execute("UPDATE entries SET sum = NULL")
        for trigger in ("bases_stay", "waiting_stay", "count_events_stay"):
            base.execute(f"DROP TRIGGER {trigger}")
        base.execute("ALTER TABLE bases DROP COLUMN checksum")
        base.execute("PRAGMA user_version = 3")
        base.execute("VACUUM")
        base.close()
        self.tallyd.start()
        self.connection = self.client(self.tallyd)

    def audit(self, *places, repair="yes"):
        """An audit finds just these ("id", "place")."""
        before = int(self.figure(self.connection, "audit_drifts"))
        task = self.task(self.connection, "AUDIT", "*", "REPAIR", repair)
        found = sorted(tuple(self.line_of(line)) for line in task["found"])
        self.assertEqual(found, sorted(places), task)
        self.assertEqual((task["state"], task["drifts"]), ("done", len(places)))
        self.assertEqual(int(self.figure(self.connection, "audit_drifts")), before + len(places))
        self.assertGreaterEqual(self.metric(self.tallyd, "tally_audit_drifts_total"), len(places))
        if repair == "yes":
            self.assertEqual(self.figure(self.connection, "audit_repairs"), str(len(places)))
        trail = self.all_pages(self.connection, "AUDITS")
        for counter, _ in places:
            self.assertIn(("drift", counter), [(row["what"], row["id"]) for row in trail])
            self.tallyd.wait_message(f'error a count differs .*id="{counter}"')

    @staticmethod
    def line_of(line):
        words = line.split('"')  # id="views" place="hot" is=1 ought=2
        return words[1], words[3]

    def assert_repaired(self, target, *amounts):
        """A fault is put right once, and written down once: in the log and in the trail."""
        self.wait_saved(self.tallyd, self.connection)
        events = self.all_pages(self.connection, "COUNTER.EVENTS", target)
        self.assertEqual(sorted(event["delta"] for event in events if event["type"] == "repair"),
                         sorted(amounts))
        trail = self.all_pages(self.connection, "AUDITS")
        self.assertEqual(
            [row["id"] for row in trail if row["what"] == "repair"], [target] * len(amounts))

    def assert_right(self):
        """Everything is what was written, in memory and when it is loaded again."""
        for _ in range(2):
            client = self.connection
            self.assertEqual(client.call("GET", "views"), "1000")
            self.assertEqual(client.call("GET", "large"), str(10 ** 40))
            self.assertEqual(client.call("COUNTS", "video1"), ["like", 100, "dislike", 100])
            self.assertEqual(client.call("COUNTS", "other"), ["like", 7, "dislike", 0])
            self.assertEqual(client.call("COUNTS", "crowd"), ["like", 9000, "dislike", 0])
            self.assertEqual(sorted(self.all_pages(client, "MEMBERS", "video1", "like")),
                             sorted(f"user{i}" for i in range(self.USERS)))
            self.assertEqual(sorted(map(int, self.all_pages(client, "MEMBERS", "crowd", "like"))),
                             list(range(9000)))
            self.assertEqual(client.call("LIKE", "video1", "user7"), 0)
            self.assertEqual(client.call("DISLIKE", "video1", "7"), 0)
            self.assertEqual(client.call("LIKE", "crowd", "8765"), 0)
            self.assert_proved(client)
            self.restart()
        for counter, value in (("views", 1000), ("video1/like", 100), ("crowd/like", 9000)):
            self.assertEqual(self.value(self.tallyd, counter), value)

    def test_nothing_is_wrong_and_nothing_is_changed(self):
        self.prepare()
        self.audit()
        self.assertEqual(self.all_pages(self.connection, "AUDITS"), [])
        self.assert_right()

    def test_a_row_of_a_counter(self):
        self.prepare()
        self.inject("UPDATE entries SET value = value + 5 WHERE id = 'views'")
        self.audit(("views", "store"), repair="no")
        self.assertEqual(self.value(self.tallyd, "views"), 1005)
        self.audit(("views", "store"))
        self.assertEqual(self.value(self.tallyd, "views"), 1000)
        self.assert_repaired("views", -5)
        self.assertEqual(self.recount(self.connection, "views")["recount"], 1000)
        self.assert_right()

    def test_a_row_beyond_64_bits(self):
        self.prepare()
        self.inject("UPDATE entries SET value = ? WHERE id = 'large'", str(10 ** 40 - 10 ** 25))
        self.audit(("large", "store"))
        self.assert_right()

    def test_the_counts_of_an_item(self):
        self.prepare()
        self.inject("UPDATE entries SET counts = '{\"like\":90,\"dislike\":101}' "
                    "WHERE id = 'video1'")
        self.audit(("video1/like", "store"), ("video1/dislike", "store"))
        self.assert_repaired("video1", 10, -1)
        self.assert_right()

    def test_a_row_of_which_only_the_sum_is_wrong(self):
        self.prepare()
        self.inject("UPDATE entries SET sum = sum + 1 WHERE id = 'views'")
        self.audit(repair="no")
        self.audit()
        self.assert_repaired("views", 0)
        self.audit()
        self.assert_repaired("views", 0)
        self.assert_right()

    def test_the_members_of_an_item(self):
        self.prepare()
        self.inject("UPDATE entries SET members = (SELECT members FROM entries WHERE id = 'other') "
                    "WHERE id = 'video1'")
        self.audit(("video1/like", "store members"), ("video1/dislike", "store members"))
        self.assert_right()

    def test_a_slice_of_a_large_item(self):
        self.prepare()
        self.inject("DELETE FROM members WHERE place = (SELECT max(place) FROM members)")
        self.audit(("crowd/like", "store members"), ("crowd/dislike", "store members"))
        self.assert_right()

    def test_a_row_that_is_missing(self):
        self.prepare()
        self.inject("DELETE FROM entries WHERE id = 'views'")
        self.inject("DELETE FROM entries WHERE id = 'crowd'")
        self.audit(("views", "store"), ("crowd", "store"), repair="no")
        self.audit(("views", "store"), ("crowd", "store"))
        self.assert_right()

    def test_a_row_that_is_missing_and_not_in_memory(self):
        self.prepare()
        self.inject_stopped("DELETE FROM entries WHERE id = 'video1'")
        self.assertEqual(self.connection.call("COUNTS", "video1"), ["like", 0, "dislike", 0])
        self.audit(("video1", "store"))
        self.assert_right()

    def test_a_wrong_row_that_was_loaded(self):
        self.prepare()
        self.inject_stopped("UPDATE entries SET value = value - 1 WHERE id = 'views'")
        self.assertEqual(self.connection.call("GET", "views"), "999")
        self.audit(("views", "store"), ("views", "hot"))
        self.assert_right()

    def test_wrong_counts_that_were_loaded(self):
        self.prepare()
        self.inject_stopped("UPDATE entries SET counts = '{\"like\":9001,\"dislike\":0}' "
                            "WHERE id = 'crowd'")
        self.assertEqual(self.connection.call("GET", "crowd/like"), "9001")
        self.audit(("crowd/like", "store"), ("crowd/like", "hot"))
        self.assert_right()

    def test_wrong_members_that_were_loaded(self):
        self.prepare()
        self.inject_stopped("UPDATE entries SET members = (SELECT members FROM entries "
                            "WHERE id = 'other') WHERE id = 'video1'")
        self.assertIsNone(self.connection.call("REACTION", "video1", "user7"))
        task = self.task(self.connection, "AUDIT", "video*")
        self.assertEqual(task["state"], "done")
        self.assertGreaterEqual(task["drifts"], 2)
        self.assert_right()

    def test_a_wrong_row_while_others_add(self):
        self.prepare()
        with self.writers(self.tallyd, lambda chance: ("INCRBY", "views", 3)) as done:
            time.sleep(0.2)
            self.inject("UPDATE entries SET value = value + 5 WHERE id = 'views'")
            task = self.task(self.connection, "AUDIT", "views", "REPAIR", "yes")
        self.assertEqual((task["state"], task["drifts"]), ("done", 1), task)
        value = 1000 + 3 * sum(done)
        self.assertEqual(self.connection.call("GET", "views"), str(value))
        self.wait_value(self.tallyd, "views", value)
        self.assert_proved(self.connection)

    def test_the_audit_in_the_background_finds_it_by_itself(self):
        self.prepare(*FORGETFUL, "--audit-every", "1s")
        self.inject("UPDATE entries SET value = 3 WHERE id = 'views'")
        self.tallyd.wait_message('the count was put right id="views" place="store"', 30)
        tallyd.wait_until(lambda: self.connection.call("GET", "views") == "1000", 10,
                          "memory is right, too")
        self.assert_right()


class Erasure(ProofCase):
    SMALL_SEGMENTS = (*FAST, "--segment-size", "64KiB")

    def fill(self, client, user, items=300):
        """The user and others react to many items, and come back on their reactions."""
        for start in range(0, items, 50):
            commands = []
            for i in range(start, start + 50):
                commands += [("LIKE", f"item{i}", user), ("LIKE", f"item{i}", f"user{i % 40}"),
                             ("LIKE", f"item{i}", str(i)),
                             ("DISLIKE", f"item{i}", "bob", "ID", f"bob-{user}-{i}"),
                             ("COUNTER.ADD", "places", "1", "REGION", user),
                             ("COUNTER.ADD", f"counter{i}", "1", "ID", f"{user}-{i}"),
                             ("COUNTER.ADD", "glued", "1", "ID", f"like{user}x{i}")]
                if i % 3 == 0:
                    commands.append(("DISLIKE", f"item{i}", user))
                if i % 5 == 0:
                    commands.append(("UNLIKE", f"item{i}", user))
            for reply in client.pipeline(commands):
                self.assertNotIsInstance(reply, tallyd.ReplyError)

    def assert_counts(self, client, items=300):
        for i in range(items):
            self.assertEqual(client.call("COUNTS", f"item{i}"), ["like", 2, "dislike", 1])
            self.assertEqual(client.call("LIKE", f"item{i}", str(i)), 0)

    def files_with(self, server, *needles):
        """The files of the data folder that contain one of these bytes."""
        found = []
        for folder, _, names in os.walk(server.data):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    data = file.read()
                found += [(name, needle) for needle in needles if needle in data]
        return found

    def erase(self, client, user):
        task = self.task(client, "USER.ERASE", user, timeout_s=60)
        self.assertEqual(task["state"], "done", task)
        self.assertNotIn(user, str(task))

    def assert_forgotten(self, server, client, user, *needles):
        self.assertEqual(self.files_with(server, *needles), [])
        self.assertIsNone(client.call("REACTION", "item1", user))
        self.assertEqual(client.call("USER.REACTIONS", user), ["0", []])
        self.assert_counts(client)
        for i in (0, 1, 3):
            self.assertEqual(self.recount(client, f"item{i}/like")["drift"], 0)
        self.assert_proved(client)
        trail = [row for row in self.all_pages(client, "AUDITS") if row["what"] == "erase"]
        self.assertGreaterEqual(len(trail), 1)
        self.assertNotIn(user, str(trail))

        self.assertEqual(server.stop(), 0)
        self.assertEqual(self.files_with(server, *needles), [])
        server.start()
        client = self.client(server)
        self.assert_counts(client)
        self.assert_proved(client)
        self.assertEqual(self.files_with(server, *needles), [])
        self.assertEqual(client.call("LIKE", "item1", user), 1)

    def test_of_a_named_user(self):
        server = self.server(*self.SMALL_SEGMENTS)
        client = self.client(server)
        name = "Persephone of Eleusis"
        self.fill(client, name)
        self.wait_saved(server, client)
        self.assertNotEqual(self.files_with(server, name.encode()), [])
        self.erase(client, name)
        self.assert_forgotten(server, client, name, name.encode())

    def test_of_a_numeric_user(self):
        server = self.server(*self.SMALL_SEGMENTS)
        client = self.client(server)
        number = 987_654_321
        needles = (str(number).encode(), struct.pack(">I", number), struct.pack("<I", number))
        self.fill(client, str(number))
        self.wait_saved(server, client)
        self.assertNotEqual(self.files_with(server, *needles), [])
        self.erase(client, str(number))
        self.assert_forgotten(server, client, str(number), *needles)

    def test_over_http_while_much_is_cold(self):
        server = self.server(*self.SMALL_SEGMENTS, "--retention", "100ms")
        client = self.client(server)
        self.fill(client, "Persephone")
        self.wait_saved(server, client)
        time.sleep(0.5)
        answer = self.site(server).delete("/v1/users/Persephone")
        self.assertEqual(answer.status, 202)
        number = answer.json["task"]
        tallyd.wait_until(lambda: self.ended(client, number), 60, "the task ends")
        self.assertEqual(self.ended(client, number)["state"], "done")
        self.assert_forgotten(server, client, "Persephone", b"Persephone")

    def test_when_killed_in_the_middle_it_can_be_done_again(self):
        server = self.server(*self.SMALL_SEGMENTS)
        client = self.client(server)
        self.fill(client, "Persephone")
        chance = random.Random(11)
        for _ in range(8):
            client.call("USER.ERASE", "Persephone")
            time.sleep(chance.uniform(0, 0.15))
            server.kill()
            server.start()
            client = self.client(server)
            self.assert_proved(client)
        self.erase(client, "Persephone")
        self.assert_forgotten(server, client, "Persephone", b"Persephone")

    POISON = ("CREATE TRIGGER poison BEFORE INSERT ON entries WHEN new.id = 'bad' "
              "BEGIN SELECT RAISE(ABORT, 'poison'); END")

    def assert_erased_from_bad(self, server, client):
        self.assertEqual(client.call("COUNTS", "bad"), ["like", 1, "dislike", 0])
        self.assertEqual(client.call("MEMBERS", "bad", "like"), ["0", ["Ulysses"]])
        self.assert_forgotten(server, client, "Persephone", b"Persephone")

    def test_it_waits_for_what_the_store_refuses(self):
        server = self.server(*self.SMALL_SEGMENTS)
        client = self.client(server)
        self.fill(client, "Persephone")
        base = self.open(server)
        base.execute(self.POISON)
        client.pipeline([("LIKE", "bad", "Persephone"), ("LIKE", "bad", "Ulysses")])
        tallyd.wait_until(lambda: "RETRYING" in self.states(server), 10, "it is refused")
        number = client.call("USER.ERASE", "Persephone")
        time.sleep(0.5)
        self.assertIsNone(self.ended(client, number))
        base.execute("DROP TRIGGER poison")
        task = tallyd.wait_until(lambda: self.ended(client, number), 40, "the task ends")
        self.assertEqual(task["state"], "done", task)
        self.assert_erased_from_bad(server, client)

    def test_dead_letters_come_first(self):
        server = self.server(*self.SMALL_SEGMENTS)
        client = self.client(server)
        self.fill(client, "Persephone")
        base = self.open(server)
        base.execute(self.POISON)
        client.pipeline([("LIKE", "bad", "Persephone"), ("LIKE", "bad", "Ulysses")])
        task = self.task(client, "USER.ERASE", "Persephone", timeout_s=60)
        self.assertEqual(task["state"], "failed", task)
        self.assertRegex(task["text"], "dead letters name the user: redrive or discard them")
        base.execute("DROP TRIGGER poison")
        self.assertEqual(client.call("DLQ", "REDRIVE", "ALL"), 1)
        self.wait_value(server, "bad/like", 2)
        self.erase(client, "Persephone")
        self.assert_erased_from_bad(server, client)

    def test_others_go_on_meanwhile(self):
        server = self.server(*self.SMALL_SEGMENTS)
        client = self.client(server)
        self.fill(client, "Persephone")
        with self.writers(server, lambda chance: ("INCR", "views")) as done:
            self.erase(client, "Persephone")
        self.assertEqual(client.call("GET", "views"), str(sum(done)))
        self.assert_forgotten(server, client, "Persephone", b"Persephone")


if __name__ == "__main__":
    tallyd.main()
