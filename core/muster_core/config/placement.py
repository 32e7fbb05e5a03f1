"""Placement rules as written: fields, filters, and chains of ``fixed`` rules.

A filter names the users of a rule. Chains of ``fixed`` rules that can never match are refused
(PLACEMENT-21). The module knows the fields of a configuration, and nothing of the queues and
applications that exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import attrs

from muster_core.config.document import Field
from muster_core.config.expressions import Expression
from muster_core.config.queues import ROOT, WrittenQueue, canonical_path
from muster_core.values.configuration import (
    GROUP_NAME,
    USER_NAME,
    PlacementFilter,
    PlacementRule,
    RuleName,
)
from muster_core.values.resources import shown

NameTest: TypeAlias = Callable[[str], bool]

# PLACEMENT-4
_SPECIAL_CHARACTERS: Final = frozenset("^$*+?()[{}|")
"""With one of these characters, the only entry of a list is a regular expression."""


def is_expression(entry: str) -> bool:
    """Return whether the only entry of a list is a regular expression."""
    return not _SPECIAL_CHARACTERS.isdisjoint(entry)


# PLACEMENT-4
def name_test(entries: Sequence[str], legal: re.Pattern[str]) -> NameTest:
    """Return which names a list hits.

    Args:
        entries: The list as written.
        legal: The legal names, :data:`USER_NAME` or :data:`GROUP_NAME`.

    Raises:
        ValueError: If its only entry is neither a legal name nor a regular expression.
    """
    if len(entries) == 1:
        (only,) = entries
        if is_expression(only):
            return _expression(only).found_in
        if not legal.fullmatch(only):
            msg = f"{shown(only)} is neither a name ({legal.pattern}) nor a regular expression"
            raise ValueError(msg)
    return frozenset(name for name in entries if legal.fullmatch(name)).__contains__


# PLACEMENT-5
def _expression(text: str) -> Expression:
    try:
        return Expression(text)
    except ValueError as error:
        msg = f"{shown(text)} is not a regular expression: {error}"
        raise ValueError(msg) from error


@final
class Filter:
    """A filter in force.

    Args:
        written: The filter as written, without problems.
    """

    def __init__(self, written: PlacementFilter) -> None:
        self._users = name_test(written.users, USER_NAME)
        self._groups = name_test(written.groups, GROUP_NAME)
        self._deny = written.deny
        self._is_empty = not written.users and not written.groups

    # PLACEMENT-3
    def lets_in(self, user: str | None, groups: Sequence[str]) -> bool:
        """Return whether the rule is for a user.

        Args:
            user: The name of the user; None for the nameless one, whom no list of users hits.
            groups: The groups of the user.
        """
        if self._is_empty:
            return not self._deny
        named = bool(user) and self._users(user or "")
        hit = named or any(self._groups(group) for group in groups)
        return hit is not self._deny


# PLACEMENT-18
RULE_FIELDS: Final = ("name", "create", "filter", "parent", "value")
FILTER_FIELDS: Final = ("type", "users", "groups")

_RULE_NAMES: Final = ", ".join(RuleName)
_FILTER_TYPES: Final = {"": False, "allow": False, "deny": True}

_REQUIRED_FIELDS: Final = {
    RuleName.FIXED: "a rule 'fixed' needs a value: a queue such as 'root.batch'",
    RuleName.TAG: "a rule 'tag' needs a value: the name of a tag such as 'namespace'",
}


@final
@attrs.frozen
class WrittenRule:
    """A rule as it was read, with its place.

    Attributes:
        value_field: The field of its value, or of the rule if it has none.
        parent: The rule for its parent as it was read, or None.
    """

    rule: PlacementRule
    value_field: Field
    parent: WrittenRule | None = None


# PLACEMENT-7
def is_whole_path(value: str) -> bool:
    """Return whether the ``value`` of a rule ``fixed`` is a whole path."""
    return value.lower().split(".", 1)[0] == ROOT


# PLACEMENT-18
def read_rules(field: Field) -> list[WrittenRule]:
    """Read ``placementrules``; a rule with a problem is left out."""
    rules = [_read_rule(item) for item in field.items()]
    return [rule for rule in rules if rule is not None]


# PLACEMENT-18, PLACEMENT-20
def _read_rule(field: Field) -> WrittenRule | None:
    """Read one rule, and the rules for its parent; return None, with a problem, if it is bad."""
    fields = field.fields(RULE_FIELDS)
    name = _read_name(field, fields)
    value = _read_text(fields, "value")
    create = "create" in fields and fields["create"].boolean(default=False)
    names = _read_filter(fields["filter"]) if "filter" in fields else PlacementFilter()
    has_parent = "parent" in fields and not fields["parent"].is_null
    parent = _read_rule(fields["parent"]) if has_parent else None
    if name is None:
        return None
    if name in _REQUIRED_FIELDS and not value:
        fields.get("value", field).refuse(_REQUIRED_FIELDS[name])
        return None
    if name is RuleName.FIXED:
        try:
            canonical_path(value)
        except ValueError as error:
            fields["value"].refuse(str(error))
            return None
        if has_parent and is_whole_path(value):
            fields["parent"].refuse(
                f"{shown(value)} is a whole path: leave the parent out, or {ROOT!r} out of the path"
            )
    if has_parent and parent is None:
        return None
    rule = PlacementRule(name, value, create, names, None if parent is None else parent.rule)
    return WrittenRule(rule, fields.get("value", field), parent)


# PLACEMENT-18
def _read_name(rule: Field, fields: Mapping[str, Field]) -> RuleName | None:
    field = fields.get("name")
    if field is None or field.is_null:
        if rule.is_map or rule.is_null:
            (field or rule).refuse(f"a rule needs a name: one of {_RULE_NAMES}")
        return None
    text = field.text()
    if text is None:
        return None
    try:
        return RuleName(text.lower())
    except ValueError:
        field.refuse(f"{shown(text)} is not one of {_RULE_NAMES}")
        return None


# PLACEMENT-19
def _read_filter(field: Field) -> PlacementFilter:
    fields = field.fields(FILTER_FIELDS)
    kind = _read_text(fields, "type").lower()
    if kind not in _FILTER_TYPES:
        fields["type"].refuse(f"{shown(_read_text(fields, 'type'))} is not one of allow, deny")
    users = _read_names(fields.get("users"), USER_NAME)
    groups = _read_names(fields.get("groups"), GROUP_NAME)
    return PlacementFilter(_FILTER_TYPES.get(kind, False), users, groups)


# PLACEMENT-19
def _read_names(field: Field | None, legal: re.Pattern[str]) -> tuple[str, ...]:
    items = [] if field is None else field.items()
    texts = [item.text() for item in items]
    names = tuple(text for text in texts if text is not None)
    if len(names) == len(items) == 1:
        try:
            name_test(names, legal)
        except ValueError as error:
            items[0].refuse(str(error))
    return names


def _read_text(fields: Mapping[str, Field], name: str) -> str:
    """Return the text of a field; an empty one if it is missing, or no text."""
    field = fields.get(name)
    return "" if field is None or field.is_null else field.text() or ""


# PLACEMENT-21
def check_chain(written: WrittenRule, root: WrittenQueue) -> None:
    """Refuse a rule whose fixed queues, from the outermost parent on, can never be used.

    Args:
        written: The rule, which is the parent of no other.
        root: The queues of the partition.
    """
    queue = root
    for link in _fixed_chain(written):
        names = link.rule.value.lower().split(".")
        if is_whole_path(link.rule.value):
            names = names[1:]
        for name in names:
            if not queue.is_parent:
                link.value_field.refuse(
                    f"the rule can never match: {queue.path!r} is a leaf, and no queue can be "
                    "below it: name a parent"
                )
                return
            below = next((child for child in queue.children if child.name == name), None)
            if below is None:
                if not written.rule.create:
                    link.value_field.refuse(
                        f"the rule can never match: there is no queue {f'{queue.path}.{name}'!r}, "
                        "and its create is false: set create, or name a queue that exists"
                    )
                return
            queue = below
        ends = link is written
        if queue.is_parent is ends:
            right = (
                "a parent, and applications are in leaves: name a leaf"
                if ends
                else ("a leaf, and no queue can be below it: name a parent")
            )
            link.value_field.refuse(f"the rule can never match: {queue.path!r} is {right}")
            return


def _fixed_chain(written: WrittenRule) -> list[WrittenRule]:
    """Return the rules from the outermost parent on, up to the first that is not ``fixed``."""
    rules: list[WrittenRule] = []
    rule: WrittenRule | None = written
    while rule is not None:
        rules.append(rule)
        rule = rule.parent
    chain: list[WrittenRule] = []
    for link in reversed(rules):
        if link.rule.name is not RuleName.FIXED:
            break
        chain.append(link)
    return chain
