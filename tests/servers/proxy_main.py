"""proxy_main.py port host upstream-port control-port - the process of a Proxy.

One thread and one poll. A connection is two pipes, one each way; a pipe reads as long as little of
what it has read waits to be sent on. The control port takes one line of JSON a connection: an
object with the faults to have from now on (see proxy.py; with "keep" those that there were), and
answers with what has happened so far."""

import collections
import heapq
import itertools
import json
import re
import selectors
import socket
import struct
import sys
import time

CHUNK = 256 * 1024
HELD_MAX = 4 * 1024 * 1024  # of what waits for its time; the delay is meant for answers, not for floods
FAULTS = {"delay_ms": 0, "rate": 0, "reset_after": 0, "hole": False, "refuse": False, "lose": "",
          "lose_every": 1}
RESET = struct.pack("ii", 1, 0)  # close() then resets instead of saying goodbye


class Pipe:
    """One way of a connection: what was read from `source` and waits for its time to be sent."""

    def __init__(self, link, source, sink, is_answer):
        self.link = link
        self.source = source
        self.sink = sink
        self.is_answer = is_answer
        self.chunks = collections.deque()  # (when, bytes)
        self.held = 0
        self.is_ended = False  # the source has said goodbye
        self.is_over = False  # and the sink was told
        self.free_at = 0.0  # with a limited rate: when the next may go


class Link:
    """A connection of a client, and ours to the server for it."""

    def __init__(self, client, server):
        self.up = Pipe(self, client, server, False)
        self.down = Pipe(self, server, client, True)
        self.carried = 0
        self.is_connected = False
        self.is_losing = False
        self.is_closed = False


