"""The parts of a document."""

from __future__ import annotations

import pytest

from muster_core.config.document import (
    Listing,
    Scalar,
    Table,
    describe,
    unprintable,
)


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_nothing(text: str) -> None:
    assert Scalar(text).is_null
    assert not Scalar(text, quoted=True).is_null


def test_descriptions_are_short() -> None:
    assert describe(Scalar("x")) == "'x'"
    assert describe(Scalar("x" * 100)) == "'" + "x" * 60 + "'…"
    assert describe(Table()) == "a map"
    assert describe(Listing()) == "a list"


def test_half_a_surrogate_pair_cannot_be_printed() -> None:
    assert unprintable("a\ud800b")
    assert not unprintable("a\U0001f600b")
