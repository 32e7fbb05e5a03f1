"""Commands of asks run on the machine of the service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.actors.serving.served import Served
from tests.actors.serving.working import (
    APP,
    decisions,
    ends_of,
    job,
    node,
    output,
    patiently,
    running_commands,
    submit,
    until,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for most tests, with a node of many cores, and the application `a`."""
    folder = tmp_path_factory.mktemp("served")
    with running_commands(
        folder,
        *("--state", str(folder / "state"), "--no-node"),
        *("--log-bytes", "20000", "--grace", "0.5s"),
        environment={"MUSTER_TOKEN": "secret", "SEEN": "yes"},
    ) as served:
        submit(served.client, node(1000), APP)
        yield served


def test_exit_codes(served: Served) -> None:
    # LOCAL-1, LOCAL-3
    submit(
        served.client,
        job("fine", "echo done"),
        job("bad", ["sh", "-c", "exit 3"]),
        job("killed", "kill -KILL $$"),
        job("again", 'test "$MUSTER_ATTEMPT" = 3 || exit 5', retries=5),
    )
    for ask in ("fine", "bad", "killed"):
        until(served.client, ask=ask, kind="released")
    found = until(served.client, ask="again", kind="released", reason="completed")

    assert ends_of(found, "fine") == [("completed", None)]
    assert ends_of(found, "bad") == [("failed", "exit status 3")]
    assert ends_of(found, "killed") == [("failed", "killed by signal SIGKILL")]
    assert ends_of(found, "again") == [("failed", "exit status 5")] * 2 + [("completed", None)]


