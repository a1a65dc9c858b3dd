"""clients_redis_py.py - redis-py, as an application in Python would use it."""

import threading
import time

import tallyd

try:
    import redis
except ImportError:
    redis = None


class RedisPy(tallyd.Case):
    def setUp(self):
        self.need(redis, "there is no redis-py (Debian: python3-redis)")
        self.one = self.server("--workers", "2")
        self.redis = self.connect()

    def connect(self, **options):
        client = redis.Redis(host="127.0.0.1", port=self.one.port, decode_responses=True,
                             socket_timeout=20, **options)
        self.addCleanup(client.close)
        return client

    def test_it_counts(self):
        client = self.redis
        self.assertTrue(client.ping())
        self.assertEqual(client.incr("views"), 1)
        self.assertEqual(client.incrby("views", 41), 42)
        self.assertEqual(client.decr("views", 2), 40)
        self.assertEqual(client.get("views"), "40")
        self.assertEqual(client.mget("views", "nobody"), ["40", None])
        self.assertTrue(client.set("views", 7))
        self.assertEqual(client.exists("views", "nobody"), 1)
        self.assertEqual(client.type("views"), "string")
        self.assertTrue(client.expire("views", 100))
        self.assertGreater(client.ttl("views"), 90)
        self.assertTrue(client.persist("views"))
        self.assertEqual(client.ttl("views"), -1)
        self.assertEqual(client.dbsize(), 1)
        self.assertEqual(client.delete("views"), 1)
        with self.assertRaisesRegex(redis.ResponseError, "not an integer"):
            client.set("views", "many")

    def test_it_likes(self):
        like = self.redis.execute_command
        self.assertEqual(like("LIKE", "video1", "ann", "ID", "k1", "REGION", "eu"), 1)
        self.assertEqual(like("LIKE", "video1", "ann", "ID", "k1", "REGION", "eu"), 1)
        self.assertEqual(like("LIKE", "video1", "ann"), 0)
        self.assertEqual(like("TOGGLE", "video1", "bob")[:4], ["reaction", "like", "changed", 1])
        self.assertEqual(like("REACT", "video1", "bob", "dislike"),
                         ["reaction", "dislike", "changed", 1, "counts",
                          ["like", 1, "dislike", 1]])
        self.assertEqual(like("MEMBERS", "video1", "dislike"), ["0", ["bob"]])
        self.assertEqual(like("REACTED", "bob"), ["0", ["video1", "dislike"]])

    def test_pipelines_and_threads(self):
        def work():
            client = self.connect()
            for _ in range(20):
                pipe = client.pipeline(transaction=False)
                for _ in range(50):
                    pipe.incr("piped")
                pipe.execute()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.redis.get("piped"), "4000")

    def test_a_pipeline_as_it_is_by_default_counts_once(self):
        pipe = self.redis.pipeline()
        self.assertEqual(pipe.incr("default").incrby("default", 9).get("default").execute(), [1, 10, "10"])
        with self.redis.pipeline() as pipe:
            for user in range(5000):
                pipe.execute_command("LIKE", "crowd", user)
            self.assertEqual(pipe.execute(), [1] * 5000)
        self.assertEqual(self.redis.get("crowd/like"), "5000")
        self.assertEqual(self.redis.transaction(lambda pipe: pipe.incr("default")), [11])

    def test_a_pipeline_that_is_refused_has_counted_nothing(self):
        pipe = self.redis.pipeline()
        pipe.incr("refused").execute_command("NO.SUCH.COMMAND").incr("refused")
        with self.assertRaisesRegex(redis.ResponseError, "unknown command"):
            pipe.execute()
        self.assertIsNone(self.redis.get("refused"))

        pipe = self.redis.pipeline()
        pipe.incr("partly").incrby("partly", "x").incr("partly")
        with self.assertRaisesRegex(redis.ResponseError, "not an integer"):
            pipe.execute()
        self.assertEqual(self.redis.get("partly"), "2")

        with self.redis.pipeline() as pipe, self.assertRaisesRegex(redis.ResponseError, "WATCH"):
            pipe.watch("refused")
        self.assertIsNone(self.redis.get("refused"))

    def test_transactions_of_many_connections_keep_their_order(self):
        def work(number, failures):
            client = self.connect()
            plain = self.connect()
            own = f"own:{number}"
            for turn in range(60):
                pipe = client.pipeline(transaction=turn % 3 != 2)
                for _ in range(20):
                    pipe.incr(own).incr("shared").get(own).ping()
                answers = pipe.execute()
                expected = range(20 * turn + 1, 20 * turn + 21)
                if answers[::4] != list(expected) or answers[2::4] != [str(n) for n in expected]:
                    failures.append((number, turn, answers))
                shared = answers[1::4]
                if shared != sorted(set(shared)) or answers[3::4] != [True] * 20:
                    failures.append((number, turn, answers))
                plain.incr("shared")
        failures = []
        threads = [threading.Thread(target=work, args=(i, failures)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.redis.get("shared"), str(6 * 60 * 21))

    def test_scan(self):
        pipe = self.redis.pipeline(transaction=False)
        for i in range(500):
            pipe.incr(f"scanned:{i}")
        pipe.execute()
        self.assertEqual(len(set(self.redis.scan_iter("scanned:*", count=50))), 500)
        self.assertEqual(len(self.redis.keys("scanned:1?")), 10)

    def test_what_it_asks_about_the_server_is_answered(self):
        info = self.redis.info()
        self.assertIn("redis_version", info)
        self.assertEqual(self.redis.config_get("ack"), {"ack": "durable"})
        self.assertTrue(self.redis.client_setname("tester"))
        self.assertEqual(self.redis.client_getname(), "tester")
        self.assertIn("tester", [client["name"] for client in self.redis.client_list()])
        self.assertIn("incr", self.redis.command())
        self.assertEqual(self.redis.echo("hello"), "hello")
        self.assertEqual(abs(self.redis.time()[0] - time.time()) < 60, True)

    def test_it_reconnects_after_a_restart(self):
        self.assertEqual(self.redis.incr("views"), 1)
        self.one.resp = f"127.0.0.1:{self.one.port}"
        self.one.kill()
        self.one.start()
        client = self.connect(retry_on_error=[redis.ConnectionError])
        self.assertEqual(client.incr("views"), 2)
        with self.assertRaises(redis.ConnectionError):
            self.one.kill()
            client.incr("views")

    def test_a_wrong_password_is_refused(self):
        self.one = self.server(env={"TALLY_PASSWORD": "hunter2"})
        self.assertEqual(self.connect(password="hunter2").incr("views"), 1)
        with self.assertRaisesRegex(redis.ResponseError, "WRONGPASS"):
            self.connect(password="wrong").incr("views")
        with self.assertRaises(redis.AuthenticationError):
            self.connect().incr("views")

    def listener(self, *channels, patterns=()):
        """One that the server knows of: all its subscriptions are confirmed."""
        listener = self.redis.pubsub()
        self.addCleanup(listener.close)
        listener.subscribe(*channels)
        if patterns:
            listener.psubscribe(*patterns)
        for _ in range(len(channels) + len(patterns)):
            self.assertIn("subscribe", listener.get_message(timeout=20)["type"])
        return listener

    @staticmethod
    def listen(listener, seconds, wanted=lambda heard: True):
        """The messages that come within a time, and for longer until they are what is wanted."""
        heard = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or (not wanted(heard) and time.monotonic() < end + 30):
            message = listener.get_message(timeout=0.05)
            if message:
                heard.append(message)
        return heard

    def test_changes_are_heard_at_most_ten_times_a_second_and_the_last_one_always(self):
        listener = self.listener("busy", patterns=["other:*"])
        begin = time.monotonic()
        last = [0]

        def write():
            client = self.connect()
            while time.monotonic() < begin + 2 or last[0] <= 100:
                last[0] = client.incr("busy")
            client.incr("other:1")

        writer = threading.Thread(target=write)
        writer.start()
        heard = self.listen(listener, 3, lambda heard: not writer.is_alive() and
                            {(m["channel"], int(m["data"])) for m in heard} >= {("busy", last[0]), ("other:1", 1)})
        writer.join()
        seconds = time.monotonic() - begin

        busy = [int(m["data"]) for m in heard if m["channel"] == "busy"]
        self.assertGreater(last[0], 100)
        self.assertTrue(5 <= len(busy) <= seconds * 10 + 2, len(busy))
        self.assertEqual(busy[-1], last[0])
        self.assertEqual(busy, sorted(set(busy)))
        other = [m for m in heard if m["channel"] == "other:1"]
        self.assertEqual([(m["type"], m["pattern"], m["data"]) for m in other],
                         [("pmessage", "other:*", "1")])

    def test_likes_are_heard(self):
        listener = self.listener("video1/like")
        self.redis.execute_command("LIKE", "video1", "ann")
        heard = self.listen(listener, 1, len)
        self.assertEqual([m["data"] for m in heard], ["1"])


if __name__ == "__main__":
    tallyd.main()
