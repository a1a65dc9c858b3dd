"""damage_sweep.py - every file of a data folder is damaged in every way, and each outcome judged.

    damage_sweep.py                      one case for each cell, seed printed
    damage_sweep.py --rounds 20          as many for each cell
    damage_sweep.py --seed 7 --cell 'last segment/last group/a bit turns'
    damage_sweep.py --table docs/damage.md   writes the table between its markers

A folder is made in one of these forms: stopped in order; killed; killed when the store had carried
its WAL over into the file; as a power cut leaves it some time
after the last write; as one leaves it that comes at once; and both without a store. What a power cut
takes away is what was not synced: a library keeps what of log/synced was. A copy of the folder is
damaged, looked at by --check, and started. What comes up has every count and every member compared
with what was acknowledged; then all old segments, and all pages of the store, are read in the
background.

    right      everything is there; what was hit is not needed, or was made anew
    reported   everything is there, and the damage is a message and a number in INFO
    refused    the start names the file, and for the log the offset or what is missing
    refused reads   it starts, and what it cannot give it refuses with an error
    cannot be told  lost, in a way that decision 14 names: only when the power went at once
    LOST       something acknowledged is not there, and nobody says so

`LOST` fails the test, and so do a refusal that names no file and a --check that calls damage sound."""

import argparse
import collections
import os
import random
import re
import shutil
import sqlite3
import struct
import sys
import tempfile
import time

import tallyd

FLAGS = ("--segment-size", "64KiB", "--workers", "1", "--log-verify", "4GiB", "--audit-every", "0")
HEADER_BYTES = 4096
GROUP_HEADER_BYTES = 64
GROUP_ALIGN = 64
BLOCK_BYTES = 512
LIVES = 4
COUNTERS = 6
FORMS = ("stopped", "killed", "killed at rest", "power cut", "power cut, no store", "power cut at once",
         "power cut at once, no store")
STORE_DAMAGED = r"a page of the store is damaged|is not what was written there"
BEGIN, END = "<!-- sweep:begin -->", "<!-- sweep:end -->"


# --- a folder to damage ---------------------------------------------------------------------------


class Truth:
    """What was acknowledged."""

    def __init__(self):
        self.counts = collections.Counter()
        self.members = collections.defaultdict(set)

    def write(self, client, chance, rounds):
        for _ in range(rounds):
            name = f"c{chance.randrange(COUNTERS)}"
            amount = chance.randrange(1, 100)
            self.counts[name] += amount
            reply = client.call("COUNTER.ADD", name, str(amount))
            assert reply == self.counts[name], f"{name}: {reply} instead of {self.counts[name]}"
            item, user = f"i{chance.randrange(3)}", f"user{chance.randrange(40)}"
            assert client.call("LIKE", item, user) == (user not in self.members[item])
            self.members[item].add(user)
        first = 60 * chance.randrange(10)  # a group of many sectors, and a page or two of the store
        batch = [("COUNTER.ADD", f"wide{i:03}", "1") for i in range(first, first + 60)]
        client.pipeline(batch)
        self.counts.update(command[1] for command in batch)

    def differences(self, client):
        """What the server says otherwise: a list of texts, and whether it only refused to say."""
        wrong, refused = [], []
        for name, value in sorted(self.counts.items()):
            self._compare(client, ("GET", name), str(value), wrong, refused)
        for item, users in sorted(self.members.items()):
            self._compare(client, ("GET", f"{item}/like"), str(len(users)), wrong, refused)
            try:
                found = set(client.call("MEMBERS", item, "like", "COUNT", "1000")[1])
                if found != users:
                    wrong.append(f"{len(found)} members of {item}")
            except tallyd.ReplyError as error:
                refused.append(str(error))
        return wrong, refused

    @staticmethod
    def _compare(client, command, expected, wrong, refused):
        try:
            reply = client.call(*command)
            if reply != expected:
                wrong.append(f"{' '.join(command)}: {reply}, not {expected}")
        except tallyd.ReplyError as error:
            refused.append(str(error))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def mark_of(path, copy=None):
    """How far a store is; with `copy` that of its file without the WAL, which is copied there."""
    if copy:
        shutil.copy(path, copy)
    base = sqlite3.connect(copy or path, timeout=20)
    try:
        return base.execute("SELECT segment, position FROM progress").fetchone()
    except sqlite3.DatabaseError:  # copied while it was written
        return None
    finally:
        base.close()


