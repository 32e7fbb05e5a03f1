"""The comparison notices what is gone, changed or newly needed, and lets additions pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import pytest

from muster.service.endpoints.openapi import document_of
from muster.service.serve import ENDPOINTS
from tests.compatibility import decisions
from tests.compatibility.decisions import first_difference
from tests.compatibility.facts import Facts, differences, read, text_of
from tests.compatibility.outputs import facts_of_runs
from tests.compatibility.promised import QUICK, kept_facts, write
from tests.compatibility.python import add_name
from tests.compatibility.surfaces import add_command, of_openapi
from tests.same.interface import Run

Json = dict[str, Any]


def check(was: dict[str, Facts], now: dict[str, Facts], expected: Sequence[str]) -> None:
    """Check the differences: how each line begins."""
    wrong, _ = differences(was, now)
    assert [line[: len(one)] for line, one in zip(wrong, expected, strict=True)] == [*expected]


def facts_of(source: str) -> dict[str, Facts]:
    """Return the facts about ``it`` in a module."""
    made: Json = {"__name__": "muster.made_up"}
    exec(f"from __future__ import annotations\n{source}", made)
    facts = Facts()
    add_name(facts, "it", made["it"], None)
    return {"m": facts}


FUNCTION: Final = "def it(a: int, b: int = 1, *, c: str = '') -> int: ..."
ERROR: Final = '''
class it(ValueError):
    """An error.

    Attributes:
        said: What it says.
    """
    def method(self, a: int) -> int: ...
    @property
    def data(self) -> int: ...
'''
PROTOCOL: Final = """
from typing import Protocol
class it(Protocol):
    def method(self) -> int: ...
"""
OPTIONS: Final = """
from typing import TypedDict
class it(TypedDict, total=False):
    one: int
    two: str
"""
ENUM: Final = """
from enum import Enum
class it(Enum):
    ONE = "one"
    TWO = "two"
