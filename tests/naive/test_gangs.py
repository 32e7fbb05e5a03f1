"""The naive model's gangs: one small case for each sentence, written out by hand."""

from __future__ import annotations

import attrs

from muster_core.config.model import Configuration, DeadlockPolicy, Limits, QueueConfig, Settings
from muster_core.events import (
    AddApp,
    AddAsk,
    Apply,
    BindFailed,
    Configure,
    FailBind,
    Manifest,
    PodObject,
    Release,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
)
from muster_core.gangs import GangFields
from tests.naive.harness import APP, LOOSE, S, Story, asks, gang, kinds, node


def test_members_before_their_gang_are_refused_by_prefilter() -> None:
    story = Story()
    assert not story.play(node("n", 9), APP, asks("m", count=2, of="g"))
    assert story.gang("g") == (0, 0, 2, 0)
    decisions = story.play(gang("g", 2))
    assert kinds(decisions, "bound") == ["bound m-0", "bound m-1"]


def test_fewer_children_than_min_member_are_refused_by_prefilter() -> None:
    story = Story()
    assert not story.play(node("n", 9), APP, gang("g", 3), asks("m", count=2, of="g"))


def test_surplus_is_refused_by_prefilter_until_the_group_is_satisfied() -> None:
    story = Story()
    decisions = story.play(
        node("n", 9), APP, gang("g", 2, "h"), gang("h", 1), asks("m", count=3, of="g")
    )
    assert kinds(decisions, "waiting") == ["waiting m-0", "waiting m-1"]
    assert story.gang("g") == (2, 0, 1, 0)
    decisions = story.play(asks("k", of="h"))
    assert decisions == [
        "assigned k",
        "gang_satisfied g",
        "gang_satisfied h",
        "bound m-0",
        "bound m-1",
        "bound k",
        "assigned m-2",
        "bound m-2",
    ]


def test_the_last_member_binds_all_in_the_order_of_waiting_and_does_not_wait() -> None:
    story = Story()
    decisions = story.play(node("n", 9), APP, gang("g", 3), asks("m", count=3, of="g"))
    assert decisions == [
        "assigned m-0",
        "waiting m-0",
        "assigned m-1",
        "waiting m-1",
        "assigned m-2",
        "gang_satisfied g",
        "bound m-0",
        "bound m-1",
        "bound m-2",
    ]
    assert story.gang("g") == (0, 3, 0, 0)


def test_a_strict_gang_that_fits_in_part_holds_nothing_and_says_nothing() -> None:
    story = Story()
    assert not story.play(node("n", 2), APP, gang("g", 3), asks("m", count=3, of="g"))
    assert story.gang("g") == (0, 0, 3, 0)
    assert not story.model.gangs["default/g"].cycle_valid
    decisions = story.play(asks("plain"))
    assert kinds(decisions, "bound") == ["bound plain"]


def test_one_strict_gang_makes_its_group_strict_and_waiting_members_are_released() -> None:
    story = Story()
    story.play(
        node("n", 3), APP, gang("g", 2, mode=LOOSE), gang("h", 2, "g"), asks("m", count=2, of="g")
    )
    assert story.gang("g") == (2, 0, 0, 0)
    decisions = story.play(asks("k", count=2, of="h"))
    assert decisions == ["released m-0 gang_rollback", "released m-1 gang_rollback"]
    assert not any(gang.cycle_valid for gang in story.model.gangs.values())


def test_a_non_strict_gang_keeps_what_it_has() -> None:
    story = Story()
    story.play(node("n", 2), APP, gang("g", 3, mode=LOOSE), asks("m", count=3, of="g"))
    assert story.gang("g") == (2, 0, 1, 0)
    assert story.model.gangs["default/g"].cycle_valid
    assert kinds(story.play(node("n2", 1)), "bound") == ["bound m-0", "bound m-1", "bound m-2"]


def test_siblings_are_activated_wherever_they_are() -> None:
    story = Story()
    decisions = story.play(
        node("n", 4),
        APP,
        AddApp("b", "root.other"),
        gang("g", 2),
        asks("plain", count=9, app="b", priority=1),
        asks("late", of="g", app="b"),
        asks("first", of="g", priority=2),
    )
    assert kinds(decisions, "bound")[:3] == ["bound first", "bound late", "bound plain-0"]


def test_an_overused_queue_is_not_skipped_in_activation_but_its_member_fails() -> None:
    story = Story()
    limited = QueueConfig("l", "root.l", is_parent=False, max=Limits((("vcore", 1),)))
    story.play(_configured(limited, mode=DeadlockPolicy.RESOLVE), node("n", 9))
    story.play(AddApp("b", "root.l"), asks("plain", app="b"))
    decisions = story.play(APP, gang("g", 2), asks("m", of="g"), asks("k", of="g", app="b"))
    assert not decisions
    assert not story.model.gangs["default/g"].cycle_valid


