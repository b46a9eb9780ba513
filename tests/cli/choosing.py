#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""choosing - the command lines of docs/choosing.md do what stands beside them: each runs its program, and no type that
the command has is left out."""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

with open(os.path.join(support.TOP, "docs", "choosing.md")) as page:
    PAGE = page.read()
LINES = re.findall(r"^redlatch .*$", "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.S | re.M)), re.M)


class Choosing(support.Case):
    def follow(self, line, **more):
        """Its programs say their name and arguments."""
        programs = set(re.findall(r"\./([\w-]+)", line))
        for name in programs:
            path = os.path.join(self.folder, name)
            with open(path, "w") as f:
                f.write('#!/bin/sh\necho "$0 $*"\n')
            os.chmod(path, 0o755)
        env = self.environment(PATH="%s:%s" % (os.path.dirname(support.REDLATCH), os.environ["PATH"]))
        ran = subprocess.run(["/bin/sh", "-c", line], cwd=self.folder, env=env, capture_output=True, text=True,
                             timeout=support.BOUND_S)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), line)
        self.assertEqual(len(programs), 1, line)
        self.assertIn("./%s" % programs.pop(), ran.stdout, line)
        return ran.stdout

    def test_each_line_runs_its_program(self):
        for line in LINES:
            if "--redlock" not in line:
                said = self.follow(line)
                if "REDLATCH_TOKEN" in line:
                    self.assertRegex(said, r"--token [1-9]\d* ")

    def test_a_red_lock_runs_its_program(self):
        servers = [support.Server() for _ in range(3)]
        for server in servers:
            self.addCleanup(server.stop)
        line, = (line for line in LINES if "--redlock" in line)
        for name, server in zip("abc", servers):
            line = line.replace("redis://" + name, server.uri)
            support.until(lambda: not re.search(rb"uptime_in_seconds:[0-2]\r", server.redis("INFO", "server")),
                          "the server has been up for longer than a lease")
        self.follow(line.replace("redlatch run", "redlatch run --lease 2"))

    def test_no_type_is_left_out(self):
        for kind in support.TYPES:
            if kind != "reentrant":
                self.assertTrue(any("--type %s " % kind in line for line in LINES), kind)
        for option in ("-s", "-x", "--permits", "--redlock"):
            self.assertTrue(any(" %s " % option in line for line in LINES), option)


if __name__ == "__main__":
    support.main(sys.argv[1:])
