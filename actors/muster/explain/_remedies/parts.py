"""Parts of a remedy that concern anything but room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from muster.explain._remedies.settings import QueueChange
from muster.explain._writing import Written


@final
@attrs.frozen
class Part:
    """A change that may have to be made together with others.

    Attributes:
        text: The change in words.
        events: The events that make it, but for those of a configuration.
        changes: The settings of queues that it changes, by path.
        more: What it asks for besides, in base units.
    """

    text: str = ""
    events: tuple[Written, ...] = ()
    changes: Mapping[str, QueueChange] = attrs.field(factory=dict[str, QueueChange])
    more: Mapping[str, int] = attrs.field(factory=dict[str, int])
