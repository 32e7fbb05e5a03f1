"""One at a time: a Lease that one of several replicas holds.

Whether somebody else's Lease has run out is measured from when it was last seen to change, by the
own clock: no two machines need the same time. The holder gives up before the others may take over.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, cast, final

import trio

from muster.kubernetes._access import Access, AccessError
from muster.kubernetes._api import Api, ApiError, Object, Resource, SilenceError

LEASES: Final = Resource("coordination.k8s.io/v1", "leases")

HELD_S: Final = 15
"""How long a Lease holds that nobody renews, in seconds."""

RENEWED_S: Final = 2.0
"""How often it is renewed, in seconds."""

GIVEN_UP_S: Final = 10.0
"""After so many seconds without an answer its holder gives it up."""

_NOT_FOUND: Final = 404

_log: Final = logging.getLogger(__name__)


@final
class Lease:
    """A Lease, wanted by this process.

    Args:
        api: Where it is.
        namespace: Its namespace.
        name: Its name.
        holder: What this process calls itself there; no other has that name.

    Attributes:
        seen_holder: Who held it when it was last seen; empty for nobody.
    """

    def __init__(self, api: Api, namespace: str, name: str, holder: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._holder = holder
        self._path = LEASES.path(name, namespace)
        #: What was seen last, and when that was seen for the first time.
        self._seen: Object | None = None
        self._since = 0.0
        self._is_lost = False
        self.seen_holder = ""

    @classmethod
    @asynccontextmanager
    async def of(
        cls, access: Access, namespace: str, name: str, holder: str
    ) -> AsyncGenerator[Lease]:
        """Give a Lease with connections of its own, which nothing else can hold up."""
        async with Api(access, connections=2) as api:
            yield cls(api, namespace, name, holder)

    # POD-25
    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease, and work while it is held; then wait again, until the work returns.

        Args:
            work: The work. It is cancelled when the Lease is lost.
        """
        while True:
            await self._acquire()
            _log.info("%s holds the lease %s/%s", self._holder, self._namespace, self._name)
            if await self._work(work):
                return
            _log.warning("%s has lost the lease %s/%s", self._holder, self._namespace, self._name)

    async def _acquire(self) -> None:
        while not await self._try(HELD_S):
            left_s = self._until - trio.current_time()
            await trio.sleep(left_s if 0 < left_s < RENEWED_S else RENEWED_S)

    async def _work(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Work while the Lease is renewed; return whether the work is done."""
        self._is_lost = is_done = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._renew, nursery.cancel_scope)
            try:
                await work()
            finally:
                if not self._is_lost:
                    await self._release()
            is_done = True
            nursery.cancel_scope.cancel()
        return is_done

    async def _renew(self, held: trio.CancelScope) -> None:
        """Renew the Lease for ever; end what works under it if that fails for long."""
        end = trio.current_time() + GIVEN_UP_S
        while trio.current_time() < end and self.seen_holder == self._holder:
            await trio.sleep(RENEWED_S)
            began = trio.current_time()  # From then on it holds, whenever the answer comes.
            with trio.move_on_at(end):
                if await self._try(HELD_S):
                    end = began + GIVEN_UP_S
        self._is_lost = True
        held.cancel()

    async def _release(self) -> None:
        """Let another one have the Lease at once."""
        with trio.move_on_after(RENEWED_S, shield=True):
            await self._try(1, holder="")

    async def _try(self, seconds: int, holder: str | None = None) -> bool:
        """Take the Lease, or renew it; return whether that was possible."""
        try:
            found = await self._look()
            wanted = self._written(found, seconds, self._holder if holder is None else holder)
            if found is None:
                taken = await self._api.create(LEASES.path(None, self._namespace), wanted)
            elif self._is_free():
                taken = await self._api.replace(self._path, wanted)
            else:
                return False
        except (ApiError, SilenceError, AccessError) as error:
            _log.debug("the lease %s/%s: %s", self._namespace, self._name, error)
            return False
        self._note(taken)
        return True

    async def _look(self) -> Object | None:
        try:
            found = await self._api.get(self._path)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        self._note(found)
        return found

    def _note(self, found: Object) -> None:
        if self._seen is None or found["metadata"] != self._seen["metadata"]:
            self._seen, self._since = found, trio.current_time()
        self.seen_holder = str(_spec(found).get("holderIdentity") or "")

    @property
    def _until(self) -> float:
        """Until when it holds, if nobody renews it, by trio's clock."""
        spec = {} if self._seen is None else _spec(self._seen)
        return self._since + float(spec.get("leaseDurationSeconds") or HELD_S)

    def _is_free(self) -> bool:
        return self.seen_holder in {"", self._holder} or trio.current_time() >= self._until

    def _written(self, found: Object | None, seconds: int, holder: str) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = {} if found is None else _spec(found)
        is_same = self.seen_holder == holder
        is_taken = found is not None and holder != "" and not is_same
        metadata = {"name": self._name, "namespace": self._namespace}
        return {
            "apiVersion": LEASES.group,
            "kind": "Lease",
            "metadata": metadata if found is None else found["metadata"],
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": seconds,
                "acquireTime": old.get("acquireTime", now) if is_same else now,
                "renewTime": now,
                "leaseTransitions": int(old.get("leaseTransitions") or 0) + is_taken,
            },
        }


def _spec(lease: Object) -> dict[str, Any]:
    return cast("dict[str, Any]", lease.get("spec") or {})
