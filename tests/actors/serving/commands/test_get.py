"""``muster get``: the lists and items of a real server, as tables and as JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.actors.cli.helpers import LONGEST_S, run, started
from tests.actors.samples import reserved
from tests.actors.serving.served import Served, ServiceThread
from tests.actors.serving.truth import fill

FEED = """
- {op: add_node, node: n1, capacity: {vcore: 4, memory: 8Gi}, attributes: {zone: east}}
- {op: add_node, node: odd, capacity: {vcore: 10m, memory: 23194904Ki}}
- {op: add_app, app: etl, queue: root.prod, user: olga}
- {op: add_ask, app: etl, ask: load, resources: {vcore: 3, memory: 1Gi}, count: 3}
- {op: add_gang, gang: ring, min_member: 2, user: olga, topology: {spread: zone, max: 1}}
- {op: add_app, app: train, queue: root.dev}
- {op: add_ask, app: train, ask: w, resources: {vcore: 9}, gang: ring}
"""


@pytest.fixture(scope="module", autouse=True)
def filled(served: Served, tmp_path_factory: pytest.TempPathFactory) -> None:
    feed = tmp_path_factory.mktemp("feed") / "feed.yaml"
    feed.write_text(FEED)
    result = run("submit", feed, "--server", served.urls[0])
    assert result.exit_code == 0, result.output


def rows(*arguments: str) -> list[list[str]]:
    """Return the cells of a table, row by row, without the line below the head."""
    result = run("get", *arguments)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if not line.strip().startswith("─")]
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def test_asks() -> None:
    # CLIENT-3
    assert rows("asks") == [
        ["ask", "queue", "place", "priority", "resources", "node", "reason"],
        ["etl/load-0", "root.prod", "bound", "0", "memory 1Gi, vcore 3", "n1"],
        ["etl/load-1", "root.prod", "pending", "0", "memory 1Gi, vcore 3", "NoNodeFits"],
        ["etl/load-2", "root.prod", "pending", "0", "memory 1Gi, vcore 3", "NoNodeFits"],
        ["train/w", "root.dev", "pending", "0", "vcore 9", "GangTooFewMembers"],
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--state", "bound"], ["etl/load-0"]),
        (["--reason", "NoNodeFits"], ["etl/load-1", "etl/load-2"]),
        (["--queue", "root.dev"], ["train/w"]),
        (["--app", "etl", "--state", "pending", "--limit", "1"], ["etl/load-1"]),
    ],
)
def test_filters(filters: list[str], found: list[str]) -> None:
    # CLIENT-3
    assert [row[0] for row in rows("asks", *filters)[1:]] == found


def test_every_kind_has_a_table() -> None:
    # CLIENT-3
    assert [row[0] for row in rows("queues")] == ["queue", "root", "root.dev", "root.prod"]
    assert rows("apps")[1][:4] == ["etl", "root.prod", "Starting", "olga"]
    assert rows("gangs")[1][:3] == ["default/ring", "Strict", "2"]
    (gang,) = run("get", "gangs", "-o", "wide").stdout.splitlines()[2:]
    assert "olga" in gang
    assert "spread: zone, max: 1" in gang
    assert rows("nodes")[1] == ["n1", "yes", "memory 1Gi, vcore 3", "memory 8Gi, vcore 4", "1"]
    assert rows("nodes")[2] == ["odd", "yes", "memory 23194904Ki, vcore 0.01", "0"]
    assert "zone east" in run("get", "nodes", "-o", "wide").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("queue", "root.prod"),
        ("app", "etl"),
        ("ask", "etl/load-1"),
        ("gang", "default/ring"),
        ("node", "n1"),
    ],
)
def test_one_by_its_name(arguments: tuple[str, str]) -> None:
    # CLIENT-3
    result = run("get", *arguments)

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split()[-1] in arguments[1]
    whole = json.loads(run("get", *arguments, "-o", "json").stdout)
    assert whole["item"] == yaml.safe_load(run("get", *arguments, "-o", "yaml").stdout)["item"]


# CLIENT-3
def test_instants_are_dates_for_people_and_seconds_for_programs(tmp_path: Path) -> None:
    fill(tmp_path / "state", reserved(tmp_path))
    date = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    with ServiceThread(tmp_path / "state") as service:
        server = ("--server", str(service.client.base_url))
        origin = datetime.fromisoformat(service.get("/api/v1/asks")["time"]) - timedelta(seconds=10)

        def at(seconds: int) -> str:
            return (origin + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")

        title, *table = run("get", "asks", "-o", "wide", *server).stdout.splitlines()
        assert {"reserved", "came", "bound"} <= set(title.split())
        by_name = {line.split()[0]: line for line in table if "/" in line}
        assert f"n1 from {at(100)}" in by_name["new/wide"]
        assert "n2 from an end that is not known" in by_name["new/next"]
        assert re.findall(date, by_name["new/small"]) == [at(10), at(10)]

        one = run("get", "ask", "new/wide", *server).stdout
        assert f"node n1, start {at(100)}, scope root.q" in one
        assert re.search(rf"^came +{at(10)}$", one, re.MULTILINE)
        assert re.search(rf"^since +{at(10)}$", one, re.MULTILINE)
        assert f"start {at(100)}" in run("get", "node", "n1", *server).stdout
        assert f"at {at(0)}, state New" in run("get", "app", "old", *server).stdout
        assert at(0) in run("get", "apps", "-o", "wide", *server).stdout
        found = json.loads(run("get", "ask", "new/wide", "-o", "json", *server).stdout)["item"]
        assert (found["came"], found["reservation"]["start"]) == (10, 100)


def test_what_is_not_there() -> None:
    # CLIENT-2
    result = run("get", "node", "n2")

    assert result.exit_code == 1
    assert "'n2' is unknown" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["wishes"], "'wishes' is none of queues, apps, asks, pods, gangs, nodes"),
        (["ask", "etl"], "'etl': write an ask as APP/ASK"),
        (["nodes", "--reason", "QueueMax"], "--reason is not for nodes"),
        (["app", "etl", "--queue", "root"], "--queue: a name and a filter exclude each other"),
        (
            ["asks", "--state", "lost"],
            "state: 'lost': must be names out of pending, parked, waiting, bound",
        ),
        (["asks", "--server", "ftp://x"], "'ftp://x': write http://HOST:PORT"),
        (["asks", "--token-file", "missing"], "--token-file: missing: No such file"),
    ],
)
def test_what_cannot_be_asked(arguments: list[str], problem: str) -> None:
    # CLIENT-2
    result = run("get", *arguments)

    assert result.exit_code == 2
    assert problem in result.output


def test_it_watches(served: Served) -> None:
    # CLIENT-3
    with started("get", "apps", "--watch", "--every", "0.1") as running:
        while b"train" not in running.out.readline():
            pass
        event = {"op": "add_app", "app": "watched", "queue": "root.dev"}
        served.client.post("/api/v1/events", json=[event])
        while b"watched" not in running.out.readline():
            pass
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(LONGEST_S) == 130


def completed(words: str, served: Served) -> list[str]:
    """Return the completions that a shell offers for the last word."""
    done = subprocess.run(
        [sys.executable, "-m", "muster"],
        env={
            **os.environ,
            "_MUSTER_COMPLETE": "bash_complete",
            "COMP_WORDS": f"muster {words}",
            "COMP_CWORD": str(len(words.split(" "))),
            "MUSTER_SERVER": served.urls[0],
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_S,
    )
    return [line.removeprefix("plain,") for line in done.stdout.splitlines()]


def test_names_are_completed(served: Served) -> None:
    # CLIENT-6
    assert completed("get qu", served) == ["queues"]
    assert completed("get queues root.p", served) == ["root.prod"]
    assert completed("why etl/load-", served) == ["etl/load-0", "etl/load-1", "etl/load-2"]
    assert completed("cancel tr", served) == ["train"]
    assert completed("drain n", served) == ["n1"]


def test_names_are_not_completed_without_a_server(tmp_path: Path) -> None:
    # CLIENT-6
    found = run("--help")
    assert found.exit_code == 0
    done = subprocess.run(
        [sys.executable, "-m", "muster"],
        env={
            **os.environ,
            "_MUSTER_COMPLETE": "bash_complete",
            "COMP_WORDS": "muster drain n",
            "COMP_CWORD": "2",
            "MUSTER_SERVER": f"unix:{tmp_path}/none",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_S,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


# CLIENT-10
def test_devices_and_who_holds_them(tmp_path: Path) -> None:
    feed = tmp_path / "devices.yaml"
    feed.write_text(
        """
