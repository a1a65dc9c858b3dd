"""nodes_killed.py [--kills N] - two serving nodes and two aggregators; one of them is killed -9 every
few seconds, and started again. Users who get no answer ask the other node, with the same key.
Nothing that was acknowledged is missing, nothing counts twice, and there is always a node that answers."""

import argparse
import random
import sys
import time

import agreement
import deployment
import tallyd
from journal import Journal, Writer

ITEMS = [f"video{i}" for i in range(8)]
SUMS = ["views", "shares"]
WRITERS = 4
LIVES_S = (0.5, 2.5)  # between two kills
DEAD_S = (0.1, 2.0)
UNANSWERED_MAX_S = 15  # by both nodes


class NodesKilled(deployment.Case):
    kills = 12
    seed = None

    def test_users_who_try_again_on_either_node_count_once(self):
        seed = self.seed if self.seed is not None else random.SystemRandom().getrandbits(32)
        print(f"seed {seed}", file=sys.stderr)
        self.random = random.Random(seed)
        tally = self.deploy("--flush-interval", "200ms", fast=True)
        journal = Journal([Writer(f"w{i}", tally.serving, ITEMS, SUMS, users=500, pace_s=0.01)
                           for i in range(WRITERS)])
        journal.start()
        for _ in range(self.kills):
            time.sleep(self.random.uniform(*LIVES_S))
            node = self.random.choice(tally.nodes)
            node.kill()
            time.sleep(self.random.uniform(*DEAD_S))
            node.start()
        journal.wait_acknowledged(500)
        journal.stop()
        journal.settle()
        agreement.check(tally, journal)

        counts = journal.counts()
        print(f"{self.kills} kills, {dict(counts)}, {journal.longest_s():.1f} s without an answer at "
              "most", file=sys.stderr)
        self.assertGreater(counts["ack log"], 200 * self.kills)
        self.assertLess(journal.longest_s(), UNANSWERED_MAX_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=NodesKilled.kills)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    NodesKilled.kills, NodesKilled.seed = options.kills, options.seed
    sys.argv[1:] = []
    tallyd.main()
