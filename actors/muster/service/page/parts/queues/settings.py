"""The settings of a queue, as a configuration has them and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.config.properties import PROPERTIES, in_force
from muster_core.values.quantities import format_quantity

if TYPE_CHECKING:
    from muster_core.admission.queue_tree import QueueEntry
    from muster_core.config.properties import InForce
    from muster_core.values.configuration.partition import Acl, QueueConfig, Template

_OWN: Final = "own"
_DEFAULT: Final = "default"


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


# CONFIG-39
def _properties(entry: QueueEntry) -> list[Setting]:
    path = [one.config for one in reversed([*entry.upward()])]
    known = [_property(one, entry.config) for one in in_force(path)]
    others = [
        Setting(name, value, _OWN, "Muster does not know it: it is kept, without effect")
        for name, value in entry.config.own_properties
        if name not in PROPERTIES
    ]
    return [*known, *others]


def _property(one: InForce, queue: QueueConfig) -> Setting:
    origin = _DEFAULT if one.origin is None else one.origin
    words = one.property.meaning(one.text)
    if one.without_effect is not None:
        words += f"; {one.without_effect or 'an empty text'}, which stands here, has no effect"
    return Setting(one.property.name, one.text, _OWN if origin == queue.path else origin, words)
