"""Regular expressions in filters, found in time proportional to the length of a name.

PLACEMENT-5. ``re`` would try ways one after the other, and for ``(a+)+$`` their number doubles with
each character of a name that anybody may choose. Here all ways are followed at once, one
character after the other, so the time is at most that of the expression times that of the name.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from muster_core.config.placement.pattern_parser import parse_pattern
from muster_core.config.placement.patterns import Choice, OneOf, Part, Repeat, Sequence, Spot

MOST_STEPS: Final = 5000
"""How many steps an expression may have when its repetitions are written out."""

_TOO_LARGE: Final = f"it is too large: written out, it has more than {MOST_STEPS} steps"


@final
@attrs.define(eq=False)
class _Step:
    """One step: what it requires, and the steps after it.

    Attributes:
        needs: A character that it takes, a place where it must be, or None for nothing.
        after: The steps that come next; empty at the end of the expression.
    """

    needs: OneOf | Spot | None
    after: list[_Step]


@final
class Expression:
    """A regular expression.

    Args:
        text: The expression, in the form that RE2 and Python's ``re`` have in common.

    Raises:
        ValueError: If it is no such expression, or too large.
    """

    def __init__(self, text: str) -> None:
        self._steps = 0
        self._end = _Step(None, [])
        self._start = self._before(parse_pattern(text), self._end)

    def found_in(self, text: str) -> bool:
        """Return whether the expression matches anywhere in a text."""
        here: list[_Step] = []
        for position in range(len(text) + 1):
            here.append(self._start)
            ready = self._reached(here, text, position)
            if self._end in ready:
                return True
            character = text[position : position + 1]
            here = [
                step.after[0]
                for step in ready
                if character and isinstance(step.needs, OneOf) and step.needs.has(character)
            ]
        return False

    @staticmethod
    def _reached(steps: list[_Step], text: str, position: int) -> dict[_Step, None]:
        """Return these steps, and those that are reached from them without taking a character."""
        reached: dict[_Step, None] = {}
        left = list(steps)
        while left:
            step = left.pop()
            if step in reached:
                continue
            reached[step] = None
            needs = step.needs
            if needs is None or (isinstance(needs, Spot) and needs.holds(text, position)):
                left.extend(step.after)
        return reached

    def _before(self, part: Part, after: _Step) -> _Step:
        """Return the first step of a part that is followed by a step."""
        match part:
            case OneOf() | Spot():
                return self._step(part, [after])
            case Sequence():
                for one in reversed(part.parts):
                    after = self._before(one, after)
                return after
            case Choice():
                return self._step(None, [self._before(one, after) for one in part.parts])
            case Repeat():
                return self._before_repeat(part, after)

    def _before_repeat(self, repeat: Repeat, after: _Step) -> _Step:
        if repeat.most is None:
            loop = self._step(None, [after])
            loop.after.append(self._before(repeat.part, loop))
            after = loop
        else:
            end = after
            for _ in range(repeat.most - repeat.least):
                after = self._step(None, [self._before(repeat.part, after), end])
        for _ in range(repeat.least):
            first = self._before(repeat.part, after)
            if first is after:  # Nothing, however often, is nothing.
                break
            after = first
        return after

    def _step(self, needs: OneOf | Spot | None, after: list[_Step]) -> _Step:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise ValueError(_TOO_LARGE)
        return _Step(needs, after)
