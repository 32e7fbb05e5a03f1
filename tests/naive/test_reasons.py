"""The naive model's account of why asks are not running, by hand; the core gives the same."""

from __future__ import annotations

from typing import Any, Final

import attrs

from muster_core.config.model import Acl, Configuration, Limits, QueueConfig, Settings, SortPolicy
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    AddPriorityClass,
    BindFailed,
    Configure,
    FailBind,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangMode
from muster_core.reasons import Code
from muster_core.resources import Resources
from tests.naive.explained import explain_all, watched
from tests.naive.figures import UNDEFINED, Figures
from tests.naive.harness import (
    APP,
    LOOSE,
    Accounts,
    S,
    Step,
    Story,
    What,
    asks,
    compare_with_state,
    gang,
    node,
)
from tests.naive.order import Parting
from tests.naive.reasons import Account, agree

STRICT: Final = GangMode.STRICT
LATE: Final = Settings(preemption_delay_us=10 * S)
HIGH: Final = AddPriorityClass("high", 5, preempts=True)


def queue(path: str, *children: QueueConfig, **fields: Any) -> QueueConfig:  # noqa: ANN401 - names of fields
    """Make a queue of so many cores at the most, at the least, and any other fields."""
    most, least = fields.pop("most", None), fields.pop("least", 0)
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=path if path == "root" else f"root.{path}",
        is_parent=bool(children),
        max=Limits() if most is None else Limits.of({"vcore": most}),
        guaranteed=Resources({"vcore": least}),
        children=children,
        **fields,
    )


def tree(*children: QueueConfig, enabled: bool = True) -> Configure:
    root = queue("root", *children, settings=Settings(create=True))
    return Configure(Configuration("default", root, preemption_enabled=enabled))


def account_of(story: Story, ask: str) -> Account:
    """Return the account of an ask, of the application ``a`` unless it says of which."""
    return story.model.accounts[ask if "/" in ask else f"a/{ask}"]


def codes(story: Story, ask: str) -> list[str]:
    return list(account_of(story, ask).codes)


def figures(story: Story, ask: str, code: Code) -> Figures:
    return account_of(story, ask).figures[code.value]


def full_node(*more: What) -> Story:
    """Begin a story on one node of two cores, both of which are taken."""
    return Story(node("n", 2), APP, asks("k", cores=2), *more)


def test_a_bound_ask_has_no_account() -> None:
    assert full_node().model.accounts == {}


def test_a_waiting_member_only_waits_and_a_parked_one_only_timed_out() -> None:
    story = Story(node("n", 1), APP, gang("g", 2, mode=LOOSE, wait_us=S), asks("m", of="g"))
    assert codes(story, "m") == ["GangTooFewMembers"]
    story.play(asks("l", of="g"))
    assert codes(story, "m") == ["PermitWaiting"]
    assert account_of(story, "l").first == "a/l"
    story.play(S)
    assert codes(story, "m") == codes(story, "l") == ["GangTimedOut"]


def test_what_prefilter_refuses_says_why_and_what_else_holds() -> None:
    story = full_node(asks("m", of="g", count=2))
    assert codes(story, "m-0") == ["GangUndefined", "NoNodeFits"]
    story.play(gang("g", 3))
    assert codes(story, "m-0") == ["GangTooFewMembers", "NoNodeFits"]
    story.play(gang("h", 1, "i", mode=LOOSE), asks("l", of="h", count=2), node("o", 1))
    assert codes(story, "l-0") == ["PermitWaiting"]
    assert codes(story, "l-1") == ["GangSurplus", "NoNodeFits"]


def test_a_member_of_a_satisfied_gang_is_a_plain_ask() -> None:
    story = Story(node("n", 1), APP, gang("g", 1), asks("m", of="g", count=2))
    assert codes(story, "m-1") == ["NoNodeFits"]


def test_it_never_fits_where_it_is_over_a_max_or_over_every_node() -> None:
    story = Story(tree(queue("q", most=3)), node("n", 9), APP, asks("m", cores=4))
    assert codes(story, "m") == ["NeverFits"]
    story.play(AddApp("b", "root.p.x"), asks("k", app="b", cores=10))
    assert codes(story, "m") == ["NeverFits"]


