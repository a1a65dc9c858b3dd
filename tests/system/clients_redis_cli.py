"""clients_redis_cli.py - redis-cli, as a person and as a script would use it."""

import os
import subprocess
import threading

import tallyd


class RedisCli(tallyd.Case):
    def setUp(self):
        self.need_command("redis-cli")
        self.one = self.server()

    def cli(self, *args, given=None):
        """What redis-cli prints."""
        result = subprocess.run(["redis-cli", "-p", str(self.one.port), *args], input=given,
                                capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_it_counts_and_likes_in_both_versions_of_the_protocol(self):
        for flags, item in (([], "video2"), (["-3"], "video3")):
            with self.subTest(flags=flags):
                def cli(*args, flags=flags):
                    return self.cli(*flags, "--no-raw", *args).rstrip("\n")
                views = item + ":views"
                self.assertEqual(cli("INCR", views), "(integer) 1")
                self.assertEqual(cli("INCRBY", views, "41"), "(integer) 42")
                self.assertEqual(cli("GET", views), '"42"')
                self.assertEqual(cli("GET", "nobody"), "(nil)")
                self.assertEqual(cli("LIKE", item, "ann"), "(integer) 1")
                self.assertEqual(cli("LIKE", item, "ann"), "(integer) 0")
                self.assertEqual(cli("DISLIKE", item, "bob"), "(integer) 1")
                self.assertEqual(cli("REACTION", item, "ann"), '"like"')
                self.assertEqual(cli("TYPE", views), "string")
                self.assertIn("(error) WRONGTYPE", cli("INCR", item + "/like"))
                self.assertIn('"like"', cli("COUNTS", item))
                self.assertIn('"ann"', cli("MEMBERS", item, "like"))
        self.assertEqual(self.cli("-3", "--no-raw", "COUNTS", "video3"),
                         '1# "like" => (integer) 1\n2# "dislike" => (integer) 1\n')

    def test_numbers_may_be_larger_than_any_register(self):
        big = "1" + "0" * 30
        self.assertEqual(self.cli("INCRBY", "atoms", big).strip(), big)
        self.assertEqual(self.cli("INCR", "atoms").strip(), big[:-1] + "1")
        self.assertEqual(self.cli("-3", "GET", "atoms").strip(), big[:-1] + "1")

    def test_commands_may_come_from_a_file(self):
        said = self.cli(given="INCR a\nINCR a\nLIKE v \"a b\"\nREACTION v \"a b\"\n")
        self.assertEqual(said.split("\n"), ["1", "2", "1", "like", ""])

    def test_transactions(self):
        said = self.cli("--no-raw", given="MULTI\nINCR t\nINCRBY t 9\nEXEC\nMULTI\nINCR t\nDISCARD\nEXEC\nGET t\n")
        self.assertEqual(said.rstrip("\n").split("\n"), [
            "OK", "QUEUED", "QUEUED", "1) (integer) 1", "2) (integer) 10",
            "OK", "QUEUED", "OK", "(error) ERR EXEC without MULTI", '"10"'])

    def test_scan_finds_every_counter(self):
        with self.one.connect() as client:
            client.pipeline([("INCR", f"scanned:{i}") for i in range(2000)])
            client.call("INCR", "other")
        found = self.cli("--scan", "--pattern", "scanned:*").split()
        self.assertEqual(sorted(found), sorted(f"scanned:{i}" for i in range(2000)))
        self.assertEqual(len(self.cli("--scan").split()), 2001)
        self.assertEqual(self.cli("DBSIZE").strip(), "2001")

    def test_mass_insertion_by_pipe(self):
        commands = b"".join(tallyd.encode("LIKE", "mass", i) + tallyd.encode("INCR", "mass:views")
                            for i in range(10000))
        result = subprocess.run(["redis-cli", "-p", str(self.one.port), "--pipe"], input=commands,
                                capture_output=True, timeout=30, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"errors: 0, replies: 20000", result.stdout)
        self.assertEqual(self.cli("MGET", "mass/like", "mass:views").split(), ["10000", "10000"])

    def test_a_subscriber_in_the_background_hears_changes(self):
        for flags in ([], ["-3"]):
            with self.subTest(flags=flags):
                listener = subprocess.Popen(
                    ["redis-cli", "-p", str(self.one.port), *flags, "SUBSCRIBE", "heard"],
                    stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
                lines = []
                reader = threading.Thread(target=lambda: lines.extend(listener.stdout))
                reader.start()
                try:
                    tallyd.wait_until(lambda: "subscribe" in "".join(lines), 10, "it subscribes")
                    value = int(self.cli("INCRBY", "heard", "5"))
                    tallyd.wait_until(lambda: f"message heard {value}" in
                                      " ".join("".join(lines).split()), 10, "it hears")
                finally:
                    listener.terminate()
                    listener.wait()
                    reader.join()
                    listener.stdout.close()

    def test_what_it_asks_a_server_about_itself_is_answered(self):
        self.assertIn("redis_version", self.cli("INFO"))
        self.assertIn("incr", self.cli("COMMAND", "LIST"))
        self.assertIn("summary", self.cli("COMMAND", "DOCS", "incr"))
        self.assertIn("workers", self.cli("CONFIG", "GET", "*"))
        self.assertIn("addr=127.0.0.1", self.cli("CLIENT", "LIST"))
        self.assertEqual(self.cli("-n", "0", "PING").strip(), "PONG")
        self.assertIn("version", self.cli("HELLO"))

    def test_the_password_of_the_environment_is_used(self):
        guarded = self.server(env={"TALLY_PASSWORD": "hunter2"})
        command = ["redis-cli", "-p", str(guarded.port), "INCR", "views"]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn("NOAUTH", refused.stdout + refused.stderr)
        for flags in ([], ["-3"]):
            allowed = subprocess.run([*command[:3], *flags, *command[3:]],
                                     env={**os.environ, "REDISCLI_AUTH": "hunter2"},
                                     capture_output=True, text=True, check=False)
            self.assertRegex(allowed.stdout, r"^\d\n$")


if __name__ == "__main__":
    tallyd.main()
