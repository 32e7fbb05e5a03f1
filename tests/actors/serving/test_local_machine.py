"""This machine as a node: its GPUs become devices, and commands run as users."""

from __future__ import annotations

import json
import logging
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from muster.service.access import Role
from muster.service.local.binder import RunAsError, identities
from muster.service.local.machine import Gpus, find_gpus, variables
from muster_core.values.devices import DeviceStock
from tests.actors.serving.served import (
    APP,
    PATIENCE_S,
    QUEUES,
    Served,
    decisions_until,
    ends_of,
    job,
    node,
    output,
    patiently,
    running_commands,
    submit,
)
from tests.actors.serving.test_access import SECRETS, line_of

TWO = "echo 'NVIDIA A100-SXM4-40GB, 40960'; echo 'NVIDIA A100-SXM4-40GB, 40960'"
A100 = {"model": "NVIDIA A100-SXM4-40GB", "free": [1000, 1000]}
CARDS = {
    "card10": {"Card Series": "AMD Instinct MI210", "VRAM Total Memory (B)": "68702699520"},
    "card2": {"Card series": "Instinct MI210", "VRAM Total Memory (B)": "68702699520"},
    "system": {"Driver version": "6.7.0"},
}

# Says what it has, and waits for a file, for two minutes at most.
WAITS = (
    "env | grep -E '^(MUSTER_DEVICES|CUDA|HIP|ROCR)' | sort; echo began;"
    " i=0; until test -f {0}/go || test $i = 2400; do sleep 0.05; i=$((i + 1)); done"
)


def tool(folder: Path, name: str, script: str) -> str:
    """Write a tool that answers as that of a vendor does; give a PATH that begins with it."""
    (folder / "bin").mkdir(exist_ok=True)
    made = folder / "bin" / name
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    return f"{folder / 'bin'}:/usr/bin:/bin"


def serving(folder: Path, *arguments: str, path: str, **environment: str) -> Served:
    return running_commands(
        folder,
        *("--state", str(folder / "state"), *arguments),
        environment={"PATH": path, "CUDA_VISIBLE_DEVICES": "7", **environment},
    )


def devices(served: Served) -> dict[str, Any]:
    """Return the devices of the one node."""
    (node,) = served.client.get("/api/v1/nodes").json()["items"]
    assert node["node"] == socket.gethostname()
    found: dict[str, Any] = node["devices"]
    return found


def asking(ask: str, command: str, needs: object) -> dict[str, object]:
    """Return the event of an ask that needs GPUs, and nearly nothing else."""
    event = job(ask, command, resources={"vcore": "10m"})
    return event if needs is None else {**event, "devices": {"gpu": needs}}


