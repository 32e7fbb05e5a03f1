"""The story of a run: its accepted events and its decisions, which oracles compare.

A story is the journal and the record of a scheduler. It keeps track of bound asks and satisfied
gangs, and finds the faults that the decisions alone show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, final

import attrs

from muster.testing.fuzz._program import Key
from muster.testing.fuzz._records.history import Ask, History
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    Event,
    FailBind,
    NodeObject,
    PodObject,
    QueueObject,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_GANG_SATISFIED: Final = Kind.GANG_SATISFIED
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED

_LOST: Final = frozenset({Reason.RECLAIMED, Reason.PREEMPTED, Reason.NODE_LOST})
"""If all members of a gang are released for these reasons, the gang is unsatisfied again."""


@final
@attrs.frozen
class Entry:
    """An accepted event, or the end of a batch.

    Attributes:
        at_us: The instant of its batch, in microseconds since the opening.
        event: The event, or None for the end of a batch.
        announced: How many decisions there were before it.
    """

    at_us: int
    event: Event | None
    announced: int


@final
@attrs.define
class _Gang:
    """The state of a gang, as the decisions show it."""

    satisfied: bool = False
    bound: set[Ask] = attrs.field(factory=set[Ask])
    all_lost: bool = True


@final
class Story:
    """The journal and the record of one run.

    Attributes:
        decisions: All announced decisions.
        entries: All accepted events and the ends of batches, in order.
        keys: How many events were accepted, by key.
        closed: The value of ``keys`` at the end of the last batch.
        bound: For each bound ask the decision that bound it.
        times_bound: How often each ask was bound.
        satisfied: The satisfied gangs, except those that a later event tried to remove.
        awake_us: The instant of the last jump of the clock, in microseconds since the opening;
            later decisions must not have earlier instants.
        faults: The faults of the decisions by themselves.
        history: The history of each ask.
    """

    def __init__(self) -> None:
        self.decisions: list[Announced] = []
        self.entries: list[Entry] = []
        self.keys: Counter[Key] = Counter()
        self.closed: Counter[Key] = Counter()
        self.bound: dict[Ask, Announced] = {}
        self.times_bound: Counter[Ask] = Counter()
        self.satisfied: set[str] = set()
        self.awake_us = 0
        self.faults: list[str] = []
        self.history = History()
        #: The decisions of the batch that is about to end.
        self._written: Sequence[Announced] = ()
        self._gangs: dict[str, _Gang] = {}

    # The record

    def enter(self, at_us: int, event: Event, /) -> None:
        """Record an accepted event."""
        self.entries.append(Entry(at_us, event, len(self.decisions)))
        self.history.enter(event)
        key = key_of(event)
        self.keys[key] += 1
        if isinstance(event, RemoveGang | Delete):
            self.satisfied.discard(key[-1])

    def close(self, at_us: int, /) -> None:
        """Record the end of a batch."""
        batch, self._written = self._written, ()
        satisfied = {one.decision.gang for one in batch if one.decision.kind is _GANG_SATISFIED}
        for one in batch:
            self._check_place(one)
            self.decisions.append(one)
            self._follow(one, satisfied)
        self.history.end_batch(batch)
        self.closed = self.keys.copy()
        self.entries.append(Entry(at_us, None, len(self.decisions)))

    # The journal

    def write(self, batch: Sequence[Announced], /) -> None:
        """Receive the decisions of a batch, of which :meth:`close` tells next.

        With a store its events come in between, otherwise they have come before.
        """
        if not batch:
            self.faults.append("the journal was given an empty batch")
        self._written = batch

    def _check_place(self, one: Announced) -> None:
        if one.seq != len(self.decisions) + 1:
            self.faults.append(f"decision {one.seq} follows decision {len(self.decisions)}")
        if self.decisions and one.at_us < self.decisions[-1].at_us:
            self.faults.append(f"decision {one.seq} is earlier than the one before it")
        if one.at_us < self.awake_us:
            late_us = self.awake_us - one.at_us
            self.faults.append(f"decision {one.seq}, of {one.at_us} us, comes {late_us} us late")

    def _follow(self, one: Announced, satisfied: set[str | None]) -> None:
        decision = one.decision
        if decision.kind is _GANG_SATISFIED and decision.gang is not None:
            gang = self._gangs.setdefault(decision.gang, _Gang())
            gang.satisfied, gang.all_lost = True, True
            self.satisfied.add(decision.gang)
        if decision.app is None or decision.ask is None:
            return
        ask = (decision.app, decision.ask)
        if decision.kind is _BOUND:
            if ask in self.bound:
                self.faults.append(f"{ask} is bound by decision {one.seq}, and was bound already")
            self.bound[ask] = one
            self.times_bound[ask] += 1
            self._member_bound(one, ask, satisfied)
        elif decision.kind is _RELEASED:
            self.bound.pop(ask, None)
            self._member_released(decision, ask)

    def _member_bound(self, one: Announced, ask: Ask, satisfied: set[str | None]) -> None:
        name = one.decision.gang
        if name is None:
            return
        gang = self._gangs.setdefault(name, _Gang())
        gang.bound.add(ask)
        if not gang.satisfied and name not in satisfied:
            self.faults.append(
                f"decision {one.seq} binds {ask} of the gang {name}, which is not satisfied"
            )

    def _member_released(self, decision: Decision, ask: Ask) -> None:
        gang = self._gangs.get(decision.gang or "")
        if gang is None or ask not in gang.bound:
            return
        gang.bound.discard(ask)
        gang.all_lost = gang.all_lost and decision.reason in _LOST
        if not gang.bound and gang.all_lost:
            gang.satisfied = False
        if not gang.bound and decision.gang is not None:
            self.satisfied.discard(decision.gang)


def key_of(event: Event) -> Key:
    """Return the kind and the subject of an event."""
    kind = type(event).__name__
    match event:
        case AddAsk() | RemoveAsk() | Release() | FailBind() | BindFailed():
            return kind, event.app, event.ask
        case AddApp() | RemoveApp():
            return kind, event.app
        case AddNode() | UpdateNode() | RemoveNode():
            return kind, event.node
        case AddGang() | RemoveGang():
            return kind, event.gang
        case AddPriorityClass():
            return kind, event.name
        case Apply(objects):
            content = objects[0].content
            return kind, type(content).__name__, _name_of(content)
        case Delete(names):
            return kind, names[0].content.kind.value, names[0].content.name
        case Configure():
            return (kind,)


def _name_of(content: AddPriorityClass | AddGang | NodeObject | PodObject | QueueObject) -> str:
    match content:
        case AddGang():
            return content.gang
        case NodeObject():
            return content.node
        case AddPriorityClass() | PodObject() | QueueObject():
            return content.name
