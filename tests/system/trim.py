"""trim.py - the log is kept small, and numbers can still be proved.

What the store has leaves the log, a segment at a time; its sums are recorded first, and
recounts begin with them."""

import os
import random
import time

import tallyd
from pipeline import PipelineCase

SEGMENT = 64 << 10
KEEP = 256 << 10
SMALL = ("--flush-interval", "20ms", "--segment-size", str(SEGMENT), "--log-keep-bytes", str(KEEP))
TRIMMED_WITHIN_S = 30


def now_ms():
    return int(time.time() * 1000)


class Trim(PipelineCase):
    def setUp(self):
        self.random = random.Random(3)
        self.views = 0
        self.likers = {f"video{i}": set() for i in range(5)}

    def write(self, client, rounds=20):
        """About 60 KiB of events in each round."""
        for _ in range(rounds):
            commands = []
            for i in range(1000):
                item = self.random.choice(list(self.likers))
                user = f"a user with a longer name {self.random.randrange(3000)}"
                if self.random.random() < 0.7:
                    commands.append(("LIKE", item, user))
                    self.likers[item].add(user)
                else:
                    commands.append(("UNLIKE", item, user))
                    self.likers[item].discard(user)
                commands.append(("INCRBY", "views", i))
                self.views += i
            client.pipeline(commands)

    def log_bytes(self, server):
        sizes = []
        for path in server.segments():
            try:
                sizes.append(os.path.getsize(path))
            except FileNotFoundError:  # trimmed since it was listed
                pass
        return sum(sizes)

    def first_segment(self, server):
        return int(os.path.basename(server.segments()[0]).split(".")[0])

    def wait_trimmed(self, server, beyond=1):
        """Until the log is as small as the setting says, but for what is being written."""
        tallyd.wait_until(lambda: self.log_bytes(server) <= KEEP + 3 * SEGMENT and
                          self.first_segment(server) > beyond, TRIMMED_WITHIN_S,
                          "the log is trimmed")

    def assert_right(self, server, client):
        self.assertEqual(client.call("GET", "views"), str(self.views))
        counted = tallyd.pairs(client.call("COUNTER.RECOUNT", "views"))
        self.assertEqual((counted["value"], counted["recount"], counted["drift"]),
                         (self.views, self.views, 0))
        for item, users in self.likers.items():
            counted = tallyd.pairs(client.call("COUNTER.RECOUNT", f"{item}/like"))
            self.assertEqual((counted["value"], counted["recount"], counted["drift"]),
                             (len(users), len(users), 0))
        self.assert_proved(client)

    def test_it_is_trimmed_behind_the_mark_and_recounts_agree(self):
        server = self.server(*SMALL)
        client = self.client(server)
        first = 1
        for _ in range(2):
            self.write(client)
            self.wait_trimmed(server, beyond=first)
            first = self.first_segment(server)
            counted = tallyd.pairs(client.call("COUNTER.RECOUNT", "views"))
            self.assertNotEqual(counted["base"], 0)
            self.assert_right(server, client)
        self.assertGreater(int(self.info(client, "log_trimmed_bytes")), 1 << 20)

        for end in (server.stop, server.kill):
            end()
            server.start()
            client = self.client(server)
            self.assert_right(server, client)
            self.write(client, rounds=3)
            self.assert_right(server, client)

    @staticmethod
    def info(client, name):
        lines = client.call("INFO").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)[name]

    def test_what_was_deleted_and_made_again(self):
        server = self.server(*SMALL)
        client = self.client(server)
        client.call("INCRBY", "again", 1000)
        client.call("LIKE", "gone", "ann")
        self.write(client)
        self.wait_trimmed(server)
        first = self.first_segment(server)
        client.call("DEL", "again", "gone")
        client.call("INCRBY", "again", 7)
        client.call("LIKE", "gone", "bob")
        client.call("LIKE", "gone", "carol")
        for _ in range(2):
            for counter, value in (("again", 7), ("gone/like", 2)):
                counted = tallyd.pairs(client.call("COUNTER.RECOUNT", counter))
                self.assertEqual((counted["value"], counted["recount"], counted["drift"]),
                                 (value, value, 0), counter)
            self.assert_proved(client)
            self.write(client)
            self.wait_trimmed(server, beyond=first + 10)
        self.assert_right(server, client)

    def test_the_past_before_the_base_is_said_to_be_gone(self):
        server = self.server(*SMALL)
        client = self.client(server)
        client.call("INCR", "views")
        self.views += 1
        time.sleep(0.05)
        early = now_ms()
        self.assertEqual(client.call("COUNTER.AT", "views", early), 1)
        time.sleep(0.05)
        self.write(client)
        self.wait_trimmed(server)
        with self.refused("ERR") as caught:
            client.call("COUNTER.AT", "views", early)
        self.assertRegex(str(caught.exception), "log does not reach back so far")
        self.assertEqual(client.call("COUNTER.AT", "views", now_ms()), self.views)

        cursor, listed = "0", 0
        while True:  # the events that are left can be listed
            cursor, page = client.call("COUNTER.EVENTS", "views", "CURSOR", cursor, "COUNT", "1000")
            listed += len(page)
            if cursor == "0":
                break
        self.assertGreater(listed, 0)
        self.assertLess(listed, 20000)

    def test_nothing_goes_that_the_store_does_not_have(self):
        server = self.server(*SMALL)
        client = self.client(server)
        client.call("INCR", "views")
        self.views += 1
        self.wait_value(server, "views", 1)
        base = self.open(server)
        base.execute("BEGIN EXCLUSIVE")
        self.write(client)
        server.wait_message("the store does not answer", 30)
        time.sleep(6)  # longer than the trimmer's round
        self.assertEqual(self.first_segment(server), 1)
        server.kill()
        base.execute("ROLLBACK")
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("GET", "views"), str(self.views))
        self.wait_trimmed(server)
        self.assert_right(server, client)

    def test_by_age(self):
        server = self.server("--flush-interval", "20ms", "--segment-size", str(SEGMENT),
                             "--log-keep-age", "1s")
        client = self.client(server)
        self.write(client, rounds=5)
        tallyd.wait_until(lambda: self.first_segment(server) > 3, TRIMMED_WITHIN_S, "it is trimmed")
        self.assert_right(server, client)


if __name__ == "__main__":
    tallyd.main()
