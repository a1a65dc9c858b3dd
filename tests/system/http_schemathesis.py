"""http_schemathesis.py [--seed N] [--cases N] [--seconds N] - /openapi.json against somebody who has
read nothing else.

Schemathesis makes requests of the description, good ones and such as it forbids, sends them to a real
tallyd, and looks at the answers: status, media type, headers, schema, methods that are not there. Its
seed is fixed, so that a run can be repeated; `make soak` takes another one, and more cases."""

import argparse
import os
import random
import re
import subprocess
import sys

import tallyd

FOLDER = os.path.join(tallyd.ROOT, "tests/system/schemathesis")
PROGRAM = os.environ.get("SCHEMATHESIS", os.path.join(tallyd.ROOT, "build/venv/bin/schemathesis"))


class Options:
    seed = 20
    cases = 10
    seconds = 570


class Schemathesis(tallyd.Case):
    def run_against(self, port, data):
        """The result of a run against the server at a port, and what was printed."""
        # A stream has no end, and so no answer that could be looked at here.
        command = [PROGRAM, "--no-color", "--config-file", os.path.join(FOLDER, "schemathesis.toml"),
                   "run", f"http://127.0.0.1:{port}/openapi.json", "--seed", str(Options.seed),
                   "--max-examples", str(Options.cases), "--phases", "coverage,fuzzing",
                   "--checks", "all", "--exclude-operation-id", "watch", "--continue-on-failure",
                   "--request-timeout", "60", "--generation-database", "none"]
        environment = {**os.environ, "PYTHONPATH": FOLDER, "SCHEMATHESIS_HOOKS": "hooks",
                       "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=data,
                              env=environment, timeout=Options.seconds)
        return done.returncode, done.stdout + done.stderr

    def test_the_description_and_the_server_agree(self):
        self.need(os.access(PROGRAM, os.X_OK),
                  "schemathesis is not installed: tools/setup.sh test does that")
        print(f"\nschemathesis: --seed {Options.seed} --cases {Options.cases}", flush=True)
        server = self.server("--workers", "1")
        status, text = self.run_against(server.http_port, server.data)
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"Tested: [4-9]\d")
        with server.connect() as client:
            self.assertEqual(client.call("PING"), "PONG")
        print(next(line for line in text.splitlines() if re.search(r"\d generated", line)).strip(), flush=True)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default=str(Options.seed), help="a number, or fresh")
    parser.add_argument("--cases", type=int, default=Options.cases, help="of each operation")
    parser.add_argument("--seconds", type=int, default=Options.seconds, help="at most")
    options, rest = parser.parse_known_args()
    Options.seed = random.randrange(1 << 31) if options.seed == "fresh" else int(options.seed)
    Options.cases = options.cases
    Options.seconds = options.seconds
    sys.argv[1:] = rest


if __name__ == "__main__":
    read_options()
    tallyd.main()
