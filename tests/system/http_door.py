"""http_door.py - the HTTP door of the real program, with Python's http.client and with raw bytes."""

import contextlib
import json
import os
import re
import sqlite3
import threading
import time

import tallyd
import web

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


class Shared(tallyd.Case):
    """One server for all tests of a class; each has ids of its own."""

    flags = ()
    password = None
    env = {}

    @classmethod
    def setUpClass(cls):
        cls.shared = tallyd.Server(*cls.flags, env=cls.env).start()

    @classmethod
    def tearDownClass(cls):
        cls.shared.remove()
        assert not re.search("Sanitizer|runtime error:|Assertion .* failed", cls.shared.said), \
            cls.shared.said

    def setUp(self):
        self.web = web.Web(self.shared.http_port, self.password)
        self.addCleanup(self.web.close)
        self.id = re.sub(r"\W", "", self.id_of_test())[-100:]

    def id_of_test(self):
        return self._testMethodName

    def raw(self, **options):
        raw = web.Raw(self.shared.http_port, **options)
        self.addCleanup(raw.close)
        return raw


class Counters(Shared):
    def test_a_counter_is_added_to_and_read(self):
        answer = self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5})
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json["value"], "5")
        self.assertEqual(answer.json["ack"], "durable")
        self.assertRegex(answer.json["as_of"], TIME)
        self.assertEqual(self.web.post(f"/v1/counters/{self.id}/add").json["value"], "6")
        read = self.web.get(f"/v1/counters/{self.id}?consistency=exact")
        self.assertEqual(read.json["value"], "6")
        self.assertRegex(read.json["as_of"], TIME)
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}?consistency=never").status, 400)

    def test_values_of_any_size_are_exact(self):
        big = "123456789012345678901234567890"
        for delta in (big, int(big), -int(big) * 2):
            answer = self.web.post(f"/v1/counters/{self.id}/add", {"delta": delta})
        self.assertEqual(answer.json["value"], "0")
        answer = self.web.post(f"/v1/counters/{self.id}/add", {"delta": 9007199254740993})
        self.assertEqual(answer.json["value"], "9007199254740993")
        for wrong in (1.5, 1e30, "1.0", "+1", " 1", "0x1", "007", True, None, [], {}, "9" * 1001):
            with self.subTest(delta=wrong):
                answer = self.web.post(f"/v1/counters/{self.id}/add", {"delta": wrong})
                self.assertEqual(answer.status, 400, answer.body)
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").json["value"], "9007199254740993")

    def test_what_is_made_with_a_floor_keeps_it(self):
        path = f"/v1/counters/{self.id}"
        made = self.web.put(path, {"shards": 4, "policy": "round-robin", "floor": 0, "idle_s": 60})
        self.assertEqual(made.status, 201)
        self.assertEqual(self.web.put(path).problem, "exists")
        self.assertEqual(self.web.put(path).status, 409)
        refused = self.web.post(path + "/add", {"delta": -1})
        self.assertEqual((refused.status, refused.problem), (422, "below-floor"))
        about = self.web.get(path + "/describe").json
        self.assertEqual((about["shards_asked"], about["policy"], about["floor"], about["idle_s"]),
                         (4, "round-robin", "0", 60))
        self.assertEqual(self.web.get(path + "/shards").json["shards_asked"], 4)

    def test_a_description_says_what_each_shard_holds(self):
        path = f"/v1/counters/{self.id}"
        self.web.put(path, {"shards": 4, "policy": "round-robin"})
        for _ in range(8):
            self.web.post(path + "/add", {"delta": 3})
        values = self.web.get(path + "/describe").json["shard_values"]
        self.assertEqual((len(values), sum(map(int, values))), (4, 24))
        self.assertGreater(sum(value != "0" for value in values), 1, values)
        for user in range(3):
            self.web.put(f"/v1/items/{self.id}v/reactions/{user}", {"kind": "like"})
        self.web.put(f"/v1/items/{self.id}v/reactions/9", {"kind": "dislike"})
        for name, members in ((f"{self.id}v", "4"), (f"{self.id}v%2Flike", "3"), (f"{self.id}v%2Fdislike", "1")):
            about = self.web.get(f"/v1/counters/{name}/describe").json
            self.assertEqual((about["kind"], about["shard_values"]), ("item", [members]))
        self.web.post(f"/v1/counters/{self.id}b/add", {"delta": "100000000000000000000"})
        self.assertIsNone(self.web.get(f"/v1/counters/{self.id}b/describe").json["shard_values"])

    def test_wrong_ways_to_make_one_are_refused(self):
        for wrong in ({"shards": 0}, {"shards": 65}, {"policy": "best"}, {"floor": "x"},
                      {"idle_s": -1}, {"color": "red"}, [], "x", 5):
            with self.subTest(body=wrong):
                self.assertEqual(self.web.put(f"/v1/counters/{self.id}", wrong).status, 400)
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").status, 404)

    def test_a_reset_is_a_write_and_a_deletion_ends_it(self):
        path = f"/v1/counters/{self.id}"
        self.web.post(path + "/add", {"delta": 5})
        self.assertEqual(self.web.post(path + "/reset").json["value"], "0")
        self.assertEqual(self.web.post(path + "/reset", {"value": 7}).json["value"], "7")
        self.assertTrue(self.web.delete(path).json["deleted"])
        self.assertFalse(self.web.delete(path).json["deleted"])
        gone = self.web.get(path)
        self.assertEqual((gone.status, gone.problem), (404, "not-found"))

    def test_many_are_read_at_once(self):
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 2})
        self.web.put(f"/v1/items/{self.id}x/reactions/ann")
        answer = self.web.get(f"/v1/counters?ids={self.id},nothing-here,{self.id}x/like").json
        self.assertEqual([(one["id"], one["value"]) for one in answer["counters"]],
                         [(self.id, "2"), ("nothing-here", None), (f"{self.id}x/like", "1")])
        self.web.post(f"/v1/counters/{self.id}%2C1/add", {"delta": 7})
        comma = self.web.get(f"/v1/counters?ids={self.id}%2C1,{self.id}").json
        self.assertEqual([one["value"] for one in comma["counters"]], ["7", "2"])
        self.assertEqual(self.web.get("/v1/counters?ids=%zz").status, 400)
        self.assertEqual(self.web.get("/v1/counters?ids=").status, 400)
        self.assertEqual(self.web.get("/v1/counters?ids=a,,b").status, 400)
        self.assertEqual(self.web.get("/v1/counters?ids=" + ",".join("x" * 1001)).status, 400)

    def test_all_that_match_come_page_by_page(self):
        for number in range(30):
            self.web.post(f"/v1/counters/{self.id}-{number}/add", {"delta": number})
        found = {}
        cursor = "0"
        for _ in range(1000):
            page = self.web.get(f"/v1/counters?match={self.id}-*&cursor={cursor}&limit=10").json
            found.update({one["id"]: one["value"] for one in page["counters"]})
            cursor = page["cursor"]
            if cursor is None:
                break
        self.assertEqual(found, {f"{self.id}-{n}": str(n) for n in range(30)})
        for wrong in ("cursor=x", "limit=0", "limit=10001", "limit=x", "color=red", "limit=1&limit=2"):
            self.assertEqual(self.web.get(f"/v1/counters?match=*&{wrong}").status, 400)

    def test_ids_are_any_utf8_and_slashes_are_encoded(self):
        for name, path in (("a/b", "a%2Fb"), ("ж", "%D0%B6"), ("a b", "a%20b"), ("a+b", "a+b"),
                           ("%2F", "%252F"), ("{x}:*?", "%7Bx%7D%3A*%3F"), ("..", "%2e%2e")):
            with self.subTest(name=name):
                answer = self.web.post(f"/v1/counters/{path}{self.id}/add")
                self.assertEqual(answer.json["id"], name + self.id)
        for wrong in ("%00", "%ff", "%c0%af", "%", "%2", "%zz", "%ed%a0%80"):
            with self.subTest(path=wrong):
                self.assertEqual(self.web.get(f"/v1/counters/{wrong}").status, 400)
        self.assertEqual(self.web.get("/v1/counters/" + "x" * 257).problem, "too-long")
        self.assertEqual(self.web.get("/v1/counters/a/b/c/d/e/f/g/h").status, 404)


