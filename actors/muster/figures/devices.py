"""The devices of nodes and who holds them, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from muster_core.values.devices import WHOLE, resource_type

Holder = TypeVar("Holder")


def milli_held(kind: str, resources: Mapping[str, int]) -> int:
    """Return how much of each of its devices an ask holds, in milli.

    Args:
        kind: The type of the devices.
        resources: What the ask asks for, in base units.
    """
    return min(resources.get(resource_type(kind), WHOLE), WHOLE)


def held_words(devices: Mapping[str, Sequence[int]], resources: Mapping[str, int]) -> str:
    """Return which devices an ask holds: ``gpu 0, 2; nic 1``, or ``250 milli of gpu 3``.

    Args:
        devices: The numbers of the devices that it holds, by type.
        resources: What it asks for, in base units.
    """
    return "; ".join(
        _held(kind, numbers, milli_held(kind, resources))
        for kind, numbers in sorted(devices.items())
        if numbers
    )


def _held(kind: str, numbers: Sequence[int], milli: int) -> str:
    held = f"{kind} {_numbers(numbers)}"
    return held if milli == WHOLE else f"{milli} milli of {held}"


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order, of which more than two in a row are a range."""
    texts: list[str] = []
    for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        found = [one for _, one in run]
        if len(found) > 2:
            texts.append(f"{found[0]}\N{EN DASH}{found[-1]}")
        else:
            texts += map(str, found)
    return ", ".join(texts)


def free_words(kind: str, free: Sequence[int]) -> str:
    """Return what is free: ``2 of 4 gpu wholly free``, and ``0.55 in parts`` if shares are free.

    Args:
        kind: The type of the devices.
        free: What is free of each, in milli.
    """
    return sum_words(kind, len(free), *free_sums(free))


def free_sums(free: Sequence[int]) -> tuple[int, int]:
    """Return how many devices are wholly free, and how many milli are free on the others."""
    whole = free.count(WHOLE)
    return whole, sum(free) - whole * WHOLE


def sum_words(kind: str, count: int, whole: int, parts: int) -> str:
    """Return what is free of the devices of a type, in words.

    Args:
        kind: The type.
        count: How many devices there are.
        whole: How many of them are wholly free.
        parts: How many milli are free on the others.
    """
    text = f"{whole:,} of {count:,} {kind} wholly free"
    return f"{text}, {parts / WHOLE:,.10g} in parts" if parts else text


def holders_of(
    held: Iterable[tuple[Holder, Mapping[str, Sequence[int]], Mapping[str, int]]],
) -> dict[tuple[str, int], list[tuple[Holder, int]]]:
    """Return for each device who holds it, each with the milli that it holds.

    Args:
        held: The holders in order, each with its devices by type and what it asks for.
    """
    found: dict[tuple[str, int], list[tuple[Holder, int]]] = {}
    for holder, devices, resources in held:
        for kind, numbers in devices.items():
            milli = milli_held(kind, resources)
            for one in numbers:
                found.setdefault((kind, one), []).append((holder, milli))
    return found
