#!/usr/bin/python3 -I
# SPDX-License-Identifier: MIT
"""monitoring - the alert rules and the dashboard: promtool's tests of them, and a real Prometheus that scrapes a real
exporter, and a program's metrics from a text of their names."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from support import until

CONTRIB = os.path.join(support.TOP, "contrib")
RULES = os.path.join(CONTRIB, "redlatch.rules.yml")
RULES_TEST = os.path.join(support.TOP, "tests", "cli", "rules_test.yml")
DASHBOARD = os.path.join(CONTRIB, "redlatch-dashboard.json")
PAGE = os.path.join(support.TOP, "docs", "monitoring.md")

METRIC = re.compile(r"\bredlatch_\w+")
# What rdl_metrics_text serves, by kind.
COUNTERS = ("attempts", "acquired", "contended", "timed_out", "released", "unknown", "lost", "at_risk", "undone")
CLIENT_COUNTERS = ("renewed", "renewals_late", "reconnects", "script_loads")
HISTOGRAMS = ("wait", "hold", "handoff")
GAUGES = ("held", "waiting", "longest_hold_seconds")


def text_of(path):
    with open(path) as f:
        return f.read()


def alerts_of(rules):
    return re.findall(r"^ +- alert: (\w+)$", rules, re.M)


def panels():
    return [panel for panel in json.loads(text_of(DASHBOARD))["panels"] if panel["type"] != "row"]


def expressions():
    """Of the panels, by title, with Grafana's variables filled in."""
    return [(panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$exporter", ".*")
             .replace("$job", ".*").replace("$lock", ".*"))
            for panel in panels() for target in panel["targets"]]


