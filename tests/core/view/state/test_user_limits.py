"""The limits of users and groups in the view: who counts, and what that lets a round try."""

from __future__ import annotations

import pytest

from muster_core.config.model import Configuration
from muster_core.decisions import Decision, Kind
from muster_core.events import AddApp, AddAsk, AddGang, Configure, Event, Release, RemoveApp
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from muster_core.snapshots import LimitSnapshot
from muster_core.view.tree.constraints import LimitKey
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree


def limited(*entries: dict[str, object], **properties: str) -> Configuration:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return configuration(queue("a", limits=list(entries), properties=named), queue("b"), queue("c"))


def user(name: str = "u", **amounts: int) -> dict[str, object]:
    return {"users": [name], "maxresources": {kind: f"{n}m" for kind, n in amounts.items()}}


def tree(config: Configuration, *apps: Event, vcore: int = 100) -> Tree:
    made = Tree(config)
    made.add_nodes("n", vcore=vcore)
    made.enter(*apps)
    return made


def bound(decisions: list[Decision]) -> list[str]:
    return [f"{one.app}/{one.ask}" for one in decisions if one.kind is Kind.BOUND]


def limits_of(made: Tree) -> dict[LimitKey, dict[str, int]]:
    made.machine.view.check()
    found = {
        limit.key: limit.used for app in made.machine.view.apps.values() for limit in app.limits
    }
    return dict(sorted(found.items()))


P = AddApp("p", "a", user="u", groups=("g",))


def test_a_snapshot_has_what_users_and_groups_have_of_their_limits() -> None:
    config = configuration(
        queue("a", limits=[user(vcore=2), {"groups": ["g"], "maxapplications": 5}]),
        limits=[{"users": ["*"], "maxresources": {"vcore": "9m"}}],
    )
    made = tree(config, P, AddApp("q", "a"))
    made.settle(wish("p", vcore=2), wish("q"))

    def amount(value: int) -> dict[str, int]:
        return {"vcore": value}

    assert made.snapshot().limits == (
        LimitSnapshot("root", None, None, amount(9), 0, amount(1), 1),
        LimitSnapshot("root", "u", None, amount(9), 0, amount(2), 1),
        LimitSnapshot("root.a", "u", None, amount(2), 0, amount(2), 1),
        LimitSnapshot("root.a", None, "g", {}, 5, amount(2), 1),
    )
    apps = made.snapshot().apps
    assert [(app.user, app.group) for app in apps.values()] == [("u", "g"), (None, None)]


def test_an_application_without_limits_has_none() -> None:
    made = tree(limited(user("v", vcore=1)), P)
    made.settle(wish("p", count=3))

    assert limits_of(made) == {}


def test_usage_follows_binds_and_releases() -> None:
    made = tree(limited(user(vcore=2)), P)

    assert bound(made.settle(wish("p", count=3))) == ["p/x-0", "p/x-1"]
    assert list(limits_of(made).values()) == [{"vcore": 2}]
    assert bound(made.settle(Release("p", "x-0"))) == ["p/x-2"]
    made.settle(RemoveApp("p"))
    assert limits_of(made) == {}


def test_a_smaller_ask_behind_one_that_is_over_the_limit_is_tried() -> None:
    made = tree(limited(user(vcore=2)), P)

    assert bound(made.settle(wish("p", "large", vcore=3), wish("p", "small"))) == ["p/small"]


def test_a_new_shape_is_held_against_the_limit() -> None:
    made = tree(limited(user(vcore=2)), P)
    made.settle(wish("p"))

    assert bound(made.settle(wish("p", "y", vcore=2))) == []
    assert bound(made.settle(wish("p", "z"))) == ["p/z"]


def test_an_application_of_the_same_user_elsewhere_counts_in_a_common_queue_alone() -> None:
    config = configuration(
        queue("a", limits=[user(vcore=2)]),
        queue("b"),
        limits=[{"users": ["*"], "maxresources": {"vcore": "3m"}}],
    )
    made = tree(config, P, AddApp("q", "b", user="u"), AddApp("r", "b", user="v"))

    made.settle(wish("p", count=2))
    made.settle(wish("q", count=3), wish("r", count=4))

    found = {(key.queue, key.name): used["vcore"] for key, used in limits_of(made).items()}
    assert found == {(1, "u"): 3, (1, "v"): 3, (2, "u"): 2}


@pytest.mark.parametrize("mode", list(GangMode))
def test_waiting_members_count(mode: GangMode) -> None:
    made = tree(limited(user(vcore=2)), P, AddApp("q", "b", user="w"))
    says = GangFields(min_member=3, mode=mode)
    member = AddAsk("p", "m", Resources({"vcore": 1}), count=2, gang="default/g")
    late = AddAsk("q", "m", Resources({"vcore": 1}), gang="default/g")
    made.enter(AddGang("default/g", says))

    made.settle(member, wish("p"))
    assert list(limits_of(made).values()) == [{"vcore": 1}], "the gang lacks a member"
    decisions = made.settle(late)
    full = mode is GangMode.STRICT  # Its members fail, and nobody of the group keeps a node.
    assert bound(decisions) == []
    assert list(limits_of(made).values()) == [{"vcore": 1 if full else 2}]


def test_a_new_configuration_finds_the_limits_again() -> None:
    made = tree(limited(user(vcore=1)), P)
    made.settle(wish("p", count=9))

    assert bound(made.settle(Configure(limited(user(vcore=3))))) == ["p/x-1", "p/x-2"]
    group: dict[str, object] = {"groups": ["g"], "maxresources": {"vcore": "5m"}}
    assert bound(made.settle(Configure(limited(group)))) == ["p/x-3", "p/x-4"]
    assert [key.of_group for key in limits_of(made)] == [True]
    assert bound(made.settle(Configure(limited()))) == ["p/x-5", "p/x-6", "p/x-7", "p/x-8"]
    assert limits_of(made) == {}


def test_an_application_that_comes_after_an_equal_configuration_counts_for_the_same_limit() -> None:
    made = tree(limited(user(vcore=2)), P)
    made.settle(wish("p"))

    made.enter(Configure(limited(user(vcore=2), queue_priority="1")), AddApp("q", "a", user="u"))
    assert bound(made.settle(wish("q", count=2))) == ["q/x-0"]
    assert list(limits_of(made).values()) == [{"vcore": 2}]


def test_whoever_runs_is_not_kept_by_a_lowered_number_of_applications() -> None:
    def config(most: int) -> Configuration:
        return limited({"users": ["u"], "maxapplications": most})

    made = tree(config(2), P, AddApp("q", "a", user="u"), AddApp("r", "a", user="u"))
    made.settle(wish("p"), wish("q"))
    assert bound(made.settle(Configure(config(1)), wish("p", "y"), wish("q", "y"))) == [
        "p/y",
        "q/y",
    ]
    assert bound(made.settle(wish("r"))) == []
    made.settle(RemoveApp("p"))
    assert bound(made.settle(RemoveApp("q"))) == ["r/x"]
