"""tallyd.py - the harness of the system tests: the real program, in a folder of its own.

    class Counting(tallyd.Case):
        def test_an_increment_survives_a_kill(self):
            server = self.server("--workers", "2")
            with server.connect() as client:
                client.call("INCR", "views")
            server.kill()
            server.start()
            ...

Every server that a case makes is ended, by its pid, when the case is over, and its folder removed;
when the case fails, what the server said is shown. A case that cannot run here says why and is
skipped, which is a failure where CI=true: there everything has to run.

The program is $TALLYD, or build/tallyd."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("TALLYD", os.path.join(ROOT, "build", "tallyd")))

PATIENCE = 5  # how much longer than usual a condition may take on a busy machine
READY_WITHIN_S = 120
STOP_WITHIN_S = 10  # what tallyd promises
REPLY_WITHIN_S = 60

# Ends with whoever started it, even if that is killed and cannot clean up.
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def seed_of_run():
    """Of tests that draw lots. Always the same, so that a commit that passes today passes tomorrow;
    soaks set one that nobody has run."""
    return int(os.environ.get("TALLY_SEED", "1"))


# --- the protocol, just enough of it --------------------------------------------------------------


class ReplyError(Exception):
    """An error that the server answered; its word is the first of the text: ERR, MISCONF, ..."""

    @property
    def word(self):
        return str(self).split(" ", 1)[0]


class Push(list):
    """A message of RESP3 that nobody asked for."""


def encode(*args):
    """A command as it goes over the wire."""
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        data = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


def pairs(flat):
    """A dictionary of a flat list, as RESP2 sends maps."""
    return dict(zip(flat[::2], flat[1::2]))


class Wire:
    """A connection, and its bytes."""

    def __init__(self, port, host="127.0.0.1", timeout_s=REPLY_WITHIN_S):
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()

    def send_bytes(self, data):
        self.socket.sendall(data)


class Connection(Wire):
    """A raw client that keeps sending apart from receiving, for pipelines and for journals.

    The end of the connection is a ConnectionError, however it comes about."""

    def send(self, *commands):
        """Sends commands, each a sequence of words, in one write."""
        self.send_bytes(b"".join(encode(*command) for command in commands))

    def call(self, *args):
        """Sends one command and returns its answer; raises ReplyError if that is an error."""
        self.send(args)
        reply = self.read()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def pipeline(self, commands):
        """Sends them all at once and returns all answers, errors among them."""
        self.send(*commands)
        return [self.read() for _ in commands]

    def read(self):
        """One answer; an error is returned, not raised."""
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode("utf-8", "surrogateescape")
        if kind == b"-":
            return ReplyError(rest.decode("utf-8", "surrogateescape"))
        if kind in b":(":
            return int(rest)
        if kind in b"$=":
            return self._bulk(int(rest))
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind in b"*~>":
            items = None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
            return Push(items) if kind == b">" else items
        raise AssertionError(f"no reply begins with {line!r}")

    def is_closed(self):
        """Does the server end the connection, once all it has sent is read?"""
        try:
            while self.stream.read(1 << 16):
                pass
        except ConnectionError:
            pass
        except socket.timeout:
            return False
        return True

    def _line(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        return line[:-2]

    def _bulk(self, size):
        if size < 0:
            return None
        data = self.stream.read(size + 2)
        if len(data) < size + 2:
            raise ConnectionError("the server closed the connection")
        return data[:-2].decode("utf-8", "surrogateescape")


# --- the program ----------------------------------------------------------------------------------


def environment(extra=None):
    """Ours without settings of tallyd, so that a case has only those it names."""
    result = {k: v for k, v in os.environ.items() if not k.startswith(("TALLY_", "NOTIFY_"))}
    result.update(extra or {})
    return result


def run_program(*flags, env=None):
    """Runs tallyd for one of its short errands; the result has returncode, stdout and stderr."""
    return subprocess.run([PROGRAM, *flags], env=environment(env), capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)


class StartError(AssertionError):
    """tallyd ended before it was ready."""


class Server:
    """A tallyd on a port of its own choice, and its data folder."""

    def __init__(self, *flags, data=None, env=None, under=(), resp="127.0.0.1:0",
                 http="127.0.0.1:0", program=PROGRAM):
        """`under` is a command to run it under, such as strace and its flags; `http` may be off."""
        self.home = tempfile.mkdtemp(prefix="tally-test-")
        self.data = data or os.path.join(self.home, "data")
        self.flags = list(flags)
        self.program = program
        self.env = env or {}
        self.under = list(under)
        self.resp = resp
        self.http = http
        self.port = None
        self.http_port = None
        self.pid = None  # of tallyd itself, not of what it runs under
        self.process = None
        self.starts = 0
        self.said = ""  # by those that have ended

    def start(self):
        """Starts it and waits until it listens."""
        self.spawn()
        try:
            found = self.wait_message(r"listening door=resp address=\S*:(\d+)", READY_WITHIN_S)
            if self.http != "off":
                web = self.wait_message(r"listening door=http address=\S*:(\d+)", READY_WITHIN_S)
                self.http_port = int(web.group(1))
        except AssertionError as error:
            self.kill()
            raise StartError(str(error)) from None
        self.port = int(found.group(1))
        return self

    def spawn(self):
        """Starts it without waiting for anything but its first words."""
        assert self.process is None, "it runs already"
        self.starts += 1
        web = [] if "--http" in self.flags else ["--http", self.http]
        command = [self.program, "--data", self.data, "--resp", self.resp, *web, *self.flags]
        if self.under:
            command = [*self.under, *WITH_PARENT, *command]
        command = [*WITH_PARENT, *command]
        with open(self._stderr_path(), "wb") as stderr:
            self.process = subprocess.Popen(command, env=environment(self.env), stderr=stderr,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        if self.under:
            self.pid = int(self.wait_message(r" pid=(\d+)", READY_WITHIN_S).group(1))

    def start_fails(self):
        """Starts it, expecting that it does not come up; returns its exit code."""
        self.spawn()
        return self.wait()

    def connect(self, **options):
        return Connection(self.port, **options)

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """What a crash is like: no time to do anything."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.wait()

    def stop(self):
        """Asks it to end and returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(STOP_WITHIN_S + 50)

    def wait(self, timeout_s=60):
        """Waits until it has ended by itself; returns the exit code."""
        code = self.process.wait(timeout_s)
        self.said += self._read_stderr()
        self.process = None
        return code

    def messages(self):
        """All that it has said, in all its lives."""
        return self.said + (self._read_stderr() if self.process else "")

    def wait_message(self, pattern, timeout_s=10):
        """Waits until this life has said something that matches; returns the match."""
        deadline = time.monotonic() + PATIENCE * timeout_s
        while True:
            ended = self.process.poll() is not None
            text = self._read_stderr()
            found = re.search(pattern, text)
            if found:
                return found
            if ended or time.monotonic() > deadline:
                why = f"it ended with {self.process.returncode}" if ended else "it did not say so"
                raise AssertionError(f"waited for {pattern!r}: {why}; it said:\n{text}")
            time.sleep(0.005)

    def remove(self):
        """Ends it and takes its folder away."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def segments(self):
        """The paths of the log's segments, in order."""
        folder = os.path.join(self.data, "log")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
                if re.fullmatch(r"\d+\.log", name)]

    def _stderr_path(self):
        return os.path.join(self.home, f"stderr.{self.starts}")

    def _read_stderr(self):
        with open(self._stderr_path(), encoding="utf-8", errors="replace") as file:
            return file.read()


