"""store_damage.py - flipped bits in tally.db, and rows that were changed by hand: nothing that is
answered is ever wrong, the damage is named, and one command brings the store back."""

import os
import random
import sqlite3

import tallyd

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


if __name__ == "__main__":
    tallyd.main()
