"""Deadlines: what happens without an event, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.steps import in_pieces
from muster_core.values.application_states import TIMERS_US, AppState
from muster_core.values.records import record
from muster_core.view.facts import StateEndFacts, TimerFacts
from muster_core.view.state.deadlines import Deadlines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.owners.messages.asks import Allocation
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.back_offs import BackOffs
    from muster_core.view.state.delays import Delays
    from muster_core.view.tree.application import ViewApp


@final
@record
class Completion:
    """The end of an allocation with a ``run_for``.

    Attributes:
        app: The key of its application.
        ask: The name of its ask.
    """

    app: int
    ask: str


@final
@record
class StateEnd:
    """The end of the time that an application may be in a state.

    Attributes:
        app: Its key.
        state: The state.
    """

    app: int
    state: AppState


@final
@record
class WaitEnd:
    """The end of the time that members of a gang may wait.

    Attributes:
        gang: Its full name.
    """

    gang: str


@final
class Timers:
    """All deadlines.

    Args:
        apps: The applications of the view, by key.
        waiting: The gangs of the view that have waiting members, by name.
        delays: The ends of ``preemption.delay``.
        back_offs: The ends of back-offs.
    """

    def __init__(
        self,
        apps: Mapping[int, ViewApp],
        waiting: Mapping[str, ViewGang],
        delays: Delays,
        back_offs: BackOffs,
    ) -> None:
        self._apps = apps
        self._waiting = waiting
        self._delays = delays
        self._back_offs = back_offs
        #: How many stays in a state there were so far; distinguishes each from all others.
        self._stays = 0
        #: How long members wait whose gang has no time of its own, in microseconds.
        self.gang_wait_us = 0
        #: The instant, the number of the bind, the application's key, the ask's name.
        self._completions = Deadlines(self._holds)
        #: The instant, the application's key, the number of the stay, the state.
        self._state_ends = Deadlines(self._lasts)

    # FEED-29, BACKFILL-11
    def bound(self, app: ViewApp, allocation: Allocation, now_us: int) -> None:
        """Add the deadline of a new allocation, if it has a ``run_for``."""
        run_for_us = allocation.ask.run_for_us
        if run_for_us is not None:
            due_us = now_us + run_for_us
            entry = (due_us, allocation.number, app.identity.key, allocation.ask.name)
            self._completions.add(entry)

    # APP-5, APP-10
    def entered(self, app: ViewApp, now_us: int) -> None:
        """Add the deadline of the state that an application has entered, if the state has one."""
        self._stays += 1
        app.stay = self._stays
        limit_us = TIMERS_US.get(app.state)
        if limit_us is not None:
            entry = (now_us + limit_us, app.identity.key, app.stay, app.state)
            self._state_ends.add(entry)

    def next_us(self) -> int | None:
        """Return the instant of the next deadline, in microseconds, or None."""
        firsts = (self._completions.first(), self._state_ends.first())
        heads = [first[0] for first in firsts if first is not None]
        heads.extend(end_us for gang in self._waiting.values() for end_us in self.ends(gang))
        only_begin = (self._delays.next_us(), self._back_offs.next_us())
        heads.extend(end_us for end_us in only_begin if end_us is not None)
        return min(heads, default=None)

    def tidy(self) -> Steps[None]:
        """Remove deadlines that no longer apply, if there are many; call it after a batch."""
        yield from self._completions.tidy()
        yield from self._state_ends.tidy()
        yield from self._back_offs.tidy()

    # GANG-5, GANG-14, GANG-42
    def ends(self, gang: ViewGang) -> Iterator[int]:
        """Return the instant at which the current wait of a gang ends, if there is one.

        A wait begins at the end of a batch: a node that is released in the batch in which it was
        taken starts no wait. The instant is computed when needed, since few gangs wait at a time
        and the length of a wait can change.
        """
        if gang.since_us is not None and gang.definition is not None:
            wait_us = gang.definition.wait_us
            yield gang.since_us + (self.gang_wait_us if wait_us is None else wait_us)

    # ROUND-3
    def due(self, now_us: int) -> list[Completion | WaitEnd | StateEnd]:
        """Remove and return the deadlines that are due.

        Returns:
            Completions in bind order, then waits of gangs in the order of their creation,
            then the applications' timers.
        """
        due: list[Completion | WaitEnd | StateEnd] = []
        self._delays.pass_to(now_us)  # Their end only starts a batch.
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

    # CHECKPOINT-4
    def facts(self) -> Steps[TimerFacts]:
        """Return the deadlines that do not follow from what owners own. Between two batches."""
        completions = yield from self._completions.all()
        ends: list[StateEndFacts] = []
        for those in in_pieces((yield from self._state_ends.all())):
            yield
            ends.extend(StateEndFacts(at_us, key, state) for at_us, key, _, state in those)
        since: list[tuple[int, str, int]] = []
        for piece in in_pieces(self._apps.items()):
            yield
            for key, app in piece:
                since.extend((key, name, since_us) for name, since_us in app.since_us.items())
        return TimerFacts(
            completions=completions,
            state_ends=tuple(ends),
            passed_us=self._delays.passed_us,
            pending_since=tuple(since),
        )

    # CHECKPOINT-5
    def load(self, facts: TimerFacts) -> Steps[None]:
        """Take over deadlines; all applications are in the view already."""
        yield from self._completions.load(facts.completions)
        ends: list[tuple[int, int, int, AppState]] = []
        for piece in in_pieces(facts.state_ends):
            yield
            for end in piece:
                self._stays += 1
                self._apps[end.app].stay = self._stays
                ends.append((end.at_us, end.app, self._stays, end.state))
        yield from self._state_ends.load(ends)
        for since in in_pieces(facts.pending_since):
            yield
            for key, name, since_us in since:
                self._apps[key].since_us[name] = since_us
        yield from self._delays.load(facts.passed_us)

    # FEED-29
    def _holds(self, entry: tuple[int, int, int, str]) -> bool:
        _, number, key, ask = entry
        app = self._apps.get(key)
        held = None if app is None else app.bound.get(ask)
        return held is not None and held[0].number == number

    def _lasts(self, entry: tuple[int, int, int, AppState]) -> bool:
        _, key, stay, _ = entry
        app = self._apps.get(key)
        return app is not None and app.stay == stay
