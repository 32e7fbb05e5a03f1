"""The tree of queues, with bars of what is allocated against `guaranteed` and `max`."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Final, final

import attrs
from starlette.responses import Response

from muster.figures.text import Unit, number
from muster.service.access import Role
from muster.service.endpoints.schemas import row_of
from muster.service.page.renderer import render_page
from muster.service.page.requests import Page, PageRequest
from muster.service.queries.queues import QUEUES, QueueRow
from muster.service.queries.reader import ReadContext
from muster_core.admission.queue_tree import QueueEntry
from muster_core.structures.steps import Steps, in_pieces


@final
@attrs.frozen
class Bar:
    """What a queue has of one resource type.

    Attributes:
        kind: The type.
        allocated: What is allocated in it, in base units.
        guaranteed: Its `guaranteed`; 0 for none.
        most: Its `max`; None for no limit.
        whole: What the length of the bar stands for: its `max`; without one the nearest `max`
            above it, or the capacity of all nodes.
    """

    kind: str
    allocated: int
    guaranteed: int
    most: int | None
    whole: int

    @property
    def share(self) -> float:
        """How much of the whole is allocated; more than 1 if it is more than that."""
        return self._of_whole(self.allocated)

    @property
    def marks(self) -> tuple[float, ...]:
        """Where the bar has a mark: at `guaranteed`."""
        return (self._of_whole(self.guaranteed),) if self.guaranteed else ()

    def _of_whole(self, amount: int) -> float:
        if self.whole <= 0:
            return 2.0 if amount else 0.0
        return amount / self.whole

    @property
    def words(self) -> str:
        """The same in words."""
        unit = Unit.of(self.kind, max(self.allocated, self.guaranteed, self.most or 0))
        if self.most is None:
            told = f"{unit.text(self.allocated)}, no max"
        else:
            told = f"{number(self.allocated / unit.scale)} of {unit.text(self.most)}"
        if not self.guaranteed:
            return told
        return f"{told}, guaranteed {number(self.guaranteed / unit.scale)}"


# PAGE-20
def bars_of(row: QueueRow, wholes: Mapping[str, int], only: str | None = None) -> list[Bar]:
    """Return the bars of a queue, that with the largest share first.

    Args:
        row: The queue.
        wholes: How much of each type the queue could have at most; see :func:`wholes_below`.
        only: The only type to show, or None for all that matter to the queue.
    """
    allocated, limits = row.allocated(), dict(row.config.max.amounts)
    guaranteed = row.config.guaranteed.amounts
    kinds = {only} if only else {*allocated, *limits, *guaranteed}
    if not row.entry.parent and not only:
        kinds.update(wholes)
    bars = [
        Bar(
            kind,
            allocated.get(kind, 0),
            guaranteed.get(kind, 0),
            limits.get(kind),
            wholes.get(kind, 0),
        )
        for kind in kinds
    ]
    return sorted(bars, key=lambda bar: (-bar.share, bar.kind))


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
        "priority",
        "offset",
        "fence",
        "sort_policy",
        "overused",
        "hits",
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


@final
@attrs.frozen
class QueueBranch:
    """A queue of the tree.

    Attributes:
        said: Its fields, as in the list of queues.
        name: Its own name.
        depth: How many queues are above it.
        mark: What its fold is called, also between two starts of the service.
        is_open: Whether what is below it is shown; None if it cannot be folded.
        asks: How many of its asks are pending.
        bars: What it has of each resource type.
    """

    said: Mapping[str, object]
    name: str
    depth: int
    mark: str
    is_open: bool | None
    asks: int
    bars: list[Bar]


@final
@attrs.frozen
class QueueTreePage:
    """The tree.

    Attributes:
        branches: The queues that are shown, each before those below it.
        count: How many queues there are.
        found: How many are wanted, as far as that is a search.
        left_out: How many would be shown if they were not too many.
        kinds: The resource types that there are.
    """

    branches: list[QueueBranch]
    count: int
    found: int
    left_out: int
    kinds: list[str]


def mark_of(path: str) -> str:
    """Return what the fold of a queue is called."""
    return urlsafe_b64encode(blake2b(path.encode(), digest_size=6).digest()).decode()


def pending_asks(looking: ReadContext) -> Steps[Mapping[int, int]]:
    """Return how many asks are pending in each queue that has some, by its key."""
    counts: dict[int, int] = {}
    for piece in in_pieces(looking.view.apps.values()):
        yield
        for app in piece:
            pending = len(app.pending) + len(app.backing_off)
            if pending:
                leaf = app.identity.leaf
                counts[leaf] = counts.get(leaf, 0) + pending
    for key, count in list(counts.items()):
        queue = looking.view.queues.get(key)
        for above in () if queue is None else queue.upward()[1:]:
            counts[above.key] = counts.get(above.key, 0) + count
    return counts


def read_tree(looking: ReadContext, wanted: TreeQuery) -> Steps[QueueTreePage]:
    """Return the tree as far as it is shown."""
    queues = looking.machine.registry.queues
    asks = yield from pending_asks(looking)
    kept, found = yield from _search(looking, wanted, asks)
    branches: list[QueueBranch] = []
    left_out = 0
    total, wholes = looking.view.total, dict[int, Mapping[str, int]]()
    for entry, is_open in _visible(queues["root"], wanted, kept, len(queues)):
        row = QueueRow.of(looking, entry)
        above = total if entry.parent is None else wholes[entry.parent.key]
        wholes[entry.key] = wholes_below(row, above)
        if len(branches) >= MOST:
            left_out += 1
            continue
        yield
        bars = bars_of(row, wholes[entry.key], wanted.kind)
        branches.append(_branch(row, is_open, asks.get(entry.key, 0), bars))
    return QueueTreePage(branches, len(queues), found, left_out, kinds_of(looking))


def branch_of(
    looking: ReadContext, entry: QueueEntry, asks: int, above: Mapping[str, int]
) -> QueueBranch:
    """Return a queue as it stands in the tree, without a fold.

    Args:
        looking: The state.
        entry: The queue.
        asks: How many of its asks are pending.
        above: How much of each type its parent could have at most.
    """
    row = QueueRow.of(looking, entry)
    return _branch(row, None, asks, bars_of(row, wholes_below(row, above)))


def _branch(row: QueueRow, is_open: bool | None, asks: int, bars: list[Bar]) -> QueueBranch:
    path = row.config.path
    depth = path.count(".")
    return QueueBranch(
        row_of(_COLUMNS, row), row.config.name, depth, mark_of(path), is_open, asks, bars
    )


def kinds_of(looking: ReadContext) -> list[str]:
    """Return the resource types that nodes have."""
    return sorted(looking.view.total)


# PAGE-22
def _search(
    looking: ReadContext, wanted: TreeQuery, asks: Mapping[int, int]
) -> Steps[tuple[frozenset[int] | None, int]]:
    """Return the keys of wanted queues and those above them, and how many are wanted.

    The keys are None if all queues are wanted.
    """
    queues = looking.machine.registry.queues
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
    """Yield the queues that are shown from one on, and whether each is open; see `QueueBranch`."""
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


async def _queues(viewed: PageRequest) -> Response:
    unfolded, folded = folds(viewed.request.cookies.get(COOKIE, ""))
    wanted = TreeQuery(
        viewed.text("name").lower(),
        viewed.text("busy") == "1",
        viewed.text("type") or None,
        unfolded,
        folded,
    )
    found = await viewed.moment.seen(lambda looking: read_tree(looking, wanted))
    return render_page(viewed, "queues.html", found=found, tree=found.value, wanted=wanted)


QUEUE_TREE_PAGES: Final = (Page("GET", "/queues", Role.READER, _queues),)
"""The tree."""
