"""What was decided since the last ``expect``, as far as one can be compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import attrs

from muster.replay._summary import Refusal
from muster_core.decisions import Announced, Kind

_VICTIMS: Final = frozenset({"preempted", "reclaimed"})


@final
@attrs.define
class Record:
    """What was decided; it is a journal.

    Attributes:
        bound: The asks bound, as ``app/ask``, in order.
        victims: By reason, the asks released for it, as ``app/ask``, in order.
        refusals: The events refused, in order.
        warnings: The warnings, in order.
    """

    bound: list[str] = attrs.field(factory=list[str])
    victims: dict[str, list[str]] = attrs.field(factory=dict[str, list[str]])
    refusals: list[Refusal] = attrs.field(factory=list[Refusal])
    warnings: list[str] = attrs.field(factory=list[str])

    def write(self, batch: Sequence[Announced], /) -> None:
        """Take note of a batch."""
        for announced in batch:
            decision = announced.decision
            ask = f"{decision.app}/{decision.ask}"
            if decision.kind is Kind.BOUND:
                self.bound.append(ask)
            elif decision.kind is Kind.REJECTED:
                self.refusals.append(Refusal.of(decision))
            elif decision.kind is Kind.WARNING:
                self.warnings.append(decision.message or "")
            elif decision.reason is not None and decision.reason.value in _VICTIMS:
                self.victims.setdefault(decision.reason.value, []).append(ask)

    def start_anew(self) -> Record:
        """Forget everything; give what there was."""
        before = attrs.evolve(self)
        self.bound, self.victims, self.refusals, self.warnings = [], {}, [], []
        return before
