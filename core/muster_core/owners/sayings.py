"""What an application says: its decisions about asks, and why it refuses a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.owners.messages.from_applications import Say
from muster_core.values.decisions import Decision, Kind, Reason, decision_on_ask
from muster_core.values.errors import RefusedError
from muster_core.values.nearest import Guesses

if TYPE_CHECKING:
    from muster_core.owners.ask_places import AskPlaces
    from muster_core.owners.messages.asks import Allocation, AppIdentity, Ask

_MOST_GUESSES: Final = 10
"""For how many refusals an application guesses which of its asks was meant."""

# Looking up a member of an enum takes ten times as long.
_RELEASED: Final = Kind.RELEASED


@final
class Sayings:
    """The decisions and refusals of one application.

    Args:
        identity: The part of the application that never changes.
        places: Its asks.

    Attributes:
        guesses: Guesses which ask a refused request meant.
    """

    __slots__ = ("_identity", "_places", "guesses")

    def __init__(self, identity: AppIdentity, places: AskPlaces) -> None:
        self._identity = identity
        self._places = places
        self.guesses = Guesses(_MOST_GUESSES)

    def about(
        self, kind: Kind, ask: Ask, node: str | None, reason: Reason | None = None
    ) -> Decision:
        """Return a decision about an ask."""
        app, path = self._identity.name, self._identity.path
        return decision_on_ask(kind, app, ask.name, node, path, ask.gang, reason=reason)

    # BACKOFF-11
    def released(
        self,
        ask: Ask,
        node: str | None,
        reason: Reason,
        order: tuple[int, int, int],
        message: str | None = None,
    ) -> Say:
        """Return the decision that an ask was released.

        Args:
            ask: The ask.
            node: The node that it held, or None.
            reason: Why it was released.
            order: The place of the decision among those of the batch.
            message: What was said about the end of its work, or None.
        """
        decision = self.about(_RELEASED, ask, node, reason)
        return Say(order, decision if message is None else attrs.evolve(decision, message=message))

    def bound(self, name: str, instead: str) -> Allocation:
        """Return the allocation of a bound ask.

        Args:
            name: The name of the ask.
            instead: What is to be done if the ask is not bound.

        Raises:
            RefusedError: If the ask is not bound, or unknown.
        """
        allocation = self._places.bound.get(name)
        if allocation is None:
            raise RefusedError(self.not_there(name, "bound", instead))
        return allocation

    def not_there(self, ask: str, place: str, instead: str) -> str:
        """Return why a request about an ask is refused that is not in a place, or unknown."""
        app = self._identity.name
        if self._places.knows(ask):
            return f"ask: {ask!r} of application {app!r} is not {place}; {instead}"
        return self.unknown(ask)

    def unknown(self, ask: str) -> str:
        """Return why a request about an unknown ask is refused."""
        guess = self.guesses.about(ask, self._places.each_name())
        return f"ask: {ask!r} is no ask of application {self._identity.name!r}{guess}"
