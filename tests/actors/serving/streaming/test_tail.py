"""The latest decisions in memory."""

from __future__ import annotations

import trio
import trio.testing
from hypothesis import given, strategies as st
from trio.testing import MockClock

from muster.service.decision_log import PAUSE_S, DecisionTail
from muster_core.structures.steps import all_at_once
from tests.actors.serving.test_streams import announced


def observe_batch(tail: DecisionTail, count: int, message: str | None = None) -> None:
    all_at_once(tail.observe(tail.batch + 1, announced(tail.last + 1, count, message)))


def seqs_after(tail: DecisionTail, seq: int) -> list[int]:
    found: list[int] = []
    while (block := tail.after(seq)) is not None:
        places, seq = block.choose(seq, None, None, None)
        found += [block.announced[at].seq for at in places]
    return found


# STREAM-2


@given(st.lists(st.tuples(st.integers(1, 700), st.booleans()), max_size=8), st.integers(1, 1500))
def test_it_has_the_latest_decisions(batches: list[tuple[int, bool]], most: int) -> None:
    tail = DecisionTail(most=most)
    for count, is_read in batches:
        observe_batch(tail, count)
        if is_read:
            block = tail.after(tail.last - 1)
            assert block is not None
            assert block.lines_at([len(block) - 1])
    total = sum(count for count, _ in batches)

    assert tail.last == total
    assert tail.last - tail.first < max(most, 256)
    assert tail.last - tail.first >= min(total, most - 256) - 1
    for after in {tail.first - 1, tail.first, (tail.first + tail.last) // 2, tail.last}:
        assert seqs_after(tail, after) == list(range(after + 1, tail.last + 1))
    if tail.first > 1:
        assert tail.after(tail.first - 2) is None


def test_it_is_bounded_in_bytes_with_what_is_encoded() -> None:
    tail = DecisionTail(most_bytes=1_000_000)
    for _ in range(100):
        observe_batch(tail, 1, "x" * 50_000)
        block = tail.after(tail.last - 1)
        assert block is not None
        assert len(block.events) > 50_000

    assert 5 <= tail.last - tail.first < 10


async def test_whoever_waits_is_woken_at_most_once_in_a_while(mock_clock: MockClock) -> None:
    tail = DecisionTail()
    woken: list[int] = []

    async def follow() -> None:
        while True:
            await tail.wait(woken[-1] if woken else 0)
            woken.append(tail.last)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tail.run)
        nursery.start_soon(follow)
        for number in range(200):
            observe_batch(tail, 1)
            await trio.testing.wait_all_tasks_blocked()
            if number % 20 == 19:
                mock_clock.jump(PAUSE_S)
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert woken == [1, *range(20, 201, 20)]
