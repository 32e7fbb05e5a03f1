"""Applications, queues, users and gangs by the marks of YuniKorn, Koordinator and Volcano."""

from __future__ import annotations

import pytest

from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import Object, node, other, pod


# KUBERNETES-2: Applications
@pytest.mark.parametrize(
    ("made", "app"),
    [
        (pod("a", labels={"yunikorn.apache.org/app-id": "x", "applicationId": "y"}), "x"),
        (pod("a", annotations={"yunikorn.apache.org/app-id": "x"}, owner=("Job", "j")), "x"),
        (pod("a", labels={"applicationId": "team/x"}), "team-x"),
        (pod("a", labels={"spark-app-selector": "s"}), "s"),
        (pod("a", labels={"volcano.sh/job-name": "v"}, owner=("Job", "j")), "default.v"),
        (pod("a", owner=("Job", "j")), "default.j"),
        (pod("a", labels={"pod-group.scheduling.sigs.k8s.io": "g"}), "default.g"),
        (pod("a", owner=("Node", "n1")), "default.a"),
        (pod("a", namespace="lab"), "lab.a"),
    ],
)
def test_the_application_of_a_pod(made: Object, app: str) -> None:
    assert fed(made, node()).ask["app"] == app


def test_pods_of_one_job_are_one_application() -> None:
    feed = fed(pod("a", owner=("Job", "j")), pod("b", owner=("Job", "j")), node())

    assert [app["app"] for app in feed.of("add_app")] == ["default.j"]
    assert [ask["ask"] for ask in feed.of("add_ask")] == ["a", "b"]


def test_a_pod_that_was_made_again_is_another_ask() -> None:
    feed = fed(
        pod("web-0", owner=("StatefulSet", "web"), uid="1"),
        pod("web-0", created="00:20", owner=("StatefulSet", "web"), uid="2"),
        node(),
    )
    assert [ask["ask"] for ask in feed.of("add_ask")] == ["web-0", "web-0_2"]


# KUBERNETES-10: Queues of pods
@pytest.mark.parametrize(
    ("made", "queue"),
    [
        (pod("a", labels={"yunikorn.apache.org/queue": "root.a.b"}), "root.a.b"),
        (pod("a", annotations={"yunikorn.apache.org/queue": "A.b"}), "root.a.b"),
        (pod("a", labels={"queue": "batch"}), "root.batch"),
        (pod("a", labels={"scheduling.volcano.sh/queue-name": "q"}), "root.p.q"),
        (pod("a", annotations={"scheduling.volcano.sh/queue-name": "else"}), "root.else"),
        (pod("a", labels={"quota.scheduling.koordinator.sh/name": "quota"}), "root.quota"),
        (pod("a", annotations={"scheduling.k8s.io/group-name": "g"}), "root.p.q"),
        (pod("a", namespace="lab"), "root.lab"),
    ],
)
def test_the_queue_of_a_pod(made: Object, queue: str) -> None:
    objects = (other("Queue", "q", {"parent": "p"}), other("Queue", "p"))
    group = other("PodGroup", "g", {"minMember": 1, "queue": "q"})

    assert fed(made, node(), group, *objects).queues == [queue]


def test_an_application_stays_in_the_queue_of_its_first_pod() -> None:
    first, second = ({"applicationId": "x", "queue": queue} for queue in ("one", "two"))
    feed = fed(pod("a", labels=first), pod("b", labels=second), node())

    assert feed.queues == ["root.one"]
    assert feed.changes == ["1 pod: its application is in another queue, where its first pod came"]


def test_the_user_of_an_application() -> None:
    user = {"yunikorn.apache.org/user.info": '{"user":"sue","groups":["lab"]}'}
    (app,) = fed(pod("a", annotations=user), node()).of("add_app")

    assert (app["user"], app["groups"]) == ("sue", ["lab"])


@pytest.mark.parametrize(
    ("marks", "note"),
    [
        (
            {"yunikorn.apache.org/user.info": "sue"},
            "what it says of its user makes no sense: it has none",
        ),
        (
            {"gang.scheduling.koordinator.sh/min-available": "2"},
            "what it says of its gang makes no sense: it is in no gang",
        ),
        (
            {"yunikorn.apache.org/task-groups": '[{"name": "w", "minMember": 0}]'},
            "what it says of its gang makes no sense: it is in no gang",
        ),
        (
            {"gang.scheduling.koordinator.sh/name": "g"},
            "nobody says how many members its gang needs: it is in no gang",
        ),
    ],
)
def test_marks_that_make_no_sense_are_noted(marks: Object, note: str) -> None:
    feed = fed(pod("a", annotations=marks), node())

    assert feed.notes == [f"1 pod: {note}"]
    assert "gang" not in feed.ask
