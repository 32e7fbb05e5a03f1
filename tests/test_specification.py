"""The specification and those who cite it agree; its lists are those of the code."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from docs import spec_extension
from docs.rules import (
    EXPLAINING,
    FEEDS_README,
    INDEX,
    PAGES,
    PROJECT,
    UNDECIDED,
    UNSHOWN,
    Citation,
    Place,
    Rule,
    UndecidedRule,
    UnshownRule,
    cited_at_head,
    cited_in_table,
    feed_citations,
    feeds_with_comments,
    feeds_without_comments,
    ids_in,
    places,
    places_in,
    read_page,
    read_rules,
    read_undecided,
    read_unshown,
    section_of,
    test_citations as citations_of_tests,
)
from muster.feeds import OPS
from muster.feeds._annotations import MEMBER_KEYS
from muster.feeds._manifests import FORMS
from muster_core.config.loader import FILE_FIELDS, PARTITION_FIELDS
from muster_core.config.properties import PROPERTIES, resolve
from muster_core.config.queues import QUEUE_FIELDS
from muster_core.decisions import Kind, Reason
from muster_core.reasons import Code
from muster_core.values.priority import BUILT_IN_CLASSES

RULES = read_rules()
IDS = {rule.id for rule in RULES}
PREFIXES = {name.partition("-")[0] for name in IDS}
UNSHOWN_ROWS = read_unshown()
UNDECIDED_ROWS = read_undecided()

#: Where ids may stand beside feeds and test modules, and what of it is read.
SOURCES = ("core", "actors", "docs", "benchmarks", "examples", "tests")
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".js"}

#: Where nothing cites sections of a text that no reader of the project has.
EVERYTHING = (*SOURCES, "CONTRIBUTING.md", "README.md")


def relative_path(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def texts(*places: str) -> list[Path]:
    """Return every text below some folders, and files."""
    found = [path for place in places for path in [PROJECT / place, *(PROJECT / place).rglob("*")]]
    ours = [path for path in found if "_build" not in path.parts]
    return [path for path in ours if path.is_file() and path.suffix in SUFFIXES]


# Every process that runs tests imports this module, so what takes long is read when it is needed.


@cache
def cited_by_feeds() -> list[Citation]:
    return feed_citations()


@cache
def decided_in() -> dict[str, list[Place]]:
    return places()


def cited_ids() -> set[str]:
    return {cited.id for cited in [*cited_by_feeds(), *citations_of_tests(PREFIXES)]}


# -- rules --------------------------------------------------------------------------------------


def test_there_are_rules() -> None:
    assert len(RULES) > 250


def test_ids_are_given_once() -> None:
    counted = Counter(rule.id for rule in RULES)

    assert [name for name, times in counted.items() if times > 1] == []


def test_every_page_has_ids_of_its_own() -> None:
    pages = {(rule.id.partition("-")[0], rule.page.name) for rule in RULES}

    assert len(pages) == len({prefix for prefix, _ in pages}) == len({page for _, page in pages})


def test_rules_have_their_anchors_and_texts() -> None:
    assert [rule.id for rule in RULES if rule.anchor != f"({rule.id.lower()})="] == []
    assert [rule.id for rule in RULES if not rule.text or rule.title.endswith(".")] == []


def test_links_to_rules_lead_somewhere() -> None:
    for path in (PROJECT / "docs").rglob("*.md"):
        linked = re.findall(r"\]\([\w/.]*#([a-z]+-[0-9]+)\)", path.read_text(encoding="utf-8"))
        assert {name.upper() for name in linked} <= IDS, relative_path(path)


def test_every_page_is_in_the_index() -> None:
    text = INDEX.read_text(encoding="utf-8")
    pages = {path.stem for path in PAGES.glob("*.md")} - {"index"}

    assert {page for page in pages if f"({page}.md)" not in text} == set()
    assert {page for page in pages if f"\n{page}\n" not in text} == set()


# -- citations ----------------------------------------------------------------------------------


def test_every_rule_that_is_cited_exists() -> None:
    cited = [
        *cited_by_feeds(),
        *(found for path in texts(*SOURCES) for found in ids_in(path, PREFIXES)),
    ]

    assert [f"{relative_path(one.path)}: {one.id}" for one in cited if one.id not in IDS] == []


def test_feeds_say_which_rules_they_show_and_each_once() -> None:
    cited = {path: [one.id for one in cited_at_head(path)] for path in feeds_with_comments()}

    assert [
        relative_path(path) for path, ids in cited.items() if not ids or len(ids) > len(set(ids))
    ] == []


@pytest.mark.parametrize("path", feeds_without_comments(), ids=relative_path)
def test_feed_without_comments_is_in_the_table(path: Path) -> None:
    assert path in {one.path for one in cited_in_table(FEEDS_README)}


def test_the_table_names_feeds_without_comments() -> None:
    listed = {one.path for one in cited_in_table(FEEDS_README)}

    assert listed <= set(feeds_without_comments())


def test_rules_are_shown() -> None:
    """Each is cited by a feed or a test, or has a row below "Rules that no feed shows", not both."""
    cited, excused = cited_ids(), {row.id for row in UNSHOWN_ROWS}

    assert [rule.id for rule in RULES if (rule.id in cited) == (rule.id in excused)] == []


@pytest.mark.parametrize("row", UNSHOWN_ROWS, ids=[row.id for row in UNSHOWN_ROWS])
def test_row_of_a_rule_that_no_feed_shows(row: UnshownRule) -> None:
    assert row.id in IDS
    assert row.why
    assert [path for path in row.tests if not (PROJECT / path).is_file()] == []


def test_rules_have_their_places_in_the_code() -> None:
    """Each has `# ID` directly above what decides it, or a row in the second table, not both."""
    excused = {row.id for row in UNDECIDED_ROWS}

    assert [rule.id for rule in RULES if (rule.id in decided_in()) == (rule.id in excused)] == []


def test_every_place_has_a_name_and_a_rule() -> None:
    found = [one for some in decided_in().values() for one in some]

    assert [f"{relative_path(one.path)}: {one.id}" for one in found if one.id not in IDS] == []
    assert [f"{relative_path(one.path)}: {one.id}" for one in found if not one.name] == []


@pytest.mark.parametrize("row", UNDECIDED_ROWS, ids=[row.id for row in UNDECIDED_ROWS])
def test_row_of_a_rule_that_no_single_place_decides(row: UndecidedRule) -> None:
    assert row.id in IDS
    assert row.why


@pytest.mark.parametrize(
    ("heading", "rows"),
    [
        (UNSHOWN, [row.id for row in UNSHOWN_ROWS]),
        (UNDECIDED, [row.id for row in UNDECIDED_ROWS]),
    ],
    ids=["unshown", "undecided"],
)
def test_every_row_of_a_table_is_read(heading: str, rows: list[str]) -> None:
    assert rows
    assert len(rows) == len(set(rows))
    # A table has two lines more.
    lines = [line for line in section_of(INDEX, heading) if line[:1] == "|"]
    assert len(lines) == len(rows) + 2


def test_nothing_cites_sections_of_another_text() -> None:
    sections = re.compile(r"\bSPEC (?:section )?[0-9]|\bSPEC sections [0-9]|SPEC\.md")
    files = [path for path in texts(*EVERYTHING) if path != Path(__file__).resolve()]

    assert [relative_path(path) for path in files if sections.search(path.read_text("utf-8"))] == []


# -- how they are read --------------------------------------------------------------------------


def test_a_page_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n(thing-1)=\n### THING-1: One\n\nText.\n\n(thing-2)=\n### THING-2: Two\n"
    )

    assert list(read_page(page)) == [
        Rule("THING-1", "One", "Text.", "(thing-1)=", page),
        Rule("THING-2", "Two", "", "(thing-2)=", page),
    ]


@pytest.mark.parametrize("heading", ["Title", "thing-1: Title", "THING-x: Title", "THING-1 Title"])
def test_a_heading_that_is_no_rule(tmp_path: Path, heading: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n### {heading}\n")

    with pytest.raises(ValueError, match="is no rule"):
        list(read_page(page))


def test_a_head_is_read_down_to_the_first_event(tmp_path: Path) -> None:
    feed = tmp_path / "feed.yaml"
    feed.write_text("# THING-1: one.\n# more\n# THING-2: two.\n- {op: settle}\n# THING-3: three.\n")

    assert list(cited_at_head(feed)) == [
        Citation("THING-1", feed, "one."),
        Citation("THING-2", feed, "two."),
    ]


def test_rows_of_rules_that_no_feed_shows(tmp_path: Path) -> None:
    index = tmp_path / "index.md"
    head = f"## {UNSHOWN}\n\n| rule | why | where |\n| --- | --- | --- |\n"
    rows = "| [THING-1](#thing-1) | why | `tests/a.py`, `tests/b.py` |\n| THING-2 | why | |\n"
    index.write_text(f"# Index\n\n{head}{rows}\n## More\n\n| THING-3 | why | |\n")

    assert read_unshown(index) == [
        UnshownRule("THING-1", "why", ("tests/a.py", "tests/b.py")),
        UnshownRule("THING-2", "why", ()),
    ]


def test_rows_of_rules_that_no_single_place_decides(tmp_path: Path) -> None:
    index = tmp_path / "index.md"
    head = f"## {UNDECIDED}\n\n| rule | why |\n| --- | --- |\n"
    rows = "| [THING-1](#thing-1) | why |\n| THING-2 | why |\n"
    index.write_text(f"# Index\n\n{head}{rows}\n## More\n\n| THING-3 | why |\n")

    assert read_undecided(index) == [
        UndecidedRule("THING-1", "why"),
        UndecidedRule("THING-2", "why"),
    ]


MODULE = '''
"""A module: THING-1 to THING-9."""

# THING-1, OTHER-1
LIMIT: Final = 3

# THING-2
# A comment more.
TABLE = {
    # THING-3
    "one": 1,
}

# THING-4
@final
class Thing:
    # THING-5
    size = 1

    # THING-6
    @property
    def a(self) -> int:
        def inner() -> int:
            # THING-7
            number = 1
            return number

        # THING-8, and why.
        # THING-9
        return inner()

# THING-10

if LIMIT:
    # THING-11
    async def b() -> None: ...
'''


def test_places_in_a_module(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)

    assert list(places_in(path)) == [
        Place("THING-1", path, "LIMIT"),
        Place("OTHER-1", path, "LIMIT"),
        Place("THING-2", path, "TABLE"),
        Place("THING-3", path, "TABLE"),
        Place("THING-4", path, "Thing"),
        Place("THING-5", path, "Thing.size"),
        Place("THING-6", path, "Thing.a"),
        Place("THING-7", path, "Thing.a.inner"),
        Place("THING-9", path, "Thing.a"),
        Place("THING-10", path, ""),
        Place("THING-11", path, "b"),
    ]


def test_a_place_that_only_explains_is_none() -> None:
    explaining = {path.name for path in EXPLAINING}
    found = {
        name
        for name, some in decided_in().items()
        for one in some
        if explaining & {*one.path.parts}
    }

    assert found
    assert {name for name in found if not name.startswith("REASON-")} == set()


def test_ids_in_a_text(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(
        "# THING-1, and (THING-12); no PRETHING-3, THING-4-5, OTHER-6 or THING-1 again.\n"
    )

    assert [cited.id for cited in ids_in(path, {"THING"})] == ["THING-1", "THING-12"]


# -- how they are shown -------------------------------------------------------------------------

PAGE = """# Page

