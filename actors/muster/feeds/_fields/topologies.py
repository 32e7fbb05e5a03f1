"""The kind of the field that says which nodes the members of a gang take together."""

from __future__ import annotations

from typing import Final

from muster.feeds._fields.gangs import MEMBERS
from muster.feeds._fields.kinds import FieldError, Kind
from muster.feeds._fields.table import Field, field, record
from muster.feeds._fields.texts import NAME
from muster_core.gangs.topology import Topology, TopologyRule

_MAX: Final = "max"

_WHAT: Final = {
    TopologyRule.SAME: "the node attribute of which all members take nodes with one value",
    TopologyRule.PREFER: "the same, but any node if those with one value do not suffice",
    TopologyRule.SPREAD: "the node attribute over whose values the members are spread",
}

TOPOLOGY_FIELDS: Final[tuple[Field, ...]] = (
    *(field(rule.value, NAME, what) for rule, what in _WHAT.items()),
    field(_MAX, MEMBERS, "with `spread`: how many members one value has at most"),
)
"""The fields of a topology."""


# TOPOLOGY-1
def _topology(**values: object) -> Topology:
    """Return the topology of a map that has exactly one rule.

    Raises:
        FieldError: If it has no rule or several, or a ``max`` without ``spread``.
    """
    rules = [rule for rule in TopologyRule if rule.value in values]
    if len(rules) != 1:
        named = " and ".join(rules) or "none of them"
        msg = f"exactly one of {', '.join(TopologyRule)} names a node attribute, and here {named}"
        raise FieldError(msg)
    (rule,) = rules
    attribute, most = values[rule.value], values.get(_MAX)
    if most is not None and rule is not TopologyRule.SPREAD:
        msg = f"{most} is only allowed with spread, and here is {rule.value}"
        raise FieldError(msg, f".{_MAX}")
    assert isinstance(attribute, str), "a name that is no text"
    assert most is None or isinstance(most, int), "a number that is none"
    return Topology(rule, attribute, most)


TOPOLOGY: Final[Kind[Topology]] = record(
    TOPOLOGY_FIELDS, _topology, "map with one of `same`, `prefer`, `spread`"
)
