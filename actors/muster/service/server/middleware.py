"""The gate in front of the application: what every request and every answer passes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

import trio
from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from muster.service.access import WHO, Access, Principal
from muster.service.api.monitoring import response_about
from muster.service.limits import RETRY_AFTER_S, Usage, too_much
from muster.service.payloads import Problem
from muster.service.server.connection import address_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from muster.service.health import Health
    from muster.service.server.addresses import Hosts


_LOG: Final = logging.getLogger("muster.service")

_LINGER_S: Final = 2.0
"""How long the rest of a body is thrown away, so that its sender reads the answer."""

AllowsOrigin = Callable[["Scope"], bool]
"""Whether other web sites may send a request."""


Refuses = Callable[["Scope", Problem], "Response"]
"""The response to a request that is refused here."""


def allow_no_origin(scope: Scope) -> bool:
    """Return that no other web site may send a request."""
    del scope
    return False


def as_problem(scope: Scope, problem: Problem) -> Response:
    """Return the problem as it is."""
    del scope
    return problem.response()


@final
class RequestGate:
    """Checks and logs all requests.

    Args:
        app: Answers what comes through.
        hosts: The names under which the service answers.
        usage: The limits.
        health: Whether it works.
        allows_origin: Whether other web sites may send a request; default: never.
        refuses: The form of a refusal; default: a problem.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Hosts,
        usage: Usage,
        health: Health,
        allows_origin: AllowsOrigin = allow_no_origin,
        refuses: Refuses = as_problem,
    ) -> None:
        self.app = app
        self.usage = usage
        self._hosts = hosts
        self._health = health
        self._allows_origin = allows_origin
        self.refuses = refuses
        self._under_way: set[_Exchange] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        if scope["type"] == "http":
            exchange = _Exchange(self, scope, receive, send)
            self._under_way.add(exchange)
            try:
                await exchange.run()
            finally:
                self._under_way.remove(exchange)
        else:
            await send({"type": "websocket.close", "code": 1008})

    # ACCESS-4
    def end_without(self, access: Access) -> int:
        """End the answers under way to those who have no token any more; return how many.

        A stream may last for days. A request whose answer has not begun is answered: it was
        allowed when it came.
        """
        lost = [one for one in self._under_way if one.is_being_sent and one.has_lost(access)]
        for exchange in lost:
            exchange.cut()
        return len(lost)

    @property
    def is_ending(self) -> bool:
        """Return whether the service ends, so that connections do."""
        return self._health.is_ending

    def early(self, scope: Scope) -> Response | None:
        """Return the response of a request that does not come through, or None."""
        problem = self._problem(scope)
        if problem is not None:
            self.usage.refusals.note(problem)
            return self.refuses(scope, problem)
        if self._health.is_ready and not scope["state"].get("spare"):
            return None
        about_health = None
        if scope["method"] in {"GET", "HEAD"}:
            about_health = response_about(self._health, scope["path"])
        return about_health or self.refuses(scope, self._not_now(scope))

    def _problem(self, scope: Scope) -> Problem | None:
        problem = self._hosts.check(scope)
        if problem is None and not self._allows_origin(scope):
            problem = self._hosts.check_origin(scope)
        if problem is not None:
            return problem
        limits = self.usage.limits
        if _head_bytes(scope) > limits.head_bytes:
            told = f"the head of the request has more than {limits.head_bytes} bytes"
            return too_much("head_bytes", limits.head_bytes, 431, told)
        length = _length(scope)
        if length is not None and length > limits.body_bytes:
            return self.too_long()
        return None

    # ACCESS-11
    def too_long(self) -> Problem:
        """Return the refusal of a body that is too long."""
        most = self.usage.limits.body_bytes
        return too_much("body_bytes", most, 413, f"the body is longer than {most} bytes")

    # ACCESS-18
    def _not_now(self, scope: Scope) -> Problem:
        if self._health.is_ready:
            told = f"there are {self.usage.connections.in_use} connections already"
        else:
            told = self._health.trouble() or "the state is being loaded"
        return Problem(
            503, f"{told}: come again later", headers={"Retry-After": str(RETRY_AFTER_S)}
        )


