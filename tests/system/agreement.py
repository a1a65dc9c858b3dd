"""agreement.py - do all who know a count agree: the journals, every node, PostgreSQL's rows and
counts, and a recount of what is in Kafka?

    agreement.check(tally, journal)

waits until PostgreSQL has all that the journals know to be sure, then compares everything with
everything. What differs is said by name."""

import collections
import contextlib
import json
import time

from deployment import TOPIC
from tallyd import insist, pairs, wait_until

STORED_WITHIN_S = 90
NO_LAG_WITHIN_S = 90
RECOUNTED_WITHIN_S = 90
SHOWN = 5  # of what differs


def check(tally, journal, within_s=STORED_WITHIN_S):
    """Raises when two of them do not agree."""
    members, values = journal.members(), journal.values()
    wait_stored(tally.writable_postgres(), members, values, within_s)
    check_letters(tally.writable_postgres())
    for node in tally.serving:
        if node.is_running():
            check_node(node, members, values)
    if tally.kafka:
        check_recount(tally.kafka, members, values)
    wait_no_lag(tally)
    contradictions = journal.contradictions()
    assert not contradictions, (f"{len(contradictions)} answers contradict earlier ones, such as\n"
                                + "\n".join(contradictions[:SHOWN]))


def differences(what, want, have):
    """Lines that say how two dictionaries of sets or numbers differ."""
    lines = []
    for name in sorted(set(want) | set(have), key=str):
        wanted, had = want.get(name), have.get(name)
        if not wanted and not had or wanted == had:
            continue
        if isinstance(wanted or had, set):
            missing = sorted((wanted or set()) - (had or set()))
            surplus = sorted((had or set()) - (wanted or set()))
            lines.append(f"{what} {name}: {len(wanted or ())} wanted, {len(had or ())} there; missing "
                         f"{missing[:SHOWN]}, too many {surplus[:SHOWN]}")
        else:
            lines.append(f"{what} {name}: {wanted} wanted, {had} there")
    return lines


# --- PostgreSQL -----------------------------------------------------------------------------------


def stored(postgres, items, counters):
    """Members by (item, kind), counts by (item, kind) and values by counter, of one moment."""
    members = collections.defaultdict(set)
    with contextlib.closing(postgres.connect()) as connection:
        connection.autocommit = False
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with connection.cursor() as cursor:
            cursor.execute('SELECT item, kind, user_name FROM who_likes_what WHERE item = ANY(%s)',
                           (items,))
            for item, kind, user in cursor.fetchall():
                members[item, kind].add(user)
            cursor.execute("SELECT id, kind, count FROM items WHERE id = ANY(%s)", (items,))
            counts = {(item, kind): int(count) for item, kind, count in cursor.fetchall()}
            cursor.execute("SELECT id, value FROM counters WHERE id = ANY(%s)", (counters,))
            values = {name: int(value) for name, value in cursor.fetchall()}
    return members, counts, values


def store_differences(postgres, members, values):
    items = sorted({item for item, _ in members})
    rows, counts, sums = stored(postgres, items, sorted(values))
    return [*differences("PostgreSQL's rows of", members, rows),
            *differences("PostgreSQL's count of", {k: len(v) for k, v in members.items()}, counts),
            *differences("PostgreSQL's value of", values, sums)]


def wait_stored(postgres, members, values, within_s=STORED_WITHIN_S):
    deadline = time.monotonic() + within_s
    while True:
        different = store_differences(postgres, members, values)
        if not different:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"after {within_s} s: " + "\n".join(different))
        time.sleep(0.2)


def check_letters(postgres):
    """Nothing was given up, and nothing waits."""
    assert postgres.query("SELECT count(*) FROM dead_letters") == [(0,)]
    assert postgres.query("SELECT count(*) FROM waiting") == [(0,)]


# --- nodes ----------------------------------------------------------------------------------------


def check_node(node, members, values):
    """A node's counts, exact, and its members and values."""
    different = []
    with node.connect() as client:
        for (item, kind), users in members.items():
            counts = counts_of(client, item)
            if counts.get(kind, 0) != len(users):
                different.append(f"count of {item}/{kind}: {len(users)} wanted, "
                                 f"{counts.get(kind)} there")
        have = {place: members_of(client, *place) for place in members}
        different += differences("members of", members, have)
        have = {name: int(insist(client, "GET", name) or 0) for name in values}
        different += differences("value of", values, have)
    assert not different, f"node {node.port}: " + "\n".join(different)


def counts_of(client, item):
    """By kind."""
    answer = insist(client, "COUNTS", item)
    if isinstance(answer, dict):
        return {kind: int(count) for kind, count in answer.items()}
    return {kind: int(count) for kind, count in zip(answer[::2], answer[1::2])}


def members_of(client, item, kind):
    """All of them, by paging."""
    result = set()
    cursor = "0"
    while True:
        cursor, page = insist(client, "MEMBERS", item, kind, "CURSOR", cursor, "COUNT", "1000")
        result.update(page)
        if int(cursor) == 0:
            return result


# --- a recount ------------------------------------------------------------------------------------


def recount(kafka):
    """Counts by (item, kind) and values by counter, of the events in the topic.

    It knows the rule that everybody has to follow who reads the topic: an event whose sequence is
    not above the last one of its origin was there before."""
    counts, values = collections.Counter(), collections.Counter()
    last = collections.defaultdict(tuple)
    for line in kafka.kcat("-t", TOPIC, "-C", "-e", "-q", "-f", "%s\n").splitlines():
        section = json.loads(line)
        for i, event in enumerate(section["events"]):
            sequence = (section["epoch"], section["seq"] + i)
            if sequence <= last[section["origin"]]:
                continue
            last[section["origin"]] = sequence
            if event["type"] == "react":
                counts[event["item"], event["before"]] -= 1
                counts[event["item"], event["after"]] += 1
            elif event["type"] == "add":
                values[event["counter"]] += int(event["delta"])
    return counts, values


def check_recount(kafka, members, values):
    counts, sums = recount(kafka)
    different = [*differences("the recount of", {k: len(v) for k, v in members.items()},
                              {place: counts[place] for place in members}),
                 *differences("the recount of", values, {name: sums[name] for name in values})]
    assert not different, "\n".join(different)


def check_proved(node, pattern):
    """The server's own recount: hot layer, store and log agree about all that the pattern names."""
    with node.connect() as client:
        number = insist(client, "RECOUNT", pattern)
        task = wait_until(lambda: ended_task(client, number), RECOUNTED_WITHIN_S,
                          f"the recount of {pattern} ends")
    assert (task["state"], int(task["drifts"])) == ("done", 0), task
    assert int(task["done"]) > 0, task


def ended_task(client, number):
    task = pairs(insist(client, "TASK", number))
    return task if task["state"] != "running" else None


# --- lag ------------------------------------------------------------------------------------------


def lag_of(node):
    """Events that are not in the store yet, as the node says."""
    return node.metrics().get("tally_pipeline_lag_events", 0)


def wait_no_lag(tally, within_s=NO_LAG_WITHIN_S):
    deadline = time.monotonic() + within_s
    while True:
        lags = [lag_of(node) for node in tally.nodes if node.is_running()]
        if not any(lags):
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"the lag does not return to zero: {lags}")
        time.sleep(0.1)
