"""distributed.py - Tally beyond one machine as a whole: two serving nodes and two aggregators over a
Redis Cluster, Kafka and PostgreSQL. What is written through any door of any node is read on all of
them, and is in PostgreSQL, in rows and views. Answers say what they have waited for, and nodes what
they wait for. Then the same in small, with one Redis and streams of another as the log."""

import contextlib
import http.client
import json
import os
import re
import resource
import tempfile
import time
from collections import Counter

import agreement
import deployment
import servers
import tallyd
from journal import Journal, Writer

STORED_WITHIN_S = 60
SAID_WITHIN_S = 60
OUTBOX_MAX = 1000
# An answer is weak when the log is known to be down, not because a busy machine was slow.
FLAGS = ("--flush-interval", "100ms", "--ack-timeout", "10s", "--outbox-max", str(OUTBOX_MAX))


CLIENTS = 20
CONNECTIONS_MAX = 100
FEW_FILES = 200  # less than any node needs
# What process.c reserves is enough for so many servers of Redis, and brokers of Kafka.
SERVERS_MAX = 256
BROKERS_MAX = 32
FILES_OF_BROKER = 9  # a connection and a pipe for each of three clients


@contextlib.contextmanager
def soft_limit(files):
    """Of open files, for what is started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def reserved_for(part):
    """How many descriptors tallyd reserves for a part."""
    with open(os.path.join(tallyd.ROOT, "src/server/process.c"), encoding="utf-8") as source:
        return int(re.search(rf"FILES_OF_{part} = (\d+)", source.read())[1])


class OpenFiles:
    """What a node has open: clients, connections to ports of others, pipes, and all there is."""

    def __init__(self, node):
        own, sockets = {node.port, node.http_port}, self.sockets(node.pid)
        self.clients, self.pipes, self.all, self.to = 0, 0, 0, Counter()
        for name in os.listdir(f"/proc/{node.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                what = os.readlink(f"/proc/{node.pid}/fd/{name}")
                here, there = sockets.get(what, (None, None))
                self.all += 1
                self.pipes += what.startswith("pipe:")
                self.clients += here in own and there != 0
                self.to[there] += here not in own

    @staticmethod
    def sockets(pid):
        """By their names, the ports of both ends."""
        found = {}
        for version in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{version}", encoding="ascii") as lines:
                for fields in map(str.split, list(lines)[1:]):
                    here, there = (int(fields[i].rsplit(":", 1)[1], 16) for i in (1, 2))
                    found[f"socket:[{fields[9]}]"] = (here, there)
        return found

    def connected(self, ports):
        return sum(self.to[port] for port in ports)


class Small(deployment.Case):
    """What can be asked of any deployment."""

    flags = FLAGS

    def node(self, number):
        return self.tally.serving[number % len(self.tally.serving)]

    def resp(self, number=0):
        return self.client(self.node(number))

    def name(self, text):
        """An id that no other test uses."""
        return f"{self.id().rsplit('.', 1)[1]}-{text}"

    def rows(self, text, *values):
        return self.tally.postgres.query(text, *values)

    def watch_readiness(self, node):
        """An idle node looks for its log every second or two."""
        for _ in range(8):
            status, text = node.readiness()
            self.assertEqual(status, 200, text)
            time.sleep(0.5)

    def check_slow_log(self, proxy):
        """A log that takes longer than a second to answer, and less than --ack-timeout, is used like any other."""
        counter = self.name("views")
        proxy.set(delay_ms=1150)
        try:
            for node in self.tally.nodes:
                self.watch_readiness(node)
            answer = self.node(0).ask("POST", f"/v1/counters/{counter}/add", {"delta": 3})
            self.assertEqual((answer.status, answer.json["ack"]), (200, "log"), answer.body)
            self.wait_rows([(3,)], "SELECT value FROM counters WHERE id = %s", counter)
        finally:
            proxy.clear()

    def wait_rows(self, want, text, *values):
        """Waits until PostgreSQL answers this."""
        deadline = time.monotonic() + STORED_WITHIN_S
        while (rows := self.rows(text, *values)) != want and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(rows, want)


class Words:
    """The cases, for every deployment that has `tally`."""

    def test_a_like_through_any_door_of_any_node_is_seen_on_all(self):
        item = self.name("video")
        first, second = self.node(0), self.node(1)
        answer = first.ask("PUT", f"/v1/items/{item}/reactions/ann")
        self.assertEqual((answer.status, answer.json["changed"], answer.json["ack"]),
                         (200, True, "log"), answer.body)
        self.assertEqual(self.resp(1).call("LIKE", item, "bob"), 1)
        self.assertEqual(self.resp(0).call("LIKE", item, "bob"), 0)
        self.assertEqual(self.resp(0).call("DISLIKE", item, "eve"), 1)
        for node in (first, second):
            counts = node.ask("GET", f"/v1/items/{item}").json["counts"]
            self.assertEqual(counts, {"like": "2", "dislike": "1"})
            with node.connect() as client:
                self.assertEqual(agreement.members_of(client, item, "like"), {"ann", "bob"})
                self.assertEqual(client.call("REACTION", item, "eve"), "dislike")
        self.wait_rows([("ann", "like"), ("bob", "like"), ("eve", "dislike")],
                       "SELECT user_name, kind FROM who_likes_what WHERE item = %s ORDER BY 1", item)

    def test_users_change_their_minds(self):
        item = self.name("video")
        first, second = self.resp(0), self.resp(1)
        first.call("LIKE", item, "ann")
        second.call("DISLIKE", item, "ann")
        self.assertEqual(agreement.counts_of(first, item), {"like": 0, "dislike": 1})
        first.call("UNDISLIKE", item, "ann")
        self.assertIsNone(second.call("REACTION", item, "ann"))
        second.call("TOGGLE", item, "ann")
        self.assertEqual(agreement.counts_of(second, item), {"like": 1, "dislike": 0})
        self.wait_rows([("ann", "like")],
                       "SELECT user_name, kind FROM who_likes_what WHERE item = %s", item)
        self.wait_rows([("like", 1)],
                       "SELECT kind, count FROM items WHERE id = %s AND count > 0", item)

    def test_a_key_counts_once_whichever_node_and_door_hears_it(self):
        counter = self.name("paid")
        self.assertEqual(self.resp(0).call("COUNTER.ADD", counter, 5, "ID", "order-1"), 5)
        self.assertEqual(self.resp(1).call("COUNTER.ADD", counter, 5, "ID", "order-1"), 5)
        answer = self.node(1).ask("POST", f"/v1/counters/{counter}/add", {"delta": 5},
                                  **{"Idempotency-Key": "order-1"})
        self.assertEqual((answer.json["value"], answer.json["repeated"]), ("5", True))
        with self.refused("IDMISMATCH"):
            self.resp(0).call("COUNTER.ADD", counter, 6, "ID", "order-1")
        self.wait_rows([(5,)], "SELECT value FROM counters WHERE id = %s", counter)

    def test_numbers_have_no_end(self):
        counter = self.name("atoms")
        self.assertEqual(self.resp(0).call("INCRBY", counter, 2 ** 53), 2 ** 53)
        self.assertEqual(self.resp(1).call("INCR", counter), 2 ** 53 + 1)
        self.resp(0).call("INCRBY", counter, 2 ** 63)
        self.assertEqual(int(self.resp(1).call("GET", counter)), 2 ** 63 + 2 ** 53 + 1)
        self.resp(1).call("INCRBY", counter, -(2 ** 80))
        self.assertEqual(int(self.resp(0).call("GET", counter)),
                         2 ** 63 + 2 ** 53 + 1 - 2 ** 80)
        self.wait_rows([(2 ** 63 + 2 ** 53 + 1 - 2 ** 80,)],
                       "SELECT value FROM counters WHERE id = %s", counter)

    def test_a_floor_holds_on_all_nodes(self):
        stock = self.name("stock")
        self.resp(0).call("COUNTER.CREATE", stock, "FLOOR", 0)
        self.resp(1).call("INCRBY", stock, 2)
        with self.refused("BELOWFLOOR"):
            self.resp(0).call("DECRBY", stock, 3)
        self.assertEqual(self.resp(1).call("DECRBY", stock, 2), 0)

    def test_what_is_deleted_is_gone_everywhere_and_begins_anew(self):
        counter, item = self.name("draft"), self.name("video")
        self.resp(0).call("INCRBY", counter, 7)
        self.resp(0).call("LIKE", item, "ann")
        self.assertEqual(self.resp(1).call("DEL", counter), 1)
        self.assertEqual(self.resp(1).call("DEL", item), 1)
        self.assertIsNone(self.resp(0).call("GET", counter))
        self.assertEqual(agreement.counts_of(self.resp(0), item)["like"], 0)
        self.assertEqual(self.resp(0).call("INCR", counter), 1)
        self.assertEqual(self.resp(0).call("LIKE", item, "bob"), 1)
        self.wait_rows([(1,)], "SELECT value FROM counters WHERE id = %s", counter)
        self.wait_rows([("bob",)], "SELECT user_name FROM who_likes_what WHERE item = %s", item)

    def test_ids_may_be_anything(self):
        item, user = self.name("фильм {a} 'b\""), "ann: \U0001f600 %s {1}"
        self.assertEqual(self.resp(0).call("LIKE", item, user), 1)
        self.assertEqual(self.resp(1).call("LIKE", item, user), 0)
        self.assertEqual(agreement.members_of(self.resp(1), item, "like"), {user})
        self.wait_rows([(user,)], "SELECT user_name FROM who_likes_what WHERE item = %s", item)

    def test_a_crowd_agrees_everywhere(self):
        journal = Journal([Writer(self.name(f"w{i}"), self.tally.serving, [self.name("crowd")],
                                  [self.name("sum")], users=3000) for i in range(2)])
        journal.start()
        journal.wait_acknowledged(12000, 120)
        journal.stop()
        journal.settle()
        self.assertEqual(journal.counts()["ack hot"], 0, dict(journal.counts()))
        agreement.check(self.tally, journal)

    def test_others_find_their_words_in_the_views(self):
        post, item = 123, 456
        for user in (7, 8):
            self.resp(0).call("LIKE", post, user)
        self.resp(1).call("UNLIKE", post, 8)
        self.resp(1).call("INCRBY", item, 9)
        self.wait_rows([(1,)], "SELECT like_count FROM posts WHERE id = %s", post)
        self.wait_rows([(post, 7)], "SELECT post_id, user_id FROM likes WHERE post_id = %s", post)
        self.wait_rows([("SUCCESS",)], "SELECT DISTINCT status FROM post_count_events WHERE "
                       "post_id = %s", post)
        self.wait_rows([(9,)], "SELECT vote_count FROM item WHERE id = %s", item)

    def test_a_lag_that_is_estimated_says_so_wherever_it_is_told(self):
        for node in self.tally.nodes:
            node.wait_ready()
            if node.serves:
                info = self.client(node).call("INFO", "pipeline")
                self.assertIn("pipeline_lag_estimated:1\r\n", info)
            self.assertEqual(node.metrics()["tally_pipeline_lag_estimated"], 1)
            self.assertIs(node.ask("GET", "/v1/figures").json["lag_is_estimated"], True)
            self.assertIs(node.ask("GET", "/v1/status").json["pipeline"]["lag_is_estimated"], True)

    def test_every_node_is_ready_and_says_of_what(self):
        for node in self.tally.nodes:
            node.wait_ready()
            self.assertIn("store", node.readiness()[1])


    def test_no_more_descriptors_are_open_than_are_reserved(self):
        node = deployment.Node("all", self.tally.urls, *FLAGS, "--max-connections",
                               str(CONNECTIONS_MAX))
        self.adopt(node)
        with soft_limit(FEW_FILES):  # it raises that to what it needs, and no further
            node.spawn()
        node.wait_ready()
        reserved = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)[0] - CONNECTIONS_MAX
        self.assertGreater(reserved, FEW_FILES)
        counter = self.name("views")
        for client in [self.client(node) for _ in range(CLIENTS)]:
            client.call("INCR", counter)
        self.wait_rows([(CLIENTS,)], "SELECT value FROM counters WHERE id = %s", counter)
        files = OpenFiles(node)
        self.assertGreaterEqual(files.clients, CLIENTS)
        self.assertLessEqual(files.all - files.clients, reserved)
        self.check_parts(files)
        node.stop()

    def check_parts(self, files):
        """What one part leaves over hides nothing that another lacks."""
        tally = self.tally

        def ports(engines, proxies=()):
            return {one.port for one in (*engines, *proxies) if one}
        postgres = files.connected(ports([tally.postgres], [tally.postgres_proxy]))
        self.assertIn(postgres, range(1, reserved_for("POSTGRES") + 1))
        nodes = tally.cluster.nodes if tally.cluster else [tally.redis]
        redis = files.connected(ports(nodes, [getattr(one, "proxy", None) for one in nodes]))
        self.assertIn(redis, range(1, len(nodes) + reserved_for("REDIS") - SERVERS_MAX + 1))
        if tally.stream:
            stream = files.connected(ports([tally.stream], [tally.stream_proxy]))
            self.assertIn(stream, range(1, 1 + reserved_for("STREAMS") - SERVERS_MAX + 1))
        if tally.kafka:
            brokers = tally.kafka.brokers
            kafka = files.connected(ports(brokers, [broker.proxy for broker in brokers]))
            more = (BROKERS_MAX - len(brokers)) * FILES_OF_BROKER
            self.assertIn(kafka, range(1, reserved_for("KAFKA") - more + 1))
            self.assertLessEqual(kafka + files.pipes, reserved_for("KAFKA") - more)


class Cluster(Small, Words):
    """Redis Cluster, Kafka, PostgreSQL; two nodes of each role."""

    shared = {"proxied": True}

    def test_answers_say_when_the_log_is_down(self):
        item = self.name("video")
        proxy = self.tally.kafka.brokers[0].proxy
        self.node(0).ask("PUT", f"/v1/items/{item}/reactions/ann")
        proxy.set(hole=True)
        try:
            answer = self.node(0).ask("PUT", f"/v1/items/{item}/reactions/bob")
            self.assertEqual((answer.status, answer.json["ack"]), (200, "hot"), answer.body)
            # Known to be down it is refused; found out while it waits, nothing is said.
            for node in self.tally.serving:
                with contextlib.suppress(http.client.RemoteDisconnected):
                    answer = node.ask("PUT", f"/v1/items/{item}/reactions/eve?ack=log")
                    self.assertEqual(answer.status, 503, answer.body)
            answer = self.node(1).ask("GET", f"/v1/items/{item}")
            self.assertIn(answer.json["counts"]["like"], ("2", "3"))
        finally:
            proxy.clear()
        tallyd.wait_until(lambda: self.node(0).ask(
            "PUT", f"/v1/items/{item}/reactions/kim").json.get("ack") == "log", SAID_WITHIN_S,
            "an answer that has waited for the log")
        self.wait_rows([(True,)], "SELECT array_agg(user_name) @> ARRAY['ann','bob','kim'] "
                       "FROM who_likes_what WHERE item = %s", item)

    def test_with_the_log_away_a_cell_takes_so_much_and_no_more(self):
        counter = self.name("views")
        proxy = self.tally.kafka.brokers[0].proxy
        resp = self.resp(0)
        taken = 0
        proxy.set(hole=True)
        try:
            with self.refused("BUSY"):
                while taken <= 2 * OUTBOX_MAX:
                    taken = resp.call("INCR", counter)
            answer = self.node(1).ask("POST", f"/v1/counters/{counter}/add", {"delta": 1})
            self.assertEqual(answer.status, 503, answer.body)
            self.assertTrue(answer.headers.get("retry-after"), answer.headers)
            self.assertEqual(self.resp(1).call("GET", counter), str(taken))
            for node in self.tally.serving:
                tallyd.wait_until(lambda node=node: node.metrics()["tally_outbox_longest"] >=
                                  OUTBOX_MAX / 2,
                                  30, "a figure for the outbox that is full")
                self.assertEqual(node.metrics()["tally_outbox_max"], OUTBOX_MAX)
            self.assertIn("outbox_longest:", resp.call("INFO", "tally"))
        finally:
            proxy.clear()
        self.assertLessEqual(taken, OUTBOX_MAX)
        self.assertGreater(taken, OUTBOX_MAX / 2)
        self.wait_rows([(taken,)], "SELECT value FROM counters WHERE id = %s", counter)
        tallyd.wait_until(lambda: self.node(1).ask("POST", f"/v1/counters/{counter}/add",
                                                   {"delta": 1}).status == 200, SAID_WITHIN_S,
                          "a write that is taken again")
        tallyd.wait_until(lambda: self.node(0).metrics()["tally_outbox_entries"] == 0, 30,
                          "outboxes that are empty again")

    def test_a_log_that_answers_slowly_is_a_log_that_is_up(self):
        self.check_slow_log(self.tally.kafka.brokers[0].proxy)

    def test_a_repetition_promises_no_more_than_the_log_has(self):
        counter = self.name("paid")
        proxy = self.tally.kafka.brokers[0].proxy

        def pay(node):
            return node.ask("POST", f"/v1/counters/{counter}/add", {"delta": 5},
                            **{"Idempotency-Key": "order-1"}).json
        proxy.set(hole=True)
        try:
            self.assertEqual(pay(self.node(0))["ack"], "hot")
            for node in self.tally.serving:
                answer = pay(node)
                self.assertEqual((answer["repeated"], answer["ack"]), (True, "hot"))
        finally:
            proxy.clear()
        tallyd.wait_until(lambda: pay(self.node(1))["ack"] == "log", SAID_WITHIN_S,
                          "a repetition that the log has")
        self.wait_rows([(5,)], "SELECT value FROM counters WHERE id = %s", counter)

    def test_a_count_whose_shards_cannot_all_be_asked_says_so(self):
        counter = self.name("views")
        resp = self.resp(0)
        resp.call("COUNTER.CREATE", counter, "SHARDS", "8", "POLICY", "round-robin")
        for _ in range(64):
            resp.call("COUNTER.ADD", counter, "1")
        about = resp.call("COUNTER.INFO", counter)
        home = int(about[about.index("home") + 1])  # a cell, whose slot is one of 256
        cluster = self.tally.cluster
        at_home = {cluster.owner(256 * home), cluster.owner(256 * home + 255)}
        away = next(primary for primary in cluster.primaries() if primary not in at_home)

        forgetful = deployment.Node("serve", self.tally.urls, "--totals-ttl", "1s")
        self.adopt(forgetful)
        forgetful.start()

        def read(node=self.node(0), flags=""):
            while (answer := node.ask("GET", f"/v1/counters/{counter}{flags}")).status == 503:
                time.sleep(0.1)  # who is told to come later does so
            return answer.json

        def lacks_shards(answer):
            return "shards_missing" in answer

        for node in (self.node(0), forgetful):
            self.assertEqual(read(node)["value"], "64")
        away.proxy.set(hole=True)
        try:
            tallyd.wait_until(lambda: lacks_shards(read()), SAID_WITHIN_S, "an answer that lacks shards")
            self.assertEqual(read()["value"], "64")  # what they had is known
            tallyd.wait_until(lambda: int(read(forgetful)["value"]) < 64, SAID_WITHIN_S,
                              "what they had is too old")
            self.assertTrue(lacks_shards(read(forgetful)))
        finally:
            away.proxy.clear()
        for node in (self.node(0), forgetful):
            tallyd.wait_until(lambda node=node: not lacks_shards(read(node, "?exact=true")),
                              SAID_WITHIN_S, "all shards")
            self.assertEqual(read(node, "?exact=true")["value"], "64")

    def test_others_can_read_the_events(self):
        item = self.name("video")
        self.resp(0).call("LIKE", item, "ann")
        lines = self.tally.kafka.kcat("-t", deployment.TOPIC, "-C", "-e", "-q").splitlines()
        events = [json.loads(line) for line in lines]
        found = [event for event in events if item in json.dumps(event, ensure_ascii=False)]
        self.assertEqual(len(found), 1, found)

    def test_a_node_without_an_engine_says_what_it_waits_for(self):
        closed = "127.0.0.1:1"  # where nobody listens, nor will
        for part, url in (("hot", f"redis://{closed}"), ("store", f"postgres://{closed}/tally")):
            node = deployment.Node("all", {**self.tally.urls, part: url})
            self.adopt(node)
            node.spawn()
            expected = 503 if part == "hot" else 200

            def says_so(node=node, part=part, expected=expected):
                status, text = node.readiness()
                return status == expected and f"[-] {part} failed" in text

            tallyd.wait_until(says_so, SAID_WITHIN_S, f"a node without its {part} that says so")
            node.remove()


class Single(Small, Words):
    """One Redis, streams of another as the log, one node that does all."""

    shared = {"serve": 0, "aggregate": 0, "both": 1, "cluster": False, "brokers": 0}

    def test_a_node_that_does_not_aggregate_knows_of_dead_letters(self):
        """The page says that all is well where none are told."""
        node = deployment.Node("serve", self.tally.urls, *FLAGS)
        self.adopt(node)
        node.start()

        def letters():
            return node.ask("GET", "/v1/status").json["pipeline"]["dead_letters"]

        self.assertEqual(letters(), 0)
        self.rows("INSERT INTO dead_letters(event_id, reason, retry_count, created, failed) "
                  "VALUES (gen_random_uuid(), 'a test', 5, now(), now()) RETURNING 1")
        try:
            tallyd.wait_until(lambda: letters() == 1, SAID_WITHIN_S, "a dead letter that is told")
        finally:
            self.rows("DELETE FROM dead_letters RETURNING 1")
        tallyd.wait_until(lambda: letters() == 0, SAID_WITHIN_S, "no dead letter")


class SlowStreams(Small):
    """Streams of a Redis whose answers take their time, though less than --ack-timeout."""

    shared = {"serve": 1, "aggregate": 1, "cluster": False, "brokers": 0, "proxied": True}

    def test_a_log_that_answers_slowly_is_a_log_that_is_up_and_read(self):
        self.check_slow_log(self.tally.stream_proxy)


class Refusals(tallyd.Case):
    """What does not go together is refused with words that help."""

    def refused_at_start(self, *flags):
        server = self.server(*flags, start=False)
        code = server.start_fails()
        self.assertNotEqual(code, 0)
        return server.said

    def test_redis_goes_with_a_log_that_all_nodes_share(self):
        self.assertRegex(self.refused_at_start("--hot", "redis://127.0.0.1:1"), "log")
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(self.refused_at_start(
                "--hot", "redis://127.0.0.1:1", "--log", "kafka://127.0.0.1:1/t", "--store",
                os.path.join(folder, "x.db")), "postgres")

    def test_a_redis_that_may_evict_is_refused(self):
        with contextlib.ExitStack() as stack:
            redis = stack.enter_context(servers.Redis(maxmemory_policy="allkeys-lru"))
            stream = stack.enter_context(servers.Redis(appendonly=True))
            postgres = stack.enter_context(servers.Postgres(fast=True))
            said = self.refused_at_start("--hot", redis.url, "--log", stream.url.replace(
                "redis:", "redis-stream:"), "--store", postgres.url)
            self.assertIn("noeviction", said)


if __name__ == "__main__":
    tallyd.main()
