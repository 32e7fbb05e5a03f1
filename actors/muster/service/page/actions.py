"""Actions: the events that a button sends, whether the viewer may send them, and a preview.

What would help an ask or its gang, and when it starts, are tried on a copy of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, final

import attrs
from starlette.responses import Response

from muster.explain import RemedyKind
from muster.explain._output import in_us, proof_of
from muster.feeds import Raw, RawEvent
from muster.service.access import Role
from muster.service.api.lists import app_of
from muster.service.input.configuration import difference_of
from muster.service.input.dry_runs import try_events
from muster.service.input.events import JSON, convert_event, convert_events, raw_events
from muster.service.input.permissions import as_user, guard_of
from muster.service.input.submission import results_of, submit
from muster.service.page.history import ENDS
from muster.service.page.renderer import TemplateData, render_page
from muster.service.page.requests import Form, Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.asks import row_of_ask
from muster.service.queries.reader import ReadContext
from muster.service.queries.simulations import forecast_start, search_remedies
from muster_core.config.model import Configuration
from muster_core.decisions import Kind
from muster_core.events import Configure, Event
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps
from muster_core.view.gangs import ViewGang


# PAGE-47
def refusal_of(page: PageRequest, context: ReadContext, events: Sequence[Mapping[str, Raw]]) -> str:
    """Return why the viewer may not send some events; empty if the viewer may.

    Args:
        page: The request.
        context: The state.
        events: The events as values.
    """
    who = page.who
    if page.moment.is_past:
        return "This is the past, which nothing changes: go back to the present first."
    if who.role < Role.SUBMITTER:
        return f"This needs the role submitter; {who.name!r} has the role reader."
    guard = guard_of(who, page.service.access.users)
    if guard is None:
        return ""
    for number, value in enumerate(events):
        raw = RawEvent(number, None, dict(value))
        event = as_user(convert_event(raw, page.service.origin_us), who)
        if isinstance(event, str):
            return event
        refusal = guard.refusal(event, context.machine)
        if refusal is not None:
            return refusal
    return ""


Thing = tuple[str, ...]
"""An object that has a page: its kind, and its names."""

_MOST: Final = 20
"""How many decisions are shown."""


# PAGE-5, PAGE-52
@final
@attrs.frozen
class DecisionPreview:
    """The decisions that would follow, summed up.

    Attributes:
        bound: How many asks would be bound.
        lost: How many asks would lose their node though they still need it.
        first: The first decisions, in the form of the log.
        more: How many more there are.
        existing: What is named in the first decisions and is there now; the rest has no page yet.
    """

    bound: int
    lost: int
    first: Sequence[Mapping[str, object]]
    more: int
    existing: frozenset[Thing]

    @classmethod
    async def of(
        cls, page: PageRequest, decisions: Sequence[Mapping[str, object]]
    ) -> DecisionPreview:
        """Sum up decisions in the form of the log, and find which of their objects exist."""
        bound = {_ask(one) for one in decisions if one["kind"] == Kind.BOUND.value}
        lost = {
            _ask(one)
            for one in decisions
            if one["kind"] == Kind.RELEASED.value and one.get("reason") not in ENDS
        }
        first = decisions[:_MOST]
        found = await page.moment.read(lambda context: _existing(context, first))
        more = max(len(decisions) - _MOST, 0)
        return cls(len(bound), len(lost), first, more, found.value)


def _existing(
    context: ReadContext, decisions: Sequence[Mapping[str, object]]
) -> Steps[frozenset[Thing]]:
    """Return the objects that decisions name and that exist."""
    yield
    things = {thing for one in decisions for thing in _names_in(one)}
    return frozenset(thing for thing in things if _exists(context, thing))


def _names_in(decision: Mapping[str, object]) -> Iterator[Thing]:
    """Yield the objects that a decision names."""
    for kind in ("app", "gang", "node", "queue"):
        if decision.get(kind) is not None:
            yield kind, str(decision[kind])
    if decision.get("ask") is not None:
        yield "ask", str(decision["app"]), str(decision["ask"])


def _exists(context: ReadContext, thing: Thing) -> bool:
    match thing:
        case ("app", name):
            return app_of(context, name) is not None
        case ("ask", owner, name):
            app = app_of(context, owner)
            return app is not None and row_of_ask(context, app, name) is not None
        case ("gang", name):
            return name in context.view.gangs
        case ("node", name):
            return name in context.view.nodes.nodes
        case ("queue", name):
            return name in context.machine.registry.queues
        case _:
            raise AssertionError(thing)


def _ask(decision: Mapping[str, object]) -> tuple[object, object]:
    return decision["app"], decision["ask"]


async def _events_of_form(page: PageRequest, form: Form) -> list[Event | str]:
    """Return the events of a form, or for each other one the reason."""
    if page.moment.is_past:
        raise Problem(409, "the past cannot be changed: go back to the present first")
    written = form.text("events").encode()
    pace = page.service.client.pace
    raws = await pace.take(raw_events(written, JSON, page.service.usage))
    return await pace.take(convert_events(raws, page.who, page.service.origin_us))


# PAGE-5
async def _apply(page: PageRequest) -> Response:
    """Submit the events of a form, and show the result of each."""
    form = await page.form()
    made = await _events_of_form(page, form)
    outcome = await submit(page.service, made, guard=guard_of(page.who, page.service.access.users))
    results = await page.service.client.pace.take(results_of(made, outcome.errors))
    return render_page(
        page, "applied.html", results=results, outcome=outcome, what=form.text("what", "")
    )


# PAGE-5
async def _try(page: PageRequest) -> Response:
    """Show what the events of a form would lead to, and change nothing."""
    made = await _events_of_form(page, await page.form())
    events = [one for one in made if not isinstance(one, str)]
    dry_runs = page.service.intake.dry_runs
    tried = await try_events(
        page.service, dry_runs, events, guard_of(page.who, page.service.access.users)
    )
    results = await page.service.client.pace.take(results_of(made, tried.errors))
    following = await DecisionPreview.of(page, tried.decisions)
    return render_page(page, "tried.html", results=results, following=following)


ACTION_PAGES: Final = (
    Page("POST", "/events", Role.SUBMITTER, _apply),
    Page("POST", "/events/try", Role.SUBMITTER, _try),
)
"""The actions of buttons."""


_FEWER: Final = frozenset({RemedyKind.MIN_MEMBER, RemedyKind.DEFINE_GANG})
"""The changes that say themselves how many members a gang then needs."""

_MOST_EVICTED: Final = 5
"""How many asks that lose their node are named."""


def beneficiary(gang: ViewGang | None) -> TemplateData:
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


def remedy_line(remedy: dict[str, Any], refused: str, context: ReadContext) -> TemplateData:
    """Return a remedy as it is shown.

    Args:
        remedy: The remedy, as the API has it.
        refused: Why the viewer may not apply it; empty if the viewer may.
        context: The state.
    """
    queues = context.machine.registry.queues
    evicted, starts = tuple(remedy["evicted"]), remedy["starts"]
    return {
        "text": remedy["text"],
        "starts_at_us": None if isinstance(starts, str) else in_us(starts),
        "node": remedy["node"],
        "evicted": evicted[:_MOST_EVICTED],
        "more_evicted": max(len(evicted) - _MOST_EVICTED, 0),
        "waits": remedy["kind"] == RemedyKind.AGE,
        "is_fewer": remedy["kind"] in _FEWER,
        "is_applicable": remedy["applicable"],
        "difference": _difference(remedy["events"], context.machine.configuration),
        "queue": next(
            (one for one in map(_path_of, remedy["smallest"] or ()) if one in queues), ""
        ),
        "proof": proof_of(remedy),
        "events": remedy["events"],
        "refused": refused,
    }


def _path_of(amount: str) -> str:
    """Return the part before the slash in the name of an amount: its queue, if it is of one."""
    return amount.partition("/")[0]


def _difference(
    events: Sequence[dict[str, Any]], before: Configuration
) -> Mapping[str, object] | None:
    """Return what the last configuration among events changes; None if there is none."""
    for number, value in reversed([*enumerate(events)]):
        if value["op"] == "configure":
            event = convert_event(RawEvent(number, None, value), 0)
            return difference_of(before, event.config) if isinstance(event, Configure) else None
    return None


# PAGE-43
async def _remedies(page: PageRequest) -> Response:
    """Search for what would help, which takes up to some ten seconds."""
    app, name = page.in_path("app"), page.in_path("ask")
    if page.moment.is_past:
        raise Problem(409, "what would help is searched for in the present only")

    def read_gang(context: ReadContext) -> Steps[TemplateData | None]:
        yield
        owner = app_of(context, app)
        row = None if owner is None else row_of_ask(context, owner, name)
        if row is None or row.place is AskPlace.BOUND:
            return None
        return beneficiary(None if row.ask.gang is None else context.view.gangs[row.ask.gang])

    helped = (await page.moment.read(read_gang)).value
    values: dict[str, Any] = {"app": app, "name": name, "helped": helped}
    values["whole"] = page.text("whole")
    if helped is None:
        wrong = f"{app}/{name} runs, or is over: there is nothing to help"
        return render_page(page, "helps.html", wrong=wrong, found=None, **values)
    try:
        found = await search_remedies(page.service, app, name)
    except Problem as problem:
        return render_page(page, "helps.html", wrong=problem.detail, found=None, **values)

    def read(context: ReadContext) -> Steps[list[TemplateData]]:
        helps: list[TemplateData] = []
        for remedy in found.remedies:
            yield
            helps.append(remedy_line(remedy, refusal_of(page, context, remedy["events"]), context))
        return helps

    helps = await page.moment.read(read)
    return render_page(page, "helps.html", wrong="", found=found, helps=helps.value, **values)


REMEDY_PAGES: Final = (Page("GET", "/asks/{app}/{ask}/helps", Role.READER, _remedies),)
"""The search for remedies."""


# PAGE-80
async def _start_forecast(page: PageRequest) -> Response:
    """Foretell when an ask starts, which takes up to some ten seconds."""
    app, name = page.in_path("app"), page.in_path("ask")
    if page.moment.is_past:
        raise Problem(409, "the start of an ask is forecast in the present only")
    try:
        found = await forecast_start(page.service, app, name)
    except Problem as problem:
        wrong = problem.detail
        return render_page(page, "starts.html", app=app, name=name, wrong=wrong, found=None)
    return render_page(page, "starts.html", app=app, name=name, wrong="", found=found)


FORECAST_PAGES: Final = (Page("GET", "/asks/{app}/{ask}/starts", Role.READER, _start_forecast),)
"""The forecast of a start."""