"""


@pytest.mark.parametrize(
    ("source", "old", "new", "expected"),
    [
        (FUNCTION, "*, c", "d: int = 0, *, e: int = 0, c", []),
        (FUNCTION, "a: int", "a: int = 0", []),
        (FUNCTION, ", *, c: str = ''", "", ["m: it(c) is gone"]),
        (FUNCTION, "a: int", "a: str", ["m: it(a) was 0: int, and is 0: str"]),
        (FUNCTION, "b: int = 1", "b: int = 2", ["m: it(b) was 1: int, else 1, and is"]),
        (FUNCTION, "= 1", "", ["m: it(b) was", "m: it needs b, and did not before"]),
        (FUNCTION, "c: str", "d: str, c: str", ["m: it needs d, and did not before"]),
        (FUNCTION, "a: int", "z: int = 0, a: int = 0", ["m: it(a) was 0", "m: it(b) was 1"]),
        (FUNCTION, "b: int = 1, *, c", "*, b: int = 1, c", ["m: it(b) was 1: int"]),
        (FUNCTION, "a: int", "a: int, /", ["m: it(a) was 0: int, and is 0 without name"]),
        (FUNCTION, "-> int", "-> str", ["m: it was def -> int, and is def -> str"]),
        (FUNCTION, "def", "async def", ["m: it was def -> int, and is async def -> int"]),
        (FUNCTION, FUNCTION, "it = 7", ["m: it was def", *(f"m: it({one}) is" for one in "abc")]),
        (ERROR, "said", "heard", ["m: it.said is gone"]),
        (ERROR, "(self, a: int)", "(self, a: int, b: int)", ["m: it.method needs b"]),
        (ERROR, "method", "other", ["m: it.method is gone"]),
        (ERROR, "ValueError", "Exception", ["m: it is a ValueError is gone"]),
        (ERROR, "@property", "", ["m: it.data was int, and is def"]),
        (ERROR, "@property", "def more(self) -> None: ...\n    @property", []),
        (
            PROTOCOL,
            "def",
            "def more(self) -> int: ...\n    def",
            ["m: it needs .more, and did not"],
        ),
        (OPTIONS, "two: str", "two: str\n    three: int", []),
        (OPTIONS, "two", "three", ["m: it[two] is gone"]),
        (ENUM, '"two"', '"two"; THREE = "three"', []),
        (ENUM, "TWO", "THREE", ["m: it.TWO is gone"]),
        (ENUM, '"two"', '"zwei"', ["m: it.TWO was 'two', and is 'zwei'"]),
    ],
)
def test_names(source: str, old: str, new: str, expected: Sequence[str]) -> None:
    assert old in source
    check(facts_of(source), facts_of(source.replace(old, new)), expected)


DOCUMENT: Final = json.loads(json.dumps(document_of(ENDPOINTS, secured=True)))
EVENTS: Final = "/api/v1/events"


def operation(document: Json) -> Json:
    found: Json = document["paths"][EVENTS]["post"]
    return found


def results(document: Json) -> Json:
    """Return the schema of the result of an event, in a dry run."""
    answer = operation(document)["responses"]["200"]["content"]["application/json"]["schema"]
    found: Json = answer["oneOf"][1]["properties"]["results"]["items"]
    return found


def without_path(document: Json) -> None:
    del document["paths"][EVENTS]


def without_method(document: Json) -> None:
    del document["paths"]["/api/v1/config"]["put"]


def without_parameter(document: Json) -> None:
    del operation(document)["parameters"][0]


def needs_parameter(document: Json) -> None:
    operation(document)["parameters"][0]["required"] = True


def more_parameters(document: Json) -> None:
    new = {"name": "new", "in": "query", "required": False, "schema": {"type": "string"}}
    operation(document)["parameters"].append(new)


def other_type_of_parameter(document: Json) -> None:
    operation(document)["parameters"][0]["schema"]["type"] = "integer"


def without_media_type(document: Json) -> None:
    del operation(document)["requestBody"]["content"]["application/msgpack"]


def without_field(document: Json) -> None:
    del results(document)["properties"]["error"]


def other_type_of_field(document: Json) -> None:
    results(document)["properties"]["index"]["type"] = "string"


def null_in_field(document: Json) -> None:
    results(document)["properties"]["index"]["type"] = ["integer", "null"]


def never_null_in_field(document: Json) -> None:
    results(document)["properties"]["error"]["type"] = "string"
    results(document)["properties"]["more"] = {"type": "string"}


def absent_field(document: Json) -> None:
    results(document)["required"].remove("index")


def without_status(document: Json) -> None:
    del operation(document)["responses"]["409"]


def higher_role(document: Json) -> None:
    operation(document)["x-muster-role"] = "admin"


def new_path(document: Json) -> None:
    document["paths"]["/api/v1/new"] = {"post": copy.deepcopy(operation(document))}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without_path, [f"POST {EVENTS} is gone"]),
        (without_method, ["PUT /api/v1/config is gone"]),
        (without_parameter, ["query dry_run is gone"]),
        (needs_parameter, ["it needs query dry_run, and did not before"]),
        (other_type_of_parameter, ["query dry_run (boolean) is gone"]),
        (without_media_type, ["body application/msgpack is gone"]),
        (without_field, ["200 .results[].error is gone"]),
        (other_type_of_field, ["200 .results[].index was integer, and is string"]),
        (null_in_field, ["200 .results[].index was integer, and is integer / null"]),
        (absent_field, ["200 .results[].index was integer, and is absent / integer"]),
        (without_status, ["409 is gone"]),
        (higher_role, ["it was submitter, and is admin"]),
        (more_parameters, []),
        (never_null_in_field, []),
        (new_path, []),
    ],
)
def test_http(change: Callable[[Json], None], expected: Sequence[str]) -> None:
    now = copy.deepcopy(DOCUMENT)
    change(now)

    expected = [one if "/api/" in one else f"POST {EVENTS}: {one}" for one in expected]
    check(of_openapi(DOCUMENT), of_openapi(now), expected)


def command(*options: click.Parameter) -> dict[str, Facts]:
    found = dict[str, Facts]()
    group = click.Group("muster", [click.Command("do", params=[*options])])
    add_command(found, "muster", group)
    return found


FORMAT: Final = click.Option(["--format"], type=click.Choice(["text", "json"]))


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ([FORMAT, click.Option(["--new"])], []),
        ([], ["muster do: --format is gone"]),
        ([click.Option(["--format"], is_flag=True)], ["muster do: --format was one", "", ""]),
        ([click.Option(["--format"], type=click.Choice(["text"]))], ["muster do: --format json"]),
        ([FORMAT, click.Argument(["feed"])], ["muster do: it needs <0>, and did not before"]),
        ([FORMAT, click.Option(["--new"], required=True)], ["muster do: it needs --new"]),
    ],
)
def test_commands(now: Sequence[click.Parameter], expected: Sequence[str]) -> None:
    check(command(FORMAT), command(*now), expected)


def check_facts(
    status: int = 1, out: str = '{"ok": true, "feeds": [{"name": "a"}]}'
) -> dict[str, Facts]:
    return facts_of_runs([Run(["check", "a.yaml", "--format", "json"], status, out, "")])


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (check_facts(2), ["muster check: (a.yaml) exits was 1, and is 2"]),
        (check_facts(out='{"ok": true, "feeds": [{}]}'), ["muster check: .feeds[].name is gone"]),
        (
            check_facts(out='{"ok": 1, "feeds": [{"name": "a"}]}'),
            ["muster check: .ok was boolean, and is"],
        ),
        (check_facts(out='{"ok": true, "more": 1, "feeds": [{"name": "a", "b": 1}]}'), []),
    ],
)
def test_outputs(now: dict[str, Facts], expected: Sequence[str]) -> None:
    check(check_facts(), now, expected)


@pytest.mark.parametrize("name", ["metrics", "formats"])
def test_each_fact_that_goes_or_changes_is_reported(name: str) -> None:
    now = QUICK[name]()
    for section, facts in kept_facts(name).items():
        for key, value in facts.promises.items():
            changed = read(text_of(now))
            changed[section].promises[key] = f"{value} x"
            check(now, changed, [f"{section}: {key} was {value or 'there'}, and is"])
            del changed[section].promises[key]
            assert f"{section}: {key} is gone" in differences(now, changed)[0]


def test_new_facts_are_reported_apart() -> None:
    was = {"a": Facts({"x": "1"}, {("x", "y")})}
    now = {"a": Facts({"x": "1", "z": ""}), "b": Facts({"it": ""})}

    assert differences(was, now) == ([], ["b", "a: z", "a: x needs y, no longer"])


LOG: Final = ["feed 1", "@0", "bound a x on n", "@60", "released a x reason=completed"]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (LOG, None),
        ([*LOG[:4], "released a x reason=failed"], "line 5, at 60 s: was released a x reason=comp"),
        (LOG[:4], "line 5, at 60 s: was released a x reason=completed, and is nothing"),
        ([*LOG, "bound a y on n"], "line 6, at 60 s: was nothing, and is bound a y on n"),
        ([*LOG[:1], "bound b x on n", *LOG[1:]], "line 2: was @0, and is bound b x on n"),
        (["feed 2", *LOG[1:]], "the feed itself was changed"),
    ],
)
def test_logs(now: list[str], expected: str | None) -> None:
    found = first_difference(LOG, now)

    assert (found is None) == (expected is None)
    assert (found or "").startswith(expected or "")


def test_what_a_log_says_of_decisions() -> None:
    log = [
        {
            "seq": 1,
            "at": 0,
            "kind": "bound",
            "app": "a",
            "ask": "x y",
            "node": "n",
            "message": "no",
        },
        {"seq": 2, "at": 0, "kind": "reserved", "start": None, "queue": "null"},
        {"seq": 3, "at": 1.5, "kind": "bound", "devices": {"gpu": [0, 1]}},
    ]

    assert [*decisions.lines(log)] == [
        "@0",
        'bound a "x y" on n message=no',
        'reserved start=null in "null"',
        "@1.5",
        'bound devices={"gpu":[0,1]}',
    ]
    with pytest.raises(RuntimeError, match="decision 2 has the number 3"):
        list(decisions.lines([log[0], log[2]]))


def test_what_is_broken_is_written_on_demand_only(tmp_path: Path) -> None:
    file = tmp_path / "promised" / "names.txt"

    assert not write(file.parent, ["gone"], {"names": "now"}, breaks=False)
    assert not file.exists()
    assert write(file.parent, [], {"names": "now"}, breaks=False)
    assert file.read_text(encoding="utf-8") == "now"
    assert write(file.parent, ["gone"], {"names": "other"}, breaks=True)
    assert file.read_text(encoding="utf-8") == "other"
