"""Placement rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from muster.service.yunikorn.objects.forms import Made
from muster_core.config.placement.filters import is_expression
from muster_core.values.configuration.placement_rules import RuleName

if TYPE_CHECKING:
    from muster_core.config.model import Configuration, PlacementFilter, PlacementRule

_ONLY: Final[Made] = {"name": "provided", "parameters": {"create": "true"}}
"""What is done without rules: an application names its queue, which is made if need be."""


# REST-20
def rules(config: Configuration) -> list[Made]:
    """Return the placement rules that are obeyed, in order."""
    return [_rule(rule) for rule in config.placement_rules] or [_ONLY]


def _rule(rule: PlacementRule) -> Made:
    parameters = {"create": "true" if rule.create else "false"}
    if rule.name is RuleName.FIXED:
        parameters["queue"] = rule.value
        parameters["qualified"] = "true" if _is_qualified(rule.value) else "false"
    elif rule.name is RuleName.TAG:
        parameters["tagName"] = rule.value
    made: Made = {"name": rule.name.value, "parameters": parameters}
    if rule.parent is not None:
        made["parentRule"] = _rule(rule.parent)
    one = rule.filter
    if one.deny or one.users or one.groups:
        made["filter"] = _filter(one)
    return made


def _is_qualified(queue: str) -> bool:
    """Return whether the queue of a rule is a path from the root."""
    return queue.lower().split(".")[0] == "root"


def _filter(one: PlacementFilter) -> Made:
    made: Made = {"type": "deny" if one.deny else "allow"}
    for name, entries in (("user", one.users), ("group", one.groups)):
        is_pattern = _is_pattern(entries)
        made[f"{name}List"] = [] if is_pattern else list(entries)
        if is_pattern:
            made[f"{name}Exp"] = entries[0]
    return made


def _is_pattern(entries: Sequence[str]) -> bool:
    return len(entries) == 1 and is_expression(entries[0])
