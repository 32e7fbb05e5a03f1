"""The eviction actions, reclaim and preemption: which asks may evict others, and whom.

EVICTION-8 to EVICTION-11. A preemptor is an ask that did not fit and may evict others now. The
order is that of the rounds, with overused queues. Asks of one leaf that need the same of a node are
not searched one by one: if there is no plan for the first, there is none for the others until
something has changed.

Reclaim (RECLAIM-1 to RECLAIM-12), after Volcano's queue priority and YuniKorn's guaranteed
resources: a queue below what it deserves gets resources back. Priority preemption (PREEMPTION-1
to PREEMPTION-9), after YuniKorn's priority offsets and fences: an ask whose class allows it evicts
asks of lower priority.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import final

from typing_extensions import override

from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.shapes import bits_of
from muster_core.structures.steps import Steps
from muster_core.values.decisions import Reason
from muster_core.values.resources import Resources
from muster_core.view.eviction.eligibility import (
    Eligibility,
    Key,
    LeafRelation,
    Losses,
    Rank,
    fence_of,
)
from muster_core.view.eviction.search import VictimIndex
from muster_core.view.eviction.victims import Victim
from muster_core.view.gangs import ViewGroup
from muster_core.view.state.delays import Delays
from muster_core.view.state.history import Alike, alike
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue

Preemptor = tuple["ViewApp", "Ask"]

AlikeAsks = tuple[int, int, int, str]
"""What asks share that have the same plans: leaf, shape, priority if it counts, gang."""


class EvictionAction(ABC):
    """A way to evict others: reclaim or preemption."""

    def __init__(self, state: ViewState) -> None:
        self.state = state
        #: The asks without a plan in the current state, and the groups.
        self._without_plan: set[AlikeAsks] = set()
        self._groups_without_plan: set[tuple[str, ...]] = set()
        #: Former preemptors without a plan that were evicted; other asks may have a plan.
        self._losers_without_plan: set[Alike] = set()
        self._known: tuple[int, ...] = ()

    def prepare(self, victim_index: VictimIndex, now_us: int) -> Steps[None]:
        """Find which asks are sure to have no victims."""
        yield from ()

    @abstractmethod
    def note_without_victims(self, app: ViewApp, ask: Ask) -> None:
        """Record that an ask has no victims, for any resources."""

    @abstractmethod
    def leaves(self) -> Iterable[LeafView]:
        """Return the leaves that may have preemptors."""

    @abstractmethod
    def shapes(self, leaf: LeafView) -> int:
        """Return the shapes of a leaf that may have a plan, as far as known."""

    @abstractmethod
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        """Return which asks can be victims for a pending ask, or None if there are none.

        The caller has checked the delay and the settings of the leaf.
        """

    @abstractmethod
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        """Return the key that an ask shares with asks that have the same plans."""

    def may(self, ask: Ask) -> bool:
        """Return whether this way of eviction is open to an ask."""
        return True

    def is_ready(self, app: ViewApp, ask: Ask, now_us: int) -> bool:
        """Return whether a pending ask may evict at an instant, in microseconds."""
        leaf = self.state.leaf_of(app)
        return leaf.watches(ask) and self.may(ask) and Delays.is_over(leaf, app, ask, now_us)

    # EVICTION-49
    def note_without_plan(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Record that there is no plan for an ask and its equals."""
        if self.state.eviction_history.has_lost(app.identity.key, ask):
            self._losers_without_plan.add(alike(app.identity.key, ask))
        else:
            self._without_plan.add(self.alike(self.state.leaf_of(app), ask, bit))

    def note_group_without_plan(self, group: ViewGroup) -> None:
        """Record that there is no plan for a group."""
        self._groups_without_plan.add(group.names)

    def start_batch(self) -> None:
        """Forget which groups had no plan; the delay of another member may be over."""
        self._groups_without_plan.clear()

    # EVICTION-11
    def _forget_if_changed(self) -> None:
        now = changes_so_far(self.state)
        if self._known != now:
            self._known = now
            self._without_plan.clear()
            self._groups_without_plan.clear()
            self._losers_without_plan.clear()
            self._forget()

    @abstractmethod
    def _forget(self) -> None:
        """Forget which asks have no victims, since something has changed."""

    def preemptors(self, now_us: int) -> Iterator[Preemptor | None]:
        """Iterate over the asks that may evict, in order; None is a pause of the search.

        Asks that turn out to have no plan meanwhile are left out. A gang group is represented by
        its first member.
        """
        self._forget_if_changed()
        leaves = {leaf.key: leaf for leaf in self.leaves() if self._may_have(leaf, now_us)}
        if any(leaf.slots for leaf in leaves.values()):
            leaves |= self._with_groups(leaves)
        wanted = {queue.key for leaf in leaves.values() for queue in leaf.upward()}
        if wanted:
            yield from self._below(self.state.root, wanted, now_us)

    def _may_have(self, leaf: LeafView, now_us: int) -> bool:
        if leaf.watched is None or not leaf.since or not self._is_open(leaf):
            return False
        return min(leaf.since) + leaf.config.settings.preemption_delay_us <= now_us

    def _is_open(self, leaf: LeafView) -> bool:
        """Return whether some ask of a leaf may have a plan, as far as known."""
        return leaf.slots > 0 or self.shapes(leaf) != 0

    # EVICTION-38
    def _with_groups(self, leaves: Mapping[int, LeafView]) -> dict[int, LeafView]:
        """Return all leaves of the groups that have members in these leaves.

        A group has its turn with the first of its members, whichever of them needs victims.
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

    # EVICTION-10
    def _below(self, queue: ViewQueue, wanted: set[int], now_us: int) -> Iterator[Preemptor | None]:
        # BACKFILL-6
        if self.state.scopes and self.state.scopes.is_strict(queue):
            first_of = first_in_order(self.state, queue)
            if first_of is not None and first_of[0].key in wanted:
                leaf, app, ask = first_of
                yield from self._of_app(leaf, app, now_us, only=ask)
        elif isinstance(queue, ParentView):
            for child in queue.in_turn(wanted, self.state.total):
                yield from self._below(child, wanted, now_us)
        elif isinstance(queue, LeafView):
            # EVICTION-8
            for app in queue.competing():
                yield None
                if not self._is_open(queue):
                    return
                # EVICTION-9
                first = first_of_all(self.state, app) if queue.config.settings.blocking else None
                yield from self._of_app(queue, app, now_us, only=first)
                if first is not None:
                    return

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

    # EVICTION-40
    def _is_member(self, ask: Ask) -> bool:
        return ask.gang is not None and not self.state.gangs[ask.gang].satisfied

    def _plain(self, leaf: LeafView, app: ViewApp, now_us: int) -> Iterator[tuple[AskOrder, Ask]]:
        """Return for each shape the first ask without an unsatisfied gang that may evict."""
        for bit in bits_of(app.mask & self.shapes(leaf)):

            def accepts(ask: Ask, bit: int = bit) -> bool:
                return (
                    self.alike(leaf, ask, bit) not in self._without_plan
                    and not self._is_member(ask)
                    and not self._is_loser_without_plan(app, ask)
                    and self.is_ready(app, ask, now_us)
                )

            first = app.first_of(bit, accepts, partial(leaf.order_of, app))
            if first is not None:
                yield first

    def _is_loser_without_plan(self, app: ViewApp, ask: Ask) -> bool:
        losers = self._losers_without_plan
        return bool(losers) and alike(app.identity.key, ask) in losers

    # EVICTION-8, EVICTION-38
    def _members(self, app: ViewApp, seen: set[str]) -> Iterator[tuple[AskOrder, Ask]]:
        """Return the first member of each gang whose group may evict for its missing members."""
        for name, slot in app.slots.items():
            gang = self.state.gangs[name]
            if name in seen or gang.satisfied or not gang.missing:
                continue
            group = self.state.gang_index.group_of(gang)
            first = slot.first()
            # EVICTION-39
            if (
                first is None
                or not group.lacks_only_nodes()
                or group.names in self._groups_without_plan
            ):
                continue
            yield slot.order_of(first), first


# EVICTION-9
def first_of_all(state: ViewState, app: ViewApp) -> Ask | None:
    """Return the first pending ask of an application that neither PreFilter nor a limit refuses."""
    # LIMIT-10
    # BACKOFF-8
    asks = (ask for ask in app.pending.values() if app.is_within_limits(ask))
    return min(
        (ask for ask in asks if not is_refused(state, ask)),
        key=partial(state.leaf_of(app).order_of, app),
        default=None,
    )


# BACKFILL-6
def first_in_order(state: ViewState, queue: ViewQueue) -> tuple[LeafView, ViewApp, Ask] | None:
    """Return the first ask below a queue that neither PreFilter nor a limit refuses.

    Args:
        state: The view.
        queue: The queue, which may be a leaf itself.
    """
    if isinstance(queue, ParentView):
        pending = {child.key for child in queue.children.values() if any(child.pending)}
        firsts = (first_in_order(state, child) for child in queue.in_turn(pending, state.total))
        return next((first for first in firsts if first is not None), None)
    assert isinstance(queue, LeafView), "a queue is a parent or a leaf"
    for app in queue.competing():
        ask = first_of_all(state, app)
        if ask is not None:
            return queue, app, ask
    return None


def is_refused(state: ViewState, ask: Ask) -> bool:
    """Return whether PreFilter refuses a pending ask when a round begins."""
    return ask.gang is not None and state.gangs[ask.gang].is_refused()


# EVICTION-11
def changes_so_far(state: ViewState) -> tuple[int, ...]:
    """Return counts that stay the same as long as no search for a plan could find another one."""
    return (
        state.nodes.changes,
        state.reconfigured,
        state.gang_index.changes,
        state.eviction_history.changes,
        state.divisions.changes,
        # RUNTIME-4
        state.timers.protections.over,
    )


# EVICTION-18
def exempt_gangs(state: ViewState, ask: Ask) -> frozenset[str]:
    """Return the gangs whose members are no victims for an ask: the gangs of its group.

    This holds even if the ask's gang is satisfied: otherwise the ask could leave its own gang
    incomplete.
    """
    if ask.gang is None:
        return frozenset()
    group = state.gang_index.group_of(state.gangs[ask.gang])
    return frozenset(gang.name for gang in group.gangs)


@final
class Reclaim(EvictionAction):
    """Reclaim: evictions for queues below their deserved amounts."""

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        #: The leaves and their claimants for which no leaf has a victim.
        self._without_victims: set[tuple[int, int]] = set()

    @override
    def note_without_victims(self, app: ViewApp, ask: Ask) -> None:
        leaf = self.state.leaf_of(app)
        claimant = claimant_of(leaf, ask)
        if claimant is not None:
            self._without_victims.add((leaf.key, claimant.key))

    @override
    def _forget(self) -> None:
        self._without_victims.clear()

    @override
    def leaves(self) -> Iterable[LeafView]:
        found: dict[int, LeafView] = {}
        for queue in self.state.claimants.values():
            if any(queue.pending):
                for leaf in self.state.leaves_below(queue):
                    found[leaf.key] = leaf
        return [leaf for leaf in found.values() if self.claimed(leaf)]

    @staticmethod
    def claimed(leaf: LeafView) -> int:
        """Return the pending shapes of a leaf for which it, or a queue above it, may reclaim."""
        mask = 0
        for queue in leaf.upward():
            mask |= queue.claims
        return mask & leaf.pending_mask

    @override
    def shapes(self, leaf: LeafView) -> int:
        mask = 0
        for bit in bits_of(self.claimed(leaf)):
            if leaf.slots or (
                (leaf.key, bit, 0, "") not in self._without_plan
                and not self._is_without_victims(leaf, bit)
            ):
                mask |= 1 << bit
        return mask

    def _is_without_victims(self, leaf: LeafView, bit: int) -> bool:
        if not self._without_victims:
            return False
        claimant = next(queue for queue in leaf.upward() if queue.claims >> bit & 1)
        return (leaf.key, claimant.key) in self._without_victims

    @override
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        claimant = claimant_of(self.state.leaf_of(app), ask)
        if claimant is None:
            return None
        return ReclaimEligibility(self.state, app, ask, exempt_gangs(self.state, ask), claimant)

    @override
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        return (leaf.key, bit, 0, ask.gang or "")


@final
class ReclaimEligibility(Eligibility):
    """The asks that can be victims of reclaim.

    Args:
        exempt: The gangs whose members are no victims.
        claimant: The queue below its deserved amounts.
    """

    reason = Reason.RECLAIMED

    def __init__(
        self,
        state: ViewState,
        app: ViewApp,
        ask: Ask,
        exempt: frozenset[str],
        claimant: ViewQueue,
    ) -> None:
        super().__init__(state, app, ask, exempt)
        self._claimant = claimant
        # RECLAIM-6
        self.fence = fence_of(claimant)
        self.relation = (self.leaf.key, claimant.key)

    # RECLAIM-5, RECLAIM-7
    @override
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        return common.depth < self._claimant.depth and leaf.config.settings.reclaimable

    @override
    def deserves(self, side: LeafRelation, victim: Victim, losses: Losses) -> bool:
        deserved, resources = side.leaf.deserved, victim.allocation.ask.resources
        if not deserved:  # The leaf has every type that the victim has.
            return bool(resources)
        return any(
            amount and losses.left(side.leaf, name) > deserved[name]
            for name, amount in resources.items()
        )

    @override
    def why(self, victim: Victim) -> str:
        path = self._claimant.config.path
        # SHARE-16
        least = "what it deserves" if self._claimant.by_weight else "its guaranteed"
        return f"for {self.app.identity.name}/{self.ask.name}: {path} is below {least}"


# RECLAIM-4
def claimant_of(leaf: LeafView, ask: Ask) -> ViewQueue | None:
    """Return the nearest queue above an ask that may reclaim for it, or None."""
    for queue in leaf.upward():
        if queue.parent is not None and _deserves(queue, ask.resources):
            return queue
    return None


def _deserves(queue: ViewQueue, resources: Resources) -> bool:
    """Return whether a queue deserves these amounts beside those that it has."""
    deserved = queue.deserved
    # RECLAIM-1, SHARE-14
    named = [name for name in resources if queue.by_weight or deserved[name]]
    # RECLAIM-2, RECLAIM-3
    return bool(named) and all(
        queue.used(name) + resources[name] <= deserved[name] for name in named
    )


@final
class Preemption(EvictionAction):
    """Priority preemption: evictions for asks whose class allows it."""

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        #: Asks of this priority or a lower one have no victims; None if that is unknown.
        self._least: int | None = None
        #: The same for single leaves, by key.
        self._leasts: dict[int, int] = {}

    @override
    def note_without_victims(self, app: ViewApp, ask: Ask) -> None:
        leaf = app.identity.leaf
        self._leasts[leaf] = max(ask.priority, self._leasts.get(leaf, ask.priority))

    @override
    def _forget(self) -> None:
        self._leasts.clear()

    @override
    def prepare(self, victim_index: VictimIndex, now_us: int) -> Steps[None]:
        self._least = None
        leaves = self.state.preempting.values()
        if any(self._may_have(leaf, now_us) for leaf in leaves) and self._compares_plainly():
            yield from victim_index.refresh()
            yield from victim_index.look()
            self._least = victim_index.lowest()

    def _compares_plainly(self) -> bool:
        """Return whether priorities are compared unchanged in all queues."""
        settings = (queue.config.settings for queue in self.state.queues.values())
        return not any(one.offset or one.fence for one in settings)

    @override
    def leaves(self) -> Iterable[LeafView]:
        return list(self.state.preempting.values())

    @override
    def shapes(self, leaf: LeafView) -> int:
        mask, least = 0, self._leasts.get(leaf.key, self._least)
        for bit, priority, gang in leaf.preempting:
            if (least is None or priority > least) and (
                (leaf.key, bit, priority, gang) not in self._without_plan
            ):
                mask |= 1 << bit
        return mask

    @override
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        return PreemptionEligibility(self.state, app, ask, exempt_gangs(self.state, ask))

    @override
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        return (leaf.key, bit, ask.priority, ask.gang or "")

    # PREEMPTION-1, PREEMPTION-2
    @override
    def may(self, ask: Ask) -> bool:
        return ask.preempts


@final
class PreemptionEligibility(Eligibility):
    """The asks that can be victims of priority preemption.

    Args:
        exempt: The gangs whose members are no victims.
    """

    reason = Reason.PREEMPTED
    ranks_by_priority = True

    def __init__(self, state: ViewState, app: ViewApp, ask: Ask, exempt: frozenset[str]) -> None:
        super().__init__(state, app, ask, exempt)
        # PREEMPTION-3, PREEMPTION-7
        self.fence = fence_of(self.leaf)
        self.relation = self.leaf.key

    # PREEMPTION-8
    @override
    def key(self, side: LeafRelation, victim: Victim, losses: Losses) -> Key:
        return ((side.effective(victim.place[0]),), 0.0, 0, victim.place[1])

    # PREEMPTION-9
    @override
    def floor(self, side: LeafRelation, lowest: int) -> Rank:
        return (side.effective(lowest),)

    # PREEMPTION-4
    @override
    def is_beyond(self, side: LeafRelation, priority: int) -> bool:
        return side.effective(priority) >= side.worth(self.ask.priority)

    @override
    def sorts_by_priority(self, side: LeafRelation) -> bool:
        return side.fixed is None

    @override
    def why(self, victim: Victim) -> str:
        side = self.side(victim.app.identity.leaf)
        assert side is not None, "a victim that cannot be one"
        worth, theirs = side.worth(self.ask.priority), side.effective(victim.place[0])
        name = f"{self.app.identity.name}/{self.ask.name}"
        return f"for {name}: its effective priority {worth} is above {theirs}"
