"""Requests to an API server: objects, lists page by page, and watches.

One :class:`Api` is one pool of connections. It never repeats a request by itself, as only who made it
knows whether it may be carried out twice; an answer that did not come is :class:`SilenceError`, and
then it is unknown whether it was carried out.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Any, Final, cast, final

import attrs
import httpx
import trio
from typing_extensions import override

from muster.kubernetes._access import Access
from muster_core.errors import MusterError

Object = Mapping[str, Any]
"""An object of Kubernetes, as JSON has it."""

PAGE: Final = 500
"""The most objects in a page of a list."""

ANSWER_S: Final = 30.0
"""How long an answer may take, in seconds."""

SILENCE_S: Final = 60.0
"""How long a watch may say nothing, in seconds: with bookmarks on, it says something each minute."""

_CONNECT_S: Final = 10.0
_LEAST_REST_S: Final = 0.2
_MOST_REST_S: Final = 10.0
_MOST_ASKED_S: Final = 60.0
_UNAUTHORIZED: Final = 401
_MERGE_PATCH: Final = "application/merge-patch+json"
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"


@final
class ApiError(MusterError):
    """The API server has refused a request.

    Attributes:
        status: The status of its answer, such as 404.
        reason: The reason in one word, such as ``NotFound``; empty without one.
        retry_after: The delay before a retry that it asks for, in seconds; None for none.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


@final
class SilenceError(MusterError):
    """The API server has not answered: whether it has carried out the request is unknown."""


def rest_s(failures: int, error: Exception) -> float:
    """Return the delay before the next attempt, in seconds.

    Args:
        failures: How many attempts have failed in a row before the last one.
        error: The error of the last one; the server may have asked for a delay.
    """
    # The power has a bound, as it soon is more than a float can be.
    longest = min(_MOST_REST_S, _LEAST_REST_S * 2 ** min(failures, 10))
    requested_s = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
    return max(random.uniform(longest / 2, longest), min(requested_s, _MOST_ASKED_S))


@final
@attrs.frozen
class Resource:
    """One kind of objects that an API server has.

    Attributes:
        group: Its API group and version, such as ``v1`` or ``scheduling.k8s.io/v1``.
        plural: Its name in URLs, such as ``pods``.
        namespace: The only namespace whose objects are wanted, or None for all.
        name: The name of the only object that is wanted, or None for all.
    """

    group: str
    plural: str
    namespace: str | None = None
    name: str | None = None

    @property
    def parameters(self) -> dict[str, str | int]:
        """The parameters of a list and a watch."""
        return {} if self.name is None else {"fieldSelector": f"metadata.name={self.name}"}

    def path(self, name: str | None = None, namespace: str | None = None, part: str = "") -> str:
        """Return the path of all objects, of those of a namespace, of one, or of a part of one."""
        base = "/api" if "/" not in self.group else "/apis"
        within = f"/namespaces/{namespace}" if namespace else ""
        one = f"/{name}" if name else ""
        return f"{base}/{self.group}{within}/{self.plural}{one}{f'/{part}' if part else ''}"


@final
@attrs.frozen
class Listing:
    """All objects of a kind as of one moment.

    Attributes:
        objects: The objects.
        version: The ``resourceVersion`` of that moment.
    """

    objects: list[Object]
    version: str


