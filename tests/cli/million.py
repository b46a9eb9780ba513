#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""million - `redlatch ls` on a server with 1,000,000 keys, 100,000 of them locks: all are listed, in less than a minute
of the processors, and no command is more than a millisecond's work for the server.

How long a command takes on a machine that has other work is no property of the command. So what the server's own log of
slow commands has is carried out again, alone, a few times, and the least of it counts: a command that is too much work
is so each time.
"""

import json
import os
import resource
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools",
                                "benchmarks"))

import listing as bench
import support
from terminal import Terminal

KEYS, LOCKS = 1000000, 100000
MOST_US = 1000
MOST_S = 60
AGAIN = 9


class Listing(support.Case):
    def setUp(self):
        super().setUp()
        for first in range(0, KEYS, bench.STEP):
            self.server.redis("EVAL", bench.FILL, 0, first, first + bench.STEP - 1, KEYS // LOCKS)
        for name, value in ("slowlog-max-len", 100000), ("slowlog-log-slower-than", MOST_US):
            self.server.redis("CONFIG", "SET", name, value)
        self.server.redis("SLOWLOG", "RESET")

    def server_seconds(self):
        with open("/proc/%d/stat" % self.server.process.pid) as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def slow(self):
        """Commands that took longer, as words."""
        return [entry[3] for entry in self.server.redis("SLOWLOG", "GET", "-1")]

    def least_us(self, words):
        """Of a command, or of what looks at one lock, whose words the log does not have all."""
        self.server.redis("CONFIG", "SET", "slowlog-log-slower-than", 0)
        took = []
        for _ in range(AGAIN):
            self.server.redis("SLOWLOG", "RESET")
            if words[0].lower() == b"evalsha":
                self.assertEqual(self.redlatch("show", words[3].decode()).code, 0)
            else:
                self.server.redis(*words)
            took += [entry[2] for entry in self.server.redis("SLOWLOG", "GET", "-1")
                     if entry[3][0].lower() == words[0].lower()]
        return min(took)

    def test_a_million_keys_hold_nobody_up(self):
        before = self.server_seconds()
        result = subprocess.run([support.REDLATCH, "ls", "--json"], stdout=subprocess.PIPE, check=True,
                                env=self.environment())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = self.server_seconds() - before, used.ru_utime + used.ru_stime
        names = {json.loads(line)["name"] for line in result.stdout.splitlines()}
        self.assertEqual((len(names), result.stdout.count(b"\n")), (LOCKS, LOCKS))
        self.assertLess(sum(seconds), MOST_S)
        slow = self.slow()
        for words in slow:
            self.assertLess(self.least_us(words), MOST_US, words)
        print("%.1f s of the server and %.1f s of the command; %d commands were in the log of slow ones" %
              (*seconds, len(slow)))
        self.check_progress()

    def check_progress(self):
        """On a terminal; where it is done nothing is left of it."""
        terminal = Terminal(self, "ls", "nothing:*", columns=80)
        terminal.expect("of %d keys" % KEYS)
        self.assertEqual(terminal.status(), 0)
        self.assertTrue(terminal.said.endswith("\r\x1b[K"), terminal.said[-80:])


if __name__ == "__main__":
    support.main(sys.argv[1:])
