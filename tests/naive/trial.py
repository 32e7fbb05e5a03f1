"""Doing something in the naive model that is undone if it comes to nothing."""

from __future__ import annotations

from typing import Final

import attrs

from tests.naive.state import App, Ask, Gang, World

_ASK: Final = (
    *("place", "node", "held_order", "bound_order", "ends_at", "failures", "since_us"),
    *("failed_binds", "failed_at_us", "devices"),
)
_APP: Final = ("state", "deadline")
_GANG: Final = ("satisfied", "since_us")


class Trial:
    """Remembers everything that placing and evicting asks changes.

    Args:
        world: What there is.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._log = list(world.log)
        self._moves = world.moves
        self._taken, self._lost = dict(world.taken), set(world.lost)
        self._rounds = attrs.evolve(
            world.rounds, bound=list(world.rounds.bound), evicted=list(world.rounds.evicted)
        )
        things: list[tuple[Ask | App | Gang, tuple[str, ...]]] = []
        things += [(ask, _ASK) for ask in world.asks()]
        things += [(app, _APP) for app in world.apps.values()]
        things += [(gang, _GANG) for gang in world.gangs.values()]
        self._values = [
            (thing, name, getattr(thing, name)) for thing, names in things for name in names
        ]

    def undo(self) -> None:
        """Bring everything back; once."""
        for thing, name, value in self._values:
            setattr(thing, name, value)
        self._world.log, self._world.moves = self._log, self._moves
        self._world.rounds = self._rounds
        self._world.taken, self._world.lost = self._taken, self._lost
