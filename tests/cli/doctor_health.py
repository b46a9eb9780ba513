#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""doctor_health - what `redlatch doctor` finds by trying: rights, scripts, messages, round trips, clocks, failover."""

import os
import re
import socket
import struct
import sys
import threading
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from doctor import Doctor, WHOLE

PRELOAD = os.path.join(support.BUILD, "tests", "support", "clockstep.so")


class Rights(Doctor):
    """Against docs/acl.md: live/test_acl runs what it says."""

    def setUp(self):
        super().setUp()
        with open(os.path.join(support.TOP, "docs", "acl.md")) as f:
            parts = re.split(r"^## (.*)\n", f.read(), flags=re.M)[1:]
        self.sections = {title.replace("`", "").lower():
                         " ".join(re.findall(r"^ACL SETUSER app (.*)", text, re.M)).split()
                         for title, text in zip(parts[::2], parts[1::2])}
        self.every = self.sections.pop("every program")
        del self.sections["behind sentinel"], self.sections["in a cluster"]

    def uri_of(self, *rights):
        self.server.redis("ACL", "SETUSER", "app", *self.every, *rights)
        return "unix://app:secret@" + self.server.path

    def lacking(self, uri, *options, status=1):
        """What is said to be missing, by feature: {name: {right, ...}}."""
        result = self.redlatch("doctor", *options, uri)
        self.assertEqual((result.code, result.err), (status, ""), result)
        text = re.sub(r"\n {10}(?! )", " ", result.out)
        return {name: set(rights.split()) for name, rights in
                re.findall(r"the user app lacks rights for (.*?):((?: [+~&]\S+)+)", text)}

    def test_all_rights_of_the_document_are_enough(self):
        uri = self.uri_of(*sum(self.sections.values(), []))
        self.assert_found(self.examine(uri, "--name", "orders:42"), "rights", "ok", "the user app has all rights")
        self.assert_found(self.examine(uri, "--name", "orders:42"), "messages", "ok")
        self.assertEqual(self.server.keys(), [])

    def test_of_each_type_what_is_missing_is_what_the_document_says(self):
        # Whether keys are allowed is seen by commands that are.
        uri = self.uri_of("+exists", "+publish")
        lacking = self.lacking(uri, "--name", "orders:42", status=2)
        for title, rights in self.sections.items():
            if title in ("inspection", "description"):  # are for tools
                continue
            said = {right.replace("orders:*", "orders:42") for right in rights} - {"+exists", "+publish"}
            self.assertEqual(lacking.pop(title), said, title)

    def test_the_line_that_it_says_is_enough(self):
        uri = self.uri_of("+exists", "+publish")
        found = [line.split("ACL SETUSER app ")[1].split() for line in
                 self.redlatch("doctor", "--name", "orders:42", uri).out.splitlines() if "~redisson_lock_token" in line
                 and "ACL SETUSER" in line]
        self.server.redis("ACL", "SETUSER", "app", *found[0])
        self.assertNotIn("fenced lock", self.lacking(uri, "--name", "orders:42"))

    def test_without_scripts_nothing_works(self):
        self.every = [right for right in self.every if right not in ("+eval", "+evalsha")]
        uri = self.uri_of(*sum(self.sections.values(), []))
        self.assert_found(self.examine(uri, status=2), "rights", "critical", "+evalsha +eval", "No lock works")

    def test_who_may_not_subscribe_cannot_wait(self):
        uri = self.uri_of(*sum(self.sections.values(), []), "-subscribe")
        self.assert_found(self.examine(uri, "--name", "orders:42", status=2), "messages", "critical", "+subscribe")

    def test_who_may_not_ask_for_settings_is_told(self):
        uri = self.uri_of(*sum(self.sections.values(), []))
        self.assert_found(self.examine(uri), "config", "note", "ACL SETUSER app +config|get")
        uri = self.uri_of(*sum(self.sections.values(), []), "-info")
        self.assert_found(self.examine(uri), "kind", "warning", "INFO is refused", "+info")


