"""pipeline - the lines of the speed table about the web door and the store: nginx and PostgreSQL are the peers."""

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from statistics import median

from rows import Figure, OtherRow, rate
from peers import CLIENT_CORE, SERVER_CORE, Failed, free_port, pinned

HERE = os.path.dirname(os.path.abspath(__file__))
HTTP_CONNECTIONS = 64
KEEP_UP_LAG_S = 3  # a flush a second, and a moment: what is behind by less than this keeps up
DRAIN_LIMIT_S = 300
PG_CLIENTS = 32
PG_SECONDS = 5


# --- nginx ---

NGINX_CONF = """
daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 300s;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port}; location / {{ default_type application/json; return 200 '{body}'; }} }}
}}
"""


class Nginx:
    """One worker that answers everything with the same body."""

    def __init__(self, lab, body):
        self.folder = os.path.join(lab.folder, "nginx")
        self.port = free_port()
        os.makedirs(self.folder, exist_ok=True)
        config = os.path.join(self.folder, "conf")
        with open(config, "w") as output:
            output.write(NGINX_CONF.format(folder=self.folder, port=self.port, body=body.strip()))
        self.process = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-c", config],
                                        stderr=subprocess.DEVNULL, preexec_fn=pinned(SERVER_CORE))
        self._wait()

    def _wait(self):
        for _ in range(500):
            if subprocess.run(["curl", "-fsS", "-o", os.devnull, f"http://127.0.0.1:{self.port}/"],
                              stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.01)
        raise Failed("nginx does not answer")

    def cpu_ns(self):
        with open(f"/proc/{self.process.pid}/schedstat") as schedstat:
            return int(schedstat.read().split()[0])

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def wrk(lab, url, script=None, first=0, connections=HTTP_CONNECTIONS):
    """Requests a second, and how many there were."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(2, round(lab.settings.seconds))}s"]
    command += ["-s", os.path.join(HERE, script)] if script else []
    output = lab.client([*command, url] + (["--", str(first)] if script else []))
    if "Non-2xx" in output:
        raise Failed(f"wrk {url}: {output.strip()}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)), \
        int(re.search(r"(\d+) requests in", output).group(1))


def timed(server, measure):
    """Requests a second, and the server's CPU time for each in µs."""
    before = server.cpu_ns()
    requests_per_s, requests = measure()
    return requests_per_s, (server.cpu_ns() - before) / 1000 / requests


def alternate(lab, ours, theirs):
    """Medians of (requests a second, CPU µs) of both sides, which take turns."""
    results = ([], [])
    for number in range(lab.settings.rounds):
        for side, measure in ((0, ours), (1, theirs)) if number % 2 == 0 else ((1, theirs), (0, ours)):
            results[side].append(measure())
    return [tuple(median(one[i] for one in side) for i in (0, 1)) for side in results]


def compared(ours, theirs, must, aim):
    text = [f"{rate(side[0])} ({side[1]:.2f} µs)" for side in (ours, theirs)]
    return Figure(*text, ours[0] / theirs[0], must, aim)


def measure_http(lab, sides):
    if not sides.ours:
        return [Figure(), Figure()]
    server = lab.start("tallyd")
    server.call("INCRBY", "hot", 123456)
    url = f"http://127.0.0.1:{server.http_port}"
    body = subprocess.run(["curl", "-fsS", f"{url}/v1/counters/hot"], capture_output=True, text=True).stdout
    nginx = Nginx(lab, body)
    users = iter(range(0, 10**9, 10**7))
    try:
        figures = []
        for path, script, must, aim in (("/v1/counters/hot", None, 0.8, 1), ("/", "put.lua", 0.5, 0.8)):
            ours, theirs = alternate(
                lab, lambda: timed(server, lambda: wrk(lab, url + path, script, next(users))),
                lambda: timed(nginx, lambda: wrk(lab, f"http://127.0.0.1:{nginx.port}/")))
            figures.append(compared(ours, theirs, must, aim))
        return figures
    finally:
        nginx.end()
        lab.end(server)


