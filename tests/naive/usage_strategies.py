"""Hypothesis strategies for scenarios in which what queues and users have had counts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import Configuration, QueueConfig, Settings
from muster_core.events import AddApp, Configure, SetUsage
from muster_core.resources import UnitSeconds
from tests.naive.back_off_strategies import back_offs
from tests.naive.backfill_strategies import backfills
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, What
from tests.naive.strategies import paths, scenarios, settings_of
from tests.naive.theme import SECOND_US

HALF_LIFE: Final = "usage.half.life"
USERS: Final = "usage.users"
WEIGHT: Final = "queue.weight"
_POLICY: Final = "application.sort.policy"

_SHORT: Final = 40 * SECOND_US
"""How long a scenario may take in which a half-life is so short that ticks are many."""

_HALF_LIVES: Final = ("10s", "10s", "1m", "1h", "0", "7s", "90s", "168h")
_USERS: Final = (None, "u", "v", "w")
_AMOUNTS: Final = (0, 1, 3, 17, 1000, 123_456, 10**30)


@st.composite
def usages(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a scenario of another kind, and let usage count in it.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    kinds = (
        *(scenarios(lists), scenarios(lists), backfills(lists)),
        *(back_offs(lists), gang_scenarios(), evictions()),
    )
    steps = draw(draw(st.sampled_from(kinds)))
    return counted(steps, Random(draw(st.integers(0, 2**32))))


def counted(steps: Sequence[Step], random: Random) -> list[Step]:
    """Let usage count in a scenario, as chance has it."""
    texts: list[str] = [*_HALF_LIVES[: random.randint(1, len(_HALF_LIVES))]]
    if steps and steps[-1].at_us < _SHORT and random.random() < 0.2:
        texts.append("1s")
    users = _USERS[: random.randint(1, len(_USERS))]
    known = sorted({path for step in steps for path in _paths(step.what)})
    found: list[Step] = []
    for step in steps:
        found.append(Step(step.at_us, _counted(step.what, random, texts, users)))
        if known and random.random() < 0.08:
            found.append(Step(step.at_us, _set(random, known, users)))
    return found


def _paths(what: What) -> list[str]:
    return paths(what.config.root) if isinstance(what, Configure) else []


def _set(random: Random, known: Sequence[str], users: Sequence[str | None]) -> SetUsage:
    names = random.sample(("vcore", "memory", "gpu"), random.randint(0, 2))
    amounts = UnitSeconds({name: random.choice(_AMOUNTS) for name in names})
    user = random.choice((None, None, *users, "", "x"))
    return SetUsage(random.choice(known), amounts, user)


def _counted(what: What, random: Random, texts: Sequence[str], users: Sequence[str | None]) -> What:
    match what:
        case Configure(config):
            return attrs.evolve(what, config=_with_usage(config, random, texts))
        case AddApp(user=None):
            return attrs.evolve(what, user=random.choice(users))
        case _:
            return what


def _with_usage(config: Configuration, random: Random, texts: Sequence[str]) -> Configuration:
    alike = random.random() < 0.5

    def again(queue: QueueConfig, above: Settings | None) -> QueueConfig:
        own = dict(queue.own_properties)
        if above is None or (not alike and random.random() < 0.4):
            own[HALF_LIFE] = random.choice(texts)
        if random.random() < 0.3:
            own[USERS] = random.choice(("enabled", "enabled", "disabled"))
        if random.random() < 0.3:
            own[_POLICY] = "fair"
        if random.random() < 0.3:
            own[WEIGHT] = random.choice(("1", "2", "3", "2147483647"))
        settings = settings_of(own, queue.path, above)
        children = tuple(again(child, settings) for child in queue.children)
        return attrs.evolve(
            queue, own_properties=tuple(sorted(own.items())), settings=settings, children=children
        )

    return attrs.evolve(config, root=again(config.root, None))
