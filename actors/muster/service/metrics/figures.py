"""What is read from the state: queues, applications, asks by state, nodes.

It is read in several short looks, so that batches are decided in between. So the figures of two
queues may be some milliseconds apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, final

import attrs
import trio

from muster.figures.use import NOTHING, Used, total
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from muster.service.ledger.accounts import Accounts
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

T = TypeVar("T")

MOST_QUEUES: Final = 1_000
"""How many queues have figures of their own; those of all others are summed up."""

OTHER: Final = "other"
"""What stands for all queues or users beyond the first ones; no path of a queue is like that."""

_LOOK_QUEUES: Final = 64
_LOOK_APPS: Final = 512

_PENDING: Final = AskPlace.PENDING
_PARKED: Final = AskPlace.PARKED
_WAITING: Final = AskPlace.WAITING
_BOUND: Final = AskPlace.BOUND


class Looks(Protocol):
    """Reads the state between two batches."""

    async def __call__(self, read: Callable[[CoordinatorMachine], Steps[T]], /) -> T:
        """Return what was read."""
        ...


@final
@attrs.frozen
class QueueFigures:
    """The figures of a queue, by resource in base units.

    Attributes:
        path: Its path.
        pending: What its pending asks ask for.
        allocated: What its waiting and bound asks hold.
        guaranteed: Its ``guaranteed``.
        most: Its ``max``.
        priority: Its ``currentPriority``, or None.
    """

    path: str
    pending: Mapping[str, int]
    allocated: Mapping[str, int]
    guaranteed: Mapping[str, int]
    most: Mapping[str, int]
    priority: int | None


@final
@attrs.frozen
class Figures:
    """What the state is.

    Attributes:
        at: When it was read, as ``trio.current_time`` says.
        queues: The figures of queues; those beyond the most are summed up in one.
        summed: How many queues are summed up.
        apps: How many applications there are, by state.
        asks: How many asks there are, by place.
        gangs: How many gangs there are.
        nodes: How many nodes there are.
        capacity: What they have, by resource in base units.
        reservations: How many reservations are in force.
    """

    at: float
    queues: Sequence[QueueFigures]
    summed: int
    apps: Mapping[str, int]
    asks: Mapping[AskPlace, int]
    gangs: int
    nodes: int
    capacity: Mapping[str, int]
    reservations: int


@final
@attrs.frozen
class UserFigures:
    """The figures of a user, or of several together.

    Attributes:
        held: What the asks hold now, by resource in base units.
        used: What asks have used so far.
    """

    held: Mapping[str, int]
    used: Used


_NOBODY: Final = UserFigures({}, NOTHING)


# LISTS-23
def figures_of_users(accounts: Accounts, now_us: int) -> Mapping[str, UserFigures]:
    """Return the figures of users by their label; those of all beyond the first ones are summed up.

    Args:
        accounts: The accounts of all users.
        now_us: The present instant, in microseconds since the origin.
    """
    found: dict[str, UserFigures] = {}
    for name, held, used in accounts.labelled(now_us):
        label = OTHER if name is None else name
        known = found.get(label, _NOBODY)  # There may be a user of that name.
        found[label] = UserFigures(Counter(known.held) + Counter(held), total([known.used, used]))
    return found


async def read_figures(look: Looks) -> Figures:
    """Read the figures in short looks.

    Args:
        look: Reads the state between two batches.

    Raises:
        MusterError: If the scheduler is closed, or there are too many calls.
    """
    at = trio.current_time()
    survey = await look(_survey)
    queues: list[QueueFigures] = []
    for keys in _pieces(survey.queues, _LOOK_QUEUES):
        queues += await look(partial(_queues, keys=keys))
    apps: Counter[str] = Counter()
    asks: Counter[AskPlace] = Counter()
    for keys in _pieces(survey.apps, _LOOK_APPS):
        some = await look(partial(_apps, keys=keys))
        apps.update(some[0])
        asks.update(some[1])
    summed = queues[MOST_QUEUES:]
    if summed:
        queues = [*queues[:MOST_QUEUES], _sum(summed)]
    return Figures(
        at,
        queues,
        len(summed),
        apps,
        asks,
        survey.gangs,
        survey.nodes,
        survey.capacity,
        survey.reservations,
    )


def _pieces(keys: Iterable[int], size: int) -> Iterable[list[int]]:
    left = iter(keys)
    while piece := list(islice(left, size)):
        yield piece


@final
@attrs.frozen
class _Survey:
    """What one look can read: all keys, and what is counted already."""

    queues: Sequence[int]
    apps: Sequence[int]
    gangs: int
    nodes: int
    capacity: Mapping[str, int]
    reservations: int


def _survey(machine: CoordinatorMachine) -> Steps[_Survey]:
    yield
    view = machine.view
    return _Survey(
        # Queues of the configuration were created before dynamic ones, unless it was changed.
        queues=list(view.queues),
        apps=list(view.apps),
        gangs=len(view.gangs),
        nodes=len(view.nodes.nodes),
        capacity={**view.nodes.total},
        reservations=view.reservation_count,
    )


def _queues(machine: CoordinatorMachine, keys: Sequence[int]) -> Steps[list[QueueFigures]]:
    yield
    known = machine.view.queues
    return [_figures_of(known[key]) for key in keys if key in known]


def _figures_of(queue: ViewQueue) -> QueueFigures:
    config = queue.config
    return QueueFigures(
        config.path,
        queue.types.amounts(queue.pending),
        queue.usage(),
        dict(config.guaranteed.amounts),
        dict(config.max.amounts),
        queue.priority,
    )


def _apps(
    machine: CoordinatorMachine, keys: Sequence[int]
) -> Steps[tuple[Counter[str], Counter[AskPlace]]]:
    yield
    apps: Counter[str] = Counter()
    asks: Counter[AskPlace] = Counter()
    known = machine.view.apps
    for key in keys:
        app = known.get(key)
        if app is not None:
            apps[app.state.value] += 1
            _count(app, asks)
    return apps, asks


def _count(app: ViewApp, asks: Counter[AskPlace]) -> None:
    asks[_PENDING] += len(app.pending) + len(app.backing_off)
    asks[_PARKED] += len(app.parked)
    asks[_WAITING] += len(app.waiting)
    asks[_BOUND] += len(app.bound)


def _sum(queues: Iterable[QueueFigures]) -> QueueFigures:
    pending, allocated, guaranteed, most = (Counter[str]() for _ in range(4))
    for one in queues:
        pending.update(one.pending)
        allocated.update(one.allocated)
        guaranteed.update(one.guaranteed)
        most.update(one.most)
    return QueueFigures(OTHER, pending, allocated, guaranteed, most, None)
