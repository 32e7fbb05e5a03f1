"""Dumps in every form that kubectl and pipes give them, and the example of a cluster."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from muster.feeds import FeedError, _json
from muster.feeds._files import Input
from muster.feeds._raw import Raw
from muster.feeds._yaml import read_objects
from muster.importing.kubernetes.dumps import DumpedObject, objects_of, parse_item, read_json
from muster_core.config.tree import LocatedText, Plain
from tests.actors.importing.helpers import events_of, imported
from tests.actors.importing.kubernetes.samples import KIND, as_json, as_yaml, node, pod
from tests.actors.importing.mutated import mutant

BOTH = (pod("a"), node("n1"))
INDENTED = """\
kind: List
items:
  - kind: Pod
    metadata:
      name: a
  - kind: Node
"""


def objects_in(text: str | bytes) -> list[DumpedObject]:
    data = text.encode() if isinstance(text, str) else text
    return list(objects_of(Input(io.BytesIO(data))))


def kinds(text: str | bytes) -> list[str]:
    return [one.kind for one in objects_in(text)]


# KUBERNETES-1: Dumps
@pytest.mark.parametrize(
    "dump",
    [
        as_yaml(*BOTH),
        as_json(*BOTH),
        as_json(*BOTH).replace("\n", ""),
        gzip.compress(as_yaml(*BOTH).encode()),
        INDENTED,
        "\ufeff" + as_json(*BOTH),
        as_json(BOTH[0]) + as_json(BOTH[1]),
        as_yaml(BOTH[0]) + "---\n" + as_yaml(BOTH[1]),
        as_yaml(BOTH[0]) + as_yaml(BOTH[1]),
        "kind: Pod\n---\nkind: Node\n",
        as_yaml(BOTH[0]) + "---\nkind: Node\nmetadata: {name: a}\n",
        "[" + as_json(BOTH[0]) + "," + as_json(BOTH[1]) + "]",
        "- kind: Pod\n- kind: Node\n",
    ],
)
def test_a_dump_is_its_objects(dump: str | bytes) -> None:
    assert kinds(dump) == ["Pod", "Node"]


def test_a_list_of_pods_without_kinds() -> None:
    assert kinds('{"kind": "PodList", "items": [{"metadata": {}}]}') == ["Pod"]
    assert kinds("kind: PodList\nitems:\n- metadata: {}\n") == ["Pod"]


def test_an_object_has_its_line() -> None:
    both = as_yaml(*BOTH)
    for text in (both, f"kind: Pod\n---\n{both}---\nkind: Node\n", f"{both}---\n# a\nkind: Pod\n"):
        begins = ("- ", "kind: Pod", "kind: Node")
        lines = [
            f"feed:{at}" for at, line in enumerate(text.split("\n"), 1) if line.startswith(begins)
        ]
        assert [one.place for one in objects_in(text)] == lines


def test_an_item_that_needs_a_parser_has_its_line() -> None:
    text = "apiVersion: v1\nitems:\n- kind: Pod\n- kind: Node\n  a: *none\nkind: List\n"

    first, second = objects_in(text)
    assert (first.place, first.problem) == ("feed:3", None)
    assert (second.place, second.problem) == (
        "feed:4",
        "line 5: the alias *none names no complete node",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nitems:\n- kind: Pod\n  a: [\nkind: List\n", "feed:5: not YAML"),
        ("apiVersion: v1\nitems:\n- kind: Pod\nso: on\n", "feed:4: not YAML: neither an item"),
        ("one two\n", "feed:1: is no Kubernetes object"),
        (
            "NAME   READY\nweb   1/1\n",
            "feed:1: is no Kubernetes object: a map with `kind` and `metadata` should stand here; print",
        ),
        ("17", "feed:1: is no Kubernetes object"),
        ("[3]", "feed:1: is no Kubernetes object"),
    ],
)
def test_what_is_no_dump_is_refused(text: str, message: str) -> None:
    with pytest.raises(FeedError) as caught:
        objects_in(text)
    assert str(caught.value).startswith(message)


def test_what_is_no_map_among_objects_is_a_problem() -> None:
    assert [(one.kind, one.problem) for one in objects_in("- kind: Pod\n- 5\n")] == [
        ("Pod", None),
        ("", "is not a map"),
    ]


PLAIN = """\
- apiVersion: v1
  kind: Pod
  metadata:
    labels:
      app: "yes"
      empty: ''
    name: web-0
  spec:
    containers:
    - args:
      - --port=80
      - 'it''s'
      image: example.org/web:1.2#a
    - name: b
    volumes: []
    securityContext: {}
  status: null
