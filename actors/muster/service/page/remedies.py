"""Remedies and forecasts: what would help an ask or its gang, and when it starts.

Both are tried on a copy of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs
from starlette.responses import Response

from muster.explain import RemedyKind
from muster.explain._output import in_us
from muster.feeds import RawEvent
from muster.service.access import Role
from muster.service.api.lists import app_of
from muster.service.input.configuration import difference_of
from muster.service.input.events import made_event
from muster.service.page.actions import refusal_of
from muster.service.page.renderer import render_page
from muster.service.page.requests import Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.asks import row_of_ask
from muster.service.queries.reader import ReadContext
from muster.service.queries.simulations import forecast_start, search_remedies
from muster_core.config.model import Configuration
from muster_core.events import Configure
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps
from muster_core.view.gangs import ViewGang

_EXACT: Final = {
    RemedyKind.PRIORITY: "A lower priority is not enough.",
    RemedyKind.MIN_MEMBER: "One more is too many.",
    RemedyKind.DEFINE_GANG: "One more is too many.",
}
_LESS: Final = "Less is not enough."

_FEWER: Final = frozenset({RemedyKind.MIN_MEMBER, RemedyKind.DEFINE_GANG})
"""The changes that say themselves how many members a gang then needs."""

_MOST_EVICTED: Final = 5
"""How many asks that lose their node are named."""


@final
@attrs.frozen
class Beneficiary:
    """Whom a change would help.

    Attributes:
        gang: The gang that it lets start, or None: the ask is in none, or its gang has started.
        then: With how many members it starts, in words; may be empty.
    """

    gang: str | None
    then: str

    @classmethod
    def of(cls, gang: ViewGang | None) -> Beneficiary:
        """Return whom a change would help that gets a member of a gang bound.

        A gang starts as a whole: as many of its members as it needs hold a node then.
        """
        if gang is None or gang.satisfied:
            return cls(None, "")
        least = 0 if gang.definition is None else gang.definition.min_member
        if least < 2 or gang.children < least:
            return cls(gang.name, "")
        if gang.children == least:
            return cls(gang.name, f"with all {least:,} members")
        return cls(gang.name, f"with at least {least:,} of its {gang.children:,} members")


@final
@attrs.frozen
class RemedyLine:
    """A change that would help, as the page shows it.

    Attributes:
        text: The change in words.
        starts_at_us: When the ask starts then, in microseconds since the origin; None if it starts at
            once, or if nobody knows.
        node: The node on which the ask would be bound; None if it does not start at once.
        evicted: The first asks that would lose their node.
        more_evicted: How many more would.
        is_fewer: Whether the gang then needs fewer members.
        is_applicable: Whether its events are enough; otherwise a machine is needed.
        difference: How the configuration that it puts in force differs from the one that is; None
            if it leaves this one as it is.
        queue: The path of the queue that this configuration changes, if it is known; or empty.
        proof: Why it is no smaller, in words; may be empty.
        events: The events that make it.
        refused: Why whoever looks may not send them; empty if they may.
    """

    text: str
    starts_at_us: int | None
    node: str | None
    evicted: tuple[str, ...]
    more_evicted: int
    is_fewer: bool
    is_applicable: bool
    difference: Mapping[str, object] | None
    queue: str
    proof: str
    events: list[dict[str, Any]]
    refused: str

    @classmethod
    def of(cls, remedy: dict[str, Any], refused: str, looking: ReadContext) -> RemedyLine:
        """Return a remedy as it is shown.

        Args:
            remedy: The remedy, as the API has it.
            refused: Why whoever looks may not apply it; empty if they may.
            looking: The state.
        """
        queues = looking.machine.registry.queues
        kind = RemedyKind(remedy["kind"])
        proof = _EXACT.get(kind, _LESS) if remedy["smallest"] else ""
        evicted, starts = tuple(remedy["evicted"]), remedy["starts"]
        return cls(
            remedy["text"],
            None if isinstance(starts, str) else in_us(starts),
            remedy["node"],
            evicted[:_MOST_EVICTED],
            max(len(evicted) - _MOST_EVICTED, 0),
            kind in _FEWER,
            remedy["applicable"],
            _difference(remedy["events"], looking.machine.configuration),
            next((one for one in map(_path_of, remedy["smallest"] or ()) if one in queues), ""),
            proof,
            remedy["events"],
            refused,
        )


def _path_of(amount: str) -> str:
    """Return what stands before the slash in the name of an amount: its queue, if it is of one."""
    return amount.partition("/")[0]


def _difference(
    events: Sequence[dict[str, Any]], before: Configuration
) -> Mapping[str, object] | None:
    """Return what the last configuration among events changes; None if there is none."""
    for number, value in reversed([*enumerate(events)]):
        if value["op"] == "configure":
            event = made_event(RawEvent(number, None, value))
            return difference_of(before, event.config) if isinstance(event, Configure) else None
    return None


# PAGE-43
async def _helps(viewed: PageRequest) -> Response:
    """Search for what would help, which takes up to some ten seconds."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    if viewed.moment.is_past:
        raise Problem(409, "what would help is searched for in the present only")

    def look(looking: ReadContext) -> Steps[Beneficiary | None]:
        yield
        owner = app_of(looking, app)
        row = None if owner is None else row_of_ask(looking, owner, name)
        if row is None or row.place is AskPlace.BOUND:
            return None
        return Beneficiary.of(None if row.ask.gang is None else looking.view.gangs[row.ask.gang])

    helped = (await viewed.moment.seen(look)).value
    context: dict[str, Any] = {"app": app, "name": name, "helped": helped}
    context["whole"] = viewed.text("whole")
    if helped is None:
        told = f"{app}/{name} runs, or is over: there is nothing to help"
        return render_page(viewed, "helps.html", told=told, found=None, **context)
    try:
        found = await search_remedies(viewed.service, app, name)
    except Problem as problem:
        return render_page(viewed, "helps.html", told=problem.detail, found=None, **context)

    def read(looking: ReadContext) -> Steps[list[RemedyLine]]:
        helps: list[RemedyLine] = []
        for remedy in found.remedies:
            yield
            helps.append(
                RemedyLine.of(remedy, refusal_of(viewed, looking, remedy["events"]), looking)
            )
        return helps

    helps = await viewed.moment.seen(read)
    return render_page(viewed, "helps.html", told="", found=found, helps=helps.value, **context)


REMEDY_PAGES: Final = (Page("GET", "/asks/{app}/{ask}/helps", Role.READER, _helps),)
"""What would help."""


# PAGE-80
async def _starts(viewed: PageRequest) -> Response:
    """Foretell when an ask starts, which takes up to some ten seconds."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    if viewed.moment.is_past:
        raise Problem(409, "the start of an ask is forecast in the present only")
    try:
        found = await forecast_start(viewed.service, app, name)
    except Problem as problem:
        told = problem.detail
        return render_page(viewed, "starts.html", app=app, name=name, told=told, found=None)
    return render_page(viewed, "starts.html", app=app, name=name, told="", found=found)


FORECAST_PAGES: Final = (Page("GET", "/asks/{app}/{ask}/starts", Role.READER, _starts),)
"""When an ask starts."""
