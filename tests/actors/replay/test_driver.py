from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import trio

from muster.feeds import FeedError, FeedItem, Settle
from muster.replay import Tally, replay
from muster.testing import Recording
from muster_core.decisions import Kind
from muster_core.errors import RefusedError
from tests.actors.program import Steps, shuffled
from tests.actors.replay.helpers import items

NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
SETUP = NODE + "- {op: add_app, app: a, queue: root.q}\n"
ASK = "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 10}\n"


async def log_of(text: str, *, until_us: int | None = None, strict: bool = False) -> list[str]:
    """Replay, and give what was decided in short."""
    recording = Recording()
    await replay(items(text), journals=[recording], until_us=until_us, strict=strict)
    return [
        f"{announced.at_us // 1_000_000} {announced.decision.kind.value}"
        for announced in recording.decisions
        if announced.decision.kind in {Kind.BOUND, Kind.RELEASED, Kind.REJECTED}
    ]


async def test_time_goes_on_until_no_timer_is_left() -> None:
    assert await log_of(SETUP + ASK) == ["0 bound", "10 released"]


async def test_until_is_included() -> None:
    assert await log_of(SETUP + ASK, until_us=9_999_999) == ["0 bound"]
    assert await log_of(SETUP + ASK, until_us=10_000_000) == ["0 bound", "10 released"]


async def test_an_event_at_the_end_still_comes() -> None:
    later = "- {op: release, at: 5, app: a, ask: x}\n"

    assert await log_of(SETUP + ASK + later, until_us=5_000_000) == ["0 bound", "5 released"]
    assert await log_of(SETUP + ASK + later, until_us=4_999_999) == ["0 bound"]


async def test_events_after_the_end_are_not_read() -> None:
    def feed() -> Iterator[FeedItem]:
        yield FeedItem(0, None, 1_000_000, Settle())
        yield FeedItem(1, None, 3_000_000, Settle())
        pytest.fail("read on")

    tally = Tally()
    assert await replay(feed(), tally=tally, until_us=2_000_000)
    assert (tally.events, tally.at_us) == (1, 2_000_000)


async def test_settle_and_expect_close_a_batch() -> None:
    asks = "- {op: add_ask, app: a, ask: y, resources: {vcore: 1}, priority: 5}\n"
    recording = Recording()
    for between in ("", "- op: settle\n", "- {op: expect, bound: [b/other]}\n"):
        await replay(items(SETUP + ASK.replace("1}", "2}") + between + asks), journals=[recording])
    bound = [
        announced.decision.ask
        for announced in recording.decisions
        if announced.decision.kind is Kind.BOUND
    ]

    assert bound == ["y", "x", "y", "x", "y"]


REFUSED = "- {op: add_app, app: a, queue: root.q}\n"
UNREADABLE = "- {op: add_app, app: b, queue: root.q, colour: red}\n"


@pytest.mark.parametrize("bad", [REFUSED, UNREADABLE])
async def test_a_replay_goes_on_after_a_refusal(bad: str) -> None:
    assert await replay(items(SETUP + bad + ASK))
    assert await log_of(SETUP + bad + ASK) == ["0 rejected", "0 bound", "10 released"]


@pytest.mark.parametrize("bad", [REFUSED, UNREADABLE])
async def test_a_strict_one_does_not(bad: str) -> None:
    assert not await replay(items(SETUP + bad + ASK), strict=True)
    # The batch of the refused event is ended, but what comes after it is not there.
    assert await log_of(SETUP + bad + ASK, strict=True) == ["0 rejected"]
    assert await log_of(SETUP + ASK + bad, strict=True) == ["0 rejected", "0 bound"]


async def test_a_strict_replay_decides_the_same() -> None:
    feed = SETUP + ASK + "- {op: settle}\n- {op: expect, at: 3, bound: []}\n"
    strict, other = Recording(), Recording()
    assert await replay(items(feed), journals=[strict], strict=True)
    await replay(items(feed), journals=[other])

    assert strict.decisions == other.decisions


@pytest.mark.parametrize("error", [FeedError("f", "broken", 3), KeyboardInterrupt()])
async def test_what_was_read_before_an_error_is_carried_out(error: BaseException) -> None:
    def feed() -> Iterator[FeedItem]:
        yield from items(SETUP + ASK)
        raise error

    recording, tally = Recording(), Tally()
    with pytest.raises(type(error)):
        await replay(feed(), journals=[recording], tally=tally)

    assert recording.decisions[-1].decision.state == "Starting"
    assert (tally.asks_bound, tally.decisions) == (1, len(recording.decisions))


async def test_a_cancelled_replay_leaves_what_was_announced() -> None:
    recording, tally = Recording(), Tally()
    with trio.CancelScope() as scope:

        def feed() -> Iterator[FeedItem]:
            yield from items(SETUP + ASK + "- op: settle\n")
            scope.cancel()
            yield from items("- {op: settle, at: 100}")

        await replay(feed(), journals=[recording], tally=tally)

    assert scope.cancelled_caught
    assert recording.decisions[-1].decision.state == "Starting"
    assert tally.summary().asks_running == 1


async def interrupted(at: int) -> tuple[int, bool]:
    """Cancel a replay before a step of any task; return its steps, and whether it was cancelled.

    The feed raises KeyboardInterrupt, as it does after Ctrl-C: the replay then closes the batch.
    """

    def feed() -> Iterator[FeedItem]:
        yield from items(SETUP + ASK)
        raise KeyboardInterrupt

    scope = trio.CancelScope()
    steps = Steps(scope, at)
    trio.lowlevel.add_instrument(steps)
    try:
        with scope, suppress(KeyboardInterrupt):
            await replay(feed())
    finally:
        trio.lowlevel.remove_instrument(steps)
    return steps.count, scope.cancelled_caught


@pytest.mark.parametrize("seed", range(16))
def test_a_replay_cancelled_at_any_step_says_only_that(seed: int) -> None:
    with shuffled(seed):
        steps, cancelled = trio.run(interrupted, 0)
        assert steps > 0
        assert not cancelled
        # A caller that is cancelled with its scheduler must not see the scheduler's error.
        ends = [trio.run(interrupted, at)[1] for at in range(1, steps)]
    assert any(ends)


async def test_a_journal_that_fails_ends_the_replay() -> None:
    class Full:
        def write(self, _batch: object, /) -> None:
            raise FeedError("log", "no space left")

    with pytest.raises(FeedError, match="no space left"):
        await replay(items(SETUP + ASK), journals=[Full()])


async def test_instants_that_go_back_are_the_callers_fault() -> None:
    late, early = FeedItem(0, None, 5, Settle()), FeedItem(1, None, 4, Settle())
    with pytest.raises(RefusedError, match="earlier"):
        await replay([late, early])
