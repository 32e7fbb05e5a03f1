"""What a choice of nodes looks at: the cluster as it is, or as it would be at another instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from muster_core.nodes.node import Node
    from muster_core.view.gangs.member import Member
    from muster_core.view.topology.difference import Difference
    from muster_core.view.topology.order import Order


class Picture(Protocol):
    """Who holds which nodes and devices.

    The picture of things as they are has the index of nodes, which is quick. That of another instant
    knows what differs on each node. So each has its own way to find the first node with room; what
    is looked for, and where, is up to :class:`~muster_core.view.topology.choice.Choice`.
    """

    @property
    def difference(self) -> Difference:
        """What differs from the view; another one in each trial."""
        ...

    def order(self) -> Order:
        """Return the order of pending asks here."""
        ...

    # TOPOLOGY-10
    def domains(self, attribute: str) -> Sequence[str]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        ...

    def finder(self, place: Callable[[Node], int | None]) -> Callable[[Member], Node | None]:
        """Return what finds the node that a pending ask takes here, if there is one.

        That is the first in the order of nodes, among those with the least place of all that it
        matches and fits.

        Args:
            place: Returns how early a node is taken, 0 for the earliest, or None for never.
        """
        ...

    def trying(self) -> AbstractContextManager[None]:
        """Undo at the end all that is placed meanwhile."""
        ...

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node on which it fits."""
        ...
