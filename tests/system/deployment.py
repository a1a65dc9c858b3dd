"""deployment.py - Tally beyond one machine, as a test sees it: engines, and nodes over them.

    class Liking(deployment.Case):
        def test_a_like_on_one_node_is_seen_on_the_other(self):
            tally = self.deploy(serve=2, aggregate=2)
            ...

An engine is one of tests/servers; all of them are reached through fault proxies when a test asks for
that. Nodes keep their ports when they are started again, as nodes behind names do."""

import argparse
import contextlib
import http.client
import os
import random
import re
import sys
import time

import tallyd
import web

sys.path.insert(0, os.path.join(tallyd.ROOT, "tests"))

import servers  # noqa: E402  pylint: disable=wrong-import-position
from servers.process import free_port  # noqa: E402  pylint: disable=wrong-import-position

TOPIC = "tally-events"
READY_WITHIN_S = 120


class Node(tallyd.Server):
    """A tallyd of a deployment: serves, aggregates, or both."""

    def __init__(self, role, urls, *flags, env=None):
        self.role = role
        super().__init__("--role", role, "--hot", urls["hot"], "--log", urls["log"], "--store",
                         urls["store"], *flags, resp=f"127.0.0.1:{free_port()}",
                         http=f"127.0.0.1:{free_port()}", env=env)
        # Known before it runs: those who use it knock until it opens.
        self.port = int(self.resp.rsplit(":", 1)[1])
        self.http_port = int(self.http.rsplit(":", 1)[1])

    def start(self):
        """Starts it and waits until it is ready."""
        self.spawn()
        return self.wait_ready()

    def wait_ready(self, timeout_s=READY_WITHIN_S):
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                state = self.readiness() if self.process.poll() is None else "it has ended"
                raise tallyd.StartError(f"{self.role} node is not ready: {state}; it said:\n"
                                        f"{self._read_stderr()[-4000:]}")
            time.sleep(0.05)
        return self

    @property
    def serves(self):
        return self.role != "aggregate"

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def readiness(self):
        """The status of /readyz, and what it says."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            with contextlib.closing(web.Web(self.http_port)) as client:
                answer = client.get("/readyz?verbose")
                return answer.status, answer.body.decode()
        return None, ""

    def is_ready(self):
        return self.readiness()[0] == 200

    def ask(self, method, path, body=None, **headers):
        """One request on a connection of its own."""
        with contextlib.closing(web.Web(self.http_port)) as client:
            return client.ask(method, path, body, headers)

    def metrics(self):
        """Figures without labels by their names; with labels by name{labels}."""
        result = {}
        for line in self.ask("GET", "/metrics").body.decode().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                result[name] = float(value)
        return result


class Deployment:
    """Engines and the nodes over them. What is None was not asked for. All end with the owner."""

    def __init__(self, owner):
        self.owner = owner
        self.cluster = self.redis = self.kafka = self.stream = None
        self.postgres = self.standby = self.postgres_proxy = self.standby_proxy = None
        self.redis_proxy = self.stream_proxy = None
        self.nodes = []

    # --- engines ---

    def start_hot(self, cluster, proxied, **settings):
        if cluster:
            self.cluster = self.owner.engine(servers.RedisCluster, proxied=proxied, **settings)
            return self.cluster.url
        self.redis = self.owner.engine(servers.Redis, **settings)
        if proxied:
            self.redis_proxy = self.owner.engine(servers.Proxy, self.redis)
        return self._proxied(self.redis_proxy, self.redis.url)

    def start_log(self, brokers, proxied):
        """Kafka with so many brokers; 0: Redis Streams."""
        if brokers:
            self.kafka = self.owner.engine(servers.Kafka, brokers=brokers, proxied=proxied)
            return f"{self.kafka.url}/{TOPIC}"
        self.stream = self.owner.engine(servers.Redis, appendonly=True)
        if proxied:
            self.stream_proxy = self.owner.engine(servers.Proxy, self.stream)
        url = self._proxied(self.stream_proxy, self.stream.url)
        return url.replace("redis://", "redis-stream://")

    def start_store(self, standby, proxied, fast=False):
        self.postgres = self.owner.engine(servers.Postgres, fast=fast)
        if standby:
            self.standby = self.owner.engine(self.postgres.standby, fast=fast)
        if proxied:
            self.postgres_proxy = self.owner.engine(servers.Proxy, self.postgres)
            if standby:
                self.standby_proxy = self.owner.engine(servers.Proxy, self.standby)
        if not standby:
            return self._proxied(self.postgres_proxy, self.postgres.url)
        first = self.postgres_proxy or self.postgres
        return servers.Postgres.failover_url(self.postgres, self.standby).replace(
            f":{self.postgres.port},", f":{first.port},").replace(
            f":{self.standby.port}/", f":{(self.standby_proxy or self.standby).port}/")

    def start_engines(self, cluster=True, brokers=1, standby=False, proxied=False, fast=False,
                      **redis):
        """`redis`: settings of the Redis that holds the counts."""
        self.urls = {"hot": self.start_hot(cluster, proxied, **redis),
                     "log": self.start_log(brokers, proxied),
                     "store": self.start_store(standby, proxied, fast)}

    def proxies(self):
        """Every proxy that there is."""
        nodes = [*(self.cluster.nodes if self.cluster else []),
                 *(self.kafka.brokers if self.kafka else [])]
        return [proxy for proxy in (*(node.proxy for node in nodes), self.redis_proxy,
                                    self.stream_proxy, self.postgres_proxy, self.standby_proxy)
                if proxy and proxy.is_running()]

    def writable_postgres(self):
        """The one that takes writes now."""
        return next(server for server in (self.postgres, self.standby)
                    if server and server.is_running() and server.primary is None)

    def heal(self):
        """All engines run, and all networks are good."""
        for proxy in self.proxies():
            proxy.clear()
        for engine in self.engines():
            engine.resume()
            if not engine.is_running():
                engine.start(wait=False)
        for engine in self.engines():
            engine.wait_ready()
        if self.cluster:
            self.cluster.wait_whole()
        if self.kafka:
            self.kafka.wait_whole()

    def engines(self):
        """The server processes."""
        return [*(self.cluster.nodes if self.cluster else []),
                *(self.kafka.brokers if self.kafka else []),
                *(engine for engine in (self.redis, self.stream, self.postgres, self.standby)
                  if engine)]

    # --- nodes ---

    def node(self, role, *flags, start=True):
        node = Node(role, self.urls, *flags)
        self.nodes.append(node)
        self.owner.adopt(node)
        return node.start() if start else node

    def start_nodes(self, counts, *flags):
        """So many of each role, all at once: tables and topic are made by whoever is first."""
        made = [self.node(role, *flags, start=False) for role, count in counts.items()
                for _ in range(count)]
        for node in made:
            node.spawn()
        for node in made:
            node.wait_ready()

    @property
    def serving(self):
        return [node for node in self.nodes if node.serves]

    @property
    def aggregating(self):
        return [node for node in self.nodes if node.role != "serve"]

    def wait_ready(self, timeout_s=READY_WITHIN_S):
        for node in self.nodes:
            if node.is_running():
                node.wait_ready(timeout_s)

    @staticmethod
    def _proxied(proxy, url):
        return proxy.url_of(url) if proxy else url


class Case(tallyd.Case):
    """A test of nodes over engines. What `shared` says is deployed once for all its tests."""

    shared = None
    flags = ()  # of its nodes
    seed = None  # of chance()
    _shared = {}  # by class

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            servers.keep_home()

    def setUp(self):
        if self.shared is not None:
            owner = self._shared.setdefault(type(self), Owner(self))
            self.tally = owner.deployment(self, *self.flags, **self.shared)
            self.servers += self.tally.nodes

    @classmethod
    def tearDownClass(cls):
        owner = cls._shared.pop(cls, None)
        if owner:
            owner.end()

    def engine(self, make, *args, **options):
        """An engine that ends with the test; one that cannot be had skips it."""
        try:
            engine = make(*args, **options)
        except servers.Missing as missing:
            self.need(False, str(missing))
        self.addCleanup(engine.remove)
        return engine.start()

    def adopt(self, node):
        """The node ends with the test, and what it said is shown when that fails."""
        self.servers.append(node)
        self.addCleanup(self._end, node)

    def chance(self):
        """A source of random numbers, whose seed is said; --seed repeats a run."""
        seed = self.seed if self.seed is not None else tallyd.seed_of_run()
        print(f"seed {seed}", file=sys.stderr)
        return random.Random(seed)

    def deploy(self, *flags, serve=2, aggregate=2, both=0, **engines):
        """A deployment with nodes that are ready; `both`: so many that serve and aggregate."""
        tally = Deployment(self)
        tally.start_engines(**engines)
        tally.start_nodes({"serve": serve, "aggregate": aggregate, "all": both}, *flags)
        return tally


def main(case, about, *numbers):
    """Runs the tests of a file. These numbers of the case are also flags: --seed."""
    parser = argparse.ArgumentParser(description=about)
    for name in numbers:
        parser.add_argument(f"--{name}", type=int, default=getattr(case, name))
    for name, number in vars(parser.parse_args()).items():
        setattr(case, name, number)
    sys.argv[1:] = []
    tallyd.main()


class Owner:
    """Whom a deployment belongs to that several tests share."""

    def __init__(self, case):
        self.case = case
        self.stack = contextlib.ExitStack()
        self.tally = None
        self.nodes = []

    def deployment(self, case, *flags, **options):
        """The one there is, made at the first call."""
        self.case = case
        if self.tally is None:
            self.tally = Case.deploy(self, *flags, **options)
        return self.tally

    def engine(self, make, *args, **options):
        try:
            engine = make(*args, **options)
        except servers.Missing as missing:
            self.case.need(False, str(missing))
        self.stack.callback(engine.remove)
        return engine.start()

    def adopt(self, node):
        self.nodes.append(node)
        self.stack.callback(node.remove)

    def end(self):
        self.stack.close()
        for node in self.nodes:
            found = re.search("Sanitizer|runtime error:|Assertion .* failed", node.said)
            assert not found, f"a node said: {node.said[-4000:]}"
