"""The decision view as the coordinator uses it: reports in, rounds, commits and explanations out.

It also takes the facts of the view for a checkpoint, and loads them in three steps: first the nodes
with their allocations, then the reports of the owners, which the intake applies as at any other
time, and finally what the view itself remembers from batch to batch (CHECKPOINT-4, CHECKPOINT-5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import final

from muster_core.nodes.node import DeviceUse, Holder, Node, NodeDevices
from muster_core.owners.app_messages import AppFacts
from muster_core.owners.asks import Ask
from muster_core.structures.amounts import add_to
from muster_core.structures.shapes import Shape, bits_of
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.configuration import Configuration
from muster_core.values.decisions import Decision, Kind
from muster_core.values.devices import DeviceStock
from muster_core.values.reasons import UNKNOWN_START, Start
from muster_core.values.resources import Resources
from muster_core.values.snapshots import LimitSnapshot, ReservationSnapshot, UsageSnapshot
from muster_core.view.facts import NodeFacts, ViewFacts
from muster_core.view.gangs import ViewGang, topology_of
from muster_core.view.reasons import Explainer, NodeRoom
from muster_core.view.reservations.projection import expected_end_us
from muster_core.view.reservations.reservations import reservation_snapshots
from muster_core.view.rounds import Decided, Rounds
from muster_core.view.state.intake import Intake
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue


@final
class DecisionView:
    """The state that rounds need, and the rounds themselves."""

    def __init__(self) -> None:
        self._state = ViewState()
        #: Applies the owners' reports.
        self.intake = Intake(self._state)
        self.rounds = Rounds(self._state)
        #: Every queue, application and gang that exists; gangs by name, the others by key.
        self.queues: Mapping[int, ViewQueue] = self._state.queues
        self.apps: Mapping[int, ViewApp] = self._state.apps
        self.gangs: Mapping[str, ViewGang] = self._state.gangs
        #: The nodes; the coordinator adds and removes them directly.
        self.nodes = self._state.nodes
        #: All deadlines.
        self.timers = self._state.timers
        #: What queues and users have used lately.
        self.usages = self._state.timers.usages
        #: The priorities announced last, by path; no Nones.
        self._announced: dict[str, int] = {}
        #: The explanations of pending asks found since the last batch.
        self._explainer: Explainer | None = None
        #: The room of nodes, for explanations.
        self._rooms = NodeRoom(self._state)

    def is_bound(self, app: int, ask: str, number: int) -> bool:
        """Return whether an ask still holds what a bind gave it; also while a batch is open."""
        held = self.apps[app].bound.get(ask) if app in self.apps else None
        allocation = (
            self._state.eviction_history.tried_without.get((app, ask)) if held is None else held[0]
        )
        return allocation is not None and allocation.number == number

    @property
    def has_aging(self) -> bool:
        """Whether asks of some leaf age, so that owners do not know their present priorities."""
        return bool(self._state.delays.aging)

    # AGING-2
    def aging_apps(self) -> dict[str, tuple[LeafView, ViewApp]]:
        """Return the applications in which asks age, by name."""
        leaves = self._state.delays.aging.values()
        return {app.identity.name: (leaf, app) for leaf in leaves for app in leaf.apps.values()}

    # AGING-10
    def priority_of(self, app: ViewApp) -> int | None:
        """Return the present priority of an application; None if nothing of it is pending."""
        return self._state.leaf_of(app).priority_at(app.tally.top())

    # AGING-10
    def aged(self, app: ViewApp, ask: str) -> int | None:
        """Return the priority of an ask with its age; None if it is bound or does not age."""
        leaf, found = self._state.leaf_of(app), app.find(ask)
        if found is None or ask in app.bound or leaf.aging is None:
            return None
        return leaf.aging.priority(app, found)

    def limits(self) -> Iterator[LimitSnapshot]:
        """Return the usage of limits by users and groups, in no order."""
        return (limit.snapshot() for limit in self._state.user_limits.limits.values())

    @property
    def total(self) -> Mapping[str, int]:
        """The capacity of all nodes when shares were last computed."""
        return self._state.total

    def shapes_in(self, mask: int) -> Iterator[Shape]:
        """Yield the shapes of the bits of a mask."""
        known = self._state.shapes.shapes
        return (known[bit] for bit in bits_of(mask) if bit in known)

    @property
    def reservation_count(self) -> int:
        """How many reservations the last round has left; that of a gang is one."""
        return len(self.rounds.reservations.in_force.reservations)

    def leaves_below(self, queue: ViewQueue) -> Iterator[LeafView]:
        """Iterate over the leaves of a queue, which may be a leaf itself."""
        return self._state.leaves_below(queue)

    def pending_in(self, queue: ViewQueue) -> int:
        """Return the mask of the shapes of the pending asks of a queue."""
        mask = 0
        for leaf in self.leaves_below(queue):
            mask |= leaf.pending_mask
        return mask

    # ORDER-2
    def is_overused(self, queue: ViewQueue) -> bool:
        """Return whether a queue has pending asks, and none of them fits its headroom."""
        mask = pending = self.pending_in(queue)
        for one in queue.upward():
            mask &= one.admits
        return bool(pending) and not mask

    # LISTS-5
    def types_that_keep_out(self, queue: ViewQueue) -> list[str]:
        """Return of which types the ``max`` of a queue itself keeps pending asks out."""
        if not queue.config.max.amounts:
            return []
        kept_out = [*self.shapes_in(self.pending_in(queue) & ~queue.admits)]
        return [
            name
            for name, most in queue.config.max.amounts
            if any(shape.resources[name] > max(most - queue.used(name), 0) for shape in kept_out)
        ]

    def back_off_end_us(self, app: ViewApp, ask: str) -> int:
        """Return until when an ask that backs off does so, in microseconds."""
        return self._state.back_offs.until_us(app, ask)

    def group_of(self, name: str) -> list[ViewGang]:
        """Return the gangs of a gang's group, in the order of their creation."""
        return list(self._state.gang_index.group_of(self.gangs[name]).gangs)

    def configure(self, configuration: Configuration) -> None:
        """Apply the settings of a configuration that no queue reports."""
        self.nodes.configure(
            configuration.node_sort, configuration.node_weights, configuration.typical
        )
        self.timers.settings = configuration.root.settings
        self._state.delays.enabled = configuration.preemption_enabled
        self._state.delays.stale = True
        # QUOTA-1
        quota = configuration.preemption_enabled and configuration.quota_preemption
        self.timers.over_max.configure(enabled=quota)

    # USAGE-6
    def pass_to(self, now_us: int) -> None:
        """Bring usage up to date as a batch begins, in microseconds; only if any is kept."""
        self._state.pass_to(now_us)

    # USAGE-14
    def set_usage(self, key: int, user: str | None, amounts: Mapping[str, int]) -> None:
        """Replace the usage of some types, in base units times microseconds."""
        queue, state = self.queues[key], self._state
        self.usages.set(queue, user, amounts, state.total)
        state.dirty[key] = queue
        state.moves += 1

    # USAGE-16
    def usage(self) -> tuple[UsageSnapshot, ...]:
        """Return the recent usage of queues and users of leaves. Between two batches."""
        return self.usages.snapshots(self.queues.values(), self._state.total)

    def usage_in(self, queue: ViewQueue) -> list[UsageSnapshot]:
        """Return the same of the queues directly below one, or of the users of a leaf."""
        return self.usages.snapshots_in(queue, self._state.total)

    def allocated_in(self, key: int) -> Mapping[str, int]:
        """Return the allocated amounts of a queue; none for a queue that has not reported."""
        queue = self.queues.get(key)
        return {} if queue is None else queue.usage()

    def place(self, name: str, resources: Resources, holder: Holder) -> int:
        """Use a node for an ask that arrives bound.

        Args:
            name: The node; the ask fits there.
            resources: The resources of the ask.
            holder: The key of its application, and its name.

        Returns:
            The number of the bind in the order of all binds.
        """
        node = self.nodes.nodes[name]
        self.nodes.take(node, resources, holder)
        self._state.numbers += 1
        self._state.placing[self._state.numbers] = node
        return self._state.numbers

    def unplace(self, number: int, resources: Resources, holder: Holder) -> None:
        """Undo :meth:`place`."""
        self.nodes.give_back(self._state.placing.pop(number), resources, holder)

    def decide(self, now_us: int, *, is_new: bool) -> Iterator[Decided]:
        """Run rounds until one changes nothing.

        Args:
            now_us: The instant of the batch, in microseconds.
            is_new: Whether there was an event since the last batch, or a timer other than the
                end of a ``preemption.delay``.

        Returns:
            An iterator over what each step decided, or None; between two steps the caller may
            do other work, but must not touch the view.
        """
        self._explainer = None
        return self.rounds.decide(now_us, is_new=is_new)

    # OUTLOOK-9
    def expected_end_us(self, key: int, name: str, now_us: int) -> int | None:
        """Return when an ask is expected to end, in microseconds; None if it is not known."""
        app = self.apps[key]
        held = app.bound.get(name)
        return None if held is None else expected_end_us(self._state.leaf_of(app), held[0], now_us)

    # RUNTIME-2
    def protected_leaves(self, now_us: int) -> list[str]:
        """Return the paths of the leaves with asks that their minimum run time protects, sorted."""
        ends = self.timers.protections.ends.heap
        keys = {key for end_us, _, key, _ in ends if end_us > now_us and key in self.apps}
        return sorted({self._state.leaf_of(self.apps[key]).config.path for key in keys})

    # TIME-12
    def gone_at_us(self, key: int, name: str) -> int | None:
        """Return when an ask is gone because of its times, in microseconds; None if it is not.

        A bound one is gone when its run limit is reached, another one if it is not bound by then.
        """
        app = self.apps[key]
        held, ask = app.bound.get(name), app.find(name)
        if held is not None:
            limit_us = held[0].limit_us
            return None if limit_us is None else held[0].bound_us + limit_us
        start_by_us = None if ask is None else ask.start_by_us
        is_over = start_by_us is not None and start_by_us < self._state.delays.passed_us
        return None if is_over else start_by_us

    # OUTLOOK-2
    def fits_at(self, key: int, ask: Ask, now_us: int) -> Start:
        """Return the start that a reservation of a pending ask's party alone would have now."""
        found = self.rounds.forecast.start(self.apps[key], ask, now_us)
        if found is None:
            return None
        is_unknown, at = found
        return UNKNOWN_START if is_unknown else at

    # OUTLOOK-7
    def fits_now(self, key: int, ask: Ask) -> bool:
        """Return whether the party of a pending ask fits now, ignoring other pending asks."""
        return self.rounds.forecast.fits_now(self.apps[key], ask)

    def is_cycle_valid(self, gang: ViewGang) -> bool:
        """Return whether the cycle of a gang is valid after the last round."""
        return not self.rounds.permits.is_cycle_invalid(gang)

    @property
    def explainer(self) -> Explainer:
        """Explains asks; a new one is made after each batch."""
        if self._explainer is None:
            self._explainer = Explainer(
                self._state,
                self.rounds.permits,
                self._rooms,
                self.rounds.finder,
                self.rounds.reservations,
            )
        return self._explainer

    def share_of(self, key: int) -> float:
        """Return the fair share of a queue."""
        return self.queues[key].fair_share(self._state.total)

    # SHARE-17
    def deserved_by(self, key: int) -> Mapping[str, int] | None:
        """Return the amounts that a queue deserves by weight, without zeros; None if it does not share so."""
        queue = self.queues[key]
        return +Counter(queue.deserved) if queue.by_weight else None

    # DECISION-8, AGING-9
    def changed_priorities(self) -> Iterable[Decision]:
        """Return a decision for each queue whose announced priority is out of date, by path."""
        changed: list[Decision] = []
        if not (self._state.touched or self.intake.left):
            return changed
        for key in self._state.touched & self.queues.keys():
            queue = self.queues[key]
            path = queue.config.path
            self.intake.left.discard(path)  # A queue of that path exists again.
            if self._announced.get(path) == queue.priority:
                continue
            changed.append(Decision(Kind.QUEUE_PRIORITY, queue=path, priority=queue.priority))
            if queue.priority is None:
                del self._announced[path]
            else:
                self._announced[path] = queue.priority
        for path in self.intake.left:
            self._announced.pop(path, None)
        self.intake.left.clear()
        self._state.touched.clear()
        return sorted(changed, key=lambda decision: decision.queue or "")

    # EXPECT-15
    def reservations(self) -> Mapping[str, ReservationSnapshot]:
        """Return the reservations that the last round has left, by ``app/ask``. Between two batches."""
        return reservation_snapshots(self.rounds.reservations.in_force.reservations)

    # BACKFILL-30
    def changed_reservations(self) -> list[Decision]:
        """Return a decision for each node that is reserved newly or otherwise; after a batch."""
        reservations = self.rounds.reservations
        return reservations.log.changed(reservations.in_force.reservations)

    # CHECKPOINT-4
    def facts(self) -> Steps[ViewFacts]:
        """Return the facts that the view owns and cannot compute. Between two batches."""
        state = self._state
        nodes: list[NodeFacts] = []
        for piece in in_pieces(state.nodes.nodes.values()):
            yield
            nodes.extend(map(_node_facts, piece))
        timers = yield from state.timers.facts()
        last_round = yield from self.rounds.facts()
        return ViewFacts(
            nodes=tuple(nodes),
            numbers=state.numbers,
            steps=self.rounds.steps,
            timers=timers,
            keepers=state.kept_nodes.keepers(),
            history=state.eviction_history.facts(),
            last_round=last_round,
            learned=state.learned.facts(),
            usage=tuple(self.usages.facts(self.queues)),
        )

    # CHECKPOINT-5
    def begin_to_load(self, facts: ViewFacts, apps: Iterable[AppFacts]) -> Steps[None]:
        """Load the nodes with their allocations; the reports of all owners have to follow."""
        state = self._state
        nodes: dict[str, Node] = {}
        for some in in_pieces(facts.nodes):
            yield
            for one in some:
                nodes[one.name] = _load_node(one)
        # The allocations of a node are counted before the node has its place in the order.
        for piece in in_pieces(apps):
            yield
            for app in piece:
                for held in in_pieces((*app.bound, *app.waiting)):
                    yield
                    for allocation in held:
                        node, ask = nodes[allocation.node], allocation.ask
                        add_to(node.used, ask.resources.amounts)
                        if node.devices is not None:
                            node.devices.take((ask.shape.devices, allocation.devices))
                        node.held[app.identity.key, ask.name] = 1
                        state.placing[allocation.number] = node
        for loaded in in_pieces(nodes.values()):
            yield
            for node in loaded:
                state.nodes.load(node)
        state.total = dict(state.nodes.total)
        state.numbers = facts.numbers

    # CHECKPOINT-5
    def end_loading(self, facts: ViewFacts) -> Steps[None]:
        """Load what the view remembers, after all owners have reported."""
        state = self._state
        yield from state.timers.load(facts.timers)
        self.usages.load(facts.usage, self.queues, facts.timers.passed_us, state.total)
        if self.usages.active:
            state.dirty.update(self.queues)
        # AGING-3: these instants are known only now.
        for leaf in [*state.delays.aging.values()]:
            state.age_anew(leaf, facts.timers.passed_us)
        state.eviction_history.load(facts.history)
        self.rounds.steps = facts.steps
        # Before the learned facts about nodes, which are dropped where more or fewer asks may enter.
        for key, name in facts.keepers:
            app = state.apps[key]
            state.kept_nodes.keep(app, app.pending[name])
        state.learned.load(facts.learned)
        state.nodes.learn(state.learned.taken)
        yield from self.rounds.load(facts.last_round, facts.timers.passed_us)
        for queue in self.queues.values():
            if queue.priority is not None:
                self._announced[queue.config.path] = queue.priority
        self._state.touched.clear()

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends; nothing may follow."""
        return self._state.free()

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self._state.dirty
        assert not self._state.settings_changed
        for queue in self.queues.values():
            queue.check(self._state.shapes, self._state.total)
        # Every application is in its leaf, and nowhere else.
        in_leaves = {
            key: app
            for queue in self.queues.values()
            if isinstance(queue, LeafView)
            for key, app in queue.apps.items()
        }
        assert in_leaves == self.apps
        shapes = [
            ask.shape
            for app in self.apps.values()
            for ask in (
                *app.each_pending(),
                *(allocation.ask for allocation, _ in app.waiting.values()),
            )
        ]
        self._state.shapes.check([*shapes, *self._state.gang_index.gang_shapes()])
        self._state.gang_index.check()
        self._state.delays.check()
        self.timers.over_max.check()
        self._state.check_back_offs()
        self._state.user_limits.check(self.apps)
        assert self._state.delays.aging == {
            key: queue
            for key, queue in self.queues.items()
            if isinstance(queue, LeafView) and queue.aging is not None
        }
        self._state.kept_nodes.check()
        self._state.scopes.check()
        self.usages.check(self.queues)
        self._state.divisions.check(self._state.total)
        assert self._state.claimants == {
            key: queue for key, queue in self.queues.items() if queue.claims
        }
        assert not self._state.placing
        assert not self._state.exact
        self._check_nodes()
        self.rounds.check()
        # The announced priorities are the present ones.
        priorities = {queue.config.path: queue.priority for queue in self.queues.values()}
        assert self._announced == {
            path: priority for path, priority in priorities.items() if priority is not None
        }
        for queue in self.queues.values():
            self._check_nothing_fits(queue)

    def _check_nothing_fits(self, leaf: ViewQueue) -> None:
        """Assert that no pending ask of a leaf could be placed."""
        if not isinstance(leaf, LeafView) or leaf.may_be_blocked_by_members():
            return
        if self._state.scopes.of(leaf) is not None:
            return  # The first in order may hold up all others.
        mask = leaf.open & self._state.fitting
        for queue in leaf.upward():
            mask &= queue.admits
        mask &= ~self._state.user_limits.closed_to(leaf)
        mask &= ~self._state.kept_nodes.closed_to(leaf)
        # TOPOLOGY-11
        for bit in bits_of(mask):
            for app in leaf.competing():
                for ask in app.each_of(bit):
                    self._check_topology(leaf, app, ask)

    def _check_topology(self, leaf: LeafView, app: ViewApp, ask: Ask) -> None:
        """Assert that the topology of its gang keeps an ask from the nodes that have room."""
        gang = None if ask.gang is None else self.gangs[ask.gang]
        assert gang is not None, "a plain ask could be placed"
        assert topology_of(gang) is not None, "a member could be placed"
        if gang.satisfied or not self._state.gang_index.group_of(gang).strict:
            bit = self._state.bit_of(ask)
            assert self.rounds.finder.find(leaf, app, ask, bit) is None

    def _check_nodes(self) -> None:
        """Assert that nodes hold all and only the existing allocations."""
        used: dict[str, dict[str, int]] = {name: {} for name in self.nodes.nodes}
        held: dict[str, set[Holder]] = {name: set() for name in self.nodes.nodes}
        uses: dict[str, list[DeviceUse]] = {name: [] for name in self.nodes.nodes}
        for app in self.apps.values():
            allocated: dict[str, int] = {}
            for allocation, node in (*app.waiting.values(), *app.bound.values()):
                assert node is self.nodes.nodes[allocation.node]
                add_to(used[node.name], allocation.ask.resources)
                add_to(allocated, allocation.ask.resources)
                held[node.name].add((app.identity.key, allocation.ask.name))
                if allocation.devices:
                    uses[node.name].append(allocation.use)
            assert app.allocated == allocated
        for node in self.nodes.nodes.values():
            assert node.used == used[node.name]
            assert node.held == dict.fromkeys(held[node.name], 1)
            assert bool(uses[node.name]) <= (node.devices is not None)
            if node.devices is not None:
                node.devices.check(uses[node.name])
        assert self._state.total == self.nodes.total
        self.nodes.check()


def _load_node(facts: NodeFacts) -> Node:
    node = Node(facts.name, dict(facts.capacity), dict(facts.attributes), facts.schedulable)
    node.equip(node.capacity, dict(facts.reserved))
    if facts.devices:
        stocks = {kind: DeviceStock(count, model) for kind, count, model in facts.devices}
        node.devices = NodeDevices(stocks)
    node.taints = facts.taints
    return node


def _node_facts(node: Node) -> NodeFacts:
    capacity, attributes = tuple(node.capacity.items()), tuple(node.attributes.items())
    stocks = {} if node.devices is None else node.devices.stocks
    devices = tuple((kind, stock.count, stock.model) for kind, stock in stocks.items())
    reserved = tuple(node.reserved.items())
    return NodeFacts(
        node.name, capacity, attributes, node.schedulable, devices, reserved, node.taints
    )
