#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""hangs - peers that hang: a standard error that nobody reads, a server that stands still in each state (N4)."""

import fcntl
import os
import pty
import re
import signal
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support


# Reports SIGTERM and ends.
POLITE = """trap 'echo term >"$EVENTS"; exit 0' TERM; echo held >"$EVENTS"; while :; do read _ <"$GATE"; done"""


class Silent(support.EveryKind):
    """N4: the server stands still in each state of the command."""

    def run_each(self, *options, command=support.EveryKind.HOLD):
        processes = {kind: self.begin(kind, *options, command=("sh", "-c", command)) for kind in self.kinds}
        for _ in processes:
            self.events.expect("held")
        return processes

    def test_N4_a_server_that_is_silent_while_the_command_runs_is_a_loss(self):
        self.wait_for_age()
        processes = self.run_each("--grace", "1h", command=POLITE)
        self.stop_servers()
        self.assert_all(processes, 75, says="redlatch: lost '")

    def test_N4_a_server_that_is_silent_at_the_release_leaves_the_commands_status(self):
        self.wait_for_age()
        processes = self.run_each(command=self.HOLD + "; exit 3")
        self.stop_servers()
        for _ in processes:
            self.gate.send()
        for kind, process in processes.items():
            with self.subTest(kind=kind):  # it is a loss if the lease is over before all have read from the gate
                self.assertIn(self.result(process).code, (3, 75))

    def test_N4_a_server_that_is_silent_while_the_command_is_ended_holds_up_neither_signal(self):
        self.wait_for_age()
        processes = self.run_each("--max-hold", "5", "--grace", "3", command="trap '' TERM; " + self.HOLD)
        self.stop_servers()
        for kind, process in processes.items():
            with self.subTest(kind=kind):  # it may be lost while it is being ended, which counts more
                self.assertIn(self.result(process).code, (124, 75))

    def test_N4_a_server_that_is_silent_while_the_wait_is_given_up_holds_up_no_signal(self):
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each()
        self.stop_servers()
        for process in waiters.values():
            process.send_signal(signal.SIGTERM)
        self.assert_all(waiters, 128 + signal.SIGTERM)


class Look(support.Case):
    def test_N14_a_short_wait_for_a_silent_server_ends_before_a_long_one(self):
        with self.server.paused():
            long = self.start("wait", "x")
            short = [self.start("wait", "-w", time, "x") for time in ("0", "200ms", "2s")]
            for process in short:
                self.assertEqual(self.result(process).code, 69)
            self.assertIsNone(long.poll())
            self.assertEqual(self.result(long).code, 69)


