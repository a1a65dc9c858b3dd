"""generator.py - every command and every operation with every kind of bad argument, to a server that is built
with sanitizers.

What there is to ask is learned from the server: COMMAND names the commands and their words, /openapi.json
the operations of HTTP. The words of options are the ones in capitals in docs/commands.md, and so are the
words that an error may begin with. So a new command is covered without a change here.

    generator.py [--seconds S] [--seed N]

The seed is TALLY_SEED's unless one is given. It repeats a run, as long as the machine is as fast; the requests that went before a crash are printed
in any case. Each request has to be answered, with an error of the documented form or with something that
can be read; counters that nobody else writes to have to stay as they are, also over a restart; all counts
have to agree with the log in the end.

The program is $TALLYD_SANITIZED, or build/asan/tallyd, which `make test` builds. Where neither is there it
is the one of the other tests, unless CI=true."""

import argparse
import collections
import itertools
import json
import os
import random
import re
import socket
import sys
import time
import urllib.parse

import tallyd
import web

SANITIZED = os.path.abspath(os.environ.get("TALLYD_SANITIZED")
                            or os.path.join(tallyd.ROOT, "build", "asan", "tallyd"))
COMPLAINT = re.compile(r"Sanitizer|runtime error:|Assertion .* failed")

OPTIONS = argparse.Namespace(seconds=50, seed=None)

# Nobody but this test knows these; no value below is one of them or matches one alone.
GOOD_COUNTERS = {f"kept:{i}": 1000 + i for i in range(5)}
GOOD_ITEM = "kept:item"
GOOD_USERS = ["kept:ann", "kept:bob", "kept:carl"]

BATCH = 20  # requests that are under way at once, so many are printed when the server ends


# --- values ---------------------------------------------------------------------------------------

