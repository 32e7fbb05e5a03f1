"""What the overview shows of the state: figures, what was refused, how it was over time."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.ledger.series import HOUR_US, MINUTE_US, WAITS_US, Sample
from muster.service.page.parts.reserved import ReservedLine, reserved_lines
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.service.ledger.entries import Refused
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps

MOST_REFUSED: Final = 10
"""How many of the events that were refused are shown."""

MOST_RESERVED: Final = 10
"""How many asks with a reservation are shown."""


@final
@attrs.frozen
class Period:
    """A length of time that the overview shows.

    Attributes:
        name: How it is written in the address.
        title: How it is written for readers.
        length_us: Its length, in microseconds.
        step_us: How far samples are apart, in microseconds.
    """

    name: str
    title: str
    length_us: int
    step_us: int


# PAGE-12
PERIODS: Final = (
    Period("1h", "1 h", HOUR_US, MINUTE_US),
    Period("6h", "6 h", 6 * HOUR_US, MINUTE_US),
    Period("24h", "24 h", 24 * HOUR_US, MINUTE_US),
    Period("7d", "7 d", 7 * 24 * HOUR_US, HOUR_US),
    Period("30d", "30 d", 30 * 24 * HOUR_US, HOUR_US),
)
"""The lengths of time to choose from."""


@final
@attrs.frozen
class State:
    """What the overview shows of the state.

    Attributes:
        now: What there is now; its waits are those of the last hour.
        nodes: How many nodes there are.
        unschedulable: How many of them take no asks.
        apps: How many applications there are.
        queues: How many queues there are.
        gangs: How many gangs there are.
        last: The number of the last decision.
        reservations: How many reservations are in force; that of a gang is one.
        reserved: The first asks with a reservation.
        more_reserved: How many more there are.
        refused: The latest events that were refused, the latest first.
        samples: How it was over time, oldest first; the last one is of now.
    """

    now: Sample
    nodes: int
    unschedulable: int
    apps: int
    queues: int
    gangs: int
    last: int
    reservations: int
    reserved: Sequence[ReservedLine]
    more_reserved: int
    refused: Sequence[Refused]
    samples: Sequence[Sample]


def read_state(looking: Looking, now_us: int, period: Period) -> Steps[State]:
    """Read what the overview shows.

    Args:
        looking: The state.
        now_us: The instant that is shown, in microseconds since the origin.
        period: How far back it goes.
    """
    ledger = looking.ledger
    unschedulable = 0
    for piece in in_pieces(ledger.book.nodes.values()):
        yield
        unschedulable += sum(not entry.event.schedulable for entry in piece)
    hourly = period.step_us == HOUR_US
    samples = ledger.samples(now_us, now_us - period.length_us, hourly=hourly)
    latest = ledger.samples(now_us, now_us - HOUR_US, hourly=False)
    waits = Counter[int]()
    for sample in latest:
        waits.update(sample.waits)
    reserved, more_reserved = yield from reserved_lines(looking, MOST_RESERVED)
    return State(
        now=latest[-1]._replace(waits=waits),
        nodes=len(ledger.book.nodes),
        unschedulable=unschedulable,
        apps=len(ledger.book.apps),
        queues=len(looking.machine.registry.queues),
        gangs=len(looking.view.gangs),
        last=ledger.seq,
        reservations=looking.view.reservation_count,
        reserved=reserved,
        more_reserved=more_reserved,
        refused=[*reversed(ledger.book.refused)][:MOST_REFUSED],
        samples=samples,
    )


@final
@attrs.frozen
class WaitClass:
    """The asks that have waited about as long.

    Attributes:
        most_us: The longest that they may have waited, in microseconds; None for the last class.
        count: How many asks there are.
    """

    most_us: int | None
    count: int


# PAGE-13
@final
@attrs.frozen
class Waits:
    """How long asks have waited until they were bound.

    Attributes:
        total: How many asks they are.
        median_us: Up to how long half of them have waited, in microseconds; None if some of
            that half waited longer than the last class says, or there are none.
        p95_us: Up to how long 95 of 100 have waited, likewise.
        classes: How many asks waited how long, from the first class that has any to the last.
    """

    total: int
    median_us: int | None
    p95_us: int | None
    classes: Sequence[WaitClass]

    @classmethod
    def of(cls, waits: Mapping[int, int]) -> Waits:
        """Return the waits of a sample for readers."""
        found = [place for place, count in waits.items() if count]
        if not found:
            return cls(0, None, None, ())
        limits = [*WAITS_US, None]
        classes = [
            WaitClass(limits[place], waits.get(place, 0))
            for place in range(min(found), max(found) + 1)
        ]
        total = sum(one.count for one in classes)
        return cls(total, _within(classes, 0.5), _within(classes, 0.95), classes)


def _within(classes: Sequence[WaitClass], share: float) -> int | None:
    """Return up to how long a share of the asks have waited."""
    sums: list[int] = []
    for one in classes:
        sums.append(one.count + (sums[-1] if sums else 0))
    return classes[bisect_left(sums, share * sums[-1])].most_us
