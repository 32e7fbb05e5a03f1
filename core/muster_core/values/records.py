"""Frozen objects that are quick to make, in two ways.

A class made with ``attrs.frozen`` refuses every assignment, so its own ``__init__`` sets each field
past that refusal, at some 50 ns a field. Several messages and decisions are made for every ask.

- :func:`record` is for messages inside the program, which nobody outside ever holds. At run time
  they are ordinary classes with slots. Type checkers take :func:`record` for ``attrs.frozen``, and
  so see to it that nobody alters them.
- :func:`unfrozen` is for what the outside sees and is frozen in earnest, such as decisions. It
  gives a twin class, whose instances are filled and then become frozen ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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


def unfrozen(frozen: type[attrs.AttrsInstance]) -> Callable[..., Any]:
    """Give a class with the attributes of a frozen one, whose instances can become frozen ones.

    An instance becomes a frozen one when its ``__class__`` is set, for which both classes must be
    laid out alike: the frozen one has slots, and none for weak references.

    Args:
        frozen: The frozen class.
    """
    fields = {field.name: attrs.field(default=field.default) for field in attrs.fields(frozen)}
    return attrs.make_class(f"{frozen.__name__}Unfrozen", fields, slots=True, weakref_slot=False)


__all__ = ["record", "unfrozen"]
