"""The trace of the example can be explained, in the middle of a jam."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.explain import RemedyKind, explain, explain_all
from muster.feeds import FeedItem
from muster_core.reasons import Code
from tests.actors.cli.helpers import run
from tests.actors.explain.helpers import helps, read

PHILLY = Path(__file__).parents[3] / "examples" / "philly"
AT_US = 6_000_000 * 1_000_000


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[FeedItem]:
    feed = tmp_path_factory.mktemp("philly") / "feed.jsonl"
    result = run(
        *("import", "csv", PHILLY / "jobs-0e4a51.csv", "--mapping", PHILLY / "philly.yaml"),
        *("--nodes", "32x nvidia.com/gpu=8", "--config", PHILLY / "fifo.yaml", "-o", feed),
    )
    assert result.exit_code == 0, result.output
    return read(feed)


def test_all_jobs_that_wait(items: list[FeedItem]) -> None:
    groups = explain_all(items, at_us=AT_US).groups

    assert [(group.code, group.count) for group in groups] == [
        (Code.BLOCKED, 4),
        (Code.FRAGMENTED, 1),
    ]


# OUTLOOK-33
@pytest.mark.parametrize(
    ("job", "count", "text"),
    [
        ("54535", 1, "another node like node-00, with 8 nvidia.com/gpu"),
        pytest.param(
            *("54538", 2, "2 more nodes like node-00, each with 8 nvidia.com/gpu"),
            marks=pytest.mark.takes_long,
        ),
    ],
)
def test_another_node_for_a_job(items: list[FeedItem], job: str, count: int, text: str) -> None:
    answer = explain(items, job, "task", at_us=AT_US)
    node = next(one for one in answer.remedies if one.kind is RemedyKind.NODE)

    assert (node.text, node.smallest) == (text, {"nodes": count})
    assert not node.is_applicable
    assert helps(items, answer, node)
    assert answer.trials < 100
