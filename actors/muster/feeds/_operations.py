"""The table of operations: every ``op`` of a feed, its fields, and the event it becomes.

Only this module knows the form of events; the reference documentation is generated from it.
``configure`` loads a configuration that is written in the feed or in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias, cast, final

import attrs

from muster._depth_warnings import with_depth_warnings
from muster.config_files import parse_configuration, read_content, unwrap
from muster.feeds._annotations import (
    MEMBER_ANNOTATIONS,
    AnnotationSource,
    GangSettings,
    ParsedAnnotations,
    gang_settings,
    membership,
)
from muster.feeds._fields import (
    BYTES,
    CLASS_NAME,
    CLASS_PREEMPTS,
    CLASS_VALUE,
    COMMAND,
    ENV,
    EXIT_FIELDS,
    EXIT_STATUS,
    GANG,
    GROUPS,
    MEMBERS,
    MODE,
    NEEDS,
    OUTCOME,
    SIGNAL,
    STOCKS,
    TOPOLOGY,
    WORK_FIELDS,
    WORKDIR,
    Field,
    exit_of,
    field,
    work_of,
)
from muster.feeds._items import EXPECT_FIELDS, Content, Expect, Settle
from muster.feeds._kinds import (
    ASKED_RESOURCES,
    BOOLEAN,
    COUNT,
    DURATION,
    INSTANT,
    INT32,
    NAME,
    NAMES,
    OWNED_NAME,
    SECONDS,
    SOME_RESOURCES,
    TALLY,
    TEXT,
    WORDS,
    WRITTEN_RESOURCES,
    FieldError,
    Kind,
    as_written,
    display_value,
    integer,
)
from muster.feeds._manifests import APPLIED, DELETED
from muster.feeds._raw import Literal, LocatedList, LocatedMap, LocatedText, Plain, Raw, is_null
from muster_core.config import load_configuration
from muster_core.config.document import Listing, Node, Scalar, Table
from muster_core.config.model import Configuration
from muster_core.errors import ConfigError, Problem
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.owners.ask_moves import SPOILT_LIMIT
from muster_core.resources import Resources
from muster_core.values.event_fields import LEAST

Values: TypeAlias = Mapping[str, object]
"""The typed values of the fields of one event."""

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
    """

    base: Path
    line: int | None


def _parse_config(value: Raw) -> Raw:
    if not isinstance(value, dict):
        msg = f"{display_value(value)} is not a map"
        raise FieldError(msg)
    return value


def _config_normal(value: Raw, *, is_text: bool = False, has_texts: bool = False) -> Raw:
    """Return a configuration with its texts as written; see :func:`_node`."""
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
        document = unwrap(_node(written, line, count()))
        configuration = load_configuration(document, partition=partition)
        return _placed(with_depth_warnings(configuration, document))
    except ConfigError as error:
        raise FieldError("; ".join(_said(problem, line) for problem in error.problems)) from error


def _placed(configuration: Configuration) -> Configuration:
    """Return a configuration whose warnings have their paths in the event."""
    return attrs.evolve(
        configuration,
        told=tuple(attrs.evolve(one, path=_path(one.path)) for one in configuration.told),
        types=tuple(attrs.evolve(one, path=_path(one.path)) for one in configuration.types),
    )


def _path(path: str) -> str:
    return f"config.{path}" if path else "config"


def _said(problem: Problem, event_line: int | None) -> str:
    """Return the message of a problem, with its path in the event."""
    place = "" if problem.line in {None, event_line} else f" (line {problem.line})"
    return f"{_path(problem.path)}: {problem.message}{place}"


# CONFIG-7
def _node(value: Raw, line: int | None, order: Iterator[int]) -> Node:
    """Build a configuration node from a raw value; a value with a line of its own keeps it."""
    place = next(order)
    if isinstance(value, LocatedMap | LocatedList | LocatedText):
        line = value.line
    match value:
        case dict():
            entries = tuple(
                (_node(key, line, order), _node(part, line, order)) for key, part in value.items()
            )
            return Table(entries, line, place)
        case list():
            return Listing(tuple(_node(part, line, order) for part in value), line, place)
        case str():
            quoted, literal = not isinstance(value, Plain), isinstance(value, Literal)
            return Scalar(str(value), line, place, quoted=quoted, literal=literal)
        case None:
            return Scalar("", line, place)
        case bool():
            return Scalar("true" if value else "false", line, place)
        case _:
            return Scalar(repr(value), line, place)


@final
@attrs.frozen
class Op:
    """One operation.

    Attributes:
        name: The value of ``op``.
        doc: What it does, for the reference.
        fields: Its fields by name, without ``op`` and ``at``.
        build: Makes the content of an item. Raises :class:`FieldError`.
        null_is_absent: Whether null in an optional field is the same as no field.
    """

    name: str
    doc: str
    fields: Mapping[str, Field]
    build: Callable[[Values, EventOrigin], Content]
    null_is_absent: bool = True


