"""cli_terminal.py - the tally command in a real terminal: tmux plays the person in front of it."""

import os
import re
import subprocess

import cli_rig
import tallyd


class Terminal:
    """A terminal of its own, with a shell in it."""

    def __init__(self, case, env, columns=100, rows=30):
        self.case = case
        self.socket = os.path.join(case.home, "tmux")
        self.env = env
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "env PS1='shell> ' bash --norc --noprofile")
        case.addCleanup(self.end)
        self.wait(r"shell>$")

    def tmux(self, *args):
        result = subprocess.run(["tmux", "-S", self.socket, *args], env=self.env,
                                capture_output=True, text=True, timeout=30, check=False)
        self.case.assertEqual(result.returncode, 0, f"{args}: {result.stderr}")
        return result.stdout

    def end(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.env, timeout=30,
                       capture_output=True, check=False)

    def type(self, text):
        """Types as it is; no key names."""
        self.tmux("send-keys", "-l", text)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def enter(self, text):
        self.type(text)
        self.press("Enter")

    def screen(self, *flags):
        return self.tmux("capture-pane", "-p", *flags).rstrip("\n")

    def wait(self, pattern, timeout_s=20, flags=()):
        """Waits until the screen matches; returns the match."""
        seen = [""]

        def found():
            seen[0] = self.screen(*flags)
            return re.search(pattern, seen[0], re.M)

        try:
            return tallyd.wait_until(found, timeout_s, f"the screen shows {pattern!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{seen[0]}") from None


class TerminalCase(cli_rig.Case):
    def setUp(self):
        super().setUp()
        self.need_command("tmux")
        self.one = self.server()

    def terminal(self, **options):
        env = self.environment(self.one.port)
        env["PATH"] = os.path.dirname(cli_rig.PROGRAM) + ":" + env["PATH"]
        return Terminal(self, env, **options)


class Interactive(TerminalCase):
    def test_commands_are_typed_one_after_the_other(self):
        terminal = self.terminal()
        terminal.enter("tally")
        terminal.wait(r"help explains.*\ntally>$")
        terminal.enter("add views 41")
        terminal.wait(r"^41\ntally>$")
        terminal.enter("add views")
        terminal.wait(r"^42\ntally>$")
        terminal.enter("get nothing")
        terminal.wait(r"there is no counter nothing.*\ntally>$")
        terminal.enter("like 'my video' ann")
        terminal.wait(r"^1\ntally>$")
        terminal.enter("exit")
        terminal.wait(r"^shell>$")
        self.assertEqual(self.said("get", "my video/like"), "1\n")

    def test_tab_completes_commands_and_options(self):
        terminal = self.terminal()
        terminal.enter("tally")
        terminal.wait(r"tally>$")
        terminal.type("undis")
        terminal.press("Tab")
        terminal.wait(r"tally> undislike *$")
        terminal.press("C-u")
        terminal.type("un")
        terminal.press("Tab")
        terminal.wait(r"unlike  undislike  unreact\s*\ntally> un$")
        terminal.press("C-u")
        terminal.type("add x --ke")
        terminal.press("Tab")
        terminal.wait(r"tally> add x --key *$")
        terminal.press("C-u")
        terminal.type("import --r")
        terminal.press("Tab")
        terminal.wait(r"tally> import --res$")
        terminal.press("Tab")
        terminal.wait(r"--resume  --restart\s*\ntally> import --res$")
        terminal.press("C-u")
        terminal.press("C-d")
        terminal.wait(r"^shell>$")

    def test_history_outlives_the_program(self):
        terminal = self.terminal()
        terminal.enter("tally")
        terminal.wait(r"tally>$")
        terminal.enter("add first 11")
        terminal.wait(r"^11\ntally>$")
        terminal.enter("exit")
        terminal.wait(r"^shell>$")
        path = os.path.join(self.home, ".local/state/tally/history")
        self.assertEqual(os.stat(path).st_mode & 0o077, 0)
        terminal.enter("clear; tally")
        terminal.wait(r"tally>$")
        terminal.press("Up")
        terminal.wait(r"tally> exit$")
        terminal.press("Up")
        terminal.wait(r"tally> add first 11$")
        terminal.press("Enter")
        terminal.wait(r"^22\ntally>$")
        terminal.press("C-r")
        terminal.type("fir")
        terminal.wait(r"add first 11")
        terminal.press("Enter")
        terminal.wait(r"^33\ntally>$")

    def test_ctrl_c_gives_up_the_line_and_not_the_program(self):
        terminal = self.terminal()
        terminal.enter("tally")
        terminal.wait(r"tally>$")
        terminal.type("add never 5")
        terminal.wait(r"add never 5$")
        terminal.press("C-c")
        terminal.wait(r"never 5\S*\n+tally>$")
        terminal.enter("add other 7")
        terminal.wait(r"^7\ntally>$")
        self.tally("get", "never", code=5)

    def test_what_cannot_be_undone_is_asked_for(self):
        self.said("add", "draft")
        terminal = self.terminal()
        terminal.enter("tally delete draft; echo code=$?")
        terminal.wait(r"are you sure\? \[y/N\]")
        terminal.enter("n")
        terminal.wait(r"nothing was done\ncode=2")
        terminal.enter("tally delete draft; echo code=$?")
        terminal.wait(r"are you sure\? \[y/N\]$")
        terminal.enter("y")
        terminal.wait(r"^1\ncode=0")

    def test_colours_only_where_they_are_wanted(self):
        self.said("add", "views")
        terminal = self.terminal()
        terminal.enter("tally list")
        terminal.wait(r"^views +1")
        self.assertIn("\x1b[1m", terminal.screen("-e").split("tally list", 1)[1])
        terminal.enter("clear; NO_COLOR=1 tally list; echo end")
        terminal.wait(r"^end")
        self.assertNotIn("\x1b[1m", terminal.screen("-e"))


