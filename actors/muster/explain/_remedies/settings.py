"""Write the configuration in force as an event, with some settings changed.

It contains the current settings of the queues, so that nothing else changes. A dynamic queue,
or one that an object created, is left out unless it changes, and a draining queue keeps
draining. The ``max`` of a dynamic queue may be above that of its parent. Such a ``max`` has no
effect and no configuration may have it, so it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

import attrs

from muster.explain._writing import Written, amounts
from muster_core.admission.queue_tree import QueueEntry
from muster_core.config.model import (
    Acl,
    LimitEntry,
    NodeSortPolicy,
    PlacementRule,
    QueueConfig,
    Template,
)
from muster_core.coordinator.coordinator import CoordinatorMachine

_DEFAULT_WEIGHTS: Final = (("memory", 1.0), ("vcore", 1.0))


@final
@attrs.frozen
class QueueChange:
    """The changed settings of one queue.

    Attributes:
        guaranteed: The new ``guaranteed`` of some types, in base units.
        max: The new ``max`` of some types, in base units.
        max_applications: The new ``maxapplications``, or None.
        properties: The new values of some properties.
        limits: The new limits of users and groups, or None.
    """

    guaranteed: Mapping[str, int] = attrs.field(factory=dict[str, int])
    max: Mapping[str, int] = attrs.field(factory=dict[str, int])
    max_applications: int | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    limits: tuple[LimitEntry, ...] | None = None

    def and_also(self, other: QueueChange) -> QueueChange:
        """Return this change together with one of other settings of the same queue."""
        applications, limits = other.max_applications, other.limits
        return QueueChange(
            {**self.guaranteed, **other.guaranteed},
            {**self.max, **other.max},
            self.max_applications if applications is None else applications,
            {**self.properties, **other.properties},
            self.limits if limits is None else limits,
        )


_NOTHING: Final = QueueChange()


def configure(
    machine: CoordinatorMachine,
    changes: Mapping[str, QueueChange],
    *,
    preemption: bool | None = None,
) -> Written:
    """Return the event that changes some settings.

    Args:
        machine: The machine with the configuration in force and the queues.
        changes: The changed settings, by the full path of the queue.
        preemption: Whether the partition preempts; None for no change.
    """
    configuration = machine.registry.configuration
    partition: Written = {"name": configuration.partition}
    sort, weights = configuration.node_sort, configuration.node_weights
    if sort is not NodeSortPolicy.FAIR or weights != _DEFAULT_WEIGHTS:
        named: Written = {name: f"{weight}" for name, weight in weights}
        partition["nodesortpolicy"] = {"type": sort.value, "resourceweights": named}
    enabled = configuration.preemption_enabled if preemption is None else preemption
    if not enabled:
        partition["preemption"] = {"enabled": False}
    if configuration.placement_rules:
        partition["placementrules"] = [_rule(rule) for rule in configuration.placement_rules]
    root = machine.registry.queues["root"]
    partition["queues"] = [_queue(root, changes, frozenset(_paths(changes)), {})]
    return {"op": "configure", "config": {"partitions": [partition]}}


def _rule(rule: PlacementRule) -> Written:
    written: Written = {"name": rule.name.value}
    if rule.value:
        written["value"] = rule.value
    if rule.create:
        written["create"] = True
    kept: Written = {"type": "deny"} if rule.filter.deny else {}
    for name, entries in (("users", rule.filter.users), ("groups", rule.filter.groups)):
        if entries:
            kept[name] = [*entries]
    if kept:
        written["filter"] = kept
    if rule.parent is not None:
        written["parent"] = _rule(rule.parent)
    return written


def _paths(changes: Mapping[str, QueueChange]) -> Iterator[str]:
    """Yield the paths of the queues to write: those that change, and their parents."""
    for path in changes:
        names = path.split(".")
        yield from (".".join(names[:length]) for length in range(1, len(names) + 1))


def _queue(
    entry: QueueEntry,
    changes: Mapping[str, QueueChange],
    needed: frozenset[str],
    above: Mapping[str, int],
) -> Written:
    config = entry.config
    change = changes.get(config.path, _NOTHING)
    written: Written = {"name": config.name}
    most = dict(config.max.amounts) | dict(change.max)
    if entry.dynamic:
        most = {name: amount for name, amount in most.items() if amount <= above.get(name, amount)}
    children = [
        _queue(child, changes, needed, {**above, **most})
        for child in entry.children.values()
        if child.config.path in needed or not (child.dynamic or child.applied or child.draining)
    ]
    if config.is_parent and not children and entry.parent is not None:
        written["parent"] = True
    resources = _resources(dict(config.guaranteed) | dict(change.guaranteed), most)
    if resources:
        written["resources"] = resources
    limit = config.max_applications
    limit = limit if change.max_applications is None else change.max_applications
    if limit:
        written["maxapplications"] = limit
    written |= _rest(config, change)
    if children:
        written["queues"] = [*children]
    return written


def _rest(config: QueueConfig, change: QueueChange) -> Written:
    """Return the fields of a queue that are not about its own quotas."""
    written: Written = {}
    properties = dict(config.own_properties) | dict(change.properties)
    if properties:
        written["properties"] = {**properties}
    if config.template is not None:
        written["childtemplate"] = _template(config.template)
    for name, acl in (("submitacl", config.submit_acl), ("adminacl", config.admin_acl)):
        if acl is not None:
            written[name] = _acl(acl)
    entries = config.limits if change.limits is None else change.limits
    if entries:
        written["limits"] = [_limit(entry) for entry in entries]
    return written


def _limit(entry: LimitEntry) -> Written:
    written: Written = {}
    if entry.users:
        written["users"] = [*entry.users]
    if entry.groups:
        written["groups"] = [*entry.groups]
    if entry.max:
        written["maxresources"] = amounts(dict(entry.max.amounts))
    if entry.max_applications:
        written["maxapplications"] = entry.max_applications
    return written


def _template(template: Template) -> Written:
    written: Written = {}
    if template.max_applications:
        written["maxapplications"] = template.max_applications
    if template.properties:
        written["properties"] = {**dict(template.properties)}
    resources = _resources(template.guaranteed, dict(template.max.amounts))
    if resources:
        written["resources"] = resources
    return written


def _resources(guaranteed: Mapping[str, int], most: Mapping[str, int]) -> Written:
    written: Written = {}
    if guaranteed:
        written["guaranteed"] = amounts(guaranteed)
    if most:
        written["max"] = amounts(most)
    return written


def _acl(acl: Acl) -> str:
    if acl.everybody:
        return "*"
    return f"{','.join(sorted(acl.users))} {','.join(sorted(acl.groups))}"
