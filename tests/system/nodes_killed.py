"""nodes_killed.py [--kills N] [--seed N] - two serving nodes and two aggregators; one of them is killed -9 every
few seconds, and started again. Users who get no answer ask the other node, with the same key.
Nothing that was acknowledged is missing, nothing counts twice, and there is always a node that answers."""

import sys
import time

import agreement
import deployment
from journal import Journal, Writer

ITEMS = [f"video{i}" for i in range(8)]
SUMS = ["views", "shares"]
WRITERS = 4
LIVES_S = (0.5, 2.5)  # between two kills
DEAD_S = (0.1, 2.0)
ANSWERED_A_KILL = 200  # writes, before the next one
UNANSWERED_MAX_S = 30  # by both nodes


class NodesKilled(deployment.Case):
    kills = 12

    def test_users_who_try_again_on_either_node_count_once(self):
        chance = self.chance()
        tally = self.deploy("--flush-interval", "200ms", fast=True)
        journal = Journal([Writer(f"w{i}", tally.serving, ITEMS, SUMS, users=500, pace_s=0.01)
                           for i in range(WRITERS)])
        journal.start()
        for _ in range(self.kills):
            time.sleep(chance.uniform(*LIVES_S))
            node = chance.choice(tally.nodes)
            node.kill()
            time.sleep(chance.uniform(*DEAD_S))
            node.start()
            journal.wait_acknowledged(ANSWERED_A_KILL)
        journal.stop()
        journal.settle()
        agreement.check(tally, journal)

        counts = journal.counts()
        print(f"{self.kills} kills, {dict(counts)}, {journal.longest_s():.1f} s without an answer at "
              "most", file=sys.stderr)
        self.assertLess(journal.longest_s(), UNANSWERED_MAX_S)


if __name__ == "__main__":
    deployment.main(NodesKilled, __doc__, "kills", "seed")
