"""Kinds of fields that have a form of their own in Kubernetes objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from muster.feeds._encodings.raw import Raw
from muster.feeds._fields.collections import parse_amount, without_device_types
from muster.feeds._fields.kinds import FieldError, Kind, as_written, refused, told
from muster.feeds._fields.texts import NAME, TEXT
from muster_core.config.model import Limits
from muster_core.config.names import canonical_path, check_queue_name
from muster_core.resources import Resources
from muster_core.values.gang_names import canonical_gang
from muster_core.values.quantities import VCORE

T = TypeVar("T")

_CPU: Final = "cpu"


def unless_empty(kind: Kind[T]) -> Kind[T | None]:
    """Return the kind in which an empty text means no value, as programs in Go write it."""
    return Kind(kind.name, lambda value: None if value == "" else kind.parse(value), kind.normal)


def _parse_namespace(value: Raw) -> str:
    namespace = TEXT.parse(value)
    _check_object(f"{namespace}/x", value, "an RFC 1123 label, which a namespace is")
    return namespace


def _parse_group_name(value: Raw) -> str:
    name = NAME.parse(value)
    _check_object(f"x/{name}", value, "an RFC 1123 subdomain, which a name is")
    return name


def _check_object(full: str, value: Raw, right: str) -> None:
    try:
        canonical_gang(full)
    except ValueError:
        raise refused(value, f"is not {right}") from None


def _parse_amounts(value: Raw) -> Mapping[str, int]:
    if not isinstance(value, dict):
        raise refused(value, "is not a map of resource types and quantities")
    amounts: dict[str, int] = {}
    for name, written in value.items():
        # QUANTITY-12
        key = VCORE if name == _CPU else str(name)
        if key in amounts:
            msg = f"{told(written)} stands beside {_CPU} or {VCORE}, which is the same type"
            raise FieldError(msg, f".{name}")
        amounts[key] = _parse_amount(name, key, written)
    return amounts


def _parse_amount(name: str, key: str, written: Raw) -> int:
    try:
        return parse_amount(key, written)
    except FieldError as error:  # whose place has Muster's name of the type
        raise FieldError(error.message, f".{name}" if error.place else "") from None


def _legal(check: Callable[[str], str]) -> Callable[[Raw], str]:
    """Return a parser that accepts a valid queue name or path, and returns it as written."""

    def parse(value: Raw) -> str:
        name = NAME.parse(value)
        try:
            check(name)
        except ValueError as error:
            raise FieldError(str(error)) from None
        return name

    return parse


QUEUE_NAME: Final = Kind("name of a queue", _legal(check_queue_name), NAME.normal)
QUEUE_PATH: Final = Kind("path of a queue", _legal(canonical_path), NAME.normal)
NAMESPACE: Final = unless_empty(Kind("namespace", _parse_namespace, TEXT.normal))
GROUP_NAME: Final = Kind("name of a PodGroup", _parse_group_name, NAME.normal)
AMOUNTS: Final = Kind(
    "map of quantities", lambda value: Resources(_parse_amounts(value)), as_written
)
# DEVICE-11
WRITTEN_AMOUNTS: Final = Kind(
    "map of quantities",
    lambda value: without_device_types(Resources(_parse_amounts(value))),
    as_written,
)
"""The amounts of Nodes and Pods, which have no devices."""

LIMITS: Final = Kind(
    "map of quantities", lambda value: Limits.of(_parse_amounts(value)), as_written
)
