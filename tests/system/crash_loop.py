"""crash_loop.py [--kills N] [--seed N] - kill -9 at random moments, again and again.

Writers count and like over real sockets, and keep a journal: what they are about to send before
they send it, what was answered after. The server is killed while they work, sometimes while it
recovers as well, and is started again on the same folder. Then each writer compares:

  - what was answered is there, once;
  - what was sent without an answer is there or not, but whole and in order; what carries an
    idempotency key is sent again and is counted once, its answers agreeing;
  - what was not there after a restart does not come back after a later one.

A kill leaves the system's memory alone, so an engine that never syncs would pass: the simulator
is there for the power cuts."""

import argparse
import collections
import contextlib
import random
import sys
import threading
import time

import tallyd

KILL_AFTER_S = (0.05, 1.5)
KILLS_A_FOLDER = 50  # then a new one begins, since journals and logs grow
PIPELINE_MAX = 32
ITEMS = ["video1", "video2/part", "фильм"]
SHARED = ["shared:a", "shared:b"]
KINDS = {"LIKE": "like", "DISLIKE": "dislike"}


class Writer:
    """Works on one connection until the server is gone."""

    def __init__(self, name, seed):
        self.name = name
        self.random = random.Random(seed)
        self.failure = None
        self.answered = 0

    def work(self, port):
        try:
            with contextlib.suppress(ConnectionError), tallyd.Connection(port) as client:
                while True:
                    self.step(client)
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def step(self, client):
        """Sends some commands at once and reads the answers."""
        commands = [self.next() for _ in range(self.random.randint(1, PIPELINE_MAX))]
        client.send(*commands)
        for _ in commands:
            reply = client.read()
            if isinstance(reply, tallyd.ReplyError):
                raise reply
            self.answer(reply)
            self.answered += 1


class Owner(Writer):
    """Counters of its own: every answer is known beforehand."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.values = {f"own:{name}:{i}": None for i in range(5)}  # by the last answers
        self.unanswered = collections.deque()

    def next(self):
        counter = self.random.choice(list(self.values))
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

    def compare(self, client):
        possible = {counter: [value] for counter, value in self.values.items()}
        for command in self.unanswered:
            states = possible[command[1]]
            states.append(self.after(command, states[-1]))
        self.unanswered.clear()
        for counter, states in possible.items():
            found = client.call("GET", counter)
            found = None if found is None else int(found)
            assert found in states, f"{counter}: {found} instead of one of {states}"
            self.values[counter] = found


class KeyedAdder(Writer):
    """COUNTER.ADD with idempotency keys to counters that others add to as well."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.number = 0
        self.unanswered = collections.deque()
        self.answers = {}  # of each command
        self.sums = collections.Counter()  # of what is answered, by counter

    def next(self):
        self.number += 1
        command = ("COUNTER.ADD", self.random.choice(SHARED), str(self.random.randint(-3, 9)),
                   "ID", f"{self.name}-{self.number}")
        self.unanswered.append(command)
        return command

    def answer(self, reply):
        command = self.unanswered.popleft()
        self.answers[command] = reply
        self.sums[command[1]] += int(command[2])

    def compare(self, client):
        """Nobody else writes now. Sends again what is open, and some of what is not."""
        again = list(self.unanswered)
        for command, reply in zip(again, client.pipeline(again)):
            assert isinstance(reply, int), f"{command}: {reply}"
            self.answer(reply)

        known = self.random.sample(list(self.answers), min(200, len(self.answers)))
        for command, reply in zip(known + again, client.pipeline(known + again)):
            first = self.answers[command]
            assert reply == first, f"{command}: first {first}, and when repeated {reply}"
        self.reuse_key(client, known)

    def reuse_key(self, client, known):
        if known:
            name, counter, delta, word, key = known[0]
            reply = client.pipeline([(name, counter, str(int(delta) + 1), word, key)])[0]
            assert isinstance(reply, tallyd.ReplyError) and reply.word == "IDMISMATCH", reply


