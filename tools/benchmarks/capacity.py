#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""capacity - what locks and waiters take of a server and of a process, counted and not timed.

    tools/benchmarks/capacity.py            prints the tables of docs/capacity.md
    tools/benchmarks/capacity.py --check    compares them with the page; exit status 1 where they differ by more than
                                            a twentieth (numbers in requests grow digits), the server's bytes by a fifth

On a server of its own, through the library's C interface. Names have 16 bytes, leases are renewed (RDL_LEASE_AUTO).
"""

import ctypes
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY = os.path.join(TOP, "build", "release", "lib", "libredlatch.so")
PAGE = os.path.join(TOP, "docs", "capacity.md")
TYPES = ["reentrant", "nonreentrant", "simple", "spin", "fenced", "fair", "read", "write"]
PAIRS, HOLDS, WAITERS, THREADS = 1000, 4096, 1000, 32
WAITS = [("reentrant", 1, "behind others of its process"), ("reentrant", WAITERS, "alone for its lock"),
         ("fair", 1, "in a fair lock's queue"), ("fair", WAITERS, "alone in a fair lock's queue")]
SERVERS = "bytes of the server"
OTHERS = 2, 1, 6  # connections, threads, descriptors of the client that holds what is waited for
AUTO = -2 ** 63
BOUND_S = 60
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
done = DONE(lambda *_: None)

library = ctypes.CDLL(LIBRARY)
library.rdl_client_close.restype = library.rdl_lock_free.restype = ctypes.c_void_p


def call(name, *arguments):
    """A function of the library's, with room for an error."""
    err = ctypes.create_string_buffer(1024)
    rc = getattr(library, name)(*arguments, err)
    if rc < 0:
        sys.exit("capacity: %s: %s" % (name, err.raw[4:324].split(b"\0")[0].decode()))
    return rc


def made(name, *arguments):
    """What a constructor makes."""
    handle = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(handle))
    return handle


def lock_of(client, kind, name):
    return made("rdl_%s_lock" % kind, client, name.encode(), None)


def take(lock):
    call("rdl_try_lock", lock, ctypes.c_int64(0), ctypes.c_int64(AUTO))


def pair(lock):
    take(lock)
    call("rdl_unlock", lock)


def here():
    """This process's threads and descriptors."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def until(condition):
    end = time.monotonic() + BOUND_S
    while not condition():
        if time.monotonic() > end:
            sys.exit("capacity: what is waited for does not come")
        time.sleep(0.02)


class Server:
    """A redis-server on a unix socket, and a connection to it whose own requests are not counted."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "s")
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--save", "", "--unixsocket", self.path,
                                         "--dir", folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        for line in self.process.stdout:
            if b"eady to accept" in line:
                break
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self.path)
        self.input = self.socket.makefile("rb")
        self.own = [0, 0, 0]  # commands, bytes sent, bytes received
        self.requests = ["evalsha", "subscribe"]

    def ask(self, *words):
        words = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.own[0] += 1
        self.own[1] += len(request)
        self.socket.sendall(request)
        return self.read()

    def read(self):
        line = self.input.readline()
        self.own[2] += len(line)
        if line[:1] == b"$":
            bulk = self.input.read(int(line[1:]) + 2)
            self.own[2] += len(bulk)
            return bulk[:-2].decode()
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        return int(line[1:]) if line[:1] == b":" else line[1:-2].decode()

    def total(self):
        """Commands, those of scripts included, requests, bytes sent and received; of all others since the start."""
        received = self.own[2]
        said = self.ask("INFO", "everything")

        def number(name):
            found = re.search(r"^%s(\d+)" % name, said, re.M)
            return int(found[1]) if found else 0

        commands = number("total_commands_processed:") - self.own[0] + 1
        sent = number("total_net_input_bytes:") - self.own[1]
        return [sum(number("cmdstat_%s:calls=" % name) for name in self.requests), commands, sent,
                number("total_net_output_bytes:") - received]

    def counted(self, begin, times, least=1):
        """What `begin` leads to: those, each divided by `times`. At least so many commands a time come of it, and then
        no more."""
        before = self.total()
        begin()
        quiet, last = 0, before

        def over():
            nonlocal quiet, last
            now = self.total()
            quiet = quiet + 1 if now == last and now[1] - before[1] >= least * times else 0
            last = now
            return quiet == 12

        until(over)
        return [(b - a) / times for a, b in zip(before, last)]

    def memory_of_keys(self):
        return sum(self.ask("MEMORY", "USAGE", key, "SAMPLES", 0) for key in self.ask("KEYS", "*")
                   if not key.startswith("redlatch_client"))

    def memory(self):
        return int(re.search(r"^used_memory:(\d+)", self.ask("INFO", "memory"), re.M)[1])

    def connections(self):
        return int(re.search(r"^connected_clients:(\d+)", self.ask("INFO", "clients"), re.M)[1]) - 1


