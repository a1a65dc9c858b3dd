"""process.py - a server process of a test: its port, its folder, its life and its death.

A server is started by its command and is ready when `is_ready()` says so. It ends with whoever
started it, even if that is killed, since the kernel is asked to (PR_SET_PDEATHSIG, by setpriv).
That holds for the thread too: whoever starts servers in a thread must keep the thread alive."""

import atexit
import contextlib
import glob
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST = "127.0.0.1"
# Below those that the kernel gives to whoever connects somewhere: a port that a server has left
# for a moment, to come back, stays free.
PORTS = range(10240, 21000)
ATTEMPTS = 5  # when somebody else was quicker to take a port
READY_WITHIN_S = 60


class Missing(Exception):
    """What a server needs is not on this machine; the text says what."""


class StartError(Exception):
    """A server ended before it was ready, or did not get ready."""


# --- the folder of a run --------------------------------------------------------------------------

_home = None
_is_kept = False


def home():
    """The folder of this run."""
    global _home
    if _home is None:
        _home = tempfile.mkdtemp(prefix="tally-servers-")
        os.chmod(_home, 0o755)  # PostgreSQL may run as somebody else
        atexit.register(sweep)
    return _home


def keep_home():
    """Something failed: the folder stays for whoever looks into it."""
    global _is_kept
    _is_kept = True


def sweep():
    """Removes the folder of the run, or says where it is."""
    global _home
    if _home is None:
        return
    if _is_kept:
        print(f"servers: their folders are kept in {_home}", file=sys.stderr)
    else:
        shutil.rmtree(_home, ignore_errors=True)
    _home = None


# --- ports ----------------------------------------------------------------------------------------


def free_port():
    """A port that nobody has at the moment."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


def is_listening(port):
    """Does somebody accept connections there?"""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


# --- processes ------------------------------------------------------------------------------------


def need_program(name, folders=()):
    """The path of a program, looked for on the PATH and in these folders."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))
    if not path:
        raise Missing(f"there is no {name} (tools/setup.sh test installs it)")
    return path


def children_of(pid):
    """The pids of all processes below this one."""
    result = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                for child in map(int, file.read().split()):
                    result += [child, *children_of(child)]
    return result


def _is_stopped(pid):
    """Is each of its threads stopped by a signal, or is it gone?"""
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            if file.read().rpartition(")")[2].split()[0] not in "TZX":
                return False
    return True


def wait_until(is_true, timeout_s, what):
    """Polls until `is_true()` is, and returns what it returned."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = is_true()
        if result:
            return result
        if time.monotonic() > deadline:
            raise StartError(f"{what}: not within {timeout_s} s")
        time.sleep(0.02)


class Kept:
    """What is started and removed by a `with`. Its folder is kept when that ends badly."""

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if kind is not None and not issubclass(kind, Missing):
            keep_home()
        self.remove()


class Server(Kept):
    """A process with a folder of its own. Made by a `with`, or by start() and remove()."""

    name = "server"  # in messages and names of folders
    user = None  # whom it runs as, when not as ourselves
    ready_within_s = READY_WITHIN_S
    stop_signal = signal.SIGTERM

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"{self.name}-", dir=home())
        self.process = None
        self.is_paused = False

    # What kinds of servers say of themselves.

    def choose_ports(self):
        """Takes new ports; called before the first start, and when one was not free."""
        raise NotImplementedError

    def prepare(self):
        """Makes the folder ready; called before every start."""

    def command(self):
        raise NotImplementedError

    def is_ready(self):
        raise NotImplementedError

    def stop_others(self):
        """Ends what belongs to it beside the process."""

    # Its life.

    def start(self, wait=True):
        """Starts it, on the ports that it has had before if there was a before."""
        if not hasattr(self, "port"):
            self.choose_ports()
            for _ in range(ATTEMPTS):
                self.spawn()
                if not wait or self._wait_ready_or_taken():
                    return self
                self.choose_ports()
            raise StartError(f"{self.name}: found no free port")
        self.spawn()
        return self.wait_ready() if wait else self

    def spawn(self):
        """Starts it without waiting for anything."""
        assert self.process is None, f"{self.name} runs already"
        self.prepare()
        setpriv = [need_program("setpriv"), "--pdeathsig", "KILL"]
        if self.user:
            setpriv += ["--reuid", self.user, "--regid", self.user, "--init-groups"]
        with open(self.said_path(), "ab") as said:
            self.process = subprocess.Popen([*setpriv, *self.command()], stdin=subprocess.DEVNULL,
                                            stdout=said, stderr=said, cwd=self.folder,
                                            env=self.environment(), start_new_session=True)

    def environment(self):
        """Without the settings of those who run the tests."""
        return {k: v for k, v in os.environ.items() if not k.startswith(("PG", "TALLY", "KAFKA_"))}

    def wait_ready(self, timeout_s=None):
        deadline = time.monotonic() + (timeout_s or self.ready_within_s)
        while not self.is_ready():
            if self.process.poll() is not None:
                code, self.process = self.process.returncode, None
                raise StartError(f"{self.name} ended with {code}:\n{self.said()[-3000:]}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} did not get ready:\n{self.said()[-3000:]}")
            time.sleep(0.02)
        return self

    def _wait_ready_or_taken(self):
        """True when ready; false when a port was taken meanwhile."""
        try:
            self.wait_ready()
        except StartError:
            self.kill()
            said = self.said().lower()
            if "address already in use" not in said and "failed to bind" not in said:
                raise
            os.truncate(self.said_path(), 0)
            return False
        return True

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self):
        return self.process.pid

    def pids(self):
        """The process and all below it."""
        return [self.pid, *children_of(self.pid)] if self.process else []

    def kill(self):
        """kill -9: no time to do anything, for none of its processes."""
        self._end(signal.SIGKILL)

    def stop(self, timeout_s=20):
        """Asks it to end, and insists after a while."""
        if self.process is None:
            return
        self.resume()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, self.stop_signal)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def pause(self):
        """SIGSTOP: it is there, and does nothing."""
        self.is_paused = True
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        # On a busy machine threads run on for a moment after the signal.
        wait_until(lambda: all(_is_stopped(pid) for pid in self.pids()), READY_WITHIN_S,
                   f"{self.name}, to stand still")

    def resume(self):
        for pid in self.pids() if self.is_paused else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.is_paused = False

    def restart(self, empty=False):
        """kill -9 and start again, on the same ports; with nothing of what it had if `empty`."""
        self.kill()
        if empty:
            self.empty()
        return self.start()

    def empty(self):
        """Throws its data away."""
        raise NotImplementedError

    def remove(self):
        """Ends it; its folder goes with the run's."""
        self.kill()
        self.stop_others()
        if not _is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    def said_path(self):
        return os.path.join(self.folder, "said")

    def said(self):
        """What it has said, in all its lives."""
        with contextlib.suppress(FileNotFoundError):
            with open(self.said_path(), encoding="utf-8", errors="replace") as file:
                return file.read()
        return ""

    def _end(self, number):
        if self.process is None:
            return
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        self.process.wait()
        self.process = None
        self.is_paused = False
        # Orphans are ended as well, but only now: they may hold ports and files.
        for pid in pids[1:]:
            wait_until(lambda pid=pid: not is_alive(pid), 10, f"the end of {self.name}'s {pid}")


def is_alive(pid):
    """Is it there, and not just waiting for a parent who wants to know?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
