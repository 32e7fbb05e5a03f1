"""The settings of a queue, as a configuration has them and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.text import duration
from muster_core.values.configuration.partition import PreemptionPolicy, SortPolicy
from muster_core.values.quantities import format_quantity

if TYPE_CHECKING:
    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.values.configuration.partition import Acl, Settings, Template

_OWN: Final = "own"
_DEFAULT: Final = "default"

_FROM_ROOT: Final = ("gang.wait.time", "gang.deadlock.policy")
_ALONE: Final = ("priority.policy", "priority.offset", "queue.priority")
"""The properties that hold for one queue alone."""

_SORTS: Final = {
    SortPolicy.FIFO: "applications in the order in which they came",
    SortPolicy.FAIR: "applications with the smallest share first",
    SortPolicy.STATE_AWARE: "as fifo, but only one application starts at a time",
}

_PREEMPTION: Final = {
    PreemptionPolicy.DEFAULT: "its asks may take from others, and others from them",
    PreemptionPolicy.FENCE: "victims for the asks inside of it are only looked for inside of it",
    PreemptionPolicy.DISABLED: "its asks take nothing from others, and are no victims",
}


@final
@attrs.frozen
class Setting:
    """A setting.

    Attributes:
        name: Its name in a configuration.
        value: Its value, as a configuration has it.
        origin: Where it is from: ``own``, ``default``, or the path of a queue above.
        words: What it means.
    """

    name: str
    value: str
    origin: str
    words: str


# PAGE-24
def settings_of(entry: QueueEntry) -> list[Setting]:
    """Return all settings of a queue."""
    return [*_fields(entry), *_properties(entry)]


def written(amounts: Mapping[str, int]) -> str:
    """Return amounts as a configuration has them."""
    return ", ".join(f"{kind}: {format_quantity(kind, most)}" for kind, most in amounts.items())


# Fields


def _fields(entry: QueueEntry) -> list[Setting]:
    config = entry.config
    apps = config.max_applications
    found = [
        _field(
            "resources.guaranteed",
            written(config.guaranteed.amounts),
            "what it can claim by reclaim, and what its fair share is measured by",
        ),
        _field(
            "resources.max",
            written(dict(config.max.amounts)),
            "the most that may be allocated in it and below it",
        ),
        _field(
            "maxapplications",
            str(apps or ""),
            "how many applications may run at once; others wait",
        ),
        _field("submitacl", _acl(config.submit_acl), "who may submit applications here and below"),
        _field(
            "adminacl", _acl(config.admin_acl), "who may also remove applications of other users"
        ),
    ]
    if config.template is not None:
        text = _template(config.template)
        found.append(_field("childtemplate", text, "the settings of dynamic queues below it"))
    return found


def _field(name: str, value: str, words: str) -> Setting:
    return Setting(name, value, _OWN if value else _DEFAULT, words)


def _acl(acl: Acl | None) -> str:
    if acl is None:
        return ""
    if acl.everybody:
        return "*"
    names = [*sorted(acl.users), *(f"group {name}" for name in sorted(acl.groups))]
    return ", ".join(names)


def _template(template: Template) -> str:
    parts = {
        "guaranteed": written(template.guaranteed.amounts),
        "max": written(dict(template.max.amounts)),
        "maxapplications": str(template.max_applications or ""),
        "properties": ", ".join(f"{name}: {value}" for name, value in template.properties),
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items() if value)


# Properties


def _properties(entry: QueueEntry) -> list[Setting]:
    root = [*entry.upward()][-1]
    found = [
        Setting(name, value, _origin(entry, name), words)
        for name, (value, words) in {
            **_order(entry.config.settings),
            **_evictions(entry.config.settings),
            **_gangs(root.config.settings),
        }.items()
    ]
    known = {one.name for one in found}
    others = [
        Setting(name, value, _OWN, "Muster does not know it: it is kept, without effect")
        for name, value in entry.config.own_properties
        if name not in known
    ]
    return [*found, *others]


def _origin(entry: QueueEntry, name: str) -> str:
    """Return where the value of a property is from."""
    if name in _FROM_ROOT:
        *_, root = entry.upward()
        path = [root]
    else:
        path = [entry] if name in _ALONE else [*entry.upward()]
    for one in path:
        if name in dict(one.config.own_properties):
            return _OWN if one is entry else one.config.path
    return _DEFAULT


def _order(of: Settings) -> Mapping[str, tuple[str, str]]:
    return {
        "application.sort.policy": (of.sort_policy.value, _SORTS[of.sort_policy]),
        "application.sort.priority": _switch(
            of.sort_by_priority,
            "higher priority comes first",
            "priorities do not count in the order",
        ),
        "application.sort.blocking": _switch(
            of.blocking,
            "strict order: an ask that does not fit holds up those behind it",
            "asks behind one that does not fit are tried",
        ),
        "priority.policy": (
            ("fence", "priorities below it do not count outside")
            if of.fence
            else ("default", "priorities below it count outside as well")
        ),
        "priority.offset": (str(of.offset), "what is added to its priority, as seen outside"),
        "priority.limit": (
            "" if of.priority_limit is None else str(of.priority_limit),
            "the highest priority that a submitter may name; without a limit 1000000000",
        ),
        "queue.priority": (
            str(of.queue_priority),
            "among its siblings the higher one is served first",
        ),
        "queue.create": (
            {None: "", True: "enabled", False: "disabled"}[of.create],
            "whether applications may create queues below it",
        ),
        "bind.retry.delay": (
            _span(of.bind_retry_us),
            "how long an ask backs off after a bind that failed",
        ),
    }


def _evictions(of: Settings) -> Mapping[str, tuple[str, str]]:
    return {
        "queue.reclaimable": (
            str(of.reclaimable).lower(),
            "others may reclaim what it has beyond its guaranteed"
            if of.reclaimable
            else "nobody may reclaim from it",
        ),
        "preemption.policy": (of.preemption_policy.value, _PREEMPTION[of.preemption_policy]),
        "preemption.delay": (
            _span(of.preemption_delay_us),
            "how long an ask is pending before it may preempt",
        ),
        "preemption.required.node": _switch(
            of.required_node,
            "an ask with a required node may take its place there",
            "a required node gives no right to a place there",
        ),
    }


def _gangs(of: Settings) -> Mapping[str, tuple[str, str]]:
    return {
        "gang.wait.time": (
            _span(of.gang_wait_us),
            "how long a gang waits for its members, in the whole partition",
        ),
        "gang.deadlock.policy": (
            of.deadlock_policy.value,
            "what happens to gangs that wait for one another",
        ),
    }


def _switch(is_on: bool, on: str, off: str) -> tuple[str, str]:
    return ("enabled", on) if is_on else ("disabled", off)


def _span(span_us: int) -> str:
    return duration(span_us)
