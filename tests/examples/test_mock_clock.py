"""How a program tests what its scheduler does over time."""

from trio.testing import MockClock

import muster
from muster.testing import check


async def test_notebook_has_its_node_for_an_hour(mock_clock: MockClock) -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.add_node("node-1", {"gpu": 1})
        await scheduler.add_app("notebook", "root.research")
        ask = await scheduler.add_ask("notebook", "n", {"gpu": 1}, run_for="1h")
        allocation = await ask.bound()

        mock_clock.jump(3600)

        assert await allocation.ended() is muster.Reason.COMPLETED
        await check(scheduler)  # the state of the scheduler is consistent
