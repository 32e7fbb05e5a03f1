"""What the ledger keeps of one application, ask or node."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster.figures.use import Account

if TYPE_CHECKING:
    from muster_core.config.model import QueueConfig
    from muster_core.events import AddApp, AddAsk, AddNode, Exit
    from muster_core.reasons import Passed


@final
@attrs.define(eq=False, weakref_slot=False)
class AskEntry:
    """An ask that exists. All instants are in microseconds since the origin.

    Attributes:
        event: The event that added it, perhaps with others (``count``).
        came_us: When it came, or None if nobody knows.
        since_us: Since when it wants a node; it came then, or lost its node; None if nobody knows.
        retries: How often it is still tried again after its work has failed.
        node: The node that it holds, or None.
        taken_us: When it took that node; None if it holds none, or nobody knows.
        bound_us: When it was bound there; None while it waits, or if nobody knows.
        namespace: The namespace of its Pod, or None if it is none.
        is_bound: Whether it is bound, and does not only wait on its node.
        passed: The reservations that it did not delay when it got the node that it holds, as far as
            they are known.
        earlier: What was before it got the node that it holds, or None for nothing.
    """

    event: AddAsk
    came_us: int | None
    since_us: int | None
    retries: int = 0
    node: str | None = None
    taken_us: int | None = None
    bound_us: int | None = None
    namespace: str | None = None
    is_bound: bool = False
    passed: tuple[Passed, ...] = ()
    earlier: Earlier | None = None

    def before(self) -> Earlier:
        """Return what was before, to be changed."""
        if self.earlier is None:
            self.earlier = Earlier()
        return self.earlier


@final
@attrs.define(weakref_slot=False)
class Earlier:
    """What was before an ask got the node that it holds, and how its process ended last.

    Most asks run once, and have none.

    Attributes:
        started_us: When it was bound last, in microseconds since the origin, or None.
        ran_us: How long it was bound in all, in microseconds.
        held_us: How long it held nodes in all, likewise.
        exited: How its process has ended last, or None.
        unstarted: Why its work could not be started, if it was removed for that; empty if nobody
            said why, and None if it was not.
    """

    started_us: int | None = None
    ran_us: int = 0
    held_us: int = 0
    exited: Exit | None = None
    unstarted: str | None = None


@final
@attrs.frozen
class StartFailure:
    """Where and why the work of an ask could not be started.

    Attributes:
        node: The node.
        message: What was said.
    """

    node: str
    message: str

    def told(self) -> str:
        """Return it in words."""
        return f"its last start, on the node {self.node}, failed: {self.message}"


@final
@attrs.define(eq=False, weakref_slot=False)
class AppEntry:
    """An application that exists, or one that has completed, as it was at the end.

    Attributes:
        event: The event that added it; for a Pod's application, the one that would have.
        came_us: When it came, in microseconds since the origin, or None if nobody knows.
        queue: The path of its queue.
        state: Its state.
        states: When it entered which state, oldest first, as far as known.
        ran_us: When its first ask was bound, or None.
        used: The resources of its asks that hold a node; no zeros.
        most: The highest of each type in ``used`` so far.
        asks: Its asks, by name.
        is_gone: Whether it was said that it is gone.
        account: The account of its user.
    """

    event: AddApp
    came_us: int | None
    queue: str
    state: str = "New"
    states: list[tuple[int, str]] = attrs.field(factory=list[tuple[int, str]])
    ran_us: int | None = None
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    most: dict[str, int] = attrs.field(factory=dict[str, int])
    asks: dict[str, AskEntry] = attrs.field(factory=dict[str, AskEntry])
    is_gone: bool = False
    account: Account = attrs.field(factory=Account)

    @property
    def ended_us(self) -> int | None:
        """When it completed, in microseconds since the origin, or None."""
        return self.states[-1][0] if self.state == "Completed" and self.states else None


@final
@attrs.define(eq=False, weakref_slot=False)
class NodeEntry:
    """A node that exists.

    Attributes:
        event: The event that added it, with what was changed since.
        came_us: When it came, in microseconds since the origin, or None if nobody knows.
    """

    event: AddNode
    came_us: int | None


@final
@attrs.frozen
class Refused:
    """An event that was refused.

    Attributes:
        seq: The number of the decision.
        at_us: When, in microseconds since the origin.
        op: What the event is: ``add_ask``.
        message: Why it was refused.
    """

    seq: int
    at_us: int
    op: str
    message: str


@final
@attrs.frozen
class QueueSeen:
    """A queue when it was looked at.

    Attributes:
        config: Its settings.
        is_dynamic: Whether it is a dynamic queue.
    """

    config: QueueConfig
    is_dynamic: bool
