"""Names, and reasons why asks are not running, as the page words them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from muster.service.page.renderer import ask_name, name_of
from tests.actors.serving.served import ServiceThread
from tests.actors.serving.test_page_asks import page_text


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


CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: dev, properties: {bind.retry.delay: 2h}}
"""
ASK: Final = {"op": "add_ask", "app": "test", "resources": {"vcore": 1}}
REQUESTS: Final[list[list[dict[str, object]]]] = [
    [
        {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}},
        {"op": "add_app", "app": "test", "queue": "root.dev"},
        {**ASK, "ask": "flaky"},
    ],
    [{"op": "bind_failed", "app": "test", "ask": "flaky"}],
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    path = tmp_path_factory.mktemp("reasons") / "queues.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    with ServiceThread(config=path) as running:
        for events in REQUESTS:
            running.post(*events)
        yield running


# PAGE-42
@pytest.mark.parametrize("path", ["/asks/test/flaky", "/asks", "/apps/test"])
def test_until_when_an_ask_backs_off_is_a_date(service: ServiceThread, path: str) -> None:
    item = service.get("/api/v1/asks/test/flaky")
    origin = datetime.fromisoformat(item["time"]) - timedelta(seconds=item["at"])
    until = origin + timedelta(seconds=item["item"]["backs_off_until"])
    date = f"{until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

    text = page_text(service.client, path)
    assert f"not tried before {date}, " in text
    assert " h 59 min from now" in text or "2 h from now" in text
    if path == "/asks/test/flaky":
        assert f"until {date}" in text
