"""Asks, allocations and applications, as messages carry them.

Every application and every queue has a number of its own (``key``), since a name can come again
while its last bearer is leaving. An application's is the position of the event that created it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, final

from muster_core.structures.shapes import Shape
from muster_core.values.records import record
from muster_core.values.resources import Resources

Totals = Mapping[str, int]
"""Sums over many asks, by type; unlike one quantity they have no upper limit."""


AskOrder = tuple[int, int, str, int, int]
"""The place of an ask among those of its application, best first: its ``rank``, ``creation``,
``group``, ``seq`` and ``number``. No two asks of an application have the last two in common."""


@final
@record
class Origin:
    """Where a request comes from.

    Attributes:
        seq: Its position in the input; all order among requests is by it.
        index: The index of the event in its feed, from 0, or None.
        line: The line of the event in its feed, from 1, or None.
        event: The position of the event that it is only a part of, or None.
        at_us: When it comes, in microseconds.
    """

    seq: int
    index: int | None = None
    line: int | None = None
    event: int | None = None
    at_us: int = 0

    @property
    def creation(self) -> int:
        """The position that counts as the creation of what comes: that of the whole event."""
        return self.seq if self.event is None else self.event


@final
class Ask(NamedTuple):
    """One ask, as long as it exists.

    It begins with its place among the asks of its application, so that asks compare as they
    are tried, and a heap of them needs nothing else: there may be a million.

    Attributes:
        rank: Its priority, negated, as the highest comes first.
        creation: The position of the event that counts as its creation. Of a member of a gang
            the creation counts that its gang has, not the one here.
        group: The full name of its gang, or nothing.
        seq: Its number in the input: the position at which it came, alone or with others.
        number: Its number in a ``count``, which tells it from all others that came with it.
        name: Its name within its application.
        resources: What it asks for.
        shape: What it needs of a node.
        priority: Its priority, an int32.
        gang: The full name of the gang that it is a member of, or None.
        run_for_us: It completes by itself this long after it was bound, or None.
        preempts: The class that it named when it came says ``PreemptLowerPriority``.
        came_us: When it came, in microseconds.
    """

    rank: int
    creation: int
    group: str
    seq: int
    number: int
    name: str
    resources: Resources
    shape: Shape
    priority: int
    gang: str | None = None
    run_for_us: int | None = None
    preempts: bool = False
    came_us: int = 0

    @property
    def order(self) -> AskOrder:
        """Its place, if it is in no gang; asks compare in the same way."""
        return self[:5]

    def order_in(self, defined: int | None) -> AskOrder:
        """Give its place, where its gang was created at a position, or where nothing defines it."""
        rank, creation, group, seq, number = self[:5]
        return (rank, creation if defined is None else defined, group, seq, number)


@final
@record
class Allocation:
    """A bound or waiting ask.

    Attributes:
        ask: The ask.
        node: The name of its node.
        number: Its place in the order in which asks were bound, or began to wait.
        assigned: Its place in the order in which nodes were chosen: of a bound member of a
            gang the number with which it began to wait. 0 stands for ``number``.
    """

    ask: Ask
    node: str
    number: int
    assigned: int = 0

    @property
    def age(self) -> int:
        """Its place in the order in which nodes were chosen; the highest is the newest."""
        return self.assigned or self.number


@final
@record
class AppIdentity:
    """What about an application never changes.

    Attributes:
        key: Its number, the position of the event that created it.
        name: Its name.
        leaf: The key of its queue.
        path: The path of its queue.
        skip_starting: It goes from Accepted to Running.
        user: Who submitted it, or None, and the groups of that user.
    """

    key: int
    name: str
    leaf: int
    path: str
    skip_starting: bool = False
    user: tuple[str | None, tuple[str, ...]] = (None, ())