INT64_MAX = 2 ** 63 - 1
NUMBERS = [0, 1, -1, 2, 63, 64, 65, 100, 4096, 2 ** 31, 2 ** 32 - 1, 2 ** 32, INT64_MAX, INT64_MAX - 1,
           -INT64_MAX - 1, 2 ** 63, 2 ** 64 - 1, 2 ** 64, -2 ** 64, INT64_MAX // 1000,
           INT64_MAX // 1000 + 1, 253402300799, 253402300799999, 253402300800000, 1700000000000]
TEXTS = [b"", b" ", b"a", b"b/like", b"/like", b"/", b"like", b"dislike", b"ann", b"*", b"?", b"[", b"[a",
         b"[^", b"\\", b"[z-a]*", b"*" * 300 + b"x", b"\0", b"a\0b", b"\r\n", b"a\r\nb", b"\xff\xfe",
         b"\xc3", b"\xed\xa0\x80", "\u202e\U0001f600".encode(), b"%s%n%p", b"'; DROP TABLE counters;--",
         b"../../etc/passwd", b"+1", b"01", b" 1", b"1 ", b"1.5", b"1e400", b"0x10", b"nan", b"inf", b"-",
         b"1" * 900, b"-" + b"9" * 900, b"1" * 901, b"9" * 5000, b"2026-01-31T12:00:00Z",
         b"9999-12-31T23:59:59.999Z", b"99999-01-01T00:00:00Z", b"0000-00-00T00:00:00Z",
         b"0190a0b0-0000-7000-8000-000000000000", b"all", b"ALL", b"on", b"no", b"SUCCESS",
         b"round-robin", b"default"]
SIZES = [31, 32, 33, 64, 65, 128, 129, 256, 257, 289, 290, 578, 579, 4097, 70000]
VALUES = ([str(n).encode() for n in NUMBERS] + TEXTS + [b"x" * size for size in SIZES]
          + [b"x" * 256 + b"/like", b"x" * 257 + b"/like"])
# These come first, in every run: one of each kind of bad argument.
WORST = [b"", str(INT64_MAX).encode(), str(-INT64_MAX - 1).encode(), b"-1", b"x" * 257, b"x" * 70000, b"\0", b"\xff\xfe"]

# What stands beside a bad word, so that it is that one that is looked at: numbers are good ids, users and
# numbers; other commands want the name of a reaction.
PLAIN = [[b"1"], [b"a", b"ann", b"like", b"1", b"id", b"b"]]


def document(name):
    with open(os.path.join(tallyd.ROOT, "docs", name), encoding="utf-8") as file:
        return file.read()


OPTION_WORDS = sorted({word.encode() for word in
                       re.findall(r"\b[A-Z]{2,}\b", document("commands.md"))})
ERROR_WORDS = {word for line in re.findall(r"^\|(.*?)\|", document("commands.md"), re.M)
               for word in re.findall(r"`([A-Z]{2,})\b", line)}


def worst_first(everything, is_worst, rng):
    """Two lists, each in an order of its own: what every run begins with, and the rest."""
    rng.shuffle(everything)
    worst = [one for one in everything if is_worst(one)]
    return worst, [one for one in everything if not is_worst(one)]


# --- RESP -----------------------------------------------------------------------------------------


def inline(args):
    """A command as a line; every byte that might mean something is written as its number."""
    return b" ".join(b'"' + b"".join(b"\\x%02x" % byte for byte in arg) + b'"' for arg in args) + b"\r\n"


class Talk:
    """A connection that is made anew whenever it is not plain any more what it would answer."""

    def __init__(self, server, form):
        self.server = server
        self.form = form
        self.connection = None
        self.count = 0

    def open(self):
        self.connection = self.server.connect(timeout_s=60)
        if self.form == "resp3":
            self.connection.call("HELLO", "3")

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def encode(self, args):
        short = sum(len(arg) for arg in args) < 15000  # a line has a limit, and each byte is four
        return inline(args) if self.form == "inline" and short else tallyd.encode(*args)

    def ask(self, commands):
        """Sends them and reads until an echo that is sent behind them comes back, and before it an end of
        whatever transaction they have begun. Returns all answers; the connection may end instead."""
        if not self.connection:
            self.open()
        self.count += 1
        token = f"token {self.count}"
        answers = []
        try:
            self.connection.send_bytes(b"".join(map(self.encode, commands)))
            self.connection.send(("EXEC",), ("ECHO", token))
            while True:
                answer = self.connection.read()
                answers.append(answer)
                if answer == token:
                    return answers[:-1]
                if self._has_gone_astray(answer):
                    self.close()
                    return answers
        except (ConnectionError, socket.timeout) as error:
            if isinstance(error, socket.timeout):
                raise AssertionError(f"no answer within a minute to {commands!r}") from None
            self.close()
            return answers

    @staticmethod
    def _has_gone_astray(answer):
        """It listens: the echo is not answered."""
        return "Can't execute 'echo'" in str(answer)


class Commands:
    """All that there is to say, by what COMMAND answers."""

    def __init__(self, server, rng):
        self.rng = rng
        with server.connect() as client:
            told = client.call("COMMAND")
            self.arity = {entry[0].encode(): entry[1] for entry in told}
        self.words = {name: self._subcommands(server, name) for name in self.arity}

    @staticmethod
    def _subcommands(server, name):
        """The words that a command of several has to be followed by, if it is one."""
        try:
            with server.connect() as client:
                lines = client.call(name, "HELP")
        except (tallyd.ReplyError, ConnectionError):  # of which one is QUIT's
            return []
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return []
        found = {line.split()[1].encode() for line in lines if len(line.split()) > 1}
        return sorted(word for word in found if word.isupper())

    def plain(self, name, count, fillers=None):
        """So many words that make sense in many places."""
        words = [name]
        if self.words[name]:
            words.append(self.rng.choice(self.words[name]))
        fillers = itertools.cycle(fillers or self.rng.choice(PLAIN))
        words += itertools.islice(fillers, max(0, count - len(words)))
        return words[:max(count, 1)]

    def fits(self, words):
        arity = self.arity[words[0]]
        return len(words) == arity if arity > 0 else len(words) >= -arity

    def systematic(self):
        """Every word of every command with every value once, and wrong numbers of words; the worst first."""
        everything = []
        for name, arity in self.arity.items():
            least = abs(arity)
            everything += [self.plain(name, count) for count in range(1, least + 5)]
            for place, value, fillers in itertools.product(range(1, least + 1), VALUES, PLAIN):
                words = self.plain(name, max(least, place + 1), fillers)
                words[place] = value
                everything.append(words)
            if arity < 0:
                everything += [self.plain(name, least) + [word, self.rng.choice(VALUES)]
                               for word in OPTION_WORDS]
        return worst_first(everything, lambda words: len(words) == 1 or any(word in WORST for word in words),
                           self.rng)

    def random(self):
        name = self.rng.choice(list(self.arity))
        words = self.plain(name, max(1, abs(self.arity[name]) + self.rng.choice([-1, 0, 0, 0, 1, 3])))
        for place in range(1, len(words)):
            if self.rng.random() < 0.5:
                words[place] = self.rng.choice(VALUES)
        while self.rng.random() < 0.4:
            words += [self.rng.choice(OPTION_WORDS), self.rng.choice(VALUES)]
        return words


# --- HTTP -----------------------------------------------------------------------------------------

NONSENSE = ["", "a", "b/like", "x" * 257, "x" * 65, "\0", "\ud800", "\u202e", 0, -1, 1.5, INT64_MAX, 2 ** 63,
            2 ** 70, int("9" * 901), "9" * 901, 1e308, True, None, [], {}, ["a"], {"a": 1}, [[[[]]]], "like", "ann"]
BODIES = [b"", b"{", b"[]", b"null", b"5", b"\xff", b"\0", b"[" * 5000, b'{"a":' * 2000, b'{"delta":1e999}',
          b'{"id":"a","id":"b"}', b'"' + b"x" * 70000 + b'"', b"{}\n{}\n{", b"\n\n\n", b'{"op":"\xff"}']
HEADERS = ["Idempotency-Key", "Tally-Region", "If-None-Match", "Content-Type", "Accept", "Origin", "Expect",
           "Authorization", "Last-Event-ID"]


class Operations:
    """All that there is to ask for, by /openapi.json."""

    def __init__(self, server, rng):
        self.rng = rng
        client = web.Web(server.http_port)
        self.document = client.get("/openapi.json").json
        client.close()
        self.all = [(method.upper(), path, operation)
                    for path, methods in self.document["paths"].items()
                    for method, operation in methods.items()]

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].lstrip("#/").split("/"):
                target = target[part]
            node = target
        return node

    def names(self, operation, place):
        found = map(self.resolve, operation.get("parameters", []))
        return [parameter["name"] for parameter in found if parameter["in"] == place]

    def systematic(self):
        """Every part of every operation with every value once."""
        everything = []
        for method, path, operation in self.all:
            for name in re.findall(r"\{(\w+)\}", path):
                everything += [self.request(method, path, operation, path_values={name: value})
                               for value in VALUES if value]
            for name in self.names(operation, "query"):
                everything += [self.request(method, path, operation, query=[(name, value)])
                               for value in VALUES]
            for name in self.names(operation, "header"):
                everything += [self.request(method, path, operation, headers=[(name, value)])
                               for value in VALUES]
            if "requestBody" in operation:
                everything += [self.request(method, path, operation, body=body) for body in BODIES]
                everything += [self.request(method, path, operation, body=body)
                               for body in self.bodies(operation)]
        worst = [urllib.parse.quote(value, safe="").encode() for value in WORST if value]
        return worst_first(everything, lambda it: any(value in it[1] for value in worst), self.rng)

    def random(self):
        method, path, operation = self.rng.choice(self.all)
        value = lambda: self.rng.choice(VALUES)  # noqa: E731
        some = lambda names: [(name, value()) for name in names if self.rng.random() < 0.5]  # noqa: E731
        queries = self.names(operation, "query") + ["no-such-thing"]
        body = None
        if "requestBody" in operation:
            body = self.rng.choice(BODIES + list(self.bodies(operation)))
        if self.rng.random() < 0.05:
            method = self.rng.choice(["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"])
        values = {name: value() or b"x" for name in re.findall(r"\{(\w+)\}", path)}
        return self.request(method, path, operation, path_values=values, query=some(queries),
                            headers=some(HEADERS), body=body)

    def bodies(self, operation):
        """Bodies of one nonsensical member, and of several, as JSON and in lines."""
        content = self.resolve(operation["requestBody"])["content"]
        for kind, described in content.items():
            schema = self.resolve(described["schema"])
            names = sorted(schema.get("properties", {"x": 1}))
            for name in names:
                for value in NONSENSE:
                    thing = {other: self.rng.choice(["a", 1, "like", "get"]) for other in names
                             if self.rng.random() < 0.4}
                    thing[name] = value
                    lines = self.rng.choice([1, 2, 5]) if "ndjson" in kind else 1
                    yield b"\n".join([json.dumps(thing).encode()] * lines)

    def request(self, method, path, operation, path_values=None, query=(), headers=(), body=None):
        """The bytes of a request. Headers keep what may stand in a header."""
        for name in re.findall(r"\{(\w+)\}", path):
            value = (path_values or {}).get(name, b"a")
            path = path.replace("{%s}" % name, urllib.parse.quote(value, safe=""))
        if query:
            path += "?" + urllib.parse.urlencode(query)
        lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost"]
        lines += [name.encode() + b": " + re.sub(rb"[\r\n\0]", b"", value) for name, value in headers]
        if body is not None:
            content = self.resolve(operation["requestBody"])["content"] if "requestBody" in operation else {}
            kind = self.rng.choice(list(content) or ["application/json"])
            lines += [b"Content-Type: " + kind.encode(), b"Content-Length: %d" % len(body)]
        elif method in ("POST", "PUT", "PATCH"):
            lines.append(b"Content-Length: 0")
        return method, b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def exchange(server, requests):
    """Each on a connection that is used as long as the server keeps it. Yields the answers; None where
    the connection was closed instead."""
    wire = None
    for method, request in requests:
        wire = wire or web.Raw(server.http_port, timeout_s=60)
        try:
            wire.send(request)
            answer = read_answer(wire, method)
        except ConnectionError:
            answer = None
        except socket.timeout:
            raise AssertionError(f"no answer within a minute to {request[:3000]!r}") from None
        yield answer
        is_over = (answer is None or "content-length" not in answer.headers
                   or "close" in answer.headers.get("connection", ""))
        if is_over:
            wire.close()
            wire = None
    if wire:
        wire.close()