class Proxy:
    def __init__(self, port, upstream, control_port):
        self.port = port
        self.upstream = upstream
        self.selector = selectors.DefaultSelector()
        self.faults = dict(FAULTS)
        self.pattern = None
        self.matches = 0
        self.links = {}  # by socket, two for each
        self.timers = []  # (when, number, pipe)
        self.numbers = itertools.count()
        self.counts = collections.Counter()
        self.listener = None
        self.listen()
        self.control = socket.create_server(("127.0.0.1", control_port))
        self.selector.register(self.control, selectors.EVENT_READ, self.take_order)

    def run(self):
        while True:
            for key, events in self.selector.select(self.next_s()):
                key.data(key.fileobj, events)
            now = time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                self.flush(heapq.heappop(self.timers)[2])

    def next_s(self):
        return max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else None

    # --- orders ---

    def take_order(self, listener, _):
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(1)
            try:
                order = json.loads(connection.makefile().readline() or "{}")
                self.obey(order)
                answer = dict(self.counts, connections=len(self.links) // 2)
            except (ValueError, KeyError, OSError, re.error) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                pass

    def obey(self, order):
        keep = order.pop("keep", False)
        reset_all = order.pop("reset_all", False)
        unknown = set(order) - set(FAULTS)
        if unknown:
            raise ValueError(f"no such fault: {', '.join(sorted(unknown))}")
        faults = {**(self.faults if keep else FAULTS), **order}
        text = faults["lose"]
        self.pattern = re.compile(text.encode("latin-1"), re.I | re.S) if text else None
        self.faults = faults
        if reset_all or faults["refuse"]:
            for link in {id(link): link for link in self.links.values()}.values():
                self.reset(link)
        if faults["refuse"]:
            self.deafen()
        else:
            self.listen()
        for link in {id(link): link for link in self.links.values()}.values():
            self.flush(link.up)
            self.flush(link.down)

    def listen(self):
        if self.listener is None:
            self.listener = socket.create_server(("127.0.0.1", self.port), backlog=512)
            self.listener.setblocking(False)
            self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def deafen(self):
        if self.listener is not None:
            self.selector.unregister(self.listener)
            self.listener.close()
            self.listener = None

    # --- connections ---

    def accept(self, listener, _):
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.socket()
        for end in (client, server):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.connect_ex(self.upstream)
        link = Link(client, server)
        self.links[client] = self.links[server] = link
        self.counts["accepted"] += 1
        self.selector.register(client, selectors.EVENT_READ, self.on_client)
        self.selector.register(server, selectors.EVENT_READ | selectors.EVENT_WRITE, self.on_server)

    def on_client(self, client, events):
        link = self.links.get(client)
        if link and events & selectors.EVENT_WRITE:
            self.flush(link.down)
        if link and not link.is_closed and events & selectors.EVENT_READ:
            self.read(link.up)

    def on_server(self, server, events):
        link = self.links.get(server)
        if link and not link.is_connected:
            if server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.reset(link)
                return
            if events & selectors.EVENT_WRITE:
                link.is_connected = True
        if link and events & selectors.EVENT_WRITE:
            self.flush(link.up)
        if link and not link.is_closed and events & selectors.EVENT_READ:
            self.read(link.down)

    def read(self, pipe):
        link = pipe.link
        try:
            data = pipe.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.reset(link)
            return
        if not data:
            pipe.is_ended = True
        elif pipe.is_answer and link.is_losing:
            self.counts["lost"] += 1
            self.reset(link)
            return
        else:
            self.take(pipe, data)
        self.flush(pipe)

    def take(self, pipe, data):
        link = pipe.link
        if self.pattern and not pipe.is_answer and self.pattern.search(data):
            self.matches += 1
            if self.matches % self.faults["lose_every"] == 0:
                link.is_losing = True
        when = 0.0
        if pipe.is_answer and self.faults["delay_ms"]:
            when = time.monotonic() + self.faults["delay_ms"] / 1000
        pipe.chunks.append((when, data))
        pipe.held += len(data)
        link.carried += len(data)
        self.counts["bytes"] += len(data)

    def flush(self, pipe):
        """Sends what may be sent, and arranges for the rest."""
        link = pipe.link
        if link.is_closed:
            return
        if self.faults["reset_after"] and link.carried >= self.faults["reset_after"]:
            self.reset(link)
            return
        if not self.faults["hole"] and (link.is_connected or pipe.is_answer):
            try:
                self.send(pipe)
            except BlockingIOError:
                pass
            except OSError:
                self.reset(link)
                return
        if link.up.is_over and link.down.is_over:
            self.close(link)
        else:
            self.watch(link)

    def send(self, pipe):
        while pipe.chunks:
            when, data = pipe.chunks[0]
            now = time.monotonic()
            when = max(when, pipe.free_at)
            if when > now:
                heapq.heappush(self.timers, (when, next(self.numbers), pipe))
                return
            rate = self.faults["rate"]
            sent = pipe.sink.send(data[:max(1, rate // 20)] if rate else data)
            if rate:
                pipe.free_at = now + sent / rate
            pipe.held -= sent
            pipe.chunks.popleft()
            if sent < len(data):
                pipe.chunks.appendleft((0.0, data[sent:]))
        if pipe.is_ended and not pipe.is_over:
            pipe.is_over = True
            pipe.sink.shutdown(socket.SHUT_WR)

    def watch(self, link):
        """Asks the poll for what both ends are ready to do."""
        for end, reads, writes, handler in (
                (link.up.source, link.up, link.down, self.on_client),
                (link.down.source, link.down, link.up, self.on_server)):
            events = 0
            if not reads.is_ended and reads.held < HELD_MAX:
                events |= selectors.EVENT_READ
            if end is link.down.source and not link.is_connected:
                events |= selectors.EVENT_WRITE
            elif writes.chunks and self.is_due(writes) and not self.faults["hole"]:
                events |= selectors.EVENT_WRITE
            self.ask(end, events, handler)

    @staticmethod
    def is_due(pipe):
        return max(pipe.chunks[0][0], pipe.free_at) <= time.monotonic()

    def ask(self, end, events, handler):
        known = self.selector.get_map().get(end.fileno())
        if known is None:
            if events:
                self.selector.register(end, events, handler)
        elif not events:
            self.selector.unregister(end)
        elif known.events != events:
            self.selector.modify(end, events, handler)

    def reset(self, link):
        if not link.is_closed:
            self.counts["resets"] += 1
            for end in (link.up.source, link.down.source):
                try:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                except OSError:
                    pass
            self.close(link)

    def close(self, link):
        link.is_closed = True
        for end in (link.up.source, link.down.source):
            self.ask(end, 0, None)
            del self.links[end]
            end.close()


if __name__ == "__main__":
    Proxy(int(sys.argv[1]), (sys.argv[2], int(sys.argv[3])), int(sys.argv[4])).run()
