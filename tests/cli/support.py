# SPDX-License-Identifier: MIT
"""support - what the tests of the command share: a server of their own, the command as a process, and events to wait
for.

Nothing here sleeps in the hope that something has happened by then: a command under test reports through a pipe
(Channel), the server's state is asked for until it is as expected or a bound is over (until), and every wait fails with
what it was waiting for. BOUND_S is generous, because the machine may be busy; no test passes or fails by how fast it
is.
"""

import contextlib
import ctypes
import glob
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("REDLATCH_TEST_BUILD", os.path.join(TOP, "build", "release"))
REDLATCH = os.path.join(BUILD, "bin", "redlatch")
BOUND_S = 30
with open(os.path.join(TOP, "include/redlatch/lock.h")) as registry:
    TYPES = re.findall(r"\bX\((\w+), rdl_\w+_lock\b", registry.read().split("RDL_LOCK_ENDS")[0])
PASSWORD = "s3cret-w0rd"

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """For preexec_fn: nothing that a test starts outlives it."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def until(condition, what, bound=BOUND_S):
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + bound
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (bound, what))
        time.sleep(0.002)


class Pace:
    """How long something takes, without the time in which this machine stood still or was busy with others: what a
    thread that sleeps again and again for a moment has slept."""

    MOMENT_S = 0.01

    def __enter__(self):
        self.seconds = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.count)
        self.thread.start()
        return self

    def count(self):
        while not self.over.wait(self.MOMENT_S):
            self.seconds += self.MOMENT_S

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


# ---- the server ------------------------------------------------------------------------------------------------------

class Reply(Exception):
    """An error reply."""


class Redis:
    """A connection, speaking just enough of the protocol."""

    def __init__(self, path, password=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(BOUND_S)
        self.socket.connect(path)
        self.input = self.socket.makefile("rb")
        if password:
            self("AUTH", password)

    def close(self):
        self.input.close()
        self.socket.close()

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.socket.sendall(b"".join(parts))
        return self.read()

    def read(self):
        line = self.input.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise Reply(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.input.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        raise ConnectionError("the server closed the connection")


class Server:
    """A redis-server in a directory of its own, on a unix socket. `password` and further arguments are optional."""

    READY = b"eady to accept connections"

    def __init__(self, *arguments, password=None):
        self.folder = tempfile.mkdtemp(prefix="redlatch-cli-")
        self.path = os.path.join(self.folder, "s")
        self.password = password
        self.arguments = arguments + (("--requirepass", password) if password else ())
        self.start()

    def kind(self):
        """Its first arguments."""
        return ["--port", "0", "--save", ""]

    def start(self):
        binary = os.environ.get("REDLATCH_TEST_SERVER", "redis-server")
        self.process = subprocess.Popen(
            [binary, *self.kind(), "--unixsocket", self.path, "--dir", self.folder, *self.arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        for line in self.process.stdout:
            if self.READY in line:
                break
        else:
            raise RuntimeError("%s does not start" % binary)
        self.redis = Redis(self.path, self.password)

    def kill(self):
        self.redis.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        if self.process.returncode is None:
            self.kill()
        shutil.rmtree(self.folder)

    @property
    def uri(self):
        return "unix:" + self.path

    @property
    def secret_uri(self):
        return "unix://:%s@%s" % (self.password, self.path)

    @contextlib.contextmanager
    def paused(self):
        """Accepts connections (the kernel does) and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def exists(self, name):
        return self.redis("EXISTS", name) == 1

    def waiters(self, name):
        """How many clients wait for a message about the lock, whatever its type: on a channel of their own, of whom one
        may hear the lock's for all, or behind a hold that is not ours each does; or on the lock's."""
        def heard(pattern):
            channels = self.redis("PUBSUB", "CHANNELS", pattern)
            return sum(self.redis("PUBSUB", "NUMSUB", *channels)[1::2])

        own, shared = heard("*{%s}:{*}" % name), heard("*{%s}" % name)
        if own and any(re.search(rb":\d{1,15}$", field) for field in self.redis("HKEYS", name)):
            return max(own, shared)
        ear = self.redis("HEXISTS", "redisson_lock__channel:{%s}" % name, "ear")
        return max(own, own + shared - ear)

    def holders(self, name):
        """The lock's hash, without the marks that somebody waits."""
        said = self.redis("HGETALL", name)
        return {field: count for field, count in zip(said[::2], said[1::2]) if not field.endswith(b":wanted")}

    def described(self):
        """How many of those who hold or wait have said who they are."""
        return len(self.redis("KEYS", "redlatch_client:*"))

    def keys(self):
        """All but the descriptions of those who hold or wait."""
        return [key for key in self.redis("KEYS", "*") if not key.startswith(b"redlatch_client:")]


