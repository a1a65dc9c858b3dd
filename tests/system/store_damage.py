"""store_damage.py - flipped bits in tally.db, and rows that were changed by hand, there and in
PostgreSQL: nothing that is answered is ever wrong, the damage is named, and one command brings the
store back."""

import os
import random
import shutil
import sqlite3

import postgres
import tallyd
import web

COUNTERS = 3000
PAGE = 4096


class StoreDamage(tallyd.Case):
    def fill(self):
        server = self.server("--flush-interval", "50ms")
        client = self.client(server)
        for number in range(COUNTERS):
            client.call("INCRBY", f"counter-{number:05}", number + 21)
        client.call("LIKE", "video1", "ann")
        server.stop()
        self.path = os.path.join(server.data, "tally.db")
        return server

    def flip(self, offset, bit):
        with open(self.path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << bit]))

    def index_page(self):
        """The leaf of the index of ids that counter-00100 is in."""
        with open(self.path, "rb") as file:
            data = file.read()
        for at in range(0, len(data), PAGE):
            if data[at] == 10 and b"counter-00100" in data[at:at + PAGE]:
                return at
        return self.fail("no such page")

    def read(self, client, number):
        """The value, or None where it is refused; a wrong one fails."""
        try:
            value = client.call("GET", f"counter-{number:05}")
        except tallyd.ReplyError:
            return None
        self.assertEqual(int(value), number + 21)
        return value

    def test_a_damaged_index_is_said_and_never_a_wrong_count(self):
        server = self.fill()
        at = self.index_page()
        self.flip(at + 2000, 3)
        server.start()
        client = self.client(server)
        values = [self.read(client, number) for number in range(60, 140)]
        self.assertIn(None, values)
        with self.assertRaises(tallyd.ReplyError):
            client.call("INCR", "counter-00100")
        server.wait_message(f"page {at // PAGE + 1} at offset {at} is DAMAGED", 30)
        # What is in memory goes on.
        self.assertEqual(client.call("INCR", "new"), 1)
        self.assertEqual(client.call("INCR", "new"), 2)
        # The one command.
        folder = os.path.join(server.data, "damaged")
        os.mkdir(folder)
        for name in os.listdir(server.data):
            if name.startswith("tally.db"):
                os.rename(os.path.join(server.data, name), os.path.join(folder, name))
        tallyd.wait_until(lambda: self.read(client, 100) is not None, 60, "it is made anew")
        self.assertEqual(client.call("INCR", "counter-00100"), 122)
        for number in range(0, COUNTERS, 50):
            if number != 100:
                self.assertIsNotNone(self.read(client, number))

    def test_flips_all_over_the_file(self):
        server = self.fill()
        chance = random.Random(f"{tallyd.seed_of_run()} {self.id()}")
        for _ in range(6):
            offset = chance.randrange(os.path.getsize(self.path))
            bit = chance.randrange(8)
            with self.subTest(offset=offset, bit=bit):
                self.flip(offset, bit)
                try:
                    server.start()
                except tallyd.StartError:  # refused, with the reason
                    self.assertRegex(server.messages(), "DAMAGED")
                else:
                    client = self.client(server)
                    for number in range(0, COUNTERS, 10):
                        self.read(client, number)
                    server.kill()
                self.flip(offset, bit)

    def test_a_row_that_was_changed_by_hand_is_counted_anew(self):
        server = self.fill()
        server.start()
        base = sqlite3.connect(self.path, timeout=20)
        base.execute("UPDATE entries SET value = 555 WHERE id = 'counter-00079'")
        base.commit()
        base.close()
        client = self.client(server)
        tallyd.wait_until(lambda: self.read(client, 79) is not None, 30, "it is counted anew")
        server.wait_message("is not what was written there", 5)

    def test_a_row_that_was_changed_with_its_sum_taken_away_is_counted_anew(self):
        server = self.fill()
        server.start()
        base = sqlite3.connect(self.path, timeout=20)
        base.execute("UPDATE entries SET value = 555, sum = NULL WHERE id = 'counter-00079'")
        base.commit()
        base.close()
        client = self.client(server)
        tallyd.wait_until(lambda: self.read(client, 79) is not None, 30, "it is counted anew")

    def test_a_slice_that_was_changed_is_made_anew_when_it_is_asked_for(self):
        server = self.server("--flush-interval", "10ms", "--audit-every", "0")
        client = self.client(server)
        users = [str(number) for number in range(10000, 20000)]
        for start in range(0, len(users), 1000):
            client.pipeline([("LIKE", "crowd", user) for user in users[start:start + 1000]])
        server.stop()
        base = sqlite3.connect(os.path.join(server.data, "tally.db"), timeout=20)
        slices = base.execute("SELECT place, members FROM members").fetchall()
        self.assertEqual(len(slices), 64)
        base.execute("UPDATE members SET members = ? WHERE place = ?", (slices[1][1], slices[0][0]))
        base.commit()
        base.execute("VACUUM")
        base.close()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, "damage: .*the set of members of .crowd. is not what was written")
        server.start()
        client = self.client(server)

        def all_are_right():
            answers = client.pipeline([("LIKE", "crowd", user) for user in users])
            refused = [answer for answer in answers if isinstance(answer, tallyd.ReplyError)]
            self.assertLessEqual({answer for answer in answers if answer not in refused}, {0})
            return not refused
        tallyd.wait_until(all_are_right, 60, "the slice is made anew")
        self.assertEqual(client.call("GET", "crowd/like"), str(len(users)))

    def test_what_a_recount_begins_with_is_checked(self):
        server = self.fill()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        base = sqlite3.connect(self.path, timeout=20)
        base.execute("INSERT INTO bases VALUES('counter-00100', 0, 7, 1)")
        base.commit()
        base.execute("VACUUM")
        base.close()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, "damage: .*the row in bases of .counter-00100. is not what")

    def mark(self, path):
        """How far the store is; None if the file is being written."""
        base = sqlite3.connect(path, timeout=20)
        try:
            return base.execute("SELECT segment, position FROM progress").fetchone()
        except sqlite3.DatabaseError:
            return None
        finally:
            base.close()

    def is_carried_over(self, folder):
        alone = os.path.join(folder, "alone.db")
        shutil.copy(self.path, alone)
        return self.mark(alone) == self.mark(self.path)

    def test_a_wal_that_lost_what_was_carried_over_is_refused(self):
        server = self.fill()
        server.flags[1] = "10ms"
        server.start()
        client = self.client(server)
        numbers = range(0, COUNTERS, 300)
        for number in numbers:  # a transaction for each, and each in a page of its own
            client.call("INCRBY", f"counter-{number:05}", 1)
            tallyd.wait_until(lambda: "pipeline_lag_events:0" in client.call("INFO").splitlines(),
                              30, "the store has it")
        folder = self.folder()
        tallyd.wait_until(lambda: self.is_carried_over(folder), 60, "the WAL was carried over")
        server.kill()
        whole = os.path.join(folder, "whole")
        shutil.copytree(server.data, whole)
        size = os.path.getsize(self.path + "-wal")
        chance = random.Random(f"{tallyd.seed_of_run()} {self.id()}")
        refused = 0
        for _ in range(8):
            offset = chance.randrange(size)
            with self.subTest(offset=offset):
                self.path += "-wal"
                self.flip(offset, chance.randrange(8))
                self.path = self.path[:-len("-wal")]
                checked = tallyd.run_program("--check", server.data)
                try:
                    server.start()
                except tallyd.StartError:
                    refused += 1
                    self.assertRegex(server.messages(), r"tally\.db-wal: DAMAGED")
                    self.assertEqual(checked.returncode, 1)
                    self.assertRegex(checked.stdout, r"damage: .*tally\.db-wal: DAMAGED")
                else:
                    client = self.client(server)
                    for number in numbers:
                        self.assertEqual(client.call("GET", f"counter-{number:05}"), f"{number + 22}")
                    server.kill()
                shutil.rmtree(server.data)
                shutil.copytree(whole, server.data)
        self.assertGreater(refused, 0)

    def test_a_row_that_was_changed_by_hand_is_never_used_by_a_start(self):
        server = self.server("--flush-interval", "10ms", "--workers", "1", "--audit-every", "0")
        client = self.client(server)
        names = [f"counter-{number:05}" for number in range(40)]
        items = [f"item-{number}" for number in range(10)]
        for number, name in enumerate(names):
            client.call("INCRBY", name, number + 21)
        for item in items:
            client.call("LIKE", item, "ann")
        server.stop()
        server.flags[1] = "1h"
        server.start()
        client = self.client(server)
        for name in names:  # these events are in the log only
            client.call("INCR", name)
        for item in items:
            client.call("LIKE", item, "bob")
        server.kill()
        base = sqlite3.connect(os.path.join(server.data, "tally.db"), timeout=20)
        base.execute("UPDATE entries SET value = value + 555 WHERE type = 0")
        base.execute("""UPDATE entries SET counts = '{"like":7}' WHERE type = 1""")
        base.commit()
        base.close()
        server.start()
        client = self.client(server)
        asked = [("GET", name) for name in names] + [("COUNTS", item) for item in items]
        for reply, number in zip(client.pipeline(asked[:40]), range(40)):
            self.assertEqual(int(reply), number + 22)
        for reply in client.pipeline(asked[40:]):
            self.assertEqual(tallyd.pairs(reply)["like"], 2)
        for name, number in zip(names, range(40)):
            self.assertEqual(client.call("INCR", name), number + 23)
        for item in items:
            self.assertEqual(client.call("LIKE", item, "cid"), 1)
            self.assertEqual(client.call("GET", f"{item}/like"), "3")
        server.wait_message("counted anew from the log before anybody is served", 5)
        # The rows are right, too.
        server.stop()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_too_many_rows_that_were_changed_by_hand_refuse_the_start(self):
        server = self.server("--flush-interval", "10ms", "--audit-every", "0")
        client = self.client(server)
        for number in range(80):
            client.call("INCRBY", f"counter-{number:05}", number + 21)
        server.stop()
        server.flags[1] = "1h"
        server.start()
        client = self.client(server)
        for number in range(80):
            client.call("INCR", f"counter-{number:05}")
        server.kill()
        base = sqlite3.connect(os.path.join(server.data, "tally.db"), timeout=20)
        base.execute("UPDATE entries SET value = 555")
        base.commit()
        base.close()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1)
        self.assertIn("damage: 70 rows more", checked.stdout)
        self.assertEqual(server.start_fails(), 1)
        self.assertRegex(server.messages(), "cannot start: .*rows of the store .*move it away")


