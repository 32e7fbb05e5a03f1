"""Bindings and evictions: how the cluster carries out each allocation.

A binding is sent at most once at a time, and only while the cache says that the same pod is there
and wants it. Its answer can be lost, and the API server does not compare its uid. So the state of
the pod in the watch, or in a request for it, decides in the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs
import trio

from muster._bind_options import BindOptions
from muster._errors import NotStartedError, WorkFailedError
from muster._pod_identity import PodIdentity
from muster.kubernetes._access import AccessError
from muster.kubernetes._api import Api, ApiError, Object, SilenceError
from muster.kubernetes._cache import Cache, Held, PodEntry
from muster.kubernetes._reports import PODS, Reports
from muster_core.decisions import Reason

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation


_LEAST_S: Final = 0.2
_MOST_S: Final = 5.0
_BUDGET_S: Final = 5.0
_AFTER_S: Final = 30.0
_LOOK_S: Final = 5.0
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_TOO_MANY: Final = 429

_log: Final = logging.getLogger(__name__)


@final
class _MovedError(Exception):
    """Another scheduler has bound the pod to another node."""

    def __init__(self, node: str) -> None:
        super().__init__(f"moved: another scheduler has bound it to {node}")


@final
class KubernetesBinder:
    """A binder that binds pods, and evicts them; ``connect`` makes one.

    Args:
        api: The API server.
        cache: The known pods and nodes.
        options: How pods are bound.
        reports: Writes events and conditions about it.
        ready: Set when the scheduler has all that the cluster has.
        nursery: Where evictions go on after their allocations have ended.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        options: BindOptions,
        reports: Reports,
        ready: trio.Event,
        nursery: trio.Nursery,
    ) -> None:
        self._api = api
        self._cache = cache
        self._options = options
        self._reports = reports
        self._ready = ready
        self._nursery = nursery
        self._at_once = trio.CapacityLimiter(options.concurrency)
        reports.is_busy = lambda: self._at_once.statistics().tasks_waiting > 0
        #: How many bindings the server has carried out, and how many pods were evicted.
        self.bindings = self.evictions = 0

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Bind the pod of an allocation, and wait for its end; see :class:`muster.Binder`.

        Raises:
            NotStartedError: If it surely is not bound, and could not be in time.
            WorkFailedError: If the pod has failed.
        """
        identity = PodIdentity.of(allocation.work)
        if identity is None:  # No pod: another program does its work, and reports its end.
            started()
            await trio.sleep_forever()
        try:
            await self._ready.wait()
        except trio.Cancelled:
            # What an earlier program has decided can be taken back before the cluster is known.
            if (known := self._cache.pods.get(identity.uid)) is not None:
                self._handle_ending(known, allocation)
            raise
        entry = self._cache.pods.get(identity.uid)
        if entry is None:
            await allocation.release("cancelled", "its pod is gone")
            return
        self._cache.set_held(entry, Held.BOUND, (allocation.app, allocation.ask))
        try:
            is_sent = await self._bind(entry, allocation.node)
            started()
            if is_sent and not entry.is_lost:
                text = f"{identity.full_name} is bound to {allocation.node}"
                self._reports.event(identity, "Scheduled", text)
            await self._wait_for_end(entry, allocation)
        except _MovedError as moved:
            try:
                await allocation.release("cancelled", str(moved))
            finally:
                self._end_allocation(entry)
        except WorkFailedError:
            self._end_allocation(entry)
            raise
        except Exception:
            # Whatever the error, the ask is pending again.
            self._end_allocation(entry, Held.PENDING)
            raise
        except BaseException:  # It is cancelled: in a group, while a connection is made.
            self._handle_ending(entry, allocation)
            raise

    resume = run

    def _end_allocation(self, entry: PodEntry, held: Held = Held.NOTHING) -> None:
        """Record that an allocation has ended."""
        self._cache.set_held(entry, held)
        if entry.pod.node is None and entry.sent_to is None:
            self._cache.put(entry, None)
            if not entry.is_lost:
                self._reports.nominated(entry.pod.identity, None)
        self._cache.mark_pod(entry.pod.identity.uid)

    # POD-28
    def _handle_ending(self, entry: PodEntry, allocation: Allocation) -> None:
        """Evict, or let in again, the pod of an allocation that the scheduler has ended."""
        why = allocation.ending
        if why in ("closing", None):
            return
        if entry.sent_to is not None:
            self._nursery.start_soon(self._resolve_binding, entry)
        if why in (Reason.BIND_FAILED, Reason.GANG_ROLLBACK):
            self._end_allocation(entry, Held.PENDING)
            return
        is_there = entry.pod.node is not None or entry.sent_to is not None
        if why is Reason.NODE_LOST or entry.is_lost:
            # A pod that is not bound is let in again; one that is, when the node comes back.
            self._end_allocation(entry)
        elif is_there or why not in _EVICTIONS:
            entry.is_evicted = True
            self._end_allocation(entry)
            if entry.pod.is_deleted:
                return
            message = "" if allocation.message is None else f" {allocation.message}"
            self._nursery.start_soon(self._evict, entry, f"{why}{message}")
        else:
            self._end_allocation(entry)

    # POD-21
    async def _resolve_binding(self, entry: PodEntry) -> None:
        """Ask for a pod until it is known whether an interrupted binding was carried out.

        Otherwise a pod that is not bound would keep its room there, until it is bound elsewhere.
        """
        rests = _retry_delays()
        while entry.sent_to is not None and entry.held is not Held.BOUND and not entry.is_over:
            with suppress(_MovedError):  # The watch reports it, too.
                await self._check_pod(entry, entry.sent_to)
            with trio.move_on_after(next(rests)):
                await entry.changed.park()

    # Binding

    # POD-21
    async def _bind(self, entry: PodEntry, node: str) -> bool:
        """Bind a pod, unless it is bound; return when it is, or is over.

        Returns:
            Whether a binding was sent.

        Raises:
            _MovedError: If another scheduler has bound it elsewhere.
            NotStartedError: If it is not bound in time.
        """
        began = trio.current_time()
        rests = _retry_delays()
        is_sent = False
        while not (entry.is_lost or _is_bound(entry, node)):
            refusal = await self._attempt(entry, node, began)
            is_sent = is_sent or entry.sent_to is not None or refusal is None
            if refusal is None:
                break
            if trio.current_time() >= self._deadline(began, node):
                await self._give_up(entry, node, refusal)
                break
            with trio.move_on_after(max(next(rests), refusal.retry_after)):
                await entry.changed.park()
        return is_sent

    async def _attempt(self, entry: PodEntry, node: str, began: float) -> _Refusal | None:
        """Wait for room, and send a binding; return why it was not carried out, or None if it was."""
        await self._wait_for_room(entry, node, began)
        async with self._at_once:
            if entry.is_lost or _is_bound(entry, node):
                return None
            if lacks := self._lacking(entry, node):
                return _Refusal(f"{lacks} is not free on {node}")
            self._cache.put(entry, node)
            entry.sent_to = node
            pod = entry.pod.identity
            body = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            }
            try:
                await self._api.create(PODS.path(pod.name, pod.namespace, "binding"), body)
            except ApiError as error:
                if error.status in {_CONFLICT, _NOT_FOUND}:
                    return await self._check_pod(entry, node)
                if error.status < 500 and error.status != _TOO_MANY:
                    self._note_not_bound(entry)
                return _Refusal(str(error), error.retry_after or 0.0)
            except (SilenceError, AccessError) as error:
                return _Refusal(str(error))
        self.bindings += 1
        return None

    async def _check_pod(self, entry: PodEntry, node: str) -> _Refusal | None:
        """Get a pod; return why it is not bound, or None if it is.

        Raises:
            _MovedError: If another scheduler has bound it elsewhere.
        """
        pod, held = entry.pod.identity, entry.held
        try:
            found = await self._api.get(PODS.path(pod.name, pod.namespace))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                self._cache.drop_pod(pod.uid)
            return _Refusal(str(error))
        except (SilenceError, AccessError) as error:
            return _Refusal(str(error))
        if _metadata(found).get("uid") != pod.uid:
            self._cache.drop_pod(pod.uid)
            return _Refusal("another pod has its name")
        there = cast("Mapping[str, Any]", found.get("spec") or {}).get("nodeName")
        if there == node:
            return None
        if there:
            raise _MovedError(str(there))
        if entry.held is held:  # Else another binding may be under way by now.
            self._note_not_bound(entry)
        return _Refusal("the API server refuses to bind it now")

    def _note_not_bound(self, entry: PodEntry) -> None:
        """Record that a binding was certainly not carried out."""
        entry.sent_to = None
        if entry.pod.node is None:
            self._cache.put(entry, None)
        self._cache.set_held(entry, entry.held)  # The reason why it waits may be reported again.

    async def _give_up(self, entry: PodEntry, node: str, refusal: _Refusal) -> None:
        """Raise an error if a pod is certainly not bound at its deadline; return if it is bound.

        Raises:
            _MovedError: If another scheduler has bound it elsewhere.
            NotStartedError: If it is not bound.
        """
        rests = _retry_delays()
        while entry.sent_to is not None and not entry.is_lost and not _is_bound(entry, node):
            if await self._check_pod(entry, node) is None:
                return
            with trio.move_on_after(next(rests)):
                await entry.changed.park()
        if not entry.is_lost and not _is_bound(entry, node):
            raise NotStartedError(refusal.text)

    def _deadline(self, began: float, node: str) -> float:
        """Return the deadline of a binding, by trio's clock."""
        own = self._options
        longest = self._cache.node_of(node).longest_s(own.eviction_timeout_s)
        after = longest + _AFTER_S if longest else 0.0
        return began + max(own.timeout_s, after)

    def _lacking(self, entry: PodEntry, node: str) -> str:
        return self._cache.node_of(node).lacks(entry)

    # POD-22
    async def _wait_for_room(self, entry: PodEntry, node: str, began: float) -> None:
        """Wait until the pods have gone whose room a pod needs.

        Raises:
            _MovedError: If another scheduler has bound it elsewhere.
            NotStartedError: If they have not gone in time.
        """
        reported = ""
        while not (entry.is_lost or _is_bound(entry, node)):
            lacks = self._lacking(entry, node)
            if not lacks:
                return
            place = self._cache.node_of(node)
            why = f"it runs on {node} when others have ended there: {lacks} is not free yet"
            why = "; ".join((why, *place.obstacles()))
            if not reported:
                self._reports.nominated(entry.pod.identity, node)
            if why != reported:
                reported, seen = why, entry.pod.condition
                written = None if seen is None else seen.written()
                self._reports.pending(entry.pod.identity, written, "Unschedulable", why)
            left_s = self._deadline(began, node) - trio.current_time()
            if left_s <= 0:
                if entry.sent_to is not None:
                    return  # The binding may have been carried out.
                msg = f"{lacks} is not free in time on {node}"
                raise NotStartedError(msg)
            place.waiting.add(entry)
            try:
                with trio.move_on_after(max(min(left_s, _LOOK_S), _LEAST_S)):
                    await entry.changed.park()
            finally:
                place.waiting.discard(entry)

    # The time after that

    # POD-29
    async def _wait_for_end(self, entry: PodEntry, allocation: Allocation) -> None:
        """Wait until a pod has ended, or is gone.

        Raises:
            _MovedError: If another scheduler has bound it elsewhere.
            WorkFailedError: If it has failed.
        """
        while not entry.is_lost:
            await entry.changed.park()
            _is_bound(entry, allocation.node)
        if entry.pod.phase == "Failed":
            msg = "the pod has failed"
            raise WorkFailedError(msg)
        if entry.pod.phase != "Succeeded":
            await allocation.release("cancelled", "its pod is gone")
        self._end_allocation(entry)

    # Evicting

    # POD-23
    async def _evict(self, entry: PodEntry, why: str) -> None:
        """Evict a pod, however long that takes."""
        pod = entry.pod.identity
        self.evictions += 1
        message = f"it is taken from {entry.place or 'its node'}: {why}"
        self._reports.event(pod, "Preempted", message)
        await self._reports.disrupted(pod, message)
        rests = _retry_delays()
        while not (entry.is_over or entry.pod.is_deleted):
            rest_s = next(rests)
            try:
                await self._remove(pod)
            except ApiError as error:
                # If it is gone, or another one has its name, the watch says it.
                if error.status == _TOO_MANY:
                    rest_s = max(error.retry_after or 0.0, _BUDGET_S)
                    self._cache.note_obstacle(entry, f"{pod.full_name} is not evicted yet: {error}")
                _log.info("%s is not evicted yet: %s", pod.full_name, error)
            except (SilenceError, AccessError) as error:
                _log.info("%s is not evicted yet: %s", pod.full_name, error)
            else:
                rest_s = _LOOK_S  # for the watch to say it
            with trio.move_on_after(rest_s):
                await entry.changed.park()

    async def _remove(self, pod: PodIdentity) -> None:
        options = {"preconditions": {"uid": pod.uid}}
        path = PODS.path(pod.name, pod.namespace)
        if self._options.eviction == "delete":
            await self._api.delete(path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
            return
        metadata = {"name": pod.name, "namespace": pod.namespace}
        for version in ("policy/v1", "policy/v1beta1"):
            body: Object = {
                "apiVersion": version,
                "kind": "Eviction",
                "metadata": metadata,
                "deleteOptions": options,
            }
            try:
                await self._api.create(f"{path}/eviction", body)
            except ApiError as error:
                if version == "policy/v1" and error.status in {400, _NOT_FOUND}:
                    continue  # A server before 1.22 knows the older version only.
                raise
            return


_EVICTIONS: Final = frozenset({Reason.PREEMPTED, Reason.RECLAIMED, Reason.DEADLOCK})


@final
@attrs.frozen
class _Refusal:
    """The reason why a binding was not carried out, or may not have been.

    Attributes:
        text: The reason.
        retry_after: After how many seconds it may be sent again.
    """

    text: str
    retry_after: float = 0.0


def _is_bound(entry: PodEntry, node: str) -> bool:
    """Return whether a pod is bound to a node.

    Raises:
        _MovedError: If it is bound elsewhere.
    """
    there = entry.pod.node
    if there is not None and there != node and not entry.is_over:
        raise _MovedError(there)
    return there == node


def _metadata(one: Object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", one.get("metadata") or {})


def _retry_delays() -> Iterator[float]:
    rest_s = _LEAST_S
    while True:
        yield rest_s
        rest_s = min(2 * rest_s, _MOST_S)
