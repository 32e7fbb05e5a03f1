"""What was decided since the last ``expect``, as far as one can be compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from muster.replay._summary import Remark
from muster_core.decisions import Announced, Kind


@final
@attrs.define
class Record:
    """What was decided; it is a journal.

    Attributes:
        bound: The asks bound, as ``app/ask``, in order.
        refusals: The events refused, in order.
        warnings: The warnings, in order.
    """

    bound: list[str] = attrs.field(factory=list[str])
    refusals: list[Remark] = attrs.field(factory=list[Remark])
    warnings: list[str] = attrs.field(factory=list[str])

    def write(self, batch: Sequence[Announced], /) -> None:
        """Take note of a batch."""
        for announced in batch:
            decision = announced.decision
            if decision.kind is Kind.BOUND:
                self.bound.append(f"{decision.app}/{decision.ask}")
            elif decision.kind is Kind.REJECTED:
                self.refusals.append(Remark.of(decision))
            elif decision.kind is Kind.WARNING:
                self.warnings.append(decision.message or "")

    def start_anew(self) -> Record:
        """Forget everything; give what there was."""
        before = attrs.evolve(self)
        self.bound, self.refusals, self.warnings = [], [], []
        return before
