"""Devices: numbered parts of a node, such as GPUs, of which an ask holds whole ones or a share of one.

Each device has 1000 milli. For quotas, shares, order and ``expect`` the devices of a type are the
resource type ``device/TYPE``, counted in thousandths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, final

import attrs

from muster_core.values.errors import EventError
from muster_core.values.resources import DEVICE_PREFIX, MAX_QUANTITY, Resources, shown

# DEVICE-1
WHOLE: Final = 1000
"""The milli of one device."""

MOST_DEVICES: Final = 64
"""The most devices of one type on a node."""

MOST_WANTED: Final = MAX_QUANTITY // WHOLE
"""The most whole devices of one type that an ask can name: more milli are no quantity."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


# DEVICE-1
@final
@attrs.frozen
class DeviceStock:
    """The devices of one type on a node.

    Attributes:
        count: How many there are, from 1 to 64.

    Raises:
        EventError: If a node cannot have these.
    """

    count: int
    model: str | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        _check_number("count", self.count, 1, MOST_DEVICES)
        if self.model is not None:
            _check_model("model", self.model)


def _models(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return models in the order of their names, each once."""
    return None if given is None else tuple(sorted(set(given)))


# DEVICE-2
@final
@attrs.frozen
class DeviceNeed:
    """The need of an ask for one type of devices: a share of one device, or whole ones.

    Attributes:
        milli: The share, from 1 to 999 milli of one device; 0 for whole ones.
        count: How many whole ones; 0 for a share.
        models: The models that will do, in the order of their names, or None for any.

    Raises:
        EventError: If no ask can need this.
    """

    milli: int = 0
    count: int = 0
    models: tuple[str, ...] | None = attrs.field(default=None, converter=_models)

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        if self.milli == 0:
            _check_number("count", self.count, 1, MOST_WANTED)
        else:
            _check_number("milli", self.milli, 1, WHOLE - 1)
            _check_number("count", self.count, 0, 0)
        if self.models is not None:
            if not self.models:
                msg = "models: an empty list lets the ask run nowhere: leave it out for any model"
                raise EventError(msg)
            for model in self.models:
                _check_model("models", model)

    @property
    def is_share(self) -> bool:
        """Whether it is a share of one device."""
        return self.milli > 0

    @property
    def on_one(self) -> int:
        """The milli that it needs on one device."""
        return self.milli or WHOLE

    @property
    def amount(self) -> int:
        """The milli that it needs in total."""
        return self.milli or WHOLE * self.count

    def admits(self, model: str | None) -> bool:
        """Return whether devices of a model will do."""
        return self.models is None or model in self.models


DeviceNeeds: TypeAlias = tuple[tuple[str, DeviceNeed], ...]
"""The need of an ask for each type of devices, in the order of the types."""

TakenDevices: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""The numbers of the devices that an allocation holds of each type, in the order of the types."""

NO_STOCKS: Final[Mapping[str, DeviceStock]] = {}
"""No devices on a node; never altered."""

NO_NEEDS: Final[Mapping[str, DeviceNeed]] = {}
"""No devices for an ask; never altered."""


# DEVICE-1
def is_device_type(name: str) -> bool:
    """Return whether a type of devices can have this name: it is an RFC 1123 label."""
    return _LABEL.fullmatch(name) is not None


def check_device_type(name: object) -> None:
    """Refuse a name that no type of devices can have.

    Raises:
        EventError: If it is none.
    """
    if not isinstance(name, str) or not is_device_type(name):
        msg = (
            f"devices: {shown(name)} is no RFC 1123 label, as the name of a type of devices must be"
        )
        raise EventError(msg)


# DEVICE-4
def resource_type(device: str) -> str:
    """Return the resource type as which a type of devices counts."""
    return DEVICE_PREFIX + device


# DEVICE-5
def names_devices(resources: Iterable[str]) -> str | None:
    """Return the first of some resource types that is one of devices, or None."""
    return next((name for name in resources if name.startswith(DEVICE_PREFIX)), None)


# DEVICE-4
def with_needs(resources: Resources, needs: Mapping[str, DeviceNeed] | DeviceNeeds) -> Resources:
    """Return the resources of an ask together with its devices."""
    pairs = needs.items() if isinstance(needs, Mapping) else needs
    return Resources(
        resources.amounts | {resource_type(device): need.amount for device, need in pairs}
    )


# DEVICE-4
def with_stocks(capacity: Mapping[str, int], stocks: Mapping[str, DeviceStock]) -> dict[str, int]:
    """Return the capacity of a node together with its devices, in the order of the types."""
    if not stocks:
        return dict(capacity)
    devices = {resource_type(device): WHOLE * stock.count for device, stock in stocks.items()}
    return dict(sorted((dict(capacity) | devices).items()))


def without_devices(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts without those of devices, as they were written as resources."""
    return {name: amount for name, amount in amounts.items() if not name.startswith(DEVICE_PREFIX)}


def stocks_in(capacity: Mapping[str, int]) -> dict[str, DeviceStock]:
    """Return the devices that are in a capacity, without their models."""
    return {
        name.removeprefix(DEVICE_PREFIX): DeviceStock(amount // WHOLE)
        for name, amount in capacity.items()
        if name.startswith(DEVICE_PREFIX)
    }


def _check_number(field: str, value: object, lowest: int, highest: int) -> None:
    if type(value) is not int or not lowest <= value <= highest:
        msg = f"{field}: {shown(value)} is not a whole number from {lowest} to {highest}"
        raise EventError(msg)


def _check_model(field: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        msg = f"{field}: {shown(value)} is not a text of at least one character"
        raise EventError(msg)
