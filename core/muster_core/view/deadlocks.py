"""Deadlocks (DEADLOCK-1 to DEADLOCK-13): groups of gangs that starve one another.

Each holds nodes that another needs. After the rounds, the unsatisfied groups that hold nodes are
sorted, and the first group that this completes gets nodes of the groups after it. The release is
tried on the view itself and undone again, so that there is only one way to place members.
"""

from __future__ import annotations

from typing import final

import attrs

from muster_core.nodes.node import Node
from muster_core.structures.amounts import add_to
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.configuration import DeadlockPolicy
from muster_core.values.decisions import Decision, Kind, Reason
from muster_core.view.gangs import Hold, ViewGroup
from muster_core.view.node_finder import NodeFinder
from muster_core.view.permits import Permits, counts_by_shape, needs_of
from muster_core.view.placements import Placements, decisions_on_hold
from muster_core.view.state.view_state import ViewState


@final
@attrs.frozen(eq=False)
class Deadlocks:
    """Finds and resolves deadlocks, between two rounds.

    Args:
        permits: Gives the order in which members are tried.
    """

    _state: ViewState
    _placements: Placements
    _permits: Permits
    _finder: NodeFinder

    def resolve(self, now_us: int) -> Steps[tuple[list[Decision], bool]]:
        """Bind the first group that becomes complete if later groups release their nodes.

        Returns:
            The decisions, and whether a group was bound, so that rounds must follow.
        """
        groups = self._in_order()
        # DEADLOCK-5
        for position in (yield from self._candidates(groups)):
            group, rivals = groups[position], groups[position + 1 :]
            if (yield from self._would_help(group, rivals)):
                break
        else:
            return [], False
        # DEADLOCK-13
        if self._state.root.config.settings.deadlock_policy is DeadlockPolicy.REPORT:
            return [_warning(groups, group, "would be bound first")], False
        return (yield from self._help(groups, group, rivals, now_us)), True

    # DEADLOCK-1
    def _in_order(self) -> list[ViewGroup]:
        """Return the unsatisfied groups that hold nodes, in the order in which they are helped.

        The list is empty if there is no deadlock, or no group can be helped.
        """
        gang_index = self._state.gang_index
        waiting = gang_index.waiting.values()
        if len(waiting) < 2 or not any(
            gang_index.group_of(gang).lacks_only_nodes() for gang in waiting
        ):
            return []
        # DEADLOCK-4
        groups = gang_index.groups_of(gang_index.waiting)
        if len(groups) < 2:
            return []
        # DEADLOCK-3
        return sorted(groups, key=lambda group: -self._priority(group))

    # DEADLOCK-3, AGING-7
    def _priority(self, group: ViewGroup) -> int:
        """Return the highest priority of the members of a group that are not bound."""
        apps, leaf_of = self._state.apps, self._state.leaf_of
        return max(
            leaf_of(app).priority_of(app, ask)
            for gang in group.gangs
            if not gang.satisfied
            for app, ask in (
                *(
                    (slot.app, ask)
                    for slot in gang.slots.values()
                    for ask, _ in slot.members.values()
                ),
                *((apps[key], apps[key].backing_off[name]) for key, name in gang.backing_off),
                *((apps[key], apps[key].parked[name]) for key, name in gang.parked),
                *((hold.app, hold.allocation.ask) for hold in gang.waiting.values()),
            )
        )

    def _candidates(self, groups: list[ViewGroup]) -> Steps[list[int]]:
        """Return the positions of the groups that can perhaps be helped.

        A group need not be tried if its members would not have room together even if the groups
        after it held nothing.
        """
        found: list[int] = []
        freed: dict[Node, dict[str, int]] = {}
        for position in reversed(range(len(groups))):
            yield
            group = groups[position]
            # DEADLOCK-7
            if group.lacks_only_nodes() and not self._is_sure_to_lack(group, freed):
                found.append(position)
            for hold in group.holds():
                add_to(freed.setdefault(hold.node, {}), hold.allocation.ask.resources)
        return found[::-1]

    def _is_sure_to_lack(self, group: ViewGroup, freed: dict[Node, dict[str, int]]) -> bool:
        nodes, shapes = self._state.nodes, self._state.shapes.shapes
        needs = (
            need for gang in group.gangs if gang.missing for need in needs_of(self._state, gang)
        )
        for bit, count in counts_by_shape(needs).items():
            room = nodes.room_for(bit, count)
            for node, amounts in freed.items():
                if room >= count:
                    break
                room += nodes.more_room(node, shapes[bit], amounts)
            if room < count:
                return True
        return False

    # DEADLOCK-5
    def _would_help(self, group: ViewGroup, rivals: list[ViewGroup]) -> Steps[bool]:
        """Return whether a group would be complete if its rivals held nothing; nothing changes."""
        state, placements = self._state, self._placements
        grown, mark = state.nodes.grown, placements.seen_states.mark()
        released = [hold for rival in rivals for hold in rival.holds()]
        for piece in in_pieces(released):
            yield
            for hold in piece:
                placements.release(hold)
        placed = yield from self._place_missing(group)
        for piece in in_pieces(reversed(placed or [])):
            yield
            for hold in piece:
                placements.release(hold)
        for piece in in_pieces(released):
            yield
            for hold in piece:
                placements.restore(hold)
        placements.list_apps()
        placements.seen_states.go_back(mark)
        state.nodes.grown = grown
        return placed is not None

    # DEADLOCK-8
    def _place_missing(self, group: ViewGroup) -> Steps[list[Hold] | None]:
        """Make all missing members of a group wait; none of them if one fits nowhere."""
        state, placements = self._state, self._placements
        number = state.numbers
        while not group.complete():
            yield
            slot = self._permits.next_member(group, missing_only=True)
            ask = None if slot is None else slot.first()
            assert slot is not None, "a group that may be complete lacks members"
            assert ask is not None, "a slot without untried members"
            leaf = state.leaf_of(slot.app)
            # DEADLOCK-9, LIMIT-9, BACKFILL-29
            fits = leaf.has_room(ask) and slot.app.is_within_limits(ask)
            node = self._finder.find(leaf, slot.app, ask, state.bit_of(ask)) if fits else None
            if node is None:
                for piece in in_pieces(reversed(_holds_since(group, number))):
                    yield
                    for hold in piece:
                        placements.release(hold)
                return None
            placements.hold(leaf, slot.app, ask, node)
        return _holds_since(group, number)

    # DEADLOCK-10
    def _help(
        self, groups: list[ViewGroup], group: ViewGroup, rivals: list[ViewGroup], now_us: int
    ) -> Steps[list[Decision]]:
        """Release rivals, last first, until a group is complete; bind it in the same step."""
        decisions = [_warning(groups, group, "is bound first")]
        rivals = list(rivals)
        # DEADLOCK-6
        while (placed := (yield from self._place_missing(group))) is None:
            holds = rivals.pop().holds()
            # DEADLOCK-11
            decisions.extend(self._placements.give_up(hold, Reason.DEADLOCK) for hold in holds)
        for number, hold in enumerate(placed, 1):
            leaf, waits = self._state.leaf_of(hold.app), number < len(placed)
            decisions += decisions_on_hold(leaf, hold.app, hold.allocation, waits=waits)
        decisions.extend(self._permits.bind(group, now_us))
        self._placements.list_apps()
        return decisions


def _holds_since(group: ViewGroup, number: int) -> list[Hold]:
    """Return the waiting members of a group that began to wait after an allocation."""
    return [hold for hold in group.holds() if hold.number > number]


# DEADLOCK-12
def _warning(groups: list[ViewGroup], helped: ViewGroup, what: str) -> Decision:
    others = "; ".join(_group_name(group) for group in groups if group is not helped)
    message = f"deadlock of gangs: {_group_name(helped)} {what}, while these hold nodes: {others}"
    return Decision(Kind.WARNING, message=message)


def _group_name(group: ViewGroup) -> str:
    return ", ".join(gang.name for gang in group.gangs)
