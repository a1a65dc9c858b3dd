"""rows - the lines of the speed table: what is compared with what, and what is asked of it.

A row gives figures. Each has our text and the peer's, a value, and the limits that the value is held against. Rows of
speed name the Runs they need, so that rows can share them; all other rows measure by themselves.
"""

from dataclasses import dataclass, field
from statistics import median
from typing import Callable, Optional

from lab import REFERENCE, Run
from peers import is_ours

USER_SPREAD = 100_000_000  # numeric users are scattered over so many ids, as in life
PAGE_NOISE_BYTES = 0.5  # a difference below it is the allocator's and not a dictionary's


@dataclass
class Figure:
    ours: str = "-"
    theirs: str = "-"
    value: Optional[float] = None
    must: Optional[float] = None
    aim: Optional[float] = None
    unit: str = "x"
    more_is_better: bool = True

    def verdict(self):
        if self.value is None:
            return "not measured"
        if self.must is None:
            return "for reference"
        if self.reaches(self.aim):
            return "aim"
        return "met" if self.reaches(self.must) else "MISSED"

    def reaches(self, limit):
        shown = round(self.value, 2)  # what a reader sees is what is judged
        return shown >= limit if self.more_is_better else shown <= limit


def rate(value):
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"


def rate_and_cpu(result):
    return f"{rate(result.requests_per_s)} ({result.cpu_us:.2f} µs)" if result else "-"


# --- rows of speed ---


@dataclass(frozen=True)
class Cell:
    ours: Run
    theirs: Run
    must: Optional[float] = None
    aim: Optional[float] = None

    def throughput(self, results):
        ours, theirs = results.get(self.ours), results.get(self.theirs)
        ratio = ours.requests_per_s / theirs.requests_per_s if ours and theirs else None
        return Figure(rate_and_cpu(ours), rate_and_cpu(theirs), ratio, self.must, self.aim)

    def cpu(self, results):
        ours, theirs = results.get(self.ours), results.get(self.theirs)
        ratio = ours.cpu_us / theirs.cpu_us if ours and theirs else None
        text = ["-" if result is None else f"{result.cpu_us:.2f} µs" for result in (ours, theirs)]
        return Figure(*text, ratio, self.must, self.aim, more_is_better=False)


@dataclass(frozen=True)
class SpeedRow:
    name: str
    work: str
    against: str
    cells: tuple
    figure: Callable = Cell.throughput

    def runs(self):
        return [run for cell in self.cells for run in (cell.ours, cell.theirs)]

    def figures(self, results):
        return [self.figure(cell, results) for cell in self.cells]


@dataclass(frozen=True)
class FallRow:
    """How much of its throughput a server keeps when there are many counters, against what Redis keeps."""

    name: str
    work: str
    against: str
    few: Cell
    many: Cell

    def runs(self):
        return [self.few.ours, self.few.theirs, self.many.ours, self.many.theirs]

    def figures(self, results):
        def kept(few, many):
            if few not in results or many not in results:
                return None
            return results[many].requests_per_s / results[few].requests_per_s

        ours, theirs = kept(self.few.ours, self.many.ours), kept(self.few.theirs, self.many.theirs)
        text = ["-" if part is None else f"keeps {part:.2f}" for part in (ours, theirs)]
        return [Figure(*text, ours / theirs if ours and theirs else None, 1.0, 1.0)]


def cells(ours, theirs, pipelines, musts, aims, connections=50, keys=0, client="own"):
    """One cell for each depth; `ours` and `theirs` are (server, work)."""
    made = []
    for pipeline, must, aim in zip(pipelines, musts, aims):
        runs = [Run(server, work, pipeline, connections, keys, client) for server, work in (ours, theirs)]
        made.append(Cell(*runs, must, aim))
    return tuple(made)


INCR, LIKE = ("tallyd", "incr-hot"), ("tallyd", "like-new")
REDIS_INCR, REDIS_SCRIPT, REDIS_SADD = ("redis", "incr-hot"), ("redis", "evalsha-like-new"), ("redis", "sadd-new")
RANDOM, REDIS_RANDOM = ("tallyd", "incr-random"), ("redis", "incr-random")
NO_LIMITS = (None, None, None)


