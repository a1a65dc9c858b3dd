"""nodes - the lines of the speed table about many nodes: tallyd over Redis, Kafka and PostgreSQL.

The servers are those of the tests (tests/servers), on free ports. The client has a core and goes first there, as in
the other lines; Redis, the serving node and the log share what is left of both, and so does the peer. tallyd has as
many workers as it has when nobody says otherwise. Aggregators, which are on other machines in life, are ended before
likes are measured: what they do has a line of its own.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from statistics import median

from lab import SCRIPT
from peers import Client, Failed, free_port
from rows import Figure, OtherRow, rate

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests"))

USER = "550e8400-e29b-41d4-a716-{seq}"  # a new one with each request
READY_WITHIN_S = 60
PIPELINES = (16, 64)
PEER_BATCH = 1_000
OUR_BATCH = 10_000  # what an aggregator gathers under load


def cpu_ns(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/{pid}/task/{task}/schedstat") as schedstat:
                total += int(schedstat.read().split()[0])
    return total


class Node:
    """tallyd over servers that are there."""

    def __init__(self, lab, role, hot, log, store, *flags):
        self.port, self.http_port = free_port(), free_port()
        self.output = os.path.join(lab.folder, f"node-{self.port}")
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [lab.programs.tallyd, "--role", role, "--hot", hot, "--log", log, "--store", store,
                 "--data", os.path.join(lab.folder, f"data-{self.port}"), "--resp", f"127.0.0.1:{self.port}",
                 "--http", f"127.0.0.1:{self.http_port}", *flags],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def wait(self):
        url = f"http://127.0.0.1:{self.http_port}/readyz"
        deadline = time.monotonic() + READY_WITHIN_S
        while subprocess.run(["curl", "-fsS", "-o", os.devnull, url], stderr=subprocess.DEVNULL).returncode != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                with open(self.output, errors="replace") as output:
                    raise Failed("tallyd is not ready: " + " | ".join(output.read().splitlines()[-3:]))
            time.sleep(0.05)

    def call(self, *words):
        with Client(self.port) as client:
            return client.call(*words)

    def end(self):
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def deployment(lab, with_kafka, *flags):
    """(the Redis that counts, a Redis for the script, the serving node, an aggregator)"""
    from servers import Kafka, Postgres, Redis

    with contextlib.ExitStack() as stack:
        hot, peer = stack.enter_context(Redis()), stack.enter_context(Redis())
        store = stack.enter_context(Postgres())
        if with_kafka:
            log = f"{stack.enter_context(Kafka()).url}/tally-bench"
        else:
            log = stack.enter_context(Redis()).url.replace("redis:", "redis-stream:")
        nodes = [Node(lab, role, hot.url, log, store.url, *flags) for role in ("serve", "aggregate")]
        for node in nodes:
            stack.callback(node.end)
        for node in nodes:
            node.wait()
        yield hot, peer, *nodes


def timed(lab, server, pids, work, pipeline, **options):
    """Requests a second, and µs of CPU of all these processes for each."""
    before = sum(map(cpu_ns, pids))
    got = lab.load(server, work, pipeline=pipeline, seconds=max(1.0, lab.settings.seconds), **options)
    return got["requests_per_s"], (sum(map(cpu_ns, pids)) - before) / 1000 / got["requests"]


class Peer:
    def __init__(self, redis):
        self.port = redis.port


def medians(results):
    return tuple(median(one[i] for one in results) for i in (0, 1))


def compared(ours, theirs, must, aim):
    text = [f"{rate(side[0])} ({side[1]:.2f} µs)" for side in (ours, theirs)]
    return Figure(*text, ours[0] / theirs[0], must, aim)


def likes(lab, hot, peer, node, must, aim):
    figures = []
    for pipeline in PIPELINES:
        sides = ([], [])
        for number in range(lab.settings.rounds):
            item = f"p{pipeline}n{number}"
            runs = [
                lambda: sides[0].append(timed(lab, node, (node.process.pid, hot.pid), f"LIKE {item} {USER}", pipeline)),
                lambda: sides[1].append(timed(lab, Peer(peer), (peer.pid,), f"EVALSHA {{sha}} 3 vlu:{item} vld:{item} "
                                              f"vc:{item}:37 {USER}", pipeline, script=SCRIPT)),
            ]
            node.call("LIKE", item, "somebody")  # it is there, as a post is before it is liked
            for run in runs if number % 2 == 0 else reversed(runs):
                run()
        figures.append(compared(*map(medians, sides), must, aim))
    return figures


def measure_likes_hot(lab, sides):
    if not sides.ours:
        return [Figure(), Figure()]
    with deployment(lab, False, "--ack", "hot") as (hot, peer, node, aggregator):
        aggregator.end()
        return likes(lab, hot, peer, node, 1.5, 3)


def measure_likes_log(lab, sides):
    if not sides.ours:
        return [Figure(), Figure()]
    with deployment(lab, True) as (hot, peer, node, aggregator):
        aggregator.end()
        return likes(lab, hot, peer, node, 0.7, 1.5)


def measure_reads(lab, sides):
    if not sides.ours:
        return [Figure(), Figure()]
    keys = [f"vc:v0:{shard}" for shard in range(64)]
    with deployment(lab, False) as (hot, peer, node, _):
        node.call("COUNTER.CREATE", "hot64", "SHARDS", 64)
        for _ in range(500):
            node.call("INCR", "hot64")
        with Client(peer.port) as client:
            for key in keys:
                client.call("INCRBY", key, 12345)
        figures = []
        for pipeline in PIPELINES:
            results = ([], [])
            for _ in range(lab.settings.rounds):
                results[0].append(timed(lab, node, (node.process.pid, hot.pid), "GET hot64", pipeline))
                results[1].append(timed(lab, Peer(peer), (peer.pid,), "MGET " + " ".join(keys), pipeline))
            figures.append(compared(*map(medians, results), 5, 15))
        return figures


# --- into PostgreSQL ---

COUNTERS = 100_000

PEER_TABLES = """
    CREATE TABLE counter (id text PRIMARY KEY, value bigint NOT NULL, updated timestamptz NOT NULL);
    CREATE TABLE item (id text PRIMARY KEY, like_count bigint NOT NULL);
    CREATE TABLE vote (item_id text NOT NULL, user_id text NOT NULL, created timestamptz NOT NULL,
                       PRIMARY KEY (item_id, user_id));"""
PEER_COUNTERS = ("INSERT INTO counter SELECT id, 1, now() FROM unnest(%s::text[]) id ON CONFLICT (id) DO UPDATE "
                 "SET value = counter.value + EXCLUDED.value, updated = EXCLUDED.updated")
PEER_LIKES = ("WITH new AS (INSERT INTO vote SELECT item, name, now() FROM unnest(%s::text[], %s::text[]) v(item, name) "
              "ON CONFLICT DO NOTHING RETURNING item_id) "
              "INSERT INTO item SELECT item_id, count(*) FROM new GROUP BY item_id ORDER BY item_id "
              "ON CONFLICT (id) DO UPDATE SET like_count = item.like_count + EXCLUDED.like_count")


def upsert_rate(postgres, rows, statement, columns):
    """Rows a second of the peer: a transaction for each batch; making the arrays is not counted."""
    connection = postgres.connect()
    seconds = 0.0
    with connection, connection.cursor() as cursor:
        for first in range(0, rows, PEER_BATCH):
            values = columns(range(first, first + PEER_BATCH))
            began = time.monotonic()
            cursor.execute(statement, values)
            connection.commit()
            seconds += time.monotonic() - began
    connection.close()
    return rows / seconds


def sink_rate(lab, url, rows, *flags):
    sink = os.path.join(os.path.dirname(lab.programs.load), "bench_sink")
    output = lab.client([sink, "--store", url, "--likes", rows, "--batch", OUR_BATCH, *flags])
    return float(re.search(r"([\d.]+) likes/s", output).group(1))


def flush_shapes(stored, rows):
    """(flags of the sink, the peer's statement, its columns, must, aim)"""
    def spread(numbers):
        return [f"video{number * 7919 % 1000}" for number in numbers], [str(number * 2654435761 % 2**31) for number in numbers]

    counters = (["--counters", COUNTERS, "--stored", COUNTERS], PEER_COUNTERS,
                lambda numbers: ([f"c{number % COUNTERS}" for number in numbers],), 1, 2)
    as_rows = (["--items", 1000, "--stored", stored], PEER_LIKES, spread, 1.2, 1.6)
    as_sets = (["--items", 1000, "--stored", stored, "--members", "sets"], PEER_LIKES, spread, 3, 8)
    return counters, as_rows, as_sets


def measure_flush(lab, sides):
    from servers import Postgres

    if not sides.ours:
        return [Figure()] * 3
    rows = lab.settings.stored_likes // 10
    figures = []
    for flags, statement, columns, must, aim in flush_shapes(rows, rows):
        ours, theirs = [], []
        for _ in range(min(3, lab.settings.rounds)):
            with Postgres() as postgres:
                ours.append(sink_rate(lab, postgres.url, rows, *flags))
            with Postgres() as postgres:
                postgres.query(PEER_TABLES)
                upsert_rate(postgres, min(rows, COUNTERS), statement, columns)  # as full as ours is
                theirs.append(upsert_rate(postgres, rows, statement,
                                          lambda numbers: columns([number + 10**7 for number in numbers])))
        figures.append(Figure(rate(median(ours)), rate(median(theirs)), median(ours) / median(theirs), must, aim))
    return figures


# --- shares of primaries ---


def measure_share(lab, sides):
    """Commands that the busiest of three primaries has had while one item of eight shards was liked."""
    from servers import Postgres, Redis, RedisCluster

    if not sides.ours:
        return [Figure()]
    with RedisCluster() as cluster, Redis() as stream, Postgres() as store:
        node = Node(lab, "all", cluster.url, stream.url.replace("redis:", "redis-stream:"), store.url, "--ack", "hot")
        try:
            node.wait()
            node.call("COUNTER.CREATE", "spread/like", "SHARDS", 8)
            lab.load(node, f"LIKE spread {USER}", pipeline=64, seconds=1)
            before = [members(primary) for primary in cluster.primaries()]
            lab.load(node, f"LIKE spread {USER}", pipeline=64, seconds=max(2, lab.settings.seconds), users=50_000_000)
            grown = [members(primary) - was for primary, was in zip(cluster.primaries(), before)]
        finally:
            node.end()
    share = max(grown) / sum(grown)
    return [Figure(" : ".join(f"{part / sum(grown):.3f}" for part in grown), "0.333", share * 3, 1.15, 1.05,
                   more_is_better=False)]


def members(primary):
    """How many likes it holds."""
    with Client(primary.port) as client:
        keys = client.call("KEYS", "*:m*:spread")
        return sum(client.call("HLEN", key) for key in keys)


def nodes_rows(settings):
    return [
        OtherRow("nodes-like", "over one Redis, ack hot: LIKE by new users, pipeline 16 / 64",
                 "the Lua script called directly", measure_likes_hot),
        OtherRow("nodes-like-log", "over one Redis and Kafka, ack log: LIKE by new users, pipeline 16 / 64",
                 "the Lua script called directly", measure_likes_log),
        OtherRow("nodes-read", "over one Redis: GET of a counter with 64 shards, pipeline 16 / 64", "MGET of 64 keys",
                 measure_reads),
        OtherRow("nodes-flush", "into PostgreSQL: distinct counters / likes with their rows / likes as sets, 1,000 items",
                 f"upsert by unnest in batches of {PEER_BATCH:,}", measure_flush),
        OtherRow("nodes-share", "share of the busiest of three primaries, an item of eight shards", "a third",
                 measure_share),
    ]
