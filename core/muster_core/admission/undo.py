"""Undoing changes when several objects are admitted as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class UndoLog:
    """The steps that undo what was admitted.

    Each change of the state of admission records the step that undoes it. Single events never have
    to be undone: no steps are kept for them.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        """Keep steps from now on."""
        self._steps = []

    def end(self) -> None:
        """Drop the steps: what was admitted stays."""
        self._steps = None

    def note(self, step: Callable[[], object]) -> None:
        """Record a step that undoes a change, unless no steps are kept now."""
        if self._steps is not None:
            self._steps.append(step)

    def roll_back(self) -> None:
        """Undo everything, the last change first."""
        for step in reversed(self._steps or ()):
            step()
        self._steps = None
