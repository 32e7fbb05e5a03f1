"""What a scenario is about in which binds and work fail: how long asks back off, and what then."""

from __future__ import annotations

from typing import Final

import attrs

from tests.naive.choices import Choices
from tests.naive.eviction_theme import EvictionTheme
from tests.naive.theme import BIND_RETRY, SECOND_US, Texts, Theme

DELAYS: Final[tuple[Texts, ...]] = (
    ("1s",),
    ("2s", "1s", None),
    (None, "1s", "0", "500ms"),
    ("1s", "10s", "1us"),
)
_KINDS: Final = (
    *("work_failed",) * 4,
    *("fails_again",) * 3,
    *("bind_failed",) * 2,
    *("fail_bind",) * 2,
    *("settle",) * 2,
    *("release", "configure"),
)
_GANGS: Final = (*("add_members",) * 4, *("gang_fails",) * 4, "fail_gang", "settle")
_GAPS_US: Final = (
    (*(0,) * 3, SECOND_US),
    (*(0,) * 4, SECOND_US, SECOND_US // 2, SECOND_US - 1, 2 * SECOND_US, 2 * SECOND_US + 1),
    (*(0,) * 4, SECOND_US, 4 * SECOND_US, 8 * SECOND_US, 70 * SECOND_US),
)
_STRICT: Final = "application.sort.blocking"
_POLICY: Final = "application.sort.policy"
_SERVED: Final = "preemption.required.node"


def failing(theme: Theme, choices: Choices) -> Theme:
    """Make a theme for evictions one in which much fails, and asks back off."""
    properties = {**theme.properties, BIND_RETRY: choices.of(DELAYS)}
    more = choices.of((_as_it_is, _blocking, _turns, _served, _as_it_is))
    kinds = theme.kinds + _KINDS
    if "add_members" in theme.kinds:
        kinds += _GANGS
    return attrs.evolve(
        theme,
        properties=more(properties),
        kinds=kinds,
        gaps_us=choices.of(_GAPS_US),
        retries=choices.of(((1, 2, 3, 0), (3,), (0, 1))),
    )


def _as_it_is(properties: dict[str, Texts]) -> dict[str, Texts]:
    return properties


def _blocking(properties: dict[str, Texts]) -> dict[str, Texts]:
    return {**properties, _STRICT: ("enabled", "enabled", None)}


def _turns(properties: dict[str, Texts]) -> dict[str, Texts]:
    return {**properties, _POLICY: ("stateaware", "stateaware", None)}


def _served(properties: dict[str, Texts]) -> dict[str, Texts]:
    return {**properties, _SERVED: ("enabled", "enabled", None)}


def serving(about: EvictionTheme, theme: Theme) -> EvictionTheme:
    """Let more asks require a node, where leaves have node services."""
    return attrs.evolve(about, required=2) if _SERVED in theme.properties else about
