"""Taints and affinities in the naive model: which nodes keep an ask off, and which it keeps off."""

from __future__ import annotations

import re

from muster_core.values.affinity import Operator, Requirement, Taint, Toleration
from tests.naive.state import Ask, Node

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def tolerated(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration is about a taint."""
    same_effect = toleration.effect is None or toleration.effect == taint.effect
    if toleration.operator == "Exists":
        return same_effect and toleration.key in {"", taint.key}
    return same_effect and (toleration.key, toleration.value) == (taint.key, taint.value)


def keeping_off(node: Node, ask: Ask) -> list[Taint]:
    """Return the taints of a node that keep an ask off."""
    hard = [taint for taint in node.taints if taint.effect in {"NoSchedule", "NoExecute"}]
    return [taint for taint in hard if not any(tolerated(one, taint) for one in ask.tolerations)]


def holds(requirement: Requirement, node: Node) -> bool:
    """Return whether a requirement is true of a node."""
    there = {**node.attributes, "metadata.name": node.name}
    found, values = there.get(requirement.key), requirement.values
    match requirement.operator:
        case Operator.IN:
            return found in values
        case Operator.NOT_IN:
            return found not in values
        case Operator.EXISTS:
            return found is not None
        case Operator.DOES_NOT_EXIST:
            return found is None
        case Operator.GT | Operator.LT:
            if found is None or not _NUMBER.fullmatch(found) or not _NUMBER.fullmatch(values[0]):
                return False
            own, other = int(found), int(values[0])
            return own > other if requirement.operator is Operator.GT else own < other


def wanted(node: Node, ask: Ask) -> bool:
    """Return whether an ask has no affinity, or the node matches a term of it."""
    if ask.affinity is None:
        return True
    return any(len(term) > 0 and all(holds(one, node) for one in term) for term in ask.affinity)


def open_to(node: Node, ask: Ask) -> bool:
    """Return whether neither the affinity of an ask nor a taint stands against a node."""
    return wanted(node, ask) and not keeping_off(node, ask)
