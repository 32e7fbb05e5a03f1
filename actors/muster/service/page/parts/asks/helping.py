"""What would help an ask or its gang: changes that were tried on a copy of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import attrs

from muster.explain import RemedyKind
from muster.feeds import RawEvent
from muster.service.access.who import Role
from muster.service.api.lists import app_of
from muster.service.input.differing import difference_of
from muster.service.input.making import made_event
from muster.service.page.parts.asks.rights import refusal_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.asks import row_of_ask
from muster.service.reading.remedies import search
from muster_core.events import Configure
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from muster.service.reading.looking import Looking
    from muster_core.config.model import Configuration
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang

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
class Helped:
    """Whom a change would help.

    Attributes:
        gang: The gang that it lets start, or None: the ask is in none, or its gang has started.
        then: With how many members it starts, in words; may be empty.
    """

    gang: str | None
    then: str

    @classmethod
    def of(cls, gang: ViewGang | None) -> Helped:
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
class Help:
    """A change that would help, as the page shows it.

    Attributes:
        text: The change in words.
        node: The node on which the ask would be bound.
        evicted: The first asks that would lose their node.
        more_evicted: How many more would.
        is_fewer: Whether the gang then needs fewer members.
        is_machine: Whether it says that a machine is there, or is larger.
        difference: How the configuration that it puts in force differs from the one that is; None
            if it leaves this one as it is.
        queue: The path of the queue that this configuration changes, if it is known; or empty.
        proof: Why it is no smaller, in words; may be empty.
        events: The events that make it.
        refused: Why whoever looks may not send them; empty if they may.
    """

    text: str
    node: str
    evicted: tuple[str, ...]
    more_evicted: int
    is_fewer: bool
    is_machine: bool
    difference: Mapping[str, object] | None
    queue: str
    proof: str
    events: list[dict[str, Any]]
    refused: str

    @classmethod
    def of(cls, remedy: dict[str, Any], refused: str, looking: Looking) -> Help:
        """Return a remedy as it is shown.

        Args:
            remedy: The remedy, as the API has it.
            refused: Why whoever looks may not apply it; empty if they may.
            looking: The state.
        """
        queues = looking.machine.registry.queues
        kind = RemedyKind(remedy["kind"])
        proof = _EXACT.get(kind, _LESS) if remedy["smallest"] else ""
        evicted = tuple(remedy["evicted"])
        return cls(
            remedy["text"],
            remedy["node"],
            evicted[:_MOST_EVICTED],
            max(len(evicted) - _MOST_EVICTED, 0),
            kind in _FEWER,
            any(_is_machine(one) for one in remedy["events"]),
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


def _is_machine(event: dict[str, Any]) -> bool:
    return event["op"] == "add_node" or (event["op"] == "update_node" and "capacity" in event)


# PAGE-43
async def _helps(viewed: Viewed) -> Response:
    """Search for what would help, which takes up to some ten seconds."""
    app, name = viewed.in_path("app"), viewed.in_path("ask")
    if viewed.moment.is_past:
        raise Problem(409, "what would help is searched for in the present only")

    def look(looking: Looking) -> Steps[Helped | None]:
        yield
        owner = app_of(looking, app)
        row = None if owner is None else row_of_ask(looking, owner, name)
        if row is None or row.place is AskPlace.BOUND:
            return None
        return Helped.of(None if row.ask.gang is None else looking.view.gangs[row.ask.gang])

    helped = (await viewed.moment.seen(look)).value
    context: dict[str, Any] = {"app": app, "name": name, "helped": helped}
    context["whole"] = viewed.text("whole")
    if helped is None:
        told = f"{app}/{name} runs, or is over: there is nothing to help"
        return shown(viewed, "helps.html", told=told, found=None, **context)
    try:
        found = await search(viewed.service, app, name)
    except Problem as problem:
        return shown(viewed, "helps.html", told=problem.detail, found=None, **context)

    def read(looking: Looking) -> Steps[list[Help]]:
        helps: list[Help] = []
        for remedy in found.remedies:
            yield
            helps.append(Help.of(remedy, refusal_of(viewed, looking, remedy["events"]), looking))
        return helps

    helps = await viewed.moment.seen(read)
    return shown(viewed, "helps.html", told="", found=found, helps=helps.value, **context)


PAGES: Final = (Page("GET", "/asks/{app}/{ask}/helps", Role.READER, _helps),)
"""What would help."""
