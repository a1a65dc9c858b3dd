"""cli_proof.py - the tally command asks for proof: events, recounts, audits, the pipeline."""

import json
import os
import sqlite3

import cli_rig
import tallyd


class Proof(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.one = self.server("--flush-interval", "10ms")
        self.tally(given="like video1 ann\ndislike video1 bob\nlike video2 ann\nadd views 5\n"
                         "add views 2 --key k1 --region eu\nadd views -3\nset stock 9\n")

    def store(self, statement):
        """Somebody changes the database behind the server's back."""
        base = sqlite3.connect(os.path.join(self.one.data, "tally.db"), timeout=20,
                               isolation_level=None)
        try:
            base.execute(statement)
        finally:
            base.close()

    def is_stored(self):
        """Has everything arrived in the store?"""
        tallyd.wait_until(lambda: self.json("status")[0]["pipeline_lag_events"] == 0, 20,
                          "the store has it all")

    def test_the_events_of_a_counter_newest_first(self):
        events = self.json("events", "views")
        self.assertEqual([event["delta"] for event in events], ["-3", "2", "5"])
        self.assertEqual((events[1]["key"], events[1]["region"]), ("k1", "eu"))
        self.assertEqual([e["delta"] for e in self.json("events", "views", "--limit", "1")], ["-3"])
        self.assertIn("react", self.said("events", "video1/like"))
        self.tally("events", "views", "--state", "FAILED", code=2)

    def test_events_of_the_pipeline_can_be_filtered(self):
        self.is_stored()
        rows = self.json("events", "--counter", "views", "--state", "SUCCESS", "--since", "-1h")
        self.assertEqual(sum(int(row["delta"]) for row in rows), 4)
        self.assertEqual(self.json("events", "--until", "-1h"), [])
        self.assertEqual(self.json("events", "--state", "FAILED"), [])
        self.tally("events", "--since", "yesterday", code=2)

    def test_a_recount_of_one_some_and_all(self):
        self.assertEqual(self.said("recount", "views"),
                         "4, and the sum of its 3 events is the same\n")
        recount = self.json("recount", "video1/like")[0]
        self.assertEqual((recount["value"], recount["recount"], recount["drift"]), ("1", "1", "0"))
        self.assertRegex(self.said("recount", "video*"), "0 differ")
        task = self.json("recount", "--all")[0]
        self.assertEqual((task["kind"], task["state"], task["drifts"]), ("recount", "done", 0))
        self.tally("recount", code=2)
        self.tally("recount", "views", "--all", code=2)
        self.tally("recount", "nothing", code=5)

    def test_an_audit_finds_a_wrong_row_and_repairs_it(self):
        self.is_stored()
        self.assertRegex(self.said("audit"), "0 differ")
        self.store("UPDATE entries SET value = 1000 WHERE id = 'views'")
        self.tally("audit", code=4)
        result = self.tally("audit", "views", "--repair", code=4)
        self.assertIn("views", result.stdout)
        self.tally("audit", code=0)
        self.assertEqual(self.said("get", "views"), "4\n")
        self.assertIn("views", self.said("trail"))

    def test_tasks_can_be_started_and_followed_later(self):
        task = self.said("recount", "--all", "--no-wait").strip()
        self.assertRegex(task, r"^\d+$")
        self.assertIn("0 differ", self.said("task", task))
        self.assertIn(int(task), [row["id"] for row in self.json("task")])
        self.tally("task", "999", code=5)

    def test_the_value_at_a_time(self):
        self.assertEqual(self.said("at", "views", "now"), "4\n")
        self.assertEqual(self.json("at", "views", "4000000000000")[0]["value"], "4")
        self.tally("at", "views", "-1h", code=5)
        self.tally("at", "views", "soon", code=2)

    def test_history_and_reactions_of_a_user(self):
        self.tally("unlike", "video1", "ann")
        self.is_stored()
        self.assertEqual([(row["user"], row["kind"]) for row in self.json("history", "video1")],
                         [("ann", None), ("bob", "dislike"), ("ann", "like")])
        self.assertEqual([row["kind"] for row in self.json("history", "video1", "--user", "bob")],
                         ["dislike"])
        self.assertEqual(self.json("user", "ann"), [{"item": "video2", "kind": "like"}])

    def test_a_user_is_erased(self):
        self.tally("erase", "ann", code=2)
        self.assertEqual(json.loads(self.said("erase", "ann", "--yes", "--json"))["state"], "done")
        self.assertEqual(self.json("counts", "video2")[0]["counts"]["like"], "0")
        self.assertEqual(self.json("user", "ann"), [])
        self.assertEqual(self.json("trail")[0]["what"], "erase")

    def test_dead_letters_are_listed_shown_redriven_and_discarded(self):
        self.is_stored()
        self.store("CREATE TRIGGER poison BEFORE UPDATE ON entries "
                   "BEGIN SELECT RAISE(ABORT, 'poison'); END")
        self.tally(given="add views 10\nadd stock 1\n")
        tallyd.wait_until(lambda: len(self.json("dlq")) == 2, 90, "the store refuses for good")
        letters = {letter["id"]: letter for letter in self.json("dlq", "list")}
        self.assertEqual((letters["views"]["delta"], letters["views"]["reason"]), ("10", "poison"))
        event = letters["views"]["event_id"]
        self.assertIn("raw", self.json("dlq", "show", event)[0])
        self.assertIn("poison", self.said("dlq", "show", event))
        self.assertRegex(self.said("status"), r"dead letters +2\n")
        self.store("DROP TRIGGER poison")
        self.assertEqual(self.said("dlq", "redrive", event), "1\n")
        self.assertEqual(self.said("dlq", "discard", "--all", "--yes"), "1\n")
        self.assertEqual(self.json("dlq"), [])
        self.assertEqual(self.said("get", "views", "stock").split()[3::2], ["14", "9"])

    def test_an_empty_queue_of_dead_letters(self):
        self.assertEqual(self.json("dlq"), [])
        self.assertEqual(self.said("dlq", "redrive", "--all"), "0\n")
        self.assertEqual(self.said("dlq", "discard", "--all", "--yes"), "0\n")
        nobody = "018bcfe5-6800-7000-8000-00000000002a"
        self.tally("dlq", "show", nobody, code=5)
        self.tally("dlq", "redrive", nobody, code=5)
        self.tally("dlq", "show", code=2)
        self.tally("dlq", "eat", code=2)
        self.tally("dlq", "discard", nobody, code=2)


if __name__ == "__main__":
    tallyd.main()
