"""Reading the ``placementrules`` of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.config.document import Table
from muster_core.config.names import ROOT, canonical_path
from muster_core.config.placement.filters import hits_of
from muster_core.values.configuration.placement_rules import (
    PlacementFilter,
    PlacementRule,
    RuleName,
)
from muster_core.values.configuration.user_limits import GROUP_NAME, USER_NAME
from muster_core.values.quantities import shown

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from muster_core.config.fields import Field

# Looking up a member of an enum takes ten times as long, and this is done for each rule.
_FIXED: Final = RuleName.FIXED

# PLACEMENT-18
RULE_FIELDS: Final = ("name", "create", "filter", "parent", "value")
FILTER_FIELDS: Final = ("type", "users", "groups")

_NAMES: Final = ", ".join(RuleName)
_FILTER_TYPES: Final = {"": False, "allow": False, "deny": True}

_NEEDED: Final = {
    RuleName.FIXED: "a rule 'fixed' needs a value: a queue such as 'root.batch'",
    RuleName.TAG: "a rule 'tag' needs a value: the name of a tag such as 'namespace'",
}


@final
@attrs.frozen
class WrittenRule:
    """A rule as it was read, with its place.

    Attributes:
        rule: The rule.
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
    value = _text(fields, "value")
    create = "create" in fields and fields["create"].boolean(default=False)
    names = _read_filter(fields["filter"]) if "filter" in fields else PlacementFilter()
    has_parent = "parent" in fields and not fields["parent"].is_null
    parent = _read_rule(fields["parent"]) if has_parent else None
    if name is None:
        return None
    if name in _NEEDED and not value:
        fields.get("value", field).refuse(_NEEDED[name])
        return None
    if name is _FIXED:
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
        if isinstance(rule.node, Table) or rule.is_null:
            (field or rule).refuse(f"a rule needs a name: one of {_NAMES}")
        return None
    text = field.text()
    if text is None:
        return None
    try:
        return RuleName(text.lower())
    except ValueError:
        field.refuse(f"{shown(text)} is not one of {_NAMES}")
        return None


# PLACEMENT-19
def _read_filter(field: Field) -> PlacementFilter:
    fields = field.fields(FILTER_FIELDS)
    kind = _text(fields, "type").lower()
    if kind not in _FILTER_TYPES:
        fields["type"].refuse(f"{shown(_text(fields, 'type'))} is not one of allow, deny")
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
            hits_of(names, legal)
        except ValueError as error:
            items[0].refuse(str(error))
    return names


def _text(fields: Mapping[str, Field], name: str) -> str:
    """Return the text of a field; an empty one if it is missing, or no text."""
    field = fields.get(name)
    return "" if field is None or field.is_null else field.text() or ""
