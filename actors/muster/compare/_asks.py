"""Asks as a scheduler knows them, between two batches."""

from __future__ import annotations

from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.owners.messages.asks import Ask


def find_ask(machine: CoordinatorMachine, app: str, name: str) -> Ask | None:
    """Give an ask that exists, wherever it is, or None."""
    key = machine.registry.locate(app)
    return None if key is None else machine.view.apps[key].find(name)
