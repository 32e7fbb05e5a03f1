"""What is found in the latest decisions, once and then as they come."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster.service.decision_log import MOST_OF_SUBJECT, DecisionTail, SubjectDecisions
from muster_core.decisions import Announced, Kind
from muster_core.structures.steps import all_at_once
from tests.actors.serving.streaming.announcing import announced

# PAGE-44


def is_warning(one: Announced) -> bool:
    return one.decision.kind is Kind.WARNING


@given(st.lists(st.integers(1, 900), max_size=6), st.integers(1, 1500))
async def test_it_finds_what_is_in_memory_and_what_comes(batches: list[int], most: int) -> None:
    tail, findings = DecisionTail(most=most), SubjectDecisions()
    for number, count in enumerate(batches, 1):
        all_at_once(tail.hear(number, announced(tail.last + 1, count)))
        found, first = await findings.about(tail, ("warnings",), is_warning)
        meant = [seq for seq in range(first, tail.last + 1) if not seq % 3]

        assert [one.seq for one in found] == meant[-MOST_OF_SUBJECT:]
        assert first <= max(tail.first, tail.last - 3 * (MOST_OF_SUBJECT - 1))


async def test_things_that_nobody_asks_about_are_forgotten() -> None:
    tail, findings = DecisionTail(), SubjectDecisions()
    all_at_once(tail.hear(1, announced(1, 300)))
    for number in range(200):
        found, first = await findings.about(tail, (f"{number % 100}",), is_warning)
        assert len(found) == 100
        assert first == 1
