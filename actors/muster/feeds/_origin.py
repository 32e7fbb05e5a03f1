"""The instants of a feed: each event's own, and the date from which they all count."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster.feeds._dates import date_text
from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.instants import Date
from muster.feeds._fields.kinds import FieldError, told
from muster.feeds._ops import AT
from muster_core.decisions import MICROSECONDS

_PARSE: Final = AT.kind.parse


@final
@attrs.define
class FeedOrigin:
    """The date of the start of a feed, as far as it is read: it is in its first ``at`` that is a date.

    Attributes:
        us: The date, in microseconds since 1970 in UTC; None as long as no date was read.
    """

    us: int | None = None


@final
class Instants:
    """Finds the instant of each event of a feed, in the order of the events.

    Args:
        origin: Gets the date of the start.
    """

    def __init__(self, origin: FeedOrigin) -> None:
        self._origin = origin
        self._now_us = 0

    # FEED-10
    def of(self, value: Raw, problems: list[FieldError]) -> int:
        """Return the instant of an event, in microseconds since the start.

        It is its ``at`` if that is valid, else the instant of the event before it.

        Args:
            value: The event as written.
            problems: Gets the problem of its ``at``, if there is one.
        """
        written = value.get(AT.name) if isinstance(value, dict) else None
        # FEED-8
        if is_null(written):
            return self._now_us
        try:
            at = _PARSE(written)
            if type(at) is int and at >= self._now_us:  # the usual case
                self._now_us = at
            else:
                self._now_us = self._valid_us(at, written)
        except FieldError as error:
            problems.append(error.inside(AT.name))
        return self._now_us

    # FEED-9
    def _valid_us(self, at: object, written: Raw) -> int:
        """Return an instant in microseconds since the start.

        Raises:
            FieldError: If it cannot follow what was before it.
        """
        assert isinstance(at, int | Date)
        at_us = self._since_origin(at, written) if isinstance(at, Date) else at
        if at_us >= self._now_us:
            return at_us
        before = self._now_text(is_date=isinstance(at, Date))
        message = f"{told(written)} is before the event before it, which is at {before}"
        raise FieldError(message)

    # FEED-86
    def _since_origin(self, date: Date, written: Raw) -> int:
        origin = self._origin
        if origin.us is None:
            if self._now_us:
                message = (
                    f"{told(written)} is a date, and the event before it is at "
                    f"{self._now_text(is_date=False)}: write a time since the start, or make the "
                    "first time that is not 0 a date"
                )
                raise FieldError(message)
            origin.us = date.us
        if date.us < origin.us:
            start = date_text(origin.us)
            message = f"{told(written)} is before the start of the feed, which is {start}"
            raise FieldError(message)
        return date.us - origin.us

    def _now_text(self, *, is_date: bool) -> str:
        if is_date and self._origin.us is not None:
            return date_text(self._origin.us + self._now_us)
        return f"{self._now_us / MICROSECONDS:.15g} s"
