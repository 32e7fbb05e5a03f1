"""Names and paths of queues."""

from __future__ import annotations

import pytest

from muster_core.config.queues import canonical_path, check_queue_name


@pytest.mark.parametrize("name", ["a", "A-Z_0:#/@", "x" * 64, "-", "1"])
def test_legal_names_are_lowered(name: str) -> None:
    assert check_queue_name(name) == name.lower()


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65, "ä", "a\n", "\N{KELVIN SIGN}", "*"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a queue"):
        check_queue_name(name)


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("root", "root"),
        ("ROOT.A", "root.a"),
        ("a.b", "root.a.b"),
        ("roots", "root.roots"),
        ("root.root", "root.root"),
    ],
)
def test_paths_start_at_the_root(path: str, canonical: str) -> None:
    assert canonical_path(path) == canonical


@pytest.mark.parametrize("path", ["", ".", "root.", "root..a", ".a", "a b.c", "a.\N{KELVIN SIGN}"])
def test_illegal_paths(path: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a queue"):
        canonical_path(path)


def test_a_path_has_no_more_than_100_names() -> None:
    assert canonical_path(".".join("a" * 100)).count(".") == 100
    with pytest.raises(ValueError, match="has 101 levels; at most 100 are possible"):
        canonical_path(".".join("a" * 101))
