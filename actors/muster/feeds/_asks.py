"""The fields of ``add_ask``, and the event that they become.

A Pod is an ask, too. An annotation has the fields of ``add_ask`` for which a manifest has no place:
a map of them in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from muster.feeds._affinity import AFFINITY, TOLERATIONS
from muster.feeds._annotations import (
    MEMBER_ANNOTATIONS,
    MEMBER_KEYS,
    ParsedAnnotations,
    gang_annotations,
    gang_settings,
    membership,
    says_of_member,
)
from muster.feeds._configuration import EventOrigin
from muster.feeds._encodings import to_json_line
from muster.feeds._fields import (
    COMMAND,
    ENV,
    GANG,
    NEEDS,
    WORK_FIELDS,
    WORKDIR,
    Values,
    attributes_of,
    field,
    parse_fields,
    parts_of_work,
    work_of,
    write_fields,
)
from muster.feeds._json import MapBuilder, duplicate_key, json_decoder
from muster.feeds._kinds import (
    ASKED_RESOURCES,
    BOOLEAN,
    COUNT,
    DURATION,
    INSTANT,
    INT32,
    NAME,
    OWNED_NAME,
    SOME_RESOURCES,
    TALLY,
    WORDS,
    Date,
    FieldError,
    date_text,
    display_value,
    refused,
)
from muster.feeds._raw import Raw, problem_of_value
from muster_core.decisions import MICROSECONDS
from muster_core.events import AddAsk
from muster_core.resources import Resources
from muster_core.values.events import ASK_ANNOTATION
from muster_core.values.resources import MAX_INT32

APP: Final = field("app", OWNED_NAME, "the name of the application", required=True)
ASK: Final = field("ask", OWNED_NAME, "the name of the ask", required=True)

ASK_FIELDS: Final = (
    APP,
    ASK,
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
    field("tolerations", TOLERATIONS, "the taints of nodes that it tolerates"),
    field(
        "affinity",
        AFFINITY,
        "terms of which the node must match one, besides the `selector`; default: any node",
    ),
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
        "else its run limit, else `estimate.default`",
        attribute="estimate_us",
    ),
    # TIME-2
    field(
        "run_limit",
        DURATION,
        "it is released and gone this long after it was bound; if the `run.limit` of its "
        "queue is shorter, after that",
        attribute="run_limit_us",
    ),
    # TIME-7
    field(
        "start_by",
        INSTANT,
        "it is gone if it is not bound by then: since the start, or a date",
        attribute="start_by_us",
    ),
    field(
        "retries",
        TALLY,
        "how often it is tried again after its work has failed; default 0",
    ),
    # ONCE-1
    field(
        "once",
        BOOLEAN,
        "whether it is gone after it was bound, whatever takes its node from it; default `false`",
    ),
    field(
        "command",
        COMMAND,
        "what is to run: a program with its arguments, or a text for the shell",
    ),
    field("env", ENV, "environment variables for the command"),
    field("workdir", WORKDIR, "the working folder of the command"),
)
"""The fields of ``add_ask``, in the order of the reference."""

_WORK: Final = frozenset(WORK_FIELDS)
_ASIDE: Final = frozenset({"annotations", *WORK_FIELDS})
"""The fields of ``add_ask`` that are parts of a field of the event."""


def add_ask(values: Values, origin: EventOrigin) -> AddAsk:
    """Return the event of which these are the values.

    Raises:
        FieldError: If two of them contradict each other.
    """
    kept = _attributes(values)
    if isinstance(start_by := kept.get("start_by_us"), Date):
        kept["start_by_us"] = _since_start(start_by, origin.start_us)
    if kept.get("devices") is not None:
        # DEVICE-2
        if not (kept["devices"] or kept.get("resources")):
            raise FieldError("nothing: an ask has at least one type above 0", "resources")
        kept.setdefault("resources", Resources())
    marks, gang = values.get("annotations"), values.get("gang")
    if isinstance(marks, ParsedAnnotations) and marks.of_gang:
        member = membership(gang_settings({"annotations": marks}), cast("str | None", gang))
        kept |= {"gang": member.gang, "says": member.says, "timed_out": member.timed_out}
    return AddAsk(**kept)


def _attributes(values: Values) -> dict[str, Any]:
    """Return the attributes of the event that the values give it, but for those of its gang."""
    kept: dict[str, Any] = {name: value for name, value in values.items() if name not in _ASIDE}
    # ONCE-6
    if kept.get("once") and (retries := kept.get("retries")):
        problem = f"true: an ask with `retries` {retries} comes back; leave one of them out"
        raise FieldError(problem, "once")
    if not _WORK.isdisjoint(values):
        kept["work"] = work_of(values)
    return kept


# FEED-86, TIME-7
def _since_start(date: Date, start_us: int | None) -> int:
    """Return the date of a ``start_by`` in microseconds since the start."""
    text = date_text(date.us)
    if start_us is None:
        problem = (
            f"{text!r} is a date, and no `at` before it is one: write a time since the start, or "
            "make the first time that is not 0 a date"
        )
        raise FieldError(problem, "start_by")
    if date.us < start_us:
        problem = f"{text!r} is in the past: the start is at {date_text(start_us)}"
        raise FieldError(problem, "start_by")
    return date.us - start_us


def parts_of_ask(event: AddAsk) -> Values:
    """Return the values of which :func:`add_ask` makes an event."""
    parts = attributes_of(event)
    if event.devices and not event.resources:
        del parts["resources"]
    if event.work is not None:
        parts |= parts_of_work(event.work)
    gang: dict[str, object] = {}
    if event.gang is not None:
        gang["gang"] = event.gang
        marks = gang_annotations(MEMBER_KEYS, says_of_member(event))
        if marks.texts:
            gang["annotations"] = marks
    # The fields of a gang come last.
    own = [known.attribute for known in ASK_FIELDS if known.name != "gang"]
    return {name: parts[name] for name in own if name in parts} | gang


# -- the annotation of a Pod ------------------------------------------------------------------

_ONE: Final = "a Pod is one ask"
_GANG_MARKS: Final = "labels and annotations of the Pod say it"
_NOT_IN_IT: Final[Mapping[str, str]] = {
    "app": "the label applicationId says it",
    "ask": "metadata.name says it",
    "resources": "spec.containers says it",
    "devices": "a Pod has no devices",
    "priority": "spec.priority says it",
    "priority_class": "spec.priorityClassName says it",
    "count": _ONE,
    "gang": _GANG_MARKS,
    "annotations": _GANG_MARKS,
    "selector": "spec.nodeSelector says it",
    "tolerations": "spec.tolerations says it",
    "affinity": "spec.affinity says it",
    "run_for": "a Pod has ended when its phase says so",
}
"""Why a field of ``add_ask`` is not in the annotation."""

POD_ASK_FIELDS: Final = {known.name: known for known in ASK_FIELDS if known.name not in _NOT_IN_IT}
"""The fields in the annotation."""


# OBJECT-30
def read_pod_ask(marks: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes of an :class:`AddAsk` that the annotations of a Pod give it.

    Raises:
        FieldError: If the annotation for them is malformed; the place begins with its key.
    """
    text = marks.get(ASK_ANNOTATION)
    if text is None:
        return {}
    try:
        return _read_pod_ask(_json_map(text))
    except FieldError as error:
        raise error.inside(f".{ASK_ANNOTATION}") from None