class Unread(support.Case):
    """N4: stderr is a pipe that is full, and nobody reads it."""

    def setUp(self):
        super().setUp()
        self.reader, self.full = os.pipe()
        self.addCleanup(os.close, self.reader)
        self.addCleanup(os.close, self.full)
        self.fill(self.full)

    def fill(self, fd):
        os.set_blocking(fd, False)
        for size in (4096, 1):
            try:
                while True:
                    os.write(fd, b"#" * size)
            except BlockingIOError:
                pass
        os.set_blocking(fd, True)

    def hold_unread(self, *options, names=("x",), command=POLITE, **more):
        more.setdefault("stderr", self.full)
        process = self.start("run", "--verbose", "--lease", support.EveryKind.LEASE, *options, *names, "--", "sh", "-c",
                             command, **more)
        self.events.expect("held")
        return process

    def assert_code(self, process, code):
        self.assertEqual(self.result(process).code, code)

    def disturb(self, count):
        """Have the library say something."""
        for _ in range(count):
            self.server.redis("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            support.until(lambda: len(self.server.redis("CLIENT", "LIST").splitlines()) > 1, "it connects again")

    def now(self):
        seconds, micros = self.server.redis("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def permit_end(self, name):
        return int(self.server.redis("ZRANGE", "{%s}:timeout" % name, 0, -1, "WITHSCORES")[1])

    def test_N4_max_hold_ends_the_command(self):
        kinds = ((), ("--type", "fair"), ("-s",), ("--permits", "2"))
        processes = [self.start("run", "--verbose", "--max-hold", "4", *options, "x%d" % i, "--", "sh", "-c", POLITE,
                                stderr=self.full) for i, options in enumerate(kinds)]
        for word in ["held", "term"]:
            for _ in processes:
                self.events.next()
        for process in processes:
            self.assert_code(process, 124)

    def test_N4_a_loss_ends_the_command(self):
        kinds = ((("a",), ()), (("b",), ("--type", "simple")), (("c",), ("-x",)), (("d",), ("--permits", "2")),
                 (("e", "f"), ()))
        processes = [self.hold_unread("--grace", "1h", *options, names=names) for names, options in kinds]
        self.server.redis("FLUSHALL")
        for _ in processes:
            self.events.expect("term")
        for process in processes:
            self.assert_code(process, 75)

    def test_N4_the_lock_is_renewed_and_signals_are_passed_on(self):
        processes = [self.hold_unread(), self.hold_unread("--permits", "2", names=("permit",))]
        self.disturb(8)
        began = self.now()
        while self.now() < began + 2500:  # more than a lease
            left = self.server.redis("PTTL", "x")
            self.assertGreater(left, 0, "the lease has ended")
            self.assertGreater(self.permit_end("permit"), self.now())
        for process in processes:
            process.send_signal(signal.SIGTERM)
            self.events.expect("term")
        for process in processes:
            self.assert_code(process, 0)

    def test_N4_a_server_that_dies_is_a_loss(self):
        process = self.hold_unread("--grace", "1h")
        self.server.kill()
        self.events.expect("term")
        self.assert_code(process, 75)

    def test_N4_a_wait_ends_by_its_time_and_by_signals(self):
        self.hold("x")
        self.assert_code(self.start("run", "--verbose", "-n", "x", "true", stderr=self.full), 1)
        self.assert_code(self.start("run", "--verbose", "-w", "0.5", "x", "true", stderr=self.full), 1)
        waiter = self.start("run", "--verbose", "x", "true", stderr=self.full)
        self.wait_for_waiters("x")
        waiter.send_signal(signal.SIGINT)
        self.assert_code(waiter, 128 + signal.SIGINT)

    def test_N4_the_exit_status_is_that_of_what_happened(self):
        cases = ((("--verbose", "a", "sh", "-c", "exit 7"), 7), (("b", "/nonexistent/command"), 127),
                 (("--nonsense",), 64), (("--server", "unix:/nonexistent/socket", "c", "true"), 69))
        processes = [(self.start("run", *arguments, stderr=self.full), code) for arguments, code in cases]
        for process, code in processes:
            self.assert_code(process, code)
        self.assertEqual(self.server.keys(), [])

    def test_N4_a_release_is_sent_and_its_failure_ends_the_command_all_the_same(self):
        process = self.hold_unread(command='echo held >"$EVENTS"; read _ <"$GATE"; exit 3')
        self.server.kill()
        self.gate.send()
        self.assert_code(process, 3)

    def refuse_attempts(self, count):
        """In the place of a server that has died: take so many connections, and close each."""
        self.server.kill()
        if os.path.exists(self.server.path):
            os.unlink(self.server.path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.server.path)
            listener.listen()
            for _ in range(count):
                listener.accept()[0].close()
        os.unlink(self.server.path)

    def test_N4_what_was_not_read_is_said_later_and_what_repeats_itself_is_counted(self):
        process = self.hold_unread("--lease", "1h")
        self.refuse_attempts(20)
        process.send_signal(signal.SIGTERM)
        os.dup2(self.reader, self.full)  # closed, but for whoever cleans up
        with open(os.dup(self.reader), "rb") as lines:
            text = lines.read().lstrip(b"#").decode()
        self.assert_code(process, 0)
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^redlatch: \S+Z locking 'x'")
        self.assertIn("Z cannot release 'x'", text)
        self.assertLess(len(lines), 15)
        for line in lines:
            self.assertRegex(line, r"^redlatch: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S")

    def test_N4_a_stopped_terminal_holds_up_nothing(self):
        try:
            master, slave = pty.openpty()
        except OSError as error:
            self.skipTest("there are no pseudo-terminals here: %s" % error)
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        os.write(master, b"\x13")  # Ctrl-S
        os.write(slave, b"")
        process = self.hold_unread("--max-hold", "3", stderr=slave)
        self.events.expect("term")
        self.assert_code(process, 124)

    def test_N4_a_command_that_writes_where_nobody_reads_is_ended_in_time_and_its_lock_renewed(self):
        """Ended because of its time, and not of a loss: that is longer than the lease."""
        command = """echo held >"$EVENTS"; exec yes >&%d"""
        processes = [self.hold_unread("--max-hold", "5", names=("x%d" % fd,), command=command % fd, stdout=self.full)
                     for fd in (1, 2)]
        for process in processes:
            self.assert_code(process, 124)
        self.assertEqual(self.server.keys(), [])

    def test_N4_the_descriptor_is_left_as_others_want_it(self):
        """It may be one that does not wait, and what has no room comes later; or one that waits, and stays so."""
        for blocking in (False, True):
            reader, writer = os.pipe()
            self.fill(writer)
            os.set_blocking(writer, blocking)
            process = self.start("run", "--verbose", "x", "--", "sh", "-c", support.EveryKind.HOLD, stderr=writer)
            self.events.expect("held")
            self.assertEqual(fcntl.fcntl(writer, fcntl.F_GETFL) & os.O_NONBLOCK, 0 if blocking else os.O_NONBLOCK)
            support.until(lambda: set(support.thread_states(process.pid)) == {"S"}, "it has written as far as it can")
            os.close(writer)
            self.gate.send()
            with open(reader, "rb") as lines:
                text = lines.read().lstrip(b"#").decode()
            self.assert_code(process, 0)
            words = [re.search(r"Z (\w+)", line)[1] for line in text.splitlines()]
            self.assertEqual(words, ["locking", "locked", "released"])


if __name__ == "__main__":
    support.main(sys.argv[1:])
