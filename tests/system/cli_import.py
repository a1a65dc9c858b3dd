"""cli_import.py - an import from a real Redis, filled by the scripts of the systems it comes from."""

import hashlib
import os
import subprocess

import cli_rig
import tallyd

# As the applications run them: KEYS are the set to add to, the set to take from, the shard.
LIKE_LUA = """
local fromDisLike = redis.call('SREM', KEYS[2], ARGV[1])
if fromDisLike == 1 then
    redis.call('INCRBY', KEYS[3], -1)
end
local added = redis.call('SADD', KEYS[1], ARGV[1])
if added == 1 then
    redis.call('INCRBY', KEYS[3], 1)
    return 1
end
return 0
"""
UNLIKE_LUA = """
local removed = redis.call('SREM', KEYS[1], ARGV[1])
if removed == 1 then
    redis.call('INCRBY', KEYS[3], -1)
    return 1
end
return 0
"""
MARK_SYNCHRONIZED_LUA = """
local id = KEYS[1]
local savedValue = tonumber(KEYS[2])
local key = "item_" .. id

local curValue = tonumber(redis.call("get", key))

if savedValue == curValue then
    redis.call("set", key .. "_saved", 1)
end
"""
LIST_COUNTERS_LUA = """
local cursor = redis.call("get", "item_synchronization_cursor") or 0

local scanResults = redis.call("scan", cursor, "match", "item_*", "count", 1000)

redis.call("set", "item_synchronization_cursor", scanResults[1])
"""

SHARDS = 64


