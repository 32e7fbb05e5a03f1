"""How values are written: resources, percentages, instants, durations, priorities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster_core.resources import MAX_QUANTITY

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.view import DecisionView


JsonObject = dict[str, Any]
"""An object, as it becomes JSON."""

RM_ID: Final = "muster"
"""What registers applications and nodes, as YuniKorn calls it; the UI knows partitions by it."""

NOTHING_PENDING: Final = -(2**31)
"""The priority of what has no pending ask."""

_MOST_PERCENT: Final = 2**31 - 1

_ALWAYS: Final = ("vcore", "memory")
"""The types that the web UI shows as missing if they are not there."""

_US: Final = 1_000_000


@final
@attrs.frozen(eq=False)
class YuniKornState:
    """The state between two batches, and all else that objects are made of.

    Attributes:
        machine: The coordinator's machine, which is only read.
        ledger: What was let in and decided.
        origin_us: The origin of the scheduler's time, in microseconds since 1970 in UTC.
        started_us: When the service started, likewise.
        cluster: The name of the cluster.
    """

    machine: CoordinatorMachine
    ledger: Ledger
    origin_us: int
    started_us: int
    cluster: str

    @property
    def view(self) -> DecisionView:
        """The view of the machine."""
        return self.machine.view

    @property
    def partition(self) -> str:
        """The name of the partition."""
        return self.machine.configuration.partition

    def ns(self, at_us: int) -> int:
        """Return an instant in nanoseconds since 1970."""
        return (self.origin_us + at_us) * 1_000


# REST-4
def resource_map(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts with ``vcore`` and ``memory``, even if there is none of them.

    A sum above 2^63-1 is written as 2^63-1: YuniKorn's clients refuse anything larger.
    """
    return dict.fromkeys(_ALWAYS, 0) | bounded(amounts)


# REST-4
def bounded(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts, none of them above 2^63-1, or below -(2^63-1)."""
    return {name: bound(amount) for name, amount in amounts.items()}


# REST-4
def bound(amount: int) -> int:
    """Return an amount, or the nearest one that YuniKorn's clients read."""
    return max(-MAX_QUANTITY, min(amount, MAX_QUANTITY))


# REST-4
def percentages(used: Mapping[str, int], capacity: Mapping[str, int]) -> dict[str, int]:
    """Return how many percent of each type are used, cut off to whole ones."""
    found: dict[str, int] = {}
    for kind, most in capacity.items():
        if kind in used:
            amount = used[kind]
            if most:
                found[kind] = min(int(float(amount) / float(most) * 100), _MOST_PERCENT)
            else:
                found[kind] = 100 if amount else 0
    return found


# REST-5
def go_duration(us: int) -> str:
    """Return a duration as Go writes it.

    Args:
        us: The duration in microseconds, 0 or more.
    """
    if us == 0:
        return "0s"
    if us < 1_000:
        return f"{us}µs"
    if us < _US:
        return f"{_fraction(us, 1_000)}ms"
    minutes, rest = divmod(us, 60 * _US)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_fraction(rest, _US)}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _fraction(amount: int, unit: int) -> str:
    """Return ``amount / unit`` as a decimal fraction without zeros at its end."""
    whole, rest = divmod(amount, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def priority(highest: int | None) -> int:
    """Return the priority of something that may have no pending ask."""
    return NOTHING_PENDING if highest is None else highest


def without_empty(made: JsonObject) -> JsonObject:
    """Leave out fields that are None, or empty."""
    return {name: value for name, value in made.items() if value not in (None, "", [], {})}
