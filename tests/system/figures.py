"""figures.py - what the page's overview shows: /v1/figures and /v1/status of a real server."""

import time

import tallyd
import web

COLUMNS = {"time", "writes", "reads", "refused", "errors", "write_p50_us", "write_p90_us", "write_p99_us",
           "read_p50_us", "read_p90_us", "read_p99_us", "connections", "lag_events", "lag_ms", "flushes",
           "flush_events", "flush_us", "pending", "retrying", "dead_letters", "sync_us", "outbox",
           "resident_bytes", "hot_bytes", "log_bytes", "store_bytes", "disk_free_bytes", "disk_bytes"}


class Figures(tallyd.Case):
    def setUp(self):
        self.serving = self.server("--workers", "1", "--flush-interval", "100ms")
        self.web = web.Web(self.serving.http_port)
        self.addCleanup(self.web.close)

    def columns(self, since=None):
        answer = self.web.get("/v1/figures" + (f"?since={since}" if since is not None else ""))
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.headers["cache-control"], "no-store")
        self.assertEqual(answer.json["every_ms"], 1000)
        columns = answer.json["columns"]
        self.assertEqual(set(columns), COLUMNS)
        self.assertEqual(len({len(values) for values in columns.values()}), 1)
        self.assertEqual(answer.json["from"] is None, columns["time"] == [])
        return columns

    def samples(self, count):
        """When there are so many."""
        def there():
            columns = self.columns()
            return columns if len(columns["time"]) >= count else None
        return tallyd.wait_until(there, 20, f"{count} samples")

    def work(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.web.batch([{"op": "like", "item": "v1", "user": user} for user in range(50)])
            self.web.batch([{"op": "add", "id": "views"}] * 50)
            for _ in range(20):
                self.web.get("/v1/counters/views")

    def test_they_grow_while_writes_happen_and_percentiles_are_in_order(self):
        self.work(3.5)
        columns = self.samples(4)
        busy = [i for i, writes in enumerate(columns["writes"]) if writes > 0]
        self.assertGreaterEqual(len(busy), 2, columns["writes"])
        for i in busy:
            p50, p90, p99 = (columns[f"write_{p}_us"][i] for p in ("p50", "p90", "p99"))
            self.assertTrue(0 < p50 <= p90 <= p99 <= 5000000, (p50, p90, p99))
            self.assertGreater(columns["sync_us"][i], 0)
        reading = [i for i, reads in enumerate(columns["reads"]) if reads > 0]
        for i in reading:
            p50, p99 = columns["read_p50_us"][i], columns["read_p99_us"][i]
            self.assertTrue(0 < p50 <= p99 <= 5000000, (p50, p99))
        self.assertGreater(sum(flushes or 0 for flushes in columns["flushes"]), 0)
        self.assertGreater(max(events or 0 for events in columns["flush_events"]), 0)
        for name in ("resident_bytes", "log_bytes", "store_bytes", "disk_free_bytes", "disk_bytes"):
            self.assertGreater(columns[name][-1], 0, name)
        self.assertEqual(set(columns["outbox"]), {None})  # one node
        self.assertEqual(set(columns["dead_letters"]), {0})
        self.assertGreaterEqual(columns["connections"][-1], 1)

    def test_a_second_without_work_has_no_percentiles(self):
        with self.serving.connect() as client:
            client.call("PING")
        time.sleep(2.5)
        columns = self.samples(2)
        self.assertIn(None, columns["write_p99_us"])
        self.assertEqual(columns["writes"][-1], 0)

    def test_since_gives_what_is_newer(self):
        columns = self.samples(3)
        last = columns["time"][-1]
        newer = tallyd.wait_until(lambda: self.columns(last)["time"], 10, "a newer sample")
        self.assertTrue(all(moment > last for moment in newer))
        self.assertEqual(self.columns(4102444800000)["time"], [])
        self.assertGreaterEqual(len(self.columns("2020-01-01T00:00:00Z")["time"]), 3)
        self.assertEqual(self.web.get("/v1/figures?since=yesterday").status, 400)
        self.assertEqual(self.web.get("/v1/figures?since=253402300800000").status, 400)
        self.assertEqual(self.web.get("/v1/figures?until=1").status, 400)

    def test_samples_are_a_second_apart(self):
        times = self.samples(6)["time"]
        gaps = sorted(after - before for before, after in zip(times, times[1:]))
        self.assertGreater(gaps[0], 0, times)
        self.assertTrue(500 <= gaps[len(gaps) // 2] <= 2500, times)  # one may be late on a busy machine

    def test_the_status_says_what_it_is_made_of_and_how_its_parts_are(self):
        status = self.web.get("/v1/status").json
        self.assertEqual(status["forms"], {"hot": "memory", "log": "file", "store": "sqlite"})
        self.assertEqual(status["ack"], "durable")
        self.assertTrue(0 < status["disk"]["free_bytes"] <= status["disk"]["size_bytes"])
        self.assertGreater(status["resident_bytes"], 0)
        self.assertEqual(status["parts"], [
            {"name": "log", "ok": True, "needed": True, "reason": ""},
            {"name": "open", "ok": True, "needed": True, "reason": ""},
            {"name": "store", "ok": True, "needed": False, "reason": ""}])
        for name in ("pending", "succeeded", "retrying", "dead_letters"):
            self.assertIsInstance(status["pipeline"][name], int)


class NoStore(tallyd.Case):
    def test_without_a_store_there_is_no_lag(self):
        server = self.server("--store", "none")
        client = web.Web(server.http_port)
        self.addCleanup(client.close)
        self.assertEqual(client.get("/v1/status").json["forms"]["store"], None)
        time.sleep(1.5)
        columns = client.get("/v1/figures").json["columns"]
        self.assertEqual(set(columns["lag_events"]), {None})
        self.assertEqual(set(columns["flushes"]), {None})


class Locked(tallyd.Case):
    def test_figures_need_the_password(self):
        server = self.server(env={"TALLY_PASSWORD": "sesame"})
        stranger = web.Web(server.http_port)
        friend = web.Web(server.http_port, "sesame")
        self.addCleanup(stranger.close)
        self.addCleanup(friend.close)
        self.assertEqual(stranger.get("/v1/figures").status, 401)
        self.assertEqual(friend.get("/v1/figures").status, 200)


if __name__ == "__main__":
    tallyd.main()
