"""The errors of the core, each named by what the caller can do about it."""

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