def shard_of(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % SHARDS


class Importing(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.need_command("redis-server")
        self.one = self.server()
        self.redis_port = self.start_redis()
        self.redis = tallyd.Connection(self.redis_port)
        self.addCleanup(self.redis.close)
        self.source = f"redis://127.0.0.1:{self.redis_port}"

    def start_redis(self, *flags):
        port = cli_rig.free_port()
        process = subprocess.Popen(
            [*tallyd.WITH_PARENT, "redis-server", "--port", str(port), "--bind", "127.0.0.1",
             "--save", "", "--appendonly", "no", "--dir", self.home, *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def listens():
            try:
                tallyd.Connection(port).close()
                return True
            except OSError:
                return False

        tallyd.wait_until(listens, 20, "Redis listens")
        return port

    def run_lua(self, script, keys, *args):
        return self.redis.call("EVAL", script, len(keys), *keys, *args)

    def take(self, *flags, code=0):
        return self.json("import", "--from", self.source, *flags, code=code)[0]

    def counts(self, item):
        counts = self.json("counts", item)[0]["counts"]
        return int(counts["like"]), int(counts["dislike"])

    def fill_likes(self, keys_of):
        """Runs likes and dislikes as the application would; returns who holds what."""
        held = {}
        for i in range(400):
            video, user = f"video{i % 7}", f"user{i % 41}"
            likes, dislikes, like_shard, dislike_shard = keys_of(video, user)
            if i % 5 == 0:
                self.run_lua(LIKE_LUA, [dislikes, likes, dislike_shard], user)
                held[video, user] = "dislike"
            elif i % 11 == 0:
                if self.run_lua(UNLIKE_LUA, [likes, dislikes, like_shard], user):
                    del held[video, user]
            else:
                self.run_lua(LIKE_LUA, [likes, dislikes, like_shard], user)
                held[video, user] = "like"
        return held

    def assert_held(self, held):
        for video in {video for video, _ in held}:
            for kind in ("like", "dislike"):
                self.assertEqual(
                    sorted(self.said("members", video, kind).split()),
                    sorted(user for (v, user), k in held.items() if (v, k) == (video, kind)))

    def test_sets_of_likers_and_shards_of_counters(self):
        held = self.fill_likes(lambda video, user: (
            f"vlu:{video}", f"vld:{video}", f"vc:{video}:{shard_of(video + ':' + user)}",
            f"vc:{{dislikes}}:{video}:{shard_of(video + ':' + user)}"))
        report = self.take()
        self.assertEqual((report["bad"], report["unknown"]), (0, 0))
        self.assertEqual(report["reactions"], len(held))
        self.assert_held(held)
        # The script takes from the wrong counter when a dislike becomes a like.
        self.assertGreater(report["differing"], 0)

    def test_the_layout_with_hash_tags(self):
        held = self.fill_likes(lambda video, user: (
            f"vlv:{{likes}}:{video}", f"vld:{{dislikes}}:{video}",
            f"vc:{{likes}}:{video}:{shard_of(user)}", f"vc:{{dislikes}}:{video}:{shard_of(user)}"))
        self.take()
        self.assert_held(held)

    def test_the_layout_with_two_sets_for_a_video(self):
        held = self.fill_likes(lambda video, user: (
            f"video:likes:{video}", f"video:dislikes:{video}",
            f"video:likes:count:{video}:{shard_of(user)}",
            f"video:dislikes:count:{video}:{shard_of(user)}"))
        self.take()
        self.assert_held(held)

    def test_members_win_over_counters_and_the_difference_is_told(self):
        self.redis.pipeline([("SADD", "vlu:v1", "ann", "bob"), ("INCRBY", "vc:v1:3", 2),
                             ("INCRBY", "vc:v1:60", 5), ("SADD", "vlu:v2", "ann"),
                             ("INCRBY", "vc:v2:1", 1)])
        result = self.tally("import", "--from", self.source)
        self.assertIn("v1 has 2 members that like it, but its counters say 7: the members win",
                      result.stderr)
        self.assertNotIn("v2", result.stderr)
        self.assertEqual(self.counts("v1"), (2, 0))
        self.assertIn("1 counts that differ", result.stdout)

    def test_shards_without_members_become_one_counter(self):
        self.redis.pipeline([("INCRBY", f"vc:video123:{n}", n) for n in range(SHARDS)])
        self.redis.call("SET", "vc:old", 12)
        self.take()
        self.assertEqual(self.said("get", "video123:likes", "old:likes").split()[3::2],
                         [str(sum(range(SHARDS))), "12"])

    def test_counters_of_items_without_their_notes(self):
        self.redis.pipeline([("INCRBY", f"item_{i}", i * 3) for i in range(1, 50)])
        for i in range(1, 50, 2):
            self.run_lua(MARK_SYNCHRONIZED_LUA, [str(i), str(i * 3)])
            self.redis.call("SET", f"item_{i}_expired", 1794797000)
        self.run_lua(LIST_COUNTERS_LUA, [])
        report = self.take()
        self.assertEqual((report["counters"], report["notes"], report["unknown"]), (49, 51, 0))
        self.assertEqual(self.said("get", "item_13"), "39\n")
        self.assertEqual(len(self.json("list")), 49)

    def test_cached_counts_of_posts(self):
        self.redis.pipeline([("SET", f"post:{i}:like_count", i, "EX", 300) for i in range(100)])
        self.assertEqual(self.take("--pattern", "post:*")["counters"], 100)
        self.assertEqual(self.said("get", "post:77:like_count"), "77\n")

    def test_other_layouts_by_templates(self):
        self.redis.pipeline([("SADD", "fans:x", "a", "b"), ("SET", "hits:q:n", 12),
                             ("SADD", "vlu:y", "c"), ("SET", "session:1", "text")])
        report = self.take("--layout", "none", "--sets", "fans:{item}=dislike", "--counters",
                           "hits:{id}:n=views:{id}")
        self.assertEqual((report["counters"], report["reactions"], report["unknown"]), (1, 2, 2))
        self.assertEqual(self.counts("x"), (0, 2))
        self.assertEqual(self.said("get", "views:q"), "12\n")
        self.assertEqual(self.counts("y"), (0, 0))

    def test_what_is_bad_is_told_and_left_out(self):
        self.redis.pipeline([("SET", "item_1", "many"), ("SADD", "item_2", "x"),
                             ("SET", "vlu:v1", "5"), ("SET", "item_3", 3)])
        result = self.tally("import", "--from", self.source, code=6)
        for text in ("key item_1: no whole number", "key item_2: WRONGTYPE", "key vlu:v1: "):
            self.assertIn(text, result.stderr)
        self.assertEqual(self.said("get", "item_3"), "3\n")
        self.assertEqual(len(self.json("list")), 1)

    def test_large_sets_come_whole_and_again_without_doubling(self):
        for start in range(0, 60000, 1000):
            self.redis.call("SADD", "vlu:large", *range(start, start + 1000))
        self.redis.pipeline([("SADD", f"vlu:small{i}", "ann") for i in range(3000)])
        self.redis.pipeline([("INCRBY", f"item_{i}", 1) for i in range(3000)])
        report = self.take("--mode", "add")
        self.assertEqual((report["reactions"], report["changed"]), (63000, 63000))
        self.assertEqual(self.counts("large"), (60000, 0))
        again = self.take("--mode", "set")
        self.assertEqual((again["changed"], again["counters"]), (0, 3000))
        self.assertEqual(self.said("get", "item_7"), "1\n")

    def test_an_import_that_was_killed_goes_on(self):
        self.redis.pipeline([("SET", f"item_{i}", 1) for i in range(40000)])
        process = subprocess.Popen([cli_rig.PROGRAM, "import", "--from", self.source, "--mode",
                                    "add"], env=self.environment(self.one.port),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        with self.one.connect() as client:
            tallyd.wait_until(lambda: client.call("DBSIZE") > 2000, 20, "it works")
            process.kill()
            process.wait()
            if client.call("DBSIZE") < 40000:
                result = self.tally("import", "--from", self.source, "--mode", "add", code=2)
                self.assertIn("--resume", result.stderr)
                self.take("--mode", "add", "--resume")
            values = client.pipeline([("GET", f"item_{i}") for i in range(40000)])
        self.assertEqual(set(values), {"1"})
        self.assertEqual(os.listdir(os.path.join(self.home, ".local/state/tally")), [])

    def test_a_password_comes_from_the_environment_only(self):
        self.redis.call("CONFIG", "SET", "requirepass", "hunter2")
        self.redis.call("AUTH", "hunter2")
        self.redis.call("SET", "item_1", 5)
        self.assertIn("NOAUTH", self.tally("import", "--from", self.source, code=3).stderr)
        self.tally("import", "--from", self.source, "--restart", env={"REDISCLI_AUTH": "hunter2"})
        self.assertEqual(self.said("get", "item_1"), "5\n")
        url = f"redis://:hunter2@127.0.0.1:{self.redis_port}"
        self.assertIn("REDISCLI_AUTH", self.tally("import", "--from", url, code=2).stderr)

    def test_mistakes_on_the_command_line(self):
        for flags in (["--from", "http://x"], ["--from", self.source, "--sets", "fans"],
                      ["--from", self.source, "--layout", "what"], ["--sets", "a:{item}=like"],
                      ["--from", self.source, "file.ndjson"],
                      ["--from", self.source, "--layout", "none"]):
            self.tally("import", *flags, code=2)
        self.tally("import", "--from", f"redis://127.0.0.1:{cli_rig.free_port()}", code=3)


if __name__ == "__main__":
    tallyd.main()
