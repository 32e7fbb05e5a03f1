"""Writes a typed configuration as the map that a user would have written."""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.config.model import Acl, Configuration, QueueConfig, Template
from muster_core.values.configuration.placement_rules import PlacementFilter, PlacementRule
from muster_core.values.configuration.user_limits import LimitEntry


def written(config: Configuration) -> dict[str, object]:
    """Give a configuration in YuniKorn's form."""
    weights = {name: str(weight) for name, weight in config.node_weights}
    partition = {
        "name": config.partition,
        "nodesortpolicy": {"type": config.node_sort.value, "resourceweights": weights},
        "preemption": {"enabled": "true" if config.preemption_enabled else "false"},
        "queues": [_queue(config.root)],
    }
    if config.placement_rules:
        partition["placementrules"] = [_rule(rule) for rule in config.placement_rules]
    return {"partitions": [partition]}


def _queue(queue: QueueConfig) -> dict[str, object]:
    result: dict[str, object] = {"name": queue.name}
    if queue.path != "root":
        result["parent"] = "true" if queue.is_parent else "false"
        result["resources"] = _resources(queue.guaranteed.items(), queue.max.amounts)
    result["maxapplications"] = str(queue.max_applications)
    result["properties"] = dict(queue.own_properties)
    if queue.template is not None:
        result["childtemplate"] = _template(queue.template)
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
        result["maxresources"] = _amounts(entry.max.amounts)
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
        given = {name: list(names) for name, names in lists.items() if names}
        result["filter"] = {"type": kind, **given}
    if rule.parent is not None:
        result["parent"] = _rule(rule.parent)
    return result


def _template(template: Template) -> dict[str, object]:
    return {
        "maxapplications": str(template.max_applications),
        "properties": dict(template.properties),
        "resources": _resources(template.guaranteed.items(), template.max.amounts),
    }


def _resources(
    guaranteed: Iterable[tuple[str, int]], limits: Iterable[tuple[str, int]]
) -> dict[str, object]:
    return {"guaranteed": _amounts(guaranteed), "max": _amounts(limits)}


def _amounts(pairs: Iterable[tuple[str, int]]) -> dict[str, str]:
    return {name: f"{value}{'m' if name == 'vcore' else ''}" for name, value in pairs}


def _acl(acl: Acl) -> str:
    if acl.everybody:
        return "*"
    return f"{','.join(sorted(acl.users))} {','.join(sorted(acl.groups))}"
