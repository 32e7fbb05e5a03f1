"""Names: those of gangs, and the likely meaning of an unknown name.

The name of a gang is ``namespace/name``, as Kubernetes names objects (RFC 1123).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final, final

from muster_core.values.resources import shown

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of a gang whose name has none."""

_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE: Final = re.compile(_LABEL)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_OF_LABEL: Final = (
    "lower-case letters, digits and -, with a letter or digit at both ends, at most 63"
)
_OF_NAME: Final = "lower-case letters, digits, - and ., with a letter or digit at both ends"


# GANG-1
def canonical_gang(written: str, namespace: str = DEFAULT_NAMESPACE) -> str:
    """Return the full name of a gang.

    Args:
        written: The name as a user wrote it, with or without its namespace.
        namespace: The namespace if the name has none.

    Raises:
        ValueError: If an object cannot have this name.
    """
    space, slash, name = written.partition("/")
    if not slash:
        space, name = namespace, written
    if not _NAMESPACE.fullmatch(space):
        msg = f"{shown(written)}: the namespace {shown(space)} is no RFC 1123 label: {_OF_LABEL}"
        raise ValueError(msg)
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        long = f", at most {_LONGEST_NAME} of them" if len(name) > _LONGEST_NAME else ""
        msg = f"{shown(written)}: {shown(name)} is no RFC 1123 subdomain: {_OF_NAME}{long}"
        raise ValueError(msg)
    return f"{space}/{name}"


MOST_COMPARED: Final = 1_000
"""How many known names are compared at most, so that a refusal never takes long."""

LONGEST_COMPARED: Final = 200
"""The longest name that is compared, in characters: the cost grows with the square of it."""

MOST_GUESSES: Final = 100
"""How often guesses are made for refusals of one kind."""


def nearest_names(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names that are most like a name, the nearest first.

    Case does not matter. Only the first :data:`MOST_COMPARED` known names are compared,
    and a name longer than :data:`LONGEST_COMPARED` is like none.

    Args:
        name: The name that is unknown.
        known: The names that are known, in a fixed order.
        most: How many names to return at most.
    """
    if len(name) > LONGEST_COMPARED:
        return []
    by_folded: dict[str, str] = {}
    for one in islice(known, MOST_COMPARED):
        by_folded.setdefault(one.casefold(), one)
    found = get_close_matches(name.casefold(), by_folded, n=most)
    return [by_folded[folded] for folded in found]


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3, before: str = "") -> str:
    """Return a question for the end of a message, or an empty text if no known name is near.

    For example ``; did you mean root.prod?``, or ``; did you mean node, nodes or mode?``.

    Args:
        name: The name that is unknown.
        known: The names that are known, in a fixed order.
        most: How many names to offer at most.
        before: The text before each name that is offered, which is not compared.
    """
    found = [before + one for one in nearest_names(name, known, most=most)]
    if not found:
        return ""
    *others, last = found
    listed = f"{', '.join(others)} or {last}" if others else last
    return f"; did you mean {listed}?"


# FEED-80
@final
class Guesses:
    """Guesses the name that was meant, for the first refusals of one kind only.

    A guess takes up to 50 ms, and a feed may have a million refusals. The first ones show what is
    wrong. Which ones have a guess depends on nothing but the events before them.

    Args:
        most: How many guesses are made.
    """

    __slots__ = ("left",)

    def __init__(self, most: int = MOST_GUESSES) -> None:
        self.left = most

    def about(self, name: str, known: Iterable[str], *, before: str = "") -> str:
        """Return :func:`did_you_mean`, or an empty text if too many guesses were made."""
        if self.left == 0:
            return ""
        self.left -= 1
        return did_you_mean(name, known, before=before)
