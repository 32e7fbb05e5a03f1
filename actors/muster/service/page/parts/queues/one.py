"""A queue: how full it is, where its headroom ends, its settings, and its applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, final

import attrs

from muster._runtime.clients.observers import path_of
from muster.figures.text import amount_text
from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.places import place_of
from muster.service.page.parts.queues.settings import Setting, settings_of, written
from muster.service.page.parts.queues.tree import Branch, branch_of, pending_asks
from muster.service.page.rendering import segment, shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.apps import APPS, AppFilter, AppRow, row_of_app, select_apps
from muster.service.reading.cursors import cursor
from muster.service.reading.looking import Looking
from muster.service.reading.queues import QUEUES, QueueRow
from muster_core.structures.steps import in_pieces
from muster_core.values.nearest import did_you_mean

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.snapshots import LimitSnapshot
    from muster_core.structures.steps import Steps
    from muster_core.values.configuration.user_limits import LimitEntry

APPS_AT_ONCE: Final = 50
"""How many applications a page lists."""

CHILDREN_AT_ONCE: Final = 100
"""How many queues below it a page lists."""

LIMITS_AT_ONCE: Final = 100
"""How many users and groups a page lists with what they have of limits."""

_APPS: Final = APPS.picked(
    ("app", "user", "groups", "state", "asks", "allocated", "pending", "running", "priority"),
    single=False,
)


@final
@attrs.frozen
class Level:
    """A queue on the way to the root.

    Attributes:
        path: Its path.
        rooms: For each type that its `max` names: what is left, in words, and whether anything is.
        apps: How many applications may still start; None without a limit.
    """

    path: str
    rooms: Mapping[str, tuple[str, bool]]
    apps: int | None


@final
@attrs.frozen
class Limit:
    """An entry of `limits`.

    Attributes:
        who: Whom it limits.
        most: Its `maxresources`, as a configuration has them.
        apps: Its `maxapplications`; 0 for no limit.
    """

    who: str
    most: str
    apps: int

    @classmethod
    def of(cls, entry: LimitEntry) -> Limit:
        """Return an entry in words."""
        users = ["each other user" if one == "*" else f"user {one}" for one in entry.users]
        groups = ["each other group" if one == "*" else f"group {one}" for one in entry.groups]
        most = written(dict(entry.max.amounts))
        return cls(", ".join([*users, *groups]), most, entry.max_applications)


@final
@attrs.frozen
class Seat:
    """An application of the queue.

    Attributes:
        said: Its fields, as in the list of applications.
        came_us: When it came, or None.
    """

    said: Mapping[str, object]
    came_us: int | None


@final
@attrs.frozen
class Opened:
    """What the page of a queue shows.

    Attributes:
        said: Its fields, as in the list of queues.
        branch: The queue as it stands in the tree.
        above: The queues above it, the root first.
        levels: The queue and those above it, with their headroom.
        headroom: What is left of each limited type on the whole way, in words.
        settings: Its settings.
        limits: Its `limits`.
        uses: What users and groups have of these.
        below: The queues directly below it, as far as they are listed.
        apps: A page of its applications.
        next: The cursor of the next page, or None.
    """

    said: Mapping[str, object]
    branch: Branch
    above: Sequence[str]
    levels: Sequence[Level]
    headroom: Mapping[str, tuple[str, bool]]
    settings: Sequence[Setting]
    limits: Sequence[Limit]
    uses: Sequence[LimitSnapshot]
    below: Sequence[Branch]
    apps: Sequence[Seat]
    next: str | None


# PAGE-23
def open_queue(looking: Looking, entry: QueueEntry, behind: int | None) -> Steps[Opened]:
    """Return what the page of a queue shows.

    Args:
        looking: The state.
        entry: The queue.
        behind: Behind which application the page of them begins; None for the first ones.
    """
    path = entry.config.path
    asks = yield from pending_asks(looking)
    chain = [QueueRow.of(looking, one) for one in entry.upward()]
    wholes = dict(looking.view.total)
    for row in reversed(chain[1:]):
        wholes |= dict(row.config.max.amounts)
    below: list[Branch] = []
    inside = wholes | dict(entry.config.max.amounts)
    for _, child in islice(sorted(entry.children.items()), CHILDREN_AT_ONCE):
        yield
        below.append(branch_of(looking, child, asks.get(child.key, 0), inside))
    seats, after = yield from _seats(looking, path, behind)
    uses = yield from _uses(looking, path)
    return Opened(
        said=row_of(QUEUES.picked(None, single=True), chain[0]),
        branch=branch_of(looking, entry, asks.get(entry.key, 0), wholes),
        above=[row.config.path for row in reversed(chain[1:])],
        levels=[_level(row) for row in chain],
        headroom=_headroom(chain),
        settings=settings_of(entry),
        limits=[Limit.of(one) for one in entry.config.limits],
        uses=uses,
        below=below,
        apps=seats,
        next=after,
    )


# PAGE-23
def _level(row: QueueRow) -> Level:
    most, running = row.config.max_applications, 0 if row.seen is None else row.seen.running
    rooms = {kind: _room(kind, left) for kind, left in row.headroom().items()}
    return Level(row.config.path, rooms, most - running if most else None)


def _headroom(chain: Sequence[QueueRow]) -> Mapping[str, tuple[str, bool]]:
    """Return the least that is left of each type on the way to the root."""
    least: dict[str, int] = {}
    for row in chain:
        for kind, left in row.headroom().items():
            least[kind] = min(left, least.get(kind, left))
    return {kind: _room(kind, left) for kind, left in sorted(least.items())}


def _room(kind: str, left: int) -> tuple[str, bool]:
    """Return how much is left in words, and whether that is more than nothing."""
    if left < 0:
        return f"{amount_text(kind, -left)} too much", False
    return amount_text(kind, left), left > 0


def _seats(looking: Looking, path: str, behind: int | None) -> Steps[tuple[list[Seat], str | None]]:
    """Return a page of the applications of a queue, and the cursor of the next one."""
    found = yield from select_apps(looking, AppFilter(queue=path), behind, APPS_AT_ONCE + 1)
    seats: list[Seat] = []
    for app in found[:APPS_AT_ONCE]:
        yield
        row: AppRow = row_of_app(looking, app)
        seats.append(Seat(row_of(_APPS, row), row.came_us()))
    is_last = len(found) <= APPS_AT_ONCE
    last = None if is_last else cursor("apps", found[APPS_AT_ONCE - 1].identity.key)
    return seats, last


def _uses(looking: Looking, path: str) -> Steps[list[LimitSnapshot]]:
    """Return what users and groups have of the limits of a queue."""
    found: list[LimitSnapshot] = []
    for piece in in_pieces(looking.view.limits()):
        yield
        found += [one for one in piece if one.queue == path]
    found.sort(key=lambda one: (one.user is None, one.user or "", one.group or ""))
    return found[:LIMITS_AT_ONCE]


async def _queue(viewed: Viewed) -> Response:
    path = path_of(viewed.in_path("path"))
    place = place_of(viewed, "apps", int)
    behind = None if place is None else int(place[0])

    def read(looking: Looking) -> Steps[Opened | str]:
        queues = looking.machine.registry.queues
        if path not in queues:
            return f"there is no queue {path[:200]!r}{did_you_mean(path, queues)}"
        return (yield from open_queue(looking, queues[path], behind))

    found = await viewed.moment.seen(read)
    if isinstance(found.value, str):
        raise Problem(404, found.value)
    above = [(f"/queues/{segment(one)}", one.split(".")[-1]) for one in found.value.above]
    links = [("/queues", "Queues"), *above]
    return shown(viewed, "queue.html", found=found, queue=found.value, above=links)


PAGES: Final = (Page("GET", "/queues/{path:path}", Role.READER, _queue),)
"""The page of a queue."""
