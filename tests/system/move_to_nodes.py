"""move_to_nodes.py - from one machine to many nodes, as docs/distributed.md tells it: the machine's log
flows into PostgreSQL, the machine stops, and nodes go on where it was."""

import time

import deployment
import tallyd

BIG = 10**40
MOVED_WITHIN_S = 60


def wait_stored(server):
    deadline = time.monotonic() + MOVED_WITHIN_S
    while True:
        with server.connect() as client:
            info = client.call("INFO", "pipeline")
        lag = next(line for line in info.splitlines() if line.startswith("pipeline_lag_events:"))
        if lag == "pipeline_lag_events:0":
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"the store does not catch up: {lag}")
        time.sleep(0.1)


def fill(client):
    client.call("INCRBY", "views", 41)
    client.call("COUNTER.ADD", "big", str(BIG))
    client.call("COUNTER.CREATE", "stock", "FLOOR", "0", "SHARDS", "1")
    client.call("INCRBY", "stock", 3)
    client.call("COUNTER.CREATE", "wide", "SHARDS", "8")
    for _ in range(20):
        client.call("INCR", "wide")
    client.call("INCR", "gone")
    client.call("DEL", "gone")
    for user in range(100):
        client.call("LIKE", "video1", f"user{user}")
    for user in range(5000):
        client.send(("LIKE", "video2", str(user)))
    for _ in range(5000):
        client.read()
    client.call("DISLIKE", "video1", "user7")
    client.call("COUNTER.ADD", "views", "1", "ID", "the-first")


class Moving(deployment.Case):
    def one_machine(self):
        """A machine that has counted for a while; stopped."""
        server = self.server("--flush-interval", "100ms")
        with server.connect() as client:
            fill(client)
        self.assertEqual(server.stop(), 0)
        return server

    def test_nodes_go_on_where_one_machine_was(self):
        machine = self.one_machine()
        tally = deployment.Deployment(self)
        tally.start_engines(cluster=False, brokers=0, fast=True)
        machine.flags += ["--store", tally.urls["store"]]
        machine.start()
        wait_stored(machine)
        with machine.connect() as client:
            client.call("INCR", "views")  # it serves meanwhile
        self.assertEqual(machine.stop(), 0)

        tally.start_nodes({"all": 1}, "--flush-interval", "100ms")
        with tally.nodes[0].connect() as client:
            self.check_values(client)
            self.check_writes(client)

    def check_values(self, client):
        self.assertEqual(client.call("GET", "views"), "43")
        self.assertEqual(client.call("GET", "big"), str(BIG))
        self.assertEqual(client.call("GET", "wide"), "20")
        self.assertIsNone(client.call("GET", "gone"))
        self.assertEqual(client.call("GET", "video1/like"), "99")
        self.assertEqual(client.call("GET", "video1/dislike"), "1")
        self.assertEqual(client.call("GET", "video2/like"), "5000")
        self.assertEqual(client.call("REACTION", "video1", "user7"), "dislike")

    def check_writes(self, client):
        self.assertEqual(client.call("LIKE", "video1", "user3"), 0)  # it was counted there
        self.assertEqual(client.call("LIKE", "video2", "4321"), 0)
        self.assertEqual(client.call("LIKE", "video2", "5001"), 1)
        self.assertEqual(client.call("LIKE", "video1", "user7"), 1)
        self.assertEqual(client.call("GET", "video1/like"), "100")
        self.assertEqual(client.call("GET", "video1/dislike"), "0")
        self.assertEqual(client.call("INCR", "views"), 44)
        self.assertEqual(client.call("INCR", "gone"), 1)
        with self.assertRaises(tallyd.ReplyError):
            client.call("DECRBY", "stock", 4)  # the floor has moved along
        # A repetition of what the machine has counted gets its answer.
        self.assertEqual(client.call("COUNTER.ADD", "views", "1", "ID", "the-first"), 42)
        self.assertEqual(client.call("GET", "views"), "44")


if __name__ == "__main__":
    tallyd.main()
