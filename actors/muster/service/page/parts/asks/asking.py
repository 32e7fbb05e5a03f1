"""What lists of the page are asked for: filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from muster._runtime.clients.observers import path_of
from muster.service.problems import Problem

if TYPE_CHECKING:
    from muster.service.page.viewed import Viewed

W = TypeVar("W", bound=StrEnum)


def word_of(viewed: Viewed, name: str, words: Callable[[str], W]) -> W | None:
    """Return one of the words of an enum after the question mark, or None.

    Raises:
        Problem: 400 if it is another word.
    """
    written = viewed.text(name)
    if not written:
        return None
    try:
        return words(written)
    except ValueError:
        raise Problem(400, f"{name}: {written[:100]!r}: there is no such {name}") from None


def queue_of(viewed: Viewed) -> str | None:
    """Return the path of the queue that is asked for, in lower case, or None."""
    written = viewed.text("queue")
    return path_of(written) if written else None


def filters_of(viewed: Viewed, *names: str) -> Mapping[str, str]:
    """Return what is written into each filter of this page; nothing for those without."""
    return {name: viewed.text(name) for name in names}
