"""Tests of the nearest names."""

from __future__ import annotations

import pytest

from muster_core.values.names import (
    LONGEST_COMPARED,
    MOST_COMPARED,
    Guesses,
    did_you_mean,
    nearest_names,
)

QUEUES = ["root.prod", "root.dev", "root.dev.team", "root.batch"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("root.prd", "root.prod"),
        ("root.porduction", "root.prod"),
        ("root.DEV.Taem", "root.dev.team"),
    ],
)
def test_the_nearest_name_comes_first(name: str, nearest: str) -> None:
    assert nearest_names(name, QUEUES)[0] == nearest


def test_a_name_that_is_like_none_has_no_nearest() -> None:
    assert nearest_names("zzz", QUEUES) == []
    assert did_you_mean("zzz", QUEUES) == ""


def test_names_are_given_as_they_are_known() -> None:
    assert nearest_names("ADD_APP", ["Add_App", "add_ask"], most=1) == ["Add_App"]


def test_no_more_names_than_asked_for() -> None:
    known = ["aaab", "aaac", "aaad", "aaae"]
    assert len(nearest_names("aaaa", known)) == 3
    assert len(nearest_names("aaaa", known, most=1)) == 1


def test_the_question_lists_the_names() -> None:
    assert did_you_mean("prod", ["prods"]) == "; did you mean prods?"
    assert did_you_mean("node", ["nodes", "mode"]) == "; did you mean nodes or mode?"
    assert did_you_mean("dve", ["dev", "prod"], before="root.") == "; did you mean root.dev?"
    assert did_you_mean("aaaa", ["aaaab", "aaabc", "aaab"]).count(", ") == 1


def test_of_very_many_names_only_some_are_compared() -> None:
    names = (f"other{number}" for number in range(10**12))
    nearest_names("name", names)
    assert next(names) == f"other{MOST_COMPARED}"


def test_a_very_long_name_is_like_none() -> None:
    name = "a" * LONGEST_COMPARED
    assert nearest_names(name, [name + "b"]) == [name + "b"]
    assert nearest_names(name + "a", [name]) == []


def test_only_the_first_guesses_are_made() -> None:
    guesses = Guesses(2)
    assert [guesses.about("prd", ["prod"]) for _ in range(4)] == ["; did you mean prod?"] * 2 + [
        ""
    ] * 2
