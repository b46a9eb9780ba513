#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""exporter - `redlatch exporter`: what it serves, from real servers, and that no scrape hangs."""

import concurrent.futures
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from support import until

UUID = "9f1c8a54-0000-4000-8000-0123456789ab"
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')


def samples_of(text):
    """{metric: {its labels as a sorted tuple of pairs: value}}, the values of labels as they stand."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        metric, labels, value = SAMPLE.fullmatch(line).groups()
        key = tuple(sorted(LABEL.findall(labels or "")))
        assert key not in found.setdefault(metric, {}), line
        found[metric][key] = float(value)
    return found


class Exporter:
    def __init__(self, process):
        self.process = process
        self.url = process.stdout.readline().decode().rstrip("\n")
        if not self.url:
            raise AssertionError(process.stderr.read())
        self.address = urllib.parse.urlsplit(self.url)

    def request(self, path="/metrics", method="GET", body=None):
        """The response, read, with its text."""
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=support.BOUND_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            response.text = response.read().decode()
            return response
        finally:
            connection.close()

    def scrape(self):
        response = self.request()
        assert response.status == 200, response.status
        return samples_of(response.text)

    def is_up(self):
        (value,) = self.scrape()["redlatch_up"].values()
        return value == 1


class Case(support.Case):
    def export(self, *arguments, **more):
        return Exporter(self.start("exporter", "--listen", ":0", "--interval", "0", "--doctor-interval", "0",
                                   *arguments, **more))

    def foreign(self, name, n=1):
        """A lock as a Redisson process holds it."""
        self.server.redis("HSET", name, "%s:%d" % (UUID, n), 1)
        self.server.redis("PEXPIRE", name, 600000)

    def scanned(self):
        """How many steps the scans since the last look took."""
        found = re.search(rb"cmdstat_scan:calls=(\d+)", self.server.redis("INFO", "commandstats"))
        self.server.redis("CONFIG", "RESETSTAT")
        return int(found.group(1)) if found else 0


class Metrics(Case):
    def test_who_holds_and_waits_is_served_by_lock_and_counted_by_kind(self):
        holder = self.hold("job:1")
        waiter = self.start("run", "job:1", "--", "true")
        self.wait_for_waiters("job:1")
        self.foreign("job:2")
        found = self.export().scrape()
        one, two = (("lock", "job:1"), ("type", "lock")), (("lock", "job:2"), ("type", "lock"))
        self.assertEqual(found["redlatch_up"], {(("server", self.server.uri),): 1})
        self.assertEqual(found["redlatch_locks"], {(("state", "held"), ("type", "lock")): 2})
        self.assertEqual(found["redlatch_lock_holders"], {one: 1, two: 1})
        self.assertEqual(found["redlatch_lock_waiters"], {one: 1, two: 0})
        self.assertLess(0, found["redlatch_lock_ttl_seconds"][one])
        self.assertLess(500, found["redlatch_lock_ttl_seconds"][two])
        self.assertEqual(found["redlatch_lock_left_out"], {(): 0})
        self.assertLessEqual(2, found["redlatch_scan_keys"][()])
        self.gate.send()
        self.assertEqual((self.result(holder).code, self.result(waiter).code), (0, 0))

    def test_a_lock_is_held_for_as_long_as_its_owner_is_seen_with_it(self):
        exporter = self.export()
        self.foreign("job:1")

        def held():
            return exporter.scrape()["redlatch_lock_held_seconds"][("lock", "job:1"), ("type", "lock")]

        self.assertEqual(held(), 0)
        until(lambda: held() >= 0.2, "time passes")
        self.server.redis("DEL", "job:1")
        self.foreign("job:1", 2)
        self.assertEqual(held(), 0)

    def test_a_hold_that_says_since_when_needs_no_second_look(self):
        self.server.redis("HSET", "job:1", UUID + ":1", 1)
        now = int(self.server.redis("TIME")[0])
        self.server.redis("SET", "redisson_lock_token:{job:1}", (now - 5000) * 1000000)
        found = self.export().scrape()["redlatch_lock_held_seconds"]
        self.assertLess(4000, found[("lock", "job:1"), ("type", "fenced")])

    def test_more_locks_than_are_wanted_are_only_counted(self):
        for i in range(5):
            self.foreign("job:%d" % i)
        self.foreign("x" * 257)
        found = self.export("--max-locks", "2").scrape()
        self.assertEqual(len(found["redlatch_lock_holders"]), 2)
        self.assertEqual(found["redlatch_lock_left_out"], {(): 4})
        self.assertEqual(found["redlatch_locks"], {(("state", "held"), ("type", "lock")): 6})
        found = self.export().scrape()
        self.assertEqual((len(found["redlatch_lock_holders"]), found["redlatch_lock_left_out"]), (5, {(): 1}))

    def test_a_pattern_says_which(self):
        for name in "job:1", "cron:1":
            self.foreign(name)
        found = self.export("job:*").scrape()
        self.assertEqual(list(found["redlatch_lock_holders"]), [(("lock", "job:1"), ("type", "lock"))])

    def test_names_of_any_bytes_become_labels(self):
        names = {b'say "hi"\\n': 'say \\"hi\\"\\\\x5cn', "schlüssel".encode(): "schlüssel", b"a\nb": "a\\\\x0ab",
                 b"\xff\xc0\x80": "\\\\xff\\\\xc0\\\\x80", b"\xed\xa0\x80": "\\\\xed\\\\xa0\\\\x80",
                 b"\x1b[31m": "\\\\x1b[31m"}
        for name in names:
            self.server.redis("HSET", name, UUID + ":1", 1)
        response = self.export().request()
        self.assertEqual({dict(key)["lock"] for key in samples_of(response.text)["redlatch_lock_holders"]},
                         set(names.values()))
        if shutil.which("promtool"):
            subprocess.run(["promtool", "check", "metrics"], input=response.text, text=True, check=True)

    def test_what_doctor_finds_is_served_and_renewed(self):
        self.server.redis("CONFIG", "SET", "maxmemory", 10 ** 9)
        exporter = self.export("--doctor-interval", "1")

        def eviction():
            found = exporter.scrape().get("redlatch_doctor_finding", {})
            return [dict(key)["severity"] for key in found if dict(key)["id"] == "eviction-policy"]

        until(lambda: eviction() == ["ok"], "doctor has looked")
        self.server.redis("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        until(lambda: eviction() == ["critical"], "doctor has looked again")
        found = exporter.scrape()
        self.assertLessEqual(1, found["redlatch_doctor_findings"][("severity", "critical"),])
        self.assertIn((("id", "eviction-policy"), ("server", self.server.uri), ("severity", "critical")),
                      found["redlatch_doctor_finding"])

    def test_every_metric_is_documented(self):
        self.foreign("job:1")
        exporter = self.export("--doctor-interval", "60")
        until(lambda: "redlatch_doctor_finding" in exporter.scrape(), "doctor has looked")
        with open(os.path.join(support.TOP, "docs", "monitoring.md")) as f:
            page = f.read()
        told = set(re.findall(r"^\| `(redlatch_\w+)", page.split("## What the exporter serves")[1], re.M))
        self.assertEqual(told, set(exporter.scrape()))


class Web(Case):
    def test_the_pages_are_three_and_everything_else_is_refused(self):
        exporter = self.export()
        front = exporter.request("/")
        self.assertEqual(front.status, 200)
        self.assertIn("/metrics", front.text)
        self.assertEqual(exporter.request("/-/healthy").status, 200)
        metrics = exporter.request("/metrics?x=y")
        self.assertEqual(metrics.status, 200)
        self.assertEqual(metrics.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertEqual(exporter.request(method="HEAD").text, "")
        for path in "/nothing", "/metrics/", "/../metrics":
            self.assertEqual(exporter.request(path).status, 404, path)
        for method in "POST", "PUT", "DELETE", "OPTIONS":
            refused = exporter.request("/metrics", method, "body" if method != "DELETE" else None)
            self.assertEqual((refused.status, refused.headers["Allow"]), (405, "GET, HEAD"), method)

    def test_nonsense_on_the_line_harms_nobody(self):
        exporter = self.export()
        for bytes in b"\x16\x03\x01\x02\x00", b"GET /metrics\r\n\r\n", b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n":
            with socket.create_connection((exporter.address.hostname, exporter.address.port)) as line:
                line.sendall(bytes)
        self.assertTrue(exporter.is_up())

    def test_clients_that_take_their_time_keep_nobody_out(self):
        exporter = self.export()
        lines, over = [], threading.Event()

        def dribble():
            while not over.wait(0.5):
                for line in lines:
                    try:
                        line.send(b"x")
                    except OSError:
                        pass  # cut off

        with contextlib.ExitStack() as stack:
            for _ in range(300):
                lines.append(socket.create_connection((exporter.address.hostname, exporter.address.port)))
                stack.callback(lines[-1].close)
                lines[-1].sendall(b"GET /metrics HTTP/1.1\r\nx: ")
            dribbler = threading.Thread(target=dribble)
            dribbler.start()
            stack.callback(dribbler.join)
            stack.callback(over.set)
            for _ in range(3):
                self.assertTrue(exporter.is_up())

    def test_it_listens_on_this_host_alone_unless_told_otherwise(self):
        exporter = self.export()
        self.assertRegex(exporter.url, r"^http://127\.0\.0\.1:[1-9]\d*/metrics$")
        self.assertTrue(exporter.is_up())
        self.assertRegex(self.export("--listen", "0.0.0.0:0").url, r"^http://0\.0\.0\.0:[1-9]\d*/metrics$")
        if os.path.exists("/proc/net/if_inet6") and os.path.getsize("/proc/net/if_inet6"):
            self.assertRegex(self.export("--listen", "[::1]:0").url, r"^http://\[::1\]:[1-9]\d*/metrics$")

    def test_a_place_where_it_cannot_listen_is_an_error(self):
        port = self.export().address.port
        self.assert_says(self.redlatch("exporter", "--listen", ":%d" % port), 70,
                         "cannot listen on 127.0.0.1 port %d: Address already in use" % port)
        for wrong in "10379", "::1:80", "localhost:", ":65536", ":-1", ":x", "[::1]80":
            self.assert_says(self.redlatch("exporter", "--listen", wrong), 64, "'%s' is not [HOST]:PORT" % wrong)

    def test_wrong_command_lines_are_told(self):
        for arguments, says in ((["a", "b"], "one PATTERN is wanted, and there are two"),
                                (["--max-locks", "x"], "is not a number from 0 to 100000"),
                                (["--doctor-interval", "10ms"], "is too short, the least is 1.0 s"),
                                (["--timeout", "1ms"], "is too short, the least is 100 ms"),
                                (["--server", "nonsense"], "invalid URI"), (["--nonsense"], "unknown option")):
            self.assert_says(self.redlatch("exporter", *arguments), 64, says)
        with open("/dev/full", "w") as full:
            self.assert_says(self.redlatch("exporter", "--listen", ":0", stdout=full), 70, "No space left on device")

    def test_passwords_are_shown_nowhere(self):
        server = support.Server(password=support.PASSWORD)
        self.addCleanup(server.stop)
        exporter = self.export("--server", server.secret_uri, "--doctor-interval", "60")
        until(lambda: "redlatch_doctor_finding" in exporter.scrape(), "doctor has looked")
        self.assertTrue(exporter.is_up())
        self.assertNotIn(support.PASSWORD, exporter.request().text)
        with open("/proc/%d/cmdline" % exporter.process.pid) as f:
            self.assertNotIn(support.PASSWORD, f.read())

    def test_nobody_else_loads_what_it_serves_with(self):
        holder = self.hold("job:1")
        for pid, loads in (holder.pid, False), (self.export().process.pid, True):
            with open("/proc/%d/maps" % pid) as f:
                self.assertEqual("libmicrohttpd" in f.read(), loads)
        self.gate.send()
        self.assertEqual(self.result(holder).code, 0)

    def test_a_program_that_is_not_there_is_told(self):
        alone = os.path.join(self.folder, "redlatch")
        shutil.copy(support.REDLATCH, alone)
        done = subprocess.run([alone, "exporter"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 127)
        self.assertIn("libexec/redlatch/redlatch-exporter': No such file or directory", done.stderr)


class Away(Case):
    def test_a_server_that_is_gone_is_down_and_up_when_it_is_back(self):
        self.foreign("job:1")
        exporter = self.export()
        self.assertTrue(exporter.is_up())
        self.server.kill()
        found = exporter.scrape()
        self.assertEqual(list(found["redlatch_up"].values()), [0])
        self.assertEqual([name for name in found if name.startswith(("redlatch_lock", "redlatch_scan"))], [])
        self.server.start()
        self.assertTrue(exporter.is_up())
        exporter.process.terminate()
        said = self.result(exporter.process).err.splitlines()
        self.assertEqual(len(said), 2, said)
        self.assertIn("Connection refused", said[0])
        self.assertEqual(said[1], "redlatch: the server answers again")

    def test_it_starts_without_a_server(self):
        self.server.kill()
        exporter = self.export()
        self.assertFalse(exporter.is_up())
        self.server.start()
        self.assertTrue(exporter.is_up())

    def test_a_server_that_is_silent_holds_up_no_scrape(self):
        exporter = self.export("--timeout", "500ms", "--doctor-interval", "60")
        until(lambda: "redlatch_doctor_finding" in exporter.scrape(), "doctor has looked")
        with self.server.paused():
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = [pool.submit(exporter.scrape) for _ in range(8)]
                for answer in concurrent.futures.as_completed(answers, timeout=support.BOUND_S):
                    self.assertIn("redlatch_doctor_finding", answer.result())
            until(lambda: not exporter.is_up(), "it is known to be down")
            self.assertEqual(exporter.request("/-/healthy").status, 200)
        until(exporter.is_up, "it is back")

    def test_a_user_who_may_not_scan_is_told_once(self):
        self.server.redis("ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-scan")
        exporter = self.export("--server", "unix://blind:secret@" + self.server.path)
        for _ in range(3):
            self.assertFalse(exporter.is_up())
        exporter.process.terminate()
        result = self.result(exporter.process)
        self.assertEqual(result.err.count("docs/acl.md, Inspection"), 1, result)

    def test_the_rights_of_every_program_and_of_inspection_are_enough(self):
        with open(os.path.join(support.TOP, "docs", "acl.md")) as f:
            sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", f.read(), re.M | re.S))
        for section in "Every program", "Inspection":
            for line in re.findall(r"^ACL SETUSER app (.*)$", sections[section], re.M):
                self.server.redis("ACL", "SETUSER", "app", *line.split())
        self.server.redis("ACL", "SETUSER", "app", "on")
        self.foreign("orders:1")
        found = self.export("--server", "unix://app:secret@" + self.server.path).scrape()
        self.assertEqual(list(found["redlatch_lock_holders"]), [(("lock", "orders:1"), ("type", "lock"))])


class Deployments(Case):
    def on_port(self, *arguments):
        reserved, port = support.free_port()
        self.addCleanup(reserved.close)
        server = support.Server("--port", str(port), "--bind", "127.0.0.1", *arguments)
        self.addCleanup(server.stop)
        server.port = port
        return server

    def lock_on(self, server, name):
        server.redis("HSET", name, UUID + ":1", 1)
        return ("lock", name), ("type", "lock")

    def test_the_master_that_sentinels_name_is_asked(self):
        master = self.on_port()
        sentinel = support.Sentinel(master.port, support.PASSWORD)
        self.addCleanup(sentinel.stop)
        lock = self.lock_on(master, "job:1")
        found = self.export("--server", sentinel.uri, env={"REDLATCH_SENTINEL_PASSWORD": support.PASSWORD}).scrape()
        self.assertEqual(found["redlatch_up"], {(("server", sentinel.uri),): 1})
        self.assertEqual(list(found["redlatch_lock_holders"]), [lock])

    def test_every_master_of_a_cluster_is_asked_and_one_that_is_away_makes_it_down(self):
        nodes = [self.on_port("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no") for _ in range(2)]
        for i, node in enumerate(nodes):
            for first in range(i * 8192, i * 8192 + 8192, 1024):
                node.redis("CLUSTER", "ADDSLOTS", *range(first, first + 1024))
        nodes[0].redis("CLUSTER", "SET-CONFIG-EPOCH", 1)
        nodes[0].redis("CLUSTER", "MEET", "127.0.0.1", nodes[1].port)
        for node in nodes:
            until(lambda: b"cluster_size:2" in node.redis("CLUSTER", "INFO"), "the nodes know each other")
            until(lambda: b"cluster_state:ok" in node.redis("CLUSTER", "INFO"), "the cluster is up")
        slots = {name: nodes[0].redis("CLUSTER", "KEYSLOT", name) for name in map("job:{}".format, range(20))}
        names = [next(name for name in slots if slots[name] // 8192 == i) for i in range(2)]
        locks = {self.lock_on(node, name) for node, name in zip(nodes, names)}
        exporter = self.export("--server", "cluster://127.0.0.1:%d" % nodes[0].port, "--timeout", "10")
        self.assertEqual(set(exporter.scrape()["redlatch_lock_holders"]), locks)
        nodes[1].kill()
        self.assertFalse(exporter.is_up())


class Scans(Case):
    def test_a_scan_is_shared_by_all_who_wait_for_it_and_by_those_who_come_soon(self):
        self.assertEqual(self.redlatch("ls").code, 0)
        one = self.scanned()
        exporter = self.export("--interval", "1h", "--timeout", "30")

        def threads():
            return support.thread_states(exporter.process.pid)

        before = len(threads())
        with self.server.paused():
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = [pool.submit(exporter.scrape) for _ in range(8)]
                until(lambda: len(threads()) >= before + 8 and set(threads()) == {"S"}, "all have asked")
                self.server.process.send_signal(signal.SIGCONT)
                for answer in answers:
                    self.assertEqual(list(answer.result()["redlatch_up"].values()), [1])
        self.foreign("job:1")
        self.assertNotIn("redlatch_lock_holders", exporter.scrape())
        self.assertEqual(self.scanned(), one)

    def test_an_old_scan_is_renewed(self):
        exporter = self.export()
        self.assertNotIn("redlatch_lock_holders", exporter.scrape())
        self.foreign("job:1")
        self.assertEqual(len(exporter.scrape()["redlatch_lock_holders"]), 1)

    def test_nobody_waits_for_a_scan_that_takes_long_and_its_age_is_told(self):
        """Each answer comes long before its time-out, all of them together long after that of a scrape."""
        self.foreign("job:1")
        self.server.redis("EVAL", "for i = 1, 200 do redis.call('set', 'key:' .. i, 1) end", 0)
        slow = threading.Event()
        uri = self.relayed(lambda chunk: (slow.wait(0.2), chunk)[1])
        exporter = self.export("--server", uri, "--timeout", "2")  # an answer has half of that

        def is_told_beside_the_next_scan():
            found = exporter.scrape()
            return found.get("redlatch_scan_age_seconds", {}).get((), 0) > 2 and found["redlatch_lock_holders"]

        self.assertEqual(len(until(is_told_beside_the_next_scan, "what is served is of the scan before")), 1)

    def test_no_scan_is_made_for_nobody(self):
        exporter = self.export()
        exporter.request("/-/healthy")
        self.assertEqual(self.scanned(), 0)


class Ends(Case):
    def test_a_signal_ends_it_cleanly(self):
        for signo in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            exporter = self.export("--doctor-interval", "1")
            self.assertTrue(exporter.is_up())
            exporter.process.send_signal(signo)
            self.assert_result(self.result(exporter.process), 0)

    def test_a_signal_ends_it_while_a_scrape_waits_for_a_silent_server(self):
        exporter = self.export("--timeout", "10m")
        with self.server.paused():
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                threads = len(os.listdir("/proc/%d/task" % exporter.process.pid))
                answer = pool.submit(exporter.request)
                until(lambda: len(os.listdir("/proc/%d/task" % exporter.process.pid)) > threads + 1, "it scans")
                exporter.process.terminate()
                self.assert_result(self.result(exporter.process), 0)
                try:
                    self.assertEqual(list(samples_of(answer.result().text)["redlatch_up"].values()), [0])
                except OSError:
                    pass  # the signal was there before the request was


if __name__ == "__main__":
    support.main(sys.argv[1:])
