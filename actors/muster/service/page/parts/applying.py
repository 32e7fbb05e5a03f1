"""Letting events in from a page: what a button shows is what it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.access.who import Role
from muster.service.input.making import made_events
from muster.service.input.rights import guard_of
from muster.service.input.submitting import results_of, submit
from muster.service.input.trying import try_events
from muster.service.input.written import JSON, raw_events
from muster.service.page.parts.following import Following
from muster.service.page.rendering import shown
from muster.service.page.viewed import Form, Page, Viewed
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.events import Event


async def _made(viewed: Viewed, form: Form) -> list[Event | str]:
    """Return the events of a form, or for each other one the reason."""
    if viewed.moment.is_past:
        raise Problem(409, "the past cannot be changed: go back to the present first")
    written = form.text("events").encode()
    pace = viewed.service.client.pace
    raws = await pace.take(raw_events(written, JSON, viewed.service.usage))
    return await pace.take(made_events(raws, viewed.who))


# PAGE-5
async def _apply(viewed: Viewed) -> Response:
    """Let the events of a form in, and say what became of each."""
    form = await viewed.form()
    made = await _made(viewed, form)
    outcome = await submit(
        viewed.service, made, guard=guard_of(viewed.who, viewed.service.access.users)
    )
    results = await viewed.service.client.pace.take(results_of(made, outcome.errors))
    return shown(
        viewed, "applied.html", results=results, outcome=outcome, what=form.text("what", "")
    )


# PAGE-5
async def _try(viewed: Viewed) -> Response:
    """Say what the events of a form would lead to, and change nothing."""
    made = await _made(viewed, await viewed.form())
    events = [one for one in made if not isinstance(one, str)]
    dry_runs = viewed.service.intake.dry_runs
    tried = await try_events(
        viewed.service, dry_runs, events, guard_of(viewed.who, viewed.service.access.users)
    )
    results = await viewed.service.client.pace.take(results_of(made, tried.errors))
    following = await Following.of(viewed, tried.decisions)
    return shown(viewed, "tried.html", results=results, following=following)


PAGES: Final = (
    Page("POST", "/events", Role.SUBMITTER, _apply),
    Page("POST", "/events/try", Role.SUBMITTER, _try),
)
"""What buttons send."""