"""


def by_parser(text: str) -> Raw:
    """Return what a parser reads, or None if it reads no single item."""
    try:
        objects_in = [raw for raw, _ in read_objects(io.BytesIO(text.encode()), "x")]
    except FeedError:
        return None
    return objects_in[0].value if len(objects_in) == 1 and objects_in[0].problem is None else None


def exact(value: Raw) -> object:
    """Return a value in which plain and quoted texts differ."""
    match value:
        case dict():
            return {str(key): exact(part) for key, part in value.items()}
        case list():
            return [exact(part) for part in value]
        case Plain():
            return ("plain", str(value))
        case LocatedText():
            return ("quoted", str(value))
        case _:
            return value


def read_here(text: str) -> dict[str, Raw] | None:
    return parse_item(text.removesuffix("\n").split("\n"), 1)


def test_what_kubectl_prints_is_read() -> None:
    objects_in = read_here(PLAIN)

    assert objects_in is not None
    assert exact(objects_in) == exact(by_parser(PLAIN))


@pytest.mark.parametrize(
    "line",
    [
        "  a: [1]",
        "  a: |",
        "  a: 'one",
        "  a: *b",
        "  a: &b c",
        "  a: !c d",
        "  a: b: c",
        "  a: b # c",
        '  a: "\\t"',
        "  a: é",
        '  "a": b',
        "  a:  b",
        "  kind: again",
        "   a: b",
        "    a: b",
        "  - a",
        "  ? a",
        "  # a",
        "",
        "  a b",
        " a: b",
    ],
)
def test_anything_else_is_left_to_the_parser(line: str) -> None:
    assert read_here(f"- kind: Pod\n{line}\n") is None


def items(dump: bytes) -> list[str]:
    """Return the texts of the items of a List."""
    objects_in: list[str] = []
    for line in dump.decode(errors="replace").split("\n"):
        if line.startswith("- "):
            objects_in.append(f"{line}\n")
        elif objects_in and line.startswith(" "):
            objects_in[-1] += f"{line}\n"
    return objects_in


@given(st.integers(0, 10**9))
def test_a_mutated_item_is_read_as_a_parser_reads_it(seed: int) -> None:
    dump = mutant(KIND, KIND.samples["yaml"], random.Random(seed))
    for text in items(dump)[:20]:
        objects_in = read_here(text)
        assert objects_in is None or exact(objects_in) == exact(by_parser(text)), text


LIST = """\
{
    "apiVersion": "v1",
    "items": [
        {"kind": "Pod", "n": 1},
        {"kind": "Node"}
    ],
    "kind": "List"
}
"""


class SlowStream(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._stream = io.BytesIO(data)
        self._size = size

    @override
    def readable(self) -> bool:
        return True

    @override
    def read(self, size: int = -1, /) -> bytes:
        return self._stream.read(self._size)


def objects(text: str, size: int = 1000) -> list[tuple[object, int | None, str]]:
    stream = SlowStream(text.encode(), size)
    return [(raw.value, raw.line, kind) for raw, kind in read_json(stream, "x")]  # type: ignore[arg-type] # it has what is read of it


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_items_come_one_by_one_with_their_lines(size: int) -> None:
    assert objects(LIST, size) == [({"kind": "Pod", "n": 1}, 4, ""), ({"kind": "Node"}, 5, "")]


def test_the_kind_of_a_list_names_its_items() -> None:
    assert objects('{"kind": "PodList", "items": [{"a": 1}]}') == [({"a": 1}, 1, "PodList")]


def test_single_objects_lines_of_objects_and_lists_of_objects_are_read() -> None:
    assert [value for value, _, _ in objects('{"a": 1}\n{"b": 2}\n[{"c": 3}, {"d": 4}]')] == [
        {"a": 1},
        {"b": 2},
        {"c": 3},
        {"d": 4},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"items": [{"a": 1}', "x:1: not JSON: the end instead of ',' or ']'"),
        ('{"items":\n[{"a": 1} {', "x:2: not JSON: '{' instead of ',' or ']'"),
        ('{"items":\n[{"a": 1},\n{a', "x:3: not JSON: Expecting property name"),
        ('{"a": NaN}', "x:1: not JSON: NaN is no number"),
        ('{"a": ' + "9" * 5000 + "}", "x:1: not JSON: Exceeds the limit"),
        ('{"a": ' + "[" * 100_000, "x:1: is nested deeper than 200 levels"),
        ("{1: 2}", "x:1: not JSON: a key of a map has to be a text"),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FeedError) as caught:
        objects(text, 1 << 20)
    assert str(caught.value).startswith(message)


def test_a_value_that_never_ends_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json, "MAX_CHARACTERS", 200_000)
    with pytest.raises(FeedError, match="a value is longer than 200000 characters"):
        objects('{"items": ["' + "a" * 1_000_000, 65_536)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(FeedError, match="not text: byte 0xff: invalid start byte"):
        list(read_json(io.BytesIO(b'{"a": "\xff"}'), "x"))


@pytest.mark.parametrize("text", [b'[{"a": "\\ud800"}, {}]', b'{"a": "\\ud800", "b": 1} {}'])
def test_half_a_surrogate_is_a_problem_of_its_object(text: bytes) -> None:
    objects_in = [raw.problem for raw, _ in read_json(io.BytesIO(text), "x")]

    assert objects_in == ["'\\ud800' is not Unicode text", None]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy"), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(_VALUES), st.integers(1, 9), st.sampled_from([None, 2]))
def test_any_list_is_read_as_by_the_library(
    items: list[object], size: int, indent: int | None
) -> None:
    text = json.dumps({"items": items}, indent=indent)

    assert [value for value, _, _ in objects(text, size)] == items


EXAMPLE = Path(__file__).parents[4] / "examples" / "kubernetes"


def test_the_example_is_what_its_program_makes() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "make.py"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == (EXAMPLE / "cluster.yaml").read_text(encoding="utf-8")


def test_every_pod_of_the_example_is_accounted_for(tmp_path: Path) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_bytes((EXAMPLE / "cluster.yaml").read_bytes())
    events, summary = imported("kubernetes", dump)

    left_out = {one["cause"]: one["count"] for one in summary["left_out"] if one["what"] == "pod"}
    assert summary["read"]["pod"] == len(events_of(events, "add_ask")) + sum(left_out.values())
    assert sorted(gang["min_member"] for gang in events_of(events, "add_gang")) == [
        3,
        3,
        3,
        4,
        4,
        4,
    ]
