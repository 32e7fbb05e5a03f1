"""One of several replicas holds the Lease of a real API server."""

from __future__ import annotations

import uuid

import pytest
import trio

from muster._leases import TIMES, LeaseRecord, LeaseTimes
from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api
from muster.kubernetes._lease import LEASES, Lease
from muster.service.replication.election import lease_of
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.proxy import Proxy

SLACK_S = 10.0
"""How much longer anything may take on a busy machine."""


@pytest.fixture
def name() -> str:
    return f"it-{uuid.uuid4().hex[:8]}"


class WorkLog:
    """The log of which replica works, and since when."""

    def __init__(self) -> None:
        self.log: list[tuple[str, float]] = []
        self.working: set[str] = set()
        self.changed = trio.Condition()

    async def work(self, who: str) -> None:
        try:
            await self._note(who, begins=True)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await self._note(who, begins=False)

    async def wait_for(self, *who: str) -> float:
        with trio.fail_after(PATIENCE_S):
            async with self.changed:
                while self.working != set(who):
                    await self.changed.wait()
        return trio.current_time()

    async def _note(self, who: str, *, begins: bool) -> None:
        async with self.changed:
            self.log.append((f"{'+' if begins else '-'}{who}", trio.current_time()))
            (self.working.add if begins else self.working.discard)(who)
            assert len(self.working) <= 1, self.log
            self.changed.notify_all()


async def replica(
    plane: ControlPlane,
    turns: WorkLog,
    name: str,
    who: str,
    url: str | None = None,
    *,
    task_status: trio.TaskStatus[trio.CancelScope],
) -> None:
    async def work() -> None:
        await turns.work(who)

    with trio.CancelScope() as scope:
        async with Api(read_kubeconfig([plane.kubeconfig("admin", url)])) as api:
            task_status.started(scope)
            await Lease(api, "default", name, who).run(work)


# POD-25
async def test_one_of_two_works(plane: ControlPlane, name: str, nursery: trio.Nursery) -> None:
    turns = WorkLog()
    a = await nursery.start(replica, plane, turns, name, "a")
    await turns.wait_for("a")
    b = await nursery.start(replica, plane, turns, name, "b")
    await trio.sleep(2 * TIMES.renewed_s)
    assert turns.working == {"a"}
    a.cancel()
    began = trio.current_time()
    taken = await turns.wait_for("b")
    b.cancel()
    await turns.wait_for()

    assert taken - began < TIMES.renewed_s + SLACK_S, "who ends lets the next one have it at once"
    with plane.client() as client, trio.fail_after(PATIENCE_S):
        spec = client.get(LEASES.path(name, "default")).json()["spec"]
        while spec["holderIdentity"]:  # The server takes a moment to write the last change.
            await trio.sleep(0.05)
            spec = client.get(LEASES.path(name, "default")).json()["spec"]
    assert spec["leaseTransitions"] == 1


async def test_who_is_cut_off_gives_up_before_the_next_begins(
    plane: ControlPlane, proxy: Proxy, name: str, nursery: trio.Nursery
) -> None:
    turns = WorkLog()
    await nursery.start(replica, plane, turns, name, "a", proxy.url)
    await turns.wait_for("a")
    await nursery.start(replica, plane, turns, name, "b")
    await trio.sleep(TIMES.renewed_s)
    began = trio.current_time()
    proxy.cut_all(for_ever=True)
    given_up = await turns.wait_for()
    taken = await turns.wait_for("b")
    proxy.cut_all()
    await trio.sleep(2 * TIMES.renewed_s)
    assert turns.working == {"b"}
    nursery.cancel_scope.cancel()

    assert given_up - began < TIMES.given_up_s + SLACK_S
    assert taken - began < TIMES.held_s + TIMES.renewed_s + SLACK_S


# REPLICA-24
async def test_others_learn_where_the_holder_is_and_its_term(
    plane: ControlPlane, name: str
) -> None:
    async with Api(read_kubeconfig([plane.kubeconfig("admin")])) as api:
        a, b = (Lease(api, "default", name, who, f"http://{who}") for who in ("a", "b"))
        a.term = 3
        assert await b.look() == LeaseRecord()
        await a.acquire()
        assert await b.look() == LeaseRecord("a", "http://a", 3, TIMES.held_s)
        path = LEASES.path(name, "default")
        await api.change(path, {"metadata": {"annotations": {"other": "kept"}}})
        await a.release()
        assert (await api.get(path))["metadata"]["annotations"] == {
            "other": "kept",
            "muster/term": "3",
            "muster/url": "http://a",
        }
        assert await b.look() == LeaseRecord("", "http://a", 3, seconds=1)
        with trio.fail_after(PATIENCE_S):
            await b.acquire(lambda seen: seen.term == 3)
        assert (await api.get(path))["metadata"]["annotations"] == {
            "other": "kept",
            "muster/term": "3",
            "muster/url": "http://b",
        }


# REPLICA-20
async def test_who_has_seen_another_version_changes_nothing(plane: ControlPlane, name: str) -> None:
    async with Api(read_kubeconfig([plane.kubeconfig("admin")])) as api:
        a, b = (Lease(api, "default", name, who) for who in ("a", "b"))
        await a.acquire()
        old = await api.get(LEASES.path(name, "default"))
        await a.release()
        for version in (None, old):
            assert not await b._swap(version, LeaseRecord("b", seconds=15))  # pyright: ignore[reportPrivateUsage]
        await api.delete(LEASES.path(name, "default"))
        assert not await b._swap(old, LeaseRecord("b", seconds=15))  # pyright: ignore[reportPrivateUsage]
        assert b.trouble is None

        elsewhere = Lease(api, "nowhere", name, "b")
        assert await elsewhere.look() == LeaseRecord()
        with trio.move_on_after(TIMES.renewed_s / 2):
            await elsewhere.acquire()
        assert elsewhere.trouble is not None
        assert "nowhere" in elsewhere.trouble


# REPLICA-20
async def test_a_server_that_says_nothing_does_not_end_the_wait(
    plane: ControlPlane, name: str, nursery: trio.Nursery
) -> None:
    came, came_again = trio.Event(), trio.Event()

    async def serve(_: trio.SocketStream) -> None:
        (came_again if came.is_set() else came).set()
        await trio.sleep_forever()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with Api(read_kubeconfig([plane.kubeconfig("admin", url)])) as api:
        lease = Lease(api, "default", name, "a", times=LeaseTimes(3, 0.2, 1))
        nursery.start_soon(lease.acquire)
        with trio.fail_after(PATIENCE_S):
            await came_again.wait()
        assert lease.trouble == "there is no answer within 0.5 s"
        nursery.cancel_scope.cancel()


# REPLICA-25
async def test_an_option_names_a_lease(plane: ControlPlane, name: str) -> None:
    place = f"kubernetes:default/{name}"
    async with lease_of(place, "a", "http://a", plane.kubeconfig("admin")) as lease:
        await lease.acquire()
        assert lease.is_held
