"""Placement rules for drawn configurations; what the loader would refuse is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from muster_core.config.model import QueueConfig
from muster_core.values.configuration import PlacementFilter, PlacementRule, RuleName
from tests.naive.choices import Choices
from tests.naive.directory import flatten

RULE_BYTES: Final = 24
_NAMES: Final = (RuleName.PROVIDED, RuleName.USER, RuleName.FIXED, RuleName.TAG, RuleName.PROVIDED)
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
    name = choices.of(_NAMES if depth == 0 else (RuleName.FIXED, *_NAMES))
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
    """Give what a ``fixed`` rule may say: mostly a queue where it can be used."""
    queues = [queue for queue in flatten(root) if queue.path != root.path]
    wanted = [queue.path for queue in queues if queue.is_parent == (depth > 0)]
    above = root.path if parent is None else _static(parent) or root.path
    inside = [path.removeprefix(above + ".") for path in wanted if path.startswith(above + ".")]
    whole = wanted if parent is None else []
    roots = ("root",) if depth and parent is None else ()
    return (*inside, *whole[:2], "New", "a.made", *roots)


def _static(rule: PlacementRule) -> str | None:
    """Give the path that a chain of ``fixed`` rules gives, or None if others are in it."""
    if rule.name is not RuleName.FIXED:
        return None
    text = rule.value.lower()
    if text == "root" or text.startswith("root."):
        return text
    above = "root" if rule.parent is None else _static(rule.parent)
    return None if above is None else f"{above}.{text}"


def is_legal(rule: PlacementRule, root: QueueConfig) -> bool:
    """Say whether the loader lets a rule pass."""
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
    """Give a rule and its parents, the outermost of these first."""
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
