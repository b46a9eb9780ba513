#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""doctor - what `redlatch doctor` finds, each at a real server that has the fault, and what it says of it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support

# One that forgets nothing: the notes that are left are about replicas.
WHOLE = ("--appendonly", "yes", "--appendfsync", "always")


class Doctor(support.Case):
    def one(self, *arguments, **options):
        """Another server, gone when the test is over."""
        server = support.Server(*arguments, **options)
        self.addCleanup(server.stop)
        return server

    def on_port(self, *arguments):
        return support.start_on_port(self, *arguments)

    def examine(self, uri, *options, status=None, **more):
        """The findings, by their ids; of several with one id the worst."""
        result = self.redlatch("doctor", "--json", *options, uri, **more)
        self.assertEqual(result.err, "", result)
        found = json.loads(result.out)
        statuses = {"ok": 0, "note": 0, "warning": 1, "critical": 2}
        self.assertEqual(result.code, statuses[found["worst"]] if status is None else status, result)
        severities = [list(statuses).index(finding["severity"]) for finding in found["findings"]]
        self.assertEqual(severities, sorted(severities, reverse=True), "the worst comes first")
        for finding in found["findings"]:
            self.assertEqual(list(finding), ["id", "severity", "server", "what", "why", "change"])
            if finding["severity"] != "ok":
                self.assertNotEqual(finding["why"], "", finding)
        return {finding["id"]: finding for finding in reversed(found["findings"])}

    def assert_found(self, found, name, severity, *parts):
        self.assertIn(name, found)
        self.assertEqual(found[name]["severity"], severity, found[name])
        text = "\n".join((found[name]["what"], found[name]["why"], found[name]["change"]))
        for part in parts:
            self.assertIn(part, text)
        return found[name]


