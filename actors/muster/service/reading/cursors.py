"""Cursors: where the next page of a list begins.

A cursor holds the place of the last item in an order that never changes, so it stays right when
items come and go, and when the service starts again.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

from muster.service.endpoints.kinds import Kind

_LONGEST: Final = 4096
"""The longest cursor, in characters."""

_WRONG: Final = "is no cursor of this list; take the `next` of an earlier page"


def cursor(listed: str, *place: str | int) -> str:
    """Return the cursor behind an item.

    Args:
        listed: The name of the list.
        place: The place of the item in the order of the list.
    """
    written = json.dumps([listed, *place], ensure_ascii=True, separators=(",", ":"))
    return urlsafe_b64encode(written.encode()).decode().rstrip("=")


def cursors(listed: str, *types: type) -> Kind:
    """Return the kind of the cursors of a list.

    Args:
        listed: The name of the list.
        types: The types of the parts of a place.
    """

    def read(written: str) -> tuple[Any, ...]:
        name, *place = _opened(written)
        if name != listed or [type(part) for part in place] != list(types):
            raise ValueError(_WRONG)
        return tuple(place)

    return Kind({"type": "string", "minLength": 1, "maxLength": _LONGEST}, read)


def either(first: Kind, second: Kind) -> Kind:
    """Return the kind of the cursors of one list or another."""

    def read(written: str) -> object:
        try:
            return first.read(written)
        except ValueError:
            return second.read(written)

    return Kind(first.schema, read)


def _opened(written: str) -> list[Any]:
    if len(written) > _LONGEST or not written.isascii():
        raise ValueError(_WRONG)
    try:
        found: list[Any] = json.loads(urlsafe_b64decode(written + "=" * (-len(written) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise ValueError(_WRONG) from None
    if not _is_filled_list(found):
        raise ValueError(_WRONG)
    return found


def _is_filled_list(value: object) -> bool:
    return isinstance(value, list) and value != []
