"""Placement rules and filters as the core gets them, and the regular expressions in them.

What is refused stands in ``tests/configs``.
"""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from muster_core.config import load_configuration
from muster_core.config.expressions import (
    BLANKS,
    DIGITS,
    LAST_CHARACTER,
    NEWLINE,
    WORD_CHARACTERS,
    Alternation,
    Assertion,
    CharacterSet,
    Concatenation,
    Expression,
    Pattern,
    Ranges,
    Repetition,
    complement,
    parse_pattern,
)
from muster_core.config.model import Configuration, PlacementFilter, PlacementRule, RuleName
from muster_core.config.placement import Filter, name_test
from muster_core.errors import ConfigError
from muster_core.values.configuration import GROUP_NAME, USER_NAME


def load(rules: object, **partition: Any) -> Configuration:  # noqa: ANN401 - a JSON value
    document = {"partitions": [{"placementrules": rules, **partition}]}
    return load_configuration(document, file="q.yaml")


def test_everything_said_of_a_rule() -> None:
    rules = [
        {
            "name": "TAG",
            "value": "Namespace",
            "create": True,
            "filter": {"type": "Deny", "users": ["sue", "7"], "groups": ["d.*"]},
            "parent": {
                "name": "user",
                "parent": {"name": "Fixed", "value": "Root.A", "create": "on"},
            },
        },
        {"name": "provided", "value": "x", "create": None, "filter": None, "parent": None},
    ]

    fixed = PlacementRule(RuleName.FIXED, "Root.A", create=True)
    deny = PlacementFilter(deny=True, users=("sue", "7"), groups=("d.*",))
    assert load(rules, queues=[{"name": "a", "parent": True}]).placement_rules == (
        PlacementRule(
            RuleName.TAG,
            "Namespace",
            create=True,
            filter=deny,
            parent=PlacementRule(RuleName.USER, parent=fixed),
        ),
        PlacementRule(RuleName.PROVIDED, "x"),
    )


@pytest.mark.parametrize("rules", [[], None])
def test_no_rules(rules: object) -> None:
    assert load(rules).placement_rules == ()


def test_obeyed_rules_bring_no_warning() -> None:
    assert load([{"name": "user"}]).warnings == ()


def test_the_rules_of_the_partition_that_runs() -> None:
    document = {
        "partitions": [
            {"name": "other", "placementrules": [{"name": "user"}]},
            {"name": "default", "placementrules": [{"name": "provided"}]},
        ]
    }

    assert load_configuration(document).placement_rules == (PlacementRule(RuleName.PROVIDED),)


WRONG: list[tuple[list[object], list[str]]] = [
    (
        [{"parent": {"parent": {"x": 1}}}],
        ["[0]", "[0].parent", "[0].parent.parent", "[0].parent.parent.x"],
    ),
    (
        [{"name": "user", "filter": {"groups": {}, "type": []}}],
        ["[0].filter.groups", "[0].filter.type"],
    ),
    (["user"], ["[0]"]),
    ([[]], ["[0]"]),
    ([{"name": {}}], ["[0].name"]),
    ([{"name": "fixed", "value": []}], ["[0].value"]),
    ([{"name": "tag", "value": None}, {"name": "x"}], ["[0].value", "[1].name"]),
]


@pytest.mark.parametrize(("rules", "paths"), WRONG)
def test_every_problem_is_said(rules: list[object], paths: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(rules)

    found = {
        problem.path.removeprefix("partitions[0].placementrules")
        for problem in caught.value.problems
    }
    assert found == set(paths)


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


QUEUES = [
    {"name": "Leaf"},
    {"name": "p", "queues": [{"name": "leaf"}, {"name": "q", "parent": True}]},
]


def rule(*values: str, create: bool = False, parents: bool = False) -> dict[str, Any]:
    """Return a rule from the outermost parent on: ``user`` or the value of a fixed rule."""
    found: dict[str, Any] | None = None
    for number, value in enumerate(values):
        is_outer = number == len(values) - 1
        made: dict[str, Any] = {"name": "fixed", "value": value}
        if value == "user":
            made = {"name": "user"}
        made["create"] = create if is_outer else parents
        found = made if found is None else {**made, "parent": found}
    assert found is not None
    return found


def refusals(written: dict[str, Any]) -> list[tuple[str, str]]:
    document = {"partitions": [{"placementrules": [written], "queues": QUEUES}]}
    try:
        load_configuration(document)
    except ConfigError as error:
        head = "partitions[0].placementrules[0]"
        return [(found.path.removeprefix(head), found.message) for found in error.problems]
    return []


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        ("leaf",),
        ("ROOT.LEAF",),
        ("p.leaf",),
        ("p", "leaf"),
        ("root", "p", "Leaf"),
        ("p", "user"),
        ("p", "q", "user"),
        ("root", "user"),
        ("user",),
        ("user", "nowhere"),
        ("p", "user", "nowhere", "user"),
    ],
)
def test_what_exists_can_match(values: tuple[str, ...], create: bool) -> None:
    assert refusals(rule(*values, create=create)) == []


@pytest.mark.parametrize(
    "values", [("new",), ("p.new",), ("p", "new.x"), ("new", "x"), ("new", "user")]
)
@pytest.mark.parametrize("parents", [True, False])
def test_what_is_missing_needs_create_of_the_rule(values: tuple[str, ...], parents: bool) -> None:
    assert refusals(rule(*values, create=True, parents=parents)) == []
    ((_, message),) = refusals(rule(*values, create=False, parents=parents))
    assert "the rule can never match: there is no queue 'root." in message


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("values", "place", "message"),
    [
        (("leaf.x",), ".value", "'root.leaf' is a leaf"),
        (("leaf", "x"), ".parent.value", "'root.leaf' is a leaf"),
        (("leaf", "user"), ".parent.value", "'root.leaf' is a leaf"),
        (("p", "leaf.x.y", "user"), ".parent.value", "'root.p.leaf' is a leaf"),
        (("p",), ".value", "'root.p' is a parent"),
        (("p", "q"), ".value", "'root.p.q' is a parent"),
        (("root",), ".value", "'root' is a parent"),
    ],
)
def test_leaves_and_parents_in_the_wrong_place(
    values: tuple[str, ...], place: str, message: str, create: bool
) -> None:
    ((path, said),) = refusals(rule(*values, create=create))

    assert path == place
    assert said.startswith(f"the rule can never match: {message}")


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
