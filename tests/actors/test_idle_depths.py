"""Warnings about a ``backfill.depth`` that nothing reads. BACKFILL-31."""

from __future__ import annotations

from io import BytesIO

import pytest

from muster.config_files import parse_configuration
from muster.feeds import read_feed
from muster_core.errors import Problem
from muster_core.events import Configure

READ_BELOW = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: gpu
            properties: {scheduling.order: Backfill, backfill.depth: 5}
            queues:
              - name: a
                properties:
                  backfill.depth: 2
          - name: cpu
            properties: {backfill.depth: 3}
"""


def told(text: str) -> tuple[Problem, ...]:
    configuration = parse_configuration(text, file="queues.yaml")
    assert configuration.warnings == ()  # Nothing is announced.
    return configuration.told


def queues(*written: str) -> str:
    return f"partitions: [{{queues: [{', '.join(written)}]}}]"


def test_a_depth_that_is_not_read_is_told_with_its_place() -> None:
    below, beside = told(READ_BELOW)

    assert below == Problem(
        "root.gpu.a: backfill.depth 2 has no effect: write it on root.gpu, whose "
        "scheduling.order rules all queues below it",
        "partitions[0].queues[0].queues[0].queues[0].properties.backfill.depth",
        "queues.yaml",
        11,
    )
    assert (beside.line, beside.message) == (
        13,
        (
            "root.cpu: backfill.depth 3 has no effect: only a queue with scheduling.order: "
            "backfill reads it, and here the order is greedy: write both on one queue"
        ),
    )


@pytest.mark.parametrize(
    ("queue", "messages"),
    [
        ("{name: a, properties: {scheduling.order: backfill, backfill.depth: 5}}", []),
        ("{name: a, properties: {scheduling.order: backfill}}", []),
        (
            "{name: A, properties: {scheduling.order: strict, backfill.depth: 5}}",
            [
                (
                    "root.a: backfill.depth 5 has no effect: the scheduling.order of root.a is "
                    "strict, and only backfill has a depth"
                )
            ],
        ),
        (
            (
                "{name: a, properties: {scheduling.order: strict}, queues: "
                "[{name: b, queues: [{name: c, properties: {backfill.depth: 5}}]}]}"
            ),
            [
                (
                    "root.a.b.c: backfill.depth 5 has no effect: the scheduling.order of root.a is "
                    "strict, and only backfill has a depth"
                )
            ],
        ),
        (
            (
                "{name: a, parent: true, properties: {scheduling.order: backfill}, childtemplate: "
                "{properties: {backfill.depth: 2}}}"
            ),
            [
                (
                    "root.a (childtemplate): backfill.depth 2 has no effect: write it on root.a, "
                    "whose scheduling.order rules all queues below it"
                )
            ],
        ),
        (
            (
                "{name: a, parent: true, childtemplate: {properties: "
                "{scheduling.order: backfill, backfill.depth: 2}}}"
            ),
            [],
        ),
        (
            "{name: a, parent: true, childtemplate: {properties: {backfill.depth: 2}}}",
            [
                (
                    "root.a (childtemplate): backfill.depth 2 has no effect: only a queue with "
                    "scheduling.order: backfill reads it, and here the order is greedy: write both "
                    "on one queue"
                )
            ],
        ),
    ],
)
def test_which_depths_are_not_read(queue: str, messages: list[str]) -> None:
    assert [problem.message for problem in told(queues("{name: z}", queue))] == messages


def test_only_the_partition_that_runs_is_told_of() -> None:
    text = (
        "partitions: [{name: p, queues: [{name: a, properties: {backfill.depth: 5}}]}, "
        "{name: default, queues: [{name: a}]}]"
    )

    assert parse_configuration(text).told == ()
    assert len(parse_configuration(text, partition="p").told) == 1


def test_a_configuration_in_a_feed() -> None:
    queue = "{name: root, properties: {backfill.depth: 2}}"
    feed = f"- op: configure\n  config:\n    partitions:\n    - queues: [{queue}]\n"

    [item] = read_feed(BytesIO(feed.encode()))
    assert isinstance(item.content, Configure)
    [problem] = item.content.config.told
    assert (problem.line, problem.path) == (
        4,
        "config.partitions[0].queues[0].properties.backfill.depth",
    )
    assert problem.message.startswith("root: backfill.depth 2 has no effect: only a queue with")
