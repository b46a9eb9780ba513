#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""look - `redlatch ls` and `redlatch show`: which locks there are, who holds one, who waits."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

UUID = "9f1c8a54-0000-4000-8000-0123456789ab"
FIELDS = {"name", "name_hex", "type", "state", "ttl_ms", "now_ms", "holders", "number", "waiters", "token", "in_order",
          "holder_list", "waiter_list"}
HOLDER_FIELDS = {"owner", "client", "end", "count", "left_ms", "token", "since_ms", "by"}
DESCRIPTION_FIELDS = {"host", "pid", "program", "version", "label", "info", "start_ms"}


class Case(support.Case):
    def ls(self, *arguments):
        """The listed locks, by name."""
        result = self.redlatch("ls", "--json", *arguments)
        self.assertEqual((result.code, result.err), (0, ""), result)
        locks = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual(len({lock["name"] for lock in locks}), len(locks))
        return {lock["name"]: lock for lock in locks}

    def show(self, name):
        result = self.redlatch("show", "--json", name)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return json.loads(result.out)

    def foreign(self, name, n=1):
        """A lock as a Redisson process holds it."""
        self.server.redis("HSET", name, "%s:%d" % (UUID, n), 1)
        self.server.redis("PEXPIRE", name, 600000)

    def described(self):
        self.server.redis("HSET", "redlatch_client:{%s}" % UUID, "host", "db3", "pid", 812, "program", "backup.sh",
                          "version", "0.1.0", "label", "nightly \x1b[31m", "info", "", "start_ms", 1700000000000)


class Ls(Case):
    def test_nothing_is_no_line(self):
        self.assert_result(self.redlatch("ls"), 0)
        self.assertEqual(self.ls(), {})

    def test_what_run_holds_is_listed_and_what_it_leaves_beside_is_not(self):
        for options, kind, state in (((), "lock", "held"), (("--type", "fair"), "lock", "held"),
                                     (("--type", "fenced"), "fenced", "held"), (("-s",), "read-write", "read"),
                                     (("-x",), "read-write", "write"), (("--type", "simple"), "simple", "held")):
            process = self.hold("job:1", *options)
            locks = self.ls()
            lock = locks["job:1"]
            self.assertEqual((len(locks), lock["type"], lock["state"], lock["holders"]), (1, kind, state, 1))
            self.assertLess(0, lock["ttl_ms"])
            self.gate.send()
            self.assertEqual(self.result(process).code, 0)

    def test_the_fields_are_the_documented_ones(self):
        self.foreign("job:1")
        lock = self.ls()["job:1"]
        self.assertEqual(set(lock), FIELDS)
        self.assertEqual(set(lock["holder_list"][0]), HOLDER_FIELDS)
        self.assertIsNone(lock["holder_list"][0]["by"])
        self.described()
        self.assertEqual(set(self.ls()["job:1"]["holder_list"][0]["by"]), DESCRIPTION_FIELDS)
        self.assertEqual(self.ls()["job:1"]["holder_list"][0]["by"]["host"], "db3")
        with open(os.path.join(support.TOP, "tools", "redlatch.1")) as f:
            manual = f.read()
        for field in FIELDS | HOLDER_FIELDS | DESCRIPTION_FIELDS:
            self.assertIsNotNone(re.search(r"\b%s\b" % field, manual), field)

    def test_a_pattern_says_which(self):
        for name in "job:1", "job:2", "cron:1":
            self.foreign(name)
        self.assertEqual(set(self.ls("job:*")), {"job:1", "job:2"})
        self.assertEqual(set(self.ls("*:[12]")), {"job:1", "job:2", "cron:1"})

    def test_the_table_has_a_line_each_and_tells_who(self):
        self.foreign("job:1")
        self.described()
        head, line = self.redlatch("ls").out.splitlines()
        self.assertEqual(head.split(), ["TYPE", "STATE", "HOLDER", "SINCE", "LEFT", "WAIT", "NAME"])
        words = line.split()
        self.assertIn(words.pop(6), ("10m", "9m"))
        self.assertEqual(words, ["lock", "held", "db3", "812", "backup.sh", "-", "0", "job:1"])

    def test_names_of_any_bytes_are_shown_as_a_terminal_bears_them(self):
        name = b"job\x1b[31m\xff"
        self.server.redis("HSET", name, UUID + ":1", 1)
        self.assertIn("job\\x1b[31m\\xff\n", self.redlatch("ls").out)
        lock = self.ls()["job\\x1b[31m\\xff"]
        self.assertEqual(bytes.fromhex(lock["name_hex"]), name)
        result = self.redlatch("show", name)
        self.assertIn("job\\x1b[31m\\xff\n", result.out)
        self.foreign("job:1")
        self.described()
        self.assertNotIn("\x1b", self.redlatch("show", "job:1").out)

    def test_a_closed_pipe_ends_it_quietly(self):
        self.server.redis("EVAL", "for i = 1, 20000 do redis.call('hset', 'job:' .. i, ARGV[1], 1) end", 0, UUID + ":1")
        process = self.start("ls", "--json")
        process.stdout.readline()
        process.stdout.close()
        self.assertIn(process.wait(support.BOUND_S), (-13, 141))
        self.assertEqual(process.stderr.read(), b"")

    def on_terminal(self, columns, *arguments):
        """What it writes on a terminal of that width, without the carriage returns."""
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start(*arguments, stdout=end)
        os.close(end)
        out = b""
        while select.select([terminal], [], [], support.BOUND_S)[0]:
            try:
                out += os.read(terminal, 65536)
            except OSError:  # it has ended
                break
        self.assertEqual(process.wait(support.BOUND_S), 0)
        return out.decode().replace("\r", "")

    def test_a_line_is_no_wider_than_the_terminal(self):
        self.foreign("a-name-that-is-longer-than-some-terminals-are-wide:" + "x" * 100)
        self.foreign("short")
        for columns in 20, 40, 60, 80, 120:
            lines = self.on_terminal(columns, "ls").splitlines()
            self.assertEqual(len(lines), 3, lines)
            for line in lines:
                self.assertLessEqual(len(line), columns, line)
            self.assertTrue(any(line.endswith("…") for line in lines), lines)
            self.assertTrue(any(line.endswith(" short") for line in lines), lines)


