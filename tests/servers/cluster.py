"""cluster.py - a private Redis Cluster: three primaries and as many replicas, unless told otherwise.

The cluster is put together by hand and not by `redis-cli --cluster create`, which sleeps a lot."""

import contextlib
import os
import shutil
import time

from servers.process import HOST, Kept, StartError, free_port, wait_until
from servers.proxy import Proxy
from servers.redis_server import Redis, client_library

SLOTS = 16384
FORMED_WITHIN_S = 60
MOVE_KEYS = 100  # moved by one MIGRATE


class Node(Redis):
    """A node, whose port for the other nodes is any free one."""

    name = "cluster-node"

    def __init__(self, proxied, **settings):
        super().__init__(**settings)
        self.proxy = None
        self.is_proxied = proxied

    def choose_ports(self):
        self.port = free_port()
        self.bus_port = free_port()
        if self.is_proxied:
            # The proxy comes first, since the node tells its address to everybody.
            if self.proxy:
                self.proxy.remove()
            self.proxy = Proxy((HOST, self.port), name="cluster").start()

    @property
    def address(self):
        """Where clients, and the other nodes for replication, look for it."""
        return f"{HOST}:{self.proxy.port if self.proxy else self.port}"

    def command(self):
        words = [*super().command(), "--cluster-enabled", "yes", "--cluster-port",
                 str(self.bus_port)]
        if self.proxy:
            words += ["--cluster-announce-ip", HOST, "--cluster-announce-bus-port",
                      str(self.bus_port), "--cluster-announce-port", str(self.proxy.port)]
        return words

    def stop_others(self):
        if self.proxy:
            self.proxy.remove()

    def id(self):
        return self.call("CLUSTER", "MYID")

    def view(self):
        """What it knows of all nodes: a list of (address, flags, spans of slots)."""
        result = []
        for line in self.call("CLUSTER", "NODES").splitlines():
            words = line.split()
            spans = [tuple(map(int, (span.split("-") * 2)[:2])) for span in words[8:]
                     if not span.startswith("[")]  # those are on the move
            result.append((words[1].split("@")[0], words[2].split(","), spans))
        return result

    def figures(self):
        """CLUSTER INFO as a dictionary."""
        return dict(line.split(":", 1) for line in self.call("CLUSTER", "INFO").splitlines())

    def role(self):
        """"master" or "slave", as Redis says it."""
        return self.call("ROLE")[0]

    def empty(self):
        """Its data goes; who it is in the cluster stays."""
        data = os.path.join(self.folder, "data")
        for name in os.listdir(data):
            if name != "nodes.conf":
                path = os.path.join(data, name)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)


