#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""loss - a lock that is lost, or held for too long: the command and all that it started are ended, and the exit status
says why."""

import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

LEASE = ("--lease", "1900ms")  # longer than a busy machine stands still
LOST = "redlatch: lost 'x' at "

# Reports SIGTERM and ends, with a status that must not be seen.
POLITE = """trap 'echo term >"$EVENTS"; exit 0' TERM; echo held >"$EVENTS"; while :; do read _ <"$GATE"; done"""
# Reports SIGTERM and goes on.
STUBBORN = """trap 'echo term >"$EVENTS"' TERM; echo held >"$EVENTS"; while :; do read _ <"$GATE"; done"""


class Loss(support.Case):
    def assert_lost(self, process, out=""):
        result = self.result(process)
        self.assert_says(result, 75, LOST)
        self.assertEqual(result.out, out)
        return result

    def test_a_lock_that_is_gone_ends_the_command_with_sigterm(self):
        for kind in ("reentrant", "simple"):
            for remove in (("DEL", "x"), ("FLUSHALL",)):
                process = self.hold("x", "--type", kind, *LEASE, "--grace", "1h", command=POLITE)
                self.server.redis(*remove)
                self.events.expect("term")
                self.assertIn("the server no longer has it", self.assert_lost(process).err)

    def test_a_lock_that_somebody_else_has_now_stays_theirs(self):
        process = self.hold("x", *LEASE, command=POLITE)
        self.server.redis("DEL", "x")
        self.server.redis("HSET", "x", "somebody:1", "1")
        self.events.expect("term")
        self.assert_lost(process)
        self.assertEqual(self.server.redis("HGETALL", "x"), [b"somebody:1", b"1"])

    def test_what_ignores_sigterm_gets_sigkill_after_the_grace(self):
        process = self.hold("x", *LEASE, "--grace", "2s", command=STUBBORN)
        self.server.redis("DEL", "x")
        self.events.expect("term")
        self.assert_lost(process)

    def test_without_grace_sigkill_follows_at_once(self):
        process = self.hold("x", *LEASE, "--grace", "0", command="trap '' TERM\n" + STUBBORN)
        self.server.redis("DEL", "x")
        self.assert_lost(process)

    def test_a_server_that_is_gone_for_a_lease_loses_the_lock(self):
        process = self.hold("x", *LEASE, command=POLITE)
        self.server.kill()
        self.events.expect("term")
        self.assertIn("its lease ran out", self.assert_lost(process).err)

    def test_a_server_that_is_silent_for_a_lease_loses_the_lock(self):
        process = self.hold("x", *LEASE, command=POLITE)
        with self.server.paused():
            self.events.expect("term")
        self.assert_lost(process)

    def test_a_server_that_comes_back_in_time_loses_nothing(self):
        process = self.hold("x", "--lease", "30s")
        with self.server.paused():
            pass
        self.server.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.gate.send()
        self.assert_result(self.result(process), 0)
        self.assert_free("x")

    def test_we_that_were_stopped_for_a_lease_lose_the_lock_when_continued(self):
        process = self.hold("x", *LEASE, command=POLITE)
        process.send_signal(signal.SIGSTOP)
        support.until(lambda: not self.server.exists("x"), "the lease ends")
        process.send_signal(signal.SIGCONT)
        self.events.expect("term")
        self.assert_lost(process)

    def test_what_the_command_started_is_ended_too(self):
        command = """sleep 1000 & echo $! >"$EVENTS"
            setsid sh -c 'echo $$ >"$EVENTS"; sleep 1000; true' & echo held >"$EVENTS"; wait"""
        process = self.start("run", *LEASE, "x", "--", "sh", "-c", command)
        lines = [self.events.next() for _ in range(3)]
        lines.remove("held")
        self.server.redis("DEL", "x")
        self.assert_lost(process)
        for pid in lines:
            self.assertTrue(support.process_is_gone(int(pid)))

    def test_what_the_command_left_in_the_background_is_ended_too_and_has_its_grace(self):
        """The shell dies of SIGTERM; the orphan ignores it, and is waited for until the grace is over."""
        command = """(trap 'echo term >"$EVENTS"' TERM
            echo held >"$EVENTS"; while :; do read _ <"$GATE"; done) & wait"""
        process = self.start("run", *LEASE, "--grace", "2s", "x", "--", "sh", "-c", command)
        self.events.expect("held")
        self.server.redis("DEL", "x")
        self.events.expect("term")
        self.assert_lost(process)

    def test_what_our_caller_had_started_before_is_left_alone(self):
        before = 'sleep 1000 >/dev/null 2>&1 & echo $! >"$EVENTS"; exec "$0" "$@"'
        process = self.start("run", *LEASE, "x", "--", "sh", "-c", POLITE, prefix=("sh", "-c", before))
        bystander = int(self.events.next())
        self.addCleanup(os.kill, bystander, signal.SIGKILL)
        self.events.expect("held")
        self.server.redis("DEL", "x")
        self.events.expect("term")
        self.assert_lost(process)
        self.assertFalse(support.process_is_gone(bystander))

    def test_a_stopped_command_is_ended_too(self):
        process = self.hold("x", *LEASE, "--grace", "1h",
                            command="""echo held >"$EVENTS"; echo $$ >"$EVENTS"; exec sleep 1000""")
        pid = int(self.events.next())
        os.kill(pid, signal.SIGSTOP)
        self.server.redis("DEL", "x")
        self.assert_lost(process)

    def test_a_loss_that_only_the_release_finds_is_a_loss(self):
        """The lease is so long that no renewal comes before the command has ended."""
        process = self.hold("x", "--lease", "1h", command='echo held >"$EVENTS"; read _ <"$GATE"; exit 3')
        self.server.redis("DEL", "x")
        self.gate.send()
        self.assertIn("before the command had ended", self.assert_lost(process).err)

    def test_output_of_a_command_that_is_ended_is_kept(self):
        command = """trap 'echo bye; exit' TERM; echo held >"$EVENTS"; while :; do read _ <"$GATE"; done"""
        process = self.hold("x", *LEASE, command=command)
        self.server.redis("DEL", "x")
        self.assert_lost(process, out="bye\n")

    def test_a_release_that_is_not_answered_is_said_and_keeps_the_commands_status(self):
        process = self.hold("x", command='echo held >"$EVENTS"; read _ <"$GATE"; exit 3')
        self.server.kill()
        self.gate.send()
        self.assert_says(self.result(process), 3, "redlatch: ", "when its lease ends")


class MaxHold(support.Case):
    TIME = "2s"  # longer than a command needs to say that it runs

    def assert_ended(self, process):
        self.assert_result(self.result(process), 124,
                           err="redlatch: 'x' was held for as long as --max-hold allows; ending the command\n")
        self.assert_free("x")

    def test_a_command_that_takes_too_long_is_ended_with_sigterm(self):
        process = self.hold("x", "--max-hold", self.TIME, "--grace", "1h", command=POLITE)
        self.events.expect("term")
        self.assert_ended(process)

    def test_what_ignores_sigterm_gets_sigkill_after_the_grace(self):
        process = self.hold("x", "--max-hold", self.TIME, "--grace", "2s", command=STUBBORN)
        self.events.expect("term")
        self.assert_ended(process)

    def test_the_lock_is_held_until_the_command_has_ended(self):
        process = self.hold("x", "--max-hold", self.TIME, "--grace", "1h", *LEASE, command=STUBBORN)
        self.events.expect("term")
        self.assert_result(self.run_lock("-w", "3s", "x", "true"), 1)
        process.kill()
        process.wait()

    def test_a_loss_during_the_grace_counts_more(self):
        process = self.hold("x", "--max-hold", self.TIME, "--grace", "3", *LEASE, command=STUBBORN)
        self.events.expect("term")
        self.server.redis("DEL", "x")
        self.assert_says(self.result(process), 75, "--max-hold", LOST)

    def test_a_command_that_ends_in_time_is_not_affected(self):
        self.assert_result(self.run_lock("--max-hold", "1h", "x", "sh", "-c", "exit 4"), 4)

    def test_waiting_does_not_count(self):
        holder = self.hold("x")
        process = self.start("run", "--max-hold", "10s", "-w", "1h", "x", "true")
        self.wait_for_waiters("x")
        self.gate.send()
        self.assert_result(self.result(holder), 0)
        self.assert_result(self.result(process), 0)


if __name__ == "__main__":
    support.main(sys.argv[1:])
