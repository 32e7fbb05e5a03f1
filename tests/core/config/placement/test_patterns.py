"""The parts of regular expressions."""

from __future__ import annotations

import re

import pytest

from muster_core.config.expressions import (
    BLANKS,
    DIGITS,
    LAST_CHARACTER,
    NEWLINE,
    WORD_CHARACTERS,
    Assertion,
    CharacterSet,
    Ranges,
    complement,
)

ASCII = [chr(code) for code in range(128)]


@pytest.mark.parametrize(
    ("ranges", "escape"), [(DIGITS, r"\d"), (WORD_CHARACTERS, r"\w"), (NEWLINE, r"\n")]
)
def test_characters(ranges: Ranges, escape: str) -> None:
    found = {character for character in ASCII if CharacterSet(ranges).has(character)}

    assert found == {character for character in ASCII if re.fullmatch(escape, character, re.ASCII)}


def test_blanks() -> None:
    assert {one for one in ASCII if CharacterSet(BLANKS).has(one)} == set(" \t\n\f\r")


@pytest.mark.parametrize("ranges", [(), DIGITS, WORD_CHARACTERS, ((0, LAST_CHARACTER),)])
def test_a_complement_has_all_others(ranges: Ranges) -> None:
    for one in [*ASCII, "é", chr(LAST_CHARACTER)]:
        assert CharacterSet(complement(ranges)).has(one) is CharacterSet(ranges, negated=True).has(
            one
        )


def test_any_case() -> None:
    small = ((97, 99),)

    assert [CharacterSet(small, any_case=True).has(one) for one in "aAdD"] == [
        True,
        True,
        False,
        False,
    ]
    assert not CharacterSet(small, negated=True, any_case=True).has("B")
    assert CharacterSet(((0xC9, 0xC9),), any_case=True).has("é")
    assert not CharacterSet(((115, 115),), any_case=True).has("ß")


@pytest.mark.parametrize(
    ("spot", "positions"),
    [
        (Assertion.START, [0]),
        (Assertion.END, [6]),
        (Assertion.LINE_START, [0, 3]),
        (Assertion.LINE_END, [2, 6]),
        (Assertion.WORD_EDGE, [0, 2, 3, 4, 5, 6]),
        (Assertion.NO_WORD_EDGE, [1]),
    ],
)
def test_spots(spot: Assertion, positions: list[int]) -> None:
    text = "ab\nc-d"

    assert [at for at in range(len(text) + 1) if spot.holds(text, at)] == positions
