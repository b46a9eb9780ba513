#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""incident - a stuck job is found, inspected, freed and explained, by the lines of docs/operations.md on terminals; and
the same commands where nobody reads what they write, and on a terminal of 20 columns."""

import json
import os
import re
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from terminal import Terminal

OWNER = "9f1c8a54-0000-4000-8000-0123456789ab:1"
REPORT = '#!/bin/sh\ntrap "" TERM\necho held >"$EVENTS"\nsleep 600\n'
PUBLISH = '#!/bin/sh\nread _ <"$GATE"\necho published\n'


class Case(support.Case):
    def evictions_are_heard(self):
        support.until(lambda: self.server.redis("PUBSUB", "CHANNELS", "redlatch_lost:*"), "the holder listens")


class StuckJob(Case):
    def setUp(self):
        super().setUp()
        for name, text in ("report", REPORT), ("publish", PUBLISH):
            path = os.path.join(self.folder, name)
            with open(path, "w") as f:
                f.write(text)
            os.chmod(path, 0o755)

    def steps(self):
        """Of the document, by the word that begins its paragraph: lines to type, and what is shown then."""
        with open(os.path.join(support.TOP, "docs", "operations.md")) as f:
            section = f.read().split("\n## A job that is stuck")[1].split("\n## ")[0]
        found, word = {}, ""
        for paragraph, block in re.findall(r"^\*\*(\w+)\.\*\*|^```console\n(.*?)^```$", section, re.S | re.M):
            word = paragraph or word
            found.setdefault(word, []).extend(re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block, re.M))
        return found

    def type(self, line):
        path = os.path.dirname(support.REDLATCH) + ":" + os.environ["PATH"]
        return Terminal(self, "-c", "cd '%s'; %s" % (self.folder, line), program="/bin/sh", env={"PATH": path})

    def assert_shown(self, shown, terminal, pid):
        status = terminal.status()
        said = terminal.said.replace(self.server.uri, "db1:6379")
        said = re.sub(r"\b%s\b" % re.escape(socket.gethostname()), "db3", re.sub(r"\b%d\b" % pid, "812", said))
        said = re.sub(r"\bredlatch \d+\.\d+\.\d+(-\w+)?", "redlatch 1.0.0", said)  # whichever this is
        pattern = ".*?".join(re.escape(part) for part in " ".join(shown.split()).split("..."))
        self.assertRegex(" ".join(said.split()), "^%s$" % pattern)
        return status

    def test_the_lines_of_the_document(self):
        steps = self.steps()
        self.assertEqual(list(steps), ["", "Found", "Inspected", "Freed", "Explained"])
        (report, lost), (publish, published) = steps.pop("Explained")
        victim = self.type(report)
        self.events.expect("held")
        self.evictions_are_heard()
        waiter = self.type(publish)
        self.wait_for_waiters("nightly-report")
        holder = json.loads(self.redlatch("show", "--json", "nightly-report").out)["holder_list"][0]
        for line, shown in sum(steps.values(), []):
            if "redlatch wait" in line:
                waiter.expect("locked 'nightly-report' after")
                self.gate.send()
                self.assert_shown(published, waiter, holder["by"]["pid"])
            terminal = self.type(line)
            if "unlock" in line:
                terminal.expect("[y/N] ")
                terminal.answer("y")
            status = self.assert_shown(shown, terminal, holder["by"]["pid"])
            self.assertEqual(status, 1 if "redlatch run" in line else 0, line)
        self.assert_shown(lost, victim, holder["by"]["pid"])


class NobodyReads(Case):
    def run_unread(self, *arguments):
        unread, end = os.pipe()
        os.close(unread)
        process = self.start(*arguments, stdout=end)
        os.close(end)
        return self.result(process)

    def test_who_only_looks_ends_quietly(self):
        self.server.redis("HSET", "x", OWNER, "1")
        for arguments in (["ls"], ["ls", "--json"], ["show", "x"], ["show", "--json", "x"], ["doctor"],
                          ["doctor", "--json"], ["top", "--once"], ["top", "--json", "-n", "2"]):
            result = self.run_unread(*arguments)
            self.assertIn((result.code, result.err), ((-13, ""), (141, "")), arguments)

    def test_who_cannot_be_shown_is_not_evicted(self):
        self.server.redis("HSET", "x", OWNER, "1")
        result = self.run_unread("unlock", "-y", "x")
        self.assertEqual((result.code, result.err, self.server.exists("x")), (141, "", True), result)

    def test_who_is_evicted_is_whether_or_not_that_is_read(self):
        self.server.redis("HSET", "x", OWNER, "1")
        result = self.run_unread("unlock", "-y", "--json", "x")
        self.assertEqual((result.code, result.err, self.server.exists("x")), (141, "", False), result)

    def test_who_says_nothing_there_does_not_notice(self):
        self.server.redis("HSET", "x", OWNER, "1")
        self.assert_says(self.run_unread("wait", "-w", "0", "x"), 1, "'x' is not free")
        self.assertEqual(self.run_unread("wait", "y").code, 0)


class Narrow(Case):
    """On a terminal of 20 columns."""

    def says(self, status, *arguments):
        terminal = Terminal(self, *arguments, columns=20)
        self.assertEqual(terminal.status(), status, terminal.said)
        return terminal.said.replace("\r", "")

    def test_each_command_has_its_message_and_status(self):
        name = "a-name-that-is-longer-than-some-terminals-are-wide"
        self.server.redis("HSET", name, OWNER, "1")
        for line in self.says(0, "ls").splitlines() + self.says(0, "top", "--once").splitlines()[3:]:
            self.assertLessEqual(len(line), 20, line)
        said = self.says(0, "show", name)
        self.assertIn("name      %s\n" % name, said)  # which the terminal wraps: whoever copies it has the whole
        self.assertIn(OWNER, said)
        self.assertIn("'%s' is not free" % name, self.says(1, "wait", "-w", "0", name))
        terminal = Terminal(self, "unlock", name, columns=20)
        terminal.expect("Evict this holder? [y/N] ")
        terminal.answer("n")
        self.assertEqual(terminal.status(), 1)
        self.assertIn("nothing was done", terminal.said)
        self.assertIn("evicted " + OWNER, self.says(0, "unlock", "-y", name))

    def test_doctor_breaks_its_lines(self):
        paragraph = self.says(1, "doctor").split("note ")[0].splitlines()
        self.assertIn("  restart forgets", paragraph)
        for line in paragraph[1:]:
            if not line.startswith("    "):  # a line to copy
                self.assertLessEqual(len(line), 20, paragraph)


if __name__ == "__main__":
    support.main(sys.argv[1:])
