"""Hypothesis strategies for scenarios with limits of users, placement rules and node services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, Limits, QueueConfig
from muster_core.events import AddApp, AddAsk
from muster_core.resources import Resources
from muster_core.values.configuration import (
    EVERY_NAME,
    LimitEntry,
    PlacementFilter,
    PlacementRule,
    RuleName,
)
from tests.naive.directory import FORCE, flatten
from tests.naive.eviction_strategies import (
    EvictionAssembly,
    EvictionTheme,
    crowded,
    enabled,
    eviction_themed,
    played,
)
from tests.naive.gang_strategies import GangTheme
from tests.naive.harness import SETTLE, Step, What
from tests.naive.strategies import configurations
from tests.naive.theme import Choices, Texts, Theme, drawn, themed

USERS: Final = ("u1", "u2", EVERY_NAME, "u3")
GROUPS: Final = ("g1", "g2", EVERY_NAME, "g3")
ENTRY_BYTES: Final = 14

Name = tuple[str, str]
"""Whether it is a user or a group, and the name."""


@attrs.frozen
class LimitTheme:
    """What limits are made of; the simplest comes first in each.

    Attributes:
        users: They are for users.
        groups: They are for groups.
        entries: How many a queue has.
        amounts: What they give of a type; None is not named.
        apps: Their ``maxapplications``.
    """

    users: bool
    groups: bool
    entries: tuple[int, ...]
    amounts: tuple[int | None, ...]
    apps: tuple[int, ...]


@attrs.frozen
class Allowance:
    """The least that the queues from the root down give to one name.

    Attributes:
        max: Of each type that one of them names.
        applications: Of applications; 0 if none of them limits these.
    """

    max: Mapping[str, int] = attrs.field(factory=dict[str, int])
    applications: int = 0

    def and_also(self, entry: LimitEntry) -> Allowance:
        """Return the least of this and of an entry."""
        amounts = dict(self.max)
        for name, most in entry.max.amounts:
            amounts[name] = min(most, amounts.get(name, most))
        both = [apps for apps in (self.applications, entry.max_applications) if apps]
        return Allowance(amounts, min(both, default=0))


Above = dict[Name, Allowance]


def limited(
    queue: QueueConfig, theme: LimitTheme, drawn: Sequence[bytes], change: int, above: Above
) -> QueueConfig:
    """Give a queue and all below it limits that are in order.

    Args:
        queue: The queue, without limits.
        theme: What limits are made of.
        drawn: Some bytes; of the same ones a queue always gets the same limits.
        change: How much more a limit allows than these bytes say, or less.
        above: What the queues above give.
    """
    choices = Choices(drawn[sum(map(ord, queue.path)) % len(drawn)])
    entries = _mended(queue, list(_raw(choices, theme, change)), above)
    inside = dict(above)
    for entry in entries:
        for name in named(entry):
            inside[name] = inside.get(name, Allowance()).and_also(entry)
    children = tuple(limited(child, theme, drawn, change, inside) for child in queue.children)
    return attrs.evolve(queue, limits=entries, children=children)


def _raw(choices: Choices, theme: LimitTheme, change: int) -> Iterator[LimitEntry]:
    for _ in range(choices.of(theme.entries)):
        users = _some(choices, USERS) if theme.users else ()
        groups = _some(choices, GROUPS) if theme.groups else ()
        amounts = {name: choices.of(theme.amounts) for name in ("vcore", "memory")}
        if choices.one_in(2):
            amounts["memory"] = None
        most = {name: max(0, some + change) for name, some in amounts.items() if some is not None}
        yield LimitEntry(users, groups, Limits.of(most), choices.of(theme.apps))


def _some(choices: Choices, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(choices.of(names) for _ in range(choices.of((1, 2, 0))))


def _mended(queue: QueueConfig, raw: list[LimitEntry], above: Above) -> tuple[LimitEntry, ...]:
    """Leave out of the entries of a queue what the loader would refuse."""
    kept: list[LimitEntry] = []
    for one in raw:
        before = [name for entry in kept for name in named(entry)]
        users = _allowed("user", one.users, before)
        groups = _allowed("group", one.groups, before)
        entry = _capped(attrs.evolve(one, users=users, groups=groups), queue, above)
        if (users or groups) and (entry.max or entry.max_applications):
            kept.append(entry)
    return tuple(kept)


def _allowed(kind: str, names: tuple[str, ...], before: list[Name]) -> tuple[str, ...]:
    """Return names that may follow others: none twice, none after ``*``, no group ``*`` first."""
    allowed = [name for one, name in before if one == kind]
    start = len(allowed)
    for name in names:
        too_early = kind == "group" and name == EVERY_NAME and not allowed
        if name not in allowed and EVERY_NAME not in allowed and not too_early:
            allowed.append(name)
    return tuple(allowed[start:])


def _capped(entry: LimitEntry, queue: QueueConfig, above: Above) -> LimitEntry:
    """Let an entry allow no more than the queue itself, and than those above allow the same."""
    amounts, most = dict(entry.max.amounts), entry.max_applications
    for cap in [allowance(name, above) for name in named(entry)]:
        amounts = {name: min(some, cap.max.get(name, some)) for name, some in amounts.items()}
        most = min(most or cap.applications, cap.applications or most)
    own = dict(queue.max.amounts)
    amounts = {name: min(some, own.get(name, some)) for name, some in amounts.items()}
    most = min(most, queue.max_applications or most)
    limits = Limits.of(amounts if any(amounts.values()) else {})
    return attrs.evolve(entry, max=limits, max_applications=most)


def named(entry: LimitEntry) -> list[Name]:
    """Return the users and the groups that an entry names."""
    users: list[Name] = [("user", name) for name in entry.users]
    return users + [("group", name) for name in entry.groups]


def allowance(name: Name, above: Above) -> Allowance:
    """Return the least that the queues above give to a name, or to all where none names it."""
    kind, _ = name
    return above.get(name, above.get((kind, EVERY_NAME), Allowance()))


def faults(queue: QueueConfig, above: Above | None = None) -> list[str]:
    """Return what the loader would refuse in the limits of a queue and of those below it."""
    found: list[str] = []
    above = {} if above is None else above
    seen: list[Name] = []
    inside = dict(above)
    for entry in queue.limits:
        amounts, own = dict(entry.max.amounts), dict(queue.max.amounts)
        if not entry.users and not entry.groups:
            found.append("for nobody")
        if not amounts and not entry.max_applications:
            found.append("limits nothing")
        if amounts and not any(amounts.values()):
            found.append("no type above 0")
        if any(some > own.get(name, some) for name, some in amounts.items()):
            found.append("more than max")
        if 0 < queue.max_applications < entry.max_applications:
            found.append("more than maxapplications")
        for name in named(entry):
            found += _faults_of(name, entry, seen, allowance(name, above))
            seen.append(name)
            inside[name] = inside.get(name, Allowance()).and_also(entry)
    below = [fault for child in queue.children for fault in faults(child, inside)]
    return [f"{queue.path}: {fault}" for fault in found] + below


def _faults_of(name: Name, entry: LimitEntry, seen: list[Name], most: Allowance) -> Iterator[str]:
    kind, text = name
    if name in seen:
        yield f"{text} twice"
    if (kind, EVERY_NAME) in seen:
        yield f"{text} after *"
    if name == ("group", EVERY_NAME) and kind not in {one for one, _ in seen}:
        yield "the group * alone"
    if any(some > most.max.get(type_, some) for type_, some in entry.max.amounts):
        yield f"{text} has more than above"
    if most.applications and not 0 < entry.max_applications <= most.applications:
        yield f"{text} has more applications than above"


RULE_BYTES: Final = 24
_RULE_NAMES: Final = (
    RuleName.PROVIDED,
    RuleName.USER,
    RuleName.FIXED,
    RuleName.TAG,
    RuleName.PROVIDED,
)
_TAGS: Final = ("namespace", "Team", "NAMESPACE")
_FILTERS: Final = (
    *(PlacementFilter(),) * 6,
    PlacementFilter(users=("u1",)),
    PlacementFilter(users=("u2", "u3", "no name"), groups=("g1",)),
    PlacementFilter(users=("^u[12]$",)),
    PlacementFilter(groups=("g1|g3",)),
    PlacementFilter(users=(".*",)),
    PlacementFilter(deny=True, users=("u1", "u2")),
    PlacementFilter(deny=True, groups=("g.+",)),
    PlacementFilter(deny=True, groups=("g1", "1g")),
    PlacementFilter(deny=True),
)


def ruled(root: QueueConfig, drawn: Sequence[Choices]) -> tuple[PlacementRule, ...]:
    """Make rules for a tree of queues, as many as there are choices at most.

    Args:
        root: The queue ``root``, as the rules are to find it.
        drawn: The choices for each rule.
    """
    rules = [_rule(choices, root, depth=0) for choices in drawn]
    return tuple(rule for rule in rules if is_legal(rule, root))


def _rule(choices: Choices, root: QueueConfig, depth: int) -> PlacementRule:
    parent = None
    if depth < 2 and choices.of((False, True, False) if depth == 0 else (False, False, True)):
        parent = _rule(choices, root, depth + 1)
    name = choices.of(_RULE_NAMES if depth == 0 else (RuleName.FIXED, *_RULE_NAMES))
    value = ""
    if name is RuleName.TAG:
        value = choices.of(_TAGS)
    if name is RuleName.FIXED:
        value = choices.of(_fixed_values(root, parent, depth))
    return PlacementRule(
        name=name,
        value=value,
        create=choices.of((True, False)),
        filter=choices.of(_FILTERS),
        parent=parent,
    )


def _fixed_values(root: QueueConfig, parent: PlacementRule | None, depth: int) -> tuple[str, ...]:
    """Return what a ``fixed`` rule may say: mostly a queue where it can be used."""
    queues = [queue for queue in flatten(root) if queue.path != root.path]
    wanted = [queue.path for queue in queues if queue.is_parent == (depth > 0)]
    above = root.path if parent is None else _static(parent) or root.path
    inside = [path.removeprefix(above + ".") for path in wanted if path.startswith(above + ".")]
    whole = wanted if parent is None else []
    roots = ("root",) if depth and parent is None else ()
    return (*inside, *whole[:2], "New", "a.made", *roots)


def _static(rule: PlacementRule) -> str | None:
    """Return the path that a chain of ``fixed`` rules gives, or None if others are in it."""
    if rule.name is not RuleName.FIXED:
        return None
    text = rule.value.lower()
    if text == "root" or text.startswith("root."):
        return text
    above = "root" if rule.parent is None else _static(rule.parent)
    return None if above is None else f"{above}.{text}"


def is_legal(rule: PlacementRule, root: QueueConfig) -> bool:
    """Return whether the loader lets a rule pass."""
    chain = _chain(rule)
    for one in chain:
        whole = one.value.lower().split(".")[0] == "root"
        if one.name is RuleName.FIXED and whole and one.parent is not None:
            return False
        if one.name in {RuleName.FIXED, RuleName.TAG} and not one.value:
            return False
    static = None
    for one in chain:
        found = _static(one)
        if found is None:
            break
        static = found
    if static is None:
        return True
    return _can_match(static, root, create=rule.create, is_end=_static(rule) is not None)


def _chain(rule: PlacementRule) -> list[PlacementRule]:
    """Return a rule and its parents, the outermost of these first."""
    return [rule] if rule.parent is None else [*_chain(rule.parent), rule]


def _can_match(path: str, root: QueueConfig, *, create: bool, is_end: bool) -> bool:
    queues = {queue.path: queue for queue in flatten(root)}
    found = queues.get(path)
    if found is not None:
        return found.is_parent != is_end
    nearest = path
    while nearest not in queues:
        nearest = nearest.rpartition(".")[0]
    return create and queues[nearest].is_parent


def without_rules(rules: tuple[PlacementRule, ...], choices: Choices) -> tuple[PlacementRule, ...]:
    """Take away some of the rules, or change whom they are for."""
    kept = [rule for rule in rules if not choices.one_in(3)]
    if choices.one_in(2):
        kept = [attrs.evolve(rule, filter=choices.of(_FILTERS)) for rule in kept]
    return tuple(kept)


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


_NAMES: Final = ("a", "b", "New", "u2", "root.a", "a.b", "root.made.too", "ROOT.b")
_ODD: Final = ("no name", "root.a..b", "root", "root.@recovery@", "@recovery@.x")
_SPACES: Final = ("a", "b", "New", "", "a.b", "root.b.a", "no name")


class OperatorAssembly(EvictionAssembly):
    """Makes moves into steps, and gives applications users, tags and queues as rules need them.

    Args:
        theme: What the scenario is made of.
        gangs: The same of gangs.
        evictions: The same of evictions.
        configs: The configurations.
        operator: The same of what an operator does.
    """

    def __init__(
        self,
        theme: Theme,
        gangs: GangTheme,
        evictions: EvictionTheme,
        configs: list[Configuration],
        operator: OperatorTheme,
    ) -> None:
        super().__init__(theme, gangs, evictions, configs)
        self._operator = operator

    @override
    def add_app(self, choices: Choices) -> What:
        """Return an application that comes, of one of the users."""
        what = super().add_app(choices)
        if not isinstance(what, AddApp):
            return what
        operator = self._operator
        user, groups = choices.of(operator.users), choices.of(operator.groups)
        what = attrs.evolve(what, user=user, groups=groups)
        if not operator.rules:
            return what
        queues: tuple[str | None, ...] = (what.queue, None, *_NAMES)
        if choices.one_in(10) and self.drive.model.world.config.placement_rules:
            queues = _ODD
        queue = choices.of(queues)
        return attrs.evolve(what, queue=queue, tags=_tags(choices))

    @override
    def top_up(self) -> None:
        """Fill the nodes, then let services come that want much of them, and asks for little."""
        super().top_up()
        if not self._operator.services:
            return
        world = self.drive.model.world
        serving = [
            app.name for app in world.in_queues() if world.queues[app.queue].settings.required_node
        ]
        for number, node in enumerate(sorted(world.nodes) if serving else ()):
            ask = AddAsk(
                serving[number % len(serving)],
                f"s{number}",
                Resources({"vcore": 2 + number % 2}),
                priority=(None, 1)[number // 2 % 2],
                node=node,
            )
            self.put(0, ask)
        self.put(0, SETTLE)
        for app in world.in_queues()[-2:]:
            self.put(0, AddAsk(app.name, "little", Resources({"vcore": 1}), count=2))

    @override
    def comer(self, number: int, path: str) -> AddApp:
        """Return one of the first applications, which comes to a leaf if the rules let it."""
        operator = self._operator
        user = operator.users[number % len(operator.users)]
        groups = operator.groups[number // 2 % len(operator.groups)]
        tags = {FORCE: "true"} if operator.rules and number % 4 == 3 else {}
        return AddApp(f"p{number}", path, user, groups, tags)


def _tags(choices: Choices) -> dict[str, str]:
    tags: dict[str, str] = {}
    if choices.one_in(2):
        tags[choices.of(("namespace", "Namespace"))] = choices.of(_SPACES)
    if choices.one_in(3):
        tags["team"] = choices.of(_SPACES)
    if choices.one_in(3):
        tags[FORCE] = choices.of(("true", "true", "false", "TRUE"))
    return tags


@st.composite
def operated(
    draw: st.DrawFn, configs: list[Configuration], operator: OperatorTheme
) -> list[Configuration]:
    """Draw limits and rules for some configurations, and configurations that change these."""
    entries = draw(
        st.lists(st.binary(min_size=ENTRY_BYTES, max_size=ENTRY_BYTES * 3), min_size=1, max_size=5)
    )
    choices = draw(st.lists(drawn(RULE_BYTES), min_size=operator.rules, max_size=operator.rules))
    change = draw(drawn(8))
    rules = ruled(configs[0].root, choices)
    with_all = [_operated(configs[0], operator, entries, rules, 0)]
    others = [*configs[1:], configs[0], configs[0]]
    for place, config in enumerate(others):
        more = operator.changed[place % len(operator.changed)]
        changed = without_rules(rules, change) if operator.rules else ()
        legal = tuple(rule for rule in changed if is_legal(rule, config.root))
        with_all.append(_operated(config, operator, entries, legal, more))
    return with_all if change.of((True, True, False)) else with_all[: len(configs)]


def _operated(
    config: Configuration,
    operator: OperatorTheme,
    entries: Sequence[bytes],
    rules: tuple[PlacementRule, ...],
    change: int | None,
) -> Configuration:
    """Give a configuration its limits, none if their change is None, and its rules."""
    root = config.root
    if change is not None and (operator.limits.users or operator.limits.groups):
        root = limited(root, operator.limits, entries, change, {})
    return attrs.evolve(config, root=root, placement_rules=rules)


@st.composite
def operator_configurations(draw: st.DrawFn) -> list[Configuration]:
    """Draw the configurations of one scenario."""
    operator = operator_themed(draw(drawn(10)))
    theme = governed(crowded(themed(draw(drawn(24))), draw(drawn(26))), operator, draw(drawn(8)))
    return draw(operated(draw(configurations(theme)), operator))


@st.composite
def operations(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a whole scenario: a crowded cluster whose operator has a say in everything.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    operator = operator_themed(draw(drawn(10)))
    choices = draw(drawn(8))
    theme = governed(crowded(themed(draw(drawn(24))), draw(drawn(26))), operator, choices)
    evictions = about(eviction_themed(draw(drawn(12))), operator, choices)
    configs = draw(operated(draw(configurations(theme)), operator))

    def make(
        theme: Theme, gangs: GangTheme, one: EvictionTheme, configs: list[Configuration]
    ) -> EvictionAssembly:
        return OperatorAssembly(theme, gangs, one, configs, operator)

    return draw(played(theme, evictions, enabled(configs, evictions), lists, make))
