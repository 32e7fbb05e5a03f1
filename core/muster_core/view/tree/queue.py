"""Queues as a round sees them: their sort keys, their headroom, and the asks that they could place.

Every queue has a mask of the shapes that it could place now within its own quota and the quotas
below it (``open``). A parent is entered only for a shape in the mask of one of its children, so
that no search ever fails, and nothing is placed that the plain algorithm would not place: free room
only shrinks within a round, so an ask that fits in its turn would have fitted before, and an ask
that does not fit will not fit later in the round.

Some asks must be tried in their turn, whether they fit or not (see
:mod:`muster_core.view.tree.constraints`). A leaf with such asks must be visited if a pending ask of
the leaf fits the headroom; a second mask (``visiting``) has the shapes of its pending asks.

The keys sort queues, applications and asks (ORDER-5, ORDER-6, ORDER-11 to ORDER-18). A key is a
tuple; decisions compare whole keys. Each kind of key has a list of its parts, so that an
explanation can name the first part in which two keys differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple, final

from typing_extensions import override

from muster_core.owners.app_messages import Values
from muster_core.owners.asks import Ask
from muster_core.structures.amounts import (
    BothDivisors,
    Row,
    Types,
    both_shares,
    past_share_of,
    queue_divisors,
    total_divisors,
    usage_key,
)
from muster_core.structures.ranking import PriorityTally, Rank
from muster_core.structures.shapes import EVERY_SHAPE, VISIT_BIT, MaskCounts, ShapeTable
from muster_core.values.configuration import QueueConfig, Settings, SortPolicy
from muster_core.values.priority import current_priority, highest
from muster_core.values.reasons import PAST_SHARE_KEY
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.usage import Usage, tick_us, wholes_of

KeyValue = float | str | tuple[float, ...]

QueueKey = tuple[float | str, ...]
"""The position of a queue among its siblings, best first."""


@final
class KeyPart(NamedTuple):
    """A part of a key.

    Attributes:
        name: Its name in an explanation.
        highest_first: Whether the highest comes first: the key has it with the sign turned.
    """

    name: str
    highest_first: bool = False

    def value(self, found: KeyValue) -> KeyValue:
        """Return the value of this part in a key, with its own sign."""
        return -found if self.highest_first and isinstance(found, (int, float)) else found


_PRIORITIES: Final = (
    KeyPart("queue.priority", highest_first=True),
    KeyPart("currentPriority", highest_first=True),
)
_REST: Final = (KeyPart("pending", highest_first=True), KeyPart("path"))
_SHARES: Final = (KeyPart("share"), *_REST)
PAST_SHARE: Final = KeyPart(PAST_SHARE_KEY)
_PAST_SHARES: Final = (PAST_SHARE, *_REST)


# ORDER-5, ORDER-6, ORDER-7
def queue_key(
    siblings: Settings, own: QueueConfig, counted: int | None, share: float, pending: float
) -> QueueKey:
    """Return the sort key of a queue among its siblings that have pending asks.

    Args:
        siblings: The settings of its parent, which define how children are sorted.
        own: The configuration of the queue.
        counted: Its priority as the parent sees it.
        share: Its fair share, or its past share.
        pending: The dominant share of its pending asks.
    """
    if not siblings.sort_by_priority:
        return (share, -pending, own.path)
    assert counted is not None, "a queue with something pending has a priority"
    return (-own.settings.queue_priority, -counted, share, -pending, own.path)


def queue_parts(siblings: Settings) -> tuple[KeyPart, ...]:
    """Return the parts of :func:`queue_key`."""
    # USAGE-8
    shares = _PAST_SHARES if siblings.half_life_us else _SHARES
    return (*_PRIORITIES, *shares) if siblings.sort_by_priority else shares


_PRIORITY: Final = KeyPart("priority", highest_first=True)
_USAGE: Final = KeyPart("usage")
_CREATION: Final = KeyPart("creation")


# ORDER-11, ORDER-12, ORDER-13, USAGE-9
def app_key(
    leaf: ViewQueue,
    app: ViewApp,
    total: Mapping[str, int],
    allocated: Mapping[str, int] | None = None,
    priority: int | None = None,
    past: float | None = None,
) -> Rank:
    """Return the sort key of an application with pending asks among those of its leaf.

    Args:
        leaf: The leaf.
        app: The application.
        total: The capacity of all nodes.
        allocated: The assumed usage of its asks that hold nodes; None for the real one.
        priority: The highest priority that its pending asks would have; None for that they have.
        past: The past share of its user, or None if that does not count.
    """
    settings, creation = leaf.config.settings, app.identity.key
    rank: Rank = (creation,)
    if settings.sort_policy is SortPolicy.FAIR:
        uses = app.allocated if allocated is None else allocated
        # SHARE-13
        rank = (usage_key(uses, leaf.deserved, _NOTHING if leaf.by_weight else total), creation)
        if past is not None:
            rank = (past, *rank)
    if settings.sort_by_priority:
        priority = app.counted if priority is None else priority
        assert priority is not None, "an application with pending asks has a priority"
        rank = (-priority, *rank)
    return rank


def app_parts(settings: Settings) -> tuple[KeyPart, ...]:
    """Return the parts of :func:`app_key`."""
    fair = settings.sort_policy is SortPolicy.FAIR
    parts = (_USAGE, _CREATION) if fair else (_CREATION,)
    # USAGE-9
    if fair and settings.half_life_us and settings.usage_of_users:
        parts = (PAST_SHARE, *parts)
    return (_PRIORITY, *parts) if settings.sort_by_priority else parts


ASK_PARTS: Final = (_PRIORITY, _CREATION, KeyPart("gang"), KeyPart("submission"), KeyPart("number"))
"""The parts of an :data:`~muster_core.owners.asks.AskOrder`."""


_ONLY: Final[QueueKey] = ("the only child",)
"""The position of a child without siblings, whose key would be compared with no other."""

_NOTHING: Final[Mapping[str, int]] = {}

VISIT: Final = 1 << VISIT_BIT
"""The mask of the asks that must be tried though they may fit nowhere."""


class ViewQueue(ABC):
    """A queue; a parent or a leaf.

    Attributes:
        types: The resource types of the partition.
        depth: The number of its ancestors.
        asked: What its asks come to, pending ones and those that hold nodes: a bind does not
            change it.
        allocated: The resources allocated in it.
        tally: The priorities of its children that have pending asks; levels if these age.
        counted: Its priority as its parent sees it.
        running: How many of its applications count for ``maxapplications``.
        open: The shapes that it could place now.
        visiting: The shapes with which leaves below can be entered that must be visited.
        admits: The shapes that fit in the headroom left by its own ``max``.
        claims: The shapes for which its deserved amounts let it reclaim.
        deserved: The amounts that it deserves by type; none of one that is missing.
        by_weight: Whether its parent gives it these by weight, so that each type counts as
            named; otherwise it is its ``guaranteed``.
        order: Its position among its siblings, while it could place an ask or must be visited.
        has_siblings: Whether its parent has other children, with which it is compared.
        stale: Whether it must be refreshed after a queue below it was. Sums that are compared with
            nothing, neither a sibling nor a quota, change nothing else.
        divisors: The divisors of its usage and its pending asks for its shares; None if not
            computed yet.
        past: Its recent usage; None if that does not count.
    """

    __slots__ = (
        "_has_quotas",
        "_priced_at",
        "_priced_with",
        "_visited",
        "admits",
        "allocated",
        "asked",
        "by_weight",
        "claims",
        "config",
        "counted",
        "depth",
        "deserved",
        "divisors",
        "has_siblings",
        "key",
        "line",
        "open",
        "order",
        "parent",
        "past",
        "priority",
        "repriced",
        "running",
        "stale",
        "tally",
        "types",
        "visiting",
    )

    def __init__(
        self, key: int, parent: ParentView | None, config: QueueConfig, types: Types, depth: int = 0
    ) -> None:
        self.key = key
        self.parent = parent
        self.config = config
        self.types = types
        self.depth = depth
        self.asked: Row = []
        self.allocated: Row = []
        self.tally = PriorityTally()
        self.priority: int | None = None
        self.counted: int | None = None
        self.running = 0
        self.open = 0
        self.visiting = 0
        self.admits = EVERY_SHAPE
        self.claims = 0
        self.deserved: Mapping[str, int] = config.guaranteed
        self.by_weight = False
        self.order: QueueKey = ()
        self.has_siblings = False
        self.stale = True
        self.divisors: BothDivisors | None = None
        self.past: Usage | None = None
        #: The children that are, or contain, a leaf that must be visited; a leaf has none.
        self._visited: dict[int, ViewQueue] = {}
        #: The queue and its ancestors, nearest first.
        self.line: tuple[ViewQueue, ...] = (self,) if parent is None else (self, *parent.line)
        #: Whether the tally has changed since ``priority`` was computed, the settings and the
        #: highest priority below with which it was computed, and whether the queue has a ``max``
        #: or deserves something.
        self.repriced = True
        self._priced_with: QueueConfig | None = None
        self._priced_at: int | None = None
        self._has_quotas = False
        self.lengthen()
        self.follow_share_policy()

    def upward(self) -> Sequence[ViewQueue]:
        """Return the queue and its ancestors, nearest first."""
        return self.line

    def lengthen(self) -> None:
        """Make the rows as long as there are types now."""
        self.types.lengthen(self.asked)
        self.types.lengthen(self.allocated)
        self.divisors = None

    @property
    def pending(self) -> Row:
        """The sum of its pending asks."""
        return [asked - used for asked, used in zip(self.asked, self.allocated)]  # noqa: B905 - quicker

    def used(self, name: str) -> int:
        """Return how much of a type is allocated in the queue."""
        number = self.types.find(name)
        return 0 if number is None else self.allocated[number]

    def usage(self) -> dict[str, int]:
        """Return the allocated amounts of the queue, without zeros."""
        return self.types.amounts(self.allocated)

    # QUEUE-7, QUEUE-9, QUEUE-10
    def is_full(self) -> bool:
        """Return whether ``maxapplications`` of this queue stops applications that do not run."""
        limit = self.config.max_applications
        return 0 < limit <= self.running

    def top(self) -> int | None:
        """Return the highest priority of its children that have pending asks."""
        return self.tally.top()

    def may_be_blocked_by_members(self) -> bool:
        """Return whether a gang member that was not the first ask may have blocked a leaf."""
        return False

    @abstractmethod
    def below(self) -> int:
        """Return the shapes that could be placed if the queue's own ``max`` did not count."""

    @abstractmethod
    def visits(self, below: int, exact: bool) -> int:
        """Return the shapes with which leaves can be entered that must be visited.

        Args:
            below: The result of :meth:`below`.
            exact: Whether every leaf with an ask to try must be visited.
        """

    def has_room(self, ask: Ask) -> bool:
        """Return whether an ask fits in the headroom of the queue and its ancestors."""
        return all(queue.admits_more(ask) for queue in self.line if queue.config.max.amounts)

    # CONFIG-25
    def admits_more(self, ask: Ask, more: Mapping[str, int] = _NOTHING) -> bool:
        """Return whether an ask fits in the headroom left by the queue's own ``max``.

        Args:
            ask: The ask.
            more: How much more would be used; less, if negative.
        """
        for name, most in self.config.max.amounts:
            amount = ask.resources[name]
            if amount and self.used(name) + more.get(name, 0) + amount > most:
                return False
        return True

    def values(self) -> Values:
        """Return the values of the queue that its parent counts."""
        return Values(self.counted, self.types.amounts(self.pending), self.usage())

    # ORDER-2, CONFIG-25
    def admitted(self, shapes: ShapeTable) -> int:
        """Return the shapes that fit in the headroom left by the queue's own ``max``."""
        limits = self.config.max.amounts
        if not limits:
            return EVERY_SHAPE
        return shapes.fitting_headroom({name: most - self.used(name) for name, most in limits})

    # SHARE-3
    def follow_share_policy(self) -> None:
        """Switch its deserved amounts to the policy of the parent: ``guaranteed``, or by weight.

        The amounts by weight are not known until :meth:`deserve` is called.
        """
        parent = self.parent
        by_weight = parent is not None and parent.config.settings.share_by_weight
        if by_weight is not self.by_weight:
            self._priced_with = None
            self.deserved = Counter[str]()
        self.by_weight = by_weight
        if not by_weight:
            self.deserved = self.config.guaranteed

    def deserve(self, amounts: Counter[str]) -> None:
        """Deserve these amounts by weight."""
        self.deserved, self.divisors = amounts, None

    # RECLAIM-1, RECLAIM-2, SHARE-14
    def claimed(self, shapes: ShapeTable) -> int:
        """Return the shapes that use a type that it deserves, and stay within what it deserves."""
        deserved = self.deserved
        if not deserved or self.parent is None:
            return 0
        room = {name: most - self.used(name) for name, most in deserved.items()}
        mask = shapes.fitting_headroom(room)
        return mask if self.by_weight else shapes.naming(deserved) & mask

    def fair_share(self, total: Mapping[str, int]) -> float:
        """Return the fair share if the partition has ``total``."""
        return self.share_of(self.allocated, total)

    def share_of(self, row: Row, total: Mapping[str, int]) -> float:
        """Return the fair share that the queue would have with these amounts allocated."""
        return self.shares_of(row, row, total)[0]

    def shares_of(
        self, allocated: Row, asked: Row, total: Mapping[str, int]
    ) -> tuple[float, float]:
        """Return its fair share, and the share of its pending asks, with other amounts."""
        return both_shares(allocated, asked, self.find_divisors(total))

    def find_divisors(self, total: Mapping[str, int]) -> BothDivisors:
        """Return the divisors if the partition has ``total``."""
        return self.divisors or self._find_divisors(total)

    # USAGE-7
    def past_share(self, total: Mapping[str, int], allocated: Row | None = None) -> float:
        """Return the past share of a queue below a parent with a half-life.

        Args:
            total: The capacity of all nodes.
            allocated: The assumed allocated amounts; None for the real ones.
        """
        past, parent = self.past, self.parent
        assert past is not None, "a queue without usage has no past share"
        assert parent is not None, "the root has no usage"
        length_us = tick_us(parent.config.settings.half_life_us)
        if past.wholes is None or self.divisors is None:
            self._find_divisors(total)  # It forgets the others.
            past.lengthen()
            weight = self.config.settings.weight
            past.wholes = wholes_of(total, self.types, length_us, weight)
        row = self.allocated if allocated is None else allocated
        return past_share_of(past.used, row, length_us, past.wholes)

    def _find_divisors(self, total: Mapping[str, int]) -> BothDivisors:
        names = self.types.names
        # SHARE-12
        if self.by_weight:
            own = total_divisors(self.deserved, names)
        else:
            own = queue_divisors([queue.config for queue in self.line], total, names)
        both = zip(own, total_divisors(total, names), strict=True)
        self.divisors = tuple((number, own, whole) for (number, own), (_, whole) in both)
        if self.past is not None:
            self.past.wholes = None
        return self.divisors

    def refresh(self, shapes: ShapeTable, total: Mapping[str, int], exact: bool) -> bool:
        """Update all computed attributes, and notify the parent.

        Args:
            shapes: The table of shapes.
            total: The capacity of all nodes.
            exact: Whether every leaf with an ask to try must be visited.

        Returns:
            Whether the priority has changed.
        """
        # PRIORITY-19
        is_repriced = (self.repriced or self.config is not self._priced_with) and self._reprice()
        before, below = self.open, self.below()
        if self._has_quotas:
            self.admits, self.claims = self.admitted(shapes), self.claimed(shapes)
        # ORDER-2
        self.open = below & self.admits & ~VISIT
        if exact or below & VISIT or self._visited:
            self.visiting = self.visits(below, exact=exact) & self.admits
        else:
            self.visiting = 0
        self.stale = self.has_siblings or self._has_quotas
        if self.parent is not None:
            self.parent.child_changed(self, before, total)
        return is_repriced

    def _reprice(self) -> bool:
        """Compute the priority again, if need be; return whether it has changed."""
        config = self.config
        self.repriced = False
        top = self.top()
        if top == self._priced_at and config is self._priced_with:
            return False
        if config is not self._priced_with:
            self._has_quotas = bool(config.max.amounts or self.deserved or self.by_weight)
            self.admits, self.claims = EVERY_SHAPE, 0
        self._priced_with, self._priced_at = config, top
        is_root, before = self.parent is None, self.priority
        self.priority = current_priority(config.settings, top, is_root=is_root)
        return self.priority != before

    def key_in(self, parent: ParentView, total: Mapping[str, int]) -> QueueKey:
        """Compute the queue's position among its siblings."""
        divisors = self.divisors or self._find_divisors(total)
        # ORDER-8, ORDER-10
        share, pending = both_shares(self.allocated, self.asked, divisors)
        # USAGE-8
        if self.past is not None:
            share = self.past_share(total)
        return queue_key(parent.config.settings, self.config, self.counted, share, pending)

    def check(self, shapes: ShapeTable, total: Mapping[str, int]) -> None:
        """Assert the invariants of a queue that is up to date; for tests."""
        # Cached values equal newly computed ones.
        assert not self.repriced
        assert self.priority == current_priority(
            self.config.settings, self.top(), is_root=self.parent is None
        )
        below, admitted = self.below(), self.admitted(shapes)
        assert self.open == below & admitted & ~VISIT
        assert self.visiting == self.visits(below, exact=False) & admitted
        divisors = self.divisors
        assert divisors is None or divisors == self._find_divisors(total)
        assert len(self.asked) == len(self.allocated) == len(self.types.names)
        assert self.line == (self, *(() if self.parent is None else self.parent.line))
        # The parent has it as a child, and counts its priority only while an ask is pending.
        if self.parent is not None:
            assert self.parent.children[self.key] is self
            assert self.counted == (self.priority if self.asked != self.allocated else None)
        self.tally.check()


