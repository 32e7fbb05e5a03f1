"""The command of an ask: what runs for it, kept beside what decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs

from muster_core.values.errors import EventError


# FEED-83
@final
@attrs.frozen
class Work:
    """What is to run for an ask; no decision depends on it.

    Attributes:
        argv: The command as a program with its arguments; empty if it is a text for the shell, or
            if there is none.
        shell: The command as a text for the shell, or None.
        env: Environment variables that are added to those of whoever runs it.
        workdir: The working folder, or None.

    Raises:
        EventError: If no process can be started with these.
    """

    argv: tuple[str, ...] = ()
    shell: str | None = None
    env: Mapping[str, str] = attrs.field(factory=dict[str, str], hash=False)
    workdir: str | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        if self.argv and self.shell is not None:
            msg = f"command: {self.argv!r} and {self.shell!r}: there is one"
            raise EventError(msg)
        for field, texts in (
            ("command", self.argv[:1] if self.shell is None else (self.shell,)),
            ("workdir", () if self.workdir is None else (self.workdir,)),
            ("env", self.env),
        ):
            if not all(texts):
                msg = f"{field}: '' is not a text of at least one character"
                raise EventError(msg)
        for field, text in self._texts():
            problem = text_problem(text)
            if problem is not None:
                msg = f"{field}: {text!r:.100} {problem}"
                raise EventError(msg)
        for name in self.env:
            if "=" in name:
                msg = f"env: {name!r:.100} has a '=', which the name of a variable must not have"
                raise EventError(msg)

    def _texts(self) -> list[tuple[str, object]]:
        """Return all texts, each with the field in which it is."""
        texts: list[tuple[str, object]] = [("command", text) for text in self.argv]
        if self.shell is not None:
            texts.append(("command", self.shell))
        texts += [("env", text) for pair in self.env.items() for text in pair]
        if self.workdir is not None:
            texts.append(("workdir", self.workdir))
        return texts

    @property
    def command(self) -> tuple[str, ...] | str | None:
        """A program with its arguments, a text for the shell, or None if nothing is to run."""
        return self.argv or self.shell


def text_problem(text: object) -> str | None:
    """Return why a text cannot be a part of a command or an environment, or None if it can."""
    if not isinstance(text, str):
        return "is not a text"
    return "has a NUL character, which no process can be given" if "\0" in text else None
