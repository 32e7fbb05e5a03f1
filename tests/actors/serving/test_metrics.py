"""``/metrics`` as Prometheus' own parsers read it, and the lines of the log."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from prometheus_client import Metric as Family
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain
from trio.testing import MockClock
from typing_extensions import override

from docs.rules import PROJECT
from muster.service.logs import JsonLines, LogWriter, TextLines
from muster.service.metrics.collectors import EVERY_S, ReasonCensus
from muster.service.metrics.scrape import METRICS
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.structures.steps import Steps, all_at_once
from tests.actors.serving.served import CONFIG, Served, until

T = TypeVar("T")

_NUMBERS = count()
_OPEN = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with Served(folder, "--state", str(folder / "state")) as running:
        submit(
            running,
            {"op": "add_node", "node": "n", "capacity": {"vcore": 5, "memory": "1Gi"}},
            {"op": "add_app", "app": "a", "queue": "root.prod"},
            {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}, "count": 12},
        )
        submit(running, {"op": "release", "app": "a", "ask": "k-0"})
        yield running


def read_openmetrics(text: str) -> list[Family]:
    # The parser of OpenMetrics has no types.
    untyped: Any = openmetrics
    read: Callable[[str], Iterator[Family]] = untyped.text_string_to_metric_families
    return list(read(text))


def submit(served: Served, *events: dict[str, object]) -> None:
    answer = served.client.post("/api/v1/events", json=events)
    assert answer.status_code == 200, answer.text
    assert all(one["ok"] for one in answer.json()), answer.text


def text_of(served: Served, accept: str = "text/plain") -> str:
    answer = served.client.get("/metrics", headers={"accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(accept.partition(";")[0])
    return answer.text


def values(served: Served) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return all samples, by name and the values of their labels, by the names of these."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in read_plain(text_of(served))
        for sample in family.samples
    }


# STREAM-10


@pytest.mark.parametrize("accept", ["text/plain", _OPEN, "*/*"])
def test_it_keeps_the_rules_of_the_format(served: Served, accept: str) -> None:
    text = text_of(served, accept) if accept != "*/*" else served.client.get("/metrics").text
    is_open = accept == _OPEN
    families: list[Family] = list(read_openmetrics(text) if is_open else read_plain(text))

    names = Counter(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE"))
    helps = Counter(line.split()[2] for line in text.splitlines() if line.startswith("# HELP"))
    assert {*names.values()} == {1}
    assert names == helps
    assert text.endswith("# EOF\n") == is_open
    samples = Counter(
        (sample.name, *sorted(sample.labels.items()))
        for family in families
        for sample in family.samples
    )
    assert {*samples.values()} == {1}
    for family in families:
        assert family.documentation, family.name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
        assert not re.search(r"_(gauge|counter|histogram|milliseconds|kilobytes)\b", family.name)


def test_every_metric_of_the_table_is_there(served: Served) -> None:
    served.client.get("/api/v1/decisions")
    found = {family.name: family for family in read_openmetrics(text_of(served, _OPEN))}

    for metric in METRICS:
        family = found[metric.name.removesuffix("_total")]
        assert family.type == metric.kind
        assert family.documentation == metric.about
        assert family.unit == metric.unit
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        assert labels <= {*metric.labels.split()}
        if not family.samples:
            assert metric.name.startswith(
                (
                    "muster_asks_not_running",
                    "muster_kubernetes_",
                    "muster_queue_priority",
                    "muster_ray_",
                    "muster_replica_",
                    "muster_slurm_",
                )
            )
    ours = {metric.name.removesuffix("_total") for metric in METRICS}
    theirs = {name for name in found if not name.startswith(("process_", "python_"))}
    assert theirs == ours


def test_names_follow_the_conventions() -> None:
    for metric in METRICS:
        assert metric.name.startswith("muster_")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind != "histogram" or metric.unit
        assert not {*metric.labels} & {"app", "ask", "node", "group", "gang", "le"}
    names = [metric.name for metric in METRICS]
    assert len({*names}) == len(names)


def test_it_says_what_the_state_is(served: Served) -> None:
    found = values(served)

    assert found["muster_queue_allocated", ("root.prod", "vcore")] == 5000
    assert found["muster_queue_pending", ("root.prod", "vcore")] == 6000
    assert found["muster_queue_guaranteed", ("root.prod", "vcore")] == 4000
    assert found["muster_queue_max", ("root.prod", "vcore")] == 8000
    assert found["muster_queue_priority", ("root.prod",)] == 0
    assert found["muster_queues_summed", ()] == 0
    assert found["muster_asks", ("bound",)] == 5
    assert found["muster_asks", ("pending",)] == 6
    assert found["muster_applications", ("Running",)] == 1
    assert found["muster_nodes", ()] == 1
    assert found["muster_nodes_capacity", ("vcore",)] == 5000
    assert found["muster_state_age_seconds", ()] >= 0


def test_it_counts_what_happens(served: Served) -> None:
    before = values(served)
    name = f"b-{next(_NUMBERS)}"
    submit(
        served,
        {"op": "add_node", "node": name, "capacity": {"vcore": 3}, "attributes": {"of": name}},
        {"op": "add_app", "app": name, "queue": "root.dev"},
        {
            "op": "add_ask",
            "app": name,
            "ask": "k",
            "resources": {"vcore": 1},
            "count": 3,
            "selector": {"of": name},
        },
    )
    submit(served, {"op": "release", "app": name, "ask": "k-1"})
    after = values(served)

    def more(metric: str, *labels: str) -> float:
        return after[metric, labels] - before.get((metric, labels), 0)

    # An ask of another application takes the place that was given back.
    assert more("muster_decisions_total", "bound") == 4
    assert more("muster_asks_released_total", "completed") == 1
    assert more("muster_ask_wait_seconds_count") == 4
    assert more("muster_batches_total") == 2
    assert more("muster_events_total") == 4
    assert more("muster_batch_decide_seconds_count") == 2
    assert more("muster_batch_commit_seconds_count") == 2
    assert more("muster_http_requests_total", "POST", "/api/v1/events", "200") == 2
    assert more("muster_http_request_seconds_count", "POST", "/api/v1/events") == 2
    assert after["muster_store_size_bytes", ()] > 0
    assert after["muster_connections", ()] >= 1
    assert after["process_resident_memory_bytes", ()] > 1e6


def test_decisions_are_counted_from_the_start_of_the_process(tmp_path: Path) -> None:
    def counted(served: Served) -> float:
        return sum(n for (name, _), n in values(served).items() if name == "muster_decisions_total")

    state = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *state) as served:
        submit(served, {"op": "add_app", "app": "a", "queue": "root.prod"})
        made = len(served.client.get("/api/v1/decisions").text.splitlines())
        assert counted(served) == made > 1
    with Served(tmp_path, *state, config=CONFIG.replace("dev", "other")) as served:
        more = len(served.client.get("/api/v1/decisions").text.splitlines()) - made
        assert counted(served) == more > 0


def test_paths_and_methods_that_are_unknown_have_one_name(served: Served) -> None:
    for at in range(20):
        assert served.client.request(f"M{at}", f"/nowhere/{at}").status_code == 404
    found = values(served)

    assert found["muster_http_requests_total", ("other", "other", "404")] == 20
    routes = {labels[1] for name, labels in found if name == "muster_http_requests_total"}
    assert routes <= {"other", "/metrics", "/api/v1/events", "/api/v1/decisions"}


def test_the_page_about_metrics_has_each_of_them() -> None:
    page = (PROJECT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [one.name for one in METRICS]


# STREAM-11


def test_the_reasons_are_those_of_now(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        text_of(served)  # Counted without an ask.
        submit(
            served,
            {"op": "add_app", "app": "a", "queue": "root.prod"},
            {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}, "count": 3},
        )
        until(lambda: values(served)["muster_asks_not_running", ("NeverFits",)] == 3)


async def test_who_misses_a_count_does_not_wait_for_the_next(autojump_clock: MockClock) -> None:
    scheduler = PlainScheduler()
    counted = 0

    async def inspect(read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        nonlocal counted
        counted += 1
        await trio.lowlevel.checkpoint()
        return all_at_once(read(scheduler.machine))

    census = ReasonCensus(inspect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(census.run)
        await census.want(1.0, EVERY_S)
        await trio.sleep(EVERY_S / 2)
        before = counted
        began = trio.current_time()
        await census.want(1.0, EVERY_S)
        nursery.cancel_scope.cancel()

    assert census.latest is not None
    assert census.latest.began >= began - 1.0
    assert counted > before
    assert trio.current_time() - began < 0.1 * EVERY_S


def test_many_queues_have_a_bound(tmp_path: Path) -> None:
    names = "".join(f"          - {{name: q{at}}}\n" for at in range(1_100))
    config = CONFIG.replace("          - {name: dev}\n", names)
    with Served(tmp_path, config=config) as served:
        submit(
            served,
            {"op": "add_node", "node": "n", "capacity": {"vcore": 5}},
            {"op": "add_app", "app": "a", "queue": "root.q1099"},
            {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}, "count": 12},
        )
        found = values(served)

        assert found["muster_queues_summed", ()] == 102
        assert found["muster_queue_allocated", ("other", "vcore")] == 5000
        assert found["muster_queue_pending", ("other", "vcore")] == 7000
        queues = {labels[0] for name, labels in found if name == "muster_queue_priority"}
        assert queues == {"root"}


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("muster.x", logging.WARNING, "", 0, message, arguments, None)
    made.created, made.msecs = 0.25, 250.0
    if fields:
        made.fields = fields
    return made


# ACCESS-20: control characters do no harm


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\ud800b", "a\x00b"])
def test_control_characters_are_escaped(text: str) -> None:
    line = TextLines().format(record("%s", text))
    assert line.isprintable()
    assert line.startswith("1970-01-01T00:00:00.250Z warning a\\")
    assert json.loads(JsonLines().format(record("%s", text)))["message"] == text
    assert "\n" not in JsonLines().format(record("%s", text))


def test_a_trace_is_indented() -> None:
    made = record("a bug")
    try:
        raise ValueError("line\n2026-01-01 forged")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    lines = TextLines().format(made).split("\n")
    assert lines[0].endswith("warning a bug")
    assert all(line.startswith("    ") for line in lines[1:])
    assert "forged" in json.loads(JsonLines().format(made))["trace"]


def test_fields_are_for_programs() -> None:
    made = record("it was read again", what="change")
    assert TextLines().format(made).endswith("warning it was read again")
    assert json.loads(JsonLines().format(made)) == {
        "at": "1970-01-01T00:00:00.250Z",
        "level": "warning",
        "what": "change",
        "message": "it was read again",
    }


class BlockedStream(io.StringIO):
    """Takes nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.began = threading.Event()

    @override
    def write(self, text: str) -> int:
        self.began.set()
        assert self.may.wait(60)
        return super().write(text)


def test_nobody_waits_for_a_reader_of_the_log() -> None:
    """What finds no room is lost, and counted."""
    stream = BlockedStream()
    log = logging.getLogger("muster.test")
    with LogWriter("text", stream):
        log.info("first")
        assert stream.began.wait(60)
        for _ in range(10_005):
            log.info("more")
        stream.may.set()

    lines = stream.getvalue().splitlines()
    assert len(lines) == 10_002
    assert lines[-1].endswith("5 lines of the log are lost, as nobody took them")


def test_warnings_of_others_are_in_the_log() -> None:
    stream = io.StringIO()
    with LogWriter("json", stream):
        logging.getLogger("muster.store").warning("the clock was set back")
        logging.getLogger("trio.serve_listeners").error("no file left")
    logging.getLogger("muster.store").warning("nobody hears this")
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages == ["the clock was set back", "no file left"]