# ---- the tables ------------------------------------------------------------------------------------------------------

def of_pairs(server, client):
    """Of each type: requests, commands, bytes sent and received for a pair; bytes of the server for a hold."""
    rows = []
    for kind in TYPES:
        lock = lock_of(client, kind, "n" * 16)
        server.requests = ["evalsha", "set"] if kind == "simple" else ["evalsha"]
        pair(lock)
        counted = server.counted(lambda: [pair(lock) for _ in range(PAIRS)], PAIRS)
        take(lock)
        rows.append([kind] + counted + [server.memory_of_keys()])
        call("rdl_unlock", lock)
        library.rdl_lock_free(lock)
        server.ask("FLUSHALL")
    return rows


def of_renewal(server, client):
    """The same for a renewal, which comes ten seconds after the locks were taken."""
    locks = [lock_of(client, "reentrant", "%016d" % i) for i in range(HOLDS)]
    memory = server.memory()
    for lock in locks:
        take(lock)
    memory = (server.memory() - memory) / HOLDS
    server.requests = ["evalsha"]
    counted = server.counted(lambda: None, HOLDS, least=3)
    for lock in locks:
        call("rdl_unlock", lock)
        library.rdl_lock_free(lock)
    return counted, memory


def of_file(server, client):
    """What a pair of a reentrant lock adds to the server's append-only file."""
    lock = lock_of(client, "reentrant", "n" * 16)
    server.ask("CONFIG", "SET", "appendonly", "yes")

    def size():
        folder = os.path.join(os.path.dirname(server.path), "appendonlydir")
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if ".incr." in name)

    until(lambda: "aof_rewrite_in_progress:0" in server.ask("INFO", "persistence"))
    before = size()
    for _ in range(PAIRS):
        pair(lock)
    server.ask("PING")  # what was written before is in the file
    server.ask("CONFIG", "SET", "appendonly", "no")
    library.rdl_lock_free(lock)
    return (size() - before) / PAIRS


def of_waiters(server, client, kind, names):
    """The same for a call that comes to wait, and what the server needs for it; each with an owner of its own."""
    other = made("rdl_client_open", ("unix:" + server.path).encode(), None)
    held = [lock_of(other, kind, "%016d" % i) for i in range(names)]
    for lock in held:
        take(lock)
    locks = [lock_of(client, kind, "%016d" % (i % names)) for i in range(WAITERS)]
    owners = [made("rdl_owner_new", client) for _ in range(WAITERS)]
    memory = server.memory()

    def wait(first, last):
        for lock, owner in zip(locks[first:last], owners[first:last]):
            call("rdl_lock_async", lock, owner, ctypes.c_int64(AUTO), done, None, None)

    server.counted(lambda: wait(0, 1), 1)
    counted = server.counted(lambda: wait(1, WAITERS), WAITERS - 1, least=0)
    memory = max(0, server.memory() - memory) / WAITERS
    threads, descriptors = here()
    present = server.connections() - OTHERS[0], (threads - OTHERS[1], descriptors - OTHERS[2])
    server.counted(lambda: [library.rdl_owner_cancel(owner) for owner in owners], 1, least=0)
    for owner in owners:
        library.rdl_owner_free(owner)
    for lock in locks:
        library.rdl_lock_free(lock)
    library.rdl_client_close(other)
    server.ask("FLUSHALL")
    return counted + [memory], present


