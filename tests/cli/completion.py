#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""completion - what bash, zsh and fish offer for a line of redlatch, as it is installed: the options, subcommands and
topics of its help, the types, and the names that a server has."""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from terminal import Terminal

INSTALLED = os.path.join(support.BUILD, "tests", "installed")
HELPER = os.path.join(INSTALLED, "libexec", "redlatch", "redlatch-complete")
OWNER = "9f1c8a54-0000-4000-8000-0123456789ab:1"
OTHER_OWNER = "8" + OWNER[1:]
ALL, ONE = "\x18a", "\t"  # keys: insert every candidate; complete

BASH = """
. /usr/share/bash-completion/bash_completion
report() { printf '%s\\n' "$READLINE_LINE" >"$EVENTS"; READLINE_LINE=; }
bind '"\\C-xa": insert-completions' 'set completion-query-items 0' 'set page-completions off'
bind -x '"\\C-xr": report'
PROMPT_COMMAND='echo ready >"$EVENTS"; PROMPT_COMMAND='
"""
ZSH = """
fpath=("$SITE" $fpath)
autoload -Uz compinit && compinit -D -u
zstyle ':completion:all-matches:*' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert yes
zle -C all-matches complete-word _generic
report() { print -r -- "$BUFFER" >"$EVENTS"; BUFFER= }
zle -N report
bindkey -e
bindkey '^Xa' all-matches
bindkey '^Xr' report
LISTMAX=10000
precmd() { echo ready >"$EVENTS"; precmd() {} }
"""


class Shell(Terminal):
    """On a terminal of its own: keys are typed, and the line that they make comes back."""

    def __init__(self, case, program, *arguments, **more):
        self.events = case.events
        super().__init__(case, *arguments, program=shutil.which(program), env=dict(case.surroundings(), **more))
        assert self.reported() == "ready"

    def reported(self):
        while self.events.is_silent():
            if self.fd in select.select([self.fd, self.events.fd], [], [], support.BOUND_S)[0]:
                self.read()
        return self.events.next()

    def typed(self, keys):
        os.write(self.fd, (keys + "\x18r").encode())
        return self.reported()

    def words(self, line):
        """What may stand where the line ends. Of several, the last character of the line is in each."""
        before = shlex.split(line)[:-1] if not line.endswith(" ") else shlex.split(line)
        return shlex.split(self.typed(line + ALL))[len(before):]


class Fish:
    def __init__(self, case):
        self.env = case.environment(**case.surroundings())

    def asked(self, line):
        done = subprocess.run(["fish", "-c", "complete -C $argv[1]", line], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True, timeout=support.BOUND_S, check=True)
        return [candidate.split("\t")[0] for candidate in done.stdout.splitlines()]

    words = asked


class Case(support.Case):
    def surroundings(self):
        """A shell's environment, where everything that is installed is found and nothing of whoever runs the test."""
        return {"HOME": self.folder, "TERM": "dumb", "PS1": "$ ", "INPUTRC": "/dev/null", "HISTFILE": None,
                "PATH": INSTALLED + "/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8",
                "SITE": INSTALLED + "/share/zsh/site-functions",
                "XDG_DATA_DIRS": INSTALLED + "/share:/usr/share", "XDG_CONFIG_HOME": self.folder}

    def script(self, text):
        path = os.path.join(self.folder, "rc")
        with open(path, "w") as f:
            f.write(text)
        return path

    def shell(self, name):
        if not shutil.which(name):
            self.skipTest("there is no %s here" % name)
        if name == "fish":
            return Fish(self)
        if name == "bash":
            return Shell(self, "bash", "--noprofile", "--rcfile", self.script(BASH), "-i")
        os.rename(self.script(ZSH), os.path.join(self.folder, ".zshrc"))
        return Shell(self, "zsh", "-d", "-i", ZDOTDIR=self.folder)

    def lock(self, *names):
        for name in names:
            self.server.redis("HSET", name, OWNER, 1)
            self.server.redis("PEXPIRE", name, 600000)

    def helped(self, pattern, *words):
        return re.findall(pattern, self.redlatch(*words, "--help").out, re.M)

    def subcommands(self):
        return self.helped(r"^  ([a-z]+) {2,}")