class Answers(Doctor):
    def test_a_user_whose_name_is_no_text_is_told_as_one(self):
        self.server.redis("ACL", "SETUSER", b"f\xfcr", "on", ">pw", "~*", "&*", "+@all", "-config")
        found = self.examine("unix://f%%FCr:pw@%s" % self.server.path)
        self.assert_found(found, "config", "note", "ACL SETUSER f?r +config|get")

    def test_what_a_proxy_swallows(self):
        server = self.one("--rename-command", "EVAL", "", *WHOLE)
        found = self.examine(server.uri, status=2)
        self.assert_found(found, "scripts", "critical", "unknown command")
        self.assert_found(found, "commands", "critical", "+eval")
        server = self.one("--rename-command", "CLIENT", "", *WHOLE)
        self.assert_found(self.examine(server.uri, status=0), "commands", "note", "+client|kill")
        server = self.one("--rename-command", "SUBSCRIBE", "", *WHOLE)
        self.assert_found(self.examine(server.uri, status=2), "messages", "critical", "SUBSCRIBE is refused")

    def test_a_script_that_hangs(self):
        self.server.redis("CONFIG", "SET", "lua-time-limit", 10)
        hangs = support.Redis(self.server.path)
        self.addCleanup(hangs.close)
        hangs.socket.sendall(b"EVAL 'while true do end' 0\r\n")

        def busy():
            try:
                return self.server.redis("PING") == "never"
            except support.Reply as reply:
                return str(reply).startswith("BUSY")

        support.until(busy, "the server is busy")
        finding = self.assert_found(self.examine(self.server.uri, status=2), "scripts", "critical")
        self.server.redis(*finding["change"].split())
        self.assertRaises(support.Reply, hangs.read)
        self.assert_found(self.examine(self.server.uri), "scripts", "ok")

    def test_a_script_that_may_run_for_ever(self):
        self.server.redis("CONFIG", "SET", "lua-time-limit", 0)
        self.assert_found(self.examine(self.server.uri), "scripts", "note", "for ever")

    def test_messages_that_a_proxy_swallows(self):
        uri = self.relayed(lambda chunk: b"" if b"$7\r\nmessage\r\n" in chunk else chunk)
        self.assert_found(self.examine(uri, status=2), "messages", "critical", "did not arrive")
        self.assert_found(self.examine(self.relayed(lambda chunk: chunk)), "messages", "ok")

    def test_round_trips_that_are_too_long_for_the_lease(self):
        gate = threading.Event()
        uri = self.relayed(lambda chunk: (gate.wait(0.04), chunk)[1])
        self.assert_found(self.examine(uri, "--lease", "60ms", status=2), "round-trip", "critical", "60 ms")
        self.assert_found(self.examine(uri, "--lease", "1"), "round-trip", "warning")
        self.assert_found(self.examine(uri, "--lease", "1h"), "round-trip", "ok")


