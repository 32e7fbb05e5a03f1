"""What asks need and the nodes do not have, even if they were empty: in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.text import amount_text
from muster.service.page.parts.asks.gangs import each_member
from muster_core.gangs.states import GangState
from muster_core.structures.steps import in_pieces
from muster_core.structures.totals import add_to
from muster_core.values.quantities import VCORE, format_quantity
from muster_core.view.reasons.words import listed

if TYPE_CHECKING:
    from muster.service.reading.looking import Looking
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang

_SATISFIED: Final = GangState.SATISFIED

MOST_MEMBERS: Final = 100_000
"""How many members of a gang are looked at."""

_MOST_SHAPES: Final = 16
"""How many different shapes of members are compared with every node."""


# PAGE-42
def lack_of_ask(looking: Looking, ask: Ask) -> Steps[str]:
    """Say what no node has enough of to hold an ask; empty if one has, or that is not why.

    Args:
        looking: The state.
        ask: An ask that holds no node.
    """
    return (yield from _lack_on_nodes(looking, ask.shape, "it"))


# PAGE-49
def lack_of_gang(looking: Looking, gang: ViewGang) -> Steps[str]:
    """Say what all nodes together have too little of for a gang; empty if they have enough.

    Otherwise say what no node has enough of to hold a member, if too few members fit anywhere.

    Args:
        looking: The state.
        gang: A gang.
    """
    if gang.definition is None or gang.state is _SATISFIED:
        return ""
    together = yield from _Capacity.of(looking)
    need = yield from _need_of(looking, gang)
    who, short = "The gang", together.lacks(need.least)
    others = [one for one in looking.view.group_of(gang.name) if one.state is not _SATISFIED]
    if not short and len(others) > 1:
        who, need = "The group of the gang", (yield from _need_of_all(looking, others))
        short = together.lacks(need.least)
    if short:
        return together.told(f"{who} needs{'' if need.is_exact else ' at least'}", short)
    return (yield from _lack_of_members(looking, gang))


@final
@attrs.frozen
class _Need:
    """What gangs need in all.

    Attributes:
        least: The least that they may need of each type, in base units.
        is_exact: Whether they need no more.
    """

    least: Mapping[str, int]
    is_exact: bool


def _need_of(looking: Looking, gang: ViewGang) -> Steps[_Need]:
    """Return what as many members need as must hold a node; the smallest, if members differ.

    What a member holds on an unschedulable node is left out: it need not be found any more.
    """
    assert gang.definition is not None
    apps, nodes = looking.view.apps, looking.view.nodes.nodes
    amounts: dict[str, list[int]] = {}
    count, drained = 0, 0
    for piece in in_pieces(list(islice(each_member(gang), MOST_MEMBERS))):
        yield
        for key, name in piece:
            app = apps[key]
            held = app.waiting.get(name) or app.bound.get(name)
            if held is not None and not nodes[held[1].name].schedulable:
                drained += 1
                continue
            ask = app.find(name)
            assert ask is not None, "a member that does not exist"
            count += 1
            for kind, amount in ask.resources.items():
                amounts.setdefault(kind, []).append(amount)
    wanted = min(max(gang.definition.min_member - drained, 0), count)
    least: dict[str, int] = {}
    is_exact = gang.definition.min_member - drained == wanted
    for kind, some in amounts.items():
        yield
        least[kind] = least_of(some, count, wanted)
        is_exact = is_exact and len(some) == count and (not some or min(some) == max(some))
    return _Need(least, is_exact)


def _need_of_all(looking: Looking, gangs: Sequence[ViewGang]) -> Steps[_Need]:
    least: dict[str, int] = {}
    is_exact = True
    for gang in gangs:
        if gang.definition is None:
            is_exact = False
            continue
        need = yield from _need_of(looking, gang)
        add_to(least, need.least)
        is_exact = is_exact and need.is_exact
    return _Need(least, is_exact)


@final
@attrs.frozen
class _Capacity:
    """What nodes have in all.

    Attributes:
        open: What schedulable nodes have.
        all: What all nodes have.
    """

    open: Mapping[str, int]
    all: Mapping[str, int]

    @classmethod
    def of(cls, looking: Looking) -> Steps[_Capacity]:
        """Add up what the nodes have."""
        usable: dict[str, int] = {}
        every: dict[str, int] = {}
        for piece in in_pieces(list(looking.view.nodes.nodes.values())):
            yield
            for node in piece:
                add_to(every, node.capacity)
                if node.schedulable:
                    add_to(usable, node.capacity)
        return cls(usable, every)

    def lacks(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Return what is wanted of the types of which schedulable nodes have too little."""
        return {kind: amount for kind, amount in wanted.items() if amount > self.open.get(kind, 0)}

    def told(self, begin: str, short: Mapping[str, int]) -> str:
        """Return the sentence about what is too little."""
        there = {kind: self.open.get(kind, 0) for kind in short}
        is_all = all(self.all.get(kind, 0) == amount for kind, amount in there.items())
        which = "all nodes" if is_all else "all schedulable nodes"
        needed, had = told_amounts(short, there)
        return f"{begin} {needed} in all; {which} together have {had}."


