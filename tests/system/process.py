"""process.py - tallyd as a process: signals, service manager, settings, passwords, exit codes."""

import os
import re
import signal
import socket
import threading
import time

import tallyd


def write_file(path, text, mode=0o600):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


class Signals(tallyd.Case):
    def test_sigterm_under_load_loses_nothing_and_exits_0(self):
        server = self.server("--workers", "2")
        answered = [0] * 4

        def load(number):
            try:
                with server.connect() as client:
                    while True:
                        client.send(*[("INCR", f"views{number}")] * 20)
                        for _ in range(20):
                            answered[number] = client.read()
            except ConnectionError:
                pass

        threads = [threading.Thread(target=load, args=(i,)) for i in range(len(answered))]
        for thread in threads:
            thread.start()
        idle = self.client(server)
        time.sleep(0.5)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, tallyd.STOP_WITHIN_S)
        for thread in threads:
            thread.join(10)
        self.assertTrue(idle.is_closed())
        self.assertIn("info  stopped", server.messages())

        server.start()
        with server.connect() as client:
            for number, value in enumerate(answered):
                self.assertGreater(value, 0)
                found = int(client.call("GET", f"views{number}"))
                self.assertTrue(value <= found <= value + 20, (value, found))

    def test_sigint_stops_it_as_well(self):
        server = self.server()
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(tallyd.STOP_WITHIN_S), 0)

    def test_a_client_that_takes_no_answers_does_not_keep_it_from_stopping(self):
        server = self.server()
        stubborn = self.client(server)
        payload = "x" * 60000
        stubborn.socket.settimeout(1)
        try:
            for _ in range(400):
                stubborn.send(("ECHO", payload))
        except socket.timeout:
            pass
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, tallyd.STOP_WITHIN_S)

    def test_a_pause_is_harmless(self):
        server = self.server("--idle-timeout", "60s")
        client = self.client(server)
        self.assertEqual(client.call("INCR", "views"), 1)
        server.signal(signal.SIGSTOP)
        client.send(("INCR", "views"))
        time.sleep(1.5)
        server.signal(signal.SIGCONT)
        self.assertEqual(client.read(), 2)
        self.assertEqual(client.call("INCR", "views"), 3)

    def test_a_closed_connection_is_no_broken_pipe(self):
        server = self.server()
        for _ in range(20):
            with server.connect() as client:
                client.send(*[("INCR", "views")] * 100)
        with server.connect() as client:
            tallyd.wait_until(lambda: int(client.call("GET", "views") or 0) > 0, 5, "some counted")
            self.assertEqual(client.call("PING"), "PONG")

    def test_sighup_reads_what_can_change(self):
        folder = self.folder()
        password = write_file(os.path.join(folder, "password"), "sesame-1\n")
        config = write_file(os.path.join(folder, "tally.conf"),
                            f"password-file {password}\nverbosity info\nsegment-size 4MiB\n")
        server = self.server("--config", config)
        early = self.client(server)
        early.call("AUTH", "sesame-1")

        write_file(password, "sesame-2\n")
        write_file(config, f"password-file {password}\nverbosity warning\nsegment-size 8MiB\n")
        server.signal(signal.SIGHUP)
        server.wait_message("setting changed name=verbosity from=\"?info\"? to=\"?warning")
        server.wait_message("setting needs a restart name=segment-size")
        self.assertNotRegex(server.messages(), "sesame")

        client = self.client(server)
        with self.refused("WRONGPASS"):
            client.call("AUTH", "sesame-1")
        tallyd.wait_until(lambda: not isinstance(client.pipeline([("AUTH", "sesame-2")])[0],
                                                 tallyd.ReplyError), 5, "the new password counts")
        self.assertEqual(client.call("CONFIG", "GET", "verbosity"), ["verbosity", "warning"])
        self.assertEqual(early.call("PING"), "PONG")

        write_file(config, "verbosity loud\n")
        server.signal(signal.SIGHUP)
        server.wait_message("all stays as it was reason=.*tally.conf:1")
        self.assertEqual(client.call("PING"), "PONG")


