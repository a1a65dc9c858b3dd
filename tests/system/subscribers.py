"""subscribers.py - those who listen to changes, on the wire: both versions of the protocol, many
listeners, a slow one, and how seldom they are told."""

import contextlib
import resource
import socket
import time

import tallyd
import web


class Subscribers(tallyd.Case):
    def setUp(self):
        self.one = self.server("--workers", "2")
        self.writer = self.client(self.one)

    def subscribe(self, word, *channels, version=2):
        listener = self.client(self.one)
        if version == 3:
            listener.call("HELLO", "3")
        listener.send((word, *channels))
        for count, channel in enumerate(channels, 1):
            self.assertEqual(listener.read(), [word.lower(), channel, count])
        return listener

    def test_every_listener_hears_the_last_value(self):
        listeners = [self.subscribe("SUBSCRIBE", "views") for _ in range(50)]
        for _ in range(500):
            last = self.writer.call("INCR", "views")
        for listener in listeners:
            heard = []
            while not heard or heard[-1] != last:
                kind, channel, value = listener.read()
                self.assertEqual((kind, channel), ("message", "views"))
                heard.append(int(value))
            self.assertEqual(heard, sorted(set(heard)))

    def test_patterns_hear_what_matches_and_nothing_else(self):
        listener = self.subscribe("PSUBSCRIBE", "news:*")
        self.writer.pipeline([("INCR", "olds:1"), ("INCR", "news:1"), ("LIKE", "news:2", "ann")])
        heard = sorted(listener.read()[1:] for _ in range(3))
        self.assertEqual(heard, [["news:*", "news:1", "1"],
                                 ["news:*", "news:2/dislike", "0"],  # an item is told as a whole
                                 ["news:*", "news:2/like", "1"]])
        listener.send(("PUNSUBSCRIBE", "news:*"))
        self.assertEqual(listener.read(), ["punsubscribe", "news:*", 0])
        self.assertEqual(listener.call("PING"), "PONG")

    def test_with_resp3_a_listener_may_write_and_its_answers_keep_their_order(self):
        listener = self.subscribe("SUBSCRIBE", "views", version=3)
        listener.send(*[("INCR", "views")] * 3000)
        expected = 1
        pushed = []
        begin = time.monotonic()
        while expected <= 3000 or not pushed or pushed[-1] != 3000:
            reply = listener.read()
            if isinstance(reply, tallyd.Push):
                pushed.append(int(reply[2]))
            else:
                self.assertEqual(reply, expected)
                expected += 1
        seconds = time.monotonic() - begin
        self.assertLessEqual(len(pushed), seconds * 10 + 2)

    def test_with_resp2_a_listener_may_only_listen(self):
        listener = self.subscribe("SUBSCRIBE", "views")
        with self.refused("ERR Can't execute 'incr'"):
            listener.call("INCR", "views")
        self.assertEqual(listener.call("PING"), ["pong", ""])
        listener.send(("UNSUBSCRIBE",))
        self.assertEqual(listener.read(), ["unsubscribe", "views", 0])
        self.assertEqual(listener.call("INCR", "views"), 1)

    def test_what_is_told_is_durable(self):
        listener = self.subscribe("SUBSCRIBE", "views")
        self.writer.send(*[("INCR", "views")] * 2000)
        told = int(listener.read()[2])
        self.one.kill()
        with contextlib.suppress(ConnectionError, socket.timeout):
            while True:
                told = int(listener.read()[2])
        self.one.start()
        with self.one.connect() as client:
            self.assertGreaterEqual(int(client.call("GET", "views")), told)

    def test_a_listener_that_never_reads_hinders_nobody(self):
        self.subscribe("PSUBSCRIBE", "*")
        begin = time.monotonic()
        for start in range(0, 20000, 1000):
            self.writer.pipeline([("INCR", f"id{i}") for i in range(start, start + 1000)])
        self.assertLess(time.monotonic() - begin, 10)
        other = self.subscribe("SUBSCRIBE", "views")
        self.writer.call("INCR", "views")
        self.assertEqual(other.read(), ["message", "views", "1"])

    def test_deletion_is_heard(self):
        self.writer.call("INCRBY", "views", "5")
        listener = self.subscribe("SUBSCRIBE", "views")
        self.writer.call("DEL", "views")
        kind, channel, value = listener.read()
        self.assertEqual((kind, channel), ("message", "views"))
        self.assertIn(value, ("0", "", None))


def memory_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Deaf(tallyd.Case):
    """Many who listen to everything and read nothing: what they are sent is kept once."""

    CROWD = 2000
    ROUNDS = 10
    LINES = 4000

    def raise_limit(self, wanted):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < wanted:
            self.need(hard == resource.RLIM_INFINITY or hard >= wanted,
                      f"this process may not open {wanted} files")
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def join(self, port, hello, answer):
        """A listener with a small buffer, who has read the beginning and reads no more."""
        one = socket.socket()
        self.addCleanup(one.close)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(tallyd.REPLY_WITHIN_S)
        one.connect(("127.0.0.1", port))
        one.sendall(hello)
        heard = b""
        while answer not in heard:
            more = one.recv(4096)
            self.assertTrue(more)
            heard += more

    def write(self, writer):
        for number in range(self.ROUNDS):
            lines = [{"op": "add", "id": f"c{i}"} for i in range(self.LINES)]
            self.assertEqual(writer.batch(lines).status, 200, number)

    def check(self, door, hello, answer):
        self.raise_limit(self.CROWD + 500)
        server = self.server("--workers", "1")
        writer = web.Web(server.http_port)
        self.addCleanup(writer.close)
        self.write(writer)
        port = server.port if door == "resp" else server.http_port
        for _ in range(self.CROWD):
            self.join(port, hello, answer)
        # A listener who reads hears all the while, and to the end.
        reader = web.Raw(server.http_port)
        self.addCleanup(reader.close)
        reader.send(b"GET /v1/changes?ids=last HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(reader.read().status, 200)

        before = memory_bytes(server.pid)
        self.write(writer)
        grown = memory_bytes(server.pid) - before
        print(f"{door}: memory {before >> 20} MiB + {grown >> 20} MiB", flush=True)
        self.assertLess(grown, 128 << 20)
        self.assertEqual(writer.batch([{"op": "add", "id": "last"}]).status, 200)
        while b'"value":"1"' not in (line := reader.stream.readline()):
            self.assertTrue(line)

    def test_two_thousand_of_http(self):
        self.check("http", b"GET /v1/changes?match=* HTTP/1.1\r\nHost: localhost\r\n\r\n",
                   b"retry: 1000")

    def test_two_thousand_of_resp(self):
        self.check("resp", tallyd.encode("PSUBSCRIBE", "*"), b"psubscribe")


if __name__ == "__main__":
    tallyd.main()
