"""generator.py - every command and every operation with every kind of bad argument, to a server that is built
with sanitizers: embedded, without a store, and as a node over Redis, Redis Streams and PostgreSQL.

What there is to ask is learned from the server: COMMAND names the commands and their words, /openapi.json
the operations of HTTP. The words of options are the ones in capitals in docs/commands.md, and so are the
words that an error may begin with. So a new command is covered without a change here.

    generator.py [--seconds S] [--seed N]

Some of it is sent in every run, however long that takes: each command with wrong numbers of words; each of
its places, its subcommands and its options with each of the WORST values; each part of each operation with
each of them, and with what cannot stand there. The rest, all VALUES and what lots decide, has its seconds.
How many of each were sent is printed.

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

import deployment
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
WORST = [b"", str(INT64_MAX).encode(), str(2 ** 63).encode(), str(-INT64_MAX - 1).encode(), b"-1", b"x" * 257,
         b"x" * 70000, b"\0", b"a\0b", b"\xff\xfe"]

# What stands beside a bad word, so that it is that one that is looked at: numbers are good ids, users and
# numbers; other commands want the name of a reaction.
PLAIN = [[b"1"], [b"a", b"ann", b"like", b"1", b"id", b"b"]]


def document(name):
    with open(os.path.join(tallyd.ROOT, "docs", name), encoding="utf-8") as file:
        return file.read()


def words_in(text):
    return sorted({word.encode() for word in re.findall(r"\b[A-Z]{2,}\b", text)})


def words_of_commands():
    """By command, in small letters: what stands in capitals in its section."""
    parts = re.split(r"^### (.*)$", document("commands.md"), flags=re.M)
    return {name.strip().lower().encode(): [word for word in words_in(text) if word.decode() not in title]
            for title, text in zip(parts[1::2], parts[2::2]) for name in title.split(",")}


OPTION_WORDS = words_in(document("commands.md"))
COMMAND_WORDS = words_of_commands()
ERROR_WORDS = {word for line in re.findall(r"^\|(.*?)\|", document("commands.md"), re.M)
               for word in re.findall(r"`([A-Z]{2,})\b", line)}


class Plan:
    """What every run sends, and what it sends while there is time, each in an order of its own."""

    def __init__(self, always, others, rng):
        rng.shuffle(always)
        rng.shuffle(others)
        self.always = always
        self.others = others


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

    def wrong_counts(self, name, least):
        """One word, and more, up to too many; behind each subcommand as well."""
        for fillers in PLAIN:
            for start in [[name], *([name, word] for word in self.words[name])]:
                for count in range(len(start), least + 6):
                    yield (start + fillers * 4)[:count]

    def places(self, name, least, values):
        for place, value, fillers in itertools.product(range(1, least + 1), values, PLAIN):
            words = self.plain(name, max(least, place + 1), fillers)
            words[place] = value
            yield words

    def subcommands(self, name, values):
        """Each with a value in the first two places behind it, and nothing or something beside it."""
        for word, value, fillers in itertools.product(self.words[name], values, PLAIN):
            yield [name, word, value]
            yield [name, word, value, fillers[0]]
            yield [name, word, fillers[0], value]

    def options(self, name, least, values):
        """Each of the command's words with each value, without one, and twice."""
        own = COMMAND_WORDS.get(name, OPTION_WORDS)
        starts = [[name, word] for word in self.words[name]] or [[name]]
        for start, word, fillers in itertools.product(starts, own, PLAIN):
            whole = start + (fillers * 2)[:max(0, least - len(start))]
            yield [*whole, word]
            yield [*whole, word, fillers[0], word, fillers[0]]
            for value in values:
                yield [*whole, word, value]

    def systematic(self):
        always, others = [], []
        for name, arity in self.arity.items():
            least = abs(arity)
            always += self.wrong_counts(name, least)
            always += self.places(name, least, WORST)
            always += self.subcommands(name, WORST)
            others += self.places(name, least, VALUES)
            if arity < 0:
                always += self.options(name, least, WORST)
                others += [self.plain(name, least) + [word, self.rng.choice(VALUES)] for word in OPTION_WORDS]
        return Plan(always, others, self.rng)

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

# As JSON: what json.dumps() makes of them, or bytes as they are.
WORST_MEMBERS = ["", "\0", "a\0b", "\ud800", b'"\xff\xfe"', b'"\0"', b'"a', INT64_MAX, 2 ** 63, -INT64_MAX - 1, -1, 1.5,
                 b"1e999", "x" * 257, "x" * 70000, "9" * 901, str(2 ** 63), None, True, [], {}]