class RedisCluster(Kept):
    """A cluster that ends with the `with`, or by remove().

    With `proxied` every node is reached through a fault proxy of its own, node.proxy."""

    def __init__(self, primaries=3, replicas=1, node_timeout_ms=1500, proxied=False, **settings):
        settings = {"cluster-node-timeout": node_timeout_ms,
                    "cluster-require-full-coverage": "no",
                    "cluster-replica-validity-factor": 0,  # a replica takes over however old it is
                    **settings}
        self.primary_count = primaries
        self.nodes = [Node(proxied, **settings) for _ in range(primaries * (1 + replicas))]

    @property
    def url(self):
        return "redis://" + ",".join(node.address for node in self.nodes)

    def start(self):
        for node in self.nodes:
            node.start()
        self._form()
        return self

    def remove(self):
        for node in self.nodes:
            node.remove()

    def primaries(self):
        """The nodes that are primaries at the moment and answer."""
        return [node for node in self.nodes if self._role(node) == "master" and self._slots(node)]

    def replica_of(self, primary):
        """A replica of this node that answers and is in step, or None."""
        return next((n for n in self.nodes if self._is_replica(n, primary)), None)

    def owner(self, slot):
        """The node that has the slot."""
        return self._nodes_of_slots()[slot]

    def is_whole(self):
        """Do all nodes that run agree that all slots are served?"""
        running = [node for node in self.nodes if node.is_running() and not node.is_paused]
        try:
            return all(self._sees_all(node) for node in running)
        except client_library().RedisError:
            return False

    def wait_whole(self, timeout_s=FORMED_WITHIN_S):
        """Waits until the cluster serves all slots, and every running replica is in step."""
        wait_until(lambda: self.is_whole() and self._are_replicas_linked(), timeout_s,
                   "a cluster that serves all slots")

    def failover(self, primary, force=False):
        """Lets a replica take over while the primary is well; with `force`, without asking it."""
        replica = wait_until(lambda: self.replica_of(primary), FORMED_WITHIN_S, "a replica in step")
        deadline = time.monotonic() + FORMED_WITHIN_S
        while not self._has_taken_over(replica, primary):
            if time.monotonic() > deadline:
                raise StartError("the replica does not take over")
            self._ask_for_failover(replica, force)
        return replica

    def move_slots(self, slots, to, between=None):
        """Moves slots to a node while they are being served, key by key, as redis-cli does it.

        `between()` is called while a slot is half moved."""
        for slot in slots:
            owner = self.owner(slot)
            if owner is not to:
                self._move_slot(slot, owner, to, between)

    # --- how ---

    def _has_taken_over(self, replica, primary):
        return self._role(replica) == "master" and self._role(primary) != "master"

    def _ask_for_failover(self, replica, force):
        """Redis gives up a failover that is not granted within five seconds, without a word."""
        with contextlib.suppress(client_library().RedisError):  # it may be the primary by now
            replica.call("CLUSTER", "FAILOVER", *(["FORCE"] if force else []))
        with contextlib.suppress(StartError):
            wait_until(lambda: replica.role() == "master", 7, "the replica's taking over")
        time.sleep(0.1)

    def _form(self):
        primaries = self.nodes[:self.primary_count]
        share = SLOTS / self.primary_count
        for i, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", str(i + 1))
        for i, node in enumerate(primaries):
            node.call("CLUSTER", "ADDSLOTSRANGE", str(round(i * share)),
                      str(round((i + 1) * share) - 1))
        for node in self.nodes[1:]:
            node.call("CLUSTER", "MEET", HOST, str(self.nodes[0].port),
                      str(self.nodes[0].bus_port))
        wait_until(lambda: all(self._knows_all(node) for node in self.nodes), FORMED_WITHIN_S,
                   "nodes that know each other")
        for i, node in enumerate(self.nodes[self.primary_count:]):
            node.call("CLUSTER", "REPLICATE", primaries[i % self.primary_count].id())
        self.wait_whole()

    def _knows_all(self, node):
        view = node.view()
        return len(view) == len(self.nodes) and not any("handshake" in flags
                                                        for _, flags, _ in view)

    @staticmethod
    def _sees_all(node):
        info = node.figures()
        return info["cluster_state"] == "ok" and info["cluster_slots_ok"] == str(SLOTS)

    def _are_replicas_linked(self):
        running = [node for node in self.nodes if node.is_running() and not node.is_paused]
        return all(role[0] == "master" or role[3] == "connected"
                   for role in (node.call("ROLE") for node in running))

    @staticmethod
    def _role(node):
        if node.is_running() and not node.is_paused:
            with contextlib.suppress(client_library().RedisError):
                return node.role()
        return None

    @staticmethod
    def _slots(node):
        return any("myself" in flags and spans for _, flags, spans in node.view())

    def _is_replica(self, node, primary):
        if node is primary or self._role(node) != "slave":
            return False
        role = node.call("ROLE")
        return f"{HOST}:{role[2]}" == primary.address and role[3] == "connected"

    def _nodes_of_slots(self):
        result = {}
        by_address = {node.address: node for node in self.nodes}
        some = next(node for node in self.nodes if self._role(node))
        for address, _, spans in some.view():
            for first, last in spans:
                result.update(dict.fromkeys(range(first, last + 1), by_address[address]))
        return result

    def _move_slot(self, slot, owner, to, between):
        to.call("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.id())
        owner.call("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id())
        target = to.address.split(":")
        while True:
            keys = owner.call("CLUSTER", "GETKEYSINSLOT", str(slot), str(MOVE_KEYS))
            if not keys:
                break
            owner.call("MIGRATE", *target, "", "0", "10000", "KEYS", *keys)
            if between:
                between()
        for node in (to, owner, *self.primaries()):
            node.call("CLUSTER", "SETSLOT", str(slot), "NODE", to.id())
