"""The errors that the core raises."""

from __future__ import annotations

from muster_core.values.errors import (
    ConfigError,
    EventError,
    InsufficientError,
    MusterError,
    Problem,
    QuantityError,
    RefusedError,
)

__all__ = [
    "ConfigError",
    "EventError",
    "InsufficientError",
    "MusterError",
    "Problem",
    "QuantityError",
    "RefusedError",
]
