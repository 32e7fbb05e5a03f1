"""The reasons that follow from a gang (GANG-21 to GANG-25, GANG-33, GANG-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.words import counted, seconds

if TYPE_CHECKING:
    from muster_core.values.reasons import Fact
    from muster_core.view.gangs.gang import ViewGang, ViewGroup

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_GANG_UNDEFINED: Final = Code.GANG_UNDEFINED
_GANG_TOO_FEW_MEMBERS: Final = Code.GANG_TOO_FEW_MEMBERS
_GANG_SURPLUS: Final = Code.GANG_SURPLUS
_PERMIT_WAITING: Final = Code.PERMIT_WAITING
_GANG_TIMED_OUT: Final = Code.GANG_TIMED_OUT


def is_refused(gang: ViewGang) -> bool:
    """Return whether PreFilter refuses every pending member of a gang when a round begins."""
    return not gang.satisfied and not (gang.missing and gang.admits())


def refusal(gang: ViewGang, group: ViewGroup) -> PendingReason | None:
    """Return why PreFilter refuses the pending members of a gang, or None if it does not.

    A gang that has timed out has no pending members: they are parked.
    """
    if not is_refused(gang):
        return None
    if gang.definition is None:
        message = f"gang {gang.name} is not defined: nothing says how many members it needs"
        return PendingReason(_GANG_UNDEFINED, message, {"gang": gang.name})
    least, children = gang.definition.min_member, gang.children
    facts: dict[str, Fact] = {"gang": gang.name, "min_member": least, "members": children}
    if children < least:
        has = counted(children, "member", "members")
        message = f"gang {gang.name} has {has}, and needs {least}"
        return PendingReason(_GANG_TOO_FEW_MEMBERS, message, facts)
    held = counted(gang.held, "node", "nodes")
    message = f"gang {gang.name} holds {held} and needs {least}, but {_lacking(group)}"
    facts["held"], facts["lacking"] = gang.held, _lacks(group)
    return PendingReason(_GANG_SURPLUS, message, facts)


def waiting(
    gang: ViewGang, group: ViewGroup, first_end: tuple[int, ViewGang] | None, now_us: int
) -> tuple[PendingReason, ...]:
    """Return what a waiting member waits for.

    Args:
        gang: Its gang.
        group: The group of its gang.
        first_end: When the first of the group's gangs times out, in microseconds, and this gang;
            the whole group then releases its nodes. None if no wait has begun.
        now_us: The present instant, in microseconds.
    """
    definition = gang.definition
    least = 0 if definition is None else definition.min_member
    message = f"{gang.held} of {least} members hold nodes"
    facts: dict[str, Fact] = {
        "gang": gang.name,
        "held": gang.held,
        "min_member": least,
        "lacking": _lacks(group),
    }
    if first_end is not None:
        end_us, first = first_end
        facts["left_us"] = left_us = max(end_us - now_us, 0)
        message = f"{message}, {seconds(left_us)} left"
        if first is not gang:
            message = f"{message}, until {first.name} times out"
    return (PendingReason(_PERMIT_WAITING, f"{message}; {_lacking(group)}", facts),)


def timed_out(gang: str) -> tuple[PendingReason, ...]:
    """Return why a member is parked, given its gang's name."""
    message = f"gang {gang} has timed out; its members are tried again once it is removed and defined anew"
    return (PendingReason(_GANG_TIMED_OUT, message, {"gang": gang}),)


def _lacks(group: ViewGroup) -> dict[str, int]:
    """Return how many more members of each gang must hold nodes; -1 for an undefined gang."""
    known = {gang.name: gang for gang in group.gangs}
    lacks: dict[str, int] = {}
    for name in group.names:
        gang = known.get(name)
        if gang is None or gang.definition is None:
            lacks[name] = -1
        elif not gang.complete():
            lacks[name] = gang.missing
    return lacks


def _lacking(group: ViewGroup) -> str:
    parts = [
        f"{name}, which is not defined" if missing < 0 else f"{missing} more of {name}"
        for name, missing in _lacks(group).items()
    ]
    return f"the group waits for {', '.join(parts)}"
