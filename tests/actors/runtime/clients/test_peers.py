"""How many members of a gang were bound in one step, and which step that was."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trio.testing import wait_all_tasks_blocked

import muster
from tests.actors.service import Worker, service

ONE: Final = {"vcore": 1}


def told(worker: Worker) -> dict[str, tuple[int, int]]:
    """Give what each run was told of its peers; the last run of an ask counts."""
    last = {run.allocation.ask: run.allocation for run in worker.runs}
    return {ask: (last[ask].peers, last[ask].step) for ask in sorted(last)}


async def test_an_ask_alone(worker: Worker) -> None:
    async with service(binder=worker) as scheduler:
        await scheduler.add_ask("a", "k", ONE)
        await wait_all_tasks_blocked()

        assert told(worker) == {"k": (1, worker.last.allocation.number)}


async def test_the_members_of_a_gang(worker: Worker) -> None:
    async with service(cores=4, binder=worker) as scheduler:
        await scheduler.add_ask("a", "before", ONE)
        await scheduler.add_gang("g", 3)
        await scheduler.add_asks("a", "k", ONE, 3, gang="g")
        await wait_all_tasks_blocked()

        before = worker.of("before").allocation.number
        first = worker.of("k-0").allocation.number
        assert before < first
        assert told(worker) == {
            "before": (1, before),
            "k-0": (3, first),
            "k-1": (3, first),
            "k-2": (3, first),
        }


async def test_a_member_that_comes_later_is_alone(worker: Worker) -> None:
    async with service(cores=4, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        # Of one batch: the third member is bound after the gang, as a plain ask.
        await scheduler.add_asks("a", "k", ONE, 3, gang="g")
        await scheduler.add_ask("a", "late", ONE, gang="g")
        await wait_all_tasks_blocked()

        assert [peers for peers, _ in told(worker).values()] == [2, 2, 1, 1]
        assert len({step for _, step in told(worker).values()}) == 3


async def test_each_gang_of_a_group(worker: Worker) -> None:
    async with service(cores=3, binder=worker) as scheduler:
        for gang in ("g", "h"):
            await scheduler.add_gang(gang, 1 if gang == "g" else 2, groups=["g", "h"])
        await scheduler.add_ask("a", "k", ONE, gang="g")
        await scheduler.add_asks("a", "m", ONE, 2, gang="h")
        await wait_all_tasks_blocked()

        assert {name: peers for name, (peers, _) in told(worker).items()} == {
            "k": 1,
            "m-0": 2,
            "m-1": 2,
        }


async def test_a_member_that_failed_comes_back_alone(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
        worker.of("k-0").finish(OSError("no"))
        await wait_all_tasks_blocked()

        assert told(worker)["k-0"][0] == 1


async def test_a_gang_that_is_bound_again(worker: Worker) -> None:
    async with service(cores=2, binder=worker) as scheduler:
        await scheduler.add_gang("g", 2)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
        before = told(worker)
        await scheduler.remove_node("n")
        await scheduler.add_node("n", {"vcore": 2})
        await wait_all_tasks_blocked()

        assert [peers for peers, _ in told(worker).values()] == [2, 2]
        assert told(worker)["k-0"][1] > before["k-0"][1]
        assert told(worker)["k-0"][1] == told(worker)["k-1"][1]


async def test_without_a_binder() -> None:
    async with service(cores=3) as scheduler:
        await scheduler.add_gang("g", 2)
        asks = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        allocations = [await ask.bound() for ask in asks]

        assert [allocation.peers for allocation in allocations] == [2, 2]


async def test_a_handle_that_is_made_later(worker: Worker, tmp_path: Path) -> None:
    async with service(cores=2, binder=worker, store=tmp_path) as scheduler:
        await scheduler.add_gang("g", 2)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await wait_all_tasks_blocked()
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        (ask, _) = await scheduler.asks(app="a")
        allocation = await ask.bound()

        assert (allocation.peers, allocation.step) == (2, 0)
