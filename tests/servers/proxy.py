"""proxy.py - a TCP proxy whose network can be made bad while it runs.

    with Proxy(redis) as proxy:      # proxy.address stands for redis.address
        proxy.set(delay_ms=500)      # every answer comes half a second late
        proxy.set(lose="EVALSHA")    # requests arrive, their answers do not: the connection ends
        proxy.clear()

It is a process of its own (proxy_main.py), so that it does not slow down who uses it. What can be
set, all of it or some:

    delay_ms    answers come this much later
    rate        bytes a second, each way
    reset_after bytes that a connection carries before it is reset
    hole        true: nothing gets through, and nobody is told; what was held comes later
    refuse      true: nobody gets in, and whoever is in is thrown out
    lose        a regular expression; the answer to what matches is lost, with the connection
    lose_every  only to every n-th that matches

Other programs set them by a line of JSON to the control port; see proxy_main.py."""

import contextlib
import json
import os
import socket
import sys

from servers.process import HOST, Server, free_port, is_listening

# A produce request of Kafka's protocol: its size, then the key of the call, which is 0.
KAFKA_PRODUCE = r"\A....\x00\x00\x00[\x03-\x0f]"


class Proxy(Server):
    """A proxy before a server, or before a (host, port)."""

    name = "proxy"

    def __init__(self, upstream, name=None):
        self.name = f"proxy-{name or getattr(upstream, 'name', 'any')}"
        super().__init__()
        self.upstream = upstream

    @property
    def address(self):
        return f"{HOST}:{self.port}"

    def url_of(self, url):
        """The URL of a server with the proxy's address in it."""
        host, port = self._upstream()
        return url.replace(f"{host}:{port}", self.address)

    def choose_ports(self):
        self.port = free_port()
        self.control_port = free_port()

    def command(self):
        host, port = self._upstream()
        return [sys.executable, os.path.join(os.path.dirname(__file__), "proxy_main.py"),
                str(self.port), host, str(port), str(self.control_port)]

    def is_ready(self):
        return is_listening(self.control_port)

    def set(self, **faults):
        """Makes the network have these faults and no others."""
        return self._tell(faults)

    def clear(self):
        return self._tell({})

    def reset_all(self):
        """Resets the connections that there are."""
        return self._tell({"reset_all": True}, keep=True)

    def count(self):
        """What has happened: connections, resets, lost, bytes."""
        return self._tell({}, keep=True)

    def _upstream(self):
        if isinstance(self.upstream, tuple):
            return self.upstream
        return HOST, self.upstream.port

    def _tell(self, faults, keep=False):
        with contextlib.closing(socket.create_connection((HOST, self.control_port), 10)) as line:
            line.sendall(json.dumps({"keep": keep, **faults}).encode() + b"\n")
            answer = json.loads(line.makefile().readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer
