"""A checked configuration as the text that it comes from, as far as that has an effect.

Names are in lower case, and what has no effect is left out: comments, empty fields, and the fields
that Muster reads and does not obey.
"""

from __future__ import annotations

import attrs

from muster.feeds._encodings.raw import Raw
from muster.feeds._written.amounts import Written, amounts, without, words
from muster.feeds._written.devices import needs
from muster_core.config.model import Configuration, Limits, QueueConfig
from muster_core.resources import Resources
from muster_core.values.configuration.partition import (
    Acl,
    NodeSortPolicy,
    Template,
    TypicalAsk,
)
from muster_core.values.configuration.placement_rules import PlacementRule
from muster_core.values.configuration.user_limits import LimitEntry

_EVERYBODY = "*"


def configuration(config: Configuration) -> Written:
    """Return a configuration in the form of a configuration file."""
    partition: Written = {"name": config.partition}
    node_sort: Written = {"type": config.node_sort.value}
    if config.node_weights != attrs.fields(Configuration).node_weights.default:
        node_sort["resourceweights"] = dict(config.node_weights)
    if config.typical:
        node_sort["typical"] = [_typical(one) for one in config.typical]
    if len(node_sort) > 1 or config.node_sort is not NodeSortPolicy.FAIR:
        partition["nodesortpolicy"] = node_sort
    if not config.preemption_enabled:
        partition["preemption"] = {"enabled": False}
    if config.placement_rules:
        partition["placementrules"] = [_rule(rule) for rule in config.placement_rules]
    partition["queues"] = [_queue(config.root)]
    return {"partitions": [partition]}


def _typical(one: TypicalAsk) -> Written:
    more = without({"resources": amounts(one.resources)})
    return {"devices": needs(one.devices), **more, "weight": one.weight}


def _queue(queue: QueueConfig) -> Written:
    written: Written = {"name": queue.name}
    # A queue with children is a parent anyway, and so is the root.
    if queue.is_parent and not queue.children and queue.name != queue.path.partition(".")[0]:
        written["parent"] = True
    children: list[Raw] = [_queue(child) for child in queue.children]
    limits: list[Raw] = [_limit(entry) for entry in queue.limits]
    return written | without(
        {
            "submitacl": None if queue.submit_acl is None else _acl(queue.submit_acl),
            "adminacl": None if queue.admin_acl is None else _acl(queue.admin_acl),
            "resources": _resources(queue.guaranteed, queue.max),
            "maxapplications": queue.max_applications or None,
            "properties": words(dict(queue.own_properties)),
            "childtemplate": None if queue.template is None else _template(queue.template),
            "limits": limits,
            "queues": children,
        }
    )


def _resources(guaranteed: Resources, most: Limits) -> Written:
    return without({"guaranteed": amounts(guaranteed), "max": amounts(dict(most.amounts))})


def _template(template: Template) -> Written:
    return without(
        {
            "maxapplications": template.max_applications or None,
            "properties": words(dict(template.properties)),
            "resources": _resources(template.guaranteed, template.max),
        }
    )


def _acl(acl: Acl) -> str:
    users = ",".join(sorted(acl.users)) or (_EVERYBODY if acl.everybody else "")
    # A text that begins with a blank has only groups.
    groups = ",".join(sorted(acl.groups)) or (_EVERYBODY if acl.everybody and acl.users else "")
    return f"{users} {groups}" if groups else users


def _limit(entry: LimitEntry) -> Written:
    return without(
        {
            "users": [*entry.users],
            "groups": [*entry.groups],
            "maxresources": amounts(dict(entry.max.amounts)),
            "maxapplications": entry.max_applications or None,
        }
    )


def _rule(rule: PlacementRule) -> Written:
    one = rule.filter
    names: Written = without({"users": [*one.users], "groups": [*one.groups]})
    if one.deny:
        names = {"type": "deny", **names}
    return without(
        {
            "name": rule.name.value,
            "value": rule.value or None,
            "create": True if rule.create else None,
            "filter": names,
            "parent": None if rule.parent is None else _rule(rule.parent),
        }
    )
