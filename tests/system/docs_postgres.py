"""docs_postgres.py - what docs/store.md says of PostgreSQL is true: its examples are run against a
tallyd whose store is a private PostgreSQL, once with members as rows and once as sets."""

import os
import re
import shlex
import subprocess
import sys

import docs_test
import tallyd

sys.path.insert(0, os.path.join(tallyd.ROOT, "tests"))
from servers import Missing, Postgres  # pylint: disable=wrong-import-position

DOCUMENT = "docs/store.md"


def psql_section():
    """The console blocks of the section that speaks of psql."""
    for blocks in docs_test.sections(docs_test.read(DOCUMENT)):
        consoles = [block for block in blocks if block.language == "console"]
        if any("$ psql" in line for block in consoles for line in block.lines):
            return consoles
    raise AssertionError(f"{DOCUMENT} has no example with psql")


def run_psql(step, server, postgres):
    """What psql prints once the store has everything."""
    docs_test.wait_for_store(server)
    text = re.sub(r"^psql tally\b", f"psql {shlex.quote(postgres.url)}", step.command)
    result = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60,
                            check=False)
    return docs_test.lines_of(result.stdout + result.stderr)


class Examples(tallyd.Case):
    def check(self, members):
        self.need_command("psql")
        self.need_command("redis-cli")
        try:
            postgres = Postgres(fast=True)
        except Missing as missing:
            self.need(False, str(missing))
        with postgres:
            server = self.server("--store", postgres.url, "--members", members)
            self.check_with(server, postgres)
            server.stop()

    def check_with(self, server, postgres):
        count = 0
        for block in psql_section():
            for _, step in docs_test.steps_of(block):
                is_psql = docs_test.program_of(step) == "psql"
                count += is_psql
                printed = (run_psql(step, server, postgres) if is_psql
                           else docs_test.run_shell(step, server))
                with self.subTest(f"{DOCUMENT}:{step.number}: {step.command}"):
                    if not docs_test.agrees(step.said, printed):
                        self.assertEqual(step.said, printed)
        self.assertGreater(count, 10)

    def test_what_psql_prints_is_what_stands_there_with_rows(self):
        self.check("rows")

    def test_what_psql_prints_is_what_stands_there_with_sets(self):
        self.check("sets")


if __name__ == "__main__":
    tallyd.main()
