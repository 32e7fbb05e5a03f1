"""A queue: how full it is, where its headroom ends, its settings, and its applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, final

import attrs
from starlette.responses import Response

from muster._runtime.observers import path_of
from muster.figures.text import amount_text
from muster.service.access import Role
from muster.service.endpoints.schemas import row_of
from muster.service.page.queue_tree import QueueBranch, branch_of, pending_asks
from muster.service.page.renderer import render_page, segment
from muster.service.page.requests import Page, PageRequest, place_of
from muster.service.payloads import Problem
from muster.service.queries.apps import APPS, AppFilter, AppRow, row_of_app, select_apps
from muster.service.queries.queues import QUEUES, QueueRow
from muster.service.queries.reader import ReadContext, cursor
from muster_core.admission.queue_tree import QueueEntry
from muster_core.config.properties import PROPERTIES, InForce, in_force
from muster_core.snapshots import LimitSnapshot
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.configuration import Acl, LimitEntry, QueueConfig, Template
from muster_core.values.names import did_you_mean
from muster_core.values.resources import format_quantity

_OWN: Final = "own"
_DEFAULT: Final = "default"


@final
@attrs.frozen
class Setting:
    """A setting.

    Attributes:
        name: Its name in a configuration.
        value: Its value, as a configuration has it.
        origin: Where it is from: ``own``, ``default``, or the path of a queue above.
        words: What it means.
    """

    name: str
    value: str
    origin: str
    words: str


# PAGE-24
def settings_of(entry: QueueEntry) -> list[Setting]:
    """Return all settings of a queue."""
    return [*_fields(entry), *_properties(entry)]


def written(amounts: Mapping[str, int]) -> str:
    """Return amounts as a configuration has them."""
    return ", ".join(f"{kind}: {format_quantity(kind, most)}" for kind, most in amounts.items())


# Fields


def _fields(entry: QueueEntry) -> list[Setting]:
    config = entry.config
    apps = config.max_applications
    found = [
        _field(
            "resources.guaranteed",
            written(config.guaranteed.amounts),
            "what it can claim by reclaim, and what its fair share is measured by",
        ),
        _field(
            "resources.max",
            written(dict(config.max.amounts)),
            "the most that may be allocated in it and below it",
        ),
        _field(
            "maxapplications",
            str(apps or ""),
            "how many applications may run at once; others wait",
        ),
        _field("submitacl", _acl(config.submit_acl), "who may submit applications here and below"),
        _field(
            "adminacl", _acl(config.admin_acl), "who may also remove applications of other users"
        ),
    ]
    if config.template is not None:
        text = _template(config.template)
        found.append(_field("childtemplate", text, "the settings of dynamic queues below it"))
    return found


def _field(name: str, value: str, words: str) -> Setting:
    return Setting(name, value, _OWN if value else _DEFAULT, words)


def _acl(acl: Acl | None) -> str:
    if acl is None:
        return ""
    if acl.everybody:
        return "*"
    names = [*sorted(acl.users), *(f"group {name}" for name in sorted(acl.groups))]
    return ", ".join(names)


def _template(template: Template) -> str:
    parts = {
        "guaranteed": written(template.guaranteed.amounts),
        "max": written(dict(template.max.amounts)),
        "maxapplications": str(template.max_applications or ""),
        "properties": ", ".join(f"{name}: {value}" for name, value in template.properties),
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items() if value)


# Properties


# CONFIG-39
def _properties(entry: QueueEntry) -> list[Setting]:
    path = [one.config for one in reversed([*entry.upward()])]
    known = [_property(one, entry.config) for one in in_force(path)]
    others = [
        Setting(name, value, _OWN, "Muster does not know it: it is kept, without effect")
        for name, value in entry.config.own_properties
        if name not in PROPERTIES
    ]
    return [*known, *others]


def _property(one: InForce, queue: QueueConfig) -> Setting:
    origin = _DEFAULT if one.origin is None else one.origin
    words = one.property.meaning(one.text)
    if one.without_effect is not None:
        words += f"; {one.without_effect or 'an empty text'}, which stands here, has no effect"
    return Setting(one.property.name, one.text, _OWN if origin == queue.path else origin, words)


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
class HeadroomLevel:
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
class LimitLine:
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
    def of(cls, entry: LimitEntry) -> LimitLine:
        """Return an entry in words."""
        users = ["each other user" if one == "*" else f"user {one}" for one in entry.users]
        groups = ["each other group" if one == "*" else f"group {one}" for one in entry.groups]
        most = written(dict(entry.max.amounts))
        return cls(", ".join([*users, *groups]), most, entry.max_applications)


@final
@attrs.frozen
class AppLine:
    """An application of the queue.

    Attributes:
        said: Its fields, as in the list of applications.
        came_us: When it came, or None.
    """

    said: Mapping[str, object]
    came_us: int | None


@final
@attrs.frozen
class QueuePage:
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
    branch: QueueBranch
    above: Sequence[str]
    levels: Sequence[HeadroomLevel]
    headroom: Mapping[str, tuple[str, bool]]
    settings: Sequence[Setting]
    limits: Sequence[LimitLine]
    uses: Sequence[LimitSnapshot]
    below: Sequence[QueueBranch]
    apps: Sequence[AppLine]
    next: str | None


# PAGE-23
def read_queue_page(
    looking: ReadContext, entry: QueueEntry, behind: int | None
) -> Steps[QueuePage]:
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
    below: list[QueueBranch] = []
    inside = wholes | dict(entry.config.max.amounts)
    for _, child in islice(sorted(entry.children.items()), CHILDREN_AT_ONCE):
        yield
        below.append(branch_of(looking, child, asks.get(child.key, 0), inside))
    seats, after = yield from _seats(looking, path, behind)
    uses = yield from _uses(looking, path)
    return QueuePage(
        said=row_of(QUEUES.picked(None, single=True), chain[0]),
        branch=branch_of(looking, entry, asks.get(entry.key, 0), wholes),
        above=[row.config.path for row in reversed(chain[1:])],
        levels=[_level(row) for row in chain],
        headroom=_headroom(chain),
        settings=settings_of(entry),
        limits=[LimitLine.of(one) for one in entry.config.limits],
        uses=uses,
        below=below,
        apps=seats,
        next=after,
    )


# PAGE-23
def _level(row: QueueRow) -> HeadroomLevel:
    most, running = row.config.max_applications, 0 if row.seen is None else row.seen.running
    rooms = {kind: _room(kind, left) for kind, left in row.headroom().items()}
    return HeadroomLevel(row.config.path, rooms, most - running if most else None)


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


def _seats(
    looking: ReadContext, path: str, behind: int | None
) -> Steps[tuple[list[AppLine], str | None]]:
    """Return a page of the applications of a queue, and the cursor of the next one."""
    found = yield from select_apps(looking, AppFilter(queue=path), behind, APPS_AT_ONCE + 1)
    seats: list[AppLine] = []
    for app in found[:APPS_AT_ONCE]:
        yield
        row: AppRow = row_of_app(looking, app)
        seats.append(AppLine(row_of(_APPS, row), row.came_us()))
    is_last = len(found) <= APPS_AT_ONCE
    last = None if is_last else cursor("apps", found[APPS_AT_ONCE - 1].identity.key)
    return seats, last


def _uses(looking: ReadContext, path: str) -> Steps[list[LimitSnapshot]]:
    """Return what users and groups have of the limits of a queue."""
    found: list[LimitSnapshot] = []
    for piece in in_pieces(looking.view.limits()):
        yield
        found += [one for one in piece if one.queue == path]
    found.sort(key=lambda one: (one.user is None, one.user or "", one.group or ""))
    return found[:LIMITS_AT_ONCE]


async def _queue(viewed: PageRequest) -> Response:
    path = path_of(viewed.in_path("path"))
    place = place_of(viewed, "apps", int)
    behind = None if place is None else int(place[0])

    def read(looking: ReadContext) -> Steps[QueuePage | str]:
        queues = looking.machine.registry.queues
        if path not in queues:
            return f"there is no queue {path[:200]!r}{did_you_mean(path, queues)}"
        return (yield from read_queue_page(looking, queues[path], behind))

    found = await viewed.moment.seen(read)
    if isinstance(found.value, str):
        raise Problem(404, found.value)
    above = [(f"/queues/{segment(one)}", one.split(".")[-1]) for one in found.value.above]
    links = [("/queues", "Queues"), *above]
    return render_page(viewed, "queue.html", found=found, queue=found.value, above=links)


QUEUE_PAGES: Final = (Page("GET", "/queues/{path:path}", Role.READER, _queue),)
"""The page of a queue."""
