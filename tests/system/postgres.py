"""postgres.py - one machine whose store is PostgreSQL: from a like to a row, and what happens to that
way when the server is killed, refuses, goes away, or its answers are lost."""

import os
import sys
import time

import pipeline
import tallyd

sys.path.insert(0, os.path.join(tallyd.ROOT, "tests"))
from servers import Missing, Postgres, Proxy  # pylint: disable=wrong-import-position

FAST = ("--flush-interval", "50ms")

POISON = """
CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.id LIKE 'bad%' THEN RAISE EXCEPTION 'poison'; END IF; RETURN NEW; END $$;
CREATE TRIGGER poison BEFORE INSERT OR UPDATE ON entries FOR EACH ROW EXECUTE FUNCTION poison()"""


class Case(pipeline.PipelineCase):
    """The questions of pipeline.py, asked of PostgreSQL."""

    members = "rows"
    postgres = None

    @classmethod
    def setUpClass(cls):
        try:
            cls.postgres = Postgres()
        except Missing as missing:
            cls.missing = str(missing)
            return
        cls.postgres.start()

    @classmethod
    def tearDownClass(cls):
        if cls.postgres:
            cls.postgres.remove()

    def setUp(self):
        self.need(self.postgres, getattr(self, "missing", ""))
        self.postgres.query("DROP SCHEMA IF EXISTS public CASCADE")
        self.postgres.query("CREATE SCHEMA public")

    def tally(self, *flags, url=None, **options):
        return self.server(*FAST, "--store", url or self.postgres.url, "--members", self.members,
                           *flags, **options)

    def ask(self, server, query, *args):
        return self.postgres.query(query.replace("?", "%s"), *args)

    def wait_until_stored(self, client, timeout_s=60):
        def lag():
            text = client.call("INFO", "pipeline")
            return int(text.split("pipeline_lag_events:")[1].split("\r\n")[0])
        tallyd.wait_until(lambda: lag() == 0, timeout_s, "the store has everything")


class Rows(Case):
    def test_a_like_becomes_a_row_a_count_and_a_life_that_succeeds(self):
        server = self.tally()
        client = self.client(server)
        client.pipeline([("LIKE", "123", "ann"), ("LIKE", "123", "7"), ("INCRBY", "views", 2**70)])
        self.wait_value(server, "views", 2**70)
        self.assertEqual(self.ask(server, "SELECT like_count FROM posts WHERE id = 123"), [(2,)])
        self.assertEqual(self.ask(server, "SELECT user_name FROM who_likes_what ORDER BY 1"),
                         [("7",), ("ann",)])
        self.assertEqual(self.states(server), {"SUCCESS": 2})
        self.assert_proved(client)

    def test_what_was_killed_is_loaded_again_with_its_members(self):
        server = self.tally()
        client = self.client(server)
        client.pipeline([("LIKE", "video", f"user{i}") for i in range(6000)])
        client.pipeline([("LIKE", "video", str(i)) for i in range(100)])
        self.wait_value(server, "video/like", 6100)
        server.kill()
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("LIKE", "video", "user5999"), 0)
        self.assertEqual(client.call("LIKE", "video", "99"), 0)
        self.assertEqual(client.call("LIKE", "video", "somebody else"), 1)
        self.assertEqual(client.call("COUNTS", "video"), ["like", 6101, "dislike", 0])
        self.wait_value(server, "video/like", 6101)
        self.assert_proved(client)

    def test_killed_again_and_again_store_and_log_and_memory_agree(self):
        server = self.tally("--flush-events", "50")
        likes = 0
        for round_ in range(5):
            client = self.client(server)
            for i in range(40):
                client.pipeline([("LIKE", f"video{i % 7}", f"u{round_}-{i}-{j}")
                                 for j in range(10)] + [("INCR", "views")])
                likes += 10
            server.kill()
            server.start()
        client = self.client(server)
        self.wait_until_stored(client)
        self.assertEqual(client.call("GET", "views"), "200")
        self.assertEqual(self.one(server, "SELECT sum(count)::bigint FROM items"), likes)
        self.assert_proved(client)


class Sets(Rows):
    members = "sets"


class Refusals(Case):
    def test_a_poisoned_unit_waits_and_the_others_go_through(self):
        server = self.tally()
        client = self.client(server)
        self.ask(server, POISON)
        client.pipeline([("INCR", "good"), ("INCR", "bad"), ("LIKE", "fine", "ann")])
        self.wait_value(server, "good", 1)
        self.wait_value(server, "fine/like", 1)
        self.assertEqual(self.states(server), {"SUCCESS": 2, "RETRYING": 1})
        self.assertEqual(client.call("GET", "bad"), "1")
        server.kill()
        server.start()
        client = self.client(server)
        self.assertEqual(client.call("INCRBY", "bad", 10), 11)
        self.ask(server, "DROP FUNCTION poison() CASCADE")
        self.wait_value(server, "bad", 11, 40)
        self.assertEqual(set(self.states(server)), {"SUCCESS"})
        self.assert_proved(client)

    def test_after_five_retries_it_is_a_dead_letter_that_can_be_redriven(self):
        server = self.tally()
        client = self.client(server)
        self.ask(server, POISON)
        client.call("INCRBY", "bad", 5)
        tallyd.wait_until(lambda: self.states(server).get("FAILED") == 1, 60, "it fails")
        self.assertEqual(self.ask(server, "SELECT id, reason, retry_count FROM dead_letters"),
                         [("bad", "poison", 5)])
        self.ask(server, "DROP FUNCTION poison() CASCADE")
        self.assertEqual(client.call("DLQ", "REDRIVE", "ALL"), 1)
        self.wait_value(server, "bad", 5)
        self.assert_proved(client)


