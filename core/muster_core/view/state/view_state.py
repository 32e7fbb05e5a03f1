"""The state of the view, and how everything computed from it is kept up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Final, final

from muster_core.gangs import GangState, GangTrigger
from muster_core.nodes.domains import Domains
from muster_core.nodes.node import Node
from muster_core.nodes.node_index import NodeIndex
from muster_core.owners.asks import Allocation, Ask
from muster_core.structures.shapes import Shape, ShapeTable
from muster_core.structures.steps import SIZE, Steps, freed, in_pieces
from muster_core.values.application_states import AppState
from muster_core.view.gang_index import GangIndex, GangShapes
from muster_core.view.gangs import Hold, ViewGang
from muster_core.view.state.delays import Delays
from muster_core.view.state.divisions import Divisions
from muster_core.view.state.history import DeviceDemand, EvictionHistory, KeptNodes
from muster_core.view.state.queue_settings import Scopes, UserLimits
from muster_core.view.state.timers import BackOffs, Timers
from muster_core.view.tree.aging import AgingOrder, as_it_came
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Slot
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView, ViewQueue

_FEW: Final = 32
"""Below this number of asks, counting each is quicker than counting groups of equal ones."""

ROOT_KEY: Final = 1
"""The key of the root queue, which is created first."""


@final
class ViewState:
    """The nodes, queues, applications and gangs as the coordinator knows them.

    :mod:`muster_core.view.state.intake` applies the owners' reports,
    :mod:`muster_core.view.rounds` the decisions. Both mark the queues that they change;
    :meth:`refresh` then updates masks, priorities and positions at once.
    """

    def __init__(self) -> None:
        # Fewer than 30 attributes: CPython finds those of larger objects more slowly.
        self.shapes = ShapeTable()
        #: The nodes; the coordinator adds and removes them directly.
        self.nodes = NodeIndex(self.shapes)
        #: The limits of users and groups.
        self.user_limits = UserLimits(self.shapes)
        #: Every existing queue and application, by key.
        self.queues: dict[int, ViewQueue] = {}
        self.shapes.types.call_when_grown(self._lengthen_rows)
        self.apps: dict[int, ViewApp] = {}
        self.gang_shapes = GangShapes(self.shapes, self.nodes)
        # A method, not a local function, so that a copy of the state calls its own.
        self.gang_index = GangIndex(self.gang_shapes, Domains(self.nodes), self._is_blocking)
        #: Every gang that is defined or has members, by its full name.
        self.gangs = self.gang_index.gangs
        #: The applications with asks whose next binds will fail, by key.
        self.failing: dict[int, ViewApp] = {}
        #: Which asks are node services, and which of them keep their nodes.
        self.kept_nodes = KeptNodes(self.shapes, self.nodes, self.queues, self.gangs, self.apps)
        #: The leaves of which some asks are not tried in this round, by key.
        self.hiding: dict[int, LeafView] = {}
        #: Which asks may not overtake others.
        self.scopes = Scopes(self.queues)
        #: The amounts that queues deserve whose parents share by weight.
        self.divisions = Divisions(self.queues)
        #: The leaves with pending asks that may preempt, by key.
        self.preempting: dict[int, LeafView] = {}
        #: The queues that may reclaim for some shape, by key.
        self.claimants: dict[int, ViewQueue] = {}
        self.delays = Delays(self.queues)
        #: The asks with devices that came.
        self.learned = DeviceDemand()
        #: Which asks have evicted others.
        self.eviction_history = EvictionHistory()
        #: When asks are tried again whose binds have failed.
        self.back_offs = BackOffs(self.apps, self.queues)
        self.timers = Timers(self.apps, self.queues, self.gang_index, self.delays, self.back_offs)
        #: Increases whenever settings or totals have changed.
        self.reconfigured = 0
        #: The capacity of all nodes when shares were last computed.
        self.total: dict[str, int] = {}
        #: The queues that have changed since the last refresh.
        self.dirty: dict[int, ViewQueue] = {}
        #: The settings of some queue have changed since the last refresh.
        self.settings_changed = False
        #: The queues that are new in this batch, or whose priority has changed in it.
        self.touched: set[int] = set()
        #: The nodes of asks that arrived bound, by the number of the bind, until the owner reports.
        self.placing: dict[int, Node] = {}
        #: How many binds and waits there were so far.
        self.numbers = 0
        #: Goes up whenever an ask begins or ends to be pending, an application has another state,
        #: or anything else changes on which rounds depend, but nodes, gangs and settings.
        self.moves = 0
        #: Whether every ask is tried in its turn; see :mod:`muster_core.view.rounds`.
        self.exact = False

    @property
    def fitting(self) -> int:
        """The shapes that the nodes have room for, and at least the gang shapes that they do."""
        return self.nodes.fitting | self.gang_shapes.fitting

    @property
    def may_evict(self) -> bool:
        """Whether some pending ask may reclaim or preempt, or a queue has services or is over."""
        services, over = self.kept_nodes.leaves, self.timers.over_max.since
        return bool(self.claimants or self.preempting or services or over)

    @property
    def root(self) -> ViewQueue:
        """The root queue."""
        return self.queues[ROOT_KEY]

    def leaf_of(self, app: ViewApp) -> LeafView:
        """Return the leaf of an application."""
        leaf = self.queues[app.identity.leaf]
        assert type(leaf) is LeafView, "an application in a parent queue"
        return leaf

    def _is_blocking(self, app: ViewApp) -> bool:
        return self.leaf_of(app).config.settings.blocking

    def _lengthen_rows(self) -> None:
        for queue in self.queues.values():
            queue.lengthen()
        self.divisions.note_types()

    def leaves_below(self, queue: ViewQueue) -> Iterator[LeafView]:
        """Iterate over the leaves of a queue, which may be a leaf itself."""
        if isinstance(queue, LeafView):
            yield queue
        elif isinstance(queue, ParentView):
            for child in queue.children.values():
                yield from self.leaves_below(child)

    def catch_up(self) -> Steps[None]:
        """Apply changes that affect the order of many queues.

        These are settings, the total capacity, and what queues deserve by weight.
        """
        if not self.settings_changed and self.nodes.total == self.total:
            for queue in self._divide():
                if isinstance(queue, LeafView) and not queue.is_ordered(self.total):
                    yield from queue.reorder(self.total)
                self.dirty[queue.key] = queue
            return
        self.settings_changed = False
        self.total = dict(self.nodes.total)
        self.nodes.grown += 1
        self.reconfigured += 1
        self.divisions.note_settings()
        for queue in self.queues.values():
            queue.divisors = None
        for _ in self._divide():
            yield
        for queue in self.queues.values():
            if isinstance(queue, LeafView) and not queue.is_ordered(self.total):
                yield from queue.reorder(self.total)
        self.dirty = dict(self.queues)
        for piece in in_pieces(self._with_ancestors(self.dirty)):
            yield
            self._refresh(piece, self.dirty)
        self.timers.usages.note(self.dirty.values())
        self.dirty.clear()

    # USAGE-6
    def pass_to(self, now_us: int) -> None:
        """Bring usage up to date as a batch begins, and look at the order again if a tick has ended."""
        for queue in self.timers.usages.pass_to(now_us, self.total):
            self.dirty[queue.key] = queue
            self.moves += 1

    # SHARE-4
    def _divide(self) -> Iterator[ViewQueue]:
        """Find what queues deserve by weight; yield those for which that has changed."""
        for queue in self.divisions.update(self.total) if self.divisions.stale else ():
            self.moves += 1
            yield queue

    def find_limits(self) -> Steps[None]:
        """Find out for which limits applications count, and list those that may try others now."""
        limits = self.user_limits
        if limits.changed:
            yield from limits.find_again((app, self.leaf_of(app)) for app in self.apps.values())
        for piece in in_pieces(limits.refresh(exact=self.exact)):
            yield
            for app in piece:
                self.list_app(app)

    def list_app(self, app: ViewApp) -> None:
        """Update an application's position in its leaf."""
        leaf = self.leaf_of(app)
        leaf.list_app(app, self.total)
        self.dirty[leaf.key] = leaf

    def note_hidden(self, leaf: LeafView) -> None:
        """Record that asks of a leaf are hidden in this round."""
        self.hiding[leaf.key] = self.dirty[leaf.key] = leaf

    def show_all(self) -> None:
        """Let every ask be tried again."""
        while self.hiding:
            key, leaf = self.hiding.popitem()
            leaf.show()
            self.dirty[key] = leaf

    def forget_estimates(self) -> None:
        """Forget how long asks of leaves are expected to take, since bits of shapes have changed."""
        for queue in self.queues.values():
            if isinstance(queue, LeafView):
                queue.estimates = None

    def add_pending(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Add a pending ask whose shape has ``bit`` and is counted already."""
        self.moves += 1
        leaf = self.leaf_of(app)
        if leaf.aging is not None:
            ask = leaf.aging.enter(app, ask)
        if ask.gang is not None:
            gang = self.gang_index.touch(ask.gang)
            key = app.identity.key
            if key not in gang.slots:
                self._begin_slot(app, gang)
        app.add(ask, bit)
        if app.limits:
            self.user_limits.touch(app)
        leaf.count_shape(bit, 1)
        if leaf.estimates is not None:
            leaf.estimates.add(app, ask, bit)
        if ask.preempts:
            leaf.count_preempting(ask, bit, 1)
            self.preempting[leaf.key] = leaf
        if (ask.preempts or leaf.watched) and leaf.watches(ask):
            self.delays.add(leaf, app.pending_since_us(ask))

    def _begin_slot(self, app: ViewApp, gang: ViewGang) -> None:
        gang.slots[app.identity.key] = app.slots[gang.name] = Slot(app, gang.name, gang.creation)
        leaf = self.leaf_of(app)
        leaf.slots += 1

    def _end_slot_if_empty(self, leaf: LeafView, app: ViewApp, gang: ViewGang) -> None:
        if not app.slots[gang.name].members:
            self.gang_index.drop(app.slots[gang.name])
            del app.slots[gang.name], gang.slots[app.identity.key]
            leaf.slots -= 1

    def add_row(self, app: ViewApp, asks: Sequence[Ask]) -> None:
        """Add pending asks, and count their shapes.

        Counts equal shapes at once, unless an ask needs more than counting or there are few.
        """
        leaf = self.leaf_of(app)
        if app.limits:
            self.user_limits.touch(app)
        special = [ask for ask in asks if ask.gang or ask.preempts or ask.start_by_us is not None]
        is_plain, moves = not special, self.moves + 1
        if is_plain and self.scopes:
            self.scopes.note_new(app, asks)
            moves = self.moves
        if leaf.watched or leaf.estimates or not is_plain:
            for ask in asks:
                self.add_pending(app, ask, self._acquire(ask.shape, 1))
            for ask in special:
                self.timers.await_start(app, ask)
            self.moves = moves
            return
        self.moves = moves
        if leaf.aging is not None:
            asks = [leaf.aging.enter(app, ask) for ask in asks]
        if len(asks) < _FEW:
            for ask in asks:
                bit = self._acquire(ask.shape, 1)
                app.add(ask, bit)
                leaf.count_shape(bit, 1)
            return
        times = Counter([ask.shape for ask in asks])
        bits: dict[Shape, int] = {}
        for shape, count in times.items():
            bit = bits[shape] = self._acquire(shape, count)
            leaf.count_shape(bit, count)
        app.add_row(asks, bits, times)

    def remove_pending(self, app: ViewApp, ask: Ask) -> int:
        """Remove a pending ask without releasing its shape; return the bit of the shape."""
        bit = self.bit_of(ask)
        if app.backing_off and ask.name in app.backing_off:
            self._end_back_off(app, ask)
        self.moves += 1
        self.forget_pending(self.leaf_of(app), app, ask, bit)
        return bit

    def forget_pending(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int) -> None:
        """Do the work of :meth:`remove_pending` for a known leaf and bit.

        It is no move of its own: an ask that gets a node changes this node.
        """
        app.remove(ask, bit)
        leaf.count_shape(bit, -1)
        if leaf.aging is not None:
            leaf.aging.leave(app, ask.name)
            self.come_up(leaf, app, ask.name)
        if ask.preempts or leaf.watched:
            self._forget_evictor(leaf, app, ask, bit)
        if ask.gang is not None:
            self._end_slot_if_empty(leaf, app, self.gang_index.touch(ask.gang))

    # AGING-6
    def age_anew(self, leaf: LeafView, now_us: int) -> None:
        """Let the asks of a leaf age as its settings say, from an instant in microseconds."""
        settings, before = leaf.config.settings, leaf.aging
        leaf.aging = AgingOrder(settings, now_us) if settings.aging_us else None
        if before is None and leaf.aging is None:
            return
        if leaf.aging is None:
            self.delays.end_aging(leaf.key)
        else:
            self.delays.aging[leaf.key] = leaf
        for app in leaf.apps.values():
            for ask in list(app.each_pending()):
                aging = leaf.aging
                self._rank(leaf, app, as_it_came(ask) if aging is None else aging.enter(app, ask))
            self.list_app(app)
        leaf.repriced = True
        self.dirty[leaf.key] = leaf

    # AGING-5
    def age(self, now_us: int) -> Steps[None]:
        """Let all asks grow older, to an instant in microseconds."""
        for leaf in self.delays.aging.values():
            assert leaf.aging is not None, "a leaf ages in which no ask does"
            changed = leaf.aging.advance(now_us)
            if changed is None:
                continue
            apps: dict[int, ViewApp] = {}
            for number, (app, ask) in enumerate(changed, 1):
                self._rank(leaf, app, ask)
                apps[app.identity.key] = app
                if not number % SIZE:
                    yield
            for app in apps.values():
                leaf.list_app(app, self.total)
            if leaf.pending_mask:
                self.moves += 1
                leaf.repriced = True
                self.dirty[leaf.key] = leaf

    # AGING-7
    def come_up(self, leaf: LeafView, app: ViewApp, name: str) -> None:
        """Rank those that come next, as a pending ask that ages is not offered any longer."""
        assert leaf.aging is not None, "an ask comes up where none ages"
        for ask in leaf.aging.next_up(app, name):
            self._rank(leaf, app, ask)

    def _rank(self, leaf: LeafView, app: ViewApp, ask: Ask) -> None:
        """Give a pending ask another rank."""
        bit = self.bit_of(ask)
        app.rerank(ask, bit)
        if leaf.estimates is not None and ask.name in app.pending:
            leaf.estimates.add(app, ask, bit)

    # BACKOFF-6, BACKOFF-9
    def begin_back_off(self, app: ViewApp, ask: Ask) -> None:
        """Let nothing pick a pending ask until its back-off is over; it still counts as pending."""
        self.moves += 1
        leaf = self.leaf_of(app)
        app.set_aside(ask, self.bit_of(ask))
        if leaf.aging is not None:
            leaf.aging.leave(app, ask.name)
            self._rank(leaf, app, leaf.aging.enter(app, ask))
            self.come_up(leaf, app, ask.name)
        if ask.gang is not None:
            gang = self.gang_index.touch(ask.gang)
            gang.backing_off[app.identity.key, ask.name] = None
            self._end_slot_if_empty(leaf, app, gang)
        self.back_offs.add(app, ask)
        if app.limits:
            self.user_limits.touch(app)

    def _end_back_off(self, app: ViewApp, ask: Ask) -> None:
        self.moves += 1
        if ask.gang is not None:
            gang, key = self.gang_index.touch(ask.gang), app.identity.key
            del gang.backing_off[key, ask.name]
            if key not in gang.slots:
                self._begin_slot(app, gang)
        app.take_back(ask, self.bit_of(ask))
        leaf = self.leaf_of(app)
        if leaf.estimates is not None:
            leaf.estimates.add(app, ask, self.bit_of(ask))
        if app.limits:
            self.user_limits.touch(app)

    def pass_time(self, now_us: int) -> Steps[None]:
        """Let asks grow older and their back-offs end, at an instant in microseconds."""
        yield from self.age(now_us)
        if self.back_offs:
            yield from self._end_back_offs(now_us)

    # BACKOFF-10
    def _end_back_offs(self, now_us: int) -> Steps[None]:
        """Offer the asks again whose back-off is over at an instant, in microseconds."""
        if self.back_offs.stale:
            yield from self._back_off_anew(now_us)
        for app, ask in self.back_offs.over(now_us):
            yield
            self._end_back_off(app, ask)
            self.list_app(app)

    # BACKOFF-3
    def _back_off_anew(self, now_us: int) -> Steps[None]:
        """Find out which asks back off, and until when, after settings have changed."""
        self.back_offs.stale = False
        for app in self.apps.values():
            if not app.in_a_row:
                continue
            yield
            for ask in list(app.backing_off.values()):
                self._end_back_off(app, ask)
            for name in app.in_a_row:
                if name in app.pending and self.back_offs.until_us(app, name) > now_us:
                    self.begin_back_off(app, app.pending[name])
            self.list_app(app)

    def _forget_evictor(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int) -> None:
        """Stop counting a pending ask that might evict others."""
        if ask.preempts:
            leaf.count_preempting(ask, bit, -1)
            if not leaf.preempting:
                del self.preempting[leaf.key]
        if leaf.watches(ask):
            self.delays.remove(leaf, app.pending_since_us(ask))

    def acquire_shape(self, ask: Ask) -> int:
        """Count one more use of the shape of an ask that becomes pending; return its bit.

        A new shape must be placed on the nodes before the next search.
        """
        return self._acquire(ask.shape, 1)

    def _acquire(self, shape: Shape, times: int) -> int:
        bit = self.shapes.find(shape)
        if bit is None:
            bit = self.shapes.add(shape)
            self.nodes.shape_added(bit)
        self.shapes.acquire(bit, times)
        return bit

    def release_shape(self, ask: Ask) -> None:
        """Release the shape of an ask that is neither pending nor waiting any more."""
        self.shapes.release(self.bit_of(ask))

    def bit_of(self, ask: Ask) -> int:
        """Return the bit of the shape of an ask that is pending or waiting."""
        bit = self.shapes.find(ask.shape)
        assert bit is not None, "the shape of what is pending or waits is not in the table"
        return bit

    def is_timed_out(self, ask: Ask) -> bool:
        """Return whether an ask is a member of a gang that has timed out."""
        return ask.gang is not None and self.gangs[ask.gang].state is GangState.TIMED_OUT

    # PRIORITY-18
    def park(self, app: ViewApp, ask: Ask) -> None:
        """Record that a member is parked: no index of pending asks has it, so no round tries it."""
        self.moves += 1
        assert ask.gang is not None, "what is no member of a gang cannot be parked"
        app.parked[ask.name] = ask
        self.gang_index.touch(ask.gang).parked[app.identity.key, ask.name] = None

    def unpark(self, app: ViewApp, ask: Ask) -> None:
        """Undo :meth:`park`."""
        self.moves += 1
        assert ask.gang is not None, "what is no member of a gang cannot be parked"
        del app.parked[ask.name]
        del self.gang_index.touch(ask.gang).parked[app.identity.key, ask.name]

    # FEED-34
    def set_failures(self, app: ViewApp, name: str, times: int) -> None:
        """Record how many of the next binds of an ask will fail."""
        self.moves += 1
        if times:
            app.spoilt[name] = times
            self.failing[app.identity.key] = app
            return
        del app.spoilt[name]
        if not app.spoilt:
            del self.failing[app.identity.key]

    def begin_bound(self, app: ViewApp, allocation: Allocation, node: Node) -> None:
        """Record that an ask is bound."""
        ask = allocation.ask
        app.bound[ask.name] = (allocation, node)
        if ask.gang is not None:
            self.gang_index.touch(ask.gang).bound[app.identity.key, ask.name] = None

    def end_bound(self, app: ViewApp, ask: Ask) -> tuple[Allocation, Node]:
        """Record that an ask is no longer bound; return its allocation and node."""
        if ask.start_by_us is not None:
            self.timers.await_start(app, ask)
        if ask.gang is not None:
            del self.gang_index.touch(ask.gang).bound[app.identity.key, ask.name]
        return app.bound.pop(ask.name)

    def begin_wait(self, app: ViewApp, allocation: Allocation, node: Node) -> None:
        """Record that a member begins to wait."""
        name = allocation.ask.gang
        assert name is not None, "what is no member of a gang does not wait"
        gang = self.gang_index.touch(name)
        was_running = app.running
        app.waiting[allocation.ask.name] = (allocation, node)
        key = (app.identity.key, allocation.ask.name)
        gang.waiting[key] = Hold(app, allocation, node, allocation.number)
        gang.trigger(GangTrigger.FIRST_WAITS)
        self.gang_index.waiting[name] = gang
        if not was_running:
            self.count_running(self.leaf_of(app), app, 1)

    def end_wait(self, app: ViewApp, ask: Ask) -> tuple[Allocation, Node]:
        """Record that a member no longer waits; return its allocation and node."""
        assert ask.gang is not None, "what is no member of a gang does not wait"
        gang = self.gang_index.touch(ask.gang)
        held = app.waiting.pop(ask.name)
        del gang.waiting[app.identity.key, ask.name]
        if not gang.waiting:
            gang.trigger(GangTrigger.NONE_WAITS)
            del self.gang_index.waiting[ask.gang]
        if not app.running:
            self.count_running(self.leaf_of(app), app, -1)
        return held

    def enter(self, app: ViewApp, leaf: LeafView, state: AppState, now_us: int | None) -> None:
        """Change the state of an application; without an instant, no timer begins."""
        was_running = app.running
        starting = (state is AppState.STARTING) - (app.state is AppState.STARTING)
        leaf.starting += starting
        # Other applications wait for one that starts, if the leaf is state-aware. Besides that, one
        # without asks concerns no round.
        if app.pending or (starting and leaf.state_aware):
            self.moves += 1
        app.state = state
        if now_us is not None:
            self.timers.entered(app, now_us)
        if app.running != was_running:
            self.count_running(leaf, app, 1 if app.running else -1)

    def undo_entry(self, app: ViewApp, leaf: LeafView, state: AppState, stay: int) -> None:
        """Return an application to the state that it has left in this batch."""
        self.enter(app, leaf, state, now_us=None)
        app.stay = stay

    def count_running(self, leaf: LeafView, app: ViewApp, change: int) -> None:
        """Count that an application begins or ends to run; mark leaves that open or close."""
        self.moves += 1
        if app.limits:
            self.user_limits.count_running(app, change)
        for queue in leaf.line:
            if not queue.config.max_applications:
                queue.running += change
                continue
            was_full = queue.is_full()
            queue.running += change
            if queue.is_full() != was_full:
                self._mark_leaves(queue)

    def _mark_leaves(self, queue: ViewQueue) -> None:
        if isinstance(queue, ParentView):
            for child in queue.children.values():
                self._mark_leaves(child)
        else:
            self.dirty[queue.key] = queue

    def refresh(self) -> None:
        """Update masks, priorities and positions, from the leaves upward."""
        dirty = self.dirty
        if not dirty:
            return
        queues = self._with_ancestors(dirty)
        self._refresh(queues, dirty)
        if self.timers.usages.active:
            self.timers.usages.note(queues)
        dirty.clear()

    def _refresh(self, queues: Sequence[ViewQueue], dirty: Container[int]) -> None:
        """Update queues, each after those below it, as far as something has changed."""
        shapes, total, exact, claimants = self.shapes, self.total, self.exact, self.claimants
        for queue in queues:
            if not (queue.stale or queue.key in dirty):
                continue
            if queue.refresh(shapes, total, exact):
                self.touched.add(queue.key)
            if queue.claims:
                claimants[queue.key] = queue
            elif claimants:
                claimants.pop(queue.key, None)

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends; nothing may follow."""
        while self.apps:
            yield
            _, app = self.apps.popitem()
            self.leaf_of(app).remove(app)
            yield from app.free()
        for gang in self.gangs.values():
            yield from freed(gang.waiting, gang.bound, gang.parked)
        for node in self.nodes.nodes.values():
            yield from freed(node.held)

    def check_back_offs(self) -> None:
        """Assert the invariants of back-offs between two batches; for tests."""
        backing_off = {
            (key, name): self.back_offs.until_us(app, name)
            for key, app in self.apps.items()
            for name in app.backing_off
        }
        # Gangs know those of their members, and each has its timer.
        known = [key for gang in self.gangs.values() for key in gang.backing_off]
        members = [
            (key, name) for key, name in backing_off if self.apps[key].backing_off[name].gang
        ]
        assert sorted(known) == sorted(members)
        assert self.back_offs.ends.first_us() == min(backing_off.values(), default=None)

    @staticmethod
    def _with_ancestors(dirty: dict[int, ViewQueue]) -> Sequence[ViewQueue]:
        """Return some queues and all their ancestors, each after all queues below it."""
        if len(dirty) == 1:
            (queue,) = dirty.values()
            return queue.line
        found: dict[int, ViewQueue] = {}
        for queue in dirty.values():
            for above in queue.line:
                if above.key in found:
                    break
                found[above.key] = above
        return sorted(found.values(), key=_depth, reverse=True)


def _depth(queue: ViewQueue) -> int:
    return queue.depth
