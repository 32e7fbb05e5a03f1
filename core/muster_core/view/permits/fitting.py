"""Whether a Strict group is sure not to fit, without trying every member.

The needs of a group are counted by shape, and compared with the number of asks of each shape
that all nodes have room for, and with the headroom of its queues. Both are upper bounds: a
group that passes may still not fit; a group that does not pass cannot fit until there is
more room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.view.gangs.gang import ViewGang, ViewGroup
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.leaf import LeafView

Need = tuple["LeafView | None", int, int]
"""The leaf if it is known, the bit of a shape, and how many asks of this shape are needed."""


def find_hopeless(state: ViewState, group: ViewGroup) -> bool:
    """Return whether a Strict group is sure not to fit now.

    The answer is False for a group that holds nodes, since releasing them has an effect, and
    for one with members in a blocking leaf, since a member that does not fit blocks the leaf.

    Args:
        state: The view.
        group: The group.
    """
    gangs = [gang for gang in group.gangs if not gang.satisfied]
    if any(gang.waiting for gang in gangs):
        return False
    slots = [slot for gang in gangs for slot in gang.slots.values()]
    if any(state.leaf_of(slot.app).config.settings.blocking for slot in slots):
        return False
    needs = [
        need for gang in gangs if gang.missing and gang.admits() for need in needs_of(state, gang)
    ]
    return _lacks_nodes(state, needs) or _lacks_headroom(state, needs)


def needs_of(state: ViewState, gang: ViewGang) -> Iterator[Need]:
    """Return what a gang is sure to need before it is complete."""
    missing = gang.missing
    leaves = {slot.app.identity.leaf for slot in gang.slots.values()}
    # BACKOFF-7
    if missing >= gang.pending:  # Every member that is tried is needed, whatever its shape.
        for slot in gang.slots.values():
            for bit, count in slot.bits.items():
                yield state.leaf_of(slot.app), bit, count
        return
    bits = {bit for slot in gang.slots.values() for bit in slot.bits}
    if len(bits) == 1:  # It does not matter which of them are needed.
        slot = next(iter(gang.slots.values()))
        leaf = state.leaf_of(slot.app) if len(leaves) == 1 else None
        yield leaf, next(iter(bits)), missing


def _lacks_nodes(state: ViewState, needs: list[Need]) -> bool:
    counts: dict[int, int] = {}
    for _, bit, count in needs:
        counts[bit] = counts.get(bit, 0) + count
    return any(state.nodes.room_for(bit, count) < count for bit, count in counts.items())


def _lacks_headroom(state: ViewState, needs: list[Need]) -> bool:
    wanted: dict[int, dict[str, int]] = {}
    for leaf, bit, count in needs:
        if leaf is None:
            continue
        amounts = {
            name: amount * count for name, amount in state.shapes.shapes[bit].resources.items()
        }
        for queue in leaf.upward():
            if queue.config.max:
                add_to(wanted.setdefault(queue.key, {}), amounts)
    for key, amounts in wanted.items():
        queue = state.queues[key]
        for name, most in queue.config.max.amounts:
            amount = amounts.get(name, 0)
            if amount and queue.used(name) + amount > most:
                return True
    return False