@final
class _Exchange:
    """A request and its answer."""

    def __init__(self, door: RequestGate, scope: Scope, receive: Receive, send: Send) -> None:
        self._door = door
        self._scope = scope
        self._receive = receive
        self._send = send
        self._began = perf_counter()
        self._due = trio.current_time() + door.usage.limits.body_s
        #: Whether the whole body has come; without one it has.
        self._is_whole = not _has_body(scope)
        self._body_bytes = 0
        self._scope_of_app = trio.CancelScope()
        self._status: int | None = None
        self._is_answered = False
        self._sent_bytes = 0

    async def run(self) -> None:
        """Answer the request, and log it."""
        scope = self._scope
        try:
            response = self._door.early(scope)
            app: ASGIApp = self._door.app if response is None else response
            with self._scope_of_app:
                await app(scope, self.receive, self.send)
        except Problem as refused:
            self._door.usage.refusals.note(refused)
            if self._status is None:
                await self._door.refuses(scope, refused)(scope, self.receive, self.send)
        except Exception:  # noqa: BLE001 - a bug in one answer must not end the service
            _LOG.exception("%s %s: a bug", scope["method"], _path(scope))
            if self._status is None:
                bug = Problem(500, "the service has a bug here; its log says more")
                await self._door.refuses(scope, bug)(scope, self.receive, self.send)
        finally:
            self._log()

    @property
    def is_being_sent(self) -> bool:
        """Return whether the answer has begun, and is not complete."""
        return self._status is not None and not self._is_answered

    def has_lost(self, access: Access) -> bool:
        """Return whether its sender has no token any more."""
        who: Principal | None = self._scope.get(WHO)
        return who is not None and not access.still(who)

    def cut(self) -> None:
        """End the answer where it is."""
        self._scope_of_app.cancel()

    # ACCESS-11
    async def receive(self) -> Message:
        """Return the next piece of the body.

        Raises:
            Problem: 413 if the body is too long, 408 if it takes too long.
        """
        if self._is_whole:
            return await self._receive()
        usage = self._door.usage
        message: Message | None = None
        with trio.move_on_at(self._due):
            message = await self._receive()
        if message is None:
            most_s = usage.limits.body_s
            told = f"the body did not arrive within {most_s:g} s"
            raise too_much("body_s", most_s, 408, told)
        self._note(message)
        if self._body_bytes > usage.limits.body_bytes:
            raise self._door.too_long()
        return message

    def _note(self, message: Message) -> None:
        """Note what has come of the body."""
        if message["type"] == "http.disconnect":
            self._is_whole = True
        else:
            self._body_bytes += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)

    async def send(self, message: Message) -> None:
        """Send a piece of the answer."""
        if message["type"] == "http.response.start":
            status: int = message["status"]
            self._status = status
            took_s = perf_counter() - self._began
            self._door.usage.requests.note(self._scope, status, took_s)
            headers = MutableHeaders(scope=message)
            headers.setdefault("cache-control", "no-store")
            headers.setdefault("x-content-type-options", "nosniff")
            is_last = self._door.is_ending or self._scope["state"].get("spare")
            if is_last or not self._is_whole:
                headers["connection"] = "close"
        elif message["type"] == "http.response.body":
            self._sent_bytes += len(message.get("body", b""))
            self._is_answered = not message.get("more_body", False)
            if self._is_answered and not self._is_whole:
                await self._end_early(message)
                return
        await self._send(message)

    async def _end_early(self, message: Message) -> None:
        """End an answer whose request has not come as a whole.

        The rest of the body is thrown away for a while, since a client that is cut off while it
        sends does not read the answer. Meanwhile Hypercorn must never wait for a reader.
        """
        await self._send({**message, "more_body": True})
        most = self._door.usage.limits.body_bytes
        with trio.move_on_after(_LINGER_S):
            thrown = 0
            while not self._is_whole and thrown <= most:
                piece = await self._receive()
                self._note(piece)
                thrown += len(piece.get("body", b""))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._throw_away)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            nursery.cancel_scope.cancel()

    async def _throw_away(self) -> None:
        while True:
            await self._receive()

    # ACCESS-20
    def _log(self) -> None:
        took_ms = (perf_counter() - self._began) * 1e3
        who = self._scope.get(WHO)
        fields: dict[str, Any] = {
            "what": "request",
            "method": self._scope["method"],
            "path": _path(self._scope),
            "status": self._status,
            "ms": round(took_ms, 1),
            "bytes": self._sent_bytes,
            "who": getattr(who, "name", "") or "-",
            "address": address_of(self._scope["client"]),
        }
        if not self._is_answered:
            fields["cut"] = True
        _LOG.info("request", extra={"fields": fields})


def _path(scope: Scope) -> str:
    raw: bytes = scope["raw_path"]
    return raw.decode("latin-1")


def _has_body(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 ")):
            return True
    return False


def _length(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return None


def _head_bytes(scope: Scope) -> int:
    """Return how long the head of a request was, but for its first word."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return headers + len(scope["raw_path"]) + len(scope["query_string"])
