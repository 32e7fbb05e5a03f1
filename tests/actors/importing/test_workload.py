"""Jobs go into a workload in any order, and a feed comes out in the order in which they came."""

from __future__ import annotations

import io
import json
from typing import Any

from hypothesis import given, strategies as st

from muster.importing import Workload
from muster.importing.dumps import Spool
from muster.importing.workload import AskGroup, Job, configuration_of, parents_with_jobs

SECOND = 1_000_000


def job(at_s: int, app: str, run_s: int | None = 10, *, count: int = 1, gang: bool = False) -> Job:
    run_us = None if run_s is None else run_s * SECOND
    part = AskGroup("task", {"vcore": 1}, count=count, run_us=run_us)
    return Job(at_s * SECOND, app, "root.a", [part], is_gang=gang)


def feed_of(*jobs: Job, dated: bool = False) -> list[dict[str, Any]]:
    target = io.BytesIO()
    with Workload() as workload:
        workload.is_dated = dated
        for one in jobs:
            workload.submit(one)
        workload.write(target, {"config": configuration_of(workload.queues)})
    return [json.loads(line) for line in target.getvalue().decode().splitlines()]


def test_jobs_come_in_the_order_of_their_instants() -> None:
    events = feed_of(job(7, "late"), job(5, "early"), job(7, "later"))

    assert [event["app"] for event in events if event["op"] == "add_app"] == [
        "early",
        "late",
        "later",
    ]
    assert [event.get("at") for event in events] == [5, None, None, 7, None, None, None]


def test_instants_are_dates_where_the_dump_has_dates() -> None:
    at_s = 1_767_225_600
    events = feed_of(job(at_s, "a"), Job(at_s * SECOND + 500_000, "b", "root.a", []), dated=True)

    assert [event["at"] for event in events if "at" in event] == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.5Z",
    ]


def test_jobs_of_one_application_share_it() -> None:
    events = feed_of(job(0, "a"), job(5, "a"))

    assert [event["op"] for event in events] == ["configure", "add_app", "add_ask", "add_ask"]


# APP-10: an application without asks is completed after 30 seconds, and then takes no more.
def test_an_application_that_may_be_completed_goes_on_as_another_one() -> None:
    events = feed_of(job(0, "a", 10), job(39, "a", 10), job(79, "a", 10), job(1000, "b", None))

    assert [(event["op"], event["app"]) for event in events if "app" in event] == [
        ("add_app", "a"),
        ("add_ask", "a"),
        ("add_ask", "a"),
        ("add_app", "a.2"),
        ("add_ask", "a.2"),
        ("add_app", "b"),
        ("add_ask", "b"),
    ]


def test_an_application_that_never_ends_takes_more() -> None:
    events = feed_of(job(0, "a", None), job(10_000, "a"))

    assert sum(event["op"] == "add_app" for event in events) == 1


def test_each_gang_has_a_name_of_its_own() -> None:
    events = feed_of(
        job(0, "a_1", count=2, gang=True),
        job(1, "a_1", count=3, gang=True),
        job(2, "a-1", count=2, gang=True),
    )

    names = [event["gang"] for event in events if event["op"] == "add_gang"]
    assert len(set(names)) == 3
    assert [event["gang"] for event in events if event["op"] == "add_ask"] == names
    assert [event["min_member"] for event in events if event["op"] == "add_gang"] == [2, 3, 2]


def test_a_configuration_has_the_queues() -> None:
    assert configuration_of(["root.a", "root.b.c", "root.b.d"]) == {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "submitacl": "*",
                        "queues": [
                            {"name": "a"},
                            {"name": "b", "queues": [{"name": "c"}, {"name": "d"}]},
                        ],
                    }
                ],
            }
        ]
    }


def test_queues_that_have_jobs_and_queues_below_them() -> None:
    assert parents_with_jobs(["root.a", "root.b", "root.b.c"]) == [("root.b", "root.b.c")]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers()), max_size=60),
    st.integers(min_value=100, max_value=2000),
)
def test_a_spool_sorts_like_sorted(records: list[tuple[int, int]], full_bytes: int) -> None:
    with Spool(full_bytes) as spool:
        for at_us, value in records:
            spool.add(at_us, (str(value),))
        spool.finish()
        found = [(at_us, record) for at_us, record in spool.in_order()]

    assert found == [
        (at_us, (str(value),)) for at_us, value in sorted(records, key=lambda record: record[0])
    ]
    if records:
        instants = [at_us for at_us, _ in records]
        assert (spool.first_us, spool.last_us) == (min(instants), max(instants))
