"""The naive model's reclaim and preemption: one small case for each sentence, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
from hypothesis import given

from muster_core.config.model import Configuration, Limits, PreemptionPolicy, QueueConfig, Settings
from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    AddPriorityClass,
    Configure,
    FailBind,
    RemoveGang,
)
from muster_core.resources import Resources
from tests.naive.eviction_strategies import evictions
from tests.naive.harness import (
    LOOSE,
    Batch,
    Drive,
    S,
    Step,
    Story,
    asks,
    gang,
    kinds,
    node,
    summary_lines,
)
from tests.naive.scheduler import NaiveScheduler
from tests.share import share

FENCE: Final = PreemptionPolicy.FENCE
DISABLED: Final = PreemptionPolicy.DISABLED
HIGH: Final = AddPriorityClass("high", 5, preempts=True)
_EVICTED: Final = {Reason.RECLAIMED, Reason.PREEMPTED}
AT_ONCE: Final = Settings(preemption_delay_us=0)


def queue(
    path: str,
    *children: QueueConfig,
    least: int = 0,
    most: int | None = None,
    settings: Settings = AT_ONCE,
) -> QueueConfig:
    """Make a queue with so many cores guaranteed, and so many at the most."""
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=f"root.{path}",
        is_parent=bool(children),
        guaranteed=Resources({"vcore": least}),
        max=Limits() if most is None else Limits.of({"vcore": most}),
        settings=settings,
        children=children,
    )


def eviction_tree(*children: QueueConfig, enabled: bool = True) -> Configure:
    root = QueueConfig("root", "root", is_parent=True, settings=AT_ONCE, children=children)
    return Configure(Configuration("default", root, preemption_enabled=enabled))


def like(**changes: Any) -> Settings:  # noqa: ANN401 - names of fields
    return attrs.evolve(AT_ONCE, **changes)


def apps(**queues: str) -> list[AddApp]:
    return [AddApp(name, f"root.{path}") for name, path in queues.items()]


def evicted(decisions: list[Decision]) -> list[str]:
    return list(summary_lines(one for one in decisions if one.reason in _EVICTED))


def test_a_queue_below_its_guaranteed_takes_from_one_above() -> None:
    story = Story(eviction_tree(queue("x", least=1), queue("y")), node("n", 2), *apps(a="x", b="y"))
    story.play(asks("k", count=2, app="b"))
    decisions = story.decide(asks("m", count=2))
    assert [(one.kind, one.ask, one.node, one.message) for one in decisions if one.node] == [
        (Kind.RELEASED, "k-1", "n", "for a/m-0: root.x is below its guaranteed"),
        (Kind.ASSIGNED, "m-0", "n", None),
        (Kind.BOUND, "m-0", "n", None),
    ]
    assert decisions[1].reason is Reason.RECLAIMED
    assert story.model.pending == {"a/m-1", "b/k-1"}
    assert not story.play(), "the claimant has all that it is guaranteed"


def test_the_claimant_is_the_nearest_queue_that_may_and_gives_nothing_itself() -> None:
    inner = (queue("p.x"), queue("p.z"))
    story = Story(eviction_tree(queue("p", *inner, least=2), queue("y")), node("n", 3))
    story.play(*apps(a="p.x", c="p.z", b="y"), asks("k", count=2, app="b"), asks("z", app="c"))
    decisions = story.decide(asks("m", count=2))
    assert evicted(decisions) == ["released k-1 reclaimed"]
    assert next(one.message for one in decisions if one.message) == (
        "for a/m-0: root.p is below its guaranteed"
    )


def test_all_types_of_the_ask_that_are_guaranteed_have_to_be_left() -> None:
    both = Resources({"vcore": 1, "memory": 2})
    x = attrs.evolve(queue("x"), guaranteed=Resources({"vcore": 3, "memory": 1}))
    story = Story(eviction_tree(x, queue("y")), AddNode("n", Resources({"vcore": 2, "memory": 2})))
    story.play(*apps(a="x", b="y"), AddAsk("b", "k", both))
    assert not story.play(AddAsk("a", "m", both))
    assert story.play(AddAsk("a", "l", Resources({"vcore": 1, "memory": 1})))


def test_nobody_is_looked_for_beyond_a_fence_of_the_claimant() -> None:
    inner = (queue("p.x", least=1), queue("p.z"))
    config = eviction_tree(queue("p", *inner, settings=like(preemption_policy=FENCE)), queue("y"))
    story = Story(config, node("n", 2), *apps(a="p.x", c="p.z", b="y"))
    story.play(asks("k", count=2, app="b"))
    assert not story.play(asks("m"))
    story = Story(config, node("n", 2), *apps(a="p.x", c="p.z", b="y"))
    story.play(asks("k", app="c"), asks("k", app="b"))
    assert kinds(story.play(asks("m")), "released") == ["released k reclaimed"]
    assert story.model.pending == {"c/k"}


def test_a_claimant_that_is_fenced_itself_has_no_victims() -> None:
    fenced = queue("x", least=1, settings=like(preemption_policy=FENCE))
    story = Story(eviction_tree(fenced, queue("y")), node("n", 1), *apps(a="x", b="y"))
    story.play(asks("k", app="b"))
    assert not story.play(asks("m"))


def test_what_is_not_reclaimable_or_disabled_gives_nothing() -> None:
    for settings in (like(reclaimable=False), like(preemption_policy=DISABLED)):
        config = eviction_tree(queue("x", least=1), queue("y", settings=settings))
        story = Story(config, node("n", 1), *apps(a="x", b="y"))
        story.play(asks("k", app="b"))
        assert not story.play(asks("m"))


def test_a_disabled_leaf_or_partition_asks_for_nothing() -> None:
    disabled = queue("x", least=1, settings=like(preemption_policy=DISABLED))
    for config in (
        eviction_tree(disabled, queue("y")),
        eviction_tree(queue("x", least=1), queue("y"), enabled=False),
    ):
        story = Story(config, HIGH, node("n", 1), *apps(a="x", b="y"))
        story.play(asks("k", app="b"))
        assert not story.play(asks("m"), asks("l", named="high"))


def test_victims_leave_every_queue_below_the_common_one_what_is_guaranteed() -> None:
    inner = (queue("p.y"), queue("p.z"))
    config = eviction_tree(queue("x", least=3), queue("p", *inner, least=2))
    story = Story(config, node("n", 4), *apps(a="x", b="p.y", c="p.z"))
    story.play(asks("k", count=3, app="b"), asks("k", app="c"))
    decisions = story.play(asks("m", count=3))
    assert len(kinds(decisions, "released")) == 2


def test_the_lower_queue_priority_gives_first_and_the_higher_only_then() -> None:
    high, low = like(queue_priority=2), like(queue_priority=1)
    inner = (queue("p.y", settings=like(queue_priority=7)), queue("p.z"))
    config = eviction_tree(
        queue("x", least=3), queue("p", *inner, settings=low), queue("w", settings=high)
    )
    story = Story(config, node("n", 3), *apps(a="x", b="p.y", c="p.z", d="w"))
    story.play(*(asks("k", app=app) for app in "bcd"))
    decisions = story.decide(asks("m", count=3))
    assert [one.app for one in decisions if one.reason] == ["c", "b", "d"]


def test_then_the_largest_fair_share_the_lowest_priority_and_the_newest_give() -> None:
    story = Story(eviction_tree(queue("x", least=4), queue("y", least=2), queue("z", least=2)))
    story.play(node("n", 9), *apps(a="x", b="y", c="z"))
    story.play(asks("k", count=4, app="b"), asks("low", app="c", priority=-1))
    story.play(asks("old", app="c"), asks("new", app="c"), asks("l", app="c"), asks("o", app="c"))
    decisions = story.decide(asks("m", count=4))
    assert evicted(decisions) == [
        *("released low reclaimed", "released o reclaimed"),
        *("released k-3 reclaimed", "released l reclaimed"),
    ]


def test_what_is_not_needed_in_the_end_is_spared() -> None:
    story = Story(eviction_tree(queue("x", least=2), queue("y")), node("n", 3), *apps(a="x", b="y"))
    story.play(asks("small", app="b"), asks("big", app="b", cores=2, priority=1))
    assert kinds(story.play(asks("m", cores=2)), "released") == ["released big reclaimed"]


def test_of_the_nodes_the_one_with_the_lowest_queues_and_the_fewest_victims_is_taken() -> None:
    config = eviction_tree(
        queue("x", least=2), queue("y"), queue("z", settings=like(queue_priority=1))
    )
    story = Story(config, node("n1", 2), node("n2", 2), node("n3", 2), *apps(a="x", b="y", c="z"))
    story.play(asks("z", app="c", cores=2, on="n1"), asks("small", app="b", count=2, on="n2"))
    story.play(asks("big", app="b", cores=2, on="n3"))
    assert kinds(story.play(asks("m", cores=2)), "released") == ["released big reclaimed"]


def test_below_a_max_a_victim_is_useful_wherever_it_stands() -> None:
    inner = (queue("p.x", least=1), queue("p.y"))
    story = Story(eviction_tree(queue("p", *inner, most=2)), node("n1", 1), node("n2", 9))
    story.play(*apps(a="p.x", b="p.y"), asks("k", app="b", on="n1"), asks("l", app="b", on="n2"))
    decisions = story.decide(asks("m", on="n2"))
    assert evicted(decisions) == ["released l reclaimed"]
    story = Story(eviction_tree(queue("p", *inner, most=1)), node("n1", 1), node("n2", 9))
    story.play(*apps(a="p.x", b="p.y"), asks("k", app="b", on="n1"))
    assert evicted(story.decide(asks("m", on="n2"))) == ["released k reclaimed"]


def test_an_ask_waits_for_the_delay_of_its_leaf_and_its_end_is_a_timer() -> None:
    patient = queue("x", least=1, settings=like(preemption_delay_us=30 * S))
    story = Story(eviction_tree(patient, queue("y")), node("n", 1), *apps(a="x", b="y"))
    story.play(asks("k", app="b"))
    assert not story.play(2 * S, asks("m"))
    assert story.model.next_deadline() == 32 * S
    assert evicted(story.decide(40 * S)) == ["released k reclaimed"]
    assert story.model.world.apps["b"].asks["k"].since_us == 32 * S


def test_only_a_class_that_says_so_preempts() -> None:
    calm = AddPriorityClass("calm", 5)
    story = Story(
        HIGH, calm, eviction_tree(queue("x"), queue("y")), node("n", 1), *apps(a="x", b="y")
    )
    story.play(asks("k", app="b"))
    assert not story.play(asks("m", priority=5), asks("l", named="calm"))
    decisions = story.decide(asks("o", named="high"))
    assert evicted(decisions) == ["released k preempted"]
    assert next(one.message for one in decisions if one.reason) == (
        "for a/o: its effective priority 5 is above 0"
    )


def test_only_strictly_lower_effective_priorities_are_taken_the_lowest_and_newest_first() -> None:
    story = Story(HIGH, eviction_tree(queue("x"), queue("y")), node("n", 4), *apps(a="x", b="y"))
    story.play(asks("low", app="b", priority=-1), asks("equal", app="b", priority=5))
    story.play(asks("old", priority=1), asks("new", app="b", priority=1))
    decisions = story.decide(asks("m", count=4, named="high"))
    assert evicted(decisions) == [
        *("released low preempted", "released new preempted", "released old preempted")
    ]


def test_offsets_count_below_the_common_queue_only() -> None:
    raised = queue("y", settings=like(offset=5))
    story = Story(HIGH, eviction_tree(queue("x"), raised), node("n", 1), *apps(a="x", b="y", c="y"))
    story.play(asks("k", app="b"))
    assert not story.play(asks("m", named="high"))
    assert evicted(story.decide(asks("m", app="c", named="high"))) == ["released k preempted"]


def test_a_fenced_priority_is_that_of_its_queue() -> None:
    fenced = queue("y", settings=like(fence=True, offset=4))
    story = Story(HIGH, eviction_tree(queue("x"), fenced), node("n", 1), *apps(a="x", b="y"))
    story.play(asks("k", app="b", priority=100))
    assert evicted(story.decide(asks("m", named="high"))) == ["released k preempted"]


def test_preemption_stays_inside_the_nearest_fence() -> None:
    fenced = queue("x", settings=like(preemption_policy=FENCE))
    story = Story(HIGH, eviction_tree(fenced, queue("y")), node("n", 2), *apps(a="x", b="y"))
    story.play(asks("k", app="b"), asks("l"))
    decisions = story.decide(asks("m", count=2, named="high"))
    assert evicted(decisions) == ["released l preempted"]


def test_guarantees_protect_but_not_inside_the_leaf_and_reclaimable_does_not() -> None:
    y = queue("y", least=1, settings=like(reclaimable=False))
    story = Story(HIGH, eviction_tree(queue("x", least=1), y), node("n", 3), *apps(a="x", b="y"))
    story.play(asks("k", app="b", count=2), asks("l"))
    decisions = story.decide(asks("m", count=3, named="high"))
    assert evicted(decisions) == ["released k-1 preempted", "released l preempted"]


def test_reclaim_is_tried_for_all_before_preemption_is_for_any() -> None:
    config = eviction_tree(queue("x"), queue("y"), queue("z", least=1))
    story = Story(HIGH, config, node("n", 1), *apps(a="x", b="y", c="z"))
    story.play(asks("k", app="b"))
    decisions = story.decide(asks("m", named="high"), asks("l", app="c", priority=-9))
    assert evicted(decisions) == ["released k reclaimed"]


def test_of_a_blocking_leaf_only_the_first_is_looked_at() -> None:
    blocking = queue("x", settings=like(blocking=True))
    story = Story(HIGH, eviction_tree(blocking, queue("y")), node("n", 1), *apps(a="x", b="y"))
    story.play(asks("k", app="b"))
    assert not story.play(asks("first", priority=6), asks("m", named="high"))


def test_victims_are_gone_though_the_bind_fails() -> None:
    story = Story(eviction_tree(queue("x", least=1), queue("y")), node("n", 1), *apps(a="x", b="y"))
    story.play(asks("k", app="b"))
    decisions = story.play(asks("m"), FailBind("a", "m"))
    assert decisions == [
        *("released k reclaimed", "assigned m", "released m bind_failed"),
        *("assigned m", "bound m"),
    ]


def test_a_satisfied_gang_gives_what_it_can_spare_and_then_all_of_it() -> None:
    config = eviction_tree(queue("x", least=3), queue("y"))
    story = Story(config, node("n", 3), *apps(a="x", b="y"), gang("g", 2))
    story.play(asks("k", count=3, of="g", app="b"))
    assert evicted(story.decide(asks("m"))) == ["released k-2 reclaimed"]
    assert story.model.gangs["default/g"].satisfied
    decisions = story.play(asks("l"))
    assert kinds(decisions, "released", "bound") == [
        *("released k-1 reclaimed", "released k-0 reclaimed", "bound l")
    ]
    assert not story.model.gangs["default/g"].satisfied


def test_a_gang_is_taken_whole_or_not_at_all() -> None:
    config = eviction_tree(queue("x", least=3), queue("y", least=1))
    story = Story(config, node("n", 2), *apps(a="x", b="y"), gang("g", 2))
    story.play(asks("k", count=2, of="g", app="b"))
    assert not story.play(asks("m"))


def test_a_waiting_member_takes_all_that_wait_of_its_group() -> None:
    story = Story(eviction_tree(queue("x", least=1), queue("y")), node("n", 2), *apps(a="x", b="y"))
    story.play(gang("g", 3, mode=LOOSE), asks("k", count=3, of="g", app="b"))
    assert story.gang("g") == (2, 0, 1, 0)
    decisions = story.play(asks("m"))
    assert decisions[:4] == [
        *("released k-1 reclaimed", "released k-0 reclaimed", "assigned m", "bound m")
    ]


def test_a_gang_takes_for_all_that_it_lacks_or_nothing() -> None:
    config = eviction_tree(queue("x", least=4), queue("y", least=1))
    story = Story(config, node("n", 3), *apps(a="x", b="y"), asks("k", count=2, app="b"))
    assert story.play(gang("g", 2), asks("m", count=2, of="g")) == [
        *("assigned m-0", "waiting m-0", "released k-1 reclaimed", "assigned m-1"),
        *("gang_satisfied g", "bound m-0", "bound m-1"),
    ]
    story.play(asks("o", app="b", count=2), node("n2", 1))
    assert not story.play(gang("h", 2), asks("l", count=2, of="h"))
    assert story.gang("h") == (0, 0, 2, 0)


def test_a_member_that_may_not_claim_holds_up_its_whole_group() -> None:
    config = eviction_tree(queue("x", least=2), queue("z"), queue("y"))
    story = Story(config, node("n", 2), *apps(a="x", c="z", b="y"), asks("k", count=2, app="b"))
    assert not story.play(gang("g", 2), asks("m", of="g"), asks("l", of="g", app="c"))
    assert story.gang("g") == (0, 0, 2, 0)


def test_members_of_the_asking_group_are_no_victims() -> None:
    config = eviction_tree(queue("x", least=2), queue("y"))
    story = Story(config, node("n", 2), *apps(a="x", b="y"), gang("h", 2, "g"))
    story.play(gang("g", 1, mode=LOOSE), asks("k", of="g", app="b"), asks("p", app="b"))
    assert evicted(story.decide(asks("m", count=2, of="h"))) == []
    assert story.gang("h") == (0, 0, 2, 0)


def test_a_bound_member_of_a_gang_that_has_timed_out_is_parked() -> None:
    config = eviction_tree(queue("x", least=3), queue("y"))
    story = Story(config, node("n", 3), *apps(a="x", b="y"))
    story.play(gang("g", 2, mode=LOOSE, wait_us=S), asks("k", count=2, of="g", app="b"))
    story.play(RemoveGang("default/g"), gang("g", 4, mode=LOOSE, wait_us=S))
    story.play(asks("o", count=2, of="g", app="b"))
    assert story.gang("g") == (1, 2, 1, 0)
    assert "gang_timed_out g" in story.play(S)
    assert story.gang("g") == (0, 2, 0, 2)
    assert evicted(story.decide(asks("m", count=2))) == ["released k-1 reclaimed"]
    assert story.gang("g") == (0, 1, 0, 3)


def test_a_bind_undone_in_its_batch_counts_for_no_state() -> None:
    story = Story(eviction_tree(queue("x", least=1), queue("y")), node("n", 1), *apps(a="x", b="y"))
    ready = attrs.evolve(asks("m"), node="n")
    decisions = story.decide(asks("k", app="b", priority=9), ready)
    assert list(summary_lines(decisions)) == [
        *("assigned k", "bound k", "released k reclaimed", "assigned m", "bound m")
    ]
    states = [(one.app, one.state) for one in decisions if one.kind is Kind.APP_STATE]
    assert states == [("b", "Accepted"), ("a", "Accepted"), ("a", "Starting")]
    assert story.model.apps["b"].state == "Accepted"
    assert story.model.world.apps["b"].deadline is None


def test_an_ask_is_reported_as_evicted_once_in_a_batch() -> None:
    story = Story(
        eviction_tree(queue("x", least=3), queue("y")), *(node(f"n{at}", 1) for at in range(3))
    )
    story.play(*apps(a="x", b="y"), gang("g", 2))
    story.play(asks("k", app="b", priority=10, on="n0"), asks("m", count=2, of="g", app="b"))
    k = story.model.world.apps["b"].asks["k"]
    k.required = None  # Else it would not return to the room that the gang leaves on n2.
    claims = (asks("r0", priority=2, on="n0"), asks("r1", on="n1"), asks("r2", on="n2"))
    decisions = story.play(*claims)
    assert decisions == [
        *("released k reclaimed", "assigned r0", "bound r0"),
        *("released m-1 reclaimed", "released m-0 reclaimed", "assigned r1", "bound r1"),
        *("assigned r2", "bound r2"),
    ]
    assert story.model.pending == {"b/k", "b/m-0", "b/m-1"}


@share(0.3)
@given(evictions())
def test_who_it_is_for_gets_a_node_and_all_comes_to_rest(scenario: list[Step]) -> None:
    most = 20 * len(scenario) + 200
    batches: list[Batch] = []

    def check(_: NaiveScheduler, batch: Batch) -> None:
        batches.append(batch)
        assert len(batches) <= most, "the timers never end"
        assert len(batch.decisions) <= 100 * most, "a batch that goes on and on"
        _whoever_goes_is_followed(batch.decisions)

    Drive(NaiveScheduler(), check).run(scenario)


def _whoever_goes_is_followed(decisions: Sequence[Decision]) -> None:
    gone = [one for one in decisions if one.reason in _EVICTED]
    names = [f"{one.app}/{one.ask}" for one in gone]
    assert len(names) == len(set(names)), "said twice in one batch"
    for one in gone:
        asker = str(one.message).removeprefix("for ").partition(":")[0]
        later = decisions[decisions.index(one) :]
        placed = {f"{it.app}/{it.ask}" for it in later if it.kind is Kind.ASSIGNED}
        # That an ask got a node is left out if it was evicted again, but not what it took.
        assert asker in placed or asker in names, one
