"""What configurations and feeds must both know of the YAML library."""

from __future__ import annotations

from typing import Final

from ruamel.yaml.error import YAMLError

UNREADABLE: Final = (
    YAMLError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What the parser raises for bad input: its own errors, and what it does not foresee.

The latter for numbers out of range in an escape, or for versions that it does not know.
"""
