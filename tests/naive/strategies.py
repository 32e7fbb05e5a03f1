"""Hypothesis strategies for configurations and whole scenarios.

Configurations as a user would have written them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import (
    Acl,
    Configuration,
    Limits,
    NodeSortPolicy,
    QueueConfig,
    Settings,
    Template,
)
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
from muster_core.values.configuration import LimitEntry, PlacementFilter, PlacementRule, TypicalAsk
from muster_core.values.devices import DeviceNeed
from tests.naive.harness import SETTLE, Drive, PlayedSteps, Step, What
from tests.naive.picture import resolve
from tests.naive.scheduler import NaiveScheduler
from tests.naive.theme import TYPES, Choices, Theme, drawn, themed

CHILD_NAMES: Final = ("a", "a-1", "b")
MAX_DEPTH: Final = 4
_ACLS: Final = (
    *(None,) * 5,
    Acl(everybody=True),
    Acl(users=frozenset({"u1"})),
    Acl(groups=frozenset({"g1"})),
)
_EMPTY_TEMPLATE: Final = Template(Resources(), Limits(), 0, ())
_QUEUE_BYTES: Final = 40
_LIMITS: Final = (*(None,) * 5, *range(9, -1, -1))
_GUARANTEES: Final = (*(None,) * 5, *range(3, -1, -1))


@attrs.define
class RawQueue:
    """A queue while it is being drawn."""

    name: str
    says_parent: bool
    properties: dict[str, str]
    guaranteed: dict[str, int]
    limits: dict[str, int]
    max_applications: int
    template: Template | None
    submit_acl: Acl | None
    admin_acl: Acl | None
    children: list[RawQueue]


def _amounts(choices: Choices, theme: Theme, options: Sequence[int | None]) -> dict[str, int]:
    if choices.one_in(3):
        return {}
    chosen = {name: choices.of(options) for name in theme.types}
    return {name: amount for name, amount in chosen.items() if amount is not None}


def _properties(choices: Choices, theme: Theme) -> dict[str, str]:
    chosen = {name: choices.of(options) for name, options in theme.properties.items()}
    return {name: text for name, text in chosen.items() if text is not None}


def _template(choices: Choices, theme: Theme) -> Template | None:
    if not theme.templates or not choices.one_in(2):
        return None
    limits = _amounts(choices, theme, _LIMITS[1:]) if theme.limits else {}
    guaranteed = _amounts(choices, theme, _GUARANTEES) if theme.guaranteed else {}
    for name in set(limits) & set(guaranteed):
        guaranteed[name] = min(guaranteed[name], limits[name])
    template = Template(
        guaranteed=Resources(guaranteed),
        max=Limits(tuple(sorted(limits.items()))),
        max_applications=choices.of(theme.max_applications),
        properties=tuple(sorted(_properties(choices, theme).items())),
    )
    return None if template == _EMPTY_TEMPLATE else template


@st.composite
def raw_queues(draw: st.DrawFn, theme: Theme, name: str = "root", depth: int = 0) -> RawQueue:
    """Draw a queue and all below it."""
    choices = draw(drawn(_QUEUE_BYTES))
    width = choices.of(theme.widths[depth])
    is_root = depth == 0
    return RawQueue(
        name=name,
        says_parent=choices.one_in(5),
        properties=_properties(choices, theme),
        guaranteed=_amounts(choices, theme, theme.guarantees)
        if theme.guaranteed and not is_root
        else {},
        limits=_amounts(choices, theme, _LIMITS) if theme.limits and not is_root else {},
        max_applications=choices.of(theme.max_applications),
        submit_acl=choices.of(_ACLS) if theme.lists else None,
        admin_acl=choices.of(_ACLS) if theme.lists else None,
        template=_template(choices, theme),
        children=[draw(raw_queues(theme, child, depth + 1)) for child in CHILD_NAMES[:width]],
    )


@st.composite
def changed(draw: st.DrawFn, theme: Theme, raw: RawQueue) -> RawQueue:
    """Draw a tree that comes from another one by some changes, mostly few."""
    choices = draw(drawn(len(CHILD_NAMES) + 1))
    source = raw
    if choices.one_in(3) and raw.name != "root":
        source = draw(raw_queues(theme, raw.name, MAX_DEPTH))
    kept = [child for child in raw.children if not choices.one_in(5)]
    return attrs.evolve(
        source,
        says_parent=raw.says_parent,
        properties=dict(source.properties),
        guaranteed=dict(source.guaranteed),
        limits=dict(source.limits),
        submit_acl=raw.submit_acl,
        admin_acl=raw.admin_acl,
        children=[draw(changed(theme, child)) for child in kept],
    )


def mend(raw: RawQueue, limits_above: dict[str, int], applications_above: int) -> dict[str, int]:
    """Make a tree keep the rules of the loader.

    Returns:
        What the queue counts as guaranteed beside its siblings.
    """
    limits = dict(limits_above)
    for name, limit in raw.limits.items():
        raw.limits[name] = limits[name] = min(limit, limits_above.get(name, limit))
    if applications_above:
        own = raw.max_applications or applications_above
        raw.max_applications = min(own, applications_above)
    counted: dict[str, int] = {}
    for child in raw.children:
        for name, value in mend(child, limits, raw.max_applications).items():
            counted[name] = counted.get(name, 0) + value
    for name, value in raw.guaranteed.items():
        if value:
            raw.guaranteed[name] = counted[name] = max(value, counted.get(name, 0))
    for name in [name for name, value in counted.items() if value > limits.get(name, value)]:
        _drop_guaranteed(raw, name)
        del counted[name]
    if raw.template is not None:
        raw.template = _mended_template(raw.template, raw.max_applications)
    return counted


def _drop_guaranteed(raw: RawQueue, name: str) -> None:
    raw.guaranteed.pop(name, None)
    for child in raw.children:
        _drop_guaranteed(child, name)


def _mended_template(template: Template, applications_above: int) -> Template:
    if not applications_above:
        return template
    own = template.max_applications or applications_above
    return attrs.evolve(template, max_applications=min(own, applications_above))


def built(
    raw: RawQueue, above: str | None = None, settings_above: Settings | None = None
) -> QueueConfig:
    """Make the typed configuration of a mended tree."""
    path = raw.name if above is None else f"{above}.{raw.name}"
    is_parent = above is None or raw.says_parent or bool(raw.children)
    settings = settings_of(raw.properties, path, settings_above)
    return QueueConfig(
        name=raw.name,
        path=path,
        is_parent=is_parent,
        guaranteed=Resources(raw.guaranteed),
        max=Limits(tuple(sorted(raw.limits.items()))),
        max_applications=raw.max_applications,
        settings=settings,
        own_properties=tuple(sorted(raw.properties.items())),
        template=raw.template,
        submit_acl=raw.submit_acl,
        admin_acl=raw.admin_acl,
        children=tuple(built(child, path, settings) for child in raw.children),
    )


def settings_of(texts: Mapping[str, str], path: str, above: Settings | None) -> Settings:
    """Return the settings of a queue that says something; not what does nothing there."""
    settings = resolve(texts, above)
    if path == "root":
        settings = attrs.evolve(settings, fence=False, offset=0)
    return settings


@st.composite
def partitions(draw: st.DrawFn, raw: RawQueue) -> Configuration:
    """Draw the settings of the partition around a tree."""
    mend(raw, {}, 0)
    choices = draw(drawn(6))
    weights: dict[str, float] = {"memory": 1.0, "vcore": 1.0}
    if choices.one_in(2):
        options = (None, 1.0, 0.1, 3.0, 0.0)
        chosen = {name: choices.of(options) for name in TYPES}
        weights = {name: weight for name, weight in chosen.items() if weight is not None}
    return Configuration(
        partition="default",
        root=built(raw),
        node_sort=choices.of((NodeSortPolicy.FAIR, NodeSortPolicy.BINPACKING)),
        node_weights=tuple(sorted(weights.items())),
        warnings=choices.of(((), (), ("a warning", "and another"))),
    )


@st.composite
def configurations(draw: st.DrawFn, theme: Theme) -> list[Configuration]:
    """Draw the configurations of one scenario: one, and some that it turns into."""
    choices = draw(drawn(3))
    raw = draw(raw_queues(theme))
    raws = [raw]
    for _ in range(choices.of((0, 1, 2)) if "configure" in theme.kinds else 0):
        how = changed(theme, raw) if choices.of((True, True, False)) else raw_queues(theme)
        raws += [draw(how)]
    return [draw(partitions(one)) for one in raws]


def paths(config: QueueConfig) -> list[str]:
    """Return the paths of a queue and all below it."""
    return [config.path, *(path for child in config.children for path in paths(child))]


NODES: Final = ("n0", "n1", "N1", "n2")
MOVE_BYTES: Final = 18

#: The moves that are about a bound ask.
_OF_THE_BOUND: Final = frozenset({"release", "bind_failed"})

MESSAGES: Final = (None, None, None, "exit status 1", "")
"""Texts about the end of work."""

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
        self.steps = PlayedSteps(self.drive)
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
        """Return what a move means."""
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
        """Return an application that comes, mostly with a new name."""
        again = choices.one_in(4)
        name = self.some_app(choices) if again else f"p{self.apps}"
        self.apps += not again
        queue = self._queues[(choices.number(256) * 256 + choices.number(256)) % len(self._queues)]
        if not queue:  # No event can be made of it: its reader refuses it.
            return "queue: '' is empty"
        return AddApp(
            app=name,
            queue=queue,
            user=choices.of(("u1", "u1", "u2", None)),
            groups=choices.of(((), ("g1",), ("g2", "g1"))),
            tags=choices.of(_TAGS),
        )

    def some_app(self, choices: Choices) -> str:
        """Return an application, nearly always one that has not completed."""
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
        """Return an ask, nearly always a bound one or a pending one as is wanted."""
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


def written(config: Configuration) -> dict[str, object]:
    """Return a configuration in YuniKorn's form."""
    order: dict[str, object] = {
        "type": config.node_sort.value,
        "resourceweights": {name: str(weight) for name, weight in config.node_weights},
    }
    if config.typical:
        order["typical"] = [_typical(one) for one in config.typical]
    partition = {
        "name": config.partition,
        "nodesortpolicy": order,
        "preemption": {"enabled": "true" if config.preemption_enabled else "false"},
        "queues": [_queue(config.root)],
    }
    if config.placement_rules:
        partition["placementrules"] = [_rule(rule) for rule in config.placement_rules]
    return {"partitions": [partition]}