class Keys(Shared):
    def test_a_write_with_a_key_counts_once(self):
        key = {"Idempotency-Key": "k1"}
        first = self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5}, key).json
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 1})
        again = self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5}, key).json
        self.assertEqual((first["value"], first["repeated"]), ("5", False))
        self.assertEqual((again["value"], again["repeated"]), ("5", True))
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").json["value"], "6")
        other = self.web.post(f"/v1/counters/{self.id}/add", {"delta": 6}, key)
        self.assertEqual((other.status, other.problem), (422, "key-reused"))

    def test_every_write_takes_a_key(self):
        key = {"Idempotency-Key": '"quoted"'}
        calls = (("PUT", f"/v1/items/{self.id}/reactions/ann"),
                 ("DELETE", f"/v1/items/{self.id}b/reactions/ann"),
                 ("POST", f"/v1/items/{self.id}c/reactions/ann/toggle"),
                 ("PUT", f"/v1/counters/{self.id}a"),
                 ("POST", f"/v1/counters/{self.id}d/add"),
                 ("POST", f"/v1/counters/{self.id}e/reset"),
                 ("DELETE", f"/v1/counters/{self.id}f"))
        for method, path in calls:
            with self.subTest(path=path):
                self.assertFalse(self.web.ask(method, path, headers=key).json["repeated"])
                self.assertTrue(self.web.ask(method, path, headers=key).json["repeated"])
        body = {"post_id": self.id + "g", "user_id": 1}
        self.assertFalse(self.web.post("/like", body, key).json["repeated"])
        self.assertTrue(self.web.post("/like", body, key).json["repeated"])

    def test_an_empty_or_too_long_key_is_refused(self):
        for wrong in ("", '""', "k" * 129):
            answer = self.web.post(f"/v1/counters/{self.id}/add", None, {"Idempotency-Key": wrong})
            self.assertEqual(answer.status, 400)
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").status, 404)


class Reactions(Shared):
    def counts(self):
        return self.web.get(f"/v1/items/{self.id}").json["counts"]

    def test_a_user_holds_one_reaction_at_most(self):
        path = f"/v1/items/{self.id}/reactions/ann"
        self.assertEqual(self.web.get(path).json["reaction"], None)
        liked = self.web.put(path).json
        self.assertEqual((liked["reaction"], liked["changed"], liked["counts"]["like"]),
                         ("like", True, "1"))
        self.assertFalse(self.web.put(path).json["changed"])
        self.web.put(path, {"kind": "dislike"})
        self.assertEqual(self.counts(), {"like": "0", "dislike": "1"})
        self.assertEqual(self.web.get(path).json["reaction"], "dislike")
        self.assertFalse(self.web.delete(path + "?kind=like").json["changed"])
        self.assertTrue(self.web.delete(path).json["changed"])
        self.assertEqual(self.counts(), {"like": "0", "dislike": "0"})
        self.assertEqual(self.web.put(path, {"kind": "love"}).status, 400)

    def test_a_toggle_goes_to_and_fro(self):
        path = f"/v1/items/{self.id}/reactions/ann/toggle"
        held = [self.web.post(path).json["reaction"] for _ in range(3)]
        self.assertEqual(held, ["like", None, "like"])
        self.assertEqual(self.web.post(path, {"kind": "dislike"}).json["reaction"], "dislike")

    def test_counters_of_reactions_follow_reactions_only(self):
        self.web.put(f"/v1/items/{self.id}/reactions/ann")
        refused = self.web.post(f"/v1/counters/{self.id}%2Flike/add")
        self.assertEqual((refused.status, refused.problem), (409, "wrong-type"))
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}%2Flike").json["value"], "1")

    def test_members_come_page_by_page(self):
        users = {f"user{number}" for number in range(250)}
        self.web.batch([{"op": "like", "item": self.id, "user": user} for user in users])
        found = []
        cursor = "0"
        for _ in range(1000):
            page = self.web.get(f"/v1/items/{self.id}/members?cursor={cursor}&limit=50").json
            found += page["members"]
            cursor = page["cursor"]
            if cursor is None:
                break
        self.assertEqual(set(found), users)

    def test_mine_for_many_items(self):
        self.web.put(f"/v1/items/{self.id}/reactions/7")
        answer = self.web.post("/v1/reactions/mine", {"user": 7, "items": [self.id, "none", 5]}).json
        self.assertEqual([one["reaction"] for one in answer["reactions"]], ["like", None, None])
        for wrong in ({}, {"user": "a"}, {"user": "a", "items": []}, {"user": "a", "items": "b"},
                      {"user": "a", "items": [None]}, {"user": "a", "items": ["x"] * 1001}):
            self.assertEqual(self.web.post("/v1/reactions/mine", wrong).status, 400)


class ShortPaths(Shared):
    """As the web has known them first."""

    def test_post_like_toggles(self):
        first = self.web.post("/like", {"post_id": 123, "user_id": 456}).json
        self.assertEqual((first["post_id"], first["user_id"], first["liked"], first["delta"],
                          first["like_count"]), (123, 456, True, 1, 1))
        self.assertEqual(self.web.get("/like/count/123").json["like_count"], 1)
        second = self.web.post("/like", {"post_id": "123", "user_id": "456"}).json
        self.assertEqual((second["post_id"], second["liked"], second["delta"],
                          second["like_count"]), ("123", False, -1, 0))
        self.assertEqual(self.web.get("/like/count/123").json["like_count"], 0)
        self.assertEqual(self.web.post("/like", {"post_id": 123}).status, 400)

    def test_video_count(self):
        self.web.put(f"/v1/items/{self.id}/reactions/ann")
        answer = self.web.get(f"/{self.id}/count").json
        self.assertEqual((answer["videoId"], answer["likeCount"]), (self.id, 1))


