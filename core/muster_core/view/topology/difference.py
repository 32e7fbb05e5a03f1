"""What would differ from the view if some asks held nodes and some did not: usage, and who holds what.

So placements can be tried, and a later instant looked at, without any change of queues and limits.
What differs on the nodes is not here: see :mod:`muster_core.view.topology.picture`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.structures.totals import add_to
from muster_core.view.gangs.standing import held_by
from muster_core.view.tree.user_limit import ViewLimit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.nodes.node import Holder, Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.gangs.member import Member
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue
    from muster_core.view.tree.user_limit import LimitKey

_NOTHING: Final[Mapping[str, int]] = {}


@final
class Difference:
    """Asks that hold nodes in the view and would not, and pending ones that would.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: How much more than in the view is used (less if negative): of each queue, limit and
        #: application.
        self.queues: dict[int, dict[str, int]] = {}
        self._limits: dict[LimitKey, dict[str, int]] = {}
        self.apps: dict[int, dict[str, int]] = {}
        #: The asks that hold nodes in the view, and none here; they are not pending. What they use
        #: must be counted off.
        self.released: set[Holder] = set()
        #: The pending asks that hold nodes here, and these nodes.
        self.placed: dict[Holder, tuple[Member, Node]] = {}

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node."""
        self.count(*member, 1)
        self.placed[member.holder] = member, node

    def undo(self, member: Member) -> None:
        """Undo :meth:`place`."""
        self.count(*member, -1)
        self.placed.pop(member.holder, None)

    def count(self, app: ViewApp, ask: Ask, times: int) -> None:
        """Add to what is used as much as an ask needs, this many times; it may be negative."""
        amounts = ask.resources.amounts
        for queue in self._state.leaf_of(app).line:
            add_to(self.queues.setdefault(queue.key, {}), amounts, times)
        for limit in app.limits:
            add_to(self._limits.setdefault(limit.key, {}), amounts, times)
        add_to(self.apps.setdefault(app.identity.key, {}), amounts, times)

    # LIMIT-9, CONFIG-25, BACKFILL-19
    def has_headroom(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether queues and limits of users and groups leave enough for one more ask."""
        for queue in self._state.leaf_of(app).line:
            more = self.queues.get(queue.key, _NOTHING)
            if queue.config.max.amounts and not queue.admits_more(ask, more):
                return False
        for limit in app.limits:
            if not limit.has_room_for(ask.resources, self._limits.get(limit.key, _NOTHING)):
                return False
        return True

    def over(self, one: ViewQueue | ViewLimit[ViewApp]) -> dict[str, int]:
        """Return how much more of each type than it allows would be used of a queue or a limit."""
        if isinstance(one, ViewLimit):
            most, used, more = one.entry.max, one.used, self._limits.get(one.key, _NOTHING)
        else:
            most, used, more = one.config.max, one.usage(), self.queues.get(one.key, _NOTHING)
        now = {name: used.get(name, 0) + more.get(name, 0) - some for name, some in most.amounts}
        return {name: some for name, some in now.items() if some > 0}

    # TOPOLOGY-3, BACKFILL-19
    def held_by(self, gang: ViewGang) -> Iterator[tuple[int, Node]]:
        """Yield when each member of a gang that holds a node was assigned, and its node.

        Those who hold one only here come after all that hold one in the view, in order.
        """
        yield from held_by(gang, self._state.apps, self.released)
        last = self._state.numbers
        for number, (member, node) in enumerate(self.placed.values(), last + 1):
            if member.ask.gang == gang.name:
                yield number, node
