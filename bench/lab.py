"""lab - makes single measurements: one server, one work, one client.

A Run says what is to be measured; Lab.measure() does it once. Runs of likes get a new server each time, because a set
that grows is another measurement; all others share one server for each kind and preparation.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

from peers import CLIENT_CORE, ErrorReply, Failed, Server, pinned

CLIENT_LIMIT_S = 300
WARM_UP_S = 0.2
FIRST_MEASURED_USER = 1_000_000_000
SETTLE_S = 1.5
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "like.lua")

OWN, REFERENCE = "own", "redis-benchmark"

# redis-benchmark's commands, and about how many of them a server answers in a second at each depth.
REFERENCE_USER = "550e8400-e29b-41d4-a716-__rand_int__"
REFERENCE_COMMANDS = {
    "incr-hot": ["INCR", "hot"],
    "like-new": ["LIKE", "video1", REFERENCE_USER],
    "sadd-new": ["SADD", "video1", REFERENCE_USER],
    "evalsha-like-new": ["EVALSHA", "{sha}", "3", "vlu:v0", "vld:v0", "vc:v0:37", REFERENCE_USER],
}
REFERENCE_RATES = {1: 100_000, 16: 1_000_000, 64: 2_000_000}
SCRIPT_RATE_LIMIT = 200_000


@dataclass(frozen=True)
class Run:
    server: str
    work: str
    pipeline: int
    connections: int = 50
    keys: int = 0
    client: str = OWN

    @property
    def likes(self):
        return "like" in self.work or "sadd" in self.work

    @property
    def group(self):
        """Runs of one group are compared with one another, so they run one after the other."""
        reads = "get" in self.work.lower()
        return (self.client, self.likes, reads, self.keys > 0, self.connections, self.pipeline)

    def __str__(self):
        keys = f" of {self.keys:,} keys" if self.keys else ""
        client = " (redis-benchmark)" if self.client == REFERENCE else ""
        return f"{self.server} {self.work}{keys}, {self.connections} connections, pipeline {self.pipeline}{client}"


@dataclass(frozen=True)
class Result:
    requests_per_s: float
    cpu_us: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float


def median_result(results):
    return Result(*(median(getattr(result, field) for result in results) for field in Result.__dataclass_fields__))


class Lab:
    def __init__(self, programs, settings, folder):
        self.programs = programs
        self.settings = settings
        self.folder = folder
        self.servers_made = 0
        self.kept = {}  # (kind, work, keys) -> Server that is set up for it
        self.running = []

    # --- servers ---

    def start(self, kind, wrapper=()):
        self.servers_made += 1
        server = Server(kind, self.programs, os.path.join(self.folder, f"{self.servers_made}-{kind}"), wrapper)
        self.running.append(server)
        server.start()
        return server

    def end(self, server):
        server.remove()
        self.running.remove(server)

    def close(self):
        for server in list(self.running):
            self.end(server)

    def _server_for(self, run):
        if run.likes:
            return self.start(run.server)
        needs = run.work if run.work in PREPARATIONS else ""
        key = (run.server, needs, run.keys)
        if key not in self.kept:
            server = self.start(run.server)
            if needs:
                PREPARATIONS[needs](self, server, run)
            self.kept[key] = server
        return self.kept[key]

    # --- clients ---

    def client(self, command, limit_s=CLIENT_LIMIT_S):
        """Runs a client on its core and returns what it printed."""
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=limit_s,
                                  preexec_fn=pinned(CLIENT_CORE))
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{command[0]} took longer than {limit_s} s") from error
        if done.returncode != 0:
            raise Failed((done.stderr or done.stdout).strip())
        return done.stdout

    def engine(self, work, workers):
        """Operations a second of the hot layer and the log in one process, without a network; on all cores."""
        folder = os.path.join(self.folder, f"engine-{work}-{workers}")
        done = subprocess.run([self.programs.engine, folder, work, str(workers), str(self.settings.seconds)],
                              capture_output=True, text=True, timeout=CLIENT_LIMIT_S)
        shutil.rmtree(folder, ignore_errors=True)
        if done.returncode != 0:
            raise Failed((done.stderr or done.stdout).strip())
        return float(re.search(r"ops_per_s=(\d+)", done.stdout).group(1))

    def load(self, server, work, pipeline=64, connections=50, **options):
        """Runs the load generator. `work` is one of its names, or a command; options are its own, as requests=1000."""
        command = [self.programs.load, "--json", "--port", server.port, "--pipeline", pipeline,
                   "--connections", connections]
        for name, value in options.items():
            command += [f"--{name}", value]
        if work.startswith("evalsha"):
            command += ["--script", SCRIPT]
        command += ["--work", "custom", work] if " " in work else ["--work", work]
        return json.loads(self.client(command))

    def _measure_own(self, server, run):
        options = {"pipeline": run.pipeline, "connections": run.connections}
        if run.keys:
            options["keys"] = run.keys
        self.load(server, run.work, seconds=WARM_UP_S, **options)
        before = server.cpu_ns()
        got = self.load(server, run.work, seconds=self.settings.seconds, users=FIRST_MEASURED_USER, **options)
        cpu_us = (server.cpu_ns() - before) / 1000 / got["requests"]
        return Result(got["requests_per_s"], cpu_us, got["p50_us"], got["p99_us"], got["p999_us"], got["max_us"])

    def _measure_reference(self, server, run):
        words = list(REFERENCE_COMMANDS[run.work])
        rate = REFERENCE_RATES[run.pipeline]
        if "{sha}" in words:
            with open(SCRIPT) as script:
                words[words.index("{sha}")] = server.call("SCRIPT", "LOAD", script.read())
            rate = min(rate, SCRIPT_RATE_LIMIT)
        requests = int(rate * self.settings.seconds)
        before = server.cpu_ns()
        output = self.client([self.programs.redis_benchmark, "-h", "127.0.0.1", "-p", server.port,
                              "-c", run.connections, "-n", requests, "-P", run.pipeline, "-r", 100_000_000,
                              "--csv", *words])
        cpu_us = (server.cpu_ns() - before) / 1000 / requests
        figures = list(csv.reader(output.splitlines()))[-1]
        rate, _, _, p50_ms, _, p99_ms, max_ms = (float(figure) for figure in figures[1:8])
        return Result(rate, cpu_us, p50_ms * 1000, p99_ms * 1000, float("nan"), max_ms * 1000)

    # --- measurements ---

    def measure(self, run):
        server = self._server_for(run)
        try:
            measure = self._measure_reference if run.client == REFERENCE else self._measure_own
            return measure(server, run)
        finally:
            if run.likes:
                self.end(server)

    def bytes_each(self, server, work, requests, **options):
        """How many bytes each of `requests` new things costs, as (by the server's account or None, resident)."""
        used_before, resident_before = server.memory()
        self.load(server, work, requests=requests, **options)
        time.sleep(SETTLE_S)
        used, resident = server.memory()
        by_account = None if used is None or used_before is None else (used - used_before) / requests
        return by_account, (resident - resident_before) / requests

    def instructions(self, kind, work):
        """User instructions of one request, by callgrind: the difference of two runs, so that start-up cancels out."""
        few, many = self.settings.callgrind_requests
        return (self._all_instructions(kind, work, many) - self._all_instructions(kind, work, few)) / (many - few)

    def _all_instructions(self, kind, work, requests):
        profile = os.path.join(self.folder, "callgrind.out")
        server = self.start(kind, ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={profile}"])
        try:
            self.load(server, work, pipeline=16, requests=requests)
            server.stop()
            with open(profile) as lines:
                return next(int(line.split()[1]) for line in lines if line.startswith(("summary:", "totals:")))
        finally:
            self.end(server)

    def restart_seconds(self, kind, work, likes, count_command):
        """Median of three restarts over a log of `likes` likes, which must all be there afterwards."""
        server = self.start(kind)
        try:
            self.load(server, work, requests=likes)
            times = []
            for _ in range(3):
                server.stop()
                times.append(server.start())
                found = int(server.call(*count_command) or 0)
                if found != likes:
                    raise Failed(f"{kind} has {found} likes after a restart, not {likes}")
            return median(times)
        finally:
            self.end(server)


def _fill_keys(lab, server, run):
    """Each key is made and then met about once more, so that a table that grows in steps has finished growing."""
    lab.load(server, "incr-new", requests=run.keys)
    lab.load(server, "incr-random", requests=run.keys, keys=run.keys)


def _make_hot(_lab, server, _run):
    server.call("INCR", "hot")


def _make_sharded(lab, server, _run):
    server.call("COUNTER.CREATE", "hot64", "SHARDS", 64)
    for _ in range(1000):
        server.call("INCR", "hot64")


def _make_64_keys(_lab, server, _run):
    for shard in range(64):
        server.call("INCRBY", f"vc:v0:{shard:02o}", 12345)


PREPARATIONS = {
    "incr-random": _fill_keys,
    "get": _make_hot,
    "GET hot64": _make_sharded,
    "mget64": _make_64_keys,
}


def measure_all(lab, runs, rounds):
    """Run -> its Results, one a round. Each group is walked forwards in one round and backwards in the next, so that a
    machine that slows down or speeds up favours nobody. What failed is left out, and said."""
    ordered = sorted(runs, key=lambda run: run.group)
    results, failures = {}, {}
    for number in range(rounds):
        for run in ordered if number % 2 == 0 else reversed(ordered):
            if run in failures:
                continue
            try:
                result = lab.measure(run)
            except (Failed, ErrorReply, OSError) as error:
                failures[run] = str(error)
                print(f"  {run}: FAILED: {error}", file=sys.stderr)
                continue
            results.setdefault(run, []).append(result)
            print(f"  {number + 1}/{rounds} {run}: {result.requests_per_s:,.0f}/s, {result.cpu_us:.2f} us",
                  file=sys.stderr)
    return results, failures
