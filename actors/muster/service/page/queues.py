"""The tree of queues; and one of them: its headroom, its settings, and its applications."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, final

import attrs
from starlette.responses import Response

from muster._runtime.observers import path_of
from muster.figures.text import Unit, amount_text, number
from muster.service.access import Role
from muster.service.endpoints.schemas import row_of
from muster.service.page.renderer import TemplateData, render_page, segment
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


def _bar(
    kind: str, allocated: int, least: tuple[str, int], most: int | None, whole: int
) -> TemplateData:
    """Return what a queue has of one resource type.

    Args:
        kind: The type.
        allocated: What is allocated in it, in base units.
        least: What it has a right to, as a word and an amount; 0 for nothing.
        most: Its `max`; None for no limit.
        whole: The amount of the whole bar: its `max`; without one the nearest `max`
            above it, or the capacity of all nodes.
    """

    def of_whole(amount: int) -> float:
        if whole <= 0:
            return 2.0 if amount else 0.0
        return amount / whole

    right, amount = least
    unit = Unit.of(kind, max(allocated, amount, most or 0))
    if most is None:
        words = f"{unit.text(allocated)}, no max"
    else:
        words = f"{number(allocated / unit.scale)} of {unit.text(most)}"
    if amount:
        words += f", {right} {number(amount / unit.scale)}"
    marks = (of_whole(amount),) if amount else ()
    return {"kind": kind, "share": of_whole(allocated), "marks": marks, "words": words}


# PAGE-20
def bars_of(
    row: QueueRow, wholes: Mapping[str, int], only: str | None = None
) -> list[TemplateData]:
    """Return the bars of a queue, that with the largest share first.

    Args:
        row: The queue.
        wholes: How much of each type the queue could have at most; see :func:`wholes_below`.
        only: The only type to show, or None for all that matter to the queue.
    """
    allocated, limits = row.allocated(), dict(row.config.max.amounts)
    # SHARE-17
    deserved = row.deserved()
    right = "guaranteed" if deserved is None else "deserves"
    least = row.config.guaranteed.amounts if deserved is None else deserved
    kinds = {only} if only else {*allocated, *limits, *least}
    if not row.entry.parent and not only:
        kinds.update(wholes)
    bars = [
        _bar(
            kind,
            allocated.get(kind, 0),
            (right, least.get(kind, 0)),
            limits.get(kind),
            wholes.get(kind, 0),
        )
        for kind in kinds
    ]
    return sorted(bars, key=lambda bar: (-bar["share"], bar["kind"]))


def wholes_below(row: QueueRow, above: Mapping[str, int]) -> Mapping[str, int]:
    """Return how much of each type a queue and what is below it could have at most.

    Args:
        row: The queue.
        above: The same of its parent; for the root the capacity of all nodes.
    """
    return {**above, **dict(row.config.max.amounts)}


COOKIE: Final = "muster-queues"
"""The cookie with what was folded and unfolded; the script of the page writes it."""

FEW: Final = 40
"""How many queues are all unfolded at first."""

OPEN: Final = 1
"""How deep queues are unfolded at first if they are more: the root shows what is below it."""

MOST: Final = 200
"""How many queues are shown at once."""

_COLUMNS: Final = QUEUES.picked(
    (
        "queue",
        "leaf",
        "dynamic",
        "draining",
        "pending",
        "had",
        "due",
        "priority",
        "offset",
        "fence",
        "sort_policy",
        "overused",
        "hits",
        "over_since",
    ),
    single=False,
)


@final
@attrs.frozen
class TreeQuery:
    """What of the tree is shown.

    Attributes:
        name: Queues with this in their path; empty for all.
        is_busy: Whether only those with pending asks are shown.
        kind: The only resource type that is shown, or None.
        unfolded: The marks of queues that were unfolded.
        folded: The marks of queues that were folded.
    """

    name: str = ""
    is_busy: bool = False
    kind: str | None = None
    unfolded: frozenset[str] = frozenset()
    folded: frozenset[str] = frozenset()

    @property
    def is_search(self) -> bool:
        """Whether only some queues are wanted, each of which is shown."""
        return bool(self.name) or self.is_busy


def mark_of(path: str) -> str:
    """Return what the fold of a queue is called."""
    return urlsafe_b64encode(blake2b(path.encode(), digest_size=6).digest()).decode()


def pending_asks(context: ReadContext) -> Steps[Mapping[int, int]]:
    """Return how many asks are pending in each queue that has some, by its key."""
    counts: dict[int, int] = {}
    for piece in in_pieces(context.view.apps.values()):
        yield
        for app in piece:
            pending = len(app.pending) + len(app.backing_off)
            if pending:
                leaf = app.identity.leaf
                counts[leaf] = counts.get(leaf, 0) + pending
    for key, count in list(counts.items()):
        queue = context.view.queues.get(key)
        for above in () if queue is None else queue.upward()[1:]:
            counts[above.key] = counts.get(above.key, 0) + count
    return counts


def read_tree(context: ReadContext, wanted: TreeQuery) -> Steps[TemplateData]:
    """Return the tree as far as it is shown."""
    queues = context.machine.registry.queues
    asks = yield from pending_asks(context)
    kept, found = yield from _search(context, wanted, asks)
    branches: list[TemplateData] = []
    left_out = 0
    total, wholes = context.view.total, dict[int, Mapping[str, int]]()
    for entry, is_open in _visible(queues["root"], wanted, kept, len(queues)):
        row = QueueRow.of(context, entry)
        above = total if entry.parent is None else wholes[entry.parent.key]
        wholes[entry.key] = wholes_below(row, above)
        if len(branches) >= MOST:
            left_out += 1
            continue
        yield
        bars = bars_of(row, wholes[entry.key], wanted.kind)
        branches.append(_branch(row, is_open, asks.get(entry.key, 0), bars))
    return {
        "branches": branches,
        "count": len(queues),
        "found": found,
        "left_out": left_out,
        "kinds": kinds_of(context),
    }


def branch_of(
    context: ReadContext, entry: QueueEntry, asks: int, above: Mapping[str, int]
) -> TemplateData:
    """Return a queue as a branch of the tree, without a fold.

    Args:
        context: The state.
        entry: The queue.
        asks: How many of its asks are pending.
        above: How much of each type its parent could have at most.
    """
    row = QueueRow.of(context, entry)
    return _branch(row, None, asks, bars_of(row, wholes_below(row, above)))


def _branch(
    row: QueueRow, is_open: bool | None, asks: int, bars: list[TemplateData]
) -> TemplateData:
    path = row.config.path
    depth = path.count(".")
    return {
        "item": row_of(_COLUMNS, row),
        "name": row.config.name,
        "depth": depth,
        "mark": mark_of(path),
        "is_open": is_open,
        "asks": asks,
        "bars": bars,
    }


def kinds_of(context: ReadContext) -> list[str]:
    """Return the resource types that nodes have."""
    return sorted(context.view.total)


# PAGE-22
def _search(
    context: ReadContext, wanted: TreeQuery, asks: Mapping[int, int]
) -> Steps[tuple[frozenset[int] | None, int]]:
    """Return the keys of wanted queues and those above them, and how many are wanted.

    The keys are None if all queues are wanted.
    """
    queues = context.machine.registry.queues
    if not wanted.is_search:
        return None, len(queues)
    kept: set[int] = set()
    found = 0
    for piece in in_pieces(queues.items()):
        yield
        for path, entry in piece:
            if wanted.name in path and (not wanted.is_busy or entry.key in asks):
                found += 1
                kept.update(above.key for above in entry.upward())
    return frozenset(kept), found


# PAGE-21
def _visible(
    entry: QueueEntry, wanted: TreeQuery, kept: frozenset[int] | None, count: int
) -> Iterator[tuple[QueueEntry, bool | None]]:
    """Yield the queues that are shown from one on, and whether each is open; see :func:`_branch`."""
    if kept is not None and entry.key not in kept:
        return
    is_open = True
    if entry.children and kept is None:
        mark, depth = mark_of(entry.config.path), entry.config.path.count(".")
        is_open = mark in wanted.unfolded or (
            mark not in wanted.folded and (count <= FEW or depth < OPEN)
        )
    yield entry, is_open if entry.children and kept is None else None
    if is_open:
        for _, child in sorted(entry.children.items()):
            yield from _visible(child, wanted, kept, count)


def folds(cookie: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the marks of unfolded and of folded queues from the cookie with them.

    Args:
        cookie: Marks of eight characters, those of unfolded queues before a `~`.
    """
    unfolded, _, folded = cookie.partition("~")
    first, second = (
        frozenset(part[at : at + 8] for at in range(0, len(part), 8)) for part in (unfolded, folded)
    )
    return first, second


