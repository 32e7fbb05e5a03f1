"""Regular expressions: they find what ``re`` finds, in bounded time."""

from __future__ import annotations

import re
from time import perf_counter

import pytest
from hypothesis import given, strategies as st

from muster_core.config.expressions import Expression

ATOMS = st.sampled_from([
    "a", "b", "A", "0", "-", "_", r"\.", ".", "[ab]", "[^a]", "[a-c-]", r"[\d_]", r"\d", r"\w",
    r"\W", r"\D", r"\s", r"\x61", "(?:)", "{", "]",
])  # fmt: skip
SPOTS = st.sampled_from(["^", "$", r"\b", r"\A"])
COUNTS = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{0,1}", "{1,}", "{0}"])
GROUPS = st.sampled_from(["({})", "(?:{})", "(?i:{})", "(?:{}|a)", "(?s:{})", "(?-i:{})"])


def filled(group: str, part: str) -> str:
    return group.replace("{}", part)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds(filled, GROUPS, inner)
    repeated = st.builds(str.__add__, group | ATOMS, COUNTS)
    return st.lists(repeated | SPOTS, max_size=4).map("".join)


PATTERNS = st.recursive(st.builds(str.__add__, ATOMS, COUNTS) | SPOTS, joined, max_leaves=6)


@given(PATTERNS, st.text("abAB0-_.{]é ", max_size=6))
def test_the_same_is_found_as_by_re(pattern: str, text: str) -> None:
    assert Expression(pattern).found_in(text) == bool(re.search(pattern, text, re.ASCII))


@given(PATTERNS, st.text("abAB\n", max_size=6).filter(lambda text: not text.endswith("\n")))
def test_lines_are_as_for_re(pattern: str, text: str) -> None:
    whole = f"(?mi){pattern}"

    assert Expression(whole).found_in(text) == bool(re.search(whole, text, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^$", "", True),
        ("", "", True),
        (".*", "", True),
        ("c$", "abc\n", False),
        (r"a\B", "ab", True),
        (r"b\B", "ab", False),
        ("(?i)É", "é", True),
        (r"\w", "é", False),
    ],
)
def test_examples(pattern: str, text: str, found: bool) -> None:
    assert Expression(pattern).found_in(text) is found


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(?:a?){50}a{50}$", "(.*)*b"])
def test_no_name_takes_long(pattern: str) -> None:
    started = perf_counter()

    assert not Expression(pattern).found_in("a" * 2_000 + "!")
    # A backtracking search would not end in a lifetime.
    assert perf_counter() - started < 30


@pytest.mark.parametrize(
    "pattern", ["(?:a{1000}){6}", "((a{100}){100}){100}", "(?:a{0,1000}){6}", "a" * 5_001]
)
def test_too_large(pattern: str) -> None:
    with pytest.raises(ValueError, match="more than 5000 steps"):
        Expression(pattern)


def test_nothing_is_repeated_at_once() -> None:
    assert Expression("((((){1000}){1000}){1000}){1000}").found_in("a")
