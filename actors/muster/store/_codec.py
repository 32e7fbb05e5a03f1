"""Typed values and the state of a checkpoint as msgpack, and back.

STORE-9 to STORE-13. A class of attrs becomes a map of its fields without those that have their
default, and a member of a union gets a tag besides. A value is read exactly as it was written, also
in type; a field or a tag that this version does not know is an error, since to leave it out would
be to guess. cattrs walks the types. It is imported when the first value is converted, because
a program that keeps nothing on disk should not wait for it.

The state of a checkpoint is written in steps, so that others may run meanwhile: as :func:`encode`
writes it, but long tuples are taken apart item by item, and the whole comes in parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import msgpack

from muster.store._msgpack import CodecError, as_array, pack, pack_ask, unpack, unpack_ask
from muster_core.errors import MusterError
from muster_core.events import Event
from muster_core.facts import Facts
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.structures.steps import SIZE, Steps

if TYPE_CHECKING:
    from cattrs import Converter


T = TypeVar("T")

TAG: Final = "op"
"""The key under which a member of a union has its tag."""

_PLAIN: Final = (str, int, float, bool, bytes)
_MAPPINGS: Final = (Mapping, MutableMapping, dict)

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


# STORE-11
def tag_of(member: type) -> str:
    """Return the tag of a class in a union: ``add_ask`` for ``AddAsk``."""
    return _WORD.sub("_", member.__name__).lower()


# STORE-9, STORE-10
def encode(value: attrs.AttrsInstance) -> bytes:
    """Return an object of a class of attrs as msgpack."""
    return pack(plain(value))


def plain(value: attrs.AttrsInstance) -> object:
    """Return an object of a class of attrs as maps, lists and scalars."""
    return unstructure_hook(type(value))(value)


def decode(data: bytes, wanted: type[T]) -> T:
    """Return the object that :func:`encode` has written.

    Raises:
        CodecError: If the bytes are no such object, or have a field or a tag that this version
            does not know.
    """
    return from_plain(unpack(data), wanted)


def from_plain(value: object, wanted: type[T]) -> T:
    """Return the object that :func:`plain` has taken apart.

    Raises:
        CodecError: If the value is no such object.
    """
    kind: Any = wanted
    hook = _structure_hook(kind)
    try:
        made: T = hook(_as_map(value, wanted.__name__), wanted)
    except _refusal_types() as error:
        raise CodecError(_error_text(error)) from error
    return made


# STORE-6
def encode_events(events: Iterable[Event]) -> bytes:
    """Return events as a msgpack array of maps, each with its operation as the tag."""
    take_apart = unstructure_hook(Event)
    return pack([take_apart(event) for event in events])


def decode_events(data: bytes) -> tuple[Event, ...]:
    """Return the events that :func:`encode_events` has written.

    Raises:
        CodecError: If one is no event, or has a field or a tag that this version does not know;
            the message says which.
    """
    values = as_array(unpack(data), "events")
    put_together = _structure_hook(Event)
    made: list[Event] = []
    for value in values:
        try:
            made.append(put_together(value, Event))
        except _refusal_types() as error:
            msg = f"event {len(made)} is unreadable: {_error_text(error)}"
            raise CodecError(msg) from error
    return tuple(made)


def _as_map(value: object, what: str) -> dict[Any, Any]:
    if type(value) is not dict:
        msg = f"{ascii(value)[:80]} is no {what}"
        raise CodecError(msg)
    return value  # pyright: ignore[reportUnknownVariableType] - looked at where it is used


@cache
def _refusal_types() -> tuple[type[Exception], ...]:
    """Return what cattrs and the classes raise for a value that does not fit."""
    from cattrs.errors import ForbiddenExtraKeysError  # noqa: PLC0415 - see the module

    wrong = (ValueError, TypeError, LookupError, AttributeError, RecursionError, MusterError)
    return (*wrong, ForbiddenExtraKeysError)


# STORE-12
def _error_text(error: BaseException) -> str:
    extra = getattr(error, "extra_fields", None)
    if extra:
        names = ", ".join(sorted(map(repr, extra)))
        owner = getattr(getattr(error, "cl", None), "__name__", "value")
        return f"{owner} has {names}, which this version of Muster does not know"
    if isinstance(error, KeyError):
        return f"the field {error.args[0]!r} is missing"
    return str(error) or type(error).__name__


@cache
def _converter() -> Converter:
    from cattrs import Converter  # noqa: PLC0415 - see the docstring of the module

    made = Converter(
        omit_if_default=True, forbid_extra_keys=True, detailed_validation=False, use_alias=False
    )
    for exact in _PLAIN:
        made.register_structure_hook(exact, _exactly(exact))
    made.register_structure_hook_func(_is_enum, _member)
    made.register_unstructure_hook(Resources, _amounts)
    made.register_structure_hook(Resources, _resources)
    made.register_unstructure_hook(Ask, pack_ask)
    made.register_structure_hook(Ask, unpack_ask)
    made.register_unstructure_hook_factory(_is_words, _words_unstructure)
    made.register_unstructure_hook_factory(_is_pairs, _pairs_unstructure)
    made.register_structure_hook_factory(_is_mapping, _mapping_structure)
    made.register_unstructure_hook_factory(_is_set, _set_unstructure)
    made.register_unstructure_hook_factory(_is_union, _union_unstructure)
    made.register_structure_hook_factory(_is_union, _union_structure)
    return made


@cache
def unstructure_hook(wanted: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - a class or a union
    """Return the function that takes apart a value of a type."""
    return _converter().get_unstructure_hook(wanted)


@cache
def _structure_hook(wanted: Any) -> Callable[[Any, Any], Any]:  # noqa: ANN401 - as above
    return _converter().get_structure_hook(wanted)


# STORE-10
def _exactly(wanted: type) -> Callable[[object, object], object]:
    """Return the hook for a plain type, which changes no value into one of another type."""
    allowed = (float, int) if wanted is float else (wanted,)

    def take(value: object, kind: Any) -> object:  # noqa: ANN401 - a class
        if kind is not wanted:  # an enum whose members are texts: cattrs takes it for a text
            return _member(value, kind)
        if type(value) not in allowed:
            msg = f"{ascii(value)[:80]} is {type(value).__name__}, not {wanted.__name__}"
            raise CodecError(msg)
        return value

    return take


def _is_enum(wanted: object) -> bool:
    return isinstance(wanted, type) and issubclass(wanted, Enum)


def _member(value: object, wanted: type[Enum]) -> Enum:
    found = _members(wanted).get(value)
    if found is None:
        msg = f"{ascii(value)[:80]} is no {wanted.__name__} that this version of Muster knows"
        raise CodecError(msg)
    return found


@cache
def _members(wanted: type[Enum]) -> dict[object, Enum]:
    return {member.value: member for member in wanted}


def _amounts(value: Resources) -> dict[str, int]:
    return value.amounts


def _resources(value: object, wanted: type[Resources]) -> Resources:
    return wanted(_as_map(value, "amount of resources"))


def _is_mapping(wanted: object) -> bool:
    return get_origin(wanted) in _MAPPINGS


def _is_words(wanted: object) -> bool:
    """Return whether a type is a mapping that msgpack can write as it is."""
    return _is_mapping(wanted) and set(get_args(wanted)) <= {str, int}


def _is_pairs(wanted: object) -> bool:
    return _is_mapping(wanted) and not _is_words(wanted)


def _words_unstructure(_: object) -> Callable[[Any], object]:
    def take_apart(value: Mapping[Any, Any]) -> object:
        return dict(value)

    return take_apart


def _is_a_key(wanted: object) -> bool:
    return wanted is str or wanted is int or _is_enum(wanted)


def _pairs_unstructure(wanted: object) -> Callable[[Any], object]:
    """Return the hook for a mapping: a map, or pairs where a key is no scalar."""
    of_key, of_value = map(unstructure_hook, get_args(wanted))
    if _is_a_key(get_args(wanted)[0]):
        return lambda value: {of_key(key): of_value(part) for key, part in value.items()}
    return lambda value: [(of_key(key), of_value(part)) for key, part in value.items()]


def _mapping_structure(wanted: object) -> Callable[[Any, object], object]:
    key, value = get_args(wanted)
    of_key, of_value = _structure_hook(key), _structure_hook(value)
    is_map = _is_a_key(key)

    def put_together(found: object, _: object) -> object:
        pairs: Any = _as_map(found, "map").items() if is_map else as_array(found, "pairs")
        return {of_key(one, key): of_value(part, value) for one, part in pairs}

    return put_together


def _is_set(wanted: object) -> bool:
    return get_origin(wanted) in {frozenset, set}


def _set_unstructure(wanted: object) -> Callable[[Any], object]:
    """Return the hook for a set: a list in an order that depends on nothing but its members."""
    (member,) = get_args(wanted)
    hook = unstructure_hook(member)

    def take_apart(value: Iterable[Any]) -> object:
        parts: list[Any] = [hook(part) for part in value]
        try:
            return sorted(parts)
        except TypeError:
            return sorted(parts, key=pack)

    return take_apart


# STORE-11
def _is_union(wanted: object) -> bool:
    """Return whether a type has several members besides None."""
    return get_origin(wanted) in {Union, UnionType} and len(set(get_args(wanted)) - {NoneType}) > 1


def _union_unstructure(wanted: object) -> Callable[[Any], object]:
    hooks = {member: (tag, unstructure_hook(member)) for tag, member in _tagged(wanted).items()}

    def take_apart(value: object) -> object:
        found = hooks.get(type(value))
        if found is None:
            return value
        tag, hook = found
        parts: dict[str, object] = hook(value)
        parts[TAG] = tag
        return parts

    return take_apart


def _union_structure(wanted: object) -> Callable[[Any, object], object]:
    members = _tagged(wanted)
    hooks = {tag: (_structure_hook(member), member) for tag, member in members.items()}
    scalars = set(get_args(wanted)) - set(members.values())

    def put_together(value: object, _: object) -> object:
        if type(value) in scalars:
            return value
        parts = dict(_as_map(value, f"member of a union: {', '.join(hooks)}"))
        tag = parts.pop(TAG, None)
        found = hooks.get(tag)
        if found is None:
            msg = f"{TAG} is {ascii(tag)[:80]}, which this version of Muster does not know"
            raise CodecError(msg)
        hook, member = found
        return hook(parts, member)

    return put_together


def _tagged(union: object) -> dict[str, type]:
    """Return the classes of attrs in a union, by their tags."""
    classes = [member for member in get_args(union) if attrs.has(get_origin(member) or member)]
    others = set(get_args(union)) - set(classes) - {*_PLAIN, NoneType}
    taken = [one.__name__ for one in classes if TAG in attrs.fields_dict(get_origin(one) or one)]
    if others or taken:
        msg = f"{union} cannot be kept: {others or taken}"
        raise TypeError(msg)
    return {tag_of(get_origin(member) or member): member for member in classes}


_AT_ONCE: Final = 8
"""How many items of a long tuple are taken apart in one step; each may hold many by itself."""

PART_BYTES: Final = 256 * 1024
"""How large a part is at least, in bytes, but for the last one. Each is one transaction."""


# STORE-5, STORE-13
def state_in_parts(facts: Facts) -> Steps[list[bytes]]:
    """Return the parts of a checkpoint's state.

    Args:
        facts: The facts of the checkpoint.
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
    """Return the facts of a checkpoint.

    Raises:
        CodecError: If it is unreadable, or a newer version of Muster wrote it.
    """
    return decode(b"".join(parts), Facts)


def _pieces(value: Any, wanted: Any) -> Iterator[bytes]:  # noqa: ANN401 - of any class
    """Yield a value as msgpack, in small chunks."""
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
    """Return whether values of a type can be long; a union is written whole."""
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
