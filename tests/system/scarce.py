"""scarce.py - ten times more data than memory may hold, and memory that nothing can leave.

cold.py looks at every answer of what is cold; here it is memory itself that is watched: how
large the process gets, whether those who use what is hot notice anything, and what
happens when the store is locked, so that nothing is saved and nothing can be dropped."""

import contextlib
import os
import random
import subprocess
import threading
import time

import tallyd
import web
from pipeline import PipelineCase

LIMIT = 1 << 20
SLACK = 96 << 20  # buffers of the log and of connections, the store's cache, the threads, the program
FLAGS = ("--max-memory", str(LIMIT), "--retention", "10m", "--flush-interval", "20ms",
         "--workers", "2")
WAIT_MAX_S = 5  # nobody who counts what is hot waits longer, on a busy machine

ITEMS = 20_000
MEMBERS = 12  # of each
CROWDS = 2
CROWD = 300_000  # members of each: they are loaded in slices
COUNTERS = 170_000


def users_of(item):
    """Spread over all 32 bits, so that sets cannot make them small; known without being kept."""
    chance = random.Random(item)
    return chance.sample(range(1 << 32), CROWD if item.startswith("crowd") else MEMBERS)


@contextlib.contextmanager
def busy_cores():
    """Somebody else has enough to do for all cores, and more."""
    spin = ["sh", "-c", "ulimit -t 300; while :; do :; done"]
    spinning = [subprocess.Popen([*tallyd.WITH_PARENT, *spin])
                for _ in range(3 * len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for process in spinning:
            process.terminate()
        for process in spinning:
            process.wait()


class Counting(threading.Thread):
    """Somebody who counts one thing all the time, and writes down how long it took."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.stopping = threading.Event()
        self.count = 0
        self.longest_s = 0
        self.failure = None

    def run(self):
        try:
            with self.server.connect() as client:
                while not self.stopping.is_set():
                    begin = time.monotonic()
                    self.count += 1
                    reply = client.call("INCR", "hot")
                    self.longest_s = max(self.longest_s, time.monotonic() - begin)
                    assert reply == self.count, f"{reply} instead of {self.count}"
                    time.sleep(0.001)
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def end(self):
        self.stopping.set()
        self.join()
        if self.failure:
            raise self.failure


class Scarce(PipelineCase):
    def figures(self, client):
        lines = client.call("INFO").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    @staticmethod
    def peak_bytes(server):
        """The most memory that the process has had."""
        with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10

    def insist(self, client, commands):
        """Sends again what was refused since nothing could be dropped at once."""
        answers = [None] * len(commands)
        waiting = list(range(len(commands)))
        deadline = time.monotonic() + 180
        while waiting:
            self.assertLess(time.monotonic(), deadline, "memory does not get free")
            refused = []
            for index, answer in zip(waiting, client.pipeline([commands[i] for i in waiting])):
                answers[index] = answer
                if isinstance(answer, tallyd.ReplyError):
                    self.assertEqual(answer.word, "OOM", answer)
                    refused.append(index)
            waiting = refused
            if waiting:
                time.sleep(0.02)
        return answers

    def send_all(self, client, commands, expected):
        commands = list(commands)
        for start in range(0, len(commands), 2000):
            part = commands[start:start + 2000]
            self.assertEqual(self.insist(client, part), [expected] * len(part))

    # --- ten times more ---

    def test_ten_times_more_data_than_memory(self):
        server = self.server(*FLAGS)
        client = self.client(server)
        someone = Counting(server)
        someone.start()
        self.fill(client)
        self.look(client)
        someone.end()
        self.assertGreater(someone.count, 100)
        self.assertLess(someone.longest_s, WAIT_MAX_S)
        self.assertLess(self.peak_bytes(server), LIMIT + SLACK)
        peak = self.peak_bytes(server) >> 20

        client.close()
        server.kill()
        server.start()
        client = self.client(server)
        self.look(client)
        self.assertEqual(client.call("GET", "hot"), str(someone.count))
        self.assertLess(self.peak_bytes(server), LIMIT + SLACK)
        self.assert_proved(client, "crowd*")
        self.assertEqual(server.stop(), 0)

        server.flags = ["--retention", "0"]  # and no limit: all that is asked for stays
        server.start()
        client = self.client(server)
        self.look_at_all(client)
        size = tallyd.wait_until(lambda: self.size_beyond(client, 10 * LIMIT), 10,
                                 "all of it is ten times the limit")
        print(f"{size >> 20} MiB with a limit of {LIMIT >> 20}: the process had {peak} MiB, the "
              f"longest wait was {someone.longest_s:.3f} s", file=os.sys.stderr)

    def size_beyond(self, client, least):
        size = int(self.figures(client)["hot_memory"])
        return size if size > least else None

    def fill(self, client):
        self.send_all(client, (("INCRBY", f"counter{i}", 7) for i in range(COUNTERS)), 7)
        for number in range(CROWDS):
            item = f"crowd{number}"
            self.send_all(client, (("LIKE", item, user) for user in users_of(item)), 1)
        for number in range(ITEMS):
            if number % 200 == 0:
                self.send_all(client, (("LIKE", f"item{i}", user) for i in
                                       range(number, number + 200) for user in
                                       users_of(f"item{i}")), 1)
        self.send_all(client, (("COUNTER.ADD", f"counter{i}", 1, "ID", f"key{i}")
                               for i in range(2000)), 8)

    def look(self, client):
        """A part of everything: values, counts, who is a member, and keys."""
        chance = random.Random(5)
        counters = chance.sample(range(2000, COUNTERS), 2000)
        self.send_all(client, (("GET", f"counter{i}") for i in counters), "7")
        self.send_all(client, (("COUNTER.ADD", f"counter{i}", 1, "ID", f"key{i}")
                               for i in range(0, 2000, 7)), 8)
        for number in range(CROWDS):
            item = f"crowd{number}"
            self.assertEqual(self.insist(client, [("COUNTS", item)])[0],
                             ["like", CROWD, "dislike", 0])
            some = chance.sample(users_of(item), 500)
            self.send_all(client, (("REACTION", item, user) for user in some), "like")
            self.send_all(client, (("LIKE", item, user) for user in some), 0)
        for number in chance.sample(range(ITEMS), 1000):
            item = f"item{number}"
            self.assertEqual(self.insist(client, [("COUNTS", item)])[0],
                             ["like", MEMBERS, "dislike", 0])
            self.send_all(client, (("LIKE", item, user) for user in users_of(item)), 0)

    def look_at_all(self, client):
        self.send_all(client, (("GET", f"counter{i}") for i in range(2000, COUNTERS)), "7")
        self.send_all(client, (("GET", f"item{i}/like") for i in range(ITEMS)), str(MEMBERS))
        for number in range(CROWDS):
            item = f"crowd{number}"
            found = set()
            cursor = "0"
            while True:
                cursor, page = client.call("MEMBERS", item, "like", "CURSOR", cursor,
                                           "COUNT", "10000")
                found.update(page)
                if cursor == "0":
                    break
            self.assertEqual(found, {str(user) for user in users_of(item)})

    # --- a machine that is busy with something else ---

    def test_memory_gets_free_on_a_machine_that_is_busy_with_others(self):
        """The store's threads give way to others, but not for ever."""
        self.need(os.geteuid() == 0, "only root may raise the priority of its own threads")
        server = self.server(*FLAGS)
        client = self.client(server)
        with busy_cores():
            self.send_all(client, (("INCRBY", f"counter{i}", 7) for i in range(COUNTERS // 3)), 7)
            server.wait_message("take their turn", 30)
            self.assertEqual(self.scheduling(server, "aggregator"), os.SCHED_OTHER)
        server.wait_message("give way again", 60)
        self.assertEqual(self.scheduling(server, "aggregator"), os.SCHED_IDLE)
        self.send_all(client, (("GET", f"counter{i}") for i in range(0, COUNTERS // 3, 100)), "7")

    @staticmethod
    def scheduling(server, name):
        """How a thread of the server is scheduled."""
        tasks = f"/proc/{server.pid}/task"
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/comm", encoding="ascii") as comm:
                if comm.read().strip() == name:
                    return os.sched_getscheduler(int(thread))
        raise AssertionError(f"no thread {name}")

    # --- nothing can be dropped ---

    def test_when_nothing_can_be_dropped_new_state_is_refused_and_hot_counters_go_on(self):
        server = self.server(*FLAGS)
        client = self.client(server)
        someone = Counting(server)
        someone.start()
        client.call("LIKE", "video1", "ann")
        self.wait_value(server, "video1/like", 1)
        base = self.open(server)
        base.execute("BEGIN EXCLUSIVE")

        written = self.write_until_refused(client)
        server.wait_message("the store does not answer", 30)
        site = web.Web(server.http_port)
        self.addCleanup(site.close)
        answer = site.post("/v1/counters/one-more/add", {"delta": "1"})
        self.assertEqual(answer.status, 507, answer.body)
        self.assertRegex(answer.problem, "memory")
        with self.refused("OOM"):
            client.call("INCR", "another")
        self.assertGreater(int(self.figures(client)["memory_refused_writes"]), 0)
        for _ in range(100):
            before = someone.count
            tallyd.wait_until(lambda at=before: someone.count > at, WAIT_MAX_S, "it goes on")
        self.assertEqual(client.call("INCRBY", "counter0", 1), 2)  # it is hot, too
        self.assertEqual(client.call("GET", "counter1"), "1")
        self.assertLess(self.peak_bytes(server), LIMIT + SLACK)

        base.execute("ROLLBACK")
        server.wait_message("the store answers again", 30)
        tallyd.wait_until(lambda: self.is_taken(client, "another"), 30, "memory gets free")
        self.assertEqual(site.post("/v1/counters/one-more/add", {"delta": "1"}).json["value"], "1")
        someone.end()
        for start in range(1, written, 2000):
            part = range(start, min(start + 2000, written))
            self.assertEqual(self.insist(client, [("GET", f"counter{i}") for i in part]),
                             ["1"] * len(part))
        self.assertEqual(self.insist(client, [("GET", "counter0"), ("GET", f"counter{written}")]),
                         ["2", None])
        self.assertEqual(client.call("GET", "hot"), str(someone.count))
        self.assert_proved(client, "counter1*")

    def write_until_refused(self, client):
        """New counters one after the other; how many were taken before the first refusal."""
        for number in range(1_000_000):
            try:
                client.call("INCR", f"counter{number}")
            except tallyd.ReplyError as error:
                self.assertEqual(error.word, "OOM")
                return number
        self.fail("nothing is refused")

    @staticmethod
    def is_taken(client, counter):
        try:
            return client.call("INCR", counter) == 1
        except tallyd.ReplyError:
            return False


if __name__ == "__main__":
    tallyd.main()
