"""Hypothesis strategies for scenarios in which gangs stand among plain asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, DeadlockPolicy
from muster_core.events import (
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    AppliedObject,
    Apply,
    BindFailed,
    Configure,
    Delete,
    FailBind,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    PodObject,
    RemoveGang,
)
from muster_core.gangs import NO_FIELDS, GangFields, GangMode
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from tests.naive.gangs import members
from tests.naive.harness import SETTLE, Step, What
from tests.naive.picture import INT32_MAX
from tests.naive.state import Ask, Gang
from tests.naive.strategies import Assembly, configurations
from tests.naive.theme import SECOND_US, Choices, Theme, drawn, retrying, themed

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
_SIZES: Final = ((1, 1, 4), (1, 2, 2, 3), (1, 1, 3, 3), (2, 1, 3, 2), (1, 1, 2, 4), (1, 4))
_ROOM: Final = (4, 4, 3, 5, 2)
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
        sizes: The cores that the members of a gang want that comes in the beginning; if there are
            none they want the same.
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
    sizes: tuple[tuple[int, ...], ...] = ()


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
    focus = choices.of((_anyhow, _starving, _staged, _uneven))
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


def _uneven(theme: GangTheme, choices: Choices) -> GangTheme:
    """Strict groups whose members differ in size, so that it matters which node each of them takes."""
    return attrs.evolve(
        theme,
        names=GANGS[: choices.of((2, 1, 3))],
        modes=(_STRICT, None, None, _LOOSE),
        lists=choices.of(((0,), (0, 1))),
        sizes=_SIZES,
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


NODES: Final = tuple(f"n{number}" for number in range(7))
MOVE_BYTES: Final = 32
BOUND: Final = AskPlace.BOUND

_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 3, "memory": 2, "gpu": 1},
        {"vcore": 2},
        {"vcore": 4, "memory": 4, "gpu": 4},
        {"vcore": 1, "memory": 9},
        {"vcore": 3},
        {"vcore": 5, "memory": 3},
    )
)
_SMALL: Final = tuple(
    Resources(capacity)
    for capacity in ({"vcore": 2}, {"vcore": 3}, {"vcore": 1, "memory": 1}, {"vcore": 4, "gpu": 1})
)
_ROOTS: Final = (
    (600 * SECOND_US, DeadlockPolicy.RESOLVE),
    (4 * SECOND_US, DeadlockPolicy.RESOLVE),
    (8 * SECOND_US, DeadlockPolicy.RESOLVE),
    (600 * SECOND_US, DeadlockPolicy.REPORT),
)


class GangAssembly(Assembly):
    """Makes moves into steps, gangs among them."""

    def __init__(self, theme: Theme, gangs: GangTheme, configs: list[Configuration]) -> None:
        super().__init__(theme, configs)
        self._gangs = gangs
        self._members = 0

    @override
    def what(self, kind: str, choices: Choices) -> What:
        """Return what a move means."""
        makers: dict[str, Callable[[Choices], What]] = {
            "add_members": self.add_members,
            "add_gang": self.add_gang,
            "remove_gang": lambda choices: RemoveGang(self._known_gang(choices)),
            "apply_gang": lambda choices: _applied(self._gang_object(choices)),
            "apply_pod": lambda choices: _applied(self._pod(choices)),
            "apply_node": lambda choices: _applied(self._node(choices)),
            "apply_class": lambda choices: _applied(_class(choices)),
            "apply_list": self._list,
            "add_node": self._some_node,
            "bind_failed": self._failed_bind,
            "fail_gang": self._fail_gang,
            "set_aside": self._set_aside,
        }
        if kind in makers:
            return makers[kind](choices)
        if kind.startswith("delete_"):
            return self._deletion(kind, choices)
        return super().what(kind, choices)

    def add_gang(self, choices: Choices) -> What:
        """Return a gang that comes, mostly one that has no object yet."""
        gangs = self.drive.model.world.gangs
        free = [
            name for name in self._gangs.names if name not in gangs or gangs[name].manifest is None
        ]
        if not free and not choices.one_in(12):
            return _applied(self._gang_object(choices))
        name = choices.of(free if free and not choices.one_in(12) else self._gangs.names)
        return AddGang(name, self._fields(choices))

    def add_members(self, choices: Choices) -> What:
        """Return members of a gang that come, to the same application or to another one."""
        if not self.drive.model.world.in_queues() and not choices.one_in(16):
            return self.add_app(choices)
        return self._ask_of(choices, count=choices.of((2, 1, None, 3, 4, 1, 2, 5)))

    def come(self, name: str, choices: Choices) -> None:
        """Let a gang come with its members, and a node for some of them."""
        if not self.drive.model.world.in_queues():
            return
        gang = AddGang(name, self._fields(choices))
        if self._gangs.sizes:
            self._come_unevenly(gang, choices)
            return
        count = (gang.says.min_member or 1) + choices.of((0, 0, 1))
        ask = attrs.evolve(self._ask_of(choices, count), gang=name, node=None, timed_out=False)
        self.put(0, gang)
        self.put(0, ask)
        self.put(0, attrs.evolve(self._add_node(choices), capacity=choices.of(_SMALL)))
        self.put(0, SETTLE)

    def _come_unevenly(self, gang: AddGang, choices: Choices) -> None:
        """Let a gang come with members of several sizes, and two nodes on which they may fit."""
        for _ in range(2):
            room = Resources({"vcore": choices.of(_ROOM)})
            self.put(0, attrs.evolve(self._add_node(choices), capacity=room))
        sizes = choices.of(self._gangs.sizes)
        self.put(
            0, attrs.evolve(gang, says=attrs.evolve(gang.says, min_member=len(sizes), total=None))
        )
        for cores in sizes:
            ask = attrs.evolve(self._ask_of(choices, None), gang=gang.gang, timed_out=False)
            self.put(0, attrs.evolve(ask, resources=Resources({"vcore": cores})))
        self.put(0, SETTLE)

    def _ask_of(self, choices: Choices, count: int | None) -> AddAsk:
        name = choices.of(self._gangs.names)
        self._members += 1
        priority = choices.of(self.theme.priorities)
        if self._gangs.rising and not choices.one_in(4):
            priority = self._members
        return AddAsk(
            app=self.some_app(choices),
            ask=f"m{self._members}",
            resources=choices.of(self._gangs.shapes),
            priority=priority,
            count=count,
            node=choices.of((*(None,) * 40, *NODES[:3])),
            run_for_us=choices.of(self.theme.run_for_us),
            gang=name,
            says=self._says(name, choices),
            timed_out=choices.one_in(60),
            retries=choices.of(self.theme.retries),
        )

    def _fields(self, choices: Choices) -> GangFields:
        theme = self._gangs
        least = choices.of(theme.least)
        return GangFields(
            min_member=least,
            total=choices.of((None, None, None, least + 1, least + 3)),
            mode=choices.of(theme.modes),
            wait_us=choices.of(theme.waits_us),
            groups=self._others(choices),
        )

    def _others(self, choices: Choices) -> tuple[str, ...] | None:
        chosen = {choices.of(self._gangs.names) for _ in range(choices.of(self._gangs.lists))}
        return tuple(sorted(chosen)) or choices.of((None, None, ()))

    def _says(self, name: str, choices: Choices) -> GangFields:
        """Return what annotations say, mostly what those of other members say too."""
        if not choices.one_in(self._gangs.annotates):
            return NO_FIELDS
        world = self.drive.model.world
        fields = NO_FIELDS
        for ask in members(world, world.gangs.get(name, Gang(name))):
            fields = fields.over(ask.says)
        new = self._fields(choices)
        if choices.one_in(3):
            new = attrs.evolve(new, min_member=None, total=choices.of((None, new.total)))
        both = new if choices.one_in(6) else fields.over(new)
        too_few = (both.total or INT32_MAX) < (both.min_member or 1)  # No event can say that.
        return attrs.evolve(both, total=None) if too_few else both

    def _known_gang(self, choices: Choices) -> str:
        names = list(self.drive.model.world.gangs)
        return choices.of(names if names and not choices.one_in(12) else self._gangs.names)

    def _gang_object(self, choices: Choices) -> AddGang:
        return AddGang(self._known_gang(choices), self._fields(choices))

    def _some_node(self, choices: Choices) -> What:
        full = all(name in self.drive.model.world.nodes for name in NODES)
        return SETTLE if full and not choices.one_in(8) else self._add_node(choices)

    def _add_node(self, choices: Choices) -> AddNode:
        there = self.drive.model.world.nodes
        free = [name for name in NODES if name not in there]
        return AddNode(
            node=choices.of(free or NODES),
            capacity=choices.of(_CAPACITIES),
            schedulable=not choices.one_in(10),
        )

    def _node(self, choices: Choices) -> NodeObject:
        return NodeObject(
            node=choices.of(NODES),
            capacity=choices.of((*_CAPACITIES, None)),
            attributes=choices.of(({}, {"zone": "x"})),
            schedulable=not choices.one_in(4),
        )

    def _pod(self, choices: Choices) -> PodObject:
        world = self.drive.model.world
        ask = self._ask_of(choices, count=None)
        if choices.one_in(3):
            ask = attrs.evolve(ask, gang=None, says=NO_FIELDS, timed_out=False)
        if choices.one_in(5):
            ask = attrs.evolve(ask, app=f"made{choices.number(2)}")
        elif choices.one_in(5):
            app, name = self.some_ask(choices, bound=None)
            ask = attrs.evolve(ask, app=app, ask=name)
        finished = choices.one_in(5)
        ask = attrs.evolve(ask, count=None, run_for_us=None)
        return PodObject(
            app=ask.app,
            name=ask.ask,
            queue=choices.of([app.queue for app in world.in_queues()] or ["root.default"]),
            ask=None if finished or choices.one_in(16) else ask,
            node=choices.of((None, None, None, *NODES)),
            finished=finished,
        )

    def _list(self, choices: Choices) -> What:
        """Return a list of objects, which mostly belong together."""
        makers: tuple[Callable[[Choices], AppliedObject], ...] = (
            self._pod,
            self._pod,
            self._gang_object,
            self._node,
            _class,
        )
        objects = [choices.of(makers)(choices) for _ in range(2 + choices.number(2))]
        return Apply(
            tuple(Manifest(one, f"manifest.items[{place}]") for place, one in enumerate(objects))
        )

    def _failed_bind(self, choices: Choices) -> What:
        """Return a bound ask that could not be started, rather of a gang that is set aside."""
        parked = [ask for ask in self._bound_members() if self._gang_of(ask).timed_out]
        if not parked or choices.one_in(4):
            return super().what("bind_failed", choices)
        ask = choices.of(parked)
        return BindFailed(ask.app.name, ask.name)

    def _fail_gang(self, choices: Choices) -> What:
        """Let the next binds of all members of a gang fail, or of nearly all of them."""
        world = self.drive.model.world
        unbound = [ask for ask in world.asks() if ask.gang is not None and ask.place is not BOUND]
        if not unbound:
            return self.add_members(choices)
        name = choices.of(unbound).gang
        asks = [ask for ask in unbound if ask.gang == name]
        spared = choices.of((0, 0, 0, 1))
        events = [FailBind(ask.app.name, ask.name) for ask in asks[min(spared, len(asks) - 1) :]]
        for event in events[:-1]:
            self.put(self.steps[-1].at_us, event)
        return events[-1]

    def _set_aside(self, choices: Choices) -> What:
        """Lead a gang with bound members to where it has timed out, one step at a time."""
        bound = [ask for ask in self._bound_members() if not self._gang_of(ask).timed_out]
        if not bound:
            return self._failed_bind(choices)
        gang = self._gang_of(choices.of(bound))
        if gang.satisfied:
            return RemoveGang(gang.name)
        if gang.definition is None and choices.one_in(2):
            return AddGang(gang.name, self._fields(choices))
        ask = self._ask_of(choices, count=None)
        return attrs.evolve(ask, gang=gang.name, says=NO_FIELDS, timed_out=True)

    def _bound_members(self) -> list[Ask]:
        return [ask for ask in self.drive.model.world.bound() if ask.gang is not None]

    def _gang_of(self, ask: Ask) -> Gang:
        return self.drive.model.world.gangs[ask.gang or ""]

    def _deletion(self, kind: str, choices: Choices) -> What:
        if kind == "delete_pod":
            app, name = self.some_ask(choices, bound=None)
            return _deleted(ObjectName(ObjectKind.POD, name, app))
        if kind == "delete_gang":
            return _deleted(ObjectName(ObjectKind.POD_GROUP, self._known_gang(choices)))
        if kind == "delete_node":
            return _deleted(ObjectName(ObjectKind.NODE, choices.of(NODES)))
        return _deleted(ObjectName(ObjectKind.PRIORITY_CLASS, choices.of(("low", "high"))))


def _applied(content: AppliedObject) -> Apply:
    return Apply((Manifest(content),))


def _deleted(content: ObjectName) -> Delete:
    return Delete((Manifest(content),))


def _class(choices: Choices) -> AddPriorityClass:
    return AddPriorityClass(choices.of(("low", "high")), choices.of((0, 1, 7, -5)))


def _rooted(config: Configuration, choices: Choices) -> Configuration:
    """Give a configuration waits and a policy for deadlocks, as its root would have them."""
    wait_us, policy = choices.of(_ROOTS)
    retry_s, limit = choices.of((0, 0, 1, 3)), choices.of((10, 1, 2))
    root = config.root
    own = {
        **dict(root.own_properties),
        "gang.wait.time": f"{wait_us // SECOND_US}s",
        "gang.deadlock.policy": policy.value,
        "gang.retry.delay": f"{retry_s}s",
        "gang.retry.limit": f"{limit}",
    }
    settings = attrs.evolve(
        root.settings,
        gang_wait_us=wait_us,
        deadlock_policy=policy,
        gang_retry_us=retry_s * SECOND_US,
        gang_retry_limit=limit,
    )
    root = attrs.evolve(root, settings=settings, own_properties=tuple(sorted(own.items())))
    return attrs.evolve(config, root=root)


_BEGINNING: Final = (
    ("add_node", 1, 2),
    ("add_app", 1, 4),
    ("add_gang", 1, 4),
    ("add_members", 1, 8),
    ("add_ask", 0, 3),
)
_STARVED: Final = (("add_app", 1, 4),)


@st.composite
def gang_scenarios(draw: st.DrawFn, lists: int = 5) -> list[Step]:
    """Draw a whole scenario: a configuration, nodes, applications and gangs, then anything.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    theme = dense(themed(draw(drawn(24))), draw(drawn(12)))
    choices = draw(drawn(12))
    configs = [_rooted(config, choices) for config in draw(configurations(theme))]
    gangs = gang_themed(draw(drawn(12)))
    assembly = GangAssembly(theme, gangs, configs)
    if not draw(drawn(1)).one_in(16):
        assembly.put(0, Configure(configs[0]))
    for kind, least, most in _STARVED if gangs.one_by_one else _BEGINNING:
        for choices in draw(moves(least, most)):
            assembly.put(0, assembly.what(kind, choices))
    for name in gangs.names if gangs.one_by_one else ():
        assembly.come(name, draw(drawn(MOVE_BYTES)))
    at_us = 0
    for choices in (choices for _ in range(lists) for choices in draw(moves(0, 10))):
        kind, gap_us = choices.of(theme.kinds), choices.of(theme.gaps_us)
        at_us += gap_us
        assembly.put(at_us, assembly.what(kind, choices))
    return assembly.steps


def moves(least: int, most: int) -> st.SearchStrategy[list[Choices]]:
    return st.lists(drawn(MOVE_BYTES), min_size=least, max_size=most)
