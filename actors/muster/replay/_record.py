"""The decisions since the last ``expect`` that an ``expect`` can name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from muster.replay._summary import Remark
from muster_core.decisions import Announced, Decision, Kind, Reason


@final
@attrs.define
class Record:
    """A journal of the decisions that an ``expect`` can name.

    Attributes:
        bound: The bound asks, as ``app/ask``, in order.
        refusals: The refused events, in order.
        warnings: The warnings, in order.
        preempted: The victims of preemption, as ``app/ask``, in order.
        reclaimed: The victims of reclaim, likewise.
    """

    bound: list[str] = attrs.field(factory=list[str])
    refusals: list[Remark] = attrs.field(factory=list[Remark])
    warnings: list[str] = attrs.field(factory=list[str])
    preempted: list[str] = attrs.field(factory=list[str])
    reclaimed: list[str] = attrs.field(factory=list[str])

    def write(self, batch: Sequence[Announced], /) -> None:
        """Record the decisions of a batch."""
        for announced in batch:
            self._note(announced.decision)

    def _note(self, decision: Decision) -> None:
        name = f"{decision.app}/{decision.ask}"
        match decision.kind, decision.reason:
            # EXPECT-2
            case Kind.BOUND, _:
                self.bound.append(name)
            # EXPECT-8
            case Kind.RELEASED, Reason.PREEMPTED:
                self.preempted.append(name)
            case Kind.RELEASED, Reason.RECLAIMED:
                self.reclaimed.append(name)
            case Kind.REJECTED, _:
                self.refusals.append(Remark.of(decision))
            # EXPECT-10
            case Kind.WARNING, _:
                self.warnings.append(decision.message or "")
            case _:
                pass

    # EXPECT-12
    def start_anew(self) -> Record:
        """Clear this record; return its content as a new one."""
        before = attrs.evolve(self)
        self.bound, self.refusals, self.warnings = [], [], []
        self.preempted, self.reclaimed = [], []
        return before