class OneServer(Doctor):
    def test_a_server_that_is_safe_is_fine(self):
        server = self.one(*WHOLE)
        found = self.examine(server.uri, status=0)
        self.assert_found(found, "kind", "ok", "a master")
        self.assert_found(found, "eviction-policy", "ok")
        self.assert_found(found, "persistence", "ok")
        self.assert_found(found, "replicas", "note")
        self.assertEqual(found["kind"]["server"], server.uri)

    def test_nothing_is_left_behind(self):
        self.examine(self.server.uri)
        self.assertEqual(self.server.keys(), [])

    def test_an_eviction_policy_that_takes_locks_is_critical_and_mended_by_the_line_it_says(self):
        for policy in ("volatile-lru", "allkeys-random", "volatile-ttl"):
            server = self.one("--maxmemory", "64mb", "--maxmemory-policy", policy, *WHOLE)
            finding = self.assert_found(self.examine(server.uri, status=2), "eviction-policy", "critical", policy)
            server.redis(*finding["change"].splitlines()[0].split())
            self.assert_found(self.examine(server.uri, status=0), "eviction-policy", "ok")

    def test_an_eviction_policy_without_a_bound_on_memory_is_a_note(self):
        self.server.redis("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self.assert_found(self.examine(self.server.uri), "eviction-policy", "note", "allkeys-lru")

    def test_memory_that_is_nearly_used_up_is_a_warning(self):
        self.server.redis("SETRANGE", "filler", "8000000", "x")  # no connection's buffer is as large beside it
        self.server.redis("CONFIG", "SET", "maxmemory", "%d" % (self.used() * 1.05))
        finding = self.assert_found(self.examine(self.server.uri), "memory", "warning", "% of maxmemory")
        self.server.redis(*finding["change"].split())
        self.assert_found(self.examine(self.server.uri), "memory", "ok")

    def used(self):
        info = self.server.redis("INFO", "memory").decode()
        return int(info.split("used_memory:")[1].split()[0])

    def test_what_a_restart_forgets(self):
        redis = self.server.redis
        self.assert_found(self.examine(self.server.uri), "persistence", "warning", "every lock")
        redis("CONFIG", "SET", "save", "3600 1")
        self.assert_found(self.examine(self.server.uri), "persistence", "warning", "(save 3600 1)", "the last snapshot")
        redis("CONFIG", "SET", "appendonly", "yes")
        finding = self.assert_found(self.examine(self.server.uri), "persistence", "note", "everysec", "two seconds")
        redis(*finding["change"].splitlines()[0].split())
        self.assert_found(self.examine(self.server.uri), "persistence", "ok")

    def test_snapshots_that_fail_stop_writes(self):
        folder = os.path.join(self.folder, "rdb")
        os.mkdir(folder)
        server = self.one("--dir", folder)
        shutil.rmtree(folder)
        server.redis("BGSAVE")
        support.until(lambda: b"rdb_last_bgsave_status:err" in server.redis("INFO", "persistence"), "it failed")
        finding = self.assert_found(self.examine(server.uri), "writes", "critical", "MISCONF")
        server.redis(*finding["change"].split())
        self.assert_found(self.examine(server.uri), "writes", "warning")


class OtherKinds(Doctor):
    def test_nobody_listens(self):
        reserved, port = support.free_port()
        with reserved:
            found = self.examine("redis://127.0.0.1:%d" % port, status=2)
        self.assert_found(found, "unreachable", "critical", "refused")
        self.assertEqual(found["unreachable"]["server"], "127.0.0.1:%d" % port)

    def test_a_server_that_is_silent_is_given_up(self):
        with self.server.paused():
            self.assert_found(self.examine(self.server.uri, status=2), "unreachable", "critical", "in time")

    def test_a_server_that_goes_away_meanwhile_has_no_other_faults(self):
        server = self.server = self.one(*WHOLE)
        whole = {name: finding["severity"] for name, finding in self.examine(server.uri).items()}
        for most, last in (1, None), (25, None), (999, b"$9\r\nsubscribe"), (999, b"$7\r\nmessage"):  # to that answer
            answers = []

            def relay(chunk):
                answers.append(chunk)
                if len(answers) > most or (last is not None and any(last in answer for answer in answers)):
                    raise ConnectionResetError
                return chunk

            with self.subTest(answers=most, last=last):
                found = self.examine(self.relayed(relay), status=2)
                self.assert_found(found, "unreachable", "critical")
                del found["unreachable"]
                for name, finding in found.items():
                    self.assertEqual(finding["severity"], whole.get(name), finding)

    def test_a_wrong_password(self):
        server = self.one(password=support.PASSWORD)
        for uri in (server.uri, server.secret_uri.replace(support.PASSWORD, "w0rse-w0rd")):
            result = self.redlatch("doctor", "--json", uri)
            self.assertNotIn("w0rse-w0rd", result.out + result.err)
            self.assert_found(self.examine(uri, status=2), "login", "critical")
        self.assertNotIn("login", self.examine(server.secret_uri))

    def test_a_web_server(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                peer.recv(65536)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.assert_found(self.examine("redis://127.0.0.1:%d" % listener.getsockname()[1], status=2), "unreachable",
                          "critical", "web server")
        thread.join()

    def test_a_replica_names_its_master(self):
        master = self.on_port(*WHOLE)
        replica = self.one("--replicaof", "127.0.0.1", str(master.port))
        support.until(lambda: b"state=online" in master.redis("INFO", "replication"), "the replica is online")
        found = self.examine(replica.uri, status=2)
        finding = self.assert_found(found, "kind", "critical", "replica of 127.0.0.1:%d" % master.port)
        found = self.examine(finding["change"], status=0)
        self.assert_found(found, "kind", "ok", "a master")
        self.assert_found(found, "replicas", "ok", "1 replica,")
        self.assert_found(found, "min-replicas", "note")

    def test_a_master_that_misses_replicas_refuses_writes(self):
        self.server.redis("CONFIG", "SET", "min-replicas-to-write", 1)
        self.assert_found(self.examine(self.server.uri), "min-replicas", "critical", "NOREPLICAS")

    def test_a_sentinel_spoken_to_as_a_server_and_the_reverse(self):
        master = self.on_port(*WHOLE)
        sentinel = support.Sentinel(master.port, None)
        self.addCleanup(sentinel.stop)
        for scheme in "redis", "cluster":
            finding = self.assert_found(self.examine("%s://127.0.0.1:%d" % (scheme, sentinel.port), status=2), "kind",
                                        "critical", "this is a sentinel")
            self.assertEqual(finding["change"], sentinel.uri)
        found = self.examine(finding["change"])
        self.assert_found(found, "kind", "ok", "a master")
        self.assertEqual(found["kind"]["server"], "127.0.0.1:%d" % master.port)
        found = self.examine(sentinel.uri.replace("/main", "/other"), status=2)
        self.assert_found(found, "kind", "critical", "no master of that name")
        found = self.examine("sentinel://127.0.0.1:%d/main" % master.port, status=2)
        self.assert_found(found, "kind", "critical", "no sentinel")

    def test_a_cluster_spoken_to_as_a_server_and_the_reverse(self):
        node = self.on_port("--cluster-enabled", "yes", *WHOLE)
        node.redis("CLUSTER", "ADDSLOTSRANGE", 0, 16383) if self.has_ranges(node) else self.add_slots(node)
        support.until(lambda: b"cluster_state:ok" in node.redis("CLUSTER", "INFO"), "the cluster is up")
        finding = self.assert_found(self.examine("redis://127.0.0.1:%d" % node.port, status=2), "kind", "critical",
                                    "a node of a cluster")
        self.assertEqual(finding["change"], "cluster://127.0.0.1:%d" % node.port)
        self.assert_found(self.examine(finding["change"]), "kind", "ok", "a cluster's master")
        plain = self.on_port(*WHOLE)
        finding = self.assert_found(self.examine("cluster://127.0.0.1:%d" % plain.port, status=2), "kind", "critical",
                                    "a server of its own")
        self.assertEqual(finding["change"], "redis://127.0.0.1:%d" % plain.port)

    @staticmethod
    def has_ranges(node):
        return b"redis_version:6" not in node.redis("INFO", "server")

    @staticmethod
    def add_slots(node):
        node.redis("CLUSTER", "ADDSLOTS", *range(16384))


class TheIncident(Doctor):
    """docs/operations.md: what it shows of a terminal is what happens."""

    def test_the_lines_of_the_document(self):
        with open(os.path.join(support.TOP, "docs", "operations.md")) as f:
            section = f.read().split("\n## A server with the wrong policy")[1].split("\n## ")[0]
        server = self.one("--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru", *WHOLE)
        steps = [step for block in re.findall(r"^```console\n(.*?)^```$", section, re.S | re.M)
                 for step in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block, re.M)]
        self.assertGreaterEqual(len(steps), 3)
        for line, shown in steps:
            line = line.replace("redis://db1", server.uri).replace("redis-cli -h db1", "redis-cli -s " + server.path)
            done = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=support.BOUND_S,
                                  env=dict(os.environ, PATH="%s:%s" % (os.path.dirname(support.REDLATCH),
                                                                       os.environ["PATH"])))
            said = " ".join(done.stdout.replace(server.uri, "db1:6379").split())
            begins = " ".join(shown.split("\n...\n")[0].split())
            self.assertEqual(said[:len(begins)] if "\n...\n" in shown else said, begins, line)