def read_answer(wire, method):
    if method != "HEAD":
        return wire.read()
    line = wire.stream.readline()  # what it says of a body does not follow
    while line and wire.stream.readline() not in (b"\r\n", b""):
        pass
    return web.Answer(int(line.split()[1]), [], b"") if line else None


# --- the test -------------------------------------------------------------------------------------


class Generator(tallyd.Case):
    def setUp(self):
        self.program = SANITIZED
        if not os.path.exists(SANITIZED):
            assert os.environ.get("CI") != "true", f"{SANITIZED} is missing: make test builds it"
            self.program = tallyd.PROGRAM
        self.seed = OPTIONS.seed if OPTIONS.seed is not None else tallyd.seed_of_run()
        print(f"{self.program}: generator.py --seed {self.seed} --seconds {OPTIONS.seconds}", file=sys.stderr)
        self.rng = random.Random(self.seed)
        self.sent = 0

    def start(self, *flags):
        server = self.server("--workers", "2", "--flush-interval", "50ms", "--ack", "memory", *flags, program=self.program)
        with server.connect() as client:
            for name, value in GOOD_COUNTERS.items():
                client.call("SET", name, value)
            for user in GOOD_USERS:
                client.call("LIKE", GOOD_ITEM, user)
        return server

    def assert_good(self, server):
        """The server lives, and what is ours is as it was."""
        with server.connect(timeout_s=60) as client:
            for name, value in GOOD_COUNTERS.items():
                self.assertEqual(client.call("GET", name), str(value))
            self.assertEqual(client.call("GET", GOOD_ITEM + "/like"), str(len(GOOD_USERS)))
            for user in GOOD_USERS:
                self.assertEqual(client.call("REACTION", GOOD_ITEM, user), "like")

    def assert_alive(self, server, requests):
        if server.process.poll() is None:
            return
        for request in requests:
            print(f"  {request!r}"[:4000], file=sys.stderr)
        self.fail(f"the server ended after one of the requests above; it said:\n{server.messages()[-20000:]}")

    def run_requests(self, server, systematic, draw, seconds, send):
        """The worst of `systematic`, however long it takes; then for so long the rest of it, and what
        `draw` gives. `send` takes a batch. Returns whether `systematic` was through."""
        until = time.monotonic() + seconds
        worst, others = systematic
        queue = iter(worst + others)
        rest = len(worst) + len(others)
        while rest > len(others) or time.monotonic() < until:
            batch = list(itertools.islice(queue, BATCH))
            rest -= len(batch)
            batch = batch or [draw() for _ in range(BATCH)]
            send(batch)
            self.assert_alive(server, batch)
            self.sent += len(batch)
        return rest == 0

    # --- RESP

    def check_resp(self, commands, answers):
        for answer in answers:
            if isinstance(answer, tallyd.ReplyError):
                word = re.match(r"[A-Z]+", str(answer))
                self.assertTrue(word and word.group() in ERROR_WORDS, f"{answer!r} to one of {commands!r}")

    def say(self, server, form, seconds):
        commands = Commands(server, self.rng)
        self.assertGreater(len(commands.arity), 50)
        talk = Talk(server, form)

        def send(batch):
            if self.rng.random() < 0.2:  # one that cannot be queued spoils it
                batch = [words for words in batch if commands.fits(words)] if self.rng.random() < 0.7 else batch
                batch = [[b"MULTI"], *batch, *([[b"EXEC"]] if self.rng.random() < 0.5 else [])]
            self.check_resp(batch, talk.ask(batch))

        all_of_it = self.run_requests(server, commands.systematic(), commands.random, seconds, send)
        talk.close()
        self.assert_good(server)
        print(f"{form}: {self.sent} requests so far, {'every' if all_of_it else 'not every'} word of every command "
              "with every value", file=sys.stderr)

    # --- HTTP

    def check_http(self, request, answer):
        self.assertIsNotNone(answer, f"closed without an answer to {request[1][:3000]!r}")
        self.statuses[answer.status] += 1
        self.assertTrue(answer.status < 500 or answer.status in (501, 503, 505),
                        f"{answer.status} {answer.body[:500]!r} to {request[1][:3000]!r}")
        kind = answer.headers.get("content-type", "")
        if answer.status >= 400 and request[0] != "HEAD" and answer.body:
            self.assertEqual(kind, "application/problem+json", request[1][:3000])
        if "json" in kind and "ndjson" not in kind and answer.body:
            json.loads(answer.body)

    def assert_really_answered(self, unavailable):
        """A server that refuses all there is keeps what it has, too. So much may be out of service."""
        count = sum(self.statuses.values())
        done = sum(number for status, number in self.statuses.items() if status < 300)
        self.assertGreater(count, 0)
        self.assertLess(self.statuses[503], count * unavailable, self.statuses)
        self.assertGreater(done, count / 20, self.statuses)

    def browse(self, server, seconds, unavailable=0.05):
        operations = Operations(server, self.rng)
        self.assertGreater(len(operations.all), 30)
        self.statuses = collections.Counter()

        def send(batch):
            for request, answer in zip(batch, list(exchange(server, batch))):
                self.check_http(request, answer)

        all_of_it = self.run_requests(server, operations.systematic(), operations.random, seconds, send)
        self.assert_really_answered(unavailable)
        self.assert_good(server)
        print(f"http: {self.sent} requests so far, {'every' if all_of_it else 'not every'} part of every operation "
              "with every value", file=sys.stderr)

    # --- the end

    def assert_counts_agree(self, server):
        """Recounts everything from the log, when all other tasks are over."""
        with server.connect(timeout_s=120) as client:
            task = tallyd.insist(client, "RECOUNT", "*")
            state = lambda: tallyd.pairs(client.call("TASK", task))  # noqa: E731
            tallyd.wait_until(lambda: state()["state"] != "running", 120, "the recount")
            self.assertEqual((state()["state"], state()["drifts"]), ("done", 0), state())

    def assert_ends_well(self, server):
        code = server.stop()
        self.assertIsNone(COMPLAINT.search(server.messages()), server.messages()[-20000:])
        self.assertEqual(code, 0, server.messages()[-20000:])

    def test_whatever_is_said_the_server_answers_and_keeps_what_it_has(self):
        server = self.start()
        forms = ["resp2", "resp3", "inline"]
        self.rng.shuffle(forms)
        for form, part in zip(forms, (0.35, 0.15, 0.1)):
            self.say(server, form, part * OPTIONS.seconds)
        self.browse(server, 0.2 * OPTIONS.seconds)
        self.assert_counts_agree(server)
        self.assert_ends_well(server)
        server.start()
        self.assert_good(server)
        self.assert_ends_well(server)

    def test_whatever_is_said_without_a_store(self):
        server = self.start("--store", "none")
        self.say(server, self.rng.choice(["resp2", "resp3", "inline"]), 0.15 * OPTIONS.seconds)
        self.browse(server, 0.05 * OPTIONS.seconds, unavailable=0.3)  # what only the store knows
        self.assert_ends_well(server)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=OPTIONS.seconds)
    parser.add_argument("--seed", type=int)
    options, rest = parser.parse_known_args()
    OPTIONS.seconds = options.seconds
    OPTIONS.seed = options.seed
    sys.argv[1:] = rest
    tallyd.main()


if __name__ == "__main__":
    main()
