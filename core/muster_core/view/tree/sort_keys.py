"""By which keys queues, applications and asks are compared (ORDER-5, ORDER-6, ORDER-11 to ORDER-18).

A key is a tuple, and whoever decides compares whole keys. Beside each there is the list of its
parts, so that whoever explains a decision can name the first in which two keys differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

from muster_core.structures.shares import usage_key
from muster_core.values.configuration import SortPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.structures.ranking import Rank
    from muster_core.values.configuration import QueueConfig, Settings
    from muster_core.view.tree.application import ViewApp

Value = float | str | tuple[float, ...]

QueueKey = tuple[float | str, ...]
"""The place of a queue among its siblings, best first."""


@final
class Part(NamedTuple):
    """A part of a key.

    Attributes:
        name: What it is called in an explanation.
        highest_first: The highest comes first: it is in the key with its sign turned.
    """

    name: str
    highest_first: bool = False

    def value(self, found: Value) -> Value:
        """Give what a key has there, with its own sign."""
        return -found if self.highest_first and isinstance(found, (int, float)) else found


_PRIORITIES: Final = (
    Part("queue.priority", highest_first=True),
    Part("currentPriority", highest_first=True),
)
_SHARES: Final = (Part("share"), Part("pending", highest_first=True), Part("path"))


def queue_key(
    siblings: Settings, own: QueueConfig, counted: int | None, share: float, pending: float
) -> QueueKey:
    """Give the place of a queue among its siblings, of which something is pending in each.

    Args:
        siblings: The settings of its parent, which say how its children are sorted.
        own: Its own configuration.
        counted: The priority with which it counts in its parent.
        share: Its fair share.
        pending: The dominant share of what is pending in it.
    """
    if not siblings.sort_by_priority:
        return (share, -pending, own.path)
    assert counted is not None, "a queue with something pending has a priority"
    return (-own.settings.queue_priority, -counted, share, -pending, own.path)


def queue_parts(siblings: Settings) -> tuple[Part, ...]:
    """Give the parts of :func:`queue_key`."""
    return (*_PRIORITIES, *_SHARES) if siblings.sort_by_priority else _SHARES


_PRIORITY: Final = Part("priority", highest_first=True)
_USAGE: Final = Part("usage")
_CREATION: Final = Part("creation")


def app_key(leaf: QueueConfig, app: ViewApp, total: Mapping[str, int]) -> Rank:
    """Give the place of an application with pending asks among those of its leaf.

    Args:
        leaf: The configuration of the leaf.
        app: The application.
        total: What all nodes have.
    """
    settings, creation = leaf.settings, app.identity.key
    rank: Rank = (creation,)
    if settings.sort_policy is SortPolicy.FAIR:
        rank = (usage_key(app.allocated, leaf.guaranteed, total), creation)
    if settings.sort_by_priority:
        priority = app.counted
        assert priority is not None, "an application with pending asks has a priority"
        rank = (-priority, *rank)
    return rank


def app_parts(settings: Settings) -> tuple[Part, ...]:
    """Give the parts of :func:`app_key`."""
    fair = settings.sort_policy is SortPolicy.FAIR
    parts = (_USAGE, _CREATION) if fair else (_CREATION,)
    return (_PRIORITY, *parts) if settings.sort_by_priority else parts


ASK_PARTS: Final = (_PRIORITY, _CREATION, Part("gang"), Part("submission"), Part("number"))
"""The parts of an :data:`~muster_core.owners.messages.asks.AskOrder`."""
