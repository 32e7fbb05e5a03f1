"""Taints of nodes, and the tolerations and the affinity of asks: which nodes an ask may use.

Kubernetes has the same; in contrast to it, a taint never ends asks on its node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar, final

import attrs
from typing_extensions import override

from muster_core.enumerations import quick_members
from muster_core.values.errors import EventError
from muster_core.values.names import did_you_mean
from muster_core.values.resources import shown

T = TypeVar("T")

# AFFINITY-9
NODE_NAME: Final = "metadata.name"
"""The key of a requirement on the name of the node."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
"""A whole number; Python converts no longer ones."""


# AFFINITY-1
@final
@quick_members
class TaintEffect(StrEnum):
    """The effect of a taint on asks that do not tolerate it; ``PreferNoSchedule`` has none."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


# AFFINITY-3
@final
@quick_members
class TolerationOperator(StrEnum):
    """How a toleration is compared with the value of a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


# AFFINITY-6
@final
@quick_members
class Operator(StrEnum):
    """How a requirement is compared with an attribute of a node."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


# AFFINITY-1
@final
@attrs.frozen(cache_hash=True)
class Taint:
    """A taint of a node.

    Raises:
        EventError: If no node can have it.
    """

    key: str
    effect: TaintEffect
    value: str = ""

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        _check_key(self.key)
        _check_member("effect", self.effect, TaintEffect)
        _check_text("value", self.value)

    @property
    def bars(self) -> bool:
        """Whether it keeps asks away that do not tolerate it."""
        return self.effect is not TaintEffect.PREFER_NO_SCHEDULE

    @override
    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


# AFFINITY-3
@final
@attrs.frozen(cache_hash=True)
class Toleration:
    """A toleration of an ask.

    Attributes:
        key: The key of the taints; empty for all keys, with ``Exists``.
        value: The value of the taints, with ``Equal``.
        effect: The effect of the taints, or None for all effects.

    Raises:
        EventError: If no ask can have it.
    """

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        _check_text("key", self.key)
        _check_member("operator", self.operator, TolerationOperator)
        _check_text("value", self.value)
        if self.effect is not None:
            _check_member("effect", self.effect, TaintEffect)
        if self.operator is TolerationOperator.EXISTS:
            if self.value:
                msg = f"value: {shown(self.value)} is not compared with Exists: leave it out, or write Equal"
                raise EventError(msg)
        elif not self.key:
            msg = "key: it is missing: name the key of the taint, or write Exists for all taints"
            raise EventError(msg)

    # AFFINITY-3, AFFINITY-4
    def tolerates(self, taint: Taint) -> bool:
        """Return whether it tolerates a taint."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator is TolerationOperator.EXISTS or self.value == taint.value

    @override
    def __str__(self) -> str:
        exists = self.operator is TolerationOperator.EXISTS
        what = self.key or "all"
        if not exists:
            what += f"={self.value}"
        return what if self.effect is None else f"{what}:{self.effect}"


# AFFINITY-6
@final
@attrs.frozen(cache_hash=True)
class Requirement:
    """The requirement of a term on one attribute of a node.

    Attributes:
        key: The name of the attribute, or :data:`NODE_NAME` for the name of the node.
        values: The values that it is compared with.

    Raises:
        EventError: If no ask can have it.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        _check_key(self.key)
        _check_member("operator", self.operator, Operator)
        _check_tuple("values", self.values)
        for value in self.values:
            _check_text("values", value)
        problem = values_problem(self.operator, len(self.values))
        if problem is not None:
            msg = f"values: {', '.join(map(shown, self.values)) or 'nothing'}: {problem}"
            raise EventError(msg)

    # AFFINITY-6, AFFINITY-7, AFFINITY-8, AFFINITY-9
    def holds(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Return whether a node of this name, with these attributes, meets it."""
        found = name if self.key == NODE_NAME else attributes.get(self.key)
        match self.operator:
            case Operator.IN:
                return found is not None and found in self.values
            case Operator.NOT_IN:
                return found is None or found not in self.values
            case Operator.EXISTS:
                return found is not None
            case Operator.DOES_NOT_EXIST:
                return found is None
            case Operator.GT | Operator.LT:
                own, other = _whole(found), _whole(self.values[0])
                if own is None or other is None:
                    return False
                return own > other if self.operator is Operator.GT else own < other

    def value_for(self, name: str, attributes: Mapping[str, str]) -> str | None:
        """Return a value of the attribute with which it holds; None if it does, or there is none."""
        if self.key == NODE_NAME or self.holds(name, attributes):
            return None
        match self.operator:
            case Operator.IN:
                return self.values[0]
            case Operator.EXISTS:
                return "true"
            case Operator.GT | Operator.LT:
                limit, step = _whole(self.values[0]), 1 if self.operator is Operator.GT else -1
                return None if limit is None else str(limit + step)
            case Operator.NOT_IN | Operator.DOES_NOT_EXIST:
                return None

    @override
    def __str__(self) -> str:
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({', '.join(self.values)})"
            case _:
                return " ".join((self.key, self.operator, *self.values))


