"""The kinds of parameters: how they are written in a request, and their JSON schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import attrs

from muster.service.problems import Problem

Schema = Mapping[str, Any]
"""A JSON schema, as OpenAPI 3.1 has it."""


@final
@attrs.frozen
class Kind:
    """A kind of value.

    Attributes:
        schema: Its JSON schema.
        read: Reads it from the text in a request; raises ValueError with what would be right.
    """

    schema: Schema
    read: Callable[[str], object]


@final
@attrs.frozen
class Parameter:
    """A parameter of an end point.

    Attributes:
        name: Its name in the request.
        where: ``path``, ``query`` or ``header``.
        kind: Its kind.
        about: What it means.
        required: Whether it has to be there.
        default: Its value if it is not there.
    """

    name: str
    where: str
    kind: Kind
    about: str
    required: bool = False
    default: object = None

    def read(self, written: str | None) -> object:
        """Return the value.

        Args:
            written: The text in the request, or None.

        Raises:
            Problem: 400 if it is missing or wrong.
        """
        if written is None:
            if self.required:
                raise Problem(400, f"{self.name}: is missing", parameter=self.name)
            return self.default
        try:
            return self.kind.read(written)
        except ValueError as error:
            told = f"{self.name}: {written[:100]!r}: {error}"
            raise Problem(400, told, parameter=self.name) from None


def query(name: str, kind: Kind, about: str, *, default: object = None) -> Parameter:
    """Return a parameter after the question mark, which may be left out."""
    return Parameter(name, "query", kind, about, default=default)


def in_path(name: str, about: str) -> Parameter:
    """Return a part of the path, which is a text."""
    return Parameter(name, "path", TEXT, about, required=True)


def header(name: str, kind: Kind, about: str) -> Parameter:
    """Return a header, which may be left out."""
    return Parameter(name, "header", kind, about)


def _text(written: str) -> str:
    if not written:
        msg = "must not be empty"
        raise ValueError(msg)
    return written


TEXT: Final = Kind({"type": "string", "minLength": 1}, _text)

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")


def integer(lowest: int, highest: int) -> Kind:
    """Return the kind of whole numbers in a range, both bounds included."""

    def read(written: str) -> int:
        if _INTEGER.fullmatch(written) is None or not lowest <= int(written) <= highest:
            msg = f"must be a whole number from {lowest} to {highest}"
            raise ValueError(msg)
        return int(written)

    return Kind({"type": "integer", "minimum": lowest, "maximum": highest}, read)


def _flag(written: str) -> bool:
    if written not in {"true", "false"}:
        msg = "must be true or false"
        raise ValueError(msg)
    return written == "true"


FLAG: Final = Kind({"type": "boolean"}, _flag)


def choice(*words: str) -> Kind:
    """Return the kind of one word out of several."""

    def read(written: str) -> str:
        if written not in words:
            msg = f"must be one of {', '.join(words)}"
            raise ValueError(msg)
        return written

    return Kind({"type": "string", "enum": list(words)}, read)


def listed(*words: str) -> Kind:
    """Return the kind of some words, with commas between them; without ``words`` any are right."""

    def read(written: str) -> tuple[str, ...]:
        found = tuple(written.split(","))
        wrong = [word for word in found if not word or (words and word not in words)]
        if wrong:
            right = f"names out of {', '.join(words)}" if words else "names"
            msg = f"must be {right}, with commas between them"
            raise ValueError(msg)
        return found

    item: Schema = {"type": "string", "enum": list(words)} if words else TEXT.schema
    return Kind({"type": "array", "items": item, "minItems": 1}, read)
