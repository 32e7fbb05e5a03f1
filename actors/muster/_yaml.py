"""The exceptions of the YAML library, for the readers of configurations and of feeds."""

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
"""What the parser raises for invalid input: its own errors, and errors that it does not catch.

For example, it does not catch the errors of an escape out of range or of an unknown version.
"""
