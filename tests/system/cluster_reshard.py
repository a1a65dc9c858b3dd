"""cluster_reshard.py [--users N] - one item goes viral: it is spread over more and more cells while the
slots of those cells are moved between the primaries of the Redis Cluster, and primaries fail over.

The model is one dictionary: what each of 100,000 users has done last. In the end item, members and
rows in PostgreSQL are what it says."""

import argparse
import random
import sys
import threading
import time

from redis.crc import key_slot

import agreement
import deployment
import tallyd
from journal import Journal, Write, Writer

ITEM = "viral"
WRITERS = 4
BATCH = 200
MOVES = 30
BETWEEN_MOVES_S = 0.5  # the cell of a moved slot is opened anew
MOVES_A_FAILOVER = 12


class Fan(Writer):
    """Users one after the other: all like first, then each does something else, or not."""

    def _new_batch(self, size):
        begin = self.number
        self.number += BATCH
        self.again = [self._write(n) for n in range(begin, begin + BATCH)]
        return self.again

    def _write(self, number):
        user = self.users[number % len(self.users)]
        is_first = number < len(self.users)
        act = {"op": "react", "kind": "like"} if is_first else self._reaction()
        return Write(f"{self.name}-k{number}", {"item": ITEM, "user": user, **act})


class ClusterReshard(deployment.Case):
    users = 100_000
    seed = None

    def test_a_spreading_item_on_a_changing_cluster_counts_every_user_once(self):
        seed = self.seed if self.seed is not None else random.SystemRandom().getrandbits(32)
        print(f"seed {seed}", file=sys.stderr)
        self.random = random.Random(seed)
        self.tally = self.deploy("--flush-interval", "200ms", "--spread-rate", "300",
                                 fast=True)
        fans = [Fan(f"w{i}", self.tally.serving, [ITEM], [], users=self.users // WRITERS)
                for i in range(WRITERS)]
        journal = Journal(fans)

        self.moves = self.failovers = 0
        self.failure = None
        self.is_over = threading.Event()
        mover = threading.Thread(target=self.keep_moving, daemon=True)
        journal.start()
        journal.wait_acknowledged(1000)
        mover.start()
        journal.wait_acknowledged(self.users + self.users // 10, timeout_s=300)
        self.is_over.set()
        mover.join()
        journal.stop()
        self.assertIsNone(self.failure)
        self.tally.cluster.wait_whole()
        journal.settle()
        agreement.check(self.tally, journal)

        with self.tally.serving[0].connect() as client:
            shards = tallyd.pairs(client.call("COUNTER.INFO", f"{ITEM}/like"))["shards"]
        print(f"{dict(journal.counts())}, {journal.longest_s():.1f} s without an answer at most, "
              f"{self.moves} slots moved, {self.failovers} failovers, {shards} shards", file=sys.stderr)
        self.assertGreater(self.moves, MOVES // 3)
        self.assertGreater(shards, 1)

    def keep_moving(self):
        """Moves slots that have keys, one by one, and now and then lets a replica take over."""
        cluster = self.tally.cluster
        try:
            while not self.is_over.is_set() and self.moves < MOVES:
                slot = self.random.choice(self.slots_in_use())
                primaries = cluster.primaries()
                cluster.move_slots([slot], self.random.choice(primaries),
                                   between=lambda: time.sleep(0.005))
                self.moves += 1
                if self.moves % MOVES_A_FAILOVER == 0:
                    cluster.failover(self.random.choice(cluster.primaries()))
                    cluster.wait_whole()
                    self.failovers += 1
                self.is_over.wait(BETWEEN_MOVES_S)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = f"{type(failure).__name__}: {failure}"

    def slots_in_use(self):
        """Slots of some keys of every primary."""
        slots = set()
        for node in self.tally.cluster.primaries():
            with node.client(decode_responses=False) as client:
                _, keys = client.scan(self.random.getrandbits(16), count=300)
                slots.update(key_slot(key) for key in keys)
        return sorted(slots)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=ClusterReshard.users)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    ClusterReshard.users, ClusterReshard.seed = options.users, options.seed
    sys.argv[1:] = []
    tallyd.main()