- {op: add_node, node: g, capacity: {vcore: 4}, devices: {gpu: {count: 3, model: A100}}}
- {op: add_app, app: a, queue: root.dev}
- {op: add_ask, app: a, ask: whole, devices: {gpu: 1}}
- {op: add_ask, app: a, ask: part, devices: {gpu: {milli: 250}}, count: 2}
"""
    )
    with Served(tmp_path) as served:
        at = ("--server", served.urls[0])
        assert run("submit", feed, *at).exit_code == 0
        assert rows("asks", *at) == [
            ["ask", "queue", "place", "priority", "resources", "node", "devices", "reason"],
            ["a/whole", "root.dev", "bound", "0", "device/gpu 1", "g", "gpu 0"],
            ["a/part-0", "root.dev", "bound", "0", "device/gpu 0.25", "g", "250 milli of gpu 1"],
            ["a/part-1", "root.dev", "bound", "0", "device/gpu 0.25", "g", "250 milli of gpu 1"],
        ]
        head, node = rows("nodes", *at)
        assert (head[4], node[4]) == ("devices", "1 of 3 gpu wholly free, 0.5 in parts")
        shown = run("get", "ask", "a/part-1", *at).output
        assert re.search(r"^devices +250 milli of gpu 1$", shown, re.MULTILINE)
        shown = run("get", "node", "g", *at).output
    assert [line.strip() for line in shown[shown.index("devices") :].splitlines()[:4]] == [
        "devices      gpu, model A100: 1 of 3 gpu wholly free, 0.5 in parts",
        "gpu 0: a/whole",
        "gpu 1: a/part-0 (250 milli), a/part-1 (250 milli)",
        "gpu 2: nobody",
    ]
