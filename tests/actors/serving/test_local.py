"""Commands of asks run on the machine of the service.

Their output, and who can reach the service and read what it keeps.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given, strategies as st

from muster.service.backends.local import LocalOptions
from muster.service.local.jobs import OutputFiles, folder_name
from muster.service.options import ServeOptions
from muster.service.startup_checks import problems_of
from tests.actors.serving.served import (
    APP,
    PATIENCE_S,
    QUEUES,
    Served,
    as_user,
    decisions,
    decisions_until,
    ends_of,
    job,
    node,
    output,
    patiently,
    running_commands,
    submit,
)
from tests.actors.serving.test_listening import refused


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
        decisions_until(served.client, ask=ask, kind="released")
    found = decisions_until(served.client, ask="again", kind="released", reason="completed")

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
    decisions_until(served.client, ask="env", kind="released", reason="completed")
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
    found = decisions_until(served.client, ask=ask, kind="released", reason="removed")

    ends = ends_of(found, ask)
    assert [reason for reason, _ in ends] == ["bind_failed"] * 3 + ["removed"]
    assert message in output(served.client, ask)
    assert {problem for _, problem in ends[:3]} == {f"{message} or directory"}


def test_an_ask_without_a_command_is_left_to_others(served: Served) -> None:
    # LOCAL-2
    plain = job("plain", "x")
    del plain["command"]
    submit(served.client, plain, job("other", "true"))
    decisions_until(served.client, ask="other", kind="released")
    assert ends_of(decisions(served.client), "plain") == []
    submit(served.client, {"op": "release", "app": "a", "ask": "plain", "outcome": "failed"})

    assert ends_of(decisions(served.client), "plain") == [("failed", None)]


def test_output_is_cut_off(served: Served) -> None:
    # LOCAL-5
    submit(served.client, job("long", "yes 123456789 | head -n 9000; echo end >&2"))
    decisions_until(served.client, ask="long", kind="released", reason="completed")

    whole = "123456789\n" * 2000
    cut = "\n[muster: cut off here, after 20000 bytes of output]\n"
    assert output(served.client, "long") == whole + cut


def test_what_a_command_leaves_behind_is_ended(served: Served, tmp_path: Path) -> None:
    # LOCAL-9
    left = "sleep 600 & echo $! > {0}/left; exec 1>&- 2>&-; exit 4"
    submit(served.client, job("leaves", left.format(tmp_path)))
    found = decisions_until(served.client, ask="leaves", kind="released")

    assert ends_of(found, "leaves") == [("failed", "exit status 4")]
    assert not runs(int((tmp_path / "left").read_text()))


def runs(pid: int) -> bool:
    """Return whether a process runs; an ended one may still have its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


STUBBORN = (
    "trap '' TERM; echo $$ > {0}/pid; echo began;"
    " i=0; while test $i -lt 1200; do sleep 0.1; i=$((i + 1)); done"
)


@pytest.mark.parametrize("way", ["run_for", "run_limit", "remove", "node"])
def test_a_command_is_ended_with_its_allocation(served: Served, tmp_path: Path, way: str) -> None:
    # LOCAL-9: also one that ignores SIGTERM.
    # TIME-3: also at its run limit.
    ask, place = f"stubborn-{way}", f"node-{way}"
    limit: dict[str, object] = {way: 5} if way.startswith("run_") else {}
    submit(
        served.client,
        node(1, place),
        job(ask, STUBBORN.format(tmp_path), node=place, **limit),
    )
    with served.client.stream("GET", wait_until_began(served, ask)) as response:
        lines = response.iter_lines()
        assert next(lines) == "began"
        if way == "remove":
            submit(served.client, {"op": "release", "app": "a", "ask": ask})
        elif way == "node":
            submit(served.client, {"op": "remove_node", "node": place})
        assert list(lines) == []  # the stream ends when the command has ended

    reason = {"node": "node_lost", "run_limit": "run_limit"}.get(way, "completed")
    assert ends_of(decisions(served.client), ask) == [(reason, None)]
    assert not runs(int((tmp_path / "pid").read_text()))


def wait_until_began(served: Served, ask: str) -> str:
    """Wait until an ask has output; give where it can be followed."""
    path = f"/api/v1/asks/a/{ask}/logs"
    decisions_until(served.client, ask=ask, kind="bound")
    patiently(lambda: served.client.get(path).text == "began\n")
    return f"{path}?follow=true"


