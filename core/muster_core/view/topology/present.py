"""The picture of things as they are, and of trials whether asks can be placed one after another.

TOPOLOGY-7. What is placed in a trial is really taken on the nodes, and given back at the end, so that
the index of nodes finds the next node. Queues and limits are not touched.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, final

from muster_core.view.topology.difference import Difference
from muster_core.view.topology.order import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from muster_core.nodes.devices import DeviceUse
    from muster_core.nodes.node import Holder, Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.values.resources import Resources
    from muster_core.view.gangs.member import Member
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.leaf import LeafView


@final
class Present:
    """The view as it is.

    Args:
        state: The view.
        list_apps: Updates the positions of applications that have changed.
        beside_victims: Whether nodes are in the order in which victims are looked for.
    """

    def __init__(
        self, state: ViewState, list_apps: Callable[[], None], *, beside_victims: bool
    ) -> None:
        self._state = state
        self._list_apps = list_apps
        self._beside_victims = beside_victims
        #: What differs in the trial that is going on; nothing without one.
        self.difference = Difference(state)
        self._taken: list[tuple[Node, Resources, Holder, DeviceUse]] = []

    def order(self) -> Order:
        """Return the order of pending asks."""
        return Order(self._state, self.difference, self._bring_up_to_date)

    def _bring_up_to_date(self) -> None:
        self._list_apps()
        self._state.refresh()

    # TOPOLOGY-10
    def domains(self, attribute: str) -> Sequence[str]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        return self._state.domains.in_order(attribute)

    def finder(self, place: Callable[[Node], int | None]) -> Callable[[Member], Node | None]:
        """Return what finds the node that a pending ask takes; see :class:`~muster_core.view.topology.picture.Picture`."""

        def find(member: Member) -> Node | None:
            app, ask = member
            leaf, bit = self._state.leaf_of(app), self._state.bit_of(ask)
            best, least = None, -1
            for node in self.fitting(leaf, ask, bit):
                found = place(node)
                if found is not None and (best is None or found < least):
                    best, least = node, found
                    if not found:
                        break
            return best

        return find

    # ORDER-21, SERVICE-10
    def fitting(self, leaf: LeafView, ask: Ask, bit: int) -> Iterator[Node]:
        """Iterate over the nodes on which an ask fits, whatever its gang says, in order.

        Args:
            leaf: The leaf of its application.
            ask: The ask.
            bit: The bit of its shape.
        """
        service = self._state.kept_nodes.is_service(leaf, ask)
        fitting = self._state.nodes.fitting_on(bit, beside_victims=self._beside_victims)
        return (node for node in fitting if service or not node.kept)

    @contextmanager
    def trying(self) -> Generator[None]:
        """Undo at the end all that is placed meanwhile."""
        nodes = self._state.nodes
        grown, changes = nodes.grown, nodes.changes
        try:
            yield
        finally:
            for node, resources, holder, use in reversed(self._taken):
                nodes.give_back(node, resources, holder, use)
            nodes.grown, nodes.changes = grown, changes
            if self._taken:
                self._taken.clear()
                self.difference = Difference(self._state)

    def place(self, member: Member, node: Node) -> None:
        """Let an ask hold a node on which it fits, in a trial."""
        nodes, ask, holder = self._state.nodes, member.ask, member.holder
        use = ask.shape.devices, nodes.devices_for(node, ask.shape)
        nodes.take(node, ask.resources, holder, use)
        self._taken.append((node, ask.resources, holder, use))
        self.difference.place(member, node)
