#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""manners - how the command speaks to people: help by topic, what was meant by a misspelt word, what is shown while
somebody waits, and where it is quiet."""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from terminal import Terminal


class Help(support.Case):
    def said(self, *arguments):
        result = self.redlatch(*arguments)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result.out

    def test_each_topic_is_listed_and_has_its_help(self):
        listed = dict(re.findall(r"^    ([a-z]+) +(.*)$", self.said("help"), re.M))
        self.assertEqual(list(listed), ["command", "environment", "servers", "statuses", "times", "types"])
        self.assertEqual(dict(re.findall(r"^    ([a-z]+) +(.*)$", self.said("help", "--help"), re.M)), listed)
        for topic in listed:
            text = self.said("help", topic)
            self.assertEqual(self.said("--help", topic), text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_what_run_says_of_a_topic_is_what_the_topic_says(self):
        for topic in "times", "servers", "command":
            self.assertIn(self.said("help", topic), self.said("run", "--help"))

    def test_the_topics_are_whole(self):
        self.assertEqual(set(support.TYPES) - set(re.findall(r"^  (\w+) ", self.said("help", "types"), re.M)), set())
        with open(os.path.join(support.TOP, "tools", "redlatch.1")) as f:
            manual = f.read()
        statuses = set(re.findall(r"^\.It (\d+)$", manual, re.M))
        self.assertEqual(set(re.findall(r"^ +(\d+)  ", self.said("help", "statuses"), re.M)), statuses)
        variables = re.findall(r"^\.It Ev (.*)$", manual.split(".Sh ENVIRONMENT")[1].split(".Sh")[0], re.M)
        for variable in set(" ".join(variables).replace(",", "").split()) - {"PATH"}:
            self.assertIn(variable + " ", self.said("help", "environment"))

    def test_options_stand_under_what_they_are_about(self):
        headings = re.findall(r"^([A-Z][^:\n]*):$", self.said("run", "--help"), re.M)
        self.assertEqual(headings, ["How long to wait", "How long to hold it", "The server", "What is taken",
                                    "The command, and what is said", "Exit status", "Examples"])


class Misspelt(support.Case):
    def assert_meant(self, meant, *arguments):
        self.assert_says(self.redlatch(*arguments), 64, meant)

    def test_what_was_meant_is_asked(self):
        self.assert_meant("there is no subcommand 'rnu': is 'run' meant?", "rnu", "x", "true")
        self.assert_meant("there is no subcommand or topic 'sevrers': is 'servers' meant?", "help", "sevrers")
        self.assert_meant("unknown option '--wiat': is --wait meant?", "run", "--wiat", "3", "x", "true")
        self.assert_meant("unknown option '--jsno': is --json meant?", "ls", "--jsno")
        self.assert_meant("unknown option '--max-locsk': is --max-locks meant?", "exporter", "--max-locsk=3")
        self.assert_meant("--type: there is no type 'fiar': is 'fair' meant?", "run", "--type", "fiar", "x", "true")

    def test_what_may_be_several_is_said(self):
        self.assert_meant("'--in' may be --insecure or --info", "run", "--in", "x", "true")

    def test_nothing_is_guessed_from_nothing(self):
        for arguments in ["frobnicate"], ["run", "--frobnicate", "x", "true"], ["run", "--type", "write", "x", "true"]:
            result = self.redlatch(*arguments)
            self.assertEqual(result.code, 64)
            self.assertNotIn("meant", result.err)
        self.assertIn("'redlatch help types' has them", result.err)


class OneVoice(support.Case):
    COMMANDS = {"ls": [], "show": ["x"], "wait": ["x"], "unlock": ["-y", "x"], "top": ["--once"], "run": ["x", "true"],
                "doctor": [], "exporter": []}

    def test_an_address_that_is_none_is_said_in_the_same_words_by_all(self):
        for given, where in (["--server", "nonsense"], "--server"), ([], "REDLATCH_SERVER"):
            said = {self.redlatch(what, *given, *more, env={"REDLATCH_SERVER": "nonsense"}).err
                    for what, more in self.COMMANDS.items()}
            self.assertEqual(len(said), 1, said)
            self.assertTrue(said.pop().startswith("redlatch: the address in %s is wrong: invalid URI: " % where))

    def test_so_is_an_empty_one(self):
        for what, more in self.COMMANDS.items():
            self.assert_says(self.redlatch(what, "--server", "", *more), 64, "%s: --server: URI is empty" % what)

    def test_a_file_for_tls_that_is_not_there(self):
        options = ["--server", "rediss://127.0.0.1:1", "--cacert", "/nowhere"]
        said = {self.redlatch(what, *options, *more).err for what, more in self.COMMANDS.items()}
        self.assertEqual(len(said), 1, said)
        self.assertIn("the address in --server, or an option for TLS, is wrong: ", said.pop())


class Waiting(support.Case):
    """Who holds it is shown while somebody waits at a terminal, and gone when the wait is over."""

    CLEAR = "\r\x1b[K"
    OWNER = "9f1c8a54-0000-4000-8000-0123456789ab:1"

    def assert_gone(self, terminal, clear=re.escape(CLEAR)):
        """What is left of the line is nothing: each is cleared before anything else is written."""
        left = re.sub(r"redlatch: waiting for [^\r\n]*" + clear, "", terminal.said)
        self.assertNotIn("waiting for", left)
        return left

    def test_a_run_that_waits_shows_who_holds_it_until_it_has_it(self):
        holder = self.hold("x", "--label", "nightly report")
        support.until(self.server.described, "it says who it is")
        terminal = Terminal(self, "run", "x", "--", "echo", "mine")
        terminal.expect("pid %d (nightly report), " % holder.pid)
        self.assertRegex(terminal.said, r"redlatch: waiting for 'x' for \d+\.\d s: held by ")
        self.gate.send()
        self.assertEqual(terminal.status(), 0, terminal.said)
        self.assertEqual(self.assert_gone(terminal), "mine\r\n")

    def test_a_run_that_gives_up_says_so_on_a_line_of_its_own(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        terminal = Terminal(self, "run", "-w", "4", "x", "--", "true")
        terminal.expect("waiting for 'x' for ")
        self.assertEqual(terminal.status(), 1)
        self.assertTrue(self.assert_gone(terminal).startswith("redlatch: cannot lock 'x' "), terminal.said)

    def test_a_signal_ends_the_line_with_the_wait(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        self.hold("p", "--permits", "1")
        for arguments in (["run", "x", "--", "true"], ["run", "--permits", "1", "p", "--", "true"], ["wait", "x"]):
            terminal = Terminal(self, *arguments)
            terminal.expect("waiting for '")
            os.write(terminal.fd, b"\x03")
            self.assertEqual(terminal.status(), 130)
            self.assertEqual(self.assert_gone(terminal), "")

    def test_what_its_caller_ignores_does_not_end_a_wait(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        terminal = Terminal(self, "-c", 'trap "" INT; exec "$0" wait x', support.REDLATCH, program="/bin/sh")
        terminal.expect("waiting for '")
        os.write(terminal.fd, b"\x03")
        terminal.expect("waiting for 'x' for 2.")
        self.server.redis("DEL", "x")
        self.assertEqual(terminal.status(), 0)

    def test_a_terminal_that_obeys_nothing_is_written_over(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        for term in "dumb", "", None:
            terminal = Terminal(self, "run", "-w", "3", "x", "--", "true", env={"TERM": term})
            terminal.expect("waiting for 'x' for ")
            self.assertEqual(terminal.status(), 1)
            self.assertNotIn("\x1b", terminal.said)
            for line, blanks in re.findall(r"(redlatch: waiting for [^\r\n]*)\r( *)\r", terminal.said):
                self.assertEqual(len(line), len(blanks))
            left = self.assert_gone(terminal, r"\r *\r")
            self.assertTrue(left.startswith("redlatch: cannot lock 'x' "), terminal.said)

    def test_why_there_is_no_answer_is_shown_and_who_gives_up_waits_for_none(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        terminal = Terminal(self, "run", "x", "--", "true")
        terminal.expect("waiting for 'x' for ")
        with self.server.paused():
            terminal.expect("no answer within 1000 ms")
            os.write(terminal.fd, b"\x03")
            self.assertEqual(terminal.status(), 130)
        self.assertEqual(self.assert_gone(terminal), "")

    def test_wait_shows_it_too(self):
        self.hold("x")
        terminal = Terminal(self, "wait", "x")
        terminal.expect("waiting for 'x' for ")
        terminal.expect(": held by ")
        self.gate.send()
        self.assertEqual(terminal.status(), 0)
        self.assertEqual(self.assert_gone(terminal), "")

    def test_the_line_is_as_long_as_the_terminal_is_wide(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        terminal = Terminal(self, "wait", "x", columns=30)
        terminal.expect("waiting for 'x'")
        self.server.redis("DEL", "x")
        self.assertEqual(terminal.status(), 0)
        lines = re.findall(r"redlatch: waiting[^\r]*", terminal.said)
        self.assertEqual([len(line) for line in lines], [29] * len(lines))
        self.assertGreater(len(lines), 0)

    def test_in_a_pipe_nothing_is_shown(self):
        self.hold("x", "--lease", "1h")
        for arguments in ["run", "-w", "1500ms", "x", "--", "true"], ["wait", "-w", "1500ms", "x"]:
            result = self.redlatch(*arguments)
            self.assertEqual((result.code, result.out), (1, ""), result)
            self.assertNotIn("waiting", result.err)

    def test_in_the_background_of_a_terminal_nothing_is_shown(self):
        self.server.redis("HSET", "x", self.OWNER, 1)
        line = 'set -m; "$0" wait -w 1500ms x & wait $!; echo status $?'
        terminal = Terminal(self, "-c", line, support.REDLATCH, program="/bin/sh")
        self.assertEqual(terminal.status(), 0)
        self.assertIn("'x' is not free: held by %s, which does not say who it is\r\n" % self.OWNER, terminal.said)
        self.assertIn("status 1\r\n", terminal.said)
        self.assertNotIn("waiting", terminal.said)


if __name__ == "__main__":
    support.main(sys.argv[1:])
