#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""contention - many processes that want the same lock for real work: nothing is lost, nobody overlaps, tokens grow."""

import os
import subprocess
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

WORKERS = 20
ROUNDS = 10
NIGHTLY = os.path.join(support.TOP, "examples", "nightly.sh")

# Loses updates when two run at once, and says so when they meet.
ADD_ONE = """
mkdir "$DIR/inside" || echo overlap >>"$DIR/errors"
n=$(cat "$DIR/counter")
echo $((n + 1)) >"$DIR/counter"
echo "$REDLATCH_TOKEN" >>"$DIR/tokens"
rmdir "$DIR/inside"
"""

WORKER = """
i=0
while [ $i -lt $ROUNDS ]; do
    "$REDLATCH" run --type "$TYPE" counter -c "$ADD_ONE" || echo "exit status $?" >>"$DIR/errors"
    i=$((i + 1))
done
"""


class Counter(support.Case):
    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.path(name)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def count(self, kind):
        with open(self.path("counter"), "w") as f:
            f.write("0\n")
        env = self.environment(DIR=self.folder, REDLATCH=support.REDLATCH, ADD_ONE=ADD_ONE, ROUNDS=str(ROUNDS),
                               TYPE=kind)
        workers = [subprocess.Popen(["sh", "-c", WORKER], env=env, stderr=subprocess.PIPE) for _ in range(WORKERS)]
        for worker in workers:
            self.addCleanup(self.end, worker)
        for worker in workers:
            self.assertEqual(worker.communicate(timeout=4 * support.BOUND_S)[1], b"")
        self.assertEqual(self.read("errors"), "")
        self.assertEqual(int(self.read("counter")), WORKERS * ROUNDS)
        tokens = [int(token) for token in self.read("tokens").split()]
        self.assertEqual(len(tokens), WORKERS * ROUNDS)
        self.assertEqual(tokens, sorted(set(tokens)))
        self.assertEqual(self.server.keys(), [])

    def test_twenty_processes_lose_no_update_under_a_reentrant_lock(self):
        self.count("reentrant")

    def test_twenty_processes_lose_no_update_under_a_simple_lock(self):
        self.count("simple")

    def test_of_a_hundred_that_do_not_wait_one_wins(self):
        gate = 'echo won >"$EVENTS"; read _ <"$GATE"'
        processes = []
        for _ in range(4):  # so many at once that each comes to its turn within the second that it waits for an answer
            processes += [self.start("run", "-n", "x", "--", "sh", "-c", gate) for _ in range(25)]
            support.until(lambda: self.only_one_runs(processes), "all but one end")
        self.events.expect("won")
        losers = [p for p in processes if p.poll() is not None]
        self.assertEqual(len(losers), 99)
        self.assertEqual({self.result(p).code for p in losers}, {1})
        self.gate.send()
        winner, = set(processes) - set(losers)
        self.assert_result(self.result(winner), 0)
        self.assertTrue(self.events.is_silent())

    def only_one_runs(self, processes):
        return sum(p.poll() is None for p in processes) == 1


class Nightly(support.Case):
    """The example in examples/, as cron would start it."""

    def setUp(self):
        super().setUp()
        self.source = os.path.join(self.folder, "source")
        self.target = os.path.join(self.folder, "target")
        os.mkdir(self.source)
        os.mkdir(self.target)
        for i in range(50):
            with open(os.path.join(self.source, "file %d" % i), "wb") as f:
                f.write(os.urandom(1000))

    def nightly(self):
        path = os.path.dirname(support.REDLATCH) + ":/usr/bin:/bin"
        process = subprocess.Popen([NIGHTLY, self.source, self.target], env=self.environment(PATH=path, KEEP="3"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def archives(self):
        return sorted(name for name in os.listdir(self.target) if not name.startswith("."))

    def assert_whole(self, name):
        with tarfile.open(os.path.join(self.target, name)) as archive:
            self.assertEqual(len(archive.getnames()), 51)

    def test_of_many_hosts_at_once_the_backups_are_whole_and_the_newest_are_kept(self):
        for process in [self.nightly() for _ in range(12)] + [self.nightly()]:
            self.assert_result(self.result(process), 0)
        self.assertLessEqual(len(self.archives()), 3)
        for name in self.archives():
            self.assert_whole(name)
        self.assertEqual([name for name in os.listdir(self.target) if name.startswith(".part")], [])
        self.assertEqual(self.server.keys(), [])

    def test_the_last_ones_are_kept(self):
        seen = []
        for _ in range(5):
            self.assert_result(self.result(self.nightly()), 0)
            seen.append(self.archives()[-1])
        self.assertEqual(self.archives(), seen[-3:])

    def test_a_host_with_an_old_token_changes_nothing(self):
        with open(os.path.join(self.target, ".token"), "w") as f:
            f.write("%d\n" % (1 << 60))
        self.assert_result(self.result(self.nightly()), 75, err="nightly.sh: another host has taken over\n")
        self.assertEqual(self.archives(), [])

    def test_a_host_that_finds_the_lock_taken_ends_quietly(self):
        self.hold("nightly:" + self.target)
        self.assert_result(self.result(self.nightly()), 0)
        self.assertEqual(self.archives(), [])


if __name__ == "__main__":
    support.main(sys.argv[1:])
