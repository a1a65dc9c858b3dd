"""postgres.py - a private PostgreSQL, and a standby of it.

Whoever connects over the loopback is trusted. It runs as ourselves, or as the user postgres when
we are root, since it refuses to be root."""

import contextlib
import getpass
import glob
import os
import pwd
import shutil
import signal
import subprocess

from servers.process import HOST, Missing, Server, free_port, need_program

PROGRAMS = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
DATABASE = "tally"

SETTINGS = {
    "listen_addresses": HOST, "max_connections": "100", "shared_buffers": "64MB",
    "logging_collector": "off", "log_min_messages": "warning", "max_wal_senders": "4",
    "hot_standby": "on", "wal_level": "replica", "wal_keep_size": "256MB",
    # None of ours is far away or large; a standby should be asked and answer at once.
    "wal_retrieve_retry_interval": "100ms", "max_wal_size": "512MB",
}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def client_library():
    try:
        import psycopg2  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Missing("there is no python3-psycopg2 for this Python") from None
    return psycopg2


def run_as():
    """The user that it runs as: nobody in particular, unless we are root."""
    if os.getuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise Missing("PostgreSQL must not run as root, and there is no user postgres") from None


class Postgres(Server):
    """An instance with an empty database. It syncs, unless `fast`.

    Further settings of postgresql.conf by name: max_connections=20."""

    name = "postgres"
    stop_signal = signal.SIGINT  # ends those who are connected

    def __init__(self, fast=False, of=None, **settings):
        super().__init__()
        self.user = run_as()
        self.data = os.path.join(self.folder, "data")
        self.settings = {**SETTINGS, **(FAST if fast else {}),
                         **{k: str(v) for k, v in settings.items()}}
        self.primary = of
        self.program = need_program("postgres", PROGRAMS)
        if self.user:
            shutil.chown(self.folder, self.user, self.user)

    @property
    def owner(self):
        return self.user or getpass.getuser()

    @property
    def url(self):
        return f"postgres://{self.owner}@{HOST}:{self.port}/{DATABASE}"

    def failover_url(self, *others):
        """One URL for this one and others: libpq looks for the one that can be written."""
        addresses = ",".join(f"{HOST}:{server.port}" for server in (self, *others))
        return (f"postgres://{self.owner}@{addresses}/{DATABASE}"
                "?target_session_attrs=read-write&connect_timeout=2")

    def choose_ports(self):
        self.port = free_port()

    def prepare(self):
        if not os.path.exists(self.data):
            if self.primary:
                self._copy_primary()
            else:
                self._run("initdb", "--no-sync", "--auth", "trust", "--encoding", "UTF8",
                          "--locale", "C.UTF-8", "-U", self.owner, "-D", self.data)

    def command(self):
        words = [self.program, "-D", self.data, "-p", str(self.port), "-k", self.folder]
        for name, value in self.settings.items():
            words += ["-c", f"{name}={value}"]
        return words

    def connect(self, database=DATABASE, **options):
        """A connection of psycopg2, where every statement is a transaction of its own."""
        connection = client_library().connect(host=HOST, port=self.port, user=self.owner,
                                              dbname=database, connect_timeout=10, **options)
        connection.autocommit = True
        return connection

    def query(self, text, *values, database=DATABASE):
        """The rows of one statement, or None if it has none."""
        with contextlib.closing(self.connect(database)) as connection:
            with connection.cursor() as cursor:
                cursor.execute(text, values or None)
                return cursor.fetchall() if cursor.description else None

    def is_ready(self):
        try:
            if self.primary is None and not self.query(
                    "SELECT 1 FROM pg_database WHERE datname = %s", DATABASE,
                    database="postgres"):
                self.query(f"CREATE DATABASE {DATABASE}", database="postgres")
            return bool(self.query("SELECT 1"))
        except client_library().OperationalError:
            return False

    def standby(self, **settings):
        """A standby that follows this one; not yet started."""
        return Postgres(of=self, **settings)

    def promote(self):
        """Makes the standby the one that can be written."""
        self.query("SELECT pg_promote(true, 30)")
        self.primary = None

    def follow(self, primary):
        """Throws all away and becomes the standby of another."""
        self.stop()
        self.empty()
        self.primary = primary
        return self.start()

    def lag_bytes(self):
        """How far the standby is behind its primary."""
        here = self.query("SELECT pg_last_wal_replay_lsn()::text")[0][0]
        return int(self.primary.query("SELECT pg_current_wal_lsn() - %s::pg_lsn", here)[0][0])

    def empty(self):
        shutil.rmtree(self.data, ignore_errors=True)

    def remove(self):
        # Not by a kill, which would leave a segment of System V's shared memory every time.
        self.stop_signal = signal.SIGQUIT
        self.stop()
        super().remove()

    def _copy_primary(self):
        self._run("pg_basebackup", "--no-sync", "-h", HOST, "-p", str(self.primary.port), "-U",
                  self.owner, "-D", self.data, "-R", "-X", "stream", "-c", "fast")

    def _run(self, program, *words):
        command = [need_program(program, PROGRAMS), *words]
        if self.user:
            command = [need_program("setpriv"), "--reuid", self.user, "--regid", self.user,
                       "--init-groups", *command]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder,
                              env=self.environment(), stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")
