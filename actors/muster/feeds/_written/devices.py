"""Devices in their shortest form in a feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.feeds._encodings.raw import Raw
from muster.feeds._written.amounts import Written
from muster_core.values.devices import DeviceNeed, DeviceStock


def stocks(devices: Mapping[str, DeviceStock]) -> Written:
    """Return the devices of a node."""
    return {
        kind: stock.count if stock.model is None else {"count": stock.count, "model": stock.model}
        for kind, stock in sorted(devices.items())
    }


def needs(devices: Iterable[tuple[str, DeviceNeed]]) -> Written:
    """Return what an ask needs of devices."""
    return {kind: _need(need) for kind, need in sorted(devices)}


def _need(need: DeviceNeed) -> Raw:
    written: Written = {"milli": need.milli} if need.is_share else {"count": need.count}
    if need.models is not None:
        written["models"] = [*need.models]
        return written
    return written if need.is_share else need.count
