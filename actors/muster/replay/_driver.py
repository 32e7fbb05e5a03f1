"""The driver: it hands the events of a feed to a scheduler, each at its instant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from muster._batches import Journal
from muster._simulation import Simulation, open_simulation
from muster.feeds import Expect, FeedError, FeedItem, Refused, Settle
from muster.replay._tally import Tally
from muster_core.decisions import Announced
from muster_core.errors import RefusedError


@final
class Journals:
    """Several journals as one; each takes every batch, in their order."""

    def __init__(self, journals: Sequence[Journal]) -> None:
        self._journals = tuple(journals)

    def write(self, batch: Sequence[Announced], /) -> None:
        """Hand a batch on."""
        for journal in self._journals:
            journal.write(batch)


async def replay(
    items: Iterable[FeedItem],
    *,
    journals: Sequence[Journal] = (),
    tally: Tally | None = None,
    until_us: int | None = None,
    strict: bool = False,
) -> bool:
    """Replay a feed in virtual time.

    An item is read when its turn comes, so the feed may be larger than the memory. After
    the last one time goes on until no timer is left.

    Args:
        items: The feed; its instants never go back.
        journals: What every batch of decisions is written to, before ``tally`` counts it.
        tally: Counts what happens; after a cancellation it holds what was done until then.
        until_us: The instant at which to end, in microseconds since the start: later
            events are not read, timers that are due then still go off.
        strict: Stop at the first event that is refused, or is none.

    Returns:
        False if it stopped because of ``strict``, with the batch of the refused event ended.

    Raises:
        FeedError: If the feed cannot be read on; what was read is carried out first.
        KeyboardInterrupt: If ``items`` raises it; what was read is carried out first.
        RefusedError: If the instant of a ``settle`` or ``expect`` is before the one before it.
        BrokenSchedulerError: If the scheduler fails, which is a bug.
    """
    tally = Tally() if tally is None else tally
    async with open_simulation(journal=Journals([*journals, tally])) as scheduler:
        try:
            went_through = await _let_all_in(scheduler, items, tally, until_us, strict=strict)
        except (FeedError, KeyboardInterrupt):  # nothing but reading raises the second one here
            await scheduler.settle()
            tally.end()
            raise
        if went_through:
            await scheduler.finish(until_us)
    tally.end(until_us if went_through else None)
    return went_through


async def _let_all_in(
    scheduler: Simulation,
    items: Iterable[FeedItem],
    tally: Tally,
    until_us: int | None,
    *,
    strict: bool,
) -> bool:
    """Let in every item, up to the one after ``until_us`` or the first refusal if ``strict``.

    Returns:
        False if there was such a refusal.
    """
    for item in items:
        if until_us is not None and item.at_us > until_us:
            break
        tally.saw(item)
        if not await _enter(scheduler, item, strict=strict):
            return False
    return True


async def _enter(scheduler: Simulation, item: FeedItem, *, strict: bool) -> bool:
    """Let an item in; an ``expect`` only closes the batch, as comparing is for ``check``.

    Returns:
        False if it was refused and ``strict`` asks to know.
    """
    if isinstance(item.content, Expect) or not strict:
        await let_in(scheduler, item)
        return True
    if isinstance(item.content, Settle | Refused):
        await let_in(scheduler, item)
        return isinstance(item.content, Settle)
    try:
        await scheduler.request(item.content, at_us=item.at_us, index=item.index, line=item.line)
    except RefusedError:
        return False
    return True


async def let_in(scheduler: Simulation, item: FeedItem) -> None:
    """Hand an item to a scheduler, without waiting for what becomes of an event."""
    match item.content:
        case Settle() | Expect():
            await scheduler.settle(item.at_us)
        case Refused(message):
            await scheduler.refuse(message, at_us=item.at_us, index=item.index, line=item.line)
        case event:
            await scheduler.submit(event, at_us=item.at_us, index=item.index, line=item.line)
