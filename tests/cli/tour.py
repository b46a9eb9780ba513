#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""tour - the lines of redlatch(7)'s first steps, and its program, do what the page says."""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

INSTALLED = os.path.join(support.BUILD, "tests", "installed")
with open(os.path.join(support.TOP, "tools", "redlatch.7")) as page:
    STEPS = page.read().split(".Sh FIRST STEPS")[1].split("\n.Sh ")[0].replace("\\-", "-").replace("\\e", "\\")
LINES = re.findall(r"^\.Dl (.*)$", STEPS, re.M)
PROGRAM = re.search(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", STEPS, re.S | re.M)[1]
COMPILE = re.search(r'^\.Li "(cc .*)"', STEPS, re.M)[1]


class Tour(support.Case):
    def surroundings(self, **more):
        return self.environment(PATH="%s/bin:%s" % (INSTALLED, os.environ["PATH"]),
                                PKG_CONFIG_PATH=INSTALLED + "/lib/pkgconfig",
                                LD_LIBRARY_PATH=INSTALLED + "/lib", **more)

    def said(self, line):
        done = subprocess.run(["sh", "-c", line], cwd=self.folder, env=self.surroundings(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=support.BOUND_S)
        self.assertEqual(done.returncode, 0, (line, done.stdout))
        return done.stdout

    def test_the_lines(self):
        alone, hold, ls, show, later, maybe, doctor = LINES
        self.assertEqual(self.said(alone), "nobody else is in here\n")
        self.assertTrue(hold.endswith("sleep 5 &"), hold)
        holder = self.hold("hello")  # for as long as the looks take
        support.until(self.server.described, "it says who it is")
        self.assertRegex(self.said(ls), r"(?m)^lock +held +.* hello$")
        self.assertIn("state     held", self.said(show))
        self.assertEqual(self.said(maybe), "")
        self.gate.send()
        self.assertEqual(self.said(later), "my turn\n")
        self.assert_result(self.result(holder), 0)
        self.assertEqual(self.said(maybe), "my turn, if it is free\n")
        self.assertIn("warning", self.said(doctor))

    def test_the_program(self):
        with open(os.path.join(self.folder, "first.c"), "w") as f:
            f.write(PROGRAM.replace("redis://127.0.0.1", self.server.uri))
        self.said(COMPILE + " -o first -Wall -Wextra -Wpedantic -Werror")
        self.assertEqual(self.said("./first"), "nobody else is in here\n")
        self.server.kill()
        self.assertNotIn("nobody", self.said("./first"))


if __name__ == "__main__":
    support.main(sys.argv[1:])