def free_port(port=0):
    """Reserved for whoever says SO_REUSEADDR, as servers do, until the socket is closed: (socket, port)."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind(("127.0.0.1", port))
    except OSError:
        reserved.close()
        raise
    return reserved, reserved.getsockname()[1]


def start_on_port(case, *arguments):
    """A server that listens on a free port, `port`, too, and is gone when the test is over. The port on which it would
    hear other nodes of a cluster is free as well."""
    while True:
        reserved, port = free_port()
        case.addCleanup(reserved.close)
        with contextlib.suppress(OSError, OverflowError):
            case.addCleanup(free_port(port + 10000)[0].close)
            break
    server = Server("--port", str(port), "--bind", "127.0.0.1", *arguments)
    case.addCleanup(server.stop)
    server.port = port
    return server


def start_cluster(case, masters, *arguments):
    """Nodes with all slots spread over them, and the URI."""
    nodes = [start_on_port(case, "--cluster-enabled", "yes", *arguments) for _ in range(masters)]
    share = 16384 // masters
    for i, node in enumerate(nodes):
        for first in range(i * share, (i + 1) * share, 1024):
            node.redis("CLUSTER", "ADDSLOTS", *range(first, first + 1024))
        node.redis("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        nodes[0].redis("CLUSTER", "MEET", "127.0.0.1", node.port)
    for node in nodes:
        until(lambda: b"cluster_state:ok" in node.redis("CLUSTER", "INFO"), "the cluster is up")
    return nodes, "cluster://127.0.0.1:%d" % nodes[0].port


class Sentinel(Server):
    """One that calls a server with `port` its master, "main", and wants a password of its own."""

    READY = b"+monitor master"

    def __init__(self, port, password):
        self.reserved, self.port = free_port()
        self.master = port
        super().__init__(password=password)

    def kind(self):
        config = os.path.join(self.folder, "conf")  # which it writes as well
        with open(config, "w") as f:
            f.write("sentinel monitor main 127.0.0.1 %d 1\n" % self.master)
        return [config, "--sentinel", "--port", str(self.port), "--bind", "127.0.0.1"]

    def stop(self):
        super().stop()
        self.reserved.close()

    @property
    def uri(self):
        return "sentinel://127.0.0.1:%d/main" % self.port


class TlsServer(Server):
    """One that listens with TLS on a free port, too, and shows a certificate for localhost: `cert`, signed with
    `key`."""

    def __init__(self, *arguments):
        self.reserved, self.port = free_port()
        self.keys = tempfile.mkdtemp(prefix="redlatch-cli-")
        self.cert, self.key = os.path.join(self.keys, "crt"), os.path.join(self.keys, "key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2",
                        "-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost", "-keyout", self.key, "-out",
                        self.cert],
                       check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        super().__init__("--tls-port", str(self.port), "--tls-cert-file", self.cert, "--tls-key-file", self.key,
                         "--tls-ca-cert-file", self.cert, *arguments)

    def stop(self):
        super().stop()
        self.reserved.close()
        shutil.rmtree(self.keys)

    @property
    def tls_uri(self):
        return "rediss://localhost:%d" % self.port


# ---- processes and events --------------------------------------------------------------------------------------------

class Channel:
    """A named pipe into which commands under test write words, one a line; or from which they read one and so are held
    up."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.rest = b""

    def close(self):
        os.close(self.fd)

    def next(self, bound=BOUND_S):
        """The next line."""
        end = time.monotonic() + bound
        while b"\n" not in self.rest:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("nobody wrote into %s within %g s" % (os.path.basename(self.path), bound))
            self.rest += os.read(self.fd, 65536)
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="surrogateescape")

    def expect(self, word):
        line = self.next()
        if line != word:
            raise AssertionError("%r instead of %r" % (line, word))

    def is_silent(self):
        return not self.rest and not select.select([self.fd], [], [], 0)[0]

    def send(self, word="go"):
        os.write(self.fd, word.encode() + b"\n")


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return "exit status %d, stdout %r, stderr %r" % (self.code, self.out, self.err)


