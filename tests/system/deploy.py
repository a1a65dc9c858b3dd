"""deploy.py - the files of deploy/ are well formed and speak of metrics that exist.

Which metrics there are is read from tests/unit/flow/metrics.txt, the page that the unit test compares byte
for byte with what metrics_write() makes."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import tallyd
import web

RULES = "deploy/prometheus/tally.rules.yml"
CONFIG = "deploy/prometheus/prometheus.yml"
DASHBOARD = "deploy/grafana/tally.json"
COMPOSE = "deploy/compose.yml"
PAGE = "tests/unit/flow/metrics.txt"
MANUAL = ("docs/operations.md", "docs/metrics.md")

FUNCTIONS = {
    "rate", "increase", "deriv", "changes", "predict_linear", "histogram_quantile", "sum", "by", "time",
    "and", "offset", "label_values", "max",
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

    def check_settings(self, names):
        """Every variable is one that tallyd knows."""
        known = subprocess.run([tallyd.PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        settings = {"TALLY_" + name.upper().replace("-", "_") for name in re.findall(r"--([a-z-]+)", known)}
        self.assertLessEqual(set(names), settings | {"TALLY_PASSWORD"})

    def test_compose_starts_everything_and_names_what_is_there(self):
        compose = yaml.safe_load(read(COMPOSE))
        services = compose["services"]
        self.assertEqual([name for name in services if name.startswith("redis")],
                         [f"redis{i}" for i in range(1, 7)] + ["redis-cluster"])
        roles = [service["command"][1] for name, service in services.items() if service.get("image") == "tally"]
        self.assertEqual(sorted(roles), ["aggregate", "aggregate", "serve", "serve"])
        for service in services.values():
            for needed in service.get("depends_on", {}):
                self.assertIn(needed, services)
        settings = services["node1"]["environment"]
        self.check_settings(settings)
        for url in (settings["TALLY_HOT"], settings["TALLY_LOG"]):
            for host in re.findall(r"[/,]([a-z]+[0-9]):", url):
                self.assertIn(host, services)
        build = services["node1"]["build"]
        self.assertTrue(os.path.exists(path(os.path.join("deploy", build["context"], build["dockerfile"]))))

    def test_every_variable_of_compose_is_in_the_example(self):
        example = set(re.findall(r"^([A-Z0-9_]+)=", read("deploy/.env.example"), re.MULTILINE))
        used = set(re.findall(r"(?<!\$)\$\{([A-Z0-9_]+)", read(COMPOSE)))
        self.assertEqual(used, example)

    def test_the_image_does_not_run_as_root_and_has_what_tallyd_links(self):
        text = read("deploy/docker/Dockerfile")
        self.assertEqual(len(re.findall(r"^FROM ", text, re.MULTILINE)), 2)
        self.assertRegex(text, r"(?m)^USER [1-9][0-9]*$")
        self.assertIn("build", read(".dockerignore").split())  # of the host
        final = text.split("FROM ")[2]
        for copied in re.findall(r"^COPY (deploy/\S+)", final, re.MULTILINE):
            self.assertTrue(os.access(path(copied), os.X_OK))
        linked = subprocess.run(["ldd", tallyd.PROGRAM], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"lib(uv|xxhash|gmp|sqlite3|jansson|hiredis|pq|rdkafka)\.so", linked):
            self.assertIn("lib" + library, final)

    def test_the_manifests_are_whole(self):
        kinds = {}
        for manifest in yaml.safe_load_all(read("deploy/kubernetes/tally.yml")):
            kinds.setdefault(manifest["kind"], []).append(manifest)
        self.check_settings(kinds["ConfigMap"][0]["data"])
        roles = {}
        for deployment in kinds["Deployment"]:
            spec = deployment["spec"]
            template = spec["template"]
            labels = template["metadata"]["labels"]
            self.assertEqual(spec["selector"]["matchLabels"], labels)
            self.assertGreaterEqual(spec["replicas"], 2)
            self.assertTrue(template["spec"]["securityContext"]["runAsNonRoot"])
            container = template["spec"]["containers"][0]
            roles[labels["role"]] = container
            self.assertEqual(container["args"], ["--role", labels["role"]])
            self.check_settings(variable["name"] for variable in container["env"])
            self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/readyz")
            self.assertEqual(container["livenessProbe"]["httpGet"]["path"], "/livez")
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
        self.assertEqual(set(roles), {"serve", "aggregate"})
        service = kinds["Service"][0]["spec"]
        ports = {port["name"] for port in roles["serve"]["ports"]}
        self.assertEqual({port["targetPort"] for port in service["ports"]}, ports)

    def pods(self):
        """The template of each deployment of the manifests."""
        return [manifest["spec"]["template"] for manifest in
                yaml.safe_load_all(read("deploy/kubernetes/tally.yml")) if manifest["kind"] == "Deployment"]

    def test_no_pod_asks_to_be_scraped_without_its_password(self):
        for pod in self.pods():
            annotations = pod["metadata"].get("annotations", {})
            self.assertEqual([name for name in annotations if name.startswith("prometheus.io/")], [])

    def test_the_monitor_sends_the_password_that_the_manifests_set(self):
        monitor = yaml.safe_load(read("deploy/kubernetes/monitor.yml"))
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        pods = self.pods()
        self.assertEqual(len(pods), 2)
        for pod in pods:
            self.assertLessEqual(wanted, pod["metadata"]["labels"].items())
            (container,) = pod["spec"]["containers"]
            self.assertIn(endpoint["port"], [port["name"] for port in container["ports"]])
            password = next(one["valueFrom"]["secretKeyRef"] for one in container["env"]
                            if one["name"] == "TALLY_PASSWORD")
            self.assertEqual(endpoint["authorization"]["credentials"], password)
        server = tallyd.Server(env={"TALLY_PASSWORD": "sesame"}).start()
        self.addCleanup(server.remove)
        for header, status in ({}, 401), ({"Authorization": endpoint["authorization"]["type"] + " sesame"}, 200):
            client = web.Web(server.http_port)
            self.addCleanup(client.close)
            self.assertEqual(client.ask("GET", endpoint["path"], headers=header).status, status)

    def test_the_units_are_well_formed(self):
        for unit in ("deploy/tallyd.service", "deploy/tallyd@.service"):
            keys = set(re.findall(r"^([A-Za-z]+)=", read(unit), re.MULTILINE))
            self.assertLessEqual({"Description", "ExecStart", "Type", "WantedBy", "NoNewPrivileges"}, keys)
        self.assertIn("--role %i", read("deploy/tallyd@.service"))
        self.check_settings(re.findall(r"^#?(TALLY_[A-Z_]+)=", read("deploy/tally.env"), re.MULTILINE))
        if not shutil.which("systemd-analyze"):
            return  # the checks above stand without it
        with tempfile.TemporaryDirectory() as folder:
            for unit, name in (("deploy/tallyd.service", "tallyd.service"),
                               ("deploy/tallyd@.service", "tallyd@serve.service")):
                text = read(unit).replace("/usr/local/bin/tallyd", tallyd.PROGRAM)
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
                done = subprocess.run(["systemd-analyze", "verify", os.path.join(folder, name)],
                                      capture_output=True, text=True, check=False)
                self.assertEqual([line for line in done.stderr.splitlines() if name in line], [])


if __name__ == "__main__":
    unittest.main()