def test_a_wait_that_lasts_too_long_parks_the_group() -> None:
    story = Story()
    story.play(
        node("n", 2), APP, gang("g", 3, mode=LOOSE, wait_us=5 * S), asks("m", count=3, of="g")
    )
    assert story.model.gangs["default/g"].since_us == 0
    decisions = story.play(5 * S, asks("late", of="g"), asks("plain"))
    assert decisions[:3] == [
        "released m-0 gang_timeout",
        "released m-1 gang_timeout",
        "gang_timed_out g",
    ]
    assert kinds(decisions, "bound") == ["bound plain"]
    assert story.gang("g") == (0, 0, 0, 4)
    story.play(RemoveGang("default/g"))
    assert story.gang("g") == (0, 0, 4, 0)


def test_the_mark_goes_with_the_last_member() -> None:
    story = Story()
    story.play(node("n", 1), APP, gang("g", 2, mode=LOOSE, wait_us=S), asks("m", count=2, of="g"))
    story.play(2 * S)
    assert story.model.gangs["default/g"].timed_out
    story.play(RemoveAsk("a", "m-0"), RemoveAsk("a", "m-1"))
    assert not story.model.gangs["default/g"].timed_out


def test_a_member_that_was_not_started_leaves_its_gang_satisfied() -> None:
    story = Story(node("n", 2), APP, gang("g", 2), asks("m", count=2, of="g"))
    decisions = story.play(BindFailed("a", "m-0"), asks("k", cores=2))
    assert decisions == ["released m-0 bind_failed", "assigned m-0", "bound m-0"]


def test_a_gang_of_which_no_member_was_started_begins_anew() -> None:
    story = Story(node("n", 2), APP, gang("g", 2), asks("m", count=2, of="g"))
    decisions = story.play(BindFailed("a", "m-0"), BindFailed("a", "m-1"), asks("k", cores=2))
    assert decisions == [
        *("released m-0 bind_failed", "released m-1 bind_failed"),
        *("assigned m-0", "waiting m-0", "assigned m-1"),
        *("gang_satisfied g", "bound m-0", "bound m-1"),
    ]


def test_a_gang_that_is_too_small_to_begin_anew_stays_satisfied() -> None:
    story = Story(node("n", 2), APP, gang("g", 2), asks("m", count=2, of="g"))
    story.play(Release("a", "m-0"))
    assert story.play(BindFailed("a", "m-1")) == [
        *("released m-1 bind_failed", "assigned m-1", "bound m-1")
    ]


def test_a_step_in_which_all_binds_fail_announces_no_satisfied_gang() -> None:
    story = Story()
    fails = FailBind("a", "m-0"), FailBind("a", "m-1")
    g, h = gang("g", 2, "h"), gang("h", 1)
    decisions = story.play(
        node("n", 3), APP, g, h, asks("m", count=2, of="g"), asks("l", of="h"), *fails
    )
    assert decisions == [
        *("assigned m-0", "waiting m-0", "assigned m-1", "waiting m-1", "assigned l"),
        *("gang_satisfied h", "released m-0 bind_failed", "released m-1 bind_failed", "bound l"),
        *("assigned m-0", "waiting m-0", "assigned m-1"),
        *("gang_satisfied g", "bound m-0", "bound m-1"),
    ]


def test_of_a_gang_that_has_timed_out_it_is_parked() -> None:
    story = Story(node("n", 3), APP, gang("g", 2), asks("m", count=2, of="g"))
    story.play(RemoveGang("default/g"), gang("g", 4, mode=LOOSE, wait_us=S))
    story.play(asks("k", count=2, of="g"))
    assert story.play(2 * S) == ["released k-0 gang_timeout", "gang_timed_out g"]
    assert story.play(BindFailed("a", "m-0")) == ["released m-0 bind_failed"]
    assert story.gang("g") == (0, 1, 0, 3)


def test_a_bind_that_fails_sends_that_member_alone_back() -> None:
    story = Story()
    decisions = story.play(
        node("n", 9), APP, gang("g", 2), asks("m", count=2, of="g"), FailBind("a", "m-0")
    )
    assert decisions == [
        "assigned m-0",
        "waiting m-0",
        "assigned m-1",
        "gang_satisfied g",
        "released m-0 bind_failed",
        "bound m-1",
        "assigned m-0",
        "bound m-0",
    ]