class Case(unittest.TestCase):
    """A test with a server, two channels and a folder, all gone afterwards. `run_lock` runs the command to its end,
    `start` only starts it."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.folder = self.server.folder
        self.events = Channel(self.folder, "events")
        self.gate = Channel(self.folder, "gate")
        self.addCleanup(self.events.close)
        self.addCleanup(self.gate.close)

    def environment(self, **more):
        env = dict(os.environ, REDLATCH_SERVER=self.server.uri, EVENTS=self.events.path, GATE=self.gate.path)
        env.update(more)
        return {key: value for key, value in env.items() if value is not None}

    def start(self, *arguments, env=None, prefix=(), **options):
        """Start `redlatch` with these arguments; `env` adds to the environment, None in it removes."""
        options = dict(dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE), **options)
        process = subprocess.Popen([*prefix, REDLATCH, *arguments], env=self.environment(**(env or {})), **options)
        self.addCleanup(self.end, process)
        return process

    def relayed(self, relay):
        """A URI for the server by a relay: `relay(chunk)` is what becomes of what the server says."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def pump(source, target, change):
            with source, target:
                while chunk := source.recv(65536):
                    target.sendall(change(chunk))

        def accept():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.server.path)
                for ends in (client, server, lambda chunk: chunk), (server, client, relay):
                    threading.Thread(target=quietly, args=(pump, *ends), daemon=True).start()

        def quietly(work, *arguments):
            try:
                work(*arguments)
            except OSError:
                pass  # either end has gone

        threading.Thread(target=accept, daemon=True).start()
        return "redis://127.0.0.1:%d" % listener.getsockname()[1]

    def end(self, process):
        if process.returncode is None:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def result(self, process, input=None, bound=BOUND_S):
        """Its end. What went elsewhere than into a pipe is empty."""
        out, err = [(text or b"").decode(errors="surrogateescape") for text in process.communicate(input, bound)]
        return Result(process.returncode, out, err)

    def redlatch(self, *arguments, input=None, **options):
        if input is not None:
            options["stdin"] = subprocess.PIPE
        return self.result(self.start(*arguments, **options), input)

    def run_lock(self, *arguments, **options):
        return self.redlatch("run", *arguments, **options)

    def hold(self, name, *options, command='echo held >"$EVENTS"; read _ <"$GATE"', **more):
        """Start a command under the lock and wait until it runs; it ends when the gate is opened."""
        process = self.start("run", *options, name, "--", "sh", "-c", command, **more)
        self.events.expect("held")
        return process

    def wait_for_waiters(self, name, count=1):
        until(lambda: self.server.waiters(name) == count, "%d processes wait for %s" % (count, name))

    def assert_result(self, result, code, out="", err=""):
        """`err` None: whatever."""
        self.assertEqual((result.code, result.out), (code, out), result)
        if err is not None:
            self.assertEqual(result.err, err, result)

    def assert_says(self, result, code, *parts):
        """The exit status, and parts of what it says on stderr, every line of which begins with its name."""
        self.assertEqual(result.code, code, result)
        for part in parts:
            self.assertIn(part, result.err)
        for line in result.err.splitlines():
            self.assertTrue(line.startswith("redlatch: "), result)

    def assert_free(self, name):
        """Free at once: without waiting for a lease."""
        self.assertFalse(self.server.exists(name), "%r is still locked" % name)


