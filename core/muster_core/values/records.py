"""Ways to create objects quickly: frozen ones, and empty collections.

A class with ``attrs.frozen`` refuses every assignment, so its ``__init__`` has to bypass that for
each field, which costs some 50 ns a field. Every ask needs several messages and decisions.

- :func:`record` is for internal messages. At run time they are ordinary classes with slots; type
  checkers take :func:`record` for ``attrs.frozen``, and so prevent changes. A message with four
  fields takes 1,900 instructions instead of 5,700.
- :data:`MAP`, :data:`LIST` and :data:`SET` are factories of attributes. To call ``dict[str, int]``
  takes six times as long as to call ``dict``, and an application has eighteen of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from attrs import frozen as record
else:

    def record(made: type | None = None, *, eq: bool = True, **options: object) -> object:
        """Create a class like ``attrs.frozen``, which is what type checkers take it for."""

        def make(made: type) -> type:
            hashed = True if eq else None
            return attrs.define(made, eq=eq, unsafe_hash=hashed, weakref_slot=False, **options)

        return make if made is None else make(made)


MAP: Final[Callable[[], dict[Any, Any]]] = dict
LIST: Final[Callable[[], list[Any]]] = list
SET: Final[Callable[[], set[Any]]] = set


__all__ = ["LIST", "MAP", "SET", "record"]
