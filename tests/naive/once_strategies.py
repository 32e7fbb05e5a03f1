"""Hypothesis strategies for asks that do not come back, and for nodes that others use, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.events import (
    AddAsk,
    AddGang,
    AddNode,
    AppliedObject,
    Apply,
    Configure,
    Manifest,
    PodObject,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import NO_FIELDS
from muster_core.resources import Resources
from tests.naive.aging_strategies import agings
from tests.naive.backfill_strategies import backfills
from tests.naive.device_strategies import devices
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, What
from tests.naive.operator_strategies import operations
from tests.naive.quota_strategies import quotas
from tests.naive.strategies import scenarios
from tests.naive.time_strategies import time_limits

_CHANCES: Final = (0.3, 0.6, 0.9, 1.0, 1.0)
_OFTEN: Final = (0.0, 0.03, 0.1, 0.3)


@st.composite
def once(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of another kind in which asks do not come back, and nodes are lost.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    steps, random = draw(_kinds(lists)), Random(draw(st.integers(0, 2**32)))
    chance, loss = random.choice(_CHANCES), random.choice(_OFTEN[:3])
    reserves = random.choice(_OFTEN)
    if random.random() < 0.5:
        steps = _with_small_gangs(steps, random)
    changed = (_comes_once(step, random, chance) for step in steps)
    return [*_with_changes(list(changed), random, loss, reserves)]


def _with_small_gangs(steps: Sequence[Step], random: Random) -> list[Step]:
    """Leave most gangs two members, so that the last one may be gone."""
    found, there = list[Step](), set[str]()
    for step in steps:
        what = step.what
        gang = what.gang if isinstance(what, AddAsk) else None
        if isinstance(what, AddAsk) and gang is not None:
            if gang in there and random.random() < 0.9:
                what = attrs.evolve(what, gang=None, says=NO_FIELDS, timed_out=False)
            else:
                there.add(gang)
                least = 2 if what.says.min_member is not None or random.random() < 0.4 else None
                says = attrs.evolve(what.says, min_member=least, total=None)
                what = attrs.evolve(what, count=2, node=None, says=says)
        elif isinstance(what, AddGang):
            says = attrs.evolve(what.says, min_member=random.choice((1, 2, 2)), total=None)
            what = attrs.evolve(what, says=says)
        found.append(Step(step.at_us, what))
    return found


def _kinds(lists: int) -> st.SearchStrategy[list[Step]]:
    return st.one_of(
        *(tangles(lists), tangles(lists), evictions(lists), evictions(lists), operations(lists)),
        *(quotas(lists), gang_scenarios(lists), backfills(lists), time_limits(lists)),
        *(devices(lists), agings(lists), scenarios(lists)),
    )


def _comes_once(step: Step, random: Random, chance: float) -> Step:
    if isinstance(step.what, AddAsk) and random.random() < chance:
        return Step(step.at_us, attrs.evolve(step.what, once=True, retries=0))
    if isinstance(step.what, Apply):
        return Step(step.at_us, Apply(tuple(map(_pod_once, step.what.objects))))
    return step


def _pod_once(manifest: Manifest[AppliedObject]) -> Manifest[AppliedObject]:
    pod = manifest.content
    if not isinstance(pod, PodObject) or pod.ask is None:
        return manifest
    ask = attrs.evolve(pod.ask, once=True, retries=0)
    return attrs.evolve(manifest, content=attrs.evolve(pod, ask=ask))


def _with_changes(
    steps: Sequence[Step], random: Random, loss: float, reserves: float
) -> Iterator[Step]:
    """Yield the steps, and between them losses of nodes, and what others have of them."""
    nodes: dict[str, Resources] = {}
    for step in steps:
        yield step
        _note(step.what, nodes)
        if not nodes or isinstance(step.what, Configure):
            continue
        name = random.choice(list(nodes))
        if random.random() < loss:
            yield Step(step.at_us, RemoveNode(name))
            capacity = nodes[name]
            if random.random() < 0.7:
                yield Step(step.at_us, AddNode(name, capacity))
        if random.random() < reserves:
            yield Step(step.at_us, UpdateNode(name, reserved=_part(nodes[name], random)))


def _note(what: What, nodes: dict[str, Resources]) -> None:
    match what:
        case AddNode(node, capacity) | UpdateNode(node, Resources() as capacity):
            nodes[node] = capacity
        case _:
            pass


def _part(capacity: Resources, random: Random) -> Resources:
    """Give some of what a node has, all of it, more, or what it does not have."""
    if random.random() < 0.3:
        return Resources()
    return Resources(
        {
            name: amount
            for name in (*capacity, "gpu")
            if (amount := random.choice((0, 1, capacity[name] // 2, capacity[name], 9)))
        }
    )
