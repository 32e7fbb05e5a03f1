"""What a scenario with reclaim and preemption is about: which guarantees and classes collide."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.gangs import GangMode
from muster_core.resources import Resources
from tests.naive.choices import Choices
from tests.naive.gang_theme import GANGS, GangTheme
from tests.naive.theme import SECOND_US, WIDTHS, Texts, Theme, retrying

_WIDE: Final = ((2, 3, 2, 3), (0, 2, 0, 2, 3), (0, 2, 0), (0,), (0,))
_OFF: Final[Texts] = (None,)
_SHAPES: Final = tuple(
    Resources(shape)
    for shape in ({"vcore": 1}, {"vcore": 2}, {"vcore": 1, "memory": 1}, {"memory": 1})
)
_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 3, "memory": 3},
        {"vcore": 2, "memory": 2},
        {"vcore": 4, "memory": 2},
        {"vcore": 1, "memory": 4},
        {"vcore": 6, "memory": 6},
    )
)
_PLAIN: Final = (
    *("add_ask",) * 10,
    *("settle",) * 3,
    *("release",) * 2,
    *("bind_failed",) * 2,
    *("add_app", "remove_ask", "fail_bind", "add_node"),
)
_GANGS: Final = (
    *("add_members",) * 6,
    *("add_ask",) * 6,
    *("settle",) * 4,
    *("release",) * 2,
    *("bind_failed",) * 2,
    *("add_app", "add_gang", "remove_ask", "fail_bind", "fail_bind"),
)
_UPHEAVALS: Final = (
    *("remove_node", "update_node", "remove_app", "remove_gang", "apply_gang"),
    *("apply_class", "apply_pod", "delete_pod", "refused"),
)
_GAPS_US: Final = (
    (*(0,) * 6, SECOND_US),
    (*(0,) * 3, SECOND_US, SECOND_US, 2 * SECOND_US, 6 * SECOND_US),
    (*(0,) * 6, SECOND_US, 5 * SECOND_US, 31 * SECOND_US, 5 * SECOND_US - 1),
)
_DELAYS: Final[tuple[Texts, ...]] = (
    ("0",),
    ("0", "0", "1s"),
    ("1s",),
    (None, "0", "5s", "1s"),
    ("30s", "0", None),
)
_PRIORITIES: Final = ((None,), (None, 0, 1, 2), (*(None, 0, 1, -1, 3) * 3, 2**31 - 1, -(2**31)))
_CLASSES: Final = (
    ("high", None, "mid"),
    (None, None, "high", "mid", "calm", "low"),
    ("high", "mid"),
    ("high", None, "calm"),
    ("high", None, "calm", "system-node-critical", "system-cluster-critical"),
)


@attrs.frozen
class EvictionTheme:
    """What the choices about evictions are made of; the simplest comes first in each.

    Attributes:
        shapes: What asks want.
        capacities: What nodes have.
        required: One ask in so many requires a node.
        selects: One ask in so many selects a zone.
        enabled: Whether preemption is, of the configurations one after the other.
        counts: How many asks come at once.
        rising: Of two asks that preempt the later one mostly has the higher priority.
        topped: What the first asks leave of the nodes is filled, too.
        fillers: How many applications fill the nodes before all others come.
        filled: How many lists of asks of low priority come before all others.
        each: How many applications come to each of the first leaves.
        low: The priorities of those that fill the nodes.
    """

    shapes: tuple[Resources, ...]
    capacities: tuple[Resources, ...]
    required: int
    selects: int
    enabled: tuple[bool, ...]
    counts: tuple[int | None, ...]
    rising: bool
    topped: bool
    fillers: int
    filled: int
    each: int = 1
    low: tuple[int | None, ...] = (None, -1, None, 0)


def eviction_themed(choices: Choices) -> EvictionTheme:
    """Make a theme for evictions."""
    return EvictionTheme(
        shapes=choices.of((_SHAPES[:1], _SHAPES[:2], _SHAPES, _SHAPES[2:])),
        capacities=choices.of((_CAPACITIES[:2], _CAPACITIES[:4], _CAPACITIES[3:], _CAPACITIES)),
        required=choices.of((100, 8, 3)),
        selects=choices.of((100, 100, 6)),
        enabled=choices.of((*((True,),) * 9, (True, False), (False, True))),
        counts=choices.of(((None, 2, 1), (None, None, 2, 3), (2, 3, 5))),
        rising=choices.of((True, False)),
        topped=choices.of((True, True, True, False)),
        fillers=choices.of((1, 1, 2, 1, 3)),
        filled=choices.of((1, 2, 1)),
    )


def gangs_for_evictions(choices: Choices) -> GangTheme:
    """Make a theme for gangs that are small enough to be taken, and to take."""
    loose, strict = GangMode.NON_STRICT, GangMode.STRICT
    return GangTheme(
        names=GANGS[: choices.of((3, 4, 2, 4))],
        least=choices.of(((2,), (1, 2, 3), (2, 3), (1, 2))),
        modes=choices.of(((loose,), (None, strict), (None, loose))),
        lists=choices.of(((0,), (0, 0, 1), (0, 1, 1))),
        waits_us=choices.of(((None,), (None, 2 * SECOND_US, 5 * SECOND_US))),
        annotates=choices.of((64, 64, 4)),
        shapes=_SHAPES[:2],
        rising=False,
    )


def crowded(theme: Theme, choices: Choices) -> Theme:
    """Make a theme of plain scenarios one in which some have what others could claim."""
    kinds = choices.of((_PLAIN, _GANGS, _GANGS, _PLAIN + _UPHEAVALS, _GANGS + _UPHEAVALS))
    changes = ("configure",) * 2 if choices.one_in(4) else ()
    theme = attrs.evolve(
        theme,
        properties={**_properties(choices), **retrying(theme)},
        limits=choices.of((False, False, True)),
        guaranteed=not choices.one_in(8),
        max_applications=choices.of(((0,), (0,), (0,), (0, 0, 1, 2))),
        lists=False,
        templates=choices.one_in(6),
        hot=choices.of((3, 2, 4)),
        kinds=kinds + changes,
        priorities=choices.of(_PRIORITIES),
        classes=choices.of(_CLASSES),
        gaps_us=choices.of(_GAPS_US),
        run_for_us=choices.of(((None,), (None,), (*(None,) * 4, SECOND_US, 3 * SECOND_US))),
        types=choices.of((("vcore",), ("vcore",), ("vcore", "memory"))),
        widths=choices.of((_WIDE, _WIDE, WIDTHS)),
        guarantees=choices.of(((1, 2, None), (2, None, 3, 1, None, 4), (None, 1, 2, 0))),
    )
    return _reclaiming(theme) if choices.number(3) == 1 else theme


def _reclaiming(theme: Theme) -> Theme:
    """Without classes, nothing is taken but what others are guaranteed."""
    return attrs.evolve(
        theme, classes=(None,), guaranteed=True, guarantees=(2, 1, 3), priorities=(None, None, 1)
    )


def _properties(choices: Choices) -> dict[str, Texts]:
    policies: tuple[Texts, ...] = (_OFF, _OFF, _OFF, (None, "stateaware", "fair"))
    return {
        "application.sort.policy": choices.of(policies),
        "queue.create": choices.of((("enabled",), ("enabled",), ("enabled", None))),
        "application.sort.priority": choices.of((_OFF, _OFF, (None, "enabled", "disabled"))),
        "application.sort.blocking": choices.of((_OFF, _OFF, _OFF, (None, "enabled", "disabled"))),
        "priority.policy": choices.of((_OFF, _OFF, (None, None, "default", "fence"))),
        "priority.offset": choices.of((_OFF, _OFF, (None, None, "1", "-1", "5", "2147483647"))),
        "queue.priority": choices.of((_OFF, (None, "1", "2", "0"), (None, "1", "7"))),
        "queue.reclaimable": choices.of((_OFF, _OFF, (*(None,) * 4, "false", "true"))),
        "preemption.policy": choices.of(
            (
                _OFF,
                _OFF,
                _OFF,
                (*(None,) * 5, "fence"),
                (*(None,) * 7, "disabled", "fence", "default"),
            )
        ),
        "preemption.delay": choices.of(_DELAYS),
    }
