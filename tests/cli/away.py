#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""away - a server that is away or silent at the start, and while somebody waits (N14): the table in redlatch.1."""

import itertools
import os
import signal
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support


class Away(support.EveryKind):
    def test_N14_a_server_that_nobody_reaches_is_69(self):
        self.kill_servers()
        processes = [{kind: self.begin(kind, *options) for kind in self.kinds}
                     for options in (("-n",), ("-w", "0.2"), ("-w", "3"), ())]
        for each in processes:
            self.assert_all(each, 69, says="redlatch: cannot lock '")

    def test_N14_a_server_that_is_silent_from_the_start_is_69_and_a_short_wait_ends_before_a_long_one(self):
        self.stop_servers()
        short = [{kind: self.begin(kind, *options) for kind in self.kinds} for options in (("-n",), ("-w", "0.2"))]
        middle = {kind: self.begin(kind, "-w", "6") for kind in self.kinds}
        longest = {kind: self.begin(kind) for kind in self.kinds}
        for processes in short:
            self.assert_all(processes, 69, says="redlatch: cannot lock '")
        self.assertEqual({process.poll() for process in middle.values()}, {None})
        self.assert_all(middle, 69, says="redlatch: cannot lock '")
        self.assertEqual({process.poll() for process in longest.values()}, {None})
        self.assert_all(longest, 69, says="redlatch: cannot lock '")

    def test_N14_a_server_that_is_silent_at_first_is_waited_for(self):
        self.wait_for_age()
        self.stop_servers()
        processes = {kind: self.begin(kind, "-w", "9") for kind in self.kinds}
        refused = self.start("run", "-n", "x", "true")
        self.assertEqual(self.result(refused).code, 69)
        self.continue_servers()
        self.assert_all(processes, 0, out="mine\n")

    def test_N14_a_server_that_dies_while_somebody_waits_is_69(self):
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each("-w", "8")
        self.kill_servers()
        self.assert_all(waiters, 69, says="redlatch: cannot lock '")

    def test_N14_a_server_that_falls_silent_while_somebody_waits_is_69(self):
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each("-w", "8")
        self.stop_servers()
        self.assert_all(waiters, 69, says="redlatch: cannot lock '")

    def test_N14_a_server_that_dies_while_somebody_sleeps_is_69(self):
        """For less than the five seconds after which a sleeper would look by itself."""
        self.hold("x", "--lease", "60")
        process = self.start("run", "-w", "4.5", "x", "echo", "never")
        self.wait_for_waiters("x")
        self.server.kill()
        self.assert_says(self.result(process), 69, "redlatch: cannot lock 'x'")

    def test_N14_a_server_that_falls_silent_while_somebody_sleeps_is_69(self):
        """For less than the time after which the silence is noticed: the connection is there."""
        self.hold("x", "-x", "--lease", "60")
        process = self.start("run", "-x", "-w", "3", "x", "echo", "never")  # it does not look meanwhile
        self.wait_for_waiters("x")
        with self.server.paused():
            self.assert_says(self.result(process), 69, "redlatch: cannot lock 'x'")

    def test_N14_a_server_that_is_there_at_the_end_of_the_wait_is_1(self):
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each("-w", "9")
        self.stop_servers()
        self.continue_servers()
        self.assert_all(waiters, 1)

    def test_N14_a_server_that_comes_back_while_somebody_waits_has_been_waited_for(self):
        """Empty, be it: a semaphore is told again how many permits there are."""
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each("-w", "60")
        for_ever = self.wait_behind_each(count=2)
        self.kill_servers()
        for server in self.servers[:2]:
            server.start()
        self.assert_all(waiters, 0, out="mine\n")
        self.assert_all(for_ever, 0, out="mine\n")

    def test_N14_a_signal_ends_the_question_whether_the_server_is_there(self):
        self.hold("x")
        process = self.start("run", "-w", "1", "x", "true")
        self.wait_for_waiters("x")
        self.server.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.server.process.send_signal, signal.SIGCONT)
        time.sleep(1.5)  # the question has three seconds; a signal that comes before or after it is one like any other
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.result(process).code, 128 + signal.SIGTERM)

    def test_N14_a_server_that_falls_silent_after_any_number_of_answers_is_69_or_has_granted(self):
        """As many as come at once are one: which of them are enough is not known, but none is not, and all are."""
        processes = [self.start("run", "-n", "--anonymous", "--server", self.silent_after(count), "x%d" % count, "true")
                     for count in range(8)]
        codes = [self.result(process).code for process in processes]
        self.assertEqual((codes[0], codes[-1]), (69, 0))
        self.assertEqual(set(codes), {69, 0})

    def test_N14_an_outage_at_the_start_counts_against_the_wait(self):
        """With --on-outage wait; at once with -n."""
        self.wait_for_age()
        self.kill_servers()
        began = time.monotonic()
        at_once = {kind: self.begin(kind, "--on-outage", "wait", "-n") for kind in self.kinds}
        short = {kind: self.begin(kind, "--on-outage", "wait", "-w", "2") for kind in self.kinds}
        long = {kind: self.begin(kind, "--on-outage", "wait", "-w", "60") for kind in self.kinds}
        for_ever = {kind: self.begin(kind, "--on-outage", "wait") for kind in self.kinds}
        self.assert_all(at_once, 69, says="redlatch: cannot lock '")
        self.assert_all(short, 69, says="redlatch: cannot lock '")
        self.assertGreater(time.monotonic() - began, 2)
        for server in self.servers[:2]:
            server.start()
        self.assert_all(long, 0, out="mine\n")
        self.assert_all(for_ever, 0, out="mine\n")

    def test_N14_a_server_that_loads_its_data_is_waited_for_and_one_that_refuses_is_not(self):
        """With --on-outage wait."""
        path, loading = self.loads_first()
        process = self.start("run", "--on-outage", "wait", "-w", "60", "--server", "unix:" + path, "x", "echo", "mine")
        refused = self.start("run", "--on-outage", "wait", "-w", "60", "--server",
                             "unix://nobody:wrong@" + self.server.path, "x", "true")
        self.assert_says(self.result(refused), 70, "redlatch: cannot lock 'x'", "WRONGPASS")
        self.assertTrue(loading.wait(support.BOUND_S))
        self.assert_result(self.result(process), 0, "mine\n")

    def loads_first(self):
        """The path of a server that is loading its data for two connections, and then is the server; and when it has
        said so."""
        path = os.path.join(self.folder, "loading")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        self.addCleanup(listener.close)
        said = threading.Event()

        def serve():
            for _ in range(2):
                client, _ = listener.accept()
                with client:
                    while client.recv(65536):
                        client.sendall(b"-LOADING Redis is loading the dataset in memory\r\n" * 20)
            said.set()
            listener.close()
            os.rename(path, path + ".old")
            os.symlink(self.server.path, path)

        threading.Thread(target=serve, daemon=True).start()
        return path, said

    def silent_after(self, count):
        """The address of a server that says so many things, each an answer or several at once, and then no more."""
        said = itertools.count()
        return self.relayed(lambda chunk: chunk if next(said) < count else b"")


if __name__ == "__main__":
    support.main(sys.argv[1:])
