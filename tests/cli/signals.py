#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""signals - what signals do to the command: passed on while it runs, giving up while it waits, at a terminal, and its
own death by SIGKILL."""

import os
import pty
import random
import re
import select
import signal
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

# Every signal that is passed on, and whether it ends a wait for the lock.
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM,
             signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGIO, signal.SIGPWR, signal.SIGRTMIN,
             signal.SIGRTMIN + 7, signal.SIGRTMAX)
TELLING = (signal.SIGWINCH, signal.SIGCONT)

# A command that reports each signal it gets, by number, and ends when one line comes through the gate.
RECORDER = """
import os, select, signal, sys
events = os.open(os.environ["EVENTS"], os.O_WRONLY)
gate = os.open(os.environ["GATE"], os.O_RDONLY | os.O_NONBLOCK)
caught, catch = os.pipe()
os.set_blocking(catch, False)
signal.set_wakeup_fd(catch, warn_on_full_buffer=False)
for signo in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP}:
    if signal.getsignal(signo) != signal.SIG_IGN:
        signal.signal(signo, lambda *_: None)
os.write(events, b"held\\n")
while True:
    ready = select.select([caught, gate], [], [])[0]
    if caught not in ready:
        sys.exit(33)
    for signo in os.read(caught, 4096):
        os.write(events, b"%d\\n" % signo)
