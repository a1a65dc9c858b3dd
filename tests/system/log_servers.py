"""log_servers.py - the logs of many lanes while their servers are killed, stopped and replaced: no lane
has a gap, and what was acknowledged is seen."""

import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import servers  # noqa: E402

PUMP = os.environ.get("LOG_PUMP", "build/dev/tests/system/log_pump")


class Pump:
    """A log_pump under way. done() is its last line as a dictionary."""

    def __init__(self, url, seconds):
        self.process = subprocess.Popen([PUMP, url, str(seconds)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.lines = [self.process.stdout.readline()]  # it has begun

    def done(self):
        said, errors = self.process.communicate(timeout=300)
        self.lines += said.splitlines()
        if self.process.returncode != 0:
            raise AssertionError(f"the pump failed: {errors[-1500:]}\n" + "\n".join(self.lines[-5:]))
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", self.lines[-1])}


class LogServers(unittest.TestCase):

    def check(self, result):
        self.assertEqual(result["seen"], result["appended"])
        self.assertGreater(result["appended"], 1000)
        self.assertEqual(result["down"], 0)

    def test_one_broker_is_killed_and_comes_back(self):
        with servers.Kafka() as kafka:
            pump = Pump(f"{kafka.url}/killed", 14)
            for _ in range(2):
                time.sleep(2)
                kafka.brokers[0].kill()
                time.sleep(1)
                kafka.brokers[0].restart()
            self.check(pump.done())

    def test_one_broker_stops_for_a_while(self):
        with servers.Kafka() as kafka:
            pump = Pump(f"{kafka.url}/stopped", 14)
            time.sleep(3)
            kafka.brokers[0].pause()
            time.sleep(5)
            kafka.brokers[0].resume()
            self.check(pump.done())

    def test_the_leader_of_three_is_killed(self):
        with servers.Kafka(brokers=3) as kafka:
            pump = Pump(f"{kafka.url}/led", 20)
            time.sleep(3)
            leader = kafka.leader("led", 0)
            leader.kill()
            time.sleep(6)
            leader.restart()
            kafka.wait_whole()
            result = pump.done()
            self.check(result)

    def test_a_stream_is_killed_and_comes_back(self):
        with servers.Redis(appendonly=True) as redis:
            pump = Pump(f"{redis.url}/killed", 10)
            for _ in range(3):
                time.sleep(1.5)
                redis.kill()
                time.sleep(0.5)
                redis.restart()
            self.check(pump.done())

    def test_a_failover_of_streams_that_wait_for_a_replica_loses_nothing(self):
        with servers.RedisCluster() as cluster:
            pump = Pump(f"{cluster.url}/failed?replicas=1", 14)
            time.sleep(2)
            primary = cluster.primaries()[0]
            primary.kill()
            time.sleep(5)
            primary.restart()
            self.check(pump.done())

    def test_streams_move_with_the_slots_of_a_cluster(self):
        with servers.RedisCluster() as cluster:
            pump = Pump(f"{cluster.url}/moved", 12)
            time.sleep(2)
            giver, taker = cluster.primaries()[:2]
            slots = {giver.call("CLUSTER", "KEYSLOT", key) for key in giver.call("KEYS", "moved:*:log")}
            self.assertGreater(len(slots), 10)
            cluster.move_slots(sorted(slots), taker)
            self.check(pump.done())


if __name__ == "__main__":
    try:
        servers.Kafka().remove()
    except servers.Missing as error:
        print(f"skipped: {error}")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    unittest.main(verbosity=2)
