"""Deadlines: what is to happen by itself, and when."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, final

from muster_core.lifecycle import TIMERS_US, AppState
from muster_core.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.messages import Allocation
    from muster_core.view.apps import ViewApp
    from muster_core.view.delays import Delays
    from muster_core.view.gangs import ViewGang


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


@final
class Timers:
    """All deadlines. One that no longer stands is dropped when it comes to the top.

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
        self._completions: list[tuple[int, int, int, str]] = []
        #: The instant, the application's key, which of its stays, the state.
        self._state_ends: list[tuple[int, int, int, AppState]] = []

    def bound(self, app: ViewApp, allocation: Allocation, now_us: int) -> None:
        """Note when a new allocation will end, if it says how long it runs."""
        run_for_us = allocation.ask.run_for_us
        if run_for_us is not None:
            due_us = now_us + run_for_us
            entry = (due_us, allocation.number, app.identity.key, allocation.ask.name)
            heappush(self._completions, entry)

    def entered(self, app: ViewApp, now_us: int) -> None:
        """Note when the state that an application has entered will end, if it has an end."""
        self._stays += 1
        app.stay = self._stays
        limit_us = TIMERS_US.get(app.state)
        if limit_us is not None:
            entry = (now_us + limit_us, app.identity.key, app.stay, app.state)
            heappush(self._state_ends, entry)

    def next_us(self) -> int | None:
        """Give the instant of the next deadline, or None if there is none."""
        self._drop_stale()
        heads = [heap[0][0] for heap in (self._completions, self._state_ends) if heap]
        heads.extend(end_us for gang in self._waiting.values() for end_us in self._ends(gang))
        delay_us = self._delays.next_us()
        if delay_us is not None:
            heads.append(delay_us)
        return min(heads, default=None)

    def _ends(self, gang: ViewGang) -> Iterator[int]:
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
        self._drop_stale()
        while self._completions and self._completions[0][0] <= now_us:
            _, _, app, ask = heappop(self._completions)
            due.append(Completion(app, ask))
            self._drop_stale()
        over = [
            gang for gang in self._waiting.values() for end in self._ends(gang) if end <= now_us
        ]
        due.extend(WaitEnd(gang.name) for gang in sorted(over, key=lambda gang: gang.rank()))
        while self._state_ends and self._state_ends[0][0] <= now_us:
            _, app, _, state = heappop(self._state_ends)
            due.append(StateEnd(app, state))
            self._drop_stale()
        return due

    def _drop_stale(self) -> None:
        while self._completions and not self._holds(self._completions[0]):
            heappop(self._completions)
        while self._state_ends and not self._lasts(self._state_ends[0]):
            heappop(self._state_ends)

    def _holds(self, entry: tuple[int, int, int, str]) -> bool:
        _, number, key, ask = entry
        app = self._apps.get(key)
        held = None if app is None else app.bound.get(ask)
        return held is not None and held[0].number == number

    def _lasts(self, entry: tuple[int, int, int, AppState]) -> bool:
        _, key, stay, _ = entry
        app = self._apps.get(key)
        return app is not None and app.stay == stay
