"""writers.py - clients that keep a journal: what they are about to send before they send it, and
what was answered after. When the server was killed and started again, each compares:

  - what was answered is there, once;
  - what was sent without an answer is there or not, but whole and in order; what carries an
    idempotency key is sent again and is counted once, its answers agreeing;
  - what was not there after a restart does not come back after a later one.

Each works for some tenths of a second on a few ids and then on others, so that with a
short retention a part of them is cold at any time."""

import collections
import contextlib
import json
import random
import time
import urllib.parse

import tallyd
import web

PIPELINE_MAX = 32
TURN_S = 0.5  # on the same few ids
CROWD = "crowd"
ITEMS = ["video1", "video2/part", "фильм", CROWD, "video4", "video5"]
SHARED = [f"shared:{i}" for i in range(6)]
KINDS = {"LIKE": "like", "DISLIKE": "dislike"}
AGAIN_MAX = 100  # answered writes with keys that are sent again after a restart


def in_turn(choices, count):
    """`count` of the choices: those whose turn it is now."""
    begin = int(time.monotonic() / TURN_S) * count
    return [choices[(begin + i) % len(choices)] for i in range(count)]


class Writer:
    """Works on one connection until the server is gone."""

    def __init__(self, name, seed):
        self.name = name
        self.random = random.Random(seed)
        self.failure = None
        self.answered = 0
        self.unanswered = collections.deque()
        self.number = 0  # of the last key
        self.is_limited = False  # memory is: some writes may be refused, the next ones not
        self.refusals = 0

    def key(self):
        """A new idempotency key."""
        self.number += 1
        return f"{self.name}-{self.number}"

    def work(self, server):
        try:
            with contextlib.suppress(ConnectionError), self.connect(server) as client:
                while True:
                    self.step(client)
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    @staticmethod
    def connect(server):
        return server.connect()

    def step(self, client):
        """Sends some commands at once and reads the answers."""
        commands = [self.next() for _ in range(self.random.randint(1, PIPELINE_MAX))]
        client.send(*commands)
        for _ in commands:
            reply = client.read()
            if isinstance(reply, tallyd.ReplyError):
                self.refuse(reply.word == "OOM", reply)
            else:
                self.answer(reply)
                self.answered += 1

    def insist(self, ask, is_refused=lambda reply: str(reply).startswith("OOM ")):
        """Asks until memory is there; the answer."""
        for _ in range(100):
            reply = ask()
            if not (self.is_limited and is_refused(reply)):
                break
            time.sleep(0.05)
        return reply

    def refuse(self, is_for_memory, reply):
        """The oldest unanswered write was not made."""
        refused = self.unanswered.popleft()
        assert self.is_limited and is_for_memory, f"{refused}: {reply}"
        self.refusals += 1

    def states_after(self, states, command):
        """What may hold after one more write without an answer, if these are the states that may
        hold before it. They come in the order of time."""
        if self.is_limited:
            return list(dict.fromkeys(states + [self.after(command, state) for state in states]))
        return states + [self.after(command, states[-1])]

    @staticmethod
    def after(command, state):
        """What the write makes of what it finds."""
        raise NotImplementedError

    def next(self):
        """The next write; it is in the journal already."""
        raise NotImplementedError

    def answer(self, reply):
        """Takes the oldest unanswered write out of the journal."""
        raise NotImplementedError

    def compare(self, server):
        """The server has been started again, and nobody writes."""
        raise NotImplementedError

    def held_by_users(self):
        """(item, user) -> the reaction."""
        return {}

    def sums(self):
        """counter -> what this writer has added."""
        return {}


