"""Read feeds that are written in tests, and draw feeds with Hypothesis.

Good events, nearly good ones, and the ways to write them.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import msgpack
from hypothesis import strategies as st

from muster.feeds import Content, Encoding, FeedItem, Field, RawEvent, Refused, read_feed, read_raw
from muster.feeds._annotations import MEMBER_KEYS, OBJECT_KEYS
from muster.feeds._encodings import ENCODERS
from muster.feeds._manifests import FORMS
from muster.feeds._operations import OPS
from muster.feeds._raw import Raw


def raws(text: str | bytes, encoding: Encoding | None = None) -> list[RawEvent]:
    return list(read_raw(stream(text), encoding=encoding))


def items(text: str | bytes, encoding: Encoding | None = None) -> list[FeedItem]:
    return list(read_feed(stream(text), encoding=encoding))


def content(text: str) -> Content:
    """Return the content of the only event, written as YAML."""
    [item] = items(text, Encoding.YAML)
    return item.content


def refusal(text: str) -> str:
    """Return the message with which the only event, written as YAML, is refused."""
    found = content(text)
    assert isinstance(found, Refused), found
    return found.message


def stream(text: str | bytes) -> io.BytesIO:
    return io.BytesIO(dedent(text).encode() if isinstance(text, str) else text)


class Pieces:
    """A stream that returns one piece of an iterator for each read, and counts the reads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.reads = 0

    def read(self, _size: int, /) -> bytes:
        self.reads += 1
        return next(self._pieces, b"")


TEXTS = st.one_of(
    st.sampled_from([
        "a", "b-0", "a/b", "root.a", "12:30", "off", "yes", "true", "null", "~", "", "010", "0x10",
        "1_000", "5", "-5", "+7", "1.5", "1e3", "1.", ".5", "1e-7", "1e400", "500m", "8Gi", "1 Gi",
        "1m30s", "90s", "inf", ".inf", "nan", "<<", "Never", "PreemptLowerPriority", "active",
        "Running", "draining", "system-x", "0.1", "1.0000005", "1.00000000000000000001",
        "9223372036854775808", "é", "\U0001f600", "a: b", "- a", "#", "'", '"', "a\nb", "\x7f",
        "\u2028", "\x85", "\ufeff", "-0", "0", "a" * 1100, "gang.scheduling.koordinator.sh/name",
        "9" * 60 + ".5", "{", "[", "&a", "*a", "!x", "|", ">", "%", "@", "`", "? a",
    ]),
    st.from_regex(
        r"\A[+-]?[0-9]{0,3}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?(ns|us|ms|s|m|h|k|Ki)?\Z"
    ),
    st.text(max_size=8),
)  # fmt: skip
"""Texts, most of them traps."""

NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.integers(),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**63, 2**64, 10**400, 10_000_001]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 10),
)

LEAVES: st.SearchStrategy[Raw] = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())

VALUES: st.SearchStrategy[Raw] = st.recursive(
    LEAVES,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(TEXTS, below, max_size=3)),
    max_leaves=6,
)

QUANTITIES: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(["vcore", "memory", "pods", "nvidia.com/gpu", ""]), LEAVES, max_size=3
)
NAMES = st.sampled_from(["a", "b", "n-1", "12:30", "off", "root.a", "0", "x/y", "null"])
ASKS = st.sampled_from(["a/x", "a/x-0", "b/1", "a", "off/on"])
WORDS = st.dictionaries(NAMES, st.one_of(NAMES, st.booleans(), st.integers(-3, 3)), max_size=2)

LEAF: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "parent": LEAVES,
        "maxapplications": LEAVES,
        "submitacl": LEAVES,
        "properties": st.dictionaries(
            st.sampled_from(["application.sort.policy", "priority.offset", "queue.priority", "x"]),
            LEAVES,
            max_size=2,
        ),
        "resources": st.one_of(
            LEAVES, st.fixed_dictionaries({}, optional={"max": st.one_of(LEAVES, QUANTITIES)})
        ),
    },
)
QUEUES: st.SearchStrategy[Any] = st.lists(LEAF, min_size=1, max_size=2).map(
    lambda leaves: [{"name": "root", "queues": leaves}]
)
CONFIGS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "partitions": st.lists(
            st.fixed_dictionaries(
                {"name": NAMES, "queues": QUEUES},
                optional={
                    "preemption": st.fixed_dictionaries({"enabled": LEAVES}),
                    "limits": LEAVES,
                },
            ),
            max_size=2,
        )
    }
)

