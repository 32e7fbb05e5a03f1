"""Typed values as msgpack, and back.

STORE-9 to STORE-13. A class of attrs becomes a map of its fields without those that have their
default, and a member of a union gets a tag besides. What is read is exactly what was written, also
in type; a field or a tag that this version does not know is an error, since to leave it out would
be to guess. cattrs walks the types. It is imported when the first value is converted, because
whoever keeps nothing on disk should not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, Union, get_args, get_origin

import attrs

from muster.store._asks import ask_apart, ask_together
from muster.store._msgpack import CodecError, as_array, pack, unpack
from muster_core.errors import MusterError
from muster_core.events import Event
from muster_core.owners.messages.asks import Ask
from muster_core.resources import Resources

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

    Args:
        data: The bytes.
        wanted: Its class.

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
    except _refused() as error:
        raise CodecError(_told(error)) from error
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
        except _refused() as error:
            msg = f"event {len(made)} is unreadable: {_told(error)}"
            raise CodecError(msg) from error
    return tuple(made)


def _as_map(value: object, what: str) -> dict[Any, Any]:
    if type(value) is not dict:
        msg = f"{ascii(value)[:80]} is no {what}"
        raise CodecError(msg)
    return value  # pyright: ignore[reportUnknownVariableType] - looked at where it is used


@cache
def _refused() -> tuple[type[Exception], ...]:
    """Return what cattrs and the classes raise for a value that does not fit."""
    from cattrs.errors import ForbiddenExtraKeysError  # noqa: PLC0415 - see the module

    wrong = (ValueError, TypeError, LookupError, AttributeError, RecursionError, MusterError)
    return (*wrong, ForbiddenExtraKeysError)


# STORE-12
def _told(error: BaseException) -> str:
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
    made.register_unstructure_hook(Ask, ask_apart)
    made.register_structure_hook(Ask, ask_together)
    made.register_unstructure_hook_factory(_is_words, _words_apart)
    made.register_unstructure_hook_factory(_is_pairs, _pairs_apart)
    made.register_structure_hook_factory(_is_mapping, _mapping_together)
    made.register_unstructure_hook_factory(_is_set, _set_apart)
    made.register_unstructure_hook_factory(_is_union, _union_apart)
    made.register_structure_hook_factory(_is_union, _union_together)
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


def _resources(value: object, _: object) -> Resources:
    return Resources(_as_map(value, "amount of resources"))


def _is_mapping(wanted: object) -> bool:
    return get_origin(wanted) in _MAPPINGS


def _is_words(wanted: object) -> bool:
    """Return whether a type is a mapping that msgpack can write as it is."""
    return _is_mapping(wanted) and set(get_args(wanted)) <= {str, int}


def _is_pairs(wanted: object) -> bool:
    return _is_mapping(wanted) and not _is_words(wanted)


def _words_apart(_: object) -> Callable[[Any], object]:
    def take_apart(value: Mapping[Any, Any]) -> object:
        return dict(value)

    return take_apart


def _is_a_key(wanted: object) -> bool:
    return wanted is str or wanted is int or _is_enum(wanted)


def _pairs_apart(wanted: object) -> Callable[[Any], object]:
    """Return the hook for a mapping: a map, or pairs where a key is no scalar."""
    of_key, of_value = map(unstructure_hook, get_args(wanted))
    if _is_a_key(get_args(wanted)[0]):
        return lambda value: {of_key(key): of_value(part) for key, part in value.items()}
    return lambda value: [(of_key(key), of_value(part)) for key, part in value.items()]


def _mapping_together(wanted: object) -> Callable[[Any, object], object]:
    key, value = get_args(wanted)
    of_key, of_value = _structure_hook(key), _structure_hook(value)
    is_map = _is_a_key(key)

    def put_together(found: object, _: object) -> object:
        pairs: Any = _as_map(found, "map").items() if is_map else as_array(found, "pairs")
        return {of_key(one, key): of_value(part, value) for one, part in pairs}

    return put_together


def _is_set(wanted: object) -> bool:
    return get_origin(wanted) in {frozenset, set}


def _set_apart(wanted: object) -> Callable[[Any], object]:
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


def _union_apart(wanted: object) -> Callable[[Any], object]:
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


def _union_together(wanted: object) -> Callable[[Any, object], object]:
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
