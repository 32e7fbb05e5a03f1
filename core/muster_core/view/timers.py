"""Deadlines: what is to happen by itself, and when."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, final

import attrs

from muster_core.lifecycle import TIMERS_US, AppState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.messages import Allocation
    from muster_core.view.apps import ViewApp


@final
@attrs.frozen(order=True)
class Completion:
    """An allocation ends by itself; completions of one instant go in bind order."""

    due_us: int
    rank: int
    app: int
    ask: str


@final
@attrs.frozen(order=True)
class StateEnd:
    """An application has been in a state as long as it may; in order of creation."""

    due_us: int
    app: int
    state: AppState


@final
class Timers:
    """All deadlines. One that no longer stands is dropped when it comes to the top.

    Args:
        apps: The applications of the view, by key.
    """

    def __init__(self, apps: Mapping[int, ViewApp]) -> None:
        self._apps = apps
        self._completions: list[Completion] = []
        self._state_ends: list[StateEnd] = []

    def bound(self, app: ViewApp, allocation: Allocation, now_us: int) -> None:
        """Note when a new allocation will end, if it says how long it runs."""
        run_for_us = allocation.ask.run_for_us
        if run_for_us is not None:
            entry = Completion(
                now_us + run_for_us, allocation.number, app.identity.key, allocation.ask.name
            )
            heappush(self._completions, entry)

    def entered(self, app: ViewApp) -> None:
        """Note when the state that an application has entered will end, if it has an end."""
        limit_us = TIMERS_US.get(app.state)
        if limit_us is not None:
            heappush(
                self._state_ends, StateEnd(app.since_us + limit_us, app.identity.key, app.state)
            )

    def next_us(self) -> int | None:
        """Give the instant of the next deadline, or None if there is none."""
        self._drop_stale()
        heads = [heap[0].due_us for heap in (self._completions, self._state_ends) if heap]
        return min(heads, default=None)

    def due(self, now_us: int) -> list[Completion | StateEnd]:
        """Take out what is due: completions in bind order, then the applications' timers."""
        due: list[Completion | StateEnd] = []
        self._drop_stale()
        while self._completions and self._completions[0].due_us <= now_us:
            due.append(heappop(self._completions))
            self._drop_stale()
        while self._state_ends and self._state_ends[0].due_us <= now_us:
            due.append(heappop(self._state_ends))
            self._drop_stale()
        return due

    def _drop_stale(self) -> None:
        while self._completions and not self._holds(self._completions[0]):
            heappop(self._completions)
        while self._state_ends and not self._lasts(self._state_ends[0]):
            heappop(self._state_ends)

    def _holds(self, entry: Completion) -> bool:
        app = self._apps.get(entry.app)
        held = None if app is None else app.bound.get(entry.ask)
        return held is not None and held[0].number == entry.rank

    def _lasts(self, entry: StateEnd) -> bool:
        app = self._apps.get(entry.app)
        return (
            app is not None
            and app.state is entry.state
            and app.since_us + TIMERS_US[entry.state] == entry.due_us
        )
