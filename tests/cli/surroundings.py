#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""surroundings - what stands where a server was expected, and a server that refuses: each command says what that means,
and what helps, and has its status."""

import http.server
import json
import os
import re
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

OWNER = "9f1c8a54-0000-4000-8000-0123456789ab:1"
LOOKS = [["ls"], ["show", "x"], ["wait", "-w", "0", "x"], ["unlock", "-y", "x"], ["top", "--once"]]
TAKES = [["run", "-n", *kind, "x", "--", "true"]
         for kind in ([], ["--type", "simple"], ["--type", "fair"], ["-s"], ["-x"], ["--permits", "2"])]
TAKES.append(["run", "-n", "x", "y", "--", "true"])
RAW = re.compile("[0-9a-f]{40}|user_script|redis.call|call\\('|ERR redlatch")


class Case(support.Case):
    def assert_each(self, commands, uri, status, *parts):
        for command in commands:
            with self.subTest(command=command):
                result = self.redlatch(*command, env={"REDLATCH_SERVER": uri})
                self.assert_says(result, status, *parts)
                self.assertIsNone(RAW.search(result.err), result)
                self.assertEqual(len(result.err.splitlines()), 1, result)


class Deployments(support.Case):
    """Each command that looks, at what sentinels name, and at a cluster of two masters."""

    NAMES = ["job:%d" % i for i in range(6)]  # at either master

    def look_at(self, uri):
        inherited = self.environment
        self.environment = lambda **more: inherited(**dict({"REDLATCH_SERVER": uri}, **more))
        for name in self.NAMES:
            self.hold(name, "--lease", "1h")
        said = self.redlatch("ls", "--json", "job:*")
        self.assertEqual(sorted(json.loads(line)["name"] for line in said.out.splitlines()), self.NAMES, said)
        round_ = json.loads(self.redlatch("top", "--once", "--json").out)
        self.assertEqual(sorted(lock["name"] for lock in round_["locks"]), self.NAMES)
        for name in self.NAMES:
            self.assertEqual(json.loads(self.redlatch("show", "--json", name).out)["holders"], 1)
            self.assert_says(self.redlatch("wait", "-w", "0", name), 1, "'%s' is not free" % name)
            waiting = self.start("wait", name)
            result = self.redlatch("unlock", "-y", name)
            self.assertEqual((result.code, result.err), (0, ""), result)
            self.assert_result(self.result(waiting), 0)
            self.assertEqual(json.loads(self.redlatch("show", "--json", name).out)["holders"], 0)
        self.assertEqual(self.redlatch("ls").out, "")
        self.assertLessEqual(self.redlatch("doctor").code, 1)

    def test_what_sentinels_name(self):
        sentinel = support.Sentinel(support.start_on_port(self).port, None)
        self.addCleanup(sentinel.stop)
        self.look_at(sentinel.uri)

    def test_a_cluster_of_two(self):
        self.look_at(support.start_cluster(self, 2)[1])


class OtherKinds(Case):
    def test_a_sentinel(self):
        port = support.start_on_port(self).port
        sentinel = support.Sentinel(port, None)
        self.addCleanup(sentinel.stop)
        self.assert_each(LOOKS + TAKES, "redis://127.0.0.1:%d" % sentinel.port, 70,
                         "this is a sentinel: the URI is sentinel://hosts/master")

    def test_a_replica(self):
        master = support.start_on_port(self)
        port = support.start_on_port(self, "--replicaof", "127.0.0.1", str(master.port)).port
        support.until(lambda: b"state=online" in master.redis("INFO", "replication"), "the replica is online")
        self.assert_each(LOOKS + TAKES, "redis://127.0.0.1:%d" % port, 70,
                         "this is a replica: locks are taken at its master, which redlatch doctor names")

    def test_a_node_of_a_cluster(self):
        port = support.start_on_port(self, "--cluster-enabled", "yes").port
        self.assert_each(LOOKS + TAKES, "redis://127.0.0.1:%d" % port, 70,
                         "this is a node of a cluster: the URI is cluster://hosts")

    def test_a_server_that_is_no_cluster_and_no_sentinel(self):
        port = support.start_on_port(self).port
        self.assert_each(LOOKS + TAKES[:1], "cluster://127.0.0.1:%d" % port, 70, "it is no node of a cluster")
        self.assert_each(LOOKS + TAKES[:1], "sentinel://127.0.0.1:%d/main" % port, 69, "127.0.0.1:%d" % port)

    def test_a_web_server(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.assert_each(LOOKS + TAKES, "redis://127.0.0.1:%d" % server.server_port, 69, "not a Redis server")

    def test_nobody(self):
        self.assert_each(LOOKS + TAKES, "unix:%s/nobody" % self.folder, 69, "No such file or directory")


class Web(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Refusals(Case):
    def test_a_server_without_memory_takes_no_locks_and_is_looked_at(self):
        self.server.redis("CONFIG", "SET", "maxmemory", 1)
        self.assert_each(TAKES, self.server.uri, 70, "the server has no memory left: raise its maxmemory (OOM ")
        self.assertEqual(self.redlatch("ls").code, 0)

    def test_a_server_that_misses_replicas(self):
        self.server.redis("CONFIG", "SET", "min-replicas-to-write", 1)
        self.assert_each(TAKES, self.server.uri, 70, "the server misses replicas, and refuses all writes: "
                         "see min-replicas-to-write (NOREPLICAS ")

    def test_a_server_that_cannot_save(self):
        os.mkdir(os.path.join(self.folder, "dump.rdb"))
        self.server.redis("CONFIG", "SET", "save", "3600 1000000")
        self.server.redis("BGSAVE")
        support.until(lambda: b"rdb_last_bgsave_status:err" in self.server.redis("INFO", "persistence"), "it failed")
        self.assert_each(TAKES, self.server.uri, 70, "the server cannot write to its disk, and refuses all writes")

    def test_a_master_that_becomes_a_replica(self):
        process = self.hold("x")
        self.server.redis("REPLICAOF", "127.0.0.1", 1)
        self.gate.send()
        result = self.result(process)
        self.assert_says(result, 0, "cannot release 'x'", "this is a replica, which takes no writes: locks are taken "
                         "at its master (READONLY ", "the server frees 'x' when its lease ends")
        self.assertIsNone(RAW.search(result.err), result)

    def test_rights_that_a_script_lacks(self):
        self.server.redis("SET", "y", "1")
        self.server.redis("HSET", "x", OWNER, "1")
        lacking = ["-hset", "-set", "-hget", "-get", "-type", "-hexists", "-decrby", "-hincrby"]
        self.server.redis("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", *lacking)
        uri = "unix://app:secret@" + self.server.path
        self.assert_each(TAKES, uri, 70, "the user lacks a right, which redlatch doctor names (")
        self.assert_each(LOOKS, uri, 70, "the user has not all the rights of docs/acl.md, Inspection (")

    def test_names_that_are_no_locks(self):
        self.server.redis("RPUSH", "x", "1")
        self.assert_each(TAKES, self.server.uri, 70, "the name is in use for something else (WRONGTYPE ")
        self.assert_each(LOOKS[1:4], self.server.uri, 64, "'x' is no lock: it is a list")

    def test_a_number_that_is_none_and_a_lock_of_another_type(self):
        self.server.redis("SET", "x", "text")
        self.assert_each([["run", "-n", "--permits", "2", "x", "--", "true"]], self.server.uri, 70,
                         "what is stored under the name is no count")
        self.server.redis("HSET", "rw", OWNER, "1")
        self.assert_each([["run", "-n", "-x", "rw", "--", "true"]], self.server.uri, 70,
                         "the name is held as a lock of another type")


if __name__ == "__main__":
    support.main(sys.argv[1:])
