"""The client of ``muster serve`` that the commands use.

:class:`Server` hides the address, the token, TLS and the pages of lists; :func:`follow` hides that a
stream of decisions breaks: it goes on where it was. This module needs httpx.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast, final
from urllib.parse import quote

import attrs

from muster._version import __version__

__all__ = ["DEFAULT_SERVER", "Posted", "Server", "ServerError", "at", "follow", "open_server"]


try:
    import httpx
except ModuleNotFoundError as error:
    _MISSING = "muster.client needs httpx: pip install 'muster-scheduler[client]'"
    raise ModuleNotFoundError(_MISSING, name="httpx") from error

DEFAULT_SERVER: Final = "http://127.0.0.1:9080"
"""The default address of ``muster serve``."""

PAGE: Final = 1_000
"""How many items of a list are asked for at once."""

_TERM: Final = "Muster-Term"

_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 120.0
"""The time limits for a connection and for an answer, in seconds."""


@final
class ServerError(Exception):
    """A server cannot be reached, or does not answer as it was asked.

    Args:
        message: What is wrong, for a person.
        status: The status of the answer; None if there was no answer.
        problem: The members of the answer, if it was a problem in JSON.
    """

    def __init__(
        self, message: str, status: int | None = None, problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = dict(problem or {})

    @property
    def is_refusal(self) -> bool:
        """Whether the server understood and refused, or does not know what was named."""
        return self.status in {403, 404, 409, 412, 422}

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later: there was no answer, or no room."""
        return self.status in {None, 429, 502, 503, 504}


@final
@attrs.frozen
class Posted:
    """The answer to events.

    Attributes:
        results: What became of each event, in order.
        first_seq: The number of the first decision of their batch; None without any.
    """

    results: list[dict[str, Any]]
    first_seq: int | None


