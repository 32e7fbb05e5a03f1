"""A remedy: a change that alone lets an ask start."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias, final

import attrs

from muster.feeds import Raw

AT_ONCE: Final = "at once"
"""The start of an ask that is bound in the rounds of the instant of the change."""

Starts: TypeAlias = int | Literal["at once", "unknown"]
"""A start in microseconds since the origin, :data:`AT_ONCE` or
:data:`~muster_core.reasons.UNKNOWN_START`."""


@final
class RemedyKind(StrEnum):
    """The kind of change."""

    PRIORITY = "priority"
    RESUBMIT = "resubmit"
    ESTIMATE = "estimate"
    GUARANTEED = "guaranteed"
    MAX = "max"
    MAX_APPLICATIONS = "maxapplications"
    LIMIT = "limit"
    PROPERTY = "property"
    PREEMPTION = "preemption"
    DEFINE_GANG = "define_gang"
    MORE_MEMBERS = "more_members"
    MIN_MEMBER = "min_member"
    RENEW_GANG = "renew_gang"
    SCHEDULABLE = "schedulable"
    ATTRIBUTES = "attributes"
    CAPACITY = "capacity"
    NODE = "node"
    COMBINED = "combined"
    REMOVE_AHEAD = "remove_ahead"
    RELEASE = "release"


@final
@attrs.frozen
class Remedy:
    """A change that was tried on a copy of the state, and let the ask start.

    Attributes:
        kind: The kind of change.
        text: The change in words.
        node: The node on which the ask was bound; None if it does not start at once.
        events: The events of a feed that make the change, to be added after the last event of
            the instant. The first one closes the batch of the instant.
        smallest: The amounts of the change by name, in base units, if trials have shown that none
            of them can be one less (for an ask that does not start even alone: where all others
            have ended); for ``min_member``, by how much it is lowered. None if the
            change has no amount, or the search stopped early.
        evicted: The asks that the change evicts, as ``app/ask``.
        starts: When the ask starts after the change. If that is not at once, the ask could not start
            without the change, whatever ended; and with it, it starts when others have ended.
    """

    kind: RemedyKind
    text: str
    node: str | None
    events: tuple[Mapping[str, Raw], ...]
    smallest: Mapping[str, int] | None = None
    evicted: tuple[str, ...] = ()
    starts: Starts = AT_ONCE

    # OUTLOOK-33
    @property
    def is_applicable(self) -> bool:
        """Whether its events are enough; otherwise a machine must be there, or be larger, first."""
        return not any(
            event["op"] == "add_node" or (event["op"] == "update_node" and "capacity" in event)
            for event in self.events
        )