def of_client(server):
    """Connections, threads and descriptors of a client: as it is opened, after a pair, while many threads lock, and
    while many calls wait. What this program had before does not count."""
    threads, descriptors = here()
    rows = []

    def note(what, connections, present):
        rows.append([what, connections, present[0] - threads, present[1] - descriptors])

    client = made("rdl_client_open", ("unix:" + server.path).encode(), None)
    note("opened", server.connections(), here())
    lock = lock_of(client, "reentrant", "warm")
    pair(lock)
    note("a pair later", server.connections(), here())
    take(lock)
    until(lambda: server.ask("PUBSUB", "CHANNELS", "redlatch_lost:*"))
    note("a lock held for a second", server.connections(), here())
    call("rdl_unlock", lock)
    locks = [lock_of(client, "reentrant", "own%d" % i) for i in range(THREADS)]
    gate = threading.Barrier(THREADS + 1)

    def work(lock):
        for _ in range(50):
            pair(lock)
        gate.wait()
        gate.wait()

    own = [threading.Thread(target=work, args=[lock]) for lock in locks]
    for thread in own:
        thread.start()
    gate.wait()
    present = here()
    note("%d threads have locked" % THREADS, server.connections(), (present[0] - THREADS, present[1]))
    gate.wait()
    for thread in own:
        thread.join()
    return client, rows, note


def table(head, rows):
    return "\n".join(["| %s |" % " | ".join(head), "|%s" % ("---|" * len(head))]
                     + ["| %s |" % " | ".join(cell if isinstance(cell, str) else spoken(cell) for cell in row)
                        for row in rows])


def spoken(number):
    return "{:,.0f}".format(number) if number >= 1 else "%.2g" % number if number > 0.004 else "0"


def counted_tables():
    """What stands in the page between its marks."""
    with tempfile.TemporaryDirectory(prefix="redlatch-capacity-") as folder:
        server = Server(folder)
        try:
            client, states, note = of_client(server)
            waits = []
            for kind, names, what in WAITS:
                counted, (connections, present) = of_waiters(server, client, kind, names)
                waits.append([what] + counted)
            note("%s calls wait for as many locks" % spoken(WAITERS), connections, present)
            pairs = of_pairs(server, client)
            renewal, hold = of_renewal(server, client)
            pairs.append(["a renewal"] + renewal + [""])
            whole = [["memory for a hold, all told", hold], ["of its file for a pair", of_file(server, client)]]
        finally:
            server.process.kill()
            server.process.wait()
    costs = ["requests", "commands", "bytes sent", "bytes received", SERVERS]
    return "\n\n".join([table(["a pair of"] + costs, pairs), table(["who comes to wait"] + costs, waits),
                        table(["the server's", SERVERS], whole),
                        table(["a client", "connections", "threads", "descriptors"], states)]) + "\n"


def numbers(text):
    """Of a table's cells: (the row, the column, the number)."""
    head = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line:
            head = []
        elif not head:
            head = cells
        else:
            for column, cell in list(zip(head, cells))[1:]:
                if re.fullmatch(r"[\d.,]+(e-\d+)?", cell):
                    yield cells[0], column, float(cell.replace(",", ""))


def check(made, stands):
    """How many numbers are as they stand, and what is not."""
    made, stands, wrong = list(numbers(made)), list(numbers(stands)), []
    if [one[:2] for one in made] != [one[:2] for one in stands]:
        wrong.append("docs/capacity.md has other rows or columns than tools/benchmarks/capacity.py prints")
    for (row, column, a), (_, _, b) in zip(made, stands):
        if abs(a - b) > (max(64, b / 5) if column == SERVERS else max(1, b / 20)):
            wrong.append("%s, %s: %g, and not %g as docs/capacity.md says" % (row, column, a, b))
    return len(stands) - len(wrong), wrong


def main(words):
    tables = counted_tables()
    if words != ["--check"]:
        print(tables, end="")
        return 0
    with open(PAGE) as f:
        between = re.search(r"^<!-- counted: .*? -->\n\n(.*)\n<!-- end of what is counted -->$", f.read(), re.S | re.M)
    passed, wrong = check(tables, between[1] if between else "")
    print("\n".join(wrong + ["%d passed, %d failed" % (passed, len(wrong))]))
    return 1 if wrong or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
