"""restart.py - what a counter, an item and a key are must be the same after a restart, not only
their values: lifetimes, floors, shards, incarnations, first answers."""

import json
import re
import time
import urllib.error
import urllib.request

import tallyd


class Restart(tallyd.Case):
    def setUp(self):
        self.one = self.server("--workers", "2")
        self.connection = self.client(self.one)

    def call(self, *args):
        return self.connection.call(*args)

    def restart(self, *flags):
        """As after a crash."""
        self.one.kill()
        self.one.flags = ["--workers", "2", *flags]
        self.one.start()
        self.connection = self.client(self.one)

    def info(self, counter):
        return tallyd.pairs(self.call("COUNTER.INFO", counter))

    def test_lifetimes_go_on(self):
        self.call("INCR", "long")
        self.call("EXPIRE", "long", "1000")
        self.call("INCR", "short")
        self.call("PEXPIRE", "short", "600")
        self.call("INCR", "kept")
        self.call("EXPIRE", "kept", "1000")
        self.call("PERSIST", "kept")
        self.restart()
        self.assertTrue(980 < self.call("TTL", "long") <= 1000)
        self.assertEqual(self.call("TTL", "kept"), -1)
        time.sleep(0.7)
        self.assertIsNone(self.call("GET", "short"))
        self.assertEqual(self.call("INCR", "short"), 1)
        self.assertEqual(self.call("TTL", "short"), -1)

    def test_what_expires_while_nobody_looks_is_gone_and_stays_gone(self):
        self.call("INCRBY", "short", "41")
        self.call("PEXPIRE", "short", "300")
        self.one.kill()
        time.sleep(0.5)
        self.one.start()
        self.connection = self.client(self.one)
        self.assertIsNone(self.call("GET", "short"))
        self.assertEqual(self.call("INCR", "short"), 1)
        self.restart()
        self.assertEqual(self.call("GET", "short"), "1")

    def test_how_a_counter_was_created_is_kept(self):
        self.call("COUNTER.CREATE", "seats", "SHARDS", "8", "POLICY", "round-robin", "FLOOR", "0")
        for _ in range(20):
            self.call("INCR", "seats")
        before = self.info("seats")
        self.restart()
        after = self.info("seats")
        for name in ("shards", "shards_asked", "policy", "floor", "value", "incarnation"):
            self.assertEqual(after[name], before[name], name)
        self.assertEqual(after["shards"], 8)
        with self.refused("BELOWFLOOR"):
            self.call("DECRBY", "seats", "21")
        self.assertEqual(self.call("DECRBY", "seats", "20"), 0)
        with self.refused("BUSYKEY"):
            self.call("COUNTER.CREATE", "seats")

    def test_the_shards_asked_for_are_there_when_the_store_has_it_all(self):
        self.call("COUNTER.CREATE", "seats", "SHARDS", "8")
        self.call("COUNTER.CREATE", "video1/like", "SHARDS", "4")
        self.call("INCRBY", "seats", "3")
        for i in range(20):
            self.call("LIKE", "video1", f"user{i}")
        self.one.stop()  # which waits for the store
        self.one.start()
        self.connection = self.client(self.one)
        for _ in range(2):
            for counter, value, shards in (("seats", 3, 8), ("video1/like", 20, 4)):
                info = self.info(counter)
                self.assertEqual((info["value"], info["shards"], info["shards_asked"]),
                                 (value, shards, shards), counter)
            self.assertEqual(self.call("LIKE", "video1", "user7"), 0)
            self.restart()

    def test_a_deleted_counter_stays_deleted_and_begins_anew(self):
        for value in (3, 4):
            self.assertEqual(self.call("INCRBY", "votes", value), value)
            self.assertEqual(self.call("LIKE", "video1", f"user{value}"), 1)
            self.restart()
            self.assertEqual(self.call("DEL", "votes", "video1"), 2)
            self.restart()
            self.assertIsNone(self.call("GET", "votes"))
            self.assertIsNone(self.call("REACTION", "video1", f"user{value}"))
            self.assertEqual(self.call("COUNTS", "video1"), ["like", 0, "dislike", 0])

    def test_every_write_with_a_key_gets_its_first_answer_again(self):
        self.call("INCRBY", "base", "7")
        writes = [("COUNTER.ADD", "c1", "5", "ID", "k"),
                  ("COUNTER.ADD", "c2", "-5", "ID", "k", "REGION", "eu"),
                  ("COUNTER.ADD", "c3", "1" + "0" * 25, "ID", "k"),
                  ("COUNTER.SET", "base", "100", "ID", "k"),
                  ("LIKE", "video1", "ann", "ID", "a"),
                  ("LIKE", "video1", "ann", "ID", "b"),
                  ("UNLIKE", "video1", "ann", "ID", "c"),
                  ("DISLIKE", "video1", "bob", "ID", "d"),
                  ("TOGGLE", "video1", "cid", "ID", "e"),
                  ("REACT", "video1", "dan", "dislike", "ID", "f")]
        first = [self.call(*write) for write in writes]
        for _ in range(2):
            self.call("LIKE", "video1", "someone else")
            for write, answer in zip(writes, first):
                with self.subTest(write=write):
                    self.assert_same(self.call(*write), answer)
            self.restart()
        self.assertEqual(self.call("MGET", "c1", "c2", "base"), ["5", "-5", "100"])
        self.assertEqual(self.call("COUNTS", "video1"), ["like", 2, "dislike", 2])

    def assert_same(self, answer, first):
        """Counts that come along are of now; the rest is what was answered first."""
        if isinstance(first, list):
            answer, first = tallyd.pairs(answer), tallyd.pairs(first)
            answer.pop("counts")
            first.pop("counts")
        self.assertEqual(answer, first)

    def test_keys_are_forgotten_after_their_time(self):
        self.restart("--keys-kept", "1h")
        self.assertEqual(self.call("COUNTER.ADD", "c", "1", "ID", "k"), 1)
        self.assertEqual(self.call("COUNTER.ADD", "c", "1", "ID", "k"), 1)
        self.restart("--keys-kept", "1h")
        self.assertEqual(self.call("COUNTER.ADD", "c", "1", "ID", "k"), 1)
        self.restart("--keys-kept", "1s")
        tallyd.wait_until(lambda: self.call("COUNTER.ADD", "c", "1", "ID", "k") == 2, 30,
                          "the key is forgotten")

    def test_numbers_of_any_size_are_kept(self):
        big = 10 ** 60
        self.assertEqual(self.call("INCRBY", "atoms", str(big)), str(big))
        self.call("SET", "least", str(-2 ** 63))
        self.call("DECR", "least")
        self.restart()
        self.assertEqual(self.call("GET", "atoms"), str(big))
        self.assertEqual(self.call("GET", "least"), str(-2 ** 63 - 1))
        self.assertEqual(self.call("INCR", "least"), -2 ** 63)
        self.assertEqual(self.call("DECRBY", "atoms", str(big - 1)), 1)
        self.restart()
        self.assertEqual(self.call("MGET", "atoms", "least"), ["1", str(-2 ** 63)])

    def test_more_kinds_may_be_added_and_a_kind_that_is_missed_is_named(self):
        self.restart("--kinds", "like,dislike,love")
        self.call("REACT", "video1", "ann", "love")
        self.call("LIKE", "video1", "bob", "ID", "once")
        self.restart("--kinds", "like,dislike,love,wow")
        self.assertEqual(self.call("REACTION", "video1", "ann"), "love")
        self.assertEqual(self.call("COUNTS", "video1"),
                         ["like", 1, "dislike", 0, "love", 1, "wow", 0])
        self.one.kill()
        self.one.flags = ["--kinds", "like,dislike"]
        self.assertEqual(self.one.start_fails(), 1)
        self.assertRegex(self.one.messages(), "cannot start: .*love")
        self.one.flags = ["--kinds", "love,dislike,like"]
        self.one.start()
        with self.one.connect() as client:
            self.assertEqual(client.call("COUNTS", "video1"), ["love", 1, "dislike", 0, "like", 1])
            self.assertEqual(client.call("LIKE", "video1", "bob", "ID", "once"), 1)

    def test_an_item_of_a_kind_that_was_taken_out_says_which_kind_to_put_back(self):
        self.restart("--kinds", "like,dislike,love")
        self.call("REACT", "video1", "ann", "love")
        self.call("LIKE", "video2", "ann")
        self.one.stop()  # all is in the store, and nothing is replayed
        self.one.flags = ["--kinds", "like,dislike"]
        self.one.start()
        self.assertRegex(self.one.messages(), 'kinds of reactions that are not configured.*"love"')
        with self.one.connect() as client:
            for _ in range(3):  # at first, and while it is remembered
                with self.assertRaisesRegex(tallyd.ReplyError,
                                            r"NOKIND .*\(love\): put it back into the setting kinds"):
                    client.call("COUNTS", "video1")
            self.assertEqual(client.call("COUNTS", "video2"), ["like", 1, "dislike", 0])
        path = f"http://127.0.0.1:{self.one.http_port}/v1/items/video1"
        with self.assertRaises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(path, timeout=10)
        problem = json.load(raised.exception)
        self.assertEqual((problem["status"], problem["type"]),
                         (503, "/problems/kind-not-configured"))
        self.assertIn("(love)", problem["detail"])
        told = re.findall("holds reactions of a kind that is not configured", self.one.messages())
        self.assertEqual(len(told), 1)
        self.one.stop()
        self.one.flags = ["--kinds", "like,dislike,love"]
        self.one.start()
        with self.one.connect() as client:
            self.assertEqual(client.call("COUNTS", "video1"), ["like", 0, "dislike", 0, "love", 1])

    def test_idle_counters_expire(self):
        self.restart("--expire-idle", "1s")
        self.call("INCR", "forgotten")
        self.call("COUNTER.CREATE", "lasting", "IDLE", "1000")
        self.call("LIKE", "video1", "ann")
        end = time.monotonic() + 20
        while time.monotonic() < end and self.call("DBSIZE") > 2:
            self.call("INCR", "lasting")
            time.sleep(0.1)
        self.assertIsNone(self.call("GET", "forgotten"))
        self.assertGreater(int(self.call("GET", "lasting")), 0)
        self.assertEqual(self.call("REACTION", "video1", "ann"), "like")

    def test_a_spread_item_and_counter_come_back_whole(self):
        self.restart("--spread-rate", "100")
        for start in range(0, 20000, 500):
            users = range(start, start + 500)
            self.connection.pipeline([("LIKE", "video1", f"u{user}") for user in users])
            self.connection.pipeline([("INCR", "views")] * 500)
        tallyd.wait_until(lambda: self.info("video1")["shards"] > 1, 5, "the item spreads")
        tallyd.wait_until(lambda: self.info("views")["shards"] > 1, 5, "the counter spreads")
        self.restart()
        self.assertEqual(self.call("MGET", "views", "video1/like"), ["20000", "20000"])
        recount = tallyd.pairs(self.call("COUNTER.RECOUNT", "video1/like"))
        self.assertEqual([recount[name] for name in ("value", "recount", "drift")],
                         [20000, 20000, 0])
        again = self.connection.pipeline([("LIKE", "video1", f"u{user}") for user in range(20000)])
        self.assertEqual(sum(again), 0)


if __name__ == "__main__":
    tallyd.main()
