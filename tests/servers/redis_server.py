"""redis_server.py - a private Redis."""

import contextlib
import os
import shutil

from servers.process import HOST, Missing, Server, free_port, need_program

# What every one of ours is started with: Redis holds counts, so it must never evict them.
SETTINGS = {
    "bind": HOST, "daemonize": "no", "databases": "1", "save": "", "appendfsync": "always",
    "maxmemory-policy": "noeviction", "enable-debug-command": "yes", "loglevel": "notice",
    "repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1",
    "latency-tracking": "no", "dir": "data",
}


def client_library():
    """python3-redis, which only the scripts need and not those who set servers up for others."""
    try:
        import redis  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Missing("there is no python3-redis for this Python") from None
    return redis


class Redis(Server):
    """Redis on a port of its own; without persistence unless `appendonly`.

    Further settings of redis.conf by their names with underscores: maxmemory="10mb"."""

    name = "redis"

    def __init__(self, appendonly=False, **settings):
        super().__init__()
        self.settings = dict(SETTINGS, appendonly="yes" if appendonly else "no")
        self.settings.update({k.replace("_", "-"): str(v) for k, v in settings.items()})
        self.program = need_program("redis-server")

    @property
    def address(self):
        return f"{HOST}:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}"

    def choose_ports(self):
        self.port = free_port()

    def prepare(self):
        os.makedirs(os.path.join(self.folder, "data"), exist_ok=True)

    def command(self):
        words = [self.program, "--port", str(self.port)]
        for name, value in self.settings.items():
            words += [f"--{name}", value]
        return words

    def client(self, **options):
        """A connection of python3-redis, which answers with texts."""
        options = {"socket_timeout": 10, "decode_responses": True, **options}
        return client_library().Redis(HOST, self.port, **options)

    def call(self, *words):
        """One command, on a connection of its own."""
        with contextlib.closing(self.client()) as client:
            return client.execute_command(*words)

    def is_ready(self):
        library = client_library()
        with contextlib.suppress(library.ConnectionError, library.TimeoutError, OSError):
            return bool(self.call("PING"))
        return False

    def empty(self):
        shutil.rmtree(os.path.join(self.folder, "data"), ignore_errors=True)
