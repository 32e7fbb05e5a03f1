"""Dumps in every form that kubectl and pipes give them."""

from __future__ import annotations

import gzip
import io

import pytest

from muster.feeds import FeedError
from muster.feeds._files import Input
from muster.importing.kubernetes.dumps import DumpedObject, objects_of
from tests.actors.importing.kubernetes.samples import as_json, as_yaml, node, pod

BOTH = (pod("a"), node("n1"))
INDENTED = """\
kind: List
items:
  - kind: Pod
    metadata:
      name: a
  - kind: Node
"""


def found(text: str | bytes) -> list[DumpedObject]:
    data = text.encode() if isinstance(text, str) else text
    return list(objects_of(Input(io.BytesIO(data))))


def kinds(text: str | bytes) -> list[str]:
    return [one.kind for one in found(text)]


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
        assert [one.place for one in found(text)] == lines


def test_an_item_that_needs_a_parser_has_its_line() -> None:
    text = "apiVersion: v1\nitems:\n- kind: Pod\n- kind: Node\n  a: *none\nkind: List\n"

    first, second = found(text)
    assert (first.place, first.problem) == ("feed:3", None)
    assert (second.place, second.problem) == (
        "feed:4",
        "line 5: the alias *none names no complete node",
    )


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_what_is_no_dump_is_refused(text: str, said: str) -> None:
    with pytest.raises(FeedError) as caught:
        found(text)
    assert str(caught.value).startswith(said)


def test_what_is_no_map_among_objects_is_a_problem() -> None:
    assert [(one.kind, one.problem) for one in found("- kind: Pod\n- 5\n")] == [
        ("Pod", None),
        ("", "is not a map"),
    ]
