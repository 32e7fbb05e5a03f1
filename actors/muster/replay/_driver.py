"""The driver: submit the events of a feed to a scheduler, each at its instant.

A replay may begin with the state at an instant of a feed, or with another configuration. Code that
needs only decisions submits the items to a scheduler without tasks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from inspect import isawaitable
from itertools import chain
from typing import Protocol, final

from muster._runtime.announcer import Journal
from muster._surface.simulation import Simulation, open_simulation
from muster.feeds import Expect, FeedError, FeedItem, Refused, Settle
from muster.replay._census import Beginning, beginning_of
from muster.replay._tally import Tally
from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.errors import RefusedError
from muster_core.events import Configure
from muster_core.facts import Facts


def submit_item_directly(scheduler: PlainScheduler, item: FeedItem) -> None:
    """Submit an item to a scheduler; an ``expect`` only closes the batch, as a ``settle`` does."""
    match item.content:
        case Settle() | Expect():
            scheduler.settle(item.at_us)
        case Refused(message):
            scheduler.submit(message, item.at_us, item.index, item.line)
        case event:
            scheduler.submit(event, item.at_us, item.index, item.line)


# COMMAND-16
def begun_at(
    items: Iterator[FeedItem], start_us: int, facts: Facts | None = None
) -> tuple[Facts, Iterator[FeedItem]]:
    """Let in the events before an instant.

    Args:
        items: The feed.
        start_us: The instant, in microseconds since the start; its events are not let in.
        facts: The state with which the feed begins, or None if it begins with nothing.

    Returns:
        The state at the instant, and the rest of the feed: :func:`replay` decides with them what
        it would have decided from there on.

    Raises:
        FeedError: If the feed cannot be read.
    """
    scheduler = PlainScheduler(facts=facts)
    rest = items
    for item in items:
        if item.at_us >= start_us:
            rest = chain([item], items)
            break
        submit_item_directly(scheduler, item)
        scheduler.announced = []
    if not scheduler.machine.batches and start_us:
        scheduler.settle()  # A state is one after a batch; nothing is decided in this one.
    scheduler.advance(start_us)
    return scheduler.facts(), rest


# COMMAND-15, COMMAND-30
def configured(
    items: Iterator[FeedItem], configuration: Configuration, facts: Facts | None = None
) -> tuple[Facts, Iterator[FeedItem]]:
    """Let a configuration be in force from the start of a feed.

    Args:
        items: The feed, which configures nothing itself.
        configuration: The configuration. If the feed begins with a state, it comes in right then,
            in a batch of its own.
        facts: The state with which the feed begins, or None if it begins with nothing.

    Returns:
        The state and the feed to replay.

    Raises:
        RefusedError: If the configuration cannot replace the one of the state.
    """
    if facts is None:
        return PlainScheduler(configuration).facts(), items
    scheduler = PlainScheduler(facts=facts)
    scheduler.submit(Configure(configuration))
    refusal = scheduler.machine.refusal_of(scheduler.machine.entered)
    if refusal is not None:
        raise RefusedError(refusal)
    at_us, index = facts.coordinator.now_us, max(facts.coordinator.requests - 1, 0)
    initial = (
        FeedItem(index, None, at_us, Configure(configuration)),
        FeedItem(index, None, at_us, Settle()),
    )
    return facts, chain(initial, items)


class Watcher(Journal, Protocol):
    """A journal that also gets the items of a replay, and can look at the scheduler.

    It does not change decisions.
    """

    def begin(self, beginning: Beginning, /) -> None:
        """Begin with a state instead of with nothing; called first, if the feed has one."""

    def saw(self, item: FeedItem, /) -> None:
        """Record an item that is about to be submitted."""

    def due_us(self) -> int | None:
        """Return the instant at the end of which it must look at the scheduler, or None.

        It is called between two instants of the feed; an instant in the past means now.
        """

    async def look(self, scheduler: Simulation, at_us: int, /) -> None:
        """Look at the scheduler while no batch is open, at ``at_us`` in microseconds."""

    async def look_at_end(self, scheduler: Simulation, at_us: int, /) -> None:
        """Look at the scheduler for the last time; not called after a cancellation."""


@final
class Journals:
    """Several journals as one; each gets every batch, in their order."""

    def __init__(self, journals: Sequence[Journal]) -> None:
        self._journals = tuple(journals)

    def write(self, batch: Sequence[Announced], /) -> Awaitable[None] | None:
        """Pass a batch to every journal; the result is awaitable only if that of one of them is."""
        for number, journal in enumerate(self._journals, 1):
            written = journal.write(batch)
            if isawaitable(written):
                return self._go_on(written, number, batch)
        return None

    async def _go_on(
        self, written: Awaitable[None], number: int, batch: Sequence[Announced]
    ) -> None:
        await written
        for journal in self._journals[number:]:
            written_too = journal.write(batch)
            if isawaitable(written_too):
                await written_too


async def replay(
    items: Iterable[FeedItem],
    *,
    facts: Facts | None = None,
    journals: Sequence[Journal] = (),
    watchers: Sequence[Watcher] = (),
    tally: Tally | None = None,
    until_us: int | None = None,
    strict: bool = False,
) -> bool:
    """Replay a feed in virtual time.

    Items are read one by one, so the feed may be larger than memory. After the last item,
    time continues until no timer is left.

    Args:
        items: The feed; its instants never go back.
        facts: The state with which the feed begins, such as
            :attr:`muster.feeds.KeptFeed.facts`; None if it begins with nothing.
        journals: Get every batch of decisions, before ``tally`` counts it.
        watchers: Get every batch and item, and look at the scheduler when they are due.
        tally: Counts what happens; after a cancellation it holds the counts until then.
        until_us: The instant at which to end, in microseconds since the start. Later events
            are not submitted; timers that are due at this instant still fire.
        strict: Stop at the first event that is invalid or refused.

    Returns:
        False if it stopped because of ``strict``; the batch of the refused event is complete.

    Raises:
        FeedError: If the feed cannot be read; the events read before are processed first.
        KeyboardInterrupt: If ``items`` raises it; the events read before are processed first.
        RefusedError: If the instant of a ``settle`` or ``expect`` is before that of an
            earlier event.
        BrokenSchedulerError: If the scheduler fails, which is a bug.
    """
    tally = Tally() if tally is None else tally
    journal = Journals([*journals, *watchers, tally])
    async with open_simulation(facts=facts, journal=journal) as scheduler:
        watched = _WatchedScheduler(scheduler, watchers)
        if facts is not None:
            watched.begin(beginning_of(facts, await scheduler.snapshot()), tally)
        try:
            went_through = await _let_all_in(watched, items, tally, until_us, strict=strict)
        except (FeedError, KeyboardInterrupt):  # only reading raises KeyboardInterrupt here
            await scheduler.settle()
            tally.end()
            await watched.end(tally.at_us)
            raise
        # FEED-13
        if went_through:
            await watched.pass_timers(until_us)
            await scheduler.finish(until_us)
        elif watchers:
            await scheduler.settle()
        await watched.end(max(tally.at_us, (until_us or 0) if went_through else 0))
    tally.end(until_us if went_through else None)
    return went_through


@final
class _WatchedScheduler:
    """A scheduler with its watchers.

    A look closes no batch that would stay open without it: it happens between two instants.
    """

    def __init__(self, scheduler: Simulation, watchers: Sequence[Watcher]) -> None:
        self.scheduler = scheduler
        self._watchers = tuple(watchers)
        self._now_us = 0

    def begin(self, beginning: Beginning, tally: Tally) -> None:
        """Begin with a state instead of with nothing."""
        self._now_us = beginning.at_us
        for watcher in self._watchers:
            watcher.begin(beginning)
        tally.begin(beginning)

    async def pass_to(self, item: FeedItem) -> None:
        """Advance to the instant of the next item, and show the item to the watchers."""
        if not self._watchers:
            return
        if item.at_us > self._now_us:
            while (due_us := self._due_us()) is not None and due_us < item.at_us:
                await self._look(due_us)
            self._now_us = item.at_us
        for watcher in self._watchers:
            watcher.saw(item)

    async def pass_timers(self, until_us: int | None) -> None:
        """Advance while timers are left and a watcher is due."""
        if not self._watchers:
            return
        await self.scheduler.finish(self._now_us)
        while (due_us := self._due_us()) is not None:
            timer_us = self.scheduler.next_timer_us()
            if timer_us is None or (until_us is not None and max(due_us, timer_us) >= until_us):
                return
            await self._look(due_us)

    async def end(self, at_us: int) -> None:
        """Let every watcher look for the last time."""
        for watcher in self._watchers:
            await watcher.look_at_end(self.scheduler, at_us)

    def _due_us(self) -> int | None:
        due = [due_us for watcher in self._watchers if (due_us := watcher.due_us()) is not None]
        return max(min(due), self._now_us) if due else None

    async def _look(self, due_us: int) -> None:
        await self.scheduler.finish(due_us)
        self._now_us = due_us
        for watcher in self._watchers:
            wanted_us = watcher.due_us()
            if wanted_us is not None and wanted_us <= due_us:
                await watcher.look(self.scheduler, due_us)


async def _let_all_in(
    watched: _WatchedScheduler,
    items: Iterable[FeedItem],
    tally: Tally,
    until_us: int | None,
    *,
    strict: bool,
) -> bool:
    """Submit all items up to ``until_us``, or up to the first refusal if ``strict``.

    Returns:
        False if ``strict`` and an item was refused.
    """
    for item in items:
        if until_us is not None and item.at_us > until_us:
            break
        await watched.pass_to(item)
        tally.saw(item)
        if not await _enter(watched.scheduler, item, strict=strict):
            return False
    else:
        tally.read_all()
    return True


# FEED-17
async def _enter(scheduler: Simulation, item: FeedItem, *, strict: bool) -> bool:
    """Submit an item; an ``expect`` only closes the batch: :class:`Check` compares.

    Returns:
        False if ``strict`` and the item was refused.
    """
    if isinstance(item.content, Expect) or not strict:
        await submit_item(scheduler, item)
        return True
    if isinstance(item.content, Settle | Refused):
        await submit_item(scheduler, item)
        return isinstance(item.content, Settle)
    try:
        await scheduler.request(item.content, at_us=item.at_us, index=item.index, line=item.line)
    except RefusedError:
        return False
    return True


async def submit_item(scheduler: Simulation, item: FeedItem) -> None:
    """Submit an item to a scheduler, without waiting for the outcome of an event."""
    match item.content:
        # FEED-11
        case Settle() | Expect():
            await scheduler.settle(item.at_us)
        case Refused(message):
            await scheduler.refuse(message, at_us=item.at_us, index=item.index, line=item.line)
        case event:
            await scheduler.submit(event, at_us=item.at_us, index=item.index, line=item.line)
