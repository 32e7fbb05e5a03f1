"""Pods: what they ask for, on which nodes they may run, when they came, and the marks of YuniKorn,
Koordinator and Volcano.
"""

from __future__ import annotations

import pytest

from tests.actors.importing.kubernetes.samples import DAY, Object, feed_of, node, object_of, pod


def container(cpu: str, *, limit: str | None = None, always: bool = False) -> Object:
    resources: Object = {"requests": {"cpu": cpu}} if cpu else {}
    if limit is not None:
        resources["limits"] = {"cpu": limit}
    return {"resources": resources} | ({"restartPolicy": "Always"} if always else {})


def vcore(**spec: object) -> object:
    return feed_of(pod("a", spec=spec), node()).ask["resources"].get("vcore")


# IMPORT-13: How long a job was expected to run
def test_the_deadline_is_the_estimate() -> None:
    assert feed_of(pod("a", spec={"activeDeadlineSeconds": 90}), node()).ask["estimate"] == 90
    assert "estimate" not in feed_of(pod("a"), node()).ask


# KUBERNETES-9: What a pod asks for
@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": [container("1"), container("500m")]}, "1500m"),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", always=True), container("3")],
            },
            4,
        ),
        (
            {
                "containers": [container("2")],
                "initContainers": [container("2"), container("1", always=True)],
            },
            3,
        ),
        ({"containers": [container("", limit="2"), container("1", limit="5")]}, 3),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, "1250m"),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, 4),
        ({"containers": [container("0.0001")]}, "1m"),
        ({"containers": [container("1500u")]}, "2m"),
    ],
)
def test_requests_are_added_up_as_kubernetes_does(spec: Object, wanted: object) -> None:
    assert vcore(**spec) == wanted


def test_each_type_counts() -> None:
    needs = {"memory": "128974848000m", "nvidia.com/gpu": "2", "kubernetes.io/batch-cpu": "500"}

    assert feed_of(pod("a", requests=needs), node()).ask["resources"] == {
        "memory": "123Mi",
        "nvidia.com/gpu": 2,
        "kubernetes.io/batch-cpu": 500,
        "pods": 1,
    }


def test_a_pod_that_asks_for_nothing_takes_one_of_the_pods_of_a_node() -> None:
    assert feed_of(pod("a", requests={}), node()).ask["resources"] == {"pods": 1}


def test_where_nodes_do_not_count_pods_it_asks_for_a_little() -> None:
    bare = node()
    del bare["status"]["allocatable"]["pods"]
    feed = feed_of(pod("a", requests={}), bare)

    assert feed.ask["resources"] == {"vcore": "1m"}
    assert feed.changes == ["1 pod: it asks for nothing: it has 1m of vcore"]


@pytest.mark.parametrize("cpu", ["-1", "much", "1e30", [], None])
def test_an_amount_that_is_none_leaves_the_pod_out(cpu: object) -> None:
    feed = feed_of(pod("a", requests={"cpu": cpu}), pod("b"), node())

    (cause,) = feed.account.left_out
    assert cause.example.startswith("default/a: spec.containers[0].resources.requests.cpu: ")


def test_a_sum_that_is_too_large_leaves_the_pod_out() -> None:
    much = {"resources": {"requests": {"memory": "8Ei"}}}
    feed = feed_of(pod("a", spec={"containers": [much, much]}), pod("b"), node())

    assert feed.left_out == ["1 pod: a field has another form than Kubernetes gives it"]


@pytest.mark.parametrize("requests", [{"cpu": "900"}, {"example.com/fpga": 1}])
def test_a_pod_that_is_too_large_for_each_node_is_counted(requests: dict[str, object]) -> None:
    feed = feed_of(pod("a", requests=requests), pod("b"), node())

    assert len(feed.events_of("add_ask")) == 2
    assert feed.notes == ["1 pod: asks for more than any node has: it never starts"]


def required(*terms: Object) -> Object:
    selector = {"nodeSelectorTerms": list(terms)}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    }


def one_in(key: str, *values: str, operator: str = "In") -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


# KUBERNETES-15: Selectors and affinity
def test_a_selector_and_a_required_affinity_are_said() -> None:
    first: Object = {
        "matchExpressions": [one_in("disk", "ssd", "hdd"), {"key": "gpu", "operator": "Exists"}],
        "matchFields": [one_in("metadata.name", "n1")],
    }
    second: Object = {"matchExpressions": [one_in("zone", "3", operator="Lt")]}
    spec = {"nodeSelector": {"disk": "ssd"}} | required(first, second)
    feed = feed_of(pod("a", spec=spec), node("n1", {"disk": "ssd", "zone": "2"}))

    assert feed.ask["selector"] == {"disk": "ssd"}
    assert feed.ask["affinity"] == [
        [*first["matchExpressions"], *first["matchFields"]],
        second["matchExpressions"],
    ]
    assert "node" not in feed.ask
    assert not feed.notes


