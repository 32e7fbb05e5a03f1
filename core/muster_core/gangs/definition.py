"""The definition of a gang.

GANG-1 to GANG-10, after Koordinator's gang scheduling proposal. The fields of a gang come from an
object (a PodGroup, an ``add_gang`` event) and from annotations on its members. Annotations
override the object field by field.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, final

import attrs

from muster_core.gangs.topology import Topology


@final
class GangMode(StrEnum):
    """What happens to the waiting members when one member fits nowhere."""

    STRICT = "Strict"
    NON_STRICT = "NonStrict"


# Looking up a member of an enum takes ten times as long, and this is done for each gang.
_STRICT: Final = GangMode.STRICT


@final
@attrs.frozen
class GangFields:
    """The fields of a gang that one source gives; None if it does not give a field.

    Attributes:
        min_member: How many members must hold a node before any member is bound.
        total: How many members there will be; it is only reported.
        mode: Strict or NonStrict.
        wait_us: How long members may wait, in microseconds.
        groups: The full names of the gangs of its group.
        topology: Which domains its members may or should take; only ``add_gang`` gives it.
        user: Whose gang it is; only an object gives it, and no decision depends on it.
    """

    min_member: int | None = None
    total: int | None = None
    mode: GangMode | None = None
    wait_us: int | None = None
    groups: tuple[str, ...] | None = None
    topology: Topology | None = None
    # GANG-53
    user: str | None = None

    # GANG-3, GANG-13
    def lacks_total(self) -> bool:
        """Return whether ``total`` is below ``min_member``."""
        if self.total is None or self.min_member is None:
            return False
        return self.total < self.min_member

    # GANG-10
    def over(self, other: GangFields) -> GangFields:
        """Merge the fields with those of another source, which these override field by field."""
        return GangFields(
            min_member=other.min_member if self.min_member is None else self.min_member,
            total=other.total if self.total is None else self.total,
            mode=other.mode if self.mode is None else self.mode,
            wait_us=other.wait_us if self.wait_us is None else self.wait_us,
            groups=other.groups if self.groups is None else self.groups,
            topology=other.topology if self.topology is None else self.topology,
            user=other.user if self.user is None else self.user,
        )


NOTHING_SAID = GangFields()
"""The fields of a source that gives none."""


@final
@attrs.frozen
class GangDefinition:
    """The definition of a gang, with defaults filled in.

    Attributes:
        min_member: How many members must hold a node before any member is bound; 1 or more.
        total: How many members there will be; it is only reported.
        mode: Strict or NonStrict.
        wait_us: How long members may wait, in microseconds; None for the ``gang.wait.time``
            of the present configuration.
        groups: The full names of the gangs of its group.
        topology: Which domains its members may or should take, or None.
    """

    min_member: int
    total: int
    mode: GangMode = GangMode.STRICT
    wait_us: int | None = None
    groups: tuple[str, ...] = ()
    topology: Topology | None = None


# GANG-2, GANG-3, GANG-4
def define(fields: GangFields) -> GangDefinition | None:
    """Return the definition with defaults filled in, or None without ``min_member``."""
    if fields.min_member is None:
        return None
    return GangDefinition(
        min_member=fields.min_member,
        total=fields.min_member if fields.total is None else fields.total,
        mode=fields.mode or _STRICT,
        wait_us=fields.wait_us,
        groups=fields.groups or (),
        topology=fields.topology,
    )