"""


class Forwarding(support.Case):
    def hold_recorder(self, **options):
        process = self.start("run", "x", "--", sys.executable, "-ISc", RECORDER, **options)
        self.events.expect("held")
        return process

    def finish(self, process):
        self.gate.send()
        self.assert_result(self.result(process), 33)
        self.assertTrue(self.events.is_silent())
        self.assert_free("x")

    def test_every_signal_reaches_the_command_once(self):
        process = self.hold_recorder()
        for signo in FORWARDED + TELLING:
            process.send_signal(signo)
            self.events.expect("%d" % signo)
        self.finish(process)

    def test_a_command_that_dies_of_it_gives_128_and_the_signal(self):
        for signo in FORWARDED:
            process = self.hold("x", command='ulimit -c 0; echo held >"$EVENTS"; exec sleep 1000')
            process.send_signal(signo)
            self.assert_result(self.result(process), 128 + signo)
            self.assert_free("x")

    def test_what_nohup_ignores_stays_ignored(self):
        process = self.hold_recorder(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGUSR1)
        self.events.expect("%d" % signal.SIGUSR1)
        self.finish(process)

    def test_signals_that_our_caller_blocked_are_passed_on_all_the_same(self):
        process = self.hold_recorder(preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]))
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        self.events.expect("%d" % signal.SIGUSR2)
        self.finish(process)

    def test_a_storm_of_signals_loses_neither_the_command_nor_its_status(self):
        process = self.hold_recorder()
        for _ in range(20000):
            process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        while self.events.next() != "%d" % signal.SIGUSR2:
            pass
        self.gate.send()
        self.assertEqual(self.result(process).code, 33)
        self.assert_free("x")

    def test_a_reader_of_our_messages_that_went_away_does_not_end_the_command(self):
        process = self.hold("x", "--verbose", command='echo held >"$EVENTS"; read _ <"$GATE"; exit 5')
        process.stderr.close()
        process.stderr = None
        self.gate.send()
        self.assertEqual(process.wait(support.BOUND_S), 5)
        self.assert_free("x")


class Waiting(support.Case):
    def wait_behind(self, name, *options, **more):
        process = self.start("run", *options, name, "echo", "never", **more)
        self.wait_for_waiters(name)
        return process

    def test_a_signal_ends_the_wait_and_leaves_nothing_behind(self):
        holder = self.hold("x")
        before = self.server.holders("x")
        for signo in FORWARDED:
            process = self.wait_behind("x")
            process.send_signal(signo)
            self.assert_result(self.result(process), 128 + signo)
            support.until(lambda: self.server.waiters("x") == 0, "the subscription ends")
        self.assertEqual(self.server.holders("x"), before)
        self.gate.send()
        self.assert_result(self.result(holder), 0)
        self.assertEqual(self.server.keys(), [])

    def test_signals_that_only_tell_do_not_end_it(self):
        holder = self.hold("x")
        process = self.start("run", "x", "echo", "mine")
        self.wait_for_waiters("x")
        for signo in TELLING:
            process.send_signal(signo)
        self.gate.send()
        self.assert_result(self.result(holder), 0)
        self.assert_result(self.result(process), 0, out="mine\n")

    def test_a_stopped_waiter_goes_on_where_it_was(self):
        holder = self.hold("x")
        process = self.start("run", "x", "echo", "mine", process_group=0)
        self.wait_for_waiters("x")
        process.send_signal(signal.SIGTSTP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        self.gate.send()
        self.assert_result(self.result(holder), 0)
        process.send_signal(signal.SIGCONT)
        self.assert_result(self.result(process), 0, out="mine\n")

    def test_a_signal_while_the_server_does_not_answer_ends_it_too(self):
        with self.server.paused():
            process = self.start("run", "x", "echo", "never")
            support.until(lambda: self.signals_are_caught(process.pid), "it handles signals")
            process.send_signal(signal.SIGTERM)
            self.assert_result(self.result(process), 128 + signal.SIGTERM)
        self.assertEqual(self.server.keys(), [])

    def signals_are_caught(self, pid):
        with open("/proc/%d/status" % pid) as f:
            caught = int(re.search(r"^SigCgt:\s*(\w+)", f.read(), re.M).group(1), 16)
        return caught >> (signal.SIGTERM - 1) & 1

    def test_a_signal_at_any_moment_leaves_nothing_behind(self):
        """From before the first line of main to after the last: the lock may be on its way, granted, in use or on its
        way back."""
        rand = random.Random(1)
        for _ in range(150):
            process = self.start("run", "x", "true")
            time.sleep(rand.random() * 0.012)  # the moment is what varies here; nothing is waited for
            process.send_signal(signal.SIGTERM)
            result = self.result(process)
            self.assertIn(result.code, (0, 128 + signal.SIGTERM, -signal.SIGTERM), result)
            self.assert_result(self.run_lock("-n", "x", "true"), 0)
        self.assertEqual(self.server.keys(), [])


class Death(support.Case):
    def test_the_command_dies_with_us_and_the_lock_ends_with_its_lease(self):
        process = self.hold("x", "--lease", "1900ms",
                            command='echo held >"$EVENTS"; echo $$ >"$EVENTS"; exec sleep 1000')
        pid = int(self.events.next())
        process.kill()
        process.wait()
        support.wait_until_gone(pid)
        support.until(lambda: not self.server.exists("x"), "the lease ends")

    def test_a_waiter_takes_over_when_the_lease_of_a_dead_holder_ends(self):
        for kind in ("reentrant", "simple"):
            process = self.hold("x", "--type", kind, "--lease", "1900ms")
            waiter = self.start("run", "--type", kind, "-w", "20", "x", "echo", "mine")
            self.wait_for_waiters("x")
            process.kill()
            process.wait()
            self.assert_result(self.result(waiter), 0, out="mine\n")
            self.assertEqual(self.server.keys(), [])

    def test_a_waiter_that_is_killed_is_missed_by_nobody(self):
        holder = self.hold("x")
        victim = self.start("run", "x", "echo", "never")
        self.wait_for_waiters("x")
        victim.kill()
        victim.wait()
        successor = self.start("run", "x", "echo", "mine")
        self.wait_for_waiters("x")
        self.gate.send()
        self.assert_result(self.result(holder), 0)
        self.assert_result(self.result(successor), 0, out="mine\n")


# Interactive, with job control, and without a line editor, which changes the terminal's mode before and after each
# line.
PLAIN_SHELL = ["--norc", "--noprofile", "--noediting", "-i"]


class Terminal:
    """A pseudo-terminal with an interactive shell on it."""

    def __init__(self, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            support.die_with_parent()
            os.execvpe("bash", ["bash", *PLAIN_SHELL], dict(env, PS1="", TERM="dumb", HISTFILE=""))
        attributes = termios.tcgetattr(self.fd)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(self.fd, termios.TCSANOW, attributes)
        self.text = b""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern):
        """Read until the pattern appears; returns the match and forgets what was up to it."""
        end = time.monotonic() + support.BOUND_S
        while True:
            match = re.search(pattern.encode(), self.text)
            if match:
                self.text = self.text[match.end():]
                return match
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("%r does not appear in %r" % (pattern, self.text))
            self.text += os.read(self.fd, 4096)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class HangUp(support.Case):
    def test_a_terminal_that_hangs_up_reaches_the_command_also_of_a_session_leader(self):
        """As under ssh or in a terminal window that runs nothing else: the kernel tells the leader alone."""
        environment = self.environment()
        try:
            pid, fd = pty.fork()
        except OSError as error:
            self.skipTest("there are no pseudo-terminals here: %s" % error)
        if pid == 0:
            support.die_with_parent()
            os.execve(support.REDLATCH, ["redlatch", "run", "x", "--", sys.executable, "-ISc", RECORDER], environment)
        self.events.expect("held")
        os.close(fd)
        self.assertEqual({int(self.events.next()), int(self.events.next())}, {signal.SIGHUP, signal.SIGCONT})
        self.gate.send()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 33)
        self.assert_free("x")


class AtATerminal(support.Case):
    def setUp(self):
        try:
            for fd in pty.openpty():
                os.close(fd)
        except OSError as error:
            self.skipTest("there are no pseudo-terminals here: %s" % error)
        super().setUp()
        self.recorder = os.path.join(self.folder, "recorder.py")
        with open(self.recorder, "w") as f:
            f.write(RECORDER)
        environment = self.environment(REDLATCH=support.REDLATCH, PYTHON=sys.executable, RECORDER=self.recorder)
        try:
            self.terminal = Terminal(environment)
        except OSError as error:  # as in a bare chroot, where /dev/pts is not mounted
            self.skipTest("there are no pseudo-terminals here (%s)" % error)
        self.addCleanup(self.terminal.close)

    def run_recorder(self):
        self.terminal.type('"$REDLATCH" run x -- "$PYTHON" -IS "$RECORDER"; echo status=$?.\n')
        self.events.expect("held")

    def finish(self):
        self.gate.send()
        self.terminal.expect(r"status=33\.")
        self.assertTrue(self.events.is_silent())
        self.assert_free("x")

    def redlatch_pid(self):
        """The shell's only child."""
        with open("/proc/%d/task/%d/children" % (self.terminal.pid, self.terminal.pid)) as f:
            return int(f.read())

    def test_ctrl_c_reaches_the_command_once(self):
        self.run_recorder()
        self.terminal.type("\x03")
        self.events.expect("%d" % signal.SIGINT)
        # Passed on in the order of arrival: had SIGINT been passed on as well, it would come before this one.
        os.kill(self.redlatch_pid(), signal.SIGUSR1)
        self.events.expect("%d" % signal.SIGUSR1)
        self.terminal.type("\x1c")
        self.events.expect("%d" % signal.SIGQUIT)
        os.kill(self.redlatch_pid(), signal.SIGUSR1)
        self.events.expect("%d" % signal.SIGUSR1)
        self.finish()

    def test_ctrl_c_while_waiting_gives_up(self):
        self.hold("x")
        self.terminal.type('"$REDLATCH" run x -- echo never; echo status=$?.\n')
        self.wait_for_waiters("x")
        self.terminal.type("\x03")
        self.terminal.expect(r"status=130\.")
        support.until(lambda: self.server.waiters("x") == 0, "the subscription ends")

    def test_ctrl_z_stops_both_and_fg_continues_both(self):
        self.run_recorder()
        self.terminal.type("\x1a")
        self.terminal.expect("Stopped")
        self.assertTrue(self.server.exists("x"))
        self.terminal.type("fg; echo status=$?.\n")
        # The shell continues the whole group, and redlatch passes its own on: twice, or once when they merge.
        self.events.expect("%d" % signal.SIGCONT)
        self.gate.send()
        self.terminal.expect(r"status=33\.")
        while not self.events.is_silent():
            self.events.expect("%d" % signal.SIGCONT)
        self.assert_free("x")

    def test_an_interactive_shell_under_the_lock_has_its_own_job_control(self):
        self.terminal.type('"$REDLATCH" run x -- bash %s; echo status=$?.\n' % " ".join(PLAIN_SHELL))
        self.terminal.type("echo here=$REDLATCH_NAME.\n")
        self.terminal.expect(r"here=x\.")
        # The job itself reports, when it is in the foreground.
        self.terminal.type("""sh -c 'echo ready >"$EVENTS"; exec sleep 1000'; echo interrupted=$?.\n""")
        self.events.expect("ready")
        self.terminal.type("\x03")
        self.terminal.type("echo alive=$?.\n")
        self.terminal.expect(r"alive=130\.")
        self.assertTrue(self.server.exists("x"))
        self.terminal.type("exit 9\n")
        self.terminal.expect(r"status=9\.")
        self.assert_free("x")


if __name__ == "__main__":
    support.main(sys.argv[1:])
