"""clients_redis_benchmark.py - redis-benchmark, with its own tests and with likes."""

import subprocess

import tallyd

REQUESTS = 4800  # whole pipelines, or it sends more


class RedisBenchmark(tallyd.Case):
    def setUp(self):
        self.need_command("redis-benchmark")
        self.one = self.server("--workers", "2")
        self.client_of_ours = self.client(self.one)

    def benchmark(self, *args):
        result = subprocess.run(["redis-benchmark", "-p", str(self.one.port), "-n", str(REQUESTS),
                                 "-c", "20", "-q", *args],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotRegex(result.stdout + result.stderr, "(?i)error|warning|could not")
        self.assertIn("requests per second", result.stdout)

    def test_its_own_tests_run_and_every_increment_counts(self):
        self.benchmark("-t", "ping_inline,ping_mbulk,incr,get", "-P", "16")
        self.benchmark("-t", "incr")
        self.assertEqual(int(self.client_of_ours.call("GET", "counter:__rand_int__")), 2 * REQUESTS)

    def test_increments_of_random_counters(self):
        self.benchmark("-t", "incr", "-r", "1000", "-P", "8")
        ids = self.client_of_ours.call("KEYS", "counter:*")
        total = sum(int(value) for value in self.client_of_ours.call("MGET", *ids[:1000]))
        self.assertLessEqual(len(ids), 1000)
        self.assertEqual(total, REQUESTS)

    def test_likes_of_random_users(self):
        self.benchmark("-r", "100000", "-P", "16", "LIKE", "video1", "user:__rand_int__")
        self.benchmark("-r", "100000", "-P", "16", "-3", "LIKE", "video1", "user:__rand_int__")
        likes = int(self.client_of_ours.call("GET", "video1/like"))
        self.assertTrue(0 < likes <= 2 * REQUESTS, likes)
        recount = tallyd.pairs(self.client_of_ours.call("COUNTER.RECOUNT", "video1/like"))
        self.assertEqual([recount[name] for name in ("value", "recount", "drift")], [likes, likes, 0])


if __name__ == "__main__":
    tallyd.main()