# In the target, as they stand.
WORST_TARGETS = [b"\0", b"\xff", b"%", b"%zz", b"%00", b"%FF", b"a%", b" ", b"\x7f"]
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

    def parts(self, method, path, operation, values):
        """Each value in each part of the path, of the query, and of the headers."""
        make = lambda **options: self.request(method, path, operation, **options)  # noqa: E731
        for value in values:
            for name in re.findall(r"\{(\w+)\}", path):
                yield make(path_values={name: value})
            for name in self.names(operation, "query"):
                yield make(query=[(name, value)])
                yield make(query=[(name, value), (name, value)])
            for name in self.names(operation, "header"):
                yield make(headers=[(name, value)])

    def targets(self, method, path, operation):
        """What is not encoded, or badly, in each part of the path, as a name and as a value of the query."""
        for value in WORST_TARGETS:
            for name in re.findall(r"\{(\w+)\}", path):
                yield self.request(method, path.replace("{%s}" % name, "\1"), operation, raw=value)
            for name in ["", *self.names(operation, "query")]:
                yield self.request(method, path + f"?{name}{'=' if name else ''}\1", operation, raw=value)

    def plain_member(self, schema):
        """A value that the schema allows, more or less."""
        schema = self.resolve(schema)
        if "enum" in schema:
            return schema["enum"][0]
        if "oneOf" in schema:
            return self.plain_member(schema["oneOf"][0])
        return {"integer": 1, "boolean": True, "array": [], "object": {}}.get(schema.get("type"), "a")

    def good_bodies(self, schema):
        """With the members that have to be there, and with all; one of each `op`, where there are several."""
        members = schema.get("properties", {})
        whole = {name: self.plain_member(member) for name, member in members.items()}
        yield {name: whole.get(name, "a") for name in schema.get("required", [])}
        for op in self.resolve(members["op"]).get("enum", []) if "op" in members else [None]:
            yield {**whole, "op": op} if op else whole

    def worst_bodies(self, operation):
        """Every member with each of the worst values, the others being good; no member that should be there;
        one too many; and what is no body at all."""
        yield from BODIES
        for kind, described in self.resolve(operation["requestBody"])["content"].items():
            schema = self.resolve(described["schema"])
            for good in self.good_bodies(schema):
                yield json.dumps(good).encode()
                yield json.dumps({**good, "no-such-member": 1}).encode()
                yield from (json.dumps({one: good[one] for one in good if one != name}).encode() for name in good)
                for name, value in itertools.product(schema.get("properties", {}), WORST_MEMBERS):
                    body = self.with_member(good, name, value)
                    yield body
                    if "ndjson" in kind and len(body) < 1000:
                        yield b"\n".join([json.dumps(good).encode(), body, json.dumps(good).encode()])

    @staticmethod
    def with_member(good, name, value):
        if not isinstance(value, bytes):
            return json.dumps({**good, name: value}).encode()
        return json.dumps({**good, name: "\1"}).encode().replace(b'"\\u0001"', value)

    def systematic(self):
        always, others = [], []
        for method, path, operation in self.all:
            always += self.parts(method, path, operation, WORST)
            always += self.targets(method, path, operation)
            always += [self.request(method, path, operation, headers=[(name, value)])
                       for name, value in itertools.product(HEADERS, WORST)]
            others += self.parts(method, path, operation, VALUES)
            if "requestBody" in operation:
                always += [self.request(method, path, operation, body=body) for body in self.worst_bodies(operation)]
                others += [self.request(method, path, operation, body=body) for body in self.bodies(operation)]
        return Plan(always, others, self.rng)

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

    def request(self, method, path, operation, path_values=None, query=(), headers=(), body=None, raw=None):
        """The bytes of a request. Headers keep what does not end them; `raw` stands where the path has a 1."""
        for name in re.findall(r"\{(\w+)\}", path):
            value = (path_values or {}).get(name, b"a")
            path = path.replace("{%s}" % name, urllib.parse.quote(value, safe=""))
        if query:
            path += "?" + urllib.parse.urlencode(query)
        lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost"]
        if raw is not None:
            lines[0] = lines[0].replace(b"\1", raw)
        lines += [name.encode() + b": " + re.sub(rb"[\r\n]", b"", value) for name, value in headers]
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


