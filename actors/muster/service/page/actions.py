"""Actions: the events that a button sends, whether the viewer may send them, and a preview."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import attrs
from starlette.responses import Response

from muster.feeds import Raw, RawEvent
from muster.service.access import Role
from muster.service.api.lists import app_of
from muster.service.input.dry_runs import try_events
from muster.service.input.events import JSON, made_event, made_events, raw_events
from muster.service.input.permissions import as_user, guard_of
from muster.service.input.submission import results_of, submit
from muster.service.page.history import ENDS
from muster.service.page.renderer import render_page
from muster.service.page.requests import Form, Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.asks import row_of_ask
from muster.service.queries.reader import ReadContext
from muster_core.decisions import Kind
from muster_core.events import Event
from muster_core.structures.steps import Steps


# PAGE-47
def refusal_of(
    viewed: PageRequest, looking: ReadContext, events: Sequence[Mapping[str, Raw]]
) -> str:
    """Return why whoever looks may not send some events; empty if they may.

    Args:
        viewed: The request.
        looking: The state.
        events: The events as values.
    """
    who = viewed.who
    if viewed.moment.is_past:
        return "This is the past, which nothing changes: go back to the present first."
    if who.role < Role.SUBMITTER:
        return f"This needs the role submitter; {who.name!r} has the role reader."
    guard = guard_of(who, viewed.service.access.users)
    if guard is None:
        return ""
    for number, value in enumerate(events):
        event = as_user(made_event(RawEvent(number, None, dict(value))), who)
        if isinstance(event, str):
            return event
        refusal = guard.refusal(event, looking.machine)
        if refusal is not None:
            return refusal
    return ""


Thing = tuple[str, ...]
"""What has a page of its own: what it is, and its names."""

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
        there: What is named in the first decisions and is there now; the rest has no page yet.
    """

    bound: int
    lost: int
    first: Sequence[Mapping[str, object]]
    more: int
    there: frozenset[Thing]

    @classmethod
    async def of(
        cls, viewed: PageRequest, decisions: Sequence[Mapping[str, object]]
    ) -> DecisionPreview:
        """Sum decisions up, given in the form of the log, and look what of them is there."""
        bound = {_ask(one) for one in decisions if one["kind"] == Kind.BOUND.value}
        lost = {
            _ask(one)
            for one in decisions
            if one["kind"] == Kind.RELEASED.value and one.get("reason") not in ENDS
        }
        first = decisions[:_MOST]
        found = await viewed.moment.seen(lambda looking: _there(looking, first))
        more = max(len(decisions) - _MOST, 0)
        return cls(len(bound), len(lost), first, more, found.value)


def _there(
    looking: ReadContext, decisions: Sequence[Mapping[str, object]]
) -> Steps[frozenset[Thing]]:
    """Return what is named in decisions and is there."""
    yield
    things = {thing for one in decisions for thing in _things(one)}
    return frozenset(thing for thing in things if _is_there(looking, thing))


def _things(decision: Mapping[str, object]) -> Iterator[Thing]:
    """Yield what a decision names."""
    for kind in ("app", "gang", "node", "queue"):
        if decision.get(kind) is not None:
            yield kind, str(decision[kind])
    if decision.get("ask") is not None:
        yield "ask", str(decision["app"]), str(decision["ask"])


def _is_there(looking: ReadContext, thing: Thing) -> bool:
    match thing:
        case ("app", name):
            return app_of(looking, name) is not None
        case ("ask", owner, name):
            app = app_of(looking, owner)
            return app is not None and row_of_ask(looking, app, name) is not None
        case ("gang", name):
            return name in looking.view.gangs
        case ("node", name):
            return name in looking.view.nodes.nodes
        case ("queue", name):
            return name in looking.machine.registry.queues
        case _:
            raise AssertionError(thing)


def _ask(decision: Mapping[str, object]) -> tuple[object, object]:
    return decision["app"], decision["ask"]


async def _made(viewed: PageRequest, form: Form) -> list[Event | str]:
    """Return the events of a form, or for each other one the reason."""
    if viewed.moment.is_past:
        raise Problem(409, "the past cannot be changed: go back to the present first")
    written = form.text("events").encode()
    pace = viewed.service.client.pace
    raws = await pace.take(raw_events(written, JSON, viewed.service.usage))
    return await pace.take(made_events(raws, viewed.who))


# PAGE-5
async def _apply(viewed: PageRequest) -> Response:
    """Let the events of a form in, and say what became of each."""
    form = await viewed.form()
    made = await _made(viewed, form)
    outcome = await submit(
        viewed.service, made, guard=guard_of(viewed.who, viewed.service.access.users)
    )
    results = await viewed.service.client.pace.take(results_of(made, outcome.errors))
    return render_page(
        viewed, "applied.html", results=results, outcome=outcome, what=form.text("what", "")
    )


# PAGE-5
async def _try(viewed: PageRequest) -> Response:
    """Say what the events of a form would lead to, and change nothing."""
    made = await _made(viewed, await viewed.form())
    events = [one for one in made if not isinstance(one, str)]
    dry_runs = viewed.service.intake.dry_runs
    tried = await try_events(
        viewed.service, dry_runs, events, guard_of(viewed.who, viewed.service.access.users)
    )
    results = await viewed.service.client.pace.take(results_of(made, tried.errors))
    following = await DecisionPreview.of(viewed, tried.decisions)
    return render_page(viewed, "tried.html", results=results, following=following)


ACTION_PAGES: Final = (
    Page("POST", "/events", Role.SUBMITTER, _apply),
    Page("POST", "/events/try", Role.SUBMITTER, _try),
)
"""What buttons send."""
