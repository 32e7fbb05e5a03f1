"""The events that a scheduler gets from a cluster: one for each difference between the two.

What a pod or a node should be in the scheduler follows from the cache alone; what the scheduler has of
it is noted there. So one step mends both what has changed in the cluster, what an earlier program has
left in the store, and what was lost with a node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast, final

import trio

from muster._pod_identity import PodIdentity
from muster.config_files import parse_configuration
from muster.feeds._kinds import FieldError
from muster.feeds._manifests import FORMS
from muster.importing.kubernetes.schema import VOLCANO_GROUP
from muster.kubernetes._api import Object
from muster.kubernetes._cache import Cache, Held, HeldNode, NodeEntry, PodEntry
from muster.kubernetes._objects import HOSTNAME, Pod, Surroundings
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.decisions import Kind, Reason
from muster_core.errors import ConfigError, RefusedError
from muster_core.events import (
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    Configure,
    Delete,
    Event,
    Manifest,
    ObjectKind,
    ObjectName,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.values.affinity import Affinity
from muster_core.values.event_fields import is_users_class

if TYPE_CHECKING:
    from muster._runtime.requests import Examined
    from muster._surface.scheduler import Scheduler
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.owners.asks import Ask


_PENDING_AGAIN: Final = frozenset({Reason.BIND_FAILED, Reason.GANG_ROLLBACK})

RETRY_S: Final = 300.0
"""How often pods that the scheduler has refused are let in again, in seconds."""

_FEW_GANGS: Final = 100

LABELS_S: Final = 0.1
"""How long changes of labels alone may wait for more of them, in seconds."""

_log: Final = logging.getLogger(__name__)

Done = Callable[[RefusedError | None], None]
"""Called with the reason why an event was refused, or None."""

Change = tuple[Event, Done]


@final
class Intake:
    """Lets what the cluster has into a scheduler, as events.

    Args:
        cache: The pods and nodes.
        partition: The partition of a configuration; None for ``default``, or else the only one.

    Attributes:
        surroundings: The other objects on which pods depend.
        lacks: Why there is no configuration yet, without which nothing is let in; empty if there is.
        configuration: The last valid configuration of the ConfigMap, or None.
    """

    def __init__(self, cache: Cache, partition: str | None = None) -> None:
        self._cache = cache
        self._partition = partition
        self.surroundings: Final = Surroundings()
        self.lacks = ""
        self.configuration: Configuration | None = None
        #: The events to send before those of nodes and pods: the last one of each name counts.
        self._heads: dict[str, Change] = {}
        #: The definitions in pods of gangs that are not their own.
        self._gangs: dict[str, GangFields] = {}
        self._most_gangs = _FEW_GANGS
        #: The gangs of the PodGroups that there are, until a scheduler has them.
        self._groups: set[str] = set()
        #: The conditions of pods to compare with the scheduler again, although they did not change.
        self._again: set[Callable[[PodEntry], bool]] = set()
        self._config = self._place = ""
        self._is_followed = False

    # Other objects

    def take_class(self, written: Object, *, is_gone: bool) -> None:
        """Take a PriorityClass."""
        name = str(written["metadata"]["name"])
        if not is_users_class(name):
            return
        if is_gone:
            self.surroundings.classes.pop(name, None)
            self._head(f"class {name}", _delete(ObjectKind.PRIORITY_CLASS, name))
            return
        form = FORMS[ObjectKind.PRIORITY_CLASS]
        try:
            made = form.make(form.shape.parse(cast("Any", written)))
        except FieldError as error:
            _log.warning("priority class %s: %s", name, error)
            return
        assert isinstance(made, AddPriorityClass)
        self.surroundings.classes[name] = made.value
        self._head(f"class {name}", Apply((Manifest(made),)))

    def take_group(self, written: Object, *, is_gone: bool) -> str:
        """Take a PodGroup, and return the full name of its gang."""
        metadata = written["metadata"]
        gang = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
        if is_gone:
            self.surroundings.groups.pop(gang, None)
            self._mark_gang(gang)
            self._groups.discard(gang)
            self._head(f"gang {gang}", _delete(ObjectKind.POD_GROUP, gang))
            return gang
        form = FORMS[ObjectKind.POD_GROUP]
        try:
            made = form.make(form.shape.parse(cast("Any", written)))
            queue = cast("str | None", VOLCANO_GROUP.parse(cast("Any", written)).get("queue"))
        except FieldError as error:
            _log.warning("pod group %s: %s", gang, error)
            return gang
        assert isinstance(made, AddGang)
        self.surroundings.groups[gang] = queue or ""
        if queue:
            self._mark_pods(_is_refused)
        self._mark_gang(gang)
        self._groups.add(gang)
        self._head(f"gang {gang}", Apply((Manifest(made),)))
        return gang

    def _mark_gang(self, gang: str) -> None:
        for uid in self._cache.by_gang.get(gang, ()):
            self._cache.mark_pod(uid)

    def take_claim(self, name: str, volume: str | None) -> None:
        """Take the volume to which a claim is bound, or None."""
        if volume is None:
            self.surroundings.claims.pop(name, None)
        else:
            self.surroundings.claims[name] = volume
        self._mark_pods(_has_claims)

    def take_volume(self, name: str, affinity: Affinity | None, *, is_gone: bool) -> None:
        """Take on which nodes a volume can be used."""
        if is_gone:
            self.surroundings.volumes.pop(name, None)
        else:
            self.surroundings.volumes[name] = affinity
        self._mark_pods(_has_claims)

    # POD-27
    def take_configuration(self, text: str, place: str) -> None:
        """Take a configuration; a bad one is refused, and the one in force stays."""
        if text == self._config:
            return
        self._config, self._place = text, place
        try:
            configuration = parse_configuration(text, file=place, partition=self._partition)
        except ConfigError as error:
            self.note_no_configuration("; ".join(map(str, error.problems)))
            return
        self.lacks, self.configuration = "", configuration
        self._head("", Configure(configuration), self._note_configuration)

    def note_no_configuration(self, why: str) -> None:
        """Record that there is no configuration that could be taken."""
        if self.lacks:
            self.lacks = why
        _log.error(
            "the configuration %s: %s", "is missing" if self.lacks else "stays as it is", why
        )

    def _note_configuration(self, refusal: RefusedError | None) -> None:
        if refusal is not None:
            _log.error("the configuration stays as it is: %s", refusal)
        else:
            self._mark_pods(_is_refused)

    def _head(self, name: str, event: Event, done: Done | None = None) -> None:
        self._heads.pop(name, None)
        if isinstance(event, Delete) and not self._is_followed:
            return  # No scheduler has it yet.
        self._heads[name] = (event, done or partial(_warn, name))
        self._cache.hurry()

    def _mark_pods(self, concerns: Callable[[PodEntry], bool]) -> None:
        """Mark the pods that a change concerns: once, however often it comes."""
        self._again.add(concerns)
        self._cache.dirtied.unpark_all()

    # The state of an earlier program

    # POD-26
    async def adopt(self, scheduler: Scheduler) -> None:
        """Record the asks and nodes that a scheduler has from an earlier program."""
        self._is_followed = True
        found: list[Examined] = []
        await scheduler.examine(found.append)
        (state,) = found
        for node in state.snapshot.nodes.values():
            if HOSTNAME in node.attributes:
                entry = self._cache.node_of(node.name)
                entry.held = HeldNode(
                    node.capacity, node.attributes, node.schedulable, node.taints, node.reserved
                )
                self._cache.mark_node(node.name)
        in_force = state.machine.configuration
        if self.configuration == in_force:
            self._heads.pop("", None)
        elif self.configuration is not None and in_force != default_configuration():
            _log.warning("%s replaces the configuration that was in force", self._place)
        for app in state.machine.view.apps.values():
            name = app.identity.name
            asks = [*app.each_pending(), *app.parked.values()]
            asks += [held.ask for held, _ in app.waiting.values()]
            for ask in asks:
                self._adopt(name, ask, Held.PENDING)
            for held, _ in app.bound.values():
                self._adopt(name, held.ask, Held.BOUND)
        if in_force != default_configuration():
            self.lacks = ""
        self._remove_leftovers(state.machine)

    def _remove_leftovers(self, kept: CoordinatorMachine) -> None:
        """Remove classes and gangs that the cluster no longer has, except gangs of other asks."""
        for known in kept.registry.classes.facts():
            if known.name not in self.surroundings.classes:
                self._head(f"class {known.name}", _delete(ObjectKind.PRIORITY_CLASS, known.name))
        there, holders = self._groups | self._named_gangs(), self._cache.holders
        for name, gang in kept.admission.gangs.gangs.items():
            is_ours = all((one.app, one.ask) in holders for one in gang.members)
            if gang.given is not None and is_ours and name not in there:
                self._head(f"gang {name}", _delete(ObjectKind.POD_GROUP, name))

    def _named_gangs(self) -> set[str]:
        """Return the gangs that a pod defines, beside its own."""
        requests = (one.pod.request for one in self._cache.pods.values())
        return {gang for one in requests if one is not None for gang in one.gangs}

    def _adopt(self, app: str, ask: Ask, held: Held) -> None:
        identity = PodIdentity.of(ask.work)
        if identity is None:
            return
        entry = self._cache.pods.get(identity.uid)
        if entry is None:  # It has gone meanwhile.
            pod = Pod(identity, "", True, None, "Unknown", True, 0.0, False, {})
            entry = self._cache.pods[identity.uid] = PodEntry(pod, is_gone=True)
        entry.has = ask.resources
        self._cache.set_held(entry, held, (app, ask.name))
        self._cache.mark_pod(identity.uid)

    # Letting it in

    async def feed(self, scheduler: Scheduler, ready: trio.Event) -> None:
        """Send the state of the cluster, and each change, as events, for ever.

        Args:
            scheduler: The scheduler.
            ready: Set when the state of the start is in.
        """
        while self.lacks:
            await self._cache.dirtied.park()
        retry_at = trio.current_time() + RETRY_S
        while True:
            if self._cache.has_time:
                with trio.move_on_after(LABELS_S):
                    await self._cache.hurried.park()
            self._cache.has_time = True
            changes = list(self._changes())
            if changes:
                refusals = await scheduler.submit_many([event for event, _ in changes])
                for (_, done), refusal in zip(changes, refusals, strict=True):
                    done(refusal)
            if not any(_is_of_ask(event) for event, _ in changes):
                ready.set()  # Else other asks take the places of those.
            if not self._has_changes():
                with trio.move_on_at(retry_at):
                    await self._cache.dirtied.park()
            if trio.current_time() >= retry_at:
                retry_at = trio.current_time() + RETRY_S
                await self._find_ended(scheduler)
                self._mark_pods(_is_refused)

    def _has_changes(self) -> bool:
        cache = self._cache
        return bool(self._heads or self._again or cache.dirty_pods or cache.dirty_nodes)

    async def notice_ends(self, scheduler: Scheduler) -> None:
        """Let pods in again whose asks were bound and lost in one batch: no binder was called."""
        async with scheduler.decisions(kinds=[Kind.RELEASED]) as decisions:
            async for announced in decisions:
                decision = announced.decision
                name = (decision.app or "", decision.ask or "")
                entry = self._cache.holders.get(name)
                if entry is None or decision.reason in _PENDING_AGAIN or not entry.is_pending:
                    continue
                is_there = await scheduler.ask(*name).why() is not None
                now = self._cache.holders.get(name)
                if now is not None and now is entry and now.is_pending and not is_there:
                    self._cache.set_held(now, Held.NOTHING)
                    self._cache.mark_pod(now.pod.identity.uid)

    async def _find_ended(self, scheduler: Scheduler) -> None:
        """Let pods in again whose asks another client has removed."""
        pending = [one for one in self._cache.pods.values() if one.held is Held.PENDING]
        found: list[Examined] = []
        await scheduler.examine(found.append)
        (state,) = found
        for entry in pending:
            app, ask = entry.name or ("", "")
            seen = state.machine.app(app)
            is_there = seen is not None and seen.find(ask) is not None
            if entry.held is Held.PENDING and not is_there:
                self._cache.set_held(entry, Held.NOTHING)
                self._cache.mark_pod(entry.pod.identity.uid)

    def _changes(self) -> Iterator[Change]:
        """Yield the events of one batch: what others depend on comes first."""
        cache = self._cache
        again, self._again = self._again, set()
        if again:
            for uid, entry in cache.pods.items():
                if any(concerns(entry) for concerns in again):
                    cache.dirty_pods[uid] = None
        # The configuration, which has no name, is the first of them.
        heads, self._heads = self._heads, {}
        yield from (change for _, change in sorted(heads.items(), key=lambda one: bool(one[0])))
        nodes, cache.dirty_nodes = cache.dirty_nodes, {}
        for name in nodes:
            yield from self._node_changes(cache.nodes[name])
        pods, cache.dirty_pods = cache.dirty_pods, {}
        entries = [cache.pods[uid] for uid in pods if uid in cache.pods]
        for entry in entries:
            yield from self._removal(entry)
        yield from self._unused_gangs()
        entries.sort(key=lambda one: (one.pod.node is None, one.pod.rank()))
        for entry in entries:
            yield from self._addition(entry)

    def _node_changes(self, entry: NodeEntry) -> Iterator[Change]:
        have, want = entry.held, self._cache.wanted_node(entry)
        name = entry.name
        if want is None and not entry.pods:
            self._cache.nodes.pop(name, None)
        if have == want:
            return
        entry.held = want
        done = partial(self._note_node, entry, have)
        if want is None:
            yield RemoveNode(name), done
            return
        if have is None:
            capacity = Resources(want.capacity)
            yield (
                AddNode(name, capacity, want.attributes, want.schedulable, taints=want.taints),
                done,
            )
            if want.reserved:
                yield UpdateNode(name, reserved=Resources(want.reserved)), done
            for uid in entry.pods:
                self._cache.dirty_pods[uid] = None
            return
        yield (
            UpdateNode(
                name,
                None if have.capacity == want.capacity else Resources(want.capacity),
                None if have.attributes == want.attributes else want.attributes,
                None if have.schedulable == want.schedulable else want.schedulable,
                None,
                None if have.reserved == want.reserved else Resources(want.reserved),
                None if have.taints == want.taints else want.taints,
            ),
            done,
        )

    def _note_node(
        self, entry: NodeEntry, have: HeldNode | None, refusal: RefusedError | None
    ) -> None:
        if refusal is not None:
            _log.warning("node %s: %s", entry.name, refusal)
            entry.held = have

    def _removal(self, entry: PodEntry) -> Iterator[Change]:
        """Yield the event that removes the ask of a pod that is not bound, if it must go.

        It must also go if the pod asks for something else by now: then another one takes its place.
        """
        is_other = entry.asked is not None and entry.asked != entry.pod.request
        if entry.held is Held.PENDING and (is_other or self._wanted(entry) is not Held.PENDING):
            name = entry.name
            assert name is not None, "an ask without a name"
            # One that is deleted also ends where it runs, if the history is let in once more.
            event = _delete(ObjectKind.POD, name[1], name[0]) if entry.is_lost else RemoveAsk(*name)
            yield event, partial(self._note_removed, entry)
        if entry.is_gone and entry.held is Held.NOTHING:
            self._cache.forget(entry)

    def _note_removed(self, entry: PodEntry, refusal: RefusedError | None) -> None:
        if refusal is None:
            self._cache.set_held(entry, Held.NOTHING)
            self._cache.mark_pod(entry.pod.identity.uid)
        # Else it was bound meanwhile: its binder sees what has become of the pod.

    def _wanted(self, entry: PodEntry) -> Held:
        wanted, request, surroundings = entry.wanted(), entry.pod.request, self.surroundings
        if wanted is Held.PENDING and request is not None:
            return (
                Held.NOTHING
                if surroundings.missing(request) or surroundings.lacks_group(request)
                else wanted
            )
        return wanted

    def _unused_gangs(self) -> Iterator[Change]:
        """Yield the events that remove gangs that no pod names: each application brings its own."""
        if len(self._gangs) <= self._most_gangs:
            return
        for gang in (
            self._gangs.keys() - self._named_gangs() - self._cache.by_gang.keys() - self._groups
        ):
            del self._gangs[gang]
            yield _delete(ObjectKind.POD_GROUP, gang), partial(_warn, f"gang {gang}")
        self._most_gangs = 2 * len(self._gangs) + _FEW_GANGS

    def _addition(self, entry: PodEntry) -> Iterator[Change]:
        """Yield the event that lets a pod in, if the scheduler should have it and does not."""
        wanted, pod = self._wanted(entry), entry.pod
        request = pod.request
        if entry.held is not Held.NOTHING or wanted is Held.NOTHING or request is None:
            return
        if pod.node is not None and self._cache.node_of(pod.node).held is None:
            return  # It is let in with its node.
        name = (request.ask.app, request.ask.ask)
        if (holder := self._cache.holders.get(name)) is not None:
            # It is let in when the other's ask has ended.
            other = holder.pod.identity.full_name
            self._cache.note_refused(entry, f"the ask {'/'.join(name)} is that of the pod {other}")
            return
        for gang, fields in request.gangs.items():
            if self._gangs.get(gang) != fields:
                self._gangs[gang] = fields
                yield Apply((Manifest(AddGang(gang, fields)),)), partial(_warn, f"gang {gang}")
        was_refused = bool(entry.refusal)
        self._cache.set_held(entry, wanted, name)
        entry.asked, entry.has = request, pod.takes
        if was_refused and pod.node is not None:
            # What it takes there was reserved: that would leave no room for itself.
            yield from self._node_changes(self._cache.node_of(pod.node))
        submission = self.surroundings.submission(pod, request)
        yield Apply((Manifest(submission),)), partial(self._note_pod, entry)

    def _note_pod(self, entry: PodEntry, refusal: RefusedError | None) -> None:
        if refusal is None:
            return
        text = str(refusal)
        if entry.refusal != text:
            _log.warning("%s: %s", entry.pod.identity.full_name, text)
        self._cache.note_refused(entry, text)


def _has_claims(entry: PodEntry) -> bool:
    return entry.pod.request is not None and bool(entry.pod.request.claims)


def _is_refused(entry: PodEntry) -> bool:
    return bool(entry.refusal)


def _delete(kind: ObjectKind, name: str, app: str | None = None) -> Delete:
    return Delete((Manifest(ObjectName(kind, name, app)),))


def _is_of_ask(event: Event) -> bool:
    """Return whether an event removes an ask."""
    if not isinstance(event, Delete):
        return isinstance(event, RemoveAsk)
    return any(one.content.kind is ObjectKind.POD for one in event.objects)


def _warn(what: str, refusal: RefusedError | None) -> None:
    if refusal is not None:
        _log.warning("%s: %s", what, refusal)
