"""Asks for pods of Kubernetes, as a real service, its page and its commands show them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, final

import attrs
import pytest
import trio
from click.shell_completion import ShellComplete
from typing_extensions import override

from muster import Allocation
from muster.cli._main import muster
from muster.service.options import (
    Backend,
    BackendHost,
    BackendOptions,
    NoOutputError,
    ServeOptions,
    StartOutput,
)
from tests.actors.cli.helpers import run
from tests.actors.serving.served import CONFIG, Served, ServiceThread
from tests.actors.serving.test_page_asks import page_text, rows

Item = dict[str, Any]


def ask(
    app: str, name: str, vcore: int, pod: str = "", owner: str = "", **more: object
) -> dict[str, object]:
    namespace, _, of = pod.partition("/")
    env = {"POD_NAMESPACE": namespace, "POD_NAME": of, "POD_UID": f"uid-{of}", "POD_OWNER": owner}
    known = {"env": {key: value for key, value in env.items() if value}} if pod else {}
    return {
        "op": "add_ask",
        "app": app,
        "ask": name,
        "resources": {"vcore": vcore},
        **known,
        **more,
    }


EVENTS: Final[tuple[dict[str, object], ...]] = (
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 4}},
    {"op": "add_app", "app": "train", "queue": "root.prod", "user": "sue"},
    {"op": "add_app", "app": "web", "queue": "root.dev"},
    {"op": "add_app", "app": "ml", "queue": "root.dev"},
    {"op": "add_app", "app": "etl", "queue": "root.dev"},
    ask("train", "w0", 2, "ml/Train-0", "Job/train"),
    ask("train", "w1", 3, "ml/train-1", "Job/train"),
    ask("web", "one", 4, "shop/web-0"),
    ask("web", "two", 4, "ml/web", "ReplicaSet/web"),
    ask("ml", "train-1", 9, "shop/odd"),
    ask("etl", "load", 1, env={"POD_NAME": "half", "POD_NAMESPACE": "ml"}),
)
"""``ml/train-1`` is an ask and a pod; ``etl/load`` does not say the uid, so it is no pod."""

PODS: Final = {
    "train/w0": "ml/Train-0",
    "train/w1": "ml/train-1",
    "web/one": "shop/web-0",
    "web/two": "ml/web",
    "ml/train-1": "shop/odd",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    with _service(tmp_path_factory.mktemp("pods")) as running:
        for event in EVENTS:
            running.post(event)
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_TOKEN", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)


def _service(folder: Path, backend: BackendOptions | None = None) -> ServiceThread:
    config = folder / "queues.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return ServiceThread(config=config, backend=backend)


def pods_by_ask(items: Sequence[Item]) -> dict[str, str]:
    """Return the pods of those asks that have one."""
    return {
        f"{item['app']}/{item['ask']}": f"{item['pod']['namespace']}/{item['pod']['name']}"
        for item in items
        if "pod" in item
    }


def output_of(service: ServiceThread, *arguments: str, status: int = 0) -> str:
    result = run(*arguments, "--server", str(service.client.base_url))
    assert result.exit_code == status, result.output
    return result.output


# POD-1, POD-2
def test_asks_say_their_pods(service: ServiceThread) -> None:
    assert pods_by_ask(service.all("/api/v1/asks")) == PODS
    item = service.get("/api/v1/asks/train/w0")["item"]
    assert item["pod"] == {
        "namespace": "ml",
        "name": "Train-0",
        "uid": "uid-Train-0",
        "owner": "Job/train",
    }
    assert service.get("/api/v1/asks/web/one")["item"]["pod"]["owner"] is None
    assert "pod" not in service.get("/api/v1/asks/etl/load")["item"]
    assert service.get("/api/v1/asks", fields="pod")["items"][-1] == {}
    assert service.get("/api/v1/nodes/n1")["item"]["asks"][0]["pod"]["name"] == "Train-0"


# POD-3
def test_applications_say_what_their_pods_have_in_common(service: ServiceThread) -> None:
    assert {item["app"]: item.get("pods") for item in service.all("/api/v1/apps")} == {
        "train": {"namespace": "ml", "owner": "Job/train"},
        "web": {"namespace": None, "owner": None},
        "ml": {"namespace": "shop", "owner": None},
        "etl": None,
    }


# POD-4
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({}, [*PODS]),
        ({"namespace": "shop"}, ["web/one", "ml/train-1"]),
        ({"namespace": "ml", "state": "pending"}, ["train/w1", "web/two"]),
        ({"namespace": "ml", "user": "sue", "app": "train"}, ["train/w0", "train/w1"]),
        ({"queue": "root.dev", "reason": "NeverFits"}, ["ml/train-1"]),
        ({"namespace": "none"}, []),
        ({"namespace": "ml", "state": "ended"}, []),
    ],
)
def test_pods_are_found(service: ServiceThread, filters: dict[str, str], wanted: list[str]) -> None:
    assert list(pods_by_ask(service.all("/api/v1/pods", 1, **filters))) == wanted


# POD-4
def test_a_cursor_of_the_list_of_asks_is_refused(service: ServiceThread) -> None:
    cursor = service.get("/api/v1/asks", limit=1)["next"]

    assert "no cursor of this list" in service.get("/api/v1/pods", 400, after=cursor)["detail"]


# POD-5
def test_a_pod_by_its_name(service: ServiceThread) -> None:
    item = service.get("/api/v1/pods/shop/web-0")["item"]

    assert item == service.get("/api/v1/asks/web/one")["item"]
    assert service.get("/api/v1/pods/shop/web-0", fields="app,ask")["item"] == {
        "app": "web",
        "ask": "one",
    }
    assert service.get("/api/v1/pods/web/one", 404)["detail"] == "pod: 'web/one' is unknown"


# POD-6
def test_why_a_pod_is_not_running(service: ServiceThread) -> None:
    item = service.get("/api/v1/asks/shop/web-0/why", forecast="true")["item"]

    assert (item["app"], item["ask"], item["pod"]["name"]) == ("web", "one", "web-0")
    assert item["reasons"][0]["code"] == "NoNodeFits"
    assert item["foretold"] is not None
    assert "also" not in item
    assert service.get("/api/v1/asks/shop/web-1/why", 404)["detail"].startswith("ask: 'shop/web-1'")


# POD-7
def test_a_name_that_means_two_asks(service: ServiceThread) -> None:
    item = service.get("/api/v1/asks/ml/train-1/why")["item"]

    assert (item["app"], item["pod"]["name"], item["also"]) == ("ml", "odd", ["train/w1"])
    text = output_of(service, "why", "ml/train-1")
    first, second = re.findall(r"(?m)^(.*) is pending in ", text)
    assert first == "ml/train-1 (pod shop/odd)"
    assert second == "train/w1 (pod ml/train-1 of Job/train)"
    whole = json.loads(output_of(service, "why", "ml/train-1", "-o", "json"))
    assert whole["item"]["also"] == ["train/w1"]


# POD-6, POD-2
def test_muster_why(service: ServiceThread) -> None:
    text = output_of(service, "why", "shop/web-0")
    head, _, rest = text.partition("\n\n")
    assert head.startswith("web/one (pod shop/web-0) is pending in root.dev since ")
    assert rest.startswith("NoNodeFits: ")
    assert output_of(service, "why", "ml/Train-0").startswith(
        "train/w0 (pod ml/Train-0 of Job/train) is bound on n1 in root.prod since "
    )
    assert "ask: 'shop/web-1' is unknown" in output_of(service, "why", "shop/web-1", status=1)


def table(service: ServiceThread, *arguments: str) -> list[list[str]]:
    lines = [line for line in output_of(service, "get", *arguments).splitlines() if "─" not in line]
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


# POD-8
def test_muster_get_pods(service: ServiceThread) -> None:
    head, *lines = table(service, "pods")
    assert head == [
        *("namespace", "pod", "owner", "state", "node", "queue", "priority", "resources", "reason")
    ]
    assert lines[0] == [*("ml", "Train-0", "Job/train", "bound", "n1", "root.prod", "0", "vcore 2")]
    assert [line[:2] for line in table(service, "pods", "-n", "shop")[1:]] == [
        ["shop", "web-0"],
        ["shop", "odd"],
    ]
    assert "uid-web" in output_of(service, "get", "pods", "-o", "wide")
    whole = json.loads(output_of(service, "get", "pods", "--namespace", "ml", "-o", "json"))
    assert list(pods_by_ask(whole["items"])) == ["train/w0", "train/w1", "web/two"]
    assert output_of(service, "get", "pods", "-n", "none") == "no pods\n"


# POD-8
def test_muster_get_pods_on_a_narrow_terminal(
    service: ServiceThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")

    heads = [line for line in output_of(service, "get", "pods").splitlines() if "namespace" in line]
    assert len(heads) > 1
    assert all(head.split()[:2] == ["namespace", "pod"] for head in heads)


# POD-8
@pytest.mark.parametrize("name", [("shop/web-0",), ("web-0", "-n", "shop")])
def test_muster_get_a_pod(service: ServiceThread, name: tuple[str, ...]) -> None:
    whole = json.loads(output_of(service, "get", "pod", *name, "-o", "json"))

    assert whole["item"]["ask"] == "one"
    assert "namespace shop, name web-0, uid uid-web-0" in output_of(service, "get", "pod", *name)


# CLIENT-6
@pytest.mark.parametrize(
    ("words", "typed", "wanted"),
    [
        (["why"], "shop/", ["shop/web-0", "shop/odd"]),
        (["why"], "web/o", ["web/one"]),
        (["get", "pods"], "ml/Tr", ["ml/Train-0"]),
        (["get"], "po", ["pods"]),
    ],
)
def test_pods_are_completed(
    service: ServiceThread,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    typed: str,
    wanted: list[str],
) -> None:
    monkeypatch.setenv("MUSTER_SERVER", str(service.client.base_url))
    completion = ShellComplete(muster, {}, "muster", "_MUSTER_COMPLETE")

    assert [one.value for one in completion.get_completions(words, typed)] == wanted


# POD-8
def test_muster_get_refuses(service: ServiceThread) -> None:
    assert "write a pod as NAMESPACE/POD" in output_of(service, "get", "pods", "web-0", status=2)
    assert "--namespace is not for asks" in output_of(service, "get", "asks", "-n", "ml", status=2)


# POD-2, POD-3
def test_other_tables_have_columns_for_pods(service: ServiceThread) -> None:
    assert table(service, "asks")[0][:3] == ["ask", "pod", "queue"]
    assert "pod" not in table(service, "asks", "--app", "etl")[0]
    assert table(service, "apps")[0][-2:] == ["namespace", "owner"]


# POD-13
def test_muster_cancel_leaves_pods_to_their_cluster(service: ServiceThread) -> None:
    text = output_of(service, "cancel", "shop/web-0", status=1)

    assert "whose ask is web/one; its cluster ends it: kubectl -n shop delete pod web-0" in text
    assert service.get("/api/v1/asks/web/one")["item"]["place"] == "pending"
    assert "is unknown" in output_of(service, "cancel", "shop/web-1", status=1)
    problem = "its cluster ends it: kubectl -n shop delete pod web-0"
    assert problem in output_of(service, "cancel", "web/one", status=1)
    assert "kubectl -n ml delete pod Train-0" in output_of(service, "cancel", "train/w0", status=1)
    problem = "the asks of train are pods; their cluster ends them: kubectl -n ml delete Job/train"
    assert problem in output_of(service, "cancel", "train", status=1)
    problem = "the asks of web are pods; their cluster ends them\n"
    assert output_of(service, "cancel", "web", status=1).endswith(problem)
    assert [one["place"] for one in service.all("/api/v1/pods")].count("bound") == 1
    assert output_of(service, "cancel", "etl/load") == "etl/load: cancelled\n"
    service.post(EVENTS[-1])


# POD-13
def test_the_page_leaves_pods_to_their_cluster(service: ServiceThread) -> None:
    text = page_text(service.client, "/asks/train/w0")
    assert "Its cluster ends it: kubectl -n ml delete pod Train-0" in text
    assert "Cancel this ask" not in text
    assert "Cancel this ask" in page_text(service.client, "/asks/etl/load")
    text = page_text(service.client, "/apps/train")
    assert "Their cluster ends them: kubectl -n ml delete Job/train" in text
    assert "Cancel this application" not in text
    assert "Cancel this application" in page_text(service.client, "/apps/etl")


# POD-14
def test_the_page_shows_pods(service: ServiceThread) -> None:
    text = page_text(service.client, "/asks/train/w0")
    assert "Namespace ml Pod Train-0 Owner Job/train Queue" in text
    assert "Namespace shop Pod web-0 Queue" in page_text(service.client, "/asks/web/one")
    assert "Namespace" not in page_text(service.client, "/asks/etl/load")
    assert "train/w0 pod ml/Train-0 of Job/train" in page_text(service.client, "/asks")
    assert "Namespace ml Owner Job/train" in page_text(service.client, "/apps/train")
    assert "train/w0 pod ml/Train-0 of Job/train" in page_text(service.client, "/nodes/n1")


# POD-14
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("shop/web", ["web/one"]),
        ("ML/TRAIN", ["train/w0", "train/w1", "ml/train-1"]),
        ("half", []),
    ],
)
def test_the_page_finds_pods(service: ServiceThread, text: str, wanted: list[str]) -> None:
    assert rows(service, name=text) == wanted


# REST-12
def test_the_web_ui_of_yunikorn_shows_pods(service: ServiceThread) -> None:
    path = "/ws/v1/partition/default/queue/root.prod/application/train"
    (held,) = service.get(path)["allocations"]

    assert held["allocationTags"] == {
        "kubernetes.io/meta/namespace": "ml",
        "kubernetes.io/meta/podName": "Train-0",
    }


# POD-10, POD-2
def test_pods_that_have_ended(tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *arguments) as served:
        for event in EVENTS:
            assert served.client.post("/api/v1/events", json=event).json()[0]["ok"]
        release = {"op": "release", "app": "train", "ask": "w0", "outcome": "failed"}
        assert served.client.post("/api/v1/events", json=release).json()[0]["ok"]
        _check_ended(served)
    with Served(tmp_path, *arguments) as again:
        _check_ended(again)
        # Another pod of this name, as a StatefulSet makes one.
        new = ask("train", "w9", 2, "ml/Train-0", "Job/train")
        assert again.client.post("/api/v1/events", json=new).json()[0]["ok"]
        item = again.client.get("/api/v1/pods/ml/Train-0").json()["item"]
        assert (item["ask"], item["place"]) == ("w9", "pending")


def _check_ended(served: Served) -> None:
    def item(path: str) -> Item:
        answer = served.client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.text
        of_answer: Item = answer.json()["item"]
        return of_answer

    life = item("pods/ml/Train-0")
    assert (life["place"], life["outcome"], life["pod"]["owner"]) == (
        "ended",
        "failed",
        "Job/train",
    )
    assert item("asks/ml/Train-0/why") == item("asks/train/w0/why") == life
    server = ("--server", served.urls[0])
    (line,) = run("get", "pods", "--state", "ended", "-n", "ml", *server).stdout.splitlines()[2:]
    assert line.split()[:2] == ["train/w0", "ml/Train-0"]
    assert run("get", "pods", "--state", "ended", "-n", "shop", *server).output == "no pods\n"
    text = run("why", "ml/Train-0", *server).stdout
    assert text.startswith("train/w0 (pod ml/Train-0 of Job/train) is over: failed at ")


# Pods without an ask


FIELD: Final = "spec.affinity.podAffinity is not honoured"
REFUSED: Final = "root.gone: there is no such queue"


@final
class Cluster:
    """A cluster with some pods that have no ask; the work of an allocation never ends by itself."""

    bind_timeout_s = 60.0

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Cluster, None]:
        yield self

    @asynccontextmanager
    async def running(self, host: BackendHost, server: str) -> AsyncGenerator[None, None]:
        yield

    async def run(self, _allocation: Allocation, started: Callable[[], None], /) -> None:
        started()
        await trio.sleep_forever()

    def health(self) -> None:
        pass

    def measures(self) -> Mapping[str, float]:
        return {}

    def followed_configuration(self) -> None:
        pass

    def waits_for(self) -> None:
        """Return None: it decides at once."""

    def pods_without_ask(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        return {
            "shop/near": [("NotSupported", FIELD)],
            "shop/lost": [("NotQueued", REFUSED)],
            "ml/Train-0": [("NotSupported", FIELD)],
        }

    def pod_reasons(self, namespace: str, name: str, /) -> Sequence[tuple[str, str]] | None:
        return self.pods_without_ask().get(f"{namespace}/{name}")

    async def output(
        self, host: BackendHost, app: str, ask: str, attempt: int | None
    ) -> StartOutput:
        raise NoOutputError("kubectl logs shows it")


@final
@attrs.frozen
class ClusterOptions(BackendOptions):
    """Runs pods in the cluster of the test."""

    run: ClassVar[str] = "cluster"
    place: ClassVar[str] = "in a cluster"
    runs_as_service: ClassVar[bool] = False

    @override
    def problems(self, options: ServeOptions) -> Iterator[str]:
        yield from ()

    @override
    def backend(self, options: ServeOptions) -> Backend:
        return Cluster()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    with _service(tmp_path_factory.mktemp("cluster"), ClusterOptions()) as running:
        for event in EVENTS:
            running.post(event)
        yield running


# POD-9, POD-11, POD-12
@pytest.mark.parametrize(
    ("name", "code", "sentence", "rule"),
    [("near", "NotSupported", FIELD, "POD-11"), ("lost", "NotQueued", REFUSED, "POD-12")],
)
def test_why_a_pod_has_no_ask(
    cluster: ServiceThread, name: str, code: str, sentence: str, rule: str
) -> None:
    item = cluster.get(f"/api/v1/asks/shop/{name}/why", remedies="true")["item"]
    assert item == {
        "pod": {"namespace": "shop", "name": name},
        "place": "none",
        "reasons": [{"code": code, "message": sentence, "facts": {}, "rules": [rule]}],
    }
    output = f"shop/{name} is a pod that has no ask\n\n{code}: {sentence}\n"
    assert output_of(cluster, "why", f"shop/{name}") == output
    detail = cluster.get(f"/api/v1/pods/shop/{name}", 404)["detail"]
    assert detail == f"pod: 'shop/{name}' is unknown: it has no ask; {code}: {sentence}"


# POD-31
def test_the_list_of_pods_without_an_ask(cluster: ServiceThread) -> None:
    items = cluster.all("/api/v1/pods-without-ask", 1)
    assert [one["pod"]["name"] for one in items] == ["Train-0", "lost", "near"]
    assert [one["reasons"][0]["code"] for one in items[1:]] == ["NotQueued", "NotSupported"]
    (first, _) = cluster.all("/api/v1/pods-without-ask", 1, namespace="shop")
    assert first["pod"] == {"namespace": "shop", "name": "lost"}
    head, *lines = table(cluster, "pods", "--state", "none", "-n", "shop")
    assert head == ["namespace", "pod", "reasons"]
    assert lines[0] == ["shop", "lost", f"NotQueued: {REFUSED}"]
    assert "3 pods without an ask: 2 NotSupported, 1 NotQueued" in page_text(cluster.client, "/")


# POD-31
def test_a_service_without_a_cluster_has_no_pods_without_an_ask(service: ServiceThread) -> None:
    assert service.all("/api/v1/pods-without-ask") == []
    assert "without an ask" not in page_text(service.client, "/")
    assert output_of(service, "get", "pods", "--state", "none") == "no pods without ask\n"


# POD-9
def test_an_ask_comes_before_what_its_cluster_says(cluster: ServiceThread) -> None:
    assert cluster.get("/api/v1/asks/ml/Train-0/why")["item"]["place"] == "bound"
    assert cluster.get("/api/v1/asks/shop/none/why", 404)["status"] == 404

    cluster.post({"op": "release", "app": "train", "ask": "w0"})
    # The pod that is there now, and not the one that has ended.
    assert cluster.get("/api/v1/asks/ml/Train-0/why")["item"]["place"] == "none"