Term: TypeAlias = tuple[Requirement, ...]
"""Requirements that must all hold; an empty term matches nothing."""

Affinity: TypeAlias = tuple[Term, ...]
"""Terms of which one must match."""


# AFFINITY-6
def values_problem(operator: Operator, count: int) -> str | None:
    """Return why an operator cannot be used with a number of values, or None if it can."""
    match operator:
        case Operator.IN | Operator.NOT_IN:
            return None if count else f"{operator} needs at least one value"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return f"{operator} has no values: leave them out, or write In" if count else None
        case Operator.GT | Operator.LT:
            return None if count == 1 else f"{operator} needs exactly one value"


# AFFINITY-5, AFFINITY-10
def admits(affinity: Affinity, name: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a node matches one of the terms."""
    return any(
        term and all(requirement.holds(name, attributes) for requirement in term)
        for term in affinity
    )


# AFFINITY-2
def repelling(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> list[Taint]:
    """Return the taints that keep an ask with these tolerations away."""
    return [
        taint
        for taint in taints
        if taint.bars and not any(one.tolerates(taint) for one in tolerations)
    ]


# AFFINITY-11
def in_order_of_tolerations(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Return tolerations, each once, in an order that does not depend on the given one."""
    return tuple(
        sorted(
            set(tolerations),
            key=lambda one: (one.key, one.operator, one.value, one.effect or ""),
        )
    )


# AFFINITY-11
def in_order_of_terms(affinity: Affinity) -> Affinity:
    """Return terms and their requirements, each once, in an order that does not depend on theirs."""

    def key_of(one: Requirement) -> tuple[str, str, tuple[str, ...]]:
        return one.key, one.operator, one.values

    def in_order(one: Requirement) -> Requirement:
        values = tuple(sorted(set(one.values)))
        return one if values == one.values else attrs.evolve(one, values=values)

    terms = {tuple(sorted(set(map(in_order, term)), key=key_of)) for term in affinity}
    return tuple(sorted(terms, key=lambda term: [key_of(one) for one in term]))


def terms_in_words(affinity: Affinity) -> str:
    """Return an affinity in words."""
    terms = [" and ".join(map(str, term)) or "an empty term" for term in affinity]
    return " or ".join(terms) or "no term"


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        msg = f"key: {shown(key)} is not a text of at least one character"
        raise EventError(msg)


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str):
        msg = f"{field}: {shown(value)} is not a text"
        raise EventError(msg)


def _check_tuple(field: str, value: object) -> None:
    if not isinstance(value, tuple):
        msg = f"{field}: {shown(value)} is not a tuple"
        raise EventError(msg)


def _check_member(field: str, value: object, kind: type[StrEnum]) -> None:
    if not isinstance(value, kind):
        words = [one.value for one in kind]
        guess = did_you_mean(value, words) if isinstance(value, str) else ""
        msg = f"{field}: {shown(value)} is none of {', '.join(words)}{guess}"
        raise EventError(msg)
