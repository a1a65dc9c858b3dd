"""docs_test.py - what the documents say is true.

Every example of README.md and of the documents for users is run against a real tallyd, and must
print what stands there. Two forms, in blocks that are marked as `console`:

    $ redis-cli -p 6380 INCR views         $ redis-cli -p 6380
    (integer) 1                            127.0.0.1:6380> INCR views
                                           (integer) 1

So are `$ curl`, `$ tally`, and `$ sqlite3 data/tally.db`, which looks when the store has
everything; other programs are not run. Each section (`##`) begins with an empty server; its blocks are run from top to bottom. README.md is
one whole: it begins with an empty folder, and what was typed above counts below, with each version of
redis-py that there is. A subscriber listens while the rest of its block is run. Where the text has `…`, anything may stand in that line. Blocks marked as `python` or `js` are run as well:
what a line prints is the comment at its end.

    docs_test.py --write       puts what was really printed where it differs; look at the difference

Also: every command, setting and INFO field has its place, and every file that is named is there."""

import contextlib
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

import tallyd

EXAMPLES = ("README.md", *(f"docs/{name}.md" for name in ("commands", "http", "metrics", "store", "tally")))
PORT = "6380"  # in the documents
HTTP_PORT = "3001"
DATABASE = "data/tally.db"
RUN = {"redis-cli", "curl", "sqlite3", "tally"}
PROMPT = "127.0.0.1:6380> "
MARK = "<end of an answer>"
TUTORIAL = "README.md"  # run as one, from its beginning to its end
PYTHON = "/usr/bin/python3"
NEWER_PYTHON = os.path.join(tallyd.ROOT, "build/venv/bin/python")  # with a newer redis-py
NODE_MODULES = os.path.join(tallyd.ROOT, "tests/system/clients/node_modules")


def read(path):
    with open(os.path.join(tallyd.ROOT, path), encoding="utf-8") as file:
        return file.read()


# --- taking documents apart -----------------------------------------------------------------------


class Block:
    """A fenced block: its language, its lines, and the number of its first line."""

    def __init__(self, language, number):
        self.language = language
        self.number = number
        self.lines = []


def sections(text):
    """The blocks of a document, in a list for each of its `##` sections."""
    result = [[]]
    block = None
    for number, line in enumerate(text.split("\n"), 1):
        if block is not None:
            if line.strip() == "```":
                block = None
            else:
                block.lines.append(line)
        elif line.startswith("```"):
            block = Block(line[3:].strip(), number + 1)
            result[-1].append(block)
        elif line.startswith("## "):
            result.append([])
    return [blocks for blocks in result if blocks]


def runs_of(path):
    """The blocks of a document, in a list for each server that they are run against."""
    found = sections(read(path))
    return [[block for blocks in found for block in blocks]] if path == TUTORIAL else found


class Step:
    """One command of a console block, and what the document says that it prints."""

    def __init__(self, command, number):
        self.command = command
        self.number = number
        self.said = []


def steps_of(block):
    """Its steps, each with the flags of the redis-cli that it is typed into, or None."""
    result = []
    session = None
    for offset, line in enumerate(block.lines):
        number = block.number + offset
        if line.startswith("$ "):
            step = Step(line[2:], number)
            words = shlex.split(step.command)
            session = words[1:] if is_session(words) else None
            if session is None:
                result.append((None, step))
        elif line.startswith(PROMPT):
            if session is None:
                session = ["-p", PORT]
            result.append((session, Step(line[len(PROMPT):], number)))
        elif result:
            result[-1][1].said.append(line)
    return result


def is_session(words):
    """Is redis-cli called without a command?"""
    return words[0] == "redis-cli" and all(w in ("-p", PORT, "-3", "-2") for w in words[1:])


def agrees(said, printed):
    if len(said) != len(printed):
        return False
    return all(re.fullmatch(".*".join(re.escape(part) for part in s.split("…")), p)
               for s, p in zip(said, printed))


# --- running them ---------------------------------------------------------------------------------


SLOW = re.compile(r"\(\d+\.\d\ds\)")  # redis-cli adds it to an answer that took half a second


