#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""outage - what takes a minute: a wait without end, and a server that stays away (N14)."""

import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support


class Outage(support.EveryKind):
    def test_N14_a_wait_without_end_ends_with_an_outage_of_a_minute(self):
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each()
        began = time.monotonic()
        self.kill_servers()
        self.assert_all(waiters, 69, says="redlatch: cannot lock '", bound=150)
        self.assertGreater(time.monotonic() - began, 55)

    def test_N14_a_wait_without_end_outlasts_an_outage_that_is_waited_for(self):
        self.wait_for_age()
        self.hold_each()
        waiters = self.wait_behind_each("--on-outage", "wait")
        began = time.monotonic()
        self.kill_servers()
        support.until(lambda: time.monotonic() - began > 65, "a minute passes", bound=80)
        for server in self.servers[:2]:
            server.start()
        self.assert_all(waiters, 0, out="mine\n")


if __name__ == "__main__":
    support.main(sys.argv[1:])
