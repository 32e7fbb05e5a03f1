"""Conversion of a program's arguments to events, with the fields and errors of a feed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Final, TypeAlias, cast, get_args

from muster.config_files import parse_configuration, read_configuration
from muster.feeds import (
    Encoding,
    Expect,
    FeedError,
    Raw,
    RawEvent,
    Refused,
    Settle,
    parse,
    read_raw,
)
from muster.feeds._raw import problem_of_value
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.config.tree import MAX_DEPTH
from muster_core.errors import ConfigError, EventError, Problem
from muster_core.events import Configure, Event
from muster_core.resources import Resources
from muster_core.values.names import canonical_gang
from muster_core.values.resources import has_parts

Amounts: TypeAlias = Mapping[str, int | float | str]
"""Amounts by type, as in a feed: ``{"vcore": 2, "memory": "4Gi"}`` is two cores and four
gibibytes. :class:`~muster_core.resources.Resources` are in base units, also here."""

Config: TypeAlias = Configuration | str | PathLike[str] | Mapping[str, object]
"""A configuration: a loaded one, a text, the path of a file, or maps and lists."""

Manifest: TypeAlias = Mapping[str, object] | str | PathLike[str]
"""Kubernetes objects: one object as a map, a text, or the path of a file."""

_EVENTS: Final[tuple[type, ...]] = get_args(Event)

_SAYS_SOMETHING: Final = ("\n", "{", ": ")
"""A text without any of these contains no map. It may be the name of a file by mistake."""

_LONGEST_PATH: Final = 4096
"""The longest name of a file, in characters; a longer text is not taken for one."""


def event_of(op: str, **fields: object) -> Event:
    """Create the event of an operation.

    Args:
        op: The name of the operation in a feed.
        **fields: Its fields; None is left out.

    Raises:
        EventError: If a value is invalid.
    """
    written = {name: value for name, value in fields.items() if value is not None}
    return event_of_map({"op": op, **written})


def event_of_map(written: Mapping[str, object]) -> Event:
    """Create an event from a map in the form of a feed, without ``at``.

    Raises:
        EventError: If the map is not an event, or is ``settle`` or ``expect``.
    """
    if "at" in written:
        msg = f"at: {written['at']!r}: events of a running scheduler have no time of their own"
        raise EventError(msg)
    raw = _raw(written)
    problem = problem_of_value(raw)
    (item,) = parse([RawEvent(0, None, cast("Raw", raw), problem)])
    match item.content:
        case Refused(message):
            raise EventError(message)
        case Settle() | Expect():
            msg = f"op: {written['op']!r} is only for feeds; a scheduler has the method settle"
            raise EventError(msg)
        case event:
            return event


def gang_name(written: str) -> str:
    """Return the full name of a gang.

    Raises:
        EventError: If the name is invalid.
    """
    try:
        return canonical_gang(written)
    except ValueError as error:
        msg = f"gang: {error}"
        raise EventError(msg) from None


def any_event(event: Event | Mapping[str, object]) -> Event:
    """Return an event as it is, or create one from a map in the form of a feed.

    Raises:
        EventError: If the argument is neither.
    """
    if isinstance(event, Mapping):
        return event_of_map(event)
    if not isinstance(event, _EVENTS):
        msg = f"event: {event!r:.100} is not an event, and not a map in the form of a feed"
        raise EventError(msg)
    return event


def _raw(value: object, depth: int = 0) -> object:
    """Convert a value to the form of a feed.

    Raises:
        EventError: If it is nested deeper than any event, or contains itself.
    """
    if depth > MAX_DEPTH:
        msg = f"event: is nested deeper than {MAX_DEPTH} levels"
        raise EventError(msg)
    match value:
        case Resources():  # They count vcore in millicores, and a feed in cores.
            return {
                name: f"{amount}m" if has_parts(name) else amount for name, amount in value.items()
            }
        case Mapping():
            entries = cast("Mapping[object, object]", value).items()
            return {key: _raw(part, depth + 1) for key, part in entries}
        case str() | bytes() | bytearray():
            return value
        case Set():  # Sorted, because the order of a set differs from run to run.
            parts = [_raw(part, depth + 1) for part in cast("Set[object]", value)]
            return sorted(parts, key=str)
        case Collection():
            return [_raw(part, depth + 1) for part in cast("Collection[object]", value)]
        case _:
            return value


def configuration_of(config: Config | None, partition: str | None = None) -> Configuration:
    """Return the configuration that a program has passed in any of its forms.

    Raises:
        OSError: If it is a file that cannot be read.
        ConfigError: If it is refused; the error lists everything that is wrong.
    """
    match config:
        case None if partition is None:
            return default_configuration()
        case None:
            msg = f"{partition!r}: a partition needs a configuration"
            raise ConfigError([Problem(msg, "partition")])
        case Configuration():
            if partition not in {None, config.partition}:
                msg = f"{partition!r}: the configuration was loaded with {config.partition!r}"
                raise ConfigError([Problem(msg, "partition")])
            return config
        case Mapping():
            return _written_out(config, partition)
        case str():
            return _parsed(config, partition)
        case _:
            return read_configuration(config, partition=partition)


def _parsed(text: str, partition: str | None) -> Configuration:
    try:
        return parse_configuration(text, partition=partition)
    except ConfigError as error:
        if _may_name_a_file(text):
            raise ConfigError([Problem(_hint(text, "a configuration"))]) from error
        raise


def _written_out(config: Mapping[str, object], partition: str | None) -> Configuration:
    try:
        event = event_of("configure", config=config, partition=partition)
    except EventError as error:
        raise ConfigError([Problem(str(error))]) from error
    assert isinstance(event, Configure), "what configures is a configuration"
    return event.config


def manifest_event(op: str, manifest: Manifest) -> Event:
    """Create the event that applies or deletes Kubernetes objects.

    Args:
        op: ``apply`` or ``delete``.
        manifest: The objects.

    Raises:
        OSError: If the manifest is a file that cannot be read.
        EventError: If the manifest is invalid.
    """
    if isinstance(manifest, Mapping):
        return event_of(op, manifest=manifest)
    if isinstance(manifest, str):
        if _may_name_a_file(manifest):
            msg = f"manifest: {_hint(manifest, 'a Kubernetes object')}"
            raise EventError(msg)
        content = manifest.encode(errors="surrogatepass")
    else:
        content = Path(manifest).read_bytes()
    return event_of(op, manifest=_one(_documents(content, manifest)))


def _documents(content: bytes, manifest: str | PathLike[str]) -> list[Raw]:
    try:
        raws = list(read_raw(BytesIO(content), encoding=Encoding.YAML))
    except FeedError as error:
        msg = f"manifest: {error}"
        raise EventError(msg) from error
    for raw in raws:
        if raw.problem is not None:
            msg = f"manifest: {raw.problem}"
            raise EventError(msg)
    if not raws:
        name = manifest if isinstance(manifest, str) else fspath(manifest)
        msg = f"manifest: there is no object in {name[:100]!r}"
        raise EventError(msg)
    return [raw.value for raw in raws]


def _one(documents: list[Raw]) -> Raw:
    """Combine documents into one object: a List, with the items of the Lists among them."""
    if len(documents) == 1:
        return documents[0]
    items: list[Raw] = []
    for document in documents:
        parts = document.get("items") if isinstance(document, dict) else None
        is_list = isinstance(document, dict) and document.get("kind") == "List"
        items.extend(parts if is_list and isinstance(parts, list) else [document])
    return {"kind": "List", "items": items}


def _may_name_a_file(text: str) -> bool:
    """Return whether a text contains no map, and so may be the name of a file by mistake."""
    name = text.strip()
    return (
        0 < len(name) <= _LONGEST_PATH
        and not name.startswith("#")
        and not name.endswith(":")
        and not any(sign in text for sign in _SAYS_SOMETHING)
    )


def _hint(text: str, wanted: str) -> str:
    return f"{text!r} is not {wanted}; for a file, pass pathlib.Path({text!r})"