def _typical(ask: TypicalAsk) -> dict[str, object]:
    return {
        "devices": {kind: _need(need) for kind, need in ask.devices},
        "resources": _written_amounts(ask.resources.items()),
        "weight": str(ask.weight),
    }


def _need(need: DeviceNeed) -> dict[str, object]:
    found: dict[str, object] = {"milli": need.milli} if need.milli else {"count": need.count}
    if need.models is not None:
        found["models"] = list(need.models)
    return found


def _queue(queue: QueueConfig) -> dict[str, object]:
    result: dict[str, object] = {"name": queue.name}
    if queue.path != "root":
        result["parent"] = "true" if queue.is_parent else "false"
        result["resources"] = _resources(queue.guaranteed.items(), queue.max.amounts)
    result["maxapplications"] = str(queue.max_applications)
    result["properties"] = dict(queue.own_properties)
    if queue.template is not None:
        result["childtemplate"] = _written_template(queue.template)
    if queue.submit_acl is not None:
        result["submitacl"] = _acl(queue.submit_acl)
    if queue.admin_acl is not None:
        result["adminacl"] = _acl(queue.admin_acl)
    if queue.limits:
        result["limits"] = [_limit(entry) for entry in queue.limits]
    result["queues"] = [_queue(child) for child in queue.children]
    return result


