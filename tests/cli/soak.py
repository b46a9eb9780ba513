#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""soak - tens of processes on one lock for a minute or more, some of them killed, timed out and called off: nothing
lost.

    tests/cli/soak.py [SECONDS [WORKERS [SEED]]]

Every worker runs `redlatch run` again and again, in one of the ways of WAYS, picked at random. Those that work add one
to a counter that loses updates when two do so at once, and append their fencing token to a journal; the others fail at
a moment at which they have not begun to. At the end the counter, the journal and the workers' own sums must be equal,
the tokens must have grown from line to line, nobody may have met anybody inside, and the server must be empty.

Twice: in peace, and while every now and then all connections are cut or the server forgets its scripts. Then a process
may also fail to reach the server (69), before it has begun.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

SECONDS, WORKERS, SEED = ([int(word) for word in sys.argv[1:]] + [75, 30, 1][len(sys.argv) - 1:])[:3]

LEASE = "2"

ADD_ONE = """
mkdir "$DIR/inside" || echo overlap >>"$DIR/errors"
n=$(cat "$DIR/counter")
echo $((n + 1)) >"$DIR/counter"
echo "$REDLATCH_TOKEN" >>"$DIR/journal"
rmdir "$DIR/inside"
"""


class Worker(threading.Thread):
    """Sums up what its processes did."""

    def __init__(self, env, seed, end, excused=()):
        super().__init__(daemon=True)
        self.env, self.end, self.excused = env, end, excused
        self.rand = random.Random(seed)
        self.done = 0
        self.tally = {}
        self.unexpected = []

    def run(self):
        while time.monotonic() < self.end and not self.unexpected:
            way = self.rand.choices(list(WAYS), [weight for weight, _ in WAYS.values()])[0]
            WAYS[way][1](self)
            self.tally[way] = self.tally.get(way, 0) + 1

    def launch(self, *options, command=ADD_ONE):
        return subprocess.Popen([support.REDLATCH, "run", "--lease", LEASE, *options, "counter", "-c", command],
                                env=self.env,
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self, process, *expected):
        """Only exit status 0 says that the work was done."""
        try:
            err = process.communicate(timeout=10 * support.BOUND_S)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.unexpected.append("a process hangs")
            return
        if process.returncode not in expected + self.excused:
            self.unexpected.append("exit status %d, %r" % (process.returncode, err))
        self.done += process.returncode == 0

    def work(self):
        self.finish(self.launch(), 0)

    def work_if_free(self):
        self.finish(self.launch("-n"), 0, 1)

    def work_if_free_soon(self):
        self.finish(self.launch("-w", "%.3f" % (self.rand.random() * 2)), 0, 1)

    def die_inside(self):
        """The holder kills redlatch, and is killed with it: the lock is free when the lease ends."""
        self.finish(self.launch(command="kill -9 $PPID; exec sleep 1000"), -signal.SIGKILL)

    def fail_inside(self):
        self.finish(self.launch(command="exit 42"), 42)

    def be_called_off(self):
        """While it waits, or, when it did not have to, while it works: then the work is done or not begun."""
        process = self.launch(command="trap '' TERM\n" + ADD_ONE)
        time.sleep(self.rand.random() * 0.5)  # any moment will do; nothing is waited for
        process.send_signal(signal.SIGTERM)
        self.finish(process, 0, 128 + signal.SIGTERM, -signal.SIGTERM)


WAYS = {
    "worked": (60, Worker.work),
    "did not wait": (15, Worker.work_if_free),
    "waited a little": (10, Worker.work_if_free_soon),
    "died inside": (1, Worker.die_inside),
    "failed inside": (5, Worker.fail_inside),
    "was called off": (8, Worker.be_called_off),
}


class Soak(support.Case):
    def read(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return ""
        with open(path) as f:
            return f.read()

    def soak(self, excused=(), meanwhile=lambda: None):
        with open(os.path.join(self.folder, "counter"), "w") as f:
            f.write("0\n")
        env = self.environment(DIR=self.folder)
        end = time.monotonic() + SECONDS / 2
        workers = [Worker(env, SEED * 1000 + i, end, excused) for i in range(WORKERS)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            meanwhile()
            workers[0].join(0.3)
        self.check(workers)

    def check(self, workers):
        for way in WAYS:
            print("%6d %s" % (sum(worker.tally.get(way, 0) for worker in workers), way))
        self.assertEqual([text for worker in workers for text in worker.unexpected], [])
        self.assertEqual(self.read("errors"), "")
        done = sum(worker.done for worker in workers)
        tokens = [int(token) for token in self.read("journal").split()]
        print("%6d added, by %d processes at a time" % (done, WORKERS))
        self.assertGreater(done, SECONDS / 2)
        self.assertEqual((int(self.read("counter")), len(tokens)), (done, done))
        self.assertEqual(tokens, sorted(set(tokens)))
        support.until(lambda: self.server.keys() == [], "the last lease ends")

    def test_nothing_is_lost_in_peace(self):
        self.soak()

    def test_nothing_is_lost_when_connections_are_cut(self):
        rand = random.Random(SEED)
        troubles = (("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), ("CLIENT", "KILL", "TYPE", "pubsub"),
                    ("SCRIPT", "FLUSH"))
        self.soak(excused=(69,), meanwhile=lambda: self.server.redis(*rand.choice(troubles)))


if __name__ == "__main__":
    support.main()
