"""What the parties of reservations are to hold on each node, remembered until nodes change."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.later.rooms import Amounts
    from muster_core.view.reservations.search import Reservation
    from muster_core.view.state.view_state import ViewState


@final
class Holdings:
    """What pending members are to hold.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The reservations in order, and the changes of nodes when the first of them was counted.
        self._counted: list[Reservation] = []
        self._changes = -1
        #: The pending members on each node, with their reservations, in order.
        self.on: dict[str, list[tuple[Reservation, Ask]]] = {}
        #: How much they are to hold there.
        self.amounts: dict[str, Amounts] = {}
        self.has_devices = False

    def follow(self, reservations: Sequence[Reservation]) -> None:
        """Count reservations; mostly one more than before is in force."""
        counted, state = self._counted, self._state
        already = len(counted)
        if self._changes != state.nodes.changes or not (
            already <= len(reservations)
            and (not already or reservations[already - 1] is counted[-1])
        ):
            self.__init__(state)
            counted, already, self._changes = self._counted, 0, state.nodes.changes
        for one in reservations[already:]:
            counted.append(one)
            for member, name in one.places:
                if name in state.nodes.nodes and member.is_pending():
                    self._count(one, member.ask, name)

    def _count(self, reservation: Reservation, ask: Ask, name: str) -> None:
        self.on.setdefault(name, []).append((reservation, ask))
        amounts = dict(self.amounts.get(name, ()))
        add_to(amounts, ask.resources.amounts)
        self.amounts[name] = tuple(sorted(amounts.items()))
        self.has_devices = self.has_devices or bool(ask.shape.devices)
