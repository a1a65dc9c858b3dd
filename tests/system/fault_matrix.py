"""fault_matrix.py [--all | --only target:fault,...] [--pause SECONDS] [--stream]
Every engine fails in every way, under load; nothing acknowledged is lost, nothing counts twice.

              absent killed paused slow reset lost emptied failover
    primary     one primary of the Redis Cluster
    redis       all six nodes of it
    broker      one of three brokers of Kafka, the one that leads the first partition
    postgres    the PostgreSQL that takes writes; there is a standby

and redis:weak, where the log is away first, so that answers are weak, and then Redis comes back empty.

With --stream the log is in Redis Streams: broker is that Redis, which is alone, and so cannot
come back empty or fail over without losing what the promises rest on.

A cell of the matrix is lived through in a deployment that all cells share: two serving nodes and two
aggregators, all engines behind proxies. Writers with journals (journal.py) write through it, and
readers look at counts that do not change: whoever gets an answer gets the right one. Then the engine
is well again, and within a bounded time so is Tally: writes are acknowledged, what was open is
settled, and the journals, the nodes and PostgreSQL agree to the last like (agreement.py), also about
an item and a counter that are spread over shards; and the server's own recount finds no drift.

All cells take some fifteen minutes: they are part of `make soak`. `make test` has QUICK, always the
same ones: each engine, and the faults that have found the most."""

import argparse
import contextlib
import http.client
import sys
import threading
import time

import agreement
import deployment
import tallyd
import web
from journal import Journal, Writer
from servers import KAFKA_PRODUCE

TARGETS = ["primary", "redis", "broker", "postgres"]
FAULTS = ["absent", "killed", "paused", "slow", "reset", "lost", "emptied", "failover"]
CELLS = [(target, fault) for fault in FAULTS for target in TARGETS] + [("redis", "weak")]

WRITERS = 3
ITEMS = 4
BEFORE = 1000  # acknowledged writes before the fault
AFTER = 500  # after it, until all is taken to be well again
WELL_WITHIN_S = 120
LOST_WITHIN_S = 60
LOSE = {"primary": "EVALSHA", "redis": "EVALSHA", "broker": KAFKA_PRODUCE, "postgres": "COMMIT"}
BIG = 2 ** 53 + 1
CROWD = 50
SHARDS = 8  # of the first item and counter

# While the store is away or slow, what is hot is written as before: nobody waits for it to end.
UNNOTICED = [("postgres", "paused"), ("postgres", "slow")]
UNNOTICED_PAUSE_S = 12
UNNOTICED_S = 9


# PostgreSQL first: once Redis has lost its keys, those of writers are asked for there.
QUICK = [("postgres", "paused"), ("primary", "failover"), ("redis", "weak"), ("broker", "lost"),
         ("broker", "killed")]


# --- what is done to an engine --------------------------------------------------------------------


