"""transactions.py - MULTI and EXEC where a server dies in the middle: on one machine, and with many nodes.

Nothing is promised of a transaction that was not answered, but this: sent again with its idempotency keys, each
of its writes has counted once. What was answered is there."""

import threading
import time

import deployment
import tallyd

WORKERS = 4
COUNTERS = 5  # in several cells
WITHIN_S = 60
TURNS = 40    # of each worker, before and after the kill


class Sender(threading.Thread):
    """Sends transactions, each until it is answered."""

    def __init__(self, number, connect, may_go_on):
        super().__init__()
        self.number = number
        self.connect = connect  # to a server that lives
        self.may_go_on = may_go_on
        self.answered = 0
        self.wrong = []

    def transaction(self, turn):
        key = f"{self.number}-{turn}"
        return [("MULTI",), ("GET", f"own{self.number}"),
                *[("COUNTER.ADD", f"all{i}", "2", "ID", key) for i in range(COUNTERS)],
                ("PING",), ("LIKE", "crowd", key, "ID", key),
                ("COUNTER.ADD", f"own{self.number}", "1", "ID", key), ("EXEC",)]

    def send(self, turn):
        """One transaction; False: it has to be sent again, which is no mistake."""
        commands = self.transaction(turn)
        try:
            with self.connect() as client:
                answers = client.pipeline(commands)
        except (OSError, EOFError):
            return False
        array = answers[-1]
        queued = ["OK"] + ["QUEUED"] * (len(commands) - 2)
        if answers[:-1] != queued or not isinstance(array, list) or len(array) != len(commands) - 2:
            self.wrong.append(answers)
            return True
        if any(isinstance(answer, tallyd.ReplyError) for answer in array):
            texts = [str(answer) for answer in array if isinstance(answer, tallyd.ReplyError)]
            self.wrong += [text for text in texts if not text.startswith(("UNAVAILABLE", "BUSY"))]
            return False
        if array[COUNTERS + 1:] != ["PONG", 1, turn + 1]:
            self.wrong.append(array)
        return True

    def run(self):
        for turn in range(2 * TURNS):
            if turn == TURNS:
                self.may_go_on.wait()
            deadline = time.monotonic() + WITHIN_S
            while not self.send(turn) and len(self.wrong) < 3:
                if time.monotonic() > deadline:
                    self.wrong.append(f"transaction {turn} is not answered")
                    return
                time.sleep(0.01)
            self.answered += 1


class Transactions(deployment.Case):
    def run_senders(self, connect, kill):
        """Kills a server when some is answered, and looks at the sums in the end."""
        go_on = threading.Event()
        senders = [Sender(i, connect, go_on) for i in range(WORKERS)]
        for sender in senders:
            sender.start()
        tallyd.wait_until(lambda: sum(sender.answered for sender in senders) > WORKERS * TURNS // 3, 60,
                          "transactions are answered")
        kill()
        go_on.set()
        for sender in senders:
            sender.join()
        self.assertEqual([sender.wrong for sender in senders], [[]] * WORKERS)
        turns = 2 * TURNS
        with connect() as client:
            for i in range(COUNTERS):
                self.assertEqual(client.call("GET", f"all{i}"), str(2 * turns * WORKERS))
            for i in range(WORKERS):
                self.assertEqual(client.call("GET", f"own{i}"), str(turns))
            self.assertEqual(client.call("GET", "crowd/like"), str(turns * WORKERS))

    def test_one_machine_that_is_killed(self):
        server = self.server("--workers", "2")
        port = server.port

        def kill():
            server.kill()
            server.start()

        self.run_senders(lambda: tallyd.Connection(server.port or port), kill)

    def test_a_node_that_is_killed(self):
        nodes = self.deploy("--flush-interval", "100ms", serve=0, aggregate=0, both=2, cluster=False,
                            brokers=0).nodes
        alive = list(nodes)
        turn = iter(range(10 ** 9))

        def kill():
            alive.remove(nodes[0])
            nodes[0].kill()

        self.run_senders(lambda: tallyd.Connection(alive[next(turn) % len(alive)].port), kill)


if __name__ == "__main__":
    tallyd.main()
