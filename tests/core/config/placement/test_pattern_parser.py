"""Which regular expressions are accepted."""

from __future__ import annotations

import pytest

from muster_core.config.expressions import (
    Alternation,
    Assertion,
    CharacterSet,
    Concatenation,
    Pattern,
    Repetition,
    parse_pattern,
)

A, B = CharacterSet(((97, 97),)), CharacterSet(((98, 98),))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a", A),
        ("", Concatenation()),
        ("ab", Concatenation((A, B))),
        ("a|b|", Alternation((A, B, Concatenation()))),
        ("(a)", A),
        ("(^)*", Repetition(Concatenation((Assertion.START,)), 0, None)),
        ("(?:a|b)", Alternation((A, B))),
        ("(?P<x>a)", A),
        ("a*", Repetition(A, 0, None)),
        ("a+?", Repetition(A, 1, None)),
        ("a??", Repetition(A, 0, 1)),
        ("a{3}", Repetition(A, 3, 3)),
        ("a{3,}", Repetition(A, 3, None)),
        ("a{2,3}?", Repetition(A, 2, 3)),
        ("(?:a*)*", Repetition(Repetition(A, 0, None), 0, None)),
        ("^$", Concatenation((Assertion.START, Assertion.END))),
        ("(?m)^$", Concatenation((Assertion.LINE_START, Assertion.LINE_END))),
        (r"\A\b\B", Concatenation((Assertion.START, Assertion.WORD_EDGE, Assertion.NO_WORD_EDGE))),
        (".", CharacterSet(((10, 10),), negated=True)),
        ("(?s).", CharacterSet((), negated=True)),
        ("(?i)a", CharacterSet(((97, 97),), any_case=True)),
        ("(?i:a)b", Concatenation((CharacterSet(((97, 97),), any_case=True), B))),
        ("(?i)(?-i:a)", A),
        ("[ab]", CharacterSet(((97, 97), (98, 98)))),
        ("[^a-b]", CharacterSet(((97, 98),), negated=True)),
        ("[]a-]", CharacterSet(((93, 93), (97, 97), (45, 45)))),
        (r"[\d.]", CharacterSet(((48, 57), (46, 46)))),
        (
            r"\.\x2f\t",
            Concatenation(
                (CharacterSet(((46, 46),)), CharacterSet(((47, 47),)), CharacterSet(((9, 9),)))
            ),
        ),
        ("]}", Concatenation((CharacterSet(((93, 93),)), CharacterSet(((125, 125),))))),
        ("a{b", Concatenation((A, CharacterSet(((123, 123),)), B))),
    ],
)
def test_accepted(text: str, part: Pattern) -> None:
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
