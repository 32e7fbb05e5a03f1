"""What defines a gang, and from where.

GANG-1 to GANG-10, after Koordinator's gang scheduling proposal. What is said of a gang
comes from an object (a PodGroup, an ``add_gang`` event) and from annotations on its
members; annotations override the object field by field.
"""

from __future__ import annotations

from enum import StrEnum
from typing import final

import attrs


@final
class GangMode(StrEnum):
    """What becomes of the waiting members when one member fits nowhere."""

    STRICT = "Strict"
    NON_STRICT = "NonStrict"


@final
@attrs.frozen
class GangFields:
    """What one source says of a gang; None is not said.

    Attributes:
        min_member: How many members have to have room before any is bound.
        total: How many members there will be; kept and reported, nothing more.
        mode: Strict or NonStrict.
        wait_us: How long members may wait, in microseconds.
        groups: The full names of the gangs of its group.
    """

    min_member: int | None = None
    total: int | None = None
    mode: GangMode | None = None
    wait_us: int | None = None
    groups: tuple[str, ...] | None = None

    def lacks_total(self) -> bool:
        """Say whether there would be fewer members in all than the gang needs."""
        if self.total is None or self.min_member is None:
            return False
        return self.total < self.min_member

    def over(self, other: GangFields) -> GangFields:
        """Give what both say together, where this one overrides the other field by field."""
        return GangFields(
            min_member=other.min_member if self.min_member is None else self.min_member,
            total=other.total if self.total is None else self.total,
            mode=other.mode if self.mode is None else self.mode,
            wait_us=other.wait_us if self.wait_us is None else self.wait_us,
            groups=other.groups if self.groups is None else self.groups,
        )


NOTHING_SAID = GangFields()
"""The fields of a source that says nothing."""


@final
@attrs.frozen
class GangDefinition:
    """What a gang is, with defaults filled in.

    Attributes:
        min_member: How many members have to have room before any is bound; 1 or more.
        total: How many members there will be; kept and reported, nothing more.
        mode: Strict or NonStrict.
        wait_us: How long members may wait, in microseconds; None for ``gang.wait.time``
            of the configuration in force.
        groups: The full names of the gangs of its group.
    """

    min_member: int
    total: int
    mode: GangMode = GangMode.STRICT
    wait_us: int | None = None
    groups: tuple[str, ...] = ()


def define(fields: GangFields) -> GangDefinition | None:
    """Fill in defaults; None if it is not said how many members a gang needs."""
    if fields.min_member is None:
        return None
    return GangDefinition(
        min_member=fields.min_member,
        total=fields.min_member if fields.total is None else fields.total,
        mode=fields.mode or GangMode.STRICT,
        wait_us=fields.wait_us,
        groups=fields.groups or (),
    )
