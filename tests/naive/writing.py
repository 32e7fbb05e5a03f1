"""Writes a typed configuration as the map that a user would have written."""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.config.model import Acl, Configuration, QueueConfig, Template
from muster_core.values.configuration import LimitEntry, PlacementFilter, PlacementRule, TypicalAsk
from muster_core.values.devices import DeviceNeed


def written(config: Configuration) -> dict[str, object]:
    """Give a configuration in YuniKorn's form."""
    order: dict[str, object] = {
        "type": config.node_sort.value,
        "resourceweights": {name: str(weight) for name, weight in config.node_weights},
    }
    if config.typical:
        order["typical"] = [_typical(one) for one in config.typical]
    partition = {
        "name": config.partition,
        "nodesortpolicy": order,
        "preemption": {"enabled": "true" if config.preemption_enabled else "false"},
        "queues": [_queue(config.root)],
    }
    if config.placement_rules:
        partition["placementrules"] = [_rule(rule) for rule in config.placement_rules]
    return {"partitions": [partition]}


def _typical(ask: TypicalAsk) -> dict[str, object]:
    return {
        "devices": {kind: _need(need) for kind, need in ask.devices},
        "resources": _amounts(ask.resources.items()),
        "weight": str(ask.weight),
    }


def _need(need: DeviceNeed) -> dict[str, object]:
    found: dict[str, object] = {"milli": need.milli} if need.milli else {"count": need.count}
    if need.models is not None:
        found["models"] = list(need.models)
    return found


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
    return {name: f"{value}{'m' if _is_in_thousandths(name) else ''}" for name, value in pairs}


def _is_in_thousandths(name: str) -> bool:
    return name == "vcore" or name.startswith("device/")


def _acl(acl: Acl) -> str:
    if acl.everybody:
        return "*"
    return f"{','.join(sorted(acl.users))} {','.join(sorted(acl.groups))}"
