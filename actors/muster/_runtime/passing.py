"""Which reservations the asks of a batch did not delay when they got their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from muster_core.decisions import Announced, Kind
from muster_core.reasons import Passed
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps

PassedByAsk = Mapping[tuple[str, str], tuple[Passed, ...]]
"""What asks have passed, by application and name; asks that have passed nothing are not in it."""

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_BOUND: Final = Kind.BOUND
_WAITING: Final = Kind.WAITING


# OUTLOOK-8
def passed_by(machine: CoordinatorMachine, announced: Sequence[Announced]) -> Steps[PassedByAsk]:
    """Return which reservations the asks that got a node in the last batch did not delay.

    The state tells it of the last batch only, so this comes before the next one.

    Args:
        machine: The machine, after the batch.
        announced: The decisions of the batch.
    """
    found: dict[tuple[str, str], tuple[Passed, ...]] = {}
    for piece in in_pieces(announced):
        yield
        for one in piece:
            decision = one.decision
            if decision.kind is _BOUND or decision.kind is _WAITING:
                app, ask = decision.app or "", decision.ask or ""
                key = machine.registry.locate(app)
                passed = () if key is None else machine.view.passed(key, ask)
                if passed:
                    found[app, ask] = passed
    return found
