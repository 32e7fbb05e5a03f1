"""One of several replicas holds the Lease of a real API server."""

from __future__ import annotations

import uuid

import pytest
import trio

from muster._leases import TIMES
from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api
from muster.kubernetes._lease import LEASES, Lease
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.proxy import Proxy

SLACK_S = 10.0
"""How much longer anything may take on a busy machine."""


@pytest.fixture
def name() -> str:
    return f"it-{uuid.uuid4().hex[:8]}"


class Turns:
    """Who works, and since when."""

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
    turns: Turns,
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
    turns = Turns()
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
        while spec["holderIdentity"]:  # The server takes a moment to write what it was told last.
            await trio.sleep(0.05)
            spec = client.get(LEASES.path(name, "default")).json()["spec"]
    assert spec["leaseTransitions"] == 1


async def test_who_is_cut_off_gives_up_before_the_next_begins(
    plane: ControlPlane, proxy: Proxy, name: str, nursery: trio.Nursery
) -> None:
    turns = Turns()
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
