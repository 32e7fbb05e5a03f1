"""What part each queue had of what it used together with the queues beside it, and what was its due.

Only queues below a parent with a half-life count: there the parts are meant to meet the weights.
A window is one half-life long and slides over the replay; now and then what queues had in it is
compared with their weights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

import attrs

from muster.figures.usage import Areas, share_of
from muster_core.config.model import QueueConfig
from muster_core.structures.amounts import add_to

LOOKS: Final = 64
"""A window of one half-life is looked at when it has slid on by so many parts of its length."""


@final
@attrs.frozen
class QueuePart:
    """What a queue had over time, of what it and its siblings had together.

    Attributes:
        queue: Its path.
        weight: Its weight at the end.
        due: The part that its weight gives it at the end, from 0 to 1.
        had: The part that it had over the whole time; None if nobody had anything.
        furthest: The largest distance between the part that it had in a window of one half-life
            and its due then; None if no such window has passed.
        furthest_had: The part that it had there.
        furthest_us: When that window ended, in microseconds since the start.
    """

    queue: str
    weight: int
    due: float
    had: float | None
    furthest: float | None = None
    furthest_had: float | None = None
    furthest_us: int | None = None


def parts_of(areas: Sequence[Areas], capacity: Areas) -> Sequence[float] | None:
    """Return which part each of some queues had of what they had together.

    Args:
        areas: What each of them had: amounts times time.
        capacity: What the nodes had in that time, likewise.

    Returns:
        The parts, which are 1 together; None if none of them had anything.
    """
    shares = [share_of(one, capacity, 1) for one in areas]
    together = sum(shares)
    return [share / together for share in shares] if together else None


class _Sample(NamedTuple):
    """What was used until an instant."""

    at_us: int
    leaves: Mapping[str, Areas]
    capacity: Areas


@final
@attrs.define(eq=False)
class _Window:
    """A window of one half-life: what was used until its beginning, and since."""

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
    """Compares what queues had with what was their due, as time passes.

    Args:
        used: Gives what each leaf has used until an instant, by path.
        offered: Gives what the nodes have offered until an instant.
    """

    def __init__(
        self, used: Callable[[int], Mapping[str, Areas]], offered: Callable[[int], Areas]
    ) -> None:
        self._used = used
        self._offered = offered
        #: The queues below each parent with a half-life.
        self._children: dict[str, Sequence[QueueConfig]] = {}
        self._half_lives_us: dict[str, int] = {}
        self._windows: dict[int, _Window] = {}
        self._furthest: dict[str, tuple[float, float, int]] = {}
        self._due_us: int | None = None

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
        self.pass_to(at_us)

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
                found.append(QueuePart(child.path, weight, weight / weights, had, *furthest))
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