class Target:
    """The engine of a cell, and how to hurt it."""

    def __init__(self, tally, name, pause_s):
        self.tally = tally
        self.name = name
        self.pause_s = pause_s
        self.lose = "XADD|EVALSHA" if name == "broker" and tally.stream else LOSE[name]
        self.engines = self._find()

    def _find(self):
        if self.name == "primary":
            return [self.tally.cluster.owner(0)]
        if self.name == "redis":
            return self.tally.cluster.nodes
        if self.name == "broker" and self.tally.stream:
            return [self.tally.stream]
        if self.name == "broker":
            leader = self.tally.kafka.leader(deployment.TOPIC, 0)
            return [leader or self.tally.kafka.brokers[0]]
        return [self.tally.writable_postgres()]

    def proxies(self):
        if self.name == "broker" and self.tally.stream:
            return [self.tally.stream_proxy]
        if self.name != "postgres":
            return [engine.proxy for engine in self.engines]
        is_first = self.engines[0] is self.tally.postgres
        return [self.tally.postgres_proxy if is_first else self.tally.standby_proxy]

    def each(self, method, *args, **options):
        for engine in self.engines:
            getattr(engine, method)(*args, **options)

    def set_network(self, **faults):
        for proxy in self.proxies():
            proxy.set(**faults)

    # The faults. Each returns when the engine is well again, or will soon be by itself.

    def killed(self):
        self.each("kill")
        time.sleep(self.pause_s / 2)
        self.start()

    def paused(self):
        self.each("pause")
        time.sleep(self.pause_s)
        self.each("resume")

    def slow(self):
        self.set_network(delay_ms=500)
        time.sleep(self.pause_s)

    def reset(self):
        for _ in range(5):
            for proxy in self.proxies():
                proxy.reset_all()
            time.sleep(self.pause_s / 10)
        self.set_network(reset_after=20000)
        time.sleep(self.pause_s / 2)

    def lost(self):
        self.set_network(lose=self.lose, lose_every=3)
        time.sleep(self.pause_s)
        tallyd.wait_until(
            lambda: sum(proxy.count().get("lost", 0) for proxy in self.proxies()), LOST_WITHIN_S,
            "a reply that was lost")

    def emptied(self):
        self.each("kill")
        self.each("empty")
        self.start()
        if self.name == "postgres":
            self._other_postgres().follow(self.engines[0])

    def weak(self):
        """What only Redis had is gone; whoever sends it again counts once."""
        logs = ([broker.proxy for broker in self.tally.kafka.brokers] if self.tally.kafka
                else [self.tally.stream_proxy])
        for proxy in logs:
            proxy.set(hole=True)
        time.sleep(self.pause_s)
        self.emptied()
        for proxy in logs:
            proxy.clear()

    def failover(self):
        getattr(self, f"failover_of_{self.name}")()

    def failover_of_primary(self):
        self.each("kill")
        self.tally.cluster.wait_whole()

    def failover_of_redis(self):
        for primary in self.tally.cluster.primaries():
            self.tally.cluster.failover(primary, force=True)

    def failover_of_broker(self):
        self.each("stop")
        time.sleep(self.pause_s)

    def failover_of_postgres(self):
        """The standby may be behind: what it has not heard of is gone."""
        old, = self.engines
        new = self._other_postgres()
        old.kill()
        new.promote()
        time.sleep(self.pause_s / 2)
        old.follow(new)

    def _other_postgres(self):
        is_first = self.engines[0] is self.tally.postgres
        return self.tally.standby if is_first else self.tally.postgres

    def start(self):
        for engine in self.engines:
            engine.start(wait=False)
        for engine in self.engines:
            engine.wait_ready()


# --- who watches ----------------------------------------------------------------------------------


class Reader:
    """Reads what nobody changes, all the time, on all nodes: an answer is right or is none."""

    def __init__(self, tally, item, counter):
        self.tally = tally
        self.item = item
        self.counter = counter
        self.answers = self.stale = self.refusals = 0
        self.wrong = []
        self.is_told_to_stop = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_told_to_stop.set()
        self.thread.join()

    def _work(self):
        while not self.is_told_to_stop.wait(0.05):
            for node in self.tally.serving:
                self.look(node, f"/v1/items/{self.item}", lambda found: found["counts"]["like"],
                          str(CROWD))
                self.look(node, f"/v1/counters/{self.counter}", lambda found: found["value"],
                          str(BIG))

    def look(self, node, path, pick, want):
        try:
            with contextlib.closing(web.Web(node.http_port)) as client:
                answer = client.get(path)
        except (OSError, http.client.HTTPException):
            self.refusals += 1
            return
        if answer.status != 200:
            self.refusals += 1
            if answer.status not in (429, 503):
                self.wrong.append(f"{path}: {answer.status} {answer.body}")
            return
        self.answers += 1
        self.stale += bool(answer.json.get("stale"))
        if pick(answer.json) != want and not answer.json.get("shards_missing"):
            self.wrong.append(f"{path}: {answer.body} instead of {want}")