@final
class Server:
    """A server.

    Args:
        url: Its address, for messages.
        client: The client of HTTP, whose base is this address.
    """

    def __init__(self, url: str, client: httpx.Client) -> None:
        self.url = url
        self.client = client
        #: The highest term that a server has named: it is sent to a leader with a lower one.
        self._term = 0

    def get(self, path: str, **parameters: object) -> dict[str, Any]:
        """Get a path; return the decoded JSON.

        Args:
            path: The path below ``/api/v1/``; see :func:`at`.
            **parameters: Its parameters; None is left out.

        Raises:
            ServerError: If there is no such resource, or no answer.
        """
        return self.request("GET", path, parameters=parameters)

    def pages(self, path: str, **parameters: object) -> Iterator[dict[str, Any]]:
        """Yield the pages of a list, each with its items.

        Raises:
            ServerError: If there is no such list, or no answer.
        """
        after: object = None
        limit = parameters.pop("limit", None) or PAGE
        while True:
            page = self.get(path, **parameters, limit=limit, after=after)
            yield page
            after = page.get("next")
            if after is None:
                return

    def request(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, object] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request, and return the map in its answer.

        Raises:
            ServerError: If the answer is an error or no map, or there is none.
        """
        response = self.response(
            method, path, parameters=parameters, content=content, headers=headers
        )
        found = _json(response)
        if not isinstance(found, dict):
            raise ServerError(self._not_muster(), response.status_code)
        return cast("dict[str, Any]", found)

    def submit(
        self, events: bytes, *, key: str | None = None, atomic: bool = False
    ) -> list[dict[str, Any]]:
        """Submit events, and return what became of each.

        Args:
            events: The events, as a JSON array.
            key: The key of the request, so that it may be sent again; None for none.
            atomic: Whether none is let in if one is refused.

        Raises:
            ServerError: If the server does not take them.
        """
        return self.post(events, key=key, atomic=atomic).results

    def post(self, events: bytes, *, key: str | None = None, atomic: bool = False) -> Posted:
        """Submit events as :meth:`submit` does; return also which decisions they led to.

        Raises:
            ServerError: If the server does not take them.
        """
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            response = self.response(
                "POST",
                "events",
                parameters={"atomic": atomic or None},
                content=events,
                headers=headers,
            )
        except ServerError as error:
            results = error.problem.get("results")
            if atomic and isinstance(results, list):
                return Posted(cast("list[dict[str, Any]]", results), None)
            raise
        found = _json(response)
        if not isinstance(found, list):
            raise ServerError(self._not_muster(), response.status_code)
        first = response.headers.get("Muster-First-Seq")
        results = cast("list[dict[str, Any]]", found)
        return Posted(results, None if first is None else int(first))

    def try_events(self, events: bytes, *, atomic: bool = False) -> dict[str, Any]:
        """Return what would become of events, as ``results``, and the ``decisions`` to follow.

        Args:
            events: The events, as a JSON array.
            atomic: Whether none would be let in if one was refused.

        Raises:
            ServerError: If the server does not take them.
        """
        return self.request(
            "POST",
            "events",
            parameters={"dry_run": True, "atomic": atomic or None},
            content=events,
            headers={"Content-Type": "application/json"},
        )

    def runs(self) -> str | None:
        """Return the option ``--run`` of the server; None if the server is too old to say it.

        Raises:
            ServerError: If there is no answer.
        """
        with self._transport_errors_translated():
            response = self.client.get("/healthz")
        found = _json(response)
        if not isinstance(found, dict):
            raise ServerError(self._not_muster(), response.status_code)
        return cast("dict[str, Any]", found).get("run")

    def response(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, object] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request, and return its answer.

        Raises:
            ServerError: If the answer is an error, or there is none.
        """
        sent = {**(headers or {}), **({_TERM: str(self._term)} if self._term else {})}
        with self._transport_errors_translated():
            response = self.client.request(
                method,
                f"/api/v1/{path}",
                params=_written(parameters or {}),
                content=content,
                headers=sent,
            )
            # REPLICA-8: a server that follows another one says where writes go.
            if response.status_code == HTTPStatus.TEMPORARY_REDIRECT:
                place = response.headers.get("Location", "")
                response = self.client.request(method, place, content=content, headers=sent)
        self._term = max(self._term, int(response.headers.get(_TERM) or 0))
        self.check(response)
        return response

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        parameters: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        silence_s: float | None = None,
    ) -> Generator[httpx.Response]:
        """Open a streamed answer.

        Args:
            path: The path below ``/api/v1/``.
            parameters: Its parameters; None is left out.
            headers: Its headers.
            silence_s: How long nothing may come, in seconds; None for any time.

        Raises:
            ServerError: If the answer is an error, or it breaks off.
        """
        timeout = httpx.Timeout(_CONNECT_S, read=silence_s)
        with (
            self._transport_errors_translated(),
            self.client.stream(
                "GET",
                f"/api/v1/{path}",
                params=_written(parameters or {}),
                headers=headers,
                timeout=timeout,
            ) as response,
        ):
            if response.is_error:
                response.read()
            self.check(response)
            yield response

    def check(self, response: httpx.Response) -> None:
        """Check that an answer is no error.

        Raises:
            ServerError: If it is.
        """
        if response.is_success:
            return
        found = _json(response)
        problem = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if "detail" not in problem:
            raise ServerError(self._not_muster(), response.status_code)
        message = str(problem["detail"])
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            message += ": put a token into MUSTER_TOKEN, or name a file with --token-file"
        raise ServerError(message, response.status_code, problem)

    def _not_muster(self) -> str:
        return f"{self.url}: does not answer as Muster does: is it the address of `muster serve`?"

    @contextmanager
    def _transport_errors_translated(self) -> Generator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise ServerError(f"{self.url}: no answer in time") from error
        except httpx.TransportError as error:
            raise ServerError(self._unreachable(error)) from error

    def _unreachable(self, error: httpx.TransportError) -> str:
        url, message = error.request.url, str(error) or type(error).__name__
        if url.netloc != self.client.base_url.netloc:
            leader = f"{url.scheme}://{url.netloc.decode()}"
            message = f"{self.url}: follows {leader}, which cannot be reached: {message}"
            return (
                f"{message}: if that server is gone for good, `muster promote` lets this one lead"
            )
        message = f"{self.url}: cannot be reached: {message}"
        if "WRONG_VERSION_NUMBER" in message:
            return f"{message}: does it speak plain HTTP, so that its address begins with http://?"
        if isinstance(error, httpx.RemoteProtocolError) and url.scheme == "http":
            return f"{message}: does it speak HTTPS, so that its address begins with https://?"
        return f"{message}: is `muster serve` running there?"


def at(*parts: str) -> str:
    """Return a path of names, each percent-encoded: a slash in a name starts no new segment."""
    return "/".join(quote(part, safe="") for part in parts)


def _written(parameters: Mapping[str, object]) -> dict[str, str]:
    written: dict[str, str] = {}
    for name, value in parameters.items():
        if isinstance(value, bool):
            written[name] = "true" if value else "false"
        elif value is not None and value != ():
            written[name] = (
                ",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
            )
    return written


