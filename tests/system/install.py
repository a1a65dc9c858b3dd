"""install.py - `cmake --install` puts everything into its place, and what lies there runs.

Of the build that is being tested, and of the one that `make build` has made, which builds less."""

import os
import subprocess
import tempfile

import tallyd

FILES = ("bin/tally", "bin/tallyd", "share/man/man1/tally.1", "share/man/man8/tallyd.8",
         "share/bash-completion/completions/tally", "share/zsh/site-functions/_tally")


class Install(tallyd.Case):
    def check_install(self, build):
        with tempfile.TemporaryDirectory() as prefix:
            done = subprocess.run(["cmake", "--install", build, "--prefix", prefix],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for name in FILES:
                self.assertGreater(os.path.getsize(os.path.join(prefix, name)), 100, name)
            for program in ("tally", "tallyd"):
                shown = subprocess.run([os.path.join(prefix, "bin", program), "--version"],
                                       capture_output=True, text=True, check=True).stdout
                self.assertRegex(shown, rf"^{program} \d+\.\d+\.\d+\n")

    def test_the_build_that_is_tested(self):
        build = os.path.dirname(os.path.realpath(tallyd.PROGRAM))
        self.need(os.path.exists(os.path.join(build, "CMakeCache.txt")), "tallyd is not in a build folder")
        self.check_install(build)

    def test_the_build_of_make_build(self):
        program = os.path.join(tallyd.ROOT, "build/tallyd")
        self.need(os.path.exists(program), "nobody has said make build here")
        self.check_install(os.path.dirname(os.path.realpath(program)))


if __name__ == "__main__":
    tallyd.main()