class Files(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_promtool_accepts_the_rules(self):
        self.promtool("check", "rules", "--lint-fatal", RULES)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_each_alert_fires_when_it_should_and_not_before(self):
        self.promtool("test", "rules", RULES_TEST)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_promtool_accepts_the_configuration_that_the_page_has(self):
        (config,) = re.findall(r"^```yaml\n(.*?)^```$", text_of(PAGE), re.M | re.S)
        self.assertIn("/usr/local/share/redlatch/redlatch.rules.yml", config)
        config = config.replace("/usr/local/share/redlatch/redlatch.rules.yml", RULES)
        self.promtool("check", "config", self.written(config))

    def written(self, config):
        done = os.path.join(os.environ.get("TMPDIR", "/tmp"), "redlatch-%d.yml" % os.getpid())
        with open(done, "w") as f:
            f.write(config)
        self.addCleanup(os.unlink, done)
        return done

    def test_each_alert_has_its_test_and_its_line_in_the_page(self):
        alerts = alerts_of(text_of(RULES))
        self.assertLess(10, len(alerts))
        self.assertEqual(len(alerts), len(set(alerts)))
        fires = re.findall(r"alertname: (\w+)\n +exp_alerts:\n", text_of(RULES_TEST))
        rests = re.findall(r"alertname: (\w+)\n +exp_alerts: \[\]\n", text_of(RULES_TEST))
        self.assertEqual(set(fires), set(alerts))
        self.assertEqual(set(rests), set(alerts))
        self.assertEqual(re.findall(r"^\| `(Redlatch\w+)` ", text_of(PAGE), re.M), alerts)

    def test_the_dashboard_is_one(self):
        dashboard = json.loads(text_of(DASHBOARD))
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for panel in panels():
            self.assertTrue(panel["description"], panel["title"])
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            for target in [panel] + panel["targets"]:
                self.assertEqual(target["datasource"]["uid"], "${datasource}")
        variables = {variable["name"] for variable in dashboard["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__rate_interval", "__all"}
        self.assertEqual(used, variables)


class Program(http.server.BaseHTTPRequestHandler):
    """A program whose counters grow from scrape to scrape."""

    scrapes = 0

    @classmethod
    def text(cls):
        n, lines = cls.scrapes, []
        for name in COUNTERS:
            lines += ['redlatch_%s_total{lock="%s"} %d' % (name, lock, n + 1) for lock in ("job:1", "")]
        lines += ["redlatch_%s_total %d" % (name, n) for name in CLIENT_COUNTERS]
        lines += ['redlatch_%s{lock="job:1"} 1' % name for name in GAUGES]
        for name, label in [(name, 'lock="job:1",') for name in HISTOGRAMS] + [("round_trip", "")]:
            for k, bound in enumerate(["0.000128", "0.001024", "0.016384", "+Inf"]):
                lines.append('redlatch_%s_seconds_bucket{%sle="%s"} %d' % (name, label, bound, n * k))
            braced = "{%s}" % label.rstrip(",") if label else ""
            lines += ["redlatch_%s_seconds_sum%s %d" % (name, braced, n),
                      "redlatch_%s_seconds_count%s %d" % (name, braced, 3 * n)]
        return "\n".join(lines) + "\n"

    def do_GET(self):
        body = self.text().encode()
        type(self).scrapes += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@unittest.skipUnless(shutil.which("prometheus"), "there is no prometheus here")
class Prometheus(support.Case):
    CONFIG = """
global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: ["%s"]
scrape_configs:
  - {job_name: redlatch, static_configs: [{targets: ["%s"]}]}
  - {job_name: app, static_configs: [{targets: ["%s"]}]}
"""

    def setUp(self):
        super().setUp()
        self.server.redis("CONFIG", "SET", "maxmemory", 10 ** 9)
        self.server.redis("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        exporter = self.start("exporter", "--listen", ":0", "--interval", "0")
        url = urllib.parse.urlsplit(exporter.stdout.readline().decode().strip())
        program = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Program)
        self.addCleanup(program.server_close)
        self.addCleanup(program.shutdown)
        threading.Thread(target=program.serve_forever, daemon=True).start()
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w") as f:
            f.write(self.CONFIG % (RULES, url.netloc, "127.0.0.1:%d" % program.server_port))
        reserved, port = support.free_port()
        self.addCleanup(reserved.close)
        self.url = "http://127.0.0.1:%d" % port
        with open(os.path.join(self.folder, "prometheus.log"), "w") as log:
            self.prometheus = subprocess.Popen(
                ["prometheus", "--config.file=" + config, "--storage.tsdb.path=" + os.path.join(self.folder, "data"),
                 "--web.listen-address=127.0.0.1:%d" % port], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, preexec_fn=support.die_with_parent)
        self.addCleanup(self.end_prometheus)
        until(self.is_ready, "prometheus is ready")

    def end_prometheus(self):
        self.prometheus.kill()
        self.prometheus.wait()

    def ask(self, path, **parameters):
        """An answer of its API."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen("%s%s?%s" % (self.url, path, query), timeout=support.BOUND_S) as answer:
            return json.loads(answer.read())["data"]

    def is_ready(self):
        self.assertIsNone(self.prometheus.poll(), text_of(os.path.join(self.folder, "prometheus.log")))
        try:
            with urllib.request.urlopen(self.url + "/-/ready", timeout=support.BOUND_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    def query(self, expression):
        return self.ask("/api/v1/query", query=expression)["result"]

    def expect_data(self, expression, what):
        until(lambda: self.query(expression), "%s: %s" % (what, expression))

    def alerts(self):
        return {(alert["labels"]["alertname"], alert["state"]) for alert in self.ask("/api/v1/alerts")["alerts"]}

    def test_panels_have_data_and_alerts_fire(self):
        holder = self.hold("job:1", "--type", "fair")
        waiter = self.start("run", "--type", "fair", "job:1", "--", "true")
        until(lambda: self.server.redis("LLEN", "redisson_lock_queue:{job:1}") == 1, "it waits")
        self.server.redis("HSET", b'odd "\xff" \\', "9f1c8a54-0000-4000-8000-0123456789ab:1", 1)

        for title, expression in expressions():
            with self.subTest(panel=title):
                self.expect_data(expression, title)
        for group in self.ask("/api/v1/rules")["groups"]:
            for rule in group["rules"]:
                until(lambda: self.query("count(%s) or vector(0)" % rule["query"]), rule["name"])
                for metric in set(METRIC.findall(rule["query"])):
                    self.expect_data("count(%s)" % metric, rule["name"])
        until(lambda: all(rule["health"] == "ok" for group in self.ask("/api/v1/rules")["groups"]
                          for rule in group["rules"]), "each rule was evaluated")
        names = {series["metric"]["lock"] for series in self.query("redlatch_lock_holders")}
        self.assertEqual(names, {"job:1", 'odd "\\xff" \\x5c'})

        for alert in "RedlatchDoctorCritical", "RedlatchHoldLost":
            until(lambda: (alert, "firing") in self.alerts(), alert)
        self.gate.send()
        self.assertEqual((self.result(holder).code, self.result(waiter).code), (0, 0))
        self.assertNotIn("RedlatchServerDown", {name for name, _ in self.alerts()})
        self.server.kill()
        until(lambda: ("RedlatchServerDown", "pending") in self.alerts(), "the alert waits for its minute")

    def test_every_metric_of_rules_and_panels_is_documented(self):
        page = text_of(PAGE)
        told = set(re.findall(r"^\| `(redlatch_\w+)", page, re.M))
        told |= {"redlatch_%s_total" % name for name in COUNTERS + CLIENT_COUNTERS}
        told |= {"redlatch_" + name for name in GAUGES}
        told |= {"redlatch_%s_seconds_bucket" % name for name in HISTOGRAMS + ("round_trip",)}
        used = set(METRIC.findall(" ".join(expression for _, expression in expressions())))
        used |= {metric for group in self.ask("/api/v1/rules")["groups"] for rule in group["rules"]
                 for metric in METRIC.findall(rule["query"])}
        self.assertEqual(used - told, set())


if __name__ == "__main__":
    support.main(sys.argv[1:])