def _limit(entry: LimitEntry) -> dict[str, object]:
    result: dict[str, object] = {"limit": "a remark"}
    if entry.users:
        result["users"] = list(entry.users)
    if entry.groups:
        result["groups"] = list(entry.groups)
    if entry.max:
        result["maxresources"] = _written_amounts(entry.max.amounts)
    if entry.max_applications:
        result["maxapplications"] = str(entry.max_applications)
    return result


def _rule(rule: PlacementRule) -> dict[str, object]:
    result: dict[str, object] = {"name": rule.name.value}
    if rule.value:
        result["value"] = rule.value
    if rule.create:
        result["create"] = "true"
    if rule.filter != PlacementFilter():
        kind = "deny" if rule.filter.deny else "allow"
        lists = {"users": rule.filter.users, "groups": rule.filter.groups}
        listed = {name: list(names) for name, names in lists.items() if names}
        result["filter"] = {"type": kind, **listed}
    if rule.parent is not None:
        result["parent"] = _rule(rule.parent)
    return result


def _written_template(template: Template) -> dict[str, object]:
    return {
        "maxapplications": str(template.max_applications),
        "properties": dict(template.properties),
        "resources": _resources(template.guaranteed.items(), template.max.amounts),
    }


def _resources(
    guaranteed: Iterable[tuple[str, int]], limits: Iterable[tuple[str, int]]
) -> dict[str, object]:
    return {"guaranteed": _written_amounts(guaranteed), "max": _written_amounts(limits)}


def _written_amounts(pairs: Iterable[tuple[str, int]]) -> dict[str, str]:
    return {name: f"{value}{'m' if _is_in_thousandths(name) else ''}" for name, value in pairs}


def _is_in_thousandths(name: str) -> bool:
    return name == "vcore" or name.startswith("device/")


def _acl(acl: Acl) -> str:
    if acl.everybody:
        return "*"
    return f"{','.join(sorted(acl.users))} {','.join(sorted(acl.groups))}"
