"""Configurations: the one in force, a new one, their difference, and the file of ``--config``.

A new configuration is read, tried and put in force. The service knows whether what is in force is
from the file, or was applied since.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

import attrs
import orjson
import yaml

from muster._runtime.calls import Enter, EventResults
from muster._runtime.clock import WallClock
from muster.config_files import parse_configuration, replaced_once
from muster.feeds import Raw
from muster.feeds._configuration import write_configuration as written_of
from muster.figures.text import iso_date
from muster.service.payloads import Problem
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import ConfigError, Problem as ConfigProblem
from muster_core.events import Configure, Event
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster.service.input.submission import RunningService


Fields = dict[str, object]


def document_of(configuration: Configuration) -> dict[str, Raw]:
    """Return a configuration in the form of its file; what has no effect is left out."""
    return written_of(configuration)


# INPUT-13
def difference_of(before: Configuration, after: Configuration) -> dict[str, object]:
    """Return the difference of two configurations.

    Returns:
        ``partition``: the fields of the partition that differ; ``queues``: the queues that were
        added, removed or changed, by path, each with the fields that differ. A field has its path
        in the queue, and its values before and after; null if it is not there.
    """
    old, new = _partition(before), _partition(after)
    return {
        "partition": _changes(_flat(old[0]), _flat(new[0])),
        "queues": [*_queues(old[1], new[1])],
    }


def _partition(configuration: Configuration) -> tuple[Fields, dict[str, Fields]]:
    """Return the fields of a partition, and those of its queues by path, in their order."""
    partition = cast(
        "dict[str, Raw]", cast("list[Raw]", written_of(configuration)["partitions"])[0]
    )
    queues: dict[str, Fields] = {}
    waiting = [("", one) for one in cast("list[dict[str, Raw]]", partition["queues"])]
    while waiting:
        above, queue = waiting.pop(0)
        path = f"{above}.{queue['name']}" if above else str(queue["name"])
        queues[path] = {
            name: value for name, value in queue.items() if name not in {"name", "queues"}
        }
        children = cast("list[dict[str, Raw]]", queue.get("queues") or [])
        waiting[:0] = [(path, child) for child in children]
    return {name: value for name, value in partition.items() if name != "queues"}, queues


def _queues(old: Mapping[str, Fields], new: Mapping[str, Fields]) -> Iterator[dict[str, object]]:
    for path in {**new, **old}:
        fields = _changes(_flat(old.get(path, {})), _flat(new.get(path, {})))
        if path not in old or path not in new:
            yield {"queue": path, "change": "added" if path in new else "removed", "fields": fields}
        elif fields:
            yield {"queue": path, "change": "changed", "fields": fields}


def _flat(fields: Mapping[str, object], above: str = "") -> Fields:
    """Return fields with the paths of what is in maps inside them; lists stay as they are."""
    found: Fields = {}
    for name, value in fields.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping):
            found |= _flat(cast("Mapping[str, object]", value), path)
        else:
            found[path] = value
    return found


def _changes(before: Fields, after: Fields) -> list[dict[str, object]]:
    return [
        {"field": name, "before": before.get(name), "after": after.get(name)}
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


YAML: Final = "application/yaml"
YAMLS: Final = frozenset({YAML, "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"})
"""The media types of YAML."""


_ADDED: Final = frozenset({"warnings", "origin"})
"""What an answer adds to a configuration; if it is sent back, it does not count."""


@final
@attrs.frozen
class ConfigurationView:
    """A configuration, and how it is shown.

    Attributes:
        configuration: The configuration.
        document: The configuration in the form of its file.
        checksum: Identifies what it says.
    """

    configuration: Configuration
    document: dict[str, Raw]
    checksum: str

    @property
    def etag(self) -> str:
        """The entity tag."""
        return f'"{self.checksum}"'

    def as_yaml(self) -> str:
        """Return it as YAML."""
        text: str = yaml.safe_dump(self.document, sort_keys=False, allow_unicode=True)
        return text

    def as_map(self) -> dict[str, object]:
        """Return it as a map, which is a configuration itself but for what is added."""
        return {
            **self.document,
            "checksum": self.checksum,
            "warnings": warnings_of(self.configuration),
        }


def configuration_view(configuration: Configuration) -> ConfigurationView:
    """Return a configuration as it is shown."""
    document = document_of(configuration)
    packed = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return ConfigurationView(configuration, document, sha256(packed).hexdigest()[:32])


async def in_force(service: RunningService) -> ConfigurationView:
    """Return the configuration in force."""

    def read(machine: CoordinatorMachine) -> Steps[Configuration]:
        yield
        return machine.configuration

    return configuration_view(await service.inspect(read))


def problems_of(problems: Sequence[ConfigProblem]) -> list[dict[str, object]]:
    """Return problems of a configuration as maps."""
    return [{"line": one.line, "path": one.path, "message": one.message} for one in problems]


def warnings_of(configuration: Configuration) -> list[dict[str, object]]:
    """Return the warnings about a configuration as maps."""
    return problems_of(configuration.located_warnings)


# INPUT-12
def read_configuration(body: bytes, partition: str | None) -> Configuration:
    """Return the configuration in a body.

    Args:
        body: YAML or JSON, in the form of a file.
        partition: The partition to run; None for ``default``, or else the only one.

    Raises:
        Problem: 422 if it is refused, with all problems.
    """
    try:
        return parse_configuration(_without_warnings(body), partition=partition)
    except ConfigError as error:
        found = problems_of(error.problems)
        raise Problem(422, "the configuration is refused", problems=found) from None


def _without_warnings(body: bytes) -> bytes:
    """Return a body without what :meth:`ConfigurationView.as_map` adds to a configuration."""
    if body.lstrip()[:1] != b"{":
        return body
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body
    if not isinstance(value, dict):
        return body
    written = cast("dict[str, object]", value)
    return orjson.dumps({name: one for name, one in written.items() if name not in _ADDED})


@final
@attrs.frozen
class _UnchangedGuard:
    """Lets a configuration in if the one that its client has seen is still in force."""

    configuration: Configuration

    def must_hear_first(self, _event: Event, _machine: CoordinatorMachine, /) -> bool:
        return False

    # INPUT-14
    def refusal(self, _event: Event, machine: CoordinatorMachine, /) -> str | None:
        return None if machine.configuration is self.configuration else "changed"


async def put_in_force(
    service: RunningService, configuration: Configuration, current: Configuration | None
) -> EventResults:
    """Put a configuration in force.

    Args:
        service: The service.
        configuration: The configuration.
        current: The one that has to be in force now; None for any.

    Raises:
        Problem: 412 if another one is in force now.
        RefusedError: If it cannot replace the one in force.
        ClosedSchedulerError: If the scheduler is closed.
    """
    call = Enter(
        (Configure(configuration),), guard=None if current is None else _UnchangedGuard(current)
    )
    entered = await service.call(call)
    (refusal,) = entered.refusals
    if not entered.batch:
        raise changed_problem()
    if refusal is not None:
        raise refusal
    return entered


def changed_problem() -> Problem:
    """Return the problem of a configuration that is not the one that the client has seen."""
    return Problem(412, "If-Match: another configuration is in force by now: read it again")


_LOG: Final = logging.getLogger("muster.service")

_CHANGE: Final = {"fields": {"what": "change"}}

_RECORD: Final = "configuration.json"
"""The file of the state directory that says what the file of ``--config`` said last."""

_REPLACED: Final = "replaced-configuration.yaml"
"""The file of the state directory with the last configuration that was applied and replaced."""

_MOST_NAMES: Final = 10


@final
class ConfigPrecedence(Enum):
    """Which of two configurations holds, and why."""

    #: They are the same.
    SAME = auto()
    #: The file: nothing was applied since it was read, as far as is known.
    FILE = auto()
    #: The file: it has changed since it was read, and replaces what was applied.
    FILE_REPLACES = auto()
    #: What was applied: the file is what it was when it was read.
    APPLIED = auto()


@final
@attrs.frozen
class ConfigOrigin:
    """Where the configuration in force is from.

    Attributes:
        kind: ``file``, ``applied``, or ``default`` if there is only ``root``.
        since_us: When it was read or applied, in microseconds since 1970; None if unknown.
        file: The file, or the ConfigMap, that the service was started with, or None.
        differs: Whether that file said something else when it was read last.
    """

    kind: str
    since_us: int | None
    file: Path | str | None
    differs: bool

    @property
    def until(self) -> str:
        """When the file replaces the configuration in force, in words."""
        return replaced_once(str(self.file))

    def as_map(self) -> dict[str, object]:
        """Return it as a map."""
        return {
            "kind": self.kind,
            "since": None if self.since_us is None else iso_date(self.since_us),
            "file": None if self.file is None else str(self.file),
            "differs": self.differs,
        }


@final
class ConfigFile:
    """The file of ``--config``: what it said when it was read last, and when that was.

    Args:
        path: The file, or None without one.
        state: The state directory, where this is kept; None to keep nothing.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path | None, state: Path | None) -> None:
        self.path = path
        self._state = state
        self._checksum: str | None = None
        self._read_us: int | None = None
        if state is not None:
            with suppress(OSError, ValueError):
                found: dict[str, Any] = json.loads((state / _RECORD).read_bytes())
                self._checksum, self._read_us = found["checksum"], found["read_us"]

    # ACCESS-40
    def precedence(self, kept: Configuration, read: Configuration) -> ConfigPrecedence:
        """Return which configuration holds.

        Args:
            kept: The one in force.
            read: What the file says now.
        """
        if kept == read:
            return ConfigPrecedence.SAME
        if self._checksum is None or _checksum(kept) == self._checksum:
            return ConfigPrecedence.FILE
        return (
            ConfigPrecedence.APPLIED
            if _checksum(read) == self._checksum
            else ConfigPrecedence.FILE_REPLACES
        )

    def log_replacement(
        self, kept: Configuration, read: Configuration, applied_us: int | None
    ) -> tuple[bool, str]:
        """Log whether an applied configuration stays or is replaced, and keep a replaced one.

        Args:
            kept: The configuration in force.
            read: What the file says now.
            applied_us: When the one in force came, in microseconds since 1970; None if unknown.

        Returns:
            Whether the file comes in, and in words what becomes of it.
        """
        holds = self.precedence(kept, read)
        changed = "" if holds is ConfigPrecedence.SAME else names_of_changes(kept, read)
        applied = f"the configuration applied{_at(applied_us)}"
        match holds:
            case ConfigPrecedence.SAME:
                return False, "nothing has changed"
            case ConfigPrecedence.FILE:
                return True, f"in force; it changed {changed}"
            case ConfigPrecedence.APPLIED:
                _LOG.warning(
                    "configuration: %s says what it said%s: %s stays in force, and differs in %s. "
                    "Change the file, too; or go back to it with: muster config apply %s",
                    self.path,
                    _at(self._read_us),
                    applied,
                    changed,
                    self.path,
                    extra=_CHANGE,
                )
                return False, f"it has not changed; {applied} stays in force"
            case ConfigPrecedence.FILE_REPLACES:
                back = self._keep(kept)
                _LOG.warning(
                    "configuration: %s has changed, and replaces %s in %s%s",
                    self.path,
                    applied,
                    changed,
                    "" if back is None else f". To go back: muster config apply {back}",
                    extra=_CHANGE,
                )
                return True, f"in force; it changed {changed}"

    def note(self, read: Configuration) -> None:
        """Note what the file says, which is in force now.

        Args:
            read: What it says.
        """
        self._checksum, self._read_us = _checksum(read), WallClock.now_us()
        if self._state is not None:
            record = {"file": str(self.path), "checksum": self._checksum, "read_us": self._read_us}
            _write(self._state / _RECORD, json.dumps(record))

    def _keep(self, replaced: Configuration) -> Path | None:
        """Write down a configuration that was applied and is replaced; return where."""
        if self._state is None:
            return None
        path = self._state / _REPLACED
        return path if _write(path, configuration_view(replaced).as_yaml()) else None

    # ACCESS-41
    def origin_of(
        self,
        configuration: Configuration,
        applied_us: int | None,
        followed: tuple[str, Configuration] | None = None,
    ) -> ConfigOrigin:
        """Return where the configuration in force is from.

        Args:
            configuration: The configuration in force.
            applied_us: When it came, in microseconds since 1970; None if unknown.
            followed: What is followed instead of the file, and the configuration there; or None.
        """
        if followed is not None:
            place, followed_configuration = followed
            is_there = configuration == followed_configuration
            kind = "file" if is_there else "applied"
            return ConfigOrigin(kind, applied_us, place, not is_there)
        is_read = self._checksum is not None and _checksum(configuration) == self._checksum
        differs = self.path is not None and not is_read
        if is_read:
            return ConfigOrigin("file", self._read_us, self.path, differs)
        if configuration == default_configuration():
            return ConfigOrigin("default", None, self.path, differs)
        return ConfigOrigin("applied", applied_us, self.path, differs)


def names_of_changes(before: Configuration, after: Configuration) -> str:
    """Return which queues differ between two configurations, for the log."""
    difference: dict[str, Any] = difference_of(before, after)
    names: list[str] = ["the partition"] if difference["partition"] else []
    names += [one["queue"] for one in difference["queues"]]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f", and {more} more" if more > 0 else "")


def _checksum(configuration: Configuration) -> str:
    return configuration_view(configuration).checksum


def _at(unix_us: int | None) -> str:
    return "" if unix_us is None else f" at {iso_date(unix_us - unix_us % 1_000_000)}"


def _write(path: Path, text: str) -> bool:
    """Replace a file that only the user of the service may read; return whether that was done."""
    new = path.with_suffix(".new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        _LOG.warning("%s: cannot be written: %s", path, error.strerror, extra=_CHANGE)
        return False
    return True
