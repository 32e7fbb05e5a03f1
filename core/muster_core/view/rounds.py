"""The rounds: which ask is placed next, and where (ROUND-9 to ROUND-15).

A round searches for the first ask in order that could be placed, instead of trying every ask: an
ask that fits nowhere changes nothing, and free room only shrinks during a round. The exception is a
round in which gang members may release nodes that they have held since before the round, or in
which a node that a node service keeps may be open to others again. Such a round is *exact*: it
tries every ask in its turn, and remembers which asks were tried before there was more room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, final

from muster_core.owners.asks import Ask
from muster_core.owners.gang import CommitGang, MemberKey
from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.decisions import Decision, Kind
from muster_core.view.commits import OwnerCommits
from muster_core.view.deadlocks import Deadlocks
from muster_core.view.eviction.evictor import Evictor
from muster_core.view.facts import LastRoundFacts
from muster_core.view.gang_index import Defined
from muster_core.view.gangs import ViewGroup
from muster_core.view.node_finder import NodeFinder
from muster_core.view.permits import Permits
from muster_core.view.placements import Placements, ask_decision
from muster_core.view.reservations.backfill import AskFilter
from muster_core.view.reservations.reservations import Reservations, reservation_facts
from muster_core.view.reservations.search import StartForecast
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import VISIT, ParentView, ViewQueue

STEPS: Final = 16
"""How many asks are tried before the caller may do other work."""

Decided = list[Decision] | None
"""The decisions of one step of the rounds; None is a pause, as in all other steps."""


@final
class Rounds:
    """Runs rounds on the view."""

    def __init__(self, state: ViewState) -> None:
        self._state, self._nodes = state, state.nodes
        self._placements = Placements(state)
        #: Finds nodes for pending asks.
        self.finder = NodeFinder(state, self._list_apps)
        #: What the last round has reserved.
        self.reservations = Reservations(state, self.finder)
        self._in_force = self.reservations.in_force
        self._repeats = self.reservations.repeats
        #: What happened to gang members in the last round.
        self.permits = Permits(state, self._placements, self.finder, self.reservations)
        self._hiding = AskFilter(
            state, self._placements, self._in_force, self.reservations.backfilling
        )
        #: Says when asks could start.
        self.forecast = StartForecast(state, self._placements)
        self._evictor = Evictor(state, self._placements, self.permits, self.finder)
        self._deadlocks = Deadlocks(state, self._placements, self.permits, self.finder)
        #: The changes so far at the end of the last batch.
        self._settled: tuple[int, ...] = ()
        #: Whether there are scopes, or reservations to forget, in this batch.
        self._reserves = False
        #: How many asks were tried on a node, and how many leaves were found blocked, so far.
        self.steps = 0

    def _list_apps(self) -> None:
        self._placements.list_apps()

    def decide(self, now_us: int, *, is_new: bool) -> Iterator[Decided]:
        """Run rounds until one changes nothing, then reclaim, preempt and resolve deadlocks.

        Each eviction, and each resolved deadlock, is followed by rounds again.

        Args:
            now_us: The instant of the batch, in microseconds.
            is_new: Whether there was an event since the last batch.

        Yields:
            The decisions of each step, or None if there are none; between two steps the caller
            may do other work, but must not touch the view.
        """
        state = self._state
        yield from self._catch_up()
        if state.back_offs or state.delays.aging:
            yield from state.pass_time(now_us)
        self._evictor.start_batch(is_new=is_new)
        if self._has_nothing_to_do():
            return
        changed = state.gang_index.take_changed()
        kept_nodes = state.kept_nodes
        while True:
            kept_nodes.settle()
            # ROUND-2, ROUND-7
            yield from self._rounds(changed, now_us)
            changed = []
            # SERVICE-11
            if kept_nodes and kept_nodes.settle():
                continue
            taken = yield from self._evictor.take(now_us)
            # EVICTION-2
            if taken:
                yield taken
                continue
            # DEADLOCK-2
            decisions, helped = yield from self._deadlocks.resolve(now_us)
            if decisions:
                yield decisions
            # DEADLOCK-11
            if not helped:
                break
        yield from self._catch_up()
        self._end_round()
        self._settled = self._changes_so_far()

    # SHARE-4, SHARE-17
    def _catch_up(self) -> Steps[None]:
        """Apply changes that affect the order of many queues, between the batches."""
        state = self._state
        if state.settings_changed or state.nodes.total != state.total or state.divisions.stale:
            yield from state.catch_up()
        if state.delays.stale:
            yield from state.delays.refresh()
            yield from state.timers.protections.refresh()

    def _changes_so_far(self) -> tuple[int, ...]:
        """Return counts that stay the same as long as nothing changes on which rounds depend."""
        state = self._state
        return state.nodes.changes, state.gang_index.changes, state.moves, state.reconfigured

    def _has_nothing_to_do(self) -> bool:
        """Return whether no ask can be placed or evicted, without a look at each leaf.

        Most batches of a replayed trace only end an ask or a state of an application while nothing
        is pending that fits, or nothing has changed since the last batch. Where more decides about
        that, such as gangs or the time, this does not say so.
        """
        state = self._state
        if (
            state.gangs
            or state.gang_index.stale
            or state.failing
            or state.back_offs
            or state.kept_nodes
            or state.may_evict
            or state.learned.is_due
            or not self.reservations.are_idle
        ):
            return False
        self._placements.list_apps()
        state.refresh()
        root = state.root
        fits = root.open & state.nodes.fitting or root.visiting
        return not state.claimants and (not fits or self._settled == self._changes_so_far())

    def _rounds(self, changed: list[ViewGroup], now_us: int) -> Iterator[Decided]:
        """Run rounds until one changes nothing, or returns to a state where a round has begun."""
        # BACKFILL-23
        self._reserves = not self.reservations.are_idle
        would_repeat = self._reserves and self._repeats.would_repeat(now_us)
        if would_repeat and not (changed or self.permits.has_second_tries):
            self._in_force.now_us = now_us
            return
        seen_states = self._placements.seen_states
        yield from seen_states.start_anew()
        # ROUND-6
        again = True
        while again:
            self._start_round(now_us)
            before = self._repeats.changes_so_far() if self._reserves else ()
            decisions = self.permits.bind_complete(changed, now_us)
            if decisions:
                yield decisions
            changed = []
            yield from self._round(now_us)
            # ROUND-5
            again = self._placements.failed or not (self._is_settled() or seen_states.knows_this())
            if self._reserves:
                self._in_force.end_round()
                self._repeats.end_round(before)
            # ROUND-6
            if self._placements.failed:
                yield from seen_states.start_anew()
        self._end_round()

    # ROUND-5
    def _is_settled(self) -> bool:
        """Return whether another round is sure to do nothing.

        A round ends when no untried ask fits. The next round differs only in the asks that
        failed in this one, and in what gang members hold.
        """
        placements = self._placements
        return not (self._state.gangs or placements.has_tried or self.permits.blocked)

    def _round(self, now_us: int) -> Iterator[Decided]:
        state = self._state
        kept_nodes, opening = state.kept_nodes, False
        # SERVICE-11
        if kept_nodes:
            kept_nodes.settle()
            opening = kept_nodes.may_open()
        # ROUND-10
        must_be_exact = opening or self.permits.must_be_exact()
        ordered = self._reserves and state.scopes.have_pending()
        self._set_exact(exact=must_be_exact or ordered)
        if self._reserves:
            self._hiding.start(active=ordered and not must_be_exact)
        state.refresh()
        state.gang_shapes.refresh()
        self.permits.judge(exact=state.exact)
        decisions: list[Decision] = []
        tried, numbers, root = 0, state.numbers, state.root
        nodes, gang_shapes = state.nodes, state.gang_shapes
        # ORDER-3, ROUND-10
        while True:
            state.refresh()
            if ordered:
                self._hiding.refresh()
            fitting = nodes.fitting | gang_shapes.fitting
            if not (root.open & fitting or root.visiting):
                break
            decisions += self._step(root, fitting, now_us)
            # SERVICE-11
            if opening:
                kept_nodes.end_without_headroom()
            self.steps += 1
            tried += 1
            # A gang counts with all its members, though it may have been tried in vain.
            if tried == STEPS or state.numbers - numbers >= STEPS:
                yield decisions
                decisions = []
                tried, numbers = 0, state.numbers
        if decisions:
            yield decisions

    def _start_round(self, now_us: int) -> None:
        # DEVICE-18
        state = self._state
        if state.learned.take(state.nodes.weights):
            state.nodes.learn(state.learned.taken)
        if self._reserves:
            self._in_force.start_round(now_us)
        self.permits.start_round()
        self._placements.seen_states.start_round()

    def _end_round(self) -> None:
        if self._reserves:
            self._hiding.end()
        self.permits.end_round()
        self._set_exact(exact=False)
        self._state.refresh()

    def _set_exact(self, exact: bool) -> None:
        state = self._state
        if exact != state.exact:
            state.exact = exact
            state.dirty.update(state.queues)
            for app in state.user_limits.restrict_all(exact=exact):
                if app.mask != app.listed:  # most offer what they did
                    state.list_app(app)

    # ROUND-9
    def _step(self, queue: ViewQueue, mask: int, now_us: int) -> list[Decision]:
        """Try the best ask of a queue, given the mask of the shapes that have room."""
        state, entering = self._state, EVERY_SHAPE
        while type(queue) is ParentView:  # quicker than isinstance() for an abstract class
            mask &= queue.open
            entering &= queue.admits
            queue = queue.first(mask, entering)
        assert type(queue) is LeafView, "a queue is a parent or a leaf"
        chosen = queue.choose(EVERY_SHAPE if state.exact else (mask & queue.open) | VISIT)
        if chosen is None:
            self.permits.block(queue)
            return []
        app, bit, ask = chosen
        # GANG-49
        if ask.gang is not None and not state.gangs[ask.gang].satisfied:
            return self.permits.attempt(queue, app, ask, bit, now_us)
        return self._try_plain(queue, app, ask, bit, now_us)

    def _try_plain(
        self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, now_us: int
    ) -> list[Decision]:
        exact = self._state.exact
        # LIMIT-9
        is_allowed = not exact or app.is_within_limits(ask)
        # ORDER-4
        node = None
        if not exact or (is_allowed and leaf.has_room(ask)):
            # Most asks have no gang, and take the first node without one more call.
            if ask.gang is None:
                node = self._nodes.find(bit)
            if ask.gang is not None or (node is not None and node.kept):
                node = self.finder.find(leaf, app, ask, bit)
            # BACKFILL-24
            if node is not None and self._in_force.reservations:
                node = self.reservations.backfilling.find_node(leaf, app, ask, bit)
        if node is None:
            assert exact or ask.gang is not None, "chose an ask that fits no node"
            # ROUND-12
            self._placements.tried(app, ask, bit)
            # LIMIT-10
            if is_allowed:
                self.permits.block_behind(leaf)
            self._placements.list_apps()
            # BACKFILL-15
            if self._reserves and is_allowed:
                self._state.refresh()
                self.reservations.seeking.seek(leaf, app, ask)
            return []
        # ROUND-14
        if app.spoilt and ask.name in app.spoilt:
            devices = self._state.nodes.devices_for(node, ask.shape)
            assigned = ask_decision(Kind.ASSIGNED, leaf, app, ask, node.name, devices=devices)
            decisions = [assigned, self._placements.fail(leaf, app, ask, bit, node, now_us)]
        else:
            decisions = self._placements.assign(leaf, app, ask, bit, node, now_us)
        if node.kept:
            self._state.kept_nodes.end(app, ask)
        self._placements.list_apps()
        return decisions

    # CHECKPOINT-4
    def facts(self) -> Steps[LastRoundFacts]:
        """Return the facts that the last round leaves. Between two batches."""
        failed: list[tuple[int, str, str]] = []
        why: list[tuple[int, str, str]] = []
        for piece in in_pieces(self._state.apps.items()):
            yield
            for key, app in piece:
                for name, node, message in app.last_failures():
                    failed.append((key, name, node))
                    if message is not None:
                        why.append((key, name, message))
        return LastRoundFacts(
            was_exact=self.permits.was_exact,
            failures=self.permits.facts(),
            hopeless=self._state.gang_index.hopeless(),
            failed_on=tuple(failed),
            failed_with=tuple(why),
            reservations=reservation_facts(self._in_force.reservations),
        )

    # CHECKPOINT-5
    def load(self, facts: LastRoundFacts, now_us: int) -> Steps[None]:
        """Take over what the last round left, and bring the view up to date."""
        state = self._state
        why = {(key, name): message for key, name, message in facts.failed_with}
        for piece in in_pieces(facts.failed_on):
            yield
            for key, name, node in piece:
                ask = state.apps[key].find(name)
                assert ask is not None, "an ask whose bind has failed is gone"
                state.apps[key].failed_on[name] = ask, node, why.get((key, name))
        for apps in in_pieces((yield from state.gang_index.load(facts.hopeless))):
            yield
            for app in apps:
                state.list_app(app)
        self.permits.load(facts.failures, was_exact=facts.was_exact)
        self.reservations.load(facts.reservations, now_us)
        yield from state.catch_up()
        yield from state.find_limits()
        self._placements.list_apps()
        state.refresh()

    def settle_cycles(self) -> dict[int, CommitGang]:
        """Find the cycles that the last round left invalid; return what owners do not know yet."""
        self.permits.invalidate_left_out()
        return self._placements.commits.commit_cycles()

    def without_detours(self, decisions: deque[Decision]) -> deque[Decision]:
        """Remove from a batch's decisions what the batch undid and the log need not contain."""
        return self._evictor.evictions.without_detours(decisions)

    def commits(self, now_us: int, reported: dict[int, int]) -> Steps[OwnerCommits]:
        """End the batch; return its commit for each owner concerned.

        Args:
            now_us: The instant of the batch, in microseconds.
            reported: The applications that queues do not know of yet, with their leaves; it is
                emptied.
        """
        # QUOTA-2
        over_max = self._state.timers.over_max
        if over_max:
            over_max.end_batch(now_us)
        recorded = self._placements.commits
        if not (reported or recorded.has_any):
            return {}, {}, {}
        commits = yield from recorded.commits(now_us, reported)
        yield from self._placements.seen_states.start_anew()
        yield from self._state.timers.tidy()
        return commits

    # ONCE-4
    def report_leaving(self, leave: Callable[[str, MemberKey], Defined]) -> None:
        """Report members that leave to a registry from now on; it returns the definition of a gang."""
        self._state.gang_index.leave = leave

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        self._evictor.check()
