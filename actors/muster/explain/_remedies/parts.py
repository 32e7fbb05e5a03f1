"""Parts of a remedy: changes that do not concern room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from muster.explain._remedies.settings import QueueChange
from muster.explain._writing import Written


@final
@attrs.frozen
class Part:
    """A change that can be combined with others.

    Attributes:
        text: The change in words.
        events: The events that make it, without ``configure``.
        changes: The settings of queues that it changes, by path.
        more: The resources that it needs in addition, in base units.
    """

    text: str = ""
    events: tuple[Written, ...] = ()
    changes: Mapping[str, QueueChange] = attrs.field(factory=dict[str, QueueChange])
    more: Mapping[str, int] = attrs.field(factory=dict[str, int])