def test_a_node_that_is_not_schedulable_could_hold_it_but_does_not_now() -> None:
    away = attrs.evolve(node("n", 4), schedulable=False)
    story = Story(away, APP, asks("m", cores=4), asks("l", cores=5), asks("k", on="o"))
    assert codes(story, "m") == ["NoNodeFits"]
    assert codes(story, "l") == codes(story, "k") == ["NeverFits", "NoNodeFits", "NotYourTurn"]


def test_a_node_that_does_not_match_does_not_count() -> None:
    zone = AddNode("n", Resources({"vcore": 2}), {"zone": "x"})
    wants = AddAsk("a", "m", Resources({"vcore": 1}), selector={"zone": "y"})
    story = Story(zone, APP, wants)
    assert codes(story, "m") == ["NeverFits", "NoNodeFits"]
    story.play(UpdateNode("n", attributes={"zone": "y"}, schedulable=False))
    assert codes(story, "m") == ["NoNodeFits"]


def test_what_is_used_of_a_max_is_another_reason_than_the_max() -> None:
    story = Story(tree(queue("p", queue("p.q", most=3), most=4)), node("n", 9))
    story.play(AddApp("a", "root.p.q"), asks("k", cores=2), asks("m", cores=2), asks("l", cores=4))
    assert codes(story, "m") == ["QueueMax"]
    assert codes(story, "l") == ["NeverFits", "QueueMax"], "each by another queue"
    assert account_of(story, "m").first is None, "the queue does not enter"
    story.play(asks("i", cores=1, of="g"))
    assert codes(story, "l") == ["NeverFits", "QueueMax", "NotYourTurn"]


def test_an_application_is_kept_out_while_others_run() -> None:
    story = Story(tree(queue("q", max_applications=1)), node("n", 9), APP, asks("k"))
    story.play(AddApp("b", "root.q"), asks("m", app="b", cores=10))
    assert codes(story, "b/m") == ["NeverFits", "QueueMaxApps", "NoNodeFits"]
    assert account_of(story, "b/m").first is None


def test_only_one_application_of_a_stateaware_leaf_starts() -> None:
    turns = Settings(sort_policy=SortPolicy.STATE_AWARE)
    story = Story(tree(queue("q", settings=turns)), node("n", 1), APP, AddApp("b", "root.q"))
    story.play(asks("k", cores=2), asks("m", app="b"))
    assert codes(story, "k") == ["NeverFits", "NoNodeFits"]
    assert codes(story, "b/m") == ["StateAwareTurn"]
    assert account_of(story, "b/m").first == "a/k"


def test_who_stands_behind_another_one_in_a_blocking_leaf() -> None:
    strict = Settings(blocking=True)
    story = Story(tree(queue("q", settings=strict)), node("n", 2), APP)
    story.play(asks("l", of="g", priority=9), asks("k", cores=3), asks("m"))
    assert codes(story, "k") == ["NeverFits", "NoNodeFits"], "PreFilter refuses what is before it"
    assert codes(story, "m") == ["Blocked", "NotYourTurn"]
    assert codes(story, "l") == ["GangUndefined", "Blocked"]
    story.play(RemoveAsk("a", "k"))
    assert "a/m" not in story.model.accounts


def test_a_strict_group_of_which_one_does_not_fit() -> None:
    story = Story(node("n", 1), APP, gang("g", 2, mode=STRICT), asks("m", of="g", count=2))
    assert codes(story, "m-0") == ["GangCycleInvalid"]
    assert codes(story, "m-1") == ["GangCycleInvalid", "NotYourTurn"]


def test_all_of_a_group_say_that_its_cycle_is_invalid() -> None:
    story = Story(node("n", 1), APP, gang("g", 2, "h", mode=STRICT), asks("m", of="g", count=2))
    story.play(gang("h", 2), asks("l", of="h"))
    assert codes(story, "l") == ["GangTooFewMembers", "GangCycleInvalid"]


def test_a_failed_bind_is_a_reason_until_the_ask_is_assigned_again() -> None:
    story = Story(node("n", 2), APP, asks("k", cores=2))
    story.play(UpdateNode("n", schedulable=False), BindFailed("a", "k"))
    assert codes(story, "k") == ["BindFailed", "NoNodeFits"]
    story.play(S, asks("m"))
    assert codes(story, "k") == ["BindFailed", "NoNodeFits"]
    assert account_of(story, "k").since_us == 0
    story.play(RemoveAsk("a", "m"), UpdateNode("n", schedulable=True), FailBind("a", "k"))
    assert "a/k" not in story.model.accounts, "the bind failed once, then not"


