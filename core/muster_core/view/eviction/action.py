"""The two means of taking something from others: reclaim and preemption (RECLAIM-1, PREEMPTION-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from typing_extensions import override

from muster_core.structures.shapes import bits_of
from muster_core.view.eviction.claims import PreemptionEligibility, ReclaimEligibility, claimant_of
from muster_core.view.eviction.preemptors import AlikeAsks, EvictionAction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Eligibility
    from muster_core.view.eviction.victim_index import VictimIndex
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView


@final
class Reclaim(EvictionAction):
    """Reclaim: queues that have less than they are guaranteed.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        #: The leaves and the queues above that have a claim there, for which nobody has anything.
        self._without: set[tuple[int, int]] = set()

    @override
    def nobody(self, app: ViewApp, ask: Ask) -> None:
        leaf = self.state.leaf_of(app)
        claimant = claimant_of(leaf, ask)
        if claimant is not None:
            self._without.add((leaf.key, claimant.key))

    @override
    def _forget(self) -> None:
        self._without.clear()

    @override
    def leaves(self) -> Iterable[LeafView]:
        found: dict[int, LeafView] = {}
        for queue in self.state.claimants.values():
            if queue.pending:
                for leaf in self.state.leaves_below(queue):
                    found[leaf.key] = leaf
        return [leaf for leaf in found.values() if self.claimed(leaf)]

    @staticmethod
    def claimed(leaf: LeafView) -> int:
        """Give the pending shapes of a leaf for which some queue above has a claim."""
        mask = 0
        for queue in leaf.upward():
            mask |= queue.claims
        return mask & leaf.pending_mask

    @override
    def shapes(self, leaf: LeafView) -> int:
        mask = 0
        for bit in bits_of(self.claimed(leaf)):
            if leaf.slots or (
                (leaf.key, bit, 0, "") not in self._in_vain and not self._is_without(leaf, bit)
            ):
                mask |= 1 << bit
        return mask

    def _is_without(self, leaf: LeafView, bit: int) -> bool:
        if not self._without:
            return False
        claimant = next(queue for queue in leaf.upward() if queue.claims >> bit & 1)
        return (leaf.key, claimant.key) in self._without

    @override
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        claimant = claimant_of(self.state.leaf_of(app), ask)
        if claimant is None:
            return None
        return ReclaimEligibility(self.state, app, ask, self.exempt(ask), claimant)

    @override
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        return (leaf.key, bit, 0, ask.gang or "")

    @override
    def may(self, ask: Ask) -> bool:
        return True


@final
class Preemption(EvictionAction):
    """Priority preemption: asks whose class lets them take the place of lower ones.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        #: No ask of this priority or a lower one can take anything; None if that is not known.
        self._least: int | None = None
        #: The same of single leaves.
        self._leasts: dict[int, int] = {}

    @override
    def nobody(self, app: ViewApp, ask: Ask) -> None:
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
        """Say whether priorities are compared as they are, wherever asks stand."""
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
                (leaf.key, bit, priority, gang) not in self._in_vain
            ):
                mask |= 1 << bit
        return mask

    @override
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        return PreemptionEligibility(self.state, app, ask, self.exempt(ask))

    @override
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        return (leaf.key, bit, ask.priority, ask.gang or "")

    @override
    def may(self, ask: Ask) -> bool:
        return ask.preempts
