"""Finding out when an ask starts, on a copy of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from muster_core.coordinator.forecast import forecast

if TYPE_CHECKING:
    from muster._runtime.requests import Explained
    from muster_core.reasons import Explanation


def foretold(explained: Explained) -> Explanation | None:
    """Return why an ask is not running, with a forecast if the state was taken for one."""
    explanation, facts = explained.explanation, explained.facts
    if explanation is None or explanation.outlook is None or facts is None:
        return explanation
    made = forecast(facts, explanation.app, explanation.ask)
    return attrs.evolve(explanation, outlook=attrs.evolve(explanation.outlook, forecast=made))


async def foretold_beside(explained: Explained) -> Explanation | None:
    """Do the same in a thread, so that a running scheduler goes on.

    A caller that is cancelled does not wait for the thread.
    """
    if explained.facts is None:
        return explained.explanation
    return await trio.to_thread.run_sync(foretold, explained, abandon_on_cancel=True)
