"""Shortfalls: quotas that refuse an ask now, and what lacks even if nothing else ran.

The limits of queues (QUEUE-7, ORDER-2) and of users and groups (LIMIT-9, LIMIT-13) are reasons of
their own. The functions at the top put amounts, counts and names into the words that all reasons
use.

Shortfalls (REASON-6 to REASON-9): the needs of a gang are the least that as many members as
``min_member`` says may need together. They are compared with what all schedulable nodes have, with
the ``max`` of queues, and with the limits of users and groups, each as if all of it were free. So a
gang with a shortfall cannot start before the nodes, the configuration or the gang change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final, TypeAlias, final

import attrs

from muster_core.nodes.node import Node, how_many_in
from muster_core.owners.asks import Allocation, Ask
from muster_core.structures.amounts import add_to
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.application_states import AppState
from muster_core.values.configuration import EVERY_NAME, SortPolicy
from muster_core.values.reasons import Code, Fact, PendingReason, Shortfall
from muster_core.values.records import MAP, SET
from muster_core.values.resources import Resources, format_quantity
from muster_core.view.gangs import ViewGang
from muster_core.view.state.history import OverMax
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import ViewLimit
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue

_SECOND_US: Final = 1_000_000


def amount(kind: str, number: int) -> str:
    """Format an amount of a type, given in base units: ``2 vcore``."""
    return f"{format_quantity(kind, number)} {kind}"


def amounts(numbers: Mapping[str, int]) -> str:
    """Format amounts of several types, given in base units."""
    return listed(amount(kind, number) for kind, number in sorted(numbers.items()))


def listed(parts: Iterable[str]) -> str:
    """Join parts of a sentence with commas, and with "and" before the last."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, one: str, more: str) -> str:
    """Format a count with its verb or noun: ``1 is full``, ``2 are full``."""
    return f"{number} {one if number == 1 else more}"


def seconds(span_us: int) -> str:
    """Format a duration, given in microseconds, as seconds without trailing zeros."""
    whole, rest = divmod(span_us, _SECOND_US)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".") + " s"


def named(app: ViewApp, ask: Ask) -> str:
    """Format an ask with its application."""
    return f"{app.identity.name}/{ask.name}"


def over_max(leaf: LeafView, ask: Ask) -> Iterator[tuple[str, str, int]]:
    """Return each queue on the path, with type and ``max``, that an ask alone would exceed."""
    for queue in leaf.upward():
        for kind, most in queue.config.max.amounts:
            if ask.resources[kind] > most:
                yield queue.config.path, kind, most


def queue_max(leaf: LeafView, ask: Ask, over: OverMax) -> PendingReason | None:
    """Return which queues on the path leave too little of their ``max``, and which lose asks."""
    parts: list[str] = []
    rooms: dict[str, int] = {}
    facts: dict[str, Fact] = {"left": rooms}
    for queue in leaf.upward():
        for kind, most in queue.config.max.amounts:
            wanted, used = ask.resources[kind], queue.used(kind)
            if 0 < wanted <= most < used + wanted:
                path = queue.config.path
                rooms[f"{path} {kind}"] = room = max(most - used, 0)
                parts.append(
                    f"for {amount(kind, wanted)}, and the max of {path} leaves "
                    f"{amount(kind, room)} of {amount(kind, most)}"
                )
    if not parts:
        return None
    message = f"it asks {'; '.join(parts)}"
    if over.since:
        since = {queue.config.path: queue.key for queue in leaf.upward() if queue.key in over.since}
        # QUOTA-3, QUOTA-4
        for path, key in since.items():
            begun, end = seconds(over.since[key]), seconds(over.end_us(key))
            message += f"; {path} is over its max since {begun}, and loses asks from {end} on"
        if since:
            facts["over_since_us"] = {path: over.since[key] for path, key in since.items()}
    return PendingReason(Code.QUEUE_MAX, message, facts)


def queue_max_apps(leaf: LeafView, app: ViewApp) -> PendingReason | None:
    """Return which queues keep an application out that does not run by their ``maxapplications``."""
    full = [] if app.running else [queue for queue in leaf.upward() if queue.is_full()]
    if not full:
        return None
    parts = listed(_applications(queue) for queue in full)
    limits = {queue.config.path: queue.config.max_applications for queue in full}
    message = f"application {app.identity.name} is not tried: {parts}"
    return PendingReason(Code.QUEUE_MAX_APPS, message, {"maxapplications": limits})