class Batches(Shared):
    def test_a_bad_line_does_not_fail_the_others(self):
        answer = self.web.batch([
            {"op": "like", "item": self.id, "user": "a"}, b"nonsense", b"", b"{}", b"[]",
            {"op": "like", "item": self.id}, {"op": "fly"}, {"op": "like", "item": self.id, "user": "b", "x": 1},
            {"op": "add", "id": self.id + "c", "delta": "x"},
            {"op": "add", "id": self.id + "c", "delta": 5}, {"op": "get", "id": self.id + "c"},
            {"op": "get", "id": "nothing-here"}, {"op": "unlike", "item": self.id, "user": "z"},
            {"op": "set", "id": self.id + "c", "value": 9}, {"op": "delete", "id": self.id + "c"},
            {"op": "react", "item": self.id, "user": 7, "kind": "dislike"},
            {"op": "toggle", "item": self.id, "user": "a"},
            {"op": "reaction", "item": self.id, "user": 7}])
        self.assertEqual(answer.headers["content-type"], "application/x-ndjson")
        self.assertEqual([line["line"] for line in answer.lines], list(range(1, 19)))
        self.assertEqual([line["status"] for line in answer.lines],
                         [200, 400, 400, 400, 400, 400, 400, 400, 400, 200, 200, 404, 200, 200, 200,
                          200, 200, 200])
        self.assertEqual(answer.lines[10]["value"], "5")
        self.assertFalse(answer.lines[12]["changed"])
        self.assertEqual(answer.lines[17]["reaction"], "dislike")
        self.assertEqual(self.web.get(f"/v1/items/{self.id}").json["counts"],
                         {"like": "0", "dislike": "1"})

    def test_a_long_batch_goes_on_while_others_are_served(self):
        count = 50000
        lines = [b'{"op":"like","item":"%s","user":"%d"}' % (self.id.encode(), n)
                 for n in range(count)]
        other = web.Web(self.shared.http_port)
        self.addCleanup(other.close)
        result = []
        worker = threading.Thread(target=lambda: result.append(self.web.batch(lines)))
        worker.start()
        while worker.is_alive():
            self.assertEqual(other.get("/livez").status, 200)
        worker.join()
        answers = result[0].lines
        self.assertEqual(len(answers), count)
        self.assertTrue(all(line["status"] == 200 and line["changed"] for line in answers))
        self.assertEqual([line["line"] for line in answers], list(range(1, count + 1)))
        self.assertEqual(other.get(f"/{self.id}/count").json["likeCount"], count)

    def test_a_key_of_the_whole_counts_for_each_line(self):
        lines = [{"op": "add", "id": self.id, "delta": 1} for _ in range(3000)]
        key = {"Idempotency-Key": "whole"}
        self.web.batch(lines, key)
        again = self.web.batch(lines, key).lines
        self.assertTrue(all(line["repeated"] for line in again))
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").json["value"], "3000")

    def value(self, name=""):
        answer = self.web.get(f"/v1/counters/{self.id}{name}")
        return int(answer.json["value"]) if answer.status == 200 else None

    def test_a_batch_with_a_wrong_key_or_region_is_refused_before_its_first_line(self):
        lines = [{"op": "add", "id": self.id}, {"op": "add", "id": self.id, "key": "own"}]
        for headers in ({"Idempotency-Key": ""}, {"Idempotency-Key": '""'},
                        {"Idempotency-Key": "k" * 129}, {"Tally-Region": "r" * 65}):
            for batch in (lines, [], [{"op": "get", "id": self.id}]):
                with self.subTest(headers=headers, lines=len(batch)):
                    self.assertEqual(self.web.batch(batch, headers).status, 400)
        self.assertIsNone(self.value())

    def test_the_longest_key_of_a_batch_counts_for_each_of_its_lines(self):
        for size in (1, 125, 126, 127, 128):
            key = {"Idempotency-Key": "k" * size}
            lines = [{"op": "add", "id": f"{self.id}{size}"} for _ in range(12)]
            first, again = (self.web.batch(lines, key).lines for _ in range(2))
            self.assertEqual([line["status"] for line in first + again], [200] * 24)
            self.assertFalse(any("repeated" in line for line in first))
            self.assertTrue(all(line["repeated"] for line in again))
            self.assertEqual(self.value(size), 12)

    def test_the_key_of_a_batch_is_not_that_of_a_single_write(self):
        key = {"Idempotency-Key": self.id[:50]}
        self.web.batch([{"op": "add", "id": self.id}], key)
        single = self.web.post(f"/v1/counters/{self.id}/add", {"delta": 1},
                               {"Idempotency-Key": self.id[:50] + ":1"})
        self.assertFalse(single.json["repeated"])
        line = {"op": "add", "id": self.id, "key": self.id[:50] + ":2"}
        self.assertNotIn("repeated", self.web.batch([line]).lines[0])
        self.assertEqual(self.value(), 3)
        tallyd.wait_until(lambda: self.web.get("/v1/status").json["pipeline"]["lag_events"] == 0, 20,
                          "the store has everything")
        events = self.web.get(f"/v1/counters/{self.id}/events").json["events"]
        derived = events[-1]["key"]
        self.assertRegex(derived, "^\x01[0-9a-f]{32}:1$")
        for wrong in (derived, "\x01"):  # nobody else can send such a key
            line = self.web.batch([{"op": "add", "id": self.id, "key": wrong}]).lines[0]
            self.assertEqual(line["status"], 400)
            with (self.shared.connect() as client,
                  self.assertRaisesRegex(tallyd.ReplyError, "does not begin with byte 01")):
                client.call("COUNTER.ADD", self.id, "1", "ID", wrong)

    def test_the_region_of_a_batch_is_that_of_lines_without_one(self):
        lines = [{"op": "add", "id": self.id}, {"op": "add", "id": self.id, "region": "us"}]
        self.web.batch(lines * 2000, {"Tally-Region": "eu"})
        tallyd.wait_until(lambda: self.web.get("/v1/status").json["pipeline"]["lag_events"] == 0, 20,
                          "the store has everything")
        events = self.web.get(f"/v1/counters/{self.id}/events?limit=4000").json["events"]
        self.assertEqual({event["region"] for event in events[0::2]}, {"us"})
        self.assertEqual({event["region"] for event in events[1::2]}, {"eu"})

    def test_its_limits(self):
        self.assertEqual(self.web.batch([]).body, b"")
        wrong = self.web.ask("POST", "/v1/batch", b"{}", web.JSON)
        self.assertEqual((wrong.status, wrong.problem), (415, "unsupported-media-type"))
        with web.Raw(self.shared.http_port) as raw:
            raw.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                     b"application/x-ndjson\r\nContent-Length: 8388609\r\n\r\n")
            self.assertEqual(raw.read().status, 413)


class SmallAnswers(Shared):
    flags = ("--max-output", "64KiB")

    def test_no_line_is_run_whose_answer_cannot_be_sent(self):
        big = "9" * 800
        lines = [{"op": "set", "id": f"{self.id}{n}", "value": big} for n in range(500)]
        answers = self.web.batch(lines).lines
        last = answers.pop()
        self.assertEqual((last["line"], last["status"], last["type"]),
                         (len(answers) + 1, 413, "/problems/too-large"))
        self.assertGreater(len(answers), 40)
        self.assertEqual([answer["line"] for answer in answers], list(range(1, len(answers) + 1)))
        self.assertTrue(all(answer["value"] == big for answer in answers))
        for n in (0, len(answers) - 1):
            self.assertEqual(self.web.get(f"/v1/counters/{self.id}{n}").json["value"], big)
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}{len(answers)}").status, 404)


class Kinds(Shared):
    kinds = "abcdefghijklmnop"
    flags = ("--kinds", ",".join(kinds))

    def test_the_tag_of_an_item_covers_all_of_its_counts(self):
        path = f"/v1/items/{self.id}"
        for kind in self.kinds:  # more digits than a tag has room for
            self.web.batch([{"op": "react", "item": self.id, "user": f"{kind}{n}", "kind": kind}
                            for n in range(1000)])
        seen = self.web.get(path)
        for kind in self.kinds:
            self.web.put(f"{path}/reactions/new-{kind}", {"kind": kind})
            changed = self.web.ask("GET", path, headers={"If-None-Match": seen.headers["etag"]})
            self.assertEqual(changed.status, 200)
            self.assertEqual(self.web.ask("GET", path, headers={
                "If-None-Match": changed.headers["etag"]}).status, 304)
            seen = changed


class OtherKinds(tallyd.Case):
    def test_the_tag_of_an_item_knows_which_kind_a_count_is_of(self):
        tags = {}
        for kinds in ("like,dislike", "dislike,like", "like,love", "love,like"):
            server = self.server("--kinds", kinds)
            client = web.Web(server.http_port)
            self.addCleanup(client.close)
            for kind in kinds.split(","):
                client.put(f"/v1/items/a/reactions/{kind}", {"kind": kind})
            read = client.ask("GET", "/v1/items/a", headers={"If-None-Match": ", ".join(tags) or '"x"'})
            self.assertEqual(read.status, 200)
            tags[read.headers["etag"]] = kinds
            server.stop()
        self.assertEqual(len(tags), 4)

    def test_a_kind_may_be_called_none(self):
        server = self.server("--kinds", "none,some")
        client = web.Web(server.http_port)
        self.addCleanup(client.close)
        path = "/v1/items/a/reactions/ann"
        nothing = client.get(path)
        self.assertIsNone(nothing.json["reaction"])
        client.put(path, {"kind": "none"})
        read = client.ask("GET", path, headers={"If-None-Match": nothing.headers["etag"]})
        self.assertEqual((read.status, read.json["reaction"]), (200, "none"))


