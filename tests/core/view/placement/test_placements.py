"""What the rounds do to asks, and what the owners are told of it at the end of a batch."""

from __future__ import annotations

from typing_extensions import override

from muster_core.coordinator.coordinator import BatchResult
from muster_core.events import AddNode, Event, FailBind
from muster_core.owners.app_messages import CommitApp
from muster_core.owners.gang import CommitGang
from muster_core.resources import Resources
from tests.core.admission.objects import LOOSE, applied, gang, members
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree


class Telling(Tree):
    """A tree that keeps what the last batch told the owners."""

    outcome: BatchResult

    @override
    def check_room(self, outcome: BatchResult) -> None:
        super().check_room(outcome)
        self.outcome = outcome

    def tell(self, *events: Event) -> None:
        self.settle(*events)
        self.check()

    def app(self, name: str = "p") -> CommitApp | None:
        """Give what an application was told, or None if nothing."""
        key = self.machine.registry.locate(name)
        return self.outcome.apps.get(key or 0)

    def gang(self, name: str = "g") -> CommitGang | None:
        """Give what a gang was told, or None if nothing."""
        keys = {gang.name: key for key, gang in self.gangs.items()}
        return self.outcome.gangs.get(keys[f"default/{name}"])

    def placements(self, name: str = "g") -> list[str]:
        commit = self.gang(name)
        assert commit is not None
        return [f"{member.ask} {place}" for member, place in commit.moves]


def telling(*nodes: int) -> Telling:
    """Give a tree with nodes of so many millicores and the application ``p``."""
    made = Telling(configuration(queue("a"), queue("b")))
    made.add_app("p", "root.a")
    for number, vcore in enumerate(nodes):
        made.enter(AddNode(f"n{number}", Resources({"vcore": vcore})))
    made.settle()
    return made


def held(commit: CommitApp | None) -> dict[str, list[str]]:
    assert commit is not None
    return {
        "bound": [one.ask.name for one in commit.bound],
        "waiting": [one.ask.name for one in commit.waiting],
        "released": list(commit.released),
        "failed": list(commit.failed),
    }


def test_nobody_is_told_of_nothing() -> None:
    made = telling(1)
    made.tell(gang("g", 2, mode=LOOSE), members("g", "x", 2))
    made.tell(wish("p", "big", vcore=99))

    assert (made.outcome.apps, made.outcome.gangs) == ({}, {})


def test_a_plain_bind_concerns_no_gang() -> None:
    made = telling(1)
    made.tell(wish("p", "x"))

    assert held(made.app()) == {"bound": ["x"], "waiting": [], "released": [], "failed": []}
    assert made.outcome.gangs == {}


def test_who_began_to_wait() -> None:
    made = telling(2)
    made.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3))

    assert held(made.app())["waiting"] == ["x-0", "x-1"]
    assert made.placements() == ["x-0 waiting", "x-1 waiting"]
    commit = made.gang()
    assert commit is not None
    assert (commit.satisfied, commit.cycle_valid, commit.since_us) == (False, True, 0)


def test_who_waited_and_is_bound() -> None:
    made = telling(2)
    made.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3))
    made.tell(AddNode("m", Resources({"vcore": 1})))

    assert held(made.app())["bound"] == ["x-0", "x-1", "x-2"]
    assert made.placements() == ["x-0 bound", "x-1 bound", "x-2 bound"]
    commit = made.gang()
    assert commit is not None
    assert (commit.satisfied, commit.since_us) == (True, None)


def test_who_waited_and_does_so_no_more() -> None:
    made = telling(2)
    made.tell(gang("g", 1, "h"), gang("h", 2), members("g", "x"))
    made.tell(members("h", "y", 2))

    assert held(made.app())["released"] == ["x"]
    assert made.placements() == ["x pending"]


def test_of_what_was_given_up_again_only_the_cycle_is_told() -> None:
    made = telling(2)
    made.tell(gang("g", 2), members("g", "x", vcore=1), members("g", "y", vcore=2))

    assert made.app() in {None, CommitApp()}
    assert made.gang() == CommitGang((), satisfied=False, cycle_valid=False, since_us=None)


def test_what_was_tried_without_effect_is_told_nobody() -> None:
    made = telling(1)
    made.add_app("q", "root.b")
    made.tell(gang("g", 1, "lock"), members("g", "x", 9))
    made.tell(AddNode("m", Resources({"vcore": 1})), gang("h", 1, "lock"))
    made.tell(members("h", "y", 9, app="q"))
    # From here on g and h starve one another, but none would have enough without the other.
    made.tell(applied(gang("g", 9, mode=LOOSE), gang("h", 9, mode=LOOSE)))

    assert [commit for commit in made.outcome.apps.values() if commit != CommitApp()] == []
    assert [commit.moves for commit in made.outcome.gangs.values()] == []
    assert [len(one.waiting) for one in made.snapshot().gangs.values()] == [1, 1]


def test_a_bind_that_fails_is_told_of_with_the_rest() -> None:
    made = telling(2)
    made.tell(gang("g", 2), members("g", "x", 2), FailBind("p", "x-0"))

    # It went back, and was bound as a plain ask in the next round.
    assert held(made.app()) == {
        "bound": ["x-1", "x-0"],
        "waiting": [],
        "released": [],
        "failed": ["x-0"],
    }
    assert made.placements() == ["x-1 bound", "x-0 bound"]


def test_who_failed_to_bind_was_tried_and_the_next_takes_the_node() -> None:
    made = telling(2)
    made.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3), wish("p", "next", -1))
    made.tell(FailBind("p", "x-0"), AddNode("m", Resources({"vcore": 1})))

    assert held(made.app())["failed"] == ["x-0"]
    assert {ask.name: ask.place.value for ask in made.snapshot().apps["p"].asks} == {
        "x-0": "pending",
        "x-1": "bound",
        "x-2": "bound",
        "next": "bound",
    }


def test_queues_are_told_what_waits_as_what_is_allocated() -> None:
    made = telling(2)
    made.tell(gang("g", 3, mode=LOOSE), members("g", "x", 3))

    for path in ("root", "root.a"):
        shown = made.snapshot().queues[path]
        assert (dict(shown.allocated), dict(shown.pending)) == ({"vcore": 2}, {"vcore": 1})
