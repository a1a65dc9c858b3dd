"""cli_export.py - export and import: what goes out comes in again, also when both are killed."""

import json
import os
import signal
import subprocess

import cli_rig
import tallyd


class Moving(cli_rig.Case):
    def filled(self, items=300, users=40, counters=2000, is_wide=True):
        """A server with counters, settings, and items large and small."""
        server = self.server()
        with server.connect() as client:
            client.pipeline([("INCRBY", f"counter:{i}", i - 50) for i in range(counters)])
            client.pipeline([("LIKE" if i % 3 else "DISLIKE", f"item{i}", f"user{j}")
                             for i in range(items) for j in range(i % users)])
            client.pipeline([("LIKE", "large", i) for i in range(25000)])
            client.pipeline([
                ("COUNTER.CREATE", "stock", "SHARDS", 4, "POLICY", "random", "FLOOR", -5),
                ("COUNTER.CREATE", "short", "IDLE", 900), ("INCRBY", "huge", "9" * 40),
                ("COUNTER.CREATE", "wide/like", "SHARDS", 8 if is_wide else 1),
                ("LIKE", "wide", "ann"),
                ("INCRBY", "ends", 3), ("PEXPIREAT", "ends", 4102444800000),
                ("INCR", "caf\u00e9 \"quoted\""), ("LIKE", b"\xff\x00item", b"\xfeuser"),
            ])
        return server

    def exported(self, server, path):
        """The lines of an export that count, sorted."""
        self.tally("export", path, port=server.port)
        return self.lines(path)

    def lines(self, path):
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertIn("tally", lines[0])
        self.assertIn("end", lines[-1])
        return sorted(json.dumps(line, sort_keys=True) for line in lines
                      if "counter" in line or "item" in line)

    def assert_same(self, lines, expected):
        """As assertEqual, without thousands of lines in between."""
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual(sorted(set(lines) ^ set(expected))[:20], [])

    def path(self, name):
        return os.path.join(self.home, name)

    def test_what_goes_out_comes_in_again(self):
        before = self.filled()
        path = self.path("all.ndjson")
        lines = self.exported(before, path)
        self.assertEqual(len(lines), len(set(lines)))
        after = self.server()
        report = self.json("import", path, port=after.port)[0]
        self.assertEqual((report["bad"], report["complete"]), (0, True))
        self.assertEqual(report["counters"] + report["reactions"], len(lines) - 1)
        self.assert_same(self.exported(after, self.path("again.ndjson")), lines)
        for server in (before, after):
            self.assertEqual(self.said("get", "huge", port=server.port), "9" * 40 + "\n")
            self.assertEqual(self.json("counts", "large", port=server.port)[0]["counts"]["like"],
                             "25000")
        self.assertFalse(os.path.exists(path + ".resume"))

    def test_by_pipe_and_by_pattern(self):
        before = self.filled(items=10, counters=100)
        after = self.server()
        text = self.said("export", "--pattern", "counter:1*", port=before.port)
        self.assertIn('"counter:19"', text)
        self.assertNotIn('"counter:2"', text)
        self.said("import", port=after.port, given=text)
        self.assertEqual(self.said("get", "counter:19", port=after.port), "-31\n")
        self.assertEqual(len(self.json("list", port=after.port)), 11)

    def test_bad_lines_are_told_and_the_others_are_taken(self):
        server = self.server()
        given = ('{"counter":"a","value":"5"}\nnonsense\n{"counter":"b"}\n\n'
                 '{"item":"v","user":"ann","kind":"like"}\n{"item":"v","user":"bob","kind":"wow"}\n'
                 '{"counter":"v","value":1}\n{"counter":"z","value":7}')
        result = self.tally("import", port=server.port, given=given, code=6)
        for text in ("line 2: no JSON", 'line 3: a counter needs a "value"',
                     "line 6: ERR unknown reaction kind", "line 7: WRONGTYPE"):
            self.assertIn(text, result.stderr)
        self.assertIn("was it cut off?", result.stderr)
        self.assertRegex(result.stdout, "8 lines: 2 counters, 1 reactions of which 1 are new, 4 bad")
        self.assertEqual(self.said("get", "a", "z", "v/like", port=server.port).split()[3::2],
                         ["5", "7", "1"])

    def test_a_dry_run_changes_nothing(self):
        server = self.server()
        result = self.tally("import", "--dry-run", port=server.port, code=6,
                            given='{"counter":"a","value":"5"}\nx\n')
        self.assertIn("nothing was changed", result.stdout)
        with server.connect() as client:
            self.assertEqual(client.call("DBSIZE"), 0)

    def test_set_and_add(self):
        server = self.server()
        given = '{"counter":"a","value":"5"}\n{"end":{}}\n'
        for mode, expected in (("set", "5"), ("set", "5"), ("add", "10"), ("add", "15")):
            self.said("import", "--mode", mode, port=server.port, given=given)
            self.assertEqual(self.said("get", "a", port=server.port).strip(), expected)
        self.tally("import", "--mode", "sub", port=server.port, given=given, code=2)

    def test_an_export_that_was_killed_goes_on(self):
        server = self.filled()
        whole = self.exported(server, self.path("whole.ndjson"))
        with open(self.path("whole.ndjson"), "rb") as file:
            data = file.read()
        # Cut anywhere, as a kill does: in the middle of a line, right behind a cursor, at once.
        behind = data.index(b"\n", data.index(b'{"cursor"')) + 1
        for size in (0, 40, behind - 3, behind, behind + 7, len(data) // 2, len(data) - 10):
            with self.subTest(size=size):
                path = self.path("cut.ndjson")
                with open(path, "wb") as file:
                    file.write(data[:size])
                result = self.tally("export", path, port=server.port, code=2)
                self.assertIn("--resume", result.stderr)
                self.said("export", path, "--resume", port=server.port)
                self.assert_same(self.lines(path), whole)
        self.assertIn("complete already",
                      self.tally("export", path, "--resume", port=server.port).stderr)

    def test_an_export_begins_anew_when_the_server_did(self):
        server = self.filled(items=30, counters=100, is_wide=False)
        path = self.path("cut.ndjson")
        whole = self.exported(server, path)
        with open(path, "rb+") as file:
            file.truncate(os.path.getsize(path) - 10)
        server.stop()
        server.start()
        result = self.tally("export", path, "--resume", port=server.port)
        self.assertIn("beginning anew", result.stderr)
        self.assert_same(self.lines(path), whole)

    def start(self, *args, port):
        process = subprocess.Popen([cli_rig.PROGRAM, *args], env=self.environment(port),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        return process

    def test_an_import_that_was_killed_goes_on_and_counts_nothing_twice(self):
        path = self.path("many.ndjson")
        count = 300000
        with open(path, "w", encoding="utf-8") as file:
            for i in range(count):
                file.write(f'{{"counter":"c{i % 1000}","value":"1"}}\n')
            file.write('{"end":{}}\n')
        server = self.server()
        with server.connect() as client:
            kills = 0
            for _ in range(100):
                flags = ["--resume"] if kills else []
                before = int(client.call("INFO", "stats").split("total_commands_processed:")[1]
                             .split("\r")[0])
                process = self.start("import", path, "--mode", "add", *flags, port=server.port)

                def has_done_some(before=before, process=process):
                    stats = client.call("INFO", "stats")
                    done = int(stats.split("total_commands_processed:")[1].split("\r")[0])
                    return done - before > 30000 or process.poll() is not None

                tallyd.wait_until(has_done_some, 30, "it works")
                if process.poll() is not None:
                    self.assertEqual(process.returncode, 0)
                    break
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                if kills == 4:
                    self.assertIn("--resume", self.tally("import", path, "--mode", "add",
                                                         port=server.port, code=2).stderr)
                    self.tally("import", path, "--mode", "add", "--resume", port=server.port)
                    break
            self.assertGreater(kills, 0)
            values = client.call("MGET", *[f"c{i}" for i in range(1000)])
        self.assertEqual(set(values), {str(count // 1000)})
        self.assertFalse(os.path.exists(path + ".resume"))

    def test_an_import_goes_on_when_the_server_was_killed(self):
        path = self.path("many.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            for i in range(200000):
                file.write(f'{{"item":"v{i % 100}","user":"u{i // 100}","kind":"like"}}\n')
            file.write('{"counter":"last","value":"7"}\n{"end":{}}\n')
        server = self.server()
        process = self.start("import", path, port=server.port)
        with server.connect() as client:
            tallyd.wait_until(lambda: client.call("EXISTS", "v99"), 20, "it works")
        server.kill()
        code = process.wait(60)
        server.start()
        if code != 0:
            self.assertEqual(code, 3)
            self.tally("import", path, "--resume", port=server.port)
        counts = self.json("counts", *[f"v{i}" for i in range(100)], port=server.port)
        self.assertEqual({row["counts"]["like"] for row in counts}, {"2000"})
        self.assertEqual(self.said("get", "last", port=server.port), "7\n")

    def test_another_file_is_not_gone_on_with(self):
        path = self.path("one.ndjson")
        server = self.server()
        with open(path + ".resume", "w", encoding="utf-8") as file:
            json.dump({"run": "0", "mode": "set", "source": 1, "line": 5, "offset": 100,
                       "counters": 5, "reactions": 0, "bad": 0, "after": ""}, file)
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"counter":"a","value":"5"}\n')
        self.assertIn("another file", self.tally("import", path, "--resume", port=server.port,
                                                 code=2).stderr)
        self.tally("import", path, "--restart", port=server.port)
        self.assertEqual(self.said("get", "a", port=server.port), "5\n")


if __name__ == "__main__":
    tallyd.main()
