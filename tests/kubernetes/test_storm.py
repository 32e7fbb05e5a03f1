"""Small storms over the plain binder and Muster, and faults that are found; longer: ``make storm``."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final, final

import pytest
import trio

from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api, Object
from muster.kubernetes._reflector import Change
from tests.kubernetes.cluster import ControlPlane, control_plane
from tests.kubernetes.jobs import Generation, Job, JobSpec, pod_spec
from tests.kubernetes.kubelet import PODS, Books, NodeSpec, Run, room_of
from tests.kubernetes.plain_binder import AT_ONCE, MIN_MEMBER, PlainBinder, bind_all
from tests.kubernetes.storm import (
    GANG_S,
    MusterProcess,
    Plan,
    faults_of_gangs,
    faults_of_jobs,
    faults_of_nodes,
    storm_over,
)


@final
class PlainScheduler:
    """The plain binder, as a task that can be killed."""

    def __init__(self, plane: ControlPlane, url: str, nursery: trio.Nursery) -> None:
        self._access = read_kubeconfig([plane.kubeconfig("muster", url)])
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    async def start(self) -> None:
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        await self._nursery.start(self._run)

    async def kill(self) -> None:
        self._scope.cancel()
        await self._ended.wait()

    async def faults(self, books: Books, unfinished: int) -> list[str]:
        await self.kill()
        return [] if unfinished else [f"none is left of {len(books.runs)} pods"]

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        with self._scope:
            async with Api(self._access, connections=AT_ONCE) as api:
                await PlainBinder(api, "muster").run(task_status=task_status)
        self._ended.set()


async def test_a_small_storm(nursery: trio.Nursery) -> None:
    plan = Plan.of(1, 16, kill_every_s=4)

    def scheduler_of(plane: ControlPlane, url: str, _: str) -> PlainScheduler:
        return PlainScheduler(plane, url, nursery)

    with control_plane() as plane:
        async with storm_over(plane, plan, scheduler_of) as storm:
            outcome = await storm.run()
        nursery.cancel_scope.cancel()

    assert outcome.faults == []
    assert outcome.kills == {"server": 1, "etcd": 1, "scheduler": 1}
    assert outcome.bindings >= sum(one.members for _, one in plan.jobs)
    assert outcome.proxied["cuts"] > 0


async def test_a_dose_over_muster() -> None:
    plan = Plan.of(1, 60)
    with control_plane() as plane:
        async with storm_over(plane, plan, MusterProcess) as storm:
            outcome = await storm.run()

    assert outcome.faults == [], "\n".join(outcome.faults)
    assert outcome.evictions > 0
    assert outcome.kills == {"server": 1, "etcd": 1, "scheduler": 1}


def test_a_plan_is_drawn_from_its_seed() -> None:
    whole = Plan.of(7, 600)

    assert whole == Plan.of(7, 600)
    assert whole != Plan.of(8, 600)
    assert sum(one.members for _, one in whole.jobs) == 2000
    assert len(whole.nodes) == 50
    assert {one.members for _, one in whole.jobs} == {*range(1, 17)}
    assert len(Plan.of(7, 60).nodes) == 8


async def test_all_that_is_bound_at_once(plane: ControlPlane) -> None:
    mark = uuid.uuid4().hex[:8]
    async with Api(read_kubeconfig([plane.kubeconfig()]), connections=AT_ONCE) as api:
        pods: list[Object] = []
        for number in range(40):
            body = {
                "metadata": {"name": f"{mark}-{number}"},
                "spec": pod_spec({}, scheduler="none"),
            }
            pods.append(await api.create(PODS.path(None, "default"), body))
        per_second = await bind_all(api, [(one, "nowhere") for one in pods])
        found = (await api.list_all(PODS)).objects
        for one in pods:
            path = PODS.path(one["metadata"]["name"], "default")
            await api.delete(path, {"gracePeriodSeconds": 0})

    bound = [one for one in found if one["metadata"]["name"].startswith(mark)]
    assert {one["spec"].get("nodeName") for one in bound} == {"nowhere"}
    assert per_second > 0


# -- what a storm finds ---------------------------------------------------------------------

NODE: Final = NodeSpec("n", {"cpu": "1"})


@pytest.fixture
def books() -> Books:
    books = Books()
    books.nodes[NODE.name] = NODE
    return books


def add_run(books: Books, name: str, bound_s: float = 0.0, outcome: str = "Succeeded") -> Run:
    run = Run(f"uid-{name}", f"default/{name}", "j", NODE.name, room_of({"cpu": "1"}), bound_s)
    run.outcome = outcome
    books.runs[run.uid] = run
    return run


def pod(name: str, node: str | None, phase: str = "Succeeded") -> Object:
    spec = {} if node is None else {"nodeName": node}
    metadata = {"name": name, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def gang(least: int, *generations: Generation, members: int | None = None) -> Job:
    spec = JobSpec("j", members or least, {}, annotations={MIN_MEMBER: str(least)})
    return Job(spec, generations=list(generations))


def test_what_was_right_on_nodes(books: Books) -> None:
    add_run(books, "a")
    books.most[NODE.name] = room_of({"cpu": "1"})

    assert list(faults_of_nodes(books, [pod("a", "n"), pod("b", None)])) == []


def test_pods_that_were_bound_where_they_do_not_fit(books: Books) -> None:
    add_run(books, "a", outcome="OutOfcpu")
    books.most[NODE.name] = room_of({"cpu": "2"})
    books.faults.append("pod default/a is bound to m, and was to n")

    assert list(faults_of_nodes(books, [pod("a", "m")])) == [
        "pod default/a is bound to m, and was to n",
        "node n was over its allocatable by {'cpu': 1000} thousandths",
        "pod default/a was bound to n, where it did not fit: OutOfcpu",
        "pod a is bound to m, and ran on n",
    ]


def test_jobs_that_have_not_succeeded() -> None:
    job = gang(2)
    for one in (pod("a", "n"), pod("b", None, "Pending")):
        job.see(Change(PODS, None, one))

    (fault,) = faults_of_jobs([job])
    assert fault == "job j: 1 of 2 pods have succeeded; left: {'b': 'Pending'}"
    job.ended.set()
    assert list(faults_of_jobs([job])) == []


@pytest.mark.parametrize(
    ("bound_s", "broken_s", "is_right"),
    [
        ((0, 1, 2), None, True),
        ((0, 1), None, False),
        ((0, 1, GANG_S + 1), None, False),
        ((), None, True),
        ((0, 1), 5.0, True),
        ((0, 1), GANG_S + 1, False),
    ],
)
def test_gangs_of_which_too_few_ran(
    books: Books, bound_s: Sequence[float], broken_s: float | None, is_right: bool
) -> None:
    names = [f"a{number}" for number in range(3)]
    for name, at_s in zip(names, bound_s, strict=False):
        add_run(books, name, at_s)
    faults = list(faults_of_gangs([gang(3, Generation(names, broken_s))], books))

    assert (faults == []) == is_right
    assert all("gang of job j, generation 0: 2 were bound in the 60 s" in one for one in faults)
