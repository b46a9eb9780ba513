#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""tutorial - what docs/tutorial.md has its readers write and type, step by step: its programs in files, its lines in a
shell, and below each line what it shows.

A paragraph that ends in a colon is followed by the file that it names last. Each step is a test, in a folder with the
files of all before it. Where the page has 6390 stands the port of a server of the test's own."""

import os
import re
import signal
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

INSTALLED = os.path.join(support.BUILD, "tests", "installed")
PARTS = re.compile(r"`([\w.]+)`(?:(?!`)[^\n]|\n(?!\n))*:\n\n```(?:sh|c)\n(.*?)^```$|^```console\n(.*?)^```$",
                   re.S | re.M)
LINES = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
END = "the line is over"

with open(os.path.join(support.TOP, "docs", "tutorial.md")) as page:
    SECTIONS = re.split(r"^## (?=\d\. |Before)", page.read().split("\n## Where you are")[0], flags=re.M)[1:]


class Tutorial(support.Case):
    def setUp(self):
        super().setUp()
        reserved, self.port = support.free_port()
        self.addCleanup(reserved.close)
        self.tcp = support.Server("--bind", "127.0.0.1", "--port", str(self.port))
        self.addCleanup(self.tcp.stop)
        self.desk = os.path.join(self.folder, "desk")
        os.mkdir(self.desk)
        env = self.environment(PATH="%s:%s" % (os.path.dirname(support.REDLATCH), os.environ["PATH"]),
                               PKG_CONFIG_PATH=INSTALLED + "/lib/pkgconfig", LD_LIBRARY_PATH=INSTALLED + "/lib")
        self.shell = subprocess.Popen(["/bin/sh"], cwd=self.desk, env=env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      start_new_session=True)
        self.addCleanup(self.end_shell)

    def end_shell(self):
        """And what a step that failed has left in the background."""
        try:
            os.killpg(self.shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.shell.stdin.close()
        self.shell.stdout.close()
        self.shell.wait()

    def write(self, name, text):
        path = os.path.join(self.desk, name)
        with open(path, "w") as f:
            f.write(text.replace("6390", str(self.port)))
        os.chmod(path, 0o755)
        if name.endswith(".c"):
            flags = subprocess.run(["pkg-config", "--cflags", "redlatch"], capture_output=True, text=True, check=True,
                                   env={"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": INSTALLED + "/lib/pkgconfig"})
            subprocess.run(["gcc", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", path,
                            *flags.stdout.split()], check=True)

    def type(self, line):
        self.shell.stdin.write("%s\necho '%s'\n" % (line.replace("6390", str(self.port)), END))
        self.shell.stdin.flush()
        said = []
        late = threading.Timer(support.BOUND_S, os.killpg, (self.shell.pid, signal.SIGKILL))
        late.start()
        try:
            for row in self.shell.stdout:
                if row == END + "\n":
                    return "".join(said).replace(str(self.port), "6390")
                said.append(row)
        finally:
            late.cancel()
        self.fail("%r has ended the shell, or did not end, after %r" % (line, said))

    def follow(self, section):
        """Returns how many lines were typed."""
        typed = 0
        for name, text, console in PARTS.findall(section):
            if name:
                self.write(name, text)
            for line, shown in LINES.findall(console):
                if line.startswith("redis-server"):  # there is one
                    continue
                pattern = ".*?".join(re.escape(part) for part in shown.split("..."))
                self.assertRegex(self.type(line), re.compile("^%s$" % pattern, re.S), line)
                typed += 1
        return typed

    def take_step(self, number):
        for name, text, console in PARTS.findall("".join(SECTIONS[:number])):
            if name:
                self.write(name, text)
            for line in re.findall(r"^\$ (gcc .*)", console, re.M):
                self.type(line)
        self.type("export REDLATCH_SERVER=redis://127.0.0.1:6390")
        self.assertGreater(self.follow(SECTIONS[number]), 1, "the section's lines are not understood")
        self.assertEqual(number < 9, "**What breaks.**" in SECTIONS[number])

    def test_there_are_nine(self):
        self.assertEqual([section.split(".")[0] for section in SECTIONS[1:]], list("123456789"))


for number in range(10):
    setattr(Tutorial, "test_step_%d" % number, lambda self, number=number: self.take_step(number))

if __name__ == "__main__":
    support.main(sys.argv[1:])
