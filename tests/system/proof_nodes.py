"""proof_nodes.py - with many nodes, too, every number can be proved: from the log, of Kafka or of
streams, on nodes that serve and on nodes that do not. A value that somebody made wrong by hand, in a
row of PostgreSQL, among the members or in Redis, is found and put right, also in the background."""

import contextlib
import random
import threading
import time

import deployment
import tallyd

FLAGS = ("--flush-interval", "100ms")
WITHIN_S = 60


class Case(deployment.Case):
    flags = (*FLAGS, "--audit-every", "0")

    def setUp(self):
        super().setUp()
        self.resp = self.client(self.tally.serving[0])

    def name(self, text):
        """An id that no other test uses."""
        return f"{self.id().rsplit('.', 1)[1][5:40]}-{text}"

    def rows(self, text, *values):
        return self.tally.postgres.query(text, *values)

    def change(self, text, *values):
        """By hand, beside the nodes."""
        with contextlib.closing(self.tally.postgres.connect()) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(text, values)
            self.assertEqual(cursor.rowcount, 1)

    def row_value(self, counter):
        return [int(value) for (value,) in
                self.rows("SELECT value FROM counters WHERE id = %s", counter)]

    def members(self, item):
        return self.rows("SELECT user_name, kind FROM who_likes_what WHERE item = %s ORDER BY 1",
                         item)

    def wait_row(self, counter, value):
        tallyd.wait_until(lambda: self.row_value(counter) == [value], WITHIN_S,
                          f"{counter} is {value} in PostgreSQL")

    def add_in_redis(self, target, field, by):
        """Makes a field of the hot record wrong."""
        keys = [key for key in self.tally.redis.call("KEYS", "*") if key.endswith(target)]
        keys = [key for key in keys if self.tally.redis.call("TYPE", key) == "hash"
                and self.tally.redis.call("HEXISTS", key, field)]
        self.assertEqual(len(keys), 1, keys)
        self.tally.redis.call("HINCRBY", keys[0], field, by)

    # --- asking ---

    def recount(self, counter):
        return tallyd.pairs(self.resp.call("COUNTER.RECOUNT", counter))

    def recount_on(self, node, counter):
        answer = node.ask("POST", f"/v1/counters/{counter.replace('/', '%2F')}/recount")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def task(self, *command):
        number = self.resp.call(*command)

        def ended():
            task = tallyd.pairs(self.resp.call("TASK", number))
            return task if task["state"] != "running" else None
        return tallyd.wait_until(ended, WITHIN_S, f"{command} ends")

    def task_on(self, node, path, body):
        """By HTTP, which all nodes speak."""
        answer = node.ask("POST", path, body)
        self.assertEqual(answer.status, 202, answer.body)
        path = f"/v1/tasks/{answer.json['task']}"

        def ended():
            task = node.ask("GET", path).json
            return task if task["state"] != "running" else None
        return tallyd.wait_until(ended, WITHIN_S, f"{body} ends")

    def assert_proved(self, pattern):
        task = self.task("AUDIT", pattern, "REPAIR", "no")
        self.assertEqual((task["state"], task["drifts"]), ("done", 0), task)

    def assert_found(self, pattern, place):
        """A recount finds one place that differs, and leaves it as it is."""
        task = self.task("RECOUNT", pattern)
        self.assertEqual((task["state"], task["drifts"]), ("done", 1), task)
        self.assertIn(f'place="{place}"', str(task), task)

    def assert_repaired(self, pattern):
        """An audit puts one place right, and the trail says so: drift, repair."""
        task = self.task("AUDIT", pattern, "REPAIR", "yes")
        self.assertEqual((task["state"], task["drifts"]), ("done", 1), task)
        self.assertIn("1 put right", task["text"])
        target = pattern.rstrip("*")
        tallyd.wait_until(lambda: {"drift", "repair"} <= self.trail(target), WITHIN_S,
                          f"{target} in the trail")
        self.assert_proved(pattern)

    def trail(self, prefix):
        return {what for (what,) in
                self.rows("SELECT what FROM audit_trail WHERE id LIKE %s", prefix + "%")}


