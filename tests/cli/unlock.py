#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""unlock - a lock is taken from those who were shown, after a question on a terminal; and waiting for a lock without
taking it."""

import json
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from terminal import Terminal

FIRST = "11111111-2222-3333-4444-555555555555:1"
SECOND = "66666666-7777-8888-9999-000000000000:1"
OWNER = r"[0-9a-f-]{36}:\d+(?::write)?"
LISTENING = "redlatch_lost:*"


class Unlock(support.Case):
    def hold_for_long(self, name, *options):
        """Until its client listens for evictions: by its own renewal it would learn after minutes."""
        process = self.hold(name, "--lease", "1h", *options, command='trap "" TERM; echo held >"$EVENTS"; sleep 600')
        support.until(lambda: self.server.redis("PUBSUB", "CHANNELS", LISTENING), "it listens")
        return process

    def assert_ended(self, process, name):
        self.assert_says(self.result(process), 75, "lost '%s' at " % name, "the server no longer has it")

    def test_holder_is_shown_and_ended_after_a_yes(self):
        process = self.hold_for_long("x", "--grace", "0")
        terminal = Terminal(self, "unlock", "x")
        terminal.expect("Evict this holder? [y/N] ")
        self.assertRegex(terminal.said, OWNER)
        terminal.answer("y")
        self.assertEqual(terminal.status(), 0, terminal.said)
        self.assertRegex(terminal.said, "evicted %s" % OWNER)
        self.assert_ended(process, "x")
        self.assert_free("x")

    def test_any_other_answer_leaves_all_as_it_is(self):
        self.server.redis("HSET", "x", FIRST, "1")
        for answer in ("n", "", "yess", "\x04"):
            terminal = Terminal(self, "unlock", "x")
            terminal.expect("[y/N] ")
            terminal.answer(answer)
            self.assertEqual(terminal.status(), 1, terminal.said)
            self.assertIn("nothing was done", terminal.said)
        self.assertEqual(self.server.redis("HGETALL", "x"), [FIRST.encode(), b"1"])

    def test_who_took_the_lock_while_it_was_asked_keeps_it(self):
        self.server.redis("HSET", "x", FIRST, "1")
        terminal = Terminal(self, "unlock", "x")
        terminal.expect("[y/N] ")
        self.server.redis("DEL", "x")
        self.server.redis("HSET", "x", SECOND, "1")
        terminal.answer("yes")
        self.assertEqual(terminal.status(), 3, terminal.said)
        self.assertIn(FIRST + " no longer holds it: nothing was done to whoever does", terminal.said)
        self.assertEqual(self.server.redis("HGETALL", "x"), [SECOND.encode(), b"1"])

    def test_without_a_terminal_it_is_a_yes_on_the_command_line_or_nothing(self):
        self.server.redis("HSET", "x", FIRST, "1")
        result = self.redlatch("unlock", "x", start_new_session=True)
        self.assert_says(result, 64, "no terminal to ask on: --yes")
        self.assertTrue(self.server.exists("x"))
        result = self.redlatch("unlock", "--yes", "x", start_new_session=True)
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertIn("evicted %s\n" % FIRST, result.out)
        self.assert_free("x")

    def test_what_became_of_them_is_json_where_it_is_asked_for(self):
        self.server.redis("HSET", "x", FIRST, "1")
        result = self.redlatch("unlock", "-y", "--json", "x")
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertEqual(json.loads(result.out), {"name": "x", "name_hex": None, "evicted": [FIRST], "gone": []})
        result = self.redlatch("unlock", "-y", "--json", "x")
        self.assertEqual((result.code, json.loads(result.out)["evicted"]), (1, []), result)
        self.server.redis("HSET", "x", FIRST, "1")
        terminal = Terminal(self, "unlock", "--json", "x")
        terminal.expect("[y/N] ")
        self.assertIn("holder    " + FIRST, terminal.said)
        self.server.redis("DEL", "x")
        self.server.redis("HSET", "x", SECOND, "1")
        terminal.answer("y")
        self.assertEqual(terminal.status(), 3)
        self.assertEqual(json.loads(terminal.said[terminal.said.index("{"):terminal.said.rindex("}") + 1])["gone"],
                         [FIRST])

    def test_each_type_is_found_and_freed_and_its_command_ended(self):
        for kind in (*(("--type", kind) for kind in support.TYPES), ("-s",), ("-x",)):
            process = self.hold_for_long("x", *kind, "--grace", "0")
            result = self.redlatch("unlock", "-y", "x")
            self.assertEqual(result.code, 0, (kind, result))
            self.assert_ended(process, "x")
            self.assert_free("x")

    def test_one_of_several_readers_can_be_named(self):
        first = self.hold_for_long("x", "-s", "--grace", "0")
        owner = [field for field in self.server.redis("HKEYS", "x") if field != b"mode"][0].decode()
        self.hold("x", "-s", "--lease", "1h")
        result = self.redlatch("unlock", "x", "-y", "--owner", owner)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(re.findall("evicted (.*)", result.out), [owner])
        self.assert_ended(first, "x")
        self.assertEqual(len(self.server.redis("HKEYS", "x")), 2)
        again = self.redlatch("unlock", "x", "-y", "--owner", owner)
        self.assert_says(again, 3, "does not hold it")
        self.assertEqual(self.redlatch("unlock", "-y", "x").code, 0)
        self.assert_free("x")

    def test_waiter_has_the_lock_at_once(self):
        self.server.redis("HSET", "x", FIRST, "1")
        self.server.redis("PEXPIRE", "x", "3600000")
        waiter = self.start("run", "x", "--", "echo", "mine")
        self.wait_for_waiters("x")
        self.assertEqual(self.redlatch("unlock", "-y", "x").code, 0)
        self.assert_result(self.result(waiter), 0, "mine\n")

    def test_what_nobody_holds_or_cannot_be_evicted_is_said(self):
        self.assert_says(self.redlatch("unlock", "-y", "x"), 1, "nobody holds 'x'")
        self.server.redis("SET", "pool", "3")
        self.server.redis("LPUSH", "list", "a")
        for name in ("pool", "list"):
            self.assert_says(self.redlatch("unlock", "-y", name), 64)
        self.assertEqual(self.server.redis("GET", "pool"), b"3")
        self.assert_says(self.redlatch("unlock", "-y"), 64, "NAME is missing", "redlatch unlock --help")
        self.assert_says(self.redlatch("unlock", "-y", "x", "y"), 64, "one NAME")
        self.assert_says(self.redlatch("unlock", "-y", "x", env={"REDLATCH_SERVER": "unix:/nowhere"}), 69)


class Wait(support.Case):
    def test_free_lock_is_not_waited_for_and_not_taken(self):
        self.assert_result(self.redlatch("wait", "x"), 0)
        self.assertEqual(self.server.keys(), [])

    def looks(self):
        found = re.search(rb"cmdstat_pubsub(?:\|numsub)?:calls=(\d+)", self.server.redis("INFO", "commandstats"))
        return int(found[1]) if found else 0

    def test_held_lock_is_waited_for(self):
        self.hold("x")
        waiting = self.start("wait", "x")
        support.until(lambda: self.looks() >= 3, "it looks again and again")
        self.assertIsNone(waiting.poll())
        self.gate.send()
        self.assert_result(self.result(waiting), 0)

    def test_wait_is_over_when_the_lease_is(self):
        self.server.redis("HSET", "x", FIRST, "1")
        self.server.redis("PEXPIRE", "x", "700")
        self.assert_result(self.redlatch("wait", "x"), 0)

    def test_time_is_over(self):
        self.server.redis("HSET", "x", FIRST, "1")
        began = time.monotonic()
        self.assert_says(self.redlatch("wait", "-w", "300ms", "x"), 1, "'x' is not free")
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        self.assert_says(self.redlatch("wait", "-w", "0", "x"), 1, "'x' is not free")

    def test_server_that_falls_silent_while_it_is_asked_has_not_said_that_it_is_not_free(self):
        self.hold("x", "--label", "backup")
        support.until(lambda: self.server.described() == 1, "it has said who it is")
        silent = []

        def relay(chunk):
            """The lock's answer is the last; who holds it is asked for after that."""
            if b"backup" in chunk:
                silent.append(chunk)
            return b"" if silent else chunk

        result = self.redlatch("wait", "-w", "1", "x", env={"REDLATCH_SERVER": self.relayed(relay)})
        self.assert_says(result, 69, "no answer")
        self.assertTrue(silent)

    def test_how_it_was_found_last_is_json_where_it_is_asked_for(self):
        self.server.redis("HSET", "x", FIRST, "1")
        result = self.redlatch("wait", "--json", "-w", "0", "x")
        self.assert_says(result, 1, "'x' is not free")
        self.assertEqual(json.loads(result.out), dict(json.loads(self.redlatch("show", "--json", "x").out),
                                                      now_ms=json.loads(result.out)["now_ms"]))
        self.server.redis("DEL", "x")
        result = self.redlatch("wait", "--json", "x")
        self.assertEqual((result.code, json.loads(result.out)["state"]), (0, "free"), result)

    def test_reader_does_not_wait_for_readers(self):
        self.hold("x", "-s")
        self.assert_says(self.redlatch("wait", "-w", "0", "x"), 1)
        self.assert_result(self.redlatch("wait", "-w", "0", "-s", "x"), 0)

    def test_what_cannot_be_waited_for_is_said(self):
        self.server.redis("LPUSH", "list", "a")
        self.assert_says(self.redlatch("wait", "list"), 64)
        self.assert_says(self.redlatch("wait", "x", env={"REDLATCH_SERVER": "unix:/nowhere"}), 69)


if __name__ == "__main__":
    support.main(sys.argv[1:])
