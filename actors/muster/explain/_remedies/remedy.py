"""What would help: a change that alone gets an ask bound."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import final

import attrs

from muster.feeds import Raw


@final
class RemedyKind(StrEnum):
    """What is changed."""

    PRIORITY = "priority"
    RESUBMIT = "resubmit"
    GUARANTEED = "guaranteed"
    MAX = "max"
    MAX_APPLICATIONS = "maxapplications"
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
        kind: What is changed.
        text: The change in words.
        node: On which node the ask was bound.
        events: The events of a feed that make the change, to be put after the last event of
            the instant. The first one closes the batch of that.
        smallest: The amounts of the change by name, in base units, of which it was tried that
            none can be one less; for the members that a gang needs how many fewer these are. None
            where the change has no amount, or the search was cut short.
        evicted: The asks that lose their nodes for it, as ``app/ask``.
    """

    kind: RemedyKind
    text: str
    node: str
    events: tuple[Mapping[str, Raw], ...]
    smallest: Mapping[str, int] | None = None
    evicted: tuple[str, ...] = ()
