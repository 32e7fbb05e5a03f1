"""What the rounds do to asks, the commits to the owners at the end of a batch, and the end of rounds
when a state comes again.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from muster_core.coordinator.coordinator import BatchResult
from muster_core.decisions import Decision, Kind
from muster_core.events import AddNode, Event, FailBind
from muster_core.owners.app_messages import CommitApp, Values
from muster_core.owners.gang import CommitGang
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import all_at_once
from muster_core.values.application_states import AppState
from muster_core.view.commits import Advance, Commits
from muster_core.view.placements import RecordedPlace, StateHistory
from tests.core.admission.objects import LOOSE, applied, full_gang_name, gang, members
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree
from tests.core.view.eviction.contest import SIX, Contest, at_once, share


class TreeWithCommits(Tree):
    """A tree that keeps the last batch, with its commits."""

    outcome: BatchResult

    @override
    def check_room(self, outcome: BatchResult) -> None:
        super().check_room(outcome)
        self.outcome = outcome

    def tell(self, *events: Event) -> None:
        self.settle(*events)
        self.check()

    def app(self, name: str = "p") -> CommitApp | None:
        """Return the commit for an application, if there is one."""
        key = self.machine.registry.locate(name)
        return self.outcome.apps.get(key or 0)

    def gang(self, name: str = "g") -> CommitGang | None:
        """Return the commit for a gang, if there is one."""
        keys = {gang.name: key for key, gang in self.gangs.items()}
        return self.outcome.gangs.get(keys[f"default/{name}"])

    def placements(self, name: str = "g") -> list[str]:
        commit = self.gang(name)
        assert commit is not None
        return [f"{member.ask} {place}" for member, place in commit.moves]


def tree_with_commits(*nodes: int) -> TreeWithCommits:
    """Return a tree with nodes of so many millicores and the application ``p``."""
    tree = TreeWithCommits(configuration(queue("a"), queue("b")))
    tree.add_app("p", "root.a")
    for number, vcore in enumerate(nodes):
        tree.enter(AddNode(f"n{number}", Resources({"vcore": vcore})))
    tree.settle()
    return tree


def asks_in(commit: CommitApp | None) -> dict[str, list[str]]:
    assert commit is not None
    return {
        "bound": [one.ask.name for one in commit.bound],
        "waiting": [one.ask.name for one in commit.waiting],
        "released": list(commit.released),
        "failed": list(commit.failed),
    }


def test_a_batch_without_changes_commits_nothing() -> None:
    tree = tree_with_commits(1)
    tree.tell(gang("g", 2, mode=LOOSE), members("g", "x", 2))
    tree.tell(wish("p", "big", vcore=99))

    assert (tree.outcome.apps, tree.outcome.gangs) == ({}, {})


def test_a_plain_bind_concerns_no_gang() -> None:
    tree = tree_with_commits(1)
    tree.tell(wish("p", "x"))

    assert asks_in(tree.app()) == {"bound": ["x"], "waiting": [], "released": [], "failed": []}
    assert tree.outcome.gangs == {}


def test_who_began_to_wait() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3))

    assert asks_in(tree.app())["waiting"] == ["x-0", "x-1"]
    assert tree.placements() == ["x-0 waiting", "x-1 waiting"]
    commit = tree.gang()
    assert commit is not None
    assert (commit.satisfied, commit.cycle_valid, commit.since_us) == (False, True, 0)


def test_who_waited_and_is_bound() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3))
    tree.tell(AddNode("m", Resources({"vcore": 1})))

    assert asks_in(tree.app())["bound"] == ["x-0", "x-1", "x-2"]
    assert tree.placements() == ["x-0 bound", "x-1 bound", "x-2 bound"]
    commit = tree.gang()
    assert commit is not None
    assert (commit.satisfied, commit.since_us) == (True, None)


def test_who_waited_and_does_so_no_more() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 1, "h"), gang("h", 2), members("g", "x"))
    tree.tell(members("h", "y", 2))

    assert asks_in(tree.app())["released"] == ["x"]
    assert tree.placements() == ["x pending"]


def test_of_what_was_given_up_again_only_the_cycle_is_committed() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 2), members("g", "x", vcore=1), members("g", "y", vcore=2))

    assert tree.app() in {None, CommitApp()}
    assert tree.gang() == CommitGang(cycle_valid=False, since_us=None)


def test_what_was_tried_without_effect_is_not_committed() -> None:
    tree = tree_with_commits(1)
    tree.add_app("q", "root.b")
    tree.tell(gang("g", 1, "lock"), members("g", "x", 9))
    tree.tell(AddNode("m", Resources({"vcore": 1})), gang("h", 1, "lock"))
    tree.tell(members("h", "y", 9, app="q"))
    # From here on g and h starve one another, but none would have enough without the other.
    tree.tell(applied(gang("g", 9, mode=LOOSE), gang("h", 9, mode=LOOSE)))

    assert [commit for commit in tree.outcome.apps.values() if commit != CommitApp()] == []
    assert [*tree.outcome.gangs.values()] == []
    assert [len(one.waiting) for one in tree.snapshot().gangs.values()] == [1, 1]


def test_a_bind_that_fails_is_committed_with_the_rest() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 2), members("g", "x", 2), FailBind("p", "x-0"))

    # It went back, and was bound as a plain ask in the next round.
    assert asks_in(tree.app()) == {
        "bound": ["x-1", "x-0"],
        "waiting": [],
        "released": [],
        "failed": ["x-0"],
    }
    assert tree.placements() == ["x-1 bound", "x-0 bound"]


def test_who_failed_to_bind_was_tried_and_the_next_takes_the_node() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3), wish("p", "next", -1))
    tree.tell(FailBind("p", "x-0"), AddNode("m", Resources({"vcore": 1})))

    assert asks_in(tree.app())["failed"] == ["x-0"]
    assert {ask.name: ask.place.value for ask in tree.snapshot().apps["p"].asks} == {
        "x-0": "pending",
        "x-1": "bound",
        "x-2": "bound",
        "next": "bound",
    }


def test_queues_count_what_waits_as_allocated() -> None:
    tree = tree_with_commits(2)
    tree.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3))

    for path in ("root", "root.a"):
        shown = tree.snapshot().queues[path]
        assert (dict(shown.allocated), dict(shown.pending)) == ({"vcore": 2}, {"vcore": 1})


def rivals(**nodes: int) -> Contest:
    """Return ``b``, whose asks come first, and ``a``, which reclaims from it at once."""
    leaf = share("b", queue_priority="1")
    return at_once(share("a", guaranteed=SIX), leaf, **nodes)


def changes_of(tree: Contest, app: str = "b") -> dict[str, list[str]]:
    """Return the asks in the commit for an application, by what happened to them."""
    commit = tree.commit_for(app) or CommitApp()
    asks_by_kind = {
        "bound": [f"{one.ask.name} {one.node}" for one in commit.bound],
        "waiting": [f"{one.ask.name} {one.node}" for one in commit.waiting],
        "released": list(commit.released),
        "failed": list(commit.failed),
        "parked": list(commit.parked),
    }
    return {kind: asks for kind, asks in asks_by_kind.items() if asks}


def gang_commit(tree: Contest, name: str) -> CommitGang:
    commit = tree.outcome.gangs[tree.state.gangs[full_gang_name(name)].key]
    assert commit is not None
    return commit


def placements(tree: Contest, name: str) -> list[str]:
    return [f"{member.ask} {place}" for member, place in gang_commit(tree, name).moves]


# Applications


def test_who_was_bound_before_and_was_taken() -> None:
    tree = rivals(n=1)
    tree.tell(wish("b"))
    tree.tell(wish("a"))

    assert (changes_of(tree, "b"), changes_of(tree, "a")) == (
        {"released": ["x"]},
        {"bound": ["x n"]},
    )


def test_who_was_bound_and_taken_in_one_batch_is_as_before() -> None:
    tree = rivals(n=1)
    tree.tell(wish("b"), wish("a"))

    assert changes_of(tree) == {}


def test_who_was_taken_and_got_another_node() -> None:
    tree = rivals(n=1)
    tree.tell(wish("b"))
    tree.tell(AddNode("m", Resources({"vcore": 1})), wish("a", node="n"))

    assert changes_of(tree) == {"released": ["x"], "bound": ["x m"]}


def test_who_was_bound_taken_and_bound_again_is_bound_once() -> None:
    tree = rivals(m=1, n=1)
    tree.tell(wish("b", "y", node="m"))
    decided = tree.tell(wish("b"), wish("b", "z", -1, node="n"), wish("a", node="n"))

    assert "released b/x n reclaimed" in decided
    assert changes_of(tree) == {}


def test_what_was_bound_is_in_the_order_of_binds() -> None:
    tree = rivals(n=3)
    tree.tell(wish("b", "x"), wish("b", "y", 2), wish("b", "z", 1))

    assert changes_of(tree) == {"bound": ["y n", "z n", "x n"]}


def test_a_bind_that_fails_after_victims_went() -> None:
    tree = rivals(n=1)
    tree.tell(wish("b"))
    tree.tell(wish("a"), FailBind("a", "x"))

    assert changes_of(tree, "a") == {"failed": ["x"], "bound": ["x n"]}
    assert changes_of(tree, "b") == {"released": ["x"]}


def test_waiting_members_that_were_taken() -> None:
    tree = rivals(n=2)
    tree.tell(gang("g", 3, mode=LOOSE), members("g", "m", 3, app="b"))
    tree.tell(wish("a", vcore=2))

    assert changes_of(tree) == {"released": ["m-1", "m-0"]}
    assert placements(tree, "g") == ["m-1 pending", "m-0 pending"]


def test_a_member_that_lost_its_wait_and_waits_elsewhere() -> None:
    tree = rivals(n=1)
    tree.tell(gang("g", 3, mode=LOOSE), members("g", "m", 3, app="b"))
    tree.tell(AddNode("m", Resources({"vcore": 1})), wish("a", node="n"))

    assert changes_of(tree) == {"released": ["m-0"], "waiting": ["m-0 m"]}
    assert placements(tree, "g") == ["m-0 waiting"]


def test_a_parked_ask_that_lost_its_node_is_committed() -> None:
    tree = rivals(n=2)
    tree.tell(gang("g", 1), members("g", "m", app="b"))
    commits, victim = Commits(tree.state), tree.victim("b/m")
    commits.touch(victim.app, victim.allocation.ask, victim.allocation)
    commits.evicted(victim.app.identity.key, victim.allocation)
    ask = victim.app.bound.pop("m")[0].ask
    victim.app.parked["m"] = ask
    apps, _, gangs = all_at_once(commits.commits(0, {}))
    (commit,) = apps.values()
    (of_gang,) = gangs.values()

    assert of_gang is not None
    assert (commit.released, commit.parked, commit.bound) == (("m",), ("m",), ())
    assert [(one.ask, place) for one, place in of_gang.moves] == [("m", AskPlace.PARKED)]


# States


ADVANCE = Advance(AppState.ACCEPTED, 3, Decision(Kind.APP_STATE, app="b", state="Starting"))


def test_a_bind_of_this_batch_gives_back_what_it_did_to_the_state() -> None:
    tree = rivals(n=1)
    tree.tell(wish("b"))
    commits, app = Commits(tree.state), tree.app("b")
    key = app.identity.key
    commits.bound(key, app.bound["x"][0])
    commits.advanced(key, ADVANCE)
    assert not commits.is_unsaid(ADVANCE.decision)

    assert commits.is_new(key, "x")
    assert commits.unbound(key, "x") is ADVANCE
    assert commits.is_unsaid(ADVANCE.decision)
    assert not commits.is_new(key, "x")


def test_the_last_of_what_binds_did_is_given_back_first() -> None:
    tree = rivals(n=2)
    tree.tell(wish("b", "x"), wish("b", "y"))
    commits, app = Commits(tree.state), tree.app("b")
    key = app.identity.key
    commits.bound(key, app.bound["x"][0])
    commits.advanced(key, ADVANCE)
    commits.bound(key, app.bound["y"][0])

    assert commits.unbound(key, "x") is None
    assert commits.unbound(key, "y") is ADVANCE


def test_a_bind_of_an_earlier_batch_is_not_new() -> None:
    tree = rivals(n=1)
    tree.tell(wish("b"))
    commits, app = Commits(tree.state), tree.app("b")

    assert not commits.is_new(app.identity.key, "x")


def test_the_batch_after_has_no_notes_of_it() -> None:
    tree = rivals(n=1)
    tree.tell(gang("g", 1), members("g", "m", app="b"))
    commits, app = Commits(tree.state), tree.app("b")
    (asks_in, _) = app.bound["m"]
    commits.bound(app.identity.key, asks_in)
    commits.advanced(app.identity.key, ADVANCE)
    commits.touch(app, asks_in.ask, None)
    commits.failed(app, asks_in.ask)
    commits.satisfied(full_gang_name("g"))
    apps, queues, gangs = all_at_once(commits.commits(0, {}))
    assert len(apps) == len(gangs) == 1
    assert len(queues) == 2

    assert all_at_once(commits.commits(0, {})) == ({}, {}, {})


# Queues


def test_commits_to_queues_cover_who_lost_and_who_won() -> None:
    p = share("p", share("a", guaranteed=SIX), share("b"))
    tree = at_once(p, share("c"), n=1)
    tree.tell(wish("b", "x", 3), wish("c", vcore=9))
    tree.tell(wish("a", "x", 5))
    keys = {one.config.name: one.key for one in tree.state.queues.values()}
    children = {key: dict(one.children) for key, one in tree.outcome.queues.items()}

    won, lost = Values(None, {}, {"vcore": 1}), Values(3, {"vcore": 1}, {})
    assert children[keys["a"]] == {tree.app("a").identity.key: won}
    assert children[keys["b"]] == {tree.app("b").identity.key: lost}
    assert children[keys["p"]] == {keys["a"]: won, keys["b"]: lost}
    assert children[keys["root"]] == {keys["p"]: Values(3, {"vcore": 1}, {"vcore": 1})}
    assert keys["c"] not in children


# Gangs


def test_a_gang_that_lost_all_its_members_is_marked_lost() -> None:
    tree = rivals(n=2)
    tree.tell(gang("g", 2), members("g", "m", 2, app="b"))
    tree.tell(wish("a"))

    assert (gang_commit(tree, "g").lost, gang_commit(tree, "g").satisfied) == (True, False)
    assert placements(tree, "g") == ["m-1 pending", "m-0 pending"]
    assert not tree.snapshot().gangs[full_gang_name("g")].satisfied


def test_a_gang_that_lost_some_is_not() -> None:
    tree = rivals(n=3)
    tree.tell(gang("g", 2), members("g", "m", 3, app="b"))
    tree.tell(wish("a"))

    assert not gang_commit(tree, "g").lost
    assert placements(tree, "g") == ["m-2 pending"]
    assert tree.snapshot().gangs[full_gang_name("g")].satisfied


@pytest.mark.parametrize("before", [False, True])
def test_a_gang_that_lost_all_and_got_as_much_again(before: bool) -> None:
    tree = rivals(n=1)
    tree.enter(gang("g", 1), members("g", "m", app="b"))
    if before:
        tree.settle()
    tree.tell(wish("a", node="n"), AddNode("o", Resources({"vcore": 1})))

    commit = gang_commit(tree, "g")
    assert (commit.lost, commit.satisfied) == (True, True)
    assert placements(tree, "g") == ["m bound"]
    assert tree.snapshot().gangs[full_gang_name("g")].satisfied


@pytest.mark.parametrize("need", [1, 2])
def test_a_group_that_was_tried_in_vain_commits_nothing(need: int) -> None:
    tree = at_once(share("a"), share("b"), n=2)
    tree.tell(wish("b"), wish("b", "high", 10))
    member = attrs.evolve(members("g", "m", need, app="a"), priority_class="high")
    tree.tell(gang("g", need), member)

    if need == 1:
        assert (changes_of(tree, "a"), changes_of(tree, "b")) == (
            {"bound": ["m-0 n"]},
            {"released": ["x"]},
        )
    else:
        assert (changes_of(tree, "a"), changes_of(tree, "b")) == ({}, {})
        assert tree.outcome.gangs == {}


def test_a_gang_that_was_bound_and_lost_all_in_one_batch_is_not_satisfied() -> None:
    tree = rivals(n=1)
    tree.tell(gang("g", 1), members("g", "m", app="b"), wish("a"))

    assert (gang_commit(tree, "g").lost, gang_commit(tree, "g").satisfied) == (True, False)
    assert not tree.snapshot().gangs[full_gang_name("g")].satisfied


def test_waiting_members_that_might_have_gone_tell_nobody() -> None:
    tree = at_once(share("a"), share("b"), share("c"), m=1, n=1)
    tree.tell(gang("other", 9, mode=LOOSE), members("other", "w", 9, app="c", priority=-1))
    assert set(tree.app("c").waiting) == {"w-0", "w-1"}
    high = attrs.evolve(members("g", "m", 2, app="a"), priority_class="high")
    bulky = attrs.evolve(members("g", "z", app="a", vcore=5), priority_class="high")
    tree.tell(gang("g", 3), high, bulky)

    assert (changes_of(tree, "a"), changes_of(tree, "c")) == ({}, {})
    assert tree.outcome.gangs == {}


WAITS: RecordedPlace = (False, "n", ())
BOUND: RecordedPlace = (True, "n", ())


def new_history() -> StateHistory:
    seen_states = StateHistory()
    all_at_once(seen_states.start_anew())
    seen_states.start_round()
    return seen_states


def test_a_round_that_does_nothing_is_the_last() -> None:
    assert new_history().knows_this()


def test_a_round_that_binds_is_not() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", None, BOUND)
    assert not seen_states.knows_this()
    seen_states.start_round()

    assert seen_states.knows_this()


def test_what_is_taken_and_given_back_is_nothing() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", None, WAITS)
    seen_states.note(1, "x", WAITS, None)

    assert seen_states.knows_this()


def test_a_state_of_two_rounds_ago_is_known() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", WAITS, None)
    assert not seen_states.knows_this()
    seen_states.start_round()
    seen_states.note(1, "x", None, WAITS)

    assert seen_states.knows_this()


def test_another_node_is_another_state() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", WAITS, None)
    seen_states.note(1, "x", None, (False, "m", ()))

    assert not seen_states.knows_this()


def test_the_same_name_in_another_application_is_another_ask() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", WAITS, None)
    seen_states.note(2, "x", None, WAITS)

    assert not seen_states.knows_this()


def test_what_was_undone_is_forgotten() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", None, BOUND)
    mark = seen_states.mark()
    seen_states.note(1, "y", WAITS, None)
    seen_states.note(1, "y", None, WAITS)
    seen_states.go_back(mark)

    assert seen_states.mark() == mark
    assert not seen_states.knows_this()


def test_it_starts_anew() -> None:
    seen_states = new_history()
    seen_states.note(1, "x", WAITS, None)
    all_at_once(seen_states.start_anew())
    seen_states.start_round()
    seen_states.note(1, "x", None, WAITS)

    assert not seen_states.knows_this()


ASKS = st.tuples(st.integers(1, 2), st.sampled_from("xy"))
PLACES = st.sampled_from([None, WAITS, (False, "m", ()), BOUND])


def may_move(before: RecordedPlace, after: RecordedPlace) -> bool:
    """Return whether rounds may move an ask so: what is bound stays so."""
    if before is None:
        return after is not None
    bound, node = before[:2]
    return not bound and after in {None, (True, node, ())}


@given(st.dictionaries(ASKS, PLACES), st.lists(st.lists(st.tuples(ASKS, PLACES)), max_size=5))
def test_a_state_is_known_that_a_round_has_begun_from(
    now: dict[tuple[int, str], RecordedPlace],
    rounds: list[list[tuple[tuple[int, str], RecordedPlace]]],
) -> None:
    seen_states, known = StateHistory(), list[dict[tuple[int, str], RecordedPlace]]()
    all_at_once(seen_states.start_anew())
    for placements in rounds:
        seen_states.start_round()
        known.append(dict(now))
        for key, place in placements:
            if not may_move(now.setdefault(key, None), place):
                continue
            seen_states.note(*key, now[key], place)
            now[key] = place
        pending = {key for state in known for key in state} | now.keys()
        states = [{key: state.get(key) for key in pending} for state in known]
        assert seen_states.knows_this() == ({key: now.get(key) for key in pending} in states)
