"""Applications and gangs, as lists and single answers have them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.ask_index import ask_counts
from muster.service.endpoints.schemas import (
    NUMBER,
    SECONDS,
    TEXT,
    TEXTS,
    Column,
    Table,
    amounts,
    array,
    flag,
    in_seconds,
    instant,
    maybe,
    maybe_number,
    maybe_text,
    number,
    record,
    shape,
    text,
    texts,
    word,
    words,
)
from muster.service.queries.reader import ReadContext
from muster_core.gangs import GangMode, GangState, TopologyRule
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.application_states import AppState

if TYPE_CHECKING:
    from muster.service.ledger.records import AppEntry
    from muster_core.view.gangs import ViewGang
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView


_MOST_PODS: Final = 100
"""How many asks of an application are searched for pods."""

_PLACES: Final = tuple(place.value for place in AskPlace)


@final
@attrs.frozen(eq=False)
class AppRow:
    """An application, and what is known of it.

    Attributes:
        app: The application.
        ledger_entry: Its entry in the ledger, or None.
        priority: The highest priority of its pending asks, or None.
    """

    app: ViewApp
    ledger_entry: AppEntry | None
    priority: int | None

    def came_us(self) -> int | None:
        """Return when it came, or None if that is not known."""
        return None if self.ledger_entry is None else self.ledger_entry.came_us

    def tags(self) -> dict[str, str]:
        """Return the tags of the event that added it."""
        return {} if self.ledger_entry is None else dict(self.ledger_entry.event.tags)

    # POD-3
    def pods(self) -> dict[str, str | None] | None:
        """Return the namespace and the owner of its pods; None if it has none."""
        asks = {} if self.ledger_entry is None else self.ledger_entry.asks
        pods = [pod for one in islice(asks.values(), _MOST_PODS) if (pod := one.pod) is not None]
        if not pods:
            return None
        return {
            "namespace": _common(pod.namespace for pod in pods),
            "owner": _common(pod.owner for pod in pods),
        }

    def states(self) -> list[dict[str, object]]:
        """Return its states, each with the instant at which it began."""
        entered = () if self.ledger_entry is None else self.ledger_entry.states
        return [{"at": in_seconds(at_us), "state": str(state)} for at_us, state in entered]


def _common(names: Iterable[str]) -> str | None:
    """Return what some names have in common; None if they differ, or are empty."""
    first, *others = {*names}
    return None if others else first or None


# LISTS-6
APPS: Final = Table[AppRow](
    text("app", "its name", lambda a: a.app.identity.name),
    text("queue", "the path of its queue", lambda a: a.app.identity.path),
    maybe_text("user", "its user", lambda a: a.app.identity.user[0]),
    texts("groups", "the groups of its user", lambda a: [*a.app.identity.user[1]]),
    maybe_text(
        "group",
        "the group for which it counts in limits; `*` for the one of all others",
        lambda a: a.app.group,
    ),
    Column("state", word(AppState), "its state", lambda a: a.app.state.value),
    instant("came", "when it came, in seconds", AppRow.came_us),
    maybe_number(
        "priority",
        "the highest priority of its pending asks; null if none is pending",
        lambda a: a.priority,
    ),
    Column(
        "asks",
        shape(**dict.fromkeys(_PLACES, NUMBER)),
        "how many asks it has in each place",
        lambda a: ask_counts(a.app),
    ),
    amounts(
        "allocated",
        "what its bound and waiting asks hold, in base units",
        lambda a: a.app.allocated,
    ),
    amounts(
        "pending", "what its pending asks ask for, in base units", lambda a: a.app.pending_total
    ),
    flag("running", "whether it counts for `maxapplications`", lambda a: a.app.running),
    Column(
        "pods",
        record(namespace=maybe(TEXT), owner=maybe(TEXT)),
        "the namespace of the pods of Kubernetes for which its asks stand, and what controls "
        "them, as its first 100 asks say; each null if they differ or there is none; absent if "
        "none of these stands for a pod",
        AppRow.pods,
        if_any=True,
    ),
    words("tags", "its tags, as far as they are known", AppRow.tags, single=True),
    Column(
        "states",
        array(shape(at=SECONDS, state=TEXT)),
        "its states so far, each with the instant at which it began, in seconds",
        AppRow.states,
        single=True,
    ),
)
"""The fields of applications."""


def row_of_app(context: ReadContext, app: ViewApp) -> AppRow:
    """Return an application with what is known of it."""
    return AppRow(app, context.ledger.app(app.identity.name), context.view.priority_of(app))


@final
@attrs.frozen
class AppFilter:
    """Which applications are listed; None for all.

    Attributes:
        states: Those in one of these states.
        queue: Those of this queue, a path in lower case, and below it.
        user: Those of this user.
    """

    states: frozenset[str] | None = None
    queue: str | None = None
    user: str | None = None

    def admits(self, app: ViewApp, leaves: frozenset[int] | None) -> bool:
        """Return whether an application is listed.

        Args:
            app: The application.
            leaves: The keys of the leaves of the queue, if there is one.
        """
        return (
            (leaves is None or app.identity.leaf in leaves)
            and (self.states is None or app.state in self.states)
            and (self.user is None or app.identity.user[0] == self.user)
        )


def select_apps(
    context: ReadContext, wanted: AppFilter, behind: int | None, most: int
) -> Steps[list[ViewApp]]:
    """Return some applications in the order in which they came.

    Args:
        context: The state.
        wanted: Which applications.
        behind: The key of the application behind which they begin; None for the first ones.
        most: How many at most.
    """
    apps = context.view.apps
    leaves = None if wanted.queue is None else leaves_of(context, wanted.queue)
    yield
    keys = sorted(apps)
    first = 0 if behind is None else bisect_right(keys, behind)
    found: list[ViewApp] = []
    for piece in in_pieces(keys[first:], _PIECE):
        yield
        found += [apps[key] for key in piece if wanted.admits(apps[key], leaves)]
        if len(found) >= most:
            break
    return found[:most]


_PIECE: Final = 256


def leaves_below(context: ReadContext, path: str) -> Iterator[LeafView]:
    """Yield the leaves of a queue, which may be a leaf itself; none if there is no such queue."""
    found = context.machine.registry.queues.get(path)
    queue = None if found is None else context.view.queues.get(found.key)
    if queue is not None:
        yield from context.view.leaves_below(queue)


def leaves_of(context: ReadContext, path: str) -> frozenset[int]:
    """Return the keys of the leaves of a queue; none if there is no such queue."""
    return frozenset(leaf.key for leaf in leaves_below(context, path))


_PENDING, _PARKED, _WAITING, _BOUND = _PLACES


@final
@attrs.frozen(eq=False)
class GangRow:
    """A gang, and what is known of it.

    Attributes:
        context: The state.
        gang: The gang.
    """

    context: ReadContext
    gang: ViewGang

    def definition(self) -> dict[str, object] | None:
        """Return its definition with defaults filled in, or None."""
        definition = self.gang.definition
        if definition is None:
            return None
        topology = definition.topology
        return {
            "min_member": definition.min_member,
            "total": definition.total,
            "mode": definition.mode.value,
            "wait_time": in_seconds(definition.wait_us),
            "groups": [*definition.groups],
            "topology": None if topology is None else topology.written(),
        }

    # GANG-53
    def user(self) -> str | None:
        """Return its user, or None if it has none."""
        owner = self.context.machine.admission.owner_of_gang(self.gang.name)
        return None if owner is None or owner.gang != self.gang.name else owner.user

    def end_us(self) -> int | None:
        """Return when its present wait is over, or None."""
        return next(self.context.view.timers.ends(self.gang), None)

    def left_us(self) -> int | None:
        """Return how long its present wait may still last, or None."""
        end_us = self.end_us()
        return None if end_us is None else max(end_us - self.context.now_us, 0)

    def counts(self) -> Mapping[str, int]:
        """Return how many members it has in each place."""
        gang = self.gang
        return {
            _PENDING: gang.pending + len(gang.backing_off),
            _PARKED: len(gang.parked),
            _WAITING: len(gang.waiting),
            _BOUND: len(gang.bound),
        }

    def members(self) -> Mapping[str, list[str]]:
        """Return its members by place, as ``app/ask``."""
        gang = self.gang
        pending = [(key, name) for key, slot in gang.slots.items() for name in slot.members]
        return {
            _PENDING: sorted(self._member_names([*pending, *gang.backing_off])),
            _PARKED: sorted(self._member_names(gang.parked)),
            _WAITING: self._member_names(gang.waiting),
            _BOUND: sorted(self._member_names(gang.bound)),
        }

    def _member_names(self, members: Iterable[tuple[int, str]]) -> list[str]:
        apps = self.context.view.apps
        return [f"{apps[key].identity.name}/{name}" for key, name in members]


_DEFINITION: Final = shape(
    min_member=NUMBER,
    total=NUMBER,
    mode=word(GangMode),
    wait_time=maybe(SECONDS),
    groups=TEXTS,
    topology=maybe(shape(**dict.fromkeys(map(str, TopologyRule), TEXT), max=NUMBER)),
)

# LISTS-8
GANGS: Final = Table[GangRow](
    text("gang", "its full name", lambda g: g.gang.name),
    Column(
        "definition",
        maybe(_DEFINITION),
        "its definition with defaults filled in, `wait_time` in seconds and `topology` as in "
        "a feed; null if it has none",
        GangRow.definition,
    ),
    maybe_text(
        "user",
        "whose it is: the `user` of its object, else that of the application of its first "
        "member; null if it is nobody's",
        GangRow.user,
    ),
    flag("satisfied", "whether it is satisfied", lambda g: g.gang.satisfied),
    flag("timed_out", "whether it has timed out", lambda g: g.gang.state is GangState.TIMED_OUT),
    flag(
        "cycle_valid",
        "whether its schedule cycle is valid",
        lambda g: g.context.view.is_cycle_valid(g.gang),
    ),
    instant("since", "when its present wait began, in seconds", lambda g: g.gang.since_us),
    instant("until", "when its present wait is over, in seconds", GangRow.end_us),
    instant("left", "how long its present wait may still last, in seconds", GangRow.left_us),
    number(
        "missing",
        "how many more members must hold a node; 0 if it needs none or is not defined",
        lambda g: g.gang.missing,
    ),
    Column(
        "members",
        shape(**dict.fromkeys(_PLACES, NUMBER)),
        "how many members it has in each place",
        GangRow.counts,
    ),
    Column(
        "asks",
        shape(**dict.fromkeys(_PLACES, TEXTS)),
        "its members by place, as `app/ask`; waiting ones in the order of their waits",
        GangRow.members,
        single=True,
    ),
)
"""The fields of gangs."""
