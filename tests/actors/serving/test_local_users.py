"""As which users commands run, and this machine as a node."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service.access import Role
from muster.service.local.binder import RunAsError, identities
from tests.actors.serving.served import Served
from tests.actors.serving.test_tokens import SECRETS, line_of
from tests.actors.serving.working import (
    QUEUES,
    ends_of,
    job,
    node,
    output,
    running_commands,
    submit,
    until,
)


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


def said(served: Served, name: str) -> list[str]:
    return served.client.get(f"/api/v1/asks/{name}/k/logs").text.splitlines()


# LOCAL-12


def test_each_submitter_has_a_user(served: Served) -> None:
    told = "id -un; id -Gn; pwd; echo $HOME; echo ${SECRET-none}"
    submit(served.client, app("sue"), of("sue", told), app("bob"), of("bob", told))
    for name in ("sue", "bob"):
        until(served.client, app=name, kind="released", reason="completed")

    nobody = pwd.getpwnam("nobody")
    begins = nobody.pw_dir if Path(nobody.pw_dir).is_dir() else "/"
    sues, bobs = said(served, "sue"), said(served, "bob")
    assert (sues[0], sues[2:]) == ("nobody", [begins, nobody.pw_dir, "none"])
    assert "root" not in sues[1].split()
    assert (bobs[0], bobs[4]) == ("root", "x")  # bob's is the user of the service


def test_a_submitter_without_a_user(served: Served) -> None:
    submit(served.client, app("eve"), of("eve", "echo no"))
    found = until(served.client, app="eve", kind="released", reason="removed")

    eves = [one for one in found if one.get("app") == "eve"]
    assert [reason for reason, _ in ends_of(eves, "k")] == ["bind_failed"] * 3 + ["removed"]
    assert served.client.get("/api/v1/asks/eve/k/logs").status_code == 404


def test_a_command_cannot_go_where_its_user_cannot(served: Served, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    event = {**of("sue", "pwd"), "ask": "closed", "workdir": str(tmp_path / "closed")}
    submit(served.client, {**app("sue"), "app": "sue-2"}, {**event, "app": "sue-2"})
    until(served.client, app="sue-2", kind="released", reason="removed")

    told = served.client.get("/api/v1/asks/sue-2/closed/logs").text
    assert "the command cannot be started: workdir" in told
    assert "Permission denied" in told


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
        until(served.client, ask="k", kind="released", reason="completed")
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