def speed_rows(settings):
    few, many = 1_000, settings.many_keys
    return [
        SpeedRow("incr", "INCR one key, 50 connections, pipeline 1 / 16 / 64", "Redis, no persistence",
                 cells(INCR, REDIS_INCR, (1, 16, 64), (0.55, 0.85, 2), (0.8, 1.05, 3))),
        SpeedRow("incr-500", "INCR one key, 500 connections, pipeline 1 / 16", "Redis, no persistence",
                 cells(INCR, REDIS_INCR, (1, 16), (0.85, 1.2), (1, 1.5), connections=500)),
        SpeedRow("incr-always", "INCR one key, 50 connections, pipeline 1 / 16 / 64", "Redis, appendfsync always",
                 cells(INCR, ("redis-always", "incr-hot"), (1, 16, 64), (1, 1.8, 3.5), (1.3, 2.4, 5))),
        SpeedRow("incr-random", "INCR of a million random keys, pipeline 16 / 64", "Redis, no persistence",
                 cells(RANDOM, REDIS_RANDOM, (16, 64), (0.9, 1.5), (1.3, 2.2), keys=1_000_000)),
        SpeedRow("like-script", "LIKE by new users, pipeline 1 / 16 / 64", "Lua script in Redis, no persistence",
                 cells(LIKE, REDIS_SCRIPT, (1, 16, 64), (0.7, 3.5, 9), (0.9, 5, 13))),
        SpeedRow("like-sadd", "LIKE by new users, pipeline 16 / 64", "SADD in Redis, no persistence",
                 cells(LIKE, REDIS_SADD, (16, 64), (1.2, 2.4), (1.6, 3.9))),
        SpeedRow("durable", "INCR one key, durable, 500 connections, pipeline 16", "ours with `--ack memory`",
                 cells(INCR, ("tallyd-memory", "incr-hot"), (16,), (0.75,), (0.85,), connections=500)),
        SpeedRow("store-incr", "INCR one key with the store behind it, pipeline 1 / 16 / 64", "ours with `--store none`",
                 cells(INCR, ("tallyd-log", "incr-hot"), (1, 16, 64), (0.85,) * 3, (0.95,) * 3)),
        SpeedRow("store-like", "LIKE by new users with the store behind it, pipeline 1 / 16 / 64",
                 "ours with `--store none`",
                 cells(LIKE, ("tallyd-log", "like-new"), (1, 16, 64), (0.85,) * 3, (0.95,) * 3)),
        SpeedRow("cpu", "server CPU per request, pipeline 16: INCR / LIKE", "Redis INCR / the Lua script",
                 cells(INCR, REDIS_INCR, (16,), (0.85,), (0.65,))
                 + cells(LIKE, REDIS_SCRIPT, (16,), (0.25,), (0.17,)), figure=Cell.cpu),
        SpeedRow("get", "GET of a 64-shard counter, pipeline 16", "our GET of a 1-shard one / Redis MGET of 64",
                 cells(("tallyd", "GET hot64"), ("tallyd", "get"), (16,), (0.9,), (1,))
                 + cells(("tallyd", "GET hot64"), ("redis", "mget64"), (16,), (10,), (20,))),
        FallRow("many", f"INCR of random keys, pipeline 16, from {few:,} to {many:,} counters", "what Redis keeps",
                *(cells(RANDOM, REDIS_RANDOM, (16,), *[(1,)] * 2, keys=keys)[0] for keys in (few, many))),
        SpeedRow("reference-incr", "redis-benchmark: INCR one key, pipeline 1 / 16 / 64", "Redis, no persistence",
                 cells(INCR, REDIS_INCR, (1, 16, 64), NO_LIMITS, NO_LIMITS, client=REFERENCE)),
        SpeedRow("reference-like", "redis-benchmark: LIKE by new users, pipeline 1 / 16 / 64",
                 "Lua script in Redis, no persistence",
                 cells(LIKE, REDIS_SCRIPT, (1, 16, 64), NO_LIMITS, NO_LIMITS, client=REFERENCE)),
        SpeedRow("reference-sadd", "redis-benchmark: LIKE by new users, pipeline 16 / 64",
                 "SADD in Redis, no persistence",
                 cells(LIKE, REDIS_SADD, (16, 64), NO_LIMITS, NO_LIMITS, client=REFERENCE)),
    ]


def before_rows():
    """The same work on an earlier version: what has become of its speed."""
    before = "an earlier version"
    depths, musts, aims = (1, 16, 64), (0.85,) * 3, (0.95,) * 3
    return [SpeedRow("before-incr", "INCR one key, pipeline 1 / 16 / 64", before,
                     cells(INCR, ("tallyd-before", "incr-hot"), depths, musts, aims)),
            SpeedRow("before-like", "LIKE by new users, pipeline 1 / 16 / 64", before,
                     cells(LIKE, ("tallyd-before", "like-new"), depths, musts, aims))]


# --- rows that measure by themselves ---


@dataclass(frozen=True)
class OtherRow:
    name: str
    work: str
    against: str
    measure: Callable = field(repr=False)  # Lab, sides -> Figures


@dataclass(frozen=True)
class Sides:
    """Which servers are measured, where a row leaves the choice."""

    ours: bool
    peers: bool


def size_text(sizes):
    if sizes is None:
        return "-"
    by_account, resident = sizes
    return f"{resident:.1f} B resident" if by_account is None else f"{by_account:.1f} B (resident {resident:.1f})"


