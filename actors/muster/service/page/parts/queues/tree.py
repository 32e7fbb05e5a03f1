"""The tree of queues."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.queues.bars import Bar, bars_of, wholes_below
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.reading.looking import Looking
from muster.service.reading.queues import QUEUES, QueueRow
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.structures.steps import Steps

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
class Wanted:
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
class Branch:
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
class Tree:
    """The tree.

    Attributes:
        branches: The queues that are shown, each before those below it.
        count: How many queues there are.
        found: How many are wanted, as far as that is a search.
        left_out: How many would be shown if they were not too many.
        kinds: The resource types that there are.
    """

    branches: list[Branch]
    count: int
    found: int
    left_out: int
    kinds: list[str]


def mark_of(path: str) -> str:
    """Return what the fold of a queue is called."""
    return urlsafe_b64encode(blake2b(path.encode(), digest_size=6).digest()).decode()


def pending_asks(looking: Looking) -> Steps[Mapping[int, int]]:
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


def read_tree(looking: Looking, wanted: Wanted) -> Steps[Tree]:
    """Return the tree as far as it is shown."""
    queues = looking.machine.registry.queues
    asks = yield from pending_asks(looking)
    kept, found = yield from _search(looking, wanted, asks)
    branches: list[Branch] = []
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
    return Tree(branches, len(queues), found, left_out, kinds_of(looking))


def branch_of(looking: Looking, entry: QueueEntry, asks: int, above: Mapping[str, int]) -> Branch:
    """Return a queue as it stands in the tree, without a fold.

    Args:
        looking: The state.
        entry: The queue.
        asks: How many of its asks are pending.
        above: How much of each type its parent could have at most.
    """
    row = QueueRow.of(looking, entry)
    return _branch(row, None, asks, bars_of(row, wholes_below(row, above)))


def _branch(row: QueueRow, is_open: bool | None, asks: int, bars: list[Bar]) -> Branch:
    path = row.config.path
    depth = path.count(".")
    return Branch(row_of(_COLUMNS, row), row.config.name, depth, mark_of(path), is_open, asks, bars)


def kinds_of(looking: Looking) -> list[str]:
    """Return the resource types that nodes have."""
    return sorted(looking.view.total)


# PAGE-22
def _search(
    looking: Looking, wanted: Wanted, asks: Mapping[int, int]
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
    entry: QueueEntry, wanted: Wanted, kept: frozenset[int] | None, count: int
) -> Iterator[tuple[QueueEntry, bool | None]]:
    """Yield the queues that are shown from one on, and whether each is open; see `Branch`."""
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


async def _queues(viewed: Viewed) -> Response:
    unfolded, folded = folds(viewed.request.cookies.get(COOKIE, ""))
    wanted = Wanted(
        viewed.text("name").lower(),
        viewed.text("busy") == "1",
        viewed.text("type") or None,
        unfolded,
        folded,
    )
    found = await viewed.moment.seen(lambda looking: read_tree(looking, wanted))
    return shown(viewed, "queues.html", found=found, tree=found.value, wanted=wanted)


PAGES: Final = (Page("GET", "/queues", Role.READER, _queues),)
"""The tree."""
