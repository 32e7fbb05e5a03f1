"""The differences of ``muster check`` in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from muster.replay import Absent, Difference, Value

_MOST_SHOWN: Final = 20
"""The most items of a list that are shown."""

_KINDS: Final = {"queues": "queue", "apps": "application", "gangs": "gang"}
"""What the names of these fields name; those of other fields name asks."""


def is_refusal(difference: Difference) -> bool:
    """Return whether a difference is a refused event that no ``expect`` covers."""
    field = difference.field.partition("[")[0]
    return field == "rejected" and isinstance(difference.expected, Absent)


def words_of(difference: Difference) -> str:
    """Return a difference in words."""
    field, expected, found = difference.field, difference.expected, difference.found
    if is_refusal(difference):
        return f"this event is refused, and no `expect` expects it: {_shown(found)}"
    # EXPECT-9, EXPECT-10
    kind, bracket, _ = field.partition("[")
    if bracket and kind in {"rejected", "warnings"}:
        return f"{field}: {_part(kind, expected, found)}"
    # EXPECT-14
    if isinstance(found, Absent):
        what = _KINDS.get(field.partition(".")[0], "ask")
        return f"{field}: there is no such {what}{found.guess}"
    if isinstance(expected, list) and isinstance(found, list):
        return f"{field}: {_lists(expected, found)}"
    return f"{field}: expected {_shown(expected)}, found {_shown(found)}"


def _part(kind: str, expected: Value, found: Value) -> str:
    """Say how a message differs from the text that should be a part of it."""
    what, more = ("warning", "warning came")
    if kind == "rejected":
        what, more = ("refused event", "event was refused")
    if isinstance(expected, Absent):
        return f"this {what} is not expected: {_shown(found)}"
    wanted = f"expected a {what} with {_shown(expected)} in its message"
    if isinstance(found, Absent):
        return f"{wanted}, and no further {more}"
    return f"{wanted}, found {_shown(found)}"


def _lists(expected: Sequence[str], found: Sequence[str]) -> str:
    """Say how two lists differ; a beginning that is the same is left out of a long one."""
    if max(len(expected), len(found)) > _MOST_SHOWN:
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(expected, found, strict=False))
        same = len([*equal])
        rest = f"expected {_shown([*expected[same:]])}, found {_shown([*found[same:]])}"
        return f"after {same:,} that are the same, {rest}" if same else rest
    return f"expected {_shown([*expected])}, found {_shown([*found])}"


def _shown(value: Value) -> str:
    match value:
        case str() if value and value.isprintable():
            return value
        case list():
            items = [_shown(item) for item in value[:_MOST_SHOWN]]
            if len(value) > _MOST_SHOWN:
                items.append(f"… {len(value)} in all")
            return f"[{', '.join(items)}]"
        case dict():
            return f"{{{', '.join(f'{name}: {part}' for name, part in value.items())}}}"
        case _:
            return json.dumps(value)
