"""``configure``: a configuration that is written in a feed or in a file, read and written.

A configuration is written as the text from which it comes, as far as that has an effect: names are in
lower case, and comments, empty fields, and fields that Muster reads and does not obey are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast, final

import attrs

from muster._idle_properties import with_idle_warnings
from muster.config_files import parse_configuration, read_content, unwrap
from muster.feeds._fields import NEEDS, Values, field
from muster.feeds._kinds import (
    NAME,
    EventFields,
    FieldError,
    Kind,
    as_written,
    display_value,
    write_amounts,
)
from muster.feeds._raw import Raw
from muster_core.config import load_configuration
from muster_core.config.model import Configuration, QueueConfig
from muster_core.config.tree import Plain, is_null
from muster_core.errors import ConfigError, Problem
from muster_core.events import Configure
from muster_core.values.configuration import (
    Acl,
    LimitEntry,
    NodeSortPolicy,
    PlacementRule,
    Template,
    TypicalAsk,
)

_TEXTS: Final = frozenset({"adminacl", "checksum", "name", "submitacl"})
_MAPS_OF_TEXTS: Final = frozenset(
    {"capability", "guaranteed", "max", "properties", "resourceweights"}
)
"""The fields of a configuration in which ``null`` and ``~`` are texts."""


@final
@attrs.frozen
class EventOrigin:
    """The place that an event comes from.

    Attributes:
        base: The folder to which file names are relative.
        line: The line of the event, or None.
        start_us: The date of the start, in microseconds since 1970 in UTC, or None if no date was
            read so far.
    """

    base: Path
    line: int | None
    start_us: int | None = None


def _parse_config(value: Raw) -> Raw:
    if not isinstance(value, dict):
        msg = f"{display_value(value)} is not a map"
        raise FieldError(msg)
    return value


def _config_normal(value: Raw, *, is_text: bool = False, has_texts: bool = False) -> Raw:
    """Return a configuration with its texts as written; see CONFIG-7."""
    match value:
        case Plain():
            return None if is_null(value) and not (is_text and value) else str(value)
        case list():
            return [_config_normal(part) for part in value]
        case dict():
            return {
                str(key): _config_normal(
                    part, is_text=has_texts or key in _TEXTS, has_texts=key in _MAPS_OF_TEXTS
                )
                for key, part in value.items()
            }
        case _:
            return as_written(value)


CONFIGURE_FIELDS: Final = (
    field(
        "config",
        Kind("map", _parse_config, _config_normal),
        "the configuration, in the form of a configuration file",
    ),
    field("file", NAME, "the name of a configuration file, relative to the feed"),
    field("partition", NAME, "which partition runs; default: `default`, or the only one"),
)
"""The fields of ``configure``; an event has either ``config`` or ``file``."""


# FEED-18
def configure(values: Values, origin: EventOrigin) -> Configure:
    """Load the configuration of a ``configure`` event.

    Raises:
        FieldError: If the event does not have exactly one of ``config`` and ``file``, or
            the configuration is refused.
    """
    partition = values.get("partition")
    assert partition is None or isinstance(partition, str)
    if ("config" in values) == ("file" in values):
        problem = "is missing, or file"
        if "config" in values:
            problem = f"leave it out, or the file {str(values['file'])!r}: one of them is in force"
        raise FieldError(problem, "config")
    if "file" in values:
        return Configure(_from_file(origin.base, str(values["file"]), partition), "file")
    return Configure(_inline(cast("Raw", values["config"]), origin.line, partition))


# CONFIG-35
def _from_file(base: Path, name: str, partition: str | None) -> Configuration:
    # Messages show the name as written, so that they do not depend on the folder of the feed.
    try:
        with (base / name).open("rb") as stream:
            content = read_content(stream)
        return parse_configuration(content, file=name, partition=partition)
    except ConfigError as error:
        raise FieldError("; ".join(str(problem) for problem in error.problems), "file") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise FieldError(f"{name!r} cannot be read: {reason}", "file") from error


def _inline(written: Raw, line: int | None, partition: str | None) -> Configuration:
    try:
        document = unwrap(written)
        configuration = load_configuration(document, line=line, partition=partition)
        return _placed(with_idle_warnings(configuration, document, line=line))
    except ConfigError as error:
        raise FieldError(
            "; ".join(_problem_text(problem, line) for problem in error.problems)
        ) from error


def _placed(configuration: Configuration) -> Configuration:
    """Return a configuration whose warnings have their paths in the event."""
    return attrs.evolve(
        configuration,
        located_warnings=tuple(
            attrs.evolve(one, path=_path(one.path)) for one in configuration.located_warnings
        ),
        types=tuple(attrs.evolve(one, path=_path(one.path)) for one in configuration.types),
    )


def _path(path: str) -> str:
    return f"config.{path}" if path else "config"


def _problem_text(problem: Problem, event_line: int | None) -> str:
    """Return the message of a problem, with its path in the event."""
    place = "" if problem.line in {None, event_line} else f" (line {problem.line})"
    return f"{_path(problem.path)}: {problem.message}{place}"


# -- writing -----------------------------------------------------------------------------------


def without_missing(fields: Mapping[str, Raw]) -> EventFields:
    """Return fields without those that are None, an empty list or an empty map."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


