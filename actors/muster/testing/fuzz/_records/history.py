"""The history of each ask, from the decisions: where it was bound, and how each allocation ended.

Several asks may have the same name, one after the other; the events that added them tell them
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

import attrs

from muster_core.decisions import Announced, Kind, Reason
from muster_core.events import AddAsk, Apply, Event, PodObject

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_REJECTED: Final = Kind.REJECTED
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED
_COMPLETED: Final = Reason.COMPLETED
_BIND_FAILED: Final = Reason.BIND_FAILED

Ask = tuple[str, str]
"""The names of an application and an ask."""


@final
@attrs.define(eq=False)
class Allocated:
    """One allocation.

    Attributes:
        seq: The decision that bound it.
        node: The node.
        batch: The number of the batch that bound it.
        end: The decision that released it, or None while it lasts.
        for_good: Whether it ended as failed when the ask had no retry left.
    """

    seq: int
    node: str | None
    batch: int
    end: Announced | None = None
    for_good: bool = False

    @property
    def reason(self) -> Reason | None:
        """The reason why it has ended, or None while it lasts."""
        return None if self.end is None else self.end.decision.reason


@final
@attrs.define(eq=False)
class Life:
    """The history of one ask.

    Attributes:
        index: The index of the event that added it.
        sure: Whether that event was an ``add_ask``, and no manifest may have changed the ask.
        retries: How many retries it has left.
        allocations: Its allocations, except those that ended in the batch in which they began.
    """

    index: int
    sure: bool
    retries: int = 0
    allocations: list[Allocated] = attrs.field(factory=list[Allocated])


@final
class History:
    """The histories of all asks.

    Attributes:
        lives: The asks of each name, in order.
        lasting: The allocation of each bound ask.
        by_seq: The allocations by the decision that bound them.
        entered: How many events were accepted.
    """

    def __init__(self) -> None:
        self.lives: dict[Ask, list[Life]] = {}
        self.lasting: dict[Ask, Allocated] = {}
        self.by_seq: dict[int, Allocated] = {}
        self.entered = 0
        self._batch = 0
        #: The events of this batch that add asks; the end of the batch shows which are refused.
        self._open: list[tuple[int, Event]] = []

    def enter(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, AddAsk | Apply):
            self._open.append((self.entered, event))
        self.entered += 1

    def end_batch(self, announced: Sequence[Announced] = ()) -> None:
        """Process the decisions of a batch."""
        refused = {one.decision.index for one in announced if one.decision.kind is _REJECTED}
        for index, event in self._open:
            if index not in refused:
                self._admit(index, event)
        self._open.clear()
        for one in announced:
            self._follow(one)
        self._batch += 1

    def _admit(self, index: int, event: Event) -> None:
        match event:
            case AddAsk():
                for name in event.names():
                    life = Life(index, sure=True, retries=event.retries)
                    self.lives.setdefault((event.app, name), []).append(life)
            case Apply(objects):
                for content in (one.content for one in objects):
                    if isinstance(content, PodObject):
                        # The object is a new ask, or changes the existing one.
                        self._latest((content.app, content.name), index).sure = False
            case _:
                pass

    def _latest(self, ask: Ask, index: int) -> Life:
        lives = self.lives.setdefault(ask, [])
        if not lives:
            lives.append(Life(index, sure=False))
        return lives[-1]

    def _follow(self, one: Announced) -> None:
        decision = one.decision
        if decision.app is None or decision.ask is None:
            return
        ask = (decision.app, decision.ask)
        if decision.kind is _BOUND:
            allocated = Allocated(one.seq, decision.node, self._batch)
            self._latest(ask, self.entered).allocations.append(allocated)
            self.lasting[ask] = self.by_seq[one.seq] = allocated
        elif decision.kind is _RELEASED and ask in self.lasting:
            allocated = self.lasting.pop(ask)
            allocated.end = one
            if decision.reason is Reason.FAILED:
                life = self._latest(ask, self.entered)
                allocated.for_good = life.retries == 0
                life.retries -= 1
            if allocated.batch == self._batch:  # No caller can have seen it.
                self.lives[ask][-1].allocations.remove(allocated)

    def come_since(self, ask: Ask, entered: int) -> Life | None:
        """Return the ask of a name that was added since an event, if there is exactly one."""
        lives = [life for life in self.lives.get(ask, ()) if life.index >= entered]
        return lives[0] if len(lives) == 1 and lives[0].sure else None

    def completed_since(self, ask: Ask, seq: int) -> Iterator[Allocated]:
        """Yield the allocations of a name that completed after a decision."""
        for life in self.lives.get(ask, ()):
            for one in life.allocations:
                if one.end is not None and one.end.seq > seq and one.reason is _COMPLETED:
                    yield one


def failed_in_a_row(allocations: Iterable[Allocated], counts: set[int]) -> int:
    """Return how many of the last allocations failed in a row, if their runs count."""
    times = 0
    for one in allocations:
        if one.reason is not _BIND_FAILED:
            times = 0
        elif one.seq in counts:
            times += 1
    return times
