"""journal.py - clients of a deployment that keep a journal, for tests of what survives.

Each writer sends batches over HTTP, to one node until that fails it, then to another. A write is in
the journal before it is sent. It carries an idempotency key, and whoever got no answer sends it
again, on whichever node, with the same key. In the end

    sure      was answered "ack":"log": it counts, once, whatever has happened to any engine
    weak      was answered "ack":"hot": Redis alone may have had it
    open      has no answer yet: it counts once or not at all

settle() sends what is weak or open once more; everything is sure then, and what the deployment says
has to be what the journals say, to the last like.

Writers share items and counters, but each has users of its own, so that it knows what they hold."""

import collections
import contextlib
import http.client
import json
import random
import threading
import time

import web

BATCH_MAX = 40
ANSWER_WITHIN_S = 30
PAUSE_S = 0.05  # after a failure
ACKNOWLEDGED_WITHIN_S = 120
SETTLED_WITHIN_S = 120
KINDS = ["like", "dislike"]
SURE, WEAK, OPEN = "sure", "weak", "open"


class Write:
    """A line of the journal: what is sent, and what became of it."""

    def __init__(self, key, line):
        self.key = key
        self.line = json.dumps({**line, "key": key}).encode()
        self.fields = line
        self.state = OPEN
        self.tries = 0

    def __repr__(self):
        return f"<{self.line.decode()} {self.state}>"


class Writer:
    """Likes, dislikes, withdraws and adds, until told to stop."""

    def __init__(self, name, nodes, items, counters, users=200, seed=None, ask_log=False,
                 pace_s=0.0):
        self.name = name
        self.nodes = list(nodes)
        self.items = items
        self.counters = counters
        self.users = [f"{name}-{i}" for i in range(users)]
        self.random = random.Random(seed if seed is not None else name)
        self.path = "/v1/batch?ack=log" if ask_log else "/v1/batch"
        self.pace_s = pace_s  # between two batches
        self.number = 0
        self.again = []  # without an answer: to be sent before anything new
        self.unsettled = {}  # by key: answered as weak
        self.last = {}  # (item, user): the last write there
        self.held = {}  # (item, user): what the last sure write has left, while that is known
        self.added = collections.Counter()  # by counter: sure amounts
        self.counts = collections.Counter()
        self.longest_s = 0.0  # without a good answer
        self.good_at = None
        self.failure = None
        self.contradictions = []  # answers that do not go with earlier ones
        self.place = 0
        self.connection = None
        self.thread = None
        self.is_told_to_stop = threading.Event()

    # --- its life ---

    def start(self):
        self.good_at = time.monotonic()
        self.is_told_to_stop.clear()
        self.thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self.thread.start()

    def stop(self):
        """Ends it after the batch that it is at; raises what has gone wrong."""
        self.is_told_to_stop.set()
        self.thread.join()
        self._disconnect()
        if self.failure:
            raise AssertionError(f"{self.name}: {self.failure}")

    def _work(self):
        try:
            while not self.is_told_to_stop.is_set():
                self.step()
                if self.pace_s:
                    self.is_told_to_stop.wait(self.pace_s)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = f"{type(failure).__name__}: {failure}"

    def step(self):
        """Sends one batch: first what has to be sent again."""
        batch = self.again[:BATCH_MAX] or self._new_batch(self.random.randint(1, BATCH_MAX))
        if not self.send(batch):
            self.is_told_to_stop.wait(PAUSE_S)

    def settle(self, deadline_s=SETTLED_WITHIN_S):
        """Sends what is open, and what is weak, until all is sure."""
        deadline = time.monotonic() + deadline_s
        while self.again or self.unsettled:
            if time.monotonic() > deadline:
                left = (self.again or list(self.unsettled.values()))[:3]
                raise AssertionError(f"{self.name}: {len(self.again)} writes have no answer and "
                                     f"{len(self.unsettled)} are not in the log, such as {left}")
            batch = self.again[:BATCH_MAX] or list(self.unsettled.values())[:BATCH_MAX]
            if not self.send(batch):
                time.sleep(PAUSE_S)
        self._disconnect()

    # --- what it writes ---

    def _new_batch(self, size):
        """New writes, none of them where another is still open."""
        taken = set()
        batch = []
        for _ in range(size):
            self.number += 1
            key = f"{self.name}-k{self.number}"
            if self.counters and self.random.random() < 0.2:
                line = {"op": "add", "id": self.random.choice(self.counters),
                        "delta": self.random.randint(1, 5)}
            else:
                place = (self.random.choice(self.items), self.random.choice(self.users))
                if place in taken:
                    continue
                taken.add(place)
                line = {"item": place[0], "user": place[1], **self._reaction()}
            batch.append(Write(key, line))
        self.again = batch  # until they are answered
        return batch

    def _reaction(self):
        kind = self.random.choices([*KINDS, None], [6, 2, 2])[0]
        return {"op": "react", "kind": kind} if kind else {"op": "unreact"}

    # --- sending ---

    def send(self, batch):
        """Sends them; false when some got no good answer."""
        for write in batch:
            write.tries += 1
        try:
            answer = self._post(b"\n".join(write.line for write in batch))
        except (OSError, http.client.HTTPException) as error:
            self.counts[f"unanswered {type(error).__name__}"] += len(batch)
            self._try_another_node()
            return False
        if answer.status != 200 or len(answer.lines) != len(batch):
            self.counts[f"batch {answer.status}"] += len(batch)
            self._try_another_node()
            return False
        results = [self._take(write, line) for write, line in zip(batch, answer.lines)]
        self.again = [write for write in self.again if write.state == OPEN]
        if all(results):
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - self.good_at)
            self.good_at = now
        else:
            self._try_another_node()
        return all(results)

    def _post(self, body):
        if self.connection is None:
            node = self.nodes[self.place % len(self.nodes)]
            self.connection = http.client.HTTPConnection("127.0.0.1", node.http_port,
                                                         timeout=ANSWER_WITHIN_S)
        self.connection.request("POST", self.path, body=body, headers=web.LINES)
        answer = self.connection.getresponse()
        return web.Answer(answer.status, answer.getheaders(), answer.read())

    def _try_another_node(self):
        self._disconnect()
        self.place += 1

    def _disconnect(self):
        if self.connection:
            with contextlib.suppress(OSError):
                self.connection.close()
        self.connection = None

    # --- answers ---

    def _take(self, write, line):
        """Files an answer; true when it is a good one."""
        if line["status"] != 200:
            word = line.get("type", "").rsplit("/", 1)[-1]
            assert line["status"] in (429, 503, 507), f"{write}: {line}"
            self.counts[f"{line['status']} {word}"] += 1
            return False
        self.counts[f"ack {line['ack']}"] += 1
        if line.get("repeated"):
            self.counts["repeated"] += 1
        self._check_changed(write, line)
        if line["ack"] in ("log", "durable"):
            self._file_sure(write)
        else:
            assert line["ack"] == "hot", line
            self._file_weak(write)
        return True

    def _check_changed(self, write, line):
        """What was sure before must still have been there when this was decided."""
        place = place_of(write)
        if place is None or place not in self.held or write.state != OPEN:
            return
        before, after = self.held[place], write.fields.get("kind")
        if line["changed"] != (before != after):
            self.contradictions.append(f"{write} sent {write.tries} times: {line}, although "
                                       f"{before} was acknowledged there")

    def _file_sure(self, write):
        was = write.state
        write.state = SURE
        self.unsettled.pop(write.key, None)
        place = place_of(write)
        if place is None:
            if was != SURE:
                self.added[write.fields["id"]] += write.fields["delta"]
        elif self.last.get(place) in (None, write) or was == OPEN:
            self._supersede(place, write)
            self.held[place] = write.fields.get("kind")

    def _file_weak(self, write):
        if write.state == WEAK:
            return
        write.state = WEAK
        place = place_of(write)
        if place is not None:
            self._supersede(place, write)
            self.held.pop(place, None)
        self.unsettled[write.key] = write

    def _supersede(self, place, write):
        """The last write decides; one before it, if it was lost, is not missed any more."""
        before = self.last.get(place)
        if before and before is not write:
            self.unsettled.pop(before.key, None)
        self.last[place] = write