def measure_ndjson(lab, sides):
    if not sides.ours:
        return [Figure()]
    users = iter(range(0, 10**9, 10**7))

    def ours():
        server = lab.start("tallyd")
        try:
            url = f"http://127.0.0.1:{server.http_port}/v1/batch"
            likes, cpu = timed(server, lambda: wrk(lab, url, "batch.lua", next(users), connections=8))
            return likes * 1000, cpu / 1000
        finally:
            lab.end(server)

    def theirs():
        server = lab.start("tallyd")
        try:
            before = server.cpu_ns()
            got = lab.load(server, "like-numeric", pipeline=64, seconds=max(2, lab.settings.seconds))
            return got["requests_per_s"], (server.cpu_ns() - before) / 1000 / got["requests"]
        finally:
            lab.end(server)

    return [compared(*alternate(lab, ours, theirs), 0.6, 1)]


# --- the store ---


def pipeline_info(server):
    info = server.call("INFO", "pipeline") or ""
    return dict(line.split(":", 1) for line in info.splitlines() if ":" in line)


def lag_events(server):
    return int(pipeline_info(server)["pipeline_lag_events"])


def wait_for_store(server):
    """Until everything in the log is in the store; how long that took."""
    began = time.monotonic()
    while lag_events(server) > 0:
        if time.monotonic() - began > DRAIN_LIMIT_S:
            raise Failed(f"{lag_events(server):,} events are not in the store after {DRAIN_LIMIT_S} s")
        time.sleep(0.05)
    return time.monotonic() - began


