"""Reports to the API server: conditions of pods, events and the status of PodGroups.

Nothing waits for them, and they hold up no decision. An object has at most one waiting report, and
a new one replaces it; one task writes, at most :data:`RATE` times a second. It reads an object
before it writes its status, and the write holds for what was read only: a pod that is bound, or
another one of the same name, never gets the report for a pending one.
"""

from __future__ import annotations

import logging
import re
import socket
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Literal, assert_never, cast, final

import attrs
import trio

from muster._pod_identity import PodIdentity
from muster.kubernetes._access import AccessError
from muster.kubernetes._api import Api, ApiError, Object, Resource, SilenceError, rest_s
from muster.kubernetes._objects import ENDED, MemberCounts

PODS: Final = Resource("v1", "pods")

RATE: Final = 20
"""The most writes in a second."""

_BUSY: Final = 5
"""The factor by which writes are rarer while bindings wait for each other."""

REST_S: Final = 10.0
"""How long the status of an object rests after it was written, in seconds."""

NOTE_BYTES: Final = 1024
"""How long the note of an event may be, in bytes."""

EventReason = Literal["Scheduled", "FailedScheduling", "Preempted"]

#: The type and the action of an event, as the scheduler of Kubernetes has them.
_EVENTS: Final[Mapping[EventReason, tuple[str, str]]] = {
    "Scheduled": ("Normal", "Binding"),
    "FailedScheduling": ("Warning", "Scheduling"),
    "Preempted": ("Normal", "Preempting"),
}
#: What an event has in ``events.k8s.io/v1``, and the same in ``v1``.
_NEW_FIELDS: Final = ("eventTime", "regarding", "note", "reportingController")
_OLD_FIELDS: Final = ("firstTimestamp", "involvedObject", "message", "reportingComponent")

#: Since when a server knows ``events.k8s.io/v1``, and the condition that a pod is evicted.
_KNOWS_EVENTS: Final = (1, 19)
_KNOWS_DISRUPTION: Final = (1, 26)

_GATED: Final = "SchedulingGated"
_ANSWER_S: Final = 10.0
_DISRUPTION_S: Final = 5.0
_MOST_EVENTS: Final = 2_000
_MOST_SERIES: Final = 10_000
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
#: Of what the server refuses, these may go later; all other requests are dropped.
_LATER: Final = frozenset({401, 408, _CONFLICT, 429})

_log: Final = logging.getLogger(__name__)