@pytest.mark.parametrize(
    "term",
    [
        {"matchFields": [one_in("metadata.uid", "n1")]},
        {"matchExpressions": [one_in("disk")]},
        {"matchExpressions": [one_in("disk", "ssd", operator="Is")]},
    ],
)
def test_an_affinity_that_is_none_leaves_the_pod_out(term: Object) -> None:
    feed = feed_of(pod("a", spec=required(term)), pod("b"), node())

    (cause,) = feed.account.left_out
    assert cause.example.startswith("default/a: spec.affinity.nodeAffinity.required")


NOT_MODELLED: list[tuple[Object, str]] = [
    *[
        ({"affinity": {kind: {strength: [{}]}}}, f"{what} to other pods is not modelled")
        for kind, what in (("podAffinity", "affinity"), ("podAntiAffinity", "anti-affinity"))
        for strength in (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
    ],
    (
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}},
        "a preferred node affinity is not modelled",
    ),
    ({"topologySpreadConstraints": [{}]}, "topology spread constraints are not modelled"),
    ({"runtimeClassName": "kata"}, "a runtime class is not modelled"),
    (
        {"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]},
        "volume claims are not modelled",
    ),
    ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports are not modelled"),
    *[
        (spec, "no node of the feed is one of those that it may run on")
        for spec in (
            {"nodeSelector": {"disk": "tape"}},
            required({"matchFields": [one_in("metadata.name", "n2")]}),
            required({}),
        )
    ],
]


@pytest.mark.parametrize(("spec", "note"), NOT_MODELLED)
def test_what_is_not_modelled_is_noted(spec: Object, note: str) -> None:
    feed = feed_of(pod("a", spec=spec), node())

    assert feed.notes == [f"1 pod: {note}"]


def test_what_is_there_and_empty_is_not_noted() -> None:
    spec: Object = {"affinity": {}, "topologySpreadConstraints": [], "volumes": [{"emptyDir": {}}]}

    assert not feed_of(pod("a", spec=spec), node()).notes


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_a_pod_that_belongs_to_a_node_is_asked_for_there(owner: str) -> None:
    only = node("n1", taints=[{"key": "a", "effect": "NoSchedule"}])
    feed = feed_of(pod("a", owner=(owner, "x"), spec={"nodeSelector": {"disk": "ssd"}}), only)

    assert feed.ask["node"] == "n1"
    assert feed.ask["tolerations"] == [{"operator": "Exists"}]
    assert "selector" not in feed.ask


def test_a_pod_of_a_daemon_set_that_waits_asks_for_the_node_of_its_affinity() -> None:
    spec = required({"matchFields": [one_in("metadata.name", "n1")]})
    waiting = pod("a", owner=("DaemonSet", "x"), bound=None, spec=spec)

    assert feed_of(waiting, node()).ask["node"] == "n1"
    assert feed_of(waiting, pod("b"), node("n2")).left_out == [
        "1 pod: it belongs to a node that is not in the feed, or accepts no pods"
    ]


@pytest.mark.parametrize("others", [[node("n2")], [node("n2"), node("n1", unschedulable=True)]])
def test_a_pod_whose_node_takes_none_is_left_out(others: list[Object]) -> None:
    feed = feed_of(pod("a", owner=("DaemonSet", "x")), pod("b"), *others)

    assert feed.left_out == [
        "1 pod: it belongs to a node that is not in the feed, or accepts no pods"
    ]


# KUBERNETES-16: Taints
def test_taints_and_tolerations_are_said() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    tolerated = {"key": "k", "operator": "Exists"}
    feed = feed_of(
        pod("a"), pod("b", spec={"tolerations": [tolerated]}), node("n1", taints=[taint, soft])
    )
    assert feed.events_of("add_node")[0]["taints"] == [taint, soft]
    assert [ask.get("tolerations") for ask in feed.events_of("add_ask")] == [None, [tolerated]]
    assert feed.notes == ["1 pod: no node of the feed is one of those that it may run on"]


def test_what_kubernetes_sets_by_itself_is_not_said() -> None:
    ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    tolerated = ready | {"operator": "Exists", "tolerationSeconds": 300}
    feed = feed_of(pod("a", spec={"tolerations": [tolerated]}), pod("b"), node(taints=[ready]))

    assert "taints" not in feed.events_of("add_node")[0]
    assert [ask.get("tolerations") for ask in feed.events_of("add_ask")] == [None, None]
    assert not feed.notes


