"""Who can reach a service that runs commands, and who can read what it keeps."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from muster.service.backends.local import LocalOptions
from muster.service.options import ServeOptions
from muster.service.startup_checks import problems_of
from tests.actors.serving.served import PATIENCE_S, Served
from tests.actors.serving.test_listening import refused
from tests.actors.serving.working import QUEUES, as_user, job, node, running_commands, submit

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the options be looked at as by somebody who is not root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def modes(folder: Path) -> dict[str, str]:
    """Give the rights on a folder and on all that is in it."""
    found: dict[str, str] = {}
    for path in [folder, *folder.rglob("*")]:
        with suppress(FileNotFoundError):  # a draft of the service, which is renamed
            mode = stat.S_IMODE(path.stat().st_mode)
            found[str(path.relative_to(folder.parent))] = f"{mode:o}"
    return found


# LOCAL-20: not as root without tokens


@ROOT
@pytest.mark.parametrize("more", [[], ["--trust-local"], ["--listen=unix:s"]])
def test_root_needs_tokens(tmp_path: Path, more: list[str]) -> None:
    told = refused("--run=local", f"--state={tmp_path / 'state'}", *more)

    assert "--run local as root needs --tokens: without them whoever reaches the service" in told
    assert os.listdir(tmp_path) == []


# LOCAL-21: a socket of its own, or a word


@pytest.mark.usefixtures("not_root")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (ServeOptions(listen=("127.0.0.1:0",)), "listen: 127.0.0.1:0: every user of this machine"),
        (
            ServeOptions(listen=("unix:s",), yunikorn_listen="[::1]:0"),
            "listen: [::1]:0: every user of this machine",
        ),
        (
            ServeOptions(listen=("192.0.2.1:0",), trust_local=True),
            "listen: 192.0.2.1:0: others could reach it",
        ),
    ],
)
def test_addresses_that_others_reach(options: ServeOptions, problem: str) -> None:
    named = ServeOptions(
        backend=LocalOptions(),
        listen=options.listen,
        yunikorn_listen=options.yunikorn_listen,
        trust_local=options.trust_local,
    )
    (found,) = problems_of(named)
    assert found.startswith(problem)


@pytest.mark.usefixtures("not_root")
def test_where_it_listens_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (found,) = problems_of(ServeOptions(backend=LocalOptions()))
    assert "listens on a Unix socket in the folder of --state, or in XDG_RUNTIME_DIR" in found

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    without, tokens = ServeOptions(backend=LocalOptions()), Path("tokens")
    within = ServeOptions(backend=LocalOptions(), state=tmp_path / "state")
    trusting = ServeOptions(backend=LocalOptions(), trust_local=True)
    protected = ServeOptions(backend=LocalOptions(), tokens=tokens, trust_submitters=True)
    assert [problems_of(one) for one in (without, within, trusting, protected)] == [[]] * 4
    assert without.listens() == (f"unix:{tmp_path}/muster.sock",)
    assert within.listens() == (f"unix:{tmp_path}/state/muster.sock",)
    assert trusting.listens() == protected.listens() == ServeOptions().listens()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A service that chooses itself where it listens, and keeps a secret."""
    state = tmp_path_factory.mktemp("alone") / "state"
    arguments = ("--run", "local", "--no-node", "--state", str(state))
    before = os.umask(0)
    try:
        served = Served(state.parent, *arguments, config=QUEUES, listen=(), prefix=as_user())
    finally:
        os.umask(before)
    with served:
        yield state, next(line for line in served.lines if "MUSTER_SERVER" in line)


def test_only_its_owner_reaches_the_service(alone: tuple[Path, str]) -> None:
    state, line = alone
    path = state / "muster.sock"
    assert line.endswith(f"commands find it with MUSTER_SERVER=unix:{path}")
    with Served.client_of(f"unix:{path}") as client:
        submit(client, node(), {"op": "add_app", "app": "a", "queue": "root.jobs"})
        submit(client, job("k", "echo $DB_PASSWORD", env={"DB_PASSWORD": "hunter2"}))
    assert set(modes(state).values()) <= {"600", "700"}
    assert modes(state)["state"] == "700"
    assert modes(state)["state/muster.sock"] == "600"
    assert modes(state)["state/muster.db-wal"] == "600"


@ROOT
def test_another_user_is_kept_out(alone: tuple[Path, str]) -> None:
    state, _ = alone
    told = subprocess.run(
        ["cat", str(state / "muster.db-wal")],
        user="nobody",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (told.returncode, told.stdout) == (1, "")
    # Where the folder lets him through, the socket does not.
    connect = "socket.socket(socket.AF_UNIX).connect('/proc/self/fd/3/muster.sock')"
    folder = os.open(state, os.O_RDONLY)
    try:
        os.set_inheritable(folder, True)
        code = f"import os, socket; os.dup2({folder}, 3); os.setuid(65534); {connect}"
        told = subprocess.run(
            [sys.executable, "-c", code],
            pass_fds=[folder],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(folder)
    assert "PermissionError" in told.stderr


def test_a_word_opens_it_to_all_with_a_warning(tmp_path: Path) -> None:
    with running_commands(tmp_path, "--no-node") as served:
        assert httpx.get(f"{served.urls[0]}/readyz", trust_env=False).is_success
    assert any(
        "warning every user of this machine can run commands as" in line for line in served.lines
    )


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120)
    assert f"listen: unix:{path}: path too long: that of a socket has 107 bytes" in refused(
        f"--listen=unix:{path}"
    )


def test_a_relative_socket_is_told_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Served(tmp_path, config=None, listen=("unix:here",)) as served:
        assert served.urls == [f"unix:{tmp_path / 'here'}"]
        command = [sys.executable, "-m", "muster", "get", "nodes", "--server", "unix:here"]
        told = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
        assert told.returncode == 0, told.stderr


# STORE-28: what older versions left open is closed


def test_an_older_state_is_closed_at_the_start(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)):
        pass
    (state / "muster.db.format-1").touch()
    for path in (state, *state.iterdir()):
        path.chmod(0o755)

    with Served(tmp_path, "--state", str(state)) as served:
        found = modes(state)
    told = [line for line in served.lines if "it is only for its owner now" in line]
    assert found.pop("state") == "700"
    assert {int(mode, 8) & 0o077 for mode in found.values()} == {0}
    names = ("", "/configuration.json", "/lock", "/muster.db", "/muster.db.format-1")
    assert [re.findall(f"{state}(\\S*) had mode", line) for line in told] == [
        [one] for one in names
    ]
    assert f"warning {state}/muster.db.format-1 had mode 0755" in "\n".join(told)


def test_a_socket_says_itself_who_may_use_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(state / "muster.sock"))
        (state / "muster.sock").chmod(0o666)
        with Served(tmp_path, "--state", str(state)):
            assert modes(state)["state/muster.sock"] == "666"
