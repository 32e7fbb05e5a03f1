"""Asks as a scheduler knows them, between two batches."""

from __future__ import annotations

from muster_core.conductor import Conductor
from muster_core.messages import Ask


def find_ask(conductor: Conductor, app: str, name: str) -> Ask | None:
    """Give an ask that exists, wherever it is, or None."""
    key = conductor.directory.locate(app)
    return None if key is None else conductor.view.apps[key].find(name)
