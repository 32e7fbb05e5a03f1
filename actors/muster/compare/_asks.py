"""Asks as a scheduler knows them, between two batches."""

from __future__ import annotations

from muster_core.coordinator.coordinator import Conductor
from muster_core.owners.messages.asks import Ask


def find_ask(conductor: Conductor, app: str, name: str) -> Ask | None:
    """Give an ask that exists, wherever it is, or None."""
    key = conductor.directory.locate(app)
    return None if key is None else conductor.view.apps[key].find(name)
