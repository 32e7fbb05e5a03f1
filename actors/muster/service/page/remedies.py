"""Remedies and forecasts: what would help an ask or its gang, and when it starts.

Both are tried on a copy of the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from muster.explain import RemedyKind
from muster.explain._output import in_us, proof_of
from muster.feeds import RawEvent
from muster.service.access import Role
from muster.service.api.lists import app_of
from muster.service.input.configuration import difference_of
from muster.service.input.events import made_event
from muster.service.page.actions import refusal_of
from muster.service.page.renderer import Shown, render_page
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

_FEWER: Final = frozenset({RemedyKind.MIN_MEMBER, RemedyKind.DEFINE_GANG})
"""The changes that say themselves how many members a gang then needs."""

_MOST_EVICTED: Final = 5
"""How many asks that lose their node are named."""


def beneficiary(gang: ViewGang | None) -> Shown:
    """Return whom a change would help that gets a member of a gang bound.

    A gang starts as a whole: as many of its members as it needs hold a node then.
    """
    if gang is None or gang.satisfied:
        return {"gang": None, "then": ""}
    least = 0 if gang.definition is None else gang.definition.min_member
    if least < 2 or gang.children < least:
        return {"gang": gang.name, "then": ""}
    if gang.children == least:
        return {"gang": gang.name, "then": f"with all {least:,} members"}
    return {"gang": gang.name, "then": f"with at least {least:,} of its {gang.children:,} members"}


def remedy_line(remedy: dict[str, Any], refused: str, looking: ReadContext) -> Shown:
    """Return a remedy as it is shown.

    Args:
        remedy: The remedy, as the API has it.
        refused: Why whoever looks may not apply it; empty if they may.
        looking: The state.
    """
    queues = looking.machine.registry.queues
    evicted, starts = tuple(remedy["evicted"]), remedy["starts"]
    return {
        "text": remedy["text"],
        "starts_at_us": None if isinstance(starts, str) else in_us(starts),
        "node": remedy["node"],
        "evicted": evicted[:_MOST_EVICTED],
        "more_evicted": max(len(evicted) - _MOST_EVICTED, 0),
        "is_fewer": remedy["kind"] in _FEWER,
        "is_applicable": remedy["applicable"],
        "difference": _difference(remedy["events"], looking.machine.configuration),
        "queue": next(
            (one for one in map(_path_of, remedy["smallest"] or ()) if one in queues), ""
        ),
        "proof": proof_of(remedy),
        "events": remedy["events"],
        "refused": refused,
    }


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

    def look(looking: ReadContext) -> Steps[Shown | None]:
        yield
        owner = app_of(looking, app)
        row = None if owner is None else row_of_ask(looking, owner, name)
        if row is None or row.place is AskPlace.BOUND:
            return None
        return beneficiary(None if row.ask.gang is None else looking.view.gangs[row.ask.gang])

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

    def read(looking: ReadContext) -> Steps[list[Shown]]:
        helps: list[Shown] = []
        for remedy in found.remedies:
            yield
            helps.append(
                remedy_line(remedy, refusal_of(viewed, looking, remedy["events"]), looking)
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
