"""What a scenario with gangs is about: which names, sizes, lists and waits collide in it."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.gangs import GangMode
from muster_core.resources import Resources
from tests.naive.choices import Choices
from tests.naive.theme import SECOND_US, Theme, retrying

GANGS: Final = ("default/g0", "default/g1", "default/g2", "other/g0", "default/g.3")

_ONE: Final = Resources({"vcore": 1})
_SHAPES: Final = (_ONE, Resources({"vcore": 2}), Resources({"memory": 1}), Resources({"gpu": 1}))
_KINDS: Final = (
    *("add_members",) * 14,
    *("settle",) * 6,
    *("add_node",) * 4,
    *("release",) * 4,
    *("bind_failed",) * 4,
    *("add_ask",) * 2,
    *("add_gang",) * 3,
    *("remove_ask",) * 2,
    *("apply_gang",) * 2,
    *("remove_gang", "fail_bind", "fail_gang", "fail_gang"),
    *("add_app", "remove_node", "update_node"),
)
_FEW_KINDS: Final = (
    *("add_members",) * 8,
    *("add_node",) * 4,
    *("settle",) * 4,
    *("release",) * 2,
    *("bind_failed",) * 2,
    *("add_gang",) * 2,
    *("add_ask", "apply_gang", "fail_bind", "fail_gang", "remove_ask"),
)
_OBJECTS: Final = (
    *("apply_pod",) * 4,
    *("apply_list",) * 3,
    *("delete_pod",) * 2,
    *("delete_gang", "delete_node", "apply_node", "apply_class", "delete_class"),
)
_UPHEAVALS: Final = ("remove_app", "remove_node", "update_node", "remove_gang", "refused")
_ASIDE: Final = (*("set_aside",) * 5, *("bind_failed",) * 3)
_GAPS_US: Final = (
    (*(0,) * 8, SECOND_US),
    (*(0,) * 4, SECOND_US, SECOND_US, 2 * SECOND_US, 1),
    (*(0,) * 8, 3 * SECOND_US, 5 * SECOND_US, 10 * SECOND_US, 30 * SECOND_US),
)
_WAITS_US: Final = (None, 2 * SECOND_US, 5 * SECOND_US, SECOND_US, 3 * SECOND_US, 1)
_STRICT: Final = GangMode.STRICT
_LOOSE: Final = GangMode.NON_STRICT


@attrs.frozen
class GangTheme:
    """What the choices about gangs are made of; the simplest comes first in each.

    Attributes:
        names: The names of the gangs.
        least: What ``min_member`` can be.
        modes: The modes.
        lists: How many gangs a list of a group names.
        waits_us: The waits.
        annotates: Members may say what defines their gang; one in so many does.
        rising: Members that come later have the higher priority, so that nobody is done
            before others begin.
        one_by_one: In the beginning gangs come one by one, and room for a part of each.
        shapes: What the members want.
    """

    names: tuple[str, ...]
    least: tuple[int, ...]
    modes: tuple[GangMode | None, ...]
    lists: tuple[int, ...]
    waits_us: tuple[int | None, ...]
    annotates: int
    shapes: tuple[Resources, ...]
    rising: bool
    one_by_one: bool = False


def gang_themed(choices: Choices) -> GangTheme:
    """Make a theme for gangs."""
    theme = GangTheme(
        names=GANGS[: choices.of((3, 2, 4, 5, 1))],
        least=choices.of(((2, 3), (1, 2, 3, 4), (3, 4, 5), (2,))),
        modes=choices.of(((_LOOSE,), (None, _STRICT), (_LOOSE, _LOOSE, None), (None, _LOOSE))),
        lists=choices.of(((0,), (0, 0, 1), (0, 1, 1, 2), (1, 2))),
        waits_us=choices.of(((None,), _WAITS_US, _WAITS_US[1:])),
        annotates=choices.of((64, 3, 2)),
        shapes=choices.of((_SHAPES[:1], _SHAPES[:2], _SHAPES)),
        rising=choices.one_in(3),
    )
    focus = choices.of((_anyhow, _starving, _staged))
    return focus(theme, choices)


def _anyhow(theme: GangTheme, _: Choices) -> GangTheme:
    return theme


def _starving(theme: GangTheme, choices: Choices) -> GangTheme:
    """Loose gangs, each of which gets a part of what it needs."""
    return attrs.evolve(
        theme,
        names=GANGS[: choices.of((3, 2, 4))],
        least=(3, 4, 5),
        modes=(_LOOSE,),
        lists=(0, 0, 0, 1),
        shapes=choices.of((_SHAPES[:1], _SHAPES[:1], _SHAPES)),
        rising=True,
        one_by_one=True,
    )


def _staged(theme: GangTheme, choices: Choices) -> GangTheme:
    """Groups whose gangs come one by one, each with a little more room."""
    return attrs.evolve(
        theme,
        names=GANGS[: choices.of((2, 3, 4))],
        least=(1, 2, 3),
        modes=(None, _STRICT, _LOOSE),
        lists=(1, 2),
        shapes=choices.of((_SHAPES[:1], _SHAPES[:1], _SHAPES)),
        one_by_one=True,
    )


def dense(theme: Theme, choices: Choices) -> Theme:
    """Make a theme of plain scenarios one for few and small things, with gangs."""
    kinds = choices.of(
        (
            *(_FEW_KINDS, _KINDS, _KINDS + _OBJECTS, _KINDS + _UPHEAVALS),
            *(_KINDS + _OBJECTS * 3, _KINDS + _ASIDE),
        )
    )
    changes = ("configure",) if choices.one_in(4) else ()
    if choices.one_in(2):
        theme = attrs.evolve(theme, properties=retrying(theme), limits=False, max_applications=(0,))
    return attrs.evolve(
        theme,
        lists=False,
        hot=choices.of((1, 2, 3)),
        kinds=kinds + changes,
        gaps_us=choices.of(_GAPS_US),
        priorities=choices.of(((None,), (None, None, 1), (None, 0, 1, 2, -1))),
        run_for_us=choices.of(((None,), (None, None, SECOND_US, 3 * SECOND_US))),
    )
