"""What a scenario is about in which an operator limits users, places applications and runs services."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.resources import Resources
from tests.naive.choices import Choices
from tests.naive.eviction_theme import EvictionTheme
from tests.naive.limit_strategies import LimitTheme
from tests.naive.theme import Texts, Theme

_USERS: Final = (("u1", "u2"), ("u1",), ("u1", "u2", "u3", None), (None, "u1", "u1"))
_GROUPS: Final[tuple[tuple[tuple[str, ...], ...], ...]] = (
    ((), ("g1",), ("g2", "g1")),
    ((),),
    (("g1",), ("g2", "g3"), ("g3", "g1"), ("g4",), ()),
)
_AMOUNTS: Final[tuple[tuple[int | None, ...], ...]] = (
    (2, 1, 3, 4, None),
    (1, 2),
    (3, 5, 0, 2, None),
)
_SERVED: Final[tuple[Texts, ...]] = (
    ("enabled",),
    ("enabled", "enabled", None, "disabled"),
    (None, "enabled"),
)
_CHANGES: Final = ("configure",) * 3
_COMING: Final = ("add_app",) * 3 + ("remove_app",)
_FULL: Final = ("fail_bind",) * 3 + ("bind_failed", "update_node") + ("release",) * 6
_SIZES: Final = tuple(Resources({"vcore": cores}) for cores in (1, 2, 3))
_LARGE: Final = tuple(Resources({"vcore": cores, "memory": 4}) for cores in (4, 5, 3))


@attrs.frozen
class OperatorTheme:
    """What the choices of an operator are made of; the simplest comes first in each.

    Attributes:
        limits: What limits are made of.
        rules: How many placement rules there are at most.
        services: Leaves have node services.
        users: Whose applications come.
        groups: The groups of these users.
        changed: How much more limits allow in each configuration after the first, or less;
            None is a configuration without any.
    """

    limits: LimitTheme
    rules: int = 0
    services: bool = False
    users: tuple[str | None, ...] = ("u1", "u2")
    groups: tuple[tuple[str, ...], ...] = ((), ("g1",))
    changed: tuple[int | None, ...] = (0,)


def operator_themed(choices: Choices) -> OperatorTheme:
    """Make a theme: about one thing mostly, or about all."""
    kind = choices.of((1, 2, 4, 3, 6, 5, 7))
    some = choices.of((True, True, False))
    both = choices.of((True, False, True))
    limits = LimitTheme(
        users=kind & 1 > 0 and (some or not both),
        groups=kind & 1 > 0 and (both or not some),
        entries=choices.of(((2, 1, 0), (1, 0, 2, 3), (1, 1, 0, 0))),
        amounts=choices.of(_AMOUNTS),
        apps=choices.of(((0,), (0, 0, 1, 2), (1, 2, 3, 0))),
    )
    return OperatorTheme(
        limits=limits,
        rules=choices.of((2, 1, 3)) if kind & 2 else 0,
        services=kind & 4 > 0,
        users=choices.of(_USERS),
        groups=choices.of(_GROUPS),
        changed=choices.of(((0, 1), (-1, 2), (1, None), (None, -1))),
    )


def governed(theme: Theme, operator: OperatorTheme, choices: Choices) -> Theme:
    """Make a theme for evictions one in which an operator governs."""
    kinds = theme.kinds
    properties = dict(theme.properties)
    if operator.services:
        properties["preemption.required.node"] = choices.of(_SERVED)
        kinds += _FULL
    if operator.limits.users or operator.limits.groups or operator.rules:
        kinds += choices.of(((), _CHANGES))
    if operator.rules:
        kinds += _COMING
        properties["queue.create"] = choices.of(((None,), (None, None, "disabled", "enabled")))
    return attrs.evolve(
        theme,
        kinds=kinds,
        properties=properties,
        lists=choices.one_in(3) if operator.rules else theme.lists,
        templates=theme.templates or (operator.rules > 0 and choices.one_in(2)),
        guaranteed=theme.guaranteed and choices.of((True, True, False)),
    )


def about(theme: EvictionTheme, operator: OperatorTheme, choices: Choices) -> EvictionTheme:
    """Make a theme of evictions one with node services, or with several applications each."""
    if operator.services:
        low: tuple[tuple[int | None, ...], ...] = (theme.low, (0, 2, -1, 1), (3, 1, None), (9,))
        theme = attrs.evolve(
            theme,
            required=choices.of((2, 3, 2)),
            low=choices.of(low),
            shapes=choices.of((_SIZES, theme.shapes, _SIZES[1:])),
            capacities=choices.of((theme.capacities, _LARGE)),
        )
    return attrs.evolve(theme, each=choices.of((2, 1, 3)), topped=choices.of((True, True, False)))
