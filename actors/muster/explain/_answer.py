"""The answers: why an ask is not running at an instant of a feed, and what would help.

The feed is replayed up to the instant. A state directory holds decisions from before the checkpoint
from which a replay goes on: nothing of that is decided again, and batches that do not name what is
asked for are not even decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.explain._history import AskHistory, Fate, Whereabouts
from muster.explain._output import why_held_back_later
from muster.explain._remedies.case import Remedy
from muster.explain._remedies.finder import RemedySearch, event_like
from muster.feeds import Expect, FeedItem, KeptFeed, Refused, Settle
from muster.replay import Remark
from muster.replay._driver import submit_item_directly
from muster_core.coordinator.plain_scheduler import PlainScheduler, forecast
from muster_core.decisions import Announced, Kind
from muster_core.events import AddAsk
from muster_core.reasons import Code, Explanation, PendingReason

if TYPE_CHECKING:
    from muster.store import KeptBatch
_WORD: Final = b"rejected"


def learn(kept: KeptFeed, history: AskHistory) -> None:
    """Let a history learn what happened to its ask before the replay.

    Raises:
        FeedError: If the directory cannot be read.
    """
    if kept.facts is None:
        return
    name = history.app.encode("utf-8", "surrogatepass")
    found: list[tuple[int, KeptBatch]] = []
    events = 0
    for batch in kept.earlier():
        if name in batch.packed_events or name in batch.packed_decisions:
            found.append((events, batch))
        events += batch.event_count
    # How many events came before those that are kept is known only now.
    first = kept.facts.coordinator.requests - events
    history.begin(complete=first == 0)
    for position, batch in found:
        for index, event in enumerate(batch.events, first + position):
            history.saw(FeedItem(index, None, batch.at_us, event))
        history.apply_decisions(batch.decisions)


def first_refusals(kept: KeptFeed, most: int) -> tuple[Remark, ...]:
    """Return the first events that were refused before the replay, as far as they are kept.

    Args:
        kept: The state directory.
        most: How many are returned at most.

    Raises:
        FeedError: If the directory cannot be read.
    """
    if kept.facts is None or not kept.facts.coordinator.refused:
        return ()
    found: list[Remark] = []
    for remark in _refusals(kept):
        found.append(remark)
        if len(found) == most:
            break
    return tuple(found)


def _refusals(kept: KeptFeed) -> Iterator[Remark]:
    for batch in kept.earlier():
        if _WORD in batch.packed_decisions:
            for announced in batch.decisions:
                if announced.decision.kind is Kind.REJECTED:
                    yield Remark.of(announced.decision)


_MOST_LISTED: Final = 10
"""How many refusals are kept with their messages."""


@final
@attrs.frozen
class RefusedSoFar:
    """The events that were refused up to an instant.

    Attributes:
        events: How many events there were, without ``settle`` and ``expect``.
        count: How many of them were refused.
        first: The first refusals, with their messages.
    """

    events: int = 0
    count: int = 0
    first: tuple[Remark, ...] = ()

    @property
    def all(self) -> bool:
        """Whether there were events and all of them were refused."""
        return 0 < self.events == self.count

    def then(self, batch: Sequence[Announced]) -> RefusedSoFar:
        """Return these refusals and those in ``batch``."""
        kinds = (announced.decision for announced in batch)
        refused = [decision for decision in kinds if decision.kind is Kind.REJECTED]
        if not refused:
            return self
        more = [Remark.of(decision) for decision in refused[: _MOST_LISTED - len(self.first)]]
        return attrs.evolve(self, count=self.count + len(refused), first=(*self.first, *more))


@final
@attrs.frozen
class ReplayedState:
    """The state at the end of the batch of an instant.

    Attributes:
        scheduler: The scheduler, between two batches.
        at_us: The instant, in microseconds since the start.
        refusals: The events that were refused up to the instant.
        later: The rest of the feed, not read yet.
    """

    scheduler: PlainScheduler
    at_us: int
    refusals: RefusedSoFar
    later: Iterator[FeedItem]


def replay_until(
    items: Iterable[FeedItem],
    at_us: int | None,
    history: AskHistory | None = None,
    kept: KeptFeed | None = None,
) -> ReplayedState:
    """Replay a feed up to the end of the batch of an instant.

    Args:
        items: The feed; its instants never go back.
        at_us: The instant, in microseconds since the start; None for that of the last event.
        history: Gets the events and decisions, or None.
        kept: The state directory from which the items come, or None.

    Raises:
        FeedError: If the feed cannot be read up to the instant.
    """
    scheduler = PlainScheduler(facts=None if kept is None else kept.facts)
    rest = iter(items)
    last_us, events, refusals = scheduler.machine.now_us, 0, RefusedSoFar()
    if kept is not None and kept.facts is not None:
        events, refused = kept.facts.coordinator.requests, kept.facts.coordinator.refused
        refusals = RefusedSoFar(0, refused, first_refusals(kept, min(_MOST_LISTED, refused)))
        if history is not None:
            learn(kept, history)
    for item in rest:
        if at_us is not None and item.at_us > at_us:
            rest = chain([item], rest)
            break
        submit_item_directly(scheduler, item)
        events += not isinstance(item.content, Settle | Expect)
        refusals = refusals.then(_take_decisions(scheduler, history))
        if history is not None:
            history.saw(item)
        last_us = item.at_us
    end_us = last_us if at_us is None else at_us
    scheduler.settle(end_us)
    refusals = refusals.then(_take_decisions(scheduler, history))
    if history is not None:
        history.apply_decisions(())  # The last batch may have no decisions.
    return ReplayedState(scheduler, end_us, attrs.evolve(refusals, events=events), rest)


def _take_decisions(scheduler: PlainScheduler, history: AskHistory | None) -> Sequence[Announced]:
    """Take the new decisions from the scheduler, and pass them to the history."""
    announced = scheduler.announced
    if announced:
        if history is not None:
            history.apply_decisions(announced)
        scheduler.announced = []
    return announced


@final
@attrs.frozen
class Answer:
    """The state of an ask at an instant, why it is not running, and what would help.

    Attributes:
        app: Its application.
        ask: Its name.
        at_us: The instant, in microseconds since the start.
        whereabouts: Its state at the instant, and since when.
        refusals: The events of the feed that were refused up to then.
        explanation: Why it is not running, and when it will start; None if it is bound, has ended
            or was never added.
        remedies: The changes each of which, alone, would get it bound at once.
        trials: How many trials the search for remedies made.
        exhausted: Whether the search stopped early because the state is large.
        ends_at_us: When it is expected to end, in microseconds since the start; None if it is not
            bound, or if its end is unknown.
        gone_at_us: When it is gone, in microseconds since the start: if it is not bound by then, or
            because its run limit is reached; None if neither is so.
        held_back_later: Why it is held back when it would fit alone, if it is pending for another
            reason now.
    """

    app: str
    ask: str
    at_us: int
    whereabouts: Whereabouts
    refusals: RefusedSoFar = attrs.field(factory=RefusedSoFar)
    explanation: Explanation | None = None
    remedies: tuple[Remedy, ...] = ()
    trials: int = 0
    exhausted: bool = False
    ends_at_us: int | None = None
    gone_at_us: int | None = None
    held_back_later: PendingReason | None = None


def explain(
    items: Iterable[FeedItem],
    app: str,
    ask: str,
    *,
    at_us: int | None = None,
    search: bool = True,
    kept: KeptFeed | None = None,
) -> Answer:
    """Explain why an ask of a feed is not running at an instant, and what would help.

    Args:
        items: The feed; its instants never go back.
        app: The application.
        ask: The name of the ask.
        at_us: The instant, in microseconds since the start, its batch included; None for the
            instant of the last event.
        search: Whether to search for remedies.
        kept: The state directory from which the items come, or None: they may begin with a
            checkpoint, and it knows what happened to the ask before.

    Raises:
        FeedError: If the feed cannot be read.
    """
    history = AskHistory(app, ask)
    moment = replay_until(items, at_us, history, kept)
    scheduler = moment.scheduler
    shown = scheduler.app(app)
    seen = None
    if shown is not None:
        seen = next((one for one in shown.asks if one.name == ask), None)
    there = scheduler.machine.app(app)
    held = None if there is None else there.allocation(ask)
    explanation = None if seen is None else _explanation(scheduler, app, ask, moment.at_us)
    whereabouts = history.whereabouts(
        seen,
        None if shown is None else shown.queue,
        None if explanation is None else explanation.since_us,
        () if held is None else held.passed,
    )
    if whereabouts.fate is Fate.UNKNOWN:
        whereabouts = _later(history, moment)
    answer = Answer(
        app,
        ask,
        moment.at_us,
        whereabouts,
        moment.refusals,
        explanation,
        ends_at_us=scheduler.expected_end_us(app, ask),
        gone_at_us=scheduler.gone_at_us(app, ask),
        held_back_later=_held_back_later(scheduler, explanation, moment.at_us),
    )
    event = _event(history, scheduler)
    if explanation is None or event is None or not search:
        return answer
    found = RemedySearch(scheduler, event, explanation, moment.at_us)
    remedies = tuple(found)
    return attrs.evolve(answer, remedies=remedies, trials=found.made, exhausted=found.exhausted)


def _explanation(scheduler: PlainScheduler, app: str, ask: str, at_us: int) -> Explanation | None:
    """Return why an ask is not running, and when it will start."""
    explanation = scheduler.explain_fully(app, ask)
    if explanation is None or explanation.outlook is None:
        return explanation
    outlook = attrs.evolve(
        explanation.outlook, forecast=forecast(scheduler.facts(), app, ask, at_us)
    )
    return attrs.evolve(explanation, outlook=outlook)


# OUTLOOK-10
def _held_back_later(
    scheduler: PlainScheduler, explanation: Explanation | None, at_us: int
) -> PendingReason | None:
    """Return why an ask that is not held back now is so when it would fit alone."""
    outlook = None if explanation is None else explanation.outlook
    if explanation is None or outlook is None or outlook.forecast is None:
        return None
    return why_held_back_later(explanation, outlook.forecast, scheduler.facts, at_us)


def _event(history: AskHistory, scheduler: PlainScheduler) -> AddAsk | None:
    """Return the event that added the ask; one like it if it came before what is kept."""
    if history.event is not None:
        return history.event
    return event_like(scheduler, history.app, history.ask)


def _later(history: AskHistory, moment: ReplayedState) -> Whereabouts:
    """Look for the ask in the rest of the feed; if it is not there, name the known asks."""
    for item in moment.later:
        history.names.saw(item)
        if history.brought(item) is not None:
            return Whereabouts(Fate.LATER, item.at_us, index=item.index, line=item.line)
    app = moment.scheduler.app(history.app)
    if app is None:
        message = f"no event brings it, and there is no application {history.app!r} then"
    else:
        known = ", ".join(ask.name for ask in app.asks[:_MOST_LISTED]) or "none"
        more = f", … {len(app.asks):,} in all" if len(app.asks) > _MOST_LISTED else ""
        message = f"no event brings it; the asks of {history.app!r} then are: {known}{more}"
    message += history.names.guess(history.ask)
    if history.unread:
        message = f"{message}; what is no event might have brought it: {_unread(history)}"
    return Whereabouts(Fate.UNKNOWN, message=message)


def _unread(history: AskHistory) -> str:
    parts: list[str] = []
    for item in history.unread:
        assert isinstance(item.content, Refused)
        place = f"event {item.index}" if item.line is None else f"line {item.line}"
        parts.append(f"{place} ({item.content.message})")
    return ", ".join(parts)


@final
@attrs.frozen
class PendingGroup:
    """The asks that are not running and have the same dominant reason.

    Attributes:
        code: The reason.
        count: How many asks have it.
        queues: Queue paths, each with its number of asks, the largest number first.
        examples: Some of the asks with the reason in words; the longest wait comes first.
        longest_us: The longest wait, in microseconds.
    """

    code: Code
    count: int
    queues: tuple[tuple[str, int], ...]
    examples: tuple[Explanation, ...]
    longest_us: int


@final
@attrs.frozen
class Overview:
    """Why asks are not running at an instant.

    Attributes:
        at_us: The instant, in microseconds since the start.
        groups: The pending, parked and waiting asks by dominant reason, the largest group
            first.
        refusals: The events of the feed that were refused up to then.
    """

    at_us: int
    groups: tuple[PendingGroup, ...]
    refusals: RefusedSoFar = attrs.field(factory=RefusedSoFar)

    @property
    def count(self) -> int:
        """How many asks are not running."""
        return sum(group.count for group in self.groups)


@final
class _ReasonCount:
    """The asks of one dominant reason, while they are counted."""

    def __init__(self) -> None:
        self.count = 0
        self.queues: dict[str, int] = {}
        self.longest: list[Explanation] = []

    def add(self, explanation: Explanation, most: int) -> None:
        self.count += 1
        self.queues[explanation.queue] = self.queues.get(explanation.queue, 0) + 1
        self.longest.append(explanation)
        if len(self.longest) > 2 * most:
            self.cut(most)

    def cut(self, most: int) -> None:
        self.longest.sort(key=lambda one: one.since_us)
        del self.longest[most:]

    def group(self, code: Code, at_us: int, most: int) -> PendingGroup:
        self.cut(max(most, 1))
        queues = sorted(self.queues.items(), key=lambda one: (-one[1], one[0]))
        longest_us = at_us - self.longest[0].since_us
        return PendingGroup(code, self.count, tuple(queues), tuple(self.longest[:most]), longest_us)


def explain_all(
    items: Iterable[FeedItem],
    *,
    at_us: int | None = None,
    examples: int = 3,
    kept: KeptFeed | None = None,
) -> Overview:
    """Group all asks of a feed that are not running at an instant by dominant reason.

    Args:
        items: The feed; its instants never go back.
        at_us: The instant, in microseconds since the start, its batch included; None for the
            instant of the last event.
        examples: How many examples each group has.
        kept: The state directory from which the items come, or None.

    Raises:
        FeedError: If the feed cannot be read.
    """
    moment = replay_until(items, at_us, kept=kept)
    piles: dict[Code, _ReasonCount] = {}
    for app, ask in moment.scheduler.pending():
        explanation = moment.scheduler.explain(app, ask)
        assert explanation is not None, "a pending ask without a reason"
        piles.setdefault(explanation.dominant.code, _ReasonCount()).add(
            explanation, max(examples, 1)
        )
    groups = [pile.group(code, moment.at_us, examples) for code, pile in piles.items()]
    groups.sort(key=lambda group: (-group.count, list(Code).index(group.code)))
    return Overview(moment.at_us, tuple(groups), moment.refusals)