GANG_KEYS = st.sampled_from([*MEMBER_KEYS, *OBJECT_KEYS, "applicationId", "queue", "a"])
GROUPS = st.one_of(
    st.lists(NAMES, max_size=2), st.sampled_from(["", "[]", '["b", "x/y"]', "[1]", "{}", "b"])
)
MARKS: st.SearchStrategy[Any] = st.dictionaries(
    GANG_KEYS,
    st.one_of(NAMES, st.integers(-1, 3), st.sampled_from(["3600s", "strict", "true"]), GROUPS),
    max_size=4,
)
POD_ASKS: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "muster/ask": st.dictionaries(
            st.sampled_from(
                ["once", "node", "env", "start_by", "retries", "estimate", "x", "count"]
            ),
            st.one_of(st.integers(0, 3), st.booleans(), NAMES, st.just({"A": "b"})),
            max_size=2,
        ).map(json.dumps)
    }
)
METADATA: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"name": NAMES},
    optional={"namespace": NAMES, "labels": MARKS, "annotations": st.one_of(MARKS, POD_ASKS)},
)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "vcore", "memory"]), LEAVES, max_size=2)
CONTAINERS: st.SearchStrategy[Any] = st.lists(
    st.one_of(
        LEAVES,
        st.fixed_dictionaries(
            {"resources": st.just({"requests": {"cpu": "500m"}})},
            optional={"restartPolicy": st.one_of(LEAVES, st.just("Always"))},
        ),
    ),
    max_size=2,
)
SPEC: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "minMember": st.integers(-1, 3),
        "scheduleTimeoutSeconds": LEAVES,
        "minResources": AMOUNTS,
        "unschedulable": LEAVES,
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "overhead": AMOUNTS,
        "resources": st.one_of(LEAVES, st.fixed_dictionaries({"requests": AMOUNTS})),
        "nodeName": st.one_of(NAMES, st.just("")),
        "nodeSelector": WORDS,
        "priority": LEAVES,
        "priorityClassName": LEAVES,
        "parent": NAMES,
        "reclaimable": LEAVES,
        "weight": LEAVES,
        "capability": AMOUNTS,
        "deserved": AMOUNTS,
        "guarantee": st.one_of(LEAVES, st.just({"resource": {"cpu": 1}})),
        "labels": WORDS,
        "unknown": VALUES,
    },
)
OBJECT: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"kind": st.sampled_from([*FORMS, "List", "Secret"])},
    optional={
        "metadata": st.one_of(METADATA, LEAVES),
        "spec": st.one_of(SPEC, LEAVES),
        "status": st.one_of(
            LEAVES,
            st.fixed_dictionaries({"phase": st.sampled_from(["", "Running", "Failed", "x"])}),
            st.fixed_dictionaries({"capacity": AMOUNTS}),
        ),
        "value": LEAVES,
        "preemptionPolicy": NAMES,
    },
)
MANIFEST: st.SearchStrategy[Any] = st.one_of(
    OBJECT,
    st.fixed_dictionaries({"kind": st.just("List"), "items": st.lists(OBJECT, max_size=2)}),
)

LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "config": CONFIGS,
    "capacity": QUANTITIES,
    "resources": QUANTITIES,
    "attributes": WORDS,
    "selector": WORDS,
    "tags": WORDS,
    "annotations": MARKS,
    "manifest": MANIFEST,
    "gang": NAMES,
    "min_member": st.integers(-1, 3),
    "total": st.integers(0, 3),
    "topology": st.one_of(
        st.dictionaries(
            st.sampled_from(["same", "prefer", "spread", "max"]),
            st.one_of(NAMES, st.integers(0, 2)),
            max_size=2,
        ),
        LEAVES,
    ),
    "mode": st.sampled_from(["Strict", "NONSTRICT", "strict ", "x"]),
    "wait_time": st.one_of(st.integers(0, 3), st.floats(0, 3), st.just("1m30s")),
    "schedulable": st.booleans(),
    "priority": st.integers(-3, 3),
    "value": st.integers(-3, 3),
    "count": st.integers(0, 3),
    "times": st.integers(0, 3),
    "run_for": st.one_of(st.integers(0, 3), st.floats(0, 3), st.just("1m30s")),
    "retries": st.integers(-1, 3),
    "outcome": st.sampled_from(["completed", "failed", "Failed"]),
    "message": TEXTS,
    "preemption_policy": st.sampled_from(["Never", "PreemptLowerPriority", "never"]),
    "groups": GROUPS,
    "order": st.lists(ASKS, max_size=2),
    "bound": st.lists(ASKS, max_size=2),
    "rejected": st.lists(TEXTS, max_size=2),
    "queues": st.dictionaries(
        NAMES,
        st.fixed_dictionaries(
            {},
            optional={
                "priority": st.one_of(st.none(), st.integers(-3, 3)),
                "allocated": QUANTITIES,
                "share": st.one_of(st.just("inf"), st.floats(0, 2)),
                "exists": st.booleans(),
                "state": st.sampled_from(["active", "draining", "other"]),
            },
        ),
        max_size=2,
    ),
    "apps": st.dictionaries(NAMES, st.fixed_dictionaries({"state": NAMES}), max_size=1),
    "gangs": st.dictionaries(NAMES, st.fixed_dictionaries({"bound": LEAVES}), max_size=1),
    "placed": st.dictionaries(ASKS, NAMES, max_size=2),
    "reasons": st.dictionaries(ASKS, TEXTS, max_size=2),
}


@st.composite
def events(draw: st.DrawFn) -> Raw:
    """Draw an event: good as a rule, with something wrong now and then."""
    op = draw(st.sampled_from([*OPS, "nope"]))
    fields = OPS[op].fields if op in OPS else dict[str, Field]()
    event: dict[str, Raw] = {"op": op}
    for name, field in fields.items():
        if draw(st.booleans()) or field.required:
            event[name] = draw(LIKELY.get(name, NAMES))
    if draw(st.booleans()):
        event["at"] = draw(st.one_of(st.integers(0, 3), st.floats(0, 3), st.just("1m30s"), LEAVES))
    if draw(st.integers(0, 5)) == 0:
        event[draw(st.one_of(st.sampled_from([*event]), TEXTS))] = draw(VALUES)
    return event


FEEDS = st.lists(st.one_of(events(), VALUES), max_size=6)


def plain_yaml(value: Raw) -> str:
    """Write a value as YAML with as few quotes as possible, so that texts look like others."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_key(k)}: {plain_yaml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(plain_yaml(part) for part in value) + "]"
        case str() if value and all(c.isascii() and (c.isalnum() or c in "._/:+-~") for c in value):
            return value if value[0] not in ":-?" and value[-1] != ":" else json.dumps(value)
        case str():
            return ENCODERS[Encoding.YAML](value)[2:-1].decode()
        case _:
            return json.dumps(value)


def _key(key: str) -> str:
    text = plain_yaml(key)
    return f"? {text}" if len(text) > 1000 else text


def write_feed(feed: list[Raw], encoding: Encoding, *, compressed: bool) -> bytes:
    """Write a feed, without the help of the converter as far as possible."""
    if encoding is Encoding.YAML:
        data = "".join(f"- {plain_yaml(event)}\n" for event in feed).encode()
    elif encoding is Encoding.JSON:
        data = json.dumps(feed).encode()
    elif encoding is Encoding.JSON_LINES:
        data = b"".join(json.dumps(event).encode() + b"\n" for event in feed)
    else:
        data = b"".join(msgpack.packb(_packable(event)) for event in feed)
    return gzip.compress(data) if compressed else data


def _packable(value: Raw) -> Raw:
    match value:
        case int() if not -(2**63) <= value < 2**64:
            return float(value) if abs(value) < 10**300 else str(value)
        case list():
            return [_packable(part) for part in value]
        case dict():
            return {key: _packable(part) for key, part in value.items()}
        case _:
            return value
