"""http_clients.py - curl and Node's fetch against the HTTP door."""

import json
import os
import subprocess

import tallyd

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")


class Curl(tallyd.Case):
    def setUp(self):
        self.need_command("curl")
        self.one = self.server("--workers", "2")
        self.base = f"http://127.0.0.1:{self.one.http_port}"

    def curl(self, *flags, given=None):
        result = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "20", *flags],
                                input=given, capture_output=True, timeout=30, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.decode()

    def test_liking_and_reading(self):
        liked = json.loads(self.curl("-X", "PUT", f"{self.base}/v1/items/video1/reactions/ann"))
        self.assertEqual(liked["counts"], {"like": "1", "dislike": "0"})
        seed = json.loads(self.curl("-X", "POST", f"{self.base}/like", "-H",
                                    "Content-Type: application/json", "-d",
                                    '{"post_id": 123, "user_id": 456}'))
        self.assertEqual(seed["like_count"], 1)
        self.assertEqual(json.loads(self.curl(f"{self.base}/like/count/123"))["like_count"], 1)

    def test_a_large_body_waits_for_leave(self):
        lines = b"".join(b'{"op":"like","item":"v","user":%d}\n' % n for n in range(20000))
        said = self.curl("-H", "Content-Type: application/x-ndjson", "-H", "Expect: 100-continue",
                         "--data-binary", "@-", f"{self.base}/v1/batch", given=lines)
        self.assertEqual(said.count('"changed":true'), 20000)

    def test_chunks(self):
        said = self.curl("-H", "Content-Type: application/json", "-H", "Transfer-Encoding: chunked",
                         "-d", '{"delta":7}', f"{self.base}/v1/counters/c/add")
        self.assertEqual(json.loads(said)["value"], "7")

    def test_one_connection_for_many(self):
        said = self.curl("-w", "%{num_connects}\\n", "-o", "/dev/null", f"{self.base}/livez",
                         "-o", "/dev/null", f"{self.base}/livez")
        self.assertEqual(said.split(), ["1", "0"])

    def test_older_versions_and_heads(self):
        self.assertEqual(self.curl("--http1.0", f"{self.base}/livez"), "ok\n")
        self.assertIn("HTTP/1.1 200 OK", self.curl("--head", f"{self.base}/livez"))


class Fetch(tallyd.Case):
    def test_fetch(self):
        self.need_command("node")
        server = self.server("--workers", "2")
        result = subprocess.run(["node", os.path.join(CLIENTS, "fetch_client.js"),
                                 str(server.http_port)],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("fetch is fine", result.stdout)


if __name__ == "__main__":
    tallyd.main()
