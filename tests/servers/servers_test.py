"""servers_test.py - what tests/servers promises: each server starts, answers, and can be made to fail
in the ways that tests ask for; nothing is left behind."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from servers import (KAFKA_PRODUCE, Kafka, Missing, Postgres,  # noqa: E402
                     Proxy, Redis, RedisCluster, home, keep_home)
from servers.process import is_alive, wait_until  # noqa: E402

WITH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "with")


class Case(unittest.TestCase):
    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            keep_home()

    def use(self, make, *args, **options):
        """A server that ends with the test; skips it when the server cannot be had."""
        try:
            server = make(*args, **options)
        except Missing as missing:
            if os.environ.get("CI") == "true":
                raise
            self.skipTest(str(missing))
        self.addCleanup(server.remove)
        return server.start()


class RedisTest(Case):
    def test_it_never_evicts(self):
        redis = self.use(Redis)
        self.assertEqual(redis.client().config_get("maxmemory-policy"),
                         {"maxmemory-policy": "noeviction"})

    def test_killed_it_comes_back_at_its_place_with_what_it_synced(self):
        redis = self.use(Redis, appendonly=True)
        redis.call("SET", "a", "1")
        port = redis.port
        redis.restart()
        self.assertEqual((redis.port, redis.call("GET", "a")), (port, "1"))

    def test_it_can_come_back_empty(self):
        redis = self.use(Redis, appendonly=True)
        redis.call("SET", "a", "1")
        redis.restart(empty=True)
        self.assertIsNone(redis.call("GET", "a"))

    def test_paused_it_does_not_answer_and_resumed_it_does(self):
        redis = self.use(Redis)
        redis.pause()
        with self.assertRaises(Exception), contextlib.closing(
                redis.client(socket_timeout=0.2)) as client:
            client.ping()
        redis.resume()
        self.assertTrue(redis.call("PING"))


class ClusterTest(Case):
    def test_it_fails_over_and_moves_slots_while_it_serves(self):
        cluster = self.use(RedisCluster)
        self.assertEqual(len(cluster.primaries()), 3)

        first = cluster.primaries()[0]
        successor = cluster.failover(first)
        self.assertIs(cluster.owner(0), successor)
        cluster.wait_whole()

        successor.call("SET", "a{3560}", "kept")  # in slot 0
        self.assertEqual(successor.call("CLUSTER", "KEYSLOT", "a{3560}"), 0)
        other = next(node for node in cluster.primaries() if node is not successor)
        cluster.move_slots(range(0, 8), other)
        self.assertIs(cluster.owner(0), other)
        self.assertEqual(other.call("GET", "a{3560}"), "kept")

    def test_a_killed_primary_is_replaced_and_comes_back_as_a_replica(self):
        cluster = self.use(RedisCluster, proxied=True)
        first = cluster.primaries()[0]
        first.kill()
        cluster.wait_whole()
        self.assertEqual(len(cluster.primaries()), 3)
        first.start()
        cluster.wait_whole()
        self.assertEqual(first.role(), "slave")

        cluster.nodes[1].proxy.set(delay_ms=200)
        self.assertIn(f":{cluster.nodes[1].proxy.port}", cluster.url)


class PostgresTest(Case):
    def test_it_syncs_unless_told_not_to(self):
        for fast, answer in ((False, "on"), (True, "off")):
            postgres = self.use(Postgres, fast=fast)
            self.assertEqual(postgres.query("SHOW fsync"), [(answer,)])

    def test_killed_it_has_what_was_committed(self):
        postgres = self.use(Postgres)
        postgres.query("CREATE TABLE t AS SELECT 42 AS a")
        postgres.restart()
        self.assertEqual(postgres.query("SELECT a FROM t"), [(42,)])
        postgres.restart(empty=True)
        self.assertEqual(postgres.query("SELECT to_regclass('t')"), [(None,)])

    def test_paused_nothing_of_it_answers(self):
        postgres = self.use(Postgres, fast=True)
        with contextlib.closing(postgres.connect()) as connection:
            answers = []
            asker = threading.Thread(target=lambda: answers.append(
                connection.cursor().execute("SELECT 1")))
            postgres.pause()
            asker.start()
            time.sleep(0.3)
            self.assertEqual(answers, [])
            postgres.resume()
            asker.join(10)
            self.assertEqual(answers, [None])

    def test_a_standby_takes_over(self):
        postgres = self.use(Postgres, fast=True)
        postgres.query("CREATE TABLE t AS SELECT 42 AS a")
        standby = self.use(postgres.standby, fast=True)
        wait_until(lambda: standby.lag_bytes() == 0, 10, "a standby in step")
        postgres.kill()
        standby.promote()
        standby.query("INSERT INTO t VALUES (43)")
        self.assertEqual(standby.query("SELECT sum(a) FROM t"), [(85,)])
        self.assertIn(f":{standby.port}", postgres.failover_url(standby))


class KafkaTest(Case):
    def test_one_broker_takes_messages_and_has_them_after_a_kill(self):
        kafka = self.use(Kafka, settings={"auto.create.topics.enable": "true"})
        kafka.kcat("-t", "likes", "-P", data="a\nb\n")
        kafka.brokers[0].restart()
        self.assertEqual(kafka.kcat("-t", "likes", "-C", "-e", "-q"), "a\nb\n")

    def test_of_three_brokers_one_may_be_killed(self):
        kafka = self.use(Kafka, brokers=3, settings={"auto.create.topics.enable": "true"})
        self.assertEqual(kafka.live_count(), 3)
        kafka.kcat("-t", "likes", "-P", "-X", "acks=all", data="a\n")
        kafka.brokers[0].kill()
        kafka.kcat("-t", "likes", "-P", "-X", "acks=all", data="b\n")
        self.assertEqual(kafka.kcat("-t", "likes", "-C", "-e", "-q"), "a\nb\n")

    def test_the_answer_to_a_produce_request_can_be_lost(self):
        kafka = self.use(Kafka, proxied=True, settings={"auto.create.topics.enable": "true"})
        proxy = kafka.brokers[0].proxy
        kafka.kcat("-t", "likes", "-P", data="a\n")
        proxy.set(lose=KAFKA_PRODUCE)
        with self.assertRaisesRegex(RuntimeError, "transport failure"):
            kafka.kcat("-t", "likes", "-P", data="b\n")  # ends when no broker is left
        self.assertEqual(proxy.count()["lost"], 1)
        proxy.clear()
        self.assertEqual(kafka.kcat("-t", "likes", "-C", "-e", "-q"), "a\nb\n")


class ProxyTest(Case):
    def setUp(self):
        self.redis = self.use(Redis)
        self.proxy = self.use(Proxy, self.redis)

    def client(self, **options):
        client = Redis.client(self.proxy, **options)
        self.addCleanup(client.close)
        return client

    def test_answers_can_come_late(self):
        client = self.client()
        client.ping()
        self.proxy.set(delay_ms=100)
        begin = time.monotonic()
        client.ping()
        self.assertGreater(time.monotonic() - begin, 0.1)
        self.proxy.clear()

        def seconds():
            begin = time.monotonic()
            client.ping()
            return time.monotonic() - begin
        self.assertLess(min(seconds() for _ in range(20)), 0.1)  # where others want the cores, too

    def test_an_answer_can_be_lost_after_the_request_has_arrived(self):
        self.proxy.set(lose="INCR", lose_every=2)
        client = self.client(retry_on_timeout=False)
        client.incr("a")
        with self.assertRaises(Exception):
            client.incr("a")
        self.assertEqual(self.redis.call("GET", "a"), "2")
        self.assertEqual(self.proxy.count()["lost"], 1)

    def test_connections_are_reset_at_once_or_after_some_bytes(self):
        client = self.client()
        client.ping()
        self.proxy.set(reset_after=1000)
        with self.assertRaises(Exception):
            client.set("a", "x" * 2000)
        self.proxy.clear()
        with socket.create_connection(("127.0.0.1", self.proxy.port), timeout=5) as raw:
            raw.sendall(b"PING\r\n")
            self.assertEqual(raw.recv(100), b"+PONG\r\n")
            self.proxy.reset_all()
            with self.assertRaises(ConnectionResetError):
                raw.recv(1)

    def test_what_falls_into_the_hole_comes_out_later(self):
        client = self.client(socket_timeout=5)
        client.ping()
        self.proxy.set(hole=True)
        calm = threading.Timer(0.3, self.proxy.clear)
        calm.start()
        begin = time.monotonic()
        self.assertTrue(client.ping())
        self.assertGreater(time.monotonic() - begin, 0.25)
        calm.join()

    def test_nobody_gets_in_when_it_refuses(self):
        client = self.client()
        client.ping()
        self.proxy.set(refuse=True)
        with self.assertRaises(Exception):
            self.client().ping()
        self.proxy.clear()
        self.assertTrue(self.client().ping())

    def test_the_rate_is_limited_and_everything_arrives(self):
        client = self.client(socket_timeout=20)
        self.proxy.set(rate=200_000)
        begin = time.monotonic()
        client.set("a", "x" * 100_000)
        self.assertGreater(time.monotonic() - begin, 0.4)
        self.proxy.clear()
        self.assertEqual(self.redis.call("STRLEN", "a"), 100_000)

    def test_it_is_fast_enough_for_load(self):
        done = subprocess.run(["redis-benchmark", "-p", str(self.proxy.port), "-t", "set", "-n",
                               "100000", "-P", "16", "-c", "16", "--csv"], capture_output=True,
                              text=True, check=True)
        rate = float(done.stdout.splitlines()[-1].split(",")[1].strip('"'))
        print(f"{rate:.0f} SETs a second through the proxy", file=sys.stderr)
        self.assertGreater(rate, 20_000)


class WithTest(Case):
    @staticmethod
    def environment(more=None):
        """With a place for what is left behind, which goes with what is ours."""
        return {**os.environ, "TMPDIR": home(), **(more or {})}

    def run_with(self, *words, env=None):
        return subprocess.run([WITH, *words], capture_output=True, text=True, check=False,
                              env=self.environment(env))

    def test_the_command_finds_the_servers_and_its_exit_code_is_passed_on(self):
        done = self.run_with("redis", "--", "sh", "-c", 'echo "$TALLY_TEST_REDIS"; exit 7')
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stdout, r"^redis://127\.0\.0\.1:\d+$")
        self.assertIn("are kept in", done.stderr)

    def test_a_proxy_takes_orders_from_any_program(self):
        done = self.run_with("redis+proxy", "--", "sh", "-c",
                             'redis-cli -u "$TALLY_TEST_REDIS" PING; '
                             'echo "{\\"hole\\":true}" | '
                             'timeout 2 bash -c "exec 3<>/dev/tcp/127.0.0.1/$TALLY_TEST_REDIS_FAULTS;'
                             ' cat >&3; head -1 <&3"')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("PONG", done.stdout)
        self.assertIn('"accepted": 1', done.stdout)

    def test_what_is_missing_is_a_skip_or_a_failure(self):
        done = self.run_with("redis", "--", "true", env={"PATH": "/nowhere", "CI": ""})
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("skipped: there is no redis-server", done.stderr)
        done = self.run_with("redis", "--", "true", env={"PATH": "/nowhere", "CI": "true"})
        self.assertEqual(done.returncode, 1)

    def test_servers_end_with_whoever_started_them(self):
        starter = subprocess.Popen([WITH, "redis", "postgres", "--", "sh", "-c",
                                    'redis-cli -u "$TALLY_TEST_REDIS" INFO server | '
                                    'grep process_id; sleep 60'], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True,
                                   env=self.environment())
        pid = int(starter.stdout.readline().split(":")[1])
        self.assertTrue(is_alive(pid))
        starter.kill()
        starter.wait()
        starter.stdout.close()
        wait_until(lambda: not is_alive(pid), 10, "the end of Redis")


if __name__ == "__main__":
    print(f"servers: {home()}", file=sys.stderr)
    unittest.main(verbosity=2)
