"""What is reserved, as the page shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster.service.reading.looking import Looking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster_core.snapshots import ReservationSnapshot
    from muster_core.structures.steps import Steps


@final
@attrs.frozen
class ReservedLine:
    """A node that is reserved for an ask.

    Attributes:
        app: The application of the ask.
        ask: Its name.
        node: The node.
        start_us: From when on, in microseconds since the origin; None if that is not known.
        scope: The path of the queue with ``backfill``.
        resources: What the ask asks for.
        gang: Its gang, or None.
    """

    app: str
    ask: str
    node: str
    start_us: int | None
    scope: str
    resources: Mapping[str, int]
    gang: str | None


# PAGE-81
def reserved_lines(
    looking: Looking, most: int, node: str | None = None
) -> Steps[tuple[Sequence[ReservedLine], int]]:
    """Return what is reserved, in the order of the reservations, and how much more there is.

    Args:
        looking: The state.
        most: How many lines are returned at most.
        node: The only node that is looked at; None for all.
    """
    yield
    found = [
        (name, one)
        for name, one in looking.reservations().items()
        if node is None or one.node == node
    ]
    lines: list[ReservedLine] = []
    for name, one in found[:most]:
        yield
        lines.append(_line(looking, name, one))
    return lines, len(found) - len(lines)


def _line(looking: Looking, name: str, one: ReservationSnapshot) -> ReservedLine:
    app, _, ask = name.partition("/")
    found = looking.view.apps[looking.machine.registry.app_key(app)].find(ask)
    assert found is not None, "an ask with a reservation is gone"
    return ReservedLine(
        app, ask, one.node, one.start_us, one.scope, dict(found.resources.amounts), found.gang
    )
