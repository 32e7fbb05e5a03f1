"""What is read without a parser is what a parser reads."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given, strategies as st

from muster.feeds import FeedError
from muster.feeds._raw import LocatedText, Plain, Raw
from muster.feeds._yaml import read_objects
from muster.importing.kubernetes.dumps import parse_item
from tests.actors.importing.kubernetes.samples import KIND
from tests.actors.importing.mutated import mutant

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
        found = [raw for raw, _ in read_objects(io.BytesIO(text.encode()), "x")]
    except FeedError:
        return None
    return found[0].value if len(found) == 1 and found[0].problem is None else None


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
    found = read_here(PLAIN)

    assert found is not None
    assert exact(found) == exact(by_parser(PLAIN))


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
    found: list[str] = []
    for line in dump.decode(errors="replace").split("\n"):
        if line.startswith("- "):
            found.append(f"{line}\n")
        elif found and line.startswith(" "):
            found[-1] += f"{line}\n"
    return found


@given(st.integers(0, 10**9))
def test_a_mutated_item_is_read_as_a_parser_reads_it(seed: int) -> None:
    dump = mutant(KIND, KIND.samples["yaml"], random.Random(seed))
    for text in items(dump)[:20]:
        found = read_here(text)
        assert found is None or exact(found) == exact(by_parser(text)), text
