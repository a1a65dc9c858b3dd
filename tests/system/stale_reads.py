"""stale_reads.py - what reads say of their age while the store is behind and Redis does not answer.

The aggregator is stopped, so that PostgreSQL has the first half of what was acknowledged, and Redis
knows all. Then Redis goes, or one primary of a cluster. A journal knows when which value was
acknowledged: every read of every protocol either gives a value that was right as of the moment that
it names, or is refused. Which reads there are is asked of the server itself."""

import datetime
import json
import sys
import time

import deployment
import tallyd
from tallyd import ReplyError, pairs, wait_until

WITHIN_S = 120
KEEPING_S = 3  # a total of a shard that does not answer is known for so long
FLAGS = ("--flush-interval", "50ms", "--ack-timeout", "30s", "--totals-ttl", f"{KEEPING_S}s")
USERS = ("ann", "bob", "eve", "kim")

# Commands that read, and do not read counters and items: what they say is not stale.
OTHER_COMMANDS = {"dbsize", "counter.recount", "counter.events", "counter.at", "events",
                  "subscribe", "unsubscribe", "psubscribe", "punsubscribe"}
OTHER_PATHS = {"/v1/counters/{id}/recount", "/v1/counters/{id}/events", "/v1/counters/{id}/at",
               "/v1/counters/{id}/values",  # these ask the log
               "/v1/events", "/v1/dlq", "/v1/dlq/{event}",
               "/v1/audits", "/v1/tasks", "/v1/tasks/{task}", "/v1/changes", "/v1/status",
               "/v1/figures", "/openapi.json", "/metrics", "/livez", "/readyz", "/", "/tally.js",
               "/page/{file}"}