class FalsifiedRows(postgres.Case):
    """Rows of PostgreSQL that somebody has changed, by one statement each."""

    def test_they_are_counted_anew_before_anybody_sees_them(self):
        server = self.tally()
        client = self.client(server)
        client.pipeline([("INCRBY", f"counter-{i}", i + 100) for i in range(20)])
        client.pipeline([("LIKE", "video1", f"user{i}") for i in range(5)])
        self.wait_until_stored(client)
        server.stop()
        self.postgres.query("UPDATE entries SET value = 555 WHERE id = 'counter-3'")
        self.postgres.query("UPDATE entries SET value = 555, checksum = NULL "
                            "WHERE id = 'counter-4'")
        self.postgres.query("UPDATE counts SET count = 555")
        server.start()
        listed = self.listed(server)
        self.assertEqual(len(listed), 20)
        for name, right in (("counter-3", "103"), ("counter-4", "104")):
            self.assertIn((listed[name]["value"], "problem" in listed[name]),
                          ((None, True), (right, False)))
        client = self.client(server)
        for name, right in (("counter-3", "103"), ("counter-4", "104"), ("video1/like", "5")):
            self.wait_right(client, name, right)
        server.wait_message("is not what was written there", 5)
        self.assertEqual(client.call("INCR", "counter-3"), 104)
        self.assertEqual(client.call("LIKE", "video1", "user3"), 0)
        self.wait_value(server, "counter-3", 104)
        self.wait_value(server, "video1/like", 5)
        self.assertEqual(self.one(server, "SELECT count(*) FROM entries e "
                                          "WHERE checksum <> entries_checksum(e)"), 0)
        self.assertEqual(self.one(server, "SELECT count(*) FROM counts c "
                                          "WHERE checksum <> counts_checksum(c)"), 0)

    def test_what_makes_no_sense_or_is_of_another_life_is_counted_anew(self):
        server = self.tally()
        client = self.client(server)
        client.pipeline([("INCRBY", f"counter-{i}", i + 100) for i in range(3)])
        client.call("LIKE", "video1", "ann")
        client.call("LIKE", "video2", "ann")
        self.wait_until_stored(client)
        server.stop()
        self.postgres.query("UPDATE entries SET settings = '{abc' "
                            "WHERE id IN ('counter-1', 'video1')")
        self.postgres.query("UPDATE entries SET incarnation = 1000000 "
                            "WHERE id IN ('counter-2', 'video2')")
        server.start()
        client = self.client(server)
        for name, right in (("counter-1", "101"), ("counter-2", "102"), ("video1/like", "1"),
                            ("video2/like", "1")):
            self.wait_right(client, name, right)
        self.assertEqual(client.call("INCR", "counter-2"), 103)
        self.wait_until_stored(client)
        self.assertEqual(self.one(server, "SELECT count(*) FROM entries e "
                                          "WHERE checksum <> entries_checksum(e)"), 0)
        self.assertEqual(self.one(server, "SELECT count(*) FROM entries e "
                                          "WHERE incarnation > 0 OR settings IS NOT NULL"), 0)

    def listed(self, server):
        site = web.Web(server.http_port)
        self.addCleanup(site.close)
        entries = {}
        cursor = ""
        while cursor is not None:
            page = site.get("/v1/counters?match=counter-*" + (cursor and f"&cursor={cursor}")).json
            entries.update((entry["id"], entry) for entry in page["counters"])
            cursor = page["cursor"]
        return entries

    def wait_right(self, client, name, right):
        def is_right():
            try:
                value = client.call("GET", name)
            except tallyd.ReplyError:
                return False
            self.assertEqual(value, right)
            return True
        tallyd.wait_until(is_right, 60, "it is counted anew")


if __name__ == "__main__":
    tallyd.main()
