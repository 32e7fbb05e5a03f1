"""Placement rules: how a partition chooses the queue of a new application."""

from __future__ import annotations

from enum import StrEnum
from typing import final

import attrs


@final
class RuleName(StrEnum):
    """The ``name`` of a placement rule: what the name of the queue is taken from."""

    PROVIDED = "provided"
    USER = "user"
    TAG = "tag"
    FIXED = "fixed"


@final
@attrs.frozen
class PlacementFilter:
    """The ``filter`` of a placement rule: whom the rule is for.

    Attributes:
        deny: Whether its ``type`` is ``deny``: the rule is for those that it does not hit.
        users: The list ``users`` as written.
        groups: The list ``groups`` as written.
    """

    deny: bool = False
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@final
@attrs.frozen
class PlacementRule:
    """One rule of ``placementrules``, or the rule for its parent queue.

    Attributes:
        name: What the name of the queue is taken from.
        value: Its ``value`` as written: the name of a tag, or a queue; empty if there is none.
        create: Whether the queue that it gives may be made.
        filter: Whom it is for.
        parent: The rule that gives the queue above, or None for ``root``.
    """

    name: RuleName
    value: str = ""
    create: bool = False
    filter: PlacementFilter = PlacementFilter()
    parent: PlacementRule | None = None
