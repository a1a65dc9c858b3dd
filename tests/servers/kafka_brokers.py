"""kafka_brokers.py - a private Apache Kafka without ZooKeeper: one broker, or some that agree.

Each broker is a controller as well. kafka/fetch.sh brings the program; what a broker has said is in
its folder."""

import base64
import contextlib
import os
import shutil
import socket
import struct
import subprocess
import uuid

from servers.process import (HOST, ROOT, Kept, Missing, Server, free_port, is_listening,
                             need_program, wait_until)
from servers.proxy import Proxy

FETCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kafka", "fetch.sh")

# A JVM that is soon there and small, since most of ours live for seconds.
JAVA = ["-Xmx320m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
        "-XX:-UsePerfData", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true",
        "-Xlog:cds=off"]

LOGGING = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %m (%c{1})%n
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.logger.kafka.server.BrokerServer=INFO
"""

METADATA = 3  # the number of that call in Kafka's protocol


class Broker(Server):
    """One of them. Clients reach it through a proxy of its own if there is one."""

    name = "kafka"
    ready_within_s = 90

    def __init__(self, kafka, number):
        super().__init__()
        self.kafka = kafka
        self.number = number
        self.proxy = None

    def choose_ports(self):
        self.port, self.peer_port, self.controller_port = (free_port() for _ in range(3))
        if self.kafka.is_proxied:
            if self.proxy:
                self.proxy.remove()
            self.proxy = Proxy((HOST, self.port), name="kafka").start()

    @property
    def address(self):
        return f"{HOST}:{self.proxy.port if self.proxy else self.port}"

    @property
    def data(self):
        return os.path.join(self.folder, "data")

    def prepare(self):
        if not os.path.exists(self.data):
            os.makedirs(self.data)
            # What `kafka-storage format` writes, without a JVM for it.
            self._write("data/meta.properties", "version=1\n"
                        f"cluster.id={self.kafka.id}\nnode.id={self.number}\n"
                        f"directory.id={short_uuid()}\n")
        self._write("log4j.properties", LOGGING)
        self._write("server.properties", "".join(
            f"{name}={value}\n" for name, value in self._settings().items()))

    def command(self):
        return [self.kafka.java, *JAVA, f"-Dlog4j.configuration=file:{self.folder}/log4j.properties",
                "-cp", f"{self.kafka.library}/*", "kafka.Kafka",
                os.path.join(self.folder, "server.properties")]

    def is_ready(self):
        return "Kafka Server started" in self.said() and is_listening(self.port)

    def stop_others(self):
        if self.proxy:
            self.proxy.remove()

    def spawn(self):
        # Each life begins with a clean page, since being ready is read from it.
        if os.path.exists(self.said_path()):
            with open(self.said_path() + ".before", "ab") as before:
                before.write(self.said().encode())
            os.truncate(self.said_path(), 0)
        super().spawn()

    def empty(self):
        shutil.rmtree(self.data, ignore_errors=True)

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _settings(self):
        count = len(self.kafka.brokers)
        voters = ",".join(f"{b.number}@{HOST}:{b.controller_port}" for b in self.kafka.brokers)
        return {
            "process.roles": "broker,controller", "node.id": self.number, "log.dirs": self.data,
            "controller.quorum.voters": voters, "controller.listener.names": "CONTROLLER",
            "listeners": f"CLIENT://{HOST}:{self.port},PEER://{HOST}:{self.peer_port},"
                         f"CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"CLIENT://{self.address},PEER://{HOST}:{self.peer_port}",
            "listener.security.protocol.map":
                "CLIENT:PLAINTEXT,PEER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PEER",
            "auto.create.topics.enable": "false", "num.partitions": 1,
            "default.replication.factor": count, "min.insync.replicas": 1 if count < 3 else 2,
            "offsets.topic.replication.factor": count, "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": 1 if count < 3 else 2,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000,
            "unclean.leader.election.enable": "false",
            # Small, and quick to notice that one of the others is gone.
            "num.network.threads": 2, "num.io.threads": 4, "log.cleaner.enable": "false",
            "broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500,
            "controller.quorum.election.timeout.ms": 1000,
            "controller.quorum.fetch.timeout.ms": 2000, "replica.lag.time.max.ms": 3000,
            "controlled.shutdown.enable": "true", "log.segment.bytes": 16 << 20,
            **self.kafka.settings,
        }


class Kafka(Kept):
    """Brokers that end with the `with`, or by remove(). Further settings of server.properties by a
    dictionary. With `proxied` every broker is reached through a fault proxy, broker.proxy."""

    def __init__(self, brokers=1, proxied=False, settings=None):
        self.id = short_uuid()
        self.java = need_program("java")
        self.library = library()
        self.is_proxied = proxied
        self.settings = settings or {}
        self.brokers = []
        self.brokers = [Broker(self, i + 1) for i in range(brokers)]

    @property
    def addresses(self):
        return ",".join(broker.address for broker in self.brokers)

    @property
    def url(self):
        return f"kafka://{self.addresses}"

    def start(self):
        """Starts all of them; each waits for the others."""
        for broker in self.brokers:
            broker.choose_ports()
        for broker in self.brokers:
            broker.spawn()
        for broker in self.brokers:
            broker.wait_ready()
        self.wait_whole()
        return self

    def wait_whole(self, timeout_s=60):
        """Waits until all brokers are there, and all have all that they should have."""
        wait_until(lambda: all(is_whole(broker.port, len(self.brokers)) for broker in self.brokers),
                   timeout_s, "brokers that are all in step")

    def remove(self):
        for broker in self.brokers:
            broker.remove()

    def live_count(self):
        """How many brokers the first that answers knows of."""
        for broker in self.brokers:
            if broker.is_running() and not broker.is_paused:
                with contextlib.suppress(OSError, struct.error):
                    return len(Metadata(broker.port).brokers)
        return 0

    def leader(self, topic, partition):
        """The broker that leads a partition."""
        for broker in self.brokers:
            if broker.is_running() and not broker.is_paused:
                with contextlib.suppress(OSError, struct.error, KeyError):
                    number = Metadata(broker.port).partitions[topic, partition][0]
                    return next(b for b in self.brokers if b.number == number)
        return None

    def kcat(self, *words, data=None, timeout_s=60):
        """Runs kcat against it and returns what it prints."""
        done = subprocess.run([need_program("kcat"), "-b", self.addresses, *words], input=data,
                              capture_output=True, text=True, timeout=timeout_s, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kcat: {done.stderr}")
        return done.stdout


def short_uuid():
    """As Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def library():
    """The folder with Kafka's libraries; fetches them when they are not there."""
    done = subprocess.run([FETCH], capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise Missing(done.stderr.strip() or "Apache Kafka could not be fetched")
    return done.stdout.strip()


def is_whole(port, brokers):
    """Does this broker know so many, and for every partition as many replicas in step as it has?"""
    try:
        metadata = Metadata(port)
    except (OSError, struct.error):
        return False
    return len(metadata.brokers) == brokers and all(
        sorted(replicas) == sorted(in_step) for _, replicas, in_step in metadata.partitions.values())


class Metadata:
    """What a broker knows: a Metadata request, version 1, for all topics."""

    def __init__(self, port):
        request = struct.pack(">hhih4si", METADATA, 1, 7, 4, b"test", -1)
        with contextlib.closing(socket.create_connection((HOST, port), 5)) as line:
            line.settimeout(5)
            line.sendall(struct.pack(">i", len(request)) + request)
            stream = line.makefile("rb")
            size, = struct.unpack(">i", stream.read(4))
            self.rest = stream.read(size)[4:]
        self.brokers = []
        for _ in range(self._number(4)):
            self.brokers.append(self._number(4))
            self._text()
            self._number(4)
            self._text()  # the rack
        self._number(4)  # the controller
        self.partitions = {}  # (topic, partition): leader, replicas, replicas in step
        for _ in range(self._number(4)):
            self._number(2)
            topic = self._text()
            self._number(1)
            for _ in range(self._number(4)):
                self._number(2)
                partition, leader = self._number(4), self._number(4)
                self.partitions[topic, partition] = leader, self._numbers(), self._numbers()

    def _number(self, size):
        value, self.rest = int.from_bytes(self.rest[:size], "big", signed=True), self.rest[size:]
        return value

    def _numbers(self):
        return [self._number(4) for _ in range(self._number(4))]

    def _text(self):
        size = self._number(2)
        value, self.rest = self.rest[:max(size, 0)], self.rest[max(size, 0):]
        return value.decode()