# --- cases ----------------------------------------------------------------------------------------


def wait_until(is_true, timeout_s, what):
    """Polls until `is_true()` is, and returns what it returned. A busy machine has several times as long."""
    deadline = time.monotonic() + PATIENCE * timeout_s
    while True:
        result = is_true()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE * timeout_s} s")
        time.sleep(0.01)


def insist(client, *command, within_s=60):
    """The answer to a command; who is told to try again later does so."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return client.call(*command)
        except ReplyError as error:
            if error.word not in ("UNAVAILABLE", "BUSY") or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


class Case(unittest.TestCase):
    """A test of the whole program."""

    maxDiff = None

    def run(self, result=None):
        self.servers = []
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            for server in self.servers:
                print(f"--- what tallyd said:\n{server.messages()}---", file=sys.stderr)

    def server(self, *flags, start=True, **options):
        """A server that ends with the test."""
        server = Server(*flags, **options)
        self.servers.append(server)
        self.addCleanup(self._end, server)
        return server.start() if start else server

    def _end(self, server):
        server.remove()
        self.assertNotRegex(server.said, "Sanitizer|runtime error:|Assertion .* failed")

    def client(self, server, **options):
        """A connection that ends with the test."""
        connection = server.connect(**options)
        self.addCleanup(connection.close)
        return connection

    def folder(self):
        """An empty folder that goes with the test."""
        path = tempfile.mkdtemp(prefix="tally-test-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def need(self, is_there, what):
        """Skips the test when what it needs is missing; fails it where nothing may be missing."""
        if is_there:
            return
        if os.environ.get("CI") == "true":
            self.fail(f"{what}, and CI=true allows no skipping")
        self.skipTest(what)

    def need_command(self, name):
        self.need(shutil.which(name), f"there is no {name}")

    @contextlib.contextmanager
    def refused(self, word):
        """The block gets an error answer that begins with this word or these words."""
        with self.assertRaises(ReplyError) as caught:
            yield caught
        self.assertTrue(str(caught.exception).startswith(word), str(caught.exception))


def main():
    print(f"tallyd: {PROGRAM}", file=sys.stderr)
    unittest.main(module="__main__", verbosity=2)