class Show(Case):
    def test_everything_about_a_lock_that_is_waited_for(self):
        process = self.hold("job:1")
        waiter = self.start("run", "job:1", "--", "true")
        self.wait_for_waiters("job:1")
        lock = self.show("job:1")
        self.assertEqual((lock["type"], lock["state"], lock["holders"], lock["waiters"]), ("lock", "held", 1, 1))
        text = self.redlatch("show", "job:1").out
        for line in "name      job:1\n", "state     held\n", "waiters   1\n", " left\n":
            self.assertIn(line, text)
        self.gate.send()
        self.assertEqual((self.result(process).code, self.result(waiter).code), (0, 0))

    def test_a_queue_is_shown_in_its_order(self):
        process = self.hold("job:1", "--type", "fair")
        waiters = []
        for i in range(2):
            waiters.append(self.start("run", "--type", "fair", "job:1", "--", "true"))
            support.until(lambda: self.server.redis("LLEN", "redisson_lock_queue:{job:1}") == i + 1, "it queues")
        lock = self.show("job:1")
        self.assertEqual((lock["type"], lock["waiters"], lock["in_order"]), ("fair", 2, True))
        places = self.server.redis("LRANGE", "redisson_lock_queue:{job:1}", 0, -1)
        self.assertEqual([waiter["owner"] for waiter in lock["waiter_list"]], [place.decode() for place in places])
        self.assertIn("waiters   2, in this order:\nwaits     " + places[0].decode(),
                      self.redlatch("show", "job:1").out)
        self.gate.send()
        for each in [process] + waiters:
            self.assertEqual(self.result(each).code, 0)

    def test_what_is_free_or_no_lock_is_told(self):
        self.assertEqual((self.show("job:1")["type"], self.show("job:1")["state"]), ("none", "free"))
        self.server.redis("RPUSH", "a-list", 1)
        self.assert_result(self.redlatch("show", "a-list"), 64, err="redlatch: 'a-list' is no lock: it is a list\n")

    def test_a_mode_that_nobody_holds_is_told(self):
        for mode, kept_out in (("read", "writers"), ("write", "all")):
            self.server.redis("HSET", "job:1", "mode", mode)
            self.assertIn("\nstate     %s\nholders   0, but its mode is left, and keeps %s out\n" % (mode, kept_out),
                          self.redlatch("show", "job:1").out)
        self.server.redis("HSET", "job:1", UUID + ":1:write", 1)
        self.assertIn("\nholders   1\n", self.redlatch("show", "job:1").out)

    def test_options_may_stand_behind_the_name(self):
        self.foreign("job:1")
        self.assertEqual(json.loads(self.redlatch("show", "job:1", "--json").out)["holders"], 1)

    def test_wrong_command_lines_and_absent_servers_have_their_statuses(self):
        self.assert_result(self.redlatch("show"), 64, err="redlatch: show: NAME is missing\n"
                                                          "redlatch: try 'redlatch show --help'\n")
        self.assert_result(self.redlatch("ls", "a", "b"), 64,
                           err="redlatch: ls: one PATTERN is wanted, and there are two\n"
                               "redlatch: try 'redlatch ls --help'\n")
        self.assertEqual(self.redlatch("ls", "--server", "nonsense").code, 64)
        self.assertEqual(self.redlatch("show", "--server", "unix:%s/absent" % self.folder, "job:1").code, 69)
        with open("/dev/full", "w") as full:
            self.foreign("job:1")
            self.assertEqual(self.redlatch("show", "job:1", stdout=full).code, 70)

    def test_a_server_that_falls_silent_is_named(self):
        self.foreign("job:1")

        def silent_after(most):
            answers = []

            def relay(chunk):
                answers.append(chunk)
                return chunk if len(answers) <= most else b""

            return self.relayed(relay)

        uris = [silent_after(most) for most in range(6)]
        looks = [self.start("show", "job:1", env={"REDLATCH_SERVER": uri}) for uri in uris]
        for most, (uri, look) in enumerate(zip(uris, looks)):
            with self.subTest(answers=most):
                result = self.result(look)
                if result.code != 0:
                    self.assert_says(result, 69, "redlatch: %s: " % uri.removeprefix("redis://"))

    def test_a_user_who_may_not_is_told_what_is_missing(self):
        self.foreign("job:1")
        for lacking in ["-scan", "-type"], ["-type"]:
            self.server.redis("ACL", "SETUSER", "blind", "reset", "on", ">secret", "~*", "&*", "+@all", *lacking)
            uri = "unix://blind:secret@" + self.server.path
            for arguments in ["ls"], ["show", "job:1"]:
                result = self.redlatch(*arguments, env={"REDLATCH_SERVER": uri})
                self.assertEqual(result.code, 70)
                self.assertIn("docs/acl.md, Inspection", result.err)
                self.assertNotIn("user_script", result.err)


if __name__ == "__main__":
    support.main(sys.argv[1:])
