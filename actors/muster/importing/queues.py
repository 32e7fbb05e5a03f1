"""The mapping file: which queue the jobs of an account, a partition, a namespace or a user get.

Also texts of a dump as names in a feed, and instants as a feed writes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, final
from zlib import crc32

import attrs

from muster.mapping_reader import MappingReader
from muster_core.config.queues import canonical_path
from muster_core.config.tree import describe, entries_of, items_of, line_of, text_of
from muster_core.errors import ConfigError
from muster_core.values.names import did_you_mean

_NO_NAME: Final = re.compile(r"[\x00-\x1f\x7f/]+")
_NO_QUEUE: Final = re.compile(r"[^a-zA-Z0-9_:#@-]+")
_NO_GANG: Final = re.compile(r"[^a-z0-9]+")
LONGEST_QUEUE: Final = 64
"""The longest name of a queue, in characters."""


def name_of(text: str) -> str:
    """Return a text as the name of an application, ask or node; ``-`` replaces illegal characters."""
    return _NO_NAME.sub("-", text)


def queue_name_of(text: str) -> str:
    """Return a text as the name of one queue, in lower case; may be empty.

    Other characters than ``a-z 0-9 _ : # @ -`` become ``-``; it is cut after 64 characters.
    """
    return _NO_QUEUE.sub("-", text.strip())[:LONGEST_QUEUE].lower()


def queue_path_of(text: str) -> str:
    """Return a text as the path of a queue, such as ``root.a.b``; empty if it names none.

    A path that does not begin with ``root`` is relative to the root. Other characters than a name
    may have become ``-``.
    """
    names = [name for name in map(queue_name_of, text.split(".")) if name]
    if names[:1] == ["root"]:
        del names[0]
    return ".".join(["root", *names]) if names else ""


def gang_name_of(app: str) -> str:
    """Return the name of the gang of an application, as Kubernetes names objects.

    A name with other characters than ``a-z 0-9`` gets a checksum, so that two stay two.
    """
    name = _NO_GANG.sub("-", app.lower()).strip("-")[:150]
    return f"job-{name}" if name == app else f"job-{name}-{crc32(app.encode()):08x}"


QUEUE: Final = "queue"
RULES: Final = "queues"
OTHERS: Final = "others"
_PATH: Final = "_path"
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_WILD: Final = re.compile(r"[*?\[]")


@final
@attrs.frozen
class Rule:
    """One rule: jobs whose fields match go to a queue.

    Attributes:
        patterns: For each field that is looked at its pattern, in which ``*``, ``?`` and ``[…]``
            are wildcards.
        path: The path of the queue, with ``{field}`` in place of the value of a field.
        line: Its line in the mapping file, or None.
    """

    patterns: tuple[tuple[str, str], ...]
    path: str
    line: int | None = None

    @property
    def fields(self) -> Iterable[str]:
        """The fields that decide whether it matches, and to which queue jobs go."""
        return [*(name for name, _ in self.patterns), *_PLACE.findall(self.path)]

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether all fields match."""
        for name, pattern in self.patterns:
            value = fields.get(name, "")
            if value != pattern and not (_WILD.search(pattern) and fnmatchcase(value, pattern)):
                return False
        return True


# IMPORT-4
@final
class Queues:
    """Chooses the queue of a job by its fields; the first rule that matches wins.

    Args:
        rules: The rules, in order.
        names: The fields that jobs have.

    Attributes:
        fields: The fields that the rules look at.
    """

    def __init__(self, rules: Iterable[Rule], names: Collection[str]) -> None:
        self._rules = tuple(rules)
        # Of all the fields only those that a rule looks at: names of jobs are all different.
        looked_at = dict.fromkeys(name for rule in self._rules for name in rule.fields)
        self.fields: Final = tuple(name for name in looked_at if _is_field(name, names))
        self._known: dict[tuple[str, ...], str | None] = {}
        self._used: set[Rule] = set()

    def of(self, fields: Mapping[str, str]) -> str | None:
        """Return the path of the queue of a job, in lower case; None if no rule matches."""
        key = tuple([fields.get(name, "") for name in self.fields])
        if key not in self._known:
            self._known[key] = self._chosen(fields)
        return self._known[key]

    def _chosen(self, fields: Mapping[str, str]) -> str | None:
        rule = next((rule for rule in self._rules if rule.matches(fields)), None)
        if rule is None:
            return None
        self._used.add(rule)
        return filled(rule.path, fields)

    @property
    def unused(self) -> list[Rule]:
        """The rules with patterns that were the first to match for no job so far."""
        return [rule for rule in self._rules if rule.patterns and rule not in self._used]


