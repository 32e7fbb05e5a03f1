"""The keys that sort queues, applications and asks (ORDER-5, ORDER-6, ORDER-11 to ORDER-18).

A key is a tuple; decisions compare whole keys. Each kind of key has a list of its parts, so
that an explanation can name the first part in which two keys differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

from muster_core.structures.shares import usage_key
from muster_core.values.configuration.partition import SortPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.structures.ranking import Rank
    from muster_core.values.configuration.partition import QueueConfig, Settings
    from muster_core.view.tree.application import ViewApp

Value = float | str | tuple[float, ...]

QueueKey = tuple[float | str, ...]
"""The position of a queue among its siblings, best first."""


@final
class Part(NamedTuple):
    """A part of a key.

    Attributes:
        name: Its name in an explanation.
        highest_first: Whether the highest comes first: the key has it with the sign turned.
    """

    name: str
    highest_first: bool = False

    def value(self, found: Value) -> Value:
        """Return the value of this part in a key, with its own sign."""
        return -found if self.highest_first and isinstance(found, (int, float)) else found


_PRIORITIES: Final = (
    Part("queue.priority", highest_first=True),
    Part("currentPriority", highest_first=True),
)
_SHARES: Final = (Part("share"), Part("pending", highest_first=True), Part("path"))


# ORDER-5, ORDER-6, ORDER-7
def queue_key(
    siblings: Settings, own: QueueConfig, counted: int | None, share: float, pending: float
) -> QueueKey:
    """Return the sort key of a queue among its siblings that have pending asks.

    Args:
        siblings: The settings of its parent, which say how children are sorted.
        own: The configuration of the queue.
        counted: Its priority as the parent sees it.
        share: Its fair share.
        pending: The dominant share of its pending asks.
    """
    if not siblings.sort_by_priority:
        return (share, -pending, own.path)
    assert counted is not None, "a queue with something pending has a priority"
    return (-own.settings.queue_priority, -counted, share, -pending, own.path)


def queue_parts(siblings: Settings) -> tuple[Part, ...]:
    """Return the parts of :func:`queue_key`."""
    return (*_PRIORITIES, *_SHARES) if siblings.sort_by_priority else _SHARES


_FAIR: Final = SortPolicy.FAIR
"""Looking up a member of an enum takes ten times as long, and this is done for each ask."""

_PRIORITY: Final = Part("priority", highest_first=True)
_USAGE: Final = Part("usage")
_CREATION: Final = Part("creation")


# ORDER-11, ORDER-12, ORDER-13
def app_key(
    leaf: QueueConfig,
    app: ViewApp,
    total: Mapping[str, int],
    allocated: Mapping[str, int] | None = None,
    priority: int | None = None,
) -> Rank:
    """Return the sort key of an application with pending asks among those of its leaf.

    Args:
        leaf: The configuration of the leaf.
        app: The application.
        total: The capacity of all nodes.
        allocated: What its asks that hold nodes would use; None for what they use.
        priority: The highest priority that its pending asks would have; None for that they have.
    """
    settings, creation = leaf.settings, app.identity.key
    rank: Rank = (creation,)
    if settings.sort_policy is _FAIR:
        uses = app.allocated if allocated is None else allocated
        rank = (usage_key(uses, leaf.guaranteed, total), creation)
    if settings.sort_by_priority:
        priority = app.counted if priority is None else priority
        assert priority is not None, "an application with pending asks has a priority"
        rank = (-priority, *rank)
    return rank


def app_parts(settings: Settings) -> tuple[Part, ...]:
    """Return the parts of :func:`app_key`."""
    fair = settings.sort_policy is _FAIR
    parts = (_USAGE, _CREATION) if fair else (_CREATION,)
    return (_PRIORITY, *parts) if settings.sort_by_priority else parts


ASK_PARTS: Final = (_PRIORITY, _CREATION, Part("gang"), Part("submission"), Part("number"))
"""The parts of an :data:`~muster_core.owners.messages.asks.AskOrder`."""
