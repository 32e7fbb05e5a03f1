"""What would be decided at once if something were let in, for readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.api.lists import app_of
from muster.service.reading.asks import row_of_ask
from muster_core.decisions import Kind, Reason

if TYPE_CHECKING:
    from muster.service.page.viewed import Viewed
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps

Thing = tuple[str, ...]
"""What has a page of its own: what it is, and its names."""

_MOST: Final = 20
"""How many decisions are shown."""

_WANTED: Final = frozenset({Reason.COMPLETED.value, Reason.REMOVED.value, Reason.CANCELLED.value})
"""Why an ask is released that does not need its node any more."""


# PAGE-5, PAGE-52
@final
@attrs.frozen
class Following:
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
    async def of(cls, viewed: Viewed, decisions: Sequence[Mapping[str, object]]) -> Following:
        """Sum decisions up, given in the form of the log, and look what of them is there."""
        bound = {_ask(one) for one in decisions if one["kind"] == Kind.BOUND.value}
        lost = {
            _ask(one)
            for one in decisions
            if one["kind"] == Kind.RELEASED.value and one.get("reason") not in _WANTED
        }
        first = decisions[:_MOST]
        found = await viewed.moment.seen(lambda looking: _there(looking, first))
        more = max(len(decisions) - _MOST, 0)
        return cls(len(bound), len(lost), first, more, found.value)


def _there(looking: Looking, decisions: Sequence[Mapping[str, object]]) -> Steps[frozenset[Thing]]:
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


def _is_there(looking: Looking, thing: Thing) -> bool:
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
