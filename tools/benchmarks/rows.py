# SPDX-License-Identifier: MIT
"""The rows: what is measured, against whom, and what is to be reached.

A row has contenders, who run by turns, round after round, on one server that is pinned with them; and targets, each a
number made from the first contender's answer and another one's of the same round, so that what disturbs the machine for
a while disturbs both. A new row is one entry in ROWS. A curve is a row whose contenders are sizes, the largest first.

    where     "same": client and server share a core; "other": each has its own
    tcp       loopback, else a unix socket
    shows     what of the answers is shown: (key, unit, text)
    rounds    how many, where counting needs no repetition
"""

import collections

import costs
import peers
import postgres
import shares

Contender = collections.namedtuple("Contender", "name run")
Target = collections.namedtuple("Target", "text value base must aim least own", defaults=(None,))
Row = collections.namedtuple("Row", "name title where tcp contenders shows targets rounds", defaults=(None,))

OURS = "redlatch"
HIREDIS = "hiredis"
CEILING = "pipelined"
AS_MANY = "pipelined, 32 pairs under way"  # as many as 32 threads can have
TEN = "10 waiters"
SINGLE = "single server"
UNCOUNTED = "without metrics"
WAITED_FOR = "waited for"
UNWAITED = "hiredis, not waiting either"
IN_CLUSTER = "hiredis in the cluster"
HANDED = "hand-off"
FLOCK = "flock"
FUTEX = "a futex handed on"
COUNTED, TIMED = "fenced by a counter", "fenced by time"
POSTGRES = "postgresql"
RUEIDISLOCK = "rueidislock"
THREADS_OF_ROWS = (32, 128, 256)
BATCH = 16  # pairs that take hardly longer than reading the clock
MANY = (1000000, 100000, 10000, 1000)
CONTENDED = (10000, 1000, 100, 10)


# ---- contenders ------------------------------------------------------------------------------------------------------

def program(name, measurement, busy=False, **options):
    """The bench's own program. busy: beside it somebody else wants its core. An option may be scaled()."""
    def run(stage):
        given = {key: value(stage.settings) if callable(value) else value for key, value in options.items()}
        if not busy:
            return stage.measure(measurement, given)
        with stage.busy():
            return stage.measure(measurement, given)
    return Contender(name, run)


def scaled(full, quick):
    return lambda settings: quick if settings.quick else full


def ours(measurement, **options):
    return program(OURS, measurement, **{"kind": "redlatch", **options})


def hiredis(measurement, **options):
    return program(HIREDIS, measurement, **{"kind": "reentrant", **options})


def ceiling(kind="reentrant", owners=256, locks=None, name=None):
    return program(name or CEILING, "pipeline", kind=kind, owners=owners, locks=locks or owners)


def peer(name, mode="pairs", threads=1, program=None):
    return Contender(name, lambda stage: peers.measure(stage, program or name, mode, threads))


def counting(name, count, **options):
    return Contender(name, lambda stage: count(stage, options))


def three(contender, *given, **options):
    """Three locks together, by so many scripts."""
    return [contender(name, *given, kind=kind, **options)
            for name, kind in (("three scripts", "three"), ("one script", "three-in-one"),
                               ("one script for any type", "three-of-any"))]


# ---- targets ---------------------------------------------------------------------------------------------------------

def ratio(key, base, must, aim=None, least=False, text=None):
    return Target("%s, %s" % (text or NAMES[key], "times " + base if least else "of " + base),
                  lambda own, other: own[key] / other[key], base, must, aim, least)


def bound(text, key, must, aim=None):
    return Target(text, lambda own, _: own[key], None, must, aim, False)


def slopes(text, key, sizes):
    """What one costs, at each size beside the next smaller one: 1.00 where all together grow as they are more. Growing
    with the square of their number it would be 10 a decade, with their number times its logarithm 1.2."""
    named = ["%s" % format(size, ",d") for size in sizes]
    return [Target("%s each at %s, of %s" % (text, many, fewer), lambda own, other: own[key] / other[key], fewer, 1.5,
                   1.1, False, many) for many, fewer in zip(named, named[1:])]