def variables_of(served: Served, ask: str) -> dict[str, str]:
    """Return the variables of a command that has written them."""
    decisions_until(served.client, ask=ask, kind="bound")
    patiently(lambda: "began" in served.client.get(f"/api/v1/asks/a/{ask}/logs").text)
    lines = output(served.client, ask).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def nvidia(numbers: str) -> dict[str, str]:
    return {
        "MUSTER_DEVICES": numbers,
        "MUSTER_DEVICES_GPU": numbers,
        "CUDA_VISIBLE_DEVICES": numbers,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_two_jobs_get_different_gpus(tmp_path: Path) -> None:
    # LOCAL-13, LOCAL-14
    path = tool(tmp_path, "nvidia-smi", TWO)
    waits = WAITS.format(tmp_path)
    with serving(tmp_path, path=path) as served:
        assert any("gpu 2 (2 NVIDIA A100-SXM4-40GB with 40,960 MiB)" in one for one in served.lines)
        assert devices(served) == {"gpu": A100}
        own = {"CUDA_VISIBLE_DEVICES": "0,1", "MUSTER_DEVICES": "8"}
        submit(served.client, APP, asking("none", waits, None) | {"env": own})
        submit(served.client, *({**asking(ask, waits, 1), "env": own} for ask in ("k0", "k1")))
        submit(served.client, asking("k2", waits, 1))
        assert variables_of(served, "k0") == nvidia("0")
        assert variables_of(served, "k1") == nvidia("1")
        assert variables_of(served, "none") == nvidia("")
        served.kill()
    # What runs keeps its GPU over a restart, so what is submitted then waits; the tool is gone.
    with serving(tmp_path, path="/usr/bin:/bin") as served:
        assert devices(served) == {"gpu": {**A100, "free": [0, 0]}}
        (tmp_path / "go").touch()
        decisions_until(served.client, ask="k2", kind="released", reason="completed")
        assert variables_of(served, "k2")["CUDA_VISIBLE_DEVICES"] in {"0", "1"}
    records = {
        ask: json.loads((tmp_path / "state" / "logs" / "a" / ask / "1.json").read_text())
        for ask in ("k0", "k1", "none")
    }
    assert {ask: record["devices"] for ask, record in records.items()} == {
        "k0": {"gpu": [0]},
        "k1": {"gpu": [1]},
        "none": {},
    }


def test_shares_of_one_gpu(tmp_path: Path) -> None:
    # LOCAL-14
    with serving(tmp_path, path=tool(tmp_path, "nvidia-smi", TWO)) as served:
        (tmp_path / "go").touch()
        waits = WAITS.format(tmp_path)
        needs = {"milli": 400, "models": [A100["model"]]}
        submit(served.client, APP, asking("k", waits, needs), asking("both", waits, 2))
        assert variables_of(served, "k") == nvidia("0")
        assert variables_of(served, "both") == nvidia("0,1")


def test_gpus_given_by_hand(tmp_path: Path) -> None:
    # LOCAL-13: the tool is not even asked.
    path = tool(tmp_path, "nvidia-smi", f"touch {tmp_path}/asked; {TWO}")
    with serving(tmp_path, "--gpus", "3", path=path) as served:
        assert devices(served) == {"gpu": {"model": None, "free": [1000] * 3}}
        assert any("gpu 3 (3 GPU)" in line for line in served.lines)
    with serving(tmp_path, "--gpus", "2", path=path) as served:
        assert any("has 3, and update_node changes it" in line for line in served.lines)
    assert not (tmp_path / "asked").exists()


def test_no_gpus_by_hand(tmp_path: Path) -> None:
    # LOCAL-13, LOCAL-14: nothing is set on a node without devices.
    (tmp_path / "go").touch()
    with serving(tmp_path, "--gpus", "0", path=tool(tmp_path, "nvidia-smi", TWO)) as served:
        assert devices(served) == {}
        submit(served.client, APP, asking("k", WAITS.format(tmp_path), None))
        assert variables_of(served, "k") == {"CUDA_VISIBLE_DEVICES": "7"}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'could not communicate with the driver'; exit 9", "exit status 9: could not comm"),
        ("exit 4", "exit status 4: it says nothing"),
        ("echo No devices were found", "not a name and a memory: 'No devices were found'"),
    ],
)
def test_a_broken_tool(tmp_path: Path, script: str, why: str) -> None:
    # LOCAL-13
    with serving(tmp_path, path=tool(tmp_path, "nvidia-smi", script)) as served:
        assert devices(served) == {}
        (line,) = [line for line in served.lines if "nvidia-smi" in line]
        assert " warning " in line
        assert why in line


async def test_a_tool_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # LOCAL-13: it is given up, though what it started goes on to hold its output.
    path = tool(tmp_path, "nvidia-smi", f"sleep 100 & echo $! > {tmp_path}/pid; wait")
    monkeypatch.setenv("PATH", path)
    with trio.fail_after(PATIENCE_S):
        assert await find_gpus(0.5) == Gpus()
    os.kill(int((tmp_path / "pid").read_text()), 9)

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("none from it: it did not answer within 0.5 s")


