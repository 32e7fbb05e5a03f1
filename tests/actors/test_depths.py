"""Warnings about a ``backfill.depth`` that nothing reads, or that is too small. BACKFILL-31."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from muster.config_files import parse_configuration
from muster.feeds import read_feed
from muster_core.errors import Problem
from muster_core.events import Configure
from tests.actors.cli.helpers import run, written

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


_LIMITED = "limits: [{limit: each user, users: ['*'], maxresources: {vcore: 12}}]"
_ONE_LEAF = "{name: root, properties: {%s}, queues: [{name: a, %s}]}"


# IMPORT-21: A job at its limit takes the only reservation
def test_limits_of_users_in_a_scope_of_one_reservation_are_told() -> None:
    text = queues(_ONE_LEAF % ("scheduling.order: backfill", _LIMITED))
    (problem,) = told(text)
    assert problem.message == (
        "root: only one job at a time has a reservation here, and one at its limit in root.a takes "
        "it, so large jobs behind it wait as if the order were greedy: write backfill.depth beside "
        "it, such as 10"
    )
    assert problem.path == "partitions[0].queues[0].properties.scheduling.order"
    assert problem.line == 1


# IMPORT-21
@pytest.mark.parametrize(
    "root",
    [
        _ONE_LEAF % ("scheduling.order: backfill, backfill.depth: 2", _LIMITED),
        _ONE_LEAF % ("scheduling.order: strict", _LIMITED),
        _ONE_LEAF % ("scheduling.order: greedy", _LIMITED),
        # They wait for applications to end, and are not tried meanwhile.
        _ONE_LEAF
        % (
            "scheduling.order: backfill",
            "limits: [{limit: each, users: ['*'], maxapplications: 2}]",
        ),
        _ONE_LEAF % ("scheduling.order: backfill", "resources: {max: {vcore: 12}}"),
    ],
)
def test_other_scopes_are_not_told(root: str) -> None:
    assert told(queues(root)) == ()


# IMPORT-21
def test_limits_above_a_scope_count_and_those_beside_it_do_not() -> None:
    scope = "properties: {scheduling.order: backfill}"
    inside = "{name: root, %s, queues: [{name: a, %s}, {name: b, %s}]}"
    (problem,) = told(queues(inside % (_LIMITED, scope, "properties: {}")))
    assert problem.message.startswith("root.a: only one job at a time has a reservation here")
    assert " at its limit in root takes it" in problem.message
    assert told(queues(inside % ("properties: {}", scope, _LIMITED))) == ()


# IMPORT-21
def test_validate_compare_and_import_tell_it(tmp_path: Path) -> None:
    scope = _ONE_LEAF % ("scheduling.order: backfill", _LIMITED)
    config = written(tmp_path / "queues.yaml", queues(scope))
    feed = written(tmp_path / "feed.jsonl", '{"op": "add_node", "node": "n", "capacity": {}}\n')
    trace = written(tmp_path / "t.swf", "1 0 5 100 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n")
    warning = "warning: partitions[0].queues[0].properties.scheduling.order: root: only one job"

    assert warning in run("validate", config).output
    assert warning in run("compare", feed, "--config", config).stderr
    words = ("--nodes", "1x vcore=4", "--config", config, "-o", tmp_path / "t.jsonl")
    assert warning in run("import", "swf", trace, *words).stderr
