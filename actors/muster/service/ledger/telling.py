"""Telling the ring why asks are not running, whenever that has changed.

To find reasons takes time. So it is done for those who read the ring, and for the first asks only.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from muster.service.ledger.ring import What

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster.service.ledger.ledger import Ledger
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

MOST: Final = 500
"""For how many asks it is known what was told."""

_EXPLAINED: Final = 50
"""How many reasons are told in words at a time; others follow the next time."""


# REST-15
def tell_reasons(ledger: Ledger, machine: CoordinatorMachine) -> Steps[None]:
    """Add an event for each ask whose dominant reason is another one than was told.

    Args:
        ledger: The ledger, which has heard of everything that was announced.
        machine: The coordinator's machine, between two batches.
    """
    book, view = ledger.book, machine.view
    if book.told_at == ledger.batch:
        return
    told, left = book.told, _EXPLAINED
    now: dict[tuple[str, str], str] = {}
    for app, ask in islice(_without_node(machine), MOST):
        yield
        key = app.identity.name, ask
        code = view.dominant(app, ask, machine.now_us).value
        if told.get(key) == code:
            now[key] = code
        elif left:
            left -= 1
            now[key] = code
            found = machine.explain(*key)
            message = code if found is None else str(found.dominant)
            book.ring.add(What.TOLD, ledger.at_us, ask, key[0], message=message)
    book.told = now
    if left:
        book.told_at = ledger.batch
    book.ring.tell()


def _without_node(machine: CoordinatorMachine) -> Iterator[tuple[ViewApp, str]]:
    for app in machine.view.apps.values():
        for ask in chain(app.pending, app.backing_off, app.parked):
            yield app, ask
