"""http_openapi.py - /openapi.json says the truth: every operation is tried with good and with hostile
values, and the real answers are checked against the schemas.

Complete both ways: an operation that the description does not have is not tried here, and so not
described; one that is described and has no good request below fails."""

import json
import re
import urllib.parse

import jsonschema

import tallyd
import web

ID = "openapi"

# A request that must succeed, for each operation: what to fill in for the path, query, and body.
GOOD = {
    "getCounter": {"path": {"id": ID}, "query": {"consistency": "exact"}},
    "putReaction": {"path": {"item": "v1", "user": "ann"}, "body": {"kind": "like"}},
    "deleteReaction": {"path": {"item": "v1", "user": "bob"}, "query": {"kind": "like"}},
    "getReaction": {"path": {"item": "v1", "user": "ann"}},
    "toggleReaction": {"path": {"item": "v1", "user": "carl"}, "body": {}},
    "getItem": {"path": {"item": "v1"}},
    "batch": {"lines": [{"op": "like", "item": "v1", "user": 7}, {"op": "get", "id": ID}, {}]},
    "addToCounter": {"path": {"id": ID}, "body": {"delta": "5", "region": "eu"}},
    "createCounter": {"path": {"id": "{fresh}"}, "body": {"shards": 2, "floor": 0}},
    "createCounterByPost": {"path": {"id": "{fresh}"}, "body": {"policy": "random", "idle_s": 60}},
    "describeShards": {"path": {"id": ID}},
    "deleteCounter": {"path": {"id": "gone"}},
    "resetCounter": {"path": {"id": ID}, "body": {"value": 3}},
    "describeCounter": {"path": {"id": ID}},
    "recountCounter": {"path": {"id": ID}},
    "getCounterEvents": {"path": {"id": ID}, "query": {"limit": 10}},
    "getCounterAt": {"path": {"id": ID}, "query": {"time": "4000000000000"}},
    "getCounterValues": {"path": {"id": ID}, "query": {"since": "2020-01-01T00:00:00Z", "until": "4000000000000", "points": 3}},
    "listCounters": {"query": {"match": "*", "limit": 10}},
    "getMembers": {"path": {"item": "v1"}, "query": {"kind": "like", "limit": 10}},
    "getHistory": {"path": {"item": "v1"}, "query": {"limit": 10}},
    "getMine": {"body": {"user": "ann", "items": ["v1", 5]}},
    "getUserReactions": {"path": {"user": "ann"}},
    "eraseUser": {"path": {"user": "nobody"}},
    "getLifecycle": {"query": {"state": "SUCCESS", "since": "2020-01-01T00:00:00Z", "limit": 5}},
    "getLetters": {"query": {"limit": 5}},
    "redriveLetters": {}, "discardLetters": {},
    "startRecount": {"body": {"match": "*"}},
    "startAudit": {"body": {"match": "*", "repair": False}},
    "getAudits": {}, "getTasks": {}, "getTask": {"path": {"task": "1"}},
    "watch": {"query": {"ids": ID}}, "getStatus": {},
    "getFigures": {"query": {"since": "2020-01-01T00:00:00Z"}},
    "seedLike": {"body": {"post_id": 123, "user_id": "x"}},
    "seedLikeCount": {"path": {"id": "123"}},
    "seedVideoCount": {"path": {"video": "v1"}},
    "getOpenapi": {}, "getMetrics": {}, "getLive": {}, "getReady": {"query": {"verbose": ""}},
    "getIndex": {}, "getPageFile": {"path": {"file": "index.html"}}, "getButton": {},
    # There is no dead letter to be had here: the right answer is that there is none.
    "getLetter": {"path": {"event": "0190a0b0-0000-7000-8000-000000000000"}, "status": 404},
    "redriveLetter": {"path": {"event": "0190a0b0-0000-7000-8000-000000000000"}, "status": 404},
    "discardLetter": {"path": {"event": "0190a0b0-0000-7000-8000-000000000000"}, "status": 404},
}

