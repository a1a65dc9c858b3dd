"""http_transcripts.py - plays the transcripts of tests/transcript/http against the real program.

Each is played with every block of sent lines whole, byte by byte, and cut at every place: the
answers must be the same, whatever the network does to the bytes.

    # a remark
    ! --flag value                a flag of the server, or NAME=value of its environment
    > GET /livez HTTP/1.1\\r\\n    sent, with the escapes of C; {id} is another id in each play
    < HTTP/1.1 200 OK\\r\\n        what must come back
    closed                        the server must have closed

Lines that follow one another are sent, or expected, together. What differs from time to time stands
as DATE, TIME and TAG; the headers that every answer has for safety's sake stand as "Safe: yes"."""

import glob
import os
import re
import time

import tallyd
import web

FOLDER = os.path.join(tallyd.ROOT, "tests/transcript/http")
CUTS_MAX = 400  # blocks with more bytes are cut at so many places
ANSWER_WITHIN_S = 10

SAFE = (b"X-Content-Type-Options: nosniff\r\n"
        b"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
        b"X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
        b"Cross-Origin-Resource-Policy: same-origin\r\n")
DATE = re.compile(rb"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")
TAG = re.compile(rb'W/"[0-9a-f]{16}"')
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def normal(data):
    data = data.replace(SAFE, b"Safe: yes\r\n")
    data = TAG.sub(b'W/"TAG"', data)
    return TIME.sub(b"TIME", DATE.sub(b"Date: DATE", data))


def unescape(text):
    """`\\*1000{x}` stands for a thousand x."""
    text = re.sub(r"\\\*(\d+)\{([^}]*)\}", lambda found: found.group(2) * int(found.group(1)), text)
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


class Transcript:
    def __init__(self, path):
        self.path = path
        self.flags = []
        self.env = {}
        self.steps = []  # [kind, bytes, line]
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                self._read(line.rstrip("\n"), number)
        self.longest = max(len(data) for kind, data, _ in self.steps if kind == ">")

    def _read(self, line, number):
        kind, rest = line[:1], line[2:]
        if kind in ("", "#"):
            return
        if kind == "!":
            if rest.startswith("--"):
                self.flags += rest.split(" ", 1)
            else:
                name, _, value = rest.partition("=")
                self.env[name] = value
        elif line == "closed":
            self.steps.append(["closed", b"", number])
        elif kind in "<>":
            data = unescape(rest.encode("utf-8").decode("latin-1"))
            if self.steps and self.steps[-1][0] == kind:
                self.steps[-1][1] += data
            else:
                self.steps.append([kind, data, number])
        else:
            raise AssertionError(f"{self.path}:{number}: not a line of a transcript")


class Play:
    """One run through a transcript on one connection."""

    def __init__(self, case, transcript, port, name, cut):
        self.case = case
        self.transcript = transcript
        self.name = name
        self.cut = cut  # None: whole; 0: everywhere
        self.raw = web.Raw(port, timeout_s=ANSWER_WITHIN_S)
        self.got = b""

    def run(self):
        with self.raw:
            for kind, data, line in self.transcript.steps:
                data = data.replace(b"{id}", self.name)
                if kind == ">":
                    self._send(data)
                elif kind == "<":
                    self._expect(data, line)
                else:
                    self._expect_end(line)

    def _send(self, data):
        if self.cut is None:
            pieces = [data]
        elif self.cut == 0:
            pieces = [data[i:i + 1] for i in range(len(data))]
        else:
            pieces = [data[:self.cut], data[self.cut:]]
        for number, piece in enumerate(pieces):
            if not piece:
                continue
            if number > 0:
                time.sleep(0.0005)  # so that it is read by itself, most of the time
            try:
                self.raw.send(piece)
            except ConnectionError:
                return  # it has been refused already, and the answer says so

    def _more(self):
        try:
            data = self.raw.socket.recv(1 << 16)
        except (ConnectionError, TimeoutError):
            data = b""
        self.got += data
        return data

    def _expect(self, wanted, line):
        while not normal(self.got).startswith(wanted):
            if len(normal(self.got)) >= len(wanted) + 64 or not self._more():
                break
        found = normal(self.got)
        if not found.startswith(wanted):
            how = {None: "whole", 0: "byte by byte"}.get(self.cut, f"cut at {self.cut}")
            self.case.assertEqual(wanted, found[:len(wanted)],
                                  f"{self.transcript.path}:{line}, played {how}")
        self.got = found[len(wanted):]

    def _expect_end(self, line):
        while self._more():
            pass
        self.case.assertEqual(b"", self.got, f"{self.transcript.path}:{line}: more than the end")


class Transcripts(tallyd.Case):
    def play(self, path):
        transcript = Transcript(path)
        server = self.server("--workers", "1", *transcript.flags, env=transcript.env)
        step = transcript.longest // CUTS_MAX + 1
        cuts = [None, *([0] if transcript.longest <= 4000 else []),
                *range(1, transcript.longest, step)]
        for number, cut in enumerate(cuts):
            Play(self, transcript, server.http_port, b"i%05d" % number, cut).run()
        self.assertEqual(server.stop(), 0)

    def test_they_sound_the_same_however_they_are_cut(self):
        paths = sorted(glob.glob(os.path.join(FOLDER, "*.txt")))
        self.assertGreater(len(paths), 5)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                self.play(path)


if __name__ == "__main__":
    tallyd.main()
