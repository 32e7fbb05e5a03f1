"""Lists of nodes as Slurm writes them: ``n[01-04,07],login``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

from muster.importing.workload.nodes import MAX_NODES

_PARTS: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def names_of(text: str) -> list[str]:
    """Return the names in a list of nodes, in order.

    Raises:
        ValueError: If it is none, or has more than a million names.
    """
    found: list[str] = []
    for item in _items(text):
        found += _expanded(item)
        if len(found) > MAX_NODES:
            raise _too_many(text)
    return found


def _items(text: str) -> Iterator[str]:
    """Yield what stands between the commas that are not in brackets."""
    depth, begin = 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and not depth:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


def _expanded(item: str) -> Iterator[str]:
    parts: list[list[str]] = []
    end, count = 0, 1
    while end < len(item):
        match = _PARTS.match(item, end)
        if match is None:
            msg = f"{item!r} is no list of nodes, such as n[01-04,07]"
            raise ValueError(msg)
        parts.append([match[2]] if match[2] is not None else list(_numbers(match[1])))
        count *= len(parts[-1])
        if count > MAX_NODES:
            raise _too_many(item)
        end = match.end()
    return ("".join(words) for words in product(*parts)) if parts else iter(())


def _numbers(text: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            msg = f"[{text}] is no list of numbers, such as [01-04,07]"
            raise ValueError(msg)
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= MAX_NODES:
            raise _too_many(text)
        for number in range(first, last + 1):
            yield f"{number:0{len(match[1])}}"


def _too_many(text: str) -> ValueError:
    return ValueError(f"{text[:60]!r} has more than {MAX_NODES:,} names")
