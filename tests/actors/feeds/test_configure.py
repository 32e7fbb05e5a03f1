from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from muster.feeds import Encoding, Refused, convert, read_feed
from muster_core.config.model import Configuration, SortPolicy
from muster_core.events import Configure
from tests.actors.feeds.helpers import content, items, refusal

QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: off
            maxapplications: 010
            properties: {application.sort.policy: FAIR, note: ~}
            resources: {max: {vcore: 1, memory: 8Gi}}
  - name: other
    queues: [{name: root}]
"""


def inline(text: str = QUEUES) -> str:
    return "- op: configure\n  config:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def configuration(text: str) -> Configuration:
    [item] = items(text, Encoding.YAML)
    assert isinstance(item.content, Configure), item.content
    return item.content.config


def test_inline() -> None:
    [off] = configuration(inline()).root.children

    assert off.name == "off"
    assert off.max_applications == 10
    assert off.settings.sort_policy is SortPolicy.FAIR
    assert off.max.amounts == (("memory", 2**33), ("vcore", 1000))
    assert ("note", "~") in off.own_properties


def test_a_partition_may_be_chosen() -> None:
    assert configuration(inline() + "  partition: other\n").partition == "other"


def test_a_file_relative_to_the_feed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/queues.yaml").write_text(QUEUES)
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: configure, file: sub/queues.yaml}\n")
    [item] = read_feed(feed)

    assert item.content == Configure(configuration(inline()), "file")


def test_a_file_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)
    monkeypatch.chdir(tmp_path)

    assert isinstance(content("{op: configure, file: queues.yaml}"), Configure)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{op: configure}", "config: is missing, or file"),
        ("{op: configure, config: , file: }", "config: is missing, or file"),
        ("{op: configure, config: {}, file: a}", "config: leave it out, or the file 'a'"),
        ("{op: configure, config: [a]}", "config: a list is not a map"),
        ("{op: configure, file: [a]}", "file: a list is not a text"),
        ("{op: configure, file: missing.yaml}", "file: 'missing.yaml' cannot be read: No such"),
        ("{op: configure, file: .}", "file: '.' cannot be read: Is a directory"),
        ('{op: configure, file: "a\\0b"}', r"file: 'a\x00b' cannot be read: embedded null"),
        ("{op: configure, config: {partitionen: 1}}", "config.partitionen: "),
    ],
)
def test_what_is_refused(event: str, message: str) -> None:
    assert refusal(event).startswith(message)


def test_a_refused_configuration_names_path_and_line() -> None:
    message = refusal(inline(QUEUES.replace("vcore: 1", "vcore: -1")))

    assert message.startswith("config.partitions[0].queues[0].queues[0].resources.max.vcore: '-1'")
    assert message.endswith("(line 11)")


def test_a_refused_file_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES.replace("vcore: 1", "vcore: -1"))
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: configure, file: queues.yaml}\n")
    [item] = read_feed(feed)

    assert isinstance(item.content, Refused)
    assert item.content.message.startswith("file: queues.yaml:9: partitions[0].queues")


def test_json_brings_numbers_and_booleans() -> None:
    config = {
        "partitions": [
            {
                "name": "default",
                "preemption": {"enabled": False},
                "queues": [{"name": "a", "maxapplications": 10, "properties": None}],
            }
        ]
    }
    [item] = items(json.dumps({"op": "configure", "config": config}), Encoding.JSON_LINES)

    assert isinstance(item.content, Configure)
    assert not item.content.config.preemption_enabled


def test_deep_queues_do_not_overflow() -> None:
    queue: dict[str, object] = {"name": "leaf"}
    for _ in range(94):
        queue = {"name": "a", "queues": [queue]}
    event = {"op": "configure", "config": {"partitions": [{"name": "default", "queues": [queue]}]}}
    [item] = items(json.dumps(event), Encoding.JSON_LINES)

    assert isinstance(item.content, Configure)


@pytest.mark.parametrize("encoding", [Encoding.JSON_LINES, Encoding.MSGPACK, Encoding.YAML])
def test_a_converted_configuration_is_the_same(encoding: Encoding) -> None:
    text = inline() + inline(
        "partitions: [{name: default, queues: , preemption: {enabled: yes}}]\n"
    )
    out = io.BytesIO()
    convert(io.BytesIO(text.encode()), out, target_encoding=encoding)

    assert [item.content for item in read_feed(out_again(out), encoding=encoding)] == [
        item.content for item in items(text)
    ]


def out_again(out: io.BytesIO) -> io.BytesIO:
    return io.BytesIO(out.getvalue())
