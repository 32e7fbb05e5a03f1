"""Who could be taken from a node: its allocations, by leaf, in the order of victims.

SPEC section 7. Looking for victims means looking at what stands on nodes. What stands on
a node is brought into order once and kept until the node changes, so that finding that
nothing can be taken costs a few comparisons for each node, not one for each allocation.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, final

import attrs

from muster_core.gangs.states import GangState
from muster_core.totals import add_to
from muster_core.view.gangs import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.messages import Allocation
    from muster_core.nodes import Node
    from muster_core.view.apps import ViewApp
    from muster_core.view.gangs import ViewGang
    from muster_core.view.state import ViewState

Place = tuple[int, int]
"""The place of a victim among those of its leaf: priority, then the newest first."""


@final
@attrs.frozen(eq=False)
class Victim:
    """An ask that is bound or waits.

    Attributes:
        app: Its application.
        allocation: What it holds.
        node: Its node.
        gang: The gang that it is a member of, or None.
        bound: It is bound; else it waits.
    """

    app: ViewApp
    allocation: Allocation
    node: Node
    gang: ViewGang | None
    bound: bool

    @property
    def place(self) -> Place:
        """Its place among the victims of its leaf."""
        return (self.allocation.ask.priority, -self.allocation.age)

    @property
    def age(self) -> int:
        """Its place in the order of all assignments, the newest first."""
        return -self.allocation.age

    def hold(self) -> Hold:
        """Give what it holds, if it waits."""
        return Hold(self.app, self.allocation, self.node, self.allocation.number)

    def parks(self) -> bool:
        """Say whether it is parked if it loses its node, since its gang has timed out."""
        return self.gang is not None and self.gang.state is GangState.TIMED_OUT


def victim_of(state: ViewState, key: int, name: str) -> Victim:
    """Give an ask that has a node as a victim.

    Args:
        state: The view.
        key: The key of its application.
        name: Its name.
    """
    app = state.apps[key]
    waiting = app.waiting.get(name)
    allocation, node = app.bound[name] if waiting is None else waiting
    gang = allocation.ask.gang
    return Victim(
        app, allocation, node, None if gang is None else state.gangs[gang], waiting is None
    )


@final
@attrs.define(eq=False)
class Standing:
    """What asks of one leaf have on one node.

    Attributes:
        amounts: All of it.
        largest: The most that one of them has of each type.
        plain: Those that stand for themselves, by priority, then the newest first.
        members: Those that are members of gangs, in the same order.
    """

    amounts: dict[str, int] = attrs.field(factory=dict[str, int])
    largest: dict[str, int] = attrs.field(factory=dict[str, int])
    plain: list[Victim] = attrs.field(factory=list[Victim])
    members: list[Victim] = attrs.field(factory=list[Victim])
    _newest: list[Victim] | None = attrs.field(default=None, init=False)

    def put(self, victim: Victim) -> None:
        """Take a victim in, in any order."""
        resources = victim.allocation.ask.resources
        add_to(self.amounts, resources)
        for name, amount in resources.items():
            if amount > self.largest.get(name, 0):
                self.largest[name] = amount
        (self.plain if victim.gang is None else self.members).append(victim)

    def sort(self) -> None:
        """Bring everything into order."""
        self.plain.sort(key=_place)
        self.members.sort(key=_place)

    def in_order(self, *, by_priority: bool) -> list[Victim]:
        """Give those that stand for themselves, by priority or only the newest first."""
        if by_priority:
            return self.plain
        if self._newest is None:
            self._newest = sorted(self.plain, key=_age)
        return self._newest

    def lowest(self) -> int:
        """Give the lowest priority."""
        return min(victims[0].place[0] for victims in (self.plain, self.members) if victims)


@final
class Standings:
    """What stands on the nodes, as far as anybody has asked.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: What stands on each node, by leaf, as it was when that was looked at.
        self._known: dict[Node, dict[int, Standing]] = {}
        #: For each leaf on how many nodes each priority is the lowest; no zeros.
        self._lowest: dict[int, dict[int, int]] = {}

    def refresh(self) -> None:
        """Look again at the nodes that have changed."""
        nodes = self._state.nodes
        for node in nodes.touched:
            self._forget(node)
            self._known[node] = self._look_at(node)
            for key, standing in self._known[node].items():
                self._count(key, standing.lowest(), 1)
        nodes.touched.clear()
        if len(self._known) > len(nodes.nodes):
            for node in [node for node in self._known if not node.present]:
                self._forget(node)

    def _forget(self, node: Node) -> None:
        for key, standing in self._known.pop(node, {}).items():
            self._count(key, standing.lowest(), -1)

    def _count(self, leaf: int, lowest: int, change: int) -> None:
        counts = self._lowest.setdefault(leaf, {})
        left = counts.get(lowest, 0) + change
        if left:
            counts[lowest] = left
            return
        del counts[lowest]
        if not counts:
            del self._lowest[leaf]

    def _look_at(self, node: Node) -> dict[int, Standing]:
        standings: dict[int, Standing] = {}
        for key, name in node.held:
            victim = victim_of(self._state, key, name)
            leaf = victim.app.identity.leaf
            if leaf not in standings:
                standings[leaf] = Standing()
            standings[leaf].put(victim)
        for standing in standings.values():
            standing.sort()
        return standings

    def on(self, node: Node) -> dict[int, Standing]:
        """Give what stands on a node, by the key of the leaf."""
        return self._known[node]

    def lowest_of(self, leaf: int) -> int | None:
        """Give the lowest priority of all that a leaf has on nodes, or None if it has nothing."""
        return min(self._lowest.get(leaf, ()), default=None)

    def of_leaf(self, leaf: int, *, by_priority: bool) -> Iterator[Victim]:
        """Give those of a leaf that stand for themselves, on all nodes, in order."""
        lists = (
            standings[leaf].in_order(by_priority=by_priority) for standings in self._of_all(leaf)
        )
        return merge(*lists, key=_place if by_priority else _age)

    def members_of_leaf(self, leaf: int) -> Iterable[Victim]:
        """Give the members of gangs of a leaf, on all nodes, in no order."""
        for standings in self._of_all(leaf):
            yield from standings[leaf].members

    def _of_all(self, leaf: int) -> Iterator[dict[int, Standing]]:
        for standings in self._known.values():
            if leaf in standings:
                yield standings


def _place(victim: Victim) -> Place:
    return victim.place


def _age(victim: Victim) -> int:
    return victim.age