@pytest.mark.parametrize(
    ("program", "script", "field"),
    [
        ("nvidia-smi", "echo 'Orin (nvgpu), [N/A]'", {"count": 1, "model": "Orin (nvgpu)"}),
        ("nvidia-smi", "echo T4, 15360; echo 'L4, 23034'", 2),
        ("nvidia-smi", "for i in $(seq 70); do echo T4, 15360; done", {"count": 64, "model": "T4"}),
        ("nvidia-smi", "true", None),
        ("rocm-smi", "true", None),
        ("rocm-smi", "echo '{}'", None),
        ("rocm-smi", "echo nothing", None),
        ("rocm-smi", "echo '{\"card0\": {}}'", {"count": 1, "model": "AMD"}),
        (
            "rocm-smi",
            f"echo 'WARNING: low-power state'; echo; echo '{json.dumps(CARDS)}'",
            {"count": 2, "model": "AMD Instinct MI210"},
        ),
        ("rocm-smi", "chmod -x $0; exec $0", None),
    ],
)
async def test_what_tools_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, script: str, field: object
) -> None:
    # LOCAL-13
    monkeypatch.setenv("PATH", tool(tmp_path, program, script))

    assert (await find_gpus()).devices == ({} if field is None else {"gpu": field})


async def test_gpus_of_two_vendors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # LOCAL-13
    tool(tmp_path, "nvidia-smi", "echo T4, 15360")
    monkeypatch.setenv("PATH", tool(tmp_path, "rocm-smi", f"echo '{json.dumps(CARDS)}'"))

    assert (await find_gpus()).devices == {"gpu": {"count": 1, "model": "T4"}}
    assert "only those that nvidia-smi tells of are devices" in caplog.text


AMD = {
    "MUSTER_DEVICES": "1,3",
    "MUSTER_DEVICES_GPU": "1,3",
    "ROCR_VISIBLE_DEVICES": "1,3",
    "HIP_VISIBLE_DEVICES": "0,1",
    "CUDA_VISIBLE_DEVICES": "0,1",
}


@pytest.mark.parametrize(
    ("tools", "model", "wanted"),
    [
        ([], "AMD Instinct MI210", AMD),
        (["nvidia-smi", "rocm-smi"], "amd mi210", AMD),
        (["rocm-smi"], None, AMD),
        (["rocm-smi"], "MI210", AMD),
        ([], None, nvidia("1,3")),
        (["nvidia-smi", "rocm-smi"], "A100", nvidia("1,3")),
    ],
)
def test_variables_of_each_vendor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tools: list[str],
    model: str | None,
    wanted: dict[str, str],
) -> None:
    # LOCAL-14
    for name in tools:
        tool(tmp_path, name, "true")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    there = {"gpu": DeviceStock(4, model)}

    assert variables({"gpu": (1, 3)}, there) == wanted
    assert variables({}, there) == wanted | {
        name: "" for name in wanted if name != "CUDA_DEVICE_ORDER"
    }


