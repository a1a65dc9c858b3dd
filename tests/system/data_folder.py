"""data_folder.py - what is found in a data folder: other processes, foreign files, newer formats,
damage; and what --check and --repair make of it."""

import hashlib
import os
import sqlite3
import subprocess

import tallyd

HEADER_BYTES = 4096  # of a segment


def write_views(server, first, last):
    """One group of the log for each of them, since each waits for the one before."""
    with server.connect() as client:
        for value in range(first, last + 1):
            assert client.call("INCR", "views") == value


def wait_stored(server):
    """Until the store has everything that was written."""
    with server.connect() as client:
        tallyd.wait_until(lambda: "pipeline_lag_events:0" in client.call("INFO").splitlines(), 30,
                          "the store is as far as the log")


def tear_last_group(server):
    """As if the last group had reached the disk in part."""
    with open(server.segments()[-1], "r+b") as file:
        end = len(file.read().rstrip(b"\0"))
        file.seek(end - 40)
        file.write(bytes(40))


def all_of(folder):
    """The bytes and times of all files below it."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                found[path] = (hashlib.sha256(file.read()).hexdigest(), os.stat(path).st_mtime_ns)
    return found


def flip_bit(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


class DataFolder(tallyd.Case):
    def views(self, server):
        with server.connect() as client:
            return int(client.call("GET", "views") or 0)

    def assert_start_fails(self, server, pattern):
        self.assertEqual(server.start_fails(), 1)
        self.assertRegex(server.messages(), pattern)

    def test_a_new_folder_is_for_its_owner_only(self):
        server = self.server()
        write_views(server, 1, 1)
        for folder, _, names in os.walk(server.data):
            self.assertEqual(os.stat(folder).st_mode & 0o077, 0, folder)
            for name in names:
                self.assertEqual(os.stat(os.path.join(folder, name)).st_mode & 0o077, 0, name)

    def test_a_second_process_is_refused(self):
        server = self.server()
        write_views(server, 1, 3)
        second = self.server(start=False, data=server.data)
        self.assert_start_fails(second, "cannot start: .*in use by another process")
        for errand in ("--check", "--repair"):
            result = tallyd.run_program(errand, server.data)
            self.assertEqual(result.returncode, 1)
            self.assertIn("in use by another process", result.stderr)
        write_views(server, 4, 6)
        server.kill()
        second.start()
        self.assertEqual(self.views(second), 6)

    def test_the_folder_is_no_folder(self):
        path = os.path.join(self.folder(), "file")
        with open(path, "w", encoding="utf-8") as file:
            file.write("hello")
        self.assert_start_fails(self.server(start=False, data=path), "cannot start: .*file")
        self.assertEqual(tallyd.run_program("--check", path).returncode, 1)

    def test_a_missing_folder_is_not_made_by_looking_at_it(self):
        path = os.path.join(self.folder(), "missing")
        for errand in ("--check", "--repair"):
            result = tallyd.run_program(errand, path)
            self.assertEqual(result.returncode, 1)
            self.assertIn(path, result.stderr)
        self.assertFalse(os.path.exists(path))

    def test_foreign_files_are_left_alone(self):
        server = self.server()
        write_views(server, 1, 3)
        server.kill()
        paths = [os.path.join(server.data, name) for name in
                 ("notes.txt", "log/notes.txt", "log/000000000001.log.bak", "log/1.log")]
        for path in paths:
            with open(path, "w", encoding="utf-8") as file:
                file.write("mine")
        server.start()
        self.assertEqual(self.views(server), 3)
        self.assertEqual(server.stop(), 0)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "mine")

    def test_a_foreign_file_in_the_place_of_a_segment_is_refused(self):
        server = self.server()
        write_views(server, 1, 3)
        server.kill()
        path = server.segments()[0]
        with open(path, "w", encoding="utf-8") as file:
            file.write("a shopping list\n" * 1000)
        self.assert_start_fails(server, f"{path}: offset 0: this is not a segment of Tally's log")

    def test_a_missing_segment_is_refused(self):
        server = self.server()
        for first in (1, 4):
            write_views(server, first, first + 2)
            server.kill()
            server.start()
        server.kill()
        path = server.segments()[0]
        os.remove(path)
        self.assert_start_fails(server, f"{path}: the segment is missing")

    def test_a_newer_format_is_refused_and_left_alone(self):
        program = os.environ.get("NEWER_SEGMENT")
        self.need(program, "NEWER_SEGMENT does not name the program that ages a segment")
        server = self.server()
        write_views(server, 1, 3)
        server.kill()
        path = server.segments()[0]
        subprocess.run([program, path], check=True)
        with open(path, "rb") as file:
            before = file.read()
        self.assert_start_fails(server, f"{path}: it has format version 4")
        for errand in ("--check", "--repair"):
            result = tallyd.run_program(errand, server.data)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("format version 4", result.stderr)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_an_unfinished_write_at_the_end_is_cut_off(self):
        server = self.server("--store", "none")
        write_views(server, 1, 9)
        synced = os.path.join(server.data, "log", "synced")
        with open(synced, "rb") as file:
            before = file.read()
        write_views(server, 10, 10)
        server.kill()
        path = server.segments()[-1]
        with open(path, "r+b") as file:  # as if the last group had reached the disk in part,
            end = len(file.read().rstrip(b"\0"))
            file.seek(end - 40)
            file.write(bytes(40))
        with open(synced, "wb") as file:  # and the process had died before the sync
            file.write(before)
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("unfinished write", checked.stdout)
        server.start()
        self.assertIn("cut an unfinished write off", server.messages())
        self.assertEqual(self.views(server), 9)

    def test_a_flipped_bit_in_the_last_group_is_damage(self):
        for synced_known in (True, False):  # False: a power cut was quicker
            server = self.server("--store", "none")
            write_views(server, 1, 10)
            server.kill()
            path = server.segments()[-1]
            with open(path, "rb") as file:
                end = len(file.read().rstrip(b"\0"))
            if not synced_known:
                os.remove(os.path.join(server.data, "log", "synced"))
            for offset in (end - 3, end - 100):
                flip_bit(path, offset)
                checked = tallyd.run_program("--check", server.data)
                self.assertEqual(checked.returncode, 1)
                self.assertRegex(checked.stdout, rf"damage: {path}: offset \d+")
                self.assert_start_fails(server, rf"{path}: offset \d+")
                flip_bit(path, offset)
            server.start()
            self.assertEqual(self.views(server), 10)
            server.kill()

    def test_a_flipped_bit_in_the_last_group_is_damage_though_the_store_has_it(self):
        for synced_known in (True, False):
            server = self.server("--flush-interval", "10ms")
            write_views(server, 1, 10)
            wait_stored(server)
            server.kill()
            path = server.segments()[-1]
            with open(path, "rb") as file:
                end = len(file.read().rstrip(b"\0"))
            if not synced_known:
                os.remove(os.path.join(server.data, "log", "synced"))
            for offset in (end - 3, end - 100):
                flip_bit(path, offset)
                checked = tallyd.run_program("--check", server.data)
                self.assertEqual(checked.returncode, 1)
                self.assertRegex(checked.stdout, rf"damage: {path}: offset \d+")
                self.assert_start_fails(server, rf"{path}: offset \d+")
                flip_bit(path, offset)
            checked = tallyd.run_program("--check", server.data)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            server.start()
            self.assertEqual(self.views(server), 10)
            server.kill()

    def test_a_log_that_ends_before_its_store_is_not_called_sound(self):
        server = self.server("--flush-interval", "10ms")
        write_views(server, 1, 10)
        wait_stored(server)
        server.kill()
        tear_last_group(server)
        os.remove(os.path.join(server.data, "log", "synced"))  # a power cut was quicker
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1, checked.stdout)
        self.assertRegex(checked.stdout, "damage: .*the store")
        self.assert_start_fails(server, "cannot start: .*the store .*move the store away")
        # A repair has nothing to cut off the log, and leaves the store alone.
        before = all_of(server.data)
        repaired = tallyd.run_program("--repair", server.data)
        self.assertEqual(repaired.returncode, 1, repaired.stdout)
        self.assertRegex(repaired.stdout, "there is nothing to repair(.|\n)*move it away")
        self.assertEqual(all_of(server.data), before)
        # Without the store it is an unfinished write, and the store is made anew.
        for name in os.listdir(server.data):
            if name.startswith("tally.db"):
                os.remove(os.path.join(server.data, name))
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertRegex(checked.stdout, "unfinished write(.|\n)*there is no store yet")
        server.start()
        self.assertEqual(self.views(server), 9)

    def test_a_repair_says_that_the_store_has_what_was_cut_off(self):
        server = self.server("--flush-interval", "10ms")
        write_views(server, 1, 10)
        wait_stored(server)
        self.assertEqual(server.stop(), 0)
        flip_bit(server.segments()[0], HEADER_BYTES + 500)
        repaired = tallyd.run_program("--repair", server.data)
        self.assertEqual(repaired.returncode, 1, repaired.stdout)
        self.assertRegex(repaired.stdout, "the log ends before the damage now(.|\n)*move it away")
        self.assert_start_fails(server, "move the store away")
        for name in os.listdir(server.data):
            if name.startswith("tally.db"):
                os.remove(os.path.join(server.data, name))
        repaired = tallyd.run_program("--repair", server.data)
        self.assertEqual(repaired.returncode, 0, repaired.stdout)
        server.start()
        self.assertLess(self.views(server), 10)

    def test_a_damaged_store_is_not_called_sound(self):
        server = self.server("--flush-interval", "10ms")
        write_views(server, 1, 10)
        self.assertEqual(server.stop(), 0)
        path = os.path.join(server.data, "tally.db")
        for page in range(os.path.getsize(path) // 4096):
            flip_bit(path, page * 4096 + 1000)
            checked = tallyd.run_program("--check", server.data)
            self.assertEqual(checked.returncode, 1, f"page {page + 1}: {checked.stdout}")
            self.assertRegex(checked.stdout,
                             rf"damage: {path}: page {page + 1} at offset {page * 4096}")
            flip_bit(path, page * 4096 + 1000)
        with open(path, "r+b") as file:
            file.write(b"a shopping list")
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1)
        self.assertIn(path, checked.stderr)
        self.assert_start_fails(server, f"the store {path}")
        # It is made anew from the log, and nobody has to look at it.
        checked = tallyd.run_program("--check", server.data, "--store", "none")
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_looking_changes_nothing(self):
        for ends in ("stop", "kill"):  # with and without a WAL
            server = self.server("--flush-interval", "10ms")
            write_views(server, 1, 10)
            wait_stored(server)
            getattr(server, ends)()
            before = all_of(server.data)
            checked = tallyd.run_program("--check", server.data)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            self.assertRegex(checked.stdout, r"tally\.db: \d+ pages are sound")
            self.assertRegex(checked.stdout, r"tally\.db: it has the log up to segment \d+, offset")
            self.assertEqual(all_of(server.data), before)

    def test_a_store_that_another_program_has_written_is_no_damage(self):
        server = self.server("--flush-interval", "10ms")
        write_views(server, 1, 10)
        wait_stored(server)
        server.kill()
        # It carries the WAL over, and its pages have no checksums.
        base = sqlite3.connect(os.path.join(server.data, "tally.db"))
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        base.close()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        self.assertIn("another program has written to it", checked.stdout)
        server.start()
        self.assertEqual(self.views(server), 10)
        server.stop()
        base = sqlite3.connect(os.path.join(server.data, "tally.db"))
        base.execute("UPDATE entries SET value = 11 WHERE id = 'views'")
        base.commit()
        base.execute("VACUUM")
        base.close()
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, "damage: .*the row of .views. is not what was written")

    def test_damage_to_what_the_store_has_is_found_while_it_runs(self):
        server = self.server()
        write_views(server, 1, 10)
        self.assertEqual(server.stop(), 0)
        server.start()
        write_views(server, 11, 12)
        self.assertEqual(server.stop(), 0)
        path = server.segments()[0]
        with open(path, "rb") as file:
            end = len(file.read().rstrip(b"\0"))
        flip_bit(path, end - 500)
        server.start()
        self.assertEqual(self.views(server), 12)

        client = self.client(server)
        def damaged():
            return "log_damaged_segments:1" in client.call("INFO").splitlines()
        tallyd.wait_until(damaged, 20, "the damage is found")
        self.assertRegex(server.messages(), rf"the log is damaged .*{path}: offset \d+")
        write_views(server, 13, 14)

    def test_a_lost_last_segment_is_missed(self):
        server = self.server("--store", "none")
        write_views(server, 1, 10)
        server.kill()
        path = server.segments()[-1]
        os.remove(path)
        self.assert_start_fails(server, f"{path}: the segment is missing")

    def test_a_flipped_bit_in_the_middle_is_found_named_and_repaired_on_demand(self):
        server = self.server("--store", "none")  # which would have what the log has lost
        write_views(server, 1, 10)
        server.kill()
        server.start()
        write_views(server, 11, 20)
        self.assertEqual(server.stop(), 0)

        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("20 events are sound", checked.stdout)
        self.assertIn("closed in order", checked.stdout)

        path = server.segments()[0]
        flip_bit(path, HEADER_BYTES + 500)
        where = rf"{path}: offset \d+"
        self.assert_start_fails(server, where)
        checked = tallyd.run_program("--check", server.data)
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stdout, "damage: " + where)
        self.assertRegex(checked.stderr, where)
        self.assert_start_fails(server, where)  # looking has changed nothing

        repaired = tallyd.run_program("--repair", server.data)
        self.assertEqual(repaired.returncode, 0, repaired.stderr)
        self.assertRegex(repaired.stdout, r"segment 1: cut from offset \d+ on, with \d+ sound")
        self.assertRegex(repaired.stdout, "segment 2: cut from offset 0 on, with .*10 events")
        self.assertIn("the log ends before the damage now", repaired.stdout)
        self.assertTrue(os.path.exists(path + ".cut"))

        server.start()
        views = self.views(server)
        self.assertTrue(0 < views < 10, views)
        write_views(server, views + 1, views + 5)
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(self.views(server), views + 5)
        self.assertEqual(server.stop(), 0)
        again = tallyd.run_program("--repair", server.data)
        self.assertEqual(again.returncode, 0)
        self.assertIn("there is nothing to repair", again.stdout)

    def test_a_flipped_bit_in_a_header_is_found(self):
        server = self.server()
        write_views(server, 1, 3)
        server.kill()
        path = server.segments()[0]
        flip_bit(path, 24)
        self.assert_start_fails(server, f"{path}: offset 0: the header's checksum does not match")


if __name__ == "__main__":
    tallyd.main()
