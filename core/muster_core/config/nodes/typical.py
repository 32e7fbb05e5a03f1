"""Reading of ``nodesortpolicy.typical``: the typical asks of the node order ``fgd``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.config.document import Listing, Scalar, Table, describe
from muster_core.values.configuration.partition import TypicalAsk
from muster_core.values.devices import (
    MOST_WANTED,
    WHOLE,
    DeviceNeed,
    is_device_type,
    names_devices,
)
from muster_core.values.errors import QuantityError
from muster_core.values.quantities import parse_integer, shown
from muster_core.values.resources import Resources

if TYPE_CHECKING:
    from muster_core.config.fields import Field
    from muster_core.values.devices import DeviceNeeds

TYPICAL_FIELDS: Final = ("devices", "resources", "weight")
NEED_FIELDS: Final = ("milli", "count", "models")

MOST_WEIGHT: Final = 1_000_000
"""The largest weight of a typical ask."""


# DEVICE-17
def read_typical(field: Field) -> tuple[TypicalAsk, ...]:
    """Read the typical asks; every problem is refused, and what is wrong is left out."""
    items = field.items()
    if not items and _is_empty(field, Listing):
        field.refuse("there is no typical ask here: leave the field out, and they are learned")
    found = [_read_one(item) for item in items]
    return tuple(one for one in found if one is not None)


def _read_one(item: Field) -> TypicalAsk | None:
    fields = item.fields(TYPICAL_FIELDS)
    for name in ("devices", "weight"):
        if name not in fields:
            item.refuse(f"{name} is missing")
    devices = _read_devices(fields["devices"]) if "devices" in fields else ()
    resources = _read_resources(fields["resources"]) if "resources" in fields else Resources()
    weight = _read_number(fields["weight"], MOST_WEIGHT) if "weight" in fields else None
    return TypicalAsk(devices, resources, weight) if devices and weight else None


def _read_devices(field: Field) -> DeviceNeeds:
    needs: dict[str, DeviceNeed] = {}
    fields = field.fields()
    if not fields and _is_empty(field, Table):
        field.refuse("a typical ask needs at least one type of devices")
    for name, part in fields.items():
        if not is_device_type(name):
            part.refuse(f"{shown(name)} is no RFC 1123 label")
            continue
        need = _read_need(part)
        if need is not None:
            needs[name] = need
    return tuple(sorted(needs.items()))


# DEVICE-2
def _read_need(field: Field) -> DeviceNeed | None:
    """Return what is needed of one type: a number, or a map with ``milli`` or ``count``."""
    if not isinstance(field.node, Table):
        count = _read_number(field, MOST_WANTED)
        return None if count is None else DeviceNeed(count=count)
    fields = field.fields(NEED_FIELDS)
    if ("milli" in fields) == ("count" in fields):
        field.refuse("one of milli and count says how much of the devices is needed")
        return None
    name, most = ("count", MOST_WANTED) if "count" in fields else ("milli", WHOLE)
    number = _read_number(fields[name], most)
    models = _read_models(fields["models"]) if "models" in fields else None
    if number is None or models == ():
        return None
    if name == "milli" and number < WHOLE:
        return DeviceNeed(milli=number, models=models)
    return DeviceNeed(count=1 if name == "milli" else number, models=models)


def _read_models(field: Field) -> tuple[str, ...]:
    items = field.items()
    if not items and _is_empty(field, Listing):
        field.refuse("the list is empty: leave it out for any model")
    models: list[str] = []
    for item in items:
        text = item.text()
        if text == "":
            item.refuse("the name of a model has at least one character")
        elif text is not None:
            models.append(text)
    return tuple(models)


def _read_resources(field: Field) -> Resources:
    amounts, fields = field.amounts()
    named = names_devices(amounts)
    # DEVICE-5
    if named is not None:
        fields[named].refuse("devices are no resources: name them in 'devices'")
        return Resources()
    return Resources(amounts)


def _is_empty(field: Field, form: type[Listing | Table]) -> bool:
    """Return whether a field has the right form and nothing in it; else more was said already."""
    node = field.node
    if isinstance(node, Listing):
        return form is Listing and not node.items
    if isinstance(node, Table):
        return form is Table and not node.entries
    return field.is_null


def _read_number(field: Field, most: int) -> int | None:
    if not isinstance(field.node, Scalar):
        field.refuse(f"{describe(field.node)} stands where a number is expected")
        return None
    try:
        return parse_integer(field.node.text, 1, most)
    except QuantityError as error:
        field.refuse(str(error))
        return None
