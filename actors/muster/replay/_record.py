"""The decisions since the last ``expect`` that an ``expect`` can name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import attrs

from muster.replay._summary import Remark
from muster_core.decisions import Announced, Decision, Kind, Reason

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED
_REJECTED: Final = Kind.REJECTED
_WARNING: Final = Kind.WARNING
_PREEMPTED: Final = Reason.PREEMPTED
_RECLAIMED: Final = Reason.RECLAIMED


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
        kind, reason = decision.kind, decision.reason
        # EXPECT-2
        if kind is _BOUND:
            self.bound.append(f"{decision.app}/{decision.ask}")
        # EXPECT-8
        elif kind is _RELEASED and reason is _PREEMPTED:
            self.preempted.append(f"{decision.app}/{decision.ask}")
        elif kind is _RELEASED and reason is _RECLAIMED:
            self.reclaimed.append(f"{decision.app}/{decision.ask}")
        elif kind is _REJECTED:
            self.refusals.append(Remark.of(decision))
        # EXPECT-10
        elif kind is _WARNING:
            self.warnings.append(decision.message or "")

    # EXPECT-12
    def start_anew(self) -> Record:
        """Clear this record; return its content as a new one."""
        before = attrs.evolve(self)
        self.bound, self.refusals, self.warnings = [], [], []
        self.preempted, self.reclaimed = [], []
        return before
