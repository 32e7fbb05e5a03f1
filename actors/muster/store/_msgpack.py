"""Plain values, asks and decisions as msgpack, and back.

Plain values are maps, arrays, texts, numbers and bytes.

STORE-13. There may be a hundred thousand asks in a checkpoint. An ask is an array of its fields in
their order, without those at its end that have their default. A shape that says no more than the
resources of the ask is not written. Asks that are read share their resources and shapes, as those
that came in one event do.

STORE-7. There are many decisions in a batch and they are all alike, so each is an array in a fixed
order. Their numbers and their instant follow from those of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast, final

import attrs
import msgpack

from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.events import Work
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape
from muster_core.values.affinity import (
    Affinity,
    Operator,
    Requirement,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from muster_core.values.devices import DeviceNeed, DeviceNeeds

_HUGE: Final = 1
"""The type of a msgpack extension: an integer beyond 64 bits, as decimal digits."""


@final
class CodecError(ValueError):
    """Bytes are invalid; the message names the field and the value."""


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
"""The most bytes of the length of an array."""


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
        what: Its noun for the message.

    Raises:
        CodecError: If it is no array.
    """
    if type(value) is not list:
        msg = f"{what}: {ascii(value)[:80]} is no array"
        raise CodecError(msg)
    return cast("list[object]", value)


_ASK_FIELDS: Final = Ask._fields
_RESOURCES_INDEX: Final = _ASK_FIELDS.index("resources")
_SHAPE_INDEX: Final = _ASK_FIELDS.index("shape")
_WORK_INDEX: Final = _ASK_FIELDS.index("work")
_REQUIRED_COUNT: Final = len(_ASK_FIELDS) - len(Ask._field_defaults)
_DEFAULTS: Final = tuple(Ask._field_defaults[name] for name in _ASK_FIELDS[_REQUIRED_COUNT:])
_ASK_TYPES: Final[tuple[tuple[type, ...], ...]] = tuple(
    {
        "group": (str,),
        "name": (str,),
        "gang": (str, type(None)),
        "run_for_us": (int, type(None)),
        "preempts": (bool,),
        "resources": (dict,),
        "shape": (list, type(None)),
        "work": (list, type(None)),
        "estimate_us": (int, type(None)),
        "run_limit_us": (int, type(None)),
        "start_by_us": (int, type(None)),
        "once": (bool,),
    }.get(name, (int,))
    for name in _ASK_FIELDS
)
"""The types of the plain values of each field."""


def pack_ask(ask: Ask) -> list[object]:
    """Return an ask as a plain value."""
    values: list[object] = list(ask)
    values[_RESOURCES_INDEX] = ask.resources.amounts
    shape = ask.shape
    plain = (
        not (shape.is_choosy or shape.devices or shape.tolerations)
        and shape.resources == ask.resources
    )
    values[_SHAPE_INDEX] = None if plain else _pack_shape(shape)
    if ask.work is not None:
        values[_WORK_INDEX] = _pack_work(ask.work)
    end = len(values)
    while end > _REQUIRED_COUNT and values[end - 1] == _DEFAULTS[end - 1 - _REQUIRED_COUNT]:
        end -= 1
    del values[end:]
    return values


def unpack_ask(value: object, _: object) -> Ask:
    """Return the ask that a plain value is.

    Raises:
        ValueError: If it is none.
    """
    values: list[Any] = [*as_array(value, "ask")]
    if not _REQUIRED_COUNT <= len(values) <= len(_ASK_FIELDS):
        msg = f"an ask of {len(values)} fields, not of {_REQUIRED_COUNT} to {len(_ASK_FIELDS)}"
        raise ValueError(msg)
    for one, allowed, name in zip(values, _ASK_TYPES, _ASK_FIELDS):  # noqa: B905 - may be shorter
        if type(one) not in allowed:
            msg = f"{name}: {ascii(one)[:80]} is {type(one).__name__}"
            raise ValueError(msg)
    resources, shape = _shared_resources(tuple(values[_RESOURCES_INDEX].items()))
    values[_RESOURCES_INDEX] = resources
    written = values[_SHAPE_INDEX]
    values[_SHAPE_INDEX] = shape if written is None else _unpack_shape(written)
    if len(values) > _WORK_INDEX and values[_WORK_INDEX] is not None:
        values[_WORK_INDEX] = _unpack_work(values[_WORK_INDEX])
    return Ask(*values)


def _pack_shape(shape: Shape) -> list[object]:
    parts: list[object] = [shape.resources.amounts, shape.selector, shape.node, shape.members]
    chosen = shape.tolerations or shape.affinity is not None
    if shape.devices or chosen:
        parts.append([(kind, *attrs.astuple(need)) for kind, need in shape.devices])
    if chosen:
        terms = None
        if shape.affinity is not None:
            terms = [[attrs.astuple(one) for one in term] for term in shape.affinity]
        parts += [[attrs.astuple(one) for one in shape.tolerations], terms]
    return parts


