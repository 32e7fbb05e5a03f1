"""``muster serve --run ray``, with a process that speaks the protocol of the agent.

Its options. No Ray is needed.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from muster.service.backends.local import LocalOptions
from muster.service.backends.ray import RayOptions
from muster.service.options import ServeOptions
from muster.service.startup_checks import problems_of
from tests.actors.serving.served import (
    APP,
    QUEUES,
    Served,
    ServiceThread,
    decisions,
    decisions_until,
    ends_of,
    job,
    output,
    patiently,
    submit,
)

RAY = ServeOptions(backend=RayOptions())
TOKENS = Path("tokens")


def on_ray(**options: object) -> ServeOptions:
    ray = RayOptions(**options)  # type: ignore[arg-type]
    return attrs.evolve(RAY, backend=ray)


# RAY-3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (attrs.evolve(RAY, run_as=(("*", "nobody"),)), "--run-as needs --run local: on a node of"),
        (attrs.evolve(RAY, tokens=TOKENS), "--run ray with --tokens runs commands of submitters"),
        (
            attrs.evolve(RAY, tokens=TOKENS, run_as=(("*", "nobody"),)),
            "--run-as needs --run local: on a node of",
        ),
        (on_ray(detached=True), "--ray-detached needs --state"),
        (on_ray(address="ray://head:10001"), "--ray-address: ray://head:10001: must be HOST:PORT"),
        (on_ray(output=Path("out")), "--ray-output: out: must begin at /"),
        (attrs.evolve(RAY, unused=(LocalOptions(end_jobs=True),)), "--end-jobs needs --run local"),
        (attrs.evolve(RAY, unused=(LocalOptions(adds_node=False),)), "--no-node needs --run local"),
        (attrs.evolve(RAY, unused=(LocalOptions(log_bytes=7),)), "--log-bytes needs --run local"),
        (ServeOptions(trust_submitters=True), "--trust-submitters needs --run local, ray or slurm"),
        (ServeOptions(unused=(LocalOptions(end_jobs=True),)), "--end-jobs needs --run local"),
    ],
)
def test_what_makes_no_sense(options: ServeOptions, problem: str) -> None:
    (found,) = problems_of(options)
    assert found.startswith(problem)


@pytest.mark.parametrize("run", ["none", "local"])
@pytest.mark.parametrize(
    "argument",
    [
        ("--ray-address", "head:6379"),
        ("--ray-namespace", "ours"),
        ("--ray-python", "python3"),
        ("--ray-node-name", "name"),
        ("--ray-select", "muster=yes"),
        ("--ray-warm", "1"),
        ("--ray-detached",),
        ("--no-ray-detached",),
        ("--ray-output", "/out"),
    ],
)
def test_what_is_only_for_ray(run: str, argument: tuple[str, ...]) -> None:
    name = argument[0].replace("--no-ray", "--ray")
    tokens = ("--tokens", "tokens", "--trust-submitters") if run == "local" else ()
    assert serve("--run", run, *tokens, *argument) == (
        2,
        f"{name} needs --run ray: with --run {run} it means nothing\n",
    )


@pytest.mark.parametrize(
    "options",
    [
        RAY,
        attrs.evolve(RAY, tokens=TOKENS, trust_submitters=True),
        attrs.evolve(on_ray(detached=True), state=Path("state")),
        on_ray(detached=False, address="head:6379", namespace="ours", select=(("muster", "yes"),)),
        on_ray(output=Path("/out"), warm=2, python=Path("python3"), node_name="name", grace_s=1.0),
    ],
)
def test_what_makes_sense(options: ServeOptions) -> None:
    assert problems_of(options) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--ray-select", "muster"), "'muster': must be LABEL=VALUE"),
        (("--ray-select", "=yes"), "'=yes': must be LABEL=VALUE"),
        (("--ray-select", "muster="), "'muster=': must be LABEL=VALUE"),
        (("--ray-select", "a=b", "--ray-select", "a=c"), "'a=c': the label a is there twice"),
        (("--ray-warm", "-1"), "-1 is not in the range"),
        (("--run", "slurry"), "'slurry' is not one of"),
    ],
)
def test_arguments_that_are_wrong(arguments: tuple[str, ...], problem: str) -> None:
    status, message = serve("--run", "ray", *arguments)
    assert status == 2
    assert problem in message


def serve(*arguments: str) -> tuple[int, str]:
    """Run a service that does not start; return its exit status and its output."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", "serve", "--listen=127.0.0.1:0", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


