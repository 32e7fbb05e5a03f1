"""The table of operations: every ``op`` of a feed, its fields, and the event it becomes.

Only this module knows the form of events; the reference documentation is generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast, final

import attrs

from muster.feeds._configure import CONFIGURE_FIELDS, Origin, Values, configure
from muster.feeds._expect import EXPECT_FIELDS, Expect
from muster.feeds._fields.collections import (
    ASKED_RESOURCES,
    NAMES,
    SOME_RESOURCES,
    WORDS,
    WRITTEN_RESOURCES,
)
from muster.feeds._fields.commands import COMMAND, ENV, WORK_FIELDS, WORKDIR, work_of
from muster.feeds._fields.devices import NEEDS, STOCKS
from muster.feeds._fields.gangs import GANG, GROUPS, MEMBERS, MODE
from muster.feeds._fields.instants import INSTANT
from muster.feeds._fields.kinds import FieldError
from muster.feeds._fields.numbers import BOOLEAN, COUNT, DURATION, INT32, SECONDS, TALLY, integer
from muster.feeds._fields.outcomes import (
    BYTES,
    EXIT_FIELDS,
    EXIT_STATUS,
    OUTCOME,
    SIGNAL,
    exit_of,
)
from muster.feeds._fields.priority_classes import CLASS_NAME, CLASS_PREEMPTS, CLASS_VALUE
from muster.feeds._fields.table import Field, field
from muster.feeds._fields.texts import NAME, OWNED_NAME, TEXT
from muster.feeds._fields.topologies import TOPOLOGY
from muster.feeds._items import Content, Settle
from muster.feeds._objects.gang_marks import MEMBER_MARKS, Marks, Place, Spoken, membership, spoken
from muster.feeds._objects.manifests import APPLIED, DELETED
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Delete,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.owners.bind_failures import SPOILT_LIMIT
from muster_core.resources import Resources
from muster_core.values.event_fields import LEAST


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
    build: Callable[[Values, Origin], Content]
    null_is_absent: bool = True


def _op(
    name: str,
    doc: str,
    fields: Sequence[Field],
    build: Callable[[Values, Origin], Content],
    *,
    null_is_absent: bool = True,
) -> Op:
    return Op(name, doc, {known.name: known for known in fields}, build, null_is_absent)


def _made(make: Callable[..., Content]) -> Callable[[Values, Origin], Content]:
    """Return a function that makes the typed event whose attributes are the fields."""
    return lambda values, _origin: make(**values)


_WORK: Final = frozenset(WORK_FIELDS)
_EXIT: Final = frozenset(EXIT_FIELDS)
_ASIDE: Final = frozenset({"annotations", *WORK_FIELDS})
"""The fields of ``add_ask`` that are parts of a field of the event."""


def _add_ask(values: Values, origin: Origin) -> Content:
    kept = {name: value for name, value in values.items() if name not in _ASIDE}
    if kept.get("devices") is not None:
        # DEVICE-2
        if not (kept["devices"] or kept.get("resources")):
            raise FieldError("nothing: an ask has at least one type above 0", "resources")
        kept.setdefault("resources", Resources())
    if not _WORK.isdisjoint(values):
        kept["work"] = work_of(values)
    marks, gang = values.get("annotations"), values.get("gang")
    if isinstance(marks, Marks) and marks.sayings:
        member = membership(spoken({"annotations": marks}), cast("str | None", gang))
        kept |= {"gang": member.gang, "says": member.says, "timed_out": member.timed_out}
    return _made(AddAsk)(kept, origin)


def _release(values: Values, origin: Origin) -> Content:
    kept = {name: value for name, value in values.items() if name not in EXIT_FIELDS}
    if not _EXIT.isdisjoint(values):
        if values.get("exit_status") is not None and values.get("signal") is not None:
            raise FieldError("a process that has an exit status was not ended by one", "signal")
        kept["exited"] = exit_of(values)
    return _made(Release)(kept, origin)


def _add_gang(values: Values, _origin: Origin) -> Content:
    fields = {name: value for name, value in values.items() if name != "gang"}
    places = {name: Place(name, value) for name, value in fields.items() if isinstance(value, int)}
    return AddGang(cast("str", values["gang"]), Spoken(fields, places).fields)


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
                MEMBER_MARKS,
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
