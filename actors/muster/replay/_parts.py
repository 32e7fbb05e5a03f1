"""The part of each queue in the usage of it and its siblings, and the part that was its due.

Only queues below a parent with a half-life count: there the parts are meant to meet the weights. A
window is one half-life long and slides over the replay; now and then what queues had in it is
compared with their weights. A queue without pending work gets less than its due by right: so the
usage of queues while they had work pending is summed apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, final

import attrs

from muster.figures.usage import Areas, share_of
from muster_core.config.model import QueueConfig
from muster_core.structures.amounts import add_to

LOOKS: Final = 64
"""The number of looks at a window of one half-life while it slides on by its length."""


@final
@attrs.frozen
class QueuePart:
    """The part of a queue over time, in the usage of it and its siblings.

    Attributes:
        queue: Its path.
        weight: Its weight at the end.
        due: The part that its weight gives it at the end, from 0 to 1.
        had: The part that it had over the whole time; None if there was no usage.
        furthest: The largest distance between the part that it had in a window of one half-life
            and its due then; None if no such window has passed.
        furthest_had: The part that it had there.
        furthest_us: When that window ended, in microseconds since the start.
        wanted: The part of the time in which it had a pending ask, from 0 to 1; None without time.
        had_wanting: The part that it had in that time; None if there was no usage then.
    """

    queue: str
    weight: int
    due: float
    had: float | None
    furthest: float | None = None
    furthest_had: float | None = None
    furthest_us: int | None = None
    wanted: float | None = None
    had_wanting: float | None = None


_ONE: Final = 2**40
"""The number for a share of 1."""


@final
@attrs.define
class _Line:
    """The integral of a number over time, which is ``base + rate * t``."""

    base: int = 0
    rate: int = 0

    def change(self, by: int, at_us: int) -> None:
        self.rate += by
        self.base -= by * at_us

    def until(self, at_us: int) -> int:
        return self.base + self.rate * at_us


@final
@attrs.define(eq=False)
class _Child:
    """A queue below a parent with a half-life, and its usage while it had pending asks.

    Attributes:
        together: The dominant shares of it and its siblings, summed over time.
        sums: The time in which it had a pending ask, and what it, and all, had then.
        held: The resources of its asks.
        pending: How many of its asks are pending.
        share: Its dominant share, summed over time.
        begun: What :attr:`sums` would count from, if it has a pending ask.
    """

    together: _Line
    sums: tuple[int, int, int]
    held: dict[str, int] = attrs.field(factory=dict[str, int])
    pending: int = 0
    share: _Line = attrs.field(factory=_Line)
    begun: tuple[int, int, int] | None = None

    def weigh(self, at_us: int, capacity: Mapping[str, int]) -> None:
        """Bring its share up to date."""
        share = 0
        for kind, amount in self.held.items():
            if capacity.get(kind):
                share = max(share, amount * _ONE // capacity[kind])
        by = share - self.share.rate
        if by:
            self.share.change(by, at_us)
            self.together.change(by, at_us)

    def want(self, by: int, at_us: int) -> None:
        """Change the number of its pending asks."""
        before = self.pending
        self.pending += by
        if not before:
            self.begun = self._until(at_us)
        elif not self.pending:
            self.sums, self.begun = self.summed(at_us), None

    def summed(self, at_us: int) -> tuple[int, int, int]:
        """Return its sums until an instant."""
        if self.begun is None:
            return self.sums
        each = zip(self.sums, self._until(at_us), self.begun, strict=True)
        time_us, own, together = (done + now - begun for done, now, begun in each)
        return time_us, own, together

    def _until(self, at_us: int) -> tuple[int, int, int]:
        return at_us, self.share.until(at_us), self.together.until(at_us)


_WHOLE: Final = Fraction(1)


# COMMAND-23
def dues_of(root: QueueConfig) -> Mapping[str, Fraction]:
    """Return the part of everything that weights give each queue, where it is not all.

    Where no half-life lets the weights of siblings count, each has what their parent has.
    """
    found: dict[str, Fraction] = {}
    for queue in _with_children(root):
        of_parent = found.get(queue.path, _WHOLE)
        weights = sum(child.settings.weight for child in queue.children)
        for child in queue.children:
            counts = queue.settings.half_life_us
            part = Fraction(child.settings.weight, weights) if counts else _WHOLE
            if counts or of_parent is not _WHOLE:
                found[child.path] = of_parent * part
    return found


def due_of(path: str | None, dues: Mapping[str, Fraction]) -> Fraction:
    """Return the due of a queue; one that was made later has that of the queue above it."""
    while dues and path:
        if path in dues:
            return dues[path]
        path = path.rpartition(".")[0]
    return _WHOLE


def parts_of(areas: Sequence[Areas], capacity: Areas) -> Sequence[float] | None:
    """Return the part of each of some queues in their common usage.

    Args:
        areas: The usage of each of them: amounts times time.
        capacity: The capacity of the nodes in that time, likewise.

    Returns:
        The parts, which are 1 together; None if there was no usage.
    """
    shares = [share_of(one, capacity, 1) for one in areas]
    together = sum(shares)
    return [share / together for share in shares] if together else None


class _Sample(NamedTuple):
    """The usage until an instant."""

    at_us: int
    leaves: Mapping[str, Areas]
    capacity: Areas


@final
@attrs.define(eq=False)
class _Window:
    """A window of one half-life: the usage until its beginning, and since."""

    length_us: int
    samples: deque[_Sample] = attrs.field(factory=deque[_Sample])

    @property
    def due_us(self) -> int:
        """When it is looked at next."""
        return self.samples[-1].at_us + self.length_us // LOOKS if self.samples else 0

    def slide(self, now: _Sample) -> _Sample | None:
        """Let it end now; return what was used until its beginning, or None if that is too early."""
        self.samples.append(now)
        begin_us = now.at_us - self.length_us
        while len(self.samples) > 1 and self.samples[1].at_us <= begin_us:
            self.samples.popleft()
        first = self.samples[0]
        if first.at_us > begin_us:
            return None
        return _between(first, self.samples[1], begin_us) if len(self.samples) > 1 else first


def _between(first: _Sample, second: _Sample, at_us: int) -> _Sample:
    """Return what was used until an instant, as if use had been even from one look to the next."""
    passed, span = at_us - first.at_us, second.at_us - first.at_us

    def then(before: Areas, after: Areas) -> Areas:
        return {
            kind: before.get(kind, 0) + (area - before.get(kind, 0)) * passed // span
            for kind, area in after.items()
        }

    leaves = {
        path: then(first.leaves.get(path, {}), areas) for path, areas in second.leaves.items()
    }
    return _Sample(at_us, leaves, then(first.capacity, second.capacity))


@final
class PartsOfQueues:
    """Compares the parts of queues with those that were their due, as time passes.

    Args:
        used: Returns the usage of each leaf until an instant, by path.
        offered: Returns the capacity over time until an instant.
        held: Returns the resources that each leaf holds, by path.
        capacity: The capacity of all nodes; it changes as they do.
    """

    def __init__(
        self,
        used: Callable[[int], Mapping[str, Areas]],
        offered: Callable[[int], Areas],
        held: Callable[[], Mapping[str, Mapping[str, int]]],
        capacity: Mapping[str, int],
    ) -> None:
        self._used = used
        self._offered = offered
        self._held = held
        self._capacity = capacity
        #: How many asks of each leaf are pending.
        self._pending: dict[str, int] = {}
        #: The queues of :attr:`_children`, by path; and those at and above each leaf.
        self._states: dict[str, _Child] = {}
        self._above: dict[str, Sequence[_Child]] = {}
        #: The queues below each parent with a half-life.
        self._children: dict[str, Sequence[QueueConfig]] = {}
        self._half_lives_us: dict[str, int] = {}
        self._windows: dict[int, _Window] = {}
        self._furthest: dict[str, tuple[float, float, int]] = {}
        self._due_us: int | None = None
        #: When a parent had a half-life for the first time.
        self._began_us: int | None = None

    def configure(self, root: QueueConfig, at_us: int) -> None:
        """Let a configuration be in force from an instant on."""
        found = [
            queue
            for queue in _with_children(root)
            if queue.settings.half_life_us and len(queue.children) > 1
        ]
        self._children = {queue.path: queue.children for queue in found}
        self._half_lives_us = {queue.path: queue.settings.half_life_us for queue in found}
        lengths = set(self._half_lives_us.values())
        self._windows = {length: self._windows.get(length, _Window(length)) for length in lengths}
        self._due_us = at_us if found else None
        if found and self._began_us is None:
            self._began_us = at_us
        self._rebuild(at_us)
        self.pass_to(at_us)

    def _rebuild(self, at_us: int) -> None:
        """Begin with the present holdings and pending asks of leaves, and go on with the present sums."""
        before, nothing = self._states, (0, 0, 0)
        self._states, self._above = {}, {}
        for children in self._children.values():
            together = _Line()
            for path in (child.path for child in children):
                old = before.get(path)
                sums = nothing if old is None else old.summed(at_us)
                self._states[path] = _Child(together, sums)
        for leaf, amounts in self._held().items():
            self.hold(leaf, amounts, 1, at_us)
        for leaf, number in self._pending.items():
            for child in self._chain(leaf) if number else ():
                child.want(number, at_us)

    def _chain(self, leaf: str) -> Sequence[_Child]:
        """Return a leaf and the queues above it, as far as they are below a parent with a half-life."""
        if not self._states:
            return ()
        chain = self._above.get(leaf)
        if chain is None:
            names = leaf.split(".")
            paths = (".".join(names[:depth]) for depth in range(1, len(names) + 1))
            found = [self._states[path] for path in paths if path in self._states]
            chain = self._above[leaf] = found
        return chain

    def want(self, leaf: str, by: int, at_us: int) -> None:
        """Change the number of pending asks of a leaf by 1 or -1."""
        self._pending[leaf] = self._pending.get(leaf, 0) + by
        for child in self._chain(leaf):
            child.want(by, at_us)

    def hold(self, leaf: str, amounts: Mapping[str, int], sign: int, at_us: int) -> None:
        """Add the resources of an ask of a leaf, or subtract them with a sign of -1."""
        for child in self._chain(leaf):
            held = child.held
            for kind, amount in amounts.items():
                held[kind] = held.get(kind, 0) + sign * amount
            child.weigh(at_us, self._capacity)

    def resize(self, at_us: int) -> None:
        """Record that the capacity has changed."""
        for child in self._states.values():
            child.weigh(at_us, self._capacity)

    def pass_to(self, at_us: int) -> None:
        """Let time pass in which nothing has changed since the last call."""
        if self._due_us is None or at_us < self._due_us:
            return
        now = _Sample(at_us, self._used(at_us), self._offered(at_us))
        for length_us, window in self._windows.items():
            if at_us >= window.due_us:
                before = window.slide(now)
                if before is not None:
                    self._compare(length_us, before, now)
        self._due_us = min(window.due_us for window in self._windows.values())

    def _compare(self, length_us: int, before: _Sample, now: _Sample) -> None:
        for parent, half_life_us in self._half_lives_us.items():
            if half_life_us != length_us:
                continue
            children = self._children[parent]
            parts = _parts(children, before, now)
            weights = sum(child.settings.weight for child in children)
            for child, had in zip(children, parts or (), strict=False):
                distance = abs(had - child.settings.weight / weights)
                if child.path not in self._furthest or distance > self._furthest[child.path][0]:
                    self._furthest[child.path] = (distance, had, now.at_us)

    def _wanting(self, path: str, at_us: int) -> tuple[float | None, float | None]:
        """Return in what part of the time a queue had a pending ask, and the part that it had then."""
        time_us, own, together = self._states[path].summed(at_us)
        length_us = at_us - (self._began_us or 0)
        wanted = time_us / length_us if length_us else None
        return wanted, own / together if together else None

    def parts(self, at_us: int) -> tuple[QueuePart, ...]:
        """Return the parts of all queues below parents with a half-life, until an instant."""
        start, now = _Sample(0, {}, {}), _Sample(at_us, self._used(at_us), self._offered(at_us))
        found: list[QueuePart] = []
        for children in self._children.values():
            weights = sum(child.settings.weight for child in children)
            parts: Sequence[float | None] = _parts(children, start, now) or [None] * len(children)
            for child, had in zip(children, parts, strict=True):
                weight = child.settings.weight
                furthest = self._furthest.get(child.path, (None, None, None))
                due = weight / weights
                wanted, wanting = self._wanting(child.path, at_us)
                part = QueuePart(child.path, weight, due, had, *furthest)
                found.append(attrs.evolve(part, wanted=wanted, had_wanting=wanting))
        return tuple(found)


def _parts(
    children: Sequence[QueueConfig], before: _Sample, now: _Sample
) -> Sequence[float] | None:
    areas: list[Areas] = []
    for child in children:
        used: dict[str, int] = {}
        for path in now.leaves:
            if path == child.path or path.startswith(f"{child.path}."):
                add_to(used, _less(now.leaves[path], before.leaves.get(path, {})))
        areas.append(used)
    return parts_of(areas, _less(now.capacity, before.capacity))


def _less(after: Areas, before: Areas) -> dict[str, int]:
    return {kind: area - before.get(kind, 0) for kind, area in after.items()}


def _with_children(queue: QueueConfig) -> Iterable[QueueConfig]:
    yield queue
    for child in queue.children:
        yield from _with_children(child)
