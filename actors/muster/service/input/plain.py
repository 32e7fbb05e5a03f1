"""The shortcut for plain events, which are by far the most.

An event that has only the commonest fields, with values of the usual types, needs no general
parser. What is not as plain as that is left to the parser of feeds, which knows all rules: whatever
is made here, it would make, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast, final

from muster.feeds._fields.collections import SOME_RESOURCES
from muster.feeds._fields.kinds import FieldError
from muster_core.events import AddAsk, Release, RemoveAsk
from muster_core.values.event_fields import PRIORITIES

if TYPE_CHECKING:
    from muster.feeds import Raw
    from muster_core.events import Event
    from muster_core.resources import Resources

_MOST_KNOWN: Final = 4_096
"""How many different resources are remembered."""

_LOWEST, _HIGHEST = PRIORITIES


@final
class PlainEvents:
    """Makes plain events. It remembers resources, since many asks need the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, Raw], ...], Resources] = {}

    def made(self, written: Mapping[str, Raw]) -> Event | None:
        """Return an event, or None if it is not plain."""
        app, ask = written.get("app"), written.get("ask")
        if type(app) is not str or type(ask) is not str or not app or not ask or "/" in app + ask:
            return None
        op = written["op"]
        if op == "add_ask":
            return self._ask(written, app, ask)
        make = _OF_ASKS.get(op) if type(op) is str else None
        return make(app, ask) if make is not None and len(written) == _OP_APP_ASK else None

    def _ask(self, written: Mapping[str, Raw], app: str, ask: str) -> Event | None:
        amounts = written.get("resources")
        resources = self._resources(amounts) if type(amounts) is dict else None
        if resources is None:
            return None
        if len(written) == _OP_APP_ASK + 1:
            return AddAsk(app, ask, resources)
        priority = written.get("priority")
        if type(priority) is not int or len(written) != _OP_APP_ASK + 2:
            return None
        return AddAsk(app, ask, resources, priority) if _LOWEST <= priority <= _HIGHEST else None

    def _resources(self, amounts: dict[str, Raw]) -> Resources | None:
        """Return resources; None if they are not plain, or invalid."""
        # Equal keys must be equal amounts: 1, 1.0 and true are equal, and not the same here.
        for amount in amounts.values():
            if type(amount) is not int and type(amount) is not str:
                return None
        key = tuple(amounts.items())
        found = self._known.get(key)
        if found is None:
            try:
                found = SOME_RESOURCES.parse(cast("Raw", amounts))
            except FieldError:
                return None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found


_OP_APP_ASK: Final = 3
"""How many fields an event has that has only these three."""

_OF_ASKS: Final[Mapping[str, Callable[[str, str], Event]]] = {
    "release": Release,
    "remove_ask": RemoveAsk,
}
"""The operations that may have no other field."""