class Matrix(deployment.Case):
    cells = CELLS
    pause_s = 5.0
    brokers = 3

    def test_nothing_acknowledged_is_lost_and_nothing_counts_twice(self):
        self.tally = self.deploy("--ack-timeout", "1s", "--flush-interval", "200ms",
                                 brokers=self.brokers, standby=True, proxied=True,
                                 appendonly=True, appendfsync="everysec")
        for number, (target, fault) in enumerate(self.cells):
            with self.subTest(f"{target}:{fault}"):
                self.live_through(f"m{number}-{target}-{fault}", target, fault)

    def live_through(self, name, target, fault):
        begin = time.monotonic()
        journal = Journal([Writer(f"{name}-w{i}", self.tally.serving,
                                  [f"{name}-item{n}" for n in range(ITEMS)],
                                  [f"{name}-sum{n}" for n in range(2)], pace_s=0.01)
                           for i in range(WRITERS)])
        self.make_monument(name)
        self.spread(name)
        try:
            with Reader(self.tally, f"{name}-monument", f"{name}-monument-sum") as reader:
                journal.start()
                journal.wait_acknowledged(BEFORE)
                self.hurt(target, fault)
                healed = time.monotonic()
                journal.wait_acknowledged(AFTER, WELL_WITHIN_S)
                self.tally.wait_ready(WELL_WITHIN_S)
                well_s = time.monotonic() - healed
                journal.stop()
                journal.settle()
            self.assertEqual(reader.wrong[:3], [])
            agreement.check(self.tally, journal)
            agreement.check_proved(self.tally.serving[0], f"{name}*")
            if (target, fault) in UNNOTICED:
                self.assertLess(journal.longest_s(), UNNOTICED_S)
        finally:
            for writer in journal.writers:
                writer.is_told_to_stop.set()
            self.tally.heal()
            print(f"{target}:{fault} {time.monotonic() - begin:.1f} s, {dict(journal.counts())}, "
                  f"reads {reader.answers} ({reader.stale} stale) and {reader.refusals} refused",
                  file=sys.stderr, flush=True)
        print(f"{target}:{fault} well after {well_s:.1f} s, writers waited {journal.longest_s():.1f}"
              " s at most", file=sys.stderr, flush=True)

    def make_monument(self, name):
        """An item and a counter that nobody changes from now on."""
        with self.tally.serving[0].connect() as client:
            for i in range(CROWD):
                tallyd.insist(client, "LIKE", f"{name}-monument", f"user{i}")
            tallyd.insist(client, "COUNTER.ADD", f"{name}-monument-sum", BIG, "ID", "monument")

    def spread(self, name):
        with self.tally.serving[0].connect() as client:
            tallyd.insist(client, "COUNTER.CREATE", f"{name}-item0/like", "SHARDS", SHARDS)
            tallyd.insist(client, "COUNTER.CREATE", f"{name}-sum0", "SHARDS", SHARDS, "POLICY",
                          "round-robin")

    def hurt(self, target, fault):
        if fault == "absent":
            self.start_without(target)
        else:
            least_s = UNNOTICED_PAUSE_S if (target, fault) in UNNOTICED else 0
            getattr(Target(self.tally, target, max(self.pause_s, least_s)), fault)()
        self.tally.heal()

    def start_without(self, target):
        """The nodes are started while the engine is down."""
        missing = Target(self.tally, target, self.pause_s)
        for node in self.tally.nodes:
            node.kill()
        missing.each("kill")
        for node in self.tally.nodes:
            node.spawn()
        time.sleep(self.pause_s)
        for node in self.tally.nodes:
            self.assertTrue(node.is_running(), f"{node.role} has given up: {node.messages()[-2000:]}")
        missing.start()


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", help="these: target:fault,...")
    parser.add_argument("--pause", type=float, default=5.0, help="how long an engine is stopped")
    parser.add_argument("--stream", action="store_true", help="the log is in Redis Streams")
    return parser.parse_args(words)


if __name__ == "__main__":
    options = parse(sys.argv[1:])
    Matrix.pause_s = options.pause
    if options.only:
        Matrix.cells = [tuple(cell.split(":")) for cell in options.only.split(",")]
    elif not options.all:
        Matrix.cells = QUICK
    if options.stream:
        Matrix.brokers = 0
        Matrix.cells = [cell for cell in Matrix.cells
                        if cell not in (("broker", "emptied"), ("broker", "failover"))]
    print(f"--only {','.join(':'.join(cell) for cell in Matrix.cells)}", file=sys.stderr)
    sys.argv[1:] = []
    tallyd.main()
