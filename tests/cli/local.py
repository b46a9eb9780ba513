#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""local - redlatch run --on-outage local: a lock of this host alone while there is no server (protocol.md, 10)."""

import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support


class Local(support.Case):
    LEASE = "3"

    def setUp(self):
        super().setUp()
        self.local = ("--on-outage", "local", "--local-after", "300ms", "--lease", self.LEASE, "--local-dir",
                      os.path.join(self.folder, "host"))

    def degraded(self, process):
        """Read what it says up to that."""
        line = process.stderr.readline().decode()
        self.assertIn("degraded: no server for 300 ms; 'x' is locked on this host alone", line)

    def test_without_a_server_one_run_of_the_host_at_a_time_and_the_lock_is_taken_when_it_is_back(self):
        self.server.kill()
        holder = self.hold("x", *self.local,
                           command='echo held >"$EVENTS"; echo ${REDLATCH_TOKEN-none}; read _ <"$GATE"')
        self.degraded(holder)
        self.assert_result(self.run_lock(*self.local, "-n", "x", "true"), 1)
        self.assert_result(self.run_lock(*self.local, "-w", "1", "x", "true"), 1)
        waiter = self.start("run", *self.local, "x", "echo", "mine")
        self.server.start()
        self.assertIn("the server is back; 'x' is locked at ", holder.stderr.readline().decode())
        self.assertTrue(self.server.exists("x"))
        self.assert_result(self.run_lock("-n", "x", "true"), 1)
        self.gate.send()
        self.assert_result(self.result(holder), 0, "none\n")
        self.assert_result(self.result(waiter), 0, "mine\n")
        self.assert_free("x")

    def test_a_killed_run_frees_the_host_at_once(self):
        self.server.kill()
        holder = self.hold("x", *self.local)
        holder.kill()
        self.assert_says(self.run_lock(*self.local, "-n", "x", "true"), 0, "degraded: ")

    def test_a_lock_that_is_held_outlives_its_lease_without_a_server(self):
        holder = self.hold("x", *self.local)
        self.server.kill()
        self.degraded(holder)
        time.sleep(3.5)  # it would be lost
        self.server.start()
        self.assertIn("the server is back", holder.stderr.readline().decode())
        self.gate.send()
        self.assert_result(self.result(holder), 0)

    def test_it_is_lost_where_somebody_else_has_the_lock_at_the_server(self):
        """The socket is moved aside, so that this host alone cannot reach the server."""
        aside = self.server.path + ".aside"
        os.rename(self.server.path, aside)
        holder = self.hold("x", *self.local)
        self.degraded(holder)
        self.server.redis("HSET", "x", "somebody:1", 1)
        self.server.redis("PEXPIRE", "x", 60000)
        os.rename(aside, self.server.path)
        self.assert_says(self.result(holder), 75, "lost 'x'", "the server is back, and somebody else has it there")

    def test_what_it_cannot_be_combined_with(self):
        for options, names in ((("-s",), ("x",)), (("-x",), ("x",)), (("--permits", "2"), ("x",)), ((), ("x", "y")),
                               (("--redlock", "unix:/a,unix:/b,unix:/c"), ("x",))):
            with self.subTest(options=options, names=names):
                self.assert_says(self.run_lock("--on-outage", "local", *options, *names, "--", "true"), 64,
                                 "--on-outage local", "cannot be combined")
        self.assert_says(self.run_lock(*self.local, "--type", "fair", "x", "true"), 64, "--type fair")
        self.assert_says(self.run_lock("--on-outage", "maybe", "x", "true"), 64, "fail, wait or local")

    def test_a_directory_that_others_could_meddle_with_is_refused(self):
        os.mkdir(os.path.join(self.folder, "open"))
        os.chmod(os.path.join(self.folder, "open"), 0o1777)
        self.assert_says(self.run_lock("--on-outage", "local", "--local-dir", os.path.join(self.folder, "open"), "x",
                                       "true"), 64, "everybody may write to it")

    def test_a_wait_that_is_shorter_than_the_outage_must_last_ends_as_ever(self):
        self.server.kill()
        self.assert_says(self.run_lock("--on-outage", "local", "--local-after", "30", "--local-dir",
                                       os.path.join(self.folder, "host"), "-w", "1", "x", "true"), 69,
                         "cannot lock 'x'")

    def test_a_signal_ends_the_wait_for_another_run_of_the_host(self):
        self.server.kill()
        self.hold("x", *self.local)
        waiter = self.start("run", *self.local, "x", "true")
        time.sleep(1)  # a signal that comes before it waits is one like any other
        waiter.send_signal(signal.SIGTERM)
        self.assertEqual(self.result(waiter).code, 128 + signal.SIGTERM)


if __name__ == "__main__":
    support.main(sys.argv[1:])
