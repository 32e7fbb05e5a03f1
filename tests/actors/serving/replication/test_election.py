"""Servers with a lease: one of them leads, and the other takes over by itself."""

from __future__ import annotations

import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path

import httpx
import pytest
import trio
import trio.testing

from muster.service.replication.election import Election, LeaseLostError
from muster.service.replication.followers import Followers
from muster.service.replication.leadership import Leadership
from muster.store._copies import BatchGroup
from muster.store._rows import row_of
from tests.actors.serving.replication.pairs import (
    APP,
    NODE,
    asks,
    decisions,
    enter,
    follower,
    get,
    leader,
    level,
    role,
)
from tests.actors.serving.served import Served, until


def lease(folder: Path) -> tuple[str, str]:
    """Return the options for a lease that both servers share."""
    return "--lease", f"file:{folder / 'lease'}"


def stop_outside(served: Served, path: Path) -> None:
    """Stop a process where it does not hold the lock on a file of SQLite."""
    while True:
        served.process.send_signal(signal.SIGSTOP)
        with closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                served.process.send_signal(signal.SIGCONT)
            else:
                return


def test_a_follower_takes_over_by_itself(tmp_path: Path) -> None:
    # REPLICA-17, REPLICA-18, REPLICA-19
    with (
        leader(tmp_path, *lease(tmp_path)) as one,
        follower(tmp_path, one, *lease(tmp_path)) as other,
    ):
        enter(one, NODE, APP, asks("x", 1))
        level(one, other)
        before = decisions(one)
        stop_outside(one, tmp_path / "lease")
        other.line("this server leads with term 2")
        enter(other, asks("y", 1))
        assert decisions(other)[: len(before)] == before

        # Whoever was stopped meanwhile has lost its lease, and announces nothing.
        one.process.send_signal(signal.SIGCONT)
        one.line("the lease file .* is lost|another server leads")
        assert one.process.wait(60) == 2
        one.kill()

        # It follows when it is started again, whatever its options call the other one.
        again = ("--state", str(tmp_path / "leader"), "--follow", "http://127.0.0.1:9")
        with Served(tmp_path, *again, *lease(tmp_path)) as back:
            until(lambda: role(back).get("connected") is True)
            assert role(back)["leader"] == other.urls[0]


@pytest.mark.parametrize("sync", ["available", "strict"])
def test_a_leader_that_was_stopped_while_it_wrote_ends(tmp_path: Path, sync: str) -> None:
    # REPLICA-18
    options = ("--sync", sync, "--sync-timeout", "1s", *lease(tmp_path))
    with (
        leader(tmp_path, *options, until_ready=False) as one,
        follower(tmp_path, one, *options) as other,
    ):
        one.line(r"\bready\b")
        enter(one, NODE, APP)
        level(one, other)
        with ThreadPoolExecutor() as threads:
            callers = [threads.submit(call_until_refused, one, name) for name in "abcd"]
            until(lambda: get(one, "/api/v1/replica")["batch"] > 50)
            stop_outside(one, tmp_path / "lease")
            other.line("this server leads with term 2")
            one.process.send_signal(signal.SIGCONT)
            assert one.process.wait(60) == 2
            answered = {ask for caller in callers for ask in caller.result()}
        one.kill()
        kept = get(other, "/api/v1/asks?limit=1000")["items"]
        assert answered <= {ask["ask"] for ask in kept}


@pytest.mark.parametrize("is_acknowledged", [True, False])
async def test_what_was_written_before_the_lease_was_lost_is_not_announced(
    tmp_path: Path, mock_clock: trio.testing.MockClock, is_acknowledged: bool
) -> None:
    # REPLICA-18: the process stands still for longer than it may hold the lease.
    group = BatchGroup((row_of(2, 0, (), (), 0),), (), b"")
    followers = Followers("available", 5.0)
    leadership = Leadership(followers, None)

    async def stand_still() -> None:
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(20.0)
        if is_acknowledged:
            followers.acknowledge("other", 2)

    async with Election.of(f"file:{tmp_path / 'lease'}", leadership, tmp_path) as election:
        await election.begin(None)
        followers.check_lead = election.check
        followers.begin(1)
        with followers.reading("other", "", "1", 1):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stand_still)
                with pytest.raises(LeaseLostError):
                    await followers.written(group)


def call_until_refused(served: Served, name: str) -> list[str]:
    """Submit asks, one after the other, until one is refused; return those answered."""
    answered: list[str] = []
    with Served.client_of(served.urls[0]) as client:
        for number in count():
            ask = asks(f"{name}{number}", 1)
            try:
                if client.post("/api/v1/events", json=[ask]).status_code != 200:
                    break
            except httpx.TransportError:
                break
            answered.append(f"{name}{number}-0")
    return answered


def test_a_leader_that_ends_gives_the_lease_back(tmp_path: Path) -> None:
    # REPLICA-18, REPLICA-19
    with (
        leader(tmp_path, *lease(tmp_path)) as one,
        follower(tmp_path, one, *lease(tmp_path)) as other,
    ):
        enter(one, NODE)
        level(one, other)
        assert one.stop() == 0
        other.line("this server leads with term 2")
        enter(other, APP)


def test_a_leader_goes_on_after_a_restart(tmp_path: Path) -> None:
    # REPLICA-17
    with leader(tmp_path, *lease(tmp_path)) as one:
        port = one.urls[0].rpartition(":")[2]
        enter(one, NODE)
        one.kill()
    again = ("--follow", "http://127.0.0.1:9")
    with leader(tmp_path, *again, *lease(tmp_path), listen=(f"127.0.0.1:{port}",)) as one:
        assert one.lines_with("again, and leads")
        assert role(one)["role"] == "leader"


def test_an_administrator_moves_the_lease(tmp_path: Path) -> None:
    # REPLICA-19
    with (
        leader(tmp_path, *lease(tmp_path)) as one,
        follower(tmp_path, one, *lease(tmp_path)) as other,
    ):
        level(one, other)
        assert other.client.post("/api/v1/replica/promote").status_code == 200
        assert one.process.wait(60) == 2
        one.kill()
        assert role(other)["role"] == "leader"
        enter(other, NODE)


def test_who_waits_for_the_lease_says_so(tmp_path: Path) -> None:
    # REPLICA-17
    with leader(tmp_path, *lease(tmp_path)):
        second = ("--state", str(tmp_path / "second"), *lease(tmp_path))
        waits = Served(tmp_path, *second, until_ready=False)
        until(lambda: "another server holds the lease" in waits.client.get("/readyz").text)
        assert waits.stop() == 0
