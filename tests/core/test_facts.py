"""Facts are plain values: whoever encodes them needs nothing but their types."""

from __future__ import annotations

from enum import Enum
from types import NoneType, UnionType
from typing import Final, TypeGuard, Union, get_args, get_origin, get_type_hints

import attrs

from muster_core.facts import Facts
from muster_core.resources import Resources
from muster_core.values.event_fields import Work

# Amounts and commands have maps in them, and a form of their own wherever they are written.
PLAIN: Final[set[object]] = {int, str, bool, float, NoneType, Resources, Work}


def is_class(kind: object) -> TypeGuard[type[object]]:
    return isinstance(kind, type)


def fields_of(kind: type[object]) -> list[object]:
    """Give the types of the fields of a class, as they are known while a program runs."""
    fields = list(get_type_hints(kind).values())
    assert fields, kind
    assert attrs.has(kind) or issubclass(kind, tuple), kind
    return fields


def test_all_their_types_are_known_and_immutable() -> None:
    seen, found = set[object](), list[object]([Facts])
    while found:
        kind = found.pop()
        if kind in seen or kind in PLAIN or kind is Ellipsis:
            continue
        seen.add(kind)
        origin = get_origin(kind)
        if origin in {Union, UnionType}:
            # At most one of them is not plain, or a reader could not tell which it is.
            assert len([one for one in get_args(kind) if one not in PLAIN]) <= 1, kind
        if origin is not None:
            assert origin in {tuple, frozenset, Union, UnionType}, kind
            found.extend(get_args(kind))
            continue
        assert is_class(kind), kind
        if issubclass(kind, Enum):
            continue
        found.extend(fields_of(kind))
    assert len(seen) > 40