def _lack_of_members(looking: Looking, gang: ViewGang) -> Steps[str]:
    """Say what no node has for a member, if fewer members fit on nodes than are needed."""
    assert gang.definition is not None
    apps = looking.view.apps
    counts: dict[Shape, int] = {}
    pending = [(key, name) for key, slot in gang.slots.items() for name in slot.members]
    for piece in in_pieces(pending[:MOST_MEMBERS]):
        yield
        for key, name in piece:
            ask = apps[key].find(name)
            assert ask is not None, "a member that does not exist"
            counts[ask.shape] = counts.get(ask.shape, 0) + 1
    if len(counts) > _MOST_SHAPES or gang.children < gang.definition.min_member:
        return ""
    told, fitting = "", gang.children
    for shape, count in counts.items():
        found = yield from _lack_on_nodes(looking, shape, "a member")
        told, fitting = told or found, fitting - (count if found else 0)
    return told if fitting < gang.definition.min_member else ""


# One node


def _lack_on_nodes(looking: Looking, shape: Shape, who: str) -> Steps[str]:
    """Say what no schedulable node has that matches a shape; empty if one is large enough."""
    wanted = shape.resources
    matching, closed = _Largest(), _Largest()
    for piece in in_pieces(list(looking.view.nodes.nodes.values())):
        yield
        for node in piece:
            if node.may_take(shape):
                if node.schedulable and wanted.fits_in(node.capacity):
                    return ""
                (matching if node.schedulable else closed).look_at(node)
    if not matching.count:
        return ""
    lacking = {kind: amount for kind, amount in wanted.items() if amount > matching.most(kind)}
    matters = closed.count and (
        not lacking or any(closed.most(kind) > matching.most(kind) for kind in lacking)
    )
    begin = f"No {'schedulable ' if matters else ''}node"
    begin += " that it may use has" if shape.is_choosy else " has"
    if not lacking:
        return f"{begin} {listed(_text(*one, one[1]) for one in _in_order(wanted))} together."
    parts: list[str] = []
    for kind, amount in _in_order(lacking):
        most = matching.most(kind)
        parts.append(f"more than {_text(kind, most, amount)}" if most else f"any {kind}")
    if len(lacking) == 1:
        ((kind, amount),) = lacking.items()
        return f"{begin} {parts[0]}; {who} asks for {_plain(kind, amount, matching.most(kind))}."
    asked = listed(_text(kind, amount, matching.most(kind)) for kind, amount in _in_order(lacking))
    return f"{begin} {' or '.join(parts)}; {who} asks for {asked}."


@final
@attrs.define
class _Largest:
    """The largest capacity of some nodes, of each type."""

    count: int = 0
    _most: dict[str, int] = attrs.field(factory=dict[str, int])

    def look_at(self, node: Node) -> None:
        self.count += 1
        for kind, amount in node.capacity.items():
            self._most[kind] = max(self._most.get(kind, 0), amount)

    def most(self, kind: str) -> int:
        return self._most.get(kind, 0)


# Amounts


def least_of(amounts: Sequence[int], count: int, wanted: int) -> int:
    """Return the least that some members may need of a type together, in base units.

    Args:
        amounts: What those members ask for that ask for any of it.
        count: How many members there are.
        wanted: How many of them are needed.
    """
    # Members that ask for none of it may be enough, too.
    return sum(nsmallest(max(wanted - (count - len(amounts)), 0), amounts))


def told_amounts(short: Mapping[str, int], there: Mapping[str, int]) -> tuple[str, str]:
    """Return in words what is needed, and what there is of it.

    Args:
        short: What is needed of the types of which there is too little, in base units.
        there: What there is of at least these types, likewise.
    """
    needed = listed(_text(kind, amount, there[kind]) for kind, amount in _in_order(short))
    if not any(there[kind] for kind in short):
        return needed, "none"
    if len(short) == 1:  # The type was just named.
        ((kind, amount),) = short.items()
        return needed, _plain(kind, there[kind], amount)
    had = (_text(kind, there[kind], amount) for kind, amount in _in_order(short))
    return needed, listed(had)


def _in_order(amounts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(amounts.items())


def _text(kind: str, amount: int, other: int) -> str:
    """Return an amount with the name of its type."""
    text = _plain(kind, amount, other)
    return text if kind == VCORE else f"{text} {kind}"


def _plain(kind: str, amount: int, other: int) -> str:
    """Return an amount; exactly, where it would look like another one beside it."""
    text = amount_text(kind, amount)
    if amount == other or text != amount_text(kind, other):
        return text
    exact = format_quantity(kind, amount)
    return f"{exact} cores" if kind == VCORE else exact