class Proofs:
    """The cases, for every log."""

    def test_a_counter_and_an_item_are_summed_up_from_the_log(self):
        counter, item = self.name("views"), self.name("video")
        for delta in (5, -2, 10 ** 30):
            self.resp.call("INCRBY", counter, delta)
        for user in ("ann", "bob", "7"):
            self.resp.call("LIKE", item, user)
        self.resp.call("UNLIKE", item, "bob")
        self.resp.call("DISLIKE", item, "ann")
        found = self.recount(counter)
        value = 10 ** 30 + 3
        self.assertEqual({name: str(found[name]) for name in
                          ("value", "recount", "events", "drift", "from", "hot", "agrees")},
                         {"value": str(value), "recount": str(value), "events": "3", "drift": "0",
                          "from": "log", "hot": "1", "agrees": "1"})
        wanted = ((counter, value), (f"{item}/like", 1), (f"{item}/dislike", 1))
        for name, want in wanted:  # in lanes of their own
            self.wait_row(name, want)
        for node in self.tally.nodes:
            for name, want in wanted:
                found = self.recount_on(node, name)
                self.assertEqual((found["value"], found["recount"], found["store"],
                                  found["agrees"], found["from"], found["hot"]),
                                 (str(want), str(want), str(want), True, "log", node.serves), found)
                self.assertEqual(found.get("members"), None if name == counter else str(want))
        with self.refused("WRONGTYPE"):
            self.resp.call("COUNTER.RECOUNT", item)
        with self.refused("ERR"):
            self.resp.call("COUNTER.RECOUNT", self.name("nothing"))
        answer = self.tally.aggregating[-1].ask("POST", f"/v1/counters/{self.name('no')}/recount")
        self.assertEqual(answer.status, 404, answer.body)

    def test_a_counter_that_was_deleted_is_the_sum_of_what_came_after(self):
        counter = self.name("draft")
        self.resp.call("INCRBY", counter, 7)
        self.resp.call("DEL", counter)
        self.resp.call("INCRBY", counter, 2)
        self.wait_row(counter, 2)
        found = self.recount(counter)
        self.assertEqual((found["value"], found["recount"], found["agrees"]), (2, 2, 1), found)

    def test_a_pattern_is_recounted_with_progress_on_any_node(self):
        names = [self.name(f"c{i}") for i in range(30)]
        self.resp.pipeline([("INCR", name) for name in names])
        self.wait_row(names[-1], 1)
        for node in (self.tally.serving[0], self.tally.aggregating[-1]):
            task = self.task_on(node, "/v1/recounts", {"match": self.name("*")})
            self.assertEqual((task["state"], task["found"], task["unit"]),
                             ("done", 0, "counters"), task)
            self.assertEqual((task["done"], task["all"]), (30, 30), task)

    def test_a_wrong_row_is_found_and_put_right(self):
        counter = self.name("views")
        self.resp.call("INCRBY", counter, 10)
        self.wait_row(counter, 10)
        self.change("UPDATE entries SET value = value + 5 WHERE id = %s", counter)
        found = self.recount(counter)
        self.assertEqual((found["value"], found["recount"], found["store"], found["agrees"]),
                         (10, 10, 15, 0), found)
        found = self.recount_on(self.tally.aggregating[-1], counter)
        self.assertEqual((found["recount"], found["store"], found["agrees"]), ("10", "15", False))
        self.assert_found(counter, "store")
        self.assertEqual(self.row_value(counter), [15])
        self.assert_repaired(counter)
        self.assertEqual(self.row_value(counter), [10])

    def test_a_row_of_another_life_takes_what_is_added_and_is_put_right(self):
        counter = self.name("views")
        self.resp.call("INCRBY", counter, 10)
        self.wait_row(counter, 10)
        self.change("UPDATE entries SET incarnation = incarnation + 7 WHERE id = %s", counter)
        self.assert_repaired(counter)
        self.change("UPDATE entries SET incarnation = incarnation + 7 WHERE id = %s", counter)
        self.resp.call("INCR", counter)
        self.wait_row(counter, 11)
        self.task("AUDIT", counter, "REPAIR", "yes")
        self.assert_proved(counter)
        self.assertEqual(self.recount(counter)["recount"], 11)

    def test_a_node_that_does_not_serve_finds_and_does_not_repair(self):
        counter = self.name("views")
        self.resp.call("INCRBY", counter, 10)
        self.wait_row(counter, 10)
        self.change("UPDATE entries SET value = value - 1 WHERE id = %s", counter)
        node = next((node for node in self.tally.nodes if not node.serves), None)
        if node:
            task = self.task_on(node, "/v1/audits", {"match": counter, "repair": True})
            self.assertEqual((task["state"], task["found"]), ("done", 1), task)
            self.assertRegex(task["text"], "0 put right: .* ask one that does")
        self.assertEqual(self.row_value(counter), [9])
        self.assert_repaired(counter)

    def test_a_removed_member_comes_back(self):
        item = self.name("video")
        for user in ("ann", "bob", "7"):
            self.resp.call("LIKE", item, user)
        tallyd.wait_until(lambda: len(self.members(item)) == 3, WITHIN_S, "three members")
        self.change("DELETE FROM reactions WHERE user_id = 7 AND item = "
                    "(SELECT number FROM entries WHERE id = %s)", item)
        found = self.recount_on(self.tally.serving[0], f"{item}/like")
        self.assertEqual((found["value"], found["recount"], found["members"], found["agrees"]),
                         ("3", "3", "2", False), found)
        self.assert_found(item, "store members")
        self.assert_repaired(item)
        self.assertEqual(self.rows("SELECT count(*) FROM reactions r JOIN entries e ON "
                                   "e.number = r.item WHERE e.id = %s", item), [(3,)])
        self.assertEqual(self.resp.call("LIKE", item, "7"), 0)

    def test_a_removed_row_comes_back(self):
        counter = self.name("views")
        self.resp.call("INCRBY", counter, 10)
        self.wait_row(counter, 10)
        self.change("DELETE FROM entries WHERE id = %s", counter)
        self.assertEqual(self.recount(counter)["agrees"], 0)
        self.assert_repaired(counter)
        self.assertEqual(self.row_value(counter), [10])

    def test_a_wrong_count_in_redis_is_found_and_put_right(self):
        counter, item = self.name("views"), self.name("video")
        self.resp.call("INCRBY", counter, 10)
        self.resp.call("LIKE", item, "ann")
        self.wait_row(counter, 10)
        self.wait_row(f"{item}/like", 1)
        self.add_in_redis(counter, ".v", -3)
        self.add_in_redis(item, ".c:like", 4)
        found = self.recount(counter)
        self.assertEqual((found["value"], found["recount"], found["drift"], found["store"],
                          found["agrees"]), (7, 10, -3, 10, 0), found)
        found = self.recount(f"{item}/like")
        self.assertEqual((found["value"], found["recount"], found["agrees"]), (5, 1, 0), found)
        for target in (counter, item):
            self.assert_found(target, "hot")
            self.assert_repaired(target)
        self.assertEqual(self.resp.call("GET", counter), "10")
        self.assertEqual(self.resp.call("GET", f"{item}/like"), "1")

    def test_what_is_spread_over_cells_is_proved_as_well(self):
        counter = self.name("spread")
        self.resp.call("COUNTER.CREATE", counter, "SHARDS", 8)
        self.resp.pipeline([("INCR", counter) for _ in range(500)])
        self.wait_row(counter, 500)
        found = self.recount(counter)
        self.assertEqual((found["value"], found["recount"], found["from"], found["agrees"]),
                         (500, 500, "log", 1), found)
        self.change("UPDATE entries SET value = value + 5 WHERE id = %s", counter)
        self.assertEqual(self.recount(counter)["agrees"], 0)
        self.assert_repaired(counter)
        self.assertEqual(self.row_value(counter), [500])

    def test_nothing_differs_while_others_write(self):
        counter, item = self.name("views"), self.name("video")
        stop = threading.Event()
        failures = []

        def write(number):
            chance = random.Random(number)
            try:
                with self.tally.serving[-1].connect() as client:
                    while not stop.is_set():
                        user = str(chance.randint(1, 200))
                        client.pipeline([("INCRBY", counter, chance.randint(-9, 9)),
                                         ("LIKE", item, user), ("UNLIKE", item, user),
                                         ("LIKE", item, f"user{user}")])
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(0.5)
            for _ in range(2):
                for name in (counter, f"{item}/like"):
                    self.assertEqual(self.recount(name)["agrees"], 1)
                task = self.task("AUDIT", self.name("*"), "REPAIR", "yes")
                self.assertEqual((task["state"], task["drifts"]), ("done", 0), task)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.assert_proved(self.name("*"))

    def test_the_audit_in_the_background_finds_and_repairs(self):
        counter, item, stray = self.name("views"), self.name("video"), self.name("hot")
        self.resp.call("INCRBY", counter, 10)
        self.resp.call("INCRBY", stray, 10)
        for user in ("ann", "bob", "7"):
            self.resp.call("LIKE", item, user)
        for name, value in ((counter, 10), (stray, 10), (f"{item}/like", 3)):
            self.wait_row(name, value)
        self.change("UPDATE entries SET value = value + 5 WHERE id = %s", counter)
        self.change("DELETE FROM reactions WHERE user_id = 7 AND item = "
                    "(SELECT number FROM entries WHERE id = %s)", item)
        self.add_in_redis(stray, ".v", 90)
        role = self.tally.serving[0].role
        watchmen = [self.tally.node(role, *FLAGS, "--audit-every", "200ms") for _ in range(2)]
        first = [node for node in self.tally.serving if node not in watchmen]
        for node in first:
            node.stop()  # one of the others has the first cell now
        try:
            self.wait_row(counter, 10)
            tallyd.wait_until(lambda: self.rows(
                "SELECT count(*) FROM reactions r JOIN entries e ON e.number = r.item "
                "WHERE e.id = %s", item) == [(3,)], WITHIN_S, "the member is back")
            with watchmen[0].connect() as client:
                tallyd.wait_until(lambda: client.call("GET", stray) == "10", WITHIN_S,
                                  "Redis is right again")
            for name in (counter, item, stray):
                tallyd.wait_until(lambda name=name: {"drift", "repair"} <= self.trail(name),
                                  WITHIN_S, f"{name} in the trail")
            figures = [node.metrics() for node in watchmen]
            self.assertEqual(sum(one["tally_audit_drifts_total"] for one in figures), 3)
            self.assertEqual(sum(one["tally_audit_repairs_total"] for one in figures), 3)
            said = "".join(node._read_stderr() for node in watchmen)  # pylint: disable=W0212
            self.assertIn("a count differs from its events", said)
            self.assertIn("the count was put right", said)
            audited = [one["tally_audit_counters_total"] > 0 for one in figures]
            self.assertEqual(sorted(audited), [False, True], "one node at a time")
        finally:
            for node in first:
                node.start()
            for node in watchmen:
                node.stop()
                self.tally.nodes.remove(node)


