"""What would help an ask: changes that were tried on a copy of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster.explain import RemedyKind
from muster.service.access.who import Role
from muster.service.api.lists import app_of
from muster.service.page.parts.asks.rights import refusal_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.asks import row_of_ask
from muster.service.reading.remedies import search
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps

_EXACT: Final = {
    RemedyKind.PRIORITY: "A lower priority is not enough.",
    RemedyKind.MIN_MEMBER: "One more is too many.",
    RemedyKind.DEFINE_GANG: "One more is too many.",
}
_LESS: Final = "Less is not enough."

_MOST_EVICTED: Final = 5
"""How many asks that lose their node are named."""


@final
@attrs.frozen
class Help:
    """A change that would help, as the page shows it.

    Attributes:
        text: The change in words.
        node: The node on which the ask would be bound.
        evicted: The first asks that would lose their node.
        more_evicted: How many more would.
        proof: Why it is no smaller, in words; may be empty.
        events: The events that make it.
        refused: Why whoever looks may not send them; empty if they may.
    """

    text: str
    node: str
    evicted: tuple[str, ...]
    more_evicted: int
    proof: str
    events: list[dict[str, Any]]
    refused: str

    @classmethod
    def of(cls, remedy: dict[str, Any], refused: str) -> Help:
        """Return a remedy as it is shown."""
        proof = _EXACT.get(RemedyKind(remedy["kind"]), _LESS) if remedy["smallest"] else ""
        evicted = tuple(remedy["evicted"])
        return cls(
            remedy["text"],
            remedy["node"],
            evicted[:_MOST_EVICTED],
            max(len(evicted) - _MOST_EVICTED, 0),
            proof,
            remedy["events"],
            refused,
        )


# PAGE-43
async def _helps(viewed: Viewed) -> Response:
    """Search for what would help, which takes up to some ten seconds."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    if viewed.moment.is_past:
        raise Problem(409, "what would help is searched for in the present only")

    def is_meant(looking: Looking) -> Steps[bool]:
        yield
        owner = app_of(looking, app)
        row = None if owner is None else row_of_ask(looking, owner, name)
        return row is not None and row.place is not AskPlace.BOUND

    if not (await viewed.moment.seen(is_meant)).value:
        told = f"{app}/{name} runs, or is over: there is nothing to help"
        return shown(viewed, "helps.html", app=app, name=name, told=told, found=None)
    try:
        found = await search(viewed.service, app, name)
    except Problem as problem:
        return shown(viewed, "helps.html", app=app, name=name, told=problem.detail, found=None)

    def read(looking: Looking) -> Steps[list[Help]]:
        helps: list[Help] = []
        for remedy in found.remedies:
            yield
            helps.append(Help.of(remedy, refusal_of(viewed, looking, remedy["events"])))
        return helps

    helps = await viewed.moment.seen(read)
    return shown(viewed, "helps.html", app=app, name=name, told="", found=found, helps=helps.value)


PAGES: Final = (Page("GET", "/asks/{app}/{ask}/helps", Role.READER, _helps),)
"""What would help."""
