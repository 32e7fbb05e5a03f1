"""What the agent says, as bytes, and amounts of Ray as amounts of Muster."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.ray import DEFAULT_RESOURCES
from muster.ray._messages import FromAgent
from muster.ray._nodes import Amounts, RayRequest
from muster.ray._process import MessageDecoder, WireError
from muster_core.errors import EventError
from muster_core.resources import Resources

SAID: list[dict[str, Any]] = [
    {"say": "connected", "ray": "2.60", "python": "3.11"},
    {"say": "refused", "reason": "python", "text": "x"},
    {"say": "outdone", "term": 2},
    {"say": "beat"},
    {"say": "nodes", "nodes": []},
    {
        "say": "nodes",
        "nodes": [{"id": "a", "labels": {"x": "y"}, "resources": {"CPU": 1}, "draining": False}],
    },
    {"say": "started", "id": 1, "pid": 2},
    {"say": "ended", "id": 1, "status": None, "value": b"x"},
    {"say": "ended", "id": 1, "status": -9, "value": None},
    {"say": "failed", "id": 1, "how": "node_lost", "error": "E", "text": ""},
    {"say": "cancelled", "id": 1, "gone": True},
    {"say": "survivors", "survivors": []},
    {"say": "warning", "text": "x"},
    {"say": "warning", "text": "x", "node": "a"},
]


def test_every_message_is_among_the_examples() -> None:
    assert {one["say"] for one in SAID} == {
        get_args(get_type_hints(message)["say"])[0] for message in get_args(FromAgent)
    }


@given(st.lists(st.sampled_from(SAID)), st.integers(1, 50))
def test_messages_come_whole_however_they_are_cut(
    messages: list[dict[str, Any]], size: int
) -> None:
    data = b"".join(map(msgpack.packb, messages))
    incoming = MessageDecoder()
    decoded = [
        message
        for start in range(0, len(data), size)
        for message in incoming.feed(data[start : start + size])
    ]
    assert decoded == messages


@pytest.mark.parametrize("message", SAID, ids=str)
def test_a_field_that_nobody_knows_is_passed_over(message: dict[str, Any]) -> None:
    (decoded,) = MessageDecoder().feed(msgpack.packb({**message, "more": [1]}))
    assert decoded == {**message, "more": [1]}


@pytest.mark.parametrize("message", SAID, ids=str)
def test_every_field_is_needed_and_has_its_type(message: dict[str, Any]) -> None:
    for name in message:
        rest = {key: value for key, value in message.items() if key != name}
        if (name, message["say"]) != ("node", "warning"):
            with pytest.raises(WireError):
                list(MessageDecoder().feed(msgpack.packb(rest)))
        with pytest.raises(WireError):
            list(MessageDecoder().feed(msgpack.packb({**message, name: 1.5})))


@given(st.binary(min_size=1))
def test_whatever_comes_is_a_message_or_an_error(data: bytes) -> None:
    incoming = MessageDecoder()
    try:
        decoded = list(incoming.feed(data))
    except WireError:
        return
    assert all(isinstance(message, dict) for message in decoded)


def test_what_is_said_before_a_mistake_counts() -> None:
    incoming = MessageDecoder().feed(msgpack.packb({"say": "beat"}) + b"\xc1")
    assert next(incoming) == {"say": "beat"}
    with pytest.raises(WireError, match="not msgpack"):
        next(incoming)


def test_an_error_shows_the_beginning_of_a_long_message() -> None:
    with pytest.raises(WireError) as raised:
        list(MessageDecoder().feed(msgpack.packb(["x" * 10_000])))
    assert len(str(raised.value)) < 300


AMOUNTS = Amounts(DEFAULT_RESOURCES)
MOST = (2**63 - 1) // 10_000


def test_what_an_ask_holds_is_declared() -> None:
    held = Resources({"vcore": 1500, "memory": 2**30, "nvidia.com/gpu": 3, "licence": 2})

    assert AMOUNTS.declared(held) == RayRequest(1.5, 3.0, 2**30, {"licence": 2.0})
    assert AMOUNTS.declared(Resources()) == RayRequest(0.0, 0.0, 0, {})


@given(
    st.dictionaries(
        st.sampled_from(["vcore", "memory", "nvidia.com/gpu", "licence", "other"]),
        st.integers(1, MOST),
    )
)
def test_what_is_declared_is_what_is_held(held: dict[str, int]) -> None:
    if held.get("vcore", 0) % 1000 and held["vcore"] > 2**53:
        held["vcore"] -= held["vcore"] % 1000  # a float has no such fraction
    resources = Resources(held)

    assert AMOUNTS.resources(AMOUNTS.declared(resources)) == resources


@given(
    st.floats(0, 1e6).map(lambda amount: round(amount, 4)),
    st.integers(0, 2**46),
    st.integers(0, 64),
)
def test_a_node_never_has_more_than_ray_says(cpus: float, memory: int, gpus: int) -> None:
    amounts = {"CPU": cpus, "memory": float(memory), "GPU": float(gpus), "x": cpus}
    capacity = AMOUNTS.capacity(amounts) or Resources()

    assert capacity["memory"] == memory
    assert capacity["nvidia.com/gpu"] == gpus
    assert 0 <= round(cpus * 10_000) - capacity["vcore"] * 10 < 10
    assert capacity["x"] == int(cpus)


@pytest.mark.parametrize(
    ("names", "held", "message"),
    [
        (DEFAULT_RESOURCES, {"licence": MOST + 1}, "licence: .*: Ray counts to"),
        (DEFAULT_RESOURCES, {"memory": MOST + 1}, "memory: .*: Ray counts to"),
        (DEFAULT_RESOURCES, {"CPU": 1}, "CPU: Ray's CPU is called 'vcore' here"),
        (DEFAULT_RESOURCES, {"GPU": 1}, "GPU: Ray's GPU is called 'nvidia.com/gpu' here"),
        ({"CPU": "vcore"}, {"GPU": 1}, "GPU: is not given out"),
        (DEFAULT_RESOURCES, {"object_store_memory": 1}, "object_store_memory: is not given out"),
        (DEFAULT_RESOURCES, {"node:10.0.0.1": 1}, "node:10.0.0.1: is not given out"),
        ({"GPU": "vcore"}, {"vcore": 1500}, "vcore: 1.5: .* only as a whole number"),
        ({"memory": "vcore"}, {"vcore": 1500}, "vcore: 1.5: Ray's memory has no such fraction"),
    ],
)
def test_what_ray_cannot_count_is_refused(
    names: dict[str, str], held: dict[str, int], message: str
) -> None:
    with pytest.raises(EventError, match=message):
        Amounts(names).declared(Resources(held))


def test_part_of_one_gpu_can_be_given() -> None:
    assert Amounts({"GPU": "vcore"}).declared(Resources({"vcore": 250})).gpus == 0.25


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"CPU": "x", "GPU": "x"}, "two resources of Ray have the same name"),
        ({"object_store_memory": "x"}, "'object_store_memory': 'x': cannot be given out"),
        ({"CPU": ""}, "'CPU': '': cannot be given out"),
        ({"cpu": "vcore"}, "'cpu': Ray calls it 'CPU'"),
        ({"Memory": "memory"}, "'Memory': Ray calls it 'memory'"),
        ({"vcore": "CPU"}, "'vcore': 'CPU': Ray has no 'vcore'; must be a map of Ray's names"),
        ({"CPU": 3}, "'CPU': 3: must be a map of Ray's names"),
        ("CPU=vcore", "'CPU=vcore': must be a map of Ray's names"),
    ],
)
def test_names_are_checked(names: Any, message: str) -> None:  # noqa: ANN401 - also wrong ones
    with pytest.raises(EventError) as raised:
        Amounts(names)
    assert str(raised.value).startswith("resources: ")
    assert message in str(raised.value)
