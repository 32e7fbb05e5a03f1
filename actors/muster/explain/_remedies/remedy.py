"""A remedy: a change that alone gets an ask bound."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import final

import attrs

from muster.feeds import Raw


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
    """A change that was tried on a copy of the state, and got the ask bound at once.

    Attributes:
        kind: The kind of change.
        text: The change in words.
        node: The node on which the ask was bound.
        events: The events of a feed that make the change, to be added after the last event of
            the instant. The first one closes the batch of the instant.
        smallest: The amounts of the change by name, in base units, if trials have shown that none
            of them can be one less; for ``min_member``, by how much it is lowered. None if the
            change has no amount, or the search stopped early.
        evicted: The asks that the change evicts, as ``app/ask``.
    """

    kind: RemedyKind
    text: str
    node: str
    events: tuple[Mapping[str, Raw], ...]
    smallest: Mapping[str, int] | None = None
    evicted: tuple[str, ...] = ()
