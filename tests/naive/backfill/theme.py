"""What a scenario is about in which asks keep their order: who overtakes whom, and for how long."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.gangs import GangMode
from muster_core.resources import Resources
from tests.naive.choices import Choices
from tests.naive.eviction_theme import EvictionTheme
from tests.naive.gang_theme import GANGS, GangTheme
from tests.naive.limit_strategies import LimitTheme
from tests.naive.theme import SECOND_US, Texts, Theme

ORDER: Final = "scheduling.order"
DEPTH: Final = "backfill.depth"
ESTIMATE: Final = "estimate.default"

SERVED: Final = "preemption.required.node"

NAMES: Final = frozenset({ORDER, DEPTH, ESTIMATE})
"""The properties without which every queue is greedy."""

_OFF: Final[Texts] = (None,)
_ORDERS: Final[tuple[Texts, ...]] = (
    ("backfill",),
    ("backfill", None),
    (None, "backfill", None, "greedy"),
    ("backfill", "strict", None),
    (None, "strict"),
)
_DEPTHS: Final[tuple[Texts, ...]] = (_OFF, ("2",), (None, "2", "3", "1"), ("3", "100"))
_DEFAULTS: Final[tuple[Texts, ...]] = (_OFF, ("4s",), (None, "3s", "8s"), ("1s", None))
_SHAPES: Final = tuple(
    Resources(shape)
    for shape in (
        {"vcore": 1},
        {"vcore": 3},
        {"vcore": 2},
        {"vcore": 1, "memory": 2},
        {"vcore": 4, "memory": 1},
        {"memory": 2},
    )
)
_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 4, "memory": 4},
        {"vcore": 3, "memory": 3},
        {"vcore": 2, "memory": 3},
        {"vcore": 6, "memory": 4},
    )
)
_TIGHT: Final = tuple(Resources({"vcore": cores}) for cores in (4, 1, 2))
"""With these, whether all members of a gang find nodes hangs on who goes where."""

_WIDE: Final = ((2, 1, 3, 2), (0, 2, 0, 2, 3), (0, 2, 0), (0,), (0,))
_NARROW: Final = ((1, 2), (0, 0, 2), (0,), (0,), (0,))
_PLAIN: Final = (
    *("add_ask",) * 10,
    *("settle",) * 3,
    *("release",) * 2,
    *("add_app", "remove_ask", "bind_failed", "fail_bind"),
)
_GANGS: Final = (
    *("add_members",) * 6,
    *("add_ask",) * 5,
    *("settle",) * 3,
    *("release", "add_app", "add_gang", "remove_ask", "bind_failed", "fail_bind"),
)
_PARTIES: Final = (
    *("add_members",) * 8,
    *("add_ask",) * 3,
    *("settle",) * 4,
    *("release", "add_app", "fail_bind"),
)
_UPHEAVALS: Final = (
    *("remove_node", "update_node", "update_node", "add_node", "remove_app"),
    *("remove_gang", "apply_gang", "apply_pod", "fail_gang", "refused"),
)
_CHANGES: Final = ("configure",) * 2
_GAPS_US: Final = (
    (0, 0, SECOND_US),
    (*(0,) * 2, SECOND_US, SECOND_US, 2 * SECOND_US, 5 * SECOND_US),
    (*(0,) * 3, SECOND_US, SECOND_US - 1, 3 * SECOND_US, 8 * SECOND_US, 1),
)
_RUN_FOR_US: Final[tuple[tuple[int | None, ...], ...]] = (
    (4 * SECOND_US, 2 * SECOND_US, 7 * SECOND_US, SECOND_US),
    (3 * SECOND_US, None, 6 * SECOND_US, None, 10 * SECOND_US),
    (None, None, None, 5 * SECOND_US),
)
_FACTORS: Final = (
    (0.0,),
    (1.0,),
    (0.0, 1.0, 2.0, 0.5, 0.25),
    (0.5, 0.25, 1.0),
    (2.0, 0.0, 3.0),
)


@attrs.frozen
class Plans:
    """What of a scenario only backfill asks for; the simplest comes first in each.

    Attributes:
        factors: How long asks say that they run, in terms of how long they do; 0 is unsaid.
        honest: Nobody runs for longer than is expected.
        limits: What the limits of users and groups are made of, None without any.
        switches: Configurations follow that change the orders of queues alone.
        enabled: Preemption is.
        services: Asks that require a node are node services in some queues, and are more.
    """

    factors: tuple[float, ...]
    honest: bool
    limits: LimitTheme | None
    switches: bool
    enabled: bool
    services: bool


def planned(choices: Choices, *, honest: bool = False) -> Plans:
    """Make what only backfill asks for."""
    limits = LimitTheme(
        users=choices.of((True, True, False)),
        groups=choices.of((False, True, True)),
        entries=choices.of(((1, 0, 2), (0, 1))),
        amounts=choices.of(((3, 2, 4, None), (4, 6, 5))),
        apps=choices.of(((0,), (0, 0, 2, 1))),
    )
    return Plans(
        factors=choices.of(((1.0,), (0.0,), (1.0, 2.0, 3.0)) if honest else _FACTORS),
        honest=honest,
        limits=limits if choices.one_in(4) else None,
        switches=choices.one_in(4) and not honest,
        enabled=choices.one_in(3) and not honest,
        services=choices.one_in(5) and not honest,
    )


def ordered(theme: Theme, choices: Choices, *, honest: bool = False) -> Theme:
    """Make a theme for evictions one in which queues keep the order of their asks."""
    kinds = choices.of((_GANGS, _PLAIN, _PARTIES, _PLAIN + _UPHEAVALS, _GANGS + _UPHEAVALS))
    changes = _CHANGES if choices.one_in(3) else ()
    properties: dict[str, Texts] = {
        **theme.properties,
        ORDER: choices.of(_ORDERS),
        DEPTH: choices.of(_DEPTHS),
        ESTIMATE: choices.of((_OFF,) if honest else _DEFAULTS),
    }
    return attrs.evolve(
        theme,
        properties=properties,
        limits=choices.of((False, False, True)),
        guaranteed=choices.of((False, True, False)),
        max_applications=choices.of(((0,), (0,), (0,), (0, 0, 1, 2))),
        hot=choices.of((2, 1, 3)),
        kinds=(_GANGS if choices.one_in(2) else _PLAIN) if honest else kinds + changes,
        priorities=choices.of(((None,), (None, 0, 1, 2), (None, None, None, 3, -1))),
        classes=choices.of(((None,), (None,), (None, None, "high", "mid", "low"))),
        gaps_us=choices.of(_GAPS_US),
        run_for_us=choices.of(_RUN_FOR_US),
        selectors=({},),
        widths=choices.of((_NARROW, _WIDE, _WIDE)),
    )


def served(theme: Theme, about: EvictionTheme, choices: Choices) -> tuple[Theme, EvictionTheme]:
    """Make themes in which asks that require a node are often node services."""
    properties = {**theme.properties, SERVED: choices.of((("enabled",), (None, "enabled")))}
    return attrs.evolve(theme, properties=properties), attrs.evolve(about, required=3)


def mixed(choices: Choices) -> EvictionTheme:
    """Make a theme for small clusters that are full of asks that end."""
    packed = choices.one_in(3)
    theme = EvictionTheme(
        shapes=choices.of((_SHAPES[:2], _SHAPES[:3], _SHAPES)),
        capacities=choices.of((_CAPACITIES[:1], _CAPACITIES[:2], _CAPACITIES)),
        required=choices.of((100, 8, 100, 4)),
        selects=choices.of((100, 100, 6)),
        enabled=(True,),
        counts=choices.of(((None, 2), (None, None, 2, 3), (2, 3))),
        rising=False,
        topped=choices.of((True, False)),
        fillers=choices.of((1, 2, 3)),
        filled=choices.of((1, 1, 2)),
        each=choices.of((1, 2, 1)),
        low=(None, None, 0),
    )
    return attrs.evolve(theme, shapes=_TIGHT, capacities=_CAPACITIES[:1]) if packed else theme


def parties(choices: Choices) -> GangTheme:
    """Make a theme for gangs that wait for others to end."""
    loose, strict = GangMode.NON_STRICT, GangMode.STRICT
    return GangTheme(
        names=GANGS[: choices.of((3, 2, 4))],
        least=choices.of(((2,), (2, 3), (1, 2, 3))),
        modes=choices.of(((None,), (loose,), (strict, loose))),
        lists=choices.of(((0,), (0, 0, 1), (0, 1, 1))),
        waits_us=choices.of(((None,), (None, 3 * SECOND_US, 9 * SECOND_US))),
        annotates=64,
        shapes=_SHAPES[: choices.of((2, 3))],
        rising=choices.one_in(4),
    )
