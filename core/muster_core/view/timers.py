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
@attrs.frozen
class Completion:
    """An allocation ends by itself.

    Attributes:
        app: The key of its application.
        ask: The name of its ask.
    """

    app: int
    ask: str


@final
@attrs.frozen
class StateEnd:
    """An application has been in a state as long as it may.

    Attributes:
        app: Its key.
        state: The state.
    """

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
        app.stay += 1
        limit_us = TIMERS_US.get(app.state)
        if limit_us is not None:
            entry = (now_us + limit_us, app.identity.key, app.stay, app.state)
            heappush(self._state_ends, entry)

    def next_us(self) -> int | None:
        """Give the instant of the next deadline, or None if there is none."""
        self._drop_stale()
        heads = [heap[0][0] for heap in (self._completions, self._state_ends) if heap]
        return min(heads, default=None)

    def due(self, now_us: int) -> list[Completion | StateEnd]:
        """Take out what is due: completions in bind order, then the applications' timers."""
        due: list[Completion | StateEnd] = []
        self._drop_stale()
        while self._completions and self._completions[0][0] <= now_us:
            _, _, app, ask = heappop(self._completions)
            due.append(Completion(app, ask))
            self._drop_stale()
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
