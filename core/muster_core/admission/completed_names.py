"""A set that keeps the latest of very many names."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable


# APP-15
@final
class LatestNames:
    """A set of names that drops old ones, so that it never holds more than twice ``kept``.

    It always has the latest ``kept`` names. It consists of two parts: when the young one is full, it
    replaces the old one. So no name has to be looked for, and the memory for them is limited.

    Args:
        kept: How many names are kept at least.
    """

    __slots__ = ("_kept", "_old", "_seen", "_young")

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._young: dict[str, None] = {}
        self._old: dict[str, None] = {}
        #: A cache for :meth:`seen`, until the names change.
        self._seen: frozenset[str] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._young or name in self._old

    def add(self, name: str) -> None:
        """Add a name, and drop the oldest ones if there are too many."""
        self._seen = None
        self._young[name] = None
        if len(self._young) == self._kept:
            self._old, self._young = self._young, {}

    def discard(self, name: str) -> None:
        """Remove a name, if it is present."""
        if name in self:
            self._seen = None
            self._young.pop(name, None)
            self._old.pop(name, None)

    def seen(self) -> frozenset[str]:
        """Return all names; the same object as long as they do not change."""
        if self._seen is None:
            self._seen = frozenset((*self._young, *self._old))
        return self._seen

    # CHECKPOINT-3
    def facts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the young names and the old ones, for :meth:`load`."""
        return tuple(self._young), tuple(self._old)

    # CHECKPOINT-5
    def load(self, facts: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        """Replace all names."""
        self._seen = None
        self._young, self._old = map(dict.fromkeys, facts)

    def save(self, name: str) -> Callable[[], None]:
        """Return a function that undoes :meth:`discard` of a name, if no name was added since.

        It drops no other name: the name goes back to where it was.
        """
        young, old = name in self._young, name in self._old

        def restore() -> None:
            self._seen = None
            if young:
                self._young[name] = None
            if old:
                self._old[name] = None

        return restore

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert len(self._young) < self._kept
        assert len(self._old) <= self._kept
        assert self._seen is None or self._seen == self._young.keys() | self._old.keys()
