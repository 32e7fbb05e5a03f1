"""Which regular expressions are accepted."""

from __future__ import annotations

import pytest

from muster_core.config.placement.pattern_parser import parse_pattern
from muster_core.config.placement.patterns import Choice, OneOf, Part, Repeat, Sequence, Spot

A, B = OneOf(((97, 97),)), OneOf(((98, 98),))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a", A),
        ("", Sequence()),
        ("ab", Sequence((A, B))),
        ("a|b|", Choice((A, B, Sequence()))),
        ("(a)", A),
        ("(^)*", Repeat(Sequence((Spot.START,)), 0, None)),
        ("(?:a|b)", Choice((A, B))),
        ("(?P<x>a)", A),
        ("a*", Repeat(A, 0, None)),
        ("a+?", Repeat(A, 1, None)),
        ("a??", Repeat(A, 0, 1)),
        ("a{3}", Repeat(A, 3, 3)),
        ("a{3,}", Repeat(A, 3, None)),
        ("a{2,3}?", Repeat(A, 2, 3)),
        ("(?:a*)*", Repeat(Repeat(A, 0, None), 0, None)),
        ("^$", Sequence((Spot.START, Spot.END))),
        ("(?m)^$", Sequence((Spot.LINE_START, Spot.LINE_END))),
        (r"\A\b\B", Sequence((Spot.START, Spot.WORD_EDGE, Spot.NO_WORD_EDGE))),
        (".", OneOf(((10, 10),), negated=True)),
        ("(?s).", OneOf((), negated=True)),
        ("(?i)a", OneOf(((97, 97),), any_case=True)),
        ("(?i:a)b", Sequence((OneOf(((97, 97),), any_case=True), B))),
        ("(?i)(?-i:a)", A),
        ("[ab]", OneOf(((97, 97), (98, 98)))),
        ("[^a-b]", OneOf(((97, 98),), negated=True)),
        ("[]a-]", OneOf(((93, 93), (97, 97), (45, 45)))),
        (r"[\d.]", OneOf(((48, 57), (46, 46)))),
        (r"\.\x2f\t", Sequence((OneOf(((46, 46),)), OneOf(((47, 47),)), OneOf(((9, 9),))))),
        ("]}", Sequence((OneOf(((93, 93),)), OneOf(((125, 125),))))),
        ("a{b", Sequence((A, OneOf(((123, 123),)), B))),
    ],
)
def test_accepted(text: str, part: Part) -> None:
    assert parse_pattern(text) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*", "nothing to repeat"),
        ("a|{2}", "nothing to repeat"),
        ("^*", "a place such as"),
        ("a**", "a repetition cannot be repeated"),
        ("a*+", "a repetition cannot be repeated"),
        ("a{2}{3}", "a repetition cannot be repeated"),
        ("a{1001}", "at most 1000"),
        ("a{1,1001}", "at most 1000"),
        ("a{10000000000000}", "at most 1000"),
        ("a{1,10000000000000}", "at most 1000"),
        ("a{3,2}", "3 repetitions are more than 2"),
        ("a{,2}", "write {0,n}"),
        ("(a", r"a '\)' is missing \(at character 3\)"),
        ("a)", r"'\)' closes nothing"),
        ("(?=a)", "nothing else in common"),
        ("(?<=a)b", "nothing else in common"),
        ("(?<x>a)", "nothing else in common"),
        ("(?>a)", "nothing else in common"),
        ("(?#a)", "nothing else in common"),
        ("(?P=x)", "nothing else in common"),
        ("(?x)a", "nothing else in common"),
        ("a(?i)", "nothing else in common"),
        ("(?i-i:a)", "nothing else in common"),
        ("(?)", "flags are not possible"),
        ("(?-i)a", "flags are not possible"),
        ("(?P<x>a)(?P<x>a)", "two groups are called 'x'"),
        (r"(a)\1", "have in common"),
        (r"\Z", "have in common"),
        (r"\z", "have in common"),
        (r"\pL", "have in common"),
        (r"\Qa\E", "have in common"),
        (r"\x1", "have in common"),
        (r"\é", "have in common"),
        ("\\", "have in common"),
        (r"[\b]", "have in common"),
        ("[[:alpha:]]", "a class in RE2 alone"),
        ("[b-a]", "a range goes from"),
        (r"[a-\d]", "a range goes from"),
        ("[a", r"a '\]' is missing"),
        ("[]", r"a '\]' is missing"),
        ("(" * 51 + ")" * 51, "at most 50 groups"),
        ("(" * 100_000, "at most 50 groups"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_pattern(text)
