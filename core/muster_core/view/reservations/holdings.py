"""What the parties of reservations are to hold, and whether it is there for them beside an ask.

Nothing but a projection tells this of devices, topologies and nodes that node services keep. For all
other asks only those reservations count that are to hold a part of the same node, queue or limit: to
any other one there is as much room as now, or more. So the starts are looked at one after another,
with what is released and what is held up to each.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Union, final

from muster_core.structures.totals import add_to
from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.reservations.later.releases import releases_of, releases_on
from muster_core.view.tree.user_limit import ViewLimit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.later.releases import Instant, Release
    from muster_core.view.reservations.later.rooms import Amounts
    from muster_core.view.reservations.party import Reservation
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

_START: Final = itemgetter(0)

Quota = Union["ViewQueue", ViewLimit["ViewApp"]]
"""A queue or a limit."""

Hold = tuple["Instant", "Ask"]
"""When a pending member is to hold a node, and the member."""


@final
class _Ahead(NamedTuple):
    """Who gives back a node, or what a queue or a limit allows.

    Attributes:
        node: The node, or None.
        version: The version of the node.
        releases: Those who do so, in order.
        until_us: The first end that is known, in microseconds.
    """

    node: Node | None
    version: int
    releases: Sequence[Release]
    until_us: int


@final
class Holdings:
    """What the pending members of the parties of a scope are to hold.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: Who gives back each node, and each queue and limit; the latter until nodes change.
        self._on_nodes: dict[str, _Ahead] = {}
        self._in_quotas: dict[Quota, _Ahead] = {}
        self._seen = (-1, -1)
        #: The shapes that each node has room for at last, and on what that depends.
        self._last: dict[str, tuple[object, int]] = {}
        self._forget()

    def _forget(self) -> None:
        #: The reservations, in order.
        self._counted: list[Reservation] = []
        #: When pending members are to hold something of each node, queue and limit, and these.
        self._on: dict[str, list[Hold]] = {}
        self._in: dict[Quota, list[Hold]] = {}
        #: How much they are to hold of each node.
        self.amounts: dict[str, Amounts] = {}
        #: Whether some of them need devices, and whether some group holds nodes already.
        self.has_devices = self._has_nodes = False

    def follow(self, reservations: Sequence[Reservation]) -> None:
        """Take over what is reserved; mostly it is one more than before."""
        state, counted = self._state, self._counted
        seen, before = (state.nodes.changes, state.reconfigured), len(counted)
        if seen != self._seen:
            self._in_quotas.clear()
        if seen[1] != self._seen[1]:
            self._on_nodes.clear()
        is_longer = before <= len(reservations) and (
            not before or reservations[before - 1] is counted[-1]
        )
        if seen != self._seen or not is_longer:
            self._forget()
            self._seen, counted, before = seen, self._counted, 0
        for one in reservations[before:]:
            counted.append(one)
            self._count(one)

    def _count(self, one: Reservation) -> None:
        state = self._state
        self._has_nodes = self._has_nodes or any(
            name in state.gangs and state.gangs[name].held for name in one.party.group
        )
        for member, name in one.places:
            if name not in state.nodes.nodes or not member.is_pending():
                continue
            app, ask = member
            amounts, hold = dict(self.amounts.get(name, ())), (one.start, ask)
            add_to(amounts, ask.resources.amounts)
            self.amounts[name] = tuple(sorted(amounts.items()))
            self.has_devices = self.has_devices or bool(ask.shape.devices)
            self._on.setdefault(name, []).append(hold)
            for quota in quotas_of(state, app):
                self._in.setdefault(quota, []).append(hold)

    # BACKFILL-20
    def last_fitting(self) -> int | None:
        """Return the shapes that some node has room for when all that holds nodes now has ended.

        Returns:
            The shapes, and perhaps others; None if it is not known.
        """
        if self.has_devices or self._state.kept_nodes:
            return None
        shapes, found = self._state.shapes, 0
        for name, node in self._state.nodes.nodes.items():
            held = self.amounts.get(name, ())
            asked = (node.capacity, held, shapes.changes)
            known = self._last.get(name)
            if known is None or known[0] != asked:
                mask = shapes.fitting_node(node.capacity, dict(held))
                known = self._last[name] = asked, mask
            found |= known[1] & node.matching
        return found

    def tell(self, ask: Ask) -> bool:
        """Return whether they tell whether an ask delays anybody who is not of its own group."""
        return not (
            self.has_devices or self._has_nodes or ask.shape.devices or self._state.kept_nodes
        )

    # BACKFILL-26
    def have_headroom(self, app: ViewApp, ask: Ask, end: Instant, now_us: int) -> tuple[bool, int]:
        """Return whether queues and limits leave enough for all beside an ask that they admit now.

        Args:
            app: The application of the ask.
            ask: The ask.
            end: When it is expected to end: what starts by then is not looked at.
            now_us: The present instant, in microseconds.

        Returns:
            Whether they do, and until when that is so if nothing changes, in microseconds.
        """
        state, until_us = self._state, MAX_QUANTITY
        for quota in quotas_of(state, app):
            if isinstance(quota, ViewLimit):
                most, used = quota.entry.max.amounts, quota.used
            else:
                most = quota.config.max.amounts
                used = quota.usage() if most else {}
            holds = self._in.get(quota)
            if not most or not holds:
                continue
            ahead = self._ahead_in(quota, now_us)
            until_us = min(until_us, ahead.until_us)
            free = {name: some - used.get(name, 0) for name, some in most}
            if not _is_enough(free, ahead.releases, holds, ask, end):
                return False, until_us
        return True, until_us

    # BACKFILL-26
    def have_room(self, node: Node, ask: Ask, end: Instant, now_us: int) -> tuple[bool, int]:
        """Return whether a node has room for all beside an ask for which it has room now.

        Args:
            node: The node.
            ask: The ask.
            end: When it is expected to end: what starts by then is not looked at.
            now_us: The present instant, in microseconds.

        Returns:
            Whether it does, and until when that is so if nothing changes, in microseconds.
        """
        holds = self._on.get(node.name)
        if not holds:
            return True, MAX_QUANTITY
        ahead, used, capacity = self._ahead_on(node, now_us), node.used, node.capacity
        free = {name: capacity.get(name, 0) - used.get(name, 0) for name in ask.resources.amounts}
        return _is_enough(free, ahead.releases, holds, ask, end), ahead.until_us

    def _ahead_on(self, node: Node, now_us: int) -> _Ahead:
        known = self._on_nodes.get(node.name)
        if known is None or (known.node, known.version) != (node, node.version):
            known = None
        if known is None or known.until_us <= now_us:
            found = releases_on(self._state, node, now_us)
            known = _Ahead(node, node.version, found, _first_end_us(found))
            self._on_nodes[node.name] = known
        return known

    def _ahead_in(self, quota: Quota, now_us: int) -> _Ahead:
        known = self._in_quotas.get(quota)
        if known is None or known.until_us <= now_us:
            found = sorted(
                releases_of(self._state, apps_under(self._state, quota), now_us),
                key=attrgetter("at"),
            )
            known = self._in_quotas[quota] = _Ahead(None, 0, found, _first_end_us(found))
        return known


