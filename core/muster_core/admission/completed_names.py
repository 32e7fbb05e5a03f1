"""The latest of very many names."""

from __future__ import annotations

from typing import final


@final
class LatestNames:
    """A set of names that forgets old ones, so that it never holds more than twice ``kept``.

    The latest ``kept`` names are always there. They are kept in two sets: when the young one is
    full, it becomes the old one, and what was in that is forgotten. So no name needs a place in
    a queue, and a million of them cost no more than the last few thousand.

    Args:
        kept: How many names are remembered at least.
    """

    __slots__ = ("_kept", "_old", "_seen", "_young")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._young: set[str] = set()
        self._old: set[str] = set()
        #: All of them to be handed out, until there are others.
        self._seen: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._young or name in self._old

    def add(self, name: str) -> None:
        """Take a name in, and forget the oldest ones if there are too many."""
        self._seen = None
        self._young.add(name)
        if len(self._young) == self._kept:
            self._old, self._young = self._young, set()

    def discard(self, name: str) -> None:
        """Forget a name, if it is there."""
        if name in self:
            self._seen = None
            self._young.discard(name)
            self._old.discard(name)

    def seen(self) -> frozenset[str]:
        """Give the names as they are now; no copy is made while they stay the same."""
        if self._seen is None:
            self._seen = frozenset(self._young | self._old)
        return self._seen

    def copy(self) -> LatestNames:
        """Give another set of the same names."""
        twin = LatestNames(self._kept)
        twin._young, twin._old, twin._seen = self._young.copy(), self._old.copy(), self._seen
        return twin

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert len(self._young) < self._kept
        assert len(self._old) <= self._kept
        assert self._seen is None or self._seen == self._young | self._old
