"""Frozen records that are quick to make, for messages inside the program.

A class made with ``attrs.frozen`` refuses every assignment, so that its own ``__init__`` has
to go round that, at some 50 ns for each field. Of messages between owners there are several
for every ask, and nobody but this project ever has one in hand; so at run time they are
ordinary classes with slots, and that nobody alters them is left to the type checkers, which
take :func:`record` for ``attrs.frozen``. What the outside sees (events, decisions, snapshots)
is frozen in earnest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from attrs import frozen as record
else:

    def record(made: type | None = None, *, eq: bool = True, **options: object) -> object:
        """Make a class like ``attrs.frozen``, which is what type checkers take it for."""

        def make(made: type) -> type:
            hashed = True if eq else None
            return attrs.define(made, eq=eq, unsafe_hash=hashed, weakref_slot=False, **options)

        return make if made is None else make(made)


__all__ = ["record"]
