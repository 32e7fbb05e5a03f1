"""Asks, allocations and the identities of applications, as parts of messages.

Every application and every queue has a unique number (``key``), since a name can be used again
while its former owner still exists. The key of an application is the position of the event that
created it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, final

from muster_core.structures.shapes import Shape
from muster_core.values.records import record
from muster_core.values.resources import Resources
from muster_core.values.work import Work

Totals = Mapping[str, int]
"""Sums over many asks, by type; unlike a single quantity, they have no upper limit."""


# ORDER-18
AskOrder = tuple[int, int, str, int, int]
"""The place of an ask among those of its application, best first: its ``rank``, ``creation``,
``group``, ``seq`` and ``number``. The last two are unique within an application."""


@final
@record
class Origin:
    """The origin of a request.

    Attributes:
        seq: Its position in the input, which orders all requests.
        index: The index of the event in its feed, from 0, or None.
        line: The line of the event in its feed, from 1, or None.
        event: The position of the whole event if the request is only a part of it, or None.
        at_us: The instant of its batch, in microseconds.
    """

    seq: int
    index: int | None = None
    line: int | None = None
    event: int | None = None
    at_us: int = 0

    # ORDER-19, OBJECT-4
    @property
    def creation(self) -> int:
        """The position that counts as the creation of a new object: that of the whole event."""
        return self.seq if self.event is None else self.event


@final
class Ask(NamedTuple):
    """One ask, as long as it exists.

    It begins with its place among the asks of its application. So asks compare in the order in
    which they are tried, and a heap of a million asks needs no separate keys.

    Attributes:
        rank: Its negated priority, as the highest one comes first.
        creation: The position of the event that counts as its creation. For a member of a
            gang, the creation of the gang counts instead.
        group: The full name of its gang, or an empty text.
        seq: The position in the input at which it was added, alone or with others.
        number: Its number in a ``count``, unique among the asks with the same ``seq``.
        name: Its name within its application.
        resources: The resources that it asks for.
        shape: Its shape.
        priority: Its priority, an int32.
        gang: The full name of its gang, or None.
        run_for_us: How long after its bind it completes by itself, or None.
        preempts: Whether its priority class had ``PreemptLowerPriority`` when it was added.
        came_us: When it was added, in microseconds.
        retries: How often it is still tried again after its work has failed.
        work: What is to run for it, or None; nothing is decided by it.
        estimate_us: How long it is expected to take after its bind, or None if it does not say.
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
    retries: int = 0
    work: Work | None = None
    estimate_us: int | None = None

    @property
    def order(self) -> AskOrder:
        """Its place if it is in no gang; asks compare in the same way."""
        return self[:5]

    # ORDER-18
    def order_in(self, defined: int | None) -> AskOrder:
        """Return its place as a member of a gang that was created at ``defined``, or never."""
        rank, creation, group, seq, number = self[:5]
        return (rank, creation if defined is None else defined, group, seq, number)


@final
@record
class Allocation:
    """The allocation of a bound or waiting ask.

    Attributes:
        ask: The ask.
        node: The name of its node.
        number: Its place in the order in which asks were bound, or began to wait.
        assigned: Its place in the order in which nodes were chosen: for a bound member of a
            gang, the number with which it began to wait. 0 stands for ``number``.
        bound_us: When it was bound, in microseconds; 0 while it waits.
    """

    ask: Ask
    node: str
    number: int
    assigned: int = 0
    bound_us: int = 0

    # RECLAIM-11
    @property
    def age(self) -> int:
        """Its place in the order in which nodes were chosen; the highest is the newest."""
        return self.assigned or self.number


@final
@record
class AppIdentity:
    """The part of an application that never changes.

    Attributes:
        key: Its key, the position of the event that created it.
        name: Its name.
        leaf: The key of its queue.
        path: The path of its queue.
        skip_starting: Whether it goes from Accepted to Running directly.
        user: The user who submitted it, or None, and the groups of that user.
    """

    key: int
    name: str
    leaf: int
    path: str
    skip_starting: bool = False
    user: tuple[str | None, tuple[str, ...]] = (None, ())