class Watch(TerminalCase):
    def test_a_live_table_that_leaves_the_terminal_as_it_was(self):
        self.said(given="add video1:views 5\nadd other 1\n")
        terminal = self.terminal()
        terminal.enter("tally watch 'video*' --interval 0.2; echo code=$?")
        terminal.wait(r"1 counters.*\nid +value +a second +since start\nvideo1:views +5 ")
        self.said("add", "video1:views", "37")
        terminal.wait(r"^video1:views +42 +[\d.]+ +\+37")
        self.said("like", "video2", "ann")
        terminal.wait(r"^video2/like +1 ")
        self.assertNotIn("other", terminal.screen())
        self.assertEqual(terminal.tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}"),
                         "10\n")
        terminal.press("C-c")
        terminal.wait(r"code=130\nshell>$")
        self.assertEqual(terminal.tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}"),
                         "01\n")
        self.assertNotIn("since start", terminal.screen())
        terminal.enter("stty -a | grep -o -- '-\\?icanon\\|-\\?echo '")
        terminal.wait(r"^icanon\necho")

    def test_rows_are_sorted_and_fit_the_window(self):
        self.said(given="".join(f"add c{i:02} {i}\n" for i in range(50)))
        terminal = self.terminal(columns=100, rows=12)
        terminal.enter("tally watch 'c*' --interval 0.2; echo code=$?")
        terminal.wait(r"50 counters")
        terminal.wait(r"a second +since start\nc49 +49 ")
        self.assertEqual(len(re.findall(r"(?m)^c\d\d ", terminal.screen())), 9)
        terminal.press("s", "s")
        terminal.wait(r"by id.*\n.*\nc00 +0 ")
        terminal.tmux("resize-window", "-x", "80", "-y", "20")
        terminal.wait(r"(?s)c00 .*c16 ")
        self.assertLess(max(map(len, terminal.screen().split("\n"))), 80)
        terminal.press("q")
        terminal.wait(r"code=0\nshell>$")

    def test_a_rate_goes_back_to_zero(self):
        terminal = self.terminal()
        self.said("add", "views")
        terminal.enter("tally watch views --interval 0.2")
        terminal.wait(r"^views +1 +0\.0 +\+0")
        self.said("add", "views", "1000")
        terminal.wait(r"^views +1001 +[1-9][\d.]+ +\+1000")
        terminal.wait(r"^views +1001 +0\.0 +\+1000")
        terminal.press("q")
        terminal.wait(r"shell>$")


class Progress(TerminalCase):
    def test_bars_on_long_work(self):
        terminal = self.terminal()
        terminal.enter("tally bench --seconds 2; echo code=$?")
        terminal.wait(r"^bench \[#+-+\] +\d+%  \d+ of \d+ ms")
        terminal.wait(r"^request +requests")
        terminal.wait(r"^code=0")
        self.assertNotIn("[#", terminal.screen())

    def test_a_bar_while_an_import_goes_on(self):
        terminal = self.terminal()
        # The pipe stays open, so that the import cannot be over before it was seen.
        terminal.enter("(echo '{\"counter\":\"a\",\"value\":7}'; sleep 600) | tally import")
        terminal.wait(r"^import  \d+ bytes, \d+/s")
        terminal.press("C-c")
        terminal.wait(r"shell>$")
        terminal.enter("clear; echo '{\"counter\":\"a\",\"value\":7}' | tally import --quiet")
        terminal.wait(r"^1 lines: 1 counters")

    def test_a_recount_of_all_is_followed(self):
        with self.one.connect() as client:
            client.pipeline([("INCR", f"c{i}") for i in range(5000)])
        terminal = self.terminal()
        terminal.enter("tally recount --all; echo code=$?")
        terminal.wait(r"^5000 counted anew, 0 differ\ncode=0")


if __name__ == "__main__":
    tallyd.main()
