"""The record of why asks waited, from samples of pending asks.

To explain every pending ask at every instant would take far longer than the replay. So only a few
of the oldest pending asks are explained, once in each period of virtual time; the periods double
as the replay proceeds. At the end, more of the pending asks are explained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, Protocol, final

import attrs

from muster.figures.instants import instant_of
from muster.replay import Key, LiveAsk
from muster_core.reasons import Explanation

FIRST_PERIOD_US: Final = 1_000_000
"""The first period between two looks, in microseconds."""

LOOKS_PER_PERIOD: Final = 64
"""After how many looks the period doubles."""

ASKED_ABOUT: Final = 4
"""How many asks are explained in one look."""

CANDIDATES: Final = 512
"""A look chooses the least often explained asks from this many of the oldest ones."""

ASKED_AT_END: Final = 100
"""The most pending asks that are explained at the end."""


class Explains(Protocol):
    """Explains why an ask is pending, such as a :class:`muster.Simulation`."""

    async def why_pending(self, app: str, ask: str) -> Explanation | None:
        """Return why an ask is not running, or None."""
        ...


@final
@attrs.frozen
class Asked:
    """The reasons found for an ask.

    Attributes:
        codes: How often each code was the dominant one.
        last: The last reason, in words.
        names_us: The instant that it names, in microseconds; None if it names none.
        at_us: When that reason was found, in microseconds.
    """

    codes: Mapping[str, int]
    last: str
    names_us: int | None
    at_us: int


@final
class ReasonRecord:
    """Explains pending asks from time to time, and records the reasons.

    Attributes:
        due_us: When the next look is due, in microseconds; None before the first ask.
        codes: How often each code was the dominant one, in all looks but the last.
        at_end: How often each code was the dominant one, in the look at the end.
    """

    def __init__(self) -> None:
        self.due_us: int | None = None
        self.codes: Counter[str] = Counter()
        self.at_end: Counter[str] = Counter()
        self._asked: dict[Key, Asked] = {}
        self._period_us = FIRST_PERIOD_US
        self._looks = 0
        #: The codes found in each queue, with their instants.
        self._heard: dict[str, list[tuple[int, str]]] = {}

    def begin(self, at_us: int) -> None:
        """Set the first look to one period after an instant, unless it is already set."""
        if self.due_us is None:
            self.due_us = at_us + self._period_us

    async def look(self, scheduler: Explains, oldest: Iterable[LiveAsk], at_us: int) -> None:
        """Explain some of the oldest pending asks."""
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
        """Explain the asks that are pending at the end."""
        for ask in list(islice(asks, ASKED_AT_END)):
            code = await self._ask(scheduler, ask, at_us)
            if code is not None:
                self.at_end[code] += 1

    def _times(self, ask: LiveAsk) -> int:
        asked = self._asked.get(ask.key)
        return 0 if asked is None else sum(asked.codes.values())

    async def _ask(self, scheduler: Explains, ask: LiveAsk, at_us: int) -> str | None:
        explanation = await scheduler.why_pending(*ask.key)
        if explanation is None:
            return None
        reason = explanation.dominant
        code = reason.code.value
        before = self._asked.get(ask.key)
        codes = Counter({} if before is None else before.codes)
        codes[code] += 1
        self._asked[ask.key] = Asked(codes, reason.message, instant_of(reason.facts), at_us)
        return code

    def said(self, key: Key) -> Asked | None:
        """Return the reasons found for an ask; None if it was never explained."""
        return self._asked.get(key)

    def heard(self, queue: str, begin_us: int, end_us: int) -> Mapping[str, int]:
        """Return how often each code was found in a queue between two instants."""
        said = self._heard.get(queue, [])
        return Counter(code for at_us, code in said if begin_us <= at_us <= end_us)

    def forget(self, key: Key) -> None:
        """Forget the reasons of a bound ask that is no longer among the longest waits."""
        self._asked.pop(key, None)
