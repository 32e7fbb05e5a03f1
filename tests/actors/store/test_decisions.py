from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.store._msgpack import CodecError, decode_decisions, encode_decisions
from muster_core.decisions import Announced, Decision, Kind, Reason
from tests.actors.store.exact import anatomy

TEXTS = st.none() | st.text()
NUMBERS = st.none() | st.integers()
DECISIONS = st.builds(
    Decision,
    st.sampled_from(Kind),
    app=TEXTS,
    ask=TEXTS,
    node=TEXTS,
    queue=TEXTS,
    gang=TEXTS,
    reason=st.none() | st.sampled_from(Reason),
    state=TEXTS,
    priority=NUMBERS,
    message=TEXTS,
    index=NUMBERS,
    line=NUMBERS,
    start_us=NUMBERS,
    devices=st.none()
    | st.dictionaries(st.text(), st.lists(st.integers(0, 63), min_size=1).map(tuple), min_size=1),
)


@given(st.lists(DECISIONS), st.integers(1), st.integers(0))
def test_decisions_come_back_exactly(decisions: list[Decision], first: int, at_us: int) -> None:
    # STORE-7
    batch = tuple(Announced(seq, at_us, one) for seq, one in enumerate(decisions, first))

    found = decode_decisions(encode_decisions(batch), first, at_us)

    assert found == batch
    assert anatomy(found) == anatomy(batch)


def test_the_bytes_of_format_1_stay_as_they_are() -> None:
    # STORE-7
    released = Decision(Kind.RELEASED, "a", "k", "n", "root.q", "g", Reason.FAILED, message="m")
    priority = Decision(Kind.QUEUE_PRIORITY, queue="root", priority=-3, index=4, line=5)
    batch = [Announced(7, 20, released), Announced(8, 20, priority)]

    assert msgpack.unpackb(encode_decisions(batch)) == [
        ["released", "a", "k", "n", "root.q", "g", "failed", None, None, "m", None, None],
        ["queue_priority", None, None, None, "root", None, None, None, -3, None, 4, 5],
    ]


def test_only_what_has_devices_names_them() -> None:
    # STORE-7
    taken = Decision(Kind.ASSIGNED, "a", "k", "n", "root.q", devices={"gpu": (0, 1)})

    (line,) = msgpack.unpackb(encode_decisions([Announced(1, 0, taken)]))
    assert line == ["assigned", "a", "k", "n", "root.q", *[None] * 7, {"gpu": [0, 1]}]


NOTHING: dict[str, int] = {}
NO_NUMBERS: dict[str, list[int]] = {"gpu": []}
BOUND: list[object] = ["bound", "a", "k", *[None] * 9]


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ([*BOUND, NOTHING, 7, 7], "decision 4 has 15 fields, and this version of Muster knows 14"),
        ([*BOUND, 7], "decision 4: devices is 7"),
        ([*BOUND, {"gpu": [0.5]}], "decision 4: devices is {'gpu': [0.5]}"),
        ([*BOUND, NO_NUMBERS], "decision 4: devices is {'gpu': []}"),
        (BOUND[:11], "decision 4 has 11 fields"),
        (["painted", *BOUND[1:]], "decision 4 has the kind 'painted'"),
        ([*BOUND[:6], "tired", *BOUND[7:]], "the reason 'tired', one of which this version"),
        ([*BOUND[:6], "", *BOUND[7:]], "the reason ''"),
        ([None, *BOUND[1:]], "the kind None"),
        (["bound", 7, *BOUND[2:]], "decision 4: app is 7"),
        ([*BOUND[:8], True, *BOUND[9:]], "decision 4: priority is True"),
        ({"kind": "bound"}, "decision 4: {'kind': 'bound'} is no array"),
    ],
)
def test_a_decision_that_this_version_does_not_know_is_told(decision: object, told: str) -> None:
    # STORE-12
    with pytest.raises(CodecError) as caught:
        decode_decisions(msgpack.packb([BOUND, decision]), 3, 0)

    assert told in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb(7), msgpack.packb({})])
def test_other_bytes_are_no_decisions(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_decisions(data, 1, 0)
