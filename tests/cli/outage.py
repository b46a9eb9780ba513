#!/usr/bin/python3 -I
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


if __name__ == "__main__":
    support.main(sys.argv[1:])