(thing-1)=
### THING-1: One

Text.

## More

(thing-2)=
### THING-2: Two

Text.

(thing-3)=
### THING-3: Three

Text.
"""


def test_who_shows_a_rule_stands_below_it() -> None:
    feed, test = PROJECT / "tests" / "feeds" / "a.yaml", PROJECT / "tests" / "test_a.py"
    shown = {
        "THING-1": [Citation("THING-1", feed, 'a "b".'), Citation("THING-1", test)],
        "THING-3": [
            Citation("THING-3", feed.with_name(f"{n}.yaml"), f"`{n}` < 9.") for n in "1234"
        ],
    }

    view = PROJECT / "core" / "muster_core" / "view.py"
    other = Place("THING-1", PROJECT / "actors" / "muster" / "x.py", "y")
    decided = {
        "THING-1": [Place("THING-1", view, "View.a"), Place("THING-1", view, "View.b"), other],
        # Two statements of one function.
        "THING-2": [other, other],
    }

    text = spec_extension.with_citations(PAGE, shown, decided)
    one, two, three = re.split(r"\(thing-\d\)=\n", text)[1:]

    assert one == (
        "### THING-1: One\n\nText.\n\n"
        '<p>Shown by <a href="../_shown/tests/feeds/a.yaml.txt" title="a &quot;b&quot;.">'
        "<code>tests/feeds/a.yaml</code></a>, <code>tests/test_a.py</code></p>\n\n"
        "<p>Decided in <code>muster_core/view.py: View.a, View.b</code>; "
        "<code>muster/x.py: y</code></p>\n\n## More\n\n"
    )
    assert two == ("### THING-2: Two\n\nText.\n\n<p>Decided in <code>muster/x.py: y</code></p>\n\n")
    assert three.count("<li>") == 4
    assert "</code></a>: <code>1</code> &lt; 9</li>" in three


def test_a_page_keeps_its_text() -> None:
    for page in PAGES.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert spec_extension.with_citations(text, {}, {}).split() == text.split()


def test_the_copy_of_a_feed_can_be_read_in_a_browser() -> None:
    feeds = PROJECT / "tests" / "feeds"

    assert spec_extension.copied(feeds / "a.yaml") == Path("_shown/tests/feeds/a.yaml.txt")
    assert spec_extension.copied(feeds / "a.msgpack") == Path("_shown/tests/feeds/a.msgpack")


RULES_BY_ID = {rule.id: rule for rule in read_rules()}


def rows(rule: str) -> list[list[str]]:
    """Return the cells of the table of a rule, without its head."""
    lines = [line for line in RULES_BY_ID[rule].text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def quoted(text: str) -> list[str]:
    """Return the words between backticks."""
    return re.findall(r"`([^`]+)`", text)


def first_column(rule: str) -> list[str]:
    return [name for row in rows(rule) for name in quoted(row[0])]


def test_operations() -> None:
    listed = {op: quoted(row[1]) for row in rows("FEED-38") for op in quoted(row[0])}
    fields = {
        name: [known.name if known.required else f"{known.name}?" for known in op.fields.values()]
        for name, op in OPS.items()
    }

    assert list(listed) == list(fields)
    assert listed.pop("configure") == ["config", "file", "partition?"]
    assert listed.pop("expect") == []
    assert listed == {name: fields[name] for name in listed}


def test_objects() -> None:
    text = RULES_BY_ID["OBJECT-1"].text

    assert [kind for kind in FORMS if kind not in text] == []
    assert sorted(first_column("OBJECT-16")) == sorted(
        key for key in MEMBER_KEYS if not key.endswith("/timeout")
    )


def test_properties() -> None:
    assert sorted(first_column("CONFIG-39")) == sorted(PROPERTIES)


@pytest.mark.parametrize("row", rows("CONFIG-39"), ids=first_column("CONFIG-39"))
def test_property_has_its_default(row: list[str]) -> None:
    [name], default = quoted(row[0]), quoted(row[2])
    if name == "queue.create":  # It has a rule of its own in place of one default.
        assert "#queue-28" in row[2]
        assert resolve({}, None).create is None
        return
    if name == "estimate.default":  # Nothing that can be written stands for its default.
        assert row[2] == "unknown"
        assert resolve({}, None).estimate_us is None
        return

    if name == "priority.limit":  # Likewise.
        assert row[2] == "none"
        assert resolve({}, None).priority_limit is None
        return

    assert resolve({name: default[0]}, None) == resolve({}, None)


def test_fields_of_a_configuration() -> None:
    assert set(quoted(RULES_BY_ID["CONFIG-1"].text)) >= {*FILE_FIELDS, *PARTITION_FIELDS}
    assert sorted(first_column("CONFIG-1")) == sorted(PARTITION_FIELDS)
    assert {"name", *first_column("CONFIG-2")} == set(QUEUE_FIELDS)


def test_classes() -> None:
    values = {quoted(name)[0]: int(value.replace(",", "")) for name, value, _ in rows("PRIORITY-6")}

    assert values == {known.name: known.value for known in BUILT_IN_CLASSES}


def test_kinds_of_decisions() -> None:
    assert sorted(first_column("DECISION-6")) == sorted(Kind)


def test_reasons_of_a_release() -> None:
    assert sorted(first_column("DECISION-7")) == sorted(Reason)


def test_reasons_of_pending_asks() -> None:
    assert quoted(RULES_BY_ID["REASON-2"].text) == list(Code)


@pytest.mark.parametrize("code", Code)
def test_a_code_of_a_reason_cites_rules(code: Code) -> None:
    page = (PAGES.parent / "reasons.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{code}` |")]

    assert code.rules
    assert set(code.rules) <= set(RULES_BY_ID)
    assert tuple(re.findall(r"\[([A-Z]+-[0-9]+)\]", row)) == code.rules
