"""Amounts of resources, as a value type."""

from __future__ import annotations

from muster_core.values.resources import MAX_QUANTITY, NOTHING, Resources, UnitSeconds

__all__ = [
    "MAX_QUANTITY",
    "NOTHING",
    "Resources",
    "UnitSeconds",
]
