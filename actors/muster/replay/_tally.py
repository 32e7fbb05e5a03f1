"""The tally: what a replay did, counted while it goes on.

What an event brings is in the feed, what became of it in the decisions, so the tally
listens to both. It keeps what is alive (applications' asks, nodes) and a number for each
ask that was bound, never the events or the decisions.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence, Set as AbstractSet
from time import perf_counter
from typing import Final, TypeAlias, assert_never, final

import attrs

from muster.feeds import FeedItem
from muster.replay._summary import MOST_REMARKS, QueueSummary, Remark, Summary
from muster.replay._waits import Waits
from muster_core.decisions import MICROSECONDS, Announced, Decision, Kind, Reason
from muster_core.events import (
    AddAsk,
    AddNode,
    Apply,
    Delete,
    NodeObject,
    ObjectKind,
    PodObject,
    RemoveNode,
    UpdateNode,
)
from muster_core.lifecycle import AppState
from muster_core.resources import Resources
from muster_core.totals import add_to, take_from

_Counted: TypeAlias = AddAsk | AddNode | UpdateNode | RemoveNode | Apply | Delete
_Key: TypeAlias = tuple[str, str]

_GONE: Final = frozenset({Reason.COMPLETED, Reason.REMOVED})
"""The reasons after which a released ask is not pending again."""


@final
@attrs.frozen
class _Ask:
    """An ask that is alive; the members of one ``count`` share it.

    Attributes:
        since_us: When it came, in microseconds; None once it has been bound.
        resources: What it asks for or holds.
    """

    since_us: int | None
    resources: Resources


@final
class _Usage:
    """What there is and what is used of it, over time."""

    def __init__(self) -> None:
        self._now_us = 0
        self._nodes: dict[str, Resources] = {}
        self._there: dict[str, int] = {}
        self._used: dict[str, int] = {}
        #: The integrals of the two over time, in base units times microseconds.
        self._there_area: dict[str, int] = defaultdict(int)
        self._used_area: dict[str, int] = defaultdict(int)

    def pass_to(self, now_us: int) -> None:
        """Let time pass."""
        passed_us = now_us - self._now_us
        if passed_us <= 0:
            return
        self._now_us = now_us
        for name, amount in self._there.items():
            self._there_area[name] += amount * passed_us
        for name, amount in self._used.items():
            self._used_area[name] += amount * passed_us

    def set_node(self, name: str, capacity: Resources | None) -> None:
        """Give a node another capacity; None if it goes."""
        before = self._nodes.pop(name, None)
        if before is not None:
            take_from(self._there, before)
        if capacity is not None:
            self._nodes[name] = capacity
            add_to(self._there, capacity)
            for kind in capacity:
                self._there_area[kind] += 0  # to be reported even if it is gone at once

    def take(self, amounts: Resources) -> None:
        """Use some."""
        add_to(self._used, amounts)

    def give_back(self, amounts: Resources) -> None:
        """Use some no longer."""
        take_from(self._used, amounts)

    def check(self, used: Iterable[Resources]) -> None:
        """Assert the invariants, given what is in use; for tests."""
        total: dict[str, int] = {}
        for amounts in used:
            add_to(total, amounts)
        assert total == self._used
        total.clear()
        for capacity in self._nodes.values():
            add_to(total, capacity)
        assert total == self._there

    def utilisation(self) -> dict[str, float | None]:
        """Give for each type how much of it was used, from 0 to 1."""
        return {
            name: self._used_area.get(name, 0) / area if area else None
            for name, area in sorted(self._there_area.items())
        }


@final
class Tally:
    """Counts what a replay does; it is a journal.

    The driver tells it of every item before it hands the item on. The counters may be read
    from another thread while the replay goes on.

    Attributes:
        events: Items read.
        at_us: The instant of the last item or batch, in microseconds since the start.
        decisions: Decisions announced.
        refused: Events refused.
        warnings: Warnings given.
        asks_bound: Asks bound for the first time.
    """

    def __init__(self) -> None:
        self.events = 0
        self.at_us = 0
        self.decisions = 0
        self.refused = 0
        self.warnings = 0
        self.asks_bound = 0
        self._first_refusals: list[Remark] = []
        self._first_warnings: list[Remark] = []
        self._began_s = perf_counter()
        self._ended_s: float | None = None
        #: Events that were let in and whose batch has not been announced yet.
        self._open: deque[tuple[int, int, _Counted]] = deque()
        #: Every ask is in one of these; in ``_next`` if another one had its name in this batch.
        self._pending: dict[_Key, _Ask] = {}
        self._waiting: dict[_Key, _Ask] = {}
        self._bound: dict[_Key, _Ask] = {}
        self._next: dict[_Key, deque[_Ask]] = {}
        #: What pods ask for of which it cannot be told when they came whether they are new.
        self._pods: dict[_Key, Resources] = {}
        self._releases: Counter[Reason | None] = Counter()
        self._gangs_satisfied = 0
        self._gangs_timed_out = 0
        self._usage = _Usage()
        self._waits: dict[str, Waits] = defaultdict(Waits)
        self._jobs: dict[str, int] = defaultdict(int)

    @property
    def took_s(self) -> float:
        """How long it has taken so far, in seconds."""
        return (perf_counter() if self._ended_s is None else self._ended_s) - self._began_s

    # Listening

    def saw(self, item: FeedItem) -> None:
        """Take note of an item that is about to be let in."""
        self.events += 1
        self.at_us = item.at_us
        if isinstance(item.content, _Counted):
            self._open.append((item.at_us, item.index, item.content))

    def write(self, batch: Sequence[Announced], /) -> None:
        """Count the decisions of a batch."""
        at_us = batch[0].at_us
        refusals = _remarks(batch, Kind.REJECTED)
        warnings = _remarks(batch, Kind.WARNING)
        self._take_over(at_us, {refusal.index for refusal in refusals})
        self._usage.pass_to(at_us)
        for announced in batch:
            self._count(announced.decision, at_us)
        self.decisions += len(batch)
        self.refused += len(refusals)
        self._first_refusals += refusals[: MOST_REMARKS - len(self._first_refusals)]
        self.warnings += len(warnings)
        self._first_warnings += warnings[: MOST_REMARKS - len(self._first_warnings)]
        self.at_us = max(self.at_us, at_us)

    def end(self, until_us: int | None = None) -> None:
        """Take note that the replay is over, and that time passed until ``until_us``."""
        self._ended_s = perf_counter()
        self.at_us = max(self.at_us, until_us or 0)
        self._take_over(self.at_us, frozenset())
        self._usage.pass_to(self.at_us)

    def _take_over(self, until_us: int, refused: AbstractSet[int]) -> None:
        """Count the events of a batch, and those of earlier ones that led to no decision.

        The adds of a batch are counted before its decisions. That is what ``_next`` is for:
        a name that is released and asked for again in one batch.
        """
        while self._open and self._open[0][0] <= until_us:
            at_us, index, event = self._open.popleft()
            if index in refused:
                continue
            self._usage.pass_to(at_us)
            self._carry_out(event, at_us)

    def _carry_out(self, event: _Counted, at_us: int) -> None:
        match event:
            case AddAsk():
                self._add(event, at_us)
            case AddNode(node, capacity):
                self._usage.set_node(node, capacity)
            case UpdateNode(node, capacity):
                if capacity is not None:
                    self._usage.set_node(node, capacity)
            case RemoveNode(node):
                self._usage.set_node(node, None)
            case Apply():
                self._apply(event, at_us)
            case Delete():
                for manifest in event.objects:
                    if manifest.content.kind is ObjectKind.NODE:
                        self._usage.set_node(manifest.content.name, None)
            case _:
                assert_never(event)

    def _apply(self, event: Apply, at_us: int) -> None:
        for manifest in event.objects:
            match manifest.content:
                case NodeObject(node, capacity):
                    if capacity is not None:
                        self._usage.set_node(node, capacity)
                case PodObject(app=app, name=name, ask=AddAsk() as ask):
                    if self._knows((app, name)):  # Or it ends in this batch, and comes again.
                        self._pods[app, name] = ask.resources
                    else:
                        self._add(ask, at_us)
                case _:
                    pass

    def _knows(self, key: _Key) -> bool:
        return key in self._pending or key in self._waiting or key in self._bound

    def _add(self, event: AddAsk, at_us: int) -> None:
        ask = _Ask(at_us, event.resources)
        for name in event.names():
            key = (event.app, name)
            if self._knows(key):
                self._next.setdefault(key, deque()).append(ask)
            else:
                self._pending[key] = ask

    def _count(self, decision: Decision, at_us: int) -> None:
        match decision:
            case Decision(kind=Kind.BOUND, app=str(app), ask=str(name), queue=str(queue)):
                self._bind((app, name), queue, at_us)
            case Decision(kind=Kind.WAITING, app=str(app), ask=str(name)):
                self._wait((app, name), at_us)
            case Decision(kind=Kind.GANG_SATISFIED):
                self._gangs_satisfied += 1
            case Decision(kind=Kind.GANG_TIMED_OUT):
                self._gangs_timed_out += 1
            case Decision(kind=Kind.RELEASED, app=str(app), ask=str(name)):
                self._releases[decision.reason] += 1
                self._release((app, name), gone=decision.reason in _GONE)
            case Decision(kind=Kind.APP_STATE, state=AppState.NEW, queue=str(queue)):
                self._jobs[queue] += 1
            case _:
                pass

    def _wait(self, key: _Key, at_us: int) -> None:
        ask = self._waiting[key] = self._take_pending(key, at_us)
        self._usage.take(ask.resources)

    def _take_pending(self, key: _Key, at_us: int) -> _Ask:
        ask = self._pending.pop(key, None)
        return _Ask(at_us, self._pods.pop(key)) if ask is None else ask

    def _bind(self, key: _Key, queue: str, at_us: int) -> None:
        ask = self._waiting.pop(key, None)
        if ask is None:
            ask = self._take_pending(key, at_us)
            self._usage.take(ask.resources)
        if ask.since_us is not None:
            self.asks_bound += 1
            self._waits[queue].add(at_us - ask.since_us)
            ask = _Ask(None, ask.resources)
        self._bound[key] = ask

    def _release(self, key: _Key, *, gone: bool) -> None:
        ask = self._bound.pop(key, None) or self._waiting.pop(key, None)
        if ask is not None:
            self._usage.give_back(ask.resources)
        if not gone:
            if ask is not None:
                self._pending[key] = ask
            return
        self._pending.pop(key, None)
        following = self._next.get(key)
        if following:
            self._pending[key] = following.popleft()
            if not following:
                del self._next[key]

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        places = (self._pending, self._waiting, self._bound)
        keys = [key for place in places for key in place]
        assert len(keys) == len(set(keys))
        # What waits for a name waits for one that is taken.
        assert self._next.keys() <= set(keys)
        # All and only what waits on a node or is bound is used.
        held = (*self._waiting.values(), *self._bound.values())
        self._usage.check(ask.resources for ask in held)

    # Telling

    def summary(self) -> Summary:
        """Say what was done so far."""
        everything = Waits()
        for waits in self._waits.values():
            everything.extend(waits)
        queues = sorted(self._jobs.keys() | self._waits.keys())
        return Summary(
            events=self.events,
            refused=self.refused,
            first_refusals=tuple(self._first_refusals),
            warnings=self.warnings,
            first_warnings=tuple(self._first_warnings),
            asks_bound=self.asks_bound,
            asks_running=len(self._bound),
            asks_waiting=len(self._waiting),
            asks_pending=len(self._pending),
            asks_reclaimed=self._releases[Reason.RECLAIMED],
            asks_preempted=self._releases[Reason.PREEMPTED],
            gangs_satisfied=self._gangs_satisfied,
            gangs_timed_out=self._gangs_timed_out,
            decisions=self.decisions,
            virtual_s=self.at_us / MICROSECONDS,
            real_s=self.took_s,
            wait=everything.summary(),
            queues=tuple(
                QueueSummary(queue, self._jobs.get(queue, 0), self._waits[queue].summary())
                for queue in queues
            ),
            utilisation=self._usage.utilisation(),
        )


def _remarks(batch: Sequence[Announced], kind: Kind) -> list[Remark]:
    return [Remark.of(announced.decision) for announced in batch if announced.decision.kind is kind]