def test_output_of_earlier_starts(served: Served) -> None:
    # LOCAL-10
    submit(served.client, job("twice", "echo $MUSTER_ATTEMPT; exit 1", retries=1))
    decisions_until(served.client, 2, ask="twice", kind="released")

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
    decisions_until(served.client, 1, ask="once-more", kind="released")
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
    decisions_until(served.client, 2, ask="once-more", kind="released")
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
    decisions_until(served.client, ask="x y%2F\u00e4", kind="released", reason="completed")

    assert output(served.client, quote("x y%2F\u00e4")) == "odd\n"


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the options as without the rights of root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def modes(folder: Path) -> dict[str, str]:
    """Return the rights on a folder and on all that is in it."""
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
    message = refused("--run=local", f"--state={tmp_path / 'state'}", *more)

    assert "--run local as root needs --tokens: without them whoever reaches the service" in message
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
    result = subprocess.run(
        ["cat", str(state / "muster.db-wal")],
        user="nobody",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    # Where the folder lets him through, the socket does not.
    connect = "socket.socket(socket.AF_UNIX).connect('/proc/self/fd/3/muster.sock')"
    folder = os.open(state, os.O_RDONLY)
    try:
        os.set_inheritable(folder, True)
        code = f"import os, socket; os.dup2({folder}, 3); os.setuid(65534); {connect}"
        result = subprocess.run(
            [sys.executable, "-c", code],
            pass_fds=[folder],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(folder)
    assert "PermissionError" in result.stderr


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


def test_a_relative_socket_is_reported_with_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Served(tmp_path, config=None, listen=("unix:here",)) as served:
        assert served.urls == [f"unix:{tmp_path / 'here'}"]
        command = [sys.executable, "-m", "muster", "get", "nodes", "--server", "unix:here"]
        result = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
        assert result.returncode == 0, result.stderr


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
    warnings = [line for line in served.lines if "it is only for its owner now" in line]
    assert found.pop("state") == "700"
    assert {int(mode, 8) & 0o077 for mode in found.values()} == {0}
    names = ("", "/configuration.json", "/lock", "/muster.db", "/muster.db.format-1")
    assert [re.findall(f"{state}(\\S*) had mode", line) for line in warnings] == [
        [one] for one in names
    ]
    assert f"warning {state}/muster.db.format-1 had mode 0755" in "\n".join(warnings)


def test_a_socket_says_itself_who_may_use_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(state / "muster.sock"))
        (state / "muster.sock").chmod(0o666)
        with Served(tmp_path, "--state", str(state)):
            assert modes(state)["state/muster.sock"] == "666"


# LOCAL-5


@given(st.lists(st.text(min_size=1), unique=True, min_size=2))
def test_the_names_of_folders_are_safe(names: list[str]) -> None:
    folders = [folder_name(name) for name in names]

    assert len(set(folders)) == len(names)
    for folder in folders:
        assert "/" not in folder
        assert not folder.startswith(".")
        assert 1 <= len(folder.encode()) <= 200


def test_long_names_do_not_meet() -> None:
    names = ["l" * 300, "l" * 301, "%~" + "l" * 300, "\u65e5" * 100, "\u65e5" * 101]

    assert len({folder_name(name) for name in names}) == len(names)


@pytest.mark.parametrize("ask", ["..", ".", "worker-0", "a b", "\u65e5" * 100])
def test_starts_are_counted(tmp_path: Path, ask: str) -> None:
    logs = OutputFiles(tmp_path / "logs")
    assert logs.attempts("..", ask) == []
    made = [logs.begin("..", ask) for _ in range(3)]

    assert [one.number for one in made] == [1, 2, 3]
    assert logs.attempts("..", ask) == made
    assert {one.relative_to(tmp_path).parts[0] for one in tmp_path.rglob("*.log")} == {"logs"}


def test_what_ended_long_ago_is_removed(tmp_path: Path) -> None:
    # LOCAL-6
    logs = OutputFiles(tmp_path)
    for ask, ended_us in (("old", 10), ("new", 30), ("runs", None)):
        made = logs.begin("a", ask)
        about = {"started_us": 1} if ended_us is None else {"started_us": 1, "ended_us": ended_us}
        made.report.write_text(json.dumps(about))
    logs.begin("b", "starts")

    logs.prune(20)

    assert [len(logs.attempts("a", ask)) for ask in ("old", "new", "runs")] == [0, 1, 1]
    assert len(logs.attempts("b", "starts")) == 1
    assert not (tmp_path / "a" / "old").exists()
    logs.prune(10**18)
    assert [len(logs.attempts("a", ask)) for ask in ("new", "runs")] == [0, 1]