HOSTILE = ("", " ", "%00", "..", "../../etc/passwd", "'; DROP TABLE counters;--", "<script>", "\u202e",
           "\U0001f600", "x" * 300, "-1", "1e400", "99999999999999999999", "a\r\nSet-Cookie: x", "*",
           "null", "true", "{}", "[]", "v1/like")
HOSTILE_BODIES = (b"", b"{}", b"[]", b"null", b"5", b'"x"', b"{", b"\xff", b"\x00", b"[" * 5000,
                  b'{"a":1,"a":2}', b'{"delta":1e999}', b'{"user":{}}', b'{"items":[[]]}',
                  b'{"post_id":[],"user_id":{}}', b'{"match":"[","repair":"yes"}',
                  b'{"kind":5}', b'{"shards":-1}', b'{"value":"x"}', b'{"region":"' + b"r" * 100 + b'"}')


class Openapi(tallyd.Case):
    @classmethod
    def setUpClass(cls):
        cls.shared = tallyd.Server("--workers", "1", "--flush-interval", "50ms").start()
        client = web.Web(cls.shared.http_port)
        cls.document = client.get("/openapi.json").json
        client.post(f"/v1/counters/{ID}/add", {"delta": 5})
        client.put("/v1/items/v1/reactions/ann")
        client.post("/v1/recounts")
        if client.get("/tally.js").status == 404:  # a build without the page
            GOOD["getButton"] = {"status": 404}
        client.close()
        cls.fresh = 0

    @classmethod
    def tearDownClass(cls):
        cls.shared.remove()
        assert not re.search("Sanitizer|runtime error:|Assertion .* failed", cls.shared.said), \
            cls.shared.said

    def setUp(self):
        self.web = web.Web(self.shared.http_port)
        self.addCleanup(self.web.close)

    def operations(self):
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                yield path, method.upper(), operation

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].lstrip("#/").split("/"):
                target = target[part]
            node = target
        return node

    def valid(self, value, schema):
        """Checks against a schema, whose references are those of the document."""
        whole = {**schema, "components": self.document["components"]}
        jsonschema.Draft202012Validator(whole).validate(value)

    def check_answer(self, operation, answer):
        """It is one of those that are described."""
        described = operation["responses"].get(str(answer.status))
        if described is None:
            self.assertGreaterEqual(answer.status, 400)
            self.assertLess(answer.status, 500)
            described = self.resolve(operation["responses"]["default"])
        if "content" not in described:
            self.assertEqual(answer.body, b"")
            return
        kind = answer.headers["content-type"].split(";")[0]
        if "*/*" in described["content"]:
            return
        self.assertIn(kind, described["content"])
        schema = described["content"][kind]["schema"]
        if kind == "application/x-ndjson":
            for line in answer.lines:
                self.valid(line, schema)
        elif kind in ("application/json", "application/problem+json"):
            self.valid(answer.json, schema)

    def fill(self, path, values):
        for name, value in values.items():
            if value == "{fresh}":
                Openapi.fresh += 1
                value = f"fresh{Openapi.fresh}"
            path = path.replace("{%s}" % name, urllib.parse.quote(str(value), safe=""))
        return path

    def ask(self, method, path, query, body, headers):
        if query:
            path += "?" + urllib.parse.urlencode(query, errors="surrogatepass")
        if path.startswith("/v1/changes"):
            return self.listen(path)
        return self.web.ask(method, path, body, headers)

    def listen(self, path):
        """The head of a stream that goes on."""
        with web.Raw(self.shared.http_port) as raw:
            raw.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
            return raw.read()

    def test_the_document_is_well_formed(self):
        self.assertTrue(self.document["openapi"].startswith("3.1."))
        for schema in self.document["components"]["schemas"].values():
            jsonschema.Draft202012Validator.check_schema(schema)
        names = [operation["operationId"] for _, _, operation in self.operations()]
        self.assertEqual(len(names), len(set(names)))
        text = json.dumps(self.document)
        for reference in set(re.findall(r'"\$ref": "([^"]+)"', text)):
            self.resolve({"$ref": reference})
        for path, _, operation in self.operations():
            found = {p["name"] for p in operation["parameters"] if p.get("in") == "path"}
            self.assertEqual(found, set(re.findall(r"\{(\w+)\}", path)))
            self.assertTrue(operation["summary"])

    def test_a_good_request_gets_the_answer_that_is_described(self):
        for path, method, operation in self.operations():
            name = operation["operationId"]
            with self.subTest(name):
                self.assertIn(name, GOOD, "an operation without a good request")
                good = GOOD[name]
                body = good.get("body")
                headers = {}
                if body is not None:
                    schema = operation["requestBody"]["content"]["application/json"]["schema"]
                    self.valid(body, schema)
                if "lines" in good:
                    schema = operation["requestBody"]["content"]["application/x-ndjson"]["schema"]
                    self.valid(good["lines"][0], schema)
                    body = "\n".join(json.dumps(line) for line in good["lines"]).encode()
                    headers = web.LINES
                answer = self.ask(method, self.fill(path, good.get("path", {})), good.get("query"),
                                  body, headers)
                wanted = good.get("status") or next(
                    int(status) for status in operation["responses"] if status.startswith("2"))
                self.assertEqual(answer.status, wanted, answer.body)
                self.check_answer(operation, answer)
        described = {operation["operationId"] for _, _, operation in self.operations()}
        self.assertEqual(set(GOOD), described)

    def test_hostile_paths_get_answers_that_are_described(self):
        for path, method, operation in self.operations():
            names = re.findall(r"\{(\w+)\}", path)
            for name in names:
                for value in HOSTILE:
                    if not value:
                        continue  # another path
                    values = {other: "v1" for other in names}
                    values[name] = value
                    with self.subTest(operation["operationId"], value=value):
                        self.check_answer(operation, self.ask(method, self.fill(path, values),
                                                              {}, None, {}))

    def test_hostile_queries_get_answers_that_are_described(self):
        for path, method, operation in self.operations():
            for parameter in operation["parameters"]:
                if parameter.get("in") != "query":
                    continue
                filled = self.fill(path, {name: "v1" for name in re.findall(r"\{(\w+)\}", path)})
                for value in HOSTILE:
                    with self.subTest(operation["operationId"], name=parameter["name"], value=value):
                        self.check_answer(operation, self.ask(
                            method, filled, {parameter["name"]: value}, None, {}))
            with self.subTest(operation["operationId"]):
                filled = self.fill(path, {name: "v1" for name in re.findall(r"\{(\w+)\}", path)})
                if "parameters" in operation and any(p.get("in") == "query"
                                                     for p in operation["parameters"]):
                    answer = self.ask(method, filled, {"no-such-thing": "1"}, None, {})
                    self.assertEqual(answer.status, 400)

    def test_hostile_bodies_get_answers_that_are_described(self):
        for path, method, operation in self.operations():
            if "requestBody" not in operation:
                continue
            filled = self.fill(path, {name: "v2" for name in re.findall(r"\{(\w+)\}", path)})
            for kind in ("application/json", "application/x-ndjson"):
                for body in HOSTILE_BODIES:
                    with self.subTest(operation["operationId"], body=body[:50]):
                        self.check_answer(operation, self.ask(method, filled, {}, body,
                                                              {"Content-Type": kind}))

    def test_hostile_headers_get_answers_that_are_described(self):
        for path, method, operation in self.operations():
            filled = self.fill(path, {name: "v3" for name in re.findall(r"\{(\w+)\}", path)})
            for headers in ({"Idempotency-Key": "k" * 129}, {"Tally-Region": "r" * 65},
                            {"If-None-Match": '"' * 100}, {"Authorization": "Bearer x"}):
                with self.subTest(operation["operationId"], headers=headers):
                    if filled != "/v1/changes":
                        self.check_answer(operation, self.ask(method, filled, {}, None, headers))

    def test_the_server_is_still_well(self):
        self.assertEqual(self.web.get("/readyz").status, 200)
        self.assertEqual(self.web.get("/v1/counters/v1").status in (200, 404, 409), True)


if __name__ == "__main__":
    tallyd.main()
