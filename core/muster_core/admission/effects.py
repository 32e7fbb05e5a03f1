"""Effects of admitted events that owners have not reported yet, which the view does not show.

They are few: before an event that concerns several owners the owners report first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import final

from muster_core.admission.queue_tree import QueueEntry
from muster_core.admission.routes import AnyRoute, TellApp
from muster_core.nodes.node import Node
from muster_core.owners.app_messages import AddAsks, Enlist
from muster_core.owners.asks import Allocation
from muster_core.owners.gang import MemberKey
from muster_core.values.errors import RefusedError
from muster_core.values.events import (
    AddAsk,
    AddGang,
    Apply,
    Configure,
    Delete,
    Event,
    RemoveGang,
    SetUsage,
    UpdateNode,
)
from muster_core.values.resources import Resources
from muster_core.view import DecisionView


@final
class Unreported:
    """The effects of admitted events that the view does not know."""

    def __init__(self, view: DecisionView) -> None:
        self._view = view
        #: Whether owners got messages whose effect the view does not know.
        self.uncertain = False
        #: The names of new asks that were checked by admission, by application.
        self.fresh: dict[int, set[str]] = {}
        #: The gangs with a new member that is bound from the start.
        self.came_bound: set[str] = set()
        #: The asks that were ended by objects.
        self._forgotten: set[tuple[int, str]] = set()
        #: The members among them, whose gangs have a message already, with its position.
        self._ended: dict[MemberKey, int] = {}
        #: The changes of the usage of queues by asks that are bound from the start or that end.
        self._placed: dict[int, dict[str, int]] = {}
        #: The changes of the usage of nodes by asks that end, by the name of the node.
        self._freed: dict[str, dict[str, int]] = {}
        #: All of these; they are empty once the owners have reported.
        self._sets = self.came_bound, self._forgotten
        self._maps = self.fresh, self._ended, self._placed, self._freed
        #: The steps that undo what is admitted as a whole; None if nothing is.
        self._undo: list[Callable[[], object]] | None = None

    def clear(self) -> None:
        """Record that the owners have reported: the view matches their state."""
        self.uncertain = False
        for names in self._sets:
            names.clear()
        for effects in self._maps:
            effects.clear()

    def must_hear_first(self, event: Event | str) -> bool:
        """Return whether the owners must report before an event can be checked."""
        match event:
            case AddAsk():
                return event.gang is not None and self.uncertain
            case AddGang():
                return self.uncertain
            case UpdateNode():
                return event.devices is not None and self.uncertain
            case RemoveGang() | Apply() | Delete():
                return self.uncertain or bool(self.fresh)
            # USAGE-13
            case Configure():
                return self._view.usages.active
            case SetUsage():
                return True
            case _:
                return False

    def note(self, routes: Iterable[AnyRoute]) -> None:
        """Record whether messages to applications have effects that the view does not know."""
        if self.uncertain:
            return
        for route in routes:
            if isinstance(route, TellApp) and not isinstance(route.message, Enlist):
                event = route.message.event if isinstance(route.message, AddAsks) else None
                self.uncertain = self.uncertain or event is None or event.gang is None

    # Objects: several of them are admitted as a whole

    # FEED-16, OBJECT-5
    @contextmanager
    def whole(self, saved: Callable[[], object] | None) -> Generator[None, None, None]:
        """Admit several objects as a whole: if one is refused, undo all of them.

        Args:
            saved: Brings back the tree of queues, if queues may change; otherwise None.
        """
        uncertain = self.uncertain
        steps: list[Callable[[], object]] = [] if saved is None else [saved]
        self._undo = steps
        try:
            yield
        except RefusedError:
            for step in reversed(steps):
                step()
            self.uncertain = uncertain
            raise
        finally:
            self._undo = None

    def undoable(self, step: Callable[[], object]) -> None:
        """Record a step that undoes a change, if several objects are admitted as a whole."""
        if self._undo is not None:
            self._undo.append(step)

    # Asks

    def knows(self, key: int, ask: str) -> bool:
        """Return whether an application has an ask of this name, in any place."""
        if ask in self.fresh.get(key, ()):
            return True
        seen = self._view.apps.get(key)
        return seen is not None and seen.knows(ask) and not self.is_forgotten(key, ask)

    def is_forgotten(self, key: int, ask: str) -> bool:
        """Return whether an object has ended an ask."""
        return (key, ask) in self._forgotten

    def add(self, key: int, event: AddAsk) -> tuple[MemberKey, ...]:
        """Record new asks of an application, and return their keys in gangs."""
        names = event.names()
        fresh = self.fresh.setdefault(key, set())
        fresh.update(names)
        self.undoable(partial(fresh.difference_update, names))
        return tuple(MemberKey(key, event.app, name) for name in names)

    def come_bound(self, gang: str) -> None:
        """Record that a gang has a new member that is bound from the start."""
        self.came_bound.add(gang)
        self.undoable(partial(self.came_bound.discard, gang))

    def forget(self, key: int, ask: str) -> None:
        """Record that an object ends an ask."""
        self._forgotten.add((key, ask))
        self.undoable(partial(self._forgotten.discard, (key, ask)))

    # Messages to gangs

    def note_message(self, member: MemberKey, seq: int) -> None:
        """Record that a gang gets a message about a change of a member at ``seq``."""
        self._ended[member] = seq
        self.undoable(partial(self._ended.pop, member, None))

    def has_message(self, member: MemberKey, seq: int) -> bool:
        """Return whether a gang has a message already about a change of a member at ``seq``."""
        return self._ended.get(member, 0) >= seq

    # Room on nodes and in queues

    # OBJECT-18
    def take_room(self, event: AddAsk, node: Node, leaf: QueueEntry) -> None:
        """Take the room of an ask that runs already.

        Raises:
            RefusedError: If the ask does not fit on its node or in the ``max`` of its queues.
        """
        freed = self._freed.get(node.name, {})
        for kind, amount in event.resources.items():
            used = node.used.get(kind, 0) + freed.get(kind, 0)
            if amount > node.room.get(kind, 0) - used:
                msg = f"node: {node.name!r} has too little {kind} left for {event.ask!r}"
                raise RefusedError(msg)
        for entry in leaf.upward():
            there = self._view.allocated_in(entry.key)
            change = self._placed.get(entry.key, {})
            for kind, most in entry.config.max.amounts:
                wanted = event.resources[kind]
                if wanted and there.get(kind, 0) + change.get(kind, 0) + wanted > most:
                    msg = f"node: the max of {entry.config.path} leaves too little {kind}"
                    raise RefusedError(msg)
        self._count_in_queues(leaf, event.resources, 1)

    def give_room(self, held: Allocation, leaf: QueueEntry) -> None:
        """Give back the room of an ask that an object ends."""
        resources = held.ask.resources
        self._count(self._freed.setdefault(held.node, {}), resources, -1)
        self._count_in_queues(leaf, resources, -1)

    def _count_in_queues(self, leaf: QueueEntry, resources: Resources, sign: int) -> None:
        for entry in leaf.upward():
            self._count(self._placed.setdefault(entry.key, {}), resources, sign)

    def _count(self, amounts: dict[str, int], resources: Resources, sign: int) -> None:
        for kind, amount in resources.items():
            amounts[kind] = amounts.get(kind, 0) + sign * amount
            self.undoable(partial(self._recount, amounts, kind, -sign * amount))

    @staticmethod
    def _recount(amounts: dict[str, int], kind: str, change: int) -> None:
        amounts[kind] += change

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self.uncertain
        assert not any((*self._sets, *self._maps))
