"""With ``--sync`` a leader answers only what its follower has."""

from __future__ import annotations

import signal
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
import trio
import trio.testing

from muster import ClosedSchedulerError
from muster.service.replication.followers import Followers
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
)
from tests.actors.serving.served import Served, decisions_until, until


def test_strict_waits_for_the_first_follower(tmp_path: Path) -> None:
    # REPLICA-10
    with leader(tmp_path, "--sync", "strict", until_ready=False) as one:
        one.line("a follower has to come first")
        waits = one.client.get("/readyz")
        assert (waits.status_code, "no follower has what is kept" in waits.text) == (503, True)
        assert post(one, NODE).status_code == 503
        with follower(tmp_path, one) as other:
            one.line(r"\bready\b")
            enter(one, NODE, APP, asks("x", 1))
            assert decisions(other)[-1:] == decisions(one)[-1:]  # without any wait


def test_strict_waits_for_what_timers_do_meanwhile(tmp_path: Path) -> None:
    # REPLICA-10
    with leader(tmp_path) as one:
        enter(one, NODE, APP, {**asks("x", 1), "run_for": "6s"})
        one.kill()
    sync = ("--sync", "strict", "--sync-timeout", "1s")
    with leader(tmp_path, *sync, until_ready=False) as one:
        place = first_position(one, tmp_path)
        until(lambda: get(one, "/api/v1/replica")["batch"] > place[0])
        with following(one, place):
            one.line(r"\bready\b")
            seen = one.client.get("/api/v1/decisions")
            assert seen.status_code == 503 or '"released"' not in seen.text
            acknowledge(one, place[0] + 1)
            until(lambda: one.client.get("/readyz").status_code == 200)
            decisions_until(one.client, ask="x-0", kind="released")


def test_strict_waits_for_what_timers_do_at_a_promotion(tmp_path: Path) -> None:
    # REPLICA-10, REPLICA-12
    sync = ("--sync", "strict", "--sync-timeout", "200ms")
    with leader(tmp_path) as one, follower(tmp_path, one, *sync) as other:
        enter(one, NODE, APP, {**asks("x", 1), "run_for": "1s"})
        due = monotonic() + 1
        level(one, other)
        one.kill()
        until(lambda: monotonic() > due)
        assert other.client.post("/api/v1/replica/promote").status_code == 200
        until(lambda: role(other)["held"])
        seen = other.client.get("/api/v1/decisions")
        assert seen.status_code == 503 or '"released"' not in seen.text
        state = ("--state", str(tmp_path / "leader"))
        with Served(tmp_path, *state, "--follow", other.urls[0]) as back:
            level(other, back)
            until(lambda: not role(other)["held"])
            found = decisions_until(other.client, ask="x-0", kind="released")
            assert found[-1]["reason"] == "completed"


def test_strict_holds_calls_back(tmp_path: Path) -> None:
    # REPLICA-10
    sync = ("--sync", "strict", "--sync-timeout", "200ms")
    with leader(tmp_path, *sync, until_ready=False) as one, follower(tmp_path, one) as other:
        one.line(r"\bready\b")
        enter(one, NODE, APP)
        other.process.send_signal(signal.SIGSTOP)
        held = post(one, asks("x", 1), key="k")
        assert (held.status_code, "send it again with the same Idempotency" in held.text) == (
            503,
            True,
        )
        assert one.client.get("/api/v1/asks").status_code == 503
        assert role(one)["held"]
        other.process.send_signal(signal.SIGCONT)
        one.line("calls are answered again")
        until(lambda: one.client.get("/readyz").status_code == 200)
        again = post(one, asks("x", 1), key="k")
        assert again.json()[0]["asks"] == ["x-0"]
        assert len(get(one, "/api/v1/asks")["items"]) == 1


def test_a_key_is_under_way_until_its_call_has_ended(tmp_path: Path) -> None:
    # INPUT-7, REPLICA-10
    sync = ("--sync", "strict", "--sync-timeout", "2s")
    with leader(tmp_path, *sync, until_ready=False) as one:
        place = first_position(one, tmp_path)
        with following(one, place):
            one.line(r"\bready\b")
            check_keys(one, place[0])


