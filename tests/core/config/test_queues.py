"""Queues of a configuration: names and paths, access lists, limits of users and groups, and queues
that no file names.

tests/configs has the rules about form.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from muster_core.admission.queue_tree import dynamic_queue
from muster_core.config import admits, default_configuration, has_acl, load_configuration
from muster_core.config.model import (
    Acl,
    Configuration,
    LimitEntry,
    Limits,
    QueueConfig,
    Settings,
    SortPolicy,
    Template,
)
from muster_core.config.queues import canonical_path, check_queue_name
from muster_core.config.users import parse_acl
from muster_core.errors import ConfigError
from muster_core.resources import NOTHING, Resources
from tests.core.building import configuration, queue


@pytest.mark.parametrize("name", ["a", "A-Z_0:#/@", "x" * 64, "-", "1"])
def test_legal_names_are_lowered(name: str) -> None:
    assert check_queue_name(name) == name.lower()


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65, "ä", "a\n", "\N{KELVIN SIGN}", "*"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a queue"):
        check_queue_name(name)


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("root", "root"),
        ("ROOT.A", "root.a"),
        ("a.b", "root.a.b"),
        ("roots", "root.roots"),
        ("root.root", "root.root"),
    ],
)
def test_paths_start_at_the_root(path: str, canonical: str) -> None:
    assert canonical_path(path) == canonical


@pytest.mark.parametrize("path", ["", ".", "root.", "root..a", ".a", "a b.c", "a.\N{KELVIN SIGN}"])
def test_illegal_paths(path: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a queue"):
        canonical_path(path)


def test_a_path_has_no_more_than_100_names() -> None:
    assert canonical_path(".".join("a" * 100)).count(".") == 100
    with pytest.raises(ValueError, match="has 101 levels; at most 100 are possible"):
        canonical_path(".".join("a" * 101))


@pytest.mark.parametrize(
    ("text", "acl"),
    [
        ("", None),
        ("  ", None),
        ("sue", Acl(users=frozenset({"sue"}))),
        ("sue,bob", Acl(users=frozenset({"sue", "bob"}))),
        ("sue dev,ops", Acl(users=frozenset({"sue"}), groups=frozenset({"dev", "ops"}))),
        ("sue   dev", Acl(users=frozenset({"sue"}), groups=frozenset({"dev"}))),
        (" dev", Acl(groups=frozenset({"dev"}))),
        ("sue ", Acl(users=frozenset({"sue"}))),
        ("*", Acl(everybody=True)),
        (" *", Acl(everybody=True)),
        ("sue *", Acl(everybody=True, users=frozenset({"sue"}))),
        ("* dev", Acl(everybody=True, groups=frozenset({"dev"}))),
    ],
)
def test_reading(text: str, acl: Acl | None) -> None:
    assert parse_acl(text) == acl


@pytest.mark.parametrize(
    "text", ["a b c", " a b", "a,,b", "a,", ",a", ",", "*,a", "a*", "a *,b", "a b,"]
)
def test_malformed(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ACL"):
        parse_acl(text)


def path(*acls: str) -> list[QueueConfig]:
    """Return queues of which each has one ACL; even ones to submit, odd ones to administer."""
    queues: list[QueueConfig] = []
    for index, text in enumerate(acls):
        queue = QueueConfig(name=f"q{index}", path=f"root.q{index}", is_parent=True)
        acl = parse_acl(text)
        queues.append(
            attrs.evolve(queue, admin_acl=acl) if index % 2 else attrs.evolve(queue, submit_acl=acl)
        )
    return queues


@pytest.mark.parametrize(
    ("acls", "user", "groups", "admitted"),
    [
        (("sue",), "sue", (), True),
        (("sue",), "bob", (), False),
        (("sue",), "Sue", (), False),
        (("sue dev",), "bob", ("ops", "dev"), True),
        ((" sue",), "sue", (), False),
        (("", "sue"), "sue", (), True),
        (("bob", ""), "bob", (), True),
        (("", ""), "sue", (), False),
        (("*",), "anybody", (), True),
        (("*",), None, (), True),
        (("sue dev",), None, ("dev",), False),
        (("sue dev",), "", ("dev",), False),
        ((), "sue", (), False),
    ],
)
def test_admission(
    acls: tuple[str, ...], user: str | None, groups: tuple[str, ...], admitted: bool
) -> None:
    assert admits(path(*acls), user, groups, any_acl=True) is admitted


def test_all_users_are_admitted_where_no_queue_has_an_acl() -> None:
    assert admits(path(""), None, (), any_acl=False)


def nested_queues(**deepest: str) -> Configuration:
    queues = [{"name": "a", "queues": [{"name": "b", **deepest}]}]
    return load_configuration({"partitions": [{"queues": queues}]})


def test_whether_a_configuration_has_an_acl() -> None:
    assert has_acl(nested_queues(submitacl="sue"))
    assert has_acl(nested_queues(adminacl="sue"))
    assert not has_acl(nested_queues(submitacl=" "))
    assert not has_acl(nested_queues())


TEMPLATE = Template(
    guaranteed=Resources({"vcore": 1000}),
    max=Limits((("memory", 0), ("vcore", 2000))),
    max_applications=3,
    properties=(("application.sort.policy", "fair"), ("queue.create", "enabled"), ("x", "y")),
)


def parent(**properties: str) -> QueueConfig:
    queue = {"name": "P", "parent": True, "properties": dict(properties)}
    document = {"partitions": [{"queues": [queue]}]}
    return load_configuration(document).root.children[0]


def test_before_the_first_configuration_there_is_only_root() -> None:
    configuration = default_configuration()

    assert configuration == Configuration(partition="default", root=configuration.root)
    assert configuration.root == QueueConfig(name="root", path="root", is_parent=True)
    assert configuration.root.settings == Settings()


def test_a_leaf_gets_the_whole_template() -> None:
    queue = dynamic_queue(parent(), TEMPLATE, "New", is_parent=False)

    assert (queue.name, queue.path, queue.is_parent) == ("new", "root.p.new", False)
    assert queue.guaranteed == TEMPLATE.guaranteed
    assert queue.max == TEMPLATE.max
    assert queue.max_applications == 3
    assert queue.own_properties == TEMPLATE.properties
    assert queue.settings.sort_policy is SortPolicy.FAIR


def test_a_queue_on_the_way_gets_nothing_of_it() -> None:
    queue = dynamic_queue(parent(), TEMPLATE, "new", is_parent=True)

    assert queue == QueueConfig(name="new", path="root.p.new", is_parent=True)


def test_a_leaf_without_a_template() -> None:
    queue = dynamic_queue(parent(), None, "new", is_parent=False)

    assert queue.guaranteed == NOTHING
    assert queue == QueueConfig(name="new", path="root.p.new", is_parent=False)


def test_it_inherits_as_any_other_queue() -> None:
    above = parent(**{"preemption.delay": "5s", "queue.create": "disabled"})

    assert dynamic_queue(above, None, "new", is_parent=True).settings == above.settings
    queue = dynamic_queue(above, TEMPLATE, "new", is_parent=False)
    assert queue.settings.preemption_delay_us == 5_000_000
    assert queue.settings.create


def test_its_name_must_be_legal() -> None:
    with pytest.raises(ValueError, match=r"'a\.b' is not a name of a queue"):
        dynamic_queue(parent(), None, "a.b", is_parent=False)


STRICT = {"scheduling.order": "Strict"}
GREEDY = {"scheduling.order": "greedy"}


def test_an_order_below_another_one() -> None:
    # BACKFILL-3
    inner = queue("inner", queue("leaf", properties=STRICT), properties=GREEDY)
    found = configuration(queue("top", inner, properties=STRICT), queue("other", properties=STRICT))

    assert found.warnings == (
        (
            "root.top.inner: scheduling.order greedy has no effect: that of root.top rules all "
            "queues below it"
        ),
        (
            "root.top.inner.leaf: scheduling.order Strict has no effect: that of root.top rules all "
            "queues below it"
        ),
    )


def test_an_order_below_a_greedy_one_counts() -> None:
    # BACKFILL-3
    found = configuration(queue("top", queue("leaf", properties=STRICT), properties=GREEDY))

    assert found.warnings == ()


def test_the_order_of_a_template() -> None:
    # BACKFILL-3
    own = queue("top", parent="true", properties=STRICT, childtemplate={"properties": GREEDY})

    assert configuration(own).warnings == (
        (
            "root.top (childtemplate): scheduling.order greedy has no effect: that of root.top rules "
            "all queues below it"
        ),
    )


Entry = dict[str, Any]


def paths(*queues: Any, **partition: Any) -> list[str]:  # noqa: ANN401
    """Return the paths of what is refused, from the partition on."""
    with pytest.raises(ConfigError) as caught:
        configuration(*queues, **partition)
    return [problem.path.split(".", 1)[1] for problem in caught.value.problems]


def test_entries_are_read_as_they_stand() -> None:
    entries = [
        {"limit": "a remark", "users": ["sue", "bob"], "maxresources": {"vcore": 2, "gpu": 0}},
        {"users": ["*"], "groups": ["dev"], "maxapplications": 3},
    ]
    config = configuration(queue("a", limits=entries))

    assert config.root.children[0].limits == (
        LimitEntry(users=("sue", "bob"), max=Limits.of({"vcore": 2000, "gpu": 0})),
        LimitEntry(users=("*",), groups=("dev",), max_applications=3),
    )
    assert config.warnings == ()


def test_limits_of_the_partition_are_those_of_root() -> None:
    config = configuration(queue("a"), limits=[{"users": ["*"], "maxapplications": 3}])

    assert config.root.limits == (LimitEntry(users=("*",), max_applications=3),)
    assert config.root.children[0].limits == ()


def test_the_limits_of_the_partition_are_checked_against_those_below() -> None:
    below = queue("a", limits=[{"users": ["sue"], "maxapplications": 4}])

    found = paths(below, limits=[{"users": ["*"], "maxapplications": 3}])

    assert found == ["queues[0].queues[0].limits[0].maxapplications"]


@pytest.mark.parametrize("entry", [{}, None])
def test_an_entry_that_says_nothing_is_refused(entry: Entry | None) -> None:
    assert paths(queue("a", limits=[entry])) == ["queues[0].queues[0].limits[0]"]


def nested(*levels: Entry) -> Any:  # noqa: ANN401
    """Return queues inside one another, each with one entry."""
    *above, last = levels
    made = queue("q", limits=[last])
    for level in reversed(above):
        made = queue("q", made, limits=[level])
    return made


@pytest.mark.parametrize(
    "levels",
    [
        # A queue between that says nothing of the name changes nothing.
        [
            {"users": ["sue"], "maxresources": {"vcore": 1}},
            {"users": ["bob"], "maxresources": {"vcore": 9}},
            {"users": ["sue"], "maxresources": {"vcore": 2}},
        ],
        # The least counts, wherever it stands.
        [
            {"users": ["sue"], "maxresources": {"vcore": 3, "memory": 1}},
            {"users": ["sue"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"memory": 2}},
        ],
        # * counts where nobody names it.
        [
            {"users": ["*"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"vcore": 2}},
        ],
        # A limit of 0 applications is none.
        [
            {"groups": ["dev"], "maxapplications": 1},
            {"groups": ["dev"], "maxresources": {"vcore": 1}},
        ],
    ],
)
def test_more_than_the_least_above_is_refused(levels: list[Entry]) -> None:
    assert len(paths(nested(*levels))) == 1


@pytest.mark.parametrize(
    "levels",
    [
        # Who is named above is not limited by what * gets there.
        [
            {"users": ["sue"], "maxresources": {"vcore": 9}},
            {"users": ["*"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"vcore": 9}},
        ],
        # Users and groups are apart.
        [
            {"users": ["dev"], "maxapplications": 1},
            {"groups": ["dev"], "maxapplications": 9},
        ],
        # Another type is not limited above.
        [
            {"users": ["sue"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"memory": 9}},
        ],
    ],
)
def test_as_much_as_above_is_fine(levels: list[Entry]) -> None:
    assert configuration(nested(*levels)).root.children[0].limits
