"""The documentation says what the code says, the pictures of the architecture included."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType

import pytest
import trio

import muster
from docs import packages, walk
from docs.generate import FILES, SPEED, text_of
from docs.packages import PLANS, Plan
from docs.versions import list_versions
from muster._pure import is_compiled
from muster.feeds import OPS, read_feed
from muster.feeds._annotations import MEMBER_KEYS
from muster.feeds._items import APP_FIELDS, GANG_FIELDS, QUEUE_FIELDS as QUEUE_EXPECTED
from muster.feeds._manifests import FORMS
from muster.replay import Check
from muster_core.config.loader import FILE_FIELDS, NODE_SORT_FIELDS, PARTITION_FIELDS
from muster_core.config.properties import PROPERTIES, resolve
from muster_core.config.queues import QUEUE_FIELDS, RESOURCES_FIELDS, TEMPLATE_FIELDS
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.reasons import Code

DOCS = Path(__file__).parent.parent / "docs"

#: Configurations, and feeds that are wrong on purpose.
NOT_TO_BE_MET = {
    "greedy.yaml",
    "queues.yaml",
    "ranked.yaml",
    "refused.yaml",
    "wider.yaml",
    "wrong.yaml",
}
EXAMPLES = sorted((DOCS.parent / "examples" / "embedding").glob("*.py"))
FEEDS = sorted(path for path in (DOCS / "feeds").iterdir() if path.name not in NOT_TO_BE_MET)


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def documented_properties() -> dict[str, str]:
    """Return each property in the reference with its default."""
    section = page("config.md").partition("\n## Properties\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    return {row[0].strip("`"): row[3].strip("`") for row in rows}


#: Pages with commands on traces of real clusters.
LONG = {"coming-from-slurm.md", "compare.md", "csv.md"}


@pytest.mark.starts_early
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.takes_long) if path.name in LONG else path
        for path in FILES
    ],
    ids=lambda path: path.relative_to(DOCS.parent).as_posix(),
)
def test_generated_file_is_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What examples and commands say is that, too; a warning would be an error, and be seen."""
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "error")
        patch.setattr(logging.root, "handlers", [])  # what is logged is shown, as by the program
        text = text_of(path)

    assert path.read_text(encoding="utf-8") == text, "run docs/generate.py"


def test_generating_changes_nothing() -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check", "docs/states.md", "README.md"],
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"run docs/generate.py:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    "speed", ["in 0.0172 s (2,037 a second)", "in 3.88 s\n(69.7 a second)", "in 12 s (9 a second)"]
)
def test_a_speed_is_not_taken_for_what_a_page_must_say(speed: str) -> None:
    assert SPEED.sub("", f"35 decisions {speed}.") == "35 decisions ."


@pytest.mark.parametrize("path", FEEDS, ids=[path.name for path in FEEDS])
async def test_feed_is_what_it_expects(path: Path) -> None:
    check = Check()
    await check.run(read_feed(path))

    assert check.differences == []
    assert check.expects


@pytest.mark.parametrize("path", FEEDS, ids=[path.name for path in FEEDS])
def test_feed_is_shown_in_a_page(path: Path) -> None:
    pages = (found.read_text(encoding="utf-8") for found in DOCS.rglob("*.md"))

    assert any(f"<!-- docs/feeds/{path.name} -->" in text for text in pages)


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_example_is_shown_with_what_it_prints(path: Path) -> None:
    text = (DOCS / "embedding.md").read_text(encoding="utf-8")

    assert f"<!-- examples/embedding/{path.name} -->" in text
    assert f"\n$ python examples/embedding/{path.name}\n" in text


@pytest.mark.parametrize("name", [name for name in muster.__all__ if name.endswith("Error")])
def test_every_error_is_described(name: str) -> None:
    text = (DOCS / "embedding.md").read_text(encoding="utf-8")

    assert name == "MusterError" or f"\n| `{name}`" in text