def test_a_bind_that_failed_before_is_nothing_once_the_ask_was_bound() -> None:
    story = Story(tree(queue("q")), node("n", 2), HIGH, APP, asks("k", cores=2), FailBind("a", "k"))
    story.play(60 * S, asks("m", named="high", priority=None))
    story.play(90 * S)
    assert codes(story, "k") == ["NoNodeFits"], "preempted"


def test_free_in_sum_but_on_no_node() -> None:
    story = Story(node("n", 2), node("o", 2), APP, asks("k", count=2), asks("m", cores=2))
    assert codes(story, "m") == ["Fragmented", "NoNodeFits"]
    story.play(UpdateNode("o", schedulable=False))
    assert codes(story, "m") == ["NoNodeFits"]


def test_what_a_node_has_too_little_is_not_taken_from_what_others_have() -> None:
    story = Story(node("n", 2), node("o", 2), node("i", 2), APP, asks("k", count=3))
    story.play(UpdateNode("n", capacity=Resources({"vcore": 0})), asks("m", cores=2))
    assert codes(story, "m") == ["Fragmented", "NoNodeFits"]


def test_reclaim_waits_for_its_delay_and_then_has_nothing_to_take() -> None:
    x, y = queue("x", least=2, settings=LATE), queue("y", least=1)
    story = Story(tree(x, y), node("n", 1), AddApp("a", "root.x"), AddApp("b", "root.y"))
    story.play(asks("k", app="b"))
    story.play(asks("m"))
    assert codes(story, "m") == ["NoNodeFits", "PreemptionDelay"]
    story.play(10 * S - 1)
    assert codes(story, "m") == ["NoNodeFits", "PreemptionDelay"]
    story.play(10 * S)
    assert codes(story, "m") == ["NoNodeFits", "ReclaimInsufficient"], "y has no more than it may"


def test_only_an_ask_that_may_preempt_has_the_delay_as_a_reason() -> None:
    story = Story(tree(queue("x", settings=LATE)), HIGH, node("n", 1), AddApp("a", "root.x"))
    story.play(asks("k"), asks("m"), asks("l", named="high", cores=2), asks("i", named="high"))
    assert codes(story, "m") == ["NoNodeFits", "NotYourTurn"]
    assert codes(story, "l") == ["NeverFits", "NoNodeFits", "PreemptionDelay"]
    story.play(tree(queue("x", settings=LATE), enabled=False))
    assert codes(story, "l") == ["NeverFits", "NoNodeFits"]


def test_nobody_is_looked_at_who_is_not_tried() -> None:
    strict = attrs.evolve(LATE, blocking=True)
    story = Story(tree(queue("q", settings=strict)), HIGH, node("n", 1), APP, asks("k", cores=1))
    story.play(asks("m", named="high"), asks("l", named="high"), asks("i", named="high", of="g"))
    assert codes(story, "m") == ["NoNodeFits", "PreemptionDelay"]
    assert codes(story, "l") == ["Blocked", "NoNodeFits", "NotYourTurn"]
    assert codes(story, "i") == ["GangUndefined", "Blocked", "NoNodeFits"]


def test_who_is_ahead_and_by_which_key() -> None:
    rank = Settings(queue_priority=1)
    p = queue("p", queue("p.x"), queue("p.y", settings=rank))
    story = Story(tree(p, queue("q")), AddApp("a", "root.p.x"), AddApp("b", "root.p.x"))
    story.play(AddApp("c", "root.q"), asks("m", priority=3), asks("l", priority=2))
    story.play(asks("k", count=2), asks("i", app="b"), asks("k", app="c", priority=2))

    def ahead(ask: str) -> Parting | None:
        assert account_of(story, ask).first == "a/m"
        return account_of(story, ask).parting

    assert ahead("m") is None
    assert ahead("l") == Parting("a", "l", "m", "priority", (2, 3))
    assert ahead("b/i") == Parting("root.p.x", "b", "a", "priority", (0, 3))
    assert ahead("c/k") == Parting("root", "root.q", "root.p", "currentPriority", (2, 3))
    story.play(AddApp("d", "root.p.y"), asks("k", app="d", priority=-7))
    assert account_of(story, "m").parting == Parting(
        "root.p", "root.p.x", "root.p.y", "queue.priority", (0, 1)
    )
    story.play(RemoveAsk("d", "k"), RemoveAsk("a", "m"), RemoveAsk("a", "l"), RemoveAsk("c", "k"))
    assert account_of(story, "k-1").parting == Parting("a", "k-1", "k-0", "number")
    assert account_of(story, "b/i").parting == Parting("root.p.x", "b", "a", "creation")