class Protocol(Shared):
    def test_a_tag_spares_the_body(self):
        path = f"/v1/counters/{self.id}"
        self.web.post(path + "/add", {"delta": 3})
        tag = self.web.get(path).headers["etag"]
        again = self.web.ask("GET", path, headers={"If-None-Match": tag})
        self.assertEqual((again.status, again.body), (304, b""))
        self.assertEqual(again.headers["etag"], tag)
        self.web.post(path + "/add")
        self.assertEqual(self.web.ask("GET", path, headers={"If-None-Match": tag}).status, 200)
        self.assertEqual(self.web.ask("GET", path, headers={"If-None-Match": "*"}).status, 304)
        self.assertEqual(
            self.web.ask("GET", path, headers={"If-None-Match": '"a", W/"4", "b"'}).status, 304)
        for other in (f"/v1/items/{self.id}i", f"/v1/items/{self.id}i/reactions/ann",
                      f"/like/count/{self.id}i", f"/{self.id}i/count"):
            with self.subTest(path=other):
                tag = self.web.get(other).headers["etag"]
                self.assertEqual(
                    self.web.ask("GET", other, headers={"If-None-Match": tag}).status, 304)

    def test_every_read_has_a_tag(self):
        self.web.put(f"/v1/items/{self.id}/reactions/ann")
        self.web.post(f"/v1/counters/{self.id}c/add")
        for path in (f"/v1/items/{self.id}/members", f"/v1/counters/{self.id}c/describe",
                     f"/v1/counters?ids={self.id}c", f"/v1/counters/{self.id}c/events",
                     f"/v1/counters/{self.id}c/at?time=4000000000000", "/v1/users/ann/reactions",
                     "/v1/dlq", "/openapi.json"):
            with self.subTest(path=path):
                first = self.web.get(path)
                again = self.web.ask("GET", path, headers={"If-None-Match": first.headers["etag"]})
                self.assertEqual((first.status, again.status, again.body), (200, 304, b""))
        members = self.web.get(f"/v1/items/{self.id}/members").headers["etag"]
        self.web.put(f"/v1/items/{self.id}/reactions/bob")
        self.assertNotEqual(self.web.get(f"/v1/items/{self.id}/members").headers["etag"], members)

    def test_the_tag_of_a_long_number_covers_all_of_it(self):
        path = f"/v1/counters/{self.id}"
        tags = set()
        numbers = [a + "5" * size for size in (0, 62, 63, 64, 80, 83, 84, 85, 200, 899) for a in "123"]
        for number in numbers:
            self.web.post(path + "/reset", {"value": number})
            read = self.web.ask("GET", path, headers={"If-None-Match": ", ".join(tags) or '"x"'})
            self.assertEqual((read.status, read.json["value"]), (200, number))
            tags.add(read.headers["etag"])
        again = self.web.ask("GET", path, headers={"If-None-Match": read.headers["etag"]})
        self.assertEqual(again.status, 304)

    def test_head_is_get_without_the_body(self):
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 3})
        get = self.web.get(f"/v1/counters/{self.id}")
        head = self.web.ask("HEAD", f"/v1/counters/{self.id}")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertEqual(head.headers["content-length"], get.headers["content-length"])

    def test_other_methods_are_told_what_there_is(self):
        answer = self.web.ask("PATCH", "/v1/counters/a")
        self.assertEqual((answer.status, answer.problem), (405, "method-not-allowed"))
        self.assertEqual(set(answer.headers["allow"].split(", ")),
                         {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"})
        options = self.web.ask("OPTIONS", "/v1/batch")
        self.assertEqual((options.status, options.headers["allow"]), (204, "POST, OPTIONS"))
        self.assertEqual(self.web.get("/v1/nothing").problem, "no-such-path")
        self.assertEqual(self.web.ask("DELETE", "/livez").status, 405)

    def test_an_unknown_method_is_answered_like_any_other_that_is_not_there(self):
        for method in ("PATCH", "TRACE", "FOO", "QUERY", "PROPFIND", "DESCRIBE", "get"):
            with self.subTest(method=method):
                answer = self.web.ask(method, "/v1/batch", b"{}", web.JSON)
                self.assertEqual((answer.status, answer.problem), (405, "method-not-allowed"))
                self.assertEqual(answer.headers["allow"], "POST, OPTIONS")
                self.assertEqual(self.web.ask(method, "/v1/nothing").status, 404)
        self.assertEqual(self.web.get("/livez").status, 200)  # on the same connection

    def test_a_write_may_ask_for_the_log_anywhere_in_its_query(self):
        path = f"/v1/items/{self.id}/reactions/ann"
        for query in ("kind=like&ack=log", "ack=log&kind=like", "ack=log", "&ack=log&&kind=like&",
                      "kind=like"):
            with self.subTest(query=query):
                self.web.put(path)
                answer = self.web.delete(f"{path}?{query}")
                self.assertEqual((answer.status, answer.json["changed"]), (200, True), answer.body)

    def test_ids_have_the_same_limit_in_all_calls(self):
        self.web.put(f"/v1/items/{'i' * 256}/reactions/ann")
        for name, status in (("i" * 256 + "%2Flike", 200), ("i" * 257, 400), ("i" * 257 + "%2Flike", 400),
                             ("i" * 251 + "%2Fother", 400)):
            for path in (f"/v1/counters/{name}", f"/v1/counters/{name}/events", f"/v1/events?counter={name}"):
                with self.subTest(path=path):
                    self.assertEqual(self.web.get(path).status, status)

    def test_an_empty_pattern_is_refused(self):
        for answer in (self.web.get("/v1/counters?match="), self.web.get("/v1/events?counter="),
                       self.web.post("/v1/recounts", {"match": ""}),
                       self.web.post("/v1/audits", {"match": ""}),
                       self.web.post("/v1/recounts", {"match": "x" * 579})):
            self.assertEqual(answer.status, 400)

    def test_patterns_and_users_have_the_same_limit_in_all_calls_and_protocols(self):
        for size, is_good in ((578, True), (579, False)):
            pattern = "x" * size
            raw = self.raw()
            raw.send(f"GET /v1/changes?match={pattern} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            for status in (self.web.get(f"/v1/counters?match={pattern}").status,
                           self.web.post("/v1/recounts", {"match": pattern}).status, raw.read().status):
                self.assertEqual(status < 400, is_good, (size, status))
            for command in (("KEYS", pattern), ("PSUBSCRIBE", pattern), ("RECOUNT", pattern)):
                with self.subTest(command=command[0], size=size), self.shared.connect() as client, \
                        contextlib.nullcontext() if is_good else self.assertRaises(tallyd.ReplyError):
                    client.call(*command)
        for size, is_good in ((128, True), (129, False)):
            user = "u" * size
            for status in (self.web.get(f"/v1/users/{user}/reactions").status,
                           self.web.get(f"/v1/items/a/history?user={user}").status,
                           self.web.put(f"/v1/items/{self.id}/reactions/{user}").status,
                           self.web.delete(f"/v1/users/{user}").status):
                self.assertEqual(status < 400, is_good, (size, status))

    def test_times_end_with_the_year_9999(self):
        path = f"/v1/counters/{self.id}"
        self.web.post(path + "/add")
        for time_, status in (("9999-12-31T23:59:59.999Z", 200), ("253402300799999", 200),
                              ("253402300800000", 400), (str(2 ** 63 - 1), 400), ("-1", 400)):
            with self.subTest(time=time_):
                answer = self.web.get(f"{path}/at?time={time_}")
                self.assertEqual(answer.status, status)
                if status == 200:
                    self.assertEqual(answer.json["value"], "1")
                self.assertEqual(self.web.get(f"/v1/events?until={time_}").status, status)

    def test_an_unknown_expectation_is_refused(self):
        path = f"/v1/counters/{self.id}/add"
        for wrong in ("200-ok", "100-continue, more", "x", ""):
            with self.subTest(expect=wrong):
                answer = self.web.post(path, {"delta": 1}, {"Expect": wrong})
                self.assertEqual((answer.status, answer.problem), (417, "expectation-failed"))
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").status, 404)
        with web.Raw(self.shared.http_port) as raw:  # which is too old to know of it
            raw.send(b"GET /livez HTTP/1.0\r\nExpect: x\r\n\r\n")
            self.assertEqual(raw.read().status, 200)

    def test_a_region_has_at_most_64_bytes_wherever_it_stands(self):
        wrong = {"Tally-Region": "r" * 65}
        for method, path, body in (("POST", "/v1/recounts", {}), ("POST", "/v1/audits", {}),
                                   ("DELETE", f"/v1/users/{self.id}", None),
                                   ("POST", "/v1/dlq/redrive", None), ("POST", "/v1/dlq/discard", None),
                                   ("POST", "/v1/dlq/0190a0b0-0000-7000-8000-000000000000", None),
                                   ("POST", f"/v1/counters/{self.id}/add", None),
                                   ("PUT", f"/v1/items/{self.id}/reactions/a", None),
                                   ("POST", "/like", {"post_id": self.id, "user_id": 1})):
            with self.subTest(path=path):
                answer = self.web.ask(method, path, body, wrong)
                self.assertEqual((answer.status, answer.problem), (400, "too-long"))
        self.assertEqual(self.web.batch([], wrong).status, 400)

    def test_every_answer_has_the_security_headers(self):
        for path in ("/v1/counters/none", "/livez", "/openapi.json", "/nothing"):
            headers = self.web.get(path).headers
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertIn("default-src 'none'", headers["content-security-policy"])
            self.assertEqual(headers["x-frame-options"], "DENY")
            self.assertNotIn("access-control-allow-origin", headers)
            self.assertNotIn("server", headers)
            self.assertIn("date", headers)

    def test_bodies_are_json_and_say_so(self):
        path = f"/v1/counters/{self.id}/add"
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                     "application/jsonx", ""):
            with self.subTest(kind=kind):
                answer = self.web.ask("POST", path, b'{"delta":1}', {"Content-Type": kind})
                self.assertEqual((answer.status, answer.problem), (415, "unsupported-media-type"))
        ok = self.web.ask("POST", path, b'{"delta":1}',
                          {"Content-Type": "application/json; charset=utf-8"})
        self.assertEqual(ok.status, 200)
        for body in (b"{", b"[]", b"nonsense", b'{"delta":1}x', b'{"delta":1,"delta":2}',
                     b'{"delta":NaN}', b'\xef\xbb\xbf{}', b'{"region":"\xff"}', b"[" * 100000,
                     b'{"region":"\\ud800"}', b'{"region":"\\u0000"}'):
            with self.subTest(body=body[:40]):
                answer = self.web.ask("POST", path, body, web.JSON)
                self.assertEqual((answer.status, answer.problem), (400, "invalid-json"))

    def test_what_nobody_looks_at_is_refused(self):
        item = f"/v1/items/{self.id}"
        self.web.put(f"{item}/reactions/ann")
        for method, path, body in (("POST", f"/v1/counters/{self.id}c/add?delta=5", None),
                                   ("PUT", f"{item}/reactions/bob?kind=dislike", None),
                                   ("DELETE", f"{item}/reactions/ann", b'{"kind":"dislike"}'),
                                   ("GET", f"{item}?limit=5", None)):
            with self.subTest(path=path):
                answer = self.web.ask(method, path, body, web.JSON)
                self.assertEqual((answer.status, answer.problem), (400, "invalid"))
        self.assertEqual(self.web.get(item).json["counts"], {"like": "1", "dislike": "0"})
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}c").status, 404)

    def test_pipelined_requests_are_answered_in_order(self):
        raw = self.raw()
        head = b" HTTP/1.1\r\nHost: localhost\r\n"
        raw.send(b"".join(
            b"POST /v1/counters/%s/add" % self.id.encode() + head + b"\r\n"
            b"GET /v1/counters/%s/events" % self.id.encode() + head + b"\r\n"
            b"GET /v1/nothing" + head + b"\r\n"
            for _ in range(100)))
        values = []
        for _ in range(100):
            values.append(int(raw.read().json["value"]))
            self.assertLessEqual(len(raw.read().json["events"]), values[-1])
            self.assertEqual(raw.read().status, 404)
        self.assertEqual(values, list(range(1, 101)))

    def test_chunks_and_continue(self):
        raw = self.raw()
        raw.send(b"POST /v1/counters/%s/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 b"application/json\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
                 % self.id.encode())
        self.assertEqual(raw.read().status, 100)
        raw.send(b"4\r\n{\"de\r\n")
        raw.send(b"8\r\nlta\":40}\r\n0\r\n\r\n")
        self.assertEqual(raw.read().json["value"], "40")

    def test_the_older_version(self):
        raw = self.raw()
        raw.send(b"GET /livez HTTP/1.0\r\n\r\n")
        answer = raw.read()
        self.assertEqual((answer.status, answer.headers["connection"]), (200, "close"))
        self.assertTrue(raw.is_closed())
        raw = self.raw()
        for _ in range(2):
            raw.send(b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            self.assertEqual(raw.read().headers["connection"], "keep-alive")

    def test_a_connection_is_closed_when_asked(self):
        raw = self.raw()
        raw.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                 b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(raw.read().status, 200)
        self.assertTrue(raw.is_closed())

    def test_what_could_be_smuggled_ends_the_connection(self):
        host = b"Host: localhost\r\n"
        for text in (b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                     b"POST / HTTP/1.1\r\n" + host +
                     b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     b"POST / HTTP/1.1\r\n" + host + b"Transfer-Encoding: xchunked\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + host + b"X: a\r\n folded\r\n\r\n",
                     b"GET / HTTP/1.1\n" + host + b"\n",
                     b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
                     b"GET /\0 HTTP/1.1\r\n" + host + b"\r\n",
                     b"GET / HTTP/1.1\r\n\r\n",
                     b"*1\r\n$4\r\nPING\r\n"):
            with self.subTest(text=text):
                raw = self.raw()
                raw.send(text + b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = raw.read()
                self.assertEqual((answer.status, answer.problem), (400, "malformed-request"))
                self.assertTrue(raw.is_closed())

    def test_sizes(self):
        with web.Raw(self.shared.http_port) as raw:
            raw.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 9000 + b"\r\n\r\n")
            answer = raw.read()
            self.assertEqual((answer.status, answer.problem), (431, "headers-too-large"))
        with web.Raw(self.shared.http_port) as raw:
            raw.send(b"POST /like HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n")
            answer = raw.read()
            self.assertEqual((answer.status, answer.problem), (413, "too-large"))
        with web.Raw(self.shared.http_port) as raw:
            raw.send(b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n")
            self.assertEqual(raw.read().status, 505)

    def test_other_names_of_this_machine_are_refused(self):
        for host, status in (("localhost", 200), ("LOCALHOST:3001", 200), ("127.0.0.1:80", 200),
                             ("[::1]:3001", 200), ("evil.example", 403), ("localhost.evil.example", 403),
                             ("127.0.0.1.evil.example:3001", 403), ("", 403)):
            with self.subTest(host=host):
                answer = self.web.ask("GET", "/livez", headers={"Host": host})
                self.assertEqual(answer.status, status)
        self.assertEqual(self.web.ask("GET", "/livez", headers={"Host": "evil.example"}).problem,
                         "host-not-allowed")

    def test_a_target_does_not_make_good_for_a_foreign_host(self):
        port = self.shared.http_port
        for target, host, status in ((f"http://localhost:{port}", f"localhost:{port}", 200),
                                     (f"http://127.0.0.1:{port}", f"localhost:{port}", 200),
                                     (f"http://127.0.0.1:{port}", "evil.example", 403),
                                     ("http://evil.example", f"127.0.0.1:{port}", 403),
                                     (f"http://evil.example@127.0.0.1:{port}", "127.0.0.1", 403)):
            with self.subTest(target=target, host=host), web.Raw(port) as raw:
                raw.send(f"GET {target}/v1/status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                self.assertEqual(raw.read().status, status)

    def test_an_origin_has_a_scheme(self):
        path = f"/v1/counters/{self.id}/add"
        own = f"127.0.0.1:{self.shared.http_port}"
        site = "Sec-Fetch-Site"
        for headers, status in (({"Origin": f"http://{own}"}, 200),
                                ({"Origin": f"https://{own}"}, 403),
                                ({"Origin": f"ftp://{own}"}, 403),
                                # behind a proxy that speaks TLS, said by the browser
                                ({"Origin": f"https://{own}", site: "same-origin"}, 200),
                                ({"Origin": f"http://{own}", site: "same-origin"}, 200),
                                ({"Origin": f"https://{own}", site: "same-site"}, 403),
                                ({"Origin": f"http://{own}", site: "cross-site"}, 403),
                                ({"Origin": "https://evil.example", site: "same-origin"}, 403)):
            with self.subTest(headers=headers):
                self.assertEqual(self.web.post(path, headers=headers).status, status)
        self.assertEqual(self.web.get(f"/v1/counters/{self.id}").json["value"], "3")

    def searches(self):
        """All that is read with GET and searches the log, the store or all counters."""
        path = f"/v1/counters/{self.id}"
        return (path + "/at?time=253402300799999", path + "/values?since=1&until=2&points=2",
                path + "/events", f"/v1/counters?ids={self.id}", f"/v1/counters?match={self.id}",
                f"/v1/items/{self.id}/history", "/v1/users/ann/reactions", "/v1/events", "/v1/dlq",
                "/v1/audits", f"/v1/changes?ids={self.id}")

    def status_of(self, path, headers):
        """Of an answer that may go on for ever."""
        with web.Raw(self.shared.http_port) as raw:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            raw.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
            return raw.read().status

    def test_a_page_of_another_site_cannot_begin_a_recount(self):
        path = f"/v1/counters/{self.id}"
        self.web.post(path + "/add")
        self.assertEqual(self.web.get(path + "/recount").status, 405)
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"},
                        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
            with self.subTest(headers=headers):
                answer = self.web.post(path + "/recount", headers=headers)
                self.assertEqual((answer.status, answer.problem), (403, "denied"))
        self.assertEqual(self.web.post(path + "/recount").status, 200)

    def test_a_page_of_another_site_cannot_have_anything_searched(self):
        """An image and a link send no Origin, and a browser says where they stand."""
        self.web.post(f"/v1/counters/{self.id}/add")
        own = "http://localhost"
        for path in self.searches():
            for headers, status in (
                    ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403),
                    ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403),
                    ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
                    ({}, 200), ({"Sec-Fetch-Site": "none"}, 200),
                    ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Origin": own}, 200)):
                with self.subTest(path=path, headers=headers):
                    self.assertEqual(self.status_of(path, headers), status)
        for path in ("/", "/livez", "/openapi.json", "/metrics", f"/v1/counters/{self.id}",
                     "/tally.js"):
            with self.subTest(path=path):
                answer = self.web.get(path, **{"Sec-Fetch-Site": "cross-site"})
                self.assertNotEqual(answer.status, 403)

    def test_scripts_of_other_sites_change_nothing(self):
        for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
            answer = self.web.ask("POST", f"/v1/counters/{self.id}/add",
                                  headers={"Origin": origin})
            self.assertEqual((answer.status, answer.problem), (403, "denied"))
        own = self.web.ask("POST", f"/v1/counters/{self.id}/add",
                           headers={"Origin": f"http://127.0.0.1:{self.shared.http_port}"})
        self.assertEqual(own.status, 200)
        read = self.web.ask("GET", f"/v1/counters/{self.id}",
                            headers={"Origin": "https://evil.example"})
        self.assertNotIn("access-control-allow-origin", read.headers)


class Origins(Shared):
    flags = ("--cors-origins", "https://app.example, https://b.example", "--http-hosts",
             "tally.example")

    def test_only_those_that_are_named_may_come(self):
        ask = {"Origin": "https://app.example", "Access-Control-Request-Method": "PUT"}
        allowed = self.web.ask("OPTIONS", "/v1/items/a/reactions/b", headers=ask)
        self.assertEqual(allowed.status, 204)
        self.assertEqual(allowed.headers["access-control-allow-origin"], "https://app.example")
        self.assertIn("PUT", allowed.headers["access-control-allow-methods"])
        self.assertIn("idempotency-key", allowed.headers["access-control-allow-headers"])
        self.assertEqual(allowed.headers["vary"], "Origin")
        put = self.web.put("/v1/items/a/reactions/b", headers={"Origin": "https://b.example"})
        self.assertEqual(put.headers["access-control-allow-origin"], "https://b.example")
        other = self.web.put("/v1/items/a/reactions/b", headers={"Origin": "https://app.example.evil"})
        self.assertEqual(other.status, 403)
        for origin, status in (("https://b.example", 200), ("https://app.example.evil", 403)):
            headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            self.assertEqual(self.web.get("/v1/events", **headers).status, status)

    def test_names_may_be_added(self):
        self.assertEqual(self.web.get("/livez", Host="tally.example:80").status, 200)
        self.assertEqual(self.web.get("/livez", Host="other.example").status, 403)


class Passwords(Shared):
    env = {"TALLY_PASSWORD": "sesame"}
    password = "sesame"

    def test_who_knows_it_comes_in(self):
        self.assertEqual(self.web.put(f"/v1/items/{self.id}/reactions/ann").status, 200)
        stranger = web.Web(self.shared.http_port)
        self.addCleanup(stranger.close)
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic c2VzYW1l"},
                       {"Authorization": "sesame"}, {"Authorization": "Bearer sesame "},
                       {"Authorization": "Bearer "}):
            answer = stranger.ask("GET", "/v1/status", headers=header)
            if header.get("Authorization") == "Bearer sesame ":
                continue  # blanks at the end of a header say nothing
            self.assertEqual((answer.status, answer.problem), (401, "unauthorized"))
            self.assertIn("Bearer", answer.headers["www-authenticate"])

    def test_what_is_open_and_what_is_not(self):
        stranger = web.Web(self.shared.http_port)
        self.addCleanup(stranger.close)
        for path in ("/livez", "/readyz", "/openapi.json", "/", "/page/index.html"):
            self.assertEqual(stranger.get(path).status, 200)
        for path in ("/metrics", "/v1/status", "/v1/nothing", "/like/count/1"):
            self.assertEqual(stranger.get(path).status, 401)

    def test_strangers_are_not_told_why_a_part_is_down(self):
        stranger = web.Web(self.shared.http_port)
        self.addCleanup(stranger.close)
        base = sqlite3.connect(os.path.join(self.shared.data, "tally.db"), timeout=20,
                               isolation_level=None)
        base.execute("BEGIN EXCLUSIVE")
        try:
            self.web.post(f"/v1/counters/{self.id}/add")
            def line_of(client, headers=None):
                text = client.ask("GET", "/readyz?verbose", headers=headers).body.decode()
                return next((line for line in text.split("\n") if line.startswith("[-]")), None)
            known = tallyd.wait_until(lambda: line_of(self.web), 60, "the store is locked")
            self.assertRegex(known, r"^\[-\] store .*failed: .*locked")
            hidden = "[-] store (not needed for writes) failed: who sends the password is told why"
            self.assertEqual(line_of(stranger), hidden)
            self.assertEqual(line_of(stranger, {"Authorization": "Bearer wrong"}), hidden)
        finally:
            base.close()
        self.assertEqual(stranger.get("/readyz").body, b"ready\n")

    def test_a_guess_is_counted_at_open_paths_as_well(self):
        stranger = web.Web(self.shared.http_port)
        self.addCleanup(stranger.close)
        def failures():
            return int(re.search(rb'tally_auth_failures_total\{[^}]*http[^}]*\} (\d+)',
                                 self.web.get("/metrics").body)[1])
        before = failures()
        for path in ("/livez", "/readyz?verbose", "/"):
            self.assertEqual(stranger.ask("GET", path, headers={"Authorization": "Bearer x"}).status, 200)
        self.assertEqual(failures(), before + 3)

    def test_strangers_may_not_send_bodies(self):
        with web.Raw(self.shared.http_port) as raw:
            raw.send(b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n")
            self.assertEqual(raw.read().status, 401)
            self.assertTrue(raw.is_closed())

    def test_guessing_is_slow(self):
        stranger = web.Web(self.shared.http_port)
        self.addCleanup(stranger.close)
        begin = time.monotonic()
        for _ in range(6):
            stranger.get("/v1/status", Authorization="Bearer wrong")
        self.assertGreater(time.monotonic() - begin, 0.5)


class Changes(Shared):
    def listen(self, query):
        raw = self.raw()
        raw.send(b"GET /v1/changes?%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % query.encode())
        answer = raw.read()
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "text/event-stream")
        return raw

    def event(self, raw):
        """The next event: its number, and its data."""
        fields = {}
        while True:
            line = raw.stream.readline().decode().rstrip("\n")
            if line == "" and "data" in fields:
                return int(fields["id"]), json.loads(fields["data"])
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value

    def test_listeners_hear_of_changes(self):
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5})
        raw = self.listen(f"ids={self.id},{self.id}v/like")
        first = [self.event(raw), self.event(raw)]
        self.assertEqual([(number, data["id"], data["value"]) for number, data in first],
                         [(1, self.id, "5"), (2, f"{self.id}v/like", "0")])
        self.web.put(f"/v1/items/{self.id}v/reactions/ann")
        number, data = self.event(raw)
        self.assertEqual((number, data["id"], data["value"]), (3, f"{self.id}v/like", "1"))
        self.assertRegex(data["as_of"], TIME)

    def test_a_counter_that_is_not_there_is_told_as_null(self):
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5})
        raw = self.listen(f"ids={self.id},{self.id}none")
        self.assertEqual([self.event(raw)[1]["value"] for _ in range(2)], ["5", None])
        self.web.delete(f"/v1/counters/{self.id}")
        self.assertEqual(self.event(raw)[1]["value"], None)

    def test_the_values_over_time_come_with_one_request(self):
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5})
        path = f"/v1/counters/{self.id}/values"
        answer = self.web.get(f"{path}?since=1000&until=4000000000000&points=2").json
        self.assertEqual([one["value"] for one in answer["values"]], [None, "5"])
        self.assertTrue(answer["complete"])
        self.assertEqual(self.web.get(f"{path}?since=5&until=4").json["values"], [])
        for query in ("", "since=1", "since=1&until=5&points=1", "since=1&until=5&points=501", "since=1&until=5&points=x"):
            self.assertEqual(self.web.get(f"{path}?{query}").status, 400, query)

    def test_a_pattern_hears_of_all_that_match(self):
        raw = self.listen(f"match={self.id}*")
        self.web.post(f"/v1/counters/{self.id}x/add", {"delta": 2})
        self.assertEqual(self.event(raw)[1]["value"], "2")
        self.shared.connect().call("INCR", f"{self.id}y")
        self.assertEqual(self.event(raw)[1]["id"], f"{self.id}y")

    def test_what_changes_often_is_told_now_and_then(self):
        raw = self.listen(f"ids={self.id}")
        self.event(raw)
        for _ in range(20):
            self.web.batch([{"op": "add", "id": self.id, "delta": 1}] * 100)
        last = 0
        heard = 0
        while last < 2000:
            last = int(self.event(raw)[1]["value"])
            heard += 1
        self.assertLess(heard, 500)

    def test_a_burst_is_told_to_who_reads(self):
        raw = self.listen(f"match={self.id}*")
        count = 30000
        self.web.batch([{"op": "add", "id": f"{self.id}-{n}"} for n in range(count)])
        heard = set()
        while len(heard) < count:
            heard.add(self.event(raw)[1]["id"])

    def test_the_head_of_a_stream_has_no_body(self):
        raw = self.raw()
        raw.send(b"HEAD /v1/changes?match=* HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(raw.read().status, 200)
        self.assertTrue(raw.is_closed())

    def test_wrong_wishes_are_refused(self):
        for query in ("", "ids=", "match=", "ids=a,,b", "match=" + "x" * 579, "color=red"):
            self.assertEqual(self.web.get(f"/v1/changes?{query}").status, 400)

    def test_both_doors_tell_of_the_same_change(self):
        with self.shared.connect() as listener:
            listener.call("SUBSCRIBE", self.id)
            raw = self.listen(f"ids={self.id}")
            self.event(raw)
            self.web.post(f"/v1/counters/{self.id}/add", {"delta": 7})
            self.assertEqual(self.event(raw)[1]["value"], "7")
            self.assertEqual(listener.read(), ["message", self.id, "7"])


class Proof(Shared):
    flags = ("--flush-interval", "50ms")

    def wait_for_task(self, answer):
        self.assertEqual(answer.status, 202)
        def ended():
            task = self.web.get(answer.json["watch"]).json
            return task if task["state"] != "running" else None
        return tallyd.wait_until(ended, 20, "the task ends")

    def test_recount_events_and_value_at_a_time(self):
        path = f"/v1/counters/{self.id}"
        before = int(time.time() * 1000)
        for delta in (5, -2, 10):
            self.web.post(path + "/add", {"delta": delta})
        recount = self.web.post(path + "/recount").json
        self.assertEqual((recount["value"], recount["recount"], recount["agrees"]), ("13", "13", True))
        page = self.web.get(path + "/events?limit=2").json
        deltas = [event["delta"] for event in page["events"]]
        for _ in range(100):
            if page["cursor"] is None:
                break
            page = self.web.get(f"{path}/events?limit=2&cursor={page['cursor']}").json
            deltas += [event["delta"] for event in page["events"]]
        self.assertEqual(deltas, ["10", "-2", "5"])
        at = self.web.get(f"{path}/at?time={before + 3600000}").json
        self.assertEqual(at["value"], "13")
        self.assertEqual(self.web.get(f"{path}/at").status, 400)
        self.assertEqual(self.web.get(f"{path}/at?time=yesterday").status, 400)
        self.assertEqual(self.web.post("/v1/counters/nothing-here/recount").status, 404)

    def test_history_lifecycle_and_erasure(self):
        self.web.put(f"/v1/items/{self.id}/reactions/ann")
        self.web.put(f"/v1/items/{self.id}/reactions/bob")
        self.web.delete(f"/v1/items/{self.id}/reactions/bob")
        def history():
            lines = self.web.get(f"/v1/items/{self.id}/history").json["history"]
            return lines if len(lines) == 3 else None
        lines = tallyd.wait_until(history, 10, "the history reaches the store")
        self.assertEqual([(line["user"], line["kind"]) for line in lines],
                         [("bob", None), ("bob", "like"), ("ann", "like")])
        lives = self.web.get(f"/v1/events?counter={self.id}&state=SUCCESS").json["events"]
        self.assertTrue(lives)
        self.assertEqual(self.web.get("/v1/events?state=HAPPY").status, 400)
        self.assertEqual(self.web.get("/v1/users/ann/reactions").json["reactions"],
                         [{"item": self.id, "reaction": "like"}])
        task = self.wait_for_task(self.web.delete("/v1/users/ann"))
        self.assertEqual((task["kind"], task["state"]), ("erase", "done"))
        self.assertEqual(self.web.get("/v1/users/ann/reactions").json["reactions"], [])
        self.assertEqual(self.web.get(f"/{self.id}/count").json["likeCount"], 0)
        self.assertTrue(any(line["what"] == "erase" for line in self.web.get("/v1/audits").json["audits"]))

    def test_recounts_and_audits_are_tasks(self):
        self.web.post(f"/v1/counters/{self.id}/add", {"delta": 5})
        for answer in (self.web.post("/v1/recounts", {"match": self.id + "*"}),
                       self.web.post("/v1/audits", {"match": self.id + "*", "repair": False})):
            task = self.wait_for_task(answer)
            self.assertEqual((task["state"], task["found"]), ("done", 0))
        self.assertGreaterEqual(len(self.web.get("/v1/tasks").json["tasks"]), 2)
        self.assertEqual(self.web.get("/v1/tasks/99999").status, 404)
        self.assertEqual(self.web.get("/v1/tasks/x").status, 400)

    def test_a_task_with_a_key_is_started_once(self):
        key = {"Idempotency-Key": self.id}
        first = self.web.post("/v1/recounts", {"match": "a*"}, key).json
        again = self.web.post("/v1/recounts", {"match": "a*"}, key).json
        self.assertEqual((again["task"], again["repeated"]), (first["task"], True))
        self.assertFalse(first["repeated"])
        for other in (self.web.post("/v1/recounts", {"match": "b*"}, key),
                      self.web.post("/v1/audits", {"match": "a*"}, key),
                      self.web.delete("/v1/users/nobody", key)):
            self.assertEqual((other.status, other.problem), (422, "key-reused"))
        self.assertNotEqual(self.web.post("/v1/recounts", {"match": "a*"}).json["task"], first["task"])
        other = self.web.post("/v1/dlq/redrive", None, key)
        self.assertEqual((other.status, other.problem), (422, "key-reused"))

    def test_the_dead_letters(self):
        self.assertEqual(self.web.get("/v1/dlq").json["letters"], [])
        nobody = "/v1/dlq/0190a0b0-0000-7000-8000-000000000000"
        self.assertEqual(self.web.get(nobody).status, 404)
        self.assertEqual(self.web.post(nobody).status, 404)
        self.assertEqual(self.web.delete(nobody).status, 404)
        self.assertEqual(self.web.get("/v1/dlq/x").status, 400)
        self.assertEqual(self.web.post("/v1/dlq/redrive").json["count"], 0)
        self.assertEqual(self.web.post("/v1/dlq/discard").json["count"], 0)
        for call in (self.web.post, self.web.delete):
            for wrong in ("", "k" * 129):
                self.assertEqual(self.ask_with_key(call, nobody, wrong).status, 400)
            # what was not done is not remembered
            self.assertEqual(self.ask_with_key(call, nobody, self.id).status, 404)
        self.assertEqual(self.web.ask("GET", nobody, None, {"Idempotency-Key": "k"}).status, 404)

    def ask_with_key(self, call, path, key):
        return call(path, headers={"Idempotency-Key": key})

    def change_store(self, statement):
        """Somebody changes the database behind the server's back."""
        base = sqlite3.connect(os.path.join(self.shared.data, "tally.db"), timeout=20,
                               isolation_level=None)
        try:
            base.execute(statement)
        finally:
            base.close()

    def make_letters(self, count):
        """The event_id of a dead letter for each of so many counters."""
        for n in range(count):
            self.web.post(f"/v1/counters/{self.id}{n}/add")
        tallyd.wait_until(lambda: self.web.get("/v1/status").json["pipeline"]["lag_events"] == 0, 20,
                          "the store has everything")
        self.change_store("CREATE TRIGGER poison BEFORE UPDATE ON entries "
                          f"WHEN old.id LIKE '{self.id}%' BEGIN SELECT RAISE(ABORT, 'poison'); END")
        for n in range(count):
            self.web.post(f"/v1/counters/{self.id}{n}/add")
        def letters():
            found = self.web.get("/v1/dlq").json["letters"]
            return found if len(found) == count else None
        found = tallyd.wait_until(letters, 90, "the store refuses for good")
        self.change_store("DROP TRIGGER poison")
        return [letter["event_id"] for letter in found]

    def deal_twice(self, call, path, key):
        """How many letters a call says it has dealt with, and its repetition as well."""
        first, again = (self.ask_with_key(call, path, key) for _ in range(2))
        self.assertEqual((first.status, first.json["repeated"]), (200, False))
        self.assertEqual((again.status, again.json["repeated"]), (200, True))
        self.assertEqual(again.json["count"], first.json["count"])
        return first.json["count"]

    def test_with_a_key_dead_letters_are_dealt_with_once(self):
        one, two, *_ = self.make_letters(4)
        post, delete = self.web.post, self.web.delete
        self.assertEqual(self.deal_twice(post, f"/v1/dlq/{one}", "redrive-one"), 1)
        self.assertEqual(post(f"/v1/dlq/{one}").status, 404)
        self.assertEqual(self.deal_twice(delete, f"/v1/dlq/{two}", "discard-one"), 1)
        self.assertEqual(self.deal_twice(post, "/v1/dlq/redrive", "redrive-all"), 2)
        self.assertEqual(self.deal_twice(post, "/v1/dlq/discard", "discard-all"), 0)
        for call, path, key in ((delete, f"/v1/dlq/{one}", "redrive-one"),
                                (post, f"/v1/dlq/{two}", "redrive-one"),
                                (post, "/v1/dlq/discard", "redrive-all"),
                                (post, "/v1/dlq/redrive", "redrive-one"),
                                (post, "/v1/recounts", "redrive-all")):
            other = self.ask_with_key(call, path, key)
            self.assertEqual((other.status, other.problem), (422, "key-reused"))


class Cold(tallyd.Case):
    """What is in the store only is loaded when somebody asks for it."""

    def start_cold(self):
        server = self.server("--workers", "1", "--flush-interval", "10ms")
        client = web.Web(server.http_port)
        client.batch([{"op": "like", "item": f"item{n % 50}", "user": f"user{n}"}
                      for n in range(2000)])
        client.batch([{"op": "add", "id": f"counter{n}", "delta": n, "key": "k"}
                      for n in range(200)])
        tallyd.wait_until(lambda: client.get("/v1/status").json["pipeline"]["lag_events"] == 0, 20,
                          "the store has everything")
        client.close()
        self.assertEqual(server.stop(), 0)
        server.start()
        client = web.Web(server.http_port)
        self.addCleanup(client.close)
        self.assertEqual(client.get("/v1/status").json["hot"]["items"], 0)
        return server, client

    def test_pipelined_calls_to_cold_counters_keep_their_order(self):
        server, client = self.start_cold()
        head = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with web.Raw(server.http_port) as raw:
            for n in range(200):
                raw.send(b"GET /v1/counters/counter%d" % n + head +
                         b"GET /livez" + head +
                         b"PUT /v1/items/item%d/reactions/new%d" % (n % 50, n) + head)
            for n in range(200):
                self.assertEqual(raw.read().json["value"], str(n))
                self.assertEqual(raw.read().body, b"ok\n")
                self.assertEqual(raw.read().json["counts"]["like"], str(41 + n // 50))
        self.assertGreater(client.get("/v1/status").json["hot"]["loads"], 50)

    def test_a_batch_of_cold_lines_is_answered_in_order(self):
        _, client = self.start_cold()
        lines = client.batch([line for n in range(200) for line in (
            {"op": "get", "id": f"counter{n}"}, {"op": "like", "item": f"item{n % 50}", "user": f"user{n}"},
            {"op": "add", "id": f"counter{n}", "delta": n, "key": "k"})]).lines
        for n in range(200):
            read, like, add = lines[3 * n:3 * n + 3]
            self.assertEqual(read["value"], str(n))
            self.assertFalse(like["changed"])
            self.assertEqual((add["value"], add.get("repeated")), (str(n), True))

    def test_everything_about_a_cold_item_is_there(self):
        _, client = self.start_cold()
        self.assertEqual(client.get("/v1/items/item7/reactions/user57").json["reaction"], "like")
        self.assertEqual(client.get("/v1/items/item8").json["counts"]["like"], "40")
        self.assertEqual(len(client.get("/v1/items/item9/members").json["members"]), 40)
        self.assertEqual(client.get("/item10/count").json["likeCount"], 40)
        mine = client.post("/v1/reactions/mine", {"user": "user11", "items": [f"item{n}" for n in range(50)]})
        held = [one["item"] for one in mine.json["reactions"] if one["reaction"]]
        self.assertEqual(held, ["item11"])
        many = client.get("/v1/counters?ids=" + ",".join(f"counter{n}" for n in range(200))).json
        self.assertEqual([one["value"] for one in many["counters"]], [str(n) for n in range(200)])
        self.assertTrue(client.post("/v1/counters/counter5/recount").json["agrees"])

    def test_listeners_hear_of_cold_counters(self):
        server, client = self.start_cold()
        with web.Raw(server.http_port) as raw:
            raw.send(b"GET /v1/changes?ids=counter7,item7/like HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(raw.read().status, 200)
            values = []
            while len(values) < 2:
                line = raw.stream.readline()
                if line.startswith(b"data: "):
                    values.append(json.loads(line[6:])["value"])
            self.assertEqual(values, ["7", "40"])
            self.assertEqual(client.get("/livez").status, 200)


class Durability(tallyd.Case):
    def test_what_was_acknowledged_survives_a_kill(self):
        server = self.server("--workers", "2")
        client = web.Web(server.http_port)
        for number in range(50):
            self.assertEqual(client.put(f"/v1/items/v/reactions/u{number}").json["ack"], "durable")
        client.batch([{"op": "add", "id": "views", "delta": 1}] * 100)
        server.kill()
        server.start()
        client = web.Web(server.http_port)
        self.assertEqual(client.get("/v/count").json["likeCount"], 50)
        self.assertEqual(client.get("/v1/counters/views").json["value"], "100")

    def test_weaker_acknowledgements_say_so(self):
        client = web.Web(self.server("--ack", "memory").http_port)
        self.assertEqual(client.put("/v1/items/v/reactions/ann").json["ack"], "memory")

    def test_an_end_answers_what_has_come_in(self):
        server = self.server()
        raw = web.Raw(server.http_port)
        idle = web.Raw(server.http_port)
        raw.send(b"PUT /v1/items/v/reactions/ann HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
        listener = web.Raw(server.http_port)
        listener.send(b"GET /v1/changes?match=* HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(listener.read().status, 200)
        self.assertEqual([raw.read().status for _ in range(10)], [200] * 10)
        self.assertEqual(server.stop(), 0)
        for one in (raw, idle, listener):
            self.assertIsNone(one.read() if one is not listener else None)
            one.close()

    def test_without_a_store_questions_to_it_are_refused(self):
        client = web.Web(self.server("--store", "none").http_port)
        client.put("/v1/items/v/reactions/ann")
        for path in ("/v1/events", "/v1/items/v/history", "/v1/tasks"):
            answer = client.get(path)
            self.assertEqual((answer.status, answer.problem), (503, "unavailable"))
            self.assertIn("retry-after", answer.headers)
        self.assertEqual(client.get("/v1/status").json["pipeline"], None)

    def test_the_door_can_be_off(self):
        server = self.server(http="off")
        self.assertNotIn("door=http", server.messages())
        self.assertEqual(server.connect().call("PING"), "PONG")

    def test_beyond_this_machine_it_needs_a_password(self):
        refused = self.server(start=False, http="0.0.0.0:0")
        self.assertNotEqual(refused.start_fails(), 0)
        self.assertIn("without a password", refused.said)


if __name__ == "__main__":
    tallyd.main()