class TheCommand(Doctor):
    def test_people_read_paragraphs_the_worst_first(self):
        server = self.one("--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru")
        result = self.redlatch("doctor", server.uri)
        self.assertEqual((result.code, result.err), (2, ""), result)
        lines = result.out.splitlines()
        self.assertTrue(lines[0].startswith("critical  eviction-policy at %s: " % server.uri), result.out)
        self.assertIn("            CONFIG SET maxmemory-policy noeviction", lines)
        for line in lines:
            self.assertLessEqual(len(line), 100, line)

    def test_the_server_is_that_of_the_environment_or_a_file(self):
        self.assertEqual(self.redlatch("doctor").code, 1)
        path = os.path.join(self.folder, "address")
        with open(path, "w") as f:
            f.write(self.one(*WHOLE).uri + "\n")
        self.assertEqual(self.redlatch("doctor", "@" + path).code, 0)
        self.assertEqual(self.redlatch("doctor", "--server", "@" + path).code, 0)

    def test_tls(self):
        server = support.TlsServer("--tls-auth-clients", "no", *WHOLE)
        self.addCleanup(server.stop)
        self.assert_found(self.examine(server.tls_uri, "--cacert", server.cert), "kind", "ok")
        self.assert_found(self.examine(server.tls_uri), "unreachable", "critical", "certificate")

    def test_misuse_says_so(self):
        self.assert_says(self.redlatch("doctor", "nonsense"), 64, "the address in URI is wrong: ")
        self.assert_says(self.redlatch("doctor", "redis://a", "redis://b"), 64, "one URI is wanted")
        self.assert_says(self.redlatch("doctor", "--nonsense"), 64, "unknown option")
        self.assert_says(self.redlatch("doctor", "--insecure", self.server.uri), 64, "TLS")

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            self.assert_says(self.redlatch("doctor", stdout=full), 70, "No space left on device")


if __name__ == "__main__":
    support.main(sys.argv[1:])
