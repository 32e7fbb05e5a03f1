"""Lists of nodes."""

from __future__ import annotations

import pytest

from muster.importing.slurm.conf import names_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,07],login", ["n01", "n02", "n03", "n07", "login"]),
        ("r[0-1]n[8-9]x", ["r0n8x", "r0n9x", "r1n8x", "r1n9x"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize(
    "text", ["n[1", "n]", "n[a-b]", "n[]", "n[0-99999999]", "n[0-999]m[0-9999]"]
)
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no list|has more than"):
        names_of(text)
