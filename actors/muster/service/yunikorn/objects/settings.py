"""The configuration in force: as the file has it, in YAML, or with capitals, in JSON.

Quantities are texts as they were written. So the answer is the file of the configuration, if that
is in force; otherwise the configuration in force is written anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import yaml

from muster.config_files import parse_configuration, parse_document
from muster.feeds._configuration import write_configuration as written_anew
from muster.service.yunikorn.objects.values import JsonObject
from muster_core.config.model import Configuration
from muster_core.config.tree import entries_of, is_null, items_of
from muster_core.errors import ConfigError

_CHECKSUM: Final = re.compile(r"^checksum:[ \t]*(\S*)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_TRUE: Final = frozenset(("true", "yes", "on", "y"))


# REST-22
def checksum(text: str) -> str:
    """Return the checksum of a configuration: that of the text without a line with a checksum."""
    bare = _CHECKSUM.sub("", text)
    return hashlib.sha256(bare.encode("utf-8", "surrogateescape")).hexdigest().upper()


def has_its_checksum(text: str) -> bool:
    """Return whether a text has a line with its checksum, and this is right."""
    found = _CHECKSUM.search(text)
    return found is not None and found[1].strip("\"'").upper() == checksum(text)


# REST-22
def text_of(config: Configuration, file: bytes | None, partition: str | None) -> str:
    """Return the text of the configuration in force.

    Args:
        config: The configuration in force.
        file: The content of the file with which the service was started, or None.
        partition: Which partition of that file runs, or None.
    """
    if file is not None:
        try:
            if parse_configuration(file, partition=partition) == config:
                return file.decode("utf-8-sig")
        except (ConfigError, ValueError):
            pass  # The file was changed, and is wrong now.
    return yaml.safe_dump(written_anew(config), sort_keys=False, allow_unicode=True)


def as_yaml(text: str) -> str:
    """Return the configuration of a text as YAML, with what YuniKorn adds."""
    made: dict[str, Any] = {"partitions": [], **_document(text)}
    made["checksum"] = checksum(text)
    made.setdefault("extra", {})
    made.setdefault("deadlockdetectionenabled", False)
    made.setdefault("deadlocktimeoutseconds", 0)
    return yaml.safe_dump(made, sort_keys=False, allow_unicode=True)


def as_map(text: str) -> JsonObject:
    """Return the configuration of a text with YuniKorn's names of fields in JSON."""
    document = _document(text)
    return {
        "Partitions": [_partition(one) for one in _maps(document.get("partitions"))],
        "Checksum": checksum(text),
        "Extra": {},
        "DeadlockDetectionEnabled": False,
        "DeadlockTimeoutSeconds": 0,
    }


# Reading the text


def _document(text: str) -> dict[str, Any]:
    """Return what a configuration says, without what has no value; names are in lower case."""
    document = _map(_plain(parse_document(text), ()))
    document.pop("checksum", None)
    return document


_NAMED: Final = frozenset(
    ("properties", "guaranteed", "max", "maxresources", "resourceweights", "extra")
)
"""The maps whose keys are names, and not fields."""

_FLAGS: Final = frozenset(("parent", "create", "enabled", "quotapreemptionenabled"))
_NUMBERS: Final = frozenset(("maxapplications",))


def _plain(node: object, path: tuple[str, ...]) -> object:
    items, entries = items_of(node), entries_of(node)
    if items is not None:
        return [_plain(item, path) for item in items]
    if entries is None:
        return None if is_null(node) else _scalar(str(node), path)
    is_named = bool(path) and path[-1] in _NAMED
    made: dict[str, object] = {}
    for key, value in entries:
        if isinstance(key, str):
            name = str(key) if is_named else key.lower()
            found = _plain(value, (*path, name))
            if found is not None:
                made[name] = found
    return made


def _scalar(text: str, path: tuple[str, ...]) -> object:
    above = path[-2] if len(path) > 1 else ""
    inside = above in _NAMED
    name = path[-1] if path and not inside else ""
    if name in _FLAGS:
        return text.lower() in _TRUE
    if name in _NUMBERS:
        return int(text)
    if above == "resourceweights":
        return float(text)
    return text


# Writing JSON


def _maps(value: object) -> list[dict[str, Any]]:
    """Return the maps of a list; nothing if it is none."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [found for item in items if (found := _map(item))]


def _map(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _each(make: Callable[[Mapping[str, Any]], JsonObject]) -> Callable[[object], list[JsonObject]]:
    return lambda value: [make(one) for one in _maps(value)]


_AS_IT_IS: Final[Mapping[str, Callable[[Any], object]]] = {}


def _made(
    source: Mapping[str, Any], names: str, turns: Mapping[str, Callable[[Any], object]] = _AS_IT_IS
) -> JsonObject:
    """Return the fields that are there and are not empty; their keys in YAML are in lower case.

    Args:
        source: What the text says.
        names: The names of the fields in JSON, with blanks between them.
        turns: What makes the values of some of them.
    """
    made: JsonObject = {}
    for name in names.split():
        if name.lower() in source:
            value = source[name.lower()]
            value = turns[name](value) if name in turns else value
            if value not in ("", 0, False, [], {}):
                made[name] = value
    return made


def _text(source: Mapping[str, Any], key: str) -> str:
    return str(source.get(key, ""))


def _partition(one: Mapping[str, Any]) -> JsonObject:
    preemption, order = _map(one.get("preemption")), _map(one.get("nodesortpolicy"))
    turns = {"Queues": _each(_queue), "PlacementRules": _each(_rule), "Limits": _each(_limit)}
    return {
        "Name": _text(one, "name"),
        **_made(one, " ".join(turns), turns),
        "Preemption": {
            name: preemption[name.lower()]
            for name in ("Enabled", "QuotaPreemptionEnabled")
            if name.lower() in preemption
        },
        "NodeSortPolicy": {"Type": _text(order, "type"), **_made(order, "ResourceWeights")},
        "UserGroupResolver": {"type": _text(_map(one.get("usergroupresolver")), "type")},
    }


def _queue(one: Mapping[str, Any]) -> JsonObject:
    template = _map(one.get("childtemplate"))
    names = "Parent MaxApplications Properties AdminACL SubmitACL Queues Limits"
    return {
        "Name": _text(one, "name"),
        **_made(one, names, {"Queues": _each(_queue), "Limits": _each(_limit)}),
        "Resources": _resources(one),
        "ChildTemplate": {
            **_made(template, "MaxApplications Properties"),
            "Resources": _resources(template),
        },
    }


def _resources(one: Mapping[str, Any]) -> JsonObject:
    return _made(_map(one.get("resources")), "Guaranteed Max")


def _limit(one: Mapping[str, Any]) -> JsonObject:
    return _made(one, "Limit Users Groups MaxResources MaxApplications")


def _rule(one: Mapping[str, Any]) -> JsonObject:
    chosen = _map(one.get("filter"))
    return {
        "Name": _text(one, "name"),
        **_made(one, "Create Parent Value", {"Parent": lambda value: _rule(_map(value))}),
        "Filter": {"Type": _text(chosen, "type"), **_made(chosen, "Users Groups")},
    }
