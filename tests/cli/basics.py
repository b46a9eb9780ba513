#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""basics - the command from outside: its command line, what a command under a lock sees, exit statuses, the server."""

import datetime
import os
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

SUBCOMMANDS = ["run", "ls", "show", "unlock", "wait", "top", "doctor", "exporter"]
MANUAL = os.path.join(support.TOP, "tools", "redlatch.1")

# Exit statuses that a command may well return, redlatch's own among them.
CODES = (0, 1, 2, 7, 63, 64, 69, 70, 75, 100, 124, 125, 126, 127, 128, 129, 143, 200, 254, 255)
DEADLY = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV,
          signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM, signal.SIGRTMAX)

# Opened by the shell or Python, not handed over: what /proc shows of a process that asks about itself.
ABOUT_ITSELF = ["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]
DESCRIPTORS = ["ls", "/proc/self/fd"]



class CommandLine(support.Case):
    def help_of(self, *arguments):
        result = self.redlatch(*arguments)
        self.assertEqual((result.code, result.err), (0, ""))
        return result.out

    def assert_misused(self, arguments, problem, hint):
        self.assert_result(self.redlatch(*arguments), 64,
                           err="redlatch: %s\nredlatch: try 'redlatch%s --help'\n" % (problem, hint))

    def test_help_is_the_same_however_it_is_asked_for(self):
        self.assertEqual(self.help_of("--help"), self.help_of("-h"))
        self.assertEqual(self.help_of("--help"), self.help_of("help"))
        self.assertEqual(self.help_of("run", "--help"), self.help_of("help", "run"))
        self.assertEqual(self.help_of("run", "--help"), self.help_of("run", "-h", "name"))
        self.assertEqual(self.help_of("exporter", "--help"), self.help_of("help", "exporter"))
        self.assertIn("Usage: redlatch help", self.help_of("help", "help"))
        self.assertIn("Usage: redlatch version", self.help_of("version", "--help"))

    def test_help_names_every_subcommand_and_every_exit_status(self):
        self.assertEqual(re.findall(r"^  ([a-z]+) ", self.help_of("help"), re.M),
                         SUBCOMMANDS + ["help", "version"])
        for word in "ls", "show":
            self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of(word, "--help"), re.M), ["0", "64", "69", "70"])
            for line in self.help_of(word, "--help").splitlines():
                self.assertLessEqual(len(line), 100, line)
        self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of("run", "--help"), re.M),
                         ["1", "64", "69", "70", "75", "124", "126", "127"])
        self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of("doctor", "--help"), re.M), ["0", "1", "2", "64", "70"])
        self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of("unlock", "-h"), re.M),
                         ["0", "1", "3", "64", "69", "70"])
        self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of("wait", "-h"), re.M), ["0", "1", "64", "69", "70"])
        self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of("exporter", "-h"), re.M), ["0", "64", "70"])
        self.assertEqual(re.findall(r"^ +(\d+)  ", self.help_of("top", "-h"), re.M), ["0", "64", "69", "70"])

    def test_help_fits_a_terminal(self):
        for line in "".join(self.help_of("help", what) for what in SUBCOMMANDS + ["help"]).splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_version_is_that_of_the_library(self):
        with open(os.path.join(support.TOP, "include", "redlatch", "version.h")) as f:
            version = re.search(r'RDL_VERSION "(.*)"', f.read()).group(1)
        for arguments in (["--version"], ["-V"], ["version"], ["help", "--version"],
                          *([what, "-V"] for what in SUBCOMMANDS), ["run", "--version", "x", "true"]):
            self.assertEqual(self.help_of(*arguments), "redlatch %s\n" % version)

    def test_the_manual_has_the_options_and_statuses_of_the_help(self):
        with open(MANUAL) as f:
            manual = f.read()
        named = set(re.findall(r"^\.It Fl (?:. , )?-([a-z-]+)", manual, re.M))
        helps = "".join(self.help_of(what, "--help") for what in SUBCOMMANDS)
        self.assertEqual(named, set(re.findall(r"^  (?:-., |    )--([a-z-]+)", helps, re.M)))
        self.assertEqual(set(re.findall(r"^\.It (\d+)$", manual, re.M)), set(re.findall(r"^ +(\d+)  ", helps, re.M)))

    @unittest.skipUnless(shutil.which("mandoc"), "there is no mandoc here")
    def test_the_manual_is_well_formed(self):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", MANUAL], stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            self.assert_says(self.redlatch("run", "--help", stdout=full), 70, "No space left on device")
        self.server.redis("HSET", "x", "9f1c8a54-0000-4000-8000-0123456789ab:1", "1")
        for command in (["run", "--help"], ["ls"], ["show", "x"], ["top", "--once"], ["doctor"]):
            result = self.redlatch(*command, stdout=None, preexec_fn=lambda: os.close(1))
            self.assert_says(result, 70, "cannot write to the standard output: Bad file descriptor")
        self.assert_result(self.redlatch("run", "y", "--", "true", stdout=None, preexec_fn=lambda: os.close(1)), 0)

    def test_misuse_is_one_line_and_a_hint(self):
        self.assert_misused([], "SUBCOMMAND is missing", "")
        self.assert_misused(["frobnicate"], "there is no subcommand 'frobnicate'", "")
        self.assert_misused(["--frobnicate"], "there is no subcommand '--frobnicate'", "")
        self.assert_misused(["help", "frobnicate"], "help: there is no subcommand or topic 'frobnicate'", " help")
        for arguments, subcommand in ((["version", "extra"], "version"), (["--version", "extra"], "version"),
                                      (["-V", "extra"], "version"), (["version", "--help", "extra"], "version"),
                                      (["help", "run", "extra"], "help"), (["--help", "types", "extra"], "help")):
            self.assert_misused(arguments, subcommand + ": 'extra' is one argument too many", " " + subcommand)
        self.assert_misused(["run"], "run: NAME is missing", " run")
        self.assert_misused(["run", "x"], "run: COMMAND is missing", " run")
        self.assert_misused(["run", "", "true"], "run: NAME is empty", " run")
        self.assert_misused(["run", "-n", "-w", "1", "x", "true"], "run: -n and -w cannot be combined", " run")
        self.assert_misused(["run", "--on-outage", "local", "--type", "fair", "x", "true"],
                            "run: --on-outage local and --type fair cannot be combined: a host alone has no queue",
                            " run")
        self.assert_misused(["run", "--nonsense", "x", "true"], "run: unknown option '--nonsense'", " run")
        self.assert_misused(["run", "-w", "soon", "x", "true"],
                            "run: --wait: 'soon' is not a time (such as 10, 2.5, 500ms, 5m, 1h, 2d)", " run")

    def test_misuse_touches_no_server(self):
        before = self.server.redis("INFO", "stats")
        self.run_lock("x")
        connections = rb"total_connections_received:(\d+)"
        self.assertEqual(re.search(connections, before).group(1),
                         re.search(connections, self.server.redis("INFO", "stats")).group(1))


