"""Warnings about what a feed says. CONFIG-86, CONFIG-84, CONFIG-85."""

from __future__ import annotations

from io import BytesIO

from muster.feeds import read_feed
from muster.replay import FeedWarning
from muster.replay._warnings import FeedWarnings


def warnings(feed: str, *, whole: bool = True) -> list[FeedWarning]:
    found: list[FeedWarning] = []
    reading = FeedWarnings(found.append)
    for item in read_feed(BytesIO(feed.encode())):
        reading.saw(item)
    if whole:
        reading.end()
    return found


def places(feed: str) -> list[tuple[int | None, str]]:
    return [(warning.line, warning.path) for warning in warnings(feed)]


CONFIGURED = """\
- op: configure
  config:
    partitions:
      - usergroupresolver: os
        nodesortpolicy: {resourceweights: {disks: 2}}
        queues:
          - name: a
            resources: {max: {gpu: 4, memory: 1Gi}}
"""


def test_warnings_of_a_configuration_have_their_place_in_the_feed() -> None:
    [warning] = warnings(CONFIGURED, whole=False)

    assert (warning.file, warning.index, warning.line) == (None, 0, 4)
    assert warning.path == "config.partitions[0].usergroupresolver"
    assert warning.message == "usergroupresolver: checked for form, but not obeyed"


def test_cpu_is_a_slip_outside_of_objects() -> None:
    object_ = "{kind: Node, metadata: {name: m}, status: {allocatable: {cpu: 1, memory: 1Gi}}}"

    assert places(
        "- {op: add_node, node: n, capacity: {cpu: 1}}\n"
        "- {op: add_node, node: o, capacity: {cpu: 1}}\n"
        f"- {{op: apply, manifest: {object_}}}\n"
        "- {op: add_app, app: a, queue: q}\n"
        "- {op: add_ask, app: a, ask: k, resources: {mem: 1}}\n"
        "- {op: update_node, node: n, capacity: {cores: 1}}\n"
    ) == [(1, "capacity.cpu"), (5, "resources.mem"), (6, "capacity.cores")]


def test_a_type_beside_another_that_differs_little() -> None:
    feed = (
        "- {op: add_node, node: n, capacity: {gpu: 1}}\n"
        "- {op: add_ask, app: a, ask: k, resources: {gpus: 1}}\n"
        "- {op: add_ask, app: a, ask: l, resources: {gpus: 1}}\n"
    )

    [warning] = warnings(feed)
    assert (warning.line, warning.path) == (2, "resources.gpus")
    assert warning.message == "the type 'gpus' differs little from 'gpu', which is used as well"


def test_a_configuration_after_the_nodes() -> None:
    node = "- {op: add_node, node: n, capacity: {gpus: 1, disks: 1}}\n"

    slip, missing = (
        warning for warning in warnings(node + CONFIGURED) if "type" in warning.message
    )
    assert (slip.line, slip.path) == (9, "config.partitions[0].queues[0].resources.max.gpu")
    assert missing.message == (
        "no node and no ask of the feed has the type 'gpu'; did you mean gpus?"
    )


def test_the_objects_of_a_manifest() -> None:
    pod = (
        "{kind: Pod, metadata: {name: p, labels: {applicationId: a}}, spec: "
        "{containers: [{resources: {requests: {gpus: 1}}}]}}"
    )
    feed = (
        "- {op: add_node, node: n, capacity: {gpu: 1}}\n"
        f"- {{op: apply, manifest: {{kind: List, items: [{pod}]}}}}\n"
    )

    assert places(feed) == [(2, "manifest.items[0].spec.gpus")]


def test_types_that_nothing_has_are_known_at_the_end() -> None:
    feed = CONFIGURED + "- {op: add_node, node: n, capacity: {vcore: 1}}\n"

    assert len(warnings(feed, whole=False)) == 1
    assert [(one.line, one.path.rpartition(".")[2]) for one in warnings(feed)[1:]] == [
        (5, "disks"),
        (8, "gpu"),
    ]


def test_a_feed_without_nodes_and_asks_says_nothing_about_types() -> None:
    assert len(warnings(CONFIGURED)) == 1


def test_msgpack_has_no_lines() -> None:
    found: list[FeedWarning] = []
    reading = FeedWarnings(found.append)
    packed = b"\x83\xa2op\xa8add_node\xa4node\xa1n\xa8capacity\x81\xa3cpu\x01"
    for item in read_feed(BytesIO(packed)):
        reading.saw(item)

    assert [(warning.index, warning.line) for warning in found] == [(0, None)]