class Owner(Writer):
    """Counters of its own: every answer is known beforehand."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.values = {f"own:{name}:{i}": None for i in range(25)}  # by the last answers

    def next(self):
        counter = self.random.choice(in_turn(list(self.values), 5))
        command = self.random.choice([
            ("INCR", counter), ("INCR", counter), ("INCR", counter), ("DECRBY", counter, 7),
            ("INCRBY", counter, 10 ** self.random.randint(1, 30)), ("SET", counter, 5),
            ("DEL", counter)])
        self.unanswered.append(command)
        return command

    @staticmethod
    def after(command, value):
        """The value after the command, None being no counter."""
        if command[0] == "DEL":
            return None
        if command[0] == "SET":
            return command[2]
        amount = command[2] if len(command) > 2 else 1
        return (value or 0) + (-amount if command[0] == "DECRBY" else amount)

    def answer(self, reply):
        command = self.unanswered.popleft()
        before = self.values[command[1]]
        after = self.values[command[1]] = self.after(command, before)
        expected = {"DEL": int(before is not None), "SET": "OK"}.get(command[0], after)
        assert str(reply) == str(expected), f"{command}: {reply} instead of {expected}"

    def compare(self, server):
        possible = {counter: [value] for counter, value in self.values.items()}
        for command in self.unanswered:
            possible[command[1]] = self.states_after(possible[command[1]], command)
        self.unanswered.clear()
        with server.connect() as client:
            found = client.pipeline([("GET", counter) for counter in possible])
        for (counter, states), value in zip(possible.items(), found):
            value = None if value is None else int(value)
            assert value in states, f"{counter}: {value} instead of one of {states}"
            self.values[counter] = value


class Adder(Writer):
    """COUNTER.ADD with idempotency keys to counters that others add to as well."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.answers = {}  # of each command
        self.added = collections.Counter()  # by counter, of what is answered

    def sums(self):
        return self.added

    def next(self):
        command = ("COUNTER.ADD", self.random.choice(in_turn(SHARED, 2)),
                   str(self.random.randint(-3, 9)), "ID", self.key())
        self.unanswered.append(command)
        return command

    def answer(self, reply):
        command = self.unanswered.popleft()
        self.answers[command] = reply
        self.added[command[1]] += int(command[2])

    def compare(self, server):
        """Sends again what is open, and some of what is not."""
        with server.connect() as client:
            again = list(self.unanswered)
            for command in again:
                reply = self.insist(lambda c=command: client.pipeline([c])[0])
                assert isinstance(reply, int), f"{command}: {reply}"
                self.answer(reply)

            known = self.random.sample(list(self.answers), min(AGAIN_MAX, len(self.answers)))
            for command in known + again:
                reply = self.insist(lambda c=command: client.pipeline([c])[0])
                first = self.answers[command]
                assert reply == first, f"{command}: first {first}, and when repeated {reply}"
            self.reuse_key(client, known)

    @staticmethod
    def reuse_key(client, known):
        if known:
            name, counter, delta, word, key = known[0]
            reply = client.pipeline([(name, counter, str(int(delta) + 1), word, key)])[0]
            assert isinstance(reply, tallyd.ReplyError) and reply.word == "IDMISMATCH", reply


