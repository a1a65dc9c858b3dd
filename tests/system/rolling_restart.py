"""rolling_restart.py - every node is stopped and started, one after the other, under load: nothing is
lost, and there is an answer all the time."""

import sys
import time

import agreement
import deployment
import tallyd
from journal import Journal, Writer

ITEMS = [f"video{i}" for i in range(8)]
WRITERS = 4
ACK_TIMEOUT_S = 20  # so that a busy machine does not make an answer weak
UNANSWERED_MAX_S = 15.0


class RollingRestart(deployment.Case):
    def test_it_loses_nothing_and_answers_all_the_time(self):
        tally = self.deploy("--flush-interval", "200ms", "--ack-timeout", f"{ACK_TIMEOUT_S}s",
                            fast=True)
        journal = Journal([Writer(f"w{i}", tally.serving, ITEMS, ["views"], users=500, pace_s=0.01)
                           for i in range(WRITERS)])
        journal.start()
        journal.wait_acknowledged(500)
        for node in tally.nodes:
            begin = time.monotonic()
            self.assertEqual(node.stop(), 0)
            print(f"{node.role}: stopped within {time.monotonic() - begin:.1f} s", file=sys.stderr)
            time.sleep(0.5)
            node.start()
            journal.wait_acknowledged(300)
        journal.stop()
        journal.settle()
        agreement.check(tally, journal)

        counts = journal.counts()
        print(f"{dict(counts)}, {journal.longest_s():.1f} s without an answer at most",
              file=sys.stderr)
        self.assertLess(journal.longest_s(), UNANSWERED_MAX_S)
        self.assertEqual(counts["ack hot"], 0)


if __name__ == "__main__":
    tallyd.main()
