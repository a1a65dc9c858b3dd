"""peers - starts, watches and ends the servers that are compared.

A server gets a free loopback port, a data directory of its own and the first core; clients get the last one. CPU time
comes from the scheduler's own accounting of the process's threads, which does not depend on how fast a client is.
"""

import os
import shutil
import signal
import socket
import subprocess
import time

START_LIMIT_S = 120
STOP_LIMIT_S = 60
NICE = -10

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, CLIENT_CORE = CORES[0], CORES[-1]

REDIS_FLAGS = {
    "redis": ["--appendonly", "no"],
    "redis-always": ["--appendonly", "yes", "--appendfsync", "always"],
    "redis-everysec": ["--appendonly", "yes", "--appendfsync", "everysec"],
}
TALLY_FLAGS = {
    "tallyd": ["--ack", "durable"],
    "tallyd-memory": ["--ack", "memory"],
    "tallyd-log": ["--store", "none"],
    "tallyd-free": [],  # on all cores
    "tallyd-before": [],
}
TITLES = {
    "redis": "Redis, no persistence",
    "redis-always": "Redis, appendfsync always",
    "redis-everysec": "Redis, appendfsync everysec",
    "tallyd": "tallyd, durable",
    "tallyd-memory": "tallyd, --ack memory",
    "tallyd-log": "tallyd, --store none",
    "tallyd-free": "tallyd, on all cores",
    "tallyd-before": "tallyd, an earlier version",
}


def is_ours(kind):
    return kind in TALLY_FLAGS


class Failed(Exception):
    """A server or a client that did not do what it was started for."""


class ErrorReply(Exception):
    """What a server answered with a '-'."""


def pinned(core):
    """What a child does before it becomes its program. A better priority is taken where it is allowed."""

    def prepare():
        os.sched_setaffinity(0, {core})
        try:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
        except PermissionError:
            pass

    return prepare


class Client:
    """Just enough RESP to set a server up and to ask how it is."""

    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.input = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.input.close()
        self.socket.close()

    def call(self, *arguments):
        parts = [str(argument).encode() for argument in arguments]
        request = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.socket.sendall(b"*%d\r\n" % len(parts) + request)
        return self.read()

    def read(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        mark, rest = line[:1], line[1:-2].decode(errors="replace")
        if mark == b"-":
            raise ErrorReply(rest)
        if mark == b"+":
            return rest
        if mark == b":":
            return int(rest)
        if mark == b"$":
            return None if rest == "-1" else self.input.read(int(rest) + 2)[:-2].decode(errors="replace")
        if mark == b"*":
            return [self.read() for _ in range(int(rest))]
        raise ConnectionError(f"not RESP2: {line!r}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server of one of the kinds above. `wrapper` is a command to run it under, as valgrind."""

    def __init__(self, kind, programs, folder, wrapper=()):
        self.kind = kind
        self.folder = folder
        self.port = free_port()
        self.http_port = free_port()
        self.process = None
        self.command = [*wrapper, *self._own_command(programs)]
        os.makedirs(folder, exist_ok=True)

    def _own_command(self, programs):
        if self.kind == "tallyd-before":
            return [programs.tallyd_before, "--data", os.path.join(self.folder, "data"),
                    "--resp", f"127.0.0.1:{self.port}", "--workers", "1"]
        if is_ours(self.kind):
            return [programs.tallyd, "--http", f"127.0.0.1:{self.http_port}", "--data", os.path.join(self.folder, "data"),
                    "--resp", f"127.0.0.1:{self.port}", "--workers", "1", *TALLY_FLAGS[self.kind]]
        return [programs.redis_server, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
                "--save", "", "--auto-aof-rewrite-percentage", "0", *REDIS_FLAGS[self.kind]]

    def start(self):
        """Returns how many seconds it took until a PING was answered."""
        began = time.monotonic()
        prepare = None if self.kind == "tallyd-free" else pinned(SERVER_CORE)
        with open(os.path.join(self.folder, "output"), "ab") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            preexec_fn=prepare)
        while not self._answers():
            if self.process.poll() is not None:
                raise Failed(f"{self.kind} ended with {self.process.returncode}: {self.last_words()}")
            if time.monotonic() - began > START_LIMIT_S:
                raise Failed(f"{self.kind} did not answer a PING within {START_LIMIT_S} s")
            time.sleep(0.002)
        return time.monotonic() - began

    def _answers(self):
        try:
            return self.call("PING") == "PONG"
        except (OSError, ErrorReply):  # not listening yet, or still loading
            return False

    def call(self, *arguments):
        with Client(self.port) as client:
            return client.call(*arguments)

    def last_words(self):
        with open(os.path.join(self.folder, "output"), errors="replace") as output:
            return " | ".join(output.read().splitlines()[-3:])

    def cpu_ns(self):
        total = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat") as schedstat:
                total += int(schedstat.read().split()[0])
        return total

    def memory(self):
        """Bytes, as (what the server says it uses, or None; resident size)."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as rollup:
            resident = next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Rss:"))
        try:
            info = self.call("INFO", "memory") or ""
        except ErrorReply:
            info = ""
        used = [line.split(":")[1] for line in info.splitlines() if line.startswith("used_memory:")]
        return (int(used[0]) if used else None), resident

    def stop(self):
        """Asks it to end, and insists when it does not."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
