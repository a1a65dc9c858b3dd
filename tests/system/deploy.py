"""deploy.py - the files of deploy/ are well formed and speak of metrics that exist.

Which metrics there are is read from tests/unit/flow/metrics.txt, the page that the unit test compares byte
for byte with what metrics_write() makes."""

import json
import os
import re
import shutil
import subprocess
import unittest

import yaml

import tallyd

RULES = "deploy/prometheus/tally.rules.yml"
CONFIG = "deploy/prometheus/prometheus.yml"
DASHBOARD = "deploy/grafana/tally.json"
PAGE = "tests/unit/flow/metrics.txt"
MANUAL = ("docs/operations.md", "docs/metrics.md")

FUNCTIONS = {
    "rate", "increase", "deriv", "changes", "predict_linear", "histogram_quantile", "sum", "by", "time",
    "and", "offset", "label_values",
}
LABELS = {"instance", "job", "door", "op", "result", "le", "state", "counter", "shard"}


def path(name):
    return os.path.join(tallyd.ROOT, name)


def read(name):
    with open(path(name), encoding="utf-8") as file:
        return file.read()


def manual():
    return "".join(read(name) for name in MANUAL)


def metrics():
    """Every name that a sample can have."""
    return {re.match(r"[a-z_]+", line).group() for line in read(PAGE).splitlines() if line[0] != "#"}


def without_texts(expression):
    """An expression without the values of its labels, which may hold anything."""
    return re.sub(r'"[^"]*"', '""', expression)


class Deploy(unittest.TestCase):
    def check_expression(self, expression):
        bare = without_texts(expression)
        for opening, closing in ("()", "{}", "[]"):
            self.assertEqual(bare.count(opening), bare.count(closing), expression)
        bare = re.sub(r"\[[^]]*\]", "", bare)  # ranges
        names = set(re.findall(r"\btally_[a-z_]+", bare))
        self.assertTrue(names or "up{" in bare, expression)
        self.assertLessEqual(names, metrics(), expression)
        for matchers in re.findall(r"{([^}]*)}", bare):
            for matcher in matchers.split(","):
                self.assertRegex(matcher.strip(), r'^[a-z_]+(=|!=|=~|!~)""$', expression)
        words = set(re.findall(r"[a-z_]+", re.sub(r"\b[0-9.]+[smhd]?\b", "", bare)))
        self.assertLessEqual(words - names - {"up"}, FUNCTIONS | LABELS, expression)

    def test_every_alert_is_whole(self):
        rules = yaml.safe_load(read(RULES))
        self.assertEqual(list(rules), ["groups"])
        names = []
        for group in rules["groups"]:
            self.assertEqual(set(group), {"name", "rules"})
            for rule in group["rules"]:
                self.assertLessEqual(set(rule), {"alert", "expr", "for", "labels", "annotations"})
                names.append(rule["alert"])
                self.assertRegex(rule["alert"], r"^Tally[A-Za-z]+$")
                self.check_expression(rule["expr"])
                self.assertRegex(rule.get("for", "1m"), r"^[0-9]+[smhd]$")
                self.assertIn(rule["labels"]["severity"], ("page", "ticket"))
                self.assertEqual(set(rule["annotations"]), {"summary", "description"})
                for text in rule["annotations"].values():
                    self.assertEqual(text.count("{{"), text.count("}}"), text)
        self.assertEqual(len(names), len(set(names)))

    def test_there_is_an_alert_for_everything_that_can_go_wrong(self):
        text = read(RULES)
        for metric in ("up{", "tally_pipeline_lag_seconds", "tally_cold_misses_total", "tally_dead_letters",
                       "tally_audit_drifts_total", "tally_disk_free_bytes", "tally_log_full",
                       "tally_hot_memory_bytes", "tally_pipeline_paused"):
            self.assertIn(metric, text)

    def test_every_alert_is_explained(self):
        alerts = set(re.findall(r"alert: (\w+)", read(RULES)))
        self.assertEqual(set(re.findall(r"`(Tally[A-Z]\w+)`", manual())), alerts)

    def test_every_metric_is_explained_and_no_other(self):
        families = set(re.findall(r"^# TYPE (\w+)", read(PAGE), re.MULTILINE))
        named = set(re.findall(r"`(tally_[a-z_]+)`", manual())) - {"tally_version"}  # that one is INFO's
        self.assertEqual(named, families)

    def test_the_scrape_configuration_is_well_formed(self):
        config = yaml.safe_load(read(CONFIG))
        folder = os.path.dirname(path(CONFIG))
        for rules in config["rule_files"]:
            self.assertTrue(os.path.exists(os.path.join(folder, rules)))
        job = config["scrape_configs"][0]
        self.assertEqual((job["job_name"], job["metrics_path"]), ("tally", "/metrics"))
        self.assertEqual(job["static_configs"][0]["targets"], ["127.0.0.1:3001"])

    def test_the_dashboard_is_well_formed(self):
        dashboard = json.loads(read(DASHBOARD))
        self.assertEqual(dashboard["title"], "Tally")
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            squares = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                       for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(squares & taken, panel["title"])
            taken |= squares
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["title"] and panel["description"] and panel["targets"])
            for target in panel["targets"]:
                self.check_expression(target["expr"].replace("$__rate_interval", "5m"))
                self.assertTrue(target["legendFormat"])

    def test_promtool_agrees_where_there_is_one(self):
        if not shutil.which("promtool"):
            return  # the checks above stand without it
        for arguments in (["check", "rules", path(RULES)], ["check", "config", path(CONFIG)]):
            subprocess.run(["promtool", *arguments], check=True)


if __name__ == "__main__":
    unittest.main()
