"""The naive model's work that fails and its back-offs.

One small case for each sentence, by hand, and what is drawn of them.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import pytest
from hypothesis import given

from muster_core.config import load_configuration
from muster_core.config.model import QueueConfig, Settings, SortPolicy
from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import (
    AddApp,
    BindFailed,
    Configure,
    FailBind,
    Outcome,
    Release,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.reasons import Code
from muster_core.resources import Resources
from tests.naive.back_off_strategies import back_offs, retimed
from tests.naive.figures import BACKING_OFF
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import (
    APP,
    LOOSE,
    Batch,
    Drive,
    S,
    Step,
    Story,
    What,
    asks,
    gang,
    kinds,
    node,
    summary_lines,
)
from tests.naive.picture import resolve
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import Ask
from tests.naive.strategies import scenarios, written
from tests.naive.test_evictions import apps, evicted
from tests.naive.test_reasons import HIGH, account_of, codes, queue, tree
from tests.naive.theme import Choices, drawn
from tests.share import share

ONE, TWO = Resources({"vcore": 1}), Resources({"vcore": 2})
LATE: Final = Settings(preemption_delay_us=1000 * S)
BACKS_OFF: Final = attrs.evolve(LATE, bind_retry_us=S)
AT_ONCE: Final = attrs.evolve(BACKS_OFF, preemption_delay_us=0)


def leaf(*more: QueueConfig, settings: Settings = BACKS_OFF, **fields: Any) -> Configure:  # noqa: ANN401 - names of fields
    """Make a tree with the leaf ``root.q``, in which asks back off, and others."""
    return tree(queue("q", settings=settings, **fields), *more)


def failed(ask: str, message: str | None = None, app: str = "a") -> Release:
    return Release(app, ask, Outcome.FAILED, message)


def releases(decisions: list[Decision]) -> list[tuple[str | None, Reason | None, str | None]]:
    released = [one for one in decisions if one.kind is Kind.RELEASED]
    return [(one.ask, one.reason, one.message) for one in released]


def bound(story: Story) -> set[str]:
    return {name for name, _ in story.model.bound}


def instants(story: Story, ask: str, *until: What | int) -> list[int]:
    """Return the instants of all binds of an ask, those after the last step too, in seconds."""
    story.play(*until)
    batches = story.drive.finish()
    found = [(batch.at_us, one) for batch in batches for one in batch.decisions]
    return [at_us // S for at_us, one in found if one.kind is Kind.BOUND and one.ask == ask]


# Work that fails


def test_without_a_retry_an_ask_whose_work_failed_is_gone() -> None:
    story = Story(node("n", 1), APP, asks("k"))
    decisions = story.decide(failed("k", "exit status 1"))
    assert releases(decisions) == [("k", Reason.FAILED, "exit status 1")]
    assert not story.model.world.asks()
    assert story.model.apps["a"].state == "Completing"


def test_with_a_retry_left_it_is_pending_again_and_has_one_less() -> None:
    story = Story(node("n", 1), APP, asks("k", retries=2))
    again = ["released k failed", "assigned k", "bound k"]
    assert story.play(failed("k")) == again
    assert story.play(S, failed("k")) == again
    assert story.model.apps["a"].state == "Running"
    assert story.play(2 * S, failed("k")) == ["released k failed"]
    assert not story.model.world.asks()


def test_each_member_of_a_count_has_as_many() -> None:
    story = Story(node("n", 2), APP, asks("k", count=2, retries=1))
    story.play(failed("k-0"))
    assert bound(story) == {"a/k-0", "a/k-1"}
    story.play(failed("k-0"), failed("k-1"))
    assert bound(story) == {"a/k-1"}


def test_work_that_completed_may_say_so_in_words_and_uses_no_retry() -> None:
    story = Story(node("n", 1), APP, asks("k", retries=1))
    decisions = story.decide(Release("a", "k", Outcome.COMPLETED, "all done"))
    assert releases(decisions) == [("k", Reason.COMPLETED, "all done")]
    assert not story.model.world.asks()


def test_only_a_bound_ask_can_fail() -> None:
    story = Story(APP, asks("k", retries=1))
    assert story.play(failed("k"), failed("missing")) == ["rejected", "rejected"]


def test_no_other_release_uses_a_retry() -> None:
    story = Story(node("n", 1), APP, asks("k", retries=1), FailBind("a", "k"))
    story.play(BindFailed("a", "k"), RemoveNode("n"), node("n", 1))
    assert story.play(failed("k")) == ["released k failed", "assigned k", "bound k"]
    assert story.play(failed("k")) == ["released k failed"]


def test_the_end_of_its_time_is_completed() -> None:
    timed = attrs.evolve(asks("k", retries=1), run_for_us=S)
    story = Story(node("n", 1), APP, timed)
    assert releases(story.decide(2 * S)) == [("k", Reason.COMPLETED, None)]
    assert not story.model.world.asks()


def test_its_time_and_its_delay_begin_anew() -> None:
    timed = attrs.evolve(asks("k", retries=1), run_for_us=3 * S)
    story = Story(node("n", 1), APP, timed)
    story.play(2 * S, UpdateNode("n", schedulable=False), failed("k"))
    assert account_of(story, "k").since_us == 2 * S
    story.play(UpdateNode("n", schedulable=True))
    assert not kinds(story.play(4 * S), "released")
    assert story.play(5 * S) == ["released k completed"]


def test_a_retry_is_as_old_as_the_ask_was() -> None:
    story = Story(node("n", 1), APP, asks("k", retries=1), asks("m"))
    assert story.play(failed("k"))[1:] == ["assigned k", "bound k"]


def test_for_its_gang_it_is_a_failed_bind() -> None:
    story = Story(node("n", 2), APP, gang("g", 2), asks("m", of="g", count=2, retries=1))
    assert story.play(failed("m-0"), failed("m-1")) == [
        *("released m-0 failed", "released m-1 failed"),
        *("assigned m-0", "waiting m-0", "assigned m-1"),
        *("gang_satisfied g", "bound m-0", "bound m-1"),
    ]


def test_without_a_retry_its_gang_has_lost_a_member_and_nothing_else() -> None:
    story = Story(node("n", 2), APP, gang("g", 2), asks("m", of="g", count=3))
    assert story.play(failed("m-0")) == ["released m-0 failed", "assigned m-2", "bound m-2"]
    assert story.play(failed("m-1"), failed("m-2")) == [
        "released m-1 failed",
        "released m-2 failed",
    ]
    assert not story.model.gangs["default/g"].satisfied, "it has no members, and is as new"


def test_a_member_that_failed_is_parked_if_its_gang_has_timed_out() -> None:
    story = Story(node("n", 3), APP, gang("g", 2), asks("m", count=2, of="g", retries=1))
    story.play(RemoveGang("default/g"), gang("g", 4, mode=LOOSE, wait_us=S))
    story.play(asks("k", count=2, of="g"), 2 * S)
    assert story.play(failed("m-0")) == ["released m-0 failed"]
    assert story.gang("g") == (0, 1, 0, 3)


# Back-off of binds


def test_without_a_delay_it_is_tried_again_at_once() -> None:
    story = Story(leaf(settings=LATE), node("n", 1), APP, asks("k"), FailBind("a", "k", times=5))
    assert bound(story) == {"a/k"}


def test_each_back_off_is_twice_as_long_up_to_64_times_the_delay() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k"), FailBind("a", "k", times=9))
    ends = [1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert instants(story, "k") == [sum(ends)]


@pytest.mark.parametrize("what", [BindFailed("a", "k"), failed("k")])
def test_what_was_bound_backs_off_too_and_goes_on_with_its_row(what: What) -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k", retries=9))
    story.play(10 * S, what, 20 * S, what, 30 * S)
    assert instants(story, "k", 30 * S, what) == [0, 11, 22, 34]


def test_binds_and_work_that_fail_are_one_row() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k", retries=9), FailBind("a", "k"))
    assert instants(story, "k", 10 * S, failed("k"), 20 * S, BindFailed("a", "k")) == [1, 12, 24]


def test_another_release_from_being_bound_ends_the_row() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k"), FailBind("a", "k", times=2))
    story.play(10 * S, RemoveNode("n"), node("n", 1))
    assert bound(story) == {"a/k"}
    assert instants(story, "k", 20 * S, BindFailed("a", "k")) == [3, 10, 21]


def test_an_evicted_ask_begins_a_new_row() -> None:
    story = Story(leaf(settings=AT_ONCE), node("n", 1), HIGH, APP, asks("k"), FailBind("a", "k"))
    assert "released k preempted" in story.play(10 * S, asks("h", named="high"))
    story.play(20 * S, Release("a", "h"))
    assert instants(story, "k", 30 * S, BindFailed("a", "k")) == [1, 20, 31]


def test_a_release_from_waiting_does_not_end_the_row() -> None:
    g = gang("g", 2, mode=LOOSE, wait_us=S)
    story = Story(leaf(), node("n", 2), APP, g, asks("m", of="g", count=2))
    story.play(5 * S, BindFailed("a", "m-0"), BindFailed("a", "m-1"), UpdateNode("n", capacity=ONE))
    assert story.play(6 * S) == ["assigned m-0", "waiting m-0"]
    assert story.play(RemoveGang("default/g"))[0] == "released m-0 gang_rollback"
    story.play(UpdateNode("n", capacity=TWO), FailBind("a", "m-0"), g, 7 * S)
    assert story.model.pending == {"a/m-0"}
    assert kinds(story.play(8 * S), "bound") == ["bound m-0"], "after two seconds, not one"


def test_it_is_tried_in_the_batch_of_its_end_which_is_a_timer() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k"), FailBind("a", "k"))
    assert story.model.next_deadline() == S
    assert not story.play(S - 1, asks("later", cores=2))
    assert kinds(story.play(S), "bound") == ["bound k"]


def test_no_timer_is_left_when_it_is_over() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k"))
    story.play(UpdateNode("n", schedulable=False), BindFailed("a", "k"), 2 * S)
    assert story.model.next_deadline() == 300 * S, "of the application, which is Starting"


def test_the_end_of_a_back_off_is_no_timer_of_what_is_not_pending() -> None:
    story = Story(node("n", 3), APP, gang("g", 2), asks("m", count=2, of="g"))
    story.play(RemoveGang("default/g"), gang("g", 4, mode=LOOSE, wait_us=S))
    story.play(asks("k", count=2, of="g"), 2 * S)
    story.play(leaf(), BindFailed("a", "m-0"))
    assert story.model.next_deadline() is None
    story.play(RemoveGang("default/g"))
    assert story.model.next_deadline() == 3 * S


def test_the_delay_is_that_of_the_leaf_now() -> None:
    story = Story(leaf(settings=LATE), node("n", 1), APP, asks("k"))
    story.play(10 * S, leaf(), BindFailed("a", "k"))
    longer, shorter = (attrs.evolve(LATE, bind_retry_us=length * S) for length in (9, 2))
    story.play(leaf(settings=longer), 12 * S)
    assert not bound(story)
    assert story.model.next_deadline() == 19 * S
    story.play(leaf(settings=shorter))
    assert bound(story) == {"a/k"}


def test_binds_that_failed_without_a_delay_count_when_there_is_one() -> None:
    away = UpdateNode("n", schedulable=False)
    story = Story(leaf(settings=LATE), node("n", 1), APP, asks("k"))
    story.play(away, BindFailed("a", "k"), leaf(), UpdateNode("n", schedulable=True))
    assert not bound(story)
    assert kinds(story.play(S), "bound") == ["bound k"]


def test_a_leaf_has_the_delay_of_the_queues_above_unless_it_has_its_own() -> None:
    above = resolve({"bind.retry.delay": "3s"}, None)
    assert resolve({}, above).bind_retry_us == 3 * S
    assert resolve({"bind.retry.delay": "0"}, above).bind_retry_us == 0


def test_others_are_tried_while_it_is_pending_and_counts() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k", priority=7), FailBind("a", "k"), asks("m"))
    assert bound(story) == {"a/m"}
    assert story.model.queue("root.q").priority == 7
    assert story.model.queue("root.q").pending == {"vcore": 1}
    assert story.model.pending == {"a/k"}


def test_the_queue_of_an_ask_that_backs_off_enters_with_it() -> None:
    config = leaf(settings=attrs.evolve(BACKS_OFF, blocking=True), most=2)
    story = Story(config, node("n", 9), APP, asks("k"), asks("m", priority=-1))
    story.play(BindFailed("a", "k"), asks("l", cores=2))
    assert account_of(story, "l").first == "a/l", "beyond the headroom, and tried"


def test_it_blocks_no_other_ask_of_a_blocking_leaf() -> None:
    config = leaf(settings=attrs.evolve(BACKS_OFF, blocking=True))
    story = Story(config, node("n", 2), APP, asks("k", cores=2, priority=1))
    story.play(BindFailed("a", "k"), asks("m", cores=1))
    assert bound(story) == {"a/m"}
    story.play(S, asks("l"))
    assert bound(story) == {"a/m"}, "now it blocks"


def test_it_keeps_no_other_application_from_its_turn() -> None:
    config = leaf(settings=attrs.evolve(BACKS_OFF, sort_policy=SortPolicy.STATE_AWARE))
    story = Story(config, node("n", 2), APP, AddApp("b", "root.q"), asks("k"), FailBind("a", "k"))
    story.play(asks("m", app="b"))
    assert bound(story) == {"b/m"}
    assert codes(story, "k") == ["StateAwareTurn", BACKING_OFF, "BindFailed"]
    story.play(S)
    assert bound(story) == {"b/m"}, "b is Starting now"


def test_alone_it_does_not_wait_for_its_turn() -> None:
    config = leaf(settings=attrs.evolve(BACKS_OFF, sort_policy=SortPolicy.STATE_AWARE))
    story = Story(config, node("n", 2), APP, asks("k"), FailBind("a", "k"))
    assert codes(story, "k") == [BACKING_OFF, "BindFailed"]
    story.play(S)
    story.play(BindFailed("a", "k"))
    assert codes(story, "k") == [BACKING_OFF, "BindFailed"]


def test_a_service_that_backs_off_takes_and_keeps_nothing() -> None:
    settings = attrs.evolve(BACKS_OFF, required_node=True)
    story = Story(leaf(queue("r", settings=LATE), settings=settings), node("n", 1))
    story.play(*apps(a="q", b="r"), asks("s", on="n"))
    story.play(BindFailed("a", "s"), asks("k", app="b"))
    assert bound(story) == {"b/k"}
    assert evicted(story.decide(S)) == ["released k preempted"]


def test_a_service_keeps_nothing_once_it_backs_off() -> None:
    plain, late = attrs.evolve(LATE, required_node=True), queue("r", settings=LATE)
    story = Story(leaf(late, settings=plain), node("n", 2), *apps(a="q", b="r"))
    story.play(asks("k", app="b", priority=9), asks("s", on="n"))
    assert bound(story) == {"b/k", "a/s"}
    story.play(BindFailed("a", "s"), asks("l", app="b", priority=9))
    assert bound(story) == {"b/k", "b/l"}
    assert [ask.name for ask in story.model.world.asks() if ask.keeps] == ["s"]
    story.play(Release("b", "k"), leaf(late, settings=attrs.evolve(plain, bind_retry_us=9 * S)))
    story.play(asks("i", app="b", priority=9))
    assert bound(story) == {"b/l", "b/i"}


# Gangs


def test_a_strict_gang_waits_with_those_that_do_not_back_off() -> None:
    story = Story(leaf(), node("n", 2), APP, gang("g", 2), asks("m", of="g", count=2))
    story.play(5 * S, BindFailed("a", "m-0"), 5 * S + 5, BindFailed("a", "m-1"))
    assert story.play(6 * S) == ["assigned m-0", "waiting m-0"]
    assert story.model.gangs["default/g"].cycle_valid
    assert story.play(6 * S + 5) == ["assigned m-1", "gang_satisfied g", "bound m-0", "bound m-1"]


def test_a_member_that_backs_off_is_a_child_but_others_make_up_for_it() -> None:
    story = Story(leaf(), node("n", 2), APP, gang("g", 2), asks("m", of="g", count=2))
    story.play(BindFailed("a", "m-0"), BindFailed("a", "m-1"))
    assert story.play(asks("l", of="g")) == ["assigned l", "waiting l"]
    assert story.play(asks("i", of="g")) == ["assigned i", "gang_satisfied g", "bound l", "bound i"]


@pytest.mark.parametrize("first", [True, False])
def test_a_group_of_which_one_backs_off_is_released_but_not_helped(first: bool) -> None:
    g, h = gang("g", 2, mode=LOOSE), gang("h", 2, mode=LOOSE)
    story = Story(leaf(), node("n", 2), APP, g, asks("m", of="g", count=2, priority=5))
    story.play(BindFailed("a", "m-0"), 5, BindFailed("a", "m-1"), S)
    assert story.gang("g") == (1, 0, 1, 0)
    decisions = story.play(h, asks("l", of="h", count=2, priority=0 if first else 9))
    helped = [] if first else ["warning", "released m-0 deadlock", "gang_satisfied h"]
    assert kinds(decisions, "warning", "released", "gang_satisfied") == helped


def test_a_group_is_helped_with_members_that_do_not_back_off() -> None:
    g, h = gang("g", 2, mode=LOOSE), gang("h", 2, mode=LOOSE)
    story = Story(leaf(), node("n", 2), APP, g, asks("m", of="g", count=2, priority=5))
    story.play(BindFailed("a", "m-0"), 5, BindFailed("a", "m-1"), S)
    assert not kinds(story.play(h, asks("l", of="h", count=2)), "warning", "bound")
    assert kinds(story.play(asks("i", of="g")), "warning", "released", "bound") == [
        *("warning", "released l-0 deadlock", "bound m-0", "bound i")
    ]


def test_what_a_group_took_in_vain_keeps_its_row() -> None:
    config = leaf(queue("r", settings=AT_ONCE, least=2), settings=BACKS_OFF)
    story = Story(config, node("n", 2), *apps(a="q", b="r"), asks("k"), FailBind("a", "k"))
    story.play(S)
    story.play(2 * S, asks("i", app="b"), gang("g", 2), asks("m", app="b", of="g", count=2))
    assert bound(story) == {"a/k", "b/i"}, "the gang would be over what is guaranteed"
    assert instants(story, "k", 10 * S, RemoveAsk("b", "m-0"), BindFailed("a", "k")) == [1, 12]


def test_a_group_takes_nothing_for_members_that_back_off() -> None:
    config = leaf(queue("r", settings=AT_ONCE), settings=AT_ONCE, least=2)
    story = Story(config, node("n", 2), *apps(a="q", b="r"), gang("g", 2, mode=LOOSE))
    story.play(asks("m", of="g", count=2))
    story.play(10 * S, BindFailed("a", "m-0"), BindFailed("a", "m-1"), asks("k", app="b", count=2))
    assert bound(story) == {"b/k-0", "b/k-1"}
    assert evicted(story.decide(11 * S)) == ["released k-1 reclaimed", "released k-0 reclaimed"]


# Claims


def test_an_ask_that_backs_off_claims_nothing_and_lets_others_claim() -> None:
    strict = attrs.evolve(AT_ONCE, blocking=True)
    config = leaf(queue("r", settings=LATE), settings=strict)
    story = Story(config, HIGH, node("n", 1), *apps(a="q", b="r"), asks("k", named="high"))
    story.play(BindFailed("a", "k"), asks("m", app="b"))
    assert bound(story) == {"b/m"}
    assert codes(story, "k") == [BACKING_OFF, "BindFailed", "NoNodeFits"]
    assert evicted(story.decide(asks("l", named="high"))) == ["released m preempted"]


def test_the_end_of_a_back_off_is_nothing_new_to_what_took_in_vain() -> None:
    story = Story(
        leaf(settings=AT_ONCE), HIGH, node("n", 1), APP, asks("k"), asks("other", cores=9)
    )
    world = story.model.world
    world.lost.add("anything")
    ask = next(ask for ask in world.asks() if ask.name == "other")
    ask.failed_binds, ask.failed_at_us = 1, 0
    assert story.model.next_deadline() == S
    story.model.batch(S, [])
    assert world.lost == {"anything"}


# Reasons


def test_reasons_of_an_ask_that_backs_off() -> None:
    story = Story(leaf(), node("n", 2), APP, asks("k"), FailBind("a", "k", times=2), asks("m"))
    assert codes(story, "k") == [BACKING_OFF, "BindFailed"]
    assert account_of(story, "k").first is None
    story.play(S + 5, asks("l", cores=2))
    account = account_of(story, "k")
    assert account.figures[BACKING_OFF] == {"left_us": 2 * S - 5}
    assert account.figures[Code.BIND_FAILED] == {"node": "n"}
    assert codes(story, "l") == ["NoNodeFits"]
    assert account.first == "a/l"


def test_work_that_failed_is_no_failed_bind() -> None:
    story = Story(leaf(), node("n", 2), APP, asks("k", retries=1))
    assert list(summary_lines(story.decide(failed("k")))) == ["released k failed"]
    assert codes(story, "k") == [BACKING_OFF]


def test_an_ask_that_was_removed_while_it_backed_off_leaves_no_timer() -> None:
    story = Story(leaf(), node("n", 1), APP, asks("k"), asks("m"), FailBind("a", "k"))
    assert story.model.next_deadline() == S
    story.play(RemoveAsk("a", "k"))
    assert story.model.next_deadline() != S


_FAILED: Final = {Reason.BIND_FAILED, Reason.FAILED}
_GONE: Final = {Reason.COMPLETED, Reason.REMOVED, Reason.FAILED}


@share(0.2)
@given(scenarios() | gang_scenarios() | back_offs())
def test_nobody_is_assigned_before_a_back_off_is_over(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Rows().after).run(scenario)


@share(0.2)
@given(back_offs(lists=1), drawn(20))
def test_the_loader_makes_the_same_of_other_delays(scenario: list[Step], choices: Choices) -> None:
    configs = [step.what.config for step in scenario if isinstance(step.what, Configure)]
    for config in (*configs, retimed(configs[0], choices)):
        loaded = load_configuration(written(config))
        assert attrs.evolve(loaded, warnings=config.warnings) == config


@attrs.define
class _Rows:
    """Follows the rows of failed binds.

    Attributes:
        rows: How many binds of an ask failed in a row, and when the last of them did.
        known: The asks that there were at the end of the batch before.
        bound: Those of them that were bound.
    """

    rows: dict[Ask, tuple[int, int]] = attrs.field(factory=dict[Ask, tuple[int, int]])
    known: set[Ask] = attrs.field(factory=set[Ask])
    bound: set[Ask] = attrs.field(factory=set[Ask])

    def after(self, model: NaiveScheduler, batch: Batch) -> None:
        for ask in model.world.asks():
            released = [
                one for one in batch.decisions if (one.app, one.ask) == (ask.app.name, ask.name)
            ]
            if ask not in self.known:
                released = _of_the_last(released)
            for one in released:
                self._follow(model, ask, one, batch.at_us)
        self.known, self.bound = set(model.world.asks()), set(model.world.bound())

    def _follow(self, model: NaiveScheduler, ask: Ask, one: Decision, at_us: int) -> None:
        count, last_us = self.rows.get(ask, (0, 0))
        if one.kind is Kind.RELEASED and one.reason in _FAILED:
            self.rows[ask] = (count + 1, at_us)
        elif one.kind is Kind.RELEASED and ask in self.bound:
            self.rows[ask] = (0, 0)
        elif one.kind is Kind.ASSIGNED and count:
            delay_us = model.world.queues[ask.app.queue].settings.bind_retry_us
            assert at_us >= last_us + delay_us * min(2 ** (count - 1), 64)
        if one.kind is Kind.RELEASED:
            self.bound.discard(ask)


def _of_the_last(released: list[Decision]) -> list[Decision]:
    """Return the releases of the last ask with a name."""
    gone = [place for place, one in enumerate(released) if one.reason in _GONE]
    return released[gone[-1] + 1 :] if gone else released