@final
@attrs.define(eq=False)
class _Status:
    """Fields of the status of an object that are to be written."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    fields: dict[str, Any]

    @property
    def is_pod(self) -> bool:
        return self.resource == PODS

    def path(self, part: str = "") -> str:
        return self.resource.path(self.name, self.namespace, part)


_Key = tuple[str, EventReason, str]


@final
@attrs.define(eq=False)
class _Series:
    """An event, as often as it has happened; it may have an object already."""

    pod: PodIdentity
    reason: EventReason
    note: str
    name: str
    first: str
    last: str = ""
    count: int = 0
    is_written: bool = False

    @property
    def key(self) -> _Key:
        return self.pod.uid, self.reason, self.note


@final
class Reports:
    """Writes reports to an API server.

    Args:
        api: The API server.
        scheduler_name: The name of the scheduler in events.
        instance: The name of this process there; by default it names the machine.
    """

    def __init__(self, api: Api, scheduler_name: str, *, instance: str | None = None) -> None:
        self._api = api
        self._scheduler_name = scheduler_name
        self._instance = (instance or f"{scheduler_name}-{socket.gethostname()}")[:128]
        self._version: tuple[int, ...] | None = None
        #: The reports to write, by the object's uid, oldest first.
        self._waiting: dict[str, _Status] = {}
        #: Until when an object rests, and the fields last written to it; the first to end comes first.
        self._written: dict[str, tuple[float, Mapping[str, Any]]] = {}
        #: The events that are known, and those of them that are to be written.
        self._series: dict[_Key, _Series] = {}
        self._events: dict[_Key, _Series] = {}
        self._is_events_turn = False
        self._current: _Status | None = None
        self._changed = trio.Event()
        #: The kinds whose status has no path of its own, and the fields that they lack.
        self._whole: set[Resource] = set()
        self._lacks: set[tuple[Resource, str]] = set()
        self._refused: set[tuple[str, int]] = set()
        #: Whether something else is more urgent now.
        self.is_busy: Callable[[], bool] = lambda: False

    def pending(
        self, pod: PodIdentity, condition: Object | None, reason: str, message: str
    ) -> None:
        """Report why a pod is not scheduled, with an event unless the pod is gated.

        Args:
            pod: The pod.
            condition: Its condition ``PodScheduled``, as it was seen last.
            reason: The reason in one word, such as ``Unschedulable``.
            message: The reason in a sentence.
        """
        wanted = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        seen = {"conditions": [] if condition is None else [condition]}
        self._queue_status(_status_of(pod, {"conditions": [wanted]}), seen)

    def nominated(self, pod: PodIdentity, node: str | None) -> None:
        """Report on which node room is made for a pending pod; None: on none any more."""
        self._queue_status(_status_of(pod, {"nominatedNodeName": node}), None)

    def forget(self, uid: str) -> None:
        """Drop the report on an object that is bound, or gone."""
        self._waiting.pop(uid, None)
        if self._current is not None and self._current.uid == uid:
            self._current = None

    def event(self, pod: PodIdentity, reason: EventReason, message: str) -> None:
        """Report an event of a pod; the same one again is counted."""
        now, note = _now(), _shortened_note(message)
        series = self._series.get((pod.uid, reason, note))
        if series is None:
            series = _Series(pod, reason, note, _event_name(pod), now)
            _put(self._series, series, _MOST_SERIES)
        series.count += 1
        series.last = now
        _put(self._events, series, _MOST_EVENTS)
        self._changed.set()

    def group(self, resource: Resource, group: Object, counts: MemberCounts) -> None:
        """Report the status of a PodGroup.

        Args:
            resource: Its kind.
            group: The PodGroup, as it was seen last.
            counts: Its pods.
        """
        seen = _part(group, "status")
        if counts == MemberCounts() and seen.get("phase") in ENDED:
            return  # Its pods have been deleted after their end.
        wanted = counts.status(resource, int(_part(group, "spec").get("minMember") or 0))
        known = {name: one for name, one in wanted.items() if (resource, name) not in self._lacks}
        of = _part(group, "metadata")
        self._queue_status(_Status(resource, of["namespace"], of["name"], of["uid"], known), seen)

    async def disrupted(self, pod: PodIdentity, message: str) -> None:
        """Set the condition that a pod is about to be evicted, if the server knows it.

        It returns also if that was not possible, after a few seconds.
        """
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": message,
            "lastTransitionTime": _now(),
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            with trio.fail_after(_DISRUPTION_S):
                if await self._has_version(_KNOWS_DISRUPTION):
                    path = PODS.path(pod.name, pod.namespace, "status")
                    await self._api.change(path, body, strategic=True)
        except (ApiError, SilenceError, AccessError, trio.TooSlowError) as error:
            _log.info("%s: no condition DisruptionTarget: %s", pod.full_name, error)

    async def run(self) -> None:
        """Write for ever. What has not been written when it is cancelled is dropped."""
        failures = 0
        try:
            while True:
                job = await self._next()
                end = trio.current_time() + (_BUSY if self.is_busy() else 1) / RATE
                try:
                    with trio.fail_after(_ANSWER_S):
                        await self._write(job)
                    failures = 0
                except (ApiError, SilenceError, AccessError, trio.TooSlowError) as error:
                    if self._failed(job, error):
                        end += rest_s(failures, error)
                        failures += 1
                await trio.sleep_until(end)
        finally:
            self._waiting.clear()
            self._events.clear()

    def _queue_status(self, status: _Status, seen: Object | None) -> None:
        """Queue a status for writing, unless it is as it was last written, or read."""
        until, written = self._written.get(status.uid, (0.0, {}))
        if until <= trio.current_time():
            written = {}
        is_known = seen is not None or status.fields.keys() <= written.keys()
        waiting = self._waiting.get(status.uid)
        if not is_known or _difference({**(seen or {}), **written}, status.fields):
            if waiting is None:
                self._waiting[status.uid] = status
                self._changed.set()
            else:
                waiting.fields |= status.fields
        elif waiting is not None:
            for name in status.fields:
                waiting.fields.pop(name, None)
            if not waiting.fields:
                del self._waiting[status.uid]

    async def _next(self) -> _Status | _Series:
        """Wait for the next write: a status and an event in turn, the oldest first."""
        while True:
            status = self._due()
            if self._events and (status is None or self._is_events_turn):
                self._is_events_turn = False
                return self._events.pop(next(iter(self._events)))
            if status is not None:
                self._is_events_turn = True
                return self._waiting.pop(status.uid)
            self._changed = trio.Event()
            rests = (self._written[uid][0] for uid in self._waiting)
            with trio.move_on_at(min(rests, default=inf)):
                await self._changed.wait()

    def _due(self) -> _Status | None:
        now = trio.current_time()
        while self._written and next(iter(self._written.values()))[0] <= now:
            del self._written[next(iter(self._written))]
        return next((one for uid, one in self._waiting.items() if uid not in self._written), None)

    async def _write(self, job: _Status | _Series) -> None:
        match job:
            case _Status():
                self._current = job
                self._written[job.uid] = (trio.current_time() + REST_S, job.fields)
                await self._write_status(job)
            case _Series():
                await self._write_event(job)
            case _:
                assert_never(job)

    async def _write_status(self, job: _Status) -> None:
        found = await self._api.get(job.path())
        metadata = _part(found, "metadata")
        is_over = _part(found, "spec").get("nodeName") or metadata.get("deletionTimestamp")
        if metadata.get("uid") != job.uid or (job.is_pod and is_over):
            return
        changed = _difference(_part(found, "status"), job.fields)
        if not changed or self._current is not job:
            return
        # The server refuses it if the object is another one by now, or has changed.
        same = {name: metadata.get(name) for name in ("uid", "resourceVersion")}
        written = await self._change(job, {"metadata": same, "status": changed})
        for one in changed.get("conditions", ()):
            if one["reason"] != _GATED:
                pod = PodIdentity(job.namespace, job.name, job.uid)
                self.event(pod, "FailedScheduling", one["message"])
        if not job.is_pod:
            lacks = _difference(_part(written, "status"), job.fields)
            self._lacks |= {(job.resource, name) for name in lacks}

    async def _change(self, job: _Status, body: Object) -> Object:
        """Change the status of an object, which has a path of its own for most kinds."""
        if job.resource not in self._whole:
            try:
                return await self._api.change(job.path("status"), body, strategic=job.is_pod)
            except ApiError as error:
                if error.status != _NOT_FOUND or job.is_pod:
                    raise
        written = await self._api.change(job.path(), body)
        self._whole.add(job.resource)
        return written

    async def _write_event(self, job: _Series) -> None:
        is_new_api = await self._has_version(_KNOWS_EVENTS)
        events = Resource("events.k8s.io/v1" if is_new_api else "v1", "events")
        if job.is_written:
            try:
                path = events.path(job.name, job.pod.namespace)
                await self._api.change(path, _counted(job, is_new_api=is_new_api))
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    raise
                # The server keeps an event for an hour.
                job.is_written, job.name = False, _event_name(job.pod)
            else:
                return
        try:
            body = self._event_body(job, is_new_api=is_new_api)
            await self._api.create(events.path(None, job.pod.namespace), body)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # Only the answer was lost.
                raise
        job.is_written = True

    def _event_body(self, job: _Series, *, is_new_api: bool) -> Object:
        kind, action = _EVENTS[job.reason]
        names = {"namespace": job.pod.namespace, "name": job.pod.name, "uid": job.pod.uid}
        pod = {"apiVersion": "v1", "kind": "Pod", **names}
        values = (job.first, pod, job.note, self._scheduler_name)
        source = {} if is_new_api else {"source": {"component": self._scheduler_name}}
        return {
            "metadata": {"name": job.name, "namespace": job.pod.namespace},
            "type": kind,
            "reason": job.reason,
            "action": action,
            "reportingInstance": self._instance,
            **dict(zip(_NEW_FIELDS if is_new_api else _OLD_FIELDS, values, strict=True)),
            **source,
            **(_counted(job, is_new_api=is_new_api) if job.count > 1 or not is_new_api else {}),
        }

    async def _has_version(self, since: tuple[int, int]) -> bool:
        """Return whether the server is of some version, or a later one."""
        if self._version is None:
            version = await self._api.get("/version")
            numbers = re.findall(r"\d+", f"{version.get('major')}.{version.get('minor')}")
            self._version = tuple(int(one) for one in numbers[:2])
        return self._version >= since

    def _failed(self, job: _Status | _Series, error: Exception) -> bool:
        """Queue a failed write again, if that makes sense; return whether to rest before."""
        status = error.status if isinstance(error, ApiError) else None
        if status is not None and status < 500 and status not in _LATER:
            what = job.resource.plural if isinstance(job, _Status) else "events"
            is_usual = status in {_NOT_FOUND, 410} or (what, status) in self._refused
            self._refused.add((what, status))
            _log.log(logging.DEBUG if is_usual else logging.WARNING, "%s: %s", what, error)
            return False
        _log.debug("to be written later: %s", error)
        if isinstance(job, _Series):
            _put(self._events, job, _MOST_EVENTS)
        elif self._current is job:
            self._written.pop(job.uid, None)
            newer = self._waiting.pop(job.uid, job)
            newer.fields = job.fields | newer.fields
            self._waiting[job.uid] = newer
        return status != _CONFLICT


def _part(one: Object, name: str) -> Object:
    return cast("Object", one.get(name) or {})


def _status_of(pod: PodIdentity, fields: dict[str, Any]) -> _Status:
    return _Status(PODS, pod.namespace, pod.name, pod.uid, fields)


def _put(known: dict[_Key, _Series], one: _Series, most: int) -> None:
    """Keep a series; the oldest goes where there are too many."""
    known.setdefault(one.key, one)
    if len(known) > most:
        del known[next(iter(known))]


def _difference(found: Object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be written of fields of a status, so that they are as wanted."""
    changed = {
        name: value
        for name, value in wanted.items()
        if name != "conditions" and (found.get(name) or None) != (value or None)
    }
    old = {one.get("type"): one for one in cast("list[Object]", found.get("conditions") or ())}
    now = [_transition(old.get(one["type"], {}), one) for one in wanted.get("conditions", ())]
    conditions = [one for one in now if one]
    return {**changed, "conditions": conditions} if conditions else changed


def _transition(old: Object, new: Object) -> Object:
    """Return what is to be written of a condition; nothing if it is the same already."""
    if all((old.get(name) or "") == text for name, text in new.items()):
        return {}
    is_same = old.get("status") == new["status"]
    return new if is_same else {**new, "lastTransitionTime": _now()}


def _counted(job: _Series, *, is_new_api: bool) -> dict[str, Any]:
    if is_new_api:
        return {"series": {"count": job.count, "lastObservedTime": job.last}}
    return {"count": job.count, "lastTimestamp": job.last}


def _event_name(pod: PodIdentity) -> str:
    return f"{pod.name[:200].rstrip('-.')}.{uuid.uuid4().hex[:16]}"


def _shortened_note(message: str) -> str:
    """Return as much of a message as the note of an event may have."""
    whole = message.encode()
    is_long = len(whole) > NOTE_BYTES
    return f"{whole[: NOTE_BYTES - 3].decode(errors='ignore')}…" if is_long else message


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
