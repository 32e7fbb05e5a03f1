"""Names on the page."""

from __future__ import annotations

import pytest

from muster.service.page.renderer import ask_name, name_of


# PAGE-71
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("n1", "n1"),
        ("gpu-1", "<bdi>gpu-1</bdi>"),
        ("root.team-a.nightly-jobs", "root.<wbr><bdi>team-a.</bdi><wbr><bdi>nightly-jobs</bdi>"),
        ("default/all", "default/<wbr>all"),
        ("a-part-that-is-too-long-for-it", "a-part-that-is-too-long-for-it"),
        ("a.<b>", "a.<wbr>&lt;b&gt;"),
    ],
)
def test_a_name_is_broken_where_its_parts_end(name: str, written: str) -> None:
    assert name_of(name) == written


# PAGE-71
def test_the_name_of_an_ask_is_that_of_its_application_as_well() -> None:
    assert ask_name("etl", "part-0") == "etl/<wbr><bdi>part-0</bdi>"