class InEachShell:
    """What a shell makes of it; `name` says which."""

    def setUp(self):
        super().setUp()
        self.asked = self.shell(self.name)

    def offers(self, line, *candidates):
        self.assertEqual(sorted(self.asked.words(line)), sorted(candidates), line)

    def test_subcommands_and_topics(self):
        self.offers("redlatch ", *self.subcommands())
        self.offers("redlatch u", "unlock")
        self.offers("redlatch help t", "top", "times", "types")

    def test_every_option_of_each_subcommand(self):
        for subcommand in self.subcommands():
            for dash, pattern in ("--", r"^  (?:-., |    )(--[a-z-]+)"), ("-", r"^  (-.), --"):
                options = self.helped(pattern, subcommand)
                if dash == "-":
                    options += self.helped(r"^  (?:-., |    )(--[a-z-]+)", subcommand)
                if options:
                    with self.subTest(subcommand=subcommand, dash=dash):
                        self.offers("redlatch %s %s" % (subcommand, dash), *options)

    def test_values(self):
        self.offers("redlatch run --type f", "fair", "fenced")
        self.offers("redlatch run --on-outage ", "fail", "wait", "local")
        self.offers("redlatch run -w 5", "5ms", "5s", "5m", "5h", "5d")
        self.offers("redlatch run --server clusters", "clusters://")
        self.offers("redlatch run --server cluster:", "cluster://")
        self.offers("redlatch run --on-outage=l", "--on-outage=local")
        self.offers("redlatch ls --server=clusters", "--server=clusters://")
        self.offers("redlatch run --redlock unix:/a.sock,clusters", "unix:/a.sock,clusters://")

    def test_files_and_folders(self):
        os.mkdir(os.path.join(self.folder, "made"))
        for name in "made/one.pem", "made/two.pem":
            with open(os.path.join(self.folder, name), "w"):
                pass
        made = os.path.join(self.folder, "made")
        self.offers("redlatch ls --cacert %s/" % made, made + "/one.pem", made + "/two.pem")
        self.offers("redlatch ls --server @%s/o" % made, "@%s/one.pem" % made)
        self.offers("redlatch run --local-dir %s/mad" % self.folder, made + "/" * (self.name != "bash"))
        self.offers("redlatch ls --cacert=%s/o" % made, "--cacert=%s/one.pem" % made)
        self.offers("redlatch run --local-dir=%s/mad" % self.folder,
                    "--local-dir=%s%s" % (made, "/" * (self.name != "bash")))
        self.offers("redlatch ls --server=@%s/o" % made, "--server=@%s/one.pem" % made)
        self.offers("redlatch run --redlock unix:/a,@%s/o" % made, "unix:/a,@%s/one.pem" % made)
        self.offers("redlatch run --redlock=unix:/a,@%s/o" % made, "--redlock=unix:/a,@%s/one.pem" % made)

    def test_names_that_the_server_has(self):
        self.lock("nightly", "nightly-2", "a b", "gr$oß", 'quo"ted', "*")
        self.server.redis("SET", "nocturnal", "is no lock")
        for subcommand in "run", "show", "unlock", "wait", "ls", "top", "exporter", "doctor --name":
            with self.subTest(subcommand=subcommand):
                self.offers("redlatch %s n" % subcommand, "nightly", "nightly-2")
        self.offers("redlatch show nightly-", "nightly-2")
        self.offers("redlatch show a", "a b")
        self.offers("redlatch show g", "gr$oß")
        self.offers("redlatch run --server %s n" % self.server.uri, "nightly", "nightly-2")
        used = self.server.redis("INFO", "commandstats")
        self.assertNotIn(b"cmdstat_keys", used)
        self.assertIn(b"cmdstat_scan", used)

    def test_owners_are_those_who_hold_the_name(self):
        self.lock("nightly", "weekly")
        self.server.redis("HSET", "weekly", OTHER_OWNER, 1, "mode", "read")
        for owner in OWNER, OTHER_OWNER:
            self.server.redis("SET", "{weekly}:%s:rwlock_timeout:1" % owner, 1, "PX", 600000)
        self.offers("redlatch unlock nightly --owner ", OWNER)
        self.offers("redlatch unlock weekly --owner=9", "--owner=" + OWNER)
        self.offers("redlatch unlock weekly --owner 8", OTHER_OWNER)

    def test_the_server_is_that_of_the_line(self):
        other = support.Server()
        self.addCleanup(other.stop)
        self.lock("mine")
        other.redis("HSET", "yonder", OWNER, 1)
        other.redis("PEXPIRE", "yonder", 600000)
        self.offers("redlatch show --server %s " % other.uri, "yonder")
        self.offers("redlatch show --server=%s " % other.uri, "yonder")
        self.offers("redlatch show --server '%s' " % other.uri, "yonder")

    def test_the_command_is_completed_as_without_a_lock(self):
        where = self.folder + "/only"
        with open(where, "w"):
            pass
        os.chmod(where, 0o755)
        self.offers("redlatch run -n x -- cat %s/onl" % self.folder, where)
        self.offers("redlatch run -n x -- redlatch unl", "unlock")
        self.offers("redlatch run x redlatch unl", "unlock")

    def test_without_a_server_nothing_is_said(self):
        self.server.kill()
        before = len(getattr(self.asked, "said", ""))
        self.offers("redlatch show ", *(self.asked.words("redlatch show ") if self.name == "fish" else []))
        self.assertNotIn("redlatch:", getattr(self.asked, "said", "")[before:])