def synced_copy(path):
    """Of a server that leaves there what a power cut would leave of log/synced."""
    library = os.environ.get("SYNCED_COPY_LIBRARY") or os.path.join(
        os.path.dirname(tallyd.PROGRAM), "tests", "system", "libsynced_copy.so")
    assert os.path.exists(library), f"{library} is missing: build the target synced_copy"
    return {"LD_PRELOAD": library, "SYNCED_COPY": path, "ASAN_OPTIONS": "verify_asan_link_order=0"}


class Folder:
    """A data folder in one of the forms, what it was some time before, and what is true."""

    def __init__(self, home, form, seed):
        self.form = form
        self.path = os.path.join(home, form.replace(" ", "-").replace(",", ""))
        self.older = self.path + ".older"
        self.truth = Truth()
        self.flags = FLAGS + (("--store", "none") if "no store" in form else ())
        chance = random.Random(f"{seed} {form}")
        for life in range(LIVES):
            self._live(chance, life == LIVES - 1)

    def _live(self, chance, is_last):
        # In the end a part is in the store's -wal, and the rest in the log only.
        is_slow = is_last and self.form != "killed at rest"
        slow = ("--flush-interval", "1h" if is_slow else "10ms", "--flush-events", "50")
        synced, durable = os.path.join(self.path, "log", "synced"), self.path + ".synced"
        server = tallyd.Server(*self.flags, *slow, data=self.path, http="off", env=synced_copy(durable))
        try:
            server.start()
            with server.connect() as client:
                self.truth.write(client, chance, 6)
                if is_last:
                    shutil.copytree(self.path, self.older)
                self.truth.write(client, chance, 4)
                if is_last and self.form.startswith("power cut") and "at once" not in self.form:
                    tallyd.wait_until(lambda: read(durable) == read(synced), 30, "it is synced, too")
                if is_last and self.form == "killed at rest":
                    tallyd.wait_until(lambda: self.is_at_rest(client), 60, "the WAL is carried over")
            if not is_last or self.form == "stopped":
                assert server.stop() == 0, server.messages()
        finally:
            server.remove()
        if is_last and self.form.startswith("power cut"):
            shutil.copy(durable, synced)

    def is_at_rest(self, client):
        """Does the store's file have everything, without its WAL?"""
        path = os.path.join(self.path, "tally.db")
        return ("pipeline_lag_events:0" in client.call("INFO").splitlines() and
                mark_of(path, self.path + ".db") == mark_of(path))

    def files(self):
        """Relative paths of all of them."""
        found = []
        for folder, _, names in os.walk(self.path):
            found += [os.path.relpath(os.path.join(folder, name), self.path) for name in names]
        return sorted(found)


# --- where ----------------------------------------------------------------------------------------


