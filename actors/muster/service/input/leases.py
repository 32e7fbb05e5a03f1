"""Leases: nodes that are removed unless their lease is renewed.

Which node has a lease follows from the events that were let in, so the leases are updated with
every batch and saved in checkpoints. Only this process knows when a lease runs out, by a monotonic
clock: after a start each node has its whole lease again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import msgpack
import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.calls import Enter
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.decisions import Announced, Kind
from muster_core.events import AddNode, Delete, Event, ObjectKind, RemoveNode
from muster_core.nodes.node import Node
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster.service.input.submission import RunningService

_LOG: Final = logging.getLogger("muster.service")
_CHANGE: Final = {"fields": {"what": "change"}}

_FORM: Final = "leases 1"
"""Marks the form in which they are saved."""


@final
@attrs.define(eq=False)
class _Lease:
    """The lease of a node.

    Attributes:
        lease_us: How long the node stays without a renewal, in microseconds.
        until: When it runs out, by trio's clock, in seconds.
    """

    lease_us: int
    until: float = 0.0

    def renew(self) -> None:
        self.until = trio.current_time() + self.lease_us / 1e6


@final
class Leases:
    """The leases of all nodes that have one, updated with every batch."""

    def __init__(self) -> None:
        self._leases: dict[str, _Lease] = {}
        self._changed = trio.Event()
        self._is_running = False

    # Updating

    # INPUT-16
    def observe(
        self, first: int, events: Sequence[Event], announced: Sequence[Announced], /
    ) -> Steps[None]:
        """Update the leases with a batch.

        Args:
            first: The index of its first event.
            events: Its events.
            announced: Its decisions.
        """
        found = yield from self._lease_events(events)
        if not found:
            return
        refused = yield from _refused_indexes(announced)
        for number, event in found:
            if first + number not in refused:
                self._note(event)
        if self._is_running:
            self._changed.set()

    def _lease_events(self, events: Sequence[Event]) -> Steps[list[tuple[int, Event]]]:
        """Return the events that may begin or end a lease, with their numbers."""
        found: list[tuple[int, Event]] = []
        for number, event in enumerate(events):
            if not number % 1024:
                yield
            if (type(event) is AddNode and event.lease_us is not None) or (
                (self._leases or found) and isinstance(event, (AddNode, RemoveNode, Delete))
            ):
                found.append((number, event))
        return found

    def _note(self, event: Event) -> None:
        match event:
            case AddNode():
                self._leases.pop(event.node, None)
                if event.lease_us is not None:
                    lease = self._leases[event.node] = _Lease(event.lease_us)
                    if self._is_running:
                        lease.renew()
            case RemoveNode():
                self._leases.pop(event.node, None)
            case Delete():
                for one in event.objects:
                    if one.content.kind is ObjectKind.NODE:
                        self._leases.pop(one.content.name, None)
            case _:
                pass

    def save(self) -> bytes:
        """Return which node has which lease."""
        known = {name: lease.lease_us for name, lease in self._leases.items()}
        packed: bytes = msgpack.packb([_FORM, known])
        return packed

    def load(self, saved: bytes | None) -> None:
        """Take up what was saved; None for no leases.

        Raises:
            ValueError: If it has another form.
        """
        self._leases.clear()
        if saved is None:
            return
        found: Any = msgpack.unpackb(saved)
        known: dict[str, int]
        try:
            form, known = found
        except TypeError:  # it is no list
            form, known = None, {}
        if form != _FORM:
            msg = "they have no leases"
            raise ValueError(msg)
        self._leases.update((name, _Lease(lease_us)) for name, lease_us in known.items())

    # Renewing and ending

    # INPUT-17
    def renew(self, node: str) -> int | None:
        """Renew the lease of a node.

        Returns:
            How long it lasts from now on, in microseconds; None if the node has none.
        """
        lease = self._leases.get(node)
        if lease is None:
            return None
        lease.renew()
        return lease.lease_us

    # INPUT-16
    async def run(self, service: RunningService) -> None:
        """Remove nodes whose leases have run out, until this is cancelled or the service ends."""
        self._is_running = True
        # INPUT-18
        for lease in self._leases.values():
            lease.renew()
        with suppress(ClosedSchedulerError):
            while not service.health.is_ending:
                self._changed = trio.Event()
                if any(map(self.is_over, self._leases)):
                    await self._remove(service)
                    continue
                next_at = min((lease.until for lease in self._leases.values()), default=None)
                with trio.move_on_at(float("inf") if next_at is None else next_at):
                    await self._changed.wait()

    async def _remove(self, service: RunningService) -> None:
        """Remove the nodes whose leases have run out."""
        over: dict[str, Node] = {}

        def read(machine: CoordinatorMachine) -> Steps[None]:
            yield
            nodes = machine.view.nodes.nodes
            for name in [one for one in self._leases if self.is_over(one)]:
                if name in nodes:
                    over[name] = nodes[name]
                else:
                    del self._leases[name]

        # When it is read, everything before is announced: these are the leases of these nodes.
        await service.client.read(read)
        if not over:
            return
        call = Enter([RemoveNode(name) for name in over], guard=_ExpiryGuard(service, self, over))
        entered = await service.client.call(call)
        for name, refusal in zip(over, entered.refusals, strict=True):
            if refusal is None:
                _LOG.info("node %s is removed: its lease ran out", name, extra=_CHANGE)

    def left_us(self, node: str) -> int | None:
        """Return how long a node still stays without a renewal, in microseconds.

        None if it has no lease.
        """
        lease = self._leases.get(node)
        return None if lease is None else round(max(0.0, lease.until - trio.current_time()) * 1e6)

    def is_over(self, node: str) -> bool:
        """Return whether the lease of a node has run out."""
        lease = self._leases.get(node)
        return lease is not None and lease.until <= trio.current_time()


def _refused_indexes(announced: Sequence[Announced]) -> Steps[set[int | None]]:
    """Return the indexes of the events that were refused."""
    refused: set[int | None] = set()
    for number, one in enumerate(announced):
        if not number % 1024:
            yield
        if one.decision.kind is Kind.REJECTED:
            refused.add(one.decision.index)
    return refused


@final
@attrs.frozen(eq=False)
class _ExpiryGuard:
    """Lets in the removal of nodes that were not renewed, or added again, in the meantime."""

    service: RunningService
    leases: Leases
    over: dict[str, Node]

    def must_hear_first(self, _event: Event, _machine: CoordinatorMachine, /) -> bool:
        return False

    # INPUT-16
    def refusal(self, event: Event, machine: CoordinatorMachine, /) -> str | None:
        assert isinstance(event, RemoveNode), "only nodes have leases"
        name = event.node
        is_same = machine.view.nodes.nodes.get(name) is self.over[name]
        if is_same and self.leases.is_over(name) and not self.service.health.is_ending:
            return None
        return f"node: {name!r}: its lease lasts"
