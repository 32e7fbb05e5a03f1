"""The states of an application, in one table.

APP-1 to APP-13, after YuniKorn's application states. :data:`TRANSITIONS` has a row for each
change of the state; nothing else changes it. The owner of an application applies the table to
events, and the coordinator's view applies it to the decisions of rounds.

An application is Accepted with its first ask, Starting with its first bound ask, and Running
with its second one or after five minutes. It is Completing while it has no ask in any place, and
finally Completed after thirty seconds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, final

from muster_core.enumerations import quick_members
from muster_core.values.decisions import MICROSECONDS


@final
@quick_members
class AppState(StrEnum):
    """The state of an application."""

    NEW = "New"
    ACCEPTED = "Accepted"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"

    # The hash of the text: unlike the one of an enum, it needs no Python code.
    __hash__ = str.__hash__


@final
@quick_members
class Trigger(StrEnum):
    """The triggers that change the state of an application."""

    ASK_ADDED = "an ask comes"
    ASK_BOUND = "an ask is bound"
    EMPTIED = "no ask is left"
    TIME_UP = "its timer is due"

    __hash__ = str.__hash__


STATE_NAMES: Final = {state: state.value for state in AppState}
"""The name of each state in decisions; to ask a member for its value takes ten times as long."""

# APP-7
TRANSITIONS: Final[dict[tuple[AppState, Trigger], AppState]] = {
    # APP-1
    (AppState.NEW, Trigger.ASK_ADDED): AppState.ACCEPTED,
    # APP-2, APP-3
    (AppState.ACCEPTED, Trigger.ASK_BOUND): AppState.STARTING,
    # APP-9
    (AppState.ACCEPTED, Trigger.EMPTIED): AppState.COMPLETING,
    # APP-4
    (AppState.STARTING, Trigger.ASK_BOUND): AppState.RUNNING,
    # APP-5
    (AppState.STARTING, Trigger.TIME_UP): AppState.RUNNING,
    (AppState.STARTING, Trigger.EMPTIED): AppState.COMPLETING,
    (AppState.RUNNING, Trigger.EMPTIED): AppState.COMPLETING,
    # APP-11
    (AppState.COMPLETING, Trigger.ASK_ADDED): AppState.RUNNING,
    # APP-10
    (AppState.COMPLETING, Trigger.TIME_UP): AppState.COMPLETED,
}
"""The next state, by the present state and the trigger."""

TIMERS_US: Final = {
    # APP-2, APP-5
    AppState.STARTING: 300 * MICROSECONDS,
    # APP-10
    AppState.COMPLETING: 30 * MICROSECONDS,
}
"""The longest time that an application stays in a state, in microseconds."""

# QUEUE-8
RUNNING_STATES: Final = frozenset({AppState.STARTING, AppState.RUNNING})
"""The states in which an application counts against ``maxapplications``."""

SKIP_STARTING_TAG: Final = "application.stateaware.disable"
"""The tag that, if it is ``true``, makes an application skip Starting."""

# APP-15
KEPT_COMPLETED: Final = 100_000
"""How many names of completed applications are kept at least, the latest ones.

There are never more than twice as many, some 20 MB. A name that is no longer kept is unknown, as if
it had never been used.
"""


# APP-12
def next_state(state: AppState, trigger: Trigger, *, skip_starting: bool = False) -> AppState:
    """Return the state after ``trigger``, which is the same one without a row in the table."""
    after = TRANSITIONS.get((state, trigger))
    if after is None:
        return state
    return AppState.RUNNING if after is AppState.STARTING and skip_starting else after
