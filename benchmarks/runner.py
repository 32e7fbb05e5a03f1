"""Runs parts of the suite in turns, and merges their results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import attrs

from benchmarks.child import Measured
from benchmarks.figures import Figure, medians
from benchmarks.processes import FailedError, python
from benchmarks.suite import Contender, Part

CHILD: Final = "benchmarks.child"

Progress = Callable[[str], None]
"""Shows a progress message."""


@final
@attrs.define
class Outcome:
    """The outcome of a part.

    Attributes:
        part: The part.
        turns: The figures of each turn.
        error: Why it has no figures, or None.
    """

    part: Part
    turns: list[list[Figure]] = attrs.field(factory=list[list[Figure]])
    error: str | None = None

    @property
    def figures(self) -> list[Figure]:
        """The medians of the turns."""
        return medians(self.turns)


def run(contender: Contender, scale: float) -> Measured:
    """Measure a contender in a process of its own.

    Raises:
        FailedError: It failed; the message says why.
    """
    share = scale * contender.share
    cost = python("-m", CHILD, "--scale", share, "--", contender.target, *contender.arguments)
    document: dict[str, Any] = json.loads(cost.out)
    return Measured(document["values"], [Figure(**figure) for figure in document["figures"]])


def measure(parts: Sequence[Part], turns: int, scale: float, progress: Progress) -> list[Outcome]:
    """Measure parts in turns: each turn runs every part once.

    A part that fails is not tried again; the others go on.

    Args:
        parts: The parts.
        turns: The number of turns; a part may need fewer.
        scale: The share of the full size.
        progress: Shows a message.
    """
    outcomes = [Outcome(part, error=part.missing) for part in parts]
    for turn in range(turns):
        for outcome in outcomes:
            if outcome.error is not None or turn >= outcome.part.most:
                continue
            found: dict[str, Measured] = {}
            try:
                for contender in outcome.part.contenders:
                    progress(f"turn {turn + 1} of {turns}: {outcome.part.name}, {contender.name}")
                    found[contender.name] = run(contender, scale)
            except FailedError as error:
                outcome.error = str(error)
                continue
            outcome.turns.append(outcome.part.figures(found))
    return outcomes