def _unpack_shape(written: list[Any]) -> Shape:
    amounts, selector, node, members, *rest = written
    if type(members) is not int or not (node is None or type(node) is str):
        msg = f"shape: {ascii(written)[:80]} is none"
        raise ValueError(msg)
    pairs = tuple((str(name), str(text)) for name, text in selector)
    resources, _ = _shared_resources(tuple(amounts.items()))
    devices = tuple((str(kind), DeviceNeed(*need)) for kind, *need in rest[0]) if rest else ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    if len(rest) > 1:
        _, some, terms = rest
        tolerations = tuple(map(_unpack_toleration, some))
        if terms is not None:
            affinity = tuple(tuple(map(_unpack_requirement, term)) for term in terms)
    return _shared_shape(
        resources, pairs, node, members, devices, tolerations=tolerations, affinity=affinity
    )


def _unpack_toleration(written: list[Any]) -> Toleration:
    key, operator, value, effect = written
    only = None if effect is None else TaintEffect(effect)
    return Toleration(key, TolerationOperator(operator), value, only)


def _unpack_requirement(written: list[Any]) -> Requirement:
    key, operator, values = written
    return Requirement(key, Operator(operator), tuple(values))


@lru_cache(maxsize=4096)
def _shared_resources(amounts: tuple[tuple[str, int], ...]) -> tuple[Resources, Shape]:
    resources = Resources(dict(amounts))
    return resources, Shape(resources)


@lru_cache(maxsize=4096)
def _shared_shape(
    resources: Resources,
    selector: tuple[tuple[str, str], ...],
    node: str | None,
    members: int,
    devices: DeviceNeeds,
    *,
    tolerations: tuple[Toleration, ...],
    affinity: Affinity | None,
) -> Shape:
    return Shape(resources, selector, node, members, devices, tolerations, affinity)


def _pack_work(work: Work) -> list[object]:
    """Return the work of an ask as a plain value."""
    return [list(work.argv), work.shell, dict(work.env), work.workdir]


def _unpack_work(written: list[Any]) -> Work:
    """Return the work of an ask from a plain value; asks with the same work share one object.

    Raises:
        ValueError: If it is no such value.
    """
    argv, shell, env, workdir = written
    if (type(argv), type(env)) != (list, dict):
        msg = f"work: {ascii(written)[:80]} is none"
        raise ValueError(msg)
    return _shared_work(tuple(argv), shell, tuple(env.items()), workdir)


@lru_cache(maxsize=4096)
def _shared_work(
    argv: tuple[str, ...],
    shell: str | None,
    env: tuple[tuple[str, str], ...],
    workdir: str | None,
) -> Work:
    return Work(argv, shell, dict(env), workdir)


_DECISION_FIELDS: Final = Decision._fields
_OLDEST: Final = _DECISION_FIELDS.index("line") + 1
"""How many fields a decision had at first; later ones are written only up to the last that says
something."""

_REASON: Final = _DECISION_FIELDS.index("reason")
_DEVICES: Final = _DECISION_FIELDS.index("devices")
_DECISION_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("priority", "index", "line", "start_us"), int),
    "devices": dict,
}
_ALLOWED: Final = tuple(
    frozenset({_DECISION_TYPES.get(name, str), type(None)}) for name in _DECISION_FIELDS
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
    return pack([_pack_decision(announced.decision) for announced in decisions])


def _pack_decision(values: tuple[object, ...]) -> tuple[object, ...]:
    end = len(values)
    while end > _OLDEST and values[end - 1] is None:
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
            Announced(seq, at_us, _unpack_decision(as_array(line, f"decision {seq}"), seq))
            for seq, line in enumerate(lines, first_seq)
        ]
    )


def _unpack_decision(values: list[Any], seq: int) -> Decision:
    if not _OLDEST <= len(values) <= len(_DECISION_FIELDS):
        msg = f"decision {seq} has {len(values)} fields, and this version of Muster knows {len(_DECISION_FIELDS)}"
        raise CodecError(msg)
    for name, value, allowed in zip(_DECISION_FIELDS, values, _ALLOWED):  # noqa: B905 - may be shorter
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
    if len(values) > _DEVICES and values[_DEVICES] is not None:
        values[_DEVICES] = _numbers(values[_DEVICES], seq)
    return Decision(*values)


def _numbers(devices: dict[Any, Any], seq: int) -> dict[str, tuple[int, ...]]:
    """Return the devices of a decision in the form in which they were decided."""
    for kind, numbers in devices.items():
        if type(kind) is not str or {type(number) for number in numbers} != {int}:
            msg = f"decision {seq}: devices is {ascii(devices)[:80]}"
            raise CodecError(msg)
    return {kind: tuple(numbers) for kind, numbers in devices.items()}
