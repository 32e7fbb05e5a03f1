"""The objects of a live cluster as values: pods, nodes, claims of volumes, PodGroups.

The fields are read as the importer of dumps reads them, so that a dump and the cluster that it was
taken from mean the same. What Muster does not honour keeps a pod from being placed: it has no ask,
and the field is named. Each kind of PodGroup has a status with phases of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast, final

import attrs

from muster._pod_identity import PodIdentity
from muster.feeds._fields import Values
from muster.feeds._kinds import FieldError
from muster.feeds._kubernetes import (
    FINISHED,
    Amounts,
    ask_attributes,
    capacity_of,
    maps_in,
    requests_of,
)
from muster.importing.kubernetes.nodes import PODS
from muster.importing.kubernetes.pods import BAD_GANG, BAD_USER, PodLabels, labels_of
from muster.importing.kubernetes.schema import CLAIM, POD, PRESENT_NODE, ROOM, VOLUME
from muster.importing.queues import name_of
from muster.kubernetes._api import Object, Resource
from muster_core.errors import EventError
from muster_core.events import AddAsk, PodObject
from muster_core.gangs import NO_FIELDS, GangFields
from muster_core.resources import Resources
from muster_core.values.affinity import Affinity, Taint
from muster_core.values.names import DEFAULT_NAMESPACE

PORT: Final = "port/"
"""The prefix of the resource types of host ports."""

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label that every node has in the scheduler."""
_VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
_MIRROR: Final = "kubernetes.io/config.mirror"
_IS_STATIC: Final = f"metadata.annotations.{_MIRROR}: it is a static pod, which its kubelet runs"


@final
@attrs.frozen
class Condition:
    """The condition ``PodScheduled`` of a pod."""

    status: str
    reason: str
    message: str

    def written(self) -> Object:
        """Return it as Kubernetes has it."""
        return {"type": _SCHEDULED, **attrs.asdict(self)}


_SCHEDULED: Final = "PodScheduled"


@final
@attrs.frozen
class PodRequest:
    """The request of a pod to Muster.

    Attributes:
        labels: What its labels, annotations and owners say.
        gangs: The fields that it sets for gangs, by their full names.
        ask: Its ask, without the affinity of its volumes and with its priority as a number.
        priority_class: The name of its priority class; may be empty.
        claims: The claims of volumes that have to be bound, each with the field that names it.
        queue_of_group: Whether it has to know the queue of its PodGroup, which Volcano makes.
    """

    labels: PodLabels
    gangs: Mapping[str, GangFields]
    ask: AddAsk
    priority_class: str
    claims: tuple[tuple[str, str], ...] = ()
    queue_of_group: bool = False

    @property
    def queue(self) -> str | None:
        """The queue that it names, or None."""
        return self.labels.path or self.labels.queue or None