def test_the_first_is_among_the_asks_that_prefilter_lets_through() -> None:
    story = Story(APP, asks("l", of="g", priority=2), asks("k"), asks("m"))
    assert codes(story, "l") == ["GangUndefined", "NeverFits", "NoNodeFits"]
    assert codes(story, "k") == ["NeverFits", "NoNodeFits"]
    assert account_of(story, "m").parting == Parting("a", "m", "k", "creation")


def test_a_draining_queue_and_a_user_that_would_not_be_admitted_are_the_last_reasons() -> None:
    story = Story(tree(queue("q")), APP, AddApp("b", "root.p.q", "u"), asks("m", priority=1))
    story.play(asks("m", app="b"), tree(queue("r", submit_acl=Acl(users=frozenset({"u"})))))
    assert codes(story, "m") == ["NeverFits", "NoNodeFits", "Draining", "UserNotAllowed"]
    story.play(tree(queue("p", queue("p.q"), submit_acl=Acl(users=frozenset({"u"})))))
    assert codes(story, "b/m")[-1] == "NotYourTurn"


def test_the_reasons_come_in_the_order_of_dominance() -> None:
    strict = Settings(blocking=True)
    story = Story(tree(queue("q", most=1, settings=strict)), node("n", 1), APP, asks("k"))
    story.play(asks("m"), asks("l", of="g", cores=2))
    for account in story.model.accounts.values():
        order = [code.value for code in Code if code.value in account.codes]
        assert list(account.codes) == order


def test_reasons_of_a_waiting_member() -> None:
    g, h = gang("g", 2, "h", "i", mode=LOOSE, wait_us=5 * S), gang("h", 3, mode=LOOSE)
    story = Story(node("n", 3), APP, g, h, asks("m", of="g", count=2), asks("l", of="h", count=1))
    story.play(2 * S)
    assert figures(story, "m-0", Code.PERMIT_WAITING) == {
        "gang": "default/g",
        "held": 2,
        "min_member": 2,
        "lacking": {"default/h": 3, "default/i": UNDEFINED},
        "left_us": 3 * S,
    }


def test_which_member_made_the_cycle_invalid() -> None:
    story = Story(node("n", 2), APP, gang("g", 3, mode=STRICT), asks("m", of="g", count=3))
    assert figures(story, "m-0", Code.GANG_CYCLE_INVALID) == {
        "gang": "default/g",
        "failed": "a/m-2",
    }


def test_how_many_nodes_lack_what() -> None:
    story = Story(node("n", 1), AddNode("o", Resources({"vcore": 9}), {"zone": "x"}), APP)
    story.play(attrs.evolve(node("i", 9), schedulable=False))
    both = Resources({"vcore": 2, "memory": 1})
    story.play(AddAsk("a", "m", both), AddAsk("a", "l", both, selector={"zone": "x"}))
    assert figures(story, "m", Code.NO_NODE_FITS) == {
        "nodes": 3,
        "unmatched": 0,
        "unschedulable": 1,
        "lacking": {"memory vcore": 1, "memory": 1},
    }
    assert figures(story, "l", Code.NO_NODE_FITS)["unmatched"] == 2
    assert figures(story, "l", Code.NEVER_FITS)["largest"] == {"vcore": 9, "memory": 0}


def test_what_is_free_on_nodes_in_all() -> None:
    story = Story(node("n", 2), node("o", 2), node("i", 2), APP, asks("k", count=3))
    story.play(UpdateNode("n", capacity=Resources({"vcore": 0})), asks("m", cores=2))
    assert figures(story, "m", Code.FRAGMENTED) == {"free": {"vcore": 2}, "nodes": 3}


def test_what_a_strict_gang_lacks_in_all() -> None:
    story = Story(node("n", 2), node("o", 2), APP, asks("k", count=2))
    story.play(gang("g", 2), asks("m", cores=2, of="g", count=2))
    assert figures(story, "m-0", Code.FRAGMENTED)["lacks"] == {"vcore": 4}


