"""Requests for pages: handlers, forms, filters, cursors, and the moment whose state is shown."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final
from urllib.parse import parse_qsl

import attrs
from starlette.responses import Response

from muster._errors import StoreError
from muster._runtime.observers import path_of
from muster.figures.text import iso_date, parse_iso_date
from muster.service.past.spans import HistoryExtent
from muster.service.past.states import PastState, read_all
from muster.service.payloads import Problem, body_of
from muster.service.queries.reader import ReadContext, ReadResult, cursors, read_state
from muster_core.decisions import MICROSECONDS
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.access import Principal, Role
    from muster.service.authentication import Session
    from muster.service.state import Service


MOST: Final = 4_000
"""The most characters of a value in the address of a page."""


@final
@attrs.frozen(eq=False)
class PageRequest:
    """A request for a page.

    Attributes:
        service: The service.
        request: The request.
        who: The principal of the viewer.
        session: The session of the viewer.
        moment: The moment whose state is shown.
        batch: The last batch that was announced when the request came.
    """

    service: Service
    request: Request
    who: Principal
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


Handler = Callable[[PageRequest], Awaitable[Response]]
"""Answers a request for a page; a :class:`Problem` that it raises is shown as a page."""


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


T = TypeVar("T")

_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_RIGHT: Final = "must be a date in UTC such as 2026-01-31T18:30:00Z, or seconds since the origin"


@final
@attrs.frozen(eq=False)
class Moment:
    """A moment, and the state then.

    Attributes:
        service: The service.
        request: The request for the page.
        extent: The extent of the kept history; None if nothing is kept, or it cannot be read.
        past_us: The instant in microseconds since the origin; None for the present.
    """

    service: Service
    request: Request
    extent: HistoryExtent | None = None
    past_us: int | None = None

    # PAGE-64
    @property
    def is_past(self) -> bool:
        """Return whether it is in the past, so that nothing changes any more."""
        return self.past_us is not None

    def query(self) -> Mapping[str, str]:
        """Return the query of the addresses of pages that show this moment."""
        return {} if self.past_us is None else {"at": self.iso(self.past_us)}

    def iso(self, at_us: int) -> str:
        """Return an instant as addresses have it: a date in UTC."""
        return iso_date(self.service.unix_us(at_us))

    def now_us(self) -> int:
        """Return the instant up to which waits last, in microseconds since the origin."""
        return self.service.now_us() if self.past_us is None else self.past_us

    # PAGE-60
    async def read(self, read: Callable[[ReadContext], Steps[T]]) -> ReadResult[T]:
        """Read the state of this moment: after the last batch at or before it.

        A state of the past is read in a thread, and the scheduler is not asked.

        Args:
            read: Reads it in steps, and changes nothing.

        Raises:
            Problem: If the past cannot be made again.
            Exception: What ``read`` raises.
        """
        at_us, moments = self.past_us, self.service.past
        if at_us is None:
            return await read_state(self.service, read)

        def work(past: PastState, gone: Flag) -> ReadResult[T]:
            context = ReadContext(past.machine_at(at_us), past.ledger, past.ask_index)
            return ReadResult(read_all(read(context), gone), past.number, at_us)

        return await moments.read(self.request, await moments.batch_at(at_us), work)


# PAGE-62
async def moment_of(service: Service, request: Request) -> Moment:
    """Return the moment that the address of a page names after ``at``; without it the present.

    Raises:
        Problem: 400 if it is no instant, or lies in the future; 409 if nothing is kept; 410 if it
            is before what is kept.
    """
    present = await present_of(service, request)
    written = request.query_params.get("at", "").strip()
    if not written:
        return present
    at_us = instant_of("at", written, service)
    kept = present.extent
    if service.options.state is None:
        message = "nothing is kept, so there is no past to show: start the service with --state"
        raise Problem(409, message)
    if kept is None:
        raise Problem(409, "the kept history has no batch yet, or cannot be read")
    now_us = service.now_us()
    if at_us > max(now_us, kept.last_us):
        message = f"at: {written!r} lies in the future: now is {present.iso(now_us)}"
        raise Problem(400, message)
    if at_us < kept.first_us:
        message = f"at: {written!r}: there is history from {present.iso(kept.first_us)} on"
        raise Problem(410, message)
    return attrs.evolve(present, past_us=at_us)


async def present_of(service: Service, request: Request) -> Moment:
    """Return the present moment."""
    try:
        kept = await service.past.extent()
    except StoreError:
        # Pages that need the store show the error; the present can be shown without.
        kept = None
    return Moment(service, request, kept)


def instant_of(name: str, written: str, service: Service) -> int:
    """Return an instant in microseconds since the origin.

    Args:
        name: The name of the parameter, for messages.
        written: A date in UTC, or seconds since the origin.
        service: The service.

    Raises:
        Problem: 400 if it is neither.
    """
    if _SECONDS.fullmatch(written):
        return int(Decimal(written) * MICROSECONDS)
    try:
        return parse_iso_date(written) - service.origin_us
    except ValueError:
        raise Problem(400, f"{name}: {written[:100]!r}: {_RIGHT}") from None


def place_of(page: PageRequest, listed: str, *types: type) -> tuple[Any, ...] | None:
    """Return the place behind which a page of a list begins; None for the first page.

    Args:
        page: The request.
        listed: The name of the list.
        types: The types of the parts of a place.

    Raises:
        Problem: 400 if the cursor is not one of this list.
    """
    written = page.text("after")
    if not written:
        return None
    try:
        place = cursors(listed, *types).read(written)
    except ValueError as error:
        raise Problem(400, f"after: {error}") from None
    return cast("tuple[Any, ...]", place)


W = TypeVar("W", bound=StrEnum)


def word_of(page: PageRequest, name: str, words: Callable[[str], W]) -> W | None:
    """Return one of the words of an enum after the question mark, or None.

    Raises:
        Problem: 400 if it is another word.
    """
    written = page.text(name)
    if not written:
        return None
    try:
        return words(written)
    except ValueError:
        raise Problem(400, f"{name}: {written[:100]!r}: there is no such {name}") from None


def queue_of(page: PageRequest) -> str | None:
    """Return the path of the queue that is asked for, in lower case, or None."""
    written = page.text("queue")
    return path_of(written) if written else None


def filters_of(page: PageRequest, *names: str) -> Mapping[str, str]:
    """Return what is written into each filter of this page; nothing for those without."""
    return {name: page.text(name) for name in names}


def local_path(path: str) -> str:
    """Return a path of this service, and nothing that leads to another."""
    is_local = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_local else "/"
