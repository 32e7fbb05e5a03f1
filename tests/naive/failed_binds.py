"""Where the bind of an ask failed, if that is the last thing that happened to it."""

from __future__ import annotations

from muster_core.decisions import Decision, Kind, Reason
from tests.naive.state import Ask, World


def note_failed_binds(world: World) -> None:
    """Note it of each ask, from what was said in the batch that ends now."""
    for app in world.apps.values():
        for ask in app.asks.values():
            said = [one for one in world.log if (one.app, one.ask) == (app.name, ask.name)]
            ask.failed_on = _failed_on(ask, said)


def _failed_on(ask: Ask, said: list[Decision]) -> str | None:
    """Follow an ask: what is undone in the batch in which it was done counts for nothing."""
    node, before = ask.failed_on, None
    for one in said:
        if one.kind is Kind.ASSIGNED:
            node, before = None, node
        elif one.kind is Kind.RELEASED:
            failed = one.reason is Reason.BIND_FAILED
            node, before = (one.node if failed else before), None
    return node
