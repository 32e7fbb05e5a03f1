"""The register of gangs: what defines one, and who may come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from muster_core.admission.gang_registry import GangRegistry
from muster_core.admission.routes import GangRoute, StartGang, TellGang
from muster_core.errors import RefusedError
from muster_core.gangs import NO_FIELDS, GangDefinition, GangFields, GangMode
from muster_core.owners.asks import Origin
from muster_core.owners.gang import DefineGang, JoinGang, MemberKey, UndefineGang
from muster_core.snapshots import AskPlace

NAME = "default/g"


class Registry:
    """A register of gangs, used as the admission uses it."""

    def __init__(self) -> None:
        self.register = GangRegistry()
        self._seq = count(1)

    def messages_of(self, routes: Iterable[GangRoute]) -> list[object]:
        """Return the messages to the gang in short: a number counts members that join."""
        messages: list[object] = []
        for route in routes:
            match route:
                case StartGang():
                    assert route.name == NAME
                    messages.append("start")
                case TellGang(message=JoinGang() as joined):
                    messages.append(len(joined.members))
                case TellGang(message=DefineGang() as defined):
                    messages.append((defined.definition, defined.creation))
                case TellGang(message=UndefineGang()):
                    messages.append("undefined")
                case _:
                    raise AssertionError(route)
        self.register.check()
        return messages

    def join(self, *names: str, **fields: object) -> list[object]:
        says = gang_fields(**fields)
        self.register.check_join(NAME, says, "annotations")
        members = tuple(member(name) for name in names)
        origin = Origin(next(self._seq))
        return self.messages_of(self.register.join(NAME, members, AskPlace.PENDING, says, origin))

    def define(self, *, update: bool = False, **fields: object) -> list[object]:
        says, seq = gang_fields(**fields), next(self._seq)
        return self.messages_of(self.register.define(NAME, says, seq, "gang", update=update))

    def remove(self) -> list[object]:
        next(self._seq)
        return self.messages_of(self.register.remove(NAME, "gang"))

    def leave(self, *names: str) -> list[object]:
        routes = [one for name in names for one in self.register.leave(NAME, member(name))]
        entry = self.register.gangs[NAME]
        if entry.definition is None and not entry.members:
            self.register.gone(NAME)
        return self.messages_of(routes)

    def definition(self) -> GangDefinition | None:
        return self.register.gangs[NAME].definition

    def min_member(self) -> int | None:
        definition = self.definition()
        return None if definition is None else definition.min_member


def member(name: str) -> MemberKey:
    return MemberKey(1, "app", name)


def gang_fields(**fields: object) -> GangFields:
    return GangFields(**fields) if fields else NO_FIELDS  # type: ignore[arg-type]


# What defines a gang


def test_members_that_come_before_their_gang_wait_in_a_placeholder() -> None:
    registry = Registry()

    assert registry.join("a", "b") == ["start", 2]
    assert registry.definition() is None


def test_an_object_defines_it_at_its_position() -> None:
    registry = Registry()
    registry.join("a")

    assert registry.define(min_member=3) == [(GangDefinition(3, 3), 2)]


def test_annotations_define_it_before_the_member_comes() -> None:
    registry = Registry()

    assert registry.join("a", min_member=3, total=4) == ["start", (GangDefinition(3, 4), 1), 1]


def test_annotations_without_the_number_do_not_define_it() -> None:
    registry = Registry()

    assert registry.join("a", total=4) == ["start", 1]
    assert registry.join("b", min_member=2) == [(GangDefinition(2, 4), 2), 1]


def test_annotations_override_the_object_field_by_field() -> None:
    registry = Registry()
    registry.define(min_member=3, wait_us=5, mode=GangMode.NON_STRICT, groups=("default/h",))
    registry.join("a", min_member=2, wait_us=9, groups=())

    assert registry.definition() == GangDefinition(2, 2, GangMode.NON_STRICT, 9)


def test_creation_is_where_it_was_first_defined() -> None:
    registry = Registry()
    registry.define(min_member=3)

    assert registry.join("a", min_member=2) == [(GangDefinition(2, 2), 1), 1]


def test_it_gets_messages_only_about_changes() -> None:
    registry = Registry()
    registry.define(min_member=3)

    assert registry.join("a", min_member=3) == [1]
    assert registry.define(min_member=3, update=True) == []


def test_annotations_stay_while_there_are_members() -> None:
    registry = Registry()
    registry.define(min_member=3)
    registry.join("a", min_member=2)
    registry.join("b")
    registry.leave("a")
    assert registry.min_member() == 2

    assert registry.leave("b") == [(GangDefinition(3, 3), 1)]


def test_a_gang_that_only_annotations_define_goes_with_its_members() -> None:
    registry = Registry()
    registry.join("a", min_member=2)

    assert registry.leave("a") == ["undefined"]
    assert registry.register.gangs == {}


def test_one_that_comes_again_has_another_key_and_creation() -> None:
    registry = Registry()
    registry.join("a", min_member=2)
    before = registry.register.gangs[NAME].key
    registry.leave("a")

    assert registry.join("a", min_member=2) == ["start", (GangDefinition(2, 2), 2), 1]
    assert registry.register.gangs[NAME].key != before


def test_the_object_of_a_gang_that_annotations_define_keeps_its_creation() -> None:
    registry = Registry()
    registry.join("a", min_member=2)

    assert registry.define(min_member=5) == []
    assert registry.leave("a") == [(GangDefinition(5, 5), 1)]


# One object


def test_a_gang_has_one_object() -> None:
    registry = Registry()
    registry.define(min_member=3)

    with pytest.raises(RefusedError, match=r"^gang: 'default/g' is already a gang$"):
        registry.define(min_member=3)


def test_an_object_that_is_applied_again_replaces_the_one_before_wholly() -> None:
    registry = Registry()
    registry.define(min_member=3, wait_us=5)

    assert registry.define(update=True, min_member=4) == [(GangDefinition(4, 4), 1)]


# Removal


def test_what_is_not_defined_cannot_be_removed() -> None:
    registry = Registry()
    registry.join("a")

    with pytest.raises(RefusedError, match=r"^gang: 'default/g' is no gang that is defined$"):
        registry.remove()


def test_a_removal_forgets_annotations_too() -> None:
    registry = Registry()
    registry.define(min_member=3)
    registry.join("a", min_member=2)

    assert registry.remove() == ["undefined"]
    assert registry.join("b") == [1]
    assert registry.definition() is None


@pytest.mark.parametrize("again", ["object", "annotations"])
def test_defined_anew_the_annotations_of_those_present_count_again(again: str) -> None:
    registry = Registry()
    registry.join("a", min_member=2, wait_us=7)
    registry.join("gone", total=9)
    registry.leave("gone")
    registry.remove()
    if again == "object":
        registry.define(min_member=5)
    else:
        registry.join("b", min_member=2)

    assert registry.definition() == GangDefinition(2, 2, wait_us=7)
    assert registry.register.gangs[NAME].creation == 4


def test_a_removed_gang_without_members_is_gone() -> None:
    registry = Registry()
    registry.define(min_member=3)
    registry.join("a")
    registry.remove()
    registry.leave("a")

    assert registry.register.gangs == {}


# Disagreement


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"min_member": 2}, {"min_member": 3}, "min-available 3 disagrees with 2"),
        ({"total": 2}, {"total": 3}, "total-number 3 disagrees with 2"),
        (
            {"mode": GangMode.STRICT},
            {"mode": GangMode.NON_STRICT},
            "mode NonStrict disagrees with Strict",
        ),
        ({"wait_us": 2}, {"wait_us": 3}, "waiting-time 3 disagrees with 2"),
        ({"groups": ("a/b",)}, {"groups": ()}, "groups none disagrees with a/b"),
    ],
)
def test_members_that_disagree_are_refused(
    first: dict[str, object], second: dict[str, object], message: str
) -> None:
    registry = Registry()
    registry.join("a", **first)

    with pytest.raises(RefusedError, match=f"^annotations: {message}"):
        registry.join("b", **second)


def test_what_one_does_not_say_does_not_disagree() -> None:
    registry = Registry()
    registry.join("a", min_member=2)
    registry.join("b", total=4)
    registry.join("c")

    assert registry.definition() == GangDefinition(2, 4)


def test_those_that_are_gone_bind_nobody() -> None:
    registry = Registry()
    registry.join("a", min_member=2)
    registry.join("b")
    registry.leave("a")
    registry.join("c", min_member=3)

    assert registry.min_member() == 3


def test_two_that_say_the_same_count_until_both_are_gone() -> None:
    registry = Registry()
    registry.join("a", "b", min_member=2)
    registry.leave("a")

    with pytest.raises(RefusedError, match="disagrees with 2"):
        registry.join("c", min_member=3)


def test_no_disagreement_with_the_object() -> None:
    registry = Registry()
    registry.define(min_member=2)
    registry.join("a", min_member=3)

    assert registry.min_member() == 3


# Totals


def test_a_total_below_what_another_source_needs_is_refused() -> None:
    registry = Registry()
    registry.define(min_member=3, total=4)

    with pytest.raises(RefusedError, match=r"^annotations: .* total 4 .* min_member 5$"):
        registry.join("a", min_member=5)
    with pytest.raises(RefusedError, match=r"^annotations: .* total 2 .* min_member 3$"):
        registry.join("a", total=2)


def test_an_object_whose_total_does_not_go_with_the_annotations_is_refused() -> None:
    registry = Registry()
    registry.join("a", min_member=5)

    with pytest.raises(RefusedError, match=r"^gang: .* total 4 .* min_member 5$"):
        registry.define(min_member=3, total=4)
    assert registry.define(min_member=3, total=5) == []


# All or nothing


def test_a_member_that_is_undone_was_never_there() -> None:
    registry = Registry()
    registry.join("a", min_member=2)
    undo = registry.register.save(NAME, (member("b"),))
    registry.join("b", min_member=2, total=4)
    undo()
    registry.register.check()

    entry = registry.register.gangs[NAME]
    assert (entry.definition, list(entry.members)) == (GangDefinition(2, 2), [member("a")])
    assert registry.join("c", total=5) == [(GangDefinition(2, 5), 1), 1]


def test_a_gang_that_is_undone_was_never_there() -> None:
    registry = Registry()
    undo = registry.register.save(NAME, (member("a"),))
    registry.join("a", min_member=2)
    undo()

    assert registry.register.gangs == {}


def test_a_removal_that_is_undone_did_not_happen() -> None:
    registry = Registry()
    registry.define(min_member=3)
    registry.join("a", min_member=2)
    undo = registry.register.save(NAME)
    registry.remove()
    undo()
    registry.register.check()

    assert registry.min_member() == 2
    assert registry.leave("a") == [(GangDefinition(3, 3), 1)]


# GANG-54: which gangs lists connect


def gangs_tied_to(registry: Registry, name: str) -> list[str]:
    return [entry.name for entry in registry.register.tied_to(name)]


def test_every_list_connects_also_one_that_does_not_count() -> None:
    registry = Registry()
    registry.join("a", groups=("default/said",))
    assert gangs_tied_to(registry, "default/said") == [NAME]
    registry.define(min_member=1, groups=("default/given",))

    assert registry.definition() == GangDefinition(1, 1, groups=("default/said",))
    assert (
        gangs_tied_to(registry, "default/given")
        == gangs_tied_to(registry, "default/said")
        == [NAME]
    )
    assert gangs_tied_to(registry, "default/other") == gangs_tied_to(registry, NAME) == []


def test_a_list_connects_no_longer_when_what_says_it_is_gone() -> None:
    registry = Registry()
    registry.join("a", groups=("default/said",))
    registry.define(min_member=1, groups=("default/given",))
    registry.remove()
    assert gangs_tied_to(registry, "default/given") == []
    assert gangs_tied_to(registry, "default/said") == [NAME]

    registry.leave("a")
    assert gangs_tied_to(registry, "default/said") == []


def test_a_list_that_is_undone_connects_nobody() -> None:
    registry = Registry()
    undo = registry.register.save(NAME)
    registry.define(min_member=1, groups=("default/h",))
    undo()
    assert gangs_tied_to(registry, "default/h") == []

    registry.define(min_member=1, groups=("default/h",))
    undo = registry.register.save(NAME)
    registry.define(update=True, min_member=1, groups=("default/i",))
    undo()
    registry.register.check()
    assert gangs_tied_to(registry, "default/h") == [NAME]
    assert gangs_tied_to(registry, "default/i") == []
