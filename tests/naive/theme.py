"""What a scenario is about: some features on, the others off, chosen out of a few drawn bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import attrs
from hypothesis import strategies as st

from muster_core.events import Outcome

T = TypeVar("T")


class Choices:
    """Hands out one choice per byte.

    Args:
        drawn: The bytes; when they are used up every further choice is the simplest.
    """

    def __init__(self, drawn: bytes) -> None:
        self._drawn = drawn
        self._next = 0

    def number(self, below: int) -> int:
        """Return a number from 0, less than ``below`` (at most 256)."""
        byte = self._drawn[self._next] if self._next < len(self._drawn) else 0
        self._next += 1
        return byte % below

    def of(self, options: Sequence[T]) -> T:
        """Return one of some options, the simplest of which comes first."""
        return options[self.number(len(options))]

    def one_in(self, chances: int) -> bool:
        """Return True once in so many times."""
        return self.number(chances) == chances - 1


def drawn(size: int) -> st.SearchStrategy[Choices]:
    """Draw so many choices at once."""
    return st.binary(min_size=size, max_size=size).map(Choices)


SECOND_US: Final = 1_000_000
TYPES: Final = ("vcore", "memory", "gpu")
GUARANTEES: Final = (*(None,) * 5, *range(4, -1, -1))
WIDTHS: Final = ((1, 2, 3, 2), (0, 1, 2, 2), (0, 0, 1, 2), (0, 0, 1), (0,))

_PRIORITIES: Final = (
    (None,),
    (None, 0, 1, 2),
    (None, None, 0, 1, 1, 2, 5, -1, 1_000_000_000, 2**31 - 1, -(2**31)),
)
_OFFSETS: Final = (
    *("0", "1", "-1", "5", "", "-5", "+3"),
    *("2147483647", "-2147483648", "x", "2147483648"),
)
_GAPS_US: Final = (
    (*(0,) * 6, SECOND_US),
    (*(0,) * 16, SECOND_US),
    (*(0,) * 8, *(SECOND_US,) * 4, 1, 10 * SECOND_US, 20 * SECOND_US, 30 * SECOND_US),
    (
        *(0,) * 24,
        *(30 * SECOND_US, 30 * SECOND_US - 1, 30 * SECOND_US + 1),
        *(270 * SECOND_US, 299 * SECOND_US, 300 * SECOND_US),
    ),
)
_RUN_FOR_US: Final = (
    (None,),
    (None, None, None, 10 * SECOND_US, SECOND_US, 1, 30 * SECOND_US, 300 * SECOND_US),
)
_NONE: Final[dict[str, str]] = {}
_SELECTORS: Final[tuple[tuple[dict[str, str], ...], ...]] = (
    (_NONE,),
    (*(_NONE,) * 6, {"zone": "x"}, {"disk": "ssd"}, {"zone": "y", "disk": "ssd"}),
)
_CLASSES: Final = (
    (None,),
    (
        *(None,) * 12,
        *("low", "high", "low", "high", "missing"),
        *("system-node-critical", "system-cluster-critical"),
    ),
)
_KINDS: Final = (
    *("add_ask",) * 18,
    *("release",) * 6,
    *("bind_failed",) * 3,
    *("settle",) * 2,
    *("add_app",) * 4,
    *("remove_ask",) * 2,
    *("add_node", "remove_app", "fail_bind", "add_priority_class", "refused"),
)
_UPHEAVALS: Final = ("remove_node", "update_node", "update_node", "configure", "configure")

_POLICY: Final = "application.sort.policy"
_BY_PRIORITY: Final = "application.sort.priority"
_STRICT: Final = "application.sort.blocking"

_SECOND_TRY: Final = "gang.second.try"
BIND_RETRY: Final = "bind.retry.delay"
"""The property that says how long asks back off."""

Texts = tuple[str | None, ...]
_OFF: Final[Texts] = (None,)

_DELAYS: Final[tuple[Texts, ...]] = (
    *(_OFF,) * 5,
    ("1s", "2s", None),
    (None, "500ms", "0", "10s", "1us"),
)
_COMPLETED: Final = Outcome.COMPLETED
_OUTCOMES: Final = (
    (_COMPLETED,),
    (*(_COMPLETED,) * 3, Outcome.FAILED),
    (*(_COMPLETED,) * 3, Outcome.FAILED, Outcome.CANCELLED),
)


@attrs.frozen
class Theme:
    """What the choices of one scenario are made of; the simplest comes first in each.

    Attributes:
        properties: The values of each property of a queue; None is not named.
        limits: Queues have a ``max``.
        guaranteed: Queues have a ``guaranteed``.
        max_applications: The limits of applications.
        lists: Queues have access lists.
        templates: Queues have templates, and applications make queues.
        hot: How many leaves most applications go to.
        kinds: The kinds of moves.
        types: The types that a ``max`` or ``guaranteed`` may name.
        widths: How many children a queue has, level by level.
        guarantees: What a ``guaranteed`` may name of a type.
        retries: How often the work of asks may fail.
        outcomes: How the work of bound asks ends.
    """

    properties: dict[str, Texts]
    limits: bool
    guaranteed: bool
    max_applications: tuple[int, ...]
    lists: bool
    templates: bool
    hot: int
    kinds: tuple[str, ...]
    priorities: tuple[int | None, ...]
    classes: tuple[str | None, ...]
    gaps_us: tuple[int, ...]
    run_for_us: tuple[int | None, ...]
    selectors: tuple[dict[str, str], ...]
    types: tuple[str, ...] = TYPES
    widths: tuple[tuple[int, ...], ...] = WIDTHS
    guarantees: tuple[int | None, ...] = GUARANTEES
    retries: tuple[int, ...] = (0,)
    outcomes: tuple[Outcome, ...] = (Outcome.COMPLETED,)


def themed(choices: Choices) -> Theme:
    """Make a theme: one that some rule needs to be reached often, or any."""
    focus = choices.of((_as_it_is, _state_aware, _fair, _shares, _nodes, _made, _few, _blocking))
    policies: tuple[Texts, ...] = (_OFF, ("fair",), ("stateaware",), (None, "fifo", "fair"))
    switch: Texts = (None, None, "enabled", "disabled")
    properties: dict[str, Texts] = {
        _POLICY: choices.of((*policies, ("stateaware", None, "fair"))),
        _BY_PRIORITY: choices.of((_OFF, switch, ("disabled",))),
        _STRICT: choices.of((_OFF, _OFF, switch)),
        "priority.policy": choices.of((_OFF, _OFF, (None, None, "default", "fence"))),
        "priority.offset": choices.of((_OFF, _OFF, (*(None,) * 4, *_OFFSETS))),
        "queue.priority": choices.of((_OFF, _OFF, (None, "0", "1", "7", "2147483647"))),
        "queue.create": choices.of((_OFF, ("enabled",), ("enabled",), (None, *switch))),
        _SECOND_TRY: choices.of((_OFF, ("enabled",))),  # Only that of the root counts.
    }
    theme = Theme(
        properties=properties,
        limits=choices.one_in(2),
        guaranteed=choices.one_in(2),
        max_applications=choices.of(((0,), (0, 0, 1, 2))),
        lists=choices.one_in(6),
        templates=choices.one_in(3),
        hot=choices.of((2, 1, 2, 4)),
        kinds=choices.of((_KINDS, _KINDS + _UPHEAVALS)),
        priorities=choices.of(_PRIORITIES),
        classes=choices.of((*_CLASSES[:1] * 3, *_CLASSES[1:])),
        gaps_us=choices.of(_GAPS_US),
        run_for_us=choices.of(_RUN_FOR_US),
        selectors=choices.of(_SELECTORS),
    )
    return _fallible(focus(theme), choices)


def _fallible(theme: Theme, choices: Choices) -> Theme:
    """Let work fail now and then, and asks back off in some scenarios."""
    return attrs.evolve(
        theme,
        properties=_with(theme, BIND_RETRY, choices.of(_DELAYS)),
        retries=choices.of(((0,), (0, 0, 1), (3, 1, 0))),
        outcomes=choices.of(_OUTCOMES),
    )


def retrying(theme: Theme) -> dict[str, Texts]:
    """Return of the properties of a theme those that say how asks and groups are tried again."""
    kept = {BIND_RETRY, _SECOND_TRY}
    return {name: texts for name, texts in theme.properties.items() if name in kept}


def _as_it_is(theme: Theme) -> Theme:
    return theme


def _with(theme: Theme, name: str, values: Texts) -> dict[str, Texts]:
    return {**theme.properties, name: values}


def _state_aware(theme: Theme) -> Theme:
    """Many applications in one leaf, in all states; nothing else that keeps them out."""
    properties = {**_with(theme, _POLICY, ("stateaware",)), _STRICT: _OFF}
    return attrs.evolve(
        theme, properties=properties, limits=False, max_applications=(0,), lists=False, hot=1
    )


def _fair(theme: Theme) -> Theme:
    """Applications of one priority, with unlike usage of several types."""
    properties = {**_with(theme, _POLICY, ("fair",)), _STRICT: _OFF}
    return attrs.evolve(
        theme,
        properties=properties,
        limits=False,
        guaranteed=True,
        max_applications=(0,),
        lists=False,
        hot=1,
        priorities=(None,),
    )


def _shares(theme: Theme) -> Theme:
    """Queues that only their shares tell apart."""
    return attrs.evolve(
        theme,
        properties={_BY_PRIORITY: theme.properties[_BY_PRIORITY]},
        limits=True,
        guaranteed=True,
        max_applications=(0,),
        lists=False,
        hot=4,
        priorities=(None,),
    )


def _nodes(theme: Theme) -> Theme:
    """Nodes that come and go below a few applications."""
    return attrs.evolve(
        theme,
        properties={},
        limits=False,
        lists=False,
        hot=1,
        kinds=_KINDS + ("add_node", "remove_node", "remove_node", "update_node") * 2,
        classes=(None,),
    )


def _made(theme: Theme) -> Theme:
    """Queues made on the fly, and configurations that change around them."""
    properties = _with(theme, _BY_PRIORITY, (None, "enabled", "disabled"))
    return attrs.evolve(
        theme,
        properties=properties,
        templates=True,
        lists=False,
        hot=2,
        kinds=_KINDS + _UPHEAVALS * 2,
    )


def _few(theme: Theme) -> Theme:
    """Limits of applications everywhere."""
    return attrs.evolve(
        theme, max_applications=(0, 1, 2), lists=False, kinds=_KINDS + _UPHEAVALS, hot=3
    )


def _blocking(theme: Theme) -> Theme:
    """Strict leaves with quotas, and binds that fail, at once or later."""
    return attrs.evolve(
        theme,
        properties=_with(theme, _STRICT, ("enabled", "enabled", None)),
        limits=True,
        max_applications=(0,),
        lists=False,
        hot=1,
        kinds=_KINDS + ("fail_bind",) * 5 + ("bind_failed",) * 3,
    )
