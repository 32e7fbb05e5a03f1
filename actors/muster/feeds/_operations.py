"""The table of operations: every ``op`` of a feed, its fields, and the event it becomes.

Only this module knows the form of events, which it reads and writes; the reference documentation
is generated from it.
``configure`` loads a configuration that is written in the feed or in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast, final

import attrs

from muster.feeds._affinity import TAINTS
from muster.feeds._annotations import (
    AnnotationSource,
    GangSettings,
)
from muster.feeds._asks import APP, ASK, ASK_FIELDS, add_ask, parts_of_ask
from muster.feeds._configuration import CONFIGURE_FIELDS, EventOrigin, configure, parts_of_configure
from muster.feeds._fields import (
    BYTES,
    CLASS_NAME,
    CLASS_PREEMPTS,
    CLASS_VALUE,
    EXIT_FIELDS,
    EXIT_STATUS,
    GANG,
    GROUPS,
    MEMBERS,
    MODE,
    OUTCOME,
    SIGNAL,
    STOCKS,
    TOPOLOGY,
    Field,
    Values,
    attributes_of,
    exit_of,
    field,
    write_fields,
)
from muster.feeds._items import EXPECT_FIELDS, Content, Expect, Settle
from muster.feeds._kinds import (
    BOOLEAN,
    DURATION,
    INSTANT,
    NAME,
    NAMES,
    SECONDS,
    TEXT,
    USAGE,
    WORDS,
    WRITTEN_RESOURCES,
    EventFields,
    FieldError,
    integer,
)
from muster.feeds._manifests import APPLIED, DELETED
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
    SetUsage,
    UpdateNode,
)
from muster_core.owners.ask_moves import SPOILT_LIMIT
from muster_core.values.event_fields import LEAST

C = TypeVar("C", bound=Content)


@final
@attrs.frozen
class Op:
    """One operation.

    Attributes:
        name: The value of ``op``.
        doc: What it does, for the reference.
        fields: Its fields by name, without ``op`` and ``at``.
        build: Makes the content of an item. Raises :class:`FieldError`.
        type: The class of the content.
        parts: Returns the values of which ``build`` makes a content.
        null_is_absent: Whether null in an optional field is the same as no field.
    """

    name: str
    doc: str
    fields: Mapping[str, Field]
    build: Callable[[Values, EventOrigin], Content]
    type: type[object]
    parts: Callable[[Any], Values]
    null_is_absent: bool = True


def _op(
    name: str,
    doc: str,
    fields: Sequence[Field],
    made: type[C],
    build: Callable[[Values, EventOrigin], C] | None = None,
    parts: Callable[[Any], Values] = attributes_of,
    *,
    null_is_absent: bool = True,
) -> Op:
    """Make an operation whose fields are the attributes of ``made``, unless the functions differ."""
    make = cast("Callable[..., C]", made)
    return Op(
        name,
        doc,
        {known.name: known for known in fields},
        build or (lambda values, _origin: make(**values)),
        made,
        parts,
        null_is_absent,
    )


_EXIT: Final = frozenset(EXIT_FIELDS)


def _release(values: Values, _origin: EventOrigin) -> Release:
    kept: dict[str, Any] = {
        name: value for name, value in values.items() if name not in EXIT_FIELDS
    }
    if not _EXIT.isdisjoint(values):
        if values.get("status") is not None and values.get("signal") is not None:
            raise FieldError("a process that has an exit status was not ended by one", "signal")
        kept["exited"] = exit_of(values)
    return Release(**kept)


def _parts_of_release(event: Release) -> Values:
    parts = attributes_of(event)
    exited = parts.pop("exited", None)
    return parts if exited is None else parts | attributes_of(exited)


def _add_gang(values: Values, _origin: EventOrigin) -> AddGang:
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
_TAINTS: Final = field(
    "taints", TAINTS, "its taints, which keep asks away that do not tolerate them; default: none"
)
_GANG: Final = field(
    "gang", GANG, "the name of the gang; without `namespace/`: `default/`", required=True
)

# FEED-38
_TABLE: Final = (
    _op(
        "configure",
        "Replaces the configuration.",
        CONFIGURE_FIELDS,
        Configure,
        configure,
        parts_of_configure,
    ),
    _op(
        "add_node",
        "Adds a node.",
        (
            _NODE,
            field("capacity", WRITTEN_RESOURCES, "its resources", required=True),
            _ATTRIBUTES,
            _SCHEDULABLE,
            _DEVICES,
            _TAINTS,
            field(
                "lease",
                DURATION,
                "a service removes the node this long after the last renewal; default: never",
                attribute="lease_us",
            ),
        ),
        AddNode,
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
            # RESERVED-1
            field(
                "reserved",
                WRITTEN_RESOURCES,
                "what others use on it that are no asks; more than the capacity is allowed; "
                "a new node has nothing reserved",
            ),
            _TAINTS,
        ),
        UpdateNode,
    ),
    _op("remove_node", "A node is lost, with everything on it.", (_NODE,), RemoveNode),
    _op(
        "add_app",
        "An application is submitted to a queue.",
        (
            APP,
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
        AddApp,
    ),
    _op(
        "remove_app",
        "Removes an application with all its asks and allocations.",
        (APP,),
        RemoveApp,
    ),
    _op(
        "add_ask",
        "An application asks for resources.",
        ASK_FIELDS,
        AddAsk,
        add_ask,
        parts_of_ask,
    ),
    _op("remove_ask", "An ask that is not bound is withdrawn.", (APP, ASK), RemoveAsk),
    _op(
        "release",
        "The work of a bound ask has ended.",
        (
            APP,
            ASK,
            field(
                "outcome",
                OUTCOME,
                "whether it completed, failed or is cancelled; default `completed`",
            ),
            field("message", TEXT, "what the decision log says about the end"),
            field("exit_status", EXIT_STATUS, "the exit status of its process", attribute="status"),
            field("signal", SIGNAL, "the number of the signal that ended its process"),
            field(
                "cpu_time",
                SECONDS,
                "how long its process and their children ran on CPUs",
                attribute="cpu_us",
            ),
            field(
                "max_memory",
                BYTES,
                "the most memory that one of these had at a time",
                attribute="memory",
            ),
        ),
        Release,
        _release,
        _parts_of_release,
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
        AddGang,
        _add_gang,
        lambda event: {"gang": event.gang, **attributes_of(event.says)},
    ),
    _op(
        "remove_gang",
        "A gang is no longer defined; its members stay.",
        (_GANG,),
        RemoveGang,
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
        AddPriorityClass,
    ),
    _op(
        "apply",
        "Adds a Kubernetes object, or changes an existing one.",
        (field("manifest", APPLIED, "the object", required=True, attribute="objects"),),
        Apply,
    ),
    _op(
        "delete",
        "Removes a Kubernetes object.",
        (field("manifest", DELETED, "the object", required=True, attribute="objects"),),
        Delete,
    ),
    _op(
        "fail_bind",
        "The next binds of an ask fail.",
        (APP, ASK, field("times", _TIMES, "how many binds; default 1")),
        FailBind,
    ),
    _op(
        "bind_failed",
        "The work of a bound ask could not be started.",
        (APP, ASK, field("message", TEXT, "why it could not be started, for the decision log")),
        BindFailed,
    ),
    _op(
        "set_usage",
        "Replaces what a queue, or a user of a leaf, has used lately.",
        (
            field("queue", NAME, "the path of the queue; `root.` may be left out", required=True),
            field(
                "user", TEXT, "the user of this leaf; the nameless one is empty; default: the queue"
            ),
            field(
                "usage",
                USAGE,
                "by type, in units times seconds: `{vcore: 7200}` is one core for two hours",
                required=True,
            ),
        ),
        SetUsage,
    ),
    _op("settle", "Closes the batch and runs the rounds.", (), Settle),
    _op(
        "expect",
        "Closes the batch; then `check` compares the fields that it names.",
        EXPECT_FIELDS,
        Expect,
        null_is_absent=False,
    ),
)

OPS: Final[Mapping[str, Op]] = {op.name: op for op in _TABLE}
"""Every operation by name, in the order of the reference."""

OP_OF: Final[Mapping[type[object], Op]] = {op.type: op for op in _TABLE}
"""The operation that becomes each class of contents."""


def write(content: Content) -> EventFields:
    """Return a content as a feed has it; what no feed can say is left out."""
    op = OP_OF[type(content)]
    return {OP.name: op.name, **write_fields(op.fields, op.parts(content))}