class SlowStore(Case):
    """PostgreSQL gets what is new only after some seconds."""

    flags = ("--flush-interval", "4s", "--audit-every", "0")
    shared = {"cluster": False, "brokers": 0, "fast": True, "serve": 1, "aggregate": 1}

    def test_a_new_counter_that_is_spread_is_proved_before_it_has_a_row(self):
        for i, node in enumerate(self.tally.nodes):
            counter = self.name(f"new{i}")
            self.resp.call("COUNTER.CREATE", counter, "SHARDS", "8", "POLICY", "round-robin")
            for _ in range(5):
                self.resp.call("COUNTER.ADD", counter, "1")
            found = self.recount_on(node, counter)
            self.assertEqual((found["value"], found["recount"], found["agrees"]), ("5", "5", True),
                             found)

    def test_what_is_not_there_is_not_found(self):
        for node in self.tally.nodes:
            answer = node.ask("POST", f"/v1/counters/{self.name('nothing')}/recount")
            self.assertEqual((answer.status, answer.problem), (404, "not-found"), answer.body)


class ColdRows:
    """What nobody uses leaves Redis at once; a row that was changed meanwhile is not taken back as
    it is, whatever it says that it is."""

    flags = (*FLAGS, "--audit-every", "0", "--retention", "500ms")

    def is_cold(self, target):
        return not [key for key in self.tally.redis.call("KEYS", "*") if key.endswith(target)
                    and self.tally.redis.call("TYPE", key) == "hash"
                    and (self.tally.redis.call("HEXISTS", key, ".v")
                         or self.tally.redis.call("HEXISTS", key, ".c:like"))]

    def wait_served(self, *command):
        def answer():
            try:
                return [self.resp.call(*command)]
            except tallyd.ReplyError:
                return None
        return tallyd.wait_until(answer, WITHIN_S, f"{command} is answered")[0]

    def life(self, target):
        return self.rows("SELECT incarnation FROM entries WHERE id = %s", target)[0][0]

    def make_cold(self, target):
        tallyd.wait_until(lambda: self.is_cold(target), WITHIN_S, f"{target} has left Redis")

    def test_a_row_of_another_life_goes_on_in_that_of_the_log(self):
        for i, change in enumerate(("incarnation = incarnation + 1000", "incarnation = 0")):
            counter, item = self.name(f"views{i}"), self.name(f"video{i}")
            for value in (7, 10):
                self.resp.call("DEL", counter)
                self.resp.call("INCRBY", counter, value)
            for user in ("ann", "bob"):
                self.resp.call("DEL", item)
                self.resp.call("LIKE", item, user)
            self.wait_row(counter, 10)
            tallyd.wait_until(lambda item=item: [name for name, _ in self.members(item)] == ["bob"],
                              WITHIN_S, "the members")
            lives = {target: self.life(target) for target in (counter, item)}
            for target in lives:
                self.make_cold(target)
                self.change(f"UPDATE entries SET {change} WHERE id = %s", target)
            self.assertEqual(self.wait_served("GET", counter), "10")
            self.assertEqual(self.wait_served("GET", f"{item}/like"), "1")
            self.assertEqual(self.wait_served("INCR", counter), 11)
            self.assertEqual(self.wait_served("LIKE", item, "bob"), 0)
            self.assertEqual(self.wait_served("LIKE", item, "cid"), 1)
            self.wait_row(counter, 11)
            self.wait_row(f"{item}/like", 2)
            for target, life in lives.items():
                self.assertEqual(self.life(target), life)
            self.assert_proved(self.name("*"))
            self.assertEqual(self.recount(counter)["recount"], 11)

    def test_settings_that_make_no_sense_are_not_kept(self):
        counter = self.name("views")
        self.resp.call("INCRBY", counter, 10)
        self.wait_row(counter, 10)
        self.make_cold(counter)
        self.change("UPDATE entries SET settings = '{abc' WHERE id = %s", counter)
        self.assertEqual(self.wait_served("INCR", counter), 11)
        self.wait_row(counter, 11)
        self.assert_proved(self.name("*"))