def size_of(sizes):
    """The server's own account where it keeps one: the resident size has the buffers of the load in it."""
    if sizes is None:
        return None
    return sizes[0] if sizes[0] is not None else sizes[1]


def on_warm_server(lab, kind, measure):
    """measure(server) on a new server whose buffers have been used already."""
    server = lab.start(kind)
    try:
        lab.load(server, "incr-hot", requests=500_000)
        return measure(server)
    finally:
        lab.end(server)


def measure_likes(lab, sides):
    figures = []
    for shape, likes, must, aim in lab.settings.like_shapes:

        def measure(server):
            work = f"{'like' if is_ours(server.kind) else 'sadd'}-{shape}"
            return lab.bytes_each(server, work, likes, spread=USER_SPREAD, items=max(1, likes // 10))

        ours = on_warm_server(lab, "tallyd", measure) if sides.ours else None
        theirs = on_warm_server(lab, "redis", measure) if sides.peers else None
        figures.append(Figure(size_text(ours), size_text(theirs), size_of(ours), must, aim, " B", False))
    return figures


def measure_dictionary(lab, sides):
    """The same users like two items. The second time they are known: the difference is what knowing them costs."""
    figures = []
    for user, must, aim in (("{user}", 0, 0), ("550e8400-e29b-41d4-a716-{seq}", 48, 36)):

        def measure(server):
            first, second = (size_of(lab.bytes_each(server, f"LIKE {item} {user}", lab.settings.dictionary_users))
                             for item in ("video1", "video2"))
            return first - second

        if not sides.ours:
            figures.append(Figure())
            continue
        cost = on_warm_server(lab, "tallyd", measure)
        counted = 0 if cost < PAGE_NOISE_BYTES else cost
        figures.append(Figure(f"{cost:.1f} B", "-", counted, must, aim, " B", False))
    return figures


def measure_cold(lab, sides):
    def measure(server):
        return lab.bytes_each(server, "incr-new", lab.settings.cold_counters)

    ours = on_warm_server(lab, "tallyd", measure) if sides.ours else None
    theirs = on_warm_server(lab, "redis", measure)
    ratio = size_of(ours) / size_of(theirs) if ours else None
    return [Figure(size_text(ours), size_text(theirs), ratio, 0.8, 0.5, "x", False)]


def measure_instructions(lab, sides):
    figures = []
    for ours_work, peer_works, must, aim in (("incr-hot", ("incr-hot",), 1300, 700),
                                             ("like-new", ("evalsha-like-new", "sadd-new"), 2000, 1200)):
        ours = lab.instructions("tallyd-log", ours_work) if sides.ours else None  # serving, not storing
        theirs = [f"{lab.instructions('redis', work):,.0f}" for work in peer_works] if sides.peers else ["-"]
        figures.append(Figure("-" if ours is None else f"{ours:,.0f}", ", ".join(theirs), ours, must, aim, "", False))
    return figures


def measure_restart(lab, sides):
    likes = lab.settings.restart_likes
    ours = lab.restart_seconds("tallyd", "like-new", likes, ("GET", "video1/like")) if sides.ours else None
    theirs = lab.restart_seconds("redis-everysec", "sadd-new", likes, ("SCARD", "video1"))
    return [Figure("-" if ours is None else f"{ours:.2f} s", f"{theirs:.2f} s", theirs / ours if ours else None, 3, 10)]


def measure_workers(lab, sides):
    """One worker and two take turns; the medians are compared."""
    if not sides.ours:
        return [Figure()]
    figures = []
    for work in ("incr-hot", "incr-random", "like-new"):
        rates = {1: [], 2: []}
        for _ in range(lab.settings.rounds):
            for workers, measured in rates.items():
                measured.append(lab.engine(work, workers))
        two, one = median(rates[2]), median(rates[1])
        figures.append(Figure(rate(two), rate(one), two / one, 1, 1.5))
    return figures


def other_rows(settings):
    shapes = " / ".join(f"{likes:,} {'on one item' if shape == 'numeric' else 'on items with 10 each'}"
                        for shape, likes, _, _ in settings.like_shapes)
    return [
        OtherRow("instructions", "user instructions per request with `--store none`, pipeline 16: INCR / LIKE",
                 "Redis INCR / Lua script, SADD", measure_instructions),
        OtherRow("like-memory", f"memory per like: {shapes}", "Redis SET", measure_likes),
        OtherRow("dictionary", "dictionary per user: decimal ids / UUIDs", "(Redis pays for each like)",
                 measure_dictionary),
        OtherRow("cold", f"memory per cold counter with a 16-byte id, {settings.cold_counters:,} of them",
                 "Redis string key", measure_cold),
        OtherRow("workers", "two workers on two cores, no network: INCR one key / a million keys / LIKE by new users",
                 "one worker", measure_workers),
        OtherRow("restart", f"restart with {settings.restart_likes:,} likes in the log",
                 "Redis loading its AOF of the same SADDs", measure_restart),
    ]