AGENT = Path(__file__).with_name("ray_agent.py")

NODE = {"id": "n1", "labels": {"name": "here"}, "resources": {"CPU": 8.0}, "draining": False}


@pytest.fixture
def ray(tmp_path: Path) -> Path:
    """Return the folder with the files that control the replacement of Ray."""
    return make_ray(tmp_path)


def make_ray(folder: Path) -> Path:
    made = folder / "ray"
    made.mkdir()
    (made / "nodes.json").write_text(json.dumps([NODE]))
    script = made / "python"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {AGENT} {made}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return made


def options(ray: Path, *more: str) -> tuple[str, ...]:
    names = ("--ray-address", "head:6379", "--ray-node-name", "name")
    return ("--run", "ray", "--ray-python", str(ray / "python"), *names, *more)


def agents(ray: Path) -> list[int]:
    """Return the processes that have spoken as the agent, the latest last."""
    return [int(path.read_text() or "0") for path in sorted(ray.glob("*.agent"))]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for the tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("served")
    ray = make_ray(folder)
    (ray / "out").mkdir()
    more = ("--ray-output", str(ray / "out"), "--ray-namespace", "ours")
    with Served(folder, *options(ray, *more), config=QUEUES) as served:
        submit(served.client, APP)
        patiently(lambda: len(served.client.get("/api/v1/nodes").json()["items"]) == 1)
        assert json.loads((ray / "connect.json").read_text())["namespace"] == "ours"
        yield served


def test_exit_codes(served: Served) -> None:
    # RAY-1, RAY-2
    submit(
        served.client,
        job("fine", ["echo", "done"]),
        job("bad", "exit 3", retries=1),
        job("killed", "kill -KILL $$"),
        job("missing", ["no-such-program"]),
    )
    decisions_until(served.client, ask="fine", kind="released")
    decisions_until(served.client, ask="killed", kind="released")
    decisions_until(served.client, ask="missing", kind="released", reason="removed")
    decisions_until(served.client, 2, ask="bad", kind="released")
    found = decisions(served.client)

    assert ends_of(found, "fine") == [("completed", None)]
    assert ends_of(found, "bad") == [("failed", "exit status 3")] * 2
    assert ends_of(found, "killed") == [("failed", "killed by signal SIGKILL")]
    missing = ends_of(found, "missing")
    assert [reason for reason, _ in missing] == ["bind_failed"] * 3 + ["removed"]
    assert {message for _, message in missing[:3]} == {
        "FileNotFoundError: [Errno 2] No such file or directory: 'no-such-program'"
    }


def test_a_command_that_never_started_has_no_output(served: Served) -> None:
    # RAY-4
    submit(served.client, job("nothing", ["no-such-program"], resources={"vcore": 1}))
    decisions_until(served.client, ask="nothing", kind="released", reason="removed")
    (folder_of(served) / "a+nothing.log").unlink()

    failed = "its last start, on the node here, failed: FileNotFoundError: [Errno 2] No such file"
    detail = served.client.get("/api/v1/asks/a/nothing/logs").json()["detail"]
    assert detail.startswith(f"the command of a/nothing has not started; {failed}")
    over = served.client.get("/api/v1/asks/a/nothing/why").json()["item"]
    assert (over["place"], over["outcome"]) == ("ended", "failed")
    assert over["message"].startswith("FileNotFoundError: [Errno 2] No such file")


