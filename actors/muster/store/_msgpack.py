"""Plain values as msgpack, and back: maps, arrays, texts, numbers, bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast, final

import msgpack

_HUGE: Final = 1
"""The type of a msgpack extension: an integer beyond 64 bits, as decimal digits."""


@final
class CodecError(ValueError):
    """Bytes are not what they should be; the message names the field and the value."""


# STORE-9
def pack(value: object) -> bytes:
    """Return a plain value as msgpack, also if it has huge numbers or no Unicode in its texts."""
    try:
        packed: bytes = msgpack.packb(value)
    except OverflowError:
        packed = msgpack.packb(_without_huge(value), unicode_errors="surrogatepass")
    except UnicodeEncodeError:
        packed = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def unpack(data: bytes) -> object:
    """Return the plain value that some bytes are.

    Raises:
        CodecError: If they are no msgpack.
    """
    try:
        return _unpacked(data, "strict")
    except UnicodeDecodeError:
        pass
    except _BROKEN as error:
        msg = f"not msgpack: {str(error) or type(error).__name__}"
        raise CodecError(msg) from error
    try:
        return _unpacked(data, "surrogatepass")
    except _BROKEN as error:
        msg = f"not msgpack: {str(error) or type(error).__name__}"
        raise CodecError(msg) from error


_BROKEN: Final = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def _unpacked(data: bytes, unicode_errors: str) -> object:
    value: object = msgpack.unpackb(
        data, strict_map_key=False, unicode_errors=unicode_errors, ext_hook=_extension
    )
    return value


# STORE-13
def _without_huge(value: object) -> object:
    if type(value) is int and not -(2**63) <= value < 2**64:
        return msgpack.ExtType(_HUGE, str(value).encode())
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {_without_huge(key): _without_huge(part) for key, part in pairs}
    if isinstance(value, list | tuple):
        return [_without_huge(part) for part in cast("Iterable[object]", value)]
    return value


def _extension(code: int, data: bytes) -> object:
    if code != _HUGE:
        msg = f"an extension of type {code}, which this version of Muster does not know"
        raise CodecError(msg)
    return int(data)


HEAD_BYTES: Final = 5
"""How many bytes of an array say how long it is, at most."""


def length_of(head: bytes) -> int:
    """Return how many members a msgpack array has, from its first bytes."""
    if not head:
        return 0
    if head[0] & 0xF0 == 0x90:
        return head[0] & 0x0F
    return int.from_bytes(head[1 : {0xDC: 3, 0xDD: 5}.get(head[0], 1)], "big")


def as_array(value: object, what: str) -> list[object]:
    """Return a plain value that is an array.

    Args:
        value: The value.
        what: What it is, for the message.

    Raises:
        CodecError: If it is no array.
    """
    if type(value) is not list:
        msg = f"{what}: {ascii(value)[:80]} is no array"
        raise CodecError(msg)
    return cast("list[object]", value)
