"""Names of resource types that look like a slip.

Any text is the name of a type (QUANTITY-2), so a slip is no error: ``cpu`` in place of ``vcore`` names
a type of its own, of which no node has anything. Warnings about such names are for those who write
files. No decision depends on them.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from muster_core.values.quantities import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_COMPARED: Final = 200
"""With how many names one is compared at most."""

_MEANT: Final = {
    **dict.fromkeys(("cpu", "cpus", "core", "cores", "vcores", "vcpu", "vcpus"), "vcore"),
    **dict.fromkeys(("mem", "mems", "ram"), "memory"),
}
_NO_LETTERS: Final = re.compile(r"[-_. ]")
_PLURAL: Final = re.compile(r"(?<=[a-z])s$")
_SHORTEST: Final = 4
"""How long names are of which a letter more or less is a slip: ``gpu`` and ``vgpu`` are two types."""


# CONFIG-83
def warning_about(name: str, known: Iterable[str] = ()) -> str | None:
    """Return a warning about the name of a type, or None.

    Args:
        name: The name of the type.
        known: The other types that are used, in a fixed order.
    """
    meant = _MEANT.get(name.casefold())
    if meant is not None:
        return f"the type {shown(name)} is not {meant}, but one of its own: write {meant}"
    other = similar_type(name, known)
    if other is None:
        return None
    return f"the type {shown(name)} differs little from {shown(other)}, which is used as well"


def similar_type(name: str, known: Iterable[str]) -> str | None:
    """Return the first of some types that differs so little from a name that it may be meant.

    They differ in case, in ``-``, ``_`` and points, in the ``s`` of a plural, in one letter that is
    missing, or in two letters that have changed places. Numbers are never a slip: two sizes of huge
    pages, or two models of a device, differ in no more.

    Args:
        name: The name of the type.
        known: The other types; only the first :data:`MOST_COMPARED` are compared.
    """
    for other in islice(known, MOST_COMPARED):
        if other != name and _similar(name, other):
            return other
    return None


def _similar(one: str, other: str) -> bool:
    if abs(len(one) - len(other)) > 2:
        return False
    first, second = _normal(one), _normal(other)
    if first == second:
        return True
    # Prefixes are names of companies: compared part by part, none counts for the other.
    ends = [part.rpartition("/") for part in (first, second)]
    (group, _, own), (other_group, _, other_own) = ends
    if group == other_group:
        return _one_slip(own, other_own)
    return own == other_own and _one_slip(group, other_group)


def _normal(name: str) -> str:
    return _PLURAL.sub("", _NO_LETTERS.sub("", name.casefold()))


def _one_slip(one: str, other: str) -> bool:
    """Return whether a letter is missing in one of the names, or two have changed places."""
    if not (one.isalpha() and other.isalpha() and min(len(one), len(other)) >= _SHORTEST):
        return False
    short, long = sorted((one, other), key=len)
    same = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    if len(long) == len(short) + 1:
        return short[same:] == long[same + 1 :]
    swapped = long[same : same + 2][::-1]
    return len(long) == len(short) and short[same:] == swapped + long[same + 2 :]
