#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""top - `redlatch top`: who holds and waits is on the screen, sorted and filtered; a holder is evicted after a
question; a server that hangs, is gone and comes back freezes nothing; the terminal is given back at every end."""

import fcntl
import json
import os
import re
import signal
import struct
import sys
import termios

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from terminal import Screen, Terminal

UUID = "9f1c8a54-0000-4000-8000-0123456789ab"
OTHER = "66666666-7777-8888-9999-000000000000"
FAST = ("--interval", "100ms")
FIELDS = {"age_ms", "error", "masters", "locks"}
LOCK_FIELDS = {"name", "name_hex", "type", "state", "holders", "holder", "waiters", "held_ms", "ttl_ms",
               "changes_per_s"}
MASTER_FIELDS = {"server", "error", "keys", "now_ms", "round_trip_us"}


class Case(support.Case):
    def foreign(self, name, n=1, uuid=UUID, ms=600000):
        """A lock as a Redisson process holds it."""
        self.server.redis("HSET", name, "%s:%d" % (uuid, n), 1)
        self.server.redis("PEXPIRE", name, ms)

    def top(self, *arguments, **options):
        return Screen(self, "top", *FAST, *arguments, **options)

    @staticmethod
    def names(screen):
        """Of the list, from its first line on."""
        head = next((i for i, line in enumerate(screen.lines) if line.endswith(" NAME")), None)
        rows = screen.lines[head + 1:-1] if head is not None else []
        return [line.split()[-1] for line in rows if line]

    def shows_names(self, screen, *names):
        screen.until(lambda screen: self.names(screen) == list(names), "it lists %s" % " ".join(names))

    def assert_quits(self, screen, status=0):
        screen.key("q")
        self.assertEqual(screen.status(), status, screen.said[-500:])


class Batch(Case):
    def test_once_is_a_table_without_a_terminal(self):
        self.hold("job:1")
        self.foreign("job:2")
        result = self.redlatch("top", "--once")
        self.assertEqual((result.code, result.err), (0, ""), result)
        lines = result.out.splitlines()
        self.assertRegex(lines[0], r"^redlatch top: .*, round trip \d+\.\d ms, \d+ keys?, \d{4}-.* UTC$")
        self.assertEqual(lines[1], "2 locks, 2 held, 0 wait for 0; by waiters")
        self.assertEqual(lines[2], "up to date")
        self.assertEqual(lines[3].split(), ["TYPE", "STATE", "HOLDER", "SINCE", "LEFT", "WAIT", "CHG/S", "NAME"])
        self.assertEqual([line.split()[-1] for line in lines[4:-1]], ["job:1", "job:2"])
        self.assertEqual(lines[-1], "")
        self.gate.send()

    def test_rounds_are_counted_and_a_pattern_says_which(self):
        self.foreign("job:1")
        self.foreign("cron:1")
        result = self.redlatch("top", *FAST, "-b", "-n", "3", "job:*")
        self.assertEqual((result.code, result.out.count("redlatch top: "), result.out.count(" job:1\n")), (0, 3, 3))
        self.assertNotIn("cron:1", result.out)

    def test_the_fields_are_the_documented_ones(self):
        self.foreign("job:1")
        result = self.redlatch("top", "--once", "--json")
        self.assertEqual((result.code, result.err), (0, ""), result)
        round_ = json.loads(result.out)
        self.assertEqual(set(round_), FIELDS)
        self.assertEqual(set(round_["locks"][0]), LOCK_FIELDS)
        self.assertEqual(set(round_["masters"][0]), MASTER_FIELDS)
        with open(os.path.join(support.TOP, "tools", "redlatch.1")) as f:
            section = f.read().split(".Ss redlatch top")[1].split(".Ss")[0]
        for field in FIELDS | LOCK_FIELDS | MASTER_FIELDS:
            self.assertIn(field, section)

    def test_names_of_any_bytes_are_shown_as_a_terminal_bears_them(self):
        name = b"job\x1b[31m\x00\xff"
        self.server.redis("HSET", name, UUID + ":1", 1)
        self.assertIn("job\\x1b[31m\\x00\\xff\n", self.redlatch("top", "--once").out)
        screen = self.top(columns=120)
        screen.shows("job\\x1b[31m\\x00\\xff")
        screen.key("u")
        screen.shows("Evict this holder?")
        screen.key("y")
        screen.shows("evicted %s:1" % UUID)
        self.assertFalse(self.server.exists(name))
        self.assert_quits(screen)

    def test_changes_of_holder_are_counted(self):
        process = self.start("top", *FAST, "--batch", "--json")
        for n in range(1, 100):
            self.foreign("job:1", n)
            locks = json.loads(process.stdout.readline())["locks"]
            if locks and locks[0]["changes_per_s"] > 0:
                break
            self.server.redis("DEL", "job:1")
        self.assertGreater(locks[0]["changes_per_s"], 0)

    def test_rounds_go_on_while_a_server_is_away(self):
        process = self.start("top", *FAST, "--batch", "--json")
        self.assertIsNone(json.loads(process.stdout.readline())["error"])
        self.server.kill()
        while json.loads(process.stdout.readline())["error"] is None:
            pass
        self.server.start()
        self.foreign("x")
        while not json.loads(process.stdout.readline())["locks"]:
            pass
        self.assertIsNone(process.poll())

    def test_a_cluster_is_looked_at_as_a_whole(self):
        reserved, port = support.free_port()
        self.addCleanup(reserved.close)
        node = support.Server("--port", str(port), "--bind", "127.0.0.1", "--cluster-enabled", "yes")
        self.addCleanup(node.stop)
        node.redis("CLUSTER", "ADDSLOTS", *range(16384))
        support.until(lambda: b"cluster_state:ok" in node.redis("CLUSTER", "INFO"), "the cluster is up")
        for i in range(20):
            node.redis("HSET", "job:%d" % i, UUID + ":1", 1)
        result = self.redlatch("top", *FAST, "-b", "-n", "2", env={"REDLATCH_SERVER": "cluster://127.0.0.1:%d" % port})
        self.assertEqual((result.code, result.out.count("\n20 locks, 20 held")), (0, 2), result)

    def test_what_it_cannot_do_is_said(self):
        self.assert_says(self.redlatch("top", env={"TERM": "vt100"}), 64, "this is no terminal: --once")
        self.assert_says(self.redlatch("top", "--once", "a", "b"), 64, "one PATTERN is wanted")
        self.assert_says(self.redlatch("top", "--interval", "1ms"), 64, "the least is 100 ms")
        self.assert_says(self.redlatch("top", "-n", "0", "-b"), 64, "--rounds")
        self.assert_says(self.redlatch("top", "--once", "--server", "unix:/nowhere"), 69, "/nowhere")
        with open("/dev/full", "w") as full:
            self.assert_says(self.redlatch("top", "--once", stdout=full), 70, "No space left on device")
        for terminal in "no-such-terminal", "dumb", None:
            screen = Terminal(self, "top", env={"TERM": terminal})
            self.assertEqual(screen.status(), 64, screen.said)
            self.assertIn("--once", screen.said)
            self.assertNotIn("\x1b", screen.said)

    def test_a_closed_pipe_ends_it_quietly(self):
        process = self.start("top", *FAST, "--batch")
        process.stdout.readline()
        process.stdout.close()
        self.assertIn(process.wait(support.BOUND_S), (-13, 141))
        self.assertEqual(process.stderr.read(), b"")

    def test_a_user_who_may_not_is_told_what_is_missing(self):
        self.server.redis("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-scan")
        result = self.redlatch("top", "--once", env={"REDLATCH_SERVER": "unix://blind:secret@" + self.server.path})
        self.assert_says(result, 70, "docs/acl.md, Inspection")


class OnScreen(Case):
    def test_who_holds_and_who_waits_is_shown(self):
        process = self.hold("job:1")
        self.foreign("aaa")
        waiter = self.start("run", "job:1", "--", "true")
        self.wait_for_waiters("job:1")
        support.until(self.server.described, "it says who it is")
        screen = self.top(columns=200)  # a path and what is behind it
        screen.shows("2 locks, 2 held, 1 wait for 1; by waiters", "round trip ")
        self.shows_names(screen, "job:1", "aaa")
        line = next(line for line in screen.lines if line.endswith("job:1"))
        self.assertIn(" %d " % process.pid, line)
        screen.key("\n")
        screen.shows("name      job:1", "waiters   1", "holder    ")
        screen.key("q")
        self.gate.send()
        self.assertEqual((self.result(process).code, self.result(waiter).code), (0, 0))
        screen.shows("1 held, 0 wait for 0")
        self.assert_quits(screen)

    def test_order_and_pattern_are_typed(self):
        self.foreign("a1", ms=300000)
        self.foreign("b1", ms=200000)
        self.foreign("b2", ms=100000)
        screen = self.top()
        self.shows_names(screen, "a1", "b1", "b2")
        screen.key("l")
        self.shows_names(screen, "b2", "b1", "a1")
        screen.key("n")
        screen.key("r")
        screen.shows("by name, reversed")
        self.shows_names(screen, "b2", "b1", "a1")
        screen.key("/b")
        screen.shows("Pattern: b_")
        self.shows_names(screen, "b2", "b1")
        screen.key("\x7f?1\n")
        screen.shows("; only ?1")
        self.shows_names(screen, "b1", "a1")
        screen.key("/\x1b")
        self.shows_names(screen, "b2", "b1", "a1")
        screen.key("?")
        screen.shows("evict who holds it")
        screen.key("q")
        self.shows_names(screen, "b2", "b1", "a1")
        self.assert_quits(screen)

    def test_the_holder_that_is_shown_is_evicted_after_a_yes(self):
        for name in "x1", "x2", "x3":
            self.foreign(name)
        process = self.hold("victim", "--lease", "1h", "--grace", "0",
                            command='trap "" TERM; echo held >"$EVENTS"; sleep 600')
        support.until(lambda: self.server.redis("PUBSUB", "CHANNELS", "redlatch_lost:*"), "it listens")
        waiter = self.start("run", "victim", "--", "echo", "mine")
        self.wait_for_waiters("victim")
        screen = self.top(env={"NO_COLOR": "1"})
        self.shows_names(screen, "victim", "x1", "x2", "x3")
        screen.key("u")
        screen.shows("name      victim", "Evict this holder? [y/N]")
        screen.key("n")
        screen.shows("nothing was done")
        self.assertIsNone(process.poll())
        screen.key("u")
        screen.shows("Evict this holder? [y/N]")
        screen.key("y")
        screen.shows("evicted ")
        self.assert_result(self.result(waiter), 0, "mine\n")
        self.assert_says(self.result(process), 75, "lost 'victim'")
        self.assert_free("victim")
        self.assertEqual(len(self.server.keys()), 3)
        self.assert_quits(screen)

    def test_who_took_the_lock_while_it_was_asked_keeps_it(self):
        self.foreign("x")
        screen = self.top()
        self.shows_names(screen, "x")
        screen.key("u")
        screen.shows("Evict this holder? [y/N]")
        self.server.redis("DEL", "x")
        self.foreign("x", uuid=OTHER)
        screen.key("y")
        screen.shows("no longer holds it: nothing was done")
        self.assertEqual(self.server.redis("HKEYS", "x"), [(OTHER + ":1").encode()])
        self.assert_quits(screen)

    def test_what_is_selected_stays_selected_when_the_order_changes(self):
        for name in "a", "b", "c":
            self.foreign(name)
        screen = self.top()
        self.shows_names(screen, "a", "b", "c")
        screen.key("j")
        screen.key("r")
        self.shows_names(screen, "c", "b", "a")
        self.foreign("d")
        screen.shows("4 locks")
        screen.key("\n")
        screen.shows("name      b")
        self.assert_quits(screen.key("q") or screen)

    def test_a_lock_that_comes_and_goes_is_seen(self):
        screen = self.top()
        screen.shows("0 locks")
        self.foreign("x")
        screen.shows("1 lock, 1 held")
        self.shows_names(screen, "x")
        self.server.redis("DEL", "x")
        screen.shows("1 lock, 0 held")
        screen.shows("0 locks")
        self.assert_quits(screen)

    def test_a_pause_is_one(self):
        screen = self.top()
        screen.shows("up to date", "0 locks")
        screen.key("p")
        screen.shows("paused")
        self.foreign("x")
        ages, calls = [], []

        def asks_nothing(screen):
            """From one age on the screen to the next; a round may have been under way before."""
            age = re.search(r"paused, (\d+) s old", screen.text)
            if age and age[1] not in ages:
                ages.append(age[1])
                calls.append(self.calls())
            return len(calls) > 1 and calls[-1] - calls[-2] == 1  # the question how many there were

        screen.until(asks_nothing, "a second goes by in which it asks nothing")
        self.assertIn("0 locks", screen.text)
        screen.key("p")
        screen.shows("1 lock,")
        self.assert_quits(screen)

    def calls(self):
        return int(self.server.redis("INFO", "stats").split(b"total_commands_processed:")[1].split()[0])

    def test_more_locks_than_lines_are_scrolled(self):
        for i in range(40):
            self.foreign("job:%02d" % i)
        screen = self.top(rows=10)
        screen.shows("40 locks", "job:00")
        screen.key("G")
        screen.shows("job:39")
        screen.key("k")
        screen.key("\n")
        screen.shows("name      job:38")
        screen.key("q")
        screen.shows("job:38")
        self.assert_quits(screen)


class Trouble(Case):
    def age(self, screen):
        found = re.search(r"^(\d+) s old", screen.text, re.M)
        return int(found[1]) if found else 0

    def test_a_server_that_hangs_freezes_nothing(self):
        self.foreign("x1")
        self.foreign("x2")
        screen = self.top(columns=200)  # a path and what is wrong with it
        self.shows_names(screen, "x1", "x2")
        with self.server.paused():
            ages = set()
            screen.until(lambda screen: ages.add(self.age(screen)) or any(age > 2 and age + 1 in ages for age in ages),
                         "it becomes older each second")  # a question takes three
            screen.key("r")
            self.shows_names(screen, "x2", "x1")
            screen.shows("no answer within")
            screen.key("\n")
            screen.shows("asking the server")
        screen.shows("name      x")
        screen.key("q")
        screen.shows("up to date")
        self.assert_quits(screen)

    def test_quitting_waits_for_no_server(self):
        self.foreign("x")
        screen = self.top()
        self.shows_names(screen, "x")
        with self.server.paused():
            screen.key("\n")
            screen.shows("asking the server")
            with support.Pace() as pace:
                self.assert_quits(screen)
            self.assertLess(pace.seconds, 1.5)  # a question takes three, an end 0.3

    def test_a_server_that_is_gone_is_back(self):
        self.foreign("x")
        screen = self.top()
        self.shows_names(screen, "x")
        self.server.kill()
        screen.until(lambda screen: any(" s old: " in line for line in screen.lines), "it says why it is old")
        self.server.start()
        self.foreign("y")
        screen.shows("up to date")
        screen.until(lambda screen: "y" in self.names(screen), "y is listed")
        self.assert_quits(screen)

    def test_signals_give_the_terminal_back(self):
        for signo in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            screen = self.top()
            screen.shows("0 locks")
            os.kill(screen.pid, signo)
            self.assertEqual(screen.status(), 128 + signo)
            self.assertIn("\x1b[?1l", screen.said[-80:])  # the keys are as they were

    def test_signals_end_it_where_the_terminal_takes_nothing_more(self):
        """Nobody reads there, or Ctrl-S has stopped it."""
        for stopped in False, True:
            screen = self.top()
            screen.shows("0 locks")
            if stopped:
                screen.key("\x13")
            self.is_stuck(screen)
            os.kill(screen.pid, signal.SIGTERM)
            self.assertTrue(support.until(lambda: os.waitid(os.P_PID, screen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT),
                                          "it ends"))
            self.assertTrue(termios.tcgetattr(screen.fd)[3] & termios.ECHO)
            screen.said = ""
            self.assertEqual(screen.status(), 128 + signal.SIGTERM)
            self.assertIn("\x1b[?1l", screen.said[-80:])

    @staticmethod
    def is_stuck(screen):
        """It is painted again and again without being read, until a write to it does not end."""
        rounds = {"all": 0, "stuck": 0}

        def once():
            with open("/proc/%d/syscall" % screen.pid) as syscall:
                words = syscall.read().split()
            rounds["all"] += 1
            rounds["stuck"] = rounds["stuck"] + 1 if words[1:2] == ["0x1"] else 0  # the first argument
            fcntl.ioctl(screen.fd, termios.TIOCSWINSZ,
                        struct.pack("HHHH", screen.rows - rounds["all"] % 2, screen.columns, 0, 0))
            return rounds["stuck"] > 50

        support.until(once, "the terminal takes no more")

    def test_a_stop_gives_the_terminal_back_and_a_continue_takes_it(self):
        """In a shell, which is who continues it."""
        line = 'stty -g; set -m; "$0" top --interval 100ms; stty -g; echo stopped; read _; fg; echo ended $?; stty -g'
        screen = Screen(self, "-c", line, support.REDLATCH, program="/bin/sh")
        screen.shows("0 locks", "q quit")
        screen.key("\x1a")
        screen.expect("stopped\r\n")
        screen.clear()
        screen.key("go on\n")
        screen.shows("0 locks", "q quit")
        screen.key("q")
        screen.expect("ended 0")
        self.assertEqual(screen.status(), 0)
        modes = re.findall(r"^[0-9a-f]+(?::[0-9a-f]+)+", screen.said.replace("\r", ""), re.M)
        modes += re.findall(r"(?<=[^0-9a-f:\n])[0-9a-f]+(?::[0-9a-f]+){20,}", screen.said)
        self.assertEqual((len(modes), len(set(modes))), (3, 1), modes)

    def test_colours_are_used_where_they_are_wanted(self):
        self.foreign("x")
        for wanted, env in (True, {"NO_COLOR": None}), (True, {"NO_COLOR": ""}), (False, {"NO_COLOR": "1"}):
            terminal = Terminal(self, "top", *FAST, columns=80, env=dict(env, TERM="xterm-256color"))
            terminal.expect("9f1c8a54")
            os.write(terminal.fd, b"q")
            self.assertEqual(terminal.status(), 0)
            self.assertEqual(bool(re.search(r"\x1b\[(?:[0-9]+;)*3[0-7][;m]", terminal.said)), wanted, terminal.said)

    def test_any_size_is_a_size(self):
        self.foreign("a-name-that-is-longer-than-some-terminals-are-wide:" + "x" * 100)
        self.foreign("short")
        screen = self.top(columns=20, rows=5)
        screen.shows("short", "…")
        self.assertIn("2 locks, 2 held", screen.lines[0])
        screen.key("\n")
        screen.shows("name      ")
        screen.key("q")
        for columns, rows in (80, 24), (1, 1), (3, 2), (300, 100), (20, 5), (80, 24):
            screen.resize(columns, rows)
            if columns >= 20:
                screen.shows("short", "2 locks, 2 held")
        self.assert_quits(screen)


if __name__ == "__main__":
    support.main(sys.argv[1:])
