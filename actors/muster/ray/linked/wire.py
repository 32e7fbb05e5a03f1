"""Messages as bytes: packed for the agent; what the agent says is checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from types import UnionType
from typing import (
    Any,
    Final,
    Literal,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import msgpack

from muster.ray import _messages
from muster.ray._messages import LARGEST_BYTES, FromAgent, ToAgent

_Check = Callable[[object], bool]

_SHOWN: Final = 200
"""How much of a message an error shows, in characters."""


class WireError(Exception):
    """The agent has said something that is no message."""


def packed(message: ToAgent) -> bytes:
    """Return a message for the agent as bytes."""
    return msgpack.packb(message)


@final
class Incoming:
    """Takes messages out of the bytes that come from the agent."""

    def __init__(self) -> None:
        # Twice the largest: the bytes of the next messages may come together with its end.
        self._unpacker = msgpack.Unpacker(max_buffer_size=2 * LARGEST_BYTES)

    def feed(self, data: bytes | bytearray) -> Iterator[FromAgent]:
        """Return the messages that are complete with these bytes.

        Raises:
            WireError: If something is not a message; what follows cannot be read any more.
        """
        try:
            self._unpacker.feed(data)
        except msgpack.BufferFull:
            msg = f"a message of more than {LARGEST_BYTES} bytes"
            raise WireError(msg) from None
        while True:
            try:
                message: object = self._unpacker.unpack()
            except msgpack.OutOfData:
                return
            except (ValueError, msgpack.UnpackException, RecursionError) as error:
                msg = f"bytes that are not msgpack: {error}"
                raise WireError(msg) from None
            yield _checked(message)


def _checked(message: object) -> FromAgent:
    """Return a message whose form is right.

    Raises:
        WireError: If it is not.
    """
    say = _map_of(message).get("say")
    check = _CHECKS.get(say) if isinstance(say, str) else None
    if check is not None and check(message):
        return cast("FromAgent", message)
    shown = _shown(message)
    raise WireError(shown)


def _map_of(message: object) -> dict[object, object]:
    return cast("dict[object, object]", message) if isinstance(message, dict) else {}


def _shown(message: object) -> str:
    shown = repr(message)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _check_of(hint: object) -> _Check:
    """Return a function that says whether a value has a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if origin is UnionType:
        parts = [_check_of(part) for part in arguments]
        return lambda value: any(part(value) for part in parts)
    if origin is list:
        one = _check_of(arguments[0])
        return lambda value: isinstance(value, list) and all(map(one, cast("list[object]", value)))
    if origin is dict:
        key, one = map(_check_of, arguments)
        return lambda value: (
            isinstance(value, dict)
            and all(
                key(name) and one(part)
                for name, part in cast("dict[object, object]", value).items()
            )
        )
    if hint is float:  # an amount
        return lambda value: isinstance(value, int | float) and isfinite(value) and value >= 0
    if isinstance(hint, type) and hint.__module__ == "builtins":
        return lambda value: type(value) is hint
    return _fields_of(cast("type[Any]", hint))


def _fields_of(message: type[Any]) -> _Check:
    """Return a function that says whether a map has the fields of a message; it may have more."""
    hints = get_type_hints(message, dict(vars(_messages)))
    needed = {name: _check_of(hints.pop(name)) for name in sorted(message.__required_keys__)}
    optional = {name: _check_of(hint) for name, hint in hints.items()}

    def check(value: object) -> bool:
        if not isinstance(value, dict):
            return False
        fields = cast("dict[object, object]", value)
        return all(name in fields and has(fields[name]) for name, has in needed.items()) and all(
            name not in fields or has(fields[name]) for name, has in optional.items()
        )

    return check


def _named(message: type[Any]) -> str:
    """Return what is in the field ``say`` of a message."""
    (name,) = get_args(get_type_hints(message, dict(vars(_messages)))["say"])
    return cast("str", name)


_CHECKS: Final[dict[str, _Check]] = {
    _named(message): _fields_of(message) for message in get_args(FromAgent)
}
