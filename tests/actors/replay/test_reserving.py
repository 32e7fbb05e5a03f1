"""What becomes of reservations, in the figures of a replay."""

from __future__ import annotations

import pytest

from muster.replay import Reserved, ReservedTally
from muster_core.decisions import Decision, Kind, Reason


def told(*heard: tuple[int, Kind, str] | tuple[int, Kind, str, int | None]) -> Reserved:
    """Give the figures after decisions: the instant, the kind, the ask, and a start."""
    tally = ReservedTally()
    for at_us, kind, ask, *start in heard:
        reason = Reason.REMOVED if kind is Kind.RELEASED else None
        tally.heard(
            Decision(kind, "a", ask, reason=reason, start_us=start[0] if start else None), at_us
        )
    return tally.told()


# COMMAND-26
@pytest.mark.parametrize(("at_us", "kept"), [(5, True), (9, True), (10, False)])
def test_the_first_known_start_counts(at_us: int, kept: bool) -> None:
    found = told(
        (0, Kind.RESERVED, "k", None),
        (1, Kind.RESERVED, "k", 9),
        (2, Kind.RESERVED, "k", 30),
        (at_us, Kind.BOUND, "k"),
    )

    assert found == Reserved(asks=1, kept=int(kept), late=int(not kept))


# COMMAND-26
def test_who_was_given_no_known_start_or_is_not_bound() -> None:
    found = told(
        (0, Kind.BOUND, "others"),
        (0, Kind.RESERVED, "open", None),
        (0, Kind.RESERVED, "gone", 5),
        (0, Kind.RESERVED, "waits", 5),
        (3, Kind.BOUND, "others"),
        (3, Kind.RELEASED, "gone"),
        (7, Kind.BOUND, "gone"),
        (7, Kind.BOUND, "open"),
    )

    assert found == Reserved(asks=3, open_ended=1)
    assert found.unbound == 2


# COMMAND-26
def test_who_lost_its_node_counts_again() -> None:
    found = told(
        (0, Kind.RESERVED, "k", 5),
        (5, Kind.BOUND, "k"),
        (6, Kind.BOUND, "k"),
        (7, Kind.RESERVED, "k", 8),
        (9, Kind.BOUND, "k"),
    )

    assert found == Reserved(asks=2, kept=1, late=1)