@pytest.mark.parametrize("name", sorted({*muster.__all__} - {"__version__"}))
def test_everything_a_program_imports_is_in_the_reference(name: str) -> None:
    text, home = page("python.md"), getattr(muster, name).__module__
    # What is public of the values of the core is imported by shorter names.
    home = home.replace("muster_core.values.", "muster_core.")

    assert re.search(rf":: (muster\.{name}|{home}\.{name}|{home})\b(?!\.)", text)


def test_the_architecture_names_only_what_there_is() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:muster|muster_core|_runtime)(?:\.\w+)+)`", text):
        resolve_name(name if name.startswith("muster") else f"muster.{name}")


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_decision_is_described(kind: Kind) -> None:
    assert f"\n`{kind.value}`\n: " in page("decisions.md")


def test_every_field_of_the_log_is_described() -> None:
    held = Decision(Kind.ASSIGNED, devices={"gpu": (0,)}, start_us=1, priority=1)
    fields = {*Announced(1, 0, held).as_map(), *Decision._fields} - {"start_us", "over_max"}

    assert all(f"\n| `{field}` | " in page("decisions.md") for field in fields)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_described(reason: Reason) -> None:
    assert f"\n| `{reason.value}` | " in page("decisions.md")


@pytest.mark.parametrize("code", Code)
def test_every_code_of_a_pending_ask_is_described(code: Code) -> None:
    text = (DOCS / "reasons.md").read_text(encoding="utf-8")

    assert f"\n| `{code.value}` | " in text


def test_every_property_is_described() -> None:
    assert set(documented_properties()) == set(PROPERTIES)


@pytest.mark.parametrize(("name", "default"), documented_properties().items())
def test_documented_default_of_property_is_the_default(name: str, default: str) -> None:
    known = PROPERTIES[name]
    if known.default is None:  # No text stands for it.
        assert default == known.unset
        return

    if name == "priority.limit":  # Likewise.
        assert default == "none"
        assert resolve({}, None).priority_limit is None
        return

    assert resolve({name: default}, None) == resolve({}, None)


@pytest.mark.parametrize(
    "field",
    sorted(
        {
            *FILE_FIELDS,
            *PARTITION_FIELDS,
            *NODE_SORT_FIELDS,
            *QUEUE_FIELDS,
            *RESOURCES_FIELDS,
            *TEMPLATE_FIELDS,
        }
    ),
)
def test_every_field_of_a_configuration_is_described(field: str) -> None:
    assert f"`{field}`" in page("config.md")


@pytest.mark.parametrize("op", OPS)
def test_every_operation_is_described(op: str) -> None:
    section = page("feeds.md").partition(f"\n### `{op}`\n")[2].partition("\n### ")[0]

    assert section
    assert not OPS[op].fields or f"<!-- fields of {op} -->" in section


@pytest.mark.parametrize("kind", FORMS)
def test_every_kind_of_object_is_described(kind: str) -> None:
    assert f"\n| `{kind}`" in page("feeds.md")


@pytest.mark.parametrize("key", MEMBER_KEYS)
def test_every_annotation_of_a_gang_is_described(key: str) -> None:
    section = page("feeds.md").partition("\n## Annotations of gangs\n")[2]

    assert f"`{key}`" in section


@pytest.mark.parametrize(
    "field", sorted({field.name for field in (*GANG_FIELDS, *QUEUE_EXPECTED, *APP_FIELDS)})
)
def test_every_field_of_what_is_expected_is_described(field: str) -> None:
    section = page("feeds.md").partition("\n### `expect`\n")[2].partition("\n## ")[0]

    assert f"`{field}`" in section


def test_links_between_pages_lead_somewhere() -> None:
    for path in (*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+\.md)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_links_to_rules_name_their_page() -> None:
    """Only the HTML finds a rule of the specification from any page; who reads the files does not."""
    for path in DOCS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        if path.parent != DOCS / "specification":
            assert not re.findall(r"\]\(#[a-z]+-[0-9]+\)", text), path.name
        for page, rule in re.findall(r"\]\(([^)#]+\.md)#([a-z]+-[0-9]+)\)", text):
            target = (path.parent / page).read_text(encoding="utf-8")
            assert f"({rule})=" in target, f"{path.name}: {page}#{rule}"


PLACES = {step.place for step in walk.WALK}


@contextmanager
def entered() -> Generator[list[str]]:
    """Note the functions of the walk that are entered, each at the first time."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            place = f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"
            if place in PLACES and place not in found:
                found.append(place)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


@pytest.mark.skipif(is_compiled(), reason="a profiler does not see compiled functions")
async def test_an_ask_walks_through_the_packages_in_the_order_that_is_drawn() -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})
        await scheduler.add_app("report", "batch")
        with entered() as found, trio.fail_after(120):
            ask = await scheduler.add_ask("report", "part", {"vcore": 1})
            allocation = await ask.bound()

    assert allocation.node == "node-1"
    assert found == [step.place for step in walk.WALK]


def test_the_walk_shows_every_package_that_it_enters() -> None:
    assert {step.package for step in walk.WALK} == set(walk.LANES)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_no_package_imports_one_on_its_floor_or_above(plan: Plan) -> None:
    found = packages.imports(plan)
    floor = packages.floors(found)

    assert [
        f"{package} -> {other}"
        for package, below in found.items()
        for other in below
        if floor[other] >= floor[package]
    ] == []


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_everything_is_within_the_picture(plan: Plan) -> None:
    drawn = packages.picture(plan)
    found = re.search(r'viewBox="0 0 (\d+) ', drawn)
    assert found is not None
    boxes = [float(left) for left in re.findall(r'<rect x="([^"]+)"', drawn)]
    curves = " ".join(re.findall(r'<path d="([^"]+)"/>', drawn))
    across = [float(number) for number in re.findall(r"[MC ](-?[\d.]+) -?[\d.]+", curves)]

    assert len(boxes) == len(packages.imports(plan))
    assert min(*boxes, *across) >= 0
    assert max(*(left + packages.BOX_WIDTH for left in boxes), *across) <= int(found[1])


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_package_says_what_it_is_for(plan: Plan) -> None:
    assert [
        package for package in packages.imports(plan) if not packages.purpose(plan, package)
    ] == []


@pytest.mark.parametrize("package", ["muster", "muster_core"])
def test_no_folder_has_more_modules_than_a_reader_takes_in(package: str) -> None:
    counted: dict[str, int] = {}
    for path in packages.modules(package).values():
        if path.name != "__init__.py":
            folder = path.parent.relative_to(packages.PROJECT).as_posix()
            counted[folder] = counted.get(folder, 0) + 1

    assert {folder: many for folder, many in counted.items() if many > 26} == {}


@pytest.mark.parametrize("package", ["muster", "muster_core"])
def test_no_module_has_more_than_700_lines(package: str) -> None:
    lines = {
        path.relative_to(packages.PROJECT).as_posix(): path.read_text().count("\n")
        for path in packages.modules(package).values()
    }

    assert {path: many for path, many in lines.items() if many > 700} == {}


def test_the_house_has_at_most_450_modules() -> None:
    assert len(packages.modules("muster")) + len(packages.modules("muster_core")) <= 450


def test_a_circle_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="packages import one another: a -> b -> a"):
        packages.floors({"a": {"b"}, "b": {"a"}})


def test_arrows_that_a_longer_way_replaces_are_left_out() -> None:
    assert packages.needed({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {
        "a": {"b"},
        "b": {"c"},
        "c": set(),
    }


@pytest.mark.parametrize(
    ("versions", "named", "first"),
    [
        (["1.0.0rc1"], ["1.0.0rc1"], "1.0.0rc1"),
        (["1.9.0", "1.10.0", "2.0.0rc1"], ["2.0.0rc1", "1.10.0", "1.9.0"], "1.10.0"),
    ],
)
def test_the_site_lists_the_versions_that_are_there(
    tmp_path: Path, versions: list[str], named: list[str], first: str
) -> None:
    for name in [*versions, "_static"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    (tmp_path / "3.0.0").mkdir()  # It was not built to its end.
    list_versions(tmp_path)
    listed = (tmp_path / "versions.js").read_text(encoding="utf-8")
    assert re.findall(r'"([^"]+)"', listed) == named
    assert f"url={first}/index.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
