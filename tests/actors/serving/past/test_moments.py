"""Past states in memory: each is made once, a few are kept, and nobody waits for one in vain."""

from __future__ import annotations

from pathlib import Path
from threading import Event as Flag

import pytest
import trio
from starlette.requests import Request
from starlette.types import Message

from muster.service.past.states import MOST_PAST_STATES, PastState, PastStateCache, read_all
from muster.service.payloads import Problem
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.structures.steps import Steps
from tests.actors.kept import ONE, S
from tests.actors.serving.past.keeping import Live


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    live = Live(tmp_path / "state", [2])
    live.run(S, [AddNode("n", ONE), AddApp("a", "root.q")])
    for number in range(2, 9):
        live.run(number * S, [AddAsk("a", f"ask-{number}", ONE)])
    return live.close()


def request(leaves: trio.Event | None = None) -> Request:
    """Give a request whose browser leaves when the event is set, or never."""

    async def receive() -> Message:
        await (trio.Event() if leaves is None else leaves).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "headers": []}, receive)


def asks(past: PastState, _gone: Flag) -> tuple[int, int]:
    return past.number, sum(len(app.asks) for app in past.ledger.book.apps.values())


# PAGE-61
async def test_the_last_ones_stay_and_are_not_made_again(directory: Path) -> None:
    moments = PastStateCache(directory)
    seen: list[PastState] = []

    def look(past: PastState, _gone: Flag) -> None:
        seen.append(past)

    for number in range(1, 9):
        assert await moments.read(request(), number, asks) == (number, number - 1)
        await moments.read(request(), number, look)
        await moments.read(request(), max(1, number - 1), look)
    made = {id(past) for past in seen}
    assert len(made) == 8
    last = seen[-1]
    await moments.read(request(), 8, look)
    assert seen[-1] is seen[-3]
    assert seen[-1] is not last
    # One that was let go is made again.
    assert await moments.read(request(), 1, asks) == (1, 0)
    assert len(moments.numbers) == MOST_PAST_STATES
    assert 1 in moments.numbers


# PAGE-61
async def test_it_is_made_once_for_all_who_look_at_it(directory: Path) -> None:
    moments = PastStateCache(directory)
    seen: list[PastState] = []

    def look(past: PastState, _gone: Flag) -> None:
        seen.append(past)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(moments.read, request(), 5, look)
    assert len(seen) == 10
    assert len({id(past) for past in seen}) == 1


# PAGE-61
async def test_work_ends_when_the_browser_leaves(directory: Path) -> None:
    moments = PastStateCache(directory)
    leaves, began = trio.Event(), Flag()

    def wait(_past: PastState, gone: Flag) -> bool:
        began.set()
        return gone.wait(60)

    async def leave() -> None:
        assert moments.under_way() == 0.0
        await trio.to_thread.run_sync(began.wait, 60)
        leaves.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            assert await moments.read(request(leaves), 5, wait)
    assert moments.under_way() is None
    gone = trio.Event()
    gone.set()
    with trio.fail_after(60), pytest.raises(Problem, match="nobody waits"):
        await moments.read(request(gone), 6, _until_gone)
    # The next one makes it.
    assert await moments.read(request(), 6, asks) == (6, 5)


def _steps() -> Steps[None]:
    yield


def _until_gone(_past: PastState, gone: Flag) -> None:
    gone.wait(60)
    read_all(_steps(), gone)