_EVERYBODY = "*"


def parts_of_configure(event: Configure) -> Values:
    """Return the values of which :func:`configure` makes the same, except for warnings."""
    return {"config": write_configuration(event.config)}


def write_configuration(config: Configuration) -> EventFields:
    """Return a configuration in the form of a configuration file."""
    partition: EventFields = {"name": config.partition}
    node_sort: EventFields = {"type": config.node_sort.value}
    if config.node_weights != attrs.fields(Configuration).node_weights.default:
        node_sort["resourceweights"] = dict(config.node_weights)
    if config.typical:
        node_sort["typical"] = [_typical(one) for one in config.typical]
    if len(node_sort) > 1 or config.node_sort is not NodeSortPolicy.FAIR:
        partition["nodesortpolicy"] = node_sort
    preemption: EventFields = {} if config.preemption_enabled else {"enabled": False}
    if config.quota_preemption:
        preemption["quotapreemptionenabled"] = True
    if preemption:
        partition["preemption"] = preemption
    if config.placement_rules:
        partition["placementrules"] = [_write_rule(rule) for rule in config.placement_rules]
    partition["queues"] = [_queue_settings(config.root)]
    return {"partitions": [partition]}


def _typical(one: TypicalAsk) -> EventFields:
    more = without_missing({"resources": write_amounts(one.resources)})
    return {"devices": NEEDS.write(dict(one.devices)), **more, "weight": one.weight}


def _queue_settings(queue: QueueConfig) -> EventFields:
    written: EventFields = {"name": queue.name}
    # A queue with children is a parent anyway, and so is the root.
    if queue.is_parent and not queue.children and queue.name != queue.path:
        written["parent"] = True
    children: list[Raw] = [_queue_settings(child) for child in queue.children]
    limits: list[Raw] = [_write_limit(entry) for entry in queue.limits]
    return written | without_missing(
        {
            "submitacl": None if queue.submit_acl is None else _acl(queue.submit_acl),
            "adminacl": None if queue.admin_acl is None else _acl(queue.admin_acl),
            "resources": _write_resources(queue.guaranteed, dict(queue.max.amounts)),
            "maxapplications": queue.max_applications or None,
            "properties": {**dict(queue.own_properties)},
            "childtemplate": None if queue.template is None else _write_template(queue.template),
            "limits": limits,
            "queues": children,
        }
    )


def _write_resources(guaranteed: Mapping[str, int], most: Mapping[str, int]) -> EventFields:
    """Return the quotas of a queue."""
    return without_missing({"guaranteed": write_amounts(guaranteed), "max": write_amounts(most)})


def _write_template(template: Template) -> EventFields:
    """Return the child template of a queue."""
    return without_missing(
        {
            "maxapplications": template.max_applications or None,
            "properties": {**dict(template.properties)},
            "resources": _write_resources(template.guaranteed, dict(template.max.amounts)),
        }
    )


def _acl(acl: Acl) -> str:
    users = ",".join(sorted(acl.users)) or (_EVERYBODY if acl.everybody else "")
    # A text that begins with a blank has only groups.
    groups = ",".join(sorted(acl.groups)) or (_EVERYBODY if acl.everybody and acl.users else "")
    return f"{users} {groups}" if groups else users


def _write_limit(entry: LimitEntry) -> EventFields:
    """Return a limit of users and groups."""
    return without_missing(
        {
            "users": [*entry.users],
            "groups": [*entry.groups],
            "maxresources": write_amounts(dict(entry.max.amounts)),
            "maxapplications": entry.max_applications or None,
        }
    )


def _write_rule(rule: PlacementRule) -> EventFields:
    """Return a placement rule."""
    one = rule.filter
    names: EventFields = without_missing({"users": [*one.users], "groups": [*one.groups]})
    if one.deny:
        names = {"type": "deny", **names}
    return without_missing(
        {
            "name": rule.name.value,
            "value": rule.value or None,
            "create": True if rule.create else None,
            "filter": names,
            "parent": None if rule.parent is None else _write_rule(rule.parent),
        }
    )