def check_keys(one: Served, last: int) -> None:
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(post, one, NODE, APP)
        until(lambda: get(one, "/api/v1/replica")["batch"] > last)
        second = threads.submit(post, one, asks("x", 1))
        third = threads.submit(post, one, asks("y", 1), key="k")
        assert [done.result().status_code for done in (first, second, third)] == [503] * 3

    acknowledge(one, last + 1)  # so that the second is written, which the third waits for
    until(lambda: not role(one)["held"])
    again = post(one, asks("y", 1), key="k")
    assert (again.status_code, "is under way" in again.text) == (409, True)
    acknowledge_next(one, last + 2)
    acknowledge_next(one, last + 3)
    until(lambda: post(one, asks("y", 1), key="k").status_code == 200)
    assert get(one, "/api/v1/replica")["batch"] == last + 3


def first_position(one: Served, folder: Path) -> tuple[int, bytes]:
    """Return where the store of a leader ends that waits for its first follower."""
    one.line("a follower has to come first")
    return digest(folder / "leader")


@contextmanager
def following(one: Served, place: tuple[int, bytes]) -> Generator[None]:
    """Follow a leader by hand, after a batch, with its digest."""
    after = {"after": f"{place[0]}", "digest": place[1].hex(), "follower": "f"}
    with one.client.stream("GET", "/api/v1/replica/batches", params=after) as stream:
        assert stream.status_code == 200
        yield


def acknowledge(one: Served, batch: int) -> None:
    """Tell a leader that a batch is on disk."""
    body = {"follower": "f", "batch": batch}
    assert one.client.post("/api/v1/replica/acknowledged", json=body).status_code == 204


def acknowledge_next(one: Served, batch: int) -> None:
    """Acknowledge a batch as soon as it is there."""
    until(lambda: get(one, "/api/v1/replica")["batch"] >= batch)
    acknowledge(one, batch)


def test_available_goes_on_alone(tmp_path: Path) -> None:
    # REPLICA-10
    sync = ("--sync", "available", "--sync-timeout", "200ms")
    with leader(tmp_path, *sync) as one, follower(tmp_path, one) as other:
        enter(one, NODE, APP)
        level(one, other)
        other.process.send_signal(signal.SIGSTOP)
        enter(one, asks("x", 1))
        one.line("goes on alone")
        assert role(one)["alone"]
        enter(one, asks("y", 1))
        other.process.send_signal(signal.SIGCONT)
        until(lambda: not role(one)["alone"])
        enter(one, asks("z", 1))
        assert decisions(other)[-1:] == decisions(one)[-1:]


def test_no_answered_call_is_lost(tmp_path: Path) -> None:
    # REPLICA-10, REPLICA-12
    sync = ("--sync", "strict")
    with leader(tmp_path, *sync, until_ready=False) as one, follower(tmp_path, one) as other:
        one.line(r"\bready\b")
        enter(one, NODE, APP)
        for number in range(20):
            enter(one, asks(f"x{number}", 1))
        answered = decisions(one)
        one.kill()
        assert other.client.post("/api/v1/replica/promote").status_code == 200
        assert decisions(other)[: len(answered)] == answered


def test_a_follower_of_a_strict_pair_leads_alone_at_first(tmp_path: Path) -> None:
    # REPLICA-10
    with leader(tmp_path) as one, follower(tmp_path, one, "--sync", "available") as other:
        enter(one, NODE, APP)
        level(one, other)
        one.kill()
        assert other.client.post("/api/v1/replica/promote").status_code == 200
        state = ("--state", str(tmp_path / "leader"))
        with Served(tmp_path, *state, "--follow", other.urls[0]) as back:
            level(other, back)
            enter(other, asks("x", 1))
            assert decisions(back)[-1:] == decisions(other)[-1:]


async def test_calls_under_way_are_answered_at_the_end() -> None:
    # REPLICA-10: each call that is held back ends with an error: the scheduler is closed.
    followers = Followers("strict", 5.0)
    answers: list[str] = []

    async def ask() -> None:
        try:
            answers.append(await followers.unless_held(answer))
        except ClosedSchedulerError as error:
            answers.append(str(error))

    async def answer() -> str:
        await trio.sleep_forever()
        raise AssertionError

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery, followers.running():
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
    assert answers == ["the scheduler was closed before it answered"]


async def test_calls_that_come_at_the_end_are_made() -> None:
    # REPLICA-10: what they ask says then that it is closed.
    followers = Followers("strict", 5.0)

    async def refuse() -> None:
        msg = "the scheduler is closed"
        raise ClosedSchedulerError(msg)

    async with followers.running():
        pass
    with pytest.raises(ClosedSchedulerError, match="the scheduler is closed"):
        await followers.unless_held(refuse)
