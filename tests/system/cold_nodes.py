"""cold_nodes.py - many nodes, and much that is not in Redis.

What is wanted of PostgreSQL is asked for together: a thousand items that nobody has liked yet do not
queue for a thousand answers of a store that is far away."""

import collections
import sys
import time

import deployment
import tallyd

ITEMS = 1000
CLIENTS = 20
FAR_MS = 60


class ColdNodes(deployment.Case):
    flags = ("--flush-interval", "100ms", "--ack-timeout", "30s")

    def setUp(self):
        self.tally = deployment.Deployment(self)
        self.tally.urls = {"hot": self.tally.start_hot(cluster=False, proxied=False),
                           "log": self.tally.start_log(brokers=0, proxied=False),
                           "store": self.tally.start_store(standby=False, proxied=True)}
        self.tally.start_nodes({"all": 1}, *self.flags)
        with self.tally.serving[0].connect() as client:
            likes = [("LIKE", f"first{i}", "ann") for i in range(ITEMS)]  # some in every cell
            self.assertEqual(set(client.pipeline(likes)), {1}, "it has said that it is ready")

    def far_store(self, delay_ms=FAR_MS):
        self.tally.postgres_proxy.set(delay_ms=delay_ms)

    def all_at_once(self, commands):
        """The answers to commands that are sent by all clients at the same time, in pipelines."""
        clients = [self.client(self.tally.serving[0]) for _ in range(CLIENTS)]
        parts = [commands[i::CLIENTS] for i in range(CLIENTS)]
        started = time.monotonic()
        for client, part in zip(clients, parts):
            client.send(*part)
        answers = [None] * len(commands)
        for i, (client, part) in enumerate(zip(clients, parts)):
            answers[i::CLIENTS] = [client.read() for _ in part]
        seconds = time.monotonic() - started
        print(f"{len(commands)} in {seconds:.2f} s, {len(commands) / seconds:.0f}/s", file=sys.stderr)
        return answers

    def test_likes_of_a_thousand_new_items_all_succeed(self):
        self.far_store()
        likes = [("LIKE", f"new{i}", f"user{j}") for i in range(ITEMS) for j in range(2)]
        answers = collections.Counter(str(answer) for answer in self.all_at_once(likes))
        self.assertEqual(answers, {"1": len(likes)})


if __name__ == "__main__":
    tallyd.main()
