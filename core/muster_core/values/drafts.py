"""Frozen objects that are made quickly.

A frozen class of attrs sets each attribute past its own ``__setattr__``, which takes four
times as long as setting it. Where two hundred thousand decisions are made in a batch, that
is felt. So they are filled as drafts, which are not frozen, and then become what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs


def unfrozen(frozen: type[attrs.AttrsInstance]) -> Callable[..., Any]:
    """Give a class with the attributes of a frozen one, of which an instance can become one.

    That is done by setting ``__class__``, for which the two must be laid out alike: the
    frozen class must have slots, and none for weak references.

    Args:
        frozen: The frozen class.
    """
    fields = {field.name: attrs.field(default=field.default) for field in attrs.fields(frozen)}
    return attrs.make_class(f"{frozen.__name__}Draft", fields, slots=True, weakref_slot=False)
