"""Which members of a gang were bound in one step, read from the decisions of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import attrs

from muster_core.decisions import Decision, Kind

Name = tuple[str, str]
"""The names of an application and an ask."""

# Looking up a member of an enum takes ten times as long.
_GANG_SATISFIED: Final = Kind.GANG_SATISFIED
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED
_ASSIGNED: Final = Kind.ASSIGNED


@final
@attrs.define
class BoundTogether:
    """Collects the members that each gang of a batch bound in the step that satisfied it.

    Such a step says ``gang_satisfied`` for its gangs, and then ``bound`` for their members. The
    step ends where the next node is chosen: an ask that is bound later is a plain ask.
    """

    _open: dict[str, dict[Name, None]] = attrs.field(factory=dict[str, "dict[Name, None]"])
    _steps: dict[str, dict[Name, None]] = attrs.field(factory=dict[str, "dict[Name, None]"])

    def hear(self, decision: Decision) -> None:
        """Take the next decision of the batch, if it names a gang or a chosen node."""
        kind, gang = decision.kind, decision.gang
        if kind is _ASSIGNED:
            self._open.clear()
        elif gang is None:
            return
        elif kind is _GANG_SATISFIED:
            self._open[gang] = self._steps[gang] = {}
        elif decision.app is not None and decision.ask is not None:
            name = (decision.app, decision.ask)
            if kind is _BOUND and gang in self._open:
                self._open[gang][name] = None
            elif kind is _RELEASED and gang in self._steps:
                self._steps[gang].pop(name, None)

    def steps(self) -> Iterator[tuple[Name, ...]]:
        """Yield the members that were bound together, and still are when the batch ends."""
        for step in self._steps.values():
            if step:
                yield tuple(step)
