"""Chains of ``fixed`` rules: those that can never match are refused (PLACEMENT-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.config.placement.rules import is_whole_path
from muster_core.values.configuration.placement_rules import RuleName

if TYPE_CHECKING:
    from muster_core.config.placement.rules import WrittenRule
    from muster_core.config.queues import WrittenQueue

# Looking up a member of an enum takes ten times as long, and this is done for each rule.
_FIXED: Final = RuleName.FIXED


# PLACEMENT-21
def check_chain(written: WrittenRule, root: WrittenQueue) -> None:
    """Refuse a rule whose fixed queues, from the outermost parent on, can never be used.

    Args:
        written: The rule, which is the parent of no other.
        root: The queues of the partition.
    """
    queue = root
    for link in _chain(written):
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


def _chain(written: WrittenRule) -> list[WrittenRule]:
    """Return the rules from the outermost parent on, up to the first that is not ``fixed``."""
    rules: list[WrittenRule] = []
    rule: WrittenRule | None = written
    while rule is not None:
        rules.append(rule)
        rule = rule.parent
    chain: list[WrittenRule] = []
    for link in reversed(rules):
        if link.rule.name is not _FIXED:
            break
        chain.append(link)
    return chain
