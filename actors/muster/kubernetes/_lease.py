"""Leader election: a Lease that one of several replicas holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, cast, final

from typing_extensions import override

from muster import _leases
from muster._leases import TIMES, LeaseRecord, LeaseTimes
from muster.kubernetes._access import Access
from muster.kubernetes._api import Api, ApiError, Object, Resource

LEASES: Final = Resource("coordination.k8s.io/v1", "leases")

URL: Final = "muster/url"
"""The annotation with the address of the holder."""

TERM: Final = "muster/term"
"""The annotation with its term."""

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@final
class Lease(_leases.Lease):
    """A Lease of an API server, wanted by this process.

    Args:
        api: The API server.
        namespace: Its namespace.
        name: Its name.
        holder: The name of this process there; no other has it.
        url: The address of this process for the others.
        times: Its times.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        holder: str,
        url: str = "",
        *,
        times: LeaseTimes = TIMES,
    ) -> None:
        super().__init__(f"the lease {namespace}/{name}", holder, url, times)
        self._api = api
        self._all = LEASES.path(None, namespace)
        self._path = LEASES.path(name, namespace)
        self._name = {"name": name, "namespace": namespace}

    @classmethod
    @asynccontextmanager
    async def of(
        cls, access: Access, namespace: str, name: str, holder: str, url: str = ""
    ) -> AsyncGenerator[Lease]:
        """Give a Lease with connections of its own, which nothing else can hold up."""
        async with Api(access, connections=2) as api:
            yield cls(api, namespace, name, holder, url)

    @override
    async def _read(self) -> tuple[LeaseRecord, object] | None:
        try:
            found = await self._api.get(self._path)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        spec, notes = _spec(found), _notes(found)
        term = str(notes.get(TERM, ""))
        record = LeaseRecord(
            str(spec.get("holderIdentity") or ""),
            str(notes.get(URL, "")),
            int(term) if term.isdecimal() else 0,
            int(spec.get("leaseDurationSeconds") or 0),
        )
        return record, found

    @override
    async def _swap(self, version: object, record: LeaseRecord) -> bool:
        found = cast("Object | None", version)
        try:
            if found is None:
                await self._api.create(self._all, self._written(found, record))
            else:  # The server compares its resourceVersion.
                await self._api.replace(self._path, self._written(found, record))
        except ApiError as error:
            is_gone = found is not None and error.status == _NOT_FOUND
            if is_gone or error.status == _CONFLICT:
                return False
            raise
        return True

    def _written(self, found: Object | None, record: LeaseRecord) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before: Object = {"metadata": self._name} if found is None else found
        old = _spec(before)
        is_same = str(old.get("holderIdentity") or "") == record.holder
        is_taken = found is not None and record.holder != "" and not is_same
        notes = {key: value for key, value in _notes(before).items() if key not in {URL, TERM}}
        notes |= {URL: record.url} if record.url else {}
        notes |= {TERM: str(record.term)} if record.term else {}
        return {
            "apiVersion": LEASES.group,
            "kind": "Lease",
            "metadata": {**before["metadata"], "annotations": notes},
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": record.seconds,
                "acquireTime": old.get("acquireTime", now) if is_same else now,
                "renewTime": now,
                "leaseTransitions": int(old.get("leaseTransitions") or 0) + is_taken,
            },
        }


def _spec(lease: Object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", lease.get("spec") or {})


def _notes(lease: Object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", lease["metadata"].get("annotations") or {})
