"""cli.py - the tally command as scripts use it: pipes, JSON, exit codes, settings, errors."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading

import cli_rig
import tallyd


class Counting(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.one = self.server()

    def test_counters_are_written_and_read(self):
        self.assertEqual(self.said("add", "views"), "1\n")
        self.assertEqual(self.said("add", "views", "41"), "42\n")
        self.assertEqual(self.said("add", "views", "-2"), "40\n")
        self.assertEqual(self.said("get", "views"), "40\n")
        self.assertEqual(self.said("set", "views", "7"), "7\n")
        self.assertEqual(self.said("reset", "views"), "0\n")
        self.assertEqual(self.said("reset", "views", "9"), "9\n")
        self.assertEqual(self.said("add", "atoms", "1" + "0" * 30), "1" + "0" * 30 + "\n")
        self.assertEqual(self.json("get", "atoms"), [{"id": "atoms", "value": "1" + "0" * 30}])
        self.assertEqual(self.said("get", "views", "atoms").split(),
                         ["id", "value", "views", "9", "atoms", "1" + "0" * 30])

    def test_a_key_makes_a_write_count_once(self):
        for _ in range(3):
            self.assertEqual(self.said("add", "votes", "5", "--key", "k1"), "5\n")
        result = self.tally("add", "votes", "6", "--key", "k1", code=1)
        self.assertIn("IDMISMATCH", result.stderr)
        self.assertIn("another --key", result.stderr)

    def test_reactions_are_made_and_taken_back(self):
        self.assertEqual(self.said("like", "video1", "ann"), "1\n")
        self.assertEqual(self.said("like", "video1", "ann"), "0\n")
        self.assertEqual(self.said("dislike", "video1", "ann"), "1\n")
        self.assertEqual(self.said("reaction", "video1", "ann"), "dislike\n")
        self.assertEqual(self.json("react", "video1", "bob", "like"),
                         [{"item": "video1", "user": "bob", "reaction": "like", "changed": True,
                           "counts": {"like": "1", "dislike": "1"}}])
        self.assertEqual(self.said("toggle", "video1", "bob").split(),
                         ["none", "like", "0", "dislike", "1"])
        self.assertEqual(self.said("toggle", "video1", "bob", "--kind", "dislike").split()[0],
                         "dislike")
        self.assertEqual(sorted(self.said("members", "video1", "dislike").split()), ["ann", "bob"])
        self.assertEqual(self.json("members", "video1", "dislike", "--limit", "1"), ["ann"])
        self.assertEqual(self.said("undislike", "video1", "bob"), "1\n")
        self.assertEqual(self.said("unreact", "video1", "ann").split()[0], "none")
        self.assertEqual(self.json("counts", "video1", "other"),
                         [{"item": "video1", "counts": {"like": "0", "dislike": "0"}},
                          {"item": "other", "counts": {"like": "0", "dislike": "0"}}])
        self.assertEqual(self.tally("reaction", "video1", "ann", code=5).stdout, "")

    def test_counters_can_be_created_described_listed_and_deleted(self):
        self.tally("create", "stock", "--shards", "4", "--policy", "random", "--floor", "0")
        info = self.json("info", "stock")[0]
        self.assertEqual((info["shards_asked"], info["policy"], info["floor"], info["value"]),
                         (4, "random", "0", "0"))
        self.assertIn("BELOWFLOOR", self.tally("add", "stock", "-1", code=1).stderr)
        self.said("add", "stock2")
        self.assertEqual(sorted(row["id"] for row in self.json("list", "stock*")),
                         ["stock", "stock2"])
        self.assertEqual(len(self.json("list", "--limit", "1")), 1)
        self.assertIn("--yes", self.tally("delete", "stock", code=2).stderr)
        self.assertEqual(self.said("delete", "stock", "stock2", "--yes"), "2\n")
        self.assertEqual(self.said("list"), "")
        self.tally("delete", "stock", "--yes", code=5)

    def test_more_ids_than_one_command_can_name(self):
        with self.one.connect() as client:
            client.pipeline([("LIKE" if i % 2 else "DISLIKE", f"item{i // 2}", i)
                             for i in range(3000)])
        ids = sorted(f"item{i // 2}/{'like' if i % 2 else 'dislike'}" for i in range(3000))
        self.assertEqual(sorted(row["id"] for row in self.json("list", "--limit", "0")), ids)
        self.assertEqual([row["value"] for row in self.json("get", *ids)], ["1"] * 3000)
        self.assertEqual(len(self.json("list")), 1000)

    def test_the_server_says_how_it_is(self):
        self.said("add", "views")
        self.assertRegex(self.said("status"), r"counters +1\n")
        self.assertEqual(self.json("status")[0]["counters"], 1)
        self.assertRegex(self.said("version"), r"^tally \S+\ntallyd \S+\n$")
        self.assertEqual(self.said("raw", "ECHO", "--hello"), "--hello\n")
        self.assertEqual(self.json("raw", "MGET", "views", "no"), [["1", None]])


class Pipes(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.one = self.server()

    def test_commands_come_from_a_pipe(self):
        result = self.tally(given="# a comment\nadd a 1\n\nadd a 1\nlike \"my video\" 'a b'\n"
                                  "tally get a\nexit\nget a\n")
        self.assertEqual(result.stdout.split("\n"), ["1", "2", "1", "2", ""])

    def test_the_first_failure_is_the_exit_code_and_the_rest_is_done(self):
        result = self.tally(given="get nothing\nbogus\nadd a\n", code=5)
        self.assertEqual(result.stdout, "1\n")
        self.assertIn("there is no command 'bogus'", result.stderr)
        self.assertEqual(self.json(given="add a\nget a\n"),
                         [{"id": "a", "value": "2"}, {"id": "a", "value": "2"}])

    def test_no_colours_and_no_bars_in_a_pipe(self):
        for args in (["status"], ["list"], ["help"], ["bench", "--seconds", "1"], ["export"]):
            result = self.tally(*args)
            self.assertNotIn("\x1b", result.stdout + result.stderr, args)
            self.assertNotIn("\r", result.stdout + result.stderr, args)

    def test_what_came_from_outside_cannot_command_a_terminal(self):
        with self.one.connect() as client:
            client.call("INCR", b"evil\x1b[2J\xff")
        self.assertEqual(self.said("list").split(), ["id", "value", "evil\\x1b[2J\\xff", "1"])
        self.assertEqual(self.json("list")[0]["id"], {"hex": b"evil\x1b[2J\xff".hex()})

    def test_a_reader_who_has_seen_enough_is_no_error_to_talk_about(self):
        with self.one.connect() as client:
            client.pipeline([("LIKE", "video1", f"a-user-with-a-long-name-{i}")
                             for i in range(30000)])
        for command in ("members video1 --limit 0", "export", "list --limit 0", "help"):
            result = subprocess.run(
                ["bash", "-c", f"{cli_rig.PROGRAM} {command} | head -n 1"], text=True,
                env=self.environment(self.one.port), capture_output=True, timeout=60, check=False)
            self.assertEqual(len(result.stdout.splitlines()), 1, command)
            self.assertNotIn("ipe", result.stderr)

    def test_watch_prints_a_line_for_each_change(self):
        watcher = subprocess.Popen([cli_rig.PROGRAM, "watch", "w*", "other", "--count", "2"],
                                   env=self.environment(self.one.port), stdout=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(watcher.stdout.close)
        self.addCleanup(watcher.kill)
        with self.one.connect() as client:
            tallyd.wait_until(lambda: "sub=1 psub=1" in client.call("CLIENT", "LIST"), 10,
                              "it listens")
            client.pipeline([("INCRBY", "wa", 5), ("INCR", "unheard"), ("INCRBY", "other", 6)])
        self.assertEqual(watcher.wait(20), 0)
        lines = [line.split(" ")[1:] for line in watcher.stdout.read().splitlines()]
        self.assertEqual(sorted(lines), [["other", "6"], ["wa", "5"]])

    def test_bench_deletes_what_it_made_also_when_it_is_interrupted(self):
        results = self.json("bench", "--seconds", "1")
        self.assertEqual([result["request"] for result in results], ["INCR", "LIKE"])
        for result in results:
            self.assertGreater(result["rate"], 0)
            self.assertLessEqual(result["p50_ms"], result["p99_ms"])
        with self.one.connect() as client:
            self.assertEqual(client.call("DBSIZE"), 0)
            bench = subprocess.Popen([cli_rig.PROGRAM, "bench", "--seconds", "60"],
                                     env=self.environment(self.one.port),
                                     stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            self.addCleanup(bench.kill)
            tallyd.wait_until(lambda: client.call("DBSIZE") > 0, 10, "it counts")
            bench.send_signal(signal.SIGINT)
            self.assertEqual(bench.wait(20), 130)
            self.assertEqual(client.call("DBSIZE"), 0)


class Settings(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.servers_by_name = {}
        for name in ("file", "variable", "flag"):
            server = self.server()
            with server.connect() as client:
                client.call("SET", "who", {"file": 1, "variable": 2, "flag": 3}[name])
            self.servers_by_name[name] = f"127.0.0.1:{server.port}"

    def configure(self, text, mode=0o600, folder=".config"):
        path = os.path.join(self.home, folder, "tally", "config")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_a_flag_is_stronger_than_a_variable_and_that_than_the_file(self):
        self.configure(f"# mine\naddress {self.servers_by_name['file']}\n")
        variable = {"TALLY_ADDRESS": self.servers_by_name["variable"]}
        flag = ["--address", self.servers_by_name["flag"]]
        self.assertEqual(self.said("get", "who"), "1\n")
        self.assertEqual(self.said("get", "who", env=variable), "2\n")
        self.assertEqual(self.said("get", "who", *flag, env=variable), "3\n")

    def test_the_file_may_be_elsewhere(self):
        other = os.path.join(self.home, "xdg")
        path = self.configure(f"address {self.servers_by_name['file']}\n", folder="xdg")
        self.assertEqual(self.said("get", "who", env={"XDG_CONFIG_HOME": other}), "1\n")
        self.assertEqual(self.said("get", "who", "--config", path), "1\n")
        self.assertIn("cannot open", self.tally("get", "who", "--config", "/none", code=2).stderr)

    def test_mistakes_in_the_file_are_told_with_their_line(self):
        path = self.configure("address 127.0.0.1:1\nadress x\n")
        result = self.tally("get", "who", code=2)
        self.assertIn(f"{path}:2: ", result.stderr)
        self.assertIn("there is no setting 'adress'", result.stderr)

    def test_options_hold_for_all_commands_of_a_pipe(self):
        flag = self.servers_by_name["flag"]
        self.assertEqual(self.said("--address", flag, given="get who\nget who --json\n"),
                         '3\n{"id":"who","value":"3"}\n')


class Secrets(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.one = self.server(env={"TALLY_PASSWORD": "hunter2"})

    def token_file(self, text, mode):
        path = os.path.join(self.home, "token")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_the_token_comes_from_the_environment_or_a_file(self):
        self.assertEqual(self.said("add", "a", env={"TALLY_TOKEN": "hunter2"}), "1\n")
        path = self.token_file("hunter2\n", 0o600)
        self.assertEqual(self.said("add", "a", "--token-file", path), "2\n")
        os.makedirs(os.path.join(self.home, ".config/tally"))
        config = os.path.join(self.home, ".config/tally/config")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"token-file {path}\n")
        self.assertEqual(self.said("add", "a"), "3\n")

    def test_without_it_the_error_says_what_to_do(self):
        result = self.tally("add", "a", code=1)
        self.assertIn("NOAUTH", result.stderr)
        self.assertIn("TALLY_TOKEN", result.stderr)
        self.assertIn("WRONGPASS", self.tally("add", "a", env={"TALLY_TOKEN": "x"}, code=1).stderr)

    def test_a_file_that_others_can_read_is_refused(self):
        path = self.token_file("hunter2\n", 0o644)
        self.assertIn("chmod 600", self.tally("add", "a", "--token-file", path, code=2).stderr)

    def test_there_is_no_flag_with_the_secret_itself(self):
        self.tally("add", "a", "--token", "hunter2", code=2)
        self.tally("add", "a", "--password", "hunter2", code=2)


class Exits(cli_rig.Case):
    def test_the_codes_mean_something(self):
        self.one = self.server()
        self.tally("add", "a")
        self.tally("like", "a", "ann", code=1)
        self.tally("add", "a", "1.5", code=1)
        self.tally("nonsense", code=2)
        self.tally("get", code=2)
        self.tally("get", "nothing", code=5)
        self.tally("get", "a", "nothing", code=5)
        self.tally("info", "nothing", code=5)
        self.tally("import", given="nonsense\n", code=6)
        self.tally("import", "/none/such", code=7)
        self.tally("export", "/none/such", code=7)

    def test_a_server_that_is_not_there(self):
        port = cli_rig.free_port()
        result = self.tally("get", "a", port=port, code=3)
        self.assertIn(f"cannot reach tallyd at 127.0.0.1:{port}", result.stderr)
        self.assertIn("is it running? try: tallyd", result.stderr)
        self.tally("get", "a", "--address", "no.such.host.invalid:1", code=3)

    def test_the_port_of_http_is_recognised(self):
        for env in (None, {"TALLY_PASSWORD": "sesame"}):
            server = self.server(env=env or {})
            for command in (("get", "a"), ("add", "a", "5"), ("like", "v", "ann"), ("status",)):
                for token in ({}, {"TALLY_TOKEN": "sesame"}):
                    with self.subTest(command=command, token=token):
                        result = self.tally(*command, port=server.http_port, env=token, code=3)
                        self.assertIn(f"127.0.0.1:{server.http_port} is an HTTP port: nothing was done",
                                      result.stderr)
                        self.assertIn("6380", result.stderr)
                        self.assertNotIn("not known", result.stderr)

    def test_a_lag_that_is_estimated_is_not_shown_as_a_count(self):
        for lag, estimated, shown in ((51439, 1, "about 51439"), (51439, 0, "51439"), (0, 1, "0")):
            info = f"pipeline:running\r\npipeline_lag_events:{lag}\r\npipeline_lag_estimated:{estimated}\r\n"
            with self.subTest(info=info):
                said = self.said("status", port=self.answering(info))
                self.assertRegex(said, rf"events not in the store yet +{shown}\n")
        self.assertRegex(self.said("status", port=self.answering("pipeline_lag_events:7\r\n")),
                         r"events not in the store yet +7\n")

    def answering(self, info):
        """The port of a server that answers the next command with this."""
        listener = tallyd.socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            with contextlib.suppress(OSError), listener.accept()[0] as client:
                client.recv(4096)
                client.sendall(f"${len(info)}\r\n{info}\r\n".encode())
                client.recv(4096)

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    def test_a_server_that_goes_away(self):
        self.one = self.server()
        script = subprocess.Popen([cli_rig.PROGRAM], env=self.environment(self.one.port),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(script.kill)
        script.stdin.write("add a\n")
        script.stdin.flush()
        self.assertEqual(script.stdout.readline(), "1\n")
        self.one.kill()
        _, errors = script.communicate("add a\nadd a\n", timeout=30)
        self.assertEqual(script.returncode, 3)
        self.assertIn("cannot reach tallyd", errors)

    def test_a_server_that_restarts_is_found_again(self):
        self.one = self.server()
        port = self.one.port
        script = subprocess.Popen([cli_rig.PROGRAM], env=self.environment(port),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(script.kill)
        script.stdin.write("add a\n")
        script.stdin.flush()
        self.assertEqual(script.stdout.readline(), "1\n")
        self.one.stop()
        self.one.resp = f"127.0.0.1:{port}"
        self.one.start()
        said, _ = script.communicate("add a\n", timeout=30)
        self.assertEqual(said, "2\n")
        self.assertEqual(script.returncode, 0)

    def test_a_full_disk_under_the_output_is_told(self):
        self.need(os.path.exists("/dev/full"), "there is no /dev/full")
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([cli_rig.PROGRAM, "help"], stdout=full, stderr=subprocess.PIPE,
                                    env=self.environment(), text=True, check=False)
        self.assertEqual(result.returncode, 7)
        self.assertIn("cannot write", result.stderr)


class Manual(cli_rig.Case):
    """Help, man pages and completion are made from one table."""

    def names(self):
        path = os.path.join(tallyd.ROOT, "src/cli/commands.def")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        commands = re.findall(r'^COMMAND\("([a-z]+)"', text, re.M)
        options = re.findall(r'^OPTION\([A-Z_]+, "([a-z-]+)"', text, re.M)
        self.assertGreater(len(commands), 30)
        self.assertGreater(len(options), 30)
        return commands, options

    def write(self, what, given=None):
        path = os.path.join(self.home, what)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.said("--print", what, given=given))
        return path

    def lint(self, path):
        self.need_command("mandoc")
        result = subprocess.run(["mandoc", "-T", "lint", path], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.stdout, "")

    def test_the_man_page_is_well_formed_and_complete(self):
        path = self.write("man")
        self.lint(path)
        text = subprocess.run(["mandoc", "-T", "ascii", path], capture_output=True, text=True,
                              check=True).stdout
        text = re.sub(".\b", "", text)
        commands, options = self.names()
        for name in commands:
            self.assertRegex(text, rf"(?m)^   {name}\b", name)
        for name in options:
            self.assertIn(f"--{name}", text)
        for code in (0, 1, 2, 3, 4, 5, 6, 7, 130):
            self.assertRegex(text, rf"(?m)^       {code} ")

    def test_the_man_page_of_tallyd_has_all_its_settings(self):
        help_text = tallyd.run_program("--help").stdout
        path = self.write("man-tallyd", given=help_text)
        self.lint(path)
        text = subprocess.run(["mandoc", "-T", "ascii", path], capture_output=True, text=True,
                              check=True).stdout
        text = re.sub(".\b", "", text)
        settings = re.findall(r"(?m)^  (--[a-z-]+)", help_text)
        self.assertGreater(len(settings), 15)
        for setting in settings:
            self.assertIn(setting, text)

    def test_the_help_has_all_commands_and_explains_each(self):
        commands, _ = self.names()
        text = self.said("help")
        for name in commands:
            self.assertRegex(text, rf"(?m)^  {name}\b", name)
            explained = self.said(name, "--help")
            self.assertIn("Example", explained)
            self.assertEqual(explained, self.said("help", name))
        for line in text.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def complete(self, path, *words):
        """What bash offers at the end of these words."""
        quoted = " ".join(f"'{word}'" for word in words)
        script = (f"source {path}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _tally; "
                  "echo ${COMPREPLY[@]}")
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                              check=True).stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        path = self.write("bash")
        subprocess.run(["bash", "-n", path], check=True)
        commands, _ = self.names()
        self.assertEqual(set(commands) - set(self.complete(path, "tally", "")), set())
        self.assertEqual(self.complete(path, "tally", "un"), ["unlike", "undislike", "unreact"])
        self.assertEqual(self.complete(path, "tally", "add", "x", "--k"), ["--key"])
        self.assertEqual(self.complete(path, "tally", "import", "--mode", ""), ["set", "add"])
        self.assertNotIn("--key", self.complete(path, "tally", "get", "--"))

    def test_zsh_has_all_commands_and_their_options(self):
        path = self.write("zsh")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("#compdef tally\n"))
        commands, options = self.names()
        for name in commands:
            self.assertIn(f"        '{name}:", text)
            self.assertIn(f"    {name})\n", text)
        for name in set(options) - {"version", "print"}:
            self.assertIn(f"'--{name}[", text)
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n", path], check=True)

    def test_other_things_cannot_be_printed(self):
        self.assertIn("man, man-tallyd, bash and zsh",
                      self.tally("--print", "html", code=2).stderr)


class Documents(cli_rig.Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(tallyd.ROOT, "docs/tally.md"), encoding="utf-8") as file:
            self.text = file.read()

    def test_the_examples_print_what_stands_there(self):
        self.one = self.server()
        count = 0
        for block in re.findall(r"```console\n(.*?)```", self.text, re.S):
            for command, said in re.findall(r"(?m)^\$ tally (.*)\n((?:(?!\$ ).*\n)*)", block):
                self.assertEqual(self.said(*shlex.split(command)), said, command)
                count += 1
        self.assertGreater(count, 5)

    def test_every_command_has_its_place(self):
        with open(os.path.join(tallyd.ROOT, "src/cli/commands.def"), encoding="utf-8") as file:
            commands = re.findall(r'^COMMAND\("([a-z]+)"', file.read(), re.M)
        for name in set(commands) - {"help"}:
            self.assertIn(f"`{name}`", self.text)


if __name__ == "__main__":
    tallyd.main()