class EveryKind(Case):
    """All that may be waited for, on one server, and a red lock on that and two more."""

    LEASE = "1900ms"  # longer than a busy machine stands still; a red lock's servers must be older
    HOLD = 'echo held >"$EVENTS"; read _ <"$GATE"'
    TYPES = TYPES
    KINDS = {kind: (("--type", kind), (kind,)) for kind in TYPES}
    KINDS["reader"] = (("-s",), ("rw1",))
    KINDS["writer"] = (("-x",), ("rw2",))
    KINDS["permits"] = (("--permits", "1"), ("permits",))
    KINDS["several"] = ((), ("several1", "several2"))

    def setUp(self):
        super().setUp()
        self.servers = [self.server]
        self.kinds = dict(self.KINDS)
        self.servers += [Server() for _ in range(2)]
        self.kinds["red"] = (("--redlock", ",".join(server.uri for server in self.servers)), ("red",))
        for server in self.servers[1:]:
            self.addCleanup(server.stop)

    def wait_for_age(self):
        for server in self.servers:
            until(lambda: re.search(rb"uptime_in_seconds:[0-2]\r", server.redis("INFO", "server")) is None,
                          "the server is three seconds old: the last of them may not be whole")

    def begin(self, kind, *options, command=("echo", "mine")):
        own, names = self.kinds[kind]
        return self.start("run", *own, "--lease", self.LEASE, *options, *names, "--", *command)

    def hold_each(self):
        """For long, so that who waits sleeps: it has no reason to ask the server for seconds."""
        for kind, (own, names) in self.kinds.items():
            if kind == "reader":
                own = ("-x",)
            self.start("run", *own, "--lease", self.LEASE if kind == "red" else "60", *names, "--", "sh", "-c",
                       self.HOLD)
            self.events.expect("held")

    def is_waited_for(self, kind, count):
        """By so many; those of a spin lock cannot be seen, and each behind a fair one has a channel of its own."""
        name = self.kinds[kind][1][0]
        own = self.server.redis("PUBSUB", "CHANNELS", "*{%s}:*" % name)
        return kind == "spin" or (len(own) if kind == "fair" else self.server.waiters(name)) >= count

    def wait_behind_each(self, *options, count=1):
        """Start one for each, the count-th, and wait until they wait."""
        waiters = {kind: self.begin(kind, *options) for kind in self.kinds}
        for kind in waiters:
            until(lambda: self.is_waited_for(kind, count), "%d wait for %s" % (count, kind))
        return waiters

    def stop_servers(self):
        """A majority."""
        for server in self.servers[:2]:
            server.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, server.process.pid, os.WSTOPPED | os.WNOWAIT)
            self.addCleanup(server.process.send_signal, signal.SIGCONT)

    def continue_servers(self):
        for server in self.servers[:2]:
            server.process.send_signal(signal.SIGCONT)

    def kill_servers(self):
        for server in self.servers[:2]:
            server.kill()

    def assert_all(self, processes, code, out="", says=None, bound=BOUND_S):
        for kind, process in processes.items():
            with self.subTest(kind=kind):
                result = self.result(process, bound=bound)
                self.assertEqual((result.code, result.out), (code, out), result)
                if says is not None:
                    self.assertIn(says, result.err)


def thread_states(pid):
    """What each thread of a process does, as in /proc: "S" waits, "R" runs or would."""
    states = []
    for path in glob.glob("/proc/%d/task/*/stat" % pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path) as f:
            states.append(f.read().rpartition(")")[2].split()[0])
    return states


def process_is_gone(pid):
    """Ended, whether or not its parent has looked."""
    return set(thread_states(pid)) <= set("ZX")


def wait_until_gone(pid):
    until(lambda: process_is_gone(pid), "process %d ends" % pid)


# ---- a test program --------------------------------------------------------------------------------------------------

def main(words=()):
    """Run every test of the calling module, or those whose names contain one of the words; the last line is the
    count."""
    loader = unittest.TestLoader()
    loader.testNamePatterns = ["*%s*" % word for word in words] or None
    suite = loader.loadTestsFromModule(sys.modules["__main__"])
    outcome = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len({getattr(test, "test_case", test).id() for test, _ in outcome.failures + outcome.errors})
    for test, why in outcome.skipped:
        print("skipped: %s: %s" % (test, why))
    print("%d passed, %d failed" % (outcome.testsRun - failed - len(outcome.skipped), failed))
    sys.exit(1 if failed else 0)