def _json_map(text: str) -> dict[str, Raw]:
    maps = MapBuilder()
    try:
        found: Raw = json_decoder(maps).decode(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise refused(text, 'is not a JSON map such as {"once": true}')
    twice = maps.repeated
    problem = duplicate_key(twice[0]) if twice else problem_of_value(found)
    if problem is not None:
        raise FieldError(problem)
    return found


def _read_pod_ask(written: Mapping[str, Raw]) -> dict[str, Any]:
    for name, value in written.items():
        if (why := _NOT_IN_IT.get(name)) is not None:
            raise FieldError(f"{display_value(value)} cannot stand here: {why}", f".{name}")
    problems: list[FieldError] = []
    values = parse_fields(POD_ASK_FIELDS, written, problems, null_is_absent=True)
    if isinstance(start_by := values.get("start_by_us"), Date):
        text = date_text(start_by.us)
        why = f"{text!r} is a date: write a time since the start here"
        problems.append(FieldError(why, "start_by"))
    if problems:
        raise problems[0].inside(".")
    try:
        return _attributes(values)
    except FieldError as error:
        raise error.inside(".") from None


def write_pod_ask(ask: AddAsk) -> dict[str, str]:
    """Return the annotation for the fields that no other part of a Pod sets; empty for none."""
    values = {**parts_of_ask(ask)}
    if is_deadline(ask.estimate_us):
        del values["estimate_us"]
    attributes = {known.attribute for known in POD_ASK_FIELDS.values()}
    left = {name: value for name, value in values.items() if name in attributes}
    if not left:
        return {}
    return {ASK_ANNOTATION: to_json_line(write_fields(POD_ASK_FIELDS, left)).decode().rstrip()}


# BACKFILL-9
def is_deadline(estimate_us: int | None) -> bool:
    """Return whether the ``activeDeadlineSeconds`` of a Pod can be an estimate."""
    return (
        estimate_us is not None
        and estimate_us % MICROSECONDS == 0
        and estimate_us <= MAX_INT32 * MICROSECONDS
    )
