"""Decisions of one batch as msgpack, and back.

STORE-7. There are many of them and they are all alike, so each is an array in a fixed order. Their
numbers and their instant follow from those of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import attrs

from muster.store._msgpack import CodecError, as_array, pack, unpack
from muster_core.decisions import Announced, Decision, Kind, Reason

_FIELDS: Final = tuple(field.name for field in attrs.fields(Decision))
_VALUES: Final = attrgetter(*(f"decision.{name}" for name in _FIELDS))
_REASON: Final = _FIELDS.index("reason")
_ALWAYS: Final = _FIELDS.index("line") + 1
"""How many fields are always written; those after them are left out where they are None."""

_NUMBERS: Final = frozenset({"priority", "index", "line", "start_us"})
_ALLOWED: Final = tuple(
    frozenset({int if name in _NUMBERS else str, type(None)}) for name in _FIELDS
)
_KINDS: Final = {str(kind): kind for kind in Kind}
_REASONS: Final = {str(reason): reason for reason in Reason}


# STORE-7
def encode_decisions(decisions: Sequence[Announced]) -> bytes:
    """Return the decisions of one batch as a msgpack array of arrays.

    Args:
        decisions: The decisions: their numbers follow one another, and their instant is that of
            the batch.
    """
    return pack([_written(_VALUES(decision)) for decision in decisions])


def _written(values: tuple[object, ...]) -> tuple[object, ...]:
    end = len(values)
    while end > _ALWAYS and values[end - 1] is None:
        end -= 1
    return values[:end]


def decode_decisions(data: bytes, first_seq: int, at_us: int) -> tuple[Announced, ...]:
    """Return the decisions that :func:`encode_decisions` has written.

    Args:
        data: The bytes.
        first_seq: The number of the first one.
        at_us: The instant of the batch, in microseconds.

    Raises:
        CodecError: If one is no decision, or has a field, a kind or a reason that this version
            does not know; the message says which.
    """
    lines = as_array(unpack(data), "decisions")
    return tuple(
        [
            Announced(seq, at_us, _decision(as_array(line, f"decision {seq}"), seq))
            for seq, line in enumerate(lines, first_seq)
        ]
    )


def _decision(values: list[Any], seq: int) -> Decision:
    if not _ALWAYS <= len(values) <= len(_FIELDS):
        msg = f"decision {seq} has {len(values)} fields, and this version of Muster knows {len(_FIELDS)}"
        raise CodecError(msg)
    for name, value, allowed in zip(_FIELDS, values, _ALLOWED):  # noqa: B905 - may be shorter
        if type(value) not in allowed:
            msg = f"decision {seq}: {name} is {ascii(value)[:80]}"
            raise CodecError(msg)
    kind, reason = values[0], values[_REASON]
    if kind not in _KINDS or (reason is not None and reason not in _REASONS):
        msg = (
            f"decision {seq} has the kind {kind!r} and the reason {reason!r}, "
            f"one of which this version of Muster does not know"
        )
        raise CodecError(msg)
    values[0] = _KINDS[str(kind)]
    values[_REASON] = None if reason is None else _REASONS[str(reason)]
    return Decision(*values)