def _json(response: httpx.Response) -> object:
    try:
        return response.json()
    except ValueError:
        return None


@contextmanager
def open_server(
    url: str = DEFAULT_SERVER,
    *,
    token: str | None = None,
    authority: Path | None = None,
    timeout_s: float | None = None,
) -> Generator[Server]:
    """Open the connection to a server for the time of a block.

    Args:
        url: ``http://HOST:PORT``, ``https://HOST:PORT``, or ``unix:PATH``.
        token: The token to send, or None.
        authority: The file with the certificates of the authorities to trust; None for
            those of the system.
        timeout_s: How long an answer may take, in seconds; default: two minutes.

    Raises:
        ServerError: If the address or the file cannot be used.
    """
    headers = {"User-Agent": f"muster/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    base, transport = _transport(url, authority)
    with httpx.Client(
        base_url=base,
        headers=headers,
        transport=transport,
        timeout=httpx.Timeout(timeout_s or _ANSWER_S, connect=_CONNECT_S),
        trust_env=False,
    ) as client:
        yield Server(url, client)


def _transport(url: str, authority: Path | None) -> tuple[str, httpx.HTTPTransport]:
    if url.startswith("unix:"):
        path = os.path.abspath(url.removeprefix("unix:"))
        return "http://localhost", httpx.HTTPTransport(uds=path)
    base = url if "://" in url else f"http://{url}"
    try:
        found = httpx.URL(base)
    except (httpx.InvalidURL, ValueError) as error:
        raise ServerError(f"{url!r}: is no address: {error}") from None
    if found.scheme not in {"http", "https"} or not found.host:
        raise ServerError(f"{url!r}: write http://HOST:PORT, https://HOST:PORT or unix:PATH")
    return base, httpx.HTTPTransport(verify=_verified(authority))


def _verified(authority: Path | None) -> ssl.SSLContext | bool:
    if authority is None:
        return True
    try:
        return ssl.create_default_context(cafile=os.fspath(authority))
    except OSError as error:
        message = error.strerror or str(error)
        raise ServerError(f"{authority}: cannot be used as certificates: {message}") from None


SILENCE_S: Final = 60.0
"""How long a stream may be silent, in seconds; the server sends a sign of life more often."""

_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0


@final
@attrs.frozen
class StreamMessage:
    """One event of an event stream.

    Attributes:
        id: Its id, or None.
        event: Its name.
        data: Its text; empty if it has none.
    """

    id: str | None
    event: str
    data: str


def messages(lines: Iterator[str]) -> Iterator[StreamMessage]:
    """Yield the events of an event stream (WHATWG HTML, server-sent events)."""
    name, data, number = "message", list[str](), None
    for line in lines:
        if not line:
            if data or number is not None:
                yield StreamMessage(number, name, "\n".join(data))
            name, data, number = "message", [], None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "id":
                number = value
            case "event":
                name = value
            case "data":
                data.append(value)
            case _:
                pass  # a comment, or a field that does not concern us


# CLIENT-5
def follow(
    server: Server,
    *,
    after: int | None = None,
    parameters: Mapping[str, object] | None = None,
    patience_s: float = 300.0,
) -> Iterator[dict[str, Any]]:
    """Yield the decisions that follow, each once and in order, also across breaks.

    Args:
        server: The server.
        after: The ``seq`` of the decision before the first one; None: from now on.
        parameters: The filters.
        patience_s: How long the server may be away before this gives up, in seconds.

    Raises:
        ServerError: If the server refuses the request, or was away too long.
    """
    last = after
    wait_s, gone_since = _FIRST_WAIT_S, None
    while True:
        try:
            for message in _read(server, last, parameters or {}):
                wait_s, gone_since = _FIRST_WAIT_S, None
                if message.id:
                    last = int(message.id)
                if message.event == "decision" and message.data:
                    yield json.loads(message.data)
        except ServerError as error:
            if not error.passes:
                raise
            now = time.monotonic()
            gone_since = now if gone_since is None else gone_since
            if now - gone_since > patience_s:
                raise
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _read(
    server: Server, last: int | None, filters: Mapping[str, object]
) -> Iterator[StreamMessage]:
    headers = {"Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = str(last)
    with server.stream(
        "decisions", parameters=filters, headers=headers, silence_s=SILENCE_S
    ) as response:
        yield from messages(response.iter_lines())
