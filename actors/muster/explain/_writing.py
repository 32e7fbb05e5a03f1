"""Write events in the form of a feed, from objects of the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

from muster.feeds import Raw
from muster_core.decisions import seconds
from muster_core.events import AddAsk
from muster_core.gangs.definition import GangDefinition, GangFields
from muster_core.values.gang_names import DEFAULT_NAMESPACE
from muster_core.values.quantities import format_quantity, parse_duration

Written: TypeAlias = dict[str, Raw]
"""An event as written in a feed."""

_MARK: Final = "gang.scheduling.koordinator.sh"


def quantity(name: str, amount: int) -> int | str:
    """Return an amount of a resource type in its shortest form in a feed."""
    text = format_quantity(name, amount)
    return int(text) if text.isdigit() else text


def amounts(resources: Mapping[str, int]) -> Written:
    """Return amounts of several types in their shortest form in a feed."""
    return {name: quantity(name, amount) for name, amount in resources.items()}


def duration(length_us: int) -> int | float | str:
    """Return an instant or a duration: in seconds if that is exact, else in microseconds."""
    written = seconds(length_us)
    if isinstance(written, int) or parse_duration(written) == length_us:
        return written
    return f"{length_us}us"


def span(length_us: int) -> str:
    """Return a duration for a property, with the largest unit that is exact."""
    for unit, name in ((1_000_000, "s"), (1_000, "ms")):
        if length_us % unit == 0:
            return f"{length_us // unit}{name}"
    return f"{length_us}us"


def settle(at_us: int) -> Written:
    """Return the event that closes the batch of an instant; later events form the next one."""
    return {"op": "settle", "at": duration(at_us)}


def add_ask(event: AddAsk) -> Written:
    """Return the event that adds an ask."""
    written: Written = {"op": "add_ask", "app": event.app, "ask": event.ask}
    written["resources"] = amounts(event.resources)
    for name in ("priority", "priority_class", "count", "node"):
        value = getattr(event, name)
        if value is not None:
            written[name] = value
    if event.selector:
        written["selector"] = dict(event.selector)
    if event.run_for_us is not None:
        written["run_for"] = duration(event.run_for_us)
    if event.retries:
        written["retries"] = event.retries
    if event.gang is not None:
        written["gang"] = event.gang
        marks = _marks(event.says)
        if marks:
            written["annotations"] = marks
    return written


def _marks(says: GangFields) -> Written:
    """Return the annotations that define the gang of a member."""
    marks: Written = {}
    if says.min_member is not None:
        marks[f"{_MARK}/min-available"] = str(says.min_member)
    if says.total is not None:
        marks[f"{_MARK}/total-number"] = str(says.total)
    if says.mode is not None:
        marks[f"{_MARK}/mode"] = says.mode.value
    if says.wait_us is not None:
        marks[f"{_MARK}/waiting-time"] = f"{says.wait_us}us"
    if says.groups is not None:
        marks[f"{_MARK}/groups"] = json.dumps(says.groups)
    return marks


def add_gang(gang: str, definition: GangDefinition) -> Written:
    """Return the event that defines a gang."""
    written: Written = {"op": "add_gang", "gang": gang, "min_member": definition.min_member}
    if definition.total != definition.min_member:
        written["total"] = definition.total
    written["mode"] = definition.mode.value
    if definition.wait_us is not None:
        written["wait_time"] = duration(definition.wait_us)
    if definition.groups:
        written["groups"] = [*definition.groups]
    return written


def pod_group(gang: str, definition: GangDefinition) -> Written:
    """Return the event that changes the definition of a gang, and not its state."""
    namespace, _, name = gang.rpartition("/")
    marks: Written = {
        f"{_MARK}/total-number": str(definition.total),
        f"{_MARK}/mode": definition.mode.value,
    }
    if definition.groups:
        marks[f"{_MARK}/groups"] = json.dumps(definition.groups)
    spec: Written = {"minMember": definition.min_member}
    if definition.wait_us is not None:
        spec["scheduleTimeoutSeconds"] = -(-definition.wait_us // 1_000_000)
    manifest: Written = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace or DEFAULT_NAMESPACE,
            "annotations": marks,
        },
        "spec": spec,
    }
    return {"op": "apply", "manifest": manifest}
