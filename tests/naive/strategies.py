"""Hypothesis strategies for whole scenarios.

What is drawn are *moves*: small numbers that say which of the things known so far
is meant. The names are given when the moves are put together, in order, so that
taking a move away renames little and shrinking works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st

from muster_core.config.model import Configuration
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    AddPriorityClass,
    BindFailed,
    Configure,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations, paths
from tests.naive.harness import SETTLE, Drive, Played, Step, What
from tests.naive.scheduler import NaiveScheduler
from tests.naive.theme import Theme, themed

NODES: Final = ("n0", "n1", "N1", "n2")
MOVE_BYTES: Final = 18

#: The moves that are about a bound ask.
_OF_THE_BOUND: Final = frozenset({"release", "bind_failed"})

MESSAGES: Final = (None, None, None, "exit status 1", "")
"""What is said of the end of work."""

_SHAPES: Final = tuple(
    Resources(shape)
    for shape in (
        {"vcore": 1},
        {"vcore": 2},
        {"memory": 1},
        {"vcore": 1, "memory": 2},
        {"vcore": 3, "gpu": 1},
        {"gpu": 1},
    )
)
_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 9, "memory": 8, "gpu": 3},
        {"vcore": 5, "memory": 9, "gpu": 9},
        {"vcore": 20, "memory": 20, "gpu": 5},
        {"vcore": 4, "memory": 4},
        {"vcore": 3},
        {"vcore": 6, "memory": 3, "gpu": 1},
        {"vcore": 4, "memory": 4, "gpu": 2},
        {"memory": 7},
        {},
    )
)
_ATTRIBUTES: Final[tuple[dict[str, str], ...]] = ({}, {"zone": "x"}, {"zone": "y", "disk": "ssd"})
_TAGS: Final[tuple[dict[str, str], ...]] = (
    *({"other": "x"},) * 4,
    {"application.stateaware.disable": "true"},
    {"application.stateaware.disable": "false"},
)


class Assembly:
    """Makes moves into steps, in order.

    A naive scheduler follows along, so that most moves can be about something that
    is there: nearly every release of an ask drawn blindly would only be refused.
    """

    def __init__(self, theme: Theme, configs: list[Configuration]) -> None:
        self.theme = theme
        self.drive = Drive(NaiveScheduler())
        self.steps = Played(self.drive)
        self.configs = configs
        known = sorted({path for config in configs for path in paths(config.root)})
        leaves = [one for one in known if not any(other.startswith(one + ".") for other in known)]
        made = [f"{path}.{name}" for path in known for name in ("x", "y.a-1", "y")]
        odd = [known[-1].upper(), leaves[0].removeprefix("root."), "root..a", "root", "made.up", ""]
        first = [leaf for leaf in paths(configs[0].root) if leaf in leaves][: theme.hot] or leaves
        others = leaves * 2 + odd[:2] + (made * 2 if theme.templates else made[:1])
        self._queues = first * (1 + 2 * len(others) // len(first)) + others + odd
        self.apps = 0
        self._asks = 0

    def put(self, at_us: int, what: What) -> None:
        """Append a step."""
        self.steps.play(Step(at_us, what))

    def what(self, kind: str, choices: Choices) -> What:
        """Give what a move means."""
        makers: dict[str, Callable[[Choices], What]] = {
            "settle": lambda _: SETTLE,
            "refused": lambda _: "a field that nobody knows",
            "configure": lambda choices: Configure(choices.of(self.configs)),
            "add_ask": self._add_ask,
            "add_app": self.add_app,
            "remove_app": lambda choices: RemoveApp(self.some_app(choices)),
            "add_priority_class": _add_priority_class,
        }
        if kind in makers:
            return makers[kind](choices)
        if kind.endswith("_node"):
            return self._about_a_node(kind, choices)
        world = self.drive.model.world
        nothing = not (world.bound() if kind in _OF_THE_BOUND else world.pending())
        if nothing and not choices.one_in(16):
            return self._add_ask(choices)
        return self._about_an_ask(kind, choices)

    def add_app(self, choices: Choices) -> What:
        """Give an application that comes, mostly with a new name."""
        again = choices.one_in(4)
        name = self.some_app(choices) if again else f"p{self.apps}"
        self.apps += not again
        queue = self._queues[(choices.number(256) * 256 + choices.number(256)) % len(self._queues)]
        if not queue:  # Of that no event can be made; whoever reads it refuses it.
            return "queue: '' is empty"
        return AddApp(
            app=name,
            queue=queue,
            user=choices.of(("u1", "u1", "u2", None)),
            groups=choices.of(((), ("g1",), ("g2", "g1"))),
            tags=choices.of(_TAGS),
        )

    def some_app(self, choices: Choices) -> str:
        """Give an application, nearly always one that has not completed."""
        world = self.drive.model.world
        odd = choices.one_in(16)
        apps = [*world.apps, "missing"] if odd else [app.name for app in world.in_queues()]
        return choices.of(apps or ["missing"])

    def _add_ask(self, choices: Choices) -> What:
        if not self.drive.model.world.in_queues() and not choices.one_in(16):
            return self.add_app(choices)
        app, name = self.some_app(choices), f"k{self._asks}"
        self._asks += 1
        if choices.one_in(12):
            app, name = self.some_ask(choices, bound=None)
        return AddAsk(
            app=app,
            ask=name,
            resources=choices.of(_SHAPES),
            priority=choices.of(self.theme.priorities),
            priority_class=choices.of(self.theme.classes),
            count=choices.of((None, 2, 3, 5, 1)),
            node=choices.of((*(None,) * 40, *NODES)),
            selector=choices.of(self.theme.selectors),
            run_for_us=choices.of(self.theme.run_for_us),
            retries=choices.of(self.theme.retries),
        )

    def some_ask(self, choices: Choices, bound: bool | None) -> tuple[str, str]:
        """Give an ask, nearly always a bound one or a pending one as is wanted."""
        world = self.drive.model.world
        unbound = [ask for ask in world.asks() if ask.place is not AskPlace.BOUND]
        fitting = [] if bound is True else list(unbound)
        fitting += [] if bound is False else world.bound()
        if choices.one_in(16):
            fitting = world.bound() + unbound
        names = [(ask.app.name, ask.name) for ask in fitting]
        return choices.of(names or [(self.some_app(choices), "missing")])

    def _about_an_ask(self, kind: str, choices: Choices) -> What:
        app, ask = self.some_ask(choices, bound=kind in _OF_THE_BOUND)
        if kind == "release":
            return Release(app, ask, choices.of(self.theme.outcomes), choices.of(MESSAGES))
        if kind == "bind_failed":
            return BindFailed(app, ask, choices.of(MESSAGES))
        if kind == "remove_ask":
            return RemoveAsk(app, ask)
        newest = sorted(self.drive.model.world.pending(), key=lambda ask: -ask.creation[0])[:3]
        if newest and not choices.one_in(8):
            app, ask = choices.of([(one.app.name, one.name) for one in newest])
        return FailBind(app, ask, times=choices.of((1, 1, 2)))

    def _about_a_node(self, kind: str, choices: Choices) -> What:
        there = self.drive.model.world.nodes
        wanted = [*there] if kind != "add_node" else [name for name in NODES if name not in there]
        node = choices.of(NODES if choices.one_in(16) else (wanted or NODES))
        if kind == "remove_node":
            return RemoveNode(node)
        if kind == "add_node":
            return AddNode(
                node=node,
                capacity=choices.of(_CAPACITIES),
                attributes=choices.of(_ATTRIBUTES),
                schedulable=not choices.one_in(6),
            )
        return UpdateNode(
            node=node,
            capacity=choices.of((None, None, *_CAPACITIES)),
            attributes=choices.of((None, None, *_ATTRIBUTES)),
            schedulable=choices.of((None, True, False)),
        )


def _add_priority_class(choices: Choices) -> AddPriorityClass:
    return AddPriorityClass(
        name=choices.of(("low", "high")),
        value=choices.of((0, 1, 7, 1_000_000_000, -5)),
        preempts=choices.one_in(2),
    )


def _lists(at_least: int, at_most: int) -> st.SearchStrategy[list[Choices]]:
    return st.lists(drawn(MOVE_BYTES), min_size=at_least, max_size=at_most)


@st.composite
def scenarios(draw: st.DrawFn, lists: int = 6) -> list[Step]:
    """Draw a whole scenario: a configuration, nodes and applications, then anything.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning. Hypothesis
            makes one long list short too often, while several shrink as well.
    """
    theme = themed(draw(drawn(24)))
    configs = draw(configurations(theme))
    assembly = Assembly(theme, configs)
    if not draw(drawn(1)).one_in(16):
        assembly.put(0, Configure(configs[0]))
    for kind, least, most in (("add_node", 1, 4), ("add_app", 2, 7), ("add_ask", 0, 12)):
        for choices in draw(_lists(least, most)):
            assembly.put(0, assembly.what(kind, choices))
    at_us = 0
    for choices in (choices for _ in range(lists) for choices in draw(_lists(0, 10))):
        kind, gap_us = choices.of(theme.kinds), choices.of(theme.gaps_us)
        at_us += gap_us
        assembly.put(at_us, assembly.what(kind, choices))
    return assembly.steps
