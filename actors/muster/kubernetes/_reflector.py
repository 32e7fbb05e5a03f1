"""A mirror of the objects of one kind: a list, then a watch from where it ended, for ever.

Whatever breaks, the changes that the mirror delivers have no gap: a watch that ends goes on at the
version that was seen last. Where that is too old, all is listed again, and the difference to what was
known is delivered, also of objects that were deleted and made anew meanwhile.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, cast, final

import attrs
import trio

from muster.kubernetes._access import AccessError
from muster.kubernetes._api import Api, ApiError, Object, Resource, SilenceError, rest_s

_LEAST_S: Final = 0.2
_ABSENT_S: Final = 30.0
_LONG_S: Final = 10.0
_WATCH_S: Final = (300, 600)
_GONE: Final = 410
_NOT_FOUND: Final = 404

_log: Final = logging.getLogger(__name__)


@final
@attrs.frozen
class Change:
    """A change of one object.

    Attributes:
        resource: Its kind.
        old: Its last known state, or None if it is new.
        new: Its state now, or None if it is gone.
    """

    resource: Resource
    old: Object | None
    new: Object | None


Deliver = Callable[[list[Change]], Awaitable[None]]
"""Takes the changes that have come at once."""


@final
class Reflector:
    """Mirrors the objects of one kind.

    Args:
        api: Where they are.
        resource: Their kind.
        deliver: Called with changes in their order; nothing further is read before it returns.
        shorten: Returns what is to be kept of an object, which can have long parts.
        optional: Whether a server may not know the kind; then there are no objects of it.

    Attributes:
        known: The last known state of each object, by its uid.
        silent_since: Since when the server has not answered, in seconds of the clock of trio; None
            while it does.
        trouble: The last error, as text.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        deliver: Deliver,
        *,
        shorten: Callable[[Object], Object] = lambda whole: whole,
        optional: bool = False,
    ) -> None:
        self._api = api
        self._resource = resource
        self._deliver = deliver
        self._shorten = shorten
        self._optional = optional
        self._version: str | None = None
        self._failures = 0
        #: Since when the present watch has been open, by trio's clock.
        self._watching_since: float | None = None
        self.known: dict[str, Object] = {}
        self.silent_since: float | None = None
        self.trouble = ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Mirror the objects for ever; started once all that there were are delivered."""
        status: trio.TaskStatus[None] | None = task_status
        while True:
            try:
                await self._list()
                if status is not None:
                    status.started()
                    status = None
                while self._version is not None:
                    await self._watch(self._version)
                await trio.sleep(_ABSENT_S)
            except (ApiError, SilenceError, AccessError) as error:
                await self._wait(error)

    async def _list(self) -> None:
        """List all objects, unless the watch can go on, and deliver the difference."""
        if self._version is not None:
            return
        try:
            listing = await self._api.list_all(self._resource, self._shortened)
        except ApiError as error:
            if error.status != _NOT_FOUND or not self._optional:
                raise
            await self._deliver(list(self._difference([])))
            self._answered()
            return
        await self._deliver(list(self._difference(listing.objects)))
        self._version = listing.version
        self._answered()

    async def _watch(self, version: str) -> None:
        seconds = random.randint(*_WATCH_S)
        began = trio.current_time()
        async with self._api.watch(self._resource, version, seconds) as batches:
            self.silent_since, self.trouble = None, ""
            self._watching_since = trio.current_time()
            async for events in batches:
                await self._take(events)
        if trio.current_time() - began < _LEAST_S:
            msg = "the API server ends a watch as soon as it has begun"
            raise SilenceError(msg)

    async def _take(self, events: list[Object]) -> None:
        """Deliver the changes that have come at once, also those before an error among them."""
        changes: list[Change] = []
        try:
            for one in events:
                changes += self._changes(one)
        finally:
            if changes:
                await self._deliver(changes)
        self._answered()

    def _answered(self) -> None:
        self._failures, self.silent_since, self.trouble = 0, None, ""

    async def _wait(self, error: ApiError | SilenceError | AccessError) -> None:
        """Wait before the next attempt: longer each time, but not before the first new list."""
        since, self._watching_since = self._watching_since, None
        if since is not None and trio.current_time() - since > _LONG_S:
            self._failures = (
                0  # Nothing has happened for long, or a connection has come to its end.
            )
        if self._failures == 1:
            _log.warning("%s: %s", self._resource.plural, error)
        self.trouble = str(error)
        if isinstance(error, ApiError):
            # What an error has ended in the middle cannot go on from there.
            self._version = None
        elif self.silent_since is None:
            self.silent_since = trio.current_time()
        is_first = self._failures == 0 and isinstance(error, ApiError) and error.status == _GONE
        rest = 0.0 if is_first else rest_s(self._failures, error)
        self._failures += 1
        await trio.sleep(rest)

    def _difference(self, objects: list[Object]) -> Iterator[Change]:
        """Take a whole list, as it is kept, and yield what is different from what was known."""
        listed = {_uid(one): one for one in objects}
        for uid in [uid for uid in self.known if uid not in listed]:
            yield Change(self._resource, self.known.pop(uid), None)
        for uid, one in listed.items():
            old = self.known.get(uid)
            if old is not one:
                self.known[uid] = one
                yield Change(self._resource, old, one)

    def _shortened(self, one: Object) -> Object:
        """Return what is kept of an object; what is known, if that is of the same version."""
        old = self.known.get(_uid(one))
        is_same = old is not None and _version(old) == _version(one)
        return old if old is not None and is_same else self._shorten(one)

    def _changes(self, event: Object) -> Iterator[Change]:
        """Take an event of the watch, and yield what has changed."""
        try:
            kind, one = str(event["type"]), cast("Object", event["object"])
            if kind == "ERROR":
                reason, message = str(one.get("reason") or ""), f"the watch: {one.get('message')}"
                raise ApiError(int(one.get("code") or 0), reason, message, None)
            self._version = _version(one)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            msg = f"the watch has sent something that is no event: {error}"
            raise SilenceError(msg) from None
        if kind == "DELETED":
            old = self.known.pop(_uid(one), None)
            if old is not None:
                yield Change(self._resource, old, None)
        elif kind in {"ADDED", "MODIFIED"}:
            yield self._keep(_uid(one), one)

    def _keep(self, uid: str, one: Object) -> Change:
        old, new = self.known.get(uid), self._shorten(one)
        self.known[uid] = new
        return Change(self._resource, old, new)


def _metadata(one: Object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", one["metadata"])


def _uid(one: Object) -> str:
    return str(_metadata(one)["uid"])


def _version(one: Object) -> str:
    return str(_metadata(one)["resourceVersion"])
