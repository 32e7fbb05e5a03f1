"""Routes of a table: what stands at each path, with one row for each method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, final

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from muster.service.limits.requests import ROUTE

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from muster.service.state import Service


class Row(Protocol):
    """What answers one method at one path."""

    @property
    def method(self) -> str:
        """The method, such as ``GET``, which answers ``HEAD`` as well."""
        ...

    @property
    def path(self) -> str:
        """The path, with ``{name}`` for its parts, and ``{name:path}`` if one may have slashes."""
        ...


R = TypeVar("R", bound=Row)

Answered = Callable[["Service", R, Request], Awaitable[Response]]
"""Returns the response to a request, whatever happens."""


def routes_by_path(
    service: Callable[[], Service], rows: Iterable[R], answered: Answered[R]
) -> list[BaseRoute]:
    """Return the routes of a table, in their order.

    A path whose last part may have slashes comes after those that it would hide.

    Args:
        service: Returns the running service.
        rows: The table.
        answered: Answers a request with the row that it is for.
    """
    by_path: dict[str, dict[str, R]] = {}
    for row in rows:
        by_path.setdefault(row.path, {})[row.method] = row
    return [
        Route(path, _Resource(service, of_path, answered), methods=[*of_path])
        for path, of_path in sorted(by_path.items(), key=lambda one: one[0].endswith(":path}"))
    ]


@final
@attrs.frozen
class _Resource(Generic[R]):
    """What stands at one path: a row for each method."""

    service: Callable[[], Service]
    by_method: Mapping[str, R]
    answered: Answered[R]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        row = self.by_method["GET" if request.method == "HEAD" else request.method]
        scope[ROUTE] = row.path
        response = await self.answered(self.service(), row, request)
        await response(scope, receive, send)
