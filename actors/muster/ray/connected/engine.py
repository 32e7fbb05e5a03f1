"""What the agent needs of Ray; ``agent.py`` has it from the package ``ray``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from muster.ray._messages import NodeMap

Handle = Any
"""An actor of Ray, or the items of a task."""

Group = Any
"""A placement group of Ray."""

RunMap = dict[str, Any]
"""A message ``Run`` of the program."""


class Engine(Protocol):
    """Ray. What may block is to be called in a thread, unless it says otherwise."""

    def connect(self, address: str, namespace: str, *, log_to_driver: bool) -> tuple[str, str]:
        """Connect; return the versions of Ray and Python."""
        ...

    def disconnect(self) -> None:
        """End the connection, and with it all that is not detached."""
        ...

    def nodes(self) -> list[NodeMap]:
        """Return the nodes that are alive."""
        ...

    def submit(self, run: RunMap, gate: Handle, group: tuple[Group, int] | None) -> Handle:
        """Submit the task of a run; return its items, to be read by ``async for``.

        It blocks only where :meth:`submits_slowly` says so.
        """
        ...

    def submits_slowly(self, run: RunMap) -> bool:
        """Return whether submitting a task waits for Ray's head; this itself does not."""
        ...

    def cancel(self, items: Handle, *, force: bool) -> None:
        """Cancel a task."""
        ...

    def small(self, node: str, name: str, *arguments: object) -> Handle:
        """Call a function of the runner on a node, without resources; await what it returns."""
        ...

    def warm(self, node: str, within_s: float) -> Handle:
        """Hold a worker on a node for so long, or until it is cancelled; return its items."""
        ...

    def gates(self) -> Handle:
        """Start the actor at which the members of gangs wait."""
        ...

    def reserve(self, runs: Sequence[RunMap], name: str | None) -> Group:
        """Begin to reserve room for several runs, each on its node.

        With a name it stays when the agent has gone.
        """
        ...

    def is_reserved(self, group: Group, within_s: float) -> bool:
        """Return whether Ray reserves the room within so many seconds."""
        ...

    def remove_group(self, group: Group) -> None:
        """Give back what was reserved."""
        ...

    def names_of_groups(self) -> list[str]:
        """Return the names of what is reserved for detached runs."""
        ...

    def remove_group_named(self, name: str) -> None:
        """Give back what was reserved, by its name."""
        ...

    def start_detached(self, run: RunMap, group: tuple[Group, int] | None) -> Handle:
        """Start the actor of a detached run; it does not begin yet.

        Raises:
            ValueError: If the name is taken.
        """
        ...

    def detached(self, name: str) -> Handle | None:
        """Return the actor of a detached run, if it lives or is on its way."""
        ...

    def names_of_detached(self) -> list[str]:
        """Return the names of all detached runs."""
        ...

    def is_pending(self, actor: Handle) -> bool:
        """Return whether an actor has not been started yet."""
        ...

    def node_of(self, actor: Handle) -> str:
        """Return the id of the node of an actor."""
        ...

    def kill(self, actor: Handle) -> None:
        """Kill an actor."""
        ...

    def is_away(self, error: BaseException) -> bool:
        """Return whether an actor does not answer, but may live."""
        ...

    def how(self, error: BaseException) -> tuple[str, str, str]:
        """Return what an error means for a run: ``how``, the error, and a text."""
        ...
