"""Admission: checks whether an event is possible now, and which owners get messages about it.

Events are admitted one after the other, in the order of their entry. For most of them the names in
the directory are enough; the application that an event concerns checks the rest. An event that
concerns several owners (members of a gang belong to an application and to the gang, a Pod that
runs already also to a node) must be checked as a whole. For this, the owners report first: then
the view matches their state, except for what is admitted after that, which :class:`Unreported` has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import final

import attrs

from muster_core.admission.effects import Unreported
from muster_core.admission.gang_registry import GangEntry, GangRegistry
from muster_core.admission.registry import Admissible, Registry
from muster_core.admission.routes import (
    AdmissionFacts,
    AnyRoute,
    GangRoute,
    GuessesFacts,
    TellApp,
    TellGang,
)
from muster_core.gangs import GangDefinition, GangState
from muster_core.nodes.node import Node
from muster_core.owners.app_messages import (
    AddAsks,
    AddPlaced,
    AppFacts,
    FailAsk,
    FinishAsk,
    LoseNode,
    ParkAsks,
    RollBack,
    UndoBind,
    UnparkAsks,
)
from muster_core.owners.asks import Origin
from muster_core.owners.gang import (
    GangFacts,
    GangTimeout,
    MarkGang,
    MemberKey,
    MoveMember,
    RetryGang,
)
from muster_core.owners.queue import QueueFacts
from muster_core.structures.steps import Steps
from muster_core.values.configuration import USAGE_USERS, Configuration, usage_lacks
from muster_core.values.decisions import MICROSECONDS, Reason, seconds
from muster_core.values.errors import RefusedError
from muster_core.values.events import (
    AddAsk,
    AddGang,
    AddNode,
    BindFailed,
    Outcome,
    Release,
    RemoveGang,
    RemoveNode,
    SetUsage,
    UpdateNode,
)
from muster_core.values.names import Guesses
from muster_core.values.snapshots import AskPlace
from muster_core.view import DecisionView
from muster_core.view.gangs import ViewGang, holds_of

Judged = AddNode | UpdateNode | RemoveNode | AddGang | RemoveGang | BindFailed | Admissible
"""The events that are admitted here; objects are admitted as several of these at once."""


@final
@attrs.frozen
class GangOwner:
    """The owner of a gang.

    Attributes:
        gang: The gang that has this owner: the gang itself, or one that lists connect it with.
        user: The user of its object, or else of the application of its first member; None if that
            application has no user.
        app: The key of that application, or None if the object has a user.
    """

    gang: str
    user: str | None
    app: int | None = None


@final
class Admission:
    """Admits events.

    Args:
        next_seq: Returns the next position in the input.
    """

    def __init__(
        self, configuration: Configuration, view: DecisionView, next_seq: Callable[[], int]
    ) -> None:
        self.registry = Registry(configuration)
        self.gangs = GangRegistry()
        self._view = view
        self._next_seq = next_seq
        self._guesses = Guesses()
        #: The effects that the view does not know yet; objects undo them if one is refused.
        self.unreported = Unreported(view)

    # Events

    def admit(self, event: Judged, origin: Origin) -> list[AnyRoute]:
        """Admit an event.

        Returns:
            The messages to owners, in order.

        Raises:
            RefusedError: If it is not possible now; then nothing has changed.
        """
        match event:
            case AddAsk() if event.gang is None:
                return [self.registry.message_for(event, origin)]
            case AddAsk() if event.gang is not None:
                return list(self.add_members(event, event.gang, origin))
            case AddNode() | UpdateNode() | RemoveNode():
                return list(self.change_node(event, origin))
            case AddGang():
                return list(self.define_gang(event, origin, update=False))
            case RemoveGang():
                return list(self.remove_gang(event.gang, "gang", origin))
            case BindFailed():
                return [self._lose_bind(UndoBind, event, origin)]
            case Release() if event.outcome is Outcome.FAILED:
                return [self._lose_bind(FailAsk, event, origin)]
            case _:
                return list(self.registry.handle(event, origin))

    # USAGE-14, USAGE-15
    def set_usage(self, event: SetUsage) -> None:
        """Replace the usage of a queue or a user; the owners must have reported.

        Raises:
            RefusedError: If no queue counts it.
        """
        entry = self.registry.tree.entry_of(event.queue)
        own, of_user, path = entry.config, event.user is not None, entry.config.path
        above = own if entry.parent is None else entry.parent.config
        if of_user and own.is_parent:
            raise RefusedError(f"user: {path!r} is a parent; name a leaf")
        if not of_user and entry.parent is None:
            raise RefusedError(f"queue: {path!r} has no usage: no queue is above it")
        lacks = usage_lacks(own.settings, above.settings, of_user=of_user)
        if lacks == USAGE_USERS:
            msg = f"user: {path!r} does not count its users: its {lacks} is disabled"
            raise RefusedError(msg)
        if lacks is not None:
            by = "" if of_user else f" usage: {above.path!r} has no"
            raise RefusedError(f"queue: {path!r} has no{by} {lacks}")
        amounts = {name: amount * MICROSECONDS for name, amount in event.usage.items()}
        self._view.set_usage(entry.key, event.user, amounts)

    # Objects: several of them are admitted as a whole

    def part(self, origin: Origin, number: int) -> Origin:
        """Return the origin of the object with this number in an event."""
        return attrs.evolve(origin, seq=self._next_seq(), event=origin.seq) if number else origin

    def knows_node(self, name: str) -> bool:
        """Return whether there is a node of this name."""
        return name in self._view.nodes.nodes

    def knows_ask(self, app: str, ask: str) -> bool:
        """Return whether an application has an ask of this name, in any place."""
        if not self.registry.has_app(app):
            return False
        return self.unreported.knows(self.registry.app_key(app), ask)

    def end_ask(self, app: str, ask: str, reason: Reason, origin: Origin) -> Iterator[AnyRoute]:
        """End an ask in any place; it must exist."""
        key = self.registry.app_key(app)
        self.unreported.forget(key, ask)
        seen = self._view.apps.get(key)
        held = None if seen is None else seen.bound.get(ask) or seen.waiting.get(ask)
        if held is not None:
            self.unreported.give_room(held[0], self.registry.leaf_of(key))
        yield TellApp(key, FinishAsk(origin, ask, reason))
        # The gang gets its message now, as later objects of the event may concern it, too.
        member = MemberKey(key, app, ask)
        found = None if seen is None else seen.find(ask)
        gang = None if found is None or found.gang is None else self.gangs.gangs[found.gang]
        if gang is not None and member in gang.members:
            self.unreported.note_message(member, origin.seq)
            self.unreported.undoable(self.gangs.save_member(gang, member))
            yield TellGang(gang.key, MoveMember(member, None))
            yield from self.gangs.leave(gang.name, member)

    # ONCE-4
    def member_left(self, name: str, member: MemberKey) -> tuple[GangDefinition | None, int | None]:
        """Record that the rounds have ended a member of a gang; return its definition now."""
        entry = self.gangs.gangs[name]
        for _ in self.gangs.leave(name, member):  # Its owner gets this with its commit.
            pass
        if entry.definition is None and not entry.members:
            self.gangs.gone(name)
        return entry.definition, None if entry.definition is None else entry.creation

    # OBJECT-5, GANG-50, ONCE-2
    def lose_members(self, name: str, origin: Origin) -> Iterator[GangRoute]:
        """Send gangs now the members that lose a node that is about to be removed.

        Later objects of the event may concern these gangs, too, as in :meth:`end_ask`.
        """
        held: list[tuple[int, MemberKey, str, bool]] = []
        node = self._view.nodes.nodes.get(name)
        for key, ask in () if node is None else node.held:
            app = self._view.apps[key]
            found = app.bound.get(ask) or app.waiting.get(ask)
            gang = None if found is None else found[0].ask.gang
            ended = self.unreported.is_forgotten(key, ask)
            if found is None or ended:
                continue
            leaves = found[0].ask.once and ask in app.bound
            if leaves:
                self.unreported.forget(key, ask)
            if gang is not None:
                member = MemberKey(key, app.identity.name, ask)
                held.append((found[0].number, member, gang, leaves))
        for _, member, gang, leaves in sorted(held, key=itemgetter(0)):
            self.unreported.note_message(member, origin.seq)
            entry = self.gangs.gangs[gang]
            if leaves:
                self.unreported.undoable(self.gangs.save_member(entry, member))
                yield TellGang(entry.key, MoveMember(member, None, lost=True))
                yield from self.gangs.leave(gang, member)
                continue
            place = AskPlace.PARKED if entry.timed_out else AskPlace.PENDING
            yield TellGang(entry.key, MoveMember(member, place, lost=True))

    def add_plain(self, event: AddAsk, origin: Origin) -> Iterator[TellApp]:
        """Add an ask without a gang as part of several objects."""
        key = self._check_members(event, None)
        priority, preempts = self.registry.classes.priority(event)
        self.unreported.add(key, event)
        yield TellApp(key, AddAsks(origin, event, priority, preempts=preempts))

    def change_node(
        self, event: AddNode | UpdateNode | RemoveNode, origin: Origin
    ) -> Iterator[TellApp]:
        """Add, change or remove a node."""
        nodes = self._view.nodes
        known = event.node in nodes.nodes
        if known == isinstance(event, AddNode):
            state = "already a node" if known else self._unknown_node(event.node)
            msg = f"node: {event.node!r} is {state}"
            raise RefusedError(msg)
        match event:
            case AddNode():
                nodes.add(
                    event.node,
                    event.capacity,
                    event.attributes,
                    schedulable=event.schedulable,
                    devices=event.devices,
                    taints=event.taints,
                )
                self.unreported.undoable(partial(nodes.remove, event.node))
            case UpdateNode():
                if event.devices is not None:
                    self._check_free(nodes.nodes[event.node])
                self.unreported.undoable(nodes.save(event.node))
                nodes.update(
                    event.node,
                    event.capacity,
                    event.attributes,
                    schedulable=event.schedulable,
                    devices=event.devices,
                    reserved=None if event.reserved is None else event.reserved.amounts,
                    taints=event.taints,
                )
            case RemoveNode():
                # FEED-22
                lost = nodes.remove(event.node)
                self.unreported.undoable(partial(nodes.put_back, lost))
                timed_out = frozenset(
                    name for name, gang in self.gangs.gangs.items() if gang.timed_out
                )
                for key in sorted({app for app, _ in lost.held}):
                    if self.registry.knows(key):
                        yield TellApp(key, LoseNode(origin, lost.name, timed_out))

    # DEVICE-9
    def _check_free(self, node: Node) -> None:
        """Refuse to replace the devices of a node while one of them is held."""
        holders: list[str] = []
        for key, ask in node.held:
            app = self._view.apps[key]
            found = app.bound.get(ask) or app.waiting.get(ask)
            if found is not None and found[0].devices:
                holders.append(f"{app.identity.name}/{ask}")
        if holders:
            more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
            msg = f"devices: those of {node.name!r} are held by {min(holders)}{more}: release first"
            raise RefusedError(msg)

    def _lose_bind(
        self, request: type[UndoBind | FailAsk], event: BindFailed | Release, origin: Origin
    ) -> TellApp:
        """End the bind of an ask, or its work; the application checks whether it is bound."""
        key = self.registry.app_key(event.app)
        timed_out = self._timed_out_gang(key, event.ask)
        return TellApp(key, request(origin, event.ask, event.message, timed_out))

    def _timed_out_gang(self, key: int, name: str) -> str | None:
        seen = self._view.apps.get(key)
        # A bound ask that the view does not know was bound from the start: its gang is satisfied.
        ask = None if seen is None else seen.find(name)
        if ask is None or ask.gang is None or not self._has_timed_out(ask.gang):
            return None
        return ask.gang

    def define_gang(self, event: AddGang, origin: Origin, *, update: bool) -> Iterator[AnyRoute]:
        """Set the object of a gang, or replace it."""
        self.unreported.undoable(self.gangs.save(event.gang))
        return self.gangs.define(event.gang, event.says, origin.creation, "gang", update=update)

    def add_members(self, event: AddAsk, gang: str, origin: Origin) -> Iterator[AnyRoute]:
        """Add members of a gang."""
        key = self._check_members(event, gang)
        priority, preempts = self.registry.classes.priority(event)
        # GANG-46, OBJECT-17
        mark = event.timed_out and self._can_time_out(gang)
        if mark:
            yield from self._set_aside([gang], origin)
        # GANG-44
        parked = mark or self._has_timed_out(gang)
        yield TellApp(key, AddAsks(origin, event, priority, parked, preempts))
        members = self.unreported.add(key, event)
        place = AskPlace.PARKED if parked else AskPlace.PENDING
        self.unreported.undoable(self.gangs.save(gang, members))
        yield from self.gangs.join(gang, members, place, event.says, origin)
        if mark:
            yield self._mark(gang, origin, 0)

    # TIME-7
    def check_start(self, event: AddAsk, origin: Origin) -> None:
        """Refuse an ask that would have to be bound by an instant in the past."""
        start_us, now_us = event.start_by_us, origin.at_us
        if start_us is not None and start_us < now_us:
            msg = f"start_by: {seconds(start_us)} s is in the past: it is {seconds(now_us)} s now"
            raise RefusedError(msg)

    # OBJECT-18
    def add_placed(self, event: AddAsk, node: str, origin: Origin) -> Iterator[AnyRoute]:
        """Add an ask that runs on ``node`` already, which satisfies its gang."""
        key = self._check_members(event, event.gang)
        priority, preempts = self.registry.classes.priority(event)
        self._take_room(event, node, key)
        (name,) = event.names()
        number = self._view.place(node, event.resources, (key, name))
        self.unreported.undoable(partial(self._view.unplace, number, event.resources, (key, name)))
        self.unreported.uncertain = True
        # TIME-2
        limit_us = self.registry.leaf_of(key).config.settings.run_limit_us
        placed = AddPlaced(origin, event, priority, node, number, preempts, limit_us)
        yield TellApp(key, placed)
        members = self.unreported.add(key, event)
        if event.gang is None:
            return
        self.unreported.come_bound(event.gang)
        self.unreported.undoable(self.gangs.save(event.gang, members))
        if self._has_timed_out(event.gang):
            yield from self._unpark(event.gang, origin)
        # OBJECT-19
        yield from self.gangs.join(event.gang, members, AskPlace.BOUND, event.says, origin)

    def _take_room(self, event: AddAsk, name: str, key: int) -> None:
        node = self._view.nodes.nodes.get(name)
        if node is None:
            msg = f"node: {name!r} is {self._unknown_node(name)}"
            raise RefusedError(msg)
        self.unreported.take_room(event, node, self.registry.leaf_of(key))

    def _unknown_node(self, name: str) -> str:
        return "unknown" + self._guesses.about(name, self._view.nodes.nodes)

    def _check_members(self, event: AddAsk, gang: str | None) -> int:
        key = self.registry.app_key(event.app)
        for name in event.names():
            if self.unreported.knows(key, name):
                msg = f"ask: {name!r} is already an ask of application {event.app!r}"
                raise RefusedError(msg)
        if gang is not None:
            self.gangs.check_join(gang, event.says, "annotations")
        return key

    # Gangs

    # GANG-18
    def remove_gang(self, name: str, field: str, origin: Origin) -> Iterator[AnyRoute]:
        """Remove the definition of a gang; its members stay."""
        self.unreported.undoable(self.gangs.save(name))
        routes = list(self.gangs.remove(name, field))
        self.unreported.uncertain = True  # The view does not know its new state.
        gang = self._view.gangs.get(name)
        if gang is not None:
            yield from self._release([gang], origin, Reason.GANG_ROLLBACK, park=False)
            yield from self._unpark(name, origin)
        yield from routes

    # GANG-42
    def time_out(self, name: str, origin: Origin) -> Iterator[AnyRoute]:
        """Let a gang time out, together with its group."""
        if self._has_timed_out(name):  # It has just timed out with another gang of its group.
            return
        group = self._view.group_of(name)
        # GANG-43
        # A gang without members does not time out with its group.
        marked = [gang for gang in group if self._is_unsatisfied(gang) and gang.children]
        yield from self._set_aside([gang.name for gang in marked], origin)
        # GANG-60
        times = 1 + max(gang.timeouts for gang in marked)
        for number, gang in enumerate(marked):
            yield self._mark(gang.name, origin, number, GangTimeout(origin.at_us, times))

    # GANG-59
    def retry_gang(self, name: str, origin: Origin) -> Iterator[AnyRoute]:
        """Take the mark from a gang that has timed out: its members are pending again."""
        yield from self._unpark(name, origin)
        yield TellGang(self.gangs.gangs[name].key, RetryGang((origin.seq, 2, 0)))

    # GANG-53, GANG-54
    def owner_of_gang(self, name: str) -> GangOwner | None:
        """Return the owner of a gang; None if it has neither user nor members.

        A gang that lists connect with a gang that has an owner counts as that owner's. Members
        count whose applications have been removed and have not reported yet: they have no user.
        """
        entry = self.gangs.gangs.get(name)
        own = None if entry is None else self._owner_of(entry)
        if own is not None:
            return own
        tied = (self._owner_of(other) for other in self.gangs.tied_to(name))
        return next((found for found in tied if found is not None), None)

    def _owner_of(self, entry: GangEntry) -> GangOwner | None:
        if entry.given is not None and entry.given.user is not None:
            return GangOwner(entry.name, entry.given.user)
        first = next(iter(entry.members), None)
        if first is None:
            return None
        known = self.registry.knows(first.key)
        return GangOwner(entry.name, self.registry.user_of(first.key) if known else None, first.key)

    @staticmethod
    def _is_unsatisfied(gang: ViewGang) -> bool:
        return gang.definition is not None and gang.state in {
            GangState.GATHERING,
            GangState.WAITING,
        }

    # GANG-46
    def _can_time_out(self, name: str) -> bool:
        gang = self._view.gangs.get(name)
        satisfied = gang is not None and gang.state is GangState.SATISFIED
        return not (satisfied or name in self.unreported.came_bound or self._has_timed_out(name))

    def _has_timed_out(self, name: str) -> bool:
        entry = self.gangs.gangs.get(name)
        return entry is not None and entry.timed_out

    def _mark(
        self, name: str, origin: Origin, number: int, timeout: GangTimeout | None = None
    ) -> TellGang:
        entry = self.gangs.gangs[name]
        entry.timed_out = self.unreported.uncertain = True
        return TellGang(entry.key, MarkGang((origin.seq, 2, number), timeout))

    # GANG-44
    def _set_aside(self, names: list[str], origin: Origin) -> Iterator[TellApp]:
        """Park the members of gangs: first the waiting ones, then the pending ones."""
        gangs = [self._view.gangs[name] for name in names if name in self._view.gangs]
        yield from self._release(gangs, origin, Reason.GANG_TIMEOUT, park=True)
        for gang in gangs:
            for key, slot in gang.slots.items():
                yield TellApp(key, ParkAsks(origin, slot.names()))
            # BACKOFF-16
            for key, name in sorted(gang.backing_off):
                yield TellApp(key, ParkAsks(origin, (name,)))
        for name in names:
            yield from self._park_fresh(name, origin)

    def _park_fresh(self, name: str, origin: Origin) -> Iterator[TellApp]:
        """Park the members that the view does not know yet."""
        entry = self.gangs.gangs.get(name)
        fresh: dict[int, list[str]] = {}
        for member in entry.members if entry is not None else ():
            if member.ask in self.unreported.fresh.get(member.key, ()):
                fresh.setdefault(member.key, []).append(member.ask)
        for key, asks in fresh.items():
            yield TellApp(key, ParkAsks(origin, tuple(asks)))

    # GANG-45
    def _unpark(self, name: str, origin: Origin) -> Iterator[TellApp]:
        self.gangs.gangs[name].timed_out = False
        # All members, as earlier objects of the same event may have changed which ones are parked.
        asks: dict[int, list[str]] = {}
        for member in self.gangs.gangs[name].members:
            asks.setdefault(member.key, []).append(member.ask)
        for key, names in asks.items():
            yield TellApp(key, UnparkAsks(origin, tuple(names)))

    @staticmethod
    def _release(
        gangs: Iterable[ViewGang], origin: Origin, reason: Reason, *, park: bool
    ) -> Iterator[TellApp]:
        """Release the nodes of the waiting members of gangs, in the order of their waits."""
        asks: dict[int, list[tuple[int, str]]] = {}
        for number, hold in enumerate(holds_of(gangs)):
            key = hold.app.identity.key
            asks.setdefault(key, []).append((number, hold.allocation.ask.name))
        for key, names in asks.items():
            yield TellApp(key, RollBack(origin, tuple(names), reason, park))

    # CHECKPOINT-3
    def facts(self) -> Steps[AdmissionFacts]:
        """Return the facts that admission owns and cannot compute. Between two batches."""
        registry, gangs = self.registry, self.gangs
        queues = registry.tree.entries.values()
        return AdmissionFacts(
            configuration=registry.configuration,
            last_queue=registry.tree.last_key,
            last_gang=gangs.last_key,
            dynamic=tuple(entry.key for entry in queues if entry.dynamic),
            applied=tuple(entry.key for entry in queues if entry.applied),
            completed=registry.completed.facts(),
            classes=registry.classes.facts(),
            gangs=(yield from gangs.facts()),
            guesses=GuessesFacts(
                apps=registry.guesses.left,
                queues=registry.tree.guesses.left,
                classes=registry.classes.guesses.left,
                gangs=gangs.guesses.left,
                nodes=self._guesses.left,
            ),
        )

    # CHECKPOINT-5
    def load(
        self,
        facts: AdmissionFacts,
        queues: Iterable[QueueFacts],
        apps: Iterable[AppFacts],
        gangs: Iterable[GangFacts],
    ) -> Steps[None]:
        """Replace all names; the configuration in force is that of these facts already."""
        yield from self.registry.load(facts, queues, apps)
        yield from self.gangs.load(facts, gangs)
        self._guesses.left = facts.guesses.nodes

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        self.registry.check()
        self.gangs.check()
        self.unreported.check()
        assert self.gangs.gangs.keys() == self._view.gangs.keys()
        for name, entry in self.gangs.gangs.items():
            gang = self._view.gangs[name]
            assert entry.definition == gang.definition
            assert entry.timed_out == (gang.state is GangState.TIMED_OUT)
            assert {member.key for member in entry.members} <= self._view.apps.keys()
