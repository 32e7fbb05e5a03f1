"""Hypothesis strategies for scenarios with taints, tolerations and affinities."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.events import (
    AddAsk,
    AddNode,
    AppliedObject,
    Apply,
    NodeObject,
    PodObject,
    UpdateNode,
)
from muster_core.values.affinity import (
    Affinity,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from tests.naive.backfill_strategies import backfills, joined
from tests.naive.device_strategies import topologies
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, What
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios

_EFFECTS: Final = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE, TaintEffect.PREFER_NO_SCHEDULE)
_ATTRIBUTES: Final[tuple[dict[str, str], ...]] = (
    {"zone": "x"},
    {"zone": "y"},
    {"zone": "x", "cores": "8"},
    {"cores": "16"},
    {"zone": "y", "cores": "-3"},
    {"cores": "many"},
    {},
)
_REQUIREMENTS: Final = (
    Requirement("zone", Operator.IN, ("x",)),
    Requirement("zone", Operator.IN, ("y", "x")),
    Requirement("zone", Operator.IN, ("x", "y")),
    Requirement("zone", Operator.NOT_IN, ("x",)),
    Requirement("zone", Operator.EXISTS),
    Requirement("zone", Operator.DOES_NOT_EXIST),
    Requirement("cores", Operator.GT, ("8",)),
    Requirement("cores", Operator.LT, ("+9",)),
    Requirement("cores", Operator.GT, ("few",)),
)


@attrs.frozen
class Habits:
    """How often nodes and asks of a scenario have what: from 0 to 1 each."""

    tainted: float
    tolerant: float
    choosy: float
    changing: float


@st.composite
def affinities(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of another kind, and give its nodes taints and its asks affinities.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    kinds = (
        *(scenarios(), backfills(lists), joined(lists), evictions(lists), tangles()),
        *(gang_scenarios(), topologies(lists), operations()),
    )
    steps = draw(draw(st.sampled_from(kinds)))
    return particular(steps, Random(draw(st.integers(0, 2**32))))


def particular(steps: Sequence[Step], random: Random) -> list[Step]:
    """Give nodes taints and attributes, and asks tolerations and affinities, as chance has it."""
    habits = Habits(
        tainted=random.choice((0.2, 0.5, 0.8, 0)),
        tolerant=random.choice((0.3, 0.7, 0)),
        choosy=random.choice((0.3, 0.6, 0)),
        changing=random.choice((0, 0.05, 0.2)),
    )
    found: list[Step] = []
    nodes: list[str] = []
    for step in steps:
        found.append(attrs.evolve(step, what=_particular(step.what, random, habits, nodes)))
        if nodes and random.random() < habits.changing:
            found.append(Step(step.at_us, _change(random, nodes)))
    return found


def _particular(what: What, random: Random, habits: Habits, nodes: list[str]) -> What:
    match what:
        case AddNode():
            nodes.append(what.node)
            more = {**what.attributes, **random.choice(_ATTRIBUTES)}
            return attrs.evolve(what, attributes=more, taints=_taints(random, habits.tainted))
        case UpdateNode() if random.random() < 0.5:
            return attrs.evolve(what, taints=_taints(random, habits.tainted))
        case AddAsk():
            return _asking(what, random, habits, nodes)
        case Apply():
            return attrs.evolve(
                what,
                objects=tuple(
                    attrs.evolve(one, content=_object(one.content, random, habits, nodes))
                    for one in what.objects
                ),
            )
        case _:
            return what


def _object(
    content: AppliedObject, random: Random, habits: Habits, nodes: list[str]
) -> AppliedObject:
    match content:
        case NodeObject():
            nodes.append(content.node)
            more = {**content.attributes, **random.choice(_ATTRIBUTES)}
            return attrs.evolve(content, attributes=more, taints=_taints(random, habits.tainted))
        case PodObject() if content.ask is not None:
            return attrs.evolve(content, ask=_asking(content.ask, random, habits, nodes))
        case _:
            return content


def _asking(ask: AddAsk, random: Random, habits: Habits, nodes: Sequence[str]) -> AddAsk:
    tolerations = tuple(
        _toleration(random)
        for _ in range(random.randint(1, 3) if random.random() < habits.tolerant else 0)
    )
    affinity = _affinity(random, nodes) if random.random() < habits.choosy else None
    return attrs.evolve(ask, tolerations=tolerations, affinity=affinity)


def _change(random: Random, nodes: Sequence[str]) -> UpdateNode:
    """Return a change of what a node has or keeps off, and of nothing else."""
    attributes = random.choice((None, *_ATTRIBUTES))
    taints = None if attributes is not None and random.random() < 0.5 else _taints(random, 0.5)
    return UpdateNode(random.choice(nodes), attributes=attributes, taints=taints)


def _taints(random: Random, often: float) -> tuple[Taint, ...]:
    if random.random() >= often:
        return ()
    return tuple(
        Taint(random.choice("kl"), random.choice(_EFFECTS), random.choice(("", "v", "w")))
        for _ in range(random.choice((1, 1, 1, 2)))
    )


def _toleration(random: Random) -> Toleration:
    effect = random.choice((None, *_EFFECTS))
    if random.random() < 0.4:
        return Toleration(random.choice(("", "k", "l")), TolerationOperator.EXISTS, effect=effect)
    return Toleration(random.choice("kl"), value=random.choice(("", "v", "w")), effect=effect)


def _affinity(random: Random, nodes: Sequence[str]) -> Affinity:
    named = random.choices(nodes or ["n"], k=2)
    by_name = (
        Requirement("metadata.name", Operator.IN, tuple(named)),
        Requirement("metadata.name", Operator.NOT_IN, tuple(named[:1])),
    )
    sizes, counts = (1, 1, 1, 1, 2, 2, 3, 0), (1, 1, 1, 2, 2, 3, 0)
    return tuple(
        tuple(random.choices((*_REQUIREMENTS, *by_name), k=random.choice(sizes)))
        for _ in range(random.choice(counts))
    )
