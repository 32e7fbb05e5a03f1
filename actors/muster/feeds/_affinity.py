"""Taints, tolerations and affinities in a feed: as fields of events, and as Kubernetes writes them.

In an event unknown fields are refused; in an object they are ignored, and null or an empty text is
the same as no field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

import attrs

from muster.feeds._fields import attributes_of, field, record
from muster.feeds._kinds import NAME, TEXT, WORD, FieldError, Kind, listed, one_of, refused
from muster.feeds._raw import Raw
from muster.feeds._schema import ObjectSchema, schema_field, unless_empty
from muster_core.errors import EventError
from muster_core.values.affinity import (
    NODE_NAME,
    Affinity,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Term,
    Toleration,
    TolerationOperator,
)

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)


def _member(enumeration: type[E]) -> Kind[E]:
    """Return the kind of a text that is a member of an enumeration."""
    words = one_of(*(member.value for member in enumeration))
    return Kind(words.name, lambda value: enumeration(words.parse(value)), words.normal, str)


def _checked(make: Callable[..., T]) -> Callable[..., T]:
    """Return a function that makes a value, and says in which field it is wrong."""

    def made(**values: object) -> T:
        try:
            return make(**{name: value for name, value in values.items() if value is not None})
        except EventError as error:
            name, _, problem = str(error).partition(": ")
            raise FieldError(problem, f".{name}") from None

    return made


_EFFECT: Final = _member(TaintEffect)
_TOLERATION_OPERATOR: Final = _member(TolerationOperator)
_OPERATOR: Final = _member(Operator)
_VALUES: Final = listed(WORD, "list of texts")

# AFFINITY-1
TAINT_FIELDS: Final = (
    field("key", NAME, "its key", required=True),
    field("value", WORD, "its value; default: the empty text"),
    field(
        "effect", _EFFECT, "what it does: `PreferNoSchedule` does nothing, the others keep asks away",
        required=True,
    ),
)  # fmt: skip
"""The fields of a taint."""

# AFFINITY-3
TOLERATION_FIELDS: Final = (
    field("key", TEXT, "the key of the taints; default: every key, with `Exists`"),
    field("operator", _TOLERATION_OPERATOR, "how the value is compared; default `Equal`"),
    field("value", WORD, "the value of the taints, for `Equal`; default: the empty text"),
    field("effect", _EFFECT, "the effect of the taints; default: every effect"),
)
"""The fields of a toleration."""

# AFFINITY-6
REQUIREMENT_FIELDS: Final = (
    field("key", NAME, f"the name of an attribute, or `{NODE_NAME}`: the node's name", required=True),
    field("operator", _OPERATOR, "how it is compared", required=True),
    field("values", _VALUES, "what it is compared with: for `Gt` and `Lt` one whole number"),
)  # fmt: skip
"""The fields of a requirement of an affinity."""

TAINTS: Final = listed(record(TAINT_FIELDS, _checked(Taint), "taint"), "list of taints")
TOLERATIONS: Final = listed(
    record(TOLERATION_FIELDS, _checked(Toleration), "toleration"), "list of tolerations"
)
_EVENT_TERM: Final = listed(
    record(REQUIREMENT_FIELDS, _checked(Requirement), "requirement"), "term"
)


def _parse_event_term(value: Raw) -> Term:
    if isinstance(value, dict):
        raise refused(value, "is not a term, which is a list of requirements: write [[{key: …}]]")
    return _EVENT_TERM.parse(value)


AFFINITY: Final[Kind[Affinity]] = listed(
    attrs.evolve(_EVENT_TERM, parse=_parse_event_term),
    "list of terms, which are lists of requirements",
)


# -- as Kubernetes writes them ------------------------------------------------------------------


def _object(schema: ObjectSchema, make: Callable[..., T], name: str) -> Kind[T]:
    """Return the kind of a map in an object, whose values are the attributes of a value."""
    made = _checked(make)
    return Kind(
        name,
        lambda value: made(**schema.parse(value)),
        schema.normal,
        lambda value: schema.write(attributes_of(value)),
    )


_OBJECT_TAINT: Final = ObjectSchema({
    "key": schema_field("key", NAME, required=True),
    "value": schema_field("value", WORD),
    "effect": schema_field("effect", _EFFECT, required=True),
})  # fmt: skip
_OBJECT_TOLERATION: Final = ObjectSchema({
    "key": schema_field("key", TEXT),
    "operator": schema_field("operator", unless_empty(_TOLERATION_OPERATOR)),
    "value": schema_field("value", WORD),
    "effect": schema_field("effect", unless_empty(_EFFECT)),
})  # fmt: skip
_OBJECT_REQUIREMENT: Final = ObjectSchema({
    "key": schema_field("key", NAME, required=True),
    "operator": schema_field("operator", _OPERATOR, required=True),
    "values": schema_field("values", _VALUES),
})  # fmt: skip

OBJECT_TAINTS: Final = listed(_object(_OBJECT_TAINT, Taint, "taint"), "list of taints")
"""The ``taints`` of a Node."""

OBJECT_TOLERATIONS: Final = listed(
    _object(_OBJECT_TOLERATION, Toleration, "toleration"), "list of tolerations"
)
"""The ``tolerations`` of a Pod."""


def _of_node(value: Raw) -> str:
    key = NAME.parse(value)
    if key != NODE_NAME:
        raise refused(value, f"is no field of a node that can be matched: write {NODE_NAME}")
    return key


_EXPRESSIONS: Final = listed(
    _object(_OBJECT_REQUIREMENT, Requirement, "requirement"), "list of requirements"
)
_FIELDS: Final = listed(
    _object(
        ObjectSchema(
            {
                **_OBJECT_REQUIREMENT.fields,
                "key": schema_field("key", Kind(NAME.name, _of_node, NAME.normal), required=True),
            }
        ),
        Requirement,
        "requirement",
    ),
    "list of requirements",
)
_TERM: Final = ObjectSchema({
    "matchExpressions": schema_field("expressions", _EXPRESSIONS),
    "matchFields": schema_field("fields", _FIELDS),
})  # fmt: skip


def _parse_term(value: Raw) -> Term:
    values = cast("dict[str, Sequence[Requirement]]", _TERM.parse(value))
    both = [*values.get("expressions", ()), *values.get("fields", ())]
    return tuple(sorted(both, key=_is_of_node))


def _is_of_node(requirement: Requirement) -> bool:
    return requirement.key == NODE_NAME


def _write_term(term: Term) -> Raw:
    parts: dict[str, Any] = {
        "expressions": [one for one in term if not _is_of_node(one)],
        "fields": [one for one in term if _is_of_node(one)],
    }
    return {**_TERM.write({name: some for name, some in parts.items() if some})}


# AFFINITY-16
_TERMS: Final = listed(Kind("term", _parse_term, _TERM.normal, _write_term), "list of terms")

NODE_TERMS: Final = ObjectSchema({"nodeSelectorTerms": schema_field("affinity", _TERMS)})
"""A node selector: the ``required`` of the ``nodeAffinity`` of a PersistentVolume, for one."""

NODE_AFFINITY: Final = ObjectSchema({"requiredDuringSchedulingIgnoredDuringExecution": NODE_TERMS})
"""The ``nodeAffinity`` of a Pod."""