def lines_of(text):
    """Without blanks at their ends, which editors take away, and without how long it took."""
    lines = [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []
    return [line for line in lines if not SLOW.fullmatch(line)]


def on_port(words, port):
    return [str(port) if word == PORT else word for word in words]


def run_cli(flags, port, given=None):
    command = ["redis-cli", "--no-raw", *on_port(flags, port)]
    result = subprocess.run(command, input=given, capture_output=True, text=True, timeout=30,
                            check=False)
    return lines_of(result.stdout)


def run_session(flags, port, commands):
    """What each of the commands prints, typed into one redis-cli."""
    given = "".join(f"{command}\nECHO \"{MARK}\"\n" for command in commands)
    answers = [[]]
    for line in run_cli(flags, port, given):
        if line == f'"{MARK}"':
            answers.append([])
        else:
            answers[-1].append(line)
    return answers[:-1]


def is_listener(step):
    return re.search(r" P?SUBSCRIBE ", step.command) is not None


def run_listener(step, port, meanwhile):
    """What a subscriber prints while `meanwhile()` is done in another window."""
    words = shlex.split(step.command)
    command = ["redis-cli", "--no-raw", *on_port(words[1:], port)]
    with tempfile.NamedTemporaryFile("w") as output:
        def printed():
            # Opened anew: to seek in `output` would move where the listener writes, too.
            with open(output.name, encoding="utf-8") as text:
                return lines_of(text.read())
        with subprocess.Popen(command, stdout=output, stdin=subprocess.DEVNULL) as listener:
            tallyd.wait_until(lambda: "subscribe" in "".join(printed()), 30, "it subscribes")
            others = meanwhile()
            with contextlib.suppress(AssertionError):
                tallyd.wait_until(lambda: len(printed()) >= len(step.said), 20, "it hears")
            time.sleep(0.3)
            listener.terminate()
        return [(step, printed()), *others]


def program_of(step):
    """The name of the program that a step runs; `build/tally` is `tally`."""
    return os.path.basename(shlex.split(step.command, posix=True)[0])


def wait_for_store(server):
    """Until everything that was acknowledged is in the database."""
    def lag():
        with server.connect() as client:
            return int(re.search(r"pipeline_lag_events:(\d+)", client.call("INFO", "pipeline"))[1])
    tallyd.wait_until(lambda: lag() == 0, 10, "the store has everything")


def run_shell(step, server):
    """What a command prints, typed at a prompt where the programs are found."""
    if program_of(step) == "sqlite3":
        wait_for_store(server)
    text = step.command.replace(DATABASE, os.path.join(server.data, "tally.db"))
    text = re.sub(rf"\b{PORT}\b", str(server.port), text)
    text = re.sub(rf"\b{HTTP_PORT}\b", str(server.http_port), text)
    text = re.sub(r"^(build/)?tally\b", shlex.quote(os.environ.get("TALLY", "build/tally")), text)
    text = re.sub(r"^curl\b", "curl -sS", text)
    text = re.sub(r"^redis-cli\b", "redis-cli --no-raw", text)
    result = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60,
                            cwd=tallyd.ROOT, check=False,
                            env={**os.environ, "TALLY_ADDRESS": f"127.0.0.1:{server.port}"})
    return [line.replace(str(server.http_port), HTTP_PORT).replace(str(server.port), PORT)
            for line in lines_of(result.stdout + result.stderr)]


def run_block(block, server):
    """Pairs of a step and the lines that it printed."""
    return run_steps(steps_of(block), server)


def run_steps(steps, server):
    result = []
    while steps:
        if is_listener(steps[0][1]):
            rest = steps[1:]
            return result + run_listener(steps[0][1], server.port, lambda: run_steps(rest, server))
        session, first = steps[0]
        if session is None:
            if program_of(first) in RUN:
                result.append((first, run_shell(first, server)))
            steps = steps[1:]
            continue
        typed = [step for flags, step in steps if flags is session]
        answers = run_session(session, server.port, [step.command for step in typed])
        result.extend(zip(typed, answers))
        steps = steps[len(typed):]
    return result


def run_program(block, port, python=PYTHON):
    """What a Python or JavaScript example prints."""
    text = re.sub(rf"\b{PORT}\b", str(port), "\n".join(block.lines))
    if block.language == "python":
        command = [python, "-c", text]
    else:
        command = ["node", "--input-type=commonjs", "-e", text]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False,
                            env={**os.environ, "NODE_PATH": NODE_MODULES})
    return lines_of(result.stdout), result.stderr


def comments_of(block):
    """What a program says that it prints."""
    pattern = r"(?:print|console\.log)\(.*\);?\s+(?:#|//) (.*)$"
    return [found.group(1) for line in block.lines if (found := re.search(pattern, line))]


# --- the tests ------------------------------------------------------------------------------------


