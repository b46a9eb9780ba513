#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""kinds - what may be held beside one exclusive lock: a read-write lock's ends, permits, several locks, a lock on
several servers."""

import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

TYPES = support.TYPES
LEASE = ("--lease", "1900ms")  # longer than a busy machine stands still
GUARD = b"redlatch_guard:"  # stays for an hour if a connection was given up, since its request may still come

# Reports SIGTERM and ends.
POLITE = """trap 'echo term >"$EVENTS"; exit 0' TERM; echo held >"$EVENTS"; while :; do read _ <"$GATE"; done"""
SHOW = ("sh", "-c", 'echo "$REDLATCH_NAME ${REDLATCH_TOKEN-none}"')


class Kinds(support.Case):
    def done(self, *processes):
        for process in processes:
            self.gate.send()
        for process in processes:
            self.assert_result(self.result(process), 0)

    def assert_taken(self, *arguments):
        """At this moment somebody else has it."""
        self.assert_result(self.run_lock("-n", *arguments), 1)

    def wait_for_renewal(self, name, server=None):
        redis = (server or self.server).redis
        last = redis("PTTL", name)

        def has_risen():
            nonlocal last
            before, last = last, redis("PTTL", name)
            return last > before

        support.until(has_risen, "the lease is renewed")

    def facts(self, *arguments):
        result = self.run_lock(*arguments, *SHOW, env={"REDLATCH_NAME": "outer", "REDLATCH_TOKEN": "1"})
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result.out.split()


class Types(Kinds):
    def test_every_type_excludes_renews_and_leaves_nothing_but_its_tokens(self):
        for kind in TYPES:
            process = self.hold("x", "--type", kind, *LEASE)
            self.assert_taken("--type", kind, "x", "true")
            self.wait_for_renewal("x")
            self.done(process)
            self.assert_free("x")
            self.assertIn(self.server.keys(), ([], [b"redisson_lock_token:{x}"]) if kind == "fenced" else ([],), kind)
            self.server.redis("FLUSHALL")

    def test_every_type_has_tokens_that_grow(self):
        for kind in TYPES:
            tokens = [int(self.facts("--type", kind, kind)[1]) for _ in range(5)]
            self.assertEqual(tokens, sorted(set(tokens)))

    def test_every_type_ends_the_command_when_it_is_lost(self):
        for kind in TYPES:
            process = self.hold("x", "--type", kind, *LEASE, command=POLITE)
            self.server.redis("DEL", "x")
            self.events.expect("term")
            self.assert_says(self.result(process), 75, "lost 'x'")

    def off_by(self, seconds):
        """An environment in which the time of day is off."""
        path = os.path.join(self.folder, "off by %d" % seconds)
        with open(path, "wb") as f:
            f.write(struct.pack("q", seconds * 1000000))
        return {"LD_PRELOAD": os.path.join(support.BUILD, "tests", "support", "clockstep.so"), "CLOCKSTEP_FILE": path,
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def test_F3_a_fair_lock_serves_in_the_order_of_arrival_whatever_clocks_say(self):
        theirs = subprocess.check_output(["date", "+%s"], env=dict(os.environ, **self.off_by(600)))
        self.assertAlmostEqual(int(theirs) - time.time(), 600, delta=60)
        holder = self.hold("x", "--type", "fair")
        waiters = []
        for i, seconds in enumerate((600, 0, -600, 300)):
            waiters.append(self.start("run", "--type", "fair", "x", "--", "sh", "-c", 'echo %d >"$EVENTS"' % i,
                                      env=self.off_by(seconds)))
            support.until(lambda: self.server.redis("LLEN", "redisson_lock_queue:{x}") == i + 1,
                          "%d stand in the queue" % (i + 1))
        self.gate.send()
        for i in range(4):
            self.events.expect(str(i))
        for process in [holder] + waiters:
            self.assert_result(self.result(process), 0)


class ReadWrite(Kinds):
    def test_readers_share_and_a_writer_does_not(self):
        readers = [self.hold("x", "-s") for _ in range(3)]
        self.assert_taken("-x", "x", "true")
        self.done(*readers)
        writer = self.hold("x", "-x")
        self.assert_taken("-s", "x", "true")
        self.assert_taken("-x", "x", "true")
        self.done(writer)
        self.assertEqual(self.server.keys(), [])

    def test_when_a_writer_leaves_all_readers_come_in(self):
        writer = self.hold("x", "-x")
        readers = [self.start("run", "-s", "x", "--", "sh", "-c", 'echo in >"$EVENTS"; read _ <"$GATE"')
                   for _ in range(3)]
        self.wait_for_waiters("x", 3)
        self.gate.send()
        self.assert_result(self.result(writer), 0)
        for _ in readers:
            self.events.expect("in")
        self.done(*readers)

    def test_a_killed_reader_is_forgotten_with_its_lease(self):
        reader = self.hold("x", "-s", *LEASE)
        writer = self.start("run", "-x", "x", "echo", "mine")
        self.wait_for_waiters("x")
        reader.kill()
        self.assert_result(self.result(writer), 0, out="mine\n")

    def test_the_writer_has_a_token_and_readers_have_none(self):
        self.assertEqual(self.facts("-s", "x"), ["x", "none"])
        self.assertRegex(self.facts("-x", "x")[1], "^[1-9][0-9]*$")

    def test_a_reader_that_is_evicted_learns_of_it(self):
        process = self.hold("x", "-s", *LEASE, command=POLITE)
        self.server.redis("FLUSHALL")
        self.events.expect("term")
        self.assert_says(self.result(process), 75, "lost 'x'")

    def test_readers_and_writers_in_a_crowd_never_overlap(self):
        look = """
            if [ "$1" = -x ]; then
                mkdir "$DIR/inside" || echo two writers >>"$DIR/errors"
                ls "$DIR/readers" | grep . >>"$DIR/errors"
                rmdir "$DIR/inside"
            else
                touch "$DIR/readers/$$"
                test -d "$DIR/inside" && echo reader beside a writer >>"$DIR/errors"
                rm "$DIR/readers/$$"
            fi"""
        crowd = """for i in 1 2 3 4 5; do
                "$REDLATCH" run $1 x -- sh -c "$LOOK" sh $1 || echo failed >>"$DIR/errors"
            done"""
        os.mkdir(os.path.join(self.folder, "readers"))
        open(os.path.join(self.folder, "errors"), "w").close()
        env = self.environment(DIR=self.folder, REDLATCH=support.REDLATCH, LOOK=look)
        workers = [subprocess.Popen(["sh", "-c", crowd, "sh", "-x" if i % 3 == 0 else "-s"], env=env,
                                    stderr=subprocess.PIPE)
                   for i in range(9)]
        for worker in workers:
            self.addCleanup(self.end, worker)
        for worker in workers:
            self.assertEqual(worker.communicate(timeout=4 * support.BOUND_S)[1], b"")
        with open(os.path.join(self.folder, "errors")) as errors:
            self.assertEqual(errors.read(), "")
        self.assertEqual(self.server.keys(), [])


class Permits(Kinds):
    def free(self, name):
        return int(self.server.redis("GET", name))

    def test_so_many_at_once_and_no_more(self):
        holders = [self.hold("x", "--permits", "3") for _ in range(3)]
        self.assert_taken("--permits", "3", "x", "true")
        waiter = self.start("run", "--permits", "3", "x", "echo", "fourth")
        self.wait_for_waiters("x")
        self.gate.send()
        self.assert_result(self.result(waiter), 0, out="fourth\n")
        self.gate.send()
        self.gate.send()
        for process in holders:
            self.assert_result(self.result(process), 0)
        self.assertEqual(self.free("x"), 3)

    def test_in_a_crowd_there_are_never_more(self):
        """Each leaves a mark while it is inside, and counts the marks."""
        look = 'touch "$DIR/in.$$"; n=$(ls "$DIR" | grep -c "^in"); rm "$DIR/in.$$"; echo $n >>"$DIR/counts"'
        crowd = """for i in 1 2 3 4 5; do
                "$REDLATCH" run --permits 3 x -- sh -c "$LOOK" || echo 99 >>"$DIR/counts"
            done"""
        env = self.environment(DIR=self.folder, REDLATCH=support.REDLATCH, LOOK=look)
        workers = [subprocess.Popen(["sh", "-c", crowd], env=env, stderr=subprocess.PIPE) for _ in range(8)]
        for worker in workers:
            self.addCleanup(self.end, worker)
        for worker in workers:
            self.assertEqual(worker.communicate(timeout=4 * support.BOUND_S)[1], b"")
        with open(os.path.join(self.folder, "counts")) as f:
            counts = [int(line) for line in f]
        self.assertEqual(len(counts), 40)
        self.assertLessEqual(max(counts), 3)
        self.assertEqual(self.free("x"), 3)
        self.assertEqual([key for key in self.server.keys() if not key.startswith(GUARD)], [b"x"])

    def test_a_killed_holders_permit_comes_back_with_its_lease(self):
        killed = self.hold("x", "--permits", "1", *LEASE)
        waiter = self.start("run", "--permits", "1", "x", "echo", "mine")
        self.wait_for_waiters("x")
        killed.kill()
        self.assert_result(self.result(waiter), 0, out="mine\n")

    def test_a_permit_is_renewed_while_the_command_runs(self):
        holder = self.hold("x", "--permits", "1", *LEASE)
        ends = set()

        def renewed_thrice():
            ends.add(self.server.redis("ZRANGE", "{x}:timeout", 0, -1, "WITHSCORES")[1])
            return len(ends) > 3

        support.until(renewed_thrice, "the permit is renewed")
        self.assert_taken("--permits", "1", "x", "true")
        self.done(holder)

    def test_a_permit_that_is_gone_ends_the_command(self):
        process = self.hold("x", "--permits", "2", *LEASE, command=POLITE)
        self.server.redis("FLUSHALL")
        self.events.expect("term")
        self.assert_says(self.result(process), 75, "lost 'x'", "the server no longer has it")

    def test_a_server_that_is_gone_or_silent_for_a_lease_loses_the_permit(self):
        process = self.hold("x", "--permits", "2", *LEASE, command=POLITE)
        with self.server.paused():
            self.events.expect("term")
        self.assert_says(self.result(process), 75, "its lease ran out")
        process = self.hold("x", "--permits", "2", *LEASE, command=POLITE)
        self.server.kill()
        self.events.expect("term")
        self.assert_says(self.result(process), 75, "its lease ran out")

    def test_the_last_number_that_was_said_counts(self):
        first = self.hold("x", "--permits", "1")
        second = self.hold("x", "--permits", "2")
        self.assert_taken("--permits", "1", "x", "true")
        self.done(first, second)
        self.assertEqual(self.free("x"), 1)

    def test_a_permit_has_no_token(self):
        self.assertEqual(self.facts("--permits", "2", "x"), ["x", "none"])

    def test_a_signal_ends_the_wait_and_leaves_nothing(self):
        holder = self.hold("x", "--permits", "1")
        waiter = self.start("run", "--permits", "1", "x", "echo", "no")
        self.wait_for_waiters("x")
        waiter.send_signal(signal.SIGTERM)
        self.assert_result(self.result(waiter), 128 + signal.SIGTERM)
        self.assert_taken("--permits", "1", "x", "true")
        self.assert_result(self.run_lock("-w", "0.1", "--permits", "1", "x", "true"), 1)
        self.done(holder)
        self.assertEqual(self.free("x"), 1)
        support.until(lambda: self.server.keys() == [b"x"], "what those have left who got nothing goes with them")


class Several(Kinds):
    def test_all_or_nothing(self):
        b = self.hold("b")
        self.assert_taken("a", "b", "c", "--", "true")
        self.assert_free("a")
        self.assert_free("c")
        self.done(b)
        every = self.hold_all("a", "b", "c")
        for name in "abc":
            self.assert_taken(name, "true")
        self.done(every)
        self.assertEqual(self.server.keys(), [])

    def hold_all(self, *names, options=(), command='echo held >"$EVENTS"; read _ <"$GATE"'):
        process = self.start("run", *options, *names, "--", "sh", "-c", command)
        self.events.expect("held")
        return process

    def test_a_waiter_gets_them_when_the_last_is_free(self):
        b = self.hold("b")
        waiter = self.start("run", "a", "b", "--", "echo", "both")
        self.wait_for_waiters("b")
        self.done(b)
        self.assert_result(self.result(waiter), 0, out="both\n")
        self.assertEqual(self.server.keys(), [])

    def test_whatever_the_order_of_names_nobody_waits_for_ever(self):
        orders = (("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a"), ("c", "a"))
        processes = [self.start("run", *names, "--", "true") for names in orders * 4]
        for process in processes:
            self.assert_result(self.result(process), 0)
        self.assertEqual(self.server.keys(), [])

    def test_one_that_is_lost_is_named_and_ends_the_command(self):
        process = self.hold_all("a", "b", options=LEASE, command=POLITE)
        self.server.redis("DEL", "b")
        self.events.expect("term")
        self.assert_says(self.result(process), 75, "lost 'a+b' at ", "'b': the server no longer has it")
        self.assert_free("a")

    def test_the_command_finds_all_names_and_no_token(self):
        self.assertEqual(self.facts("a", "b", "--"), ["a+b", "none"])

    def test_shared_ones_are_shared(self):
        first = self.hold_all("a", "b", options=("-s",))
        second = self.hold_all("b", "a", options=("-s",))
        self.assert_taken("-x", "a", "true")
        self.done(first, second)
        self.assertEqual(self.server.keys(), [])


class RedLock(Kinds):
    """Five servers. A young server does not count, so the lease is short and they are waited for; but longer than a
    busy machine stands still."""

    def setUp(self):
        super().setUp()
        self.servers = [self.server] + [support.Server() for _ in range(4)]
        for server in self.servers[1:]:
            self.addCleanup(server.stop)
        for server in self.servers:
            support.until(lambda: re.search(rb"uptime_in_seconds:[0-2]\r", server.redis("INFO", "server")) is None,
                          "the server is three seconds old: the last of them may not be whole")
        self.red = ("--lease", "1900ms", "--redlock", ",".join(server.uri for server in self.servers))

    def keys(self):
        return [server.keys() for server in self.servers if server.process.returncode is None]

    def assert_nothing_left(self):
        support.until(lambda: not any(self.keys()), "nothing is left on any server")

    def test_it_is_on_all_servers_and_excludes(self):
        holder = self.hold("x", *self.red)
        support.until(lambda: all(self.keys()), "all servers have it")
        self.assert_taken(*self.red, "x", "true")
        self.done(holder)
        self.assert_nothing_left()

    def test_a_minority_may_be_dead_from_the_start(self):
        self.servers[1].kill()
        self.servers[3].kill()
        holder = self.hold("x", *self.red)
        self.assert_taken(*self.red, "x", "true")
        waiter = self.start("run", *self.red, "x", "echo", "mine")
        self.done(holder)
        self.assert_result(self.result(waiter), 0, out="mine\n")
        self.assert_nothing_left()

    def test_a_minority_may_be_silent(self):
        with self.servers[0].paused(), self.servers[2].paused():
            holder = self.hold("x", *self.red)
            self.done(holder)

    def test_a_minority_may_die_while_the_command_runs(self):
        holder = self.hold("x", *self.red)
        support.until(lambda: all(self.keys()), "all servers have it: the command runs as soon as three do")
        self.servers[0].kill()
        self.servers[4].kill()
        self.wait_for_renewal("x", self.servers[1])
        self.done(holder)
        self.assert_nothing_left()

    def test_a_dead_majority_is_69(self):
        for server in self.servers[:3]:
            server.kill()
        self.assert_says(self.run_lock("-n", *self.red, "x", "echo", "no"), 69, "cannot lock 'x' at 5 servers: ",
                         "3 are needed")
        self.assert_says(self.run_lock("-w", "0.2", *self.red, "x", "echo", "no"), 69, "3 are needed")
        self.assert_nothing_left()

    def test_a_majority_that_dies_while_the_command_runs_ends_it(self):
        holder = self.hold("x", *self.red, command=POLITE)
        for server in self.servers[:3]:
            server.kill()
        self.events.expect("term")
        self.assert_says(self.result(holder), 75, "lost 'x' at 5 servers: no majority")

    def test_it_has_a_token_that_grows(self):
        tokens = [int(self.facts(*self.red, "x")[1]) for _ in range(3)]
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_a_malformed_address_is_counted_and_not_quoted(self):
        uris = "%s,redis://u:%s@h:port,%s" % (self.servers[0].uri, support.PASSWORD, self.servers[1].uri)
        result = self.run_lock("--redlock", uris, "x", "true")
        self.assert_says(result, 64, "redlatch: address 2 in --redlock is wrong: ")
        self.assertNotIn(support.PASSWORD, result.err)


if __name__ == "__main__":
    support.main(sys.argv[1:])
