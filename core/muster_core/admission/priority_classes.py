"""Priority classes: the built-in ones, and those of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.errors import RefusedError
from muster_core.values.nearest import Guesses
from muster_core.values.priority import BUILT_IN_CLASSES, PriorityClass, priority_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster_core.values.events import AddAsk, AddPriorityClass


@final
class PriorityClasses:
    """The priority classes that an ask may name."""

    def __init__(self) -> None:
        self._classes = {known.name: known for known in BUILT_IN_CLASSES}
        #: What was meant by unknown names.
        self.guesses = Guesses()

    def save(self, name: str) -> Callable[[], None]:
        """Return a function that restores the priority class of this name."""
        before = self._classes.get(name)

        def restore() -> None:
            self._classes.pop(name, None)
            if before is not None:
                self._classes[name] = before

        return restore

    # PREEMPTION-2, PRIORITY-5
    def priority(self, event: AddAsk) -> tuple[int, bool]:
        """Return the priority of an event from its number or its class.

        Returns:
            The priority, and whether the class says ``PreemptLowerPriority``.

        Raises:
            RefusedError: If the class is unknown, or the two differ.
        """
        return priority_of(event.priority, event.priority_class, self._classes, self.guesses)

    def value_of(self, name: str) -> int | None:
        """Return the value of a class, or None if it is unknown; this counts as no guess."""
        known = self._classes.get(name)
        return None if known is None else known.value

    # OBJECT-7
    def set(self, event: AddPriorityClass) -> None:
        """Add a user's priority class, or change it for later asks."""
        self._classes[event.name] = PriorityClass(event.name, event.value, event.preempts)

    def remove(self, name: str) -> None:
        """Remove a user's priority class.

        Raises:
            RefusedError: If it is unknown or built-in.
        """
        # PRIORITY-6
        if name not in self._classes or name in {known.name for known in BUILT_IN_CLASSES}:
            guess = self.guesses.about(name, self._classes)
            msg = f"name: {name!r} is no priority class of a user{guess}"
            raise RefusedError(msg)
        del self._classes[name]

    # CHECKPOINT-3
    def facts(self) -> tuple[PriorityClass, ...]:
        """Return the classes of users, in the order in which they are listed."""
        return tuple(one for one in self._classes.values() if one not in BUILT_IN_CLASSES)

    # CHECKPOINT-5
    def load(self, classes: Iterable[PriorityClass]) -> None:
        """Add the classes of users."""
        self._classes.update((one.name, one) for one in classes)

    # FEED-33
    def add(self, event: AddPriorityClass) -> None:
        """Add a new priority class of a user.

        Raises:
            RefusedError: If there is a class of this name.
        """
        if event.name in self._classes:
            msg = f"name: {event.name!r} is already a priority class"
            raise RefusedError(msg)
        self.set(event)
