"""A property of queues: its name, its form, who inherits it, and what it means (CONFIG-39).

The table of all properties is in :mod:`muster_core.config.properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, Generic, TypeVar, assert_never, final

import attrs

from muster_core.values.configuration.partition import Settings

T = TypeVar("T")

_DEFAULTS: Final = Settings()


# CONFIG-39, CONFIG-46 to CONFIG-54
@final
class Inheritance(StrEnum):
    """Whose value of a property counts in a queue without a value of its own."""

    YES = "yes"
    NO = "no"
    NOT_ROOT = "no; not on `root`"
    DISABLED = "only `disabled`"
    RULES = "no: it rules all queues below"
    ROOT = "for `root`"


@final
@attrs.frozen
class Form(Generic[T]):
    """How the values of a property are written.

    Attributes:
        parse: Reads a value.
        write: Writes a value, so that ``parse`` returns it.
        words: Which values there are, in Markdown.
    """

    parse: Callable[[str], T]
    write: Callable[[T], str]
    words: str


@final
@attrs.frozen
class Property(Generic[T]):
    """One property of queues: all that is known of it but what it does.

    Attributes:
        name: Its name.
        attribute: The attribute of :class:`Settings` that has its value.
        form: How its values are written.
        inheritance: Whose value counts in a queue without a value of its own.
        about: What it says: a part of a sentence that goes on after "It says".
        meanings: What its values mean, by value as written; empty if ``about`` says enough.
        unset: What stands for None, if that is the default.
    """

    name: str
    attribute: str
    form: Form[T]
    inheritance: Inheritance
    about: str
    meanings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    unset: str = ""

    @property
    def default(self) -> T:
        """Its value where no queue has one."""
        return self.in_force(_DEFAULTS)

    def parse(self, text: str) -> T:
        """Return the value that a text stands for.

        Raises:
            ValueError: If it stands for none.
            QuantityError: Likewise.
        """
        return self.form.parse(text)

    # CONFIG-41
    def of(self, own: Mapping[str, str], otherwise: T) -> T:
        """Return the queue's own value, or ``otherwise`` if it has none."""
        text = own.get(self.name)
        return otherwise if text is None else self.parse(text)

    def in_force(self, settings: Settings) -> T:
        """Return the value that settings have."""
        value: T = getattr(settings, self.attribute)
        return value

    def text(self, value: T) -> str:
        """Return a value as a configuration has it, or what is said where there is none."""
        return self.unset if value is None else self.form.write(value)

    def meaning(self, text: str) -> str:
        """Return what a value means."""
        return self.meanings.get(text, self.about)

    def counts_on(self, *, is_root: bool) -> bool:
        """Return whether a value of its own counts in a queue."""
        match self.inheritance:
            # CONFIG-54
            case Inheritance.ROOT:
                return is_root
            # CONFIG-48
            case Inheritance.NOT_ROOT:
                return not is_root
            case Inheritance.YES | Inheritance.NO | Inheritance.DISABLED | Inheritance.RULES:
                return True
            case _:
                assert_never(self.inheritance)

    def is_handed_down(self, value: T) -> bool:
        """Return whether a queue without a value of its own has the value of its parent.

        Args:
            value: The value of the parent.
        """
        match self.inheritance:
            case Inheritance.YES | Inheritance.ROOT:
                return True
            # CONFIG-52
            case Inheritance.DISABLED:
                return self.text(value) == "disabled"
            # CONFIG-46, BACKFILL-1
            case Inheritance.NO | Inheritance.NOT_ROOT | Inheritance.RULES:
                return False
            case _:
                assert_never(self.inheritance)