async def _queues(page: PageRequest) -> Response:
    unfolded, folded = folds(page.request.cookies.get(COOKIE, ""))
    wanted = TreeQuery(
        page.text("name").lower(),
        page.text("busy") == "1",
        page.text("type") or None,
        unfolded,
        folded,
    )
    found = await page.moment.read(lambda context: read_tree(context, wanted))
    return render_page(page, "queues.html", found=found, tree=found.value, wanted=wanted)


QUEUE_TREE_PAGES: Final = (Page("GET", "/queues", Role.READER, _queues),)
"""The tree."""


_OWN: Final = "own"
_DEFAULT: Final = "default"


# PAGE-24
def settings_of(entry: QueueEntry) -> list[TemplateData]:
    """Return all settings of a queue."""
    return [*_fields(entry), *_properties(entry)]


def written(amounts: Mapping[str, int]) -> str:
    """Return amounts as a configuration has them."""
    return ", ".join(f"{kind}: {format_quantity(kind, most)}" for kind, most in amounts.items())


# Fields


def _fields(entry: QueueEntry) -> list[TemplateData]:
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
            "maxapplications", str(apps or ""), "how many applications may run at once; others wait"
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


def _field(name: str, value: str, words: str) -> TemplateData:
    return {"name": name, "value": value, "origin": _OWN if value else _DEFAULT, "words": words}


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
def _properties(entry: QueueEntry) -> list[TemplateData]:
    path = [one.config for one in reversed([*entry.upward()])]
    known = [_property(one, entry.config) for one in in_force(path)]
    others = [
        {
            "name": name,
            "value": value,
            "origin": _OWN,
            "words": "Muster does not know it: it is kept, without effect",
        }
        for name, value in entry.config.own_properties
        if name not in PROPERTIES
    ]
    return [*known, *others]