class ServiceManager(tallyd.Case):
    def test_it_is_told_when_we_are_ready_reloading_and_stopping(self):
        path = os.path.join(self.folder(), "notify")
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(path)
        manager.settimeout(10)

        def expect(line):
            while line not in manager.recv(4096).decode().split("\n"):
                pass

        server = self.server(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"})
        expect("READY=1")
        expect("WATCHDOG=1")
        server.signal(signal.SIGHUP)
        expect("RELOADING=1")
        expect("READY=1")
        self.assertEqual(server.stop(), 0)
        expect("STOPPING=1")


class Passwords(tallyd.Case):
    def setUp(self):
        self.path = write_file(os.path.join(self.folder(), "password"), "open sesame\n")

    def test_another_address_needs_a_password_or_the_word_insecure(self):
        refused = self.server(start=False, resp="0.0.0.0:0")
        self.assertEqual(refused.start_fails(), 2)
        self.assertIn("--insecure", refused.messages())
        self.assertFalse(os.path.exists(refused.data))

        insecure = self.server("--insecure", resp="0.0.0.0:0")
        self.assertIn("there is no password", insecure.messages())
        self.assertEqual(self.client(insecure).call("PING"), "PONG")

        guarded = self.server("--password-file", self.path, resp="0.0.0.0:0")
        with self.refused("NOAUTH"):
            self.client(guarded).call("PING")

    def check_door(self, server, password):
        client = self.client(server)
        for command in (("PING",), ("GET", "views"), ("INCR", "views"), ("CONFIG", "GET", "*"),
                        ("SUBSCRIBE", "views"), ("INFO",), ("COMMAND",), ("NOSUCH",),
                        ("CLIENT", "LIST")):
            with self.refused("NOAUTH"):
                client.call(*command)
        for wrong in ("", "x", password[:-1], password + "x", "x" * 5000):
            with self.refused("WRONGPASS"):
                self.client(server).call("AUTH", wrong)
        with self.refused("WRONGPASS"):
            self.client(server).call("AUTH", "nobody", password)
        self.assertEqual(client.call("AUTH", password), "OK")
        self.assertEqual(client.call("INCR", "views"), 1)
        self.assertEqual(client.call("RESET"), "RESET")
        with self.refused("NOAUTH"):
            client.call("GET", "views")
        self.assertEqual(client.call("AUTH", "default", password), "OK")
        self.assertEqual(self.client(server).call("HELLO", "3", "AUTH", "default",
                                                  password)["proto"], 3)
        settings = tallyd.pairs(client.call("CONFIG", "GET", "*"))
        self.assertNotIn(password, settings.values())
        self.assertNotIn(password, server.messages())

    def test_the_password_of_a_file_opens_the_door(self):
        self.check_door(self.server("--password-file", self.path), "open sesame")

    def test_the_password_of_the_environment_opens_the_door(self):
        self.check_door(self.server(env={"TALLY_PASSWORD": "hunter2"}), "hunter2")

    def test_a_stranger_may_not_send_much(self):
        server = self.server("--password-file", self.path)
        client = self.client(server, timeout_s=5)
        client.send_bytes(b"*2\r\n$3\r\nGET\r\n$1000000\r\n")
        self.assertIsInstance(client.read(), tallyd.ReplyError)
        self.assertTrue(client.is_closed())

    def test_a_password_file_that_others_can_read_is_refused(self):
        os.chmod(self.path, 0o644)
        server = self.server("--password-file", self.path, start=False)
        self.assertEqual(server.start_fails(), 2)
        self.assertRegex(server.messages(), "0644.*chmod 600")

    def test_a_password_on_the_command_line_is_refused(self):
        result = tallyd.run_program("--password", "hunter2", "--test-config")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--password-file", result.stderr)
        self.assertNotIn("hunter2", result.stderr)

    def test_the_password_is_not_in_the_process_table(self):
        server = self.server(env={"TALLY_PASSWORD": "hunter2"})
        with open(f"/proc/{server.pid}/cmdline", "rb") as file:
            self.assertNotIn(b"hunter2", file.read())


class CommandLine(tallyd.Case):
    def test_the_commands_to_try_reach_it(self):
        server = self.server(resp="127.0.0.2:0", env={"TALLY_PASSWORD": "sesame"})
        server.wait_message(r"try: redis-cli -h 127\.0\.0\.2 -p \d+ --askpass INCR views")
        server = self.server()
        server.wait_message(r"try: redis-cli -p \d+ COUNTS video1")

    def test_help_and_version_exit_0(self):
        shown = tallyd.run_program("--help")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        for word in ("--data", "--resp", "TALLY_KEYS_KEPT", "--segment-size", "SIGHUP"):
            self.assertIn(word, shown.stdout)
        version = tallyd.run_program("--version")
        self.assertEqual(version.returncode, 0)
        self.assertRegex(version.stdout, r"^tallyd \d+\.\d+\.\d+\n$")

    def test_mistakes_exit_2_and_say_where(self):
        for flags, env, pattern in (
                (["--dta", "x"], {}, "--data"),
                (["--workers", "1000"], {}, "--workers"),
                (["--workers"], {}, "--workers"),
                (["surplus"], {}, "surplus"),
                (["--ack", "maybe"], {}, "durable"),
                ([], {"TALLY_WORKERS": "many"}, "TALLY_WORKERS"),
                (["--config", "/nowhere/tally.conf"], {}, "/nowhere/tally.conf"),
                (["--segment-size", "100000"], {}, "--segment-size")):
            with self.subTest(flags=flags, env=env):
                result = tallyd.run_program(*flags, "--test-config", env=env)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(pattern, result.stderr)

    def test_test_config_changes_nothing(self):
        data = os.path.join(self.folder(), "data")
        result = tallyd.run_program("--data", data, "--test-config")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("fine", result.stdout)
        self.assertFalse(os.path.exists(data))

    def test_a_flag_is_stronger_than_the_environment_and_that_than_the_file(self):
        config = write_file(os.path.join(self.folder(), "tally.conf"),
                            "# all three\nmax-connections 11\nidle-timeout 11s\nkeys-kept 11h\n")
        server = self.server("--config", config, "--max-connections", "33",
                             env={"TALLY_MAX_CONNECTIONS": "22", "TALLY_IDLE_TIMEOUT": "22s"})
        client = self.client(server)
        for name, value in (("max-connections", "33"), ("idle-timeout", "22s"),
                            ("keys-kept", "11h")):
            self.assertEqual(client.call("CONFIG", "GET", name), [name, value])

    def test_a_taken_port_is_said_and_leaves_the_data_alone(self):
        first = self.server()
        second = self.server(start=False, resp=f"127.0.0.1:{first.port}")
        self.assertEqual(second.start_fails(), 1)
        self.assertRegex(second.messages(), f"cannot start: .*{first.port}")
        left = [name for name in os.listdir(second.data) if not name.startswith("tally.db")]
        self.assertEqual(left, ["lock"])  # and a store that is still empty

    def test_every_ack_counts_and_says_what_it_is(self):
        for ack in ("durable", "written", "memory"):
            with self.subTest(ack=ack):
                server = self.server("--ack", ack)
                self.assertIn(f"ack={ack}", server.messages())
                client = self.client(server)
                self.assertEqual(client.call("INCR", "views"), 1)
                self.assertIn(ack, client.call("INFO"))
                self.assertEqual(server.stop(), 0)
                server.start()
                self.assertEqual(self.client(server).call("GET", "views"), "1")

    def test_messages_are_lines_that_nobody_can_forge(self):
        server = self.server("--verbosity", "debug")
        client = self.client(server)
        client.send_bytes(b"POST /\r\nHost: \x1b[31m evil\r\n\r\n")
        client.is_closed()
        other = self.client(server)
        other.send_bytes(b"*1\r\n$x\x1b[31m\n2026-01-01T00:00:00.000Z info  forged\r\n")
        other.is_closed()
        server.stop()
        for line in server.messages().splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT[\d:.]+Z (debug|info|warning|error) ")
            self.assertIsNone(re.search(r"[\x00-\x1f\x7f]|Z info  forged", line), line)


if __name__ == "__main__":
    tallyd.main()
