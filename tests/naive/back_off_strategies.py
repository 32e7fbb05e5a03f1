"""Hypothesis strategies for scenarios in which binds and work fail, and asks back off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, QueueConfig, Settings
from muster_core.events import BindFailed, FailBind, Outcome, Release
from tests.naive.eviction_strategies import (
    EvictionAssembly,
    EvictionTheme,
    crowded,
    enabled,
    eviction_themed,
    played,
)
from tests.naive.harness import Step, What
from tests.naive.state import Ask
from tests.naive.strategies import MESSAGES, configurations, settings_of
from tests.naive.theme import BIND_RETRY, SECOND_US, Choices, Texts, Theme, drawn, themed

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


_TIMES: Final = (1, 3, 2, 9)


class BackOffAssembly(EvictionAssembly):
    """Makes moves into steps, many of which say that something failed."""

    @override
    def what(self, kind: str, choices: Choices) -> What:
        """Return what a move means."""
        makers: dict[str, Callable[[list[Ask], Choices], What]] = {
            "work_failed": self._work_failed,
            "fails_again": self._fails_again,
            "gang_fails": self._gang_fails,
        }
        if kind in makers:
            bound = self.drive.model.world.bound()
            return makers[kind](bound, choices) if bound else super().what("add_ask", choices)
        what = super().what(kind, choices)
        if isinstance(what, FailBind):
            return attrs.evolve(what, times=choices.of(_TIMES))
        return what

    def _work_failed(self, bound: list[Ask], choices: Choices) -> What:
        """Return a bound ask whose work failed, mostly one that has a retry left."""
        fitting = [ask for ask in bound if ask.retries]
        if not fitting or choices.one_in(5):
            fitting = bound
        if choices.one_in(2):
            fitting = sorted(fitting, key=lambda ask: -ask.failed_binds)[:1]
        return _failed(choices.of(fitting), choices)

    def _fails_again(self, bound: list[Ask], choices: Choices) -> What:
        """Return a bound ask that failed, and let its next binds fail, too."""
        ask = choices.of(bound)
        self._put(FailBind(ask.app.name, ask.name, choices.of(_TIMES)))
        return _failed(ask, choices) if ask.retries else BindFailed(ask.app.name, ask.name)

    def _gang_fails(self, bound: list[Ask], choices: Choices) -> What:
        """Let all bound members of a gang fail, one of them for longer than the others."""
        members = [ask for ask in bound if ask.gang is not None]
        if not members:
            return super().what("add_members", choices)
        first = choices.of(members)
        if not choices.one_in(3):
            self._put(FailBind(first.app.name, first.name, choices.of(_TIMES)))
        for ask in members:
            if ask.gang == first.gang and ask is not first:
                self._put(BindFailed(ask.app.name, ask.name))
        return BindFailed(first.app.name, first.name)

    def _put(self, event: FailBind | BindFailed) -> None:
        """Append an event at the instant of the step before."""
        self.put(self.steps[-1].at_us, event)


def _failed(ask: Ask, choices: Choices) -> Release:
    return Release(ask.app.name, ask.name, Outcome.FAILED, choices.of(MESSAGES))


def retimed(config: Configuration, choices: Choices) -> Configuration:
    """Return a configuration that differs from another one in its delays alone."""
    texts = choices.of(DELAYS)
    return attrs.evolve(config, root=_retimed(config.root, texts, choices, None))


def _retimed(
    queue: QueueConfig, texts: Texts, choices: Choices, above: Settings | None
) -> QueueConfig:
    own = {name: text for name, text in queue.own_properties if name != BIND_RETRY}
    text = choices.of((*texts, None))
    if text is not None:
        own[BIND_RETRY] = text
    settings = settings_of(own, queue.path, above)
    return attrs.evolve(
        queue,
        own_properties=tuple(sorted(own.items())),
        settings=settings,
        children=tuple(_retimed(child, texts, choices, settings) for child in queue.children),
    )


@st.composite
def back_offs(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a whole scenario: a full cluster first, in which one thing after the other fails.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    theme = failing(crowded(themed(draw(drawn(24))), draw(drawn(26))), draw(drawn(4)))
    about = serving(eviction_themed(draw(drawn(12))), theme)
    configs = draw(configurations(theme))
    configs += [retimed(configs[0], draw(drawn(20))) for _ in range(2)]
    return draw(played(theme, about, enabled(configs, about), lists, BackOffAssembly))