def _op(
    name: str,
    doc: str,
    fields: Sequence[Field],
    build: Callable[[Values, EventOrigin], Content],
    *,
    null_is_absent: bool = True,
) -> Op:
    return Op(name, doc, {known.name: known for known in fields}, build, null_is_absent)


def _made(make: Callable[..., Content]) -> Callable[[Values, EventOrigin], Content]:
    """Return a function that makes the typed event whose attributes are the fields."""
    return lambda values, _origin: make(**values)


_WORK: Final = frozenset(WORK_FIELDS)
_EXIT: Final = frozenset(EXIT_FIELDS)
_ASIDE: Final = frozenset({"annotations", *WORK_FIELDS})
"""The fields of ``add_ask`` that are parts of a field of the event."""


def _add_ask(values: Values, origin: EventOrigin) -> Content:
    kept = {name: value for name, value in values.items() if name not in _ASIDE}
    if kept.get("devices") is not None:
        # DEVICE-2
        if not (kept["devices"] or kept.get("resources")):
            raise FieldError("nothing: an ask has at least one type above 0", "resources")
        kept.setdefault("resources", Resources())
    if not _WORK.isdisjoint(values):
        kept["work"] = work_of(values)
    marks, gang = values.get("annotations"), values.get("gang")
    if isinstance(marks, ParsedAnnotations) and marks.sayings:
        member = membership(gang_settings({"annotations": marks}), cast("str | None", gang))
        kept |= {"gang": member.gang, "says": member.says, "timed_out": member.timed_out}
    return _made(AddAsk)(kept, origin)


def _release(values: Values, origin: EventOrigin) -> Content:
    kept = {name: value for name, value in values.items() if name not in EXIT_FIELDS}
    if not _EXIT.isdisjoint(values):
        if values.get("exit_status") is not None and values.get("signal") is not None:
            raise FieldError("a process that has an exit status was not ended by one", "signal")
        kept["exited"] = exit_of(values)
    return _made(Release)(kept, origin)


def _add_gang(values: Values, _origin: EventOrigin) -> Content:
    fields = {name: value for name, value in values.items() if name != "gang"}
    places = {
        name: AnnotationSource(name, value)
        for name, value in fields.items()
        if isinstance(value, int)
    }
    return AddGang(cast("str", values["gang"]), GangSettings(fields, places).fields)


# -- kinds of a single operation --------------------------------------------------------------

_TIMES: Final = integer(LEAST, SPOILT_LIMIT, f"{LEAST} … {SPOILT_LIMIT}")

# -- fields of several operations -------------------------------------------------------------

OP: Final = field("op", NAME, "the operation", required=True)
# FEED-7
AT: Final = field(
    "at",
    INSTANT,
    "when it happens, to 1 µs: since the start, or a date; default: the instant of the event "
    "before it",
)
"""The fields that every event may have."""

_NODE: Final = field("node", NAME, "the name of the node", required=True)
_ATTRIBUTES: Final = field("attributes", WORDS, "attributes for selectors")
_SCHEDULABLE: Final = field("schedulable", BOOLEAN, "whether it accepts asks; a new node does")
_DEVICES: Final = field(
    "devices",
    STOCKS,
    "its devices: for each type a number, or a map with `count` and `model`; default: none",
)
_GANG: Final = field(
    "gang", GANG, "the name of the gang; without `namespace/`: `default/`", required=True
)
_APP: Final = field("app", OWNED_NAME, "the name of the application", required=True)
_ASK: Final = field("ask", OWNED_NAME, "the name of the ask", required=True)