class Interactive(InEachShell):
    """Where there is a line to type in."""

    def completes(self, line, wanted):
        self.assertEqual(self.asked.typed(line + ONE), wanted)

    def test_a_key_completes(self):
        self.lock("a b", "x:y:z", "it's")
        self.completes("redlatch doc", "redlatch doctor ")
        self.completes("redlatch run --server sentinels", "redlatch run --server sentinels://")
        self.completes("redlatch show x", "redlatch show x:y:z ")
        self.completes("redlatch show x:y", "redlatch show x:y:z ")
        self.completes("redlatch show i", "redlatch show it\\'s ")
        self.completes("redlatch show a", "redlatch show a\\ b ")
        self.completes("redlatch show a\\ ", "redlatch show a\\ b ")
        self.completes("redlatch show 'a ", "redlatch show 'a b' ")
        self.completes("redlatch run --type=non", "redlatch run --type=nonreentrant ")


class Bash(Interactive, Case):
    name = "bash"


class Zsh(Interactive, Case):
    name = "zsh"


class InFish(InEachShell, Case):
    name = "fish"


class Helper(Case):
    """What the shells ask."""

    def said(self, *words, **more):
        done = subprocess.run([HELPER], input="".join(word + "\n" for word in words), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=support.BOUND_S,
                              env=self.environment(**dict(self.surroundings(), **more)))
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    def test_who_does_not_answer_is_not_waited_for(self):
        """Neither a server, which the command would wait 10 s for, nor a command that does not end."""
        with self.server.paused():
            self.assertEqual(self.said("redlatch", "show", ""), [])
        stuck = self.script('#!/bin/sh\n[ "$1" != ls ] || { trap "" TERM; exec sleep 3600; }\nexec redlatch "$@"\n')
        os.chmod(stuck, 0o755)
        self.assertEqual(self.said(stuck, "show", ""), [])
        self.assertIn("--json", self.said(stuck, "show", "--"))

    def test_of_many_names_some_are_offered(self):
        self.lock(*("name%d" % i for i in range(300)))
        self.assertEqual(len(self.said("redlatch", "show", "name")), 200)

    def test_a_password_stands_in_no_list_of_processes(self):
        other = support.Server(password=support.PASSWORD)
        self.addCleanup(other.stop)
        other.redis("HSET", "yonder", OWNER, 1)
        other.redis("PEXPIRE", "yonder", 600000)
        spy = self.script('#!/bin/sh\ntr "\\0" " " </proc/$PPID/cmdline >>"%s/seen"\necho "$*" >>"%s/seen"\n'
                          'exec redlatch "$@"\n' % (self.folder, self.folder))
        os.chmod(spy, 0o755)
        self.assertEqual(self.said(spy, "show", "--server", other.secret_uri, ""), ["yonder"])
        with open(self.folder + "/seen") as f:
            seen = f.read()
        self.assertIn("ls --json", seen)
        self.assertNotIn(support.PASSWORD, seen)

    def test_types_modes_and_times_are_those_of_the_command(self):
        self.assertEqual(self.said("redlatch", "run", "--type", ""), re.findall(
            r"^  ([a-z]+) ", self.redlatch("help", "types").out, re.M))
        self.assertEqual(set(self.said("redlatch", "run", "--type", "")), set(support.TYPES))
        modes = re.search(r"--on-outage: (\w+), (\w+) or (\w+),", self.run_lock("--on-outage", "", "x", "true").err)
        self.assertEqual(self.said("redlatch", "run", "--on-outage", ""), list(modes.groups()))
        for time in self.said("redlatch", "run", "-w", "") + self.said("redlatch", "run", "-w", "2.5"):
            self.assert_result(self.run_lock("-w", time, "x", "true"), 0)


del Interactive, InEachShell

if __name__ == "__main__":
    support.main(sys.argv[1:])
