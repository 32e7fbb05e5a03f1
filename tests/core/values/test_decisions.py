"""Decisions as the log shows them."""

from __future__ import annotations

import pytest

from muster_core.decisions import Announced, Decision, Kind, Reason, seconds


@pytest.mark.parametrize(
    ("at_us", "expected"),
    [
        (0, 0),
        (1, 0.000001),
        (1_500_000, 1.5),
        (2_000_000, 2),
        (86_400_000_000, 86_400),
        (123_456_789_012_345, 123_456_789.012345),
    ],
)
def test_instants_in_seconds(at_us: int, expected: float) -> None:
    assert seconds(at_us) == expected
    assert type(seconds(at_us)) is type(expected)


def test_a_line_has_only_what_it_concerns() -> None:
    decision = Decision(Kind.ASSIGNED, app="p", ask="x", node="n", queue="root.a")

    assert Announced(3, 500_000, decision).as_map() == {
        "seq": 3,
        "at": 0.5,
        "kind": "assigned",
        "app": "p",
        "ask": "x",
        "node": "n",
        "queue": "root.a",
    }


def test_a_line_has_its_fields_in_one_order() -> None:
    decision = Decision(
        Kind.RELEASED,
        app="p",
        ask="x",
        node="n",
        queue="root.a",
        reason=Reason.NODE_LOST,
        state="New",
        priority=0,
        message="m",
        index=0,
        line=1,
    )

    assert list(Announced(1, 0, decision).as_map()) == [
        *("seq", "at", "kind", "app", "ask", "node", "queue", "reason", "state", "priority"),
        *("message", "index", "line"),
    ]


# DEVICE-12
def test_devices_come_last_as_lists() -> None:
    decision = Decision(Kind.ASSIGNED, ask="x", line=1, devices={"gpu": (0, 2), "nic": (1,)})
    line = Announced(1, 0, decision).as_map()
    assert [*line.items()][-2:] == [("line", 1), ("devices", {"gpu": [0, 2], "nic": [1]})]
    assert "devices" not in Announced(1, 0, Decision(Kind.ASSIGNED, ask="x")).as_map()


def test_values_of_enumerations_are_plain_text() -> None:
    line = Announced(1, 0, Decision(Kind.RELEASED, reason=Reason.BIND_FAILED)).as_map()

    assert (line["kind"], line["reason"]) == ("released", "bind_failed")
    assert {type(line["kind"]), type(line["reason"])} == {str}


def test_a_queue_without_a_priority_says_so() -> None:
    line = Announced(1, 0, Decision(Kind.QUEUE_PRIORITY, queue="root")).as_map()

    assert line["priority"] is None


def test_every_other_line_leaves_an_unknown_priority_out() -> None:
    assert "priority" not in Announced(1, 0, Decision(Kind.CONFIG, message="m")).as_map()


def test_zeros_are_shown() -> None:
    decision = Decision(Kind.REJECTED, message="m", index=0)

    assert Announced(1, 0, decision).as_map()["index"] == 0


def test_the_start_of_a_reservation_is_always_told() -> None:
    # BACKFILL-30
    known = Decision(Kind.RESERVED, app="a", ask="k", node="n", start_us=1_500_000)
    unknown = Decision(Kind.RESERVED, app="a", ask="k", node="n")

    told = {"seq": 1, "at": 0, "kind": "reserved", "app": "a", "ask": "k", "node": "n"}
    assert Announced(1, 0, known).as_map() == {**told, "start": 1.5}
    assert Announced(1, 0, unknown).as_map() == {**told, "start": None}
    assert "start" not in Announced(1, 0, Decision(Kind.BOUND, start_us=None)).as_map()
