"""Devices in what ``muster get`` prints: which an ask holds, and what is free on a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from muster.cli._clients.output import list_of, map_of
from muster.cli._options import printable
from muster.figures.devices import free_words, held_words, holders_of
from muster_core.values.devices import WHOLE

if TYPE_CHECKING:
    from muster.cli._clients.output import Item


# CLIENT-10
def held_by(ask: Item) -> str:
    """Return which devices an ask holds, in words."""
    return printable(held_words(_map(ask.get("devices")), _map(ask.get("resources"))))


# CLIENT-10
def free_on(node: Item) -> str:
    """Return what is free of the devices of a node, in words."""
    stocks = _map(node.get("devices"))
    return printable("; ".join(free_words(kind, _free(stock)) for kind, stock in stocks.items()))


# CLIENT-10
def lines_of(node: Item) -> Iterator[str]:
    """Yield for each device of a node who holds it, and for each type what is free before that."""
    held = holders_of(
        (f"{ask.get('app')}/{ask.get('ask')}", _map(ask.get("devices")), _map(ask.get("resources")))
        for ask in list_of(node.get("asks")) or ()
    )
    for kind, stock in _map(node.get("devices")).items():
        free, model = _free(stock), _map(stock).get("model")
        of = "" if model is None else f", model {model}"
        yield printable(f"{kind}{of}: {free_words(kind, free)}")
        for number in range(len(free)):
            holders = held.get((kind, number), ())
            told = ", ".join(_holder(*holder) for holder in holders) or "nobody"
            yield printable(f"{kind} {number}: {told}")


def _holder(name: str, milli: int) -> str:
    return name if milli == WHOLE else f"{name} ({milli} milli)"


def _map(value: object) -> Mapping[str, Any]:
    return map_of(value) or {}


def _free(stock: object) -> Sequence[int]:
    return list_of(_map(stock).get("free")) or ()
