"""stop_nodes.py - a node that is asked to end while something waits inside of it: for a log that is
down, for a Redis that does not answer. It answers what it can, ends in time, and ends well."""

import contextlib
import threading
import time

import deployment
import tallyd

FLAGS = ("--flush-interval", "100ms", "--ack-timeout", "1s")
SHARDS = 8


class Stop(deployment.Case):
    """One Redis, streams of another as the log, one node."""

    def begin(self):
        """A node, and a counter of many shards with 100 in it, which the log has."""
        self.tally = self.deploy(*FLAGS, serve=0, aggregate=0, both=1, cluster=False, brokers=0)
        self.node = self.tally.nodes[0]
        client = self.client(self.node)
        client.call("COUNTER.CREATE", "hot", "SHARDS", SHARDS, "POLICY", "round-robin")
        for _ in range(100):
            client.call("INCR", "hot")
        return client

    def ask_aside(self, *command):
        """Sends it and does not wait; the answers, or errors, are in the list when there are any."""
        answers = []

        def ask():
            try:
                answers.append(self.client(self.node, timeout_s=60).call(*command))
            except (OSError, EOFError, tallyd.ReplyError) as error:
                answers.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        self.addCleanup(thread.join)
        time.sleep(0.5)  # it waits by now
        return thread, answers

    def end(self):
        """Asks the node to end, and says how long that took."""
        began = time.monotonic()
        self.assertEqual(self.node.stop(), 0, self.node.said[-4000:])
        self.assertNotIn("did not stop in time", self.node.said)
        return time.monotonic() - began

    def test_a_write_that_waits_for_a_fold_does_not_keep_the_node_from_ending(self):
        self.begin()
        self.tally.stream.pause()
        with contextlib.ExitStack() as at_end:
            at_end.callback(self.tally.stream.resume)
            thread, answers = self.ask_aside("SET", "hot", "7")
            self.assertEqual(answers, [])
            self.assertLess(self.end(), tallyd.STOP_WITHIN_S)
            thread.join()
        self.assertRegex(str(answers[0]), "^UNAVAILABLE")
        self.node.start()
        client = self.client(self.node)
        self.assertEqual(client.call("GET", "hot"), "100")

    def test_a_write_to_a_redis_that_is_silent_does_not_keep_the_node_from_ending(self):
        self.begin()
        self.tally.redis.pause()
        with contextlib.ExitStack() as at_end:
            at_end.callback(self.tally.redis.resume)
            thread, answers = self.ask_aside("SET", "hot", "7")
            self.assertEqual(answers, [])
            self.assertLess(self.end(), tallyd.STOP_WITHIN_S)
            thread.join()
        self.assertEqual(len(answers), 1)


if __name__ == "__main__":
    tallyd.main()
