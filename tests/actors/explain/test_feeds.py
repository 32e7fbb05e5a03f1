"""What is said to help does, on the feeds of the documentation and of the reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.explain import explain
from muster.explain._answer import replay_until
from muster.feeds import Expect
from tests.actors.explain.helpers import helps, read

PROJECT = Path(__file__).parents[3]
FEEDS = sorted(
    [
        *(PROJECT / "tests" / "feeds" / "reasons").glob("*.yaml"),
        *(PROJECT / "docs" / "feeds").iterdir(),
    ]
)
NOT_FEEDS = {"queues.yaml"}


def is_long(path: Path) -> bool:
    """Whether it is like others here: pages show what is said of it, or much of it is pending."""
    return path.parent.name == "feeds" or path.name == "gang_cycle_invalid.yaml"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.takes_long) if is_long(path) else path
        for path in FEEDS
        if path.name not in NOT_FEEDS
    ],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_remedy_of_all_asks_that_do_not_run(path: Path) -> None:
    items = read(path)
    instants = {item.at_us for item in items if isinstance(item.content, Expect)}
    for at_us in sorted(instants):
        for app, ask in replay_until(items, at_us).scheduler.pending():
            answer = explain(items, app, ask, at_us=at_us)

            assert answer.explanation is not None
            for remedy in answer.remedies:
                assert helps(items, answer, remedy), f"{app}/{ask} at {at_us}: {remedy.text}"