class TheCommand(support.Case):
    def plainly(self, *argv, **options):
        """What the same command does without us."""
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=self.environment(), timeout=support.BOUND_S,
                              **options).stdout

    def test_its_exit_status_passes_through(self):
        for code in CODES:
            self.assert_result(self.run_lock("x", "sh", "-c", "exit %d" % code), code)
        self.assert_free("x")

    def test_its_death_by_signal_is_128_and_the_signal(self):
        for signo in DEADLY:
            self.assert_result(self.run_lock("x", "sh", "-c", "ulimit -c 0; kill -%d $$" % signo), 128 + signo)
        self.assert_free("x")

    def test_arguments_reach_it_byte_by_byte(self):
        odd = [b"", b" ", b"a b", b"'\"\\", b"*", b"-n", b"--", b"\xff\xfe", b"\n", "für".encode()]
        result = self.run_lock("x", "--", "printf", "%s|", *odd)
        self.assertEqual(os.fsencode(result.out), b"|".join(odd) + b"|")

    def test_standard_input_passes_through(self):
        data = os.urandom(300000).hex().encode()
        self.assert_result(self.run_lock("x", "cat", input=data), 0, out=data.decode())

    def test_output_keeps_its_order(self):
        result = self.run_lock("x", "sh", "-c", "for i in 1 2 3; do echo out $i; echo err $i >&2; done",
                               stderr=subprocess.STDOUT)
        self.assertEqual(result.out, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n")

    def test_it_inherits_nothing_of_ours(self):
        for argv in (ABOUT_ITSELF, DESCRIPTORS):
            self.assertEqual(self.run_lock("x", "--", *argv).out, self.plainly(*argv))

    def test_it_inherits_descriptors_signal_mask_and_ignored_signals_of_our_caller(self):
        def prepare():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)

        fds = os.pipe()
        self.addCleanup(os.close, fds[0])
        self.addCleanup(os.close, fds[1])
        for argv in (ABOUT_ITSELF, DESCRIPTORS):
            options = dict(preexec_fn=prepare, pass_fds=fds, restore_signals=False)
            self.assertEqual(self.run_lock("x", "--", *argv, **options).out, self.plainly(*argv, **options))

    def test_closed_standard_descriptors_stay_closed_and_are_never_a_socket_of_ours(self):
        look = 'ls -l /proc/self/fd >"$OUT"'
        out = os.path.join(self.folder, "out")
        process = self.start("run", "--verbose", "x", "--", "sh", "-c", look, env={"OUT": out}, stdin=None, stdout=None,
                             stderr=None,
                             preexec_fn=lambda: os.closerange(0, 3))
        self.assertEqual(process.wait(support.BOUND_S), 0)
        with open(out) as f:
            self.assertNotIn("socket", f.read())
        self.assert_free("x")

    def test_it_finds_name_and_token_in_its_environment_and_everything_else_unchanged(self):
        env = {"REDLATCH_NAME": "outer", "REDLATCH_TOKEN": "1", "ODD": "a=b\nc"}
        result = self.run_lock("x y", "env", "-0", env=env)
        found = dict(entry.split("=", 1) for entry in result.out.split("\0") if entry)
        token = found.pop("REDLATCH_TOKEN")
        self.assertEqual(found.pop("REDLATCH_NAME"), "x y")
        self.assertRegex(token, "^[1-9][0-9]*$")
        expected = self.environment(**env)
        for key in ("REDLATCH_NAME", "REDLATCH_TOKEN"):
            expected.pop(key)
        self.assertEqual(found, expected)

    def test_tokens_grow(self):
        for kind in ("reentrant", "simple"):
            tokens = [int(self.run_lock("--type", kind, kind, "printenv", "REDLATCH_TOKEN").out) for _ in range(10)]
            self.assertEqual(tokens, sorted(set(tokens)))

    def test_it_is_found_as_by_the_shell(self):
        tool = os.path.join(self.folder, "mytool")
        with open(tool, "w") as f:
            f.write("#!/bin/sh\necho tool $1\n")
        os.chmod(tool, 0o755)
        path = "/nonexistent:%s:/usr/bin:/bin" % self.folder
        self.assert_result(self.run_lock("x", "mytool", "1", env={"PATH": path}), 0, out="tool 1\n")
        self.assert_result(self.run_lock("x", "./mytool", "2", cwd=self.folder), 0, out="tool 2\n")
        self.assert_result(self.run_lock("x", "mytool", "3", env={"PATH": ":/usr/bin"}, cwd=self.folder), 0,
                           out="tool 3\n")
        self.assert_result(self.run_lock("x", "true", env={"PATH": None}), 0)

    def test_a_script_without_an_interpreter_line_runs_in_the_shell(self):
        script = os.path.join(self.folder, "script")
        with open(script, "w") as f:
            f.write("echo $0 $1 $#\n")
        os.chmod(script, 0o755)
        self.assert_result(self.run_lock("x", script, "a b"), 0, out="%s a b 1\n" % script)

    def test_what_cannot_be_started_leaves_no_lock_behind(self):
        plain = os.path.join(self.folder, "plain")
        with open(plain, "w") as f:
            f.write("no program\n")
        bad = os.path.join(self.folder, "bad")
        with open(bad, "w") as f:
            f.write("#!/nonexistent/interpreter\n")
        os.chmod(bad, 0o755)
        for argument, code, reason in (("nonexistent-command", 127, "No such file or directory"),
                                       ("/nonexistent/command", 127, "No such file or directory"),
                                       ("", 127, "No such file or directory"),
                                       (bad, 127, "No such file or directory"),
                                       (plain, 126, "Permission denied"),
                                       (self.folder, 126, "Permission denied"),
                                       (plain + "/x", 126, "Not a directory")):
            result = self.run_lock("x", "--", argument)
            self.assert_result(result, code, err="redlatch: cannot run '%s': %s\n" % (argument, reason))
            self.assertEqual(self.server.keys(), [])

    def test_a_file_that_may_not_be_executed_does_not_hide_one_that_may(self):
        for name, mode in (("first", 0o644), ("second", 0o755)):
            os.mkdir(os.path.join(self.folder, name))
            tool = os.path.join(self.folder, name, "tool")
            with open(tool, "w") as f:
                f.write("#!/bin/sh\necho %s\n" % name)
            os.chmod(tool, mode)
        first, second = os.path.join(self.folder, "first"), os.path.join(self.folder, "second")
        self.assert_result(self.run_lock("x", "tool", env={"PATH": first + ":" + second}), 0, out="second\n")
        self.assert_says(self.run_lock("x", "tool", env={"PATH": first + ":/nonexistent"}), 126, "Permission denied")

    def test_a_directory_that_may_not_be_searched_is_one_without_the_command(self):
        closed = os.path.join(self.folder, "closed")
        os.mkdir(closed, 0o000)
        self.addCleanup(os.chmod, closed, 0o700)
        for path in (closed, closed + ":/nonexistent"):
            self.assert_says(self.run_lock("x", "tool", env={"PATH": path}), 127, "No such file or directory")

    def test_descriptors_that_run_out_leave_no_lock_behind(self):
        """Wherever it happens; here also between taking the lock and starting the command."""
        said, code, limit = set(), None, 4
        # looking for them takes descriptors, too
        without_leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        while code != 0:
            result = self.run_lock("-w", "5", "x", "true", env={"ASAN_OPTIONS": without_leaks},
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            self.assertEqual(self.server.keys(), [])
            said.add((result.code, result.err))
            code, limit = result.code, limit + 1
        self.assertIn((70, "redlatch: cannot start a process: Too many open files\n"), said)

    def test_a_shell_line_runs_in_the_shell(self):
        self.assert_result(self.run_lock("x", "-c", 'echo "$REDLATCH_NAME"; exit 3'), 3, out="x\n")
        self.assert_result(self.run_lock("-c", "echo a | cat", "x", env={"SHELL": "/bin/false"}), 0, out="a\n")

    def test_background_processes_do_not_keep_the_lock(self):
        result = self.run_lock("x", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!")
        self.addCleanup(os.kill, int(result.out), signal.SIGKILL)
        self.assertEqual(result.code, 0)
        self.assert_free("x")


class TheLock(support.Case):
    def on_terminal(self, *args):
        """Exit status and all that it says, on a terminal."""
        master, slave = pty.openpty()
        process = self.start(*args, stdout=slave, stderr=slave)
        os.close(slave)
        said = b""
        try:
            while chunk := os.read(master, 4096):
                said += chunk
        except OSError:  # nobody has the terminal any more
            pass
        os.close(master)
        return process.wait(support.BOUND_S), said.decode()

    def test_a_reentrant_lock_is_a_hash_with_a_lease_while_the_command_runs(self):
        process = self.hold("x")
        fields = self.server.redis("HGETALL", "x")
        self.assertEqual(fields[1:], [b"1"])
        self.assertRegex(fields[0].decode(), r"^[0-9a-f-]{36}:\d+$")
        self.assertLessEqual(self.server.redis("PTTL", "x"), 30000)
        self.assertGreater(self.server.redis("PTTL", "x"), 20000)
        self.gate.send()
        self.assert_result(self.result(process), 0)
        self.assertEqual(self.server.keys(), [])

    def test_a_simple_lock_is_a_string_with_a_lease_while_the_command_runs(self):
        process = self.hold("x", "--type", "simple", "--lease", "2m")
        self.assertEqual(self.server.redis("TYPE", "x"), b"string")
        self.assertGreater(self.server.redis("PTTL", "x"), 110000)
        self.gate.send()
        self.assert_result(self.result(process), 0)
        self.assertEqual(self.server.keys(), [])

    def test_the_lease_is_renewed_while_the_command_runs(self):
        for kind in ("reentrant", "simple"):
            process = self.hold("x", "--type", kind, "--lease", "1900ms")
            renewals = 0
            last = self.server.redis("PTTL", "x")
            while renewals < 3:
                ttl = self.server.redis("PTTL", "x")
                self.assertGreater(ttl, 0)
                renewals += ttl > last
                last = ttl
            self.gate.send()
            self.assert_result(self.result(process), 0)

    def test_any_name_is_a_name(self):
        for name in (b"-dash", "für".encode(), b"\xff\xfe", b" ", b"new\nline", b"a{b", b"{}", b"x" * 65536):
            result = self.run_lock("--", name, "--", "sh", "-c", 'test "$REDLATCH_NAME" = "$0"', name)
            self.assert_result(result, 0)
        self.assertEqual(self.server.keys(), [])

    def test_names_that_no_environment_holds_are_refused_before_anything_is_taken(self):
        most = 128 * 1024 - len("REDLATCH_NAME=") - 1
        look = ("--", "sh", "-c", "echo ${#REDLATCH_NAME}")
        half = most // 2
        for names in (("x" * most,), ("x" * half, "y" * (most - half - 1))):
            self.assert_result(self.run_lock(*names, *look), 0, out="%d\n" % most)
        for names in (("x" * (most + 1),), ("x" * half, "y" * (most - half))):
            self.assert_says(self.run_lock(*names, *look), 64, "is longer than %d bytes" % most)
        self.assertEqual(self.server.keys(), [])

    def test_names_are_kept_apart(self):
        first = self.hold("x")
        self.assert_result(self.run_lock("-n", "y", "true"), 0)
        self.gate.send()
        self.assert_result(self.result(first), 0)

    def test_nonblock_gives_up_at_once_and_silently(self):
        self.hold("x")
        self.assert_result(self.run_lock("-n", "x", "echo", "no"), 1)
        self.assert_result(self.run_lock("-w", "0", "x", "echo", "no"), 1)
        self.assert_result(self.run_lock("-n", "-E", "0", "x", "echo", "no"), 0)
        self.assert_result(self.run_lock("-n", "-E", "255", "x", "echo", "no"), 255)
        self.assertEqual(self.server.waiters("x"), 0)

    def test_a_wait_ends_when_its_time_is_over(self):
        self.hold("x")
        for wait, least in (("0.2", 0.2), ("250ms", 0.25)):
            before = os.times().elapsed
            self.assert_result(self.run_lock("-w", wait, "-E", "9", "x", "echo", "no"), 9)
            self.assertGreaterEqual(os.times().elapsed - before, least - 0.01)
        until_gone = lambda: self.server.waiters("x") == 0
        support.until(until_gone, "nobody waits")

    def test_a_wait_shorter_than_a_round_trip_still_tells_free_from_taken(self):
        for wait in ("1ms", "2ms", "5ms", "10ms"):
            self.assert_result(self.run_lock("-w", wait, "free", "true"), 0)
        self.hold("x")
        for wait in ("1ms", "2ms", "5ms", "10ms") * 5:
            self.assert_result(self.run_lock("-w", wait, "x", "true"), 1)

    def test_a_conflict_is_explained_with_verbose(self):
        self.hold("x")
        self.assert_says(self.run_lock("-n", "--verbose", "x", "true"), 1,
                         "Z locking 'x' at %s, not waiting" % self.server.uri,
                         "cannot lock 'x' at %s: not acquired" % self.server.uri)

    def test_a_conflict_says_for_how_long_it_was_to_wait(self):
        self.hold("x")
        self.hold("p", "--permits", "1")
        for arguments in ["x"], ["--on-outage", "wait", "x"], ["free", "x"], ["--permits", "1", "p"]:
            for wait, shown in ("1200ms", "1.2 s"), ("0.25", "250 ms"), ("1.005", "1.005 s"):
                self.assert_says(self.run_lock("--verbose", "-w", wait, *arguments, "--", "true"), 1,
                                 "waiting at most %s\n" % shown, "not acquired within %s: " % shown)
        self.assert_says(self.run_lock("--verbose", "-n", "--permits", "1", "p", "true"), 1,
                         "not acquired in time: too few permits are free")

    def test_a_conflict_names_the_holder(self):
        holder = self.hold("x", "--label", "nightly\x1b[2J")
        support.until(lambda: self.server.described() == 1, "the holder says who it is")
        who = "held by %s, pid %d (nightly\\x1b[2J), " % (os.uname().nodename, holder.pid)
        self.assert_says(self.run_lock("-n", "--verbose", "x", "true"), 1, who, " left")
        self.assert_says(self.run_lock("-w", "100ms", "--verbose", "free", "x", "--", "true"), 1, who)
        code, said = self.on_terminal("run", "-n", "x", "true")
        self.assertEqual(code, 1)
        self.assertIn(who, said)

    def test_a_conflict_names_the_command_of_the_holder_and_nobody_who_is_anonymous(self):
        holder = self.hold("x")
        support.until(lambda: self.server.described() == 1, "the holder says who it is")
        self.assert_says(self.run_lock("-n", "--verbose", "x", "true"), 1, "pid %d (sh)" % holder.pid)
        self.gate.send()
        self.assert_result(self.result(holder), 0)
        self.hold("x", "--anonymous")
        self.assert_says(self.run_lock("-n", "--verbose", "x", "true"), 1, ", which does not say who it is, ")

    def test_a_holder_is_told_the_user_s_words(self):
        self.hold("x", "--info", "ticket 7")
        support.until(lambda: self.server.described() == 1, "the holder says who it is")
        key, = self.server.redis("KEYS", "redlatch_client:*")
        self.assertEqual(self.server.redis("HMGET", key, "info", "label"), [b"ticket 7", b"sh"])

    def test_a_waiter_gets_the_lock_when_it_is_released(self):
        first = self.hold("x")
        second = self.start("run", "-w", "1h", "x", "echo", "second")
        self.wait_for_waiters("x")
        self.gate.send()
        self.assert_result(self.result(first), 0)
        self.assert_result(self.result(second), 0, out="second\n")
        self.assertEqual(self.server.keys(), [])

    def test_a_simple_lock_waits_for_code_that_announces_nothing(self):
        self.server.redis("SET", "x", "somebody", "NX", "PX", 3600000)
        self.assert_result(self.run_lock("-n", "--type", "simple", "x", "true"), 1)
        process = self.start("run", "--type", "simple", "x", "echo", "mine")
        self.wait_for_waiters("x")
        self.server.redis("DEL", "x")
        self.assert_result(self.result(process), 0, out="mine\n")

    def test_verbose_tells_the_story(self):
        result = self.run_lock("--verbose", "-w", "5", "x", "printenv", "REDLATCH_TOKEN")
        self.assertEqual(result.code, 0)
        lines = result.err.splitlines()
        stamps = [datetime.datetime.strptime(line.split(" ")[1], "%Y-%m-%dT%H:%M:%S.%f%z") for line in lines]
        self.assertEqual(stamps, sorted(stamps))
        self.assertLess(abs(stamps[0].timestamp() - time.time()), 600)
        texts = [line.split(" ", 2)[2] for line in lines]
        self.assertEqual(texts[0], "locking 'x' at %s, waiting at most 5 s" % self.server.uri)
        self.assertRegex(texts[1], r"^locked 'x' after \d+ ms, token %s$" % result.out.strip())
        self.assertRegex(texts[2], r"^released 'x' after \d+ ms$")
        self.assertEqual(len(lines), 3)

    def test_strange_names_cannot_drive_the_terminal(self):
        self.assert_says(self.run_lock("--verbose", "\x1b[2J\n", "true"), 0, r"'\x1b[2J\x0a'")


class TheServer(support.Case):
    def assert_no_secret(self, result):
        self.assertNotIn(support.PASSWORD, result.err + result.out)

    def test_none_there_is_69_and_names_it(self):
        for uri, shown in (("unix:/nonexistent/socket", "unix:/nonexistent/socket"),
                           ("unix://:%s@/nonexistent/socket" % support.PASSWORD, "unix:///nonexistent/socket"),
                           ("redis://user:%s@127.0.0.1:1/3" % support.PASSWORD, "redis://127.0.0.1:1/3")):
            for result in (self.run_lock("-w", "0.2", "--server", uri, "x", "echo", "no"),
                           self.run_lock("-w", "0.2", "x", "echo", "no", env={"REDLATCH_SERVER": uri})):
                self.assert_says(result, 69, "redlatch: cannot lock 'x' at %s: " % shown)
                self.assertEqual(result.out, "")
                self.assert_no_secret(result)

    def test_one_that_does_not_answer_is_given_up_in_time(self):
        with self.server.paused():
            before = os.times().elapsed
            self.assert_says(self.run_lock("-w", "0.2", "x", "echo", "no"), 69, "cannot lock 'x' at " + self.server.uri)
            self.assertLess(os.times().elapsed - before, 5)

    def test_the_default_is_the_local_host(self):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 6379)) == 0:
                self.skipTest("somebody listens on port 6379")
        for env in ({"REDLATCH_SERVER": None}, {"REDLATCH_SERVER": ""}):
            self.assert_says(self.run_lock("-w", "0.2", "x", "true", env=env), 69, "at redis://127.0.0.1:6379: ")

    def test_the_option_wins_over_the_environment(self):
        result = self.run_lock("--server", self.server.uri, "x", "true",
                               env={"REDLATCH_SERVER": "unix:/nonexistent/socket"})
        self.assert_result(result, 0)

    def test_a_malformed_address_is_64_and_not_quoted(self):
        for uri in ("redis://u:%s@host:port" % support.PASSWORD, "redis:%s" % support.PASSWORD, support.PASSWORD,
                    "redis://u:%s" % support.PASSWORD, "unix:relative"):
            for result, source in ((self.run_lock("--server", uri, "x", "true"), "--server"),
                                   (self.run_lock("x", "true", env={"REDLATCH_SERVER": uri}), "REDLATCH_SERVER")):
                self.assert_says(result, 64, "redlatch: the address in %s is wrong: " % source)
                self.assert_no_secret(result)
                self.assertNotIn(uri, result.err)

    def test_a_wrong_password_is_70_in_the_servers_words(self):
        server = support.Server(password=support.PASSWORD)
        self.addCleanup(server.stop)
        self.assert_says(self.run_lock("--server", server.uri, "x", "true"), 70, "NOAUTH")
        result = self.run_lock("--server", "unix://:wr0ng@" + server.path, "x", "true")
        self.assert_says(result, 70, "WRONGPASS")
        self.assertNotIn("wr0ng", result.err)

    def test_sentinels_have_a_password_of_their_own(self):
        reserved, port = support.free_port()
        self.addCleanup(reserved.close)
        server = support.Server("--port", str(port), "--bind", "127.0.0.1")
        self.addCleanup(server.stop)
        sentinel = support.Sentinel(port, support.PASSWORD)
        self.addCleanup(sentinel.stop)
        for names in ({}, {"REDLATCH_SENTINEL_USERNAME": "default"}):
            result = self.run_lock("--server", sentinel.uri, "x", "true",
                                   env={"REDLATCH_SENTINEL_PASSWORD": support.PASSWORD, **names})
            self.assert_result(result, 0)
        result = self.run_lock("--server", sentinel.uri, "-w1", "x", "true",
                               env={"REDLATCH_SENTINEL_PASSWORD": "wr0ng"})
        self.assert_says(result, 70, "WRONGPASS")
        self.assertNotIn("wr0ng", result.err)

    def test_over_tls_both_sides_show_a_certificate(self):
        server = support.TlsServer()
        self.addCleanup(server.stop)
        mutual = ("--cacert", server.cert, "--cert", server.cert, "--key", server.key)
        self.assert_result(self.run_lock("--server", server.tls_uri, *mutual, "x", "true"), 0)
        self.assert_says(self.run_lock("--server", server.tls_uri, "--cacert", server.cert, "-w1", "x", "true"), 69,
                         "certificate")

    def test_over_tls_nobody_is_believed_without_a_reason(self):
        server = support.TlsServer("--tls-auth-clients", "no")
        self.addCleanup(server.stop)
        self.assert_says(self.run_lock("--server", server.tls_uri, "-w1", "x", "true"), 69,
                         "the server's certificate is not accepted")
        self.assert_result(self.run_lock("--server", server.tls_uri, "--cacert", server.cert, "x", "true"), 0)
        self.assert_result(self.run_lock("--server", server.tls_uri, "--insecure", "x", "true"), 0)
        by_address = server.tls_uri.replace("localhost", "127.0.0.1")
        self.assert_says(self.run_lock("--server", by_address, "--cacert", server.cert, "-w1", "x", "true"), 69,
                         "is not for 127.0.0.1")

    def test_what_is_wrong_with_tls_is_64(self):
        self.assert_says(self.run_lock("--insecure", "x", "true"), 64, "an option for TLS", "not rediss://")
        for file in ("/nonexistent/ca", "/dev/null"):
            result = self.run_lock("--server", "rediss://localhost", "--cacert", file, "x", "true")
            self.assert_says(result, 64, "an option for TLS", file)

    def test_a_password_is_used_and_not_shown_by_ps(self):
        server = support.Server(password=support.PASSWORD)
        self.addCleanup(server.stop)
        result = self.run_lock("--server", server.secret_uri, "--verbose", "x", "-c",
                               "tr '\\0' '\\n' </proc/$PPID/cmdline")
        self.assertEqual(result.code, 0)
        self.assertIn("@" + server.path, result.out)
        self.assert_no_secret(result)

    def test_an_at_in_the_path_of_a_socket_is_no_password(self):
        path = os.path.join(self.folder, "a@b")
        os.symlink(self.server.path, path)
        for uri in ("unix:" + path, "unix://" + path):
            result = self.run_lock("--verbose", "x", "env", env={"REDLATCH_SERVER": uri})
            self.assertEqual(result.code, 0, result.err)
            self.assertIn("\nREDLATCH_SERVER=%s\n" % uri, "\n" + result.out)
            self.assertIn(path, result.err)

    def test_N5_no_secret_is_in_the_commands_environment_unless_asked_for(self):
        server = support.Server(password=support.PASSWORD)
        self.addCleanup(server.stop)
        env = {"REDLATCH_SERVER": server.secret_uri, "REDLATCH_SENTINEL_PASSWORD": support.PASSWORD,
               "REDLATCH_SENTINEL_USERNAME": "default"}
        result = self.run_lock("--verbose", "x", "env", env=env)
        self.assertEqual(result.code, 0)
        self.assert_no_secret(result)
        self.assertIn("\nREDLATCH_SERVER=%s\n" % server.uri.replace("unix:", "unix://"), "\n" + result.out)
        self.assertNotIn("REDLATCH_SENTINEL", result.out)
        result = self.run_lock("--pass-server", "x", "env", env=env)
        for key, value in env.items():
            self.assertIn("%s=%s\n" % (key, value), result.out)

    def test_N5_an_address_in_a_file_is_in_no_command_line_nor_environment(self):
        server = support.Server(password=support.PASSWORD)
        self.addCleanup(server.stop)
        file = os.path.join(self.folder, "address")
        with open(file, "w") as f:
            f.write(server.secret_uri + "\nmore\n")
        look = "tr '\\0' '\\n' </proc/$PPID/cmdline; env; "
        for args, env in ((("--server", "@" + file), {}), ((), {"REDLATCH_SERVER": "@" + file})):
            result = self.run_lock(*args, "--verbose", "x", "-c", look, env=env)
            self.assertEqual(result.code, 0)
            self.assert_no_secret(result)
        inner = "%s run y true" % support.REDLATCH
        self.assert_result(self.run_lock("x", "-c", inner, env={"REDLATCH_SERVER": "@" + file}), 0)
        with open(file, "w") as f:
            f.write("unix:///" + 9000 * "x")
        for bad in ("@/nonexistent/address", "@/dev/null", "@", "@/dev/zero", "@" + file):
            self.assert_says(self.run_lock("--server", bad, "x", "true"), 64, "no server address in")

    def test_N5_a_server_that_answers_with_what_it_was_sent_tells_nothing(self):
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        self.addCleanup(listener.close)

        def echo():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    heard = b" ".join(connection.recv(65536).split(b"\r\n"))
                    connection.sendall(b"-ERR unknown command, with args beginning with: " + heard + b"\r\n" * 2)

        threading.Thread(target=echo, daemon=True).start()
        uri = "redis://us3r:%s@127.0.0.1:%d" % (support.PASSWORD, listener.getsockname()[1])
        result = self.run_lock("--verbose", "-w1", "x", "true", env={"REDLATCH_SERVER": uri})
        self.assertNotEqual(result.code, 0)
        self.assert_no_secret(result)
        self.assertNotIn("us3r", result.out + result.err)

    def test_a_secret_without_a_colon_is_64_with_words(self):
        result = self.run_lock("--server", "redis://%s@127.0.0.1:1" % support.PASSWORD, "x", "true")
        self.assert_says(result, 64, "user without a password: write :password@")
        self.assert_no_secret(result)

    def test_a_password_is_not_shown_when_the_server_goes_away(self):
        server = support.Server(password=support.PASSWORD)
        self.addCleanup(server.stop)
        process = self.hold("x", "--verbose", "--lease", "1900ms", "--server", server.secret_uri)
        server.kill()
        result = self.result(process)
        self.assert_says(result, 75, "lost 'x' at unix://" + server.path)
        self.assert_no_secret(result)

    def test_a_key_of_another_type_is_70_in_the_servers_words(self):
        self.server.redis("SET", "x", "a string")
        self.assert_says(self.run_lock("-n", "x", "true"), 70, "cannot lock 'x' at %s: " % self.server.uri, "WRONGTYPE")
        self.assertEqual(self.server.redis("GET", "x"), b"a string")

    def test_a_server_that_has_no_memory_left_is_70_in_its_words(self):
        self.server.redis("CONFIG", "SET", "maxmemory", "1")
        self.assert_says(self.run_lock("-n", "x", "true"), 70, "OOM")

    def test_scripts_that_were_flushed_go_unnoticed(self):
        self.assert_result(self.run_lock("x", "true"), 0)
        process = self.hold("x", "--lease", "1900ms")
        self.server.redis("SCRIPT", "FLUSH")
        self.gate.send()
        self.assert_result(self.result(process), 0)
        self.assertEqual(self.server.keys(), [])


if __name__ == "__main__":
    support.main(sys.argv[1:])
