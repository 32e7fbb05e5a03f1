"""Taints, tolerations and affinities as values."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.errors import EventError
from muster_core.events import AddAsk, AddNode, UpdateNode
from muster_core.owners.asks import shared_shape
from muster_core.resources import Resources
from muster_core.values.affinity import (
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    terms_in_words,
)

CORE = Resources({"vcore": 1000})
ASK = {"app": "a", "ask": "x", "resources": CORE}
IN, NO_EXECUTE = Operator.IN, TaintEffect.NO_EXECUTE
SOME = (Toleration("k", value="v"), Toleration("l", TolerationOperator.EXISTS))
ZONE = Requirement("zone", Operator.IN, ("a", "b"))
CORES = Requirement("cores", Operator.GT, ("8",))


# AFFINITY-11: lists in another order, and what is written twice, are one shape.
def test_lists_in_another_order_are_one_shape() -> None:
    turned = Requirement("zone", Operator.IN, ("b", "a", "b"))
    one = shared_shape(CORE, (), None, (), SOME, ((ZONE, CORES), (CORES,)))

    assert shared_shape(CORE, (), None, (), SOME[::-1], ((CORES,), (CORES, turned))) is one
    assert (
        shared_shape(CORE, (), None, (), (*SOME, SOME[0]), ((CORES, ZONE, CORES), (CORES,))) is one
    )
    assert shared_shape(CORE, (), None, (), SOME, ((ZONE, CORES),)) != one
    assert shared_shape(CORE, (), None, (), SOME[:1], ((ZONE, CORES), (CORES,))) != one


def test_no_affinity_is_not_one_without_terms() -> None:
    assert shared_shape(CORE, (), None).matches("n", {})
    assert not shared_shape(CORE, (), None, (), (), ()).matches("n", {})


@pytest.mark.parametrize(
    ("made", "fields", "problem"),
    [
        (Taint, {"key": "", "effect": NO_EXECUTE}, "key: '' is not a text of at least one"),
        (Taint, {"key": "k", "effect": "NoExecute"}, "effect: 'NoExecute' is none of NoSchedule, "),
        (Taint, {"key": "k", "effect": NO_EXECUTE, "value": 5}, "value: 5 is not a text"),
        (Toleration, {"key": None}, "key: None is not a text"),
        (Toleration, {"key": "k", "operator": "Exists"}, "operator: 'Exists' is none of Equal, "),
        (Toleration, {"key": "k", "effect": "x"}, "effect: 'x' is none of"),
        (
            Requirement,
            {"key": "k", "operator": IN, "values": ["v"]},
            "values: ['v'] is not a tuple",
        ),
        (Requirement, {"key": "k", "operator": IN, "values": (5,)}, "values: 5 is not a text"),
        (
            Requirement,
            {"key": "k", "operator": "In", "values": ("v",)},
            "operator: 'In' is none of",
        ),
        (AddAsk, {**ASK, "tolerations": [SOME[0]]}, "tolerations: "),
        (AddAsk, {**ASK, "tolerations": (ZONE,)}, "tolerations[0]: "),
        (AddAsk, {**ASK, "affinity": (ZONE,)}, "affinity[0]: "),
        (AddAsk, {**ASK, "affinity": ((ZONE, "k"),)}, "affinity[0][1]: 'k' is not of the type"),
        (AddNode, {"node": "n", "capacity": CORE, "taints": ("k",)}, "taints[0]: 'k' is not of"),
        (UpdateNode, {"node": "n", "taints": []}, "taints: [] is not of the type tuple"),
    ],
)
def test_what_a_program_cannot_say(made: Any, fields: dict[str, object], problem: str) -> None:  # noqa: ANN401 - any of the classes
    with pytest.raises(EventError) as refusal:
        made(**fields)

    assert str(refusal.value).startswith(problem)


def test_words() -> None:
    gone = Requirement("old", Operator.DOES_NOT_EXIST)

    assert str(Taint("k", TaintEffect.NO_SCHEDULE)) == "k:NoSchedule"
    assert str(Taint("k", TaintEffect.NO_EXECUTE, "v")) == "k=v:NoExecute"
    assert list(map(str, SOME)) == ["k=v", "l"]
    assert str(Toleration(operator=TolerationOperator.EXISTS, effect=TaintEffect.NO_EXECUTE)) == (
        "all:NoExecute"
    )
    assert terms_in_words(((ZONE, CORES), (gone,))) == (
        "zone In (a, b) and cores Gt 8 or old DoesNotExist"
    )
    assert terms_in_words(((),)) == "an empty term"
    assert terms_in_words(()) == "no term"
