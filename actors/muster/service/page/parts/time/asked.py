"""The span of time that somebody asks for, and what is there of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster._runtime.clients.observers import Filter, path_of
from muster.figures.text import HOUR
from muster.service.page.moment import Moment, instant_of
from muster.service.page.parts.time.going import now_us
from muster.service.page.rendering import moment_words
from muster.service.past.happened import Span
from muster.service.problems import Problem
from muster_core.decisions import Kind
from muster_core.values.gang_names import canonical_gang
from muster_core.values.nearest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster.service.page.viewed import Viewed
    from muster.service.past.happened import Happened
    from muster.service.past.kept import Kept
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps

_NAMES: Final = ("queue", "app", "gang")
_LIMIT: Final = 500
"""How many decisions are on a page."""


# PAGE-65
@final
@attrs.frozen
class Asked:
    """What somebody asks for.

    Attributes:
        fields: The fields of the form as they were filled in, by name.
        kinds: The kinds of decisions that were chosen, as written.
        span: What is there of the span; None if nothing is.
        notes: What is said of it: where it is another one than was asked for.
        unknown: What is said of a queue that there is not now; empty if there is, or none is asked.
        wrong: What is wrong with it; empty if nothing is.
    """

    fields: Mapping[str, str]
    kinds: Sequence[str]
    span: Span | None = None
    notes: Sequence[str] = ()
    unknown: str = ""
    wrong: str = ""

    def told(self, found: Happened) -> list[str]:
        """Return what is said of the span, now that it is known what happened."""
        notes = [*self.notes]
        if not found.kinds:
            if self.unknown:
                notes.append(self.unknown)
            for name, what in (("app", "application"), ("gang", "gang")):
                if self.fields[name]:
                    notes.append(
                        f"No decision of this span is about the {what} {self.fields[name]!r}."
                    )
        return notes


async def asked_of(viewed: Viewed, kept: Kept) -> Asked:
    """Return what the address of a page asks for; by default the last hour before the moment."""
    kinds = viewed.request.query_params.getlist("kind")
    fields = {name: viewed.text(name) for name in _NAMES}
    fields |= {name: _as_date(viewed, name) for name in ("from", "until")}
    try:
        return await _asked(viewed, kept, fields, kinds)
    except Problem as problem:
        if problem.status != 400:
            raise
        return Asked(fields, kinds, wrong=problem.detail)


def _as_date(viewed: Viewed, name: str) -> str:
    """Return what a field has as the browser wants it; empty if it is no instant."""
    try:
        at_us = instant_of(name, viewed.text(name), viewed.service)
    except Problem:
        return ""
    return viewed.moment.iso(at_us)[:19]


async def _asked(
    viewed: Viewed, kept: Kept, fields: Mapping[str, str], kinds: Sequence[str]
) -> Asked:
    moment = viewed.moment
    last_us = now_us(moment, kept) if moment.past_us is None else moment.past_us
    from_us, until_us = _wanted(viewed, last_us)
    wanted = _filter(viewed, kinds)
    if until_us < kept.first_us or from_us > last_us:
        return Asked(fields, kinds, notes=[_nothing(moment, kept, from_us, until_us, last_us)])
    notes: list[str] = []
    if from_us < kept.first_us and fields["from"]:
        begins = _words(moment, kept.first_us)
        asked = _words(moment, from_us)
        notes.append(f"You asked from {asked} on. History is kept from {begins} on only.")
    if until_us > last_us:
        asked, ends = _words(moment, until_us), _words(moment, last_us)
        notes.append(f"You asked until {asked}, which lies in the future: it ends at {ends}.")
    begin_us, end_us = max(from_us, kept.first_us), min(until_us, last_us)
    if not fields["from"]:
        fields = {**fields, "from": moment.iso(begin_us)[:19]}
    if not fields["until"]:
        # A browser writes whole seconds, and the last one counts in full.
        fields = {**fields, "until": moment.iso(end_us + 999_999)[:19]}
    entered, unknown = await _present(viewed, wanted.queue)
    after = viewed.number("after", 0, 0, 2**62)
    span = Span(begin_us, end_us, wanted, after, _LIMIT, entered)
    return Asked(fields, kinds, span, notes, unknown)


def _wanted(viewed: Viewed, last_us: int) -> tuple[int, int]:
    """Return the span as the address has it.

    Raises:
        Problem: 400 if it ends before it begins, or one of the two is no instant.
    """
    since, until = viewed.text("from"), viewed.text("until")
    until_us = instant_of("until", until, viewed.service) if until else last_us
    if not since:
        return min(until_us, last_us) - HOUR, until_us
    from_us = instant_of("from", since, viewed.service)
    if until and from_us > until_us:
        raise Problem(400, f"from: {since!r} is after until: {until!r}")
    return from_us, max(from_us, until_us)


def _nothing(moment: Moment, kept: Kept, from_us: int, until_us: int, last_us: int) -> str:
    """Say that nothing is there of a span."""
    asked = f"You asked for {_words(moment, from_us)} until {_words(moment, until_us)}."
    if from_us > last_us:
        return f"{asked} That lies in the future: it is {_words(moment, last_us)} now."
    begins = _words(moment, kept.first_us)
    return f"{asked} Nothing is kept of that span: history is kept from {begins} on."


def _words(moment: Moment, at_us: int) -> str:
    return moment_words(moment.iso(at_us)[:19])


async def _present(viewed: Viewed, queue: str | None) -> tuple[tuple[int, int], str]:
    """Return how much was let in until now, and what is said of a queue that there is not."""

    def read(looking: Looking) -> Steps[tuple[tuple[int, int], str]]:
        yield
        machine, queues = looking.machine, looking.machine.registry.queues
        unknown = ""
        if queue is not None and queue not in queues:
            near = did_you_mean(queue, queues)
            unknown = f"There is no queue {queue[:200]!r} now{near}; no decision is about it."
        return (machine.batches, machine.requests), unknown

    return (await Moment(viewed.service, viewed.request).seen(read)).value


def _filter(viewed: Viewed, kinds: Sequence[str]) -> Filter:
    known = {kind.value: kind for kind in Kind}
    for one in kinds:
        if one not in known:
            raise Problem(400, f"kind: {one[:100]!r}: must be one of {', '.join(known)}")
    queue, app, gang = (viewed.text(name) for name in ("queue", "app", "gang"))
    return Filter(
        frozenset(known[one] for one in kinds) or None,
        app or None,
        path_of(queue) if queue else None,
        _gang(gang) if gang else None,
    )


def _gang(written: str) -> str:
    try:
        return canonical_gang(written)
    except ValueError:
        return written  # No gang has this name.