def test_the_environment_of_a_command(served: Served, tmp_path: Path) -> None:
    # LOCAL-4
    workdir = tmp_path / "a folder"
    workdir.mkdir()
    env = {"OWN": "1 2", "MUSTER_APP": "other", "SEEN": "no"}
    submit(served.client, job("env", "env; pwd", env=env, workdir=str(workdir)))
    until(served.client, ask="env", kind="released", reason="completed")
    lines = output(served.client, "env").splitlines()

    assert lines[-1] == str(workdir)
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    wanted = {
        "MUSTER_APP": "a",
        "MUSTER_ASK": "env",
        "MUSTER_NODE": "here",
        "MUSTER_QUEUE": "root.jobs",
        "MUSTER_ATTEMPT": "1",
        "MUSTER_SERVER": served.urls[0],
        "OWN": "1 2",
        "SEEN": "no",
        "PATH": os.environ["PATH"],
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert "MUSTER_TOKEN" not in found


@pytest.mark.parametrize(
    ("ask", "fields", "message"),
    [
        ("missing", {"command": ["no-such-program"]}, "'no-such-program': No such file"),
        ("nowhere", {"command": "true", "workdir": "/no/such"}, "workdir '/no/such': No such file"),
    ],
)
def test_what_cannot_be_started(
    served: Served, ask: str, fields: dict[str, object], message: str
) -> None:
    # LOCAL-3
    submit(served.client, {**job(ask, ""), **fields})
    found = until(served.client, ask=ask, kind="released", reason="removed")

    ends = ends_of(found, ask)
    assert [reason for reason, _ in ends] == ["bind_failed"] * 3 + ["removed"]
    assert message in output(served.client, ask)
    assert {said for _, said in ends[:3]} == {f"{message} or directory"}


def test_an_ask_without_a_command_is_left_to_others(served: Served) -> None:
    # LOCAL-2
    plain = job("plain", "x")
    del plain["command"]
    submit(served.client, plain, job("other", "true"))
    until(served.client, ask="other", kind="released")
    assert ends_of(decisions(served.client), "plain") == []
    submit(served.client, {"op": "release", "app": "a", "ask": "plain", "outcome": "failed"})

    assert ends_of(decisions(served.client), "plain") == [("failed", None)]


def test_output_is_cut_off(served: Served) -> None:
    # LOCAL-5
    submit(served.client, job("long", "yes 123456789 | head -n 9000; echo end >&2"))
    until(served.client, ask="long", kind="released", reason="completed")

    whole = "123456789\n" * 2000
    cut = "\n[muster: cut off here, after 20000 bytes of output]\n"
    assert output(served.client, "long") == whole + cut


def test_what_a_command_leaves_behind_is_ended(served: Served, tmp_path: Path) -> None:
    # LOCAL-9
    left = "sleep 600 & echo $! > {0}/left; exec 1>&- 2>&-; exit 4"
    submit(served.client, job("leaves", left.format(tmp_path)))
    found = until(served.client, ask="leaves", kind="released")

    assert ends_of(found, "leaves") == [("failed", "exit status 4")]
    assert not runs(int((tmp_path / "left").read_text()))


def runs(pid: int) -> bool:
    """Tell whether a process runs; an ended one may still have its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except FileNotFoundError:
        return False


STUBBORN = (
    "trap '' TERM; echo $$ > {0}/pid; echo began;"
    " i=0; while test $i -lt 1200; do sleep 0.1; i=$((i + 1)); done"
)


@pytest.mark.parametrize("way", ["run_for", "remove", "node"])
def test_a_command_is_ended_with_its_allocation(served: Served, tmp_path: Path, way: str) -> None:
    # LOCAL-9: also one that ignores SIGTERM.
    ask, place = f"stubborn-{way}", f"node-{way}"
    limit: dict[str, object] = {"run_for": 5} if way == "run_for" else {}
    submit(
        served.client,
        node(1, place),
        job(ask, STUBBORN.format(tmp_path), node=place, **limit),
    )
    with served.client.stream("GET", until_began(served, ask)) as response:
        lines = response.iter_lines()
        assert next(lines) == "began"
        if way == "remove":
            submit(served.client, {"op": "release", "app": "a", "ask": ask})
        elif way == "node":
            submit(served.client, {"op": "remove_node", "node": place})
        assert list(lines) == []  # the stream ends when the command has ended

    reason = "node_lost" if way == "node" else "completed"
    assert ends_of(decisions(served.client), ask) == [(reason, None)]
    assert not runs(int((tmp_path / "pid").read_text()))


def until_began(served: Served, ask: str) -> str:
    """Wait until an ask has output; give where it can be followed."""
    path = f"/api/v1/asks/a/{ask}/logs"
    until(served.client, ask=ask, kind="bound")
    patiently(lambda: served.client.get(path).text == "began\n")
    return f"{path}?follow=true"


def test_output_of_earlier_starts(served: Served) -> None:
    # LOCAL-10
    submit(served.client, job("twice", "echo $MUSTER_ATTEMPT; exit 1", retries=1))
    until(served.client, 2, ask="twice", kind="released")

    assert [output(served.client, "twice", attempt=number) for number in (1, 2)] == ["1\n", "2\n"]
    assert output(served.client, "twice") == "2\n"
    response = served.client.get("/api/v1/asks/a/twice/logs?attempt=3")
    assert (response.status_code, response.json()["detail"]) == (
        404,
        "attempt: 3: there is output of 1, 2",
    )


def test_output_of_earlier_asks(served: Served) -> None:
    # PAGE-86
    path = "/api/v1/asks/a/once-more/logs"
    submit(served.client, job("once-more", "echo the first"))
    until(served.client, 1, ask="once-more", kind="released")
    assert "Muster-Earlier-Ask" not in served.client.get(path).headers
    submit(served.client, job("once-more", "echo the second", node="to-come"))

    response = served.client.get(path)
    assert response.status_code == 404
    assert "of an earlier ask of this name there is that of 1" in response.json()["detail"]
    assert (response.json()["earlier"], response.json()["may_start"]) == ([1], True)
    page = served.client.get("/asks/a/once-more/output").text
    assert "the first" not in page
    assert '.txt?attempt=1">1</a> (of an earlier ask of this name)' in page
    earlier = served.client.get(f"{path}?attempt=1")
    assert (earlier.text, earlier.headers["Muster-Earlier-Ask"]) == ("the first\n", "true")
    submit(served.client, {"op": "add_node", "node": "to-come", "capacity": {"vcore": 1}})
    until(served.client, 2, ask="once-more", kind="released")
    assert output(served.client, "once-more") == "the second\n"
    page = served.client.get("/asks/a/once-more/output").text
    assert "Start 2:" in page
    response = served.client.get(f"{path}?attempt=3")
    assert response.status_code == 404


def test_there_is_no_output(served: Served) -> None:
    response = served.client.get("/api/v1/asks/a/nobody/logs")

    assert response.status_code == 404
    assert response.json()["detail"].startswith("a/nobody has no output")


def test_an_odd_name(served: Served) -> None:
    # LOCAL-5
    submit(served.client, job("x y%2F\u00e4", "echo odd"))
    until(served.client, ask="x y%2F\u00e4", kind="released", reason="completed")

    assert output(served.client, quote("x y%2F\u00e4")) == "odd\n"
