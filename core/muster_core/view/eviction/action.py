"""Who may take something from others now: the asks that did not fit, in order.

EVICTION-8 to EVICTION-11. The order is that of the rounds, overused queues included. Asks of one leaf
that need the same of a node, for which a plan was not found, are not looked at one by one:
what was found for the first holds for all, until anything has changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from muster_core.structures.shapes import bits_of
from muster_core.view.state.delays import Delays
from muster_core.view.state.eviction_history import alike
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.owners.messages.asks import Ask, AskOrder
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Eligibility
    from muster_core.view.eviction.victim_index import VictimIndex
    from muster_core.view.gangs.gang import ViewGroup
    from muster_core.view.state.eviction_history import Alike
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

Preemptor = tuple["ViewApp", "Ask"]

AlikeAsks = tuple[int, int, int, str]
"""What asks have in common for which the same is found: leaf, shape, priority if it counts, gang."""


class EvictionAction(ABC):
    """A way of taking something from others: reclaim or preemption.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self.state = state
        #: The asks for which nothing can be taken as things are, and the groups.
        self._in_vain: set[AlikeAsks] = set()
        self._groups_in_vain: set[tuple[str, ...]] = set()
        #: Those of them that have lost what they had taken, and stand for nobody else.
        self._losers_in_vain: set[Alike] = set()
        self._known: tuple[int, ...] = ()

    def prepare(self, victim_index: VictimIndex, now_us: int) -> Steps[None]:
        """Find out for whom it is sure that there is nobody from whom to take anything.

        Args:
            victim_index: What stands on the nodes.
            now_us: The present instant, in microseconds.
        """
        yield from ()

    @abstractmethod
    def nobody(self, app: ViewApp, ask: Ask) -> None:
        """Take note that an ask cannot take anything from anybody, however little it needs."""

    @abstractmethod
    def leaves(self) -> Iterable[LeafView]:
        """Give the leaves in which there may be asks that can take something."""

    @abstractmethod
    def shapes(self, leaf: LeafView) -> int:
        """Give the shapes of a leaf for which something may be taken, as far as is known."""

    @abstractmethod
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        """Say from whom a pending ask may take something, or None if from nobody.

        Its delay and the settings of its leaf have been looked at.
        """

    def exempt(self, ask: Ask) -> frozenset[str]:
        """Give the gangs whose members are no victims for an ask: those of its group.

        Also of an ask whose gang is satisfied: it could leave itself as a part of a gang
        that is not.
        """
        if ask.gang is None:
            return frozenset()
        group = self.state.gang_index.group_of(self.state.gangs[ask.gang])
        return frozenset(gang.name for gang in group.gangs)

    @abstractmethod
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        """Give what an ask has in common with others for which the same is found."""

    @abstractmethod
    def may(self, ask: Ask) -> bool:
        """Say whether an ask itself may take something."""

    def is_ready(self, app: ViewApp, ask: Ask, now_us: int) -> bool:
        """Say whether a pending ask may take something at an instant, in microseconds."""
        leaf = self.state.leaf_of(app)
        return leaf.watches(ask) and self.may(ask) and Delays.is_over(leaf, app, ask, now_us)

    def in_vain(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Take note that nothing can be taken for an ask and those that are alike."""
        if self.state.eviction_history.has_lost(app.identity.key, ask):
            self._losers_in_vain.add(alike(app.identity.key, ask))
        else:
            self._in_vain.add(self.alike(self.state.leaf_of(app), ask, bit))

    def group_in_vain(self, group: ViewGroup) -> None:
        """Take note that nothing can be taken for a group."""
        self._groups_in_vain.add(group.names)

    def start_batch(self) -> None:
        """Forget of which groups it was found; the delay of one more member may be over."""
        self._groups_in_vain.clear()

    def _forget_if_changed(self) -> None:
        state = self.state
        now = (
            state.nodes.changes,
            state.reconfigured,
            state.gang_index.changes,
            state.eviction_history.changes,
        )
        if self._known != now:
            self._known = now
            self._in_vain.clear()
            self._groups_in_vain.clear()
            self._losers_in_vain.clear()
            self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Forget who cannot take anything from anybody, as something has changed."""

    def preemptors(self, now_us: int) -> Iterator[Preemptor | None]:
        """Give who may take something, in order, and None while that is looked for.

        What is found in vain meanwhile is not given any more. Of a group of gangs the first
        member is given.

        Args:
            now_us: The present instant, in microseconds.
        """
        self._forget_if_changed()
        leaves = {leaf.key: leaf for leaf in self.leaves() if self._may_have(leaf, now_us)}
        if any(leaf.slots for leaf in leaves.values()):
            leaves |= self._with_groups(leaves)
        wanted = {queue.key for leaf in leaves.values() for queue in leaf.upward()}
        if wanted:
            yield from self._below(self.state.root, wanted, now_us)

    def _may_have(self, leaf: LeafView, now_us: int) -> bool:
        """Say whether there may be an ask in a leaf that can take something."""
        if leaf.watched is None or not leaf.since or not self._is_open(leaf):
            return False
        return min(leaf.since) + leaf.config.settings.preemption_delay_us <= now_us

    def _is_open(self, leaf: LeafView) -> bool:
        """Say whether it is not known already that nothing can be taken for any ask."""
        return leaf.slots > 0 or self.shapes(leaf) != 0

    def _with_groups(self, leaves: Mapping[int, LeafView]) -> dict[int, LeafView]:
        """Give the leaves of all members whose groups have some in these leaves.

        A group has its turn with the first of its members, whichever of them takes something.
        """
        found: dict[int, LeafView] = {}
        for gang in self.state.gangs.values():
            if gang.satisfied or not any(
                slot.app.identity.leaf in leaves for slot in gang.slots.values()
            ):
                continue
            for one in self.state.gang_index.group_of(gang).gangs:
                for slot in one.slots.values():
                    leaf = self.state.leaf_of(slot.app)
                    found[leaf.key] = leaf
        return found

    def _below(self, queue: ViewQueue, wanted: set[int], now_us: int) -> Iterator[Preemptor | None]:
        if isinstance(queue, ParentView):
            for child in queue.in_turn(wanted, self.state.total):
                yield from self._below(child, wanted, now_us)
        elif isinstance(queue, LeafView):
            for app in queue.competing():
                yield None
                if not self._is_open(queue):
                    return
                first = self._first_of_all(app) if queue.config.settings.blocking else None
                yield from self._of_app(queue, app, now_us, only=first)
                if first is not None:
                    return

    def _first_of_all(self, app: ViewApp) -> Ask | None:
        """Give the first pending ask that PreFilter does not refuse."""
        return min(
            (ask for ask in app.pending.values() if not self._is_refused(ask)),
            key=app.order_of,
            default=None,
        )

    def _is_refused(self, ask: Ask) -> bool:
        if ask.gang is None:
            return False
        gang = self.state.gangs[ask.gang]
        return not gang.satisfied and not (gang.missing and gang.admits())

    def _of_app(
        self, leaf: LeafView, app: ViewApp, now_us: int, *, only: Ask | None
    ) -> Iterator[Preemptor]:
        seen: set[str] = set()
        while True:
            entries = [*self._plain(leaf, app, now_us), *self._members(app, seen)]
            if only is not None:
                entries = [entry for entry in entries if entry[1] is only]
            if not entries:
                return
            ask = min(entries)[1]
            if self._is_member(ask):
                seen.add(ask.gang or "")
            yield app, ask

    def _is_member(self, ask: Ask) -> bool:
        return ask.gang is not None and not self.state.gangs[ask.gang].satisfied

    def _plain(self, leaf: LeafView, app: ViewApp, now_us: int) -> Iterator[tuple[AskOrder, Ask]]:
        """Give for each shape the first ask that stands for itself and may take something."""
        for bit in bits_of(app.mask & self.shapes(leaf)):

            def accepts(ask: Ask, bit: int = bit) -> bool:
                return (
                    self.alike(leaf, ask, bit) not in self._in_vain
                    and not self._is_member(ask)
                    and not self._is_loser_in_vain(app, ask)
                    and self.is_ready(app, ask, now_us)
                )

            first = app.first_of(bit, accepts)
            if first is not None:
                yield first

    def _is_loser_in_vain(self, app: ViewApp, ask: Ask) -> bool:
        in_vain = self._losers_in_vain
        return bool(in_vain) and alike(app.identity.key, ask) in in_vain

    def _members(self, app: ViewApp, seen: set[str]) -> Iterator[tuple[AskOrder, Ask]]:
        """Give the first member of each gang whose group may take something for all it lacks."""
        for name, slot in app.slots.items():
            gang = self.state.gangs[name]
            if name in seen or gang.satisfied or not gang.missing:
                continue
            group = self.state.gang_index.group_of(gang)
            first = slot.first()
            if first is None or not group.may_complete() or group.names in self._groups_in_vain:
                continue
            yield slot.order_of(first), first
