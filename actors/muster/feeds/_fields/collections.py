"""Kinds of lists and maps, resources included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, cast

from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.kinds import FieldError, Kind, as_written, refused, told
from muster.feeds._fields.texts import NAME, TEXT, WORD
from muster_core.config.type_names import warning_about
from muster_core.errors import QuantityError
from muster_core.resources import Resources
from muster_core.values.devices import WHOLE, is_device_type, names_devices
from muster_core.values.quantities import DEVICE_PREFIX, MEMORY, VCORE, parse_quantity

T = TypeVar("T")

_NO_DEVICES: Final = frozenset({VCORE, MEMORY})
"""The resource types that are no devices for sure."""


def listed(kind: Kind[T], name: str) -> Kind[tuple[T, ...]]:
    """Return the kind of a list of values of one kind."""

    def parse(value: Raw) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise refused(value, "is not a list")
        return tuple(_inside(f"[{index}]", kind, part) for index, part in enumerate(value))

    def normal(value: Raw) -> Raw:
        return (
            [kind.normal(part) for part in value] if isinstance(value, list) else as_written(value)
        )

    return Kind(name, parse, normal)


def set_of(kind: Kind[T], name: str) -> Kind[frozenset[T]]:
    """Return the kind of a list whose order means nothing."""
    ordered = listed(kind, name)
    return Kind(name, lambda value: frozenset(ordered.parse(value)), ordered.normal)


def mapped(keys: Kind[str], values: Kind[T], name: str) -> Kind[Mapping[str, T]]:
    """Return the kind of a map from texts of one kind to values of another."""

    def parse(value: Raw) -> Mapping[str, T]:
        if not isinstance(value, dict):
            raise refused(value, "is not a map")
        made: dict[str, T] = {}
        for key, part in value.items():
            place = f".{key}"
            made[_inside(place, keys, str(key))] = _inside(place, values, part)
        return made

    def normal(value: Raw) -> Raw:
        if not isinstance(value, dict):
            return as_written(value)
        return {str(key): values.normal(part) for key, part in value.items()}

    return Kind(name, parse, normal)


def _inside(place: str, kind: Kind[T], value: Raw) -> T:
    try:
        return kind.parse(value)
    except FieldError as error:
        raise error.inside(place) from None


def _parse_amounts(value: Raw) -> Resources:
    if not isinstance(value, dict):
        raise refused(value, "is not a map of resource types and quantities")
    return Resources({name: parse_amount(name, part) for name, part in value.items()})


# QUANTITY-2, QUANTITY-17
def parse_amount(name: str, value: Raw) -> int:
    """Return the quantity of one resource type, in its base unit.

    Raises:
        FieldError: If the value is no quantity, or the name is empty.
    """
    if not name:
        raise FieldError("a resource type has an empty name")
    if is_null(value) or isinstance(value, bool | list | dict):
        raise FieldError(f"{told(value)} is not a quantity", f".{name}")
    try:
        return parse_quantity(name, value)
    except QuantityError as error:
        raise FieldError(str(error), f".{name}") from None


# DEVICE-5
def _parse_written_amounts(value: Raw) -> Resources:
    return without_device_types(_parse_amounts(value))


def without_device_types(amounts: Resources) -> Resources:
    """Return an amount that names no devices.

    Raises:
        FieldError: If it names some.
    """
    if DEVICE_PREFIX in "".join(amounts.amounts):
        named = names_devices(amounts)
        if named is not None:
            raise FieldError("devices are no resources: name them in 'devices'", f".{named}")
    return amounts


def _parse_asked_amounts(value: Raw) -> Resources:
    try:
        return _parse_written_amounts(value)
    except FieldError as error:
        name = error.place.removeprefix(".")
        if not isinstance(value, dict) or name not in value:
            raise
        raise FieldError(error.message + _meant(name, value[name]), error.place) from None


def _meant(name: str, written: Raw) -> str:
    """Return what a part of a unit was meant for, for the end of the refusal of a quantity.

    The text is empty for what is no part: not between 0 and 1 if it is read like ``vcore``.
    """
    try:
        share = parse_quantity(VCORE, written)
    except QuantityError:
        return ""
    if name in _NO_DEVICES or not 0 < share < WHOLE:
        return ""
    slip = warning_about(name)
    if slip is not None:
        return f"; {slip}"
    own = name.rpartition("/")[2]
    device = own if is_device_type(own) else "gpu"
    return f"; of devices that nodes name, this share is devices: {{{device}: {{milli: {share}}}}}"


# QUANTITY-18
def _parse_some_amounts(value: Raw) -> Resources:
    amounts = _parse_asked_amounts(value)
    if not amounts:
        named = ", ".join(
            f"{name} {told(part)}" for name, part in dict(cast("dict[str, Raw]", value)).items()
        )
        raise FieldError(f"{named or 'nothing'}: an ask has at least one type above 0")
    return amounts


def _amounts_normal(value: Raw) -> Raw:
    return as_written(value)


RESOURCES: Final = Kind("map of quantities", _parse_amounts, _amounts_normal)
WRITTEN_RESOURCES: Final = Kind("map of quantities", _parse_written_amounts, _amounts_normal)
ASKED_RESOURCES: Final = Kind("map of quantities", _parse_asked_amounts, _amounts_normal)
SOME_RESOURCES: Final = Kind("map of quantities, one above 0", _parse_some_amounts, _amounts_normal)
NAMES: Final = listed(NAME, "list of names")
TEXTS: Final = listed(TEXT, "list of texts")
WORDS: Final = mapped(NAME, WORD, "map of texts")
