"""EASY backfill on nodes that have names: a reservation is for certain nodes, as in Muster.

In ``plain.py`` any processor is as good as another, and the job with the reservation takes those
that are free when its turn comes. Muster reserves nodes by name, and may keep them: who runs
beyond the start must not be on one of them, though others may be free by then. Here a job needs
whole nodes; that apart all is as in ``plain.py``, and nothing of Muster is imported either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from typing_extensions import override

from examples.evidence.plain import Job, Machine


@dataclass
class Reservation:
    """The reservation for the first job that waits.

    Attributes:
        number: The number of the job.
        start: When it is expected to start, in seconds.
        nodes: On which nodes.
    """

    number: int
    start: int
    nodes: list[int]


@dataclass
class NamedNodes(Machine):
    """As `Machine`, of nodes instead of processors; a node is a number, from 0 up to ``free``.

    Attributes:
        empty: The nodes without a job.
        held: The nodes of each job that runs, by its number.
        reservation: What the last pass reserved.
    """

    empty: set[int] = field(init=False)
    held: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    reservation: Reservation | None = None

    def __post_init__(self) -> None:
        self.empty = set(range(self.free))

    @override
    def end(self, number: int) -> None:
        """End a job; its nodes become empty."""
        super().end(number)
        self.empty.update(self.held.pop(number))

    @override
    def start(self, job: Job, now: int) -> Job:
        """Start a job on the first empty nodes."""
        return self._start_on(sorted(self.empty)[: job.size], job, now)

    @override
    def backfill(self, now: int) -> Iterator[Job]:
        """Start the jobs that end before the reserved start, or fit beside the reserved nodes."""
        reserved = self.reservation = self._reserve(self.waiting[0], now)
        for job in list(self.waiting)[1:]:
            ends_by_then = now + job.requested <= reserved.start
            barred = set[int]() if ends_by_then else set(reserved.nodes)
            room = sorted(self.empty - barred)[: job.size]
            if len(room) == job.size:
                self.waiting.remove(job)
                yield self._start_on(room, job, now)

    def _start_on(self, nodes: list[int], job: Job, now: int) -> Job:
        self.empty.difference_update(nodes)
        self.held[job.number] = nodes
        return super().start(job, now)

    def _reserve(self, first: Job, now: int) -> Reservation:
        """Find the first start; keep the previous reservation if it is no later."""
        ends = {one.expected_end(now) for one in self.running.values()}
        start = min(at for at in ends if len(self._empty_at(at, now)) >= first.size)
        before = self.reservation
        if (
            before is not None
            and before.number == first.number
            and now < before.start <= start
            and self._empty_at(before.start, now).issuperset(before.nodes)
        ):
            return before
        return Reservation(first.number, start, sorted(self._empty_at(start, now))[: first.size])

    def _empty_at(self, at: int, now: int) -> set[int]:
        """Return the nodes that are empty at an instant, if all jobs end as expected."""
        ended = (
            self.held[number] for number, one in self.running.items() if one.expected_end(now) <= at
        )
        return self.empty.union(*ended)
