"""The states of an application, in one table.

APP-1 to APP-13, after YuniKorn's application states. Everything that changes the
state of an application is a row of :data:`TRANSITIONS`; what is not in the table
changes nothing. The owner of an application and the coordinator's view both use
it: the first for what comes in, the second for what a round decides.

An application is Accepted with its first ask, Starting with its first bound ask
and Running with its second, or five minutes after the first. It is Completing
while it has no ask in any place, and Completed thirty seconds later, for good.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, final

from muster_core.values.decisions import MICROSECONDS


@final
class AppState(StrEnum):
    """Where an application stands; states never go back."""

    NEW = "New"
    ACCEPTED = "Accepted"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"

    # The text that a state is has the hash of that text, which is looked up without Python code.
    __hash__ = str.__hash__


@final
class Trigger(StrEnum):
    """What may change the state of an application."""

    ASK_ADDED = "an ask comes"
    ASK_BOUND = "an ask is bound"
    EMPTIED = "no ask is left"
    TIME_UP = "its timer is due"

    __hash__ = str.__hash__


TRANSITIONS: Final[dict[tuple[AppState, Trigger], AppState]] = {
    (AppState.NEW, Trigger.ASK_ADDED): AppState.ACCEPTED,
    (AppState.ACCEPTED, Trigger.ASK_BOUND): AppState.STARTING,
    (AppState.ACCEPTED, Trigger.EMPTIED): AppState.COMPLETING,
    (AppState.STARTING, Trigger.ASK_BOUND): AppState.RUNNING,
    (AppState.STARTING, Trigger.TIME_UP): AppState.RUNNING,
    (AppState.STARTING, Trigger.EMPTIED): AppState.COMPLETING,
    (AppState.RUNNING, Trigger.EMPTIED): AppState.COMPLETING,
    (AppState.COMPLETING, Trigger.ASK_ADDED): AppState.RUNNING,
    (AppState.COMPLETING, Trigger.TIME_UP): AppState.COMPLETED,
}
"""Present state and what happens, to the next state."""

TIMERS_US: Final = {
    AppState.STARTING: 300 * MICROSECONDS,
    AppState.COMPLETING: 30 * MICROSECONDS,
}
"""How long an application stays in a state at the most, in microseconds."""

RUNNING_STATES: Final = frozenset({AppState.STARTING, AppState.RUNNING})
"""The states in which an application counts against ``maxapplications``."""

SKIP_STARTING_TAG: Final = "application.stateaware.disable"
"""The tag whose value ``true`` lets an application go from Accepted to Running."""

KEPT_COMPLETED: Final = 100_000
"""How many names of applications that have completed are remembered at least, the latest ones.

There are never more than twice as many, some 20 MB. A name that is remembered no longer is as
unknown as if it had never been.
"""


def next_state(state: AppState, trigger: Trigger, *, skip_starting: bool = False) -> AppState:
    """Give the state after ``trigger``; the same one if the table has no row for it."""
    after = TRANSITIONS.get((state, trigger))
    if after is None:
        return state
    return AppState.RUNNING if after is AppState.STARTING and skip_starting else after
