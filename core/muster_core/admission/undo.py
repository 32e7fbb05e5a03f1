"""Undoing what was admitted, where several objects are admitted as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable


@final
class UndoLog:
    """How to undo what was admitted, step by step.

    Whatever changes state that admission owns notes the step that takes the change back. While
    single events are admitted nothing has to be undone, and no step is kept.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        """Keep steps from now on."""
        self._steps = []

    def end(self) -> None:
        """Forget the steps: what was admitted stays."""
        self._steps = None

    def note(self, step: Callable[[], object]) -> None:
        """Take note of how to undo something, if it may have to be."""
        if self._steps is not None:
            self._steps.append(step)

    def roll_back(self) -> None:
        """Undo everything, the last change first."""
        for step in reversed(self._steps or ()):
            step()
        self._steps = None
