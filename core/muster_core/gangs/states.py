"""The states of a gang, in one table.

GANG-42 to GANG-51, after Koordinator's gang scheduling proposal. :data:`GANG_TRANSITIONS` has a
row for each change of the state; nothing else changes it. The owner of a gang applies the table
to events, and the coordinator's view applies it to the decisions of rounds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, final


@final
class GangState(StrEnum):
    """The state of a gang."""

    PLACEHOLDER = "Placeholder"
    GATHERING = "Gathering"
    WAITING = "Waiting"
    SATISFIED = "Satisfied"
    TIMED_OUT = "TimedOut"


@final
class GangTrigger(StrEnum):
    """What can change the state of a gang."""

    DEFINED = "it is defined"
    REMOVED = "it is removed"
    FIRST_WAITS = "a first member waits"
    NONE_WAITS = "no member waits any more"
    GROUP_BOUND = "its group is complete, or a member came bound"
    TIMED_OUT = "a wait of its group is over, or a member says so"
    ALL_LOST = "none of its members is bound after a step in which one lost its node or bind"
    EMPTIED = "no member is left"


# GANG-14
GANG_TRANSITIONS: Final[dict[tuple[GangState, GangTrigger], GangState]] = {
    (GangState.PLACEHOLDER, GangTrigger.DEFINED): GangState.GATHERING,
    (GangState.PLACEHOLDER, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.PLACEHOLDER, GangTrigger.TIMED_OUT): GangState.TIMED_OUT,
    (GangState.GATHERING, GangTrigger.FIRST_WAITS): GangState.WAITING,
    (GangState.GATHERING, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.GATHERING, GangTrigger.TIMED_OUT): GangState.TIMED_OUT,
    (GangState.GATHERING, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.WAITING, GangTrigger.NONE_WAITS): GangState.GATHERING,
    (GangState.WAITING, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.WAITING, GangTrigger.TIMED_OUT): GangState.TIMED_OUT,
    (GangState.WAITING, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.WAITING, GangTrigger.EMPTIED): GangState.GATHERING,
    # GANG-50, GANG-51
    (GangState.SATISFIED, GangTrigger.ALL_LOST): GangState.GATHERING,
    # GANG-19
    (GangState.SATISFIED, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.SATISFIED, GangTrigger.EMPTIED): GangState.GATHERING,
    # GANG-45
    (GangState.TIMED_OUT, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.TIMED_OUT, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.TIMED_OUT, GangTrigger.EMPTIED): GangState.GATHERING,
}
"""The next state, by the present state and what happens."""

# Looking up a member of an enum takes ten times as long, and this is done for each member.
_PLACEHOLDER: Final = GangState.PLACEHOLDER
_GATHERING: Final = GangState.GATHERING


# GANG-15
def next_gang_state(state: GangState, trigger: GangTrigger, *, defined: bool) -> GangState:
    """Return the state after ``trigger``, which is the same one without a row in the table.

    Args:
        state: The present state.
        trigger: What happens.
        defined: Whether the gang is defined; without a definition, Gathering is Placeholder.
    """
    after = GANG_TRANSITIONS.get((state, trigger), state)
    return _PLACEHOLDER if after is _GATHERING and not defined else after