def groups_of(data):
    """(start, end) of the groups of a segment."""
    groups, at = [], HEADER_BYTES
    while data[at + 8:at + 12] == b"GRUP":
        body, = struct.unpack_from("<I", data, at + 12)
        end = at + -(-(GROUP_HEADER_BYTES + body) // GROUP_ALIGN) * GROUP_ALIGN
        groups.append((at, end))
        at = end
    return groups


def places_of(name, data, segments):
    """{(what file, what part of it): (start, end)}"""
    if name not in segments:
        return {(os.path.basename(name), "any place"): (0, len(data))}
    which = ("last" if name == segments[-1] else "first" if name == segments[0] else "middle")
    groups = groups_of(data)
    if not groups:
        return {(f"{which} segment", "header"): (0, HEADER_BYTES)}
    parts = {"header": (0, HEADER_BYTES), "first group": groups[0], "last group": groups[-1],
             "behind the end": (groups[-1][1], len(data))}
    if len(groups) > 2:
        parts["middle groups"] = (groups[0][1], groups[-1][0])
    return {(f"{which} segment", part): place for part, place in parts.items()}


# --- what -----------------------------------------------------------------------------------------


class Case:
    """A copy of a folder, one of its files, and a part of that."""

    def __init__(self, folder, copy, name, place, chance):
        self.folder, self.copy, self.name, self.place, self.chance = folder, copy, name, place, chance
        self.path = os.path.join(copy, name)
        self.note = ""

    def write(self, offset, data):
        with open(self.path, "r+b") as file:
            file.seek(offset)
            before = file.read(len(data))
            file.seek(offset)
            file.write(data)
        self.note = f"{self.name} offset {offset}, {len(data)} bytes"
        return before != data


def turn_a_bit(case):
    start, end = case.place
    if end <= start:
        return False
    offset = case.chance.randrange(start, end)
    with open(case.path, "rb") as file:
        file.seek(offset)
        byte = file.read(1)[0]
    return case.write(offset, bytes([byte ^ 1 << case.chance.randrange(8)]))


def zero_a_block(case):
    start, end = case.place
    if end <= start:
        return False
    block = case.chance.randrange(start, end) // BLOCK_BYTES * BLOCK_BYTES
    first, last = max(block, start), min(block + BLOCK_BYTES, end)
    return case.write(first, bytes(last - first))


def cut_short(case):
    size = os.path.getsize(case.path)
    if size == 0:
        return False
    new = case.chance.choice((0, size // 2, size - 1, case.chance.randrange(size)))
    os.truncate(case.path, new)
    case.note = f"{case.name} cut to {new} of {size} bytes"
    return True


def remove(case):
    os.remove(case.path)
    case.note = f"{case.name} removed"
    return True


def make_older(case):
    older = os.path.join(case.folder.older, case.name)
    if not os.path.exists(older):
        return False
    with open(older, "rb") as file, open(case.path, "rb") as now:
        if file.read() == now.read():
            return False
    shutil.copy(older, case.path)
    case.note = f"{case.name} as it was before"
    return True


def duplicate(case):
    """Under the name that would come next, or over another of its kind."""
    number = re.fullmatch(r"log/(\d{12})\.log", case.name)
    target = f"log/{int(number.group(1)) + 1:012}.log" if number else case.name + ".copy"
    shutil.copy(case.path, os.path.join(case.copy, target))
    case.note = f"{case.name} copied to {target}"
    return True


PLACED = {"a bit turns": turn_a_bit, "512 bytes are zero": zero_a_block}
WHOLE = {"cut short": cut_short, "missing": remove, "an older version": make_older,
         "its copy as the next": duplicate}


def cells_of(folder):
    """{(file, part, fault): (name, place, function)}; of segments in the middle one."""
    names = folder.files()
    segments = [name for name in names if re.fullmatch(r"log/\d{12}\.log", name)]
    cells = {}
    for name in names:
        with open(os.path.join(folder.path, name), "rb") as file:
            places = places_of(name, file.read(), segments)
        for (what, part), place in places.items():
            for fault, function in PLACED.items():
                cells.setdefault((what, part, fault), (name, place, function))
        what = next(iter(places))[0]
        for fault, function in WHOLE.items():
            cells.setdefault((what, "the file", fault), (name, None, function))
    return cells


# --- the verdict ----------------------------------------------------------------------------------


class Verdict(Exception):
    """What must not be."""


def cannot_be_told(folder, cell):
    """Lost so that nothing is left that could tell: decision 14."""
    what, part, fault = cell
    return (folder.form.startswith("power cut at once") and what == "last segment" and
            (part, fault) in (("last group", "512 bytes are zero"), ("the file", "an older version")))


def judge_refusal(server, checked):
    text = re.search(r"cannot start: (.*)", server.messages())
    if not text:
        raise Verdict(f"it ended without a reason: {server.messages()}")
    reason = text.group(1)
    if "/log/" in reason:
        if not re.search(r"offset \d+|missing|the first", reason):
            raise Verdict(f"neither an offset nor what is missing: {reason}")
    elif not re.search(r"tally\.db|the store|lock", reason):
        raise Verdict(f"no file is named: {reason}")
    if checked.returncode == 0:
        raise Verdict(f"--check calls sound what is refused: {reason}")
    return "refused"


def wait_verified(server, client):
    def info():
        lines = client.call("INFO").splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        return fields if fields["log_verified_ms"] != "0" else None
    fields = tallyd.wait_until(info, 60, "all segments were looked at")
    return fields["log_damaged_segments"] != "0" and "the log is damaged" in server.messages()


def judge_start(folder, server, checked, cell):
    with server.connect() as client:
        wrong, refused = folder.truth.differences(client)
        reported = wait_verified(server, client)
        if re.search(r"damage: \S*tally\.db: ", checked.stdout):
            server.wait_message(STORE_DAMAGED, 60)  # all pages are read, in quiet moments
            reported = True
        elif re.search(STORE_DAMAGED, server.messages()):
            reported = True
    if wrong:
        if cannot_be_told(folder, cell):
            return "cannot be told"
        return "LOST"
    if checked.returncode != 0 and not reported:
        raise Verdict(f"--check finds damage, and nobody says so: {checked.stderr}")
    if reported and checked.returncode == 0:
        raise Verdict("--check does not find what is reported")
    return "refused reads" if refused else "reported" if reported else "right"


def judge(folder, copy, cell):
    checked = tallyd.run_program("--check", copy)
    server = tallyd.Server(*folder.flags, data=copy, http="off")
    try:
        try:
            server.start()
        except tallyd.StartError:
            return judge_refusal(server, checked), server.messages()
        return judge_start(folder, server, checked, cell), server.messages()
    finally:
        server.remove()


# --- all of it ------------------------------------------------------------------------------------


class Sweep:
    def __init__(self, seed, rounds, only):
        self.seed, self.rounds, self.only = seed, rounds, only
        self.table = collections.defaultdict(collections.Counter)
        self.bad = []

    def run_cell(self, folder, cell, how, turn):
        name, place, function = how
        chance = random.Random(f"{self.seed} {folder.form} {cell} {turn}")
        home = tempfile.mkdtemp(prefix="tally-sweep-")
        try:
            copy = os.path.join(home, "data")
            shutil.copytree(folder.path, copy)
            case = Case(folder, copy, name, place, chance)
            if not function(case):
                return
            try:
                outcome, said = judge(folder, copy, cell)
            except Verdict as verdict:
                outcome, said = "badly said", str(verdict)
            self.table[cell[0], cell[1], cell[2]][outcome] += 1
            if outcome in ("LOST", "badly said"):
                self.bad.append(f"{outcome}: {folder.form}, {'/'.join(cell)}: {case.note}: {said}")
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def run(self):
        home = tempfile.mkdtemp(prefix="tally-sweep-")
        try:
            folders = [Folder(home, form, self.seed) for form in FORMS]
            cells = [cells_of(folder) for folder in folders]
            everything = sorted(set().union(*cells))
            for number, cell in enumerate(everything):
                if self.only and self.only != "/".join(cell):
                    continue
                having = [i for i, known in enumerate(cells) if cell in known]
                for turn in range(self.rounds):
                    at = having[(number + turn + self.seed) % len(having)]
                    self.run_cell(folders[at], cell, cells[at][cell], turn)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        return self

    def markdown(self):
        total = collections.Counter()
        for counts in self.table.values():
            total.update(counts)
        lines = [f"Seed {self.seed}, {sum(total.values())} cases: " +
                 ", ".join(f"{count} {outcome}" for outcome, count in total.most_common()) + ".", "",
                 "| file | part | fault | outcomes |", "|---|---|---|---|"]
        for (what, part, fault), counts in sorted(self.table.items()):
            outcomes = ", ".join(f"{count} {name}" for name, count in counts.most_common())
            lines.append(f"| {what} | {part} | {fault} | {outcomes} |")
        return "\n".join(lines)


def write_table(path, text):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page[:begin] + "\n\n" + text + "\n\n" + page[end:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cell")
    parser.add_argument("--table")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else tallyd.seed_of_run()
    begin = time.monotonic()
    print(f"tallyd: {tallyd.PROGRAM}, seed {seed}", file=sys.stderr)
    sweep = Sweep(seed, arguments.rounds, arguments.cell).run()
    print(sweep.markdown())
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    if arguments.table:
        write_table(arguments.table, sweep.markdown())
    for text in sweep.bad:
        print(text, file=sys.stderr)
    return 1 if sweep.bad or not sweep.table else 0


if __name__ == "__main__":
    sys.exit(main())
