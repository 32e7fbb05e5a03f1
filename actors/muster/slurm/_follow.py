"""The nodes of Slurm as nodes of a scheduler, by events for what differs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, final

from muster.slurm._texts.nodes import CLOSED, PARTITION, Wanted
from muster_core.errors import RefusedError
from muster_core.events import AddNode, Event, RemoveNode, UpdateNode
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot

_LOG: Final = logging.getLogger("muster.slurm")


class Books(Protocol):
    """The part of a scheduler that is needed here."""

    async def submit_many(self, events: Iterable[Event], /) -> tuple[RefusedError | None, ...]:
        """Submit events in one batch; see :meth:`muster.Scheduler.submit_many`."""
        ...

    async def snapshot(self) -> Snapshot:
        """Return the state; see :meth:`muster.Scheduler.snapshot`."""
        ...


@final
class Follower:
    """Makes the nodes of one scheduler those of Slurm.

    Nodes that do not come from here, which have no attribute ``slurm/partition``, stay as they are.

    Args:
        books: The scheduler.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        #: The nodes that the scheduler has from here; None before the first look.
        self._held: dict[str, Wanted] | None = None
        self._refused: dict[str, str] = {}

    async def follow(self, wanted: Mapping[str, Wanted]) -> None:
        """Tell the scheduler what has changed, in one batch."""
        if self._held is None:
            self._held = await self._kept()
        held = self._held
        events: list[AddNode | UpdateNode | RemoveNode] = [
            RemoveNode(name) for name in held if name not in wanted
        ]
        for name, node in wanted.items():
            change = _event(name, held.get(name), node)
            if change is not None:
                events.append(change)
        if not events:
            return
        refusals = await self._books.submit_many(events)
        for event, refusal in zip(events, refusals, strict=True):
            if isinstance(event, RemoveNode):
                held.pop(event.node, None)
            elif refusal is None:
                held[event.node] = wanted[event.node]
                self._refused.pop(event.node, None)
            else:
                # Somebody else has removed the node, or has one of this name.
                held.pop(event.node, None)
                if self._refused.get(event.node) != str(refusal):
                    self._refused[event.node] = str(refusal)
                    _LOG.warning("node %s of Slurm: %s", event.node, refusal)

    async def _kept(self) -> dict[str, Wanted]:
        """Return the nodes that the scheduler has from an earlier program."""
        nodes = (await self._books.snapshot()).nodes
        return {
            name: Wanted(Resources(node.capacity), dict(node.attributes))
            for name, node in nodes.items()
            if PARTITION in node.attributes
        }


def _event(name: str, held: Wanted | None, node: Wanted) -> AddNode | UpdateNode | None:
    """Return the event that makes a node what it is to be, if there is one."""
    if held is None:
        return AddNode(name, node.capacity, node.attributes, not node.is_closed)
    if held == node:
        return None
    # An operator of Muster may have closed a node that is open in Slurm: it stays so.
    changes = (CLOSED in held.attributes) != node.is_closed
    return UpdateNode(
        name,
        None if held.capacity == node.capacity else node.capacity,
        None if held.attributes == node.attributes else node.attributes,
        not node.is_closed if changes else None,
    )