class Reactor(Writer):
    """LIKE, DISLIKE and UNLIKE by users of its own, on items that others react to as well."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.held = {}  # by (item, user): the reaction by the last answer

    def held_by_users(self):
        return self.held

    def user(self):
        number = self.random.randint(1, 2500)
        return f"{self.name}-{number}" if number % 2 else f"{ord(self.name[-1])}{number:05d}"

    def next(self):
        word = self.random.choice(["LIKE", "LIKE", "LIKE", "DISLIKE", "UNLIKE"])
        command = (word, self.random.choice(in_turn(ITEMS, 2)), self.user())
        self.unanswered.append(command)
        return command

    @staticmethod
    def after(command, held):
        """The reaction that is held after the command."""
        if command[0] == "UNLIKE":
            return None if held == "like" else held
        return KINDS[command[0]]

    def answer(self, reply):
        command = self.unanswered.popleft()
        before = self.held.get(command[1:])
        after = self.after(command, before)
        assert reply == int(after != before), f"{command}: {reply}, and {before} was held"
        self.held[command[1:]] = after

    def possible(self):
        """For each (item, user) the reactions that may be held, by the journal."""
        result = {place: [held] for place, held in self.held.items()}
        for command in self.unanswered:
            result[command[1:]] = self.states_after(result.get(command[1:], [None]), command)
        return result

    def compare(self, server):
        possible = self.possible()
        places = list(possible)
        with server.connect() as client:
            for start in range(0, len(places), 1000):
                part = places[start:start + 1000]
                found = client.pipeline([("REACTION", *place) for place in part])
                for place, held in zip(part, found):
                    assert held in possible[place], f"{place}: {held} not of {possible[place]}"
                    self.held[place] = held
        self.unanswered.clear()


class Request:
    """A write over HTTP with its key, and what was answered to it first."""

    def __init__(self, key, method, path, body=None):
        self.key = key
        self.path = path
        self.first = None
        data = b"" if body is None else json.dumps(body).encode()
        head = (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: {key}\r\n"
                f"Content-Length: {len(data)}\r\n")
        if data:
            head += "Content-Type: application/json\r\n"
        self.data = head.encode() + b"\r\n" + data

    def __repr__(self):
        return f"{self.data!r}"


def essence(answer):
    """What of an answer stays the same when it is repeated."""
    return {name: answer.json.get(name) for name in ("id", "value", "reaction", "changed")}


def whole_answer(client):
    """The next answer; one that was cut off is the end of the connection."""
    try:
        answer = client.read()
    except (IndexError, ValueError):
        answer = None
    if answer is None or str(len(answer.body)) != answer.headers.get("content-length"):
        raise ConnectionError("the server is gone")
    return answer


class WebWriter(Writer):
    """Pipelined requests with an Idempotency-Key each."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.answers = []  # requests that were answered

    @staticmethod
    def connect(server):
        return web.Raw(server.http_port)

    def step(self, client):
        requests = [self.next() for _ in range(self.random.randint(1, PIPELINE_MAX))]
        client.send(b"".join(request.data for request in requests))
        for _ in requests:
            reply = whole_answer(client)
            if reply.status == 200:
                self.take(reply)
            else:
                self.refuse(reply.status == 507, reply.body)

    def take(self, reply):
        request = self.unanswered[0]
        request.first = essence(reply)
        self.answer(request.first)
        self.answers.append(self.unanswered.popleft())
        self.answered += 1

    def ask(self, client, request):
        def once():
            client.send(request.data)
            return whole_answer(client)
        reply = self.insist(once, lambda reply: reply.status == 507)
        assert reply.status == 200, f"{request}: {reply.status} {reply.body}"
        return reply

    def compare(self, server):
        with web.Raw(server.http_port) as client:
            while self.unanswered:
                self.take(self.ask(client, self.unanswered[0]))
            known = self.random.sample(self.answers, min(AGAIN_MAX, len(self.answers)))
            for request in known:
                reply = self.ask(client, request)
                assert reply.json["repeated"], f"{request}: {reply.body}"
                assert essence(reply) == request.first, f"{request}: {request.first}, {reply.body}"


class WebAdder(WebWriter):
    """Adds to counters that others add to as well."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.added = collections.Counter()

    def sums(self):
        return self.added

    def next(self):
        counter = self.random.choice(in_turn(SHARED, 2))
        delta = self.random.randint(-3, 9)
        request = Request(self.key(), "POST", f"/v1/counters/{counter}/add", {"delta": str(delta)})
        request.counter, request.delta = counter, delta
        self.unanswered.append(request)
        return request

    def answer(self, reply):
        request = self.unanswered[0]
        assert reply["id"] == request.counter, (request, reply)
        self.added[request.counter] += request.delta


class WebReactor(WebWriter):
    """Reactions of users of its own; toggles as well, which only a key makes safe to repeat."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.held = {}

    def held_by_users(self):
        return self.held

    def next(self):
        item = self.random.choice(in_turn(ITEMS, 2))
        user = f"{self.name}-{self.random.randint(1, 1500)}"
        kind = self.random.choice(list(KINDS.values()))
        path = f"/v1/items/{urllib.parse.quote(item, safe='')}/reactions/{user}"
        verb = self.random.choice(["put", "put", "delete", "toggle"])
        method, end, body = {"put": ("PUT", "", {"kind": kind}), "delete": ("DELETE", "", None),
                             "toggle": ("POST", "/toggle", {"kind": kind})}[verb]
        request = Request(self.key(), method, path + end, body)
        request.place, request.verb, request.kind = (item, user), verb, kind
        self.unanswered.append(request)
        return request

    @staticmethod
    def after(request, held):
        if request.verb == "delete" or (request.verb == "toggle" and held == request.kind):
            return None
        return request.kind

    def answer(self, reply):
        request = self.unanswered[0]
        before = self.held.get(request.place)
        after = self.after(request, before)
        assert (reply["reaction"], reply["changed"]) == (after, after != before), (
            f"{request}: {reply}, and {before} was held")
        self.held[request.place] = after