class Postgres:
    """A private PostgreSQL; it refuses to run as root, so it is given to its own user then."""

    BIN = "/usr/lib/postgresql/15/bin"

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tally-bench-pg")
        self.port = free_port()
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.run(f"{self.BIN}/initdb", "-D", f"{self.folder}/data", "-A", "trust", "-U", self.user)
        self.run(f"{self.BIN}/pg_ctl", "-D", f"{self.folder}/data", "-w", "-l", f"{self.folder}/log", "-o",
                 f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} "
                 "-c shared_buffers=1GB", "start")

    def run(self, *command, text=None):
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        done = subprocess.run([*prefix, *command], input=text, capture_output=True, text=True, cwd=self.folder)
        if done.returncode != 0:
            raise Failed((done.stderr or done.stdout).strip())
        return done.stdout

    def likes_per_s(self):
        """A vote's row and the update of the hot row, in one transaction."""
        self.run(f"{self.BIN}/psql", "-h", self.folder, "-p", str(self.port), "-U", self.user, "postgres", "-q", text="""
            CREATE TABLE IF NOT EXISTS item (id int PRIMARY KEY, vote_count bigint NOT NULL);
            CREATE TABLE IF NOT EXISTS vote (item_id int NOT NULL, user_id bigint NOT NULL);
            INSERT INTO item VALUES (1, 0) ON CONFLICT DO NOTHING;""")
        script = os.path.join(self.folder, "like.sql")
        with open(script, "w") as output:
            output.write("\\set user random(1, 1000000000)\nBEGIN;\nINSERT INTO vote VALUES (1, :user);\n"
                         "UPDATE item SET vote_count = vote_count + 1 WHERE id = 1;\nCOMMIT;\n")
        os.chmod(script, 0o644)
        output = self.run(f"{self.BIN}/pgbench", "-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, "-n", "-M",
                          "prepared", "-c", str(PG_CLIENTS), "-j", "2", "-T", str(PG_SECONDS), "-f", script, "postgres")
        return float(re.search(r"tps = ([\d.]+)", output).group(1))

    def end(self):
        self.run(f"{self.BIN}/pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


def stored_likes_per_s(lab, likes):
    """From the first like until the last one has its row and its count in the store."""
    server = lab.start("tallyd-free")
    try:
        began = time.monotonic()
        lab.load(server, "like-numeric", pipeline=64, requests=likes)
        wait_for_store(server)
        return likes / (time.monotonic() - began)
    finally:
        lab.end(server)


def measure_postgres(lab, sides):
    postgres = Postgres()
    try:
        ours, theirs = [], []
        for _ in range(min(3, lab.settings.rounds)):
            theirs.append(postgres.likes_per_s())
            if sides.ours:
                ours.append(stored_likes_per_s(lab, lab.settings.stored_likes))
    finally:
        postgres.end()
    if not ours:
        return [Figure(theirs=f"{median(theirs):,.0f}")]
    return [Figure(rate(median(ours)), f"{median(theirs):,.0f}", median(ours) / median(theirs), 50, 100)]


def restart_seconds(lab, kind, likes):
    server = lab.start(kind)
    try:
        lab.load(server, "like-numeric", requests=likes)
        if kind == "tallyd":
            wait_for_store(server)
        times = []
        for _ in range(3):
            server.stop()
            times.append(server.start())
            found = int(server.call("GET", "video1/like") or 0)
            if found != likes:
                raise Failed(f"{found} likes after a restart, not {likes}")
        return median(times)
    finally:
        lab.end(server)


def measure_flushed_restart(lab, sides):
    if not sides.ours:
        return [Figure()]
    likes = lab.settings.restart_likes
    flushed, replayed = (restart_seconds(lab, kind, likes) for kind in ("tallyd", "tallyd-log"))
    return [Figure(f"{flushed * 1000:.0f} ms", f"{replayed * 1000:.0f} ms", replayed / flushed, 20, 100)]


# (what, the load generator's work, its options, must, aim): likes a second
SHAPES = (
    ("one item", "like-numeric", {}, 300_000, 600_000),
    ("1,000 items", "LIKE video:{item} {user}", {"items": 1_000}, 200_000, 400_000),
    ("a million items (zipf)", "LIKE video:{zipf} {user}", {"items": 1_000_000}, 100_000, 200_000),
)


def keeps_up(lab, server, work, options, likes_per_s, first):
    """Is the store behind by no more than a few flushes after a while at this rate?"""
    got = lab.load(server, work, pipeline=64, rate=likes_per_s, seconds=lab.settings.keep_up_seconds, users=first,
                   **options)
    behind = lag_events(server)
    wait_for_store(server)
    return got["requests_per_s"] > 0.97 * likes_per_s and behind < likes_per_s * KEEP_UP_LAG_S


def measure_keeping_up(lab, sides):
    """The highest rate of a few that the store keeps up with, ten million likes being stored already."""
    figures = []
    for _, work, options, must, aim in SHAPES:
        if not sides.ours:
            figures.append(Figure())
            continue
        server = lab.start("tallyd-free")
        try:
            first = lab.settings.restart_likes
            lab.load(server, work, pipeline=64, requests=first, **options)
            wait_for_store(server)
            reached = 0
            for likes_per_s in (must // 2, must, (must + aim) // 2, aim, aim * 5 // 4):
                if not keeps_up(lab, server, work, options, likes_per_s, first):
                    break
                reached = likes_per_s
                first += int(likes_per_s * lab.settings.keep_up_seconds * 1.1)
        finally:
            lab.end(server)
        figures.append(Figure(f"{rate(reached)}/s", "-", reached, must, aim, ""))
    return figures


def pipeline_rows(settings):
    stored = f"{settings.restart_likes:,}"
    return [
        OtherRow("http", f"HTTP, wrk -c {HTTP_CONNECTIONS}: GET of a count / PUT of a reaction by new users",
                 "nginx, `return 200` with the same body", measure_http),
        OtherRow("ndjson", "HTTP: likes in NDJSON batches of 1,000", "our RESP LIKE at pipeline 64", measure_ndjson),
        OtherRow("postgres", "a like with its row and its count in the database",
                 f"PostgreSQL 15: insert and update of the hot row, {PG_CLIENTS} clients", measure_postgres),
        OtherRow("restart-flushed", f"restart with {stored} likes, all in the store", "replaying them",
                 measure_flushed_restart),
        OtherRow("keeping-up", "likes a second that the store keeps up with, " + stored + " being stored: "
                 + " / ".join(shape[0] for shape in SHAPES), "-", measure_keeping_up),
    ]
