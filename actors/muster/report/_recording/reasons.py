"""Why asks waited: the oldest pending asks are asked about now and then, and all that counts at the end.

To ask about every pending ask at every instant would take far longer than the replay. So it is
done in periods of virtual time, which double as the replay goes on, for a few asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, Protocol, final

import attrs

from muster.replay import Key, LiveAsk

FIRST_PERIOD_US: Final = 1_000_000
"""How long it is at first between two looks, in microseconds."""

LOOKS_PER_PERIOD: Final = 64
"""After so many looks the period doubles."""

ASKED_ABOUT: Final = 4
"""How many asks are asked about in one look."""

CANDIDATES: Final = 512
"""Of so many of the oldest asks, those are asked about that were asked about least."""

ASKED_AT_END: Final = 100
"""How many of the asks that are pending at the end are asked about then."""


class Explains(Protocol):
    """Who can say why an ask is pending, such as a :class:`muster.Simulation`."""

    async def why_pending(self, app: str, ask: str) -> object | None:
        """Give a code, a colon and the reason in words, as the ``str`` of what it gives."""


@final
@attrs.frozen
class Asked:
    """What was said about an ask.

    Attributes:
        codes: How often which code was the dominant one.
        last: What was said last: the reason in words.
        at_us: When that was, in microseconds.
    """

    codes: Mapping[str, int]
    last: str
    at_us: int


@final
class ReasonRecord:
    """Asks why asks are pending, and takes note.

    Attributes:
        due_us: When to look next, in microseconds; None before the first ask came.
        codes: How often which code was the dominant one, in all looks.
        at_end: The same at the end alone, where each of the asks counts once.
    """

    def __init__(self) -> None:
        self.due_us: int | None = None
        self.codes: Counter[str] = Counter()
        self.at_end: Counter[str] = Counter()
        self._asked: dict[Key, Asked] = {}
        self._period_us = FIRST_PERIOD_US
        self._looks = 0
        #: What was said of each queue: when, and the code.
        self._heard: dict[str, list[tuple[int, str]]] = {}

    def begin(self, at_us: int) -> None:
        """Look for the first time a period after an instant, unless that has been said."""
        if self.due_us is None:
            self.due_us = at_us + self._period_us

    async def look(self, scheduler: Explains, oldest: Iterable[LiveAsk], at_us: int) -> None:
        """Ask about some of the oldest asks."""
        self._looks += 1
        if self._looks == LOOKS_PER_PERIOD:
            self._looks = 0
            self._period_us *= 2
        self.due_us = (at_us // self._period_us + 1) * self._period_us
        for ask in sorted(islice(oldest, CANDIDATES), key=self._times)[:ASKED_ABOUT]:
            code = await self._ask(scheduler, ask, at_us)
            if code is not None:
                self.codes[code] += 1
                self._heard.setdefault(ask.queue, []).append((at_us, code))

    async def look_at_end(self, scheduler: Explains, asks: Iterable[LiveAsk], at_us: int) -> None:
        """Ask about what is pending at the end."""
        for ask in list(islice(asks, ASKED_AT_END)):
            code = await self._ask(scheduler, ask, at_us)
            if code is not None:
                self.at_end[code] += 1

    def _times(self, ask: LiveAsk) -> int:
        asked = self._asked.get(ask.key)
        return 0 if asked is None else sum(asked.codes.values())

    async def _ask(self, scheduler: Explains, ask: LiveAsk, at_us: int) -> str | None:
        reason = await scheduler.why_pending(*ask.key)
        if reason is None:
            return None
        code, _, words = str(reason).partition(": ")
        before = self._asked.get(ask.key)
        codes = Counter({} if before is None else before.codes)
        codes[code] += 1
        self._asked[ask.key] = Asked(codes, words, at_us)
        return code

    def said(self, key: Key) -> Asked | None:
        """Give what was said about an ask; None if it was not asked about."""
        return self._asked.get(key)

    def heard(self, queue: str, begin_us: int, end_us: int) -> Mapping[str, int]:
        """Give how often which code was said of asks of a queue between two instants."""
        said = self._heard.get(queue, [])
        return Counter(code for at_us, code in said if begin_us <= at_us <= end_us)

    def forget(self, key: Key) -> None:
        """Forget what was said about an ask, which is bound and among the longest waits no more."""
        self._asked.pop(key, None)
