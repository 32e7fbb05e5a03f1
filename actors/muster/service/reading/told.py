"""What the ledger tells of single things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from muster_core.events import Event


class AppTold(Protocol):
    """What is told of an application."""

    @property
    def event(self) -> Event | None:
        """The event that added it, or None if it is not known."""
        ...

    @property
    def came_us(self) -> int:
        """When it came, in microseconds since the origin."""
        ...

    @property
    def states(self) -> Sequence[tuple[int, str]]:
        """Its states, each with the instant at which it began, in microseconds."""
        ...


class AskTold(Protocol):
    """What is told of an ask."""

    @property
    def event(self) -> Event | None:
        """The event that added it, or None if it is not known."""
        ...

    @property
    def came_us(self) -> int:
        """When it came, in microseconds since the origin."""
        ...

    @property
    def taken_us(self) -> int | None:
        """When it got the node that it holds, in microseconds, or None."""
        ...

    @property
    def bound_us(self) -> int | None:
        """When it was bound there, in microseconds, or None."""
        ...


class NodeTold(Protocol):
    """What is told of a node."""

    @property
    def event(self) -> Event | None:
        """The event that added it, or None if it is not known."""
        ...

    @property
    def came_us(self) -> int:
        """When it came, in microseconds since the origin."""
        ...


@runtime_checkable
class Telling(Protocol):
    """Tells of single things by their names; None for what it does not know."""

    def app(self, name: str, /) -> AppTold | None:
        """Return what is told of an application."""
        ...

    def ask(self, app: str, ask: str, /) -> AskTold | None:
        """Return what is told of an ask."""
        ...

    def node(self, name: str, /) -> NodeTold | None:
        """Return what is told of a node."""
        ...


def telling(ledger: object) -> Telling | None:
    """Return a ledger if it tells of single things, or None."""
    return ledger if isinstance(ledger, Telling) else None
