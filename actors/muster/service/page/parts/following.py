"""What would be decided at once if something were let in, for readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster_core.decisions import Kind, Reason

_MOST: Final = 20
"""How many decisions are shown."""

_WANTED: Final = frozenset({Reason.COMPLETED.value, Reason.REMOVED.value})
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
    """

    bound: int
    lost: int
    first: Sequence[Mapping[str, object]]
    more: int

    @classmethod
    def of(cls, decisions: Sequence[Mapping[str, object]]) -> Following:
        """Sum decisions up, given in the form of the log."""
        bound = {_ask(one) for one in decisions if one["kind"] == Kind.BOUND.value}
        lost = {
            _ask(one)
            for one in decisions
            if one["kind"] == Kind.RELEASED.value and one.get("reason") not in _WANTED
        }
        return cls(len(bound), len(lost), decisions[:_MOST], max(len(decisions) - _MOST, 0))


def _ask(decision: Mapping[str, object]) -> tuple[object, object]:
    return decision["app"], decision["ask"]
