"""The replica that decides is killed, and the other one goes on; fifty times: ``make replicas``."""

from __future__ import annotations

from tests.kubernetes.cluster import control_plane
from tests.kubernetes.replicas import replicas_of


async def test_the_other_one_decides_soon_after_a_kill() -> None:
    with control_plane() as plane:
        async with replicas_of(plane) as replicas:
            await replicas.kill()
            outcome = await replicas.end()

    assert outcome.faults == []
    assert outcome.bindings == 9
