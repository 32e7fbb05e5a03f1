"""Kinds of the fields that say what devices a node has, and which an ask needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, TypeVar

from muster.feeds._encodings.raw import Plain, Raw
from muster.feeds._fields.collections import listed, mapped
from muster.feeds._fields.kinds import FieldError, Kind, refused, told
from muster.feeds._fields.numbers import integer
from muster.feeds._fields.table import field, record
from muster.feeds._fields.texts import NAME
from muster_core.values.devices import (
    MOST_DEVICES,
    MOST_WANTED,
    WHOLE,
    DeviceNeed,
    DeviceStock,
    is_device_type,
)

T = TypeVar("T")


def _parse_type(value: Raw) -> str:
    name = NAME.parse(value)
    if not is_device_type(name):
        raise refused(value, "is no RFC 1123 label, as the name of a type of devices must be")
    return name


def _parse_models(value: Raw) -> tuple[str, ...]:
    models = _NAMES.parse(value)
    if not models:
        raise FieldError("the list is empty: leave it out for any model")
    return models


def _need(
    milli: int | None = None, count: int | None = None, models: tuple[str, ...] | None = None
) -> DeviceNeed:
    if (milli is None) == (count is None):
        raise FieldError("one of milli and count says how much of the devices is needed")
    if milli == WHOLE:
        milli, count = None, 1
    return DeviceNeed(milli or 0, count or 0, models)


def _share(value: Raw) -> int | None:
    """Return the thousandths that a number between 0 and 1 stands for, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Plain):
        return None
    try:
        part = Decimal(str(value))
        return max(1, int(part * WHOLE)) if 0 < part < 1 else None
    except InvalidOperation:  # No number, or one that has no order, such as nan.
        return None


def _explained(number: Kind[int], explain: Callable[[int | None], str]) -> Kind[int]:
    """Return the same kind of number, whose refusal says what would be right.

    Args:
        number: The kind.
        explain: Gets the thousandths of a number below 1, else None, and returns the message.
    """

    def parse(value: Raw) -> int:
        try:
            return number.parse(value)
        except FieldError:
            if isinstance(value, str) and not isinstance(value, Plain):
                raise  # The quotes are what is wrong.
            raise FieldError(f"{told(value)} {explain(_share(value))}") from None

    return Kind(number.name, parse, number.normal)


def _about_number(share: int | None) -> str:
    if share is not None:
        return f"is not a whole number: write {{milli: {share}}} for this share of one device"
    return f"{_NO_COUNT}, or {{milli: 500}} for half of one"


def _about_count(share: int | None) -> str:
    if share is not None:
        return f"is not a whole number: write milli: {share} in place of count for this share"
    return f"{_NO_COUNT}, or milli in place of count for a share of one"


def _about_milli(share: int | None) -> str:
    bounds = f"is not a whole number between 1 and {WHOLE}"
    if share is not None:
        return f"{bounds}, the thousandths of one device: write {share} for this share"
    return f"{bounds}, the thousandths of one device: whole ones are written with count"


def _number_or(number: Kind[int], parts: Kind[T], make: Callable[[int], T], name: str) -> Kind[T]:
    """Return the kind of a map, or of a number in its place."""

    def parse(value: Raw) -> T:
        return parts.parse(value) if isinstance(value, dict) else make(number.parse(value))

    def normal(value: Raw) -> Raw:
        return parts.normal(value) if isinstance(value, dict) else number.normal(value)

    return Kind(name, parse, normal)


def _by_type(parts: Kind[T], name: str) -> Kind[Mapping[str, T]]:
    """Return the kind of a map from types of devices, which is read in the order of the types."""
    table = mapped(Kind("type of devices", _parse_type, NAME.normal), parts, name)
    return Kind(name, lambda value: dict(sorted(table.parse(value).items())), table.normal)


_NAMES: Final = listed(NAME, "list of names")
_MODELS: Final = Kind(_NAMES.name, _parse_models, _NAMES.normal)
_THERE: Final = integer(1, MOST_DEVICES, f"1 … {MOST_DEVICES}")
_NO_COUNT: Final = "is not a whole number of 1 or more: write how many whole devices are needed"
_WANTED: Final = integer(1, MOST_WANTED, "whole number, 1 or more")
_COUNT: Final = _explained(_WANTED, _about_count)
_MILLI: Final = _explained(integer(1, WHOLE, f"1 … {WHOLE}"), _about_milli)

# DEVICE-1
STOCK_FIELDS: Final = (
    field("count", _THERE, "how many there are", required=True),
    field("model", NAME, "their model"),
)
"""The fields of the devices of one type on a node."""

# DEVICE-2
NEED_FIELDS: Final = (
    field("milli", _MILLI, "a share of one device, in thousandths; 1000 is a whole one"),
    field("count", _COUNT, "how many whole ones"),
    field("models", _MODELS, "the models that will do; default: any"),
)
"""The fields of what an ask needs of one type; it has one of ``milli`` and ``count``."""

STOCKS: Final = _by_type(
    _number_or(
        _THERE, record(STOCK_FIELDS, DeviceStock, "devices"), DeviceStock, "number, or a map"
    ),
    "map from types of devices",
)
NEEDS: Final = _by_type(
    _number_or(
        _explained(_WANTED, _about_number),
        record(NEED_FIELDS, _need, "need of devices"),
        lambda count: DeviceNeed(count=count),
        "number, or a map",
    ),
    "map from types of devices",
)
NUMBERS: Final = mapped(
    Kind("type of devices", _parse_type, NAME.normal),
    listed(integer(0, MOST_DEVICES - 1, f"0 … {MOST_DEVICES - 1}"), "list of numbers"),
    "map from types of devices to lists of numbers",
)
"""The devices that an ask is expected to hold."""
