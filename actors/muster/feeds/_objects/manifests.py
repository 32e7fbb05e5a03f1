"""``apply`` and ``delete``: manifests of one object or of a list of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from muster.feeds._encodings.raw import Raw, is_null
from muster.feeds._fields.kinds import FieldError, Kind, refused, told
from muster.feeds._objects.objects import FORMS, Form
from muster.feeds._objects.shapes import Shape, as_kubernetes, part
from muster_core.events import AppliedObject, Manifest, ObjectName

T = TypeVar("T")

_LIST: Final = "List"
_KINDS: Final = f"there are {', '.join(FORMS)}, and {_LIST}, in which no other {_LIST} may stand"


# OBJECT-5, OBJECT-6
def _parse_with(read: Callable[[Form, Raw], T]) -> Callable[[Raw], tuple[Manifest[T], ...]]:
    """Return a parser that reads the objects of a manifest, each with its place."""

    def parse(value: Raw) -> tuple[Manifest[T], ...]:
        if not isinstance(value, dict):
            raise refused(value, "is not a map")
        if _kind_of(value) != _LIST:
            return (Manifest(read(_form(value), value)),)
        items = value.get("items")
        if is_null(items):  # how programs in Go write an empty list
            return ()
        if not isinstance(items, list):
            raise refused(items, "is not a list").inside(".items")
        return tuple(item(f".items[{index}]", written) for index, written in enumerate(items))

    def item(place: str, written: Raw) -> Manifest[T]:
        try:
            return Manifest(read(_form(written), written), f"manifest{place}")
        except FieldError as error:
            raise error.inside(place) from None

    return parse


def _kind_of(value: Raw) -> str:
    """Return the kind of an object, or an empty text if it has none."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else ""


# OBJECT-1
def _form(value: Raw) -> Form:
    if not isinstance(value, dict):
        raise refused(value, "is not a map")
    form = FORMS.get(_kind_of(value))
    if form is None:
        problem = f"{told(value['kind'])} is not known" if "kind" in value else "is missing"
        raise FieldError(f"{problem}: {_KINDS}", ".kind")
    return form


def _applied(form: Form, value: Raw) -> AppliedObject:
    values = form.shape.parse(value)
    try:
        return form.make(values)
    except FieldError as error:
        raise error.inside(".") from None


# OBJECT-3
def _deleted(form: Form, value: Raw) -> ObjectName:
    values = form.names.parse(value)
    try:
        return form.name(values)
    except FieldError as error:
        raise error.inside(".") from None


# -- the form that every encoding can write -------------------------------------------------


def _normal(value: Raw) -> Raw:
    return _LIST_SHAPE.normal(value) if _kind_of(value) == _LIST else _object_normal(value)


def _items_normal(value: Raw) -> Raw:
    if isinstance(value, list):
        return [_object_normal(item) for item in value]
    return as_kubernetes(value)


def _object_normal(value: Raw) -> Raw:
    form = FORMS.get(_kind_of(value))
    return as_kubernetes(value) if form is None else form.shape.normal(value)


_LIST_SHAPE: Final = Shape(
    {"items": part("items", Kind("list of objects", lambda value: value, _items_normal))}
)

APPLIED: Final = Kind("Kubernetes object", _parse_with(_applied), _normal)
DELETED: Final = Kind("Kubernetes object", _parse_with(_deleted), _normal)