def ms(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


class Journal:
    """Who has heard when that an id has a value, in order."""

    def __init__(self):
        self.acks = {}

    def note(self, name, value):
        self.acks.setdefault(name, [(0, 0)]).append((time.time() * 1000, value))

    def newest(self, name):
        return self.acks[name][-1][1]

    def check(self, name, value, as_of_ms):
        """Was this the value as of then? A write may count before its answer is there."""
        acks = self.acks[name]
        place = next((i for i, (_, known) in enumerate(acks) if known == value), None)
        assert place is not None, f"{name}: {value} was never its value: {acks}"
        if place + 1 < len(acks):
            assert as_of_ms < acks[place + 1][0], \
                f"{name}: {value} as of {as_of_ms}, though {acks[place + 1]} was acknowledged"


class StaleReads(deployment.Case):
    """Two nodes that serve: one refuses stale reads to Redis clients, and one does not."""

    def deploy_nodes(self, **engines):
        self.tally = deployment.Deployment(self)
        self.tally.start_engines(brokers=0, fast=True, **engines)
        self.aggregator = self.tally.node("aggregate", *FLAGS, start=False)
        self.strict = self.tally.node("serve", *FLAGS, start=False)
        self.lenient = self.tally.node("serve", *FLAGS, "--stale-reads", "serve", start=False)
        for node in self.tally.nodes:
            node.spawn()
        for node in self.tally.nodes:
            node.wait_ready()
        self.journal = Journal()
        self.resp = self.client(self.lenient)

    def add(self, name):
        answer = self.lenient.ask("POST", f"/v1/counters/{name}/add", {"delta": 1})
        self.assertEqual((answer.status, answer.json.get("ack")), (200, "log"), answer.body)
        self.journal.note(name, int(answer.json["value"]))

    def like(self, item, user):
        answer = self.lenient.ask("PUT", f"/v1/items/{item}/reactions/{user}")
        self.assertEqual((answer.status, answer.json.get("ack")), (200, "log"), answer.body)
        self.journal.note(item, int(answer.json["counts"]["like"]))

    def spread(self, name):
        tallyd.insist(self.resp, "COUNTER.CREATE", name, "SHARDS", "12", "POLICY", "round-robin")

    def write_and_stop_in_between(self, counters, items, spread):
        """Half of it is in PostgreSQL when this returns."""
        for name in spread:
            self.spread(name)
        for user in USERS[:2]:
            for name in (*counters, *spread):
                self.add(name)
            for item in items:
                self.like(item, user)
        for name in (*counters, *spread):
            self.wait_stored("SELECT value::bigint FROM counters WHERE id = %s", name, 2)
        for item in items:
            self.wait_stored("SELECT count::bigint FROM items WHERE id = %s AND kind = 'like'",
                             item, 2)
        self.aggregator.stop()
        for user in USERS[2:]:
            for name in (*counters, *spread):
                self.add(name)
            for item in items:
                self.like(item, user)
        self.add("late")
        self.like("late-item", "ann")

    def wait_stored(self, text, name, value):
        wait_until(lambda: self.tally.postgres.query(text, name) == [(value,)], WITHIN_S,
                   f"{name} in PostgreSQL")

    # --- HTTP ---

    def get(self, path, node=None, **headers):
        node = node or self.strict
        return node.ask("GET", path, **headers)

    def check_signed(self, name, value, said):
        """It says that it is not of now, and of when."""
        self.assertTrue(said.get("stale") or said.get("shards_missing"), (name, said))
        self.journal.check(name, int(value), ms(said["as_of"]))

    def check_refused(self, answer):
        self.assertEqual((answer.status, answer.problem), (503, "unavailable"), answer.body)

    def paths_that_read(self):
        """Of openapi.json: all that are read with GET, and the two that read with POST."""
        paths = json.loads(self.get("/openapi.json").body)["paths"]
        return {path for path, methods in paths.items() if "get" in methods} | {
            "/v1/reactions/mine", "/v1/batch"}

    def check_counter(self, name):
        said = self.get(f"/v1/counters/{name}")
        self.assertEqual(said.status, 200, said.body)
        self.check_signed(name, said.json["value"], said.json)
        self.assertNotIn("etag", said.headers)
        tagged = self.get(f"/v1/counters/{name}", **{"If-None-Match": "*"})
        self.assertEqual(tagged.status, 200, "nobody knows that it has not changed")
        for query in ("exact=true", "consistency=exact"):
            self.check_refused(self.get(f"/v1/counters/{name}?{query}"))
        for path in ("describe", "shards"):
            about = self.get(f"/v1/counters/{name}/{path}").json
            self.assertTrue(about.get("stale") or about.get("shards_missing") or
                            about["shard_values"], about)
            if about.get("stale"):
                self.assertEqual(about["shards_reason"], "not known while Redis does not answer")
        return {"/v1/counters/{id}", "/v1/counters/{id}/describe", "/v1/counters/{id}/shards"}

    def check_item(self, item):
        said = self.get(f"/v1/items/{item}").json
        self.check_signed(item, said["counts"]["like"], said)
        self.check_refused(self.get(f"/v1/items/{item}?exact=true"))
        for path, field in ((f"/like/count/{item}", "like_count"), (f"/{item}/count", "likeCount")):
            said = self.get(path).json
            self.check_signed(item, said[field], said)
        for user in ("ann", "eve"):
            said = self.get(f"/v1/items/{item}/reactions/{user}").json
            self.assertEqual((said["reaction"], said["stale"]),
                             ("like" if user == "ann" else None, True))
        self.check_refused(self.get(f"/v1/items/{item}/members"))
        return {"/v1/items/{item}", "/like/count/{id}", "/{video}/count",
                "/v1/items/{item}/reactions/{user}", "/v1/items/{item}/members"}

    def check_late(self):
        """What is not in PostgreSQL yet may be there or not: nobody says that it is not."""
        self.check_refused(self.get("/v1/counters/late"))
        said = self.get("/v1/items/late-item").json
        self.check_signed("late-item", said["counts"]["like"], said)
        said = self.get("/v1/counters?ids=late").json["counters"][0]
        self.assertTrue(said["value"] is None and said["stale"], said)

    def check_many(self, counters, items):
        said = self.get("/v1/counters?ids=" + ",".join(counters)).json
        for entry in said["counters"]:
            self.check_signed(entry["id"], entry["value"], entry)
            self.assertLessEqual(ms(said["as_of"]), ms(entry["as_of"]))
        self.assertTrue(said["stale"], said)
        mine = self.strict.ask("POST", "/v1/reactions/mine", {"user": "eve", "items": items}).json
        self.assertTrue(mine["stale"], mine)
        for entry in mine["reactions"]:
            self.assertEqual((entry["reaction"], entry["stale"]), (None, True))
            self.journal.check(entry["item"], 2, ms(entry["as_of"]))
        lines = [{"op": "get", "id": name} for name in counters]
        body = "\n".join(json.dumps(line) for line in lines).encode()
        answers = self.strict.ask("POST", "/v1/batch", body,
                                  **{"Content-Type": "application/x-ndjson"}).lines
        for name, line in zip(counters, answers):
            self.check_signed(name, line["value"], line)
        return {"/v1/reactions/mine", "/v1/batch"}

    def all_pages(self, path):
        cursor, pages = "", []
        while cursor is not None:
            answer = self.get(f"{path}{'&' if '?' in path else '?'}limit=50{cursor}")
            self.assertEqual(answer.status, 200, answer.body)
            pages.append(answer.json)
            cursor = answer.json["cursor"] and f"&cursor={answer.json['cursor']}"
        return pages

    def check_lists(self, names):
        """Of the ids that cannot be asked for each says so, and so does each page that lacks any."""
        pages = self.all_pages("/v1/counters?match=*")
        self.assertTrue(any(page.get("stale") for page in pages), pages)
        entries = {entry["id"]: entry for page in pages for entry in page["counters"]}
        for name in names:
            entry = entries[name]
            value = entry["counts"]["like"] if "counts" in entry else entry["value"]
            self.check_signed(name, value, entry)
        return {"/v1/counters"}

    def check_items_of_user(self):
        answer = self.get("/v1/users/ann/reactions")
        if answer.status == 200:  # otherwise PostgreSQL was asked to catch up, and cannot
            self.assertTrue(answer.json["stale"], answer.body)
        else:
            self.check_refused(answer)
        return {"/v1/users/{user}/reactions"}

    def check_history(self, item):
        """It is of PostgreSQL: what users did up to when."""
        said = self.get(f"/v1/items/{item}/history")
        self.assertEqual(said.status, 200, said.body)
        self.assertTrue(said.json.get("stale"), said.body)
        self.assertEqual([entry["user"] for entry in said.json["history"]], ["bob", "ann"])
        self.journal.check(item, 2, ms(said.json["as_of"]))
        self.assertNotIn("etag", said.headers)
        return {"/v1/items/{item}/history"}

    # --- RESP ---

    def commands_that_read(self):
        answer = self.client(self.strict).call("COMMAND")
        return {row[0] for row in answer if "readonly" in row[2]}

    def reads_of(self, counter, item):
        return [("GET", counter), ("MGET", counter, counter), ("EXISTS", counter), ("TTL", counter),
                ("PTTL", counter), ("TYPE", counter), ("COUNTER.INFO", counter),
                ("REACTION", item, "ann"), ("COUNTS", item), ("GET", f"{item}/like"),
                ("SCAN", "0"), ("KEYS", "*"), ("MEMBERS", item, "like"),
                ("REACTED", "ann"), ("USER.REACTIONS", "ann"), ("HISTORY", item)]

    def check_refused_commands(self, counter, item):
        client = self.client(self.strict)
        reads = self.reads_of(counter, item)
        self.assertEqual({name.lower() for name, *_ in reads} | OTHER_COMMANDS,
                         self.commands_that_read() | OTHER_COMMANDS)
        for read in reads:
            with self.assertRaises(ReplyError, msg=read) as caught:
                client.call(*read)
            words = ("UNAVAILABLE", "TRYAGAIN") if read[0] in ("MEMBERS", "REACTED",
                                                                 "USER.REACTIONS") else ()
            self.assertIn(caught.exception.word, ("STALE", *words), (read, caught.exception))

    def check_served_commands(self, counter, item):
        client = self.client(self.lenient)
        self.assertEqual(client.call("GET", counter), "2")
        self.assertEqual(client.call("MGET", counter, "nothing"), ["2", None])
        self.assertEqual(client.call("EXISTS", counter), 1)
        self.assertEqual(client.call("TTL", counter), -1)
        self.assertEqual(client.call("TYPE", counter), "string")
        self.assertEqual(pairs(client.call("COUNTS", item))["like"], 2)
        self.assertEqual(client.call("REACTION", item, "ann"), "like")
        self.assertEqual([pairs(entry)["user"] for entry in client.call("HISTORY", item)[1]],
                         ["bob", "ann"])
        self.assertIn(counter, client.call("KEYS", "*"))

    def check_figures(self):
        for node, kind in ((self.strict, "refused"), (self.lenient, "served")):
            figures = node.metrics()
            name = f'tally_stale_reads_total{{door="resp",result="{kind}"}}'
            self.assertGreater(figures[name], 0)
            self.assertIn(f"stale_reads_{kind}:", self.client(node).call("INFO", "tally"))
        self.assertGreater(
            self.strict.metrics()['tally_stale_reads_total{door="http",result="served"}'], 0)

    def wait_stale(self, name):
        wait_until(lambda: self.get(f"/v1/counters/{name}").json.get("stale"), WITHIN_S,
                   f"{name} from PostgreSQL")


class Single(StaleReads):
    """All of Redis is gone."""

    def test_every_read_says_of_when_it_is_or_is_refused(self):
        self.deploy_nodes(cluster=False)
        counters = [f"counter{i}" for i in range(12)]
        items = [f"item{i}" for i in range(6)]
        self.write_and_stop_in_between(counters, items, ["spread"])
        self.tally.redis.kill()
        self.wait_stale(counters[0])
        done = set()
        for name in counters:
            done |= self.check_counter(name)
        for item in items:
            done |= self.check_item(item)
        self.check_late()
        self.wait_stale("spread")
        self.check_counter("spread")
        done |= self.check_many(counters, items)
        done |= self.check_lists([*counters, *items, "spread"])
        done |= self.check_items_of_user()
        done |= self.check_history(items[0])
        self.assertEqual(self.paths_that_read() - OTHER_PATHS, done)
        self.check_refused_commands(counters[0], items[0])
        self.check_served_commands(counters[0], items[0])
        self.check_figures()

    def test_what_was_refused_is_answered_when_redis_is_back(self):
        self.deploy_nodes(cluster=False)
        self.write_and_stop_in_between(["a"], ["b"], [])
        self.tally.redis.kill()
        self.wait_stale("a")
        self.tally.redis.start()
        self.tally.node("aggregate", *FLAGS)
        client = self.client(self.strict)
        value = str(self.journal.newest("a"))

        def is_told():
            try:
                return client.call("GET", "a") == value
            except ReplyError as error:
                self.assertIn(error.word, ("STALE", "UNAVAILABLE"))
                return False
        wait_until(is_told, WITHIN_S, "the newest value")
        self.assertNotIn("stale", self.get("/v1/counters/a").json)
        wait_until(lambda: "stale" not in self.get("/v1/items/b/history").json, WITHIN_S,
                   "a history that is not old")
        self.assertEqual(len(self.get("/v1/items/b/history").json["history"]),
                         self.journal.newest("b"))
        self.assertEqual(self.get("/v1/counters/a?exact=true").json["value"], value)


class Cluster(StaleReads):
    """One primary of three does not answer, and nobody takes over."""

    def owners(self, name):
        """The primaries that may have its home: its cell has one of 256 slots."""
        home = self.get(f"/v1/counters/{name}/describe").json["home"]
        return {self.tally.cluster.owner(256 * home), self.tally.cluster.owner(256 * home + 255)}

    def parts(self, names, away):
        """Those whose home is away for sure, and those whose home is not."""
        owners = {name: self.owners(name) for name in names}
        return ([name for name in names if owners[name] == {away}],
                [name for name in names if away not in owners[name]])

    def test_what_lacks_a_primary_says_so_and_nothing_else_does(self):
        self.deploy_nodes(cluster=True, replicas=0)
        counters = [f"counter{i}" for i in range(16)]
        items = [f"item{i}" for i in range(16)]
        wide = [f"wide{i}" for i in range(8)]
        for item in wide:
            tallyd.insist(self.resp, "COUNTER.CREATE", f"{item}/like", "SHARDS", "16")
        self.write_and_stop_in_between(counters, [*items, *wide], ["spread"])
        owners = self.owners("spread")
        away = next(node for node in self.tally.cluster.primaries() if node not in owners)
        gone, here = self.parts(counters, away)
        gone_items, here_items = self.parts(items, away)
        self.assertTrue(gone and here and gone_items and here_items)
        away.kill()
        for name in (*gone, *gone_items):
            wait_until(lambda name=name: self.get(
                f"/v1/counters/{name}/describe").json.get("stale"), WITHIN_S, f"{name} is stale")
        for name in gone:
            self.check_counter(name)
        for item in gone_items:
            self.check_item(item)
        self.check_many(gone, gone_items)
        self.check_lists([*gone, *gone_items])
        self.check_history(gone_items[0])
        self.check_history(here_items[0])
        self.check_here(here, here_items)
        self.check_spread_item(self.parts([f"wide{i}" for i in range(8)], away)[1][0])
        self.check_spread()
        self.check_refused_commands(gone[0], gone_items[0])
        self.check_served_commands(gone[0], gone_items[0])
        self.check_figures()

    def check_here(self, counters, items):
        client = self.client(self.strict)
        for name in counters:
            said = self.get(f"/v1/counters/{name}?exact=true").json
            self.assertEqual(int(said["value"]), self.journal.newest(name))
            self.assertFalse({"stale", "shards_missing"} & set(said), said)
            self.assertEqual(client.call("GET", name), str(self.journal.newest(name)))
        for item in items:
            said = self.get(f"/v1/items/{item}").json
            self.assertEqual(int(said["counts"]["like"]), self.journal.newest(item))
            self.assertFalse({"stale", "shards_missing"} & set(said), said)

    def check_spread_item(self, item):
        """Its shards have users each: a count lacks those of some, and each user is in one."""
        wait_until(lambda: self.lacks_shards(self.get(f"/v1/items/{item}").json), WITHIN_S,
                   "shards of an item that are missing")
        for path, find in ((f"/v1/items/{item}", lambda said: said["counts"]["like"]),
                           (f"/like/count/{item}", lambda said: said["like_count"]),
                           (f"/{item}/count", lambda said: said["likeCount"]),
                           (f"/v1/counters/{item}%2Flike", lambda said: said["value"]),
                           (f"/v1/counters?ids={item}%2Flike",
                            lambda said: said["counters"][0]["value"])):
            said = self.get(path).json
            self.assertTrue(self.lacks_shards(said), (path, said))
            self.assertLessEqual(int(find(said)), self.journal.newest(item))
        pages = self.all_pages(f"/v1/counters?match={item}*")
        self.assertTrue(any(page.get("stale") or self.lacks_shards(page) for page in pages), pages)
        entries = [entry for page in pages for entry in page["counters"]]
        self.assertTrue(entries, pages)
        for entry in entries:
            self.assertTrue(entry.get("stale") or self.lacks_shards(entry), entry)
        self.check_mine(item)
        for command in (("COUNTS", item), ("GET", f"{item}/like"), ("KEYS", f"{item}*")):
            with self.refused("STALE"):
                self.client(self.strict).call(*command)

    def check_mine(self, item):
        """All of them hold a like, and the first two did when PostgreSQL heard the last of it."""
        stale = 0
        for user in USERS:
            said = self.strict.ask("POST", "/v1/reactions/mine", {"user": user, "items": [item]})
            entry = said.json["reactions"][0]
            if entry.get("stale"):
                stale += 1
                self.assertTrue(said.json["stale"], said.body)
                self.assertEqual(entry["reaction"], "like" if user in USERS[:2] else None)
                self.journal.check(item, 2, ms(entry["as_of"]))
            else:
                self.assertEqual(entry["reaction"], "like", said.body)
        print(f"{item}: {stale} of {len(USERS)} users are in shards that are missing",
              file=sys.stderr)

    def check_spread(self):
        """Shards are missing: what they had is known for a while, and then they are left out."""
        said = wait_until(lambda: self.lacks_shards(self.get("/v1/counters/spread").json), WITHIN_S,
                          "shards that are missing")
        self.assertLessEqual(int(said["value"]), self.journal.newest("spread"))
        self.check_refused(self.get("/v1/counters/spread?exact=true"))
        many = self.get("/v1/counters?ids=spread").json
        self.assertTrue(many["shards_missing"] and many["counters"][0]["shards_missing"], many)
        with self.refused("STALE"):
            self.client(self.strict).call("GET", "spread")
        wait_until(lambda: int(self.get("/v1/counters/spread").json["value"]) <
                   self.journal.newest("spread"), WITHIN_S, "what they had is too old")
        said = self.get("/v1/counters/spread").json
        self.assertTrue(self.lacks_shards(said), said)
        self.assertLess(int(self.client(self.lenient).call("GET", "spread")),
                        self.journal.newest("spread"))

    @staticmethod
    def lacks_shards(said):
        return said if said.get("shards_missing") else None


if __name__ == "__main__":
    tallyd.main()
