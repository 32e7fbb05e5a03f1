"""The state of a checkpoint as msgpack, written in steps, so that others may run meanwhile.

What is written is what :func:`muster.store._codec.encode` writes, but long tuples are taken apart
item by item, and the whole comes in parts.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin, get_type_hints

import attrs
import msgpack

from muster.store._codec import decode, unstructure_hook
from muster.store._msgpack import pack
from muster_core.facts import Facts
from muster_core.structures.steps import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.structures.steps import Steps

_AT_ONCE: Final = 8
"""How many items of a long tuple are taken apart in one step; each may hold many by itself."""

PART_BYTES: Final = 256 * 1024
"""How large a part is at least, in bytes, but for the last one. Each is one transaction."""


# STORE-5, STORE-13
def state_in_parts(facts: Facts) -> Steps[list[bytes]]:
    """Return the parts of a checkpoint's state.

    Args:
        facts: What the checkpoint holds.
    """
    parts: list[bytes] = []
    part: list[bytes] = []
    size = 0
    for piece in _pieces(facts, Facts):
        yield
        part.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            parts.append(b"".join(part))
            part.clear()
            size = 0
    if part or not parts:
        parts.append(b"".join(part))
    return parts


def facts_of(parts: list[bytes] | tuple[bytes, ...]) -> Facts:
    """Return what a checkpoint holds.

    Raises:
        CodecError: If it is unreadable, or a newer version of Muster wrote it.
    """
    return decode(b"".join(parts), Facts)


def _pieces(value: Any, wanted: Any) -> Iterator[bytes]:  # noqa: ANN401 - of any class
    """Yield a value as msgpack, in pieces of which none takes long to make."""
    if not _is_long(value, wanted):
        yield pack(unstructure_hook(wanted)(value))
    elif attrs.has(wanted):
        fields = [
            (field.name, hint)
            for field, hint in _fields(wanted)
            if getattr(value, field.name) != field.default
        ]
        yield msgpack.Packer().pack_map_header(len(fields))
        for name, hint in fields:
            yield pack(name)
            yield from _pieces(getattr(value, name), hint)
    else:
        yield msgpack.Packer().pack_array_header(len(value))
        item = _item(wanted)
        if item is None:
            for part, hint in zip(value, get_args(wanted), strict=True):
                yield from _pieces(part, hint)
        else:
            for at in range(0, len(value), _AT_ONCE):
                yield from _items(value[at : at + _AT_ONCE], item)


def _items(values: tuple[Any, ...], wanted: Any) -> Iterator[bytes]:  # noqa: ANN401 - as above
    """Yield some items of a tuple, the short ones in one piece."""
    short: list[bytes] = []
    hook = unstructure_hook(wanted)
    for value in values:
        if _is_long(value, wanted):
            yield b"".join(short)
            short.clear()
            yield from _pieces(value, wanted)
        else:
            short.append(pack(hook(value)))
    yield b"".join(short)


def _is_long(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether a value is a long tuple, or has one in it, however deep."""
    if not _may_be_long(wanted):
        return False
    if attrs.has(wanted):
        return any(_is_long(getattr(value, field.name), hint) for field, hint in _fields(wanted))
    item = _item(wanted)
    if item is None:
        return any(map(_is_long, value, get_args(wanted)))
    return len(value) > SIZE or (_may_be_long(item) and any(_is_long(one, item) for one in value))


@cache
def _may_be_long(wanted: Any) -> bool:  # noqa: ANN401 - a class or a type of tuples
    """Return whether values of a type can be long; what has alternatives is written whole."""
    if attrs.has(wanted):
        return any(_may_be_long(hint) for _, hint in _fields(wanted))
    if get_origin(wanted) is not tuple:
        return False
    return _item(wanted) is not None or any(map(_may_be_long, get_args(wanted)))


@cache
def _item(wanted: Any) -> Any:  # noqa: ANN401 - as above
    """Return the type of the items of a tuple of any length, or None if the length is fixed."""
    item, *more = get_args(wanted)
    return item if more == [Ellipsis] else None


@cache
def _fields(wanted: type) -> tuple[tuple[attrs.Attribute[Any], Any], ...]:
    hints = get_type_hints(wanted)
    return tuple((field, hints[field.name]) for field in attrs.fields(wanted))
