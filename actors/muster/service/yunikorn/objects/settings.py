"""The configuration in force: as the file has it, in YAML, or with capitals, in JSON.

Quantities are texts as they were written. So the file of the configuration is told, if it is what is
in force; otherwise what is in force is written anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, cast, final

import attrs
import yaml

from muster.config_files import parse_configuration, parse_document
from muster.feeds._configuration import write_configuration as written_anew
from muster.service.yunikorn.objects.values import Made
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


def as_map(text: str) -> Made:
    """Return the configuration of a text with YuniKorn's names of fields in JSON."""
    document = _document(text)
    return {
        "Partitions": [_made(one, "partition") for one in _maps(document.get("partitions"))],
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


@final
@attrs.frozen
class _Field:
    """A field of the configuration in JSON.

    Attributes:
        name: Its name in JSON; a file has it in lower case.
        form: What it is a map of, or a list of such maps: a key of the forms; empty for a value.
        is_list: Whether it is a list.
        is_always: Whether it is there even if the configuration does not have it.
        is_empty: Whether it is there even if it is empty.
    """

    name: str
    form: str = ""
    is_list: bool = False
    is_always: bool = False
    is_empty: bool = False


_NAME: Final = _Field("Name", is_always=True)
_TYPE: Final = _Field("Type", is_always=True)
_QUEUES: Final = _Field("Queues", "queue", is_list=True)
_LIMITS: Final = _Field("Limits", "limit", is_list=True)
_RESOURCES: Final = _Field("Resources", "resources", is_always=True)

_FORMS: Final[Mapping[str, tuple[str | _Field, ...]]] = {
    "partition": (
        _NAME,
        _QUEUES,
        _Field("PlacementRules", "rule", is_list=True),
        _LIMITS,
        _Field("Preemption", "preemption", is_always=True),
        _Field("NodeSortPolicy", "order", is_always=True),
        _Field("UserGroupResolver", "resolver", is_always=True),
    ),
    "preemption": (
        _Field("Enabled", is_empty=True),
        _Field("QuotaPreemptionEnabled", is_empty=True),
    ),
    "order": (_TYPE, "ResourceWeights"),
    "resolver": (_Field("type", is_always=True),),
    "queue": (
        *(_NAME, "Parent", "MaxApplications", "Properties", "AdminACL", "SubmitACL"),
        *(_QUEUES, _LIMITS, _RESOURCES, _Field("ChildTemplate", "template", is_always=True)),
    ),
    "template": ("MaxApplications", "Properties", _RESOURCES),
    "resources": ("Guaranteed", "Max"),
    "limit": ("Limit", "Users", "Groups", "MaxResources", "MaxApplications"),
    "rule": (
        *(_NAME, "Create", _Field("Parent", "rule"), "Value"),
        _Field("Filter", "filter", is_always=True),
    ),
    "filter": (_TYPE, "Users", "Groups"),
}
"""The fields of each kind of map, in the order of the JSON; most are values, there unless empty."""


def _made(source: Mapping[str, Any], form: str) -> Made:
    """Return the fields of a map with their names in JSON, as a rule without empty ones."""
    made: Made = {}
    for written in _FORMS[form]:
        field = _Field(written) if isinstance(written, str) else written
        name = field.name.lower()
        if name not in source and not field.is_always:
            continue
        value: object = source.get(name, "")
        if field.is_list:
            value = [_made(item, field.form) for item in _maps(value)]
        elif field.form:
            value = _made(_map(value), field.form)
        elif field.is_always:
            value = str(value)
        if field.is_always or field.is_empty or value not in ("", 0, False, [], {}):
            made[field.name] = value
    return made
