"""When pods came, and how long they ran."""

from __future__ import annotations

import pytest

from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import DAY, Object, node, pod

ENDS = "it had not ended: it holds its room to the end"


def with_status(status: Object) -> Object:
    made = pod("a")
    made["status"] = status
    return made


# KUBERNETES-5: Instants
def test_a_pod_comes_when_it_was_created_and_runs_from_its_bind_to_its_end() -> None:
    feed = fed(pod("a", created="00:00", bound="05:00", ended="06:30"), node())

    assert feed.events[0]["at"] == f"{DAY}00:00Z"
    assert feed.ask["run_for"] == 90


@pytest.mark.parametrize(
    ("status", "run_for"),
    [
        ({"startTime": f"{DAY}00:20Z"}, 40),
        ({}, 30),
        ({"conditions": [{"type": "PodScheduled", "status": "False"}]}, 30),
    ],
)
def test_where_the_bind_is_not_known_the_start_counts(status: Object, run_for: int) -> None:
    times = {"startedAt": f"{DAY}00:30Z", "finishedAt": f"{DAY}01:00Z"}
    ended = {"phase": "Failed", "containerStatuses": [{"state": {"terminated": times}}]}

    assert fed(with_status(ended | status), node()).ask["run_for"] == run_for


def test_the_last_container_ends_a_pod() -> None:
    states = [
        {"state": {"terminated": {"finishedAt": f"{DAY}0{minute}:00Z"}}} for minute in (3, 7, 5)
    ]
    status = {"phase": "Succeeded", "startTime": f"{DAY}01:00Z", "containerStatuses": states}

    assert fed(with_status(status), node()).ask["run_for"] == 360


def test_an_evicted_pod_ends_when_its_conditions_change_last() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{DAY}01:00Z"},
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": f"{DAY}02:00Z"},
    ]
    assert (
        fed(with_status({"phase": "Failed", "conditions": conditions}), node()).ask["run_for"] == 60
    )


# KUBERNETES-6: Pods that have not ended
def test_a_pod_that_runs_holds_its_room_to_the_end() -> None:
    feed = fed(pod("a", ended=None), node())

    assert "run_for" not in feed.ask
    assert feed.changes == [f"1 pod: {ENDS}"]


def test_a_pod_that_waits_is_asked_for() -> None:
    feed = fed(pod("a", bound=None), node())

    assert "run_for" not in feed.ask
    assert feed.changes == [
        "1 pod: it was not bound yet: once it is bound it holds its room to the end"
    ]


def test_a_pod_that_is_being_deleted_ends_then() -> None:
    assert fed(pod("a", ended=None, deletionTimestamp=f"{DAY}00:50Z"), node()).ask["run_for"] == 40


# KUBERNETES-7: Pods that are left out
@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (with_status({"phase": "Failed"}), "it ended before it was bound to a node"),
        (
            with_status({"phase": "Succeeded", "startTime": f"{DAY}00:10Z"}),
            "it is not known when it ended",
        ),
        (
            pod("a", bound=None, deletionTimestamp=f"{DAY}00:10Z"),
            "it was deleted before it was bound to a node",
        ),
        (
            pod("a", bound=None, spec={"schedulingGates": [{"name": "x/y"}]}),
            "it waits at a scheduling gate",
        ),
        (
            pod("a", annotations={"yunikorn.apache.org/placeholder": "true"}),
            "a placeholder of YuniKorn, which stands for the pods of a gang",
        ),
        (
            with_status({"phase": "Running"}),
            "a field has another form than Kubernetes gives it",
        ),
        (
            pod("a", creationTimestamp="yesterday"),
            "a field has another form than Kubernetes gives it",
        ),
    ],
)
def test_a_pod_of_which_a_feed_can_say_nothing_is_left_out(made: Object, cause: str) -> None:
    feed = fed(made, pod("b"), node())

    assert feed.left_out == [f"1 pod: {cause}"]
    assert feed.ask["ask"] == "b"


# KUBERNETES-8: `--since`
def test_pods_that_ran_at_since_come_then() -> None:
    feed = fed(
        pod("over", ended="00:20"),
        pod("runs", created="00:01", ended="03:00"),
        pod("stays", created="00:02", ended=None),
        pod("later", created="02:00", bound="02:01", ended="02:31"),
        node(),
        since=f"{DAY}01:00Z",
    )

    assert [(ask["ask"], ask.get("run_for")) for ask in feed.of("add_ask")] == [
        ("runs", 120),
        ("stays", None),
        ("later", 30),
    ]
    assert [event["at"] for event in feed.events if "at" in event] == [
        f"{DAY}01:00Z",
        f"{DAY}02:00Z",
    ]
    assert feed.left_out == ["1 pod: outside --since and --until"]
    assert "2 pods: it ran already" in f"{feed.changes}".replace("2 pod:", "2 pods:")
