"""Promises as facts, one line each, and the comparison of those of two versions.

A *promise* is a key, with or without a value: it must stay as it is. A *demand* is what a user has to
give: it may go, and a new one breaks what there was before. New promises break nothing, and neither do
demands of what is new itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, final

import attrs

_LINE: Final = re.compile(r"(?P<owner>.*?) needs (?P<what>.*)|(?P<key>.*?)(?: = (?P<value>.*))?")
ALTERNATIVELY: Final = " / "
"""Stands between what an answer may be."""

_BELOW: Final = re.compile(r"[.( \[]")


@final
@attrs.frozen
class Facts:
    """Facts about one area, such as the commands.

    Attributes:
        promises: Keys and values that stay.
        demands: What users must give: the key of a promise, and what it needs.
    """

    promises: dict[str, str] = attrs.field(factory=dict[str, str])
    demands: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]])

    def promise(self, key: str, value: object = "") -> None:
        """Add a promise; a second one of the same name must be equal."""
        text = " ".join(f"{value}".split())
        if self.promises.setdefault(key, text) != text or " = " in key or " needs " in key:
            msg = f"cannot be a promise: {key} = {text}; there is {self.promises[key]}"
            raise ValueError(msg)

    def demand(self, owner: str, what: str) -> None:
        """Add a demand of something that is promised."""
        self.demands.add((owner, what))

    def lines(self) -> list[str]:
        """Return a line for each, in order."""
        lines = [f"{key} = {value}" if value else key for key, value in self.promises.items()]
        lines += [f"{owner} needs {what}" for owner, what in self.demands]
        return sorted(lines)


Surface = dict[str, Facts]
"""Facts by what they are about, such as a module or a path."""


def text_of(surface: Surface) -> str:
    """Return the text of a file."""
    parts = ["\n".join([f"[{name}]", *facts.lines()]) for name, facts in sorted(surface.items())]
    return "\n\n".join(parts) + "\n"


def read(text: str) -> Surface:
    """Read the text of a file."""
    found = dict[str, Facts]()
    for part in text.rstrip("\n").split("\n\n") if text else ():
        head, *lines = part.split("\n")
        facts = found[head[1:-1]] = Facts()
        for line in lines:
            match = _LINE.fullmatch(line)
            assert match
            if match["what"]:
                facts.demand(match["owner"], match["what"])
            else:
                facts.promise(match["key"], match["value"] or "")
    return found


def differences(kept: Surface, now: Surface) -> tuple[list[str], list[str]]:
    """Compare the promises with the present facts.

    Returns:
        A line for each promise that is broken, and one for each fact that is not kept yet.
    """
    wrong, new = list[str](), [f"{name}" for name in sorted(now.keys() - kept.keys())]
    for name, facts in sorted(kept.items()):
        if name not in now:
            wrong.append(f"{name} is gone")
        else:
            wrong += [f"{name}: {line}" for line in broken(facts, now[name])]
            new += [f"{name}: {line}" for line in added(facts, now[name])]
    return wrong, new


def broken(kept: Facts, now: Facts) -> Iterator[str]:
    """Yield a line for each promise of before that does not hold now."""
    gone: str | None = None
    for key, value in sorted(kept.promises.items()):
        if key not in now.promises:
            # What was below something that is gone is gone with it.
            if gone is None or not (key.startswith(gone) and _BELOW.match(key[len(gone) :])):
                gone = key
                yield f"{key} is gone"
        elif not is_kept(value, is_now := now.promises[key]):
            yield f"{key} was {value or 'there'}, and is {is_now or 'there'}"
    for owner, what in sorted(now.demands - kept.demands):
        if owner in kept.promises:
            yield f"{owner} needs {what}, and did not before"


def is_kept(value: str, now: str) -> bool:
    """Return whether no alternative comes that did not come before."""
    if now.startswith(f"{value}, else "):  # an argument that need not be given any more
        return True
    return value == now or {*value.split(ALTERNATIVELY)} > {*now.split(ALTERNATIVELY)}


def added(kept: Facts, now: Facts) -> list[str]:
    """Return the lines that are not kept yet, and those that are not needed any more."""
    before, after = kept.lines(), now.lines()
    lines = [line for line in after if line not in before]
    return lines + [
        f"{owner} needs {what}, no longer" for owner, what in kept.demands - now.demands
    ]