def _property(one: InForce, queue: QueueConfig) -> TemplateData:
    origin = _DEFAULT if one.origin is None else one.origin
    words = one.property.meaning(one.text)
    if one.without_effect is not None:
        words += f"; {one.without_effect or 'an empty text'}, which stands here, has no effect"
    return {
        "name": one.property.name,
        "value": one.text,
        "origin": _OWN if origin == queue.path else origin,
        "words": words,
    }


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


def limit_line(entry: LimitEntry) -> TemplateData:
    """Return an entry in words."""
    users = ["each other user" if one == "*" else f"user {one}" for one in entry.users]
    groups = ["each other group" if one == "*" else f"group {one}" for one in entry.groups]
    most = written(dict(entry.max.amounts))
    return {"who": ", ".join([*users, *groups]), "most": most, "apps": entry.max_applications}


# PAGE-23
def read_queue_page(
    context: ReadContext, entry: QueueEntry, behind: int | None
) -> Steps[TemplateData]:
    """Return what the page of a queue shows.

    Args:
        context: The state.
        entry: The queue.
        behind: Behind which application the page of them begins; None for the first ones.
    """
    path = entry.config.path
    asks = yield from pending_asks(context)
    chain = [QueueRow.of(context, one) for one in entry.upward()]
    wholes = dict(context.view.total)
    for row in reversed(chain[1:]):
        wholes |= dict(row.config.max.amounts)
    below: list[TemplateData] = []
    inside = wholes | dict(entry.config.max.amounts)
    for _, child in islice(sorted(entry.children.items()), CHILDREN_AT_ONCE):
        yield
        below.append(branch_of(context, child, asks.get(child.key, 0), inside))
    lines, after = yield from _app_lines(context, path, behind)
    uses = yield from _limit_usage(context, path)
    return {
        "item": row_of(QUEUES.picked(None, single=True), chain[0]),
        "branch": branch_of(context, entry, asks.get(entry.key, 0), wholes),
        "above": [row.config.path for row in reversed(chain[1:])],
        "levels": [_level(row) for row in chain],
        "headroom": _headroom(chain),
        "settings": settings_of(entry),
        "limits": [limit_line(one) for one in entry.config.limits],
        "uses": uses,
        "below": below,
        "apps": lines,
        "next": after,
    }


# PAGE-23
def _level(row: QueueRow) -> TemplateData:
    most, running = row.config.max_applications, 0 if row.view is None else row.view.running
    rooms = {kind: _room(kind, left) for kind, left in row.headroom().items()}
    return {"path": row.config.path, "rooms": rooms, "apps": most - running if most else None}


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


def _app_lines(
    context: ReadContext, path: str, behind: int | None
) -> Steps[tuple[list[TemplateData], str | None]]:
    """Return a page of the applications of a queue, and the cursor of the next one."""
    found = yield from select_apps(context, AppFilter(queue=path), behind, APPS_AT_ONCE + 1)
    lines: list[TemplateData] = []
    for app in found[:APPS_AT_ONCE]:
        yield
        row: AppRow = row_of_app(context, app)
        lines.append({"item": row_of(_APPS, row), "came_us": row.came_us()})
    is_last = len(found) <= APPS_AT_ONCE
    last = None if is_last else cursor("apps", found[APPS_AT_ONCE - 1].identity.key)
    return lines, last


def _limit_usage(context: ReadContext, path: str) -> Steps[list[LimitSnapshot]]:
    """Return what users and groups have of the limits of a queue."""
    found: list[LimitSnapshot] = []
    for piece in in_pieces(context.view.limits()):
        yield
        found += [one for one in piece if one.queue == path]
    found.sort(key=lambda one: (one.user is None, one.user or "", one.group or ""))
    return found[:LIMITS_AT_ONCE]


async def _queue(page: PageRequest) -> Response:
    path = path_of(page.in_path("path"))
    place = place_of(page, "apps", int)
    behind = None if place is None else int(place[0])

    def read(context: ReadContext) -> Steps[TemplateData | str]:
        queues = context.machine.registry.queues
        if path not in queues:
            return f"there is no queue {path[:200]!r}{did_you_mean(path, queues)}"
        return (yield from read_queue_page(context, queues[path], behind))

    found = await page.moment.read(read)
    if isinstance(found.value, str):
        raise Problem(404, found.value)
    above = [(f"/queues/{segment(one)}", one.split(".")[-1]) for one in found.value["above"]]
    links = [("/queues", "Queues"), *above]
    return render_page(page, "queue.html", found=found, queue=found.value, above=links)


QUEUE_PAGES: Final = (Page("GET", "/queues/{path:path}", Role.READER, _queue),)
"""The page of a queue."""