def curve(measurement, option, sizes, **more):
    """more: a value for each size."""
    return [program(format(size, ",d"), measurement, kind="redlatch", **{option: scaled(size, max(size // 100, 10))},
                    **{key: values[i] for key, values in more.items()}) for i, size in enumerate(sizes)]


NAMES = dict(p50_us="p50", p99_us="p99", per_second="pairs/s", server_us="server time", script_us="time in scripts")

LATENCY = [("p50_us", "us", "p50"), ("p99_us", "us", "p99"), ("client_us", "us", "client's CPU")]
THROUGHPUT = [("per_second", "/s", "pairs"), ("p99_us", "us", "p99"), ("client_us", "us", "client's CPU"),
              ("server_us", "us", "server's CPU"), ("commands", "", "commands")]
SERVER = [("server_us", "us", "server's CPU"), ("script_us", "us", "in scripts"), ("commands", "", "commands")]
SERVER_COUNTED = [("server_instructions", "", "server's instructions")]
HANDOFF = [("p50_us", "us", "p50"), ("p99_us", "us", "p99")]
CHANGES = [("per_second", "/s", "changes of owner"), ("commands", "", "commands each"),
           ("longest_gap_ms", "ms", "longest free"), ("longest_wait_ms", "ms", "longest wait")]

# ---- the table -------------------------------------------------------------------------------------------------------

ROWS = [
    Row("pair-same", "One thread, lock and unlock; server on the same core, TCP", "same", True,
        [ours("pairs"), hiredis("pairs"), peer("redisson"), peer(RUEIDISLOCK), peer("redispy"), peer("rslock")],
        LATENCY, [ratio("p50_us", HIREDIS, 1.05, 1.00)]),
    Row("pair-same-unix", "The same over a unix socket", "same", False,
        [ours("pairs"), hiredis("pairs")], LATENCY, [ratio("p50_us", HIREDIS, 1.05, 1.00)]),
    Row("pair-other", "One thread, lock and unlock; server on another core, TCP", "other", True,
        [ours("pairs"), hiredis("pairs")], LATENCY, [ratio("p50_us", HIREDIS, 0.60, 0.40)]),
    Row("pair-other-unix", "The same over a unix socket", "other", False,
        [ours("pairs"), hiredis("pairs")], LATENCY, [ratio("p50_us", HIREDIS, 0.60, 0.40)]),
    Row("pair-busy", "The same over TCP, when somebody else wants the client's core", "other", True,
        [ours("pairs", busy=True), hiredis("pairs", busy=True)], LATENCY, [ratio("p50_us", HIREDIS, 1.05, 1.00)]),
    Row("pair-far", "The same, when the network takes 1 ms each way", "same", False,
        [ours("pairs", far_ms=1), hiredis("pairs", far_ms=1)], LATENCY, [ratio("p50_us", HIREDIS, 1.05, 1.00)]),
] + [
    Row("pair-unconfirmed" + name, "An unlock that waits for nothing: one thread, %s" % text, where, True,
        [ours("pairs", kind="redlatch-unconfirmed", **given), program(WAITED_FOR, "pairs", kind="redlatch", **given),
         hiredis("pairs", **given), program(UNWAITED, "pairs", kind="reentrant-unwaited", **given)],
        LATENCY, [ratio("p50_us", HIREDIS, 0.55, 0.52)])
    for name, where, text, given in (("", "same", "server on the same core, TCP", {}),
                                     ("-other", "other", "server on another core, TCP", {}),
                                     ("-far", "same", "when the network takes 1 ms each way", {"far_ms": 1}))
] + [
    Row("pair-%s" % name, "One thread and a %s; server on the same core, TCP" % what, "same", True,
        [ours("pairs", kind="redlatch-" + name), hiredis("pairs", kind=traffic)], LATENCY,
        [ratio("p50_us", HIREDIS, 1.05, 1.00)])
    for name, what,
    traffic in (("nonreentrant", "non-reentrant lock", "reentrant"), ("simple", "simple lock", "simple"),
                                ("spin", "spin lock", "reentrant"), ("fenced", "fenced lock", "fenced"),
                                ("fair", "fair lock that nobody waits for", "fair"), ("read", "read lock", "read"),
                                ("write", "write lock", "write"), ("semaphore", "semaphore's permit", "semaphore"),
                                ("permit", "permit with an id and a lease", "permit"))
] + [
    Row("multi-far", "A multi-lock of 3 names on one server, when the network takes 5 ms each way", "same", False,
        [ours("pairs", kind="redlatch-multi", far_ms=5), hiredis("pairs", far_ms=5)],
        LATENCY, [ratio("p50_us", HIREDIS, 1.05, 1.00, text="p50, of a round trip each to lock and to unlock")]),
    Row("red-5", "A red lock on 5 servers, all on one core with the client, unix sockets", "same", False,
        [ours("pairs", kind="redlatch-red"), hiredis("pairs", kind="red")],
        LATENCY,
        [ratio("p50_us", HIREDIS, 1.5, text="p50, of a round trip each of the slowest server in the majority")]),
    Row("red-5-far", "The same, when the network takes 1 ms each way", "same", False,
        [ours("pairs", kind="redlatch-red", far_ms=1), hiredis("pairs", kind="red", far_ms=1)],
        LATENCY,
        [ratio("p50_us", HIREDIS, 1.5, text="p50, of a round trip each of the slowest server in the majority")]),
    Row("pair-cluster", "One thread, a cluster of 3 masters; all on one core with the client, TCP", "same", True,
        [ours("pairs", kind="redlatch-cluster"), program(SINGLE, "pairs", kind="redlatch"),
         program(IN_CLUSTER, "pairs", kind="cluster"), hiredis("pairs")],
        LATENCY, [ratio("p50_us", SINGLE, 1.05, 1.00), ratio("p50_us", IN_CLUSTER, 1.05, 1.00)]),
    Row("pair-cluster-far", "The same, when the network takes 1 ms each way", "same", False,
        [ours("pairs", kind="redlatch-cluster", far_ms=1), program(SINGLE, "pairs", kind="redlatch", far_ms=1),
         program(IN_CLUSTER, "pairs", kind="cluster", far_ms=1), hiredis("pairs", far_ms=1)],
        LATENCY, [ratio("p50_us", SINGLE, 1.05, 1.00), ratio("p50_us", IN_CLUSTER, 1.05, 1.00)]),
    Row("pair-cluster-other", "pair-cluster with the masters, and the single server, on another core", "other", True,
        [ours("pairs", kind="redlatch-cluster"), program(SINGLE, "pairs", kind="redlatch"),
         program(IN_CLUSTER, "pairs", kind="cluster"), hiredis("pairs")],
        LATENCY, [ratio("p50_us", SINGLE, 1.05, 1.00), ratio("p50_us", IN_CLUSTER, 1.05, 1.00)]),
] + [
    Row("pair-cluster-counted",
        "What the server does for a pair of plain hiredis: alone or as a cluster, with a script to take or without",
        "same", False,
        [counting("alone", costs.server_instructions, kind="reentrant"),
         counting("in a cluster", costs.server_instructions, kind="sharded", cluster=True),
         counting("alone, RESTORE", costs.server_instructions, kind="restored"),
         counting("in a cluster, RESTORE", costs.server_instructions, kind="restored-sharded", cluster=True)],
        SERVER_COUNTED, [], 1),
    Row("pair-sentinel", "One thread, a master behind 3 sentinels; all on one core with the client, TCP", "same", True,
        [ours("pairs", kind="redlatch-sentinel"), program(SINGLE, "pairs", kind="redlatch")],
        LATENCY, [ratio("p50_us", SINGLE, 1.05, 1.00)]),
    Row("cost", "What a pair costs the client, counted", "same", False,
        [counting(OURS, costs.instructions, kind="redlatch"), counting(HIREDIS, costs.instructions, kind="reentrant")],
        [("ours", "", "instructions of ours"), ("instructions", "", "instructions in all"),
         ("allocations", "", "allocations")],
        [bound("instructions of ours", "ours", 5000, 2500), bound("allocations, by anybody", "allocations", 0, 0)], 1),
    Row("cost-unconfirmed", "What a pair costs whose unlock waits for nothing, counted", "same", False,
        [counting(OURS, costs.instructions, kind="redlatch-unconfirmed"),
         counting(WAITED_FOR, costs.instructions, kind="redlatch")],
        [("ours", "", "instructions of ours"), ("instructions", "", "instructions in all"),
         ("allocations", "", "allocations")],
        [bound("allocations, by anybody", "allocations", 0, 0)], 1),
    Row("cost-metrics", "What a pair costs that is counted by name, beside one that is not, counted", "same", False,
        [counting(OURS, costs.instructions, kind="redlatch-metered"),
         counting(UNCOUNTED, costs.instructions, kind="redlatch")],
        [("verbs", "", "instructions of verbs"), ("ours", "", "instructions of ours"),
         ("instructions", "", "instructions in all"), ("allocations", "", "allocations")],
        [Target("instructions of verbs more, % of all without metrics",
                lambda own, other: 100 * (own["verbs"] - other["verbs"]) / other["instructions"], UNCOUNTED, 2, 1,
                False)], 3),
    Row("pair-kept", "One thread, a lock that its client keeps (cache_ms), that nobody else wants", "same", True,
        [ours("pairs", kind="redlatch-kept", batch=BATCH),
         program(COUNTED, "pairs", kind="redlatch-fenced-kept", batch=BATCH),
         program(TIMED, "pairs", kind="redlatch-timed-kept", batch=BATCH),
         program(FLOCK, "pairs", kind="host-flock", batch=BATCH)],
        THROUGHPUT[:1] + LATENCY,
        [bound("p50 us", "p50_us", 0.2, 0.1), ratio("per_second", FLOCK, 4, 9, least=True)] +
        [Target("%s: p50 us" % tokens, lambda own, _: own["p50_us"], None, 0.25, None, False, tokens)
         for tokens in (COUNTED, TIMED)]),
    Row("cost-kept", "What a pair of a kept lock costs, counted", "same", False,
        [counting(OURS, costs.instructions, kind="redlatch-kept"),
         counting("asking", costs.instructions, kind="redlatch")],
        [("ours", "", "instructions of ours"), ("instructions", "", "instructions in all"),
         ("allocations", "", "allocations")],
        [bound("instructions in all", "instructions", 2000, 1000), bound("allocations", "allocations", 0, 0)], 1),
    Row("kept-32", "32 threads on one lock that their client keeps, nothing done inside, on one core", "same", True,
        [ours("processes", kind="redlatch-kept", processes=1, threads=32),
         program("asking", "processes", kind="redlatch", processes=1, threads=32),
         program(FUTEX, "processes", kind="host-futex", processes=1, threads=32)],
        [("per_second", "/s", "changes of owner"), ("pairs_per_second", "/s", "pairs"),
         ("longest_wait_ms", "ms", "longest wait")],
        [ratio("per_second", "asking", 10, 30, least=True, text="changes of owner/s"),
         ratio("per_second", FUTEX, 0.5, 0.8, least=True, text="changes of owner/s")]),
    Row("system-calls", "System calls a pair, one thread", "same", False,
        [counting(OURS, costs.system_calls, kind="redlatch"), counting(HIREDIS, costs.system_calls, kind="reentrant")],
        [("system_calls", "", "system calls")], [bound("system calls", "system_calls", 4, 4)], 1),
    Row("system-calls-32", "System calls a pair, 32 threads on 32 locks", "other", False,
        [counting(OURS, costs.system_calls, kind="redlatch", threads=32, locks=32)],
        [("system_calls", "", "system calls")], [bound("system calls", "system_calls", 1.0, 0.4)], 3),
    Row("system-calls-unconfirmed", "System calls a pair whose unlock waits for nothing, one thread", "same", False,
        [counting(OURS, costs.system_calls, kind="redlatch-unconfirmed"),
         counting(WAITED_FOR, costs.system_calls, kind="redlatch")],
        [("system_calls", "", "system calls")], [bound("system calls", "system_calls", 4, 3)], 1),
    Row("system-calls-32-unconfirmed", "The same, 32 threads on 32 locks", "other", False,
        [counting(OURS, costs.system_calls, kind="redlatch-unconfirmed", threads=32, locks=32),
         counting(WAITED_FOR, costs.system_calls, kind="redlatch", threads=32, locks=32)],
        [("system_calls", "", "system calls")], [], 3),
] + [
    Row("threads-%d" % n, "%d threads on as many locks, on one core; server on another, TCP" % n, "other", True,
        [ours("pairs", threads=n, locks=n), ceiling(), hiredis("pairs", threads=n, locks=n)] +
        ([peer(RUEIDISLOCK, threads=n), peer("redisson", threads=n)] if n == 32 else []),
        THROUGHPUT,
        [ratio("per_second", CEILING, 0.45, 0.60, least=True), ratio("per_second", HIREDIS, 1.8, 2.3, least=True)] +
        ([ratio("per_second", RUEIDISLOCK, 1.0, least=True)] if n == 32 else []))
    for n in THREADS_OF_ROWS
] + [
    Row("threads-32-unconfirmed", "threads-32 with unlocks that wait for nothing", "other", True,
        [ours("pairs", kind="redlatch-unconfirmed", threads=32, locks=32),
         program(WAITED_FOR, "pairs", kind="redlatch", threads=32, locks=32), ceiling(),
         ceiling(owners=32, name=AS_MANY), hiredis("pairs", threads=32, locks=32)],
        THROUGHPUT, [ratio("per_second", CEILING, 0.75, 0.85, least=True),
                     ratio("per_second", AS_MANY, 0.75, 0.85, least=True)]),
    Row("readers-32", "32 threads of readers on one name, on one core; server on another, TCP", "other", True,
        [ours("pairs", kind="redlatch-read", threads=32, locks=1), ceiling("read", locks=1)],
        THROUGHPUT, [ratio("per_second", CEILING, 0.45, least=True)]),
    Row("readers-32-cached", "The same of a read lock that their client keeps (cache_ms)", "other", True,
        [ours("pairs", kind="redlatch-read-kept", threads=32, locks=1, batch=BATCH),
         program("asking", "pairs", kind="redlatch-read", threads=32, locks=1)],
        THROUGHPUT, [ratio("per_second", "asking", 100, least=True),
                     Target("pairs/s", lambda own, _: own["per_second"], None, 5000000, 20000000, True)]),
    Row("zipf", "1,000,000 names by Zipf's law (0.99), 95 % reads, 8 threads in each of 4 processes: a grant", "other",
        True,
        [ours("zipf", kind="redlatch-kept", processes=4, threads=8, locks=1000000, holds=scaled(30000, 1000),
              warmup=scaled(2, 1)),
         program("asking", "zipf", kind="redlatch", processes=4, threads=8, locks=1000000, holds=scaled(30000, 1000),
                 warmup=scaled(2, 1))],
        [("p50_us", "us", "p50"), ("p99_us", "us", "p99"), ("p999_us", "us", "p99.9"), ("per_second", "/s", "pairs"),
         ("at_once", "%", "within 10 us")],
        [ratio("p50_us", "asking", 0.1)], 3),
    Row("async-32", "32 asynchronous owners on one thread, simple lock; server on another core, TCP", "other", True,
        [ours("async", kind="redlatch-simple", owners=32), ceiling("simple", 32), peer("rslock", threads=32)],
        THROUGHPUT, [ratio("per_second", "rslock", 1.0, least=True)]),
    Row("async-256", "256 asynchronous owners on one thread; server on another core, TCP", "other", True,
        [ours("async", owners=256), ceiling()],
        THROUGHPUT, [ratio("per_second", CEILING, 0.90, 0.97, least=True)]),
    Row("server-time", "Server time a pair, one caller; server on another core, TCP", "other", True,
        [ours("pairs"), program("redisson-traffic", "pairs", kind="redisson"),
         Contender("redisson", lambda stage: peers.server_time(stage, "redisson"))],
        SERVER,
        [ratio("server_us", "redisson-traffic", 0.70, 0.60), ratio("script_us", "redisson-traffic", 0.70, 0.60)]),
    Row("server-time-busy", "The same, the server always busy", "other", True,
        [ours("async", owners=256), ceiling("redisson", name="redisson-traffic")],
        SERVER,
        [ratio("server_us", "redisson-traffic", 0.70, 0.60), ratio("script_us", "redisson-traffic", 0.70, 0.60)]),
    Row("multi-script", "Three locks at one server taken together and deleted: as many scripts in one write, or one",
        "same",
        False, three(counting, costs.server_instructions), SERVER_COUNTED, [], 1),
    Row("multi-script-kept", "The same, when the server writes what it does to a file", "same", False,
        three(counting, costs.server_instructions, aof=True), SERVER_COUNTED, [], 1),
    Row("multi-script-time", "The same, timed; server on another core, unix socket", "other", False,
        three(program, "pairs"), LATENCY[:2] + SERVER, []),
    Row("handoff", "From one process to another, from before the release; server on another core, TCP", "other", True,
        [ours("handoff"), hiredis("handoff"), peer("redisson", "handoff"), peer(RUEIDISLOCK, "handoff")],
        HANDOFF, [ratio("p50_us", HIREDIS, 1.10)]),
    Row("handoff-same", "The same, all on one core", "same", True,
        [ours("handoff"), hiredis("handoff")], HANDOFF, [ratio("p50_us", HIREDIS, 1.10)]),
    Row("handoff-far", "The same, when the network takes the waiter 5 ms each way", "same", False,
        [ours("handoff", far_ms=5, seconds=scaled(4, 1)), hiredis("handoff", far_ms=5, seconds=scaled(4, 1))],
        HANDOFF + [("ping_p50_us", "us", "PING")],
        [Target("p50, of three hops", lambda own, _: own["p50_us"] / (1.5 * own["ping_p50_us"]), None, 1.05, 1.02,
                False)]),
    Row("recall", "An idle lock that another client keeps (cache_ms): from the call until it has it; as in handoff",
        "other", True,
        [ours("recall", kind="redlatch-kept"), program(HANDED, "handoff", kind="redlatch")],
        HANDOFF, [ratio("p50_us", HANDED, 1.6, 1.3)], 3),
] + [
    Row("waiters-%d" % n, "%d waiters in one process on one lock" % n, "other", True,
        [ours("waiters", owners=n)], [("per_second", "/s", "changes of owner"), ("commands", "", "commands each")],
        [bound("commands a hand-off", "commands", 2.05, 2.00)])
    for n in (16, 1000)
] + [
    Row("processes-16", "16 processes on one lock, nothing done inside", "other", True,
        [ours("processes", processes=16), hiredis("processes", processes=16), peer(RUEIDISLOCK, "contend", 16),
         peer("rueidislock in one process", "contend-within", 16, program=RUEIDISLOCK)],
        CHANGES,
        [ratio("per_second", HIREDIS, 1.0, least=True, text="changes of owner/s"),
         ratio("per_second", RUEIDISLOCK, 2.0, 3.0, least=True, text="changes of owner/s"),
         bound("commands a change of owner", "commands", 4, 3),
         bound("longest time that it was free, ms", "longest_gap_ms", 100)]),
    Row("processes-256", "256 processes on one lock, nothing done inside", "other", True,
        [ours("processes", processes=256, warmup=scaled(2, 1), seconds=scaled(3, 1))], CHANGES,
        [bound("commands a change of owner", "commands", 4, 3)], 3),
] + [
    Row("kept-turns-%d" % n, "2 processes by turns on a lock that they keep (cache_ms), %s once a turn" % threads,
        "other", True,
        [ours("turns", kind="redlatch-kept", processes=2, threads=n),
         program("asking", "turns", kind="redlatch", processes=2, threads=n)],
        [("commands_a_pair", "", "commands a pair"), ("pairs_per_second", "/s", "pairs")],
        [bound("commands a pair", "commands_a_pair", must, aim)], 3)
    for n, threads, must, aim in ((1, "one thread", 2.1, 2.0), (8, "each of 8 threads", 0.7, 0.4))
] + [
    Row("writer-cached", "A writer 5 ms away, and 32 readers in each of 4 processes that keep the lock (cache_ms)",
        "other", True,
        [ours("writer", processes=4, threads=32, far_ms=5, seconds=scaled(4, 1))],
        [("p50_us", "us", "its wait, p50"), ("p99_us", "us", "p99"), ("section_p50_us", "us", "longest section, p50"),
         ("ping_p50_us", "us", "PING")],
        [Target("p99 of a wait, hops beside the longest section",
                lambda own, _: 2 * own["beyond_p99_us"] / own["ping_p50_us"], None, 4, None, False)], 3),
    Row("waiters-fair", "1,000 waiters in one process on one fair lock, and 10", "other", True,
        [ours("waiters", kind="redlatch-fair", owners=1000), program(TEN, "waiters", kind="redlatch-fair", owners=10)],
        [("per_second", "/s", "changes of owner"), ("server_us", "us", "server's CPU"),
         ("commands", "", "commands each")],
        [ratio("server_us", TEN, 2.0, 1.3), bound("commands a hand-off", "commands", 2.2, 2.00)]),
    Row("processes-fair", "16 processes on one fair lock, nothing done inside", "other", True,
        [ours("processes", kind="redlatch-fair", processes=16),
         Contender(POSTGRES, lambda stage: postgres.measure(stage, 16))],
        CHANGES,
        [bound("commands a change of owner", "commands", 2.2, 2.00),
         ratio("per_second", POSTGRES, 0.5, least=True, text="changes of owner/s")]),
    Row("host-handoff", "8 processes of one host on one lock, by the server and without one", "other", True,
        [ours("processes", kind="redlatch-fair", processes=8),
         program("kept", "processes", kind="redlatch-kept", processes=8)] +
        [program(name, "processes", kind="host-" + name, processes=8) for name in ("flock", "futex", "agent")],
        CHANGES, []),
] + [
    Row("shares-%s" % name, "8 threads of ours and 8 of Redisson's on one lock, %s: the least share of one" % text,
        "other", True, [Contender(OURS, lambda stage, times=times: shares.measure(stage, *times))],
        [(kind + side, "", "%s, %s" % (kind, whose))
         for kind in shares.TYPES for side, whose in (("_ours", "ours"), ("_java", "Redisson's"))],
        [Target("%s lock: least of its even share" % kind, lambda own, _, kind=kind: own[kind], None, 0.25, 0.5, True)
         for kind in shares.TYPES], 2)
    for name, text, times in (("busy", "nothing done inside", (0, 0)),
                              ("held", "held for 1 ms, wanted again after 3 ms", (1, 3)))
] + [
    Row("takeover", "Takeover from a killed holder: later than the end of its lease", "other", True,
        [ours("takeover", rounds=scaled(10, 3)), hiredis("takeover", rounds=scaled(10, 3))],
        [("late_p50_us", "us", "p50"), ("late_max_us", "us", "max")],
        [Target("late by ms, p50", lambda own, _: own["late_p50_us"] / 1000, None, 2.0, 1.0, False)]),
    Row("renewal", "100,000 holds, renewed", "other", True,
        [ours("renewal", holds=scaled(100000, 2000), lease_ms=scaled(12000, 1200), seconds=scaled(8, 0.8)),
         hiredis("renewal", holds=scaled(100000, 2000), lease_ms=600000)],
        [("server_us", "us", "server's CPU each"), ("script_us", "us", "in scripts each"),
         ("longest_command_us", "us", "longest command"), ("idle_longest_command_us", "us", "idle"),
         ("probe_max_us", "us", "longest PING"), ("idle_probe_max_us", "us", "idle"),
         ("lock_p99_us", "us", "lock p99"), ("idle_lock_p99_us", "us", "idle")],
        [ratio("server_us", HIREDIS, 0.20, 0.07),
         Target("longest command, ms", lambda own, _: own["longest_command_us"] / 1000, None, 1.0, None, False),
         Target("lock p99, of idle", lambda own, _: own["lock_p99_us"] / own["idle_lock_p99_us"], None, 1.3, None,
                False)],
        3),
    Row("curve-held", "Names held and renewed, each of so many", "other", True,
        curve("renewed", "holds", MANY, lease_ms=(60000, 15000, 6000, 3000)),
        [("server_us", "us", "server's CPU, a renewal"), ("client_us", "us", "client's CPU, a renewal"),
         ("take_us", "us", "a take"), ("bytes", "B", "memory of the process")],
        slopes("server's CPU", "server_us", MANY) + slopes("client's CPU", "client_us", MANY) +
        slopes("memory", "bytes", MANY[:2]), 1),
    Row("curve-waiters", "Waiters of one lock in one process, each of so many", "other", True,
        curve("crowd", "owners", MANY[1:], seconds=(8, 8, 8)),
        [("join_us", "us", "until it waits"), ("pass_us", "us", "until the next one has had it"),
         ("bytes", "B", "memory of the process")],
        slopes("time until the next one has had it", "pass_us", MANY[1:]) + slopes("memory", "bytes", MANY[1:3]), 1),
    Row("curve-contended", "So many names, each wanted by two clients all the time, a change of owner", "other", True,
        curve("contended", "locks", CONTENDED),
        [("per_second", "/s", "changes of owner"), ("server_us", "us", "server's CPU"),
         ("client_us", "us", "client's CPU"), ("commands", "", "commands")],
        slopes("server's CPU", "server_us", CONTENDED) + slopes("client's CPU", "client_us", CONTENDED), 1),
    Row("bytes", "Memory of redlatch's own, bytes each", "same", False,
        [ours("bytes", holds=scaled(10000, 1000), owners=scaled(1000, 200))],
        [("handle", "B", "idle handle"), ("hold", "B", "held and renewed, more"), ("waiter", "B", "waiter"),
         ("client", "B", "a client")],
        [bound("idle handle", "handle", 256, 128), bound("held and renewed, more", "hold", 256, 128),
         bound("waiter", "waiter", 512, 256)], 1),
    Row("reconnect", "The server is back: 10,000 held and 1,000 waited for", "same", False,
        [ours("reconnect", holds=scaled(10000, 1000), owners=scaled(1000, 100))],
        [("subscribed_ms", "ms", "channels"), ("locked_ms", "ms", "a call that waited for it"),
         ("lost", "", "holds lost")],
        [bound("everything reconnected, ms", "all_ms", 100, 30), bound("holds lost", "lost", 0, 0)]),
    Row("reconnect-late", "The same after an outage of 2 s", "same", False,
        [ours("reconnect", holds=scaled(10000, 1000), owners=scaled(1000, 100), outage_ms=2000)],
        [("subscribed_ms", "ms", "channels"), ("locked_ms", "ms", "a call that waited for it"),
         ("lost", "", "holds lost")],
        [bound("everything reconnected, ms", "all_ms", 100, 30), bound("holds lost", "lost", 0, 0)]),
    Row("failover", "Behind sentinels the master is killed: from their word to a waiter's lock", "same", False,
        [ours("failover", rounds=scaled(5, 1))],
        [("locked_p50_us", "us", "p50"), ("locked_max_us", "us", "max"), ("named_p50_us", "us", "sentinels' word")],
        [Target("a waiter holds it, ms, max", lambda own, _: own["locked_max_us"] / 1000, None, 200, None, False)], 3),
    Row("failover-cluster", "In a cluster a master is killed: from its successor's first service to a waiter's lock",
        "same", False,
        [ours("failover", kind="redlatch-cluster", rounds=scaled(5, 1))],
        [("locked_p50_us", "us", "p50"), ("locked_max_us", "us", "max"), ("named_p50_us", "us", "cluster's own")],
        [Target("a waiter holds it, ms, max", lambda own, _: own["locked_max_us"] / 1000, None, 200, None, False)], 3),
]
