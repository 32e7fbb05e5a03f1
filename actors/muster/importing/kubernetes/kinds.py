"""Kinds of values in dumped objects that `apply` does not read, or reads more strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from muster.feeds import parse_date
from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.collections import listed
from muster.feeds._fields.kinds import FieldError, Kind, as_written, refused
from muster.feeds._fields.texts import TEXT
from muster.feeds._objects.shapes import Shape
from muster_core.errors import QuantityError
from muster_core.values.quantities import VCORE, parse_quantity
from muster_core.values.resources import MAX_QUANTITY

Amounts = Mapping[str, int]
"""Resources: amounts in base units by type."""

_CPU: Final = "cpu"
_FINE: Final = re.compile(r"([0-9]{1,40}(?:\.[0-9]{0,40})?)(n|u|m|)", re.ASCII)
_PARTS: Final = {"n": 10**9, "u": 10**6, "m": 10**3, "": 1}


def _parse_amounts(value: Raw) -> Amounts:
    if not isinstance(value, dict):
        raise refused(value, "is not a map of resource types and quantities")
    amounts: dict[str, int] = {}
    for name, written in value.items():
        # QUANTITY-12
        key = VCORE if name == _CPU else str(name)
        if not key:
            msg = "a resource type has an empty name"
            raise FieldError(msg)
        try:
            amounts[key] = max(_amount(key, written), amounts.get(key, 0))
        except QuantityError as error:
            raise FieldError(str(error), f".{name}") from None
    return amounts


# KUBERNETES-9
def _amount(key: str, written: Raw) -> int:
    """Return a quantity in base units; parts of one are rounded up, as Kubernetes does."""
    try:
        return parse_quantity(key, None if is_null(written) else written)
    except QuantityError:
        match = _FINE.fullmatch(text := str(written))
        if match is None:
            raise
    units = Fraction(match[1]) * (1000 if key == VCORE else 1) / _PARTS[match[2]]
    amount = -(-units.numerator // units.denominator)
    if amount > MAX_QUANTITY:
        msg = f"{text[:80]!r} is more than {MAX_QUANTITY}"
        raise QuantityError(msg)
    return amount


def _parse_instant(value: Raw) -> int:
    text = TEXT.parse(value)
    try:
        at_us = parse_date(text)
    except (ValueError, OverflowError):
        at_us = -1
    if at_us < 0:
        raise refused(value, "is no date and time such as 2026-01-31T18:30:00Z")
    return at_us


def _parse_presence(value: Raw) -> bool:
    return not is_null(value) and value not in ({}, [], "")


def list_of(shape: Shape) -> Kind[tuple[dict[str, object], ...]]:
    """Return the kind of a list of maps of one shape."""
    return listed(Kind("map", shape.parse, shape.normal), "list of maps")


QUANTITIES: Final[Kind[Amounts]] = Kind("map of quantities", _parse_amounts, as_written)
INSTANT: Final = Kind("date and time", _parse_instant, as_written)
PRESENCE: Final = Kind("anything", _parse_presence, as_written)
"""Whether there is something, whatever it is."""