def test_a_folder_for_output_that_is_not_on_the_node(tmp_path: Path, ray: Path) -> None:
    # RAY-4
    out = tmp_path / "nowhere"
    with Served(tmp_path, *options(ray, "--ray-output", str(out)), config=QUEUES) as served:
        submit(served.client, APP, job("k", "true"))
        found = decisions_until(served.client, ask="k", kind="released", reason="removed")
        detail = served.client.get("/api/v1/asks/a/k/logs").json()["detail"]

    missing = f"--ray-output: there is no folder {out} on the node here"
    assert ends_of(found, "k")[0] == ("bind_failed", missing)
    assert detail.endswith(f"has not started; its last start, on the node here, failed: {missing}")


def test_an_ask_without_a_command_is_left_to_others(served: Served) -> None:
    # RAY-1
    plain = job("plain", "x")
    del plain["command"]
    submit(served.client, plain)
    decisions_until(served.client, ask="plain", kind="bound")
    submit(served.client, {"op": "release", "app": "a", "ask": "plain", "outcome": "failed"})

    assert ends_of(decisions(served.client), "plain") == [("failed", None)]


def test_a_command_ends_with_its_allocation(served: Served) -> None:
    # RAY-9
    submit(served.client, job("endless", "sleep 600"))
    decisions_until(served.client, ask="endless", kind="bound")
    submit(served.client, {"op": "release", "app": "a", "ask": "endless"})

    assert ends_of(decisions(served.client), "endless") == [("completed", None)]


def test_the_nodes_are_those_of_ray(served: Served) -> None:
    # RAY-8
    (node,) = served.client.get("/api/v1/nodes").json()["items"]

    assert (node["node"], node["capacity"]) == ("here", {"vcore": 8000})
    assert node["attributes"] == {"name": "here", "ray.io/node-id": "n1"}


# RAY-4


def test_output_in_a_file_that_the_service_has(served: Served) -> None:
    submit(served.client, job("two words", "echo one; echo two >&2; exit 1", retries=1))
    found = decisions_until(served.client, 2, ask="two words", kind="released")

    assert ends_of(found, "two words") == [("failed", "exit status 1")] * 2
    assert output(served.client, "two words") == "one\ntwo\n" * 2
    assert output(served.client, "two words", attempt=1, follow="true") == "one\ntwo\n" * 2
    answer = served.client.get("/api/v1/asks/a/two words/logs", params={"attempt": 2})
    assert answer.status_code == 404
    assert "all starts of an ask write to one file" in answer.json()["detail"]


def test_output_is_followed_until_the_command_has_ended(served: Served, tmp_path: Path) -> None:
    command = "echo one; until test -f {0}/go; do sleep 0.05; done; echo two"
    submit(served.client, job("long", command.format(tmp_path)))
    decisions_until(served.client, ask="long", kind="bound")
    path = "/api/v1/asks/a/long/logs"
    patiently(lambda: served.client.get(path).text == "one\n")  # it begins after it is bound
    with served.client.stream("GET", f"{path}?follow=true") as response:
        lines = response.iter_lines()
        assert next(lines) == "one"
        (tmp_path / "go").touch()
        assert list(lines) == ["two"]


def test_output_on_another_machine(served: Served) -> None:
    submit(served.client, job("x" * 250, "rm {0}; sleep 600"), job("gone", "true"))
    decisions_until(served.client, ask="gone", kind="released")
    (file,) = folder_of(served).glob("a+gone.log")
    file.unlink()

    answer = served.client.get("/api/v1/asks/a/gone/logs")
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        f"what the command of a/gone has written is on the node here, in {file}"
    )
    answer = served.client.get("/api/v1/asks/a/unknown/logs")
    assert "is on the node where it ran, in " in answer.json()["detail"]


def folder_of(served: Served) -> Path:
    arguments = [str(one) for one in served.process.args]  # type: ignore[union-attr]
    return Path(arguments[arguments.index("--ray-output") + 1])