def test_what_each_queue_has_left_of_its_max() -> None:
    story = Story(tree(queue("p", queue("p.q", most=3), most=4)), node("n", 9))
    story.play(AddApp("a", "root.p.q"), asks("k", cores=2), asks("m", cores=3))
    assert figures(story, "m", Code.QUEUE_MAX) == {"left": {"root.p.q vcore": 1, "root.p vcore": 2}}


def test_accounts_agree_if_only_the_member_that_failed_is_missing() -> None:
    story = Story(node("n", 2), APP, gang("g", 3, mode=STRICT), asks("m", of="g", count=3))
    own = account_of(story, "m-0")
    others = {**own.figures, Code.GANG_CYCLE_INVALID.value: {"gang": "default/g"}}
    wrong = {**own.figures, Code.GANG_CYCLE_INVALID.value: {"gang": "default/h"}}
    assert agree(own, attrs.evolve(own, figures=others))
    assert not agree(own, attrs.evolve(own, figures=wrong))
    assert not agree(own, attrs.evolve(own, first="a/m-1", figures=others))


def agreed_accounts(*steps: What | int) -> Accounts:
    """Return what both say at the end of some steps; a number is the instant of those after it."""
    scenario: list[Step] = []
    now_us = 0
    for what in steps:
        if isinstance(what, int):
            now_us = what
        else:
            scenario.append(Step(now_us, what))
    compare_with_state(watched(scenario), explain_all)
    return explain_all(scenario).accounts[-1]


def test_a_node_that_has_less_than_is_used_of_it_has_nothing_free() -> None:
    small = UpdateNode("n", capacity=Resources({"vcore": 0}))
    nodes = node("n", 2), node("o", 2), node("i", 2)
    found = agreed_accounts(*nodes, APP, asks("k", count=3), S, small, asks("m", cores=2))
    assert found["a/m"].codes == ("Fragmented", "NoNodeFits")


def test_a_new_ask_has_not_failed_though_one_of_its_name_had() -> None:
    away, failed = UpdateNode("n", schedulable=False), BindFailed("a", "k")
    found = agreed_accounts(
        node("n", 1), APP, asks("k"), S, away, failed, 2 * S, RemoveAsk("a", "k")
    )
    assert not found
    found = agreed_accounts(
        *(node("n", 1), APP, asks("k"), S, away, failed),
        *(2 * S, RemoveAsk("a", "k"), asks("k")),
    )
    assert found["a/k"].codes == ("NoNodeFits",)


def test_an_ask_that_lost_its_node_after_its_bind_had_failed() -> None:
    away = UpdateNode("n", schedulable=False)
    steps = node("n", 1), APP, asks("k"), S, away, BindFailed("a", "k")
    back = UpdateNode("n", schedulable=True)
    found = agreed_accounts(*steps, 2 * S, back, 3 * S, RemoveNode("n"))
    assert found["a/k"].codes == ("NeverFits", "NoNodeFits")
    assert found["a/k"].since_us == 3 * S


def test_a_queue_that_was_made_below_one_that_drains() -> None:
    configured = queue("p", queue("p.q"), settings=Settings(create=True))
    found = agreed_accounts(
        tree(configured), AddApp("a", "root.p.x"), asks("m"), S, tree(queue("r"))
    )
    assert found["a/m"].codes[-1] == Code.DRAINING
    assert found["a/m"].figures[Code.DRAINING] == {"queue": "root.p"}


def test_a_strict_group_that_waited_and_gave_up() -> None:
    strict = GangMode.STRICT
    g, h = gang("g", 1, "h", mode=strict), gang("h", 1, mode=strict)
    found = agreed_accounts(node("n", 1), APP, g, h, asks("m", of="g"), S, asks("l", of="h"))
    assert found["a/m"].codes[0] == found["a/l"].codes[0] == Code.GANG_CYCLE_INVALID


def test_a_queue_that_is_over_its_new_max_has_nothing_left() -> None:
    steps = node("n", 9), tree(queue("q", most=4)), APP, asks("k", cores=3), asks("m", cores=2)
    found = agreed_accounts(*steps, S, tree(queue("q", most=2)))
    assert found["a/m"].figures[Code.QUEUE_MAX] == {"left": {"root.q vcore": 0}}
