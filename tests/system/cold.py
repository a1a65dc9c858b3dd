"""cold.py - data that is much larger than the memory it may take.

Whatever leaves memory must be as if it had not: values, reactions, who held what, keys; for many
clients at once, each with its requests in a pipeline, whose answers must come in order."""

import random
import time

import tallyd

SMALL = ("--max-memory", "3MiB", "--retention", "1s", "--flush-interval", "100ms", "--workers", "2")
COUNTERS = 450_000  # ten times what fits
CLIENTS = 8
TRY_FOR_S = 60


class Cold(tallyd.Case):
    def setUp(self):
        self.random = random.Random(7)
        self.tallyd = self.server(*SMALL)
        self.clients = [self.client(self.tallyd) for _ in range(CLIENTS)]

    def figures(self, section):
        text = self.clients[0].call("INFO", section)
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def insist(self, client, commands):
        """The answers; what is refused because nothing could leave memory yet is sent again."""
        answers = [None] * len(commands)
        waiting = list(range(len(commands)))
        deadline = time.monotonic() + TRY_FOR_S
        while waiting:
            self.assertLess(time.monotonic(), deadline, "memory does not get free")
            refused = []
            for index, answer in zip(waiting, client.pipeline([commands[i] for i in waiting])):
                answers[index] = answer
                if isinstance(answer, tallyd.ReplyError):
                    self.assertTrue(str(answer).startswith("OOM "), answer)
                    refused.append(index)
            if refused:
                time.sleep(0.05)
            waiting = refused
        return answers

    def fill(self, commands, step=2000):
        for first in range(0, len(commands), step):
            yield from self.insist(self.clients[0], commands[first:first + step])

    def wait_until_cold(self, field):
        tallyd.wait_until(lambda: int(self.figures("memory")[f"hot_{field}"]) == 0, 30,
                          "everything leaves memory")

    def test_counters_beyond_memory(self):
        model = {f"counter:{i}": i % 7 + 1 for i in range(COUNTERS)}
        written = self.fill([("INCRBY", key, value) for key, value in model.items()])
        self.assertEqual(list(written), list(model.values()))
        self.wait_until_cold("counters")
        figures = self.figures("memory")
        self.assertEqual(int(figures["cold_counters"]), COUNTERS)
        self.assertLessEqual(int(figures["hot_memory"]), int(figures["maxmemory"]))

        for _ in range(20):
            self.play_round(model)
        self.assertGreater(int(self.figures("memory")["cold_misses"]), 1000)
        self.assertEqual(self.clients[0].call("DBSIZE"), COUNTERS)
        self.assertEqual(self.scanned(), set(model))

        self.clients[0].close()
        self.tallyd.kill()
        self.tallyd.start()
        self.clients[0] = self.client(self.tallyd)
        keys = self.random.sample(list(model), 2000)
        values = self.insist(self.clients[0], [("GET", key) for key in keys])
        self.assertEqual([int(value) for value in values], [model[key] for key in keys])

    def play_round(self, model):
        """All clients at once, each with counters of its own; none is asked for more than fits."""
        plans = []
        for number, client in enumerate(self.clients):
            keys = [f"counter:{self.random.randrange(COUNTERS // CLIENTS) * CLIENTS + number}"
                    for _ in range(50)]
            words = [self.random.choice(("INCR", "GET", "PING")) for _ in keys]
            client.send(*[("PING",) if word == "PING" else (word, key)
                          for word, key in zip(words, keys)])
            plans.append((client, words, keys))
        for client, words, keys in plans:
            for word, key in zip(words, keys):
                answer = client.read()
                if word == "INCR":
                    model[key] += 1
                expected = {"INCR": model[key], "GET": str(model[key]), "PING": "PONG"}[word]
                self.assertEqual(answer, expected, (word, key))

    def scanned(self):
        found = set()
        cursor = "0"
        for _ in range(COUNTERS):
            cursor, keys = self.clients[0].call("SCAN", cursor, "COUNT", 5000)
            found.update(keys)
            if cursor == "0":
                return found
        self.fail("the scan does not end")

    def test_reactions_beyond_memory(self):
        items = [f"item:{i}" for i in range(3000)]
        likes = [("LIKE", item, f"user:{self.random.randrange(500)}") for item in items
                 for _ in range(20)]
        held = {}
        expected = []
        for _, item, user in likes:
            expected.append(0 if user in held.setdefault(item, set()) else 1)
            held[item].add(user)
        self.assertEqual(list(self.fill(likes)), expected)
        self.wait_until_cold("items")

        for item in self.random.sample(items, 200):
            user = self.random.choice(sorted(held[item]))
            answers = self.insist(self.clients[1], [
                ("LIKE", item, user), ("REACTION", item, user), ("GET", f"{item}/like"),
                ("UNLIKE", item, user), ("UNLIKE", item, user), ("GET", f"{item}/like"),
                ("MEMBERS", item, "like", "COUNT", 100)])
            count = len(held[item])
            held[item].remove(user)
            self.assertEqual(answers[:6], [0, "like", str(count), 1, 0, str(count - 1)])
            self.assertEqual(set(answers[6][1]), held[item])

    def test_keys_of_what_is_cold(self):
        commands = [("COUNTER.ADD", f"counter:{i}", i, "ID", f"key:{i}") for i in range(2000)]
        first = list(self.fill(commands))
        self.wait_until_cold("counters")
        self.assertEqual(list(self.fill(commands)), first)
        values = self.insist(self.clients[1], [("GET", f"counter:{i}") for i in range(2000)])
        self.assertEqual([int(value) for value in values], list(range(2000)))


if __name__ == "__main__":
    tallyd.main()