ENDS = "it had not ended: it holds its room to the end"


def with_status(status: Object) -> Object:
    made = pod("a")
    made["status"] = status
    return made


# KUBERNETES-5: Instants
def test_a_pod_comes_when_it_was_created_and_runs_from_its_bind_to_its_end() -> None:
    feed = feed_of(pod("a", created="00:00", bound="05:00", ended="06:30"), node())

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

    assert feed_of(with_status(ended | status), node()).ask["run_for"] == run_for


def test_the_last_container_ends_a_pod() -> None:
    states = [
        {"state": {"terminated": {"finishedAt": f"{DAY}0{minute}:00Z"}}} for minute in (3, 7, 5)
    ]
    status = {"phase": "Succeeded", "startTime": f"{DAY}01:00Z", "containerStatuses": states}

    assert feed_of(with_status(status), node()).ask["run_for"] == 360


def test_an_evicted_pod_ends_when_its_conditions_change_last() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{DAY}01:00Z"},
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": f"{DAY}02:00Z"},
    ]
    assert (
        feed_of(with_status({"phase": "Failed", "conditions": conditions}), node()).ask["run_for"]
        == 60
    )


# KUBERNETES-6: Pods that have not ended
def test_a_pod_that_runs_holds_its_room_to_the_end() -> None:
    feed = feed_of(pod("a", ended=None), node())

    assert "run_for" not in feed.ask
    assert feed.changes == [f"1 pod: {ENDS}"]


def test_a_pod_that_waits_is_asked_for() -> None:
    feed = feed_of(pod("a", bound=None), node())

    assert "run_for" not in feed.ask
    assert feed.changes == [
        "1 pod: it was not bound yet: once it is bound it holds its room to the end"
    ]


def test_a_pod_that_is_being_deleted_ends_then() -> None:
    assert (
        feed_of(pod("a", ended=None, deletionTimestamp=f"{DAY}00:50Z"), node()).ask["run_for"] == 40
    )


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
    feed = feed_of(made, pod("b"), node())

    assert feed.left_out == [f"1 pod: {cause}"]
    assert feed.ask["ask"] == "b"


# KUBERNETES-8: `--since`
def test_pods_that_ran_at_since_come_then() -> None:
    feed = feed_of(
        pod("over", ended="00:20"),
        pod("runs", created="00:01", ended="03:00"),
        pod("stays", created="00:02", ended=None),
        pod("later", created="02:00", bound="02:01", ended="02:31"),
        node(),
        since=f"{DAY}01:00Z",
    )

    assert [(ask["ask"], ask.get("run_for")) for ask in feed.events_of("add_ask")] == [
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
    assert feed_of(made, node()).ask["app"] == app


def test_pods_of_one_job_are_one_application() -> None:
    feed = feed_of(pod("a", owner=("Job", "j")), pod("b", owner=("Job", "j")), node())

    assert [app["app"] for app in feed.events_of("add_app")] == ["default.j"]
    assert [ask["ask"] for ask in feed.events_of("add_ask")] == ["a", "b"]


def test_a_pod_that_was_made_again_is_another_ask() -> None:
    feed = feed_of(
        pod("web-0", owner=("StatefulSet", "web"), uid="1"),
        pod("web-0", created="00:20", owner=("StatefulSet", "web"), uid="2"),
        node(),
    )
    assert [ask["ask"] for ask in feed.events_of("add_ask")] == ["web-0", "web-0_2"]


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
    objects = (object_of("Queue", "q", {"parent": "p"}), object_of("Queue", "p"))
    group = object_of("PodGroup", "g", {"minMember": 1, "queue": "q"})

    assert feed_of(made, node(), group, *objects).queues == [queue]


def test_an_application_stays_in_the_queue_of_its_first_pod() -> None:
    first, second = ({"applicationId": "x", "queue": queue} for queue in ("one", "two"))
    feed = feed_of(pod("a", labels=first), pod("b", labels=second), node())

    assert feed.queues == ["root.one"]
    assert feed.changes == ["1 pod: its application is in another queue, where its first pod came"]


def test_the_user_of_an_application() -> None:
    user = {"yunikorn.apache.org/user.info": '{"user":"sue","groups":["lab"]}'}
    (app,) = feed_of(pod("a", annotations=user), node()).events_of("add_app")

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
    feed = feed_of(pod("a", annotations=marks), node())

    assert feed.notes == [f"1 pod: {note}"]
    assert "gang" not in feed.ask