class KafkaColdRows(ColdRows, Case):
    shared = {"serve": 1, "aggregate": 1, "cluster": False, "brokers": 1, "fast": True}


class StreamsColdRows(ColdRows, Case):
    shared = {"serve": 0, "aggregate": 1, "both": 1, "cluster": False, "brokers": 0, "fast": True}


class Kafka(Case, Proofs):
    """One node serves, another aggregates."""

    shared = {"serve": 1, "aggregate": 1, "cluster": False, "brokers": 1, "fast": True}


class Streams(Case, Proofs):
    """One node does both, another only aggregates."""

    shared = {"serve": 0, "aggregate": 1, "both": 1, "cluster": False, "brokers": 0, "fast": True}

    def test_z_with_its_beginning_gone_the_log_is_not_asked(self):
        counter, item = self.name("views"), self.name("video")
        self.resp.call("INCRBY", counter, 10)
        for user in ("ann", "7"):
            self.resp.call("LIKE", item, user)
        self.wait_row(counter, 10)
        self.wait_row(f"{item}/like", 2)
        for key in self.tally.stream.call("KEYS", "*:log"):
            self.tally.stream.call("XTRIM", key, "MAXLEN", 1)
        self.resp.call("INCRBY", counter, 1)
        found = self.recount_on(self.tally.serving[0], counter)
        self.assertEqual((found["value"], found["recount"], found["from"], found["agrees"]),
                         ("11", "11", "store", True), found)
        self.assertIn("log_begins", found)
        self.add_in_redis(counter, ".v", 5)
        self.assertFalse(self.recount_on(self.tally.serving[0], counter)["agrees"])
        self.assert_repaired(counter)
        self.assertEqual(self.resp.call("GET", counter), "11")
        self.change("UPDATE counts SET count = 9 WHERE item = "
                    "(SELECT number FROM entries WHERE id = %s) AND count = 2", item)
        self.assert_repaired(item)
        self.wait_row(f"{item}/like", 2)


if __name__ == "__main__":
    tallyd.main()