class Clocks(Doctor):
    def setUp(self):
        super().setUp()
        self.offset = os.path.join(self.folder, "offset")
        self.set_off(0)
        self.preload = {"LD_PRELOAD": PRELOAD, "CLOCKSTEP_FILE": self.offset,
                        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        with unittest.mock.patch.dict(os.environ, self.preload):
            self.off = self.one(*WHOLE)

    def set_off(self, seconds):
        with open(self.offset, "r+b" if os.path.exists(self.offset) else "wb") as f:
            f.write(struct.pack("q", int(seconds * 1000000)))

    def stepping(self):
        """While the clock steps by a second, again and again."""
        done = threading.Event()

        def step():
            seconds = 0
            while not done.wait(0.02):
                self.set_off(seconds := seconds + 1)

        thread = threading.Thread(target=step, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(done.set)

    def test_clocks_that_agree(self):
        found = self.examine(self.off.uri, status=0)
        self.assert_found(found, "clock", "ok")
        self.assert_found(found, "clock-step", "ok")

    def test_a_server_that_is_off(self):
        for seconds, where in (100, "before"), (-100, "behind"):
            self.set_off(seconds)
            self.assert_found(self.examine(self.off.uri, status=1), "clock", "warning", where)

    def test_a_server_whose_clock_steps(self):
        self.stepping()
        self.assert_found(self.examine(self.off.uri, status=2), "clock-step", "critical", "the server's clock stepped")

    def test_this_host_s_clock_steps(self):
        self.stepping()
        server = self.one(*WHOLE)
        self.assert_found(self.examine(server.uri, status=1, env=self.preload), "clock-step", "warning", "this host's")


class Leftovers(Doctor):
    FIELD = "0e4f1a52-6a4b-4b8f-9c3e-0123456789ab:1"

    def test_a_lock_without_a_lease(self):
        server = self.one(*WHOLE)
        server.redis("HSET", "orders:1", self.FIELD, 1)
        self.assert_found(self.examine(server.uri, status=1), "leases", "warning", "1 lock is held", "orders:1")
        server.redis("PEXPIRE", "orders:1", 600000)
        self.assert_found(self.examine(server.uri, status=0), "leases", "ok", "1 locks in 1 keys")
        self.assertEqual(server.keys(), [b"orders:1"])

    def test_no_more_than_the_first_keys_are_gone_through(self):
        for first in range(0, 40000, 1000):
            self.server.redis("MSET", *sum((["key%d" % i, "x"] for i in range(first, first + 1000)), []))
        self.assert_found(self.examine(self.server.uri), "leases", "ok", "among the first keys")


class Remains(Doctor):
    OWNER = Leftovers.FIELD
    QUEUE, SCORES = "redisson_lock_queue:{orders:1}", "redisson_lock_timeout:{orders:1}"

    def now(self, server):
        return int(server.redis("TIME")[0]) * 1000

    def test_a_queue_whose_waiters_are_dead(self):
        server = self.one(*WHOLE)
        server.redis("RPUSH", self.QUEUE, self.OWNER)
        server.redis("ZADD", self.SCORES, self.now(server) + 100000, self.OWNER)
        self.assert_found(self.examine(server.uri, status=0), "queues", "ok")
        server.redis("ZADD", self.SCORES, self.now(server) - 100000, self.OWNER)
        finding = self.assert_found(self.examine(server.uri, status=0), "queues", "note", "all waiters are dead",
                                    self.SCORES)
        server.redis(*finding["change"].split())
        self.assert_found(self.examine(server.uri, status=0), "queues", "ok")
        self.assertEqual(server.keys(), [])

    def test_a_queue_without_times_blocks_for_ever(self):
        server = self.one(*WHOLE)
        server.redis("RPUSH", self.QUEUE, self.OWNER)
        finding = self.assert_found(self.examine(server.uri, status=1), "queues", "warning",
                                    "1 queue of fair locks has", self.QUEUE)
        server.redis(*finding["change"].split())
        self.assert_found(self.examine(server.uri, status=0), "queues", "ok")

    def test_a_queue_that_lives_is_none_of_its_business(self):
        server = self.one(*WHOLE)
        env = {"REDLATCH_SERVER": server.uri}
        self.hold("orders:1", "--type", "fair", env=env)
        self.start("run", "--type", "fair", "orders:1", "--", "true", env=env)
        support.until(lambda: server.exists(self.QUEUE), "somebody waits")
        found = self.examine(server.uri, status=0)
        self.assert_found(found, "queues", "ok")
        self.assert_found(found, "remains", "ok")

    def test_keys_beside_locks_that_stay_for_ever(self):
        server = self.one(*WHOLE)
        for key in ("redlatch_guard:{pool}:" + self.OWNER, "redlatch_client:{%s}" % self.OWNER[:-2],
                    "redlatch_lock_waiters:{a}", "redlatch_semaphore_queue:{a}", "redlatch_semaphore_signs:{a}",
                    "redlatch_rwlock_writers:{a}", "{a}:%s:rwlock_timeout:1" % self.OWNER):
            server.redis("SET", key, 1)
            finding = self.assert_found(self.examine(server.uri, status=0), "remains", "note", "1 key beside locks has",
                                        key)
            server.redis(*finding["change"].split())
            self.assert_found(self.examine(server.uri, status=0), "remains", "ok")
        server.redis("SET", "redisson_lock_token:{a}", 1)  # which is to stay
        self.assert_found(self.examine(server.uri, status=0), "remains", "ok")


class Names(Doctor):
    def test_names_that_a_cluster_takes_apart(self):
        nodes, uri = support.start_cluster(self, 2, *WHOLE)
        together = ("--name", "{orders}:1", "--name", "{orders}:2")
        self.assert_found(self.examine(uri, *together), "names", "ok", "in one slot")
        apart = ("--name", "orders:1", "--name", "orders:2")
        self.assert_found(self.examine(uri, *apart), "names", "note", "orders:1 and orders:2 lie in different slots")
        self.assert_found(self.examine(uri, "--name", "a{b", status=2), "names", "critical", "a{b would lie in several")
        self.assert_found(self.examine(uri, "--name", "orders:1"), "names", "ok")
        self.assertNotIn("names", self.examine(uri))
        for name in ("orders:%d" % i for i in range(20)):
            for node in nodes:
                try:
                    node.redis("HSET", name, Leftovers.FIELD, 1)
                    node.redis("PEXPIRE", name, 600000)
                except support.Reply as moved:
                    self.assertIn("MOVED", str(moved))
        self.assert_found(self.examine(uri), "names", "note", "20 locks have names without a hash tag", "2 masters")

    def test_one_server_has_no_slots(self):
        self.assertNotIn("names", self.examine(self.server.uri, "--name", "a{b", "--name", "c"))


class Failover(Doctor):
    def sentinels(self):
        """A master, a replica, and the only sentinel."""
        master = self.on_port(*WHOLE)
        self.one("--replicaof", "127.0.0.1", str(master.port))
        support.until(lambda: b"state=online" in master.redis("INFO", "replication"), "the replica is online")
        sentinel = support.Sentinel(master.port, None)
        self.addCleanup(sentinel.stop)
        return sentinel

    def test_what_sentinels_are_set_to(self):
        sentinel = self.sentinels()
        self.assert_found(self.examine(sentinel.uri), "failover", "warning")
        said = self.redlatch("doctor", sentinel.uri).out
        self.assertIn("1 sentinel in all", said)
        self.assertIn("down-after-milliseconds is 30000 ms, and a lease 30000 ms", said)
        sentinel.redis("SENTINEL", "SET", "main", "down-after-milliseconds", 5000)
        self.assertIn("down-after-milliseconds is 5000 ms", self.redlatch("doctor", sentinel.uri).out)
        sentinel.redis("SENTINEL", "SET", "main", "quorum", 2)
        self.assert_found(self.examine(sentinel.uri, status=2), "failover", "critical", "the quorum is 2, of 1")

    def test_sentinels_that_name_different_masters(self):
        sentinel, other = self.sentinels(), self.sentinels()
        self.assert_found(self.examine("sentinel://127.0.0.1:%d,127.0.0.1:%d/main" % (sentinel.port, other.port)),
                          "failover", "critical", "different sentinels")

    def test_a_cluster_of_one_and_its_timeout(self):
        node = self.on_port("--cluster-enabled", "yes", *WHOLE)
        uri = "cluster://127.0.0.1:%d" % node.port
        self.assert_found(self.examine(uri, status=2), "failover", "critical", "cluster_state is fail")
        for first in range(0, 16384, 1024):
            node.redis("CLUSTER", "ADDSLOTS", *range(first, first + 1024))
        support.until(lambda: b"cluster_state:ok" in node.redis("CLUSTER", "INFO"), "the cluster is up")
        found = self.examine(uri, status=1)
        self.assert_found(found, "failover", "warning", "1 master:")
        self.assert_found(found, "messages", "ok")
        self.assert_found(found, "rights", "ok")
        node.redis("CONFIG", "SET", "cluster-node-timeout", 40000)
        self.assertIn("cluster-node-timeout is 40000 ms, and a lease 30000 ms", self.redlatch("doctor", uri).out)

    def test_a_replica_that_is_behind(self):
        master = self.on_port(*WHOLE)
        replica = self.one("--replicaof", "127.0.0.1", str(master.port))
        support.until(lambda: b"state=online" in master.redis("INFO", "replication"), "the replica is online")
        with replica.paused():
            master.redis("SET", "filler", "x" * (1 << 21))
            self.assert_found(self.examine(master.uri, status=1), "replicas", "warning", "bytes behind")


if __name__ == "__main__":
    support.main(sys.argv[1:])
