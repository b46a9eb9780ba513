#!/usr/bin/python3 -I
"""manners - how the command speaks to people: help by topic, what was meant by a misspelt word, what is shown while
somebody waits, and where it is quiet."""

import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support


class Help(support.Case):
    def said(self, *arguments):
        result = self.redlatch(*arguments)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result.out

    def test_each_topic_is_listed_and_has_its_help(self):
        listed = dict(re.findall(r"^    ([a-z]+) +(.*)$", self.said("help"), re.M))
        self.assertEqual(list(listed), ["command", "environment", "servers", "statuses", "times", "types"])
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


if __name__ == "__main__":
    support.main(sys.argv[1:])