def place_of(write):
    """(item, user) of a reaction; None of an addition."""
    return (write.fields["item"], write.fields["user"]) if "item" in write.fields else None


# --- what all of them know ------------------------------------------------------------------------


class Journal:
    """Some writers and what they know together."""

    def __init__(self, writers):
        self.writers = writers

    def start(self):
        for writer in self.writers:
            writer.start()

    def stop(self):
        for writer in self.writers:
            writer.is_told_to_stop.set()
        for writer in self.writers:
            writer.stop()

    def settle(self):
        """Nothing is open or weak any more."""
        threads = []
        failures = []

        def run(writer):
            try:
                writer.settle()
            except Exception as failure:  # pylint: disable=broad-except
                failures.append(f"{type(failure).__name__}: {failure}")
        for writer in self.writers:
            threads.append(threading.Thread(target=run, args=(writer,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
        assert not failures, failures

    def counts(self):
        return sum((writer.counts for writer in self.writers), collections.Counter())

    def acknowledged(self):
        return sum(n for name, n in self.counts().items() if name.startswith("ack "))

    def wait_acknowledged(self, more, timeout_s=ACKNOWLEDGED_WITHIN_S):
        """Waits until so many more writes were acknowledged than now."""
        want = self.acknowledged() + more
        deadline = time.monotonic() + timeout_s
        while self.acknowledged() < want:
            for writer in self.writers:
                assert not writer.failure, f"{writer.name}: {writer.failure}"
            if time.monotonic() > deadline:
                raise AssertionError(f"{want - self.acknowledged()} of {more} writes were not "
                                     f"acknowledged within {timeout_s} s: {dict(self.counts())}")
            time.sleep(0.02)

    def contradictions(self):
        """Answers from which something acknowledged was missing, or counted twice."""
        return [text for writer in self.writers for text in writer.contradictions]

    def longest_s(self):
        """The longest that a writer was without a good answer."""
        return max(writer.longest_s for writer in self.writers)

    def members(self):
        """By item and kind, the users who hold it."""
        result = collections.defaultdict(set)
        for writer in self.writers:
            for (item, user), kind in writer.held.items():
                if kind:
                    result[item, kind].add(user)
        return result

    def values(self):
        """By counter, the sum of all that was added."""
        return sum((writer.added for writer in self.writers), collections.Counter())
