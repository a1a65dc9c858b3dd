"""http_limits.py - clients of the HTTP door that are too many, too slow, or do not listen."""

import contextlib
import os
import resource
import socket
import time

import tallyd
import web

CROWD = 10000


def memory_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Crowds(tallyd.Case):
    def raise_limit(self, wanted):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < wanted:
            self.need(hard == resource.RLIM_INFINITY or hard >= wanted,
                      f"this process may not open {wanted} files")
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def test_ten_thousand_who_are_silent_hinder_nobody(self):
        self.raise_limit(CROWD + 500)
        server = self.server("--workers", "2", "--max-connections", str(CROWD + 100))
        with contextlib.ExitStack() as stack:
            before = memory_bytes(server.pid)
            for _ in range(CROWD):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.http_port),
                                                             timeout=20))
            client = web.Web(server.http_port)
            tallyd.wait_until(lambda: client.get("/v1/status").json["http"]["connections"] > CROWD,
                              20, "all are in")
            for number in range(200):
                self.assertEqual(client.put(f"/v1/items/v/reactions/{number}").status, 200)
            grown = memory_bytes(server.pid) - before
            self.assertLess(grown / CROWD, 4096)
            client.close()
        self.assertEqual(server.stop(), 0)

    def test_those_who_come_too_late_are_told(self):
        server = self.server("--workers", "1", "--max-connections", "5")
        first = [web.Raw(server.http_port) for _ in range(5)]
        for one in first:
            one.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(one.read().status, 200)
        with web.Raw(server.http_port) as late:
            self.assertEqual(late.read().status, 503)
            self.assertTrue(late.is_closed())
        for one in first:
            one.close()


class Slowness(tallyd.Case):
    def test_a_head_has_ten_seconds(self):
        server = self.server("--workers", "1")
        slow = web.Raw(server.http_port, timeout_s=30)
        quick = web.Web(server.http_port)
        begin = time.monotonic()
        slow.send(b"GET /livez HTTP/1.1\r\nHost: ")
        answer = None
        slow.socket.settimeout(1)
        while answer is None and time.monotonic() - begin < 30:
            self.assertEqual(quick.get("/livez").status, 200)
            try:
                slow.send(b"x")
                data = slow.socket.recv(4096)
                answer = data
            except socket.timeout:
                continue
            except ConnectionError:
                break
        self.assertIn(b"408 Request Timeout", answer or b"")
        self.assertGreater(time.monotonic() - begin, 9)
        slow.close()
        quick.close()

    def test_a_body_has_its_time(self):
        server = self.server("--workers", "1", "--request-timeout", "1s")
        with web.Raw(server.http_port) as slow:
            slow.send(b"POST /like HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            self.assertEqual(slow.read().status, 408)
            self.assertTrue(slow.is_closed())

    def test_who_says_nothing_is_closed(self):
        server = self.server("--workers", "1", "--idle-timeout", "1s")
        with web.Raw(server.http_port) as silent:
            silent.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(silent.read().status, 200)
            self.assertTrue(silent.is_closed())

    def test_listeners_may_be_silent(self):
        server = self.server("--workers", "1", "--idle-timeout", "1s")
        with web.Raw(server.http_port) as listener:
            listener.send(b"GET /v1/changes?ids=a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(listener.read().status, 200)
            time.sleep(3)
            with web.Raw(server.http_port) as writer:
                writer.send(b"POST /v1/counters/a/add HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(writer.read().status, 200)
            while b'"value":"1"' not in (line := listener.stream.readline()):
                self.assertTrue(line)

    def test_who_does_not_read_is_not_read_from(self):
        server = self.server("--workers", "1")
        before = memory_bytes(server.pid)
        with web.Raw(server.http_port) as deaf:
            deaf.socket.settimeout(2)
            ask = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
            with contextlib.suppress(socket.timeout):
                for _ in range(200):
                    deaf.send(ask)
            self.assertLess(memory_bytes(server.pid) - before, 80 << 20)
            quick = web.Web(server.http_port)
            self.assertEqual(quick.get("/livez").status, 200)
            quick.close()

    def test_a_listener_who_does_not_read_is_closed(self):
        server = self.server("--workers", "1")
        with web.Raw(server.http_port) as deaf:
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.send(b"GET /v1/changes?match=* HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(deaf.read().status, 200)
            writer = web.Web(server.http_port)
            def closed():
                writer.batch([{"op": "add", "id": f"c{number}-{'x' * 200}"}
                              for number in range(4000)])
                return writer.get("/v1/status").json["http"]["listeners"] == 0
            tallyd.wait_until(closed, 60, "it is closed")
            writer.close()

    def test_without_files_nobody_spins(self):
        server = self.server("--workers", "1", under=("prlimit", "--nofile=64"))
        crowd = []
        for _ in range(100):
            with contextlib.suppress(OSError):
                crowd.append(socket.create_connection(("127.0.0.1", server.http_port), timeout=5))
        time.sleep(0.5)
        with open(f"/proc/{server.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.assertLess(used, 5)
        for one in crowd:
            one.close()
        client = web.Web(server.http_port)
        tallyd.wait_until(lambda: client.get("/livez").status == 200, 10, "it serves again")
        client.close()


if __name__ == "__main__":
    tallyd.main()
