#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""server_cpu - what locks and waiters take of a server's core, by the server's own account.

    tools/benchmarks/server_cpu.py            prints the table of docs/capacity.md
    tools/benchmarks/server_cpu.py --check    with a few rounds: whether the page's table has the same rows

In commands is what INFO commandstats has as usec of what clients send: a script's is that of all it calls. Of the core
is used_cpu_user and used_cpu_sys, with what the kernel does for its sockets, which is most of it where one caller at a
time asks, because the server sleeps in between. On a server of its own, through the library's C interface, as in
capacity.py.
"""

import ctypes
import os
import re
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capacity import AUTO, BOUND_S, DONE, PAGE, TYPES, Server, call, done, library, lock_of, made, pair, take

PAIRS, HOLDS, WAITERS, ASLEEP_S = 20000, 4096, 1000, 12
QUICK = 50, 64, 20, 1
SENT = {"simple": ["evalsha", "set"]}  # what clients send for a row; scripts call some of these as well
WAITED = ["evalsha", "subscribe", "ssubscribe", "unsubscribe", "sunsubscribe"]


class Meter:
    """What the server has done since the last look: microseconds in commands, and of the core."""

    def __init__(self, server, sent):
        self.server, self.sent = server, sent
        self.last = self.now()

    def now(self):
        said = self.server.ask("INFO", "everything")

        def number(pattern):
            return sum(float(found) for found in re.findall(pattern, said, re.M))

        return (sum(number(r"^cmdstat_%s:calls=\d+,usec=(\d+)" % re.escape(name)) for name in self.sent),
                number(r"^used_cpu_(?:user|sys):([\d.]+)") * 1e6)

    def taken(self, times):
        now = self.now()
        return [(b - a) / times for a, b in zip(self.last, now)]


def of_pair(server, client, kind, pairs):
    lock = lock_of(client, kind, "n" * 16)
    for _ in range(pairs // 10):  # the server has its scripts, and memory for them
        pair(lock)
    meter = Meter(server, SENT.get(kind, ["evalsha"]))
    for _ in range(pairs):
        pair(lock)
    taken = meter.taken(pairs)
    library.rdl_lock_free(lock)
    return taken


def renewals(server):
    """How many times a script was called: nobody else calls any while renewals are waited for."""
    found = re.search(r"^cmdstat_pexpire:calls=(\d+)", server.ask("INFO", "commandstats"), re.M)
    return int(found[1]) if found else 0


def of_renewal(server, client, holds):
    locks = [lock_of(client, "reentrant", "%016d" % i) for i in range(holds)]
    for lock in locks:
        take(lock)
    before, meter = renewals(server), Meter(server, ["evalsha"])
    end = time.monotonic() + BOUND_S
    while renewals(server) - before < holds:
        if time.monotonic() > end:
            sys.exit("server_cpu: the renewals do not come")
        time.sleep(0.25)
    taken = meter.taken(holds)
    for lock in locks:
        call("rdl_unlock", lock)
        library.rdl_lock_free(lock)
    return taken


class Line:
    """Calls that wait for one lock which another client holds, and each of which, when it has it, gives it on."""

    def __init__(self, server, client, kind, count):
        self.server, self.kind, self.left, self.over = server, kind, count, threading.Event()
        self.other = made("rdl_client_open", ("unix:" + server.path).encode(), None)
        self.held = lock_of(self.other, kind, "n" * 16)
        take(self.held)
        self.lock = lock_of(client, kind, "n" * 16)
        self.owners = [made("rdl_owner_new", client) for _ in range(count)]
        self.callbacks = [DONE(lambda lock, result, err, arg, owner=owner: self.has_it(owner, result))
                          for owner in self.owners]
        self.given_on = DONE(lambda *_: self.is_gone())

    def has_it(self, owner, result):
        if result < 0:
            os._exit(1)
        call("rdl_unlock_async", self.lock, owner, self.given_on, None, None)

    def is_gone(self):
        self.left -= 1
        if self.left == 0:
            self.over.set()

    def wait(self):
        for owner, callback in zip(self.owners, self.callbacks):
            call("rdl_lock_async", self.lock, owner, ctypes.c_int64(AUTO), callback, None, None)

    def go(self):
        call("rdl_unlock", self.held)
        if not self.over.wait(BOUND_S):
            sys.exit("server_cpu: somebody still waits")

    def end(self):
        for owner in self.owners:
            library.rdl_owner_free(owner)
        library.rdl_lock_free(self.lock)
        library.rdl_lock_free(self.held)
        library.rdl_client_close(self.other)


def settled(server):
    """Until the server has nothing to do: two looks at what it was asked are the same, but for the looks."""
    last = None
    while True:
        now = server.total()[1]
        if now == last:
            return
        last = now
        time.sleep(0.1)


def of_line(server, client, kind, count, asleep_s):
    """Of each who waits: to come to wait, a second's sleep beyond what the server does when nobody is there, and to get
    the lock and give it on."""
    meter = Meter(server, WAITED)
    time.sleep(asleep_s)
    idle = meter.taken(count * asleep_s)
    line = Line(server, client, kind, count)
    meter = Meter(server, WAITED)
    line.wait()
    settled(server)
    comes = meter.taken(count)
    meter = Meter(server, WAITED)
    time.sleep(asleep_s)
    sleeps = [max(0, a - b) for a, b in zip(meter.taken(count * asleep_s), idle)]
    meter = Meter(server, WAITED)
    line.go()
    gets = meter.taken(count)
    line.end()
    return comes, sleeps, gets


def rows(server, pairs, holds, waiters, asleep_s):
    client = made("rdl_client_open", ("unix:" + server.path).encode(), None)
    made_rows = [["a pair of a %s lock, one caller" % kind] + of_pair(server, client, kind, pairs) for kind in TYPES]
    made_rows.append(["a renewal"] + of_renewal(server, client, holds))
    for kind in "reentrant", "fair":
        comes, sleeps, gets = of_line(server, client, kind, waiters, asleep_s)
        made_rows.append(["a waiter of a %s lock, beside others of its process, comes" % kind] + comes)
        made_rows.append(["the same asleep, a second"] + sleeps)
        made_rows.append(["the same gets the lock and gives it on"] + gets)
    library.rdl_client_close(client)
    return made_rows


def table(made_rows):
    def spoken(number):
        return "%.1f" % number if number >= 0.05 else "0"

    return "\n".join(["| server CPU | us in commands | us of the core |", "|---|---|---|"]
                     + ["| %s | %s | %s |" % (row[0], spoken(row[1]), spoken(row[2])) for row in made_rows]) + "\n"


def main(words):
    quick = words == ["--check"]
    with tempfile.TemporaryDirectory(prefix="redlatch-cpu-") as folder:
        server = Server(folder)
        try:
            text = table(rows(server, *(QUICK if quick else (PAIRS, HOLDS, WAITERS, ASLEEP_S))))
        finally:
            server.process.kill()
            server.process.wait()
    if not quick:
        print(text, end="")
        return 0
    with open(PAGE) as f:
        between = re.search(r"^<!-- timed: .*? -->\n\n(.*)\n<!-- end of what is timed -->$", f.read(), re.S | re.M)
    same = between is not None and [line.split("|")[1] for line in between[1].splitlines()] == \
        [line.split("|")[1] for line in text.splitlines()]
    print("%d passed, %d failed" % (same, not same))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
