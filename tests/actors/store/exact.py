"""What two values differ in, types included: ``1 == True == 1.0`` is not exact enough."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import cast

import attrs

from muster_core.resources import Resources


def anatomy(value: object) -> object:
    """Give all parts of a value, each with its type."""
    cls = type(value)
    if isinstance(value, Enum):
        return cls, value.name
    if isinstance(value, Resources):
        return cls, list(value.amounts.items())
    if attrs.has(cls):
        return cls, [(one.name, anatomy(getattr(value, one.name))) for one in attrs.fields(cls)]
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return dict, [(anatomy(key), anatomy(part)) for key, part in pairs]
    if isinstance(value, tuple | list):
        return cls, [anatomy(part) for part in cast("tuple[object, ...]", value)]
    if isinstance(value, frozenset | set):
        return cls, cast("frozenset[object]", value)
    if isinstance(value, str):
        return str, str(value)
    return cls, repr(value)
