"""limits.py - what a client may not do: too long, too many, too slow, or not even our protocol."""

import contextlib
import os
import re
import resource
import socket
import sqlite3
import subprocess
import time

import tallyd
import web


def cpu_seconds(pid):
    """What the process has used up so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Sizes(tallyd.Case):
    @classmethod
    def setUpClass(cls):
        cls.shared = tallyd.Server("--workers", "1").start()

    @classmethod
    def tearDownClass(cls):
        cls.shared.remove()

    def setUp(self):
        self.one = self.client(self.shared)

    def test_ids_users_keys_and_regions_have_their_longest(self):
        self.assertEqual(self.one.call("INCR", "i" * 256), 1)
        self.assertEqual(self.one.call("LIKE", "i" * 255, "u" * 128), 1)
        self.assertEqual(self.one.call("COUNTER.ADD", "c", "1", "ID", "k" * 128, "REGION",
                                       "r" * 64), 1)
        for command in (("INCR", "i" * 257), ("GET", "i" * 257), ("LIKE", "i" * 257, "ann"),
                        ("INCR", ""), ("LIKE", "v", ""), ("LIKE", "v", "u" * 129),
                        ("COUNTER.ADD", "c", "1", "ID", "k" * 129),
                        ("COUNTER.ADD", "c", "1", "REGION", "r" * 65),
                        ("INCRBY", "c", "9" * 1000)):
            with self.subTest(command=command), self.refused("ERR"):
                self.one.call(*command)
        self.assertEqual(self.one.call("GET", "c"), "1")

    def test_ids_are_bytes(self):
        for number, name in enumerate((b"\xff\xfe", b"a\r\nb", b"a\0b", "ж".encode(), b" ",
                                       b"{a}:*?[x]")):
            with self.subTest(name=name):
                self.assertEqual(self.one.call("INCRBY", name, number), number)
                self.assertEqual(self.one.call("GET", name), str(number))

    def test_a_bulk_and_a_request_have_their_longest(self):
        self.assertEqual(len(self.one.call("ECHO", "x" * (1 << 20))), 1 << 20)
        for opening in (b"*2\r\n$4\r\nECHO\r\n$1048577\r\n", b"*1025\r\n", b"*1\r\n$2147483647\r\n",
                        b"*1\r\n$99999999999999999999\r\n",
                        b"*1\r\n$-1\r\n", b"*1\r\n:5\r\n", b"*x\r\n", b"x" * 70000,
                        b"SET \"unbalanced\r\n"):
            with self.subTest(opening=opening[:40]):
                client = self.client(self.shared, timeout_s=5)
                client.send_bytes(opening)
                reply = client.read()
                self.assertIsInstance(reply, tallyd.ReplyError)
                self.assertTrue(str(reply).startswith("ERR Protocol error"), reply)
                self.assertTrue(client.is_closed())

    def test_arguments_have_their_most(self):
        self.assertEqual(self.one.call("MGET", *["nobody"] * 1023), [None] * 1023)
        self.one.send_bytes(b"*1025\r\n$4\r\nMGET\r\n" + b"$1\r\nx\r\n" * 1024)
        self.assertIsInstance(self.one.read(), tallyd.ReplyError)

    def test_ten_thousand_commands_in_one_write_are_answered_in_order(self):
        commands = []
        expected = []
        for i in range(2500):
            commands += [("INCR", "pipelined"), ("ECHO", str(i)), ("LIKE", "piped-item", str(i)),
                         ("GET", "pipelined")]
            expected += [i + 1, str(i), 1, str(i + 1)]
        self.assertEqual(self.one.pipeline(commands), expected)

    def test_an_error_in_a_pipeline_is_answered_in_its_place(self):
        replies = self.one.pipeline([("INCR", "orderly"), ("NOSUCH",), ("INCR", "orderly"),
                                     ("INCRBY", "orderly", "x"), ("LIKE", "a"), ("GET", "orderly")])
        self.assertEqual([type(reply) for reply in replies],
                         [int, tallyd.ReplyError, int, tallyd.ReplyError, tallyd.ReplyError, str])
        self.assertEqual(replies[5], "2")

    def test_bytes_may_come_one_by_one(self):
        data = tallyd.encode("INCR", "dribble") + b"GET dribble\r\n" + tallyd.encode("PING")
        for i in range(len(data)):
            self.one.send_bytes(data[i:i + 1])
            time.sleep(0.001)
        self.assertEqual([self.one.read() for _ in range(3)], [1, "1", "PONG"])

    def test_http_is_turned_away_before_its_body_is_taken_for_commands(self):
        for request in (b"POST / HTTP/1.1\r\nHost: x\r\n\r\nINCR stolen\r\n",
                        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nINCR stolen\r\n",
                        b"Host: x\r\nINCR stolen\r\n"):
            with self.subTest(request=request):
                client = self.client(self.shared, timeout_s=5)
                client.send_bytes(request)
                self.assertTrue(client.is_closed())
                self.assertIsNone(self.one.call("GET", "stolen"))

    def test_a_reader_that_pauses_gets_all_its_answers_and_hinders_nobody(self):
        slow = self.client(self.shared, timeout_s=1)
        payload = "x" * 1000
        count = 0
        with contextlib.suppress(socket.timeout):
            for count in range(1, 100000):
                slow.send(("ECHO", payload + str(count)))
        self.assertLess(count, 99999, "the server stops reading from it at some point")
        self.assertLess(memory_bytes(self.shared.pid), 400 << 20)

        begin = time.monotonic()
        for _ in range(100):
            self.one.call("INCR", "beside")
        self.assertLess(time.monotonic() - begin, tallyd.REPLY_WITHIN_S)

        slow.socket.settimeout(tallyd.REPLY_WITHIN_S)
        for i in range(1, count):
            self.assertEqual(slow.read(), payload + str(i))


class Crowds(tallyd.Case):
    def test_one_connection_too_many_is_told_so_and_closed(self):
        server = self.server("--max-connections", "20", "--workers", "2")
        clients = [self.client(server) for _ in range(20)]
        for client in clients:
            self.assertEqual(client.call("PING"), "PONG")
        surplus = self.client(server, timeout_s=5)
        self.assertEqual(str(surplus.read()), "ERR max number of clients reached")
        self.assertTrue(surplus.is_closed())
        for client in clients:
            self.assertEqual(client.call("PING"), "PONG")

        clients[0].close()

        def gets_in():
            try:
                with server.connect() as client:
                    return client.call("PING") == "PONG"
            except (tallyd.ReplyError, ConnectionError):
                return False
        tallyd.wait_until(gets_in, 5, "there is room for another")

    def test_when_the_files_run_out_it_does_not_spin_and_goes_on_after(self):
        server = self.server("--workers", "1", "--max-connections", "10000")
        first = self.client(server)
        first.call("PING")
        used = len(os.listdir(f"/proc/{server.pid}/fd"))
        limited = subprocess.run(["prlimit", f"--pid={server.pid}", f"--nofile={used + 10}"],
                                 check=False, capture_output=True)
        self.need(limited.returncode == 0, "prlimit cannot limit the files of a process")
        crowd = [self.client(server, timeout_s=2) for _ in range(40)]
        time.sleep(0.3)
        before = cpu_seconds(server.pid)
        time.sleep(1.5)
        self.assertLess(cpu_seconds(server.pid) - before, 0.5)
        self.assertEqual(first.call("INCR", "views"), 1)

        for client in crowd:
            client.close()

        def gets_in():
            try:
                with server.connect(timeout_s=2) as client:
                    return client.call("PING") == "PONG"
            except (OSError, ConnectionError):
                return False
        tallyd.wait_until(gets_in, 10, "it takes new connections")


def with_files(count):
    """A command to run a server under: it cannot open more files, and cannot raise the limit."""
    without = ["setpriv", "--bounding-set=-sys_resource"] if os.geteuid() == 0 else []
    return ["prlimit", f"--nofile={count}:{count}", *without]


class Files(tallyd.Case):
    LIMIT = 90

    def setUp(self):
        self.need_command("prlimit")
        self.need_command("setpriv")

    def fill(self, server):
        """Idle connections to both listeners until both refuse; how many were let in by each."""
        inside = {"resp": [], "http": []}
        refused = {"resp": 0, "http": 0}
        while min(refused.values()) < 5:
            self.assertLess(sum(map(len, inside.values())), self.LIMIT)
            for door in inside:
                port = server.port if door == "resp" else server.http_port
                wire = tallyd.Connection(port, timeout_s=20)
                self.addCleanup(wire.close)
                hello, good = ((b"PING\r\n", b"+PONG") if door == "resp" else
                               (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200"))
                wire.send_bytes(hello)
                try:
                    line = wire.stream.readline()
                except ConnectionError:
                    line = b""
                if line.startswith(good):
                    inside[door].append(wire)
                else:
                    self.assertRegex(line, b"^(-ERR max number of clients|HTTP/1.1 503|$)")
                    refused[door] += 1
        return inside, refused

    def test_idle_connections_to_both_listeners_leave_files_for_log_and_store(self):
        server = self.server("--workers", "1", "--segment-size", "64KiB", "--flush-interval",
                             "100ms", "--verbosity", "debug", under=with_files(self.LIMIT))
        room = int(server.wait_message(r"fewer connections than configured.* connections=(\d+)")
                   .group(1))
        writer = self.client(server)
        writer.call("INCR", "before")
        inside, refused = self.fill(server)
        self.assertEqual(sum(map(len, inside.values())) + 1, room)
        for door in inside:
            self.assertGreater(len(inside[door]), 10, door)

        before = len(server.segments())
        value = "v" * 200
        for start in range(0, 6000, 500):
            writer.pipeline([("INCR", f"{value}:{i}") for i in range(start, start + 500)])
        self.assertGreater(len(server.segments()), before + 5)
        tallyd.wait_until(lambda: tallyd.pairs(
            [part for line in writer.call("INFO", "pipeline").splitlines() if ":" in line
             for part in line.split(":", 1)])["pipeline_lag_events"] == "0", 60, "the store has all")
        self.assertLess(len(os.listdir(f"/proc/{server.pid}/fd")), self.LIMIT)
        self.assertEqual(writer.call("INCR", "before"), 2)

        info = writer.call("INFO", "all")
        self.assertIn(f"maxclients:{room}\r\n", info)
        self.assertIn(f"rejected_connections:{refused['resp']}\r\n", info)
        web = inside["http"][0]
        web.send_bytes(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = web.stream.read().decode()
        for door, count in refused.items():
            self.assertIn(f'tally_connections_rejected_total{{door="{door}"}} {count}\n', page)

    def test_a_limit_that_leaves_nothing_for_clients_is_refused_at_the_start(self):
        server = self.server("--workers", "2", under=with_files(56), start=False)
        self.assertEqual(server.start_fails(), 1)
        self.assertRegex(server.messages(), r"the limit of open files is 56, and .* raise it")


class Memory(tallyd.Case):
    """The buffers of all clients together have a limit, and the worst go first."""

    LIMIT = 32 << 20

    def setUp(self):
        self.flags = ["--workers", "2", "--max-client-memory", "32MiB"]

    def crowd(self, server, count, data, **options):
        """Connections that have sent something, or were closed meanwhile."""
        clients = []
        for _ in range(count):
            client = self.client(server, **options)
            with contextlib.suppress(ConnectionError):
                client.send_bytes(data)
            clients.append(client)
        return clients

    def info(self, client, name):
        return int(next(line.split(":", 1)[1] for line in client.call("INFO", "all").splitlines()
                        if line.startswith(name + ":")))

    def check_bounded(self, server, baseline):
        with server.connect() as client:
            tallyd.wait_until(lambda: self.info(client, "mem_clients_normal") <= self.LIMIT, 20,
                              "the clients' memory is below its limit")
            self.assertEqual(client.call("PING"), "PONG")
            # What is read and run at the moment is beside the limit.
            tallyd.wait_until(lambda: memory_bytes(server.pid) < baseline + 2 * self.LIMIT, 20,
                              "what is given back by clients is given back to the system")

    def test_commands_that_are_half_sent(self):
        server = self.server(*self.flags)
        good = self.client(server)
        good.call("INCR", "views")
        baseline = memory_bytes(server.pid)
        half = b"*6\r\n$4\r\nMGET\r\n" + (b"$1000000\r\n" + b"x" * 1000000 + b"\r\n") * 3
        self.crowd(server, 100, half)
        self.check_bounded(server, baseline)
        self.assertEqual(good.call("INCR", "views"), 2, "a small client stays")
        tallyd.wait_until(lambda: self.info(good, "evicted_clients") > 50, 30,
                          "most of what was sent is read, and its clients are closed")
        self.assertRegex(good.call("CLIENT", "LIST"), r"qbuf=\d{6,} omem=\d+ tot-mem=\d{6,} ")
        server.wait_message("all clients together use too much memory door=resp peer=.* bytes=")

    def test_answers_that_are_not_read(self):
        server = self.server(*self.flags)
        good = self.client(server)
        for start in range(0, 20000, 1000):
            good.pipeline([("INCR", f"{'k' * 200}{i}") for i in range(start, start + 1000)])
        baseline = memory_bytes(server.pid)
        self.crowd(server, 30, tallyd.encode("KEYS", "*") * 2)
        tallyd.wait_until(lambda: self.info(good, "evicted_clients") > 0, 60, "somebody is closed")
        tallyd.wait_until(lambda: self.info(good, "blocked_clients") == 0, 60, "all have run")
        self.check_bounded(server, baseline)
        self.assertEqual(good.call("INCR", "views"), 1)

    def test_half_commands_of_strangers_take_little(self):
        server = self.server(*self.flags, env={"TALLY_PASSWORD": "secret"})
        baseline = memory_bytes(server.pid)
        half = b"*10\r\n" + (b"$16000\r\n" + b"x" * 16000 + b"\r\n") * 9
        crowd = self.crowd(server, 1000, half, timeout_s=5)
        for client in crowd[::100]:
            with contextlib.suppress(ConnectionError):
                self.assertRegex(str(client.read()), "Protocol error|NOAUTH")
        good = self.client(server)
        self.assertEqual(good.call("AUTH", "secret"), "OK")
        self.assertEqual(good.call("PING"), "PONG")
        self.assertLess(memory_bytes(server.pid), baseline + (24 << 20))

    def listen(self, server, query):
        wire = web.Raw(server.http_port)
        self.addCleanup(wire.close)
        wire.send(f"GET /v1/changes?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.assertEqual(wire.read().status, 200)
        return wire

    def test_subscriptions_count_with_their_names(self):
        server = self.server(*self.flags)
        good = self.client(server)
        before = self.info(good, "mem_clients_normal")
        listener = self.client(server)
        for start in range(0, 5000, 500):
            names = [f"{i:0>512}" for i in range(start, start + 500)]
            listener.send(("PSUBSCRIBE", *names))
            for _ in names:
                self.assertEqual(listener.read()[0], "psubscribe")
        # The name is kept twice: for the subscribers of a worker, and for whoever changes it.
        tallyd.wait_until(lambda: self.info(good, "mem_clients_normal") > before + 5000 * 1024, 20,
                          "subscriptions of RESP are counted")
        before = self.info(good, "mem_clients_normal")
        for number in range(20):
            self.listen(server, "ids=" + ",".join(f"id{number}-{i:0>20}" for i in range(200)))
        tallyd.wait_until(lambda: self.info(good, "mem_clients_normal") > before + 20 * 200 * 200,
                          20, "subscriptions of HTTP are counted")

    def test_a_subscriber_who_reads_is_not_closed_for_the_memory_of_others(self):
        server = self.server(*self.flags)
        good = self.client(server)
        readers = [self.listen(server, "match=*") for _ in range(4)]
        readers.append(self.client(server))
        readers[-1].send(("PSUBSCRIBE", "*"))
        self.assertEqual(readers[-1].read()[0], "psubscribe")
        half = b"*6\r\n$4\r\nMGET\r\n" + (b"$1000000\r\n" + b"x" * 1000000 + b"\r\n") * 3
        # The changes that they hear are under way while others fill the memory.
        changes = 0
        while self.info(good, "evicted_clients") < 20:
            self.crowd(server, 2, half)
            good.pipeline([("INCR", f"{'c' * 200}{changes + i}") for i in range(500)])
            changes += 500
            self.assertLess(changes, 500 * 200, "nobody is closed")
        good.call("INCR", "last")
        for reader in readers[:-1]:
            while b'"id":"last"' not in (line := reader.stream.readline()):
                self.assertTrue(line, "it was closed")
        while readers[-1].read()[2] != "last":
            pass

    def occupy_desk(self, server, good):
        """Questions that wait for the store, which is locked: those behind them wait as well."""
        tallyd.wait_until(lambda: self.info(good, "pipeline_lag_events") == 0, 30, "the store is there")
        base = sqlite3.connect(os.path.join(server.data, "tally.db"), timeout=30, isolation_level=None)
        self.addCleanup(base.close)
        base.execute("BEGIN IMMEDIATE")
        good.call("INCR", "new")
        clients = self.crowd(server, 16, tallyd.encode("USER.REACTIONS", "ann"))
        tallyd.wait_until(lambda: self.info(good, "blocked_clients") == len(clients), 30, "all are asked")
        return clients

    def test_questions_that_make_no_sense_are_refused_before_they_wait(self):
        server = self.server(*self.flags)
        good = self.client(server)
        good.call("INCR", "views")
        self.occupy_desk(server, good)
        baseline = memory_bytes(server.pid)
        large = "x" * 1000000
        questions = [("EVENTS", *["COUNTER", large] * 3), ("EVENTS", "COUNTER", large),
                     ("HISTORY", "a", *["USER", large] * 3), ("COUNTER.EVENTS", large),
                     ("COUNTER.RECOUNT", large), ("COUNTER.AT", large, "1"), ("HISTORY", large),
                     ("SCAN", "0", "MATCH", large), ("KEYS", large), ("DLQ", "SHOW", large),
                     ("USER.REACTIONS", large)]
        for _ in range(10):
            for question in questions:
                client = self.client(server)
                client.send(question)
                self.assertRegex(str(client.read()), "^ERR")
        self.assertGreater(self.info(good, "blocked_clients"), 0, "the others wait all the while")
        self.check_bounded(server, baseline)

    def test_questions_that_wait_count_with_their_clients(self):
        server = self.server("--workers", "2", "--max-client-memory", "1MiB")
        good = self.client(server)
        good.call("INCR", "views")
        before = self.info(good, "mem_clients_normal")
        first = len(self.occupy_desk(server, good))
        pattern = "p" * 570
        self.crowd(server, 200, tallyd.encode("SCAN", "0", "MATCH", pattern))
        tallyd.wait_until(lambda: self.info(good, "mem_clients_normal") > before + 200 * 570, 30,
                          "questions of RESP are counted")

        for _ in range(400):
            wire = web.Raw(server.http_port)
            self.addCleanup(wire.close)
            with contextlib.suppress(ConnectionError):
                wire.send(b'GET /v1/counters?match=%s HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: "%s"\r\n\r\n'
                          % (pattern.encode(), b"t" * 7000))

        def are_closed():
            with contextlib.suppress(ConnectionError), server.connect() as client:
                page = web.Web(server.http_port)
                self.addCleanup(page.close)
                evicted = re.search(r'evicted_total{door="http"} (\d+)', page.get("/metrics").body.decode())
                return int(evicted.group(1)) > 50 and self.info(client, "mem_clients_normal") <= 1 << 20
            return False
        tallyd.wait_until(are_closed, 30, "questions of HTTP are counted, and the worst are closed")
        with server.connect() as client:
            self.assertGreater(self.info(client, "blocked_clients"), 200, "the others wait all the while")

    def test_bodies_of_http_count_as_well(self):
        server = self.server(*self.flags)
        good = self.client(server)
        baseline = memory_bytes(server.pid)
        clients = []
        for _ in range(60):
            wire = tallyd.Wire(server.http_port, timeout_s=20)
            self.addCleanup(wire.close)
            clients.append(wire)
            with contextlib.suppress(ConnectionError):
                wire.send_bytes(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                b"application/x-ndjson\r\nContent-Length: 4000000\r\n\r\n"
                                + b" " * 3000000)
        self.check_bounded(server, baseline)
        self.assertEqual(good.call("INCR", "views"), 1)


class Passwords(tallyd.Case):
    FREE = 10
    EACH_SECOND = 20
    WAIT_S = 5

    def test_a_new_connection_for_each_guess_does_not_help(self):
        server = self.server("--workers", "2", env={"TALLY_PASSWORD": "sesame"})
        inside = self.client(server)
        self.assertEqual(inside.call("AUTH", "sesame"), "OK")
        trusted = web.Web(server.http_port, password="sesame")
        self.addCleanup(trusted.close)
        self.assertEqual(trusted.get("/v1/status").status, 200)

        guesses = 0
        looked_at = 0
        waiting = []
        begin = time.monotonic()
        while (time.monotonic() - begin < 3 or len(waiting) < 5) and guesses < 20000:
            client = server.connect(timeout_s=0.02 if waiting else 0.5)
            client.send(("AUTH", f"guess{guesses}"))
            guesses += 1
            try:
                said = str(client.read())
                looked_at += said.startswith("WRONGPASS")
                if "too many wrong passwords" in said:
                    self.assertTrue(client.is_closed())
                client.close()
            except socket.timeout:
                waiting.append(client)
                self.addCleanup(client.close)
        seconds = time.monotonic() - begin + self.WAIT_S
        print(f"{guesses} guesses in {seconds - self.WAIT_S:.1f} s: {looked_at} looked at at once, "
              f"{len(waiting)} wait", flush=True)
        self.assertLess(looked_at + len(waiting), self.FREE + (seconds + 1) * self.EACH_SECOND)

        # Who is in does not notice; the other protocol knows; a right password gets in again.
        self.assertEqual(inside.call("INCR", "views"), 1)
        self.assertEqual(trusted.get("/v1/status").status, 200)
        stranger = web.Web(server.http_port, password="wrong")
        self.addCleanup(stranger.close)
        self.assertIn(stranger.get("/v1/status").status, (401, 429))

        def gets_in():
            with server.connect() as client:
                with contextlib.suppress(tallyd.ReplyError, ConnectionError):
                    return client.call("AUTH", "sesame") == "OK"
        tallyd.wait_until(gets_in, 30, "a right password is taken")
        answer = web.Web(server.http_port, password="sesame")
        self.addCleanup(answer.close)
        self.assertEqual(answer.get("/v1/status").status, 200)


class Patience(tallyd.Case):
    def test_a_half_sent_request_times_out_and_a_silent_client_does_not(self):
        server = self.server("--request-timeout", "1s")
        silent = self.client(server)
        half = self.client(server, timeout_s=8)
        half.send_bytes(b"*2\r\n$4\r\nINCR\r\n$5\r\nvie")
        begin = time.monotonic()
        self.assertTrue(half.is_closed())
        self.assertTrue(0.5 < time.monotonic() - begin < 6)
        self.assertEqual(silent.call("PING"), "PONG")

    def test_dribbling_does_not_help(self):
        server = self.server("--request-timeout", "1s")
        client = self.client(server, timeout_s=8)
        client.send_bytes(b"*2\r\n$4\r\nECHO\r\n$1000\r\n")
        begin = time.monotonic()
        with self.assertRaises(OSError):
            while time.monotonic() - begin < 8:
                client.send_bytes(b"x")
                time.sleep(0.05)
        self.assertLess(time.monotonic() - begin, 7)

    def test_an_idle_client_times_out_unless_it_listens(self):
        server = self.server("--idle-timeout", "1s")
        idle = self.client(server)
        listener = self.client(server)
        listener.send(("SUBSCRIBE", "views"))
        self.assertEqual(listener.read()[0], "subscribe")
        busy = self.client(server)
        begin = asked = time.monotonic()
        while time.monotonic() - begin < 3:
            silent_s = time.monotonic() - asked
            asked = time.monotonic()
            try:
                self.assertEqual(busy.call("PING"), "PONG")
            except ConnectionError:
                self.assertGreater(silent_s, 0.9)  # a busy machine kept us from asking
                busy = self.client(server)
            time.sleep(0.2)
        self.assertTrue(idle.is_closed())
        busy.call("INCR", "views")
        self.assertEqual(listener.read()[:2], ["message", "views"])

    def test_who_has_said_good_bye_and_reads_is_not_cut(self):
        server = self.server("--workers", "1")
        other = self.client(server)
        for start in range(0, 40000, 1000):
            other.pipeline([("INCR", f"{'k' * 200}{i}") for i in range(start, start + 1000)])
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.settimeout(tallyd.REPLY_WITHIN_S)
            sock.connect(("127.0.0.1", server.port))
            own = "addr=%s:%d " % sock.getsockname()
            sock.sendall(tallyd.encode("KEYS", "*") + tallyd.encode("QUIT"))

            def is_leaving():
                line = next((line for line in other.call("CLIENT", "LIST").splitlines()
                             if own in line), "")
                return "cmd=quit" in line
            heard = 0
            while not is_leaving():
                heard += len(sock.recv(4096))
            begin = time.monotonic()
            while time.monotonic() - begin < 14:
                more = sock.recv(2048)
                self.assertTrue(more, f"it is cut after {time.monotonic() - begin} s of reading")
                heard += len(more)
                time.sleep(0.1)
            last = b""
            while more := sock.recv(1 << 16):
                heard += len(more)
                last = (last + more)[-5:]
        self.assertEqual(last, b"+OK\r\n")
        self.assertGreater(heard, 40000 * 200)

    def test_a_reader_past_the_output_limit_is_closed_and_hinders_nobody(self):
        server = self.server("--max-output", "64KiB", "--workers", "1")
        slow = self.client(server, timeout_s=5)
        other = self.client(server)
        with self.assertRaises(ConnectionError):
            for _ in range(1000):
                slow.send(("ECHO", "x" * 30000))
        begin = time.monotonic()
        self.assertEqual(other.call("INCR", "views"), 1)
        self.assertLess(time.monotonic() - begin, 10)
        server.wait_message("its answers pile up")


if __name__ == "__main__":
    tallyd.main()