class Examples(tallyd.Case):
    def check_console(self, path, block, server):
        """Runs a block; returns how many steps it had."""
        pairs = run_block(block, server)
        for step, printed in pairs:
            with self.subTest(f"{path}:{step.number}: {step.command}"):
                if not agrees(step.said, printed):
                    self.assertEqual(step.said, printed)
        return len(pairs)

    def check_program(self, path, block, server, python):
        with self.subTest(f"{path}:{block.number}", python=python):
            if block.language == "js":
                self.need_command("node")
                self.need(os.path.isdir(NODE_MODULES), "ioredis is not installed")
            printed, errors = run_program(block, server.port, python)
            self.assertEqual(comments_of(block), printed, errors)

    def check_run(self, path, blocks, python=PYTHON):
        """Runs blocks in order against a new server; returns how many steps of consoles there were."""
        count = 0
        server = self.server()
        for block in blocks:
            if block.language == "console":
                count += self.check_console(path, block, server)
            elif block.language in ("python", "js"):
                self.check_program(path, block, server, python)
        server.stop()
        return count

    def test_what_examples_print_is_what_stands_there(self):
        for name in sorted(RUN - {"tally"}):
            self.need_command(name)
        count = 0
        for path in EXAMPLES:
            for blocks in runs_of(path):
                if any(block.language in ("console", "python", "js") for block in blocks):
                    count += self.check_run(path, blocks)
        self.assertGreater(count, 100)

    def test_the_tutorial_is_right_with_a_newer_redis_py_as_well(self):
        self.need(os.access(NEWER_PYTHON, os.X_OK),
                  "a newer redis-py is not installed: tools/setup.sh test does that")
        version = subprocess.run([NEWER_PYTHON, "-c", "import redis; print(redis.__version__)"],
                                 capture_output=True, text=True, check=True).stdout
        self.assertGreaterEqual(int(version.split(".")[0]), 8)
        (blocks,) = runs_of(TUTORIAL)
        self.assertGreater(self.check_run(TUTORIAL, blocks, NEWER_PYTHON), 10)


class Completeness(tallyd.Case):
    def setUp(self):
        self.commands = read("docs/commands.md")
        self.operations = read("docs/operations.md")

    def headings(self):
        """Commands that have a heading of their own, several with commas between them."""
        return {name.lower() for line in re.findall(r"^### (.*)$", self.commands, re.M)
                for name in line.split(", ")}

    def test_every_command_is_described_and_no_other(self):
        client = self.client(self.server())
        self.assertEqual(sorted(client.call("COMMAND", "LIST")), sorted(self.headings()))

    def test_every_setting_is_described(self):
        with open(os.path.join(tallyd.ROOT, "src/server/settings.def"), encoding="utf-8") as file:
            names = re.findall(r'^SETTING\(\w+, "([a-z-]+)"', file.read(), re.M)
        self.assertGreater(len(names), 10)
        for name in names:
            with self.subTest(name):
                self.assertIn(f"`{name}`", self.operations)

    def test_every_field_of_info_is_described(self):
        client = self.client(self.server())
        text = client.call("INFO")
        fields = [line.split(":")[0] for line in text.split("\r\n") if ":" in line]
        self.assertGreater(len(fields), 50)
        for field in fields:
            with self.subTest(field):
                self.assertIn(f"`{field}`", self.operations)


class Names(tallyd.Case):
    """Documents name files by links, and by paths in backquotes."""

    def documents(self):
        found = [path for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md")
                 for path in sorted(glob.glob(os.path.join(tallyd.ROOT, pattern)))]
        self.assertGreater(len(found), 10)
        return [os.path.relpath(path, tallyd.ROOT) for path in found]

    def test_links_lead_somewhere(self):
        for path in self.documents():
            text = re.sub(r"```.*?```", "", read(path), flags=re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                there = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                with self.subTest(f"{path}: {target}"):
                    self.assertTrue(os.path.exists(os.path.join(tallyd.ROOT, there)))
                    if anchor:
                        self.assertIn(anchor, anchors(read(there)))

    def test_files_that_are_named_are_there(self):
        pattern = r"`((?:src|tests|tools|docs|deploy|bench)/[\w./-]+)`"
        for path in self.documents():
            for name in re.findall(pattern, read(path)):
                if "NAME" in name:  # of what somebody is going to add
                    continue
                with self.subTest(f"{path}: {name}"):
                    self.assertTrue(os.path.exists(os.path.join(tallyd.ROOT, name)))

    def test_the_architecture_names_files_of_src(self):
        layers = "|".join(os.listdir(os.path.join(tallyd.ROOT, "src")))
        names = re.findall(rf"`((?:{layers})/[\w./-]+)`", read("ARCHITECTURE.md"))
        self.assertGreater(len(names), 10)
        for name in names:
            with self.subTest(name):
                self.assertTrue(os.path.exists(os.path.join(tallyd.ROOT, "src", name)))


def anchors(text):
    """As they are made of headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)$", text, re.M)}


# --- writing what was printed ---------------------------------------------------------------------


def write_outputs():
    for path in EXAMPLES:
        text = read(path)
        lines = text.split("\n")
        changes = []
        for blocks in runs_of(path):
            server = tallyd.Server().start()
            try:
                for block in blocks:
                    if block.language in ("python", "js"):
                        run_program(block, server.port)
                    if block.language == "console":
                        changes += [(step, printed) for step, printed in
                                    run_block(block, server) if not agrees(step.said, printed)]
            finally:
                server.remove()
        for step, printed in sorted(changes, key=lambda change: -change[0].number):
            lines[step.number:step.number + len(step.said)] = printed
        with open(os.path.join(tallyd.ROOT, path), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        print(f"{path}: {len(changes)} answers written")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_outputs()
    else:
        tallyd.main()
