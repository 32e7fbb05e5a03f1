"""Runs parts of the suite by turns, and puts together what was found."""

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

Tell = Callable[[str], None]
"""Tells somebody who waits what is done now."""


@final
@attrs.define
class Outcome:
    """What became of a part.

    Attributes:
        part: Which one.
        turns: The figures of each turn.
        error: Why it has none, if it has none.
    """

    part: Part
    turns: list[list[Figure]] = attrs.field(factory=list[list[Figure]])
    error: str | None = None

    @property
    def figures(self) -> list[Figure]:
        """The medians."""
        return medians(self.turns)


def run(contender: Contender, scale: float) -> Measured:
    """Measure a contender in a process of its own.

    Raises:
        FailedError: It failed; the message says how.
    """
    share = scale * contender.share
    cost = python("-m", CHILD, "--scale", share, "--", contender.target, *contender.arguments)
    said: dict[str, Any] = json.loads(cost.out)
    return Measured(said["values"], [Figure(**figure) for figure in said["figures"]])


def measure(parts: Sequence[Part], turns: int, scale: float, tell: Tell) -> list[Outcome]:
    """Measure parts by turns: in each turn everything once.

    A part that fails is not tried again; the others go on.

    Args:
        parts: What to measure.
        turns: How often, unless less is enough for a part.
        scale: The share of the full size.
        tell: Is told what is done.
    """
    outcomes = [Outcome(part, error=part.missing) for part in parts]
    for turn in range(turns):
        for outcome in outcomes:
            if outcome.error is not None or turn >= outcome.part.most:
                continue
            found: dict[str, Measured] = {}
            try:
                for contender in outcome.part.contenders:
                    tell(f"turn {turn + 1} of {turns}: {outcome.part.name}, {contender.name}")
                    found[contender.name] = run(contender, scale)
            except FailedError as error:
                outcome.error = str(error)
                continue
            outcome.turns.append(outcome.part.figures(found))
    return outcomes
