"""How the asks of an application move from place to place, and the actions that report it.

Each move is recorded as an action, in the order of the moves. Asks that are added in a row, as most
are, make one action together: the row ends with the next action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.owners.messages.from_applications import (
    AppAction,
    Freed,
    Moved,
    Parked,
    Pending,
    Unparked,
    Withdrawn,
)
from muster_core.structures.steps import PART
from muster_core.values.snapshots import AskPlace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.owners.ask_places import AskPlaces
    from muster_core.owners.messages.asks import Allocation, Ask
    from muster_core.owners.sayings import Sayings
    from muster_core.values.decisions import Reason
    from muster_core.values.devices import DeviceNeeds
    from muster_core.values.resources import Resources

# Looking up a member of an enum takes ten times as long.
_PARKED: Final = AskPlace.PARKED
_PENDING: Final = AskPlace.PENDING


@final
class AskMoves:
    """The moves of the asks of one application since its last report.

    Args:
        places: The places of its asks.
        sayings: Its decisions.

    Attributes:
        came: The latest asks, added in a row: pending, but not in the sums yet.
        actions: The actions since the last report, before those asks.
    """

    __slots__ = ("_needs", "_places", "_sayings", "actions", "came")

    def __init__(self, places: AskPlaces, sayings: Sayings) -> None:
        self._places = places
        self._sayings = sayings
        self.came: list[Ask] = []
        self.actions: list[AppAction] = []
        #: How many asks with devices came since the last report, by what they need; None if none.
        self._needs: dict[tuple[DeviceNeeds, Resources], int] | None = None

    def add(self, asks: Mapping[str, Ask]) -> None:
        """Add new asks, which are pending, to the row."""
        self._places.pending.update(asks)
        self.came.extend(asks.values())
        if len(self.came) > PART:  # To count very many at once takes long.
            self.end_row()

    # DEVICE-18
    def count_needs(self, asks: Mapping[str, Ask]) -> None:
        """Count equal new asks that need devices."""
        first = next(iter(asks.values()))
        self._needs = {} if self._needs is None else self._needs
        key = (first.shape.devices, first.resources)
        self._needs[key] = self._needs.get(key, 0) + len(asks)

    def take_needs(self) -> tuple[tuple[DeviceNeeds, Resources, int], ...]:
        """Return what :meth:`count_needs` has counted since the last report, and forget it."""
        needs, self._needs = self._needs, None
        return () if needs is None else tuple((*key, count) for key, count in needs.items())

    def act(self, action: AppAction) -> None:
        """Record an action, after the asks that were added before."""
        if self.came:
            self.end_row()
        self.actions.append(action)

    def end_row(self) -> None:
        """Count the asks of the row, and record them in one action."""
        asks = tuple(self.came)
        self.came.clear()
        self._places.count_pending(asks)
        self.actions.append(Pending(asks))

    def act_if(self, action: AppAction | None) -> None:
        """Record an action if there is one."""
        if action is not None:
            self.act(action)

    def remove(
        self, name: str, reason: Reason, order: tuple[int, int, int], message: str | None = None
    ) -> None:
        """Remove an ask from its place, and record the decision."""
        held = self._places.held(name)
        if held is not None:
            ask = held.ask
            self.act(self._leave_node(held))
        elif name in self._places.parked:
            ask = self._places.parked.pop(name)
            self.act(Unparked(ask))
        else:
            ask = self._places.pending[name]
            self.act(self._leave_pending(ask))
        node = None if held is None else held.node
        self.act(self._sayings.released(ask, node, reason, order, message))
        self._moved(order, ask, None)

    # GANG-44, ORDER-20, FEED-32
    def put_back(
        self,
        ask: Ask,
        order: tuple[int, int, int],
        *,
        park: bool,
        lost: bool = False,
        was_bound: bool = False,
    ) -> None:
        """Make an ask that held a node pending again, or park it."""
        if park:
            self.park(ask, was_bound=was_bound)
        else:
            self._become_pending(ask, was_bound=was_bound)
        place = _PARKED if park else _PENDING
        self._moved(order, ask, place, lost=lost)

    def give_up(
        self,
        allocation: Allocation,
        reason: Reason,
        order: tuple[int, int, int],
        message: str | None = None,
    ) -> None:
        """Take an ask from its node, and record the decision."""
        self.act(self._leave_node(allocation))
        released = self._sayings.released(allocation.ask, allocation.node, reason, order, message)
        self.act(released)

    # PRIORITY-18
    def park(self, ask: Ask, *, was_bound: bool = False) -> None:
        """Park an ask that is in no place now."""
        self._places.parked[ask.name] = ask
        self.act(Parked(ask, was_bound))

    def set_aside(self, name: str, order: tuple[int, int, int]) -> None:
        """Park a member of a gang, if it is pending."""
        ask = self._places.pending.get(name)
        if ask is not None:
            self.act(self._leave_pending(ask))
            self.park(ask)
            self._moved(order, ask, _PARKED)

    def take_up(self, name: str, order: tuple[int, int, int]) -> None:
        """Make a member of a gang pending, if it is parked."""
        ask = self._places.parked.pop(name, None)
        if ask is not None:
            self.act(Unparked(ask))
            self._become_pending(ask)
            self._moved(order, ask, _PENDING)

    def _become_pending(self, ask: Ask, *, was_bound: bool = False) -> None:
        self._places.enter_pending(ask)
        self.act(Pending((ask,), was_bound))

    def _leave_pending(self, ask: Ask) -> Withdrawn:
        self._places.leave_pending(ask)
        return Withdrawn(ask)

    def _leave_node(self, allocation: Allocation) -> Freed:
        self._places.leave_node(allocation)
        return Freed(allocation)

    def _moved(
        self, order: tuple[int, int, int], ask: Ask, place: AskPlace | None, *, lost: bool = False
    ) -> None:
        """Record the new place of a member of a gang, for its gang."""
        if ask.gang is not None:
            self.act(Moved(order, ask, place, lost))
