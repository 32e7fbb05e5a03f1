"""Filters: whom a rule is for."""

from __future__ import annotations

import pytest

from muster_core.config.model import PlacementFilter
from muster_core.config.placement import Filter, name_test
from muster_core.values.configuration import GROUP_NAME, USER_NAME


@pytest.mark.parametrize(
    ("written", "user", "groups", "let_in"),
    [
        (PlacementFilter(), "sue", (), True),
        (PlacementFilter(), "", (), True),
        (PlacementFilter(deny=True), "sue", (), False),
        (PlacementFilter(users=("sue",)), "sue", (), True),
        (PlacementFilter(users=("sue",)), "sue2", (), False),
        (PlacementFilter(users=("sue",)), "", (), False),
        (PlacementFilter(users=("sue",)), "bob", ("sue",), False),
        (PlacementFilter(groups=("dev",)), "sue", ("ops", "dev"), True),
        (PlacementFilter(groups=("dev",)), "dev", ("ops",), False),
        (PlacementFilter(groups=("dev",)), "", ("dev",), True),
        (PlacementFilter(users=("bob",), groups=("dev",)), "sue", ("dev",), True),
        (PlacementFilter(users=("bob",), groups=("dev",)), "bob", (), True),
        (PlacementFilter(deny=True, users=("bob",), groups=("dev",)), "sue", ("dev",), False),
        (PlacementFilter(deny=True, users=("bob",), groups=("dev",)), "sue", ("ops",), True),
        (PlacementFilter(users=("s.e",)), "sue", (), False),
        (PlacementFilter(users=("s.e+",)), "xsueex", (), True),
        (PlacementFilter(users=("s.e+", "bob")), "sue", (), False),
        (PlacementFilter(users=("-", "+")), "-", (), False),
        (PlacementFilter(deny=True, users=("-", "+")), "-", (), True),
        (PlacementFilter(users=(".*",)), "", (), False),
        (PlacementFilter(groups=(".*",)), "sue", (), False),
        (PlacementFilter(users=(".*",)), None, (), False),
        (PlacementFilter(users=(".*",), deny=True), None, (), True),
    ],
)
def test_whom_it_lets_in(
    written: PlacementFilter, user: str | None, groups: tuple[str, ...], let_in: bool
) -> None:
    assert Filter(written).lets_in(user, groups) is let_in


@pytest.mark.parametrize("name", ["a", "_", "sue.b@c", "a/b", "a:b#c", "sue$", "A-1", "bob7", "a$"])
def test_legal_users(name: str) -> None:
    assert name_test((name, "other"), USER_NAME)(name)


@pytest.mark.parametrize("name", ["", "1", "-a", "a b", "a$b", "é", ".a", "a\n"])
def test_illegal_users_are_ignored(name: str) -> None:
    assert not name_test((name, "other"), USER_NAME)(name)


@pytest.mark.parametrize("name", ["a/b", "a@b", "a#", "a$", "7"])
def test_illegal_groups_are_ignored(name: str) -> None:
    assert not name_test((name, "other"), GROUP_NAME)(name)


def test_a_user_with_a_dollar_alone_is_an_expression() -> None:
    hits = name_test(("sue$",), USER_NAME)

    assert hits("xsue")
    assert not hits("sue$")


@pytest.mark.parametrize("name", ["7up", "", "a b", "-"])
def test_one_entry_must_be_legal(name: str) -> None:
    with pytest.raises(ValueError, match=r"neither a name .* nor a regular expression"):
        name_test((name,), USER_NAME)


def test_one_entry_must_compile() -> None:
    with pytest.raises(ValueError, match=r"'\(' is not a regular expression: a '\)' is missing"):
        name_test(("(",), GROUP_NAME)