class Outages(Case):
    def write(self, client, rounds, name):
        for i in range(rounds):
            client.pipeline([("LIKE", f"video{i % 5}", f"{name}-{i}-{j}") for j in range(10)])
        return rounds * 10

    def assert_stored(self, server, client, likes):
        self.wait_until_stored(client)
        self.assertEqual(self.one(server, "SELECT sum(count)::bigint FROM items"), likes)
        self.assertEqual(self.ask(server, "SELECT * FROM letters"), [])
        self.assert_proved(client)

    def test_down_for_a_while_it_catches_up_and_nothing_is_a_dead_letter(self):
        server = self.tally()
        client = self.client(server)
        likes = self.write(client, 20, "before")
        for how in (self.postgres.stop, self.postgres.kill):
            how()
            likes += self.write(client, 20, how.__name__)
            tallyd.wait_until(lambda: "pipeline:paused" in client.call("INFO", "pipeline"), 30,
                              "it says that it waits")
            time.sleep(4)  # retries of a unit would be used up a good deal
            self.assertEqual(client.call("LIKE", "video0", f"{how.__name__}-0-0"), 0)
            self.postgres.start()
            self.wait_until_stored(client)
        self.assert_stored(server, client, likes)

    def test_answers_to_commits_are_lost_and_everything_counts_once(self):
        with Proxy(self.postgres) as proxy:
            url = f"postgres://{self.postgres.owner}@{proxy.address}/tally"
            server = self.tally("--flush-events", "100", url=url)
            client = self.client(server)
            proxy.set(lose="COMMIT", lose_every=2)
            likes = self.write(client, 60, "lost")
            tallyd.wait_until(lambda: "pipeline_outages:0" not in client.call("INFO", "pipeline"),
                              30, "an answer is lost")
            proxy.clear()
            self.assert_stored(server, client, likes)
            server.stop()

    def test_connections_that_are_ended_under_load(self):
        server = self.tally("--flush-events", "100")
        client = self.client(server)
        likes = 0
        for i in range(6):
            likes += self.write(client, 20, f"round{i}")
            self.ask(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                             "WHERE pid <> pg_backend_pid() AND usename IS NOT NULL")
        self.assert_stored(server, client, likes)


class Proof(Case):
    def repair(self, server, client, spoil):
        self.ask(server, spoil)
        self.task(client, "AUDIT", "*", "REPAIR", "no")
        task = self.task(client, "AUDIT", "*", "REPAIR", "yes")
        self.assertGreater(task["drifts"], 0, spoil)
        self.wait_until_stored(client)
        self.assert_proved(client)

    def filled(self):
        server = self.tally()
        client = self.client(server)
        client.pipeline([("LIKE", "video", f"user{i}") for i in range(40)]
                        + [("INCRBY", "views", 1000)])
        self.wait_value(server, "video/like", 40)
        self.wait_value(server, "views", 1000)
        return server, client

    def test_what_is_wrong_in_the_tables_is_found_and_put_right(self):
        server, client = self.filled()
        self.repair(server, client, "UPDATE entries SET value = 7 WHERE id = 'views'")
        self.repair(server, client, "UPDATE counts SET count = 99")
        self.repair(server, client, "DELETE FROM reactions WHERE user_id = -1")
        self.repair(server, client, "DELETE FROM entries WHERE id = 'views'")
        self.assertEqual(self.value(server, "views"), 1000)
        self.assertEqual(self.value(server, "video/like"), 40)
        self.assertEqual(client.call("LIKE", "video", "user0"), 0)

    def test_an_erased_name_is_in_no_table(self):
        server, client = self.filled()
        name = "elisabeth-the-unforgotten"
        for i in range(50):
            client.call("LIKE", f"video{i}", name)
        self.wait_value(server, "video49/like", 1)
        task = self.task(client, "USER.ERASE", name)
        self.assertEqual(task["state"], "done", task)
        self.assertEqual(client.call("COUNTS", "video1"), ["like", 0, "dislike", 0])
        self.assert_proved(client)
        tables = self.ask(server, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in tables:
            self.assertEqual(
                self.ask(server, f"SELECT * FROM {table} t WHERE strpos(t::text, ?) > 0 "
                                 "OR strpos(t::text, ?) > 0", name, name.encode().hex()), [], table)


if __name__ == "__main__":
    tallyd.main()
