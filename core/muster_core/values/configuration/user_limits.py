"""The entries of ``limits``: what users and groups may have in a queue and below it."""

from __future__ import annotations

import re
from typing import Final, final

import attrs

from muster_core.values.configuration.limits import Limits

EVERY_NAME: Final = "*"
"""In ``users`` or ``groups``: everybody whom no other entry of the queue names."""


# LIMIT-2, PLACEMENT-4
USER_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
"""The legal names of users."""

# LIMIT-2, PLACEMENT-4
GROUP_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
"""The legal names of groups."""


@final
@attrs.frozen
class LimitEntry:
    """One entry of the ``limits`` of a queue.

    Each user and each group that it names has the limit alone.

    Attributes:
        users: The names of users, or ``*``.
        groups: The names of groups, or ``*``.
        max: Its ``maxresources``; a type that is not named is not limited, 0 allows nothing.
        max_applications: Its ``maxapplications``; 0 means no limit.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max: Limits = Limits()
    max_applications: int = 0
