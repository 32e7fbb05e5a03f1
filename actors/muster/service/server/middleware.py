"""The gate in front of the application: what every request and every answer passes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

from starlette.responses import Response

from muster.service.access import WHO, Access, Principal
from muster.service.api.monitoring import response_about
from muster.service.limits import RETRY_AFTER_S, Usage, too_long, too_much
from muster.service.logs import FIELDS
from muster.service.payloads import Problem
from muster.service.replication.followers import held_problem
from muster.service.server.connection import CUT, address_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from muster.service.health import Health
    from muster.service.replication.leadership import Leadership
    from muster.service.server.addresses import Hosts


_LOG: Final = logging.getLogger("muster.service")

REPLICA_PATH: Final = "/api/v1/replica"
"""The paths for followers, which are answered before all others."""

_ANSWERED_ALWAYS: Final = frozenset({"/healthz", "/readyz", "/metrics"})

_ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""The headers that an answer has if it does not say otherwise."""

AllowsOrigin = Callable[["Scope"], bool]
"""Whether other web sites may send a request."""


Refuses = Callable[["Scope", Problem], "Response"]
"""The response to a request that is refused here."""


def allow_no_origin(scope: Scope) -> bool:
    """Return that no other web site may send a request."""
    del scope
    return False


def as_problem(scope: Scope, problem: Problem) -> Response:
    """Return a problem as JSON, as RFC 9457 has it."""
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
        leadership: Whether it leads or follows.
        allows_origin: Whether other web sites may send a request; default: never.
        refuses: The form of a refusal; default: a problem.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Hosts,
        usage: Usage,
        health: Health,
        leadership: Leadership,
        *,
        allows_origin: AllowsOrigin = allow_no_origin,
        refuses: Refuses = as_problem,
    ) -> None:
        self.app = app
        self.usage = usage
        self._hosts = hosts
        self._health = health
        self.leadership = leadership
        self._allows_origin = allows_origin
        self.refuses = refuses
        self._under_way: set[_Exchange] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        exchange = _Exchange(self, scope, receive, send)
        self._under_way.add(exchange)
        try:
            await exchange.run()
        finally:
            self._under_way.remove(exchange)

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

    def early(self, scope: Scope) -> Response | None:
        """Return the response of a request that does not come through, or None."""
        problem = self._problem(scope)
        if problem is not None:
            self.usage.refusals.note(problem)
            return self.refuses(scope, problem)
        is_spare = scope["state"].get("spare")
        if not is_spare and self._health.is_open and scope["path"].startswith(REPLICA_PATH):
            return None
        if self._health.is_ready and not is_spare:
            elsewhere = self._elsewhere(scope)
            return None if elsewhere is None else self.refuses(scope, elsewhere)
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
            message = f"the head of the request has more than {limits.head_bytes} bytes"
            return too_much("head_bytes", limits.head_bytes, 431, message)
        length = _length(scope)
        if length is not None and length > limits.body_bytes:
            return too_long(limits)
        return None

    # REPLICA-8, REPLICA-10
    def _elsewhere(self, scope: Scope) -> Problem | None:
        """Return the problem of a request that the leader has to answer, or that is held back."""
        leadership, path = self.leadership, scope["path"]
        if leadership.followers.is_held and path not in _ANSWERED_ALWAYS:
            return held_problem()
        if not leadership.is_elsewhere(scope["method"], path):
            return None
        place = leadership.place(
            scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        )
        message = f"this server follows {leadership.leader}, which decides"
        if place is None:
            return Problem(503, f"{message}: ask that one", headers={"Retry-After": "1"})
        return Problem(307, message, headers={"Location": place})

    # ACCESS-18
    def _not_now(self, scope: Scope) -> Problem:
        if self._health.is_ready:
            message = f"there are {self.usage.connections.in_use} connections already"
        else:
            message = self._health.trouble() or self._health.awaited()
        return Problem(
            503, f"{message}: come again later", headers={"Retry-After": str(RETRY_AFTER_S)}
        )


@final
class _Exchange:
    """A request and its answer."""

    def __init__(self, gate: RequestGate, scope: Scope, receive: Receive, send: Send) -> None:
        self._gate = gate
        self._scope = scope
        self._receive = receive
        self._send = send
        self._began = perf_counter()
        self._status: int | None = None
        self._is_answered = False
        self._sent_bytes = 0

    async def run(self) -> None:
        """Answer the request, and log it."""
        scope = self._scope
        try:
            app: ASGIApp = self._gate.early(scope) or self._gate.app
            await app(scope, self._receive, self.send)
        except Problem as refused:
            self._gate.usage.refusals.note(refused)
            await self._refuse(refused)
        except Exception:  # noqa: BLE001 - a bug in one answer must not end the service
            _LOG.exception("%s %s: a bug", scope["method"], _path(scope))
            await self._refuse(Problem(500, "the service has a bug here; its log says more"))
        finally:
            self._log()

    async def _refuse(self, problem: Problem) -> None:
        """Answer a request with a problem, unless an answer has begun."""
        if self._status is None:
            await self._gate.refuses(self._scope, problem)(self._scope, self._receive, self.send)

    @property
    def is_being_sent(self) -> bool:
        """Return whether the answer has begun, and is not complete."""
        return self._status is not None and not self._is_answered

    def has_lost(self, access: Access) -> bool:
        """Return whether its sender has no token any more."""
        who: Principal | None = self._scope.get(WHO)
        return who is not None and not access.is_valid(who)

    def cut(self) -> None:
        """End the answer where it is."""
        self._scope[CUT]()

    async def send(self, message: Message) -> None:
        """Send a piece of the answer."""
        if message["type"] == "http.response.start":
            status: int = message["status"]
            self._status = status
            self._gate.usage.requests.note(self._scope, status, perf_counter() - self._began)
            headers = [*message["headers"]]
            names = {name for name, _ in headers}
            headers += [field for field in _ALWAYS if field[0] not in names]
            headers += self._gate.leadership.headers()
            message = {**message, "headers": headers}
        else:
            self._sent_bytes += len(message.get("body", b""))
            self._is_answered = not message.get("more_body", False)
        await self._send(message)

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
        if _LOG.isEnabledFor(logging.INFO):
            # `info` would look for the line of the program, which takes as long as all the rest.
            record = logging.LogRecord(_LOG.name, logging.INFO, "", 0, "request", None, None)
            record.__dict__[FIELDS] = fields
            _LOG.handle(record)


def _path(scope: Scope) -> str:
    raw: bytes = scope["raw_path"]
    return raw.decode("latin-1")


def _length(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return None


def _head_bytes(scope: Scope) -> int:
    """Return how long the head of a request was, but for its first word."""
    headers = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return headers + len(scope["raw_path"]) + len(scope["query_string"])
