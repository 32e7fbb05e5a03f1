"""On random feeds: what is said to help does, in a replay by the tasks."""

from __future__ import annotations

from hypothesis import assume, event, given, settings, strategies as st

from muster.explain import RemedyKind, explain, explain_all
from muster.explain._answer import replay_until
from muster.feeds import FeedItem
from tests.actors.explain.helpers import (
    helps,
    is_bound,
    items_of,
    one_less,
    still_helps,
    with_events,
)
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.strategies import scenarios

_ANY = scenarios(lists=2) | gang_scenarios(lists=2) | evictions()
_FEW = settings.get_current_profile_name() == "modest"

#: Of these each amount was found by search, and stands in the last event.
_MEASURED = {RemedyKind.PRIORITY, RemedyKind.CAPACITY, RemedyKind.NODE}


@settings(max_examples=8 if _FEW else 2_000)
@given(_ANY, st.data())
def test_every_remedy_gets_the_ask_bound_at_once(scenario: list[Step], data: st.DataObject) -> None:
    items, at_us, app, ask = _some_pending(scenario, data)
    answer = explain(items, app, ask, at_us=at_us)

    assert answer.trials
    assert not is_bound(with_events(items, at_us, []), at_us, app, ask)
    for remedy in answer.remedies:
        event(remedy.kind.value)
        assert helps(items, answer, remedy), remedy
        if remedy.kind in _MEASURED and remedy.smallest is not None:
            for events in one_less(remedy):
                assert not still_helps(items, answer, remedy, events), remedy


@settings(max_examples=15 if _FEW else 2_000)
@given(_ANY)
def test_all_that_do_not_run_are_in_one_group(scenario: list[Step]) -> None:
    items = items_of(scenario)
    overview = explain_all(items, examples=1_000)

    pending = list(replay_until(items, None).scheduler.pending())
    told = [(one.app, one.ask) for group in overview.groups for one in group.examples]
    assert sorted(told) == sorted(pending)
    assert overview.count == len(pending)
    for group in overview.groups:
        assert {one.dominant.code for one in group.examples} == {group.code}
        assert group.count == sum(count for _, count in group.queues)


def _some_pending(
    scenario: list[Step], data: st.DataObject
) -> tuple[list[FeedItem], int, str, str]:
    """Draw an instant of a feed, and an ask that does not run at its end."""
    items = items_of(scenario)
    assume(items)
    at_us = data.draw(st.sampled_from(sorted({item.at_us for item in items})), label="at")
    pending = list(replay_until(items, at_us).scheduler.pending())
    assume(pending)
    app, ask = data.draw(st.sampled_from(pending), label="ask")
    return items, at_us, app, ask
