"""The state machine of leases, with a record in memory that answers as badly as networks do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, final

import attrs
import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock
from typing_extensions import override

from muster._leases import TIMES, Lease, LeaseRecord
from muster_core.errors import MusterError
from tests.share import share


@final
class AwayError(MusterError):
    """There is no answer."""


@attrs.define
class Shelf:
    """Where the record is, and when it was written.

    Attributes:
        record: The record and its version, or None.
        written_s: When it was written last.
    """

    record: tuple[LeaseRecord, int] | None = None
    written_s: float = 0.0
    _writes: int = 0

    def lose(self) -> None:
        self.record = None

    def swap(self, version: object, record: LeaseRecord) -> bool:
        if version != (None if self.record is None else self.record[1]):
            return False
        self._writes += 1
        self.record, self.written_s = (record, self._writes), trio.current_time()
        return True


class ShelfLease(Lease):
    """A lease on a shelf.

    Attributes:
        is_away: Whether there is no answer, and at once.
        hangs: Whether there never is one.
    """

    def __init__(self, shelf: Shelf, holder: str, url: str = "") -> None:
        super().__init__("the lease on the shelf", holder, url)
        self.shelf = shelf
        self.is_away = False
        self.hangs = False

    @override
    async def _read(self) -> tuple[LeaseRecord, object] | None:
        await self.pause()
        found = self.shelf.record
        await self.pause()
        return found

    @override
    async def _swap(self, version: object, record: LeaseRecord) -> bool:
        await self.pause()
        done = self.shelf.swap(version, record)
        await self.pause()
        return done

    async def pause(self) -> None:
        """Take a moment, or fail."""
        await trio.lowlevel.checkpoint()
        if self.hangs:
            await trio.sleep_forever()
        if self.is_away:
            raise AwayError("the shelf is away")


class SlowLease(ShelfLease):
    """A lease that takes some time for each of four steps.

    Attributes:
        slow_s: How long each takes, in seconds.
    """

    slow_s = 0.3

    @override
    async def pause(self) -> None:
        await super().pause()
        await trio.sleep(self.slow_s)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def a(shelf: Shelf) -> ShelfLease:
    return ShelfLease(shelf, "a", "http://a")


@pytest.fixture
def b(shelf: Shelf) -> ShelfLease:
    return ShelfLease(shelf, "b", "http://b")


async def watched(
    other: Lease, seconds: float, is_wanted: Callable[[LeaseRecord], bool] = lambda _: True
) -> None:
    """Let a lease see for some time that it is not to be had."""
    with trio.move_on_after(seconds):
        await other.acquire(is_wanted)
        pytest.fail("it was free")


# REPLICA-20
async def test_others_wait_while_it_is_renewed(
    a: ShelfLease, b: ShelfLease, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    await a.acquire()
    nursery.start_soon(a.hold)
    await watched(b, 100)

    assert (a.is_held, b.is_held) == (True, False)


# REPLICA-20
@pytest.mark.parametrize("hangs", [False, True])
async def test_who_is_cut_off_gives_it_up_before_another_one_takes_it(
    a: ShelfLease,
    b: ShelfLease,
    shelf: Shelf,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    hangs: bool,
) -> None:
    await a.acquire()
    taken_s: list[float] = []

    async def take() -> None:
        await b.acquire()
        taken_s.append(shelf.written_s)

    nursery.start_soon(take)
    with trio.move_on_after(2.25 * TIMES.renewed_s):
        await a.hold()
    renewed_s = shelf.written_s
    a.is_away, a.hangs = True, hangs
    await a.hold()
    given_up_s = trio.current_time()

    trouble = "there is no answer within 5 s" if hangs else "the shelf is away"
    assert given_up_s - renewed_s == pytest.approx(TIMES.given_up_s)
    assert (a.is_held, b.is_held, a.trouble) == (False, False, trouble)

    await trio.sleep(TIMES.held_s)
    assert b.is_held
    assert 0 <= taken_s[0] - renewed_s - TIMES.held_s <= TIMES.renewed_s


# REPLICA-20
async def test_who_could_not_run_does_not_hold_it_any_more(
    a: ShelfLease, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    await a.acquire()
    nursery.start_soon(a.hold)
    autojump_clock.jump(TIMES.given_up_s)

    assert not a.is_held, "before any task has run"


# REPLICA-20
async def test_it_holds_from_before_it_was_asked_for(
    shelf: Shelf, autojump_clock: MockClock
) -> None:
    slow = SlowLease(shelf, "slow")
    await slow.acquire()
    assert trio.current_time() == pytest.approx(4 * slow.slow_s)
    slow.is_away = True
    await slow.hold()

    assert trio.current_time() == pytest.approx(TIMES.given_up_s)


# REPLICA-20
async def test_an_attempt_has_a_limit(
    a: ShelfLease,
    nursery: trio.Nursery,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    a.hangs = True
    nursery.start_soon(a.acquire)
    await trio.sleep(3 * TIMES.attempt_s)
    a.hangs = False
    await trio.sleep(2 * TIMES.attempt_s)

    assert a.is_held
    assert [one.getMessage() for one in caplog.records] == [
        "the lease on the shelf: there is no answer within 5 s"
    ]


# REPLICA-20
async def test_a_lease_is_lost_if_another_holder_has_it(
    a: ShelfLease, shelf: Shelf, autojump_clock: MockClock
) -> None:
    await a.acquire()
    shelf.record = LeaseRecord("b", "", 0, 15), 7
    began = trio.current_time()
    await a.hold()

    assert trio.current_time() - began == pytest.approx(TIMES.renewed_s)
    assert not a.is_held


# REPLICA-21
async def test_others_count_from_when_they_saw_it_change(
    a: ShelfLease, b: ShelfLease, shelf: Shelf, autojump_clock: MockClock
) -> None:
    await a.acquire()
    await trio.sleep(100)
    began = trio.current_time()
    await b.acquire()

    assert shelf.written_s - began == pytest.approx(TIMES.held_s), "nobody knows how old it was"


# REPLICA-21
async def test_a_record_that_is_gone_counts_as_it_was_seen(
    a: ShelfLease, b: ShelfLease, shelf: Shelf, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    await a.acquire()
    await watched(b, 1)
    shelf.lose()
    assert await b.look() == LeaseRecord("a", "http://a", 0, TIMES.held_s)
    await watched(b, TIMES.given_up_s)

    nursery.start_soon(a.hold)  # It gives it up in the same moment.
    await b.acquire()
    assert not a.is_held
    assert trio.current_time() == pytest.approx(TIMES.held_s)


# REPLICA-21
async def test_its_holder_writes_a_record_that_is_gone(
    a: ShelfLease, shelf: Shelf, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    await a.acquire()
    nursery.start_soon(a.hold)
    shelf.lose()
    await trio.sleep(2 * TIMES.renewed_s)

    assert shelf.record is not None
    assert a.is_held


# REPLICA-22
async def test_who_may_not_take_it_leaves_it(
    a: ShelfLease, b: ShelfLease, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    records: list[LeaseRecord] = []

    def is_wanted(record: LeaseRecord) -> bool:
        records.append(record)
        return len(records) > 3

    a.term = 4
    await a.acquire()
    await watched(b, 1, is_wanted)
    assert records == [], "it is not free"
    await a.release()
    await watched(b, 1, is_wanted)
    assert records == [LeaseRecord(url=a.url, term=4, seconds=1)]

    await b.acquire(is_wanted)
    assert b.is_held
    assert len(records) == 4


# REPLICA-23
async def test_who_ends_lets_another_one_have_it_at_once(
    a: ShelfLease, b: ShelfLease, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    await a.acquire()
    nursery.start_soon(a.hold)
    nursery.start_soon(b.acquire)
    await trio.sleep(4.5 * TIMES.renewed_s)
    with trio.CancelScope() as scope:
        scope.cancel()
        await a.release()
    await trio.sleep(TIMES.renewed_s)

    assert (a.is_held, b.is_held) == (False, True)


# REPLICA-23
async def test_a_renewal_that_is_under_way_does_not_keep_it(
    shelf: Shelf, b: ShelfLease, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    slow = SlowLease(shelf, "slow")
    await slow.acquire()
    nursery.start_soon(slow.hold)
    await trio.sleep(TIMES.renewed_s + 1.5 * slow.slow_s)
    await slow.release()
    with trio.move_on_after(TIMES.renewed_s):
        await b.acquire()

    assert b.is_held


# REPLICA-23
async def test_a_renewal_that_ends_after_a_release_is_the_last(
    shelf: Shelf, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    slow = SlowLease(shelf, "slow")
    await slow.acquire()
    nursery.start_soon(slow.hold)
    slow.slow_s = 1.1
    await trio.sleep(1.5 * TIMES.renewed_s)
    await slow.release()
    assert not slow.is_held
    await trio.sleep(TIMES.held_s)

    assert not slow.is_held
    assert trio.current_time() - shelf.written_s > TIMES.given_up_s, "it renews it no more"


# REPLICA-23
async def test_to_release_it_takes_no_longer_than_to_renew_it(
    a: ShelfLease, autojump_clock: MockClock
) -> None:
    await a.acquire()
    a.hangs = True
    began = trio.current_time()
    await a.release()

    assert trio.current_time() - began == pytest.approx(TIMES.renewed_s)
    assert not a.is_held


# REPLICA-23
async def test_nobody_releases_what_another_one_has(
    a: ShelfLease, b: ShelfLease, autojump_clock: MockClock
) -> None:
    await a.acquire()
    await b.release()

    assert a.is_held
    assert await b.look() == a.seen


# REPLICA-24
async def test_others_learn_where_the_holder_is_and_its_term(
    a: ShelfLease, b: ShelfLease, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    assert b.seen == LeaseRecord()
    a.term = 3
    await a.acquire()
    nursery.start_soon(a.hold)
    assert await b.look() == LeaseRecord("a", "http://a", 3, TIMES.held_s)

    a.term = 4
    await trio.sleep(1.5 * TIMES.renewed_s)
    assert await b.look() == b.seen == LeaseRecord("a", "http://a", 4, TIMES.held_s)
    b.is_away = True
    assert await b.look() is None
    assert b.seen.holder == "a"


# REPLICA-24
async def test_a_term_never_becomes_lower(
    a: ShelfLease, b: ShelfLease, autojump_clock: MockClock
) -> None:
    a.term = 5
    await a.acquire()
    await a.release()
    b.term = 2
    await b.acquire()

    assert b.seen == LeaseRecord("b", "http://b", 5, TIMES.held_s)
    assert b.term == 2


# POD-25, REPLICA-20
async def test_work_ends_when_it_is_lost_and_begins_again(
    a: ShelfLease, b: ShelfLease, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    runs: list[float] = []

    async def work() -> None:
        runs.append(trio.current_time())
        if len(runs) == 2:
            return
        try:
            await trio.sleep_forever()
        finally:
            runs.append(trio.current_time())

    async def work_twice() -> None:
        runs.clear()
        await a.run(work)

    a.is_away = False
    nursery.start_soon(work_twice)
    await trio.sleep(1)
    a.is_away = True
    await trio.sleep(TIMES.held_s)
    assert len(runs) == 2
    assert runs[1] - runs[0] == pytest.approx(TIMES.given_up_s)

    a.is_away = False
    await trio.sleep(TIMES.renewed_s)
    assert len(runs) == 3
    nursery.cancel_scope.cancel()


# REPLICA-20, REPLICA-23
async def test_it_is_held_until_work_has_ended_and_free_then(
    a: ShelfLease, shelf: Shelf, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3 * TIMES.held_s)
                ended.append(a.is_held)

    with trio.move_on_after(1):
        await a.run(work)

    assert ended == [True]
    assert shelf.record is not None
    assert shelf.record[0].holder == ""


# -- chance -------------------------------------------------------------------------------------


LONG_S: Final = 300.0
"""How long they contend each time, in seconds of the virtual clock."""


class UnreliableLease(ShelfLease):
    """A lease whose answers come late or never, and what it asked for is done late, or not.

    Attributes:
        draw: Where chance comes from.
        share: Which share of what it asks for meets a fault.
        late: Carries out what it asked for, though it waits no longer.
    """

    def __init__(
        self, shelf: Shelf, holder: str, draw: Random, share: float, late: trio.Nursery
    ) -> None:
        super().__init__(shelf, holder)
        self.draw = draw
        self.share = share
        self.late = late

    @override
    async def pause(self) -> None:
        draw = self.draw
        if draw.random() >= self.share:
            await trio.sleep(draw.uniform(0, 0.5))
            return
        await trio.sleep(draw.choice((draw.uniform(0, 3), draw.uniform(3, 40))))
        if draw.random() < 0.5:
            raise AwayError("the shelf is away")

    @override
    async def _swap(self, version: object, record: LeaseRecord) -> bool:
        done = trio.Event()
        answers: list[bool | MusterError] = []

        async def swap() -> None:
            try:
                answers.append(await super(UnreliableLease, self)._swap(version, record))
            except AwayError as error:
                answers.append(error)
            done.set()

        self.late.start_soon(swap)
        await done.wait()
        if isinstance(answers[0], MusterError):
            raise answers[0]
        return answers[0]


async def contend(make: Callable[[], UnreliableLease], draw: Random, all_of: set[Lease]) -> None:
    """Want a lease for ever: work, let it go, end, or end at once and come again as another one."""
    while True:
        lease = make()
        all_of.add(lease)
        for _ in range(draw.randrange(1, 5)):
            await lease.acquire(lambda _: draw.random() < 0.8)
            with trio.move_on_after(draw.expovariate(1 / 20)):
                await lease.hold()
            if draw.random() < 0.5:
                await lease.release()
            else:
                await trio.sleep(draw.uniform(0, 10))  # It has stopped, and nobody renews it.
        all_of.discard(lease)


# REPLICA-20, REPLICA-21
@share(0.5)
@given(seed=st.integers(0, 2**32), failing=st.sampled_from((0.0, 0.1, 0.4)), many=st.integers(2, 4))
def test_never_two_at_once(seed: int, failing: float, many: int) -> None:
    holders = set[str]()

    async def main() -> None:
        draw, shelf, all_of = Random(seed), Shelf(), set[Lease]()
        names = iter(range(1_000_000))
        async with trio.open_nursery() as nursery:

            def make() -> UnreliableLease:
                return UnreliableLease(shelf, f"holder-{next(names)}", draw, failing, nursery)

            for _ in range(many):
                nursery.start_soon(contend, make, draw, all_of)
            while trio.current_time() < LONG_S:
                held = [lease.holder for lease in all_of if lease.is_held]
                assert len(held) <= 1, held
                holders.update(held)
                await trio.sleep(0.2)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert failing or len(holders) > 1, "each has a turn"