@final
class Api:
    """Speaks to an API server; use it as an async context manager.

    Args:
        access: How it is reached.
        connections: How many requests may be under way at once, watches not counted.
    """

    def __init__(self, access: Access, *, connections: int = 32) -> None:
        self._access = access
        # The certificate is checked against this name instead of the URL's.
        name = access.server_name
        self._extensions: dict[str, Any] = {} if name is None else {"sni_hostname": name}
        self._at_once = trio.CapacityLimiter(connections)
        self._client = httpx.AsyncClient(
            base_url=access.server,
            verify=access.tls if access.tls is not None else True,
            proxy=access.proxy,
            timeout=httpx.Timeout(ANSWER_S, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=connections),
            headers={"User-Agent": "muster", "Accept": "application/json"},
        )

    async def __aenter__(self) -> Api:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def get(self, path: str, **parameters: str | int) -> Object:
        """Return the object, or the list, at a path.

        Raises:
            ApiError: If the server refuses it.
            SilenceError: If it does not answer.
        """
        return await self._ask("GET", path, parameters=parameters)

    async def create(self, path: str, body: Object) -> Object:
        """Post an object, and return the answer; raises as :meth:`get`."""
        return await self._ask("POST", path, body)

    async def replace(self, path: str, body: Object) -> Object:
        """Put an object in place of another, and return the answer; raises as :meth:`get`."""
        return await self._ask("PUT", path, body)

    async def change(self, path: str, body: Object, *, strategic: bool = False) -> Object:
        """Merge fields into an object, and return it; raises as :meth:`get`.

        Args:
            path: Where it is.
            body: The fields. Its uid and ``resourceVersion``, where given, have to be the same.
            strategic: Whether to merge into lists, such as conditions, instead of replacing them;
                the server knows how for its own kinds only.
        """
        kind = _STRATEGIC_PATCH if strategic else _MERGE_PATCH
        return await self._ask("PATCH", path, body, kind=kind)

    async def delete(self, path: str, body: Object | None = None) -> Object:
        """Delete an object, and return the answer; raises as :meth:`get`."""
        return await self._ask("DELETE", path, body)

    async def list_all(
        self, resource: Resource, shorten: Callable[[Object], Object] = lambda whole: whole
    ) -> Listing:
        """Return all objects of a kind, read page by page as of one moment.

        Args:
            resource: The kind.
            shorten: Returns what is to be kept of an object; the rest of a page is dropped.

        Raises:
            ApiError: If the server refuses it; 410 if it took too long to read the pages.
            SilenceError: If it does not answer.
        """
        objects: list[Object] = []
        parameters = {**resource.parameters, "limit": PAGE}
        while True:
            page = await self.get(resource.path(None, resource.namespace), **parameters)
            objects += map(shorten, page.get("items") or ())
            metadata = cast("Mapping[str, str]", page.get("metadata") or {})
            if "resourceVersion" not in metadata:
                msg = "the answer of the API server is no list"
                raise SilenceError(msg)
            if not (more := metadata.get("continue")):
                return Listing(objects, metadata["resourceVersion"])
            parameters["continue"] = more

    @asynccontextmanager
    async def watch(
        self, resource: Resource, version: str, seconds: int
    ) -> AsyncGenerator[AsyncIterator[list[Object]]]:
        """Follow the changes of a kind of objects since a version.

        What the iterator yields are the events that have come at once; it ends when the server
        ends the watch.

        Args:
            resource: The kind.
            version: The ``resourceVersion`` from which on.
            seconds: When the server ends the watch.

        Raises:
            ApiError: If the server refuses it; 410 if the version is too old.
            SilenceError: If the connection breaks, or nothing comes for :data:`SILENCE_S`.
        """
        parameters: dict[str, str | int] = {
            **resource.parameters,
            "watch": 1,
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": seconds,
        }
        request = self._client.build_request(
            "GET",
            resource.path(None, resource.namespace),
            params=parameters,
            headers=await self._headers(),
            timeout=httpx.Timeout(SILENCE_S, connect=_CONNECT_S),
            extensions=self._extensions | {"trace": _Trace()},
        )
        with _silences():
            response = await self._client.send(request, stream=True)
        async with chunks_of(response) as chunks:
            if response.is_error:
                with _silences():
                    content = b"".join([some async for some in chunks])
                raise _refusal(response, content)
            async with aclosing(_events(chunks)) as events:
                yield events

    async def _headers(self, *, refused: bool = False) -> dict[str, str]:
        value = await self._access.credentials.header(refused=refused)
        return {} if value is None else {"Authorization": value}

    async def _ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        parameters: Mapping[str, str | int] | None = None,
        kind: str = "application/json",
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        headers = await self._headers()
        if body is not None:
            headers["Content-Type"] = kind
        async with self._at_once:
            response = await self._send(method, path, content, headers, parameters)
            if response.status_code == _UNAUTHORIZED:
                headers |= await self._headers(refused=True)
                response = await self._send(method, path, content, headers, parameters)
        if response.is_error:
            raise _refusal(response, response.content)
        return _object(response.content)

    async def _send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        parameters: Mapping[str, str | int] | None,
    ) -> httpx.Response:
        request = self._client.build_request(
            method,
            path,
            params=parameters,
            content=content,
            headers=headers,
            extensions=self._extensions | {"trace": _Trace()},
        )
        request.stream = _Body(content or b"")
        with _silences():
            return await self._client.send(request)


@final
class _Body(httpx.AsyncByteStream):
    """The body of a request, in one piece.

    httpx's own is an asynchronous generator, which is not closed if the request is cancelled, or
    the connection breaks, while the body is written; trio demands that they are closed.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._rest: Iterator[bytes] = iter(())

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        self._rest = iter((self._content,))
        return self

    async def __anext__(self) -> bytes:
        for piece in self._rest:
            return piece
        raise StopAsyncIteration


@final
class _Trace:
    """Closes the connection of a request that is cancelled during the handshake of TLS.

    httpx calls it at each step of a request; it leaves such a connection to the garbage collector.
    """

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, step: str, values: Mapping[str, Any]) -> None:
        if step.endswith("connect_tcp.complete"):
            self._stream = values["return_value"]
        elif step.endswith("start_tls.failed"):
            with trio.CancelScope(shield=True):
                await self._stream.aclose()


@contextmanager
def _silences() -> Generator[None]:
    try:
        yield
    except (httpx.TransportError, httpx.DecodingError) as error:
        msg = f"the API server does not answer: {_message_of(error)}"
        raise SilenceError(msg) from error


def _message_of(error: BaseException) -> str:
    """Return the message of an error, or of its cause: those of httpx are often empty."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__ or cause.__context__
    return str(cause or type(error).__name__)


@asynccontextmanager
async def chunks_of(response: httpx.Response) -> AsyncGenerator[AsyncIterator[bytes]]:
    """Read the body of an answer piece by piece, and close the answer at the end.

    httpx reads through many asynchronous generators, and does not close them where a reader stops in
    the middle; each is finished here, as trio demands it.
    """
    chunks = response.aiter_bytes()
    try:
        yield chunks
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CONNECT_S):
            await response.aclose()
            with suppress(httpx.TransportError, httpx.StreamError):
                async for _ in chunks:
                    pass


async def _events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[Object]]:
    rest = b""
    with _silences():
        async for some in chunks:
            *lines, rest = (rest + some).split(b"\n")
            if lines:
                yield [_object(line) for line in lines if line]


def _object(content: bytes) -> Object:
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        msg = f"the answer of the API server is no object: {content[:80]!r}"
        raise SilenceError(msg)
    return cast("Object", found)


def _refusal(response: httpx.Response, content: bytes) -> ApiError:
    try:
        status = cast("Mapping[str, Any]", json.loads(content))
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError):
        reason, message = "", content[:200].decode(errors="replace")
    after = response.headers.get("Retry-After", "")
    return ApiError(
        response.status_code,
        reason,
        f"the API server has answered {response.status_code}: {message or response.reason_phrase}",
        float(after) if after.isdigit() else None,
    )
