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

TAKEN_WITHIN_S = 120
DONE_WITHIN_S = 200
PUMP = os.environ.get("LOG_PUMP", "build/dev/tests/system/log_pump")


class Pump:
    """A log_pump under way."""

    def __init__(self, url):
        self.process = subprocess.Popen([PUMP, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.line = ""

    def __enter__(self):
        self.wait_taken()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def figures(self):
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", self.line)}

    def wait_taken(self, more=500):
        """Waits until the log has taken so many more sections than now."""
        begin = self.figures().get("sections", 0)
        deadline = time.monotonic() + TAKEN_WITHIN_S
        while self.figures().get("sections", 0) < begin + more:
            if time.monotonic() > deadline:
                raise AssertionError(f"the log takes nothing: {self.line}")
            self.line = self.process.stdout.readline()  # one a second
            if not self.line:
                raise AssertionError(f"the pump failed: {self.process.stderr.read()[-1500:]}")

    def done(self):
        """Ends it; the last figures."""
        said, errors = self.process.communicate(timeout=DONE_WITHIN_S)
        if self.process.returncode != 0:
            raise AssertionError(f"the pump failed: {errors[-1500:]}\n{said[-500:]}")
        self.line = said.splitlines()[-1]
        return self.figures()


class LogServers(unittest.TestCase):

    def check(self, pump):
        """The log goes on taking sections, and all that it has taken is seen."""
        pump.wait_taken()
        result = pump.done()
        self.assertEqual(result["seen"], result["appended"])
        self.assertEqual(result["down"], 0)

    def test_one_broker_is_killed_and_comes_back(self):
        with servers.Kafka() as kafka, Pump(f"{kafka.url}/killed") as pump:
            for _ in range(2):
                kafka.brokers[0].kill()
                time.sleep(1)
                kafka.brokers[0].restart()
                pump.wait_taken()
            self.check(pump)

    def test_one_broker_stops_for_a_while(self):
        with servers.Kafka() as kafka, Pump(f"{kafka.url}/stopped") as pump:
            kafka.brokers[0].pause()
            time.sleep(5)
            kafka.brokers[0].resume()
            self.check(pump)

    def test_the_leader_of_three_is_killed(self):
        with servers.Kafka(brokers=3) as kafka, Pump(f"{kafka.url}/led") as pump:
            leader = kafka.leader("led", 0)
            leader.kill()
            pump.wait_taken()
            leader.restart()
            kafka.wait_whole()
            self.check(pump)

    def test_a_stream_is_killed_and_comes_back(self):
        with servers.Redis(appendonly=True) as redis, Pump(f"{redis.url}/killed") as pump:
            for _ in range(3):
                redis.kill()
                time.sleep(0.5)
                redis.restart()
                pump.wait_taken()
            self.check(pump)

    def test_a_failover_of_streams_that_wait_for_a_replica_loses_nothing(self):
        with servers.RedisCluster() as cluster, \
                Pump(f"{cluster.url}/failed?replicas=1") as pump:
            primary = cluster.primaries()[0]
            primary.kill()
            cluster.wait_whole()
            primary.restart()
            self.check(pump)

    def test_streams_move_with_the_slots_of_a_cluster(self):
        with servers.RedisCluster() as cluster, Pump(f"{cluster.url}/moved") as pump:
            giver, taker = cluster.primaries()[:2]
            slots = {giver.call("CLUSTER", "KEYSLOT", key) for key in giver.call("KEYS", "moved:*:log")}
            self.assertTrue(slots)
            cluster.move_slots(sorted(slots), taker)
            self.check(pump)


if __name__ == "__main__":
    try:
        servers.Kafka().remove()
    except servers.Missing as error:
        print(f"skipped: {error}")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    unittest.main(verbosity=2)
