# SPDX-License-Identifier: MIT
"""What a pair costs the client, or the server, counted and not timed.

Each figure is the difference between a long and a short run, divided by the pairs that make the difference: what start
and end cost falls out.

    ours          instructions in code of core, locks and include, whatever function they were inlined into
    verbs         those in core/call and of what counts there: the same in every run, however fast the server answers
    instructions  all that the process executes, with hiredis' parser and the C library; the kernel's are not seen
    allocations   calls of malloc, calloc, realloc and their like, by anybody
    system_calls  of all threads
    server_instructions  all that the server executes outside the kernel
"""

import collections
import os
import re
import shutil
import subprocess

from machine import BUILD, TOP, Failed, Server, Unavailable, run

SHORT, LONG = 20000, 40000  # by then it is known whether busy polling pays, which is tried anew now and then
SHORT_MANY, LONG_MANY = 40000, 60000  # pairs of all threads; the loop thread wakes at times of its own
SHORT_SERVER, LONG_SERVER = 200, 1200
OURS = re.compile(r"(^|/)(core|locks|include/redlatch)/")
VERBS = re.compile(r"(^|/)core/(call/|base/(metrics|sink)\.h)")
ALLOCATING = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"}
TOP_FUNCTIONS = 12

POSITION = re.compile(r"^(fl|fi|fe|fn|cfi|cfl|cfn|ob|cob)=\((\d+)\)(?: (.*))?$")
COST = re.compile(r"^[+\-*]?\d* (\d+)$")


class Profile:
    """A callgrind file: instructions by (source file, function), and calls by function called."""

    def __init__(self, path):
        self.instructions = collections.Counter()
        self.calls = collections.Counter()
        names = dict(file={}, function={}, object={})
        kinds = dict(fl="file", fi="file", fe="file", cfi="file", cfl="file", fn="function", cfn="function",
                     ob="object",
                     cob="object")
        now = dict(fl="", fn="", cfn="")
        inclusive = False
        with open(path) as f:
            for line in f:
                position = POSITION.match(line)
                if position:
                    key, number, name = position.groups()
                    known = names[kinds[key]]
                    if name:
                        known[number] = name
                    now["fl" if key in ("fi", "fe") else key] = known[number]
                elif line.startswith("calls="):
                    self.calls[now["cfn"]] += int(line[6:].split()[0])
                    inclusive = True
                else:
                    cost = COST.match(line)
                    if cost and not inclusive:
                        self.instructions[now["fl"], now["fn"]] += int(cost.group(1))
                    inclusive = inclusive and not cost

    def minus(self, other):
        self.instructions.subtract(other.instructions)
        self.calls.subtract(other.calls)
        return self


def relative(path):
    return os.path.relpath(path, TOP) if path.startswith(TOP) else path


def profile(stage, options, count):
    path = os.path.join(BUILD, "callgrind.out")
    argv = stage.argv("pairs", dict(options, count=count))
    run(["valgrind", "--quiet", "--tool=callgrind", "--callgrind-out-file=" + path] + argv, stage.core)
    return Profile(path)


def instructions(stage, options):
    if not shutil.which("valgrind"):
        raise Unavailable("valgrind is not installed")
    more = profile(stage, options, LONG).minus(profile(stage, options, SHORT))
    pairs = LONG - SHORT
    ours = {place: n / pairs for place, n in more.instructions.items() if OURS.search(relative(place[0]))}
    top = sorted(ours.items(), key=lambda item: -item[1])[:TOP_FUNCTIONS]
    return dict(ours=sum(ours.values()), verbs=sum(n for place, n in ours.items() if VERBS.search(relative(place[0]))),
                instructions=sum(more.instructions.values()) / pairs,
                allocations=sum(more.calls[name] for name in ALLOCATING) / pairs,
                top=["%s %s %.0f" % (relative(place[0]), place[1], n) for place, n in top])


def server_total(stage, options, count, server_options):
    path = os.path.join(BUILD, "callgrind.server.out")
    with Server(stage.server.core, ["valgrind", "--quiet", "--tool=callgrind", "--callgrind-out-file=" + path],
                ["--hz", "1"] + server_options) as server:
        if "--cluster-enabled" in server_options:
            server.serve_all_slots()
        run(stage.argv("pairs", dict(options, count=count, server="unix:" + server.socket)), stage.core)
        server.end()
    with open(path) as f:
        for line in f:
            if line.startswith("totals:"):
                return int(line.split()[1])
    raise Failed("callgrind did not count")


def server_instructions(stage, options):
    """aof: it writes what it does to a file. cluster: it is all of one."""
    if not shutil.which("valgrind"):
        raise Unavailable("valgrind is not installed")
    options = dict(options)
    server_options = ["--appendonly", "yes", "--appendfsync", "no"] if options.pop("aof", False) else []
    server_options += ["--cluster-enabled", "yes"] if options.pop("cluster", False) else []
    short, long = (server_total(stage, options, count, server_options) for count in (SHORT_SERVER, LONG_SERVER))
    return dict(server_instructions=(long - short) / (LONG_SERVER - SHORT_SERVER))


def counted_by_perf(argv, core):
    path = os.path.join(BUILD, "perf.out")
    run(["perf", "stat", "-x", ",", "-o", path, "-e", "raw_syscalls:sys_enter"] + argv, core)
    with open(path) as f:
        for line in f:
            if "raw_syscalls:sys_enter" in line and line.split(",")[0].isdigit():
                return int(line.split(",")[0])
    raise Failed("perf did not count")


def counted_by_strace(argv, core):
    path = os.path.join(BUILD, "strace.out")
    run(["strace", "-f", "-c", "-o", path] + argv, core)
    with open(path) as f:
        for line in f:
            if line.split()[-1:] == ["total"]:
                return int(line.split()[3])
    raise Failed("strace did not count")


def counter():
    """perf disturbs least, but the kernel may forbid it."""
    if shutil.which("perf"):
        probe = subprocess.run(["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "true"],
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if probe.returncode == 0 and "not" not in probe.stderr:
            return counted_by_perf
    if shutil.which("strace"):
        return counted_by_strace
    raise Unavailable("neither perf nor strace is installed and allowed")


def system_calls(stage, options):
    count = counter()
    threads = options.get("threads", 1)
    short, long = (count(stage.argv("pairs", dict(options, count=n // threads)), stage.core)
                   for n in (SHORT_MANY, LONG_MANY))
    return dict(system_calls=(long - short) / (LONG_MANY - SHORT_MANY))
