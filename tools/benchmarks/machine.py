# SPDX-License-Identifier: MIT
"""The machine: cores, private servers, and programs started on a core.

Placement decides what is measured, so nothing is left to the scheduler: whoever measures has one core, and the server
has the same or another one. A server belongs to one row, listens on a unix socket in a directory of its own and on a
free port of 127.0.0.1, and keeps nothing on disk.
"""

import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build", "bench")
MEASURE = os.path.join(TOP, "build", "release", "bench", "measure")
BOUND_S = 400
START_BOUND_S = 60


class Unavailable(Exception):
    """Something is not here, with the reason; what needs it is skipped and named."""


class Failed(Exception):
    """A program did not do what it should."""


def cores():
    """(for whoever measures, for a server that is to have another one or None)."""
    there = sorted(os.sched_getaffinity(0))
    return there[-1], there[0] if len(there) > 1 else None


def on_core(core):
    """For preexec_fn. Everything that the process starts stays there as well."""
    return lambda: os.sched_setaffinity(0, {core})


def run(argv, core, bound_s=BOUND_S, **more):
    """A program's standard output, or Failed with what it said."""
    try:
        done = subprocess.run(argv, preexec_fn=on_core(core), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=bound_s, **more)
    except subprocess.TimeoutExpired:
        raise Failed("%s has not ended after %d s" % (os.path.basename(argv[0]), bound_s)) from None
    if done.returncode != 0:
        raise Failed((done.stderr or done.stdout).strip().split("\n")[-1] or "exit status %d" % done.returncode)
    return done.stdout


def free_port():
    """One beside which a cluster's bus has room, 10,000 above it."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port < 55536:
            return port


class Server:
    """A private redis-server on `core`. under: words before its command; options: after it."""

    def __init__(self, core, under=(), options=()):
        self.core = core
        self.under = list(under)
        self.options = list(options)
        self.dir = tempfile.mkdtemp(prefix="redlatch-bench.")
        self.socket = os.path.join(self.dir, "socket")
        self.port = free_port()
        self.process = None

    def __enter__(self):
        log = os.path.join(self.dir, "log")
        with open(log, "w") as out:
            self.process = subprocess.Popen(
                self.under + ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket",
                              self.socket,
                              "--dir", self.dir, "--save", "", "--appendonly", "no"] + self.options,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=on_core(self.core))
        end = time.monotonic() + START_BOUND_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                with open(log) as said:
                    reason = said.read().strip().split("\n")[-1]
                self.__exit__()
                raise Failed("redis-server does not start: " + reason)
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def cli(self, *words):
        return subprocess.run(["redis-cli", "-s", self.socket, *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=START_BOUND_S).stdout

    def end(self):
        """Its ordinary end, after which what it runs under has said what it has to say."""
        self.cli("shutdown", "nosave")
        try:
            self.process.wait(START_BOUND_S)
        except subprocess.TimeoutExpired:
            raise Failed("redis-server does not end") from None

    def answers(self):
        return self.cli("ping").strip() == "PONG"

    def serve_all_slots(self):
        """Of a cluster that has nobody else."""
        self.cli("cluster", "addslotsrange", "0", "16383")
        end = time.monotonic() + START_BOUND_S
        while "cluster_state:ok" not in self.cli("cluster", "info"):
            if time.monotonic() > end:
                raise Failed("redis-server does not serve as a cluster")
            time.sleep(0.01)

    def forget(self):
        """As if it had just been started: nobody's keys, scripts or counts."""
        for words in (["flushall"], ["script", "flush"], ["config", "resetstat"]):
            self.cli(*words)

    def command(self, name):
        """(calls, microseconds) of a command, those from scripts included."""
        for line in self.cli("info", "commandstats").split("\n"):
            if line.startswith("cmdstat_%s:" % name):
                fields = dict(field.split("=") for field in line.strip().split(":", 1)[1].split(","))
                return int(fields["calls"]), int(fields["usec"])
        return 0, 0


class Stage:
    """What a contender of a row runs on: the row's server, cores, and for how long."""

    def __init__(self, server, core, tcp, settings):
        self.server = server
        self.core = core
        self.settings = settings
        self.address = "127.0.0.1:%d" % server.port
        self.uri = "redis://" + self.address if tcp else "unix:" + server.socket

    def argv(self, measurement, options):
        words = dict(server=self.uri, core=self.server.core, tree=TOP, seconds=self.settings.seconds,
                     warmup=self.settings.warmup)
        words.update(options)
        argv = [MEASURE, measurement]
        for name, value in words.items():
            argv += ["--" + name.replace("_", "-"), str(value)]
        return argv

    def measure(self, measurement, options):
        return json.loads(run(self.argv(measurement, options), self.core))

    @contextlib.contextmanager
    def busy(self):
        """Somebody else wants the measuring core all the time."""
        other = subprocess.Popen([MEASURE, "nothing"], preexec_fn=on_core(self.core), stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            other.kill()
            other.wait()


def cpu_model():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def described():
    """What figures depend on, for the record."""
    server = subprocess.run(["redis-server", "--version"], stdout=subprocess.PIPE, text=True).stdout.split()
    return dict(cpu=cpu_model(), cores=len(os.sched_getaffinity(0)), kernel=platform.release(),
                server=" ".join(server[:1] + [word[2:] for word in server if word.startswith("v=")]))
