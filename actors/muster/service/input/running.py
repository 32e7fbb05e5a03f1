"""What is needed here of the running service, which knows this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from muster._runtime.clients.calls import Answer, Call
    from muster._runtime.clients.client import Client
    from muster.service.health import Health
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.facts import Facts
    from muster_core.structures.steps import Steps

T = TypeVar("T")


class Running(Protocol):
    """The running service; :class:`muster.service.state.Service` says what each of these does."""

    @property
    def client(self) -> Client:
        """Sends calls of the service itself to the scheduler."""
        ...

    @property
    def health(self) -> Health:
        """Whether it works."""
        ...

    async def call(self, call: Call, answer: Answer[T]) -> T:
        """Send a call of a client to the scheduler."""
        ...

    async def look(self, read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        """Read the state between two batches."""
        ...

    async def facts(self) -> Facts:
        """Return the whole state."""
        ...

    def now_us(self) -> int:
        """Return the present instant."""
        ...