class Reactor(Writer):
    """LIKE, DISLIKE and UNLIKE by users of its own, on items that others react to as well."""

    def __init__(self, name, seed):
        super().__init__(name, seed)
        self.held = {}  # by (item, user): the reaction by the last answer
        self.unanswered = collections.deque()

    def next(self):
        word = self.random.choice(["LIKE", "LIKE", "LIKE", "DISLIKE", "UNLIKE"])
        number = self.random.randint(1, 3000)
        user = f"{self.name}-{number}" if number % 2 else f"{ord(self.name[-1])}{number:05d}"
        command = (word, self.random.choice(ITEMS), user)
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
            states = result.setdefault(command[1:], [None])
            states.append(self.after(command, states[-1]))
        return result

    def compare(self, client):
        possible = self.possible()
        places = list(possible)
        for start in range(0, len(places), 1000):
            part = places[start:start + 1000]
            found = client.pipeline([("REACTION", *place) for place in part])
            for place, held in zip(part, found):
                assert held in possible[place], f"{place}: {held} instead of {possible[place]}"
                self.held[place] = held
        self.unanswered.clear()


def members(client, item, kind):
    """All members, by paging."""
    result = []
    cursor = "0"
    while True:
        cursor, page = client.call("MEMBERS", item, kind, "CURSOR", cursor, "COUNT", "500")
        result += page
        if int(cursor) == 0:
            return result


class CrashLoop(tallyd.Case):
    kills = 30
    seed = None

    def setUp(self):
        self.random = random.Random(self.seed)

    def test_what_was_answered_is_there_once_after_every_kill(self):
        for begin in range(0, self.kills, KILLS_A_FOLDER):
            self.live_through(min(self.kills - begin, KILLS_A_FOLDER))

    def live_through(self, kills):
        """The life of one folder."""
        kinds = [Owner, Owner, KeyedAdder, KeyedAdder, Reactor, Reactor]
        self.writers = [kind(f"w{i}", self.random.getrandbits(32)) for i, kind in enumerate(kinds)]
        server = self.server(*self.any_flags())
        for _ in range(kills):
            self.write_and_kill(server)
            if self.random.random() < 0.25:
                self.kill_while_starting(server)
            server.flags = self.any_flags()
            server.start()
            with server.connect() as client:
                for writer in self.writers:
                    writer.compare(client)
                self.compare_counters(client)
                self.compare_items(client)
        self.assertEqual(server.stop(), 0)
        answered = sum(writer.answered for writer in self.writers)
        segments = len(server.segments())
        print(f"{kills} kills, {answered} answers, {segments} segments", file=sys.stderr)
        self.assertGreater(answered, 100 * kills)
        self.assertGreater(segments, kills)
        server.remove()

    def any_flags(self):
        """Small segments, so that there are many; counters that spread at once, or never."""
        return ["--segment-size", self.random.choice(["64KiB", "256KiB", "1MiB"]),
                "--workers", self.random.choice(["1", "2", "3"]),
                "--spread-rate", self.random.choice(["100", "1000000"]),
                "--ack", self.random.choice(["durable", "durable", "written"])]

    def write_and_kill(self, server):
        threads = [threading.Thread(target=writer.work, args=(server.port,), daemon=True)
                   for writer in self.writers]
        for thread in threads:
            thread.start()
        time.sleep(self.random.uniform(*KILL_AFTER_S))
        server.kill()
        for thread in threads:
            thread.join(30)
            self.assertFalse(thread.is_alive())
        for writer in self.writers:
            if writer.failure:
                raise writer.failure

    def kill_while_starting(self, server):
        server.spawn()
        time.sleep(self.random.uniform(0, 0.1))
        server.kill()

    def compare_counters(self, client):
        adders = [writer for writer in self.writers if isinstance(writer, KeyedAdder)]
        for counter in SHARED:
            expected = sum(adder.sums[counter] for adder in adders)
            self.assertEqual(int(client.call("GET", counter) or 0), expected, counter)

    def compare_items(self, client):
        expected = collections.defaultdict(set)
        for writer in self.writers:
            if isinstance(writer, Reactor):
                for (item, user), held in writer.held.items():
                    expected[item, held].add(user)
        for item in ITEMS:
            counts = tallyd.pairs(client.call("COUNTS", item))
            for kind in KINDS.values():
                found = members(client, item, kind)
                self.assertEqual(len(found), len(set(found)), "a member is listed once")
                self.assertEqual(set(found), expected[item, kind], (item, kind))
                self.assertEqual(int(counts[kind]), len(found), (item, kind))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=CrashLoop.kills)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options, sys.argv[1:] = parser.parse_known_args()
    CrashLoop.kills = options.kills
    CrashLoop.seed = options.seed
    print(f"--kills {options.kills} --seed {options.seed}", file=sys.stderr)
    tallyd.main()


if __name__ == "__main__":
    main()
