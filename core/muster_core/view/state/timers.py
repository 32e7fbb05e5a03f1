"""Deadlines: what is to happen by itself, and when."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

from muster_core.structures.steps import in_pieces
from muster_core.values.lifecycle import TIMERS_US, AppState
from muster_core.values.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from muster_core.owners.messages.asks import Allocation
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.delays import Delays
    from muster_core.view.tree.application import ViewApp


@final
@record
class Completion:
    """An allocation ends by itself.

    Attributes:
        app: The key of its application.
        ask: The name of its ask.
    """

    app: int
    ask: str


@final
@record
class StateEnd:
    """An application has been in a state as long as it may.

    Attributes:
        app: Its key.
        state: The state.
    """

    app: int
    state: AppState


@final
@record
class WaitEnd:
    """Members of a gang have waited as long as they may.

    Attributes:
        gang: Its full name.
    """

    gang: str


E = TypeVar("E", bound=tuple[object, ...])

_KEPT: Final = 64
"""How many deadlines are kept in any case before it is looked for those that no longer stand."""


class Deadlines(Generic[E]):
    """Deadlines in order, each a tuple that begins with its instant.

    One that no longer stands is dropped when it comes to the top, or when there are twice as
    many as were left when it was last looked through: so there are never more than twice as
    many as stand, however far off they are.

    Args:
        stands: Says whether a deadline still stands. It is asked between two batches.
    """

    __slots__ = ("_heap", "_limit", "_stands")

    def __init__(self, stands: Callable[[E], bool]) -> None:
        self._stands = stands
        self._heap: list[E] = []
        self._limit = _KEPT

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: E) -> None:
        """Note a deadline."""
        heappush(self._heap, deadline)

    def first(self) -> E | None:
        """Give the first deadline that stands, or None. Between two batches."""
        heap = self._heap
        while heap and not self._stands(heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def tidy(self) -> Steps[None]:
        """Look for those that no longer stand, if there are many. At the end of a batch."""
        heap = self._heap
        if len(heap) <= self._limit:
            return
        kept: list[E] = []
        for piece in in_pieces(heap):
            yield
            kept.extend(filter(self._stands, piece))
        heapify(kept)
        self._heap = kept
        self._limit = 2 * len(kept) + _KEPT

    def pop(self) -> None:
        """Take the first deadline out."""
        heappop(self._heap)


@final
class Timers:
    """All deadlines.

    Args:
        apps: The applications of the view, by key.
        waiting: The gangs of the view that have waiting members, by name.
        delays: The ends of ``preemption.delay``.
    """

    def __init__(
        self, apps: Mapping[int, ViewApp], waiting: Mapping[str, ViewGang], delays: Delays
    ) -> None:
        self._apps = apps
        self._waiting = waiting
        self._delays = delays
        #: How many stays in a state there were: tells each from all others.
        self._stays = 0
        #: How long members wait whose gang does not say, in microseconds.
        self.gang_wait_us = 0
        #: The instant, the number of the bind, the application's key, the ask's name.
        self._completions = Deadlines(self._holds)
        #: The instant, the application's key, which of its stays, the state.
        self._state_ends = Deadlines(self._lasts)

    def bound(self, app: ViewApp, allocation: Allocation, now_us: int) -> None:
        """Note when a new allocation will end, if it says how long it runs."""
        run_for_us = allocation.ask.run_for_us
        if run_for_us is not None:
            due_us = now_us + run_for_us
            entry = (due_us, allocation.number, app.identity.key, allocation.ask.name)
            self._completions.add(entry)

    def entered(self, app: ViewApp, now_us: int) -> None:
        """Note when the state that an application has entered will end, if it has an end."""
        self._stays += 1
        app.stay = self._stays
        limit_us = TIMERS_US.get(app.state)
        if limit_us is not None:
            entry = (now_us + limit_us, app.identity.key, app.stay, app.state)
            self._state_ends.add(entry)

    def next_us(self) -> int | None:
        """Give the instant of the next deadline, or None if there is none."""
        firsts = (self._completions.first(), self._state_ends.first())
        heads = [first[0] for first in firsts if first is not None]
        heads.extend(end_us for gang in self._waiting.values() for end_us in self.ends(gang))
        delay_us = self._delays.next_us()
        if delay_us is not None:
            heads.append(delay_us)
        return min(heads, default=None)

    def tidy(self) -> Steps[None]:
        """Forget deadlines that no longer stand, if there are many. At the end of a batch."""
        yield from self._completions.tidy()
        yield from self._state_ends.tidy()

    def ends(self, gang: ViewGang) -> Iterator[int]:
        """Give the instant at which the present wait of a gang is over, if it has begun.

        A wait begins when a batch ends: what is given up in the batch in which it was
        taken counts for no clock. Looked up rather than kept, as few gangs wait at a time
        and how long they may can change meanwhile.
        """
        if gang.since_us is not None and gang.definition is not None:
            wait_us = gang.definition.wait_us
            yield gang.since_us + (self.gang_wait_us if wait_us is None else wait_us)

    def due(self, now_us: int) -> list[Completion | WaitEnd | StateEnd]:
        """Take out what is due.

        Returns:
            Completions in bind order, then waits of gangs in the order in which these were
            created, then the applications' timers.
        """
        due: list[Completion | WaitEnd | StateEnd] = []
        self._delays.pass_to(now_us)  # Their end does nothing but start a batch.
        while (over := self._completions.first()) is not None and over[0] <= now_us:
            due.append(Completion(app=over[2], ask=over[3]))
            self._completions.pop()
        gangs = [
            gang for gang in self._waiting.values() for end in self.ends(gang) if end <= now_us
        ]
        due.extend(WaitEnd(gang.name) for gang in sorted(gangs, key=lambda gang: gang.rank()))
        while (end := self._state_ends.first()) is not None and end[0] <= now_us:
            due.append(StateEnd(app=end[1], state=end[3]))
            self._state_ends.pop()
        return due

    def _holds(self, entry: tuple[int, int, int, str]) -> bool:
        _, number, key, ask = entry
        app = self._apps.get(key)
        held = None if app is None else app.bound.get(ask)
        return held is not None and held[0].number == number

    def _lasts(self, entry: tuple[int, int, int, AppState]) -> bool:
        _, key, stay, _ = entry
        app = self._apps.get(key)
        return app is not None and app.stay == stay