def test_a_satisfied_gang_constrains_nothing_until_its_last_bound_member_is_lost() -> None:
    story = Story()
    story.play(node("n", 2), APP, gang("g", 2), asks("m", count=2, of="g"))
    assert kinds(story.play(node("n2", 1), asks("late", of="g")), "bound") == ["bound late"]
    assert story.play(RemoveNode("n")) == ["released m-0 node_lost", "released m-1 node_lost"]
    assert story.model.gangs["default/g"].satisfied
    assert story.play(RemoveNode("n2"), node("n3", 2))[0] == "released late node_lost"
    assert story.gang("g") == (0, 2, 1, 0)


def test_a_pod_that_runs_already_satisfies_its_gang() -> None:
    story = Story()
    story.play(node("n", 2), APP, gang("g", 3, mode=LOOSE), asks("m", count=2, of="g"))
    assert story.gang("g") == (0, 0, 2, 0)
    pod = PodObject("a", "pod", "root.q", ask=asks("pod", of="g"), node="n")
    decisions = story.play(Apply((Manifest(pod),)))
    assert decisions[:2] == ["gang_satisfied g", "bound pod"]
    assert kinds(decisions, "bound") == ["bound pod", "bound m-0"]


def test_a_gang_that_is_removed_lets_go_and_counts_again_when_defined_anew() -> None:
    story = Story()
    story.play(node("n", 2), APP, gang("g", 3, mode=LOOSE), asks("m", count=3, of="g"))
    decisions = story.play(RemoveGang("default/g"))
    assert decisions == ["released m-0 gang_rollback", "released m-1 gang_rollback"]
    assert kinds(story.play(gang("g", 2)), "gang_satisfied", "bound") == [
        "gang_satisfied g",
        "bound m-0",
        "bound m-1",
    ]


def test_annotations_override_the_object_and_may_not_disagree() -> None:
    story = Story()
    member = asks("m", of="g")
    says = GangFields(min_member=1)
    story.play(node("n", 0 + 1), APP, gang("g", 2))
    decisions = story.play(_saying(member, says), _saying(asks("k", of="g"), GangFields(2)))
    assert kinds(decisions, "rejected", "bound") == ["rejected", "bound m"]


def test_three_gangs_of_5_on_10_units_that_hold_3_and_3_and_4() -> None:
    story = _three_gangs(DeadlockPolicy.RESOLVE)
    assert [story.gang(name)[1] for name in "ghi"] == [0, 5, 5]
    decisions = story.play(2)
    assert not decisions


def test_a_deadlock_that_is_only_reported() -> None:
    story = _three_gangs(DeadlockPolicy.REPORT)
    assert [story.gang(name) for name in "ghi"] == [(3, 0, 2, 0), (3, 0, 2, 0), (4, 0, 1, 0)]
    assert kinds(story.play(asks("tiny", priority=-1)), "warning") == ["warning"]


def _three_gangs(policy: DeadlockPolicy) -> Story:
    story = Story()
    story.play(_configured(mode=policy), APP)
    for priority, (name, cores) in enumerate((("g", 3), ("h", 3), ("i", 4))):
        members = asks(f"m{name}", count=5, of=name, priority=priority)
        decisions = story.play(gang(name, 5, mode=LOOSE), members, node(f"n{name}", cores))
        assert kinds(decisions, "waiting") or name == "i"
    return story


def test_two_interleaved_groups_do_not_hold_half_of_each() -> None:
    story = Story()
    lists = {"a": "b", "c": "d", "b": "a", "d": "c"}
    definitions = [gang(name, 2, other) for name, other in lists.items()]
    members = [asks(f"m{name}", count=2, of=name) for name in lists]
    decisions = story.play(node("n", 4), APP, *definitions, *members)
    assert [one.removeprefix("bound ") for one in kinds(decisions, "bound")] == [
        *("ma-0", "ma-1", "mb-0", "mb-1")
    ]
    assert [story.gang(name)[2] for name in lists] == [0, 2, 0, 2]


def test_of_two_jobs_of_100_pods_on_100_nodes_one_runs() -> None:
    story = Story()
    nodes = [node(f"n{number}", 1) for number in range(100)]
    jobs = [(gang(name, 100), asks(name, count=100, of=name)) for name in ("g", "h")]
    decisions = story.play(*nodes, APP, *(event for job in jobs for event in job))
    assert len(kinds(decisions, "bound")) == 100
    assert story.gang("g") == (0, 100, 0, 0)
    assert story.gang("h") == (0, 0, 100, 0)


def _saying(ask: AddAsk, says: GangFields) -> AddAsk:
    return attrs.evolve(ask, says=says)


def _configured(*queues: QueueConfig, mode: DeadlockPolicy) -> Configure:
    root = QueueConfig("root", "root", is_parent=True, children=queues)
    settings = Settings(deadlock_policy=mode, create=True)
    return Configure(Configuration("default", attrs.evolve(root, settings=settings)))
