"""A page: its path, who may see it, its handler, and a request for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, final
from urllib.parse import parse_qsl

import attrs
from starlette.responses import Response

from muster.service.input.bodies import body_of
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.access.sessions import Session
    from muster.service.access.who import Role, Who
    from muster.service.page.moment import Moment
    from muster.service.state import Service

MOST: Final = 4_000
"""The most characters of a value in the address of a page."""


@final
@attrs.frozen(eq=False)
class Viewed:
    """A request for a page.

    Attributes:
        service: The service.
        request: The request.
        who: Who looks at it.
        session: Their session.
        moment: The moment whose state is shown.
        batch: The last batch that was announced when the request came.
    """

    service: Service
    request: Request
    who: Who
    session: Session
    moment: Moment
    batch: int

    @property
    def is_part(self) -> bool:
        """Return whether htmx asks for the content only, without the frame around it."""
        return self.request.headers.get("hx-request") == "true"

    def in_path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def text(self, name: str, default: str = "") -> str:
        """Return a value after the question mark; without white space around it.

        Raises:
            Problem: 400 if it is too long.
        """
        written = self.request.query_params.get(name, default).strip()
        if len(written) > MOST:
            raise Problem(400, f"{name}: has more than {MOST} characters")
        return written

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number after the question mark.

        Raises:
            Problem: 400 if it is none, or not between the two limits.
        """
        written = self.text(name)
        if not written:
            return default
        if not (written.isascii() and written.isdigit() and len(written) < 19):
            raise Problem(400, f"{name}: {written[:100]!r}: must be a whole number")
        if not least <= int(written) <= most:
            raise Problem(400, f"{name}: {written}: must be from {least} to {most}")
        return int(written)

    async def form(self) -> Form:
        """Return the fields of the form that was sent.

        Raises:
            Problem: 400 if it cannot be read.
        """
        body = await body_of(self.request)
        try:
            fields = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=100
            )
        except ValueError:
            raise Problem(400, "the form cannot be read: it must be urlencoded UTF-8") from None
        return Form(dict(fields))


@final
@attrs.frozen(eq=False)
class Form:
    """The fields of a form."""

    _fields: Mapping[str, str]

    def text(self, name: str, default: str | None = None) -> str:
        """Return a field.

        Args:
            name: Its name.
            default: What to return if it is missing.

        Raises:
            Problem: 400 if it is missing, and there is no default.
        """
        found = self._fields.get(name, default)
        if found is None:
            raise Problem(400, f"{name}: is missing in the form")
        return found


Handler = Callable[[Viewed], Awaitable[Response]]
"""Answers a request for a page; what it raises as :class:`Problem` is shown."""


@final
@attrs.frozen
class Page:
    """A page, or what a form of a page does.

    Attributes:
        method: The method: ``GET`` or ``POST``.
        path: The path, with ``{name}`` for its parts.
        role: The least role that may use it.
        handler: Answers it.
    """

    method: str
    path: str
    role: Role
    handler: Handler