def _applications(queue: ViewQueue) -> str:
    others = counted(queue.running, "other runs", "others run")
    limit = queue.config.max_applications
    return f"{others} in {queue.config.path}, whose maxapplications is {limit}"


def state_aware_turn(leaf: LeafView, app: ViewApp) -> PendingReason | None:
    """Return which application must start before this one."""
    if leaf.config.settings.sort_policy is not SortPolicy.STATE_AWARE:
        return None
    if app.state is AppState.RUNNING:
        return None
    one = leaf.next_to_start()
    if one is None:  # A Starting application of which no ask may be picked excludes the others.
        starting = (other for other in leaf.apps.values() if other.state is AppState.STARTING)
        one = min(starting, key=lambda other: other.identity.key, default=None)
    # BACKOFF-6
    if one is None or one is app:
        return None
    path, before = leaf.config.path, one.identity.name
    message = (
        f"{path} is stateaware and lets one application start at a time: {before}, which is "
        f"{one.state}, is before {app.identity.name}, which is {app.state}"
    )
    facts = {"state": str(app.state), "first": before, "first_state": str(one.state)}
    return PendingReason(Code.STATE_AWARE_TURN, message, facts)


@final
class _LimitExcess:
    """What the limits of one kind, of users or of groups, have against an ask."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.name: str | None = None
        self.queue: str | None = None
        self.left: dict[str, int] = {}
        self.applications: dict[str, int] = {}

    def reason(self, code: Code, field: str) -> PendingReason:
        facts: dict[str, Fact] = {field: self.name, "queue": self.queue}
        if self.left:
            facts["left"] = self.left
        if self.applications:
            facts["maxapplications"] = self.applications
        return PendingReason(code, "; ".join(self.parts), facts)


def limit_reasons(app: ViewApp, ask: Ask) -> Iterator[PendingReason]:
    """Yield which limits an ask would exceed: those of its user, then those of its group."""
    for of_group, code, field in (
        (False, Code.USER_LIMIT, "user"),
        (True, Code.GROUP_LIMIT, "group"),
    ):
        found = _LimitExcess()
        for limit in app.limits:
            if limit.key.of_group is of_group:
                _add_amounts(found, limit, ask)
                _add_applications(found, limit, app)
                if found.parts and found.queue is None:
                    found.name, found.queue = limit.key.name, limit.path
        if found.parts:
            yield found.reason(code, field)


def named_limit(limit: ViewLimit[ViewApp]) -> str:
    """Return the name of a limit: its user or group, and its queue."""
    return f"the limit of {_limit_holder(limit)} in {limit.path}"


def _limit_holder(limit: ViewLimit[ViewApp]) -> str:
    of_group, name = limit.key.of_group, limit.key.name
    if name == EVERY_NAME and of_group:
        return "all other groups"
    if name is None:
        return "applications without a user"
    return f"{'group' if of_group else 'user'} {name}"


def _add_amounts(found: _LimitExcess, limit: ViewLimit[ViewApp], ask: Ask) -> None:
    for kind, most in limit.entry.max.amounts:
        wanted, used = ask.resources[kind], limit.used.get(kind, 0)
        if wanted and used + wanted > most:
            found.left[f"{limit.path} {kind}"] = room = max(most - used, 0)
            found.parts.append(
                f"it asks for {amount(kind, wanted)}, and {named_limit(limit)} leaves "
                f"{amount(kind, room)} of {amount(kind, most)}"
            )


def _add_applications(found: _LimitExcess, limit: ViewLimit[ViewApp], app: ViewApp) -> None:
    if limit.is_full and not app.running:
        most = limit.entry.max_applications
        found.applications[limit.path] = most
        others = counted(limit.running, "other runs", "others run")
        found.parts.append(
            f"application {app.identity.name} is not tried: {named_limit(limit)} is "
            f"{counted(most, 'application', 'applications')}, and {others}"
        )


MOST_MEMBERS: Final = 100_000
"""The most members of a gang for which shortfalls are found."""

_MOST_SHAPES: Final = 16
"""How many different shapes of members are compared with every node."""

_Bound: TypeAlias = "ViewQueue | ViewLimit[ViewApp] | None"
"""What has an upper bound: a queue, a limit of a user or a group, or all nodes together (None)."""

_Held: TypeAlias = "tuple[Allocation, Node] | None"
"""The allocation of a member, and its node; None if it holds none."""


# REASON-6
def of_ask(state: ViewState, app: ViewApp, ask: Ask) -> Steps[tuple[Shortfall, ...]]:
    """Return the shortfalls of an ask, or of the gang with which it starts.

    The reason ``NeverFits`` says what nodes and queues lack for the ask alone.
    """
    gang = None if ask.gang is None else state.gangs[ask.gang]
    if gang is not None and not gang.satisfied:
        return (yield from of_gang(state, gang))
    need = _Need(wanted=1)
    yield from need.add_members(state, [(app, ask, None)], 1)
    over = (need.over(limit, "The ask") for limit in app.limits)
    return tuple([found for found in over if found is not None][:1])


# REASON-6
def of_gang(state: ViewState, gang: ViewGang) -> Steps[tuple[Shortfall, ...]]:
    """Return the shortfalls of a gang, or of its group.

    Returns:
        At most one shortfall of the nodes, one of a queue and one of a limit.
    """
    if gang.definition is None or gang.satisfied:
        return ()
    capacity = yield from _Capacity.of(state)
    own = yield from _Need.of(state, gang)
    found = yield from _all_over(own, capacity, "The gang")
    group = [one for one in state.gang_index.group_of(gang).gangs if not one.satisfied]
    if len(group) > 1 and len(found) < len(_KINDS):
        together = _Need()
        for one in group:
            together.add((yield from _Need.of(state, one)))
        others = yield from _all_over(together, capacity, "The group of the gang")
        found = {**others, **found}
    return tuple(found[kind] for kind in _KINDS if kind in found)


_NODES: Final = "nodes"
_QUEUE: Final = "queue"
_LIMIT: Final = "limit"
_KINDS: Final = (_NODES, _QUEUE, _LIMIT)


def _all_over(need: _Need, capacity: _Capacity, who: str) -> Steps[dict[str, Shortfall]]:
    """Return the first shortfall of each kind."""
    found: dict[str, Shortfall] = {}
    on_nodes = capacity.lacks(need, who)
    if on_nodes is None:
        on_nodes = yield from capacity.has_no_places(need, who)
    if on_nodes is not None:
        found[_NODES] = on_nodes
    for bound in need.parts:
        kind = _QUEUE if isinstance(bound, ViewQueue) else _LIMIT
        over = None if bound is None or kind in found else need.over(bound, who)
        if over is not None:
            found[kind] = over
    return found


@final
@attrs.define
class _BoundNeed:
    """The members that count for one bound.

    Attributes:
        count: How many they are.
        least: The least of each type that as many of them as are needed ask for together.
        held: What those of them ask for that hold a node.
        is_exact: Whether no choice of members needs more.
        asked: The amounts that they ask for of each type, while they are counted.
    """

    count: int = 0
    least: dict[str, int] = attrs.field(factory=MAP)
    held: dict[str, int] = attrs.field(factory=MAP)
    is_exact: bool = True
    asked: dict[str, list[int]] = attrs.field(factory=MAP)

    def count_in(self, resources: Resources, *, holds: bool) -> None:
        """Count a member."""
        self.count += 1
        for kind, number in resources.items():
            self.asked.setdefault(kind, []).append(number)
        if holds:
            add_to(self.held, resources.amounts)

    def finish(self, wanted: int, total: int) -> None:
        """Compute the least, when all members are counted.

        Args:
            wanted: How many members are needed.
            total: How many members there are; those that do not count here may be enough.
        """
        needed = wanted - (total - self.count)
        for kind, some in self.asked.items():
            # Members that ask for none of it may be enough, too.
            self.least[kind] = sum(nsmallest(max(needed - (self.count - len(some)), 0), some))
            is_even = len(some) == self.count and min(some) == max(some)
            self.is_exact = self.is_exact and is_even and self.count == total
        self.asked = {}


@final
@attrs.define
class _Need:
    """What gangs need at least.

    Attributes:
        wanted: How many members must hold a schedulable node.
        parts: The least that counts for each bound.
        leaves: The keys of the leaves of the members.
        shapes: How many members of each shape may be wanted on schedulable nodes.
        on: What members hold on each schedulable node.
        is_known: Whether all gangs are defined, and have as many members as they need.
    """

    wanted: int = 0
    parts: dict[_Bound, _BoundNeed] = attrs.field(factory=MAP)
    leaves: set[int] = attrs.field(factory=SET)
    shapes: dict[Shape, int] = attrs.field(factory=MAP)
    on: dict[str, dict[str, int]] = attrs.field(factory=MAP)
    is_known: bool = True

    @classmethod
    def of(cls, state: ViewState, gang: ViewGang) -> Steps[_Need]:
        """Return the needs of as many members of a gang as must hold a node."""
        need, definition = cls(), gang.definition
        if definition is None or gang.children > MOST_MEMBERS:
            need.is_known = False
            return need
        members: list[tuple[ViewApp, Ask, _Held]] = []
        for piece in in_pieces(list(gang.members())):
            yield
            for key, name in piece:
                app = state.apps[key]
                ask = app.find(name)
                assert ask is not None, "a member that does not exist"
                members.append((app, ask, app.waiting.get(name) or app.bound.get(name)))
        yield from need.add_members(state, members, definition.min_member)
        return need

    # REASON-9
    def add_members(
        self, state: ViewState, members: Sequence[tuple[ViewApp, Ask, _Held]], least: int
    ) -> Steps[None]:
        """Count members, of which at least a number must hold a node."""
        total, placed = len(members), 0
        nodes = self.parts.setdefault(None, _BoundNeed())
        for piece in in_pieces(members):
            yield
            for app, ask, held in piece:
                for bound in self._bounds(state, app):
                    self.parts.setdefault(bound, _BoundNeed()).count_in(
                        ask.resources, holds=held is not None
                    )
                if held is not None and not held[1].schedulable:
                    placed += 1  # No node is looked for any more.
                    continue
                nodes.count_in(ask.resources, holds=held is not None)
                self.shapes[ask.shape] = self.shapes.get(ask.shape, 0) + 1
                if held is not None:
                    add_to(self.on.setdefault(held[1].name, {}), ask.resources.amounts)
        self.wanted = min(max(least - placed, 0), total - placed)
        self.is_known = self.is_known and total >= least
        for bound, part in self.parts.items():
            if bound is None:
                part.finish(self.wanted, total - placed)
            else:
                part.finish(min(least, total), total)
        self.shapes = {shape: min(count, self.wanted) for shape, count in self.shapes.items()}

    def _bounds(self, state: ViewState, app: ViewApp) -> Iterable[_Bound]:
        """Return the queues and limits with a bound for which an application counts."""
        leaf = state.leaf_of(app)
        self.leaves.add(leaf.key)
        yield from (queue for queue in leaf.upward() if queue.config.max.amounts)
        yield from (limit for limit in app.limits if limit.entry.max.amounts)

    def add(self, other: _Need) -> None:
        """Add what another gang needs."""
        self.wanted += other.wanted
        self.leaves |= other.leaves
        self.is_known = self.is_known and other.is_known
        for shape, count in other.shapes.items():
            self.shapes[shape] = self.shapes.get(shape, 0) + count
        for name, held in other.on.items():
            add_to(self.on.setdefault(name, {}), held)
        for bound, part in other.parts.items():
            own = self.parts.setdefault(bound, _BoundNeed())
            own.count += part.count
            own.is_exact = own.is_exact and part.is_exact
            add_to(own.least, part.least)
            add_to(own.held, part.held)

    def over(self, bound: ViewQueue | ViewLimit[ViewApp], who: str) -> Shortfall | None:
        """Return the shortfall of a queue or a limit, or None."""
        part = self.parts.get(bound)
        if part is None:
            return None
        most = (bound.config if isinstance(bound, ViewQueue) else bound.entry).max.amounts
        has = {kind: max(number, part.held.get(kind, 0)) for kind, number in most}
        if isinstance(bound, ViewQueue):
            path = bound.config.path
            whose = "its queue" if self.leaves == {bound.key} else "the queue"
            return self.compare(part, has, who, f"{whose} {path} may have", {"queue": path})
        facts: dict[str, Fact] = {"queue": bound.path}
        facts["group" if bound.key.of_group else "user"] = bound.key.name
        return self.compare(part, has, who, f"{named_limit(bound)} is", facts)

    def compare(
        self,
        part: _BoundNeed,
        has: Mapping[str, int],
        who: str,
        where: str,
        facts: Mapping[str, Fact],
    ) -> Shortfall | None:
        """Compare needed with present amounts of some types."""
        short = {kind: part.least[kind] for kind in has if part.least.get(kind, 0) > has[kind]}
        if not short:
            return None
        exact = self.is_known and part.is_exact
        there = {kind: has[kind] for kind in short}
        needs = f"{who} needs{'' if exact else ' at least'} {amounts(short)} in all"
        return Shortfall(
            f"{needs}; {where} {_amounts_there(there)}.", {**facts, "needs": short, "has": there}
        )


def _amounts_there(there: Mapping[str, int]) -> str:
    """Return the present amounts of the types that were just named."""
    if not any(there.values()):
        return "none"
    if len(there) > 1:
        return amounts(there)
    ((kind, number),) = there.items()
    return format_quantity(kind, number)


@final
@attrs.frozen
class _Capacity:
    """What nodes have in all.

    Attributes:
        nodes: The schedulable nodes.
        total: What these have.
        closed: What the others have.
        is_all: Whether there are no others.
    """

    nodes: Sequence[Node]
    total: Mapping[str, int]
    closed: Mapping[str, int]
    is_all: bool

    @classmethod
    def of(cls, state: ViewState) -> Steps[_Capacity]:
        """Add up what the nodes have."""
        nodes: list[Node] = []
        total: dict[str, int] = {}
        closed: dict[str, int] = {}
        every = state.nodes.nodes
        for piece in in_pieces(list(every.values())):
            yield
            for node in piece:
                add_to(total if node.schedulable else closed, node.capacity)
                if node.schedulable:
                    nodes.append(node)
        return cls(nodes, total, closed, len(nodes) == len(every))

    # REASON-7
    def lacks(self, need: _Need, who: str) -> Shortfall | None:
        """Return the types of which all nodes together have too little, or None."""
        part = need.parts.get(None)
        if part is None:
            return None
        has = {kind: self.total.get(kind, 0) for kind in part.least}
        for node in self.nodes:
            # A node that has become smaller keeps what runs on it.
            for kind, held in need.on.get(node.name, {}).items():
                has[kind] = has.get(kind, 0) + max(held - node.capacity.get(kind, 0), 0)
        is_all = not any(self.closed.get(kind) for kind in part.least)
        which = f"all {'' if is_all else 'schedulable '}nodes together have"
        return need.compare(part, has, who, which, {})

    # REASON-8
    def has_no_places(self, need: _Need, who: str) -> Steps[Shortfall | None]:
        """Return how many members all nodes together have room for if they are too few, or None.

        For members of one shape the number is exact if they need no devices. Otherwise it may be too
        high, since members of several shapes are compared with each node one shape at a time.
        """
        if not 0 < len(need.shapes) <= _MOST_SHAPES:
            return None
        room, smallest = 0, _smallest(need.shapes)
        for shape, count in need.shapes.items():
            there = yield from self._places(need, [shape], shape.resources)
            room += min(there, count)
        if len(need.shapes) > 1 and smallest:
            room = min(room, (yield from self._places(need, [*need.shapes], smallest)))
        if room >= need.wanted:
            return None
        which = "" if self.is_all else "schedulable "
        room_text = f"all {which}nodes together have room for {room}, even if they were empty"
        if not room:
            room_text = f"no {which}node has room for one of them, even an empty node"
        members = counted(need.wanted, "member", "members")
        message = f"{who} needs room for {members}; {room_text}."
        return Shortfall(message, {"members": need.wanted, "room": room})

    def _places(self, need: _Need, shapes: Sequence[Shape], each: Resources) -> Steps[int]:
        """Count how often an amount fits on all nodes that some shapes may use, if these are empty."""
        count = 0
        for piece in in_pieces(self.nodes):
            yield
            for node in piece:
                held, room = need.on.get(node.name), node.capacity
                if held is not None:
                    room = {kind: max(room.get(kind, 0), held.get(kind, 0)) for kind in each}
                if held is not None or any(node.may_take(shape) for shape in shapes):
                    count += how_many_in(each, room)
        return count


def _smallest(shapes: Iterable[Shape]) -> Resources:
    """Return the least of each type that every shape asks for."""
    first, *others = (shape.resources.amounts for shape in shapes)
    return Resources(
        {
            kind: min(number, *(other.get(kind, 0) for other in others))
            for kind, number in first.items()
        }
        if others
        else first
    )
