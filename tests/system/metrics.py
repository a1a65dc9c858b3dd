"""metrics.py - /metrics of a real server: complete, moving by what was done, and silent about people."""

import json
import re
import unittest
import urllib.request

import deploy
import tallyd

SAMPLE = re.compile(r'^([a-z_]+)(\{.*\})? (-?[0-9.e+]+)$')
SECRETS = ("ann-the-user", "7000001", "key-of-ann", "eu-of-ann")


def scrape(port):
    """The page as text, and a dictionary of its samples."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        assert (name, labels) not in samples, line
        samples[name + (labels or "")] = float(value)
    return text, samples


def operations(samples, door, op, result):
    return samples[f'tally_operations_total{{door="{door}",op="{op}",result="{result}"}}']


class Metrics(tallyd.Case):
    def serve(self, *flags):
        server = self.server(*flags)
        self.http = server.http_port
        return server

    def moved(self, before, after, key):
        return after[key] - before[key]

    def put(self, path, headers=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", method="PUT",
                                         headers=headers or {}, data=b"{}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read())

    def test_every_metric_of_the_rules_and_the_dashboard_is_there(self):
        self.serve()
        _, samples = scrape(self.http)
        names = {re.match(r"[a-z_]+", key).group() for key in samples}
        used = set(re.findall(r"\btally_[a-z_]+", deploy.read(deploy.RULES) + deploy.read(deploy.DASHBOARD)))
        of_many_nodes = {"tally_log_up", "tally_answers_weak_total", "tally_cells_opening",
                         "tally_lanes_stuck", "tally_lanes_owned", "tally_outbox_longest",
                         "tally_outbox_max"}
        self.assertEqual(used - names - of_many_nodes - {"tally_shard_value"}, set())

    def test_figures_move_by_what_was_done(self):
        server = self.serve()
        _, before = scrape(self.http)
        with server.connect() as client:
            for _ in range(7):
                client.call("INCR", "views")
            for _ in range(3):
                client.call("GET", "views")
            for user in range(5):
                client.call("LIKE", "video1", f"user-{user}")
            with self.assertRaises(tallyd.ReplyError):
                client.call("INCR", "video1/like")
            _, after = scrape(self.http)
        self.assertEqual(operations(after, "resp", "write", "ok") - operations(before, "resp", "write", "ok"), 12)
        self.assertEqual(operations(after, "resp", "read", "ok") - operations(before, "resp", "read", "ok"), 3)
        self.assertEqual(
            operations(after, "resp", "write", "refused") - operations(before, "resp", "write", "refused"), 1)
        self.assertEqual(self.moved(before, after, "tally_counters"), 1)
        self.assertEqual(self.moved(before, after, "tally_items"), 1)
        self.assertEqual(self.moved(before, after, "tally_reactions"), 5)
        self.assertEqual(after['tally_connections{door="resp"}'], 1)
        self.assertGreaterEqual(self.moved(before, after, "tally_log_sync_duration_seconds_count"), 1)
        count = 'tally_operation_duration_seconds_count{door="resp",op="write"}'
        self.assertEqual(self.moved(before, after, count), 13)
        self.assertEqual(after['tally_operation_duration_seconds_bucket{door="resp",op="write",le="+Inf"}'],
                         after[count])

    def test_the_lag_goes_to_nothing_and_the_store_has_it_all(self):
        server = self.serve()
        with server.connect() as client:
            for user in range(20):
                client.call("LIKE", "video1", f"user-{user}")

        def is_flushed():
            _, samples = scrape(self.http)
            return samples["tally_pipeline_lag_events"] == 0 and samples["tally_pipeline_events_total"] == 20

        tallyd.wait_until(is_flushed, 20, "the store has all 20 events")
        _, samples = scrape(self.http)
        self.assertEqual(samples["tally_store_up"], 1)
        self.assertEqual(samples["tally_pipeline_paused"], 0)
        self.assertEqual(samples["tally_dead_letters"], 0)
        self.assertGreater(samples["tally_store_disk_bytes"], 0)

    def test_the_shards_of_a_spread_counter_add_up_to_its_value(self):
        server = self.serve()
        with server.connect() as client:
            client.call("COUNTER.CREATE", 'hot "one"', "SHARDS", "4", "POLICY", "round-robin")
            client.pipeline([("INCRBY", 'hot "one"', "5")] * 100)
            client.call("INCR", "plain")
        text, _ = scrape(self.http)
        found = re.findall(r'^tally_shard_value{counter="(.*)",shard="(\d+)"} (\d+)$', text, re.MULTILINE)
        self.assertEqual({name for name, _, _ in found}, {'hot \\"one\\"'})
        self.assertEqual([int(shard) for _, shard, _ in found], [0, 1, 2, 3])
        self.assertEqual(sum(int(value) for _, _, value in found), 500)

    def test_nobody_is_named(self):
        server = self.serve()
        with server.connect() as client:
            client.call("LIKE", "video1", SECRETS[0], "ID", SECRETS[2], "REGION", SECRETS[3])
            client.call("LIKE", "video1", SECRETS[1])
            client.call("REACTION", "video1", SECRETS[0])
        self.put(f"/v1/items/video2/reactions/{SECRETS[0]}", {"Idempotency-Key": SECRETS[2]})
        text, _ = scrape(self.http)
        for secret in SECRETS:
            self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main()