class Talking:
    """What the tests of all forms of the server do."""

    def setUp(self):
        self.program = SANITIZED
        if not os.path.exists(SANITIZED):
            assert os.environ.get("CI") != "true", f"{SANITIZED} is missing: make test builds it"
            self.program = tallyd.PROGRAM
        self.seed = OPTIONS.seed if OPTIONS.seed is not None else tallyd.seed_of_run()
        print(f"{self.program}: generator.py --seed {self.seed} --seconds {OPTIONS.seconds}", file=sys.stderr)
        self.rng = random.Random(self.seed)

    def start(self, *flags):
        server = self.server("--workers", "2", "--flush-interval", "50ms", "--ack", "memory", *flags, program=self.program)
        return self.furnish(server)

    @staticmethod
    def furnish(server):
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

    def run_requests(self, server, what, plan, draw, seconds, send):
        """What the plan sends always, however long it takes; then for so long the rest of it, and what
        `draw` gives. `send` takes a batch."""
        begin = time.monotonic()
        sent = collections.Counter()
        queues = {"sent in every run": (iter(plan.always), None),
                  "of the others": (iter(plan.others), begin + seconds),
                  "drawn": (iter(draw, None), begin + seconds)}
        for name, (queue, until) in queues.items():
            while until is None or time.monotonic() < until:
                batch = list(itertools.islice(queue, BATCH))
                if not batch:
                    break
                send(batch)
                self.assert_alive(server, batch)
                sent[name] += len(batch)
        self.assertEqual(sent["sent in every run"], len(plan.always))
        told = ", ".join(f"{sent[name]} {name}" for name in queues)
        print(f"{what}: {told} ({len(plan.others)} others, {time.monotonic() - begin:.0f} s)", file=sys.stderr)

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

        self.run_requests(server, form, commands.systematic(), commands.random, seconds, send)
        talk.close()
        self.assert_good(server)

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

        self.run_requests(server, "http", operations.systematic(), operations.random, seconds, send)
        self.assert_really_answered(unavailable)
        self.assert_good(server)

    # --- the end

    def assert_counts_agree(self, server):
        """Recounts everything from the log, when all other tasks are over."""
        with server.connect(timeout_s=120) as client:
            task = tallyd.insist(client, "RECOUNT", "*")
            state = lambda: tallyd.pairs(client.call("TASK", task))  # noqa: E731
            tallyd.wait_until(lambda: state()["state"] != "running", 120, "the recount")
            self.assertEqual((state()["state"], state()["drifts"]), ("done", 0), state())

    def assert_store_takes_all(self, server):
        """Nothing that may be said is refused by the store."""
        with server.connect(timeout_s=120) as client:
            figures = lambda: dict(line.split(":", 1) for line in client.call("INFO", "all").splitlines()  # noqa: E731
                                   if ":" in line)
            tallyd.wait_until(lambda: figures()["pipeline_lag_events"] == "0", 120, "the store has all")
            found = {name: figures()[name] for name in ("pipeline_refused", "pipeline_failed", "store_dead_letters")}
            self.assertEqual(set(found.values()), {"0"}, found)

    def assert_ends_well(self, server):
        code = server.stop()
        self.assertIsNone(COMPLAINT.search(server.messages()), server.messages()[-20000:])
        self.assertEqual(code, 0, server.messages()[-20000:])


class Embedded(Talking, tallyd.Case):
    def test_whatever_is_said_the_server_answers_and_keeps_what_it_has(self):
        server = self.start()
        forms = ["resp2", "resp3", "inline"]
        self.rng.shuffle(forms)
        for form, part in zip(forms, (0.3, 0.12, 0.08)):
            self.say(server, form, part * OPTIONS.seconds)
        self.browse(server, 0.2 * OPTIONS.seconds)
        self.assert_counts_agree(server)
        self.assert_store_takes_all(server)
        self.assert_ends_well(server)
        server.start()
        self.assert_good(server)
        self.assert_ends_well(server)

    def test_whatever_is_said_without_a_store(self):
        server = self.start("--store", "none")
        self.say(server, self.rng.choice(["resp2", "resp3", "inline"]), 0.1 * OPTIONS.seconds)
        self.browse(server, 0.05 * OPTIONS.seconds, unavailable=0.3)  # what only the store knows
        self.assert_ends_well(server)


class Node(Talking, deployment.Case):
    """What a single server checks in memory, a node hands on to Redis, to the log and to PostgreSQL."""

    def test_whatever_is_said_to_a_node_it_answers_and_keeps_what_it_has(self):
        tally = deployment.Deployment(self)
        tally.start_engines(cluster=False, brokers=0, fast=True)
        server = tally.node("all", "--workers", "2", "--ack", "hot", start=False)
        server.program = self.program
        self.furnish(server.start())
        self.say(server, self.rng.choice(["resp2", "resp3", "inline"]), 0.1 * OPTIONS.seconds)
        self.browse(server, 0.05 * OPTIONS.seconds)
        self.assert_counts_agree(server)
        self.assert_store_takes_all(server)
        self.assert_ends_well(server)
        self.assert_good(server.start())
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
