"""cluster_reshard.py [--users N] [--seed N] - one item goes viral: it is spread over more and more
cells while the slots of those cells are moved between the primaries of the Redis Cluster, and
primaries fail over.

The model is one dictionary: what each of 100,000 users has done last. In the end item, members and
rows in PostgreSQL are what it says."""

import contextlib
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
LOAD_WITHIN_S = 600
CHANGED_WITHIN_S = 180


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

    def test_a_spreading_item_on_a_changing_cluster_counts_every_user_once(self):
        self.random = self.chance()
        self.tally = self.deploy("--flush-interval", "200ms", "--spread-rate", "100", fast=True)
        fans = [Fan(f"w{i}", self.tally.serving, [ITEM], [], users=self.users // WRITERS)
                for i in range(WRITERS)]
        journal = Journal(fans)

        self.moves = self.failovers = 0
        self.most_shards = 1
        self.failure = None
        self.is_over = threading.Event()
        mover = threading.Thread(target=self.keep_moving, daemon=True)
        journal.start()
        journal.wait_acknowledged(1000)
        mover.start()
        journal.wait_acknowledged(self.users + self.users // 10, timeout_s=LOAD_WITHIN_S)
        tallyd.wait_until(lambda: self.has_changed() or self.failure, CHANGED_WITHIN_S,
                          "an item that is spread, of which slots were moved")
        self.is_over.set()
        mover.join()
        journal.stop()
        self.assertIsNone(self.failure)
        self.tally.cluster.wait_whole()
        journal.settle()
        agreement.check(self.tally, journal)

        print(f"{dict(journal.counts())}, {journal.longest_s():.1f} s without an answer at most, "
              f"{self.moves} slots moved, {self.failovers} failovers, {self.most_shards} shards at most",
              file=sys.stderr)

    def has_changed(self):
        return self.moves > MOVES // 3 and self.most_shards > 1

    def keep_moving(self):
        """Moves slots that have keys, one by one, and now and then lets a replica take over."""
        try:
            while not self.is_over.is_set():
                if self.moves < MOVES:
                    self.move()
                self.look_at_shards()
                self.is_over.wait(BETWEEN_MOVES_S)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = f"{type(failure).__name__}: {failure}"

    def move(self):
        cluster = self.tally.cluster
        slot = self.random.choice(self.slots_in_use())
        cluster.move_slots([slot], self.random.choice(cluster.primaries()),
                           between=lambda: time.sleep(0.005))
        self.moves += 1
        if self.moves % MOVES_A_FAILOVER == 0:
            cluster.failover(self.random.choice(cluster.primaries()))
            cluster.wait_whole()
            self.failovers += 1

    def look_at_shards(self):
        """A node may say that it cannot tell at the moment."""
        with contextlib.suppress(tallyd.ReplyError), self.tally.serving[0].connect() as client:
            about = tallyd.pairs(client.call("COUNTER.INFO", f"{ITEM}/like"))
            self.most_shards = max(self.most_shards, int(about["shards"]))

    def slots_in_use(self):
        """Slots of some keys of every primary."""
        slots = set()
        for node in self.tally.cluster.primaries():
            with node.client(decode_responses=False) as client:
                _, keys = client.scan(self.random.getrandbits(16), count=300)
                slots.update(key_slot(key) for key in keys)
        return sorted(slots)


if __name__ == "__main__":
    deployment.main(ClusterReshard, __doc__, "users", "seed")
