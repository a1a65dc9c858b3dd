"""cli_rig.py - what the tests of the tally command have in common.

The program is $TALLY, or build/tally. It runs with a home folder of its own, so that nobody's
configuration or history takes part."""

import json
import os
import subprocess

import tallyd

PROGRAM = os.path.abspath(os.environ.get("TALLY", os.path.join(tallyd.ROOT, "build", "tally")))


def free_port():
    """A port that nobody listens on, as far as one can know."""
    with tallyd.socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Case(tallyd.Case):
    """A test with a home folder."""

    def setUp(self):
        self.home = self.folder()

    def environment(self, port=None, **extra):
        """As a user has it: HOME, a terminal type, and where the server is."""
        env = tallyd.environment({"HOME": self.home, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                                  **extra})
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "NO_COLOR", "REDISCLI_AUTH"):
            if name not in extra:
                env.pop(name, None)
        if port:
            env["TALLY_ADDRESS"] = f"127.0.0.1:{port}"
        return env

    def tally(self, *args, port=None, given=None, env=None, code=0, timeout=60):
        """Runs it; the result has returncode, stdout and stderr."""
        port = port or (self.one.port if hasattr(self, "one") else None)
        stdin = {"input": given} if given is not None else {"stdin": subprocess.DEVNULL}
        result = subprocess.run([PROGRAM, *args], env=self.environment(port, **(env or {})),
                                capture_output=True, text=True, timeout=timeout, check=False,
                                **stdin)
        self.assertNotRegex(result.stderr, "Sanitizer|runtime error:|Assertion .* failed")
        if code is not None:
            self.assertEqual(result.returncode, code, f"{args}: {result.stdout}{result.stderr}")
        return result

    def said(self, *args, **options):
        """What it prints."""
        return self.tally(*args, **options).stdout

    def json(self, *args, **options):
        """What it prints with --json, line by line."""
        return [json.loads(line) for line in self.said("--json", *args, **options).splitlines()]
