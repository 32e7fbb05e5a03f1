"""Enumerations whose members are found as fast as global names, also on Python 3.11.

Everywhere a member is written as that of its enumeration (``Kind.BOUND``). Where code that runs for each
ask does so, the enumeration has the decorator :func:`quick_members`.
"""

from __future__ import annotations

from enum import Enum, EnumType
from typing import Final, TypeVar

E = TypeVar("E", bound=Enum)

# On Python 3.11 a class is asked for a member through ``EnumType.__getattr__``, which takes six times as
# long as a global name. This type has what else callers need of EnumType, passes for it, and lacks that.
_METHODS: Final = (
    *("__call__", "__contains__", "__getitem__", "__iter__", "__len__", "__members__"),
    *("__bool__", "__dir__", "__repr__", "__reversed__"),
)
_QuickEnumType: Final = type(
    "EnumType",
    (type,),
    {
        **{name: vars(EnumType)[name] for name in _METHODS},
        "__class__": property(lambda _: EnumType),
    },
)


def quick_members(enumeration: type[E]) -> type[E]:
    """Make the members of an enumeration plain attributes of it, as they are from Python 3.12 on."""
    if "__getattr__" in vars(EnumType):
        for name, member in enumeration.__members__.items():
            type.__setattr__(enumeration, name, member)
        type.__setattr__(enumeration, "__class__", _QuickEnumType)
    return enumeration
