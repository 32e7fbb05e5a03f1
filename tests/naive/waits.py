"""How long the members of a gang may wait, in the naive model."""

from __future__ import annotations

from muster_core.decisions import Reason
from tests.naive.gangs import age, group_of, mark, members, release, waiting
from tests.naive.state import ROOT, Gang, World


def deadline(world: World, gang: Gang) -> int | None:
    """Give the instant at which the present wait of a gang has lasted too long."""
    definition = gang.definition
    if gang.since_us is None or definition is None:
        return None
    return gang.since_us + (definition.wait_us or world.queues[ROOT].settings.gang_wait_us)


def keep_clocks(world: World, now_us: int) -> None:
    """Begin or end the waits of all gangs, at the end of a batch."""
    for gang in world.gangs.values():
        if not waiting(world, gang):
            gang.since_us = None
        elif gang.since_us is None:
            gang.since_us = now_us


def timers(world: World, now_us: int) -> None:
    """Time out the groups of the gangs that have waited too long, in order of creation."""
    for gang in sorted(world.gangs.values(), key=age):
        due = deadline(world, gang)
        if due is None or due > now_us:
            continue
        group = group_of(world, gang.name)
        release(world, waiting(world, *group.gangs), Reason.GANG_TIMEOUT)
        for one in group.gangs:
            one.since_us = None
            there = members(world, one)  # A gang without members is as new: not timed out.
            if one.definition is not None and not one.satisfied and there:
                mark(world, one)