def test_output_among_the_logs_of_ray(tmp_path: Path, ray: Path) -> None:
    with Served(tmp_path, *options(ray), config=QUEUES) as served:
        submit(served.client, APP, job("k", "true"))
        decisions_until(served.client, ask="k", kind="released")
        detail = served.client.get("/api/v1/asks/a/k/logs").json()["detail"]

    assert "of a/k has written is on the node here, among Ray's logs of its workers" in detail
    assert "--ray-output" in detail


# RAY-6, RAY-7


@pytest.mark.parametrize("kept", [True, False])
def test_ray_must_be_there_at_the_first_start(tmp_path: Path, ray: Path, kept: bool) -> None:
    (ray / "away").touch()
    state = ("--state", str(tmp_path / "state")) if kept else ()
    for _ in range(2):
        status, message = serve(*options(ray), *state)
        assert status == 2
        assert "--run ray: there is no Ray at the address 'head:6379': nobody answers" in message
        assert "Traceback" not in message


def test_ray_is_not_installed(ray: Path) -> None:
    (ray / "no-ray").touch()
    status, message = serve(*options(ray))
    assert status == 2
    assert f"--run ray: {ray / 'python'} cannot import ray" in message
    assert "Traceback" not in message


def test_no_such_python(ray: Path) -> None:
    (ray / "python").unlink()
    status, message = serve(*options(ray))
    assert status == 2
    assert f"'{ray / 'python'}' cannot be started" in message


def test_ray_may_be_away_at_a_later_start(tmp_path: Path, ray: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--no-ray-detached", "--grace", "0s")
    with Served(tmp_path, *options(ray, *state), config=QUEUES) as served:
        submit(served.client, APP)
        patiently(lambda: len(served.client.get("/api/v1/nodes").json()["items"]) == 1)
    (ray / "away").touch()
    with Served(tmp_path, *options(ray, *state), config=QUEUES) as served:
        submit(served.client, job("k", "true"))
        patiently(lambda: "nobody answers" in health_of(served).get("detail", ""))
        assert not health_of(served)["connected"]
        assert "muster_ray_connected 0.0" in served.client.get("/metrics").text
        (ray / "away").unlink()
        found = decisions_until(served.client, ask="k", kind="released")
        assert health_of(served) == {"connected": True, "restarts": 0}

    assert ends_of(found, "k") == [("completed", None)]


def test_nodes_go_when_ray_does_not_come(tmp_path: Path, ray: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, *options(ray, "--state", str(state)), config=QUEUES) as served:
        submit(served.client, APP, {"op": "add_node", "node": "other", "capacity": {"vcore": 1}})
        patiently(lambda: len(served.client.get("/api/v1/nodes").json()["items"]) == 2)
    (ray / "away").touch()
    ours = RayOptions(python=ray / "python", node_name="name", patience_s=0.1)
    with ServiceThread(state, backend=ours) as service:
        patiently(lambda: [one["node"] for one in service.all("/api/v1/nodes")] == ["other"])
        (ray / "away").unlink()
        patiently(lambda: len(service.all("/api/v1/nodes")) == 2)


def test_the_service_outlives_its_agent(tmp_path: Path, ray: Path) -> None:
    with Served(tmp_path, *options(ray, "--grace", "1s"), config=QUEUES) as served:
        submit(served.client, APP, job("k", f"until test -f {ray}/go; do sleep 0.05; done"))
        decisions_until(served.client, ask="k", kind="bound")
        (agent,) = agents(ray)
        os.kill(agent, signal.SIGKILL)
        patiently(lambda: health_of(served) == {"connected": True, "restarts": 1})
        metrics = served.client.get("/metrics").text
        (ray / "go").touch()
        decisions_until(served.client, ask="k", kind="released", reason="completed")

    assert "muster_ray_connected 1.0" in metrics
    assert "muster_ray_restarts_total 1.0" in metrics


def health_of(served: Served) -> dict[str, Any]:
    answer = served.client.get("/healthz")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()["ray"]
    return found