# FEED-38
_TABLE: Final = (
    _op("configure", "Replaces the configuration.", CONFIGURE_FIELDS, configure),
    _op(
        "add_node",
        "Adds a node.",
        (
            _NODE,
            field("capacity", WRITTEN_RESOURCES, "its resources", required=True),
            _ATTRIBUTES,
            _SCHEDULABLE,
            _DEVICES,
            field(
                "lease",
                DURATION,
                "a service removes the node this long after the last renewal; default: never",
                attribute="lease_us",
            ),
        ),
        _made(AddNode),
    ),
    _op(
        "update_node",
        "Changes the named fields of a node. No ask is evicted.",
        (
            _NODE,
            field("capacity", WRITTEN_RESOURCES, "its resources"),
            _ATTRIBUTES,
            _SCHEDULABLE,
            _DEVICES,
        ),
        _made(UpdateNode),
    ),
    _op("remove_node", "A node is lost, with everything on it.", (_NODE,), _made(RemoveNode)),
    _op(
        "add_app",
        "An application is submitted to a queue.",
        (
            _APP,
            field(
                "queue",
                NAME,
                "the path of the queue; `root.` may be left out; required unless placement rules "
                "choose the queue",
            ),
            field("user", NAME, "the user who submits it"),
            field("groups", NAMES, "the groups of the user"),
            field("tags", WORDS, "tags, such as `application.stateaware.disable`"),
        ),
        _made(AddApp),
    ),
    _op(
        "remove_app",
        "Removes an application with all its asks and allocations.",
        (_APP,),
        _made(RemoveApp),
    ),
    _op(
        "add_ask",
        "An application asks for resources.",
        (
            _APP,
            _ASK,
            field(
                "resources",
                SOME_RESOURCES,
                "what it needs; may be left out beside `devices`",
                required=True,
                beside=("devices", ASKED_RESOURCES),
            ),
            field(
                "devices",
                NEEDS,
                "the devices that it needs: for each type a number of whole ones, or a map with "
                "`milli` or `count`, and perhaps `models`",
            ),
            field("priority", INT32, "its priority; default 0"),
            field("priority_class", NAME, "the class that its priority comes from"),
            field("count", COUNT, "the number of asks; their names are `ask-0`, `ask-1`, …"),
            field("gang", GANG, "the gang whose member it is; without `namespace/`: `default/`"),
            field(
                "annotations",
                MEMBER_ANNOTATIONS,
                "annotations about its gang; all others are ignored",
            ),
            field("node", NAME, "the only node on which it may run"),
            field("selector", WORDS, "attributes that the node must have, as text"),
            field(
                "run_for",
                DURATION,
                "it completes by itself this long after it was bound",
                attribute="run_for_us",
            ),
            field(
                "estimate",
                DURATION,
                "how long it is expected to take; it plans and ends nothing; default: `run_for`, "
                "else `estimate.default`",
                attribute="estimate_us",
            ),
            field(
                "retries",
                TALLY,
                "how often it is tried again after its work has failed; default 0",
            ),
            field(
                "command",
                COMMAND,
                "what is to run: a program with its arguments, or a text for the shell",
            ),
            field("env", ENV, "environment variables for the command"),
            field("workdir", WORKDIR, "the working folder of the command"),
        ),
        _add_ask,
    ),
    _op("remove_ask", "An ask that is not bound is withdrawn.", (_APP, _ASK), _made(RemoveAsk)),
    _op(
        "release",
        "The work of a bound ask has ended.",
        (
            _APP,
            _ASK,
            field(
                "outcome",
                OUTCOME,
                "whether it completed, failed or is cancelled; default `completed`",
            ),
            field("message", TEXT, "what the decision log says about the end"),
            field("exit_status", EXIT_STATUS, "the exit status of its process"),
            field("signal", SIGNAL, "the number of the signal that ended its process"),
            field("cpu_time", SECONDS, "how long its process and their children ran on CPUs"),
            field("max_memory", BYTES, "the most memory that one of these had at a time"),
        ),
        _release,
    ),
    _op(
        "add_gang",
        "A gang is defined. One that only annotations define gets its object.",
        (
            _GANG,
            field(
                "min_member",
                MEMBERS,
                "how many members must have room before any is bound",
                required=True,
            ),
            field(
                "total",
                MEMBERS,
                "how many members there will be; default `min_member`; only reported",
            ),
            field("mode", MODE, "what happens if one member fits nowhere; default `Strict`"),
            field(
                "wait_time",
                DURATION,
                "how long members may wait for the others; default `gang.wait.time`",
                attribute="wait_us",
            ),
            field("groups", GROUPS, "the other gangs of its group; default: none"),
            field("topology", TOPOLOGY, "which nodes its members take together; default: any"),
            # GANG-53
            field("user", NAME, "the user whose gang it is; default: that of its first member"),
        ),
        _add_gang,
    ),
    _op(
        "remove_gang",
        "A gang is no longer defined; its members stay.",
        (_GANG,),
        _made(RemoveGang),
    ),
    _op(
        "add_priority_class",
        "Adds a priority class.",
        (
            field("name", CLASS_NAME, "its name", required=True),
            field("value", CLASS_VALUE, "the priority of its asks", required=True),
            field(
                "preemption_policy",
                CLASS_PREEMPTS,
                "whether its asks may preempt; default `Never`",
                attribute="preempts",
            ),
        ),
        _made(AddPriorityClass),
    ),
    _op(
        "apply",
        "Adds a Kubernetes object, or changes an existing one.",
        (field("manifest", APPLIED, "the object", required=True, attribute="objects"),),
        _made(Apply),
    ),
    _op(
        "delete",
        "Removes a Kubernetes object.",
        (field("manifest", DELETED, "the object", required=True, attribute="objects"),),
        _made(Delete),
    ),
    _op(
        "fail_bind",
        "The next binds of an ask fail.",
        (_APP, _ASK, field("times", _TIMES, "how many binds; default 1")),
        _made(FailBind),
    ),
    _op(
        "bind_failed",
        "The work of a bound ask could not be started.",
        (_APP, _ASK, field("message", TEXT, "why it could not be started, for the decision log")),
        _made(BindFailed),
    ),
    _op("settle", "Closes the batch and runs the rounds.", (), _made(Settle)),
    _op(
        "expect",
        "Closes the batch; then `check` compares the fields that it names.",
        EXPECT_FIELDS,
        _made(Expect),
        null_is_absent=False,
    ),
)

OPS: Final[Mapping[str, Op]] = {op.name: op for op in _TABLE}
"""Every operation by name, in the order of the reference."""