def quotas_of(state: ViewState, app: ViewApp) -> list[Quota]:
    """Return the queues and limits for which an application counts."""
    return [*state.leaf_of(app).line, *app.limits]


def apps_under(state: ViewState, quota: Quota) -> list[ViewApp]:
    """Return the applications that count for a queue or a limit."""
    if isinstance(quota, ViewLimit):
        return list(quota.apps.values())
    return [app for leaf in state.leaves_below(quota) for app in leaf.apps.values()]


def _first_end_us(releases: Sequence[Release]) -> int:
    return next((one.at[1] for one in releases if not one.at[0]), MAX_QUANTITY)


def _is_enough(
    free: Mapping[str, int],
    releases: Sequence[Release],
    holds: Sequence[Hold],
    ask: Ask,
    end: Instant,
) -> bool:
    """Return whether an ask leaves enough for all that is held from some starts on.

    Args:
        free: What is free now, of each type that counts.
        releases: Who gives something back, in order.
        holds: Who is to hold something, and from when on.
        ask: The ask.
        end: When it is expected to end: what starts by then is not looked at.
    """
    wanted = ask.resources.amounts
    left = {name: free[name] - amount for name, amount in wanted.items() if name in free and amount}
    done, starts = 0, sorted(holds, key=_START)
    for number, (start, held) in enumerate(starts, 1):
        for name in left:
            left[name] -= held.resources[name]
        if number < len(starts) and starts[number][0] == start:
            continue
        while done < len(releases) and releases[done].at <= start:
            given = releases[done].allocation.ask.resources
            for name in left:
                left[name] += given[name]
            done += 1
        if start < end and any(some < 0 for some in left.values()):
            return False
    return True
