"""A follower takes over; the former leader stops leading."""

from __future__ import annotations

import signal
import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from typing_extensions import override

from muster.cli._main import muster
from tests.actors.serving.replication.pairs import (
    APP,
    NODE,
    asks,
    decisions,
    digest,
    enter,
    follower,
    get,
    leader,
    level,
    post,
    role,
    term,
)
from tests.actors.serving.served import Served, decisions_until, until


def promote(served: Served) -> str:
    """Promote a follower as an administrator does; return the answer."""
    done = CliRunner().invoke(muster, ["promote", "--server", served.urls[0]])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_follower_takes_over(tmp_path: Path) -> None:
    # REPLICA-12, REPLICA-14
    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        enter(one, NODE, APP, asks("x", 2), key="k")
        level(one, other)
        before = decisions(one)

        assert "this server leads with term 2: the last batch of the old leader" in promote(other)
        one.line(f"term 2: another server leads at {other.urls[0]}, and this one's term 1 is over")
        assert one.process.wait(60) == 2
        assert role(other) == {"role": "leader", "term": 2, "followers": 0, "differences": 0}
        again = post(other, NODE, APP, asks("x", 2), key="k")
        assert [one["asks"] for one in again.json()] == [[], [], ["x-0", "x-1"]]
        assert decisions(other) == before
        enter(other, asks("y", 1))
    with pytest.raises(AssertionError, match="this one's term 1 is over"):
        leader(tmp_path)  # systemd would start it again
    assert term(tmp_path / "follower") == 2
    with Served(tmp_path, "--state", str(tmp_path / "follower")) as other:
        assert role(other)["term"] == 2


def test_only_a_follower_can_be_promoted(tmp_path: Path) -> None:
    # REPLICA-12
    with leader(tmp_path) as one:
        done = CliRunner().invoke(muster, ["promote", "--server", one.urls[0]])
        assert (done.exit_code, "leads already, with term 1" in done.output) == (1, True)


def test_timers_go_on(tmp_path: Path) -> None:
    # REPLICA-7, REPLICA-12
    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        enter(one, NODE, APP, {**asks("x", 1), "run_for": "2s"})
        level(one, other)
        one.kill()
        promote(other)
        found = decisions_until(other.client, ask="x-0", kind="released")
        assert found[-1]["reason"] == "completed"


@contextmanager
def cutting_proxy(url: str, what: bytes, times: int) -> Generator[str]:
    """Pass connections on to a server, but cut those that ask for something, so many times."""
    left, place = [times], (urlsplit(url).hostname, urlsplit(url).port)

    def passes(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while some := source.recv(65_536):
                if left[0] and what in some:
                    left[0] -= 1
                    break
                target.sendall(some)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    class Relay(socketserver.BaseRequestHandler):
        @override
        def handle(self) -> None:
            with socket.create_connection(place) as server:
                back = threading.Thread(target=passes, args=(server, self.request))
                back.start()
                passes(self.request, server)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
        thread = threading.Thread(target=relay.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()
            thread.join()
    assert left == [0]


@pytest.mark.parametrize("cuts", [0, 2])
def test_what_the_old_leader_had_alone_is_set_aside(tmp_path: Path, cuts: int) -> None:
    """Also if the copy of the other store is cut at first: what was answered is not in this one."""
    # REPLICA-11
    with leader(tmp_path) as one:
        enter(one, NODE, APP)
        with follower(tmp_path, one) as other:
            level(one, other)
        enter(one, asks("lost", 1))
        url = one.urls[0]
        one.kill()
    lost = digest(tmp_path / "leader")[0]
    state = ("--state", str(tmp_path / "follower"))
    with Served(tmp_path, *state, "--follow", url) as other:
        promote(other)
        enter(other, asks("x", 2))
        old = ("--state", str(tmp_path / "leader"), "--follow")
        with (
            cutting_proxy(other.urls[0], b"/api/v1/replica/checkpoint", cuts) as address,
            Served(tmp_path, *old, address) as one,
        ):
            level(other, one)
            assert decisions(one)[-1:] == decisions(other)[-1:]
            assert get(one, "/api/v1/asks")["items"] == get(other, "/api/v1/asks")["items"]
    assert (tmp_path / "leader" / f"muster.db.aside-{lost}-1").is_file()


def test_a_store_of_another_scheduler_is_refused(tmp_path: Path) -> None:
    # REPLICA-11
    with Served(tmp_path, "--state", str(tmp_path / "follower")) as stranger:
        enter(stranger, NODE)
    refused = pytest.raises(AssertionError, match="has the history of another scheduler")
    with leader(tmp_path) as one, refused:
        follower(tmp_path, one)


def test_a_client_tells_of_a_higher_term(tmp_path: Path) -> None:
    # REPLICA-14
    with leader(tmp_path) as one:
        for header in ("1", "x", "-2", "9" * 30 + "x"):
            assert (
                one.client.get("/api/v1/apps", headers={"Muster-Term": header}).status_code == 200
            )
        over = one.client.get("/api/v1/apps", headers={"Muster-Term": "5"})
        assert (over.status_code, "this one's term 1 is over" in over.text) == (503, True)
        one.line("knows of term 5")
        assert one.process.wait(60) == 2
        one.kill()


def test_decisions_beyond_what_is_here(tmp_path: Path) -> None:
    # REPLICA-12
    with leader(tmp_path) as one, follower(tmp_path, one) as other:
        enter(one, NODE, APP)
        level(one, other)
        other.process.send_signal(signal.SIGSTOP)
        enter(one, asks("lost", 1))
        last = len(decisions(one))
        one.kill()
        other.process.send_signal(signal.SIGCONT)
        until(lambda: not role(other)["connected"])
        promote(other)
        last_of_new = len(decisions(other))
        if last_of_new < last:  # the old leader may have sent it before it was killed
            ahead = {"Last-Event-ID": str(last), "Accept": "text/event-stream"}
            answer = other.client.get("/api/v1/decisions", headers=ahead)
            assert (answer.status_code, answer.json()["last"]) == (409, last_of_new)


def test_work_on_this_machine_begins_again(tmp_path: Path) -> None:
    # REPLICA-7, REPLICA-13
    run = ("--run", "local", "--trust-local")
    if not hasattr(signal, "SIGKILL"):  # pragma: no cover
        pytest.skip("no local commands here")
    tokens = _tokens(tmp_path)
    with (
        leader(tmp_path, *run[:2], "--tokens", tokens, "--trust-submitters") as one,
        follower(
            tmp_path, one, *run[:2], "--tokens", tokens, "--trust-submitters",
            "--token-file", str(tmp_path / "boss"),
        ) as other,
    ):  # fmt: skip
        for served in (one, other):
            served.client.headers["authorization"] = "Bearer boss"
        job: dict[str, object] = {
            "op": "add_ask",
            "app": "a",
            "ask": "x",
            "resources": {"vcore": "1m"},
            "command": ["sleep", "600"],
        }
        enter(one, {**APP, "user": "boss"}, job)
        decisions_until(one.client, ask="x", kind="bound")
        level(one, other)
        one.kill()
        answer = other.client.post("/api/v1/replica/promote")
        assert answer.status_code == 200, answer.text
        found = decisions_until(other.client, ask="x", kind="released")
        assert found[-1]["reason"] == "bind_failed"


def _tokens(folder: Path) -> str:
    from hashlib import sha256  # noqa: PLC0415

    path = folder / "tokens"
    path.write_text(f"boss admin - - {sha256(b'boss').hexdigest()}\n", encoding="utf-8")
    path.chmod(0o600)
    (folder / "boss").write_text("boss", encoding="utf-8")
    return str(path)
