#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""units - the units of contrib/systemd: systemd finds nothing wrong with them, and their lines do what they say, with a
password that stands in a credential. No systemd runs here, as it does in tests/packages/fleet: the lines are taken
apart as systemd.service(5) says, and stopped by the signals that their KillMode says."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

UNITS = os.path.join(support.TOP, "contrib", "systemd")
SERVICES = ["redlatch@.service", "redlatch-once@.service"]
EXPOSURE_MOST = 20  # of 100, as `systemd-analyze security` counts


def settings(unit):
    """Each setting's values, lines that end in a backslash joined."""
    with open(os.path.join(UNITS, unit)) as f:
        text = re.sub(r"\\\n\s*", " ", f.read())
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M):
        found.setdefault(key, []).append(value)
    return found


def expanded(line, instance, env):
    """The words of an ExecStart, as systemd makes them."""
    for word in shlex.split(line.replace("%i", instance)):
        if re.fullmatch(r"\$\w+", word):
            yield from env[word[1:]].split()
        else:
            yield re.sub(r"\$\$|\$\{(\w+)\}", lambda match: env[match[1]] if match[1] else "$", word)


class Units(support.Case):
    def setUp(self):
        super().setUp()
        self.server.redis("CONFIG", "SET", "requirepass", support.PASSWORD)
        self.server.password = support.PASSWORD
        self.server.arguments += ("--requirepass", support.PASSWORD)  # when it starts again
        with open(os.path.join(self.folder, "uri"), "w") as f:
            f.write(self.server.secret_uri + "\n")

    def begin(self, unit, instance, command, **more):
        """Start the line in a group of its own, which is what a unit's processes are to systemd."""
        path = os.path.join(self.folder, "work.sh")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n%s" % command)
        os.chmod(path, 0o755)
        env = self.environment(REDLATCH_SERVER=None, CREDENTIALS_DIRECTORY=self.folder,
                               PATH="%s:%s" % (os.path.dirname(support.REDLATCH), os.environ["PATH"]),
                               **dict({"COMMAND": path + " one two"}, **more))
        line, = settings(unit)["ExecStart"]
        process = subprocess.Popen(list(expanded(line, instance, env)), env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end_group, process)
        return process

    def end_group(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.end(process)

    def stop(self, unit, process):
        if settings(unit).get("KillMode") == ["mixed"]:
            process.send_signal(signal.SIGTERM)
        else:
            os.killpg(process.pid, signal.SIGTERM)


class Singleton(Units):
    UNIT = "redlatch@.service"
    WORK = 'trap \'echo ends >"$EVENTS"; read _ <"$GATE"; exit 0\' TERM\n' \
           'echo "held $*" >"$EVENTS"\nwhile :; do sleep 0.05; done\n'

    def test_one_of_two_hosts_runs_it_and_the_other_takes_over(self):
        first = self.begin(self.UNIT, "web", self.WORK)
        self.events.expect("held one two")
        second = self.begin(self.UNIT, "web", self.WORK)
        self.wait_for_waiters("web")
        self.assertTrue(self.events.is_silent())
        self.stop(self.UNIT, first)
        self.events.expect("ends")
        self.assertTrue(self.server.exists("web"), "it is held until the command has ended")
        self.gate.send()
        self.assertEqual(self.result(first).code, 0)
        self.events.expect("held one two")
        self.stop(self.UNIT, second)
        self.events.expect("ends")
        self.gate.send()
        self.assertEqual(self.result(second).code, 0)
        self.assert_free("web")

    def test_it_waits_for_a_server_and_names_no_password(self):
        self.server.kill()
        process = self.begin(self.UNIT, "web", self.WORK)
        self.assertIn(b"cannot connect", process.stderr.readline())
        self.server.start()
        self.events.expect("held one two")
        with open("/proc/%d/cmdline" % process.pid) as f:
            self.assertNotIn(support.PASSWORD, f.read())
        self.stop(self.UNIT, process)
        self.events.expect("ends")
        self.gate.send()
        result = self.result(process)
        self.assertNotIn(support.PASSWORD, result.err)

    def test_what_cannot_be_mended_by_a_start_is_not_started_again(self):
        prevented, = settings(self.UNIT)["RestartPreventExitStatus"]
        self.assertEqual(set(prevented.split()), {"64", "126", "127"})
        for status, command in ("126", "/etc/passwd"), ("127", "/nowhere/serve"):
            self.assertEqual(self.result(self.begin(self.UNIT, "web", None, COMMAND=command)).code, int(status))

    def test_a_lock_that_is_lost_ends_it_to_be_started_again(self):
        process = self.begin(self.UNIT, "web", self.WORK)
        self.events.expect("held one two")
        evicted = self.redlatch("unlock", "-y", "web", env={"REDLATCH_SERVER": self.server.secret_uri})
        self.assertEqual(evicted.code, 0, evicted)
        self.events.expect("ends")
        self.gate.send()
        self.assertEqual(self.result(process).code, 75)
        self.assertEqual(settings(self.UNIT)["Restart"], ["always"])


class Once(Units):
    UNIT = "redlatch-once@.service"

    def test_one_host_does_it_and_the_others_leave_it(self):
        first = self.begin(self.UNIT, "report", 'echo "did $*" >"$EVENTS"; exit 3\n')
        self.events.expect("did one two")
        support.until(lambda: "sleep" in self.running(first), "it keeps the lock for a while")
        self.assertEqual(self.result(self.begin(self.UNIT, "report", 'echo twice >"$EVENTS"\n')).code, 0)
        self.assertTrue(self.events.is_silent())
        self.stop(self.UNIT, first)
        self.assertEqual(self.result(first).code, 3, "the job's own status")
        self.assert_free("report")

    def running(self, process):
        """The names of the processes of its group."""
        names = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    before, after = f.read().rsplit(") ", 1)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if after.split()[2] == str(process.pid):
                names.append(before.split("(", 1)[1])
        return names

    def test_a_job_that_is_stopped_has_the_lock_until_it_has_ended(self):
        work = 'trap \'echo ends >"$EVENTS"; read _ <"$GATE"; exit 4\' TERM\necho did >"$EVENTS"\n' \
               'while :; do sleep 0.05; done\n'
        process = self.begin(self.UNIT, "report", work)
        self.events.expect("did")
        self.stop(self.UNIT, process)
        self.events.expect("ends")
        self.assertTrue(self.server.exists("report"))
        self.gate.send()
        self.assertEqual(self.result(process).code, 4)
        self.assert_free("report")

    def test_the_timer_begins_it_everywhere_at_the_same_time_and_never_late(self):
        timer = settings("redlatch-once@.timer")
        self.assertEqual((timer["AccuracySec"], timer["RandomizedDelaySec"], timer["Persistent"]),
                         (["1s"], ["0"], ["no"]))


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze here")
class Verified(support.Case):
    def copied(self):
        """As instances, with the command where it is built."""
        for unit in os.listdir(UNITS):
            with open(os.path.join(UNITS, unit)) as f:
                text = f.read()
            for name in unit, unit.replace("@", "@job"):
                with open(os.path.join(self.folder, name), "w") as f:
                    f.write(text.replace("ExecStart=redlatch ", "ExecStart=%s " % support.REDLATCH))
        return sorted(name for name in os.listdir(self.folder) if "@job" in name)

    def analyze(self, *arguments):
        done = subprocess.run(["systemd-analyze", *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=support.BOUND_S, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout

    def test_systemd_understands_them(self):
        names = self.copied()
        self.assertEqual(len(names), 3)
        self.assertEqual(self.analyze("verify", "--man=no", *("./" + name for name in names)), (0, ""))

    def test_they_are_closed(self):
        self.copied()
        for unit in SERVICES:
            code, said = self.analyze("security", "--offline=yes", "--threshold=%d" % EXPOSURE_MOST, "./" + unit)
            self.assertEqual(code, 0, said)

    def test_both_services_have_the_same_locks_and_bolts(self):
        kept = ("ExecStart", "Type", "KillMode", "Restart", "RestartSec", "RestartPreventExitStatus", "Description",
                "WantedBy")
        one, other = ({key: value for key, value in settings(unit).items() if key not in kept} for unit in SERVICES)
        self.assertEqual(one, other)


del Units

if __name__ == "__main__":
    support.main(sys.argv[1:])
