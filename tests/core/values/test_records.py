"""Frozen objects that are made quickly."""

from __future__ import annotations

import attrs
import pytest

from muster_core.values.records import unfrozen


@attrs.frozen(weakref_slot=False)
class Point:
    """Where something is."""

    x: int
    y: int = 7


def test_an_unfrozen_one_becomes_frozen() -> None:
    made = unfrozen(Point)(1)
    made.__class__ = Point

    assert made == Point(1, 7)
    assert hash(made) == hash(Point(1))
    assert repr(made) == "Point(x=1, y=7)"


def test_then_it_is_frozen() -> None:
    made = unfrozen(Point)(x=1, y=2)
    made.x = 3
    made.__class__ = Point

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.x = 4
    assert made == Point(3, 2)
