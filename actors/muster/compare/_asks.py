"""Find asks in a scheduler, between two batches."""

from __future__ import annotations

from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.owners.messages.asks import Ask


def find_ask(machine: CoordinatorMachine, app: str, name: str) -> Ask | None:
    """Return an ask in any state, or None if it does not exist."""
    key = machine.registry.locate(app)
    return None if key is None else machine.view.apps[key].find(name)
