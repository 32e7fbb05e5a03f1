"""The census of a replay: which nodes and asks exist, and where each ask is.

The feed has the asks and nodes of an event, and the decisions have their fate. So a census reads
both, and reports every change to a listener. It keeps only what exists, and no history. If the feed
begins with a checkpoint, a :class:`Beginning` has the nodes and asks there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Final, Protocol, TypeAlias, assert_never, final

import attrs

from muster.feeds import FeedItem
from muster_core.config.model import Configuration
from muster_core.decisions import Announced, Decision, Kind, Reason, ends_ask
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    Apply,
    Configure,
    Delete,
    NodeObject,
    ObjectKind,
    PodObject,
    RemoveNode,
    UpdateNode,
)
from muster_core.facts import AppFacts, Facts
from muster_core.owners.asks import Ask
from muster_core.resources import NOTHING, Resources
from muster_core.snapshots import Snapshot
from muster_core.values.application_states import AppState
from muster_core.values.devices import DeviceStock, TakenDevices, stocks_in, without_devices
from muster_core.values.priority import BUILT_IN_CLASSES, PriorityClass


@final
@attrs.frozen
class ExistingAsk:
    """An ask that is there already.

    Attributes:
        app: Its application.
        ask: The ask.
        node: The node that it holds, or None.
        is_bound: Whether it is bound there, and does not only wait.
        was_bound: Whether it is bound, or was bound before; an ask in no gang that has lost its
            node was bound.
        devices: The numbers of the devices that it holds, by type.
    """

    app: str
    ask: Ask
    node: str | None = None
    is_bound: bool = False
    was_bound: bool = False
    devices: TakenDevices = ()


@final
@attrs.frozen
class Beginning:
    """The state with which a feed begins.

    Attributes:
        at_us: Its instant, in microseconds since the start.
        configuration: The configuration in force.
        nodes: The capacity of each node.
        apps: The path of the queue of each application.
        users: The user of each application, or None.
        asks: All asks.
        priorities: The ``currentPriority`` of each queue that has one, by path.
    """

    at_us: int
    configuration: Configuration
    nodes: Mapping[str, Resources]
    apps: Mapping[str, str]
    users: Mapping[str, str | None]
    asks: tuple[ExistingAsk, ...]
    priorities: Mapping[str, int]

    @property
    def has_rules(self) -> bool:
        """Whether placement rules choose the queues of applications."""
        return bool(self.configuration.placement_rules)


def beginning_of(facts: Facts, snapshot: Snapshot) -> Beginning:
    """Return the state of a checkpoint.

    Args:
        facts: The checkpoint.
        snapshot: Of a scheduler that was loaded from it.
    """
    own = facts.coordinator
    lost = {(app, ask) for app, ask, _ in own.view.timers.pending_since}
    return Beginning(
        own.now_us,
        facts.configuration,
        {node.name: Resources(dict(node.capacity)) for node in own.view.nodes},
        {app.identity.name: app.identity.path for app in facts.apps},
        {app.identity.name: app.identity.user[0] for app in facts.apps},
        tuple(ask for app in facts.apps for ask in _asks(app, lost)),
        {
            path: queue.priority
            for path, queue in snapshot.queues.items()
            if queue.priority is not None
        },
    )


def _asks(app: AppFacts, lost: set[tuple[int, str]]) -> Iterator[ExistingAsk]:
    name, key = app.identity.name, app.identity.key
    for held in app.bound:
        taken = held.devices
        yield ExistingAsk(name, held.ask, held.node, is_bound=True, was_bound=True, devices=taken)
    for held in app.waiting:
        yield ExistingAsk(name, held.ask, held.node, devices=held.devices)
    for ask in (*app.pending, *app.parked):
        was_bound = ask.gang is None and (key, ask.name) in lost
        yield ExistingAsk(name, ask, was_bound=was_bound)


def event_of(app: str, ask: Ask, classes: Iterable[PriorityClass]) -> AddAsk:
    """Return an event that adds an ask like one that is there.

    It leaves out annotations about a gang, and that asks of one event belong together. If
    the ask may preempt, that needs a class with its priority.

    Args:
        app: The application.
        ask: The ask.
        classes: The priority classes of users.
    """
    named = None
    if ask.preempts:
        known = (*BUILT_IN_CLASSES, *classes)
        wanted = (ask.priority, True)
        named = next((one.name for one in known if (one.value, one.preempts) == wanted), None)
    return AddAsk(
        app,
        ask.name,
        Resources(without_devices(ask.resources)),
        priority=ask.priority if named is None else None,
        priority_class=named,
        node=ask.shape.node,
        selector=dict(ask.shape.selector),
        tolerations=ask.shape.tolerations,
        affinity=ask.shape.affinity,
        run_for_us=ask.run_for_us,
        gang=ask.gang,
        retries=ask.retries,
        work=ask.work,
        estimate_us=ask.estimate_us,
        run_limit_us=ask.run_limit_us,
        start_by_us=ask.start_by_us,
        once=ask.once,
        devices=dict(ask.shape.devices),
    )


_Counted: TypeAlias = (
    Configure | AddAsk | AddApp | AddNode | UpdateNode | RemoveNode | Apply | Delete
)
Key: TypeAlias = tuple[str, str]
"""The names of an application and of an ask of it."""


@final
@attrs.define(eq=False)
class LiveAsk:
    """An ask that exists.

    Attributes:
        key: Its application and its name.
        queue: The full path of its queue.
        resources: The resources that it asks for or holds.
        came_us: When it was added, in microseconds; None once it has been bound.
        gang: Its gang, or None; known for certain when it gets a node.
        node: The node that it holds, or None.
        held_us: When it got the node, in microseconds.
        bound_us: When it was bound there, in microseconds, or None.
        retries: How often it is still tried again after its work has failed.
        user: The user of its application, or None.
        devices: The numbers of the devices that it holds on its node, by type.
        once: Whether it is gone after it was bound.
        requested_us: How long it is expected to take, or else may take, in microseconds, or None.
    """

    key: Key
    queue: str
    resources: Resources
    came_us: int | None
    gang: str | None = None
    node: str | None = None
    held_us: int = 0
    bound_us: int | None = None
    retries: int = 0
    user: str | None = None
    devices: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict[str, tuple[int, ...]])
    once: bool = False
    requested_us: int | None = None

    @property
    def goes(self) -> bool:
        """Whether it is gone if it loses the node on which it is bound."""
        return self.once and self.bound_us is not None


def _either(estimate_us: int | None, run_limit_us: int | None) -> int | None:
    return run_limit_us if estimate_us is None else estimate_us


_NEW: Final = AppState.NEW.value
_COMPLETED: Final = AppState.COMPLETED.value


class Listener(Protocol):
    """Receives every change; instants are in microseconds and never go back."""

    def configured(self, at_us: int, configuration: Configuration, /) -> None:
        """A configuration is in force."""

    def node(self, at_us: int, name: str, capacity: Resources | None, /) -> None:
        """A node has a new capacity; None if it was removed."""

    def job(self, at_us: int, app: str, queue: str | None, user: str | None, /) -> None:
        """An application was submitted to a queue, perhaps earlier; None if it has completed."""

    def pending(self, at_us: int, ask: LiveAsk, /) -> None:
        """An ask is now pending or parked: it was added, or lost its node (see :meth:`lost_node`)."""

    def taken(self, at_us: int, ask: LiveAsk, /) -> None:
        """An ask is no longer pending: it gets a node, or was removed."""

    def held(self, at_us: int, ask: LiveAsk, /) -> None:
        """An ask now holds a node, waiting or bound."""

    def bound(self, at_us: int, ask: LiveAsk, wait_us: int | None, /) -> None:
        """An ask that holds a node is now bound; ``wait_us`` is None if it was bound before."""

    def unbound(self, at_us: int, ask: LiveAsk, wait_us: int, /) -> None:
        """An ask has ended that was never bound; ``wait_us`` is how long it waited in vain."""

    def lost_node(self, at_us: int, ask: LiveAsk, reason: Reason | None, /) -> None:
        """An ask has lost its node; its attributes still name the node and the instants."""

    def priority(self, at_us: int, queue: str, value: int | None, /) -> None:
        """A queue has a new ``currentPriority``."""


@final
class Census:
    """Tracks which nodes and asks exist.

    Args:
        listener: Receives every change.

    Attributes:
        unbound: The asks that are pending or parked; the longest pending come first.
        holding: The asks that hold a node, waiting or bound.
    """

    def __init__(self, listener: Listener) -> None:
        self.unbound: dict[Key, LiveAsk] = {}
        self.holding: dict[Key, LiveAsk] = {}
        #: The nodes by the last events about them.
        self._nodes: dict[str, AddNode] = {}
        self._listener = listener
        #: The events whose batch has not been announced yet, each with its instant and index.
        self._open: deque[tuple[int, int, _Counted]] = deque()
        #: The asks that were added while another ask had their name, in this batch.
        self._next: dict[Key, deque[LiveAsk]] = {}
        #: The requests of Pods that were applied while an ask had their name. Only the
        #: decisions tell whether such a Pod is new.
        self._pods: dict[Key, Resources] = {}
        #: The Pods that are over, until the decision tells; then another may have the name.
        self._over: set[Key] = set()
        #: The devices of asks that were assigned some and do not hold their nodes yet.
        self._assigned: dict[Key, Mapping[str, tuple[int, ...]]] = {}
        #: The queue of each application that has not completed.
        self._queues: dict[str, str] = {}
        #: The user of each application, likewise.
        self._users: dict[str, str | None] = {}

    def begin(self, beginning: Beginning) -> None:
        """Begin with a state instead of with nothing; before anything else.

        When an ask got its node is not known, so it counts from now on.
        """
        at_us = beginning.at_us
        self._listener.configured(at_us, beginning.configuration)
        for name, capacity in beginning.nodes.items():
            self._nodes[name] = AddNode(
                name, Resources(without_devices(capacity)), devices=stocks_in(capacity)
            )
            self._listener.node(at_us, name, capacity)
        self._queues |= beginning.apps
        self._users |= beginning.users
        came_us: dict[str, int] = {}
        for old in beginning.asks:
            came_us[old.app] = min(came_us.get(old.app, at_us), old.ask.came_us)
        for app, queue in beginning.apps.items():
            self._listener.job(came_us.get(app, at_us), app, queue, self._users.get(app))
        for path, priority in beginning.priorities.items():
            self._listener.priority(at_us, path, priority)
        for old in beginning.asks:
            self._begin(at_us, old)

    def _begin(self, at_us: int, old: ExistingAsk) -> None:
        one = old.ask
        came_us = None if old.was_bound else one.came_us
        queue = self._queues[old.app]
        ask = LiveAsk(
            (old.app, one.name),
            queue,
            one.resources,
            came_us,
            one.gang,
            retries=one.retries,
            user=self._users.get(old.app),
            once=one.once,
            requested_us=_either(one.estimate_us, one.run_limit_us),
        )
        self._pend(ask, at_us)
        if old.node is None:
            return
        del self.unbound[ask.key]
        self._listener.taken(at_us, ask)
        self.holding[ask.key] = ask
        ask.node, ask.held_us, ask.devices = old.node, at_us, dict(old.devices)
        self._listener.held(at_us, ask)
        if old.is_bound:
            ask.bound_us = at_us
            self._listener.bound(at_us, ask, None)

    def alive(self) -> Iterator[LiveAsk]:
        """Yield all asks."""
        yield from self.unbound.values()
        yield from self.holding.values()

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place, and holds a node or does not.
        assert not self.unbound.keys() & self.holding.keys()
        assert all(ask.node is None for ask in self.unbound.values())
        assert all(ask.node is not None for ask in self.holding.values())
        # An ask waits for its name only while another ask has it.
        assert self._next.keys() <= self.unbound.keys() | self.holding.keys()

    def saw(self, item: FeedItem) -> None:
        """Record an item that is about to be submitted."""
        if isinstance(item.content, _Counted):
            self._open.append((item.at_us, item.index, item.content))

    def write(self, batch: Sequence[Announced], /) -> None:
        """Apply the decisions of a batch."""
        at_us = batch[0].at_us
        decisions = [announced.decision for announced in batch]
        new = {
            decision.app: decision.queue
            for decision in decisions
            if decision.state == _NEW and decision.app and decision.queue
        }
        self._queues |= new
        for app in new:
            self._users.pop(app, None)
        refused = {decision.index for decision in decisions if decision.kind is Kind.REJECTED}
        self.catch_up(at_us, refused)
        for decision in decisions:
            self._follow(decision, at_us)
            if decision.state == _COMPLETED and decision.app not in new:
                self._queues.pop(decision.app or "", None)
                self._users.pop(decision.app or "", None)

    def catch_up(self, until_us: int, refused: AbstractSet[int | None] = frozenset()) -> None:
        """Apply the events of a batch, and those of earlier batches that led to no decision.

        The adds of a batch are applied before its decisions. So a name that is released and
        added again in one batch has two asks for a moment; ``_next`` holds the second one.
        """
        while self._open and self._open[0][0] <= until_us:
            at_us, index, event = self._open.popleft()
            if index not in refused:
                self._carry_out(event, at_us)

    def _carry_out(self, event: _Counted, at_us: int) -> None:
        match event:
            case AddAsk():
                self._add(event, at_us)
            case Configure(configuration):
                self._listener.configured(at_us, configuration)
            case AddApp(app=app, user=user):
                self._users[app] = user
            case AddNode():
                self._node(at_us, event)
            case UpdateNode(node, capacity, devices=devices):
                self._update(at_us, node, capacity, devices)
            case RemoveNode(node):
                self._lose(at_us, node)
            case Apply():
                self._apply(event, at_us)
            case Delete():
                self._delete(event, at_us)
            case _:
                assert_never(event)

    def _node(self, at_us: int, node: AddNode) -> None:
        self._nodes[node.node] = node
        self._listener.node(at_us, node.node, node.room)

    def _update(
        self,
        at_us: int,
        node: str,
        capacity: Resources | None,
        devices: Mapping[str, DeviceStock] | None,
    ) -> None:
        """Record new values of a node; None is as before."""
        if capacity is None and devices is None:
            return
        before = self._nodes.get(node, AddNode(node, NOTHING))
        capacity = before.capacity if capacity is None else capacity
        devices = before.devices if devices is None else devices
        self._node(at_us, AddNode(node, capacity, devices=devices))

    def _lose(self, at_us: int, node: str) -> None:
        self._nodes.pop(node, None)
        self._listener.node(at_us, node, None)

    def _apply(self, event: Apply, at_us: int) -> None:
        for manifest in event.objects:
            match manifest.content:
                case NodeObject(node, capacity):
                    self._update(at_us, node, capacity, None)
                case PodObject(app=app, name=name, finished=True):
                    if self._knows((app, name)):
                        self._over.add((app, name))
                case PodObject(app=app, name=name, ask=AddAsk() as ask, user=user):
                    self._users.setdefault(app, user)
                    if self._knows((app, name)) and (app, name) not in self._over:
                        # It changes, or ends in this batch and is added again.
                        self._pods[app, name] = ask.resources
                    else:
                        self._add(ask, at_us)
                case _:
                    pass

    def _delete(self, event: Delete, at_us: int) -> None:
        for manifest in event.objects:
            if manifest.content.kind is ObjectKind.NODE:
                self._lose(at_us, manifest.content.name)

    def _knows(self, key: Key) -> bool:
        return key in self.unbound or key in self.holding

    def _add(self, event: AddAsk, at_us: int) -> None:
        queue, user = self._queues.get(event.app, "root"), self._users.get(event.app)
        for name in event.names():
            key = (event.app, name)
            ask = LiveAsk(
                key,
                queue,
                event.wanted,
                at_us,
                event.gang,
                retries=event.retries,
                user=user,
                once=event.once,
                requested_us=_either(event.estimate_us, event.run_limit_us),
            )
            if self._knows(key):
                self._next.setdefault(key, deque()).append(ask)
            else:
                self._pend(ask, at_us)

    def _pend(self, ask: LiveAsk, at_us: int) -> None:
        self.unbound[ask.key] = ask
        self._listener.pending(at_us, ask)

    def _follow(self, decision: Decision, at_us: int) -> None:
        listener = self._listener
        kind, app, name, queue = decision.kind, decision.app, decision.ask, decision.queue
        if app is not None and name is not None:
            if kind is Kind.BOUND or kind is Kind.WAITING:
                self._hold((app, name), decision, at_us)
            elif kind is Kind.RELEASED:
                self._release((app, name), decision.reason, at_us)
            elif kind is Kind.ASSIGNED and decision.devices:
                self._assigned[app, name] = decision.devices
        elif queue is not None:
            if kind is Kind.QUEUE_PRIORITY:
                listener.priority(at_us, queue, decision.priority)
            elif kind is Kind.APP_STATE and app is not None:
                if decision.state == _NEW:
                    listener.job(at_us, app, queue, self._users.get(app))
                elif decision.state == _COMPLETED:
                    listener.job(at_us, app, None, None)

    def _hold(self, key: Key, decision: Decision, at_us: int) -> None:
        ask = self.holding.get(key)
        if ask is None:
            ask = self.unbound.pop(key, None)
            if ask is None:  # a new Pod that looked like a change of an existing one
                amounts, user = self._pods.pop(key), self._users.get(key[0])
                ask = LiveAsk(key, decision.queue or "root", amounts, at_us, user=user)
                self._listener.pending(at_us, ask)
            self._listener.taken(at_us, ask)
            self.holding[key] = ask
            ask.node, ask.held_us, ask.bound_us = decision.node, at_us, None
            ask.gang = decision.gang or ask.gang
            ask.devices = self._assigned.pop(key, {})
            self._listener.held(at_us, ask)
        if decision.kind is Kind.BOUND:
            wait_us = None if ask.came_us is None else at_us - ask.came_us
            ask.came_us, ask.bound_us = None, at_us
            self._listener.bound(at_us, ask, wait_us)

    def _release(self, key: Key, reason: Reason | None, at_us: int) -> None:
        ask = self.holding.pop(key, None)
        self._assigned.pop(key, None)
        self._over.discard(key)
        if ask is not None:
            self._listener.lost_node(at_us, ask, reason)
            ask.node, ask.devices = None, {}
        retries, goes = (0, False) if ask is None else (ask.retries, ask.goes)
        if not ends_ask(reason, retries, once=goes):
            if ask is not None:
                ask.retries -= reason is Reason.FAILED
                self._pend(ask, at_us)
            return
        pending = self.unbound.pop(key, None)
        if pending is not None:
            self._listener.taken(at_us, pending)
        over = pending if ask is None else ask
        # COMMAND-32
        if over is not None and over.came_us is not None:
            self._listener.unbound(at_us, over, at_us - over.came_us)
        following = self._next.get(key)
        if following:
            self._pend(following.popleft(), at_us)
            if not following:
                del self._next[key]