def test_devices_of_an_added_node(tmp_path: Path) -> None:
    # LOCAL-14
    with serving(tmp_path, "--no-node", path=tool(tmp_path, "nvidia-smi", TWO)) as served:
        (tmp_path / "go").touch()
        there = {"gpu": 4, "smart-nic": 2}
        node = {"op": "add_node", "node": "n", "capacity": {"vcore": 8}, "devices": there}
        ask = asking("k", WAITS.format(tmp_path), 2)
        submit(served.client, node, APP, ask | {"devices": {"gpu": 2, "smart-nic": 1}})

        assert variables_of(served, "k") == nvidia("0,1") | {
            "MUSTER_DEVICES": "0,1,0",
            "MUSTER_DEVICES_SMART_NIC": "0",
        }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--run", "none", "--gpus", "0"), "--gpus needs --run local: with --run none it means"),
        (("--run", "ray", "--gpus", "2"), "--gpus needs --run local: with --run ray it means"),
        (("--run", "none", "--no-cgroups"), "--no-cgroups needs --run local: with --run none it"),
        (("--run", "local", "--no-node", "--gpus", "2"), "--gpus is about the node that --no-node"),
        (("--run", "local", "--gpus", "65"), "65 is not in the range 0<=x<=64"),
    ],
)
def test_options_that_are_refused(arguments: tuple[str, ...], message: str) -> None:
    # LOCAL-13
    command = [sys.executable, "-m", "muster", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    if os.geteuid() != 0:
        pytest.skip("only root may run commands as other users")
    users = ("--run-as", "sue=nobody", "--run-as", "bob=root")
    tokens = folder / "tokens"
    tokens.write_text(line_of(Role.ADMIN, SECRETS[Role.ADMIN]))
    arguments = ("--run", "local", "--no-node", *users, "--tokens", str(tokens))
    with Served(folder, *arguments, config=QUEUES, environment={"SECRET": "x"}) as served:
        served.client.headers["Authorization"] = f"Bearer {SECRETS[Role.ADMIN]}"
        submit(served.client, node(100))
        yield served


def app(name: str) -> dict[str, object]:
    return {"op": "add_app", "app": name, "queue": "root.jobs", "user": name}


def of(name: str, command: str) -> dict[str, object]:
    return {**job("k", command), "app": name}


def lines_of(served: Served, name: str) -> list[str]:
    return served.client.get(f"/api/v1/asks/{name}/k/logs").text.splitlines()


# LOCAL-12


def test_each_submitter_has_a_user(served: Served) -> None:
    commands = "id -un; id -Gn; pwd; echo $HOME; echo ${SECRET-none}"
    submit(served.client, app("sue"), of("sue", commands), app("bob"), of("bob", commands))
    for name in ("sue", "bob"):
        decisions_until(served.client, app=name, kind="released", reason="completed")

    nobody = pwd.getpwnam("nobody")
    begins = nobody.pw_dir if Path(nobody.pw_dir).is_dir() else "/"
    sues, bobs = lines_of(served, "sue"), lines_of(served, "bob")
    assert (sues[0], sues[2:]) == ("nobody", [begins, nobody.pw_dir, "none"])
    assert "root" not in sues[1].split()
    assert (bobs[0], bobs[4]) == ("root", "x")  # bob's is the user of the service


def test_a_submitter_without_a_user(served: Served) -> None:
    submit(served.client, app("eve"), of("eve", "echo no"))
    found = decisions_until(served.client, app="eve", kind="released", reason="removed")

    eves = [one for one in found if one.get("app") == "eve"]
    assert [reason for reason, _ in ends_of(eves, "k")] == ["bind_failed"] * 3 + ["removed"]
    assert served.client.get("/api/v1/asks/eve/k/logs").status_code == 404


def test_a_command_cannot_go_where_its_user_cannot(served: Served, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    event = {**of("sue", "pwd"), "ask": "closed", "workdir": str(tmp_path / "closed")}
    submit(served.client, {**app("sue"), "app": "sue-2"}, {**event, "app": "sue-2"})
    decisions_until(served.client, app="sue-2", kind="released", reason="removed")

    log = served.client.get("/api/v1/asks/sue-2/closed/logs").text
    assert "the command cannot be started: workdir" in log
    assert "Permission denied" in log


def test_a_user_that_is_none() -> None:
    with pytest.raises(RunAsError, match="no-such-user: there is no such user on this machine"):
        identities((("*", "no-such-user"),))


def nobody(_uid: int) -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def test_only_root_can_become_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    own = pwd.getpwall()[0].pw_uid + 4000
    monkeypatch.setattr(os, "geteuid", lambda: own)
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    with pytest.raises(RunAsError, match="only root can run commands as another user"):
        identities((("*", "root"),))


# LOCAL-11


def nodes(served: Served) -> dict[str, dict[str, int]]:
    response = served.client.get("/api/v1/nodes")
    return {one["node"]: one["capacity"] for one in response.json()["items"]}


def test_this_machine_becomes_a_node_once(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with running_commands(tmp_path, *state) as served:
        ((name, capacity),) = nodes(served).items()
        submit(served.client, {"op": "add_app", "app": "a", "queue": "root.jobs"}, job("k", "id"))
        decisions_until(served.client, ask="k", kind="released", reason="completed")
        assert output(served.client, "k")
        submit(served.client, {"op": "remove_node", "node": name})
    assert name == socket.gethostname()
    assert capacity["vcore"] >= 1
    assert capacity["memory"] > 2**20
    with running_commands(tmp_path, *state) as served:
        assert nodes(served) == {}


def test_without_a_node_of_its_own(tmp_path: Path) -> None:
    with running_commands(tmp_path, "--no-node") as served:
        assert nodes(served) == {}