@final
class ParentView(ViewQueue):
    """A parent: its children are queues."""

    __slots__ = ("_counts", "_order", "children")

    def __init__(
        self, key: int, parent: ParentView | None, config: QueueConfig, types: Types, depth: int = 0
    ) -> None:
        super().__init__(key, parent, config, types, depth)
        self.children: dict[int, ViewQueue] = {}
        #: The children that could place an ask or must be visited, in order.
        self._order: list[tuple[QueueKey, ViewQueue]] = []
        #: How many children could place each shape.
        self._counts = MaskCounts()

    @override
    def below(self) -> int:
        """Return the shapes that some child could place."""
        return self._counts.mask

    @override
    def visits(self, below: int, exact: bool) -> int:
        """Return the shapes with which leaves can be entered that must be visited."""
        mask = 0
        for child in self._visited.values():
            mask |= child.visiting
        return mask

    def child_changed(self, child: ViewQueue, before: int, total: Mapping[str, int]) -> None:
        """Update what this parent records of a child: its shapes, its priority and its position."""
        # PRIORITY-14
        counted = child.priority if child.asked != child.allocated else None
        if counted != child.counted:
            self.tally.replace(child.counted, counted)
            child.counted = counted
            self.repriced = self.stale = True
        now, visiting, listed, was = child.open, child.visiting, self._order, child.order
        # ORDER-1
        order: QueueKey = ()
        if now or visiting:
            order = child.key_in(self, total) if child.has_siblings else _ONLY
        if order != was:
            if was:
                del listed[bisect_left(listed, (was,))]
            child.order = order
            if order:
                insort(listed, (order, child))
        if before != now:
            self._counts.replace(before, now)
            self.stale = True
        if visiting:
            self._visited[child.key] = child
            self.stale = True
        elif self._visited:
            self._visited.pop(child.key, None)
            self.stale = True

    def add(self, child: ViewQueue) -> ViewQueue | None:
        """Add a new child; return the one that must be refreshed, as it was the only child."""
        only = next(iter(self.children.values())) if len(self.children) == 1 else None
        self.children[child.key] = child
        child.has_siblings = len(self.children) > 1
        if only is not None:
            only.has_siblings = True
            self.reorder()
        return only

    def reorder(self) -> None:
        """Remove all children from the order until each is refreshed; the settings have changed."""
        self._order.clear()
        for child in self.children.values():
            child.order = ()

    def remove(self, child: ViewQueue) -> None:
        """Remove a child that no longer exists."""
        del self.children[child.key]
        self.tally.replace(child.counted, None)
        self.repriced = True
        self._unlist(child)
        self._counts.replace(child.open, 0)
        self._visited.pop(child.key, None)
        if len(self.children) == 1:
            (only,) = self.children.values()
            only.has_siblings = False
            if self._order:
                only.order = _ONLY
                self._order = [(_ONLY, only)]

    def first(self, mask: int, entering: int) -> ViewQueue:
        """Return the best child to enter; there must be one.

        Args:
            mask: The shapes that have room on a node and in the queues above.
            entering: The shapes that have headroom in the queues above.
        """
        for _, child in self._order:
            if child.open & mask or child.visiting & entering:
                return child
        msg = "entered a queue in which nothing can be placed"
        raise AssertionError(msg)

    def in_turn(self, wanted: Container[int], total: Mapping[str, int]) -> list[ViewQueue]:
        """Return the children whose keys are wanted, best first."""
        children = [child for child in self.children.values() if child.key in wanted]
        if len(children) > 1:
            children.sort(key=lambda child: child.key_in(self, total))
        return children

    def _unlist(self, child: ViewQueue) -> None:
        if child.order:
            del self._order[bisect_left(self._order, (child.order,))]

    @override
    def check(self, shapes: ShapeTable, total: Mapping[str, int]) -> None:
        """Assert the invariants of a parent that is up to date; for tests."""
        ViewQueue.check(self, shapes, total)
        children = list(self.children.values())
        assert self.tally.top() == highest(child.counted for child in children)
        for number in range(len(self.types.names)):
            assert self.asked[number] == sum(child.asked[number] for child in children)
            assert self.allocated[number] == sum(child.allocated[number] for child in children)
        assert self.running == sum(child.running for child in children)
        # All and only the children that could place an ask or must be visited are listed, in order.
        listed = [child for child in children if child.open or child.visiting]
        alone = len(children) == 1
        assert all(child.has_siblings is not alone for child in children)
        order = sorted(
            (_ONLY if alone else child.key_in(self, total), child.key) for child in listed
        )
        assert [(key, child.key) for key, child in self._order] == order
        self._counts.check(child.open for child in children)
        assert set(self._visited) == {child.key for child in children if child.visiting}


def first_leaf(queue: ViewQueue, wanted: Container[int], total: Mapping[str, int]) -> ViewQueue:
    """Return the leaf whose turn is first; each parent must have a wanted child."""
    while isinstance(queue, ParentView):
        queue = queue.in_turn(wanted, total)[0]
    return queue