def filled(path: str, fields: Mapping[str, str]) -> str | None:
    """Return a path with the values of fields; None if one of its names is empty then.

    A value becomes one name of a queue: a dot or a blank in it becomes ``-``. A field whose name
    ends in ``_path`` has several names, separated by dots.
    """
    text = _PLACE.sub(lambda match: _name(match[1], fields.get(match[1], "")), path)
    try:
        return canonical_path(text)
    except ValueError:
        return None


def _name(field: str, value: str) -> str:
    if field.endswith(_PATH):
        return ".".join(map(queue_name_of, value.split(".")))
    return queue_name_of(value)


def default_queues(paths: Iterable[str], names: Collection[str]) -> Queues:
    """Return the rules where there is no mapping file: the first path whose fields have values.

    Args:
        paths: Paths with ``{field}``; one without a field matches every job.
        names: The fields that jobs have.
    """
    rules = [Rule(tuple((name, "?*") for name in _PLACE.findall(path)), path) for path in paths]
    return Queues(rules, names)


def read_queues(file: str, names: Collection[str], rest: Collection[str] = ()) -> Queues:
    """Read a mapping file.

    It is YAML: under ``queues`` a list of rules, each with a ``queue`` and patterns for fields;
    under ``others`` the queue of jobs that no rule matches, which are left out without it.

    Args:
        file: Its name.
        names: The fields that jobs have, such as ``account``.
        rest: The other entries of the file, which others read.

    Raises:
        ConfigError: If it cannot be read, or is no such file; with the lines.
    """
    reader = MappingReader(file)
    rules = _rules(reader.document(), names, rest, reader)
    if reader.problems:
        raise ConfigError(reader.problems)
    return Queues(rules, names)


def _rules(
    document: object, names: Collection[str], rest: Collection[str], reader: MappingReader
) -> list[Rule]:
    rules: list[Rule] = []
    others: list[Rule] = []
    entries = entries_of(document)
    if not entries:
        reader.refuse(document, "", f"{describe(document)} is not a map with `{RULES}`")
        return rules
    for key, value in entries:
        name, items = text_of(key) or "", items_of(value)
        if name == RULES and items is not None:
            for number, item in enumerate(items):
                rule = _rule(item, f"{RULES}[{number}]", names, reader)
                rules += [] if rule is None else [rule]
        elif name == OTHERS:
            path = _path(value, OTHERS, names, reader)
            others += [] if path is None else [Rule((), path)]
        elif name == RULES:
            reader.refuse(value, name, f"{describe(value)} is not a list of rules")
        elif name not in rest:
            hint = did_you_mean(name, (RULES, OTHERS))
            reader.refuse(key, name, f"is unknown: `{RULES}` and `{OTHERS}` can stand here{hint}")
    return rules + others


def _rule(item: object, where: str, names: Collection[str], reader: MappingReader) -> Rule | None:
    entries = entries_of(item)
    if entries is None:
        reader.refuse(item, where, f"{describe(item)} is not a map with `{QUEUE}`")
        return None
    patterns: list[tuple[str, str]] = []
    path: str | None = None
    has_queue = False
    for key, value in entries:
        name, text = text_of(key) or "", text_of(value)
        place = f"{where}.{name}"
        if name == QUEUE and not has_queue:
            has_queue = True
            path = _path(value, place, names, reader)
        elif not _is_field(name, names):
            hint = did_you_mean(name, names)
            reader.refuse(key, place, f"is no field of these jobs: {', '.join(names)}{hint}")
        elif text is None:
            reader.refuse(value, place, f"{describe(value)} is not a text")
        else:
            patterns.append((name, text))
    if not has_queue:
        reader.refuse(item, where, f"has no `{QUEUE}`")
    return None if path is None else Rule(tuple(patterns), path, line_of(item))


def _is_field(name: str, names: Collection[str]) -> bool:
    """Return whether jobs have a field; ``label:*`` matches all names that begin so."""
    prefix, colon, rest = name.partition(":")
    return name in names or (bool(colon and rest) and f"{prefix}:*" in names)


def _path(value: object, where: str, names: Collection[str], reader: MappingReader) -> str | None:
    text = text_of(value)
    if text is None:
        reader.refuse(value, where, f"{describe(value)} is not the path of a queue")
        return None
    unknown = [name for name in _PLACE.findall(text) if not _is_field(name, names)]
    if unknown:
        hint = did_you_mean(unknown[0], names)
        known = ", ".join(f"{{{name}}}" for name in names)
        reader.refuse(value, where, f"{{{unknown[0]}}} is no field of these jobs: {known}{hint}")
        return None
    try:
        canonical_path(_PLACE.sub("x", text))
    except ValueError as error:
        reader.refuse(value, where, str(error))
        return None
    return text