@final
@attrs.frozen
class Pod:
    """A pod as the cluster has it.

    Attributes:
        identity: Which one it is.
        created: When it was created, as text; texts of one form sort by time.
        is_ours: Whether it names Muster as its scheduler.
        node: The node to which it is bound, or None.
        phase: Its phase.
        is_deleted: Whether it is being deleted.
        grace_s: How long it may take to end, in seconds.
        is_gated: Whether a scheduling gate holds it back.
        takes: The amounts that it takes on its node, in base units.
        request: Its request, if it is ours and can be honoured.
        unsupported: Why it cannot, or that it is not ours, with the field; empty if it can.
        ignored: Its preferences, which are not honoured, as text.
        condition: Its condition ``PodScheduled``, or None.
    """

    identity: PodIdentity
    created: str
    is_ours: bool
    node: str | None
    phase: str
    is_deleted: bool
    grace_s: float
    is_gated: bool
    takes: Amounts
    request: PodRequest | None = None
    unsupported: str = ""
    ignored: tuple[str, ...] = ()
    condition: Condition | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, and takes nothing any more."""
        return self.phase in FINISHED

    def rank(self) -> tuple[str, str]:
        """Return its place among pods that come at once."""
        return self.created, self.identity.full_name


# -- pods -----------------------------------------------------------------------------------------


def read_pod(written: Object, scheduler_name: str) -> Pod:
    """Return a pod; it never raises, since a pod that cannot be read takes room as well."""
    metadata = cast("Mapping[str, Any]", written.get("metadata") or {})
    spec = cast("Mapping[str, Any]", written.get("spec") or {})
    status = cast("Mapping[str, Any]", written.get("status") or {})
    grace = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
    # What mirrors a static pod has a node from the start, and no deletion ends what it mirrors.
    is_mirror = _MIRROR in (metadata.get("annotations") or {})
    is_ours = spec.get("schedulerName") == scheduler_name and not is_mirror
    takes, unsupported = _takes(written)
    if not is_ours:
        unsupported = _IS_STATIC if is_mirror else _of_other(str(spec.get("schedulerName")))
    pod = Pod(
        identity=PodIdentity(
            str(metadata.get("namespace") or DEFAULT_NAMESPACE),
            str(metadata.get("name")),
            str(metadata.get("uid")),
            _owner(metadata),
        ),
        created=str(metadata.get("creationTimestamp") or ""),
        is_ours=is_ours,
        node=str(spec["nodeName"]) if spec.get("nodeName") else None,
        phase=str(status.get("phase") or "Pending"),
        is_deleted=bool(metadata.get("deletionTimestamp")),
        grace_s=float(grace) if isinstance(grace, int) else 30.0,
        is_gated=bool(spec.get("schedulingGates")),
        takes=takes,
        unsupported=unsupported,
        condition=_condition(status),
    )
    return _with_request(pod, written) if is_ours and not unsupported else pod


# POD-30
@cache
def _of_other(scheduler: str) -> str:
    return f"spec.schedulerName is {scheduler}: that scheduler decides for it"


def _owner(metadata: Mapping[str, Any]) -> str:
    owners = cast("Sequence[Mapping[str, Any]]", metadata.get("ownerReferences") or ())
    named = (f"{one.get('kind')}/{one.get('name')}" for one in owners if one.get("controller"))
    return next(named, "")


def _condition(status: Mapping[str, Any]) -> Condition | None:
    for one in cast("Iterable[Mapping[str, Any]]", status.get("conditions") or ()):
        if one.get("type") == _SCHEDULED:
            fields = (str(one.get(name) or "") for name in ("status", "reason", "message"))
            return Condition(*fields)
    return None


# POD-17
def _takes(written: Object) -> tuple[Amounts, str]:
    """Return the amounts that a pod takes on its node, and why they cannot be read or an empty text."""
    try:
        values = ROOM.parse(cast("Any", written))
        return {**requests_of(values), PODS: 1, **dict.fromkeys(_ports(values), 1)}, ""
    except FieldError as error:
        return {PODS: 1}, _problem_text(error)


def _ports(values: Values) -> Iterator[str]:
    """Yield the resource types of the host ports; one of any address counts as all."""
    for kind in ("containers", "init_containers"):
        for container in maps_in(values, kind):
            for port in maps_in(container, "ports"):
                if number := port.get("host_port"):
                    yield f"{PORT}{port.get('protocol') or 'TCP'}/{number}"


def _problem_text(error: FieldError) -> str:
    return str(error).removeprefix(".")


def _with_request(pod: Pod, written: Object) -> Pod:
    """Add the request of a pod, or the reason why it cannot be honoured."""
    try:
        values = POD.parse(cast("Any", written))
        annotations = cast("Mapping[str, str]", written["metadata"].get("annotations") or {})
        request = _request(pod, values, in_volcano=_VOLCANO_GROUP in annotations)
    except FieldError as error:
        return attrs.evolve(pod, unsupported=_problem_text(error))
    except EventError as error:
        return attrs.evolve(pod, unsupported=str(error))
    unsupported = next(_unsupported(values), "")
    ignored = tuple(_ignored(values))
    if unsupported:
        return attrs.evolve(pod, unsupported=unsupported, ignored=ignored)
    return attrs.evolve(pod, request=request, ignored=ignored)


def _request(pod: Pod, values: Values, *, in_volcano: bool) -> PodRequest:
    notes: list[str] = []
    labels, defines = labels_of(values, notes)
    for note, field in ((BAD_GANG, "metadata.annotations"), (BAD_USER, "metadata.annotations")):
        if note in notes:
            raise FieldError(note, field)
    gangs: dict[str, GangFields] = {}
    for gang, fields in defines:
        known = gangs.get(gang)
        gangs[gang] = fields if known is None else known.over(fields)
    own = ask_attributes(values)
    priority_class = str(own.pop("priority_class", None) or "")
    ask = AddAsk(
        app=labels.app,
        ask=name_of(pod.identity.name),
        resources=Resources(pod.takes),
        gang=labels.gang,
        says=NO_FIELDS if labels.gang is None else gangs.pop(labels.gang, NO_FIELDS),
        once=True,
        work=pod.identity.work(),
        **own,
    )
    is_open = not (labels.path or labels.queue) and ask.says.min_member is None
    of_group = is_open and labels.gang is not None and in_volcano
    return PodRequest(labels, gangs, ask, priority_class, tuple(_claims(pod, values)), of_group)


def _claims(pod: Pod, values: Values) -> Iterator[tuple[str, str]]:
    """Yield the claims of volumes of a pod; the claim of an ephemeral one is named after both."""
    for number, volume in enumerate(maps_in(values, "volumes")):
        field = f"spec.volumes[{number}]"
        if claim := volume.get("claim"):
            yield f"{field}.persistentVolumeClaim", f"{pod.identity.namespace}/{claim}"
        elif volume.get("ephemeral"):
            yield f"{field}.ephemeral", f"{pod.identity.full_name}-{volume.get('name')}"


_NOT_HONOURED: Final = {
    "pod_affinity": "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "pod_anti_affinity": "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "resource_claims": "spec.resourceClaims",
}
_PREFERENCES: Final = {
    "preferred": "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "preferred_pods": "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    "averse_pods": "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
}
_ANYWAY: Final = "ScheduleAnyway"


# POD-16
def _unsupported(values: Values) -> Iterator[str]:
    """Yield the fields of a pod that Muster does not support and must not ignore."""
    for name, field in _NOT_HONOURED.items():
        if values.get(name):
            yield f"{field} is not honoured"
    for number, one in enumerate(maps_in(values, "spread")):
        if one.get("otherwise") != _ANYWAY:
            yield (
                f"spec.topologySpreadConstraints[{number}].whenUnsatisfiable: "
                f"{one.get('otherwise') or 'DoNotSchedule'} is not honoured: {_ANYWAY} would be ignored"
            )


def _ignored(values: Values) -> Iterator[str]:
    for name, field in _PREFERENCES.items():
        if values.get(name):
            yield f"{field} is ignored"
    for number, one in enumerate(maps_in(values, "spread")):
        if one.get("otherwise") == _ANYWAY:
            yield f"spec.topologySpreadConstraints[{number}] is ignored"


# -- submissions ----------------------------------------------------------------------------------


@final
@attrs.frozen
class Surroundings:
    """The other objects of the cluster on which pods depend.

    Attributes:
        classes: The values of priority classes, by their names.
        groups: The queue that each PodGroup names, or an empty text, by the full names of their gangs.
        claims: The volume of each claim that is bound, by the full name of the claim.
        volumes: On which nodes each volume can be used, by its name; None for any.
    """

    classes: dict[str, int] = attrs.field(factory=dict[str, int])
    groups: dict[str, str] = attrs.field(factory=dict[str, str])
    claims: dict[str, str] = attrs.field(factory=dict[str, str])
    volumes: dict[str, Affinity | None] = attrs.field(factory=dict[str, "Affinity | None"])

    def missing(self, request: PodRequest) -> str:
        """Return what is missing that a pod needs, as text; empty if nothing is."""
        for field, claim in request.claims:
            if self.claims.get(claim) not in self.volumes:
                return f"{field}: the claim {claim} is not bound to a volume"
        return ""

    def lacks_group(self, request: PodRequest) -> str:
        """Return the missing PodGroup that says the queue of a pod, as text; empty if none is."""
        gang = request.ask.gang
        if not request.queue_of_group or gang in self.groups:
            return ""
        return f"metadata.annotations.{_VOLCANO_GROUP}: the PodGroup {gang} is not there yet"

    # POD-19
    def submission(self, pod: Pod, request: PodRequest) -> PodObject:
        """Return the submission of a pod whose claims are bound."""
        ask, labels = request.ask, request.labels
        affinity = ask.affinity
        for _, claim in request.claims:
            affinity = _conjunction(affinity, self.volumes[self.claims[claim]])
        if affinity is not ask.affinity:
            ask = attrs.evolve(ask, affinity=affinity)
        known = self.classes.get(request.priority_class)
        if known is not None and ask.priority in (None, known):
            ask = attrs.evolve(ask, priority=None, priority_class=request.priority_class)
        return PodObject(
            app=ask.app,
            name=ask.ask,
            queue=request.queue or self.groups.get(ask.gang or "") or None,
            ask=ask,
            node=pod.node,
            namespace=labels.namespace,
            user=labels.user or None,
            groups=labels.groups,
        )


def _conjunction(first: Affinity | None, second: Affinity | None) -> Affinity | None:
    """Return the affinity that demands both of two."""
    if first is None or second is None:
        return second if first is None else first
    return tuple((*one, *other) for one in first for other in second)


def claimed_volume(written: Object) -> str | None:
    """Return the name of the volume to which a claim is bound, or None."""
    try:
        values = CLAIM.parse(cast("Any", written))
    except FieldError:
        return None
    volume = cast("str | None", values.get("volume"))
    return volume if values.get("phase") == "Bound" else None


def volume_affinity(written: Object) -> Affinity | None:
    """Return on which nodes a volume can be used; None for any."""
    try:
        return cast("Affinity | None", VOLUME.parse(cast("Any", written)).get("affinity"))
    except FieldError:
        return ((),)  # No node: it cannot be known which.


# -- nodes ----------------------------------------------------------------------------------------


@final
@attrs.frozen
class Node:
    """A node as the cluster has it.

    Attributes:
        name: Its name.
        capacity: What it has for pods, in base units.
        attributes: Its labels.
        schedulable: Whether it is ready, and not closed.
        taints: Its taints.
        problem: Why it cannot be read; empty if it can. It is closed then.
    """

    name: str
    capacity: Amounts
    attributes: Mapping[str, str]
    schedulable: bool
    taints: tuple[Taint, ...]
    problem: str = ""

    @property
    def offers(self) -> tuple[object, ...]:
        """All that decides which pods it takes, except its labels."""
        return self.schedulable, self.capacity, self.taints, self.problem


# POD-18
def read_node(written: Object) -> Node:
    """Return a node; one that cannot be read has nothing, and is closed."""
    name = str(cast("Mapping[str, Any]", written.get("metadata") or {}).get("name"))
    try:
        values = PRESENT_NODE.parse(cast("Any", written))
    except FieldError as error:
        return Node(name, {}, {HOSTNAME: name}, False, (), _problem_text(error))
    is_ready = any(
        one.get("type") == "Ready" and one.get("status") == "True"
        for one in maps_in(values, "conditions")
    )
    return Node(
        name=name,
        capacity=capacity_of(values),
        attributes={HOSTNAME: name, **cast("Mapping[str, str]", values.get("attributes", {}))},
        schedulable=is_ready and bool(values.get("schedulable", True)),
        taints=cast("tuple[Taint, ...]", values.get("taints", ())),
    )


POD_GROUPS: Final = Resource("scheduling.sigs.k8s.io/v1alpha1", "podgroups")
"""Those of the coscheduling plugin of the scheduler of Kubernetes."""

VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh/v1beta1", "podgroups")
"""Those of Volcano."""

ENDED: Final = frozenset({"Finished", "Failed", "Completed"})
"""The phases of groups that have ended."""


@final
@attrs.frozen
class MemberCounts:
    """How many pods of a PodGroup there are.

    Attributes:
        scheduled: Those that have a node, and have not finished.
        running: Those of them that run.
        succeeded: Those that have succeeded.
        failed: Those that have failed.
    """

    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0

    def status(self, resource: Resource, min_member: int) -> dict[str, Any]:
        """Return the status of a PodGroup of some kind that needs a number of pods."""
        least, fields = max(1, min_member), attrs.asdict(self)
        if resource == VOLCANO_POD_GROUPS:
            del fields["scheduled"]
            return {"phase": self._volcano_phase(least), **fields}
        return {"phase": self._phase(least), **fields}

    def _phase(self, least: int) -> str:
        """Return a phase that all versions of the plugin know."""
        placed = self.scheduled + self.succeeded + self.failed
        if self.succeeded >= least:
            return "Finished"
        if self.running + self.succeeded >= least:
            return "Running"
        if self.failed and self.running + self.succeeded + self.failed >= least:
            return "Failed"
        if placed >= least:
            return "Scheduling"
        return "Unknown" if placed else "Pending"

    def _volcano_phase(self, least: int) -> str:
        if self.scheduled + self.succeeded >= least:
            return "Running" if self.scheduled else "Completed"
        # Volcano's controllers make the pods only of a group that is let in.
        return "Unknown" if self.running else "Inqueue"
