"""For which group an application counts."""

from __future__ import annotations

from muster_core.admission.queue_tree import QueueEntry, QueueTree, UserGroups
from muster_core.config.model import Configuration
from muster_core.events import Configure
from tests.core.building import configuration, queue


def limits(*groups: str) -> list[dict[str, object]]:
    return [{"groups": [group], "maxapplications": 9} for group in groups]


def leaf(tree: QueueTree) -> QueueEntry:
    return tree.entries["root.a.b"]


def made(
    *, root: tuple[str, ...] = (), a: tuple[str, ...] = (), b: tuple[str, ...] = ()
) -> Configuration:
    return configuration(
        queue("a", queue("b", limits=limits(*b)), limits=limits(*a)), limits=limits(*root)
    )


def group(config: Configuration, *groups: str) -> str | None:
    return UserGroups().enter(1, leaf(QueueTree(config)), groups)


def test_the_nearest_queue_that_limits_a_group_of_the_user_decides() -> None:
    config = made(root=("ops",), a=("dev",), b=("art",))

    assert group(config, "ops", "dev") == "dev"
    assert group(config, "ops", "art", "dev") == "art"
    assert group(config, "ops") == "ops"
    assert group(config, "law") is None
    assert group(config) is None


def test_of_several_groups_the_first_in_the_file_counts() -> None:
    config = made(b=("ops", "dev"))

    assert group(config, "dev", "ops") == "ops"


def test_a_star_decides_where_no_group_of_the_user_is_named() -> None:
    config = made(root=("ops",), a=("dev", "*"))

    assert group(config, "dev") == "dev"
    assert group(config, "ops") == "*", "the star is nearer than ops"
    assert group(config) == "*", "also without any group"


def test_it_stays_while_a_queue_of_the_path_limits_it() -> None:
    tree, groups = QueueTree(made(a=("ops",))), UserGroups()
    assert groups.enter(1, leaf(tree), ("dev", "ops")) == "ops"

    def after(config: Configuration) -> list[tuple[int, str | None]]:
        list(tree.configure(Configure(config)))
        return list(groups.find_again([(1, leaf(tree))]))

    assert after(made(root=("ops",), b=("dev",))) == []
    assert after(made(b=("dev",))) == [(1, "dev")]
    assert after(made(b=("ops", "dev"))) == []
    assert after(made()) == [(1, None)]
    assert after(made(b=("ops",))) == [(1, "ops")], "without a match it is looked up anew"


def test_who_left_is_forgotten() -> None:
    tree, groups = QueueTree(made(a=("ops",))), UserGroups()
    groups.enter(1, leaf(tree), ("ops",))
    groups.leave(1)

    groups.check([])
