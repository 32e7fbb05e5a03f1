"""The nodes of Ray as nodes of a scheduler.

Runs in any order of what agents say and programs do.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf, nan
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
from hypothesis import Phase, given, settings, strategies as st
from trio.testing import MockClock

import muster
from muster import NotStartedError, Reason
from muster.ray import RayBinder, RayLostError, Result, RunFailedError, WorkError
from muster_core.events import Event
from muster_core.snapshots import NodeSnapshot
from tests.actors.ray.puppets import ONE, Puppet, Stage, connected, followed, node

pytestmark = pytest.mark.usefixtures("watchdog")

HEAD = {"CPU": 0.0, "memory": 1000.0, "node:__internal_head__": 1.0, "object_store_memory": 5.0}


async def nodes(scheduler: muster.Scheduler) -> Mapping[str, NodeSnapshot]:
    return (await scheduler.snapshot()).nodes


async def relist(stage: Stage, *listed: Mapping[str, Any]) -> None:
    """Let the agent list other nodes, and wait until the scheduler knows them."""
    await stage.agent.say("nodes", nodes=listed)
    await stage.ray.survivors()  # the program has read the list
    await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def following(
    folder: Path, *listed: Mapping[str, Any], **options: object
) -> AsyncGenerator[tuple[muster.Scheduler, Stage]]:
    async with (
        connected(folder, *listed, **options) as stage,
        muster.open_scheduler() as scheduler,
        followed(stage.ray, scheduler),
    ):
        yield scheduler, stage


async def test_the_nodes_of_ray_are_those_of_the_scheduler(tmp_path: Path) -> None:
    rich = node(
        "a2",
        resources={
            "CPU": 2.5,
            "GPU": 4.0,
            "memory": 8589934592.0,
            "object_store_memory": 1e9,
            "node:10.0.0.1": 1.0,
            "accelerator_type:T4": 1.0,
            "CPU_group_0_" + "ab" * 18: 1.0,
            "CPU_group_" + "ab" * 18: 1.0,
            "bundle_group_0_" + "ab" * 18: 1000.0,
            "licence": 3.0,
            "half": 0.5,
        },
        labels={"zone": "west"},
    )
    head = node("head", resources=HEAD)
    async with following(tmp_path, node("a1"), rich, head) as (scheduler, _):
        found = await nodes(scheduler)

    assert set(found) == {"a1", "a2"}
    assert found["a1"].capacity == {"vcore": 2000, "memory": 1000}
    assert found["a1"].attributes == {"zone": "east", "ray.io/node-id": "a1"}
    assert found["a2"].capacity == {
        "vcore": 2500,
        "nvidia.com/gpu": 4,
        "memory": 8589934592,
        "licence": 3,
    }
    assert found["a2"].attributes == {"zone": "west", "ray.io/node-id": "a2"}


@pytest.mark.parametrize(
    ("resources", "is_node"),
    [
        (HEAD, False),
        ({**HEAD, "CPU": 1.0}, True),
        ({**HEAD, "own": 1.0}, True),
        ({"memory": 1000.0}, True),
        ({"node:10.0.0.1": 1.0}, False),
        ({}, False),
    ],
)
async def test_what_has_nothing_to_schedule_is_no_node(
    tmp_path: Path, resources: dict[str, float], is_node: bool
) -> None:
    async with following(tmp_path, node("a1", resources=resources)) as (scheduler, _):
        assert ("a1" in await nodes(scheduler)) is is_node


async def test_a_label_may_have_the_names(tmp_path: Path) -> None:
    listed = [node("a1", labels={"name": "one"}), node("a2")]
    async with following(tmp_path, *listed, node_name="name") as (scheduler, stage):
        assert set(await nodes(scheduler)) == {"one", "a2"}

        # The same name with another id is another machine.
        ask = await (await scheduler.add_app("a", "q")).add_ask("k", ONE, node="one")
        allocation = await ask.bound()
        await relist(stage, node("a3", labels={"name": "one"}), node("a2"))
        assert await allocation.ended() is Reason.NODE_LOST
        assert (await nodes(scheduler))["one"].attributes["ray.io/node-id"] == "a3"


async def test_of_two_nodes_with_one_name_one_counts_whatever_the_order(tmp_path: Path) -> None:
    one, two = (node(number, labels={"name": "n"}) for number in ("a1", "a2"))
    async with following(tmp_path, two, one, node_name="name") as (scheduler, stage):
        ask = await (await scheduler.add_app("a", "q")).add_ask("k", ONE)
        allocation = await ask.bound()
        await relist(stage, one, two)

        assert (await nodes(scheduler))["n"].attributes["ray.io/node-id"] == "a1"
        assert allocation.ending is None


async def test_a_name_stays_with_the_node_that_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, three = (node(number, labels={"name": "n"}) for number in ("a1", "a2", "a3"))
    async with following(tmp_path, two, node_name="name") as (scheduler, stage):
        ask = await (await scheduler.add_app("a", "q")).add_ask("k", ONE)
        allocation = await ask.bound()
        for listed in ((one, two), (two, one), (two, node("b1"), one)):
            await relist(stage, *listed)
            assert (await nodes(scheduler))["n"].attributes["ray.io/node-id"] == "a2"
        assert allocation.ending is None
        (warning,) = [text for text in caplog.messages if "same name" in text]
        assert warning == (
            "the nodes a2 and a1 of Ray have the same name 'n', by the label 'name': "
            "the first one has it, the other one is left out"
        )

        await relist(stage, three, one)
        assert await allocation.ended() is Reason.NODE_LOST
        assert (await nodes(scheduler))["n"].attributes["ray.io/node-id"] == "a1"
        assert sum("same name" in text for text in caplog.messages) == 2


async def test_a_name_stays_with_the_node_of_a_store(tmp_path: Path) -> None:
    store = tmp_path / "state"
    one, two = (node(number, labels={"name": "n"}) for number in ("a1", "a2"))
    for number, listed in enumerate(((two,), (one, two))):
        (folder := tmp_path / str(number)).mkdir()
        async with (
            connected(folder, *listed, node_name="name") as stage,
            muster.open_scheduler(store=store) as scheduler,
            followed(stage.ray, scheduler),
        ):
            assert (await nodes(scheduler))["n"].attributes["ray.io/node-id"] == "a2"


async def test_a_head_without_cores_leaves_its_name_to_a_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = node("a0", resources=HEAD, labels={"name": "n"})
    one = node("a1", labels={"name": "n"})
    async with following(tmp_path, head, node_name="name") as (scheduler, stage):
        await relist(stage, head, one)
        assert (await nodes(scheduler))["n"].attributes["ray.io/node-id"] == "a1"
    assert not [text for text in caplog.messages if "same name" in text]


async def test_only_selected_nodes_are_followed(tmp_path: Path) -> None:
    listed = [node("a1", labels={"muster": "yes", "x": "y"}), node("a2"), node("a3", labels={})]
    async with following(tmp_path, *listed, select={"muster": "yes"}) as (scheduler, _):
        assert set(await nodes(scheduler)) == {"a1"}


async def test_resources_may_have_other_names(tmp_path: Path) -> None:
    amounts = {"CPU": 1.0, "GPU": 2.0, "TPU": 8.0, "vcore": 9.0, "google.com/tpu": 7.0}
    names = {"CPU": "vcore", "TPU": "google.com/tpu"}
    async with following(tmp_path, node("a1", resources=amounts), resources=names) as (
        scheduler,
        _,
    ):
        # What would be taken for another one, or has no name, is left out.
        assert (await nodes(scheduler))["a1"].capacity == {"vcore": 1000, "google.com/tpu": 8}


async def test_only_changes_are_submitted(tmp_path: Path) -> None:
    async with following(tmp_path, node("a1"), node("a2")) as (scheduler, stage):
        before = scheduler.statistics().requests
        await relist(stage, node("a2"), node("a1"))
        assert scheduler.statistics().requests == before

        more = node("a1", resources={"CPU": 3.0})
        await relist(stage, more, node("a2"))
        assert (await nodes(scheduler))["a1"].capacity == {"vcore": 3000}
        assert scheduler.statistics().requests == before + 1

        await relist(stage, {**more, "labels": {"zone": "north"}}, node("a2"))
        assert (await nodes(scheduler))["a1"].attributes == {
            "zone": "north",
            "ray.io/node-id": "a1",
        }
        assert scheduler.statistics().requests == before + 2

        await relist(stage, node("a2"), node("a3"))
        assert set(await nodes(scheduler)) == {"a2", "a3"}
        assert scheduler.statistics().requests == before + 4


async def test_a_node_that_drains_takes_no_more_asks(tmp_path: Path) -> None:
    async with following(tmp_path, node("a1"), node("a2", draining=True)) as (scheduler, stage):
        found = await nodes(scheduler)
        assert (found["a1"].schedulable, found["a2"].schedulable) == (True, False)

        allocation = await (await (await scheduler.add_app("a", "q")).add_ask("k", ONE)).bound()
        await relist(stage, node("a1", draining=True), node("a2"))
        found = await nodes(scheduler)
        assert (found["a1"].schedulable, found["a2"].schedulable) == (False, True)
        assert allocation.ending is None


async def test_a_node_that_an_operator_has_closed_stays_closed(tmp_path: Path) -> None:
    async with following(tmp_path, node("a1")) as (scheduler, stage):
        await scheduler.update_node("a1", schedulable=False)
        await relist(stage, node("a1", resources={"CPU": 3.0}))

        found = await nodes(scheduler)
        assert (found["a1"].capacity, found["a1"].schedulable) == ({"vcore": 3000}, False)


async def test_nodes_of_others_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(tmp_path, node("a1"), node("a2")) as stage, muster.open_scheduler() as s:
        await s.add_node("a1", {"vcore": 7})
        await s.add_node("mine", ONE)
        async with followed(stage.ray, s):
            await relist(stage, node("a1"), node("a2"), node("a3"))
            found = await nodes(s)
            assert set(found) == {"a1", "mine", "a2", "a3"}
            assert found["a1"].capacity == {"vcore": 7000}
            assert caplog.text.count("node a1 of Ray: ") == 1

            await s.remove_node("a1")
            await relist(stage, node("a1"), node("a2"))
            assert (await nodes(s))["a1"].capacity == {"vcore": 2000, "memory": 1000}


async def test_a_node_that_is_refused_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = node("b", labels={"name": ""})
    async with following(tmp_path, bad, node("a1"), node_name="name") as (scheduler, stage):
        assert set(await nodes(scheduler)) == {"a1"}
        await relist(stage, bad, node("a1"), node("a2"))
        assert set(await nodes(scheduler)) == {"a1", "a2"}
    assert "node  of Ray: " in caplog.text


async def test_a_node_that_was_removed_by_hand_comes_again_with_the_next_change(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, node("a1")) as (scheduler, stage):
        await scheduler.remove_node("a1")
        await relist(stage, node("a1", resources={"CPU": 3.0}))
        await relist(stage, node("a1", resources={"CPU": 4.0}))
        assert (await nodes(scheduler))["a1"].capacity == {"vcore": 4000}


class RefusingScheduler:
    """A scheduler that refuses events about nodes, as often as a test says."""

    def __init__(self, scheduler: muster.Scheduler) -> None:
        self.snapshot = scheduler.snapshot
        self._scheduler = scheduler
        self.refusals = 0

    async def submit_many(self, events: Iterable[Event]) -> tuple[muster.RefusedError | None, ...]:
        if not self.refusals:
            return await self._scheduler.submit_many(events)
        self.refusals -= 1
        return tuple(muster.RefusedError("not now") for _ in events)


async def test_a_change_that_is_refused_is_tried_again(tmp_path: Path) -> None:
    async with (
        connected(tmp_path, node("a1"), node("a2")) as stage,
        muster.open_scheduler() as scheduler,
        trio.open_nursery() as nursery,
    ):
        books = RefusingScheduler(scheduler)
        await nursery.start(stage.ray.follow, books)
        ask = await (await scheduler.add_app("a", "q")).add_ask("k", ONE, node="a1")
        allocation = await ask.bound()
        books.refusals = 1
        await relist(stage, node("a1", resources={"CPU": 3.0}), node("a2"))
        assert (await nodes(scheduler))["a1"].capacity == {"vcore": 2000, "memory": 1000}

        await relist(stage, node("a1", resources={"CPU": 3.0}), node("a2", draining=True))
        assert (await nodes(scheduler))["a1"].capacity == {"vcore": 3000}
        assert allocation.ending is None

        # It is removed when it goes, also if that was refused once.
        books.refusals = 1
        await relist(stage, node("a2"))
        await relist(stage, node("a2", draining=True))
        assert await allocation.ended() is Reason.NODE_LOST
        assert set(await nodes(scheduler)) == {"a2"}
        nursery.cancel_scope.cancel()


async def test_all_nodes_go_in_one_batch_when_the_agent_is_lost(tmp_path: Path) -> None:
    async with following(tmp_path, node("a1"), node("a2")) as (scheduler, stage):
        ask = await (await scheduler.add_app("a", "q")).add_ask("k", ONE)
        allocation = await ask.bound()
        stage.agent.kill()

        assert await allocation.ended() is Reason.NODE_LOST
        assert await nodes(scheduler) == {}
        again = await stage.agents.next()
        await again.greet(node("a1"))
        assert (await ask.bound()).node == "a1"


@pytest.mark.parametrize("every", [0, -1, nan, inf])
async def test_the_interval_is_checked(tmp_path: Path, every: float) -> None:
    async with connected(tmp_path) as stage, muster.open_scheduler() as scheduler:
        with pytest.raises(muster.EventError, match="every"):
            await stage.ray.follow(scheduler, every=every)


async def test_the_agent_looks_as_often_as_is_wanted(tmp_path: Path) -> None:
    async with (
        connected(tmp_path, node("a1")) as stage,
        muster.open_scheduler() as scheduler,
        trio.open_nursery() as nursery,
    ):

        async def follow() -> None:
            await stage.ray.follow(scheduler, every=0.25)

        nursery.start_soon(follow)
        assert (await stage.agent.expect("follow"))["every_s"] == 0.25
        stage.agent.kill()
        again = await stage.agents.next()
        await again.expect("connect")
        await again.say("connected", ray="2", python="3")
        assert (await again.expect("follow"))["every_s"] == 0.25
        nursery.cancel_scope.cancel()


async def test_workers_are_started_on_nodes_that_come(tmp_path: Path) -> None:
    async with following(tmp_path, node("a1"), warm=2) as (_, stage):
        await stage.agent.expect("follow")
        assert await stage.agent.expect("warm") == {"do": "warm", "node": "a1", "count": 2}
        await relist(stage, node("a1"), node("a2"))
        assert await stage.agent.expect("warm") == {"do": "warm", "node": "a2", "count": 2}


async def test_a_scheduler_from_a_store_keeps_the_nodes_that_are_still_there(
    tmp_path: Path,
) -> None:
    store = tmp_path / "state"
    async with connected(tmp_path, *(node(f"a{n}") for n in (1, 2, 3, 4))) as stage:
        async with (
            muster.open_scheduler(store=store) as scheduler,
            followed(stage.ray, scheduler),
        ):
            await scheduler.add_node("mine", ONE)
            await scheduler.add_app("a", "q")
            for number in (1, 2):
                ask = await scheduler.add_ask("a", f"on-{number}", ONE, node=f"a{number}")
                await ask.bound()
            await scheduler.update_node("a3", schedulable=False)

        await relist(
            stage, node("a1", resources={"CPU": 3.0}), node("a3"), node("a4", draining=True)
        )
        async with (
            muster.open_scheduler(store=store) as scheduler,
            followed(stage.ray, scheduler),
        ):
            found = await nodes(scheduler)
            assert set(found) == {"a1", "a3", "a4", "mine"}
            assert found["a1"].capacity == {"vcore": 3000}
            assert found["a1"].used == {"vcore": 1000}
            assert [found[name].schedulable for name in ("a1", "a3", "a4")] == [True, False, False]
            bound = await scheduler.asks(state="bound")
            assert [ask.name for ask in bound] == ["on-1"]


async def test_a_node_of_a_store_whose_id_has_changed_is_another_one(tmp_path: Path) -> None:
    store = tmp_path / "state"
    async with connected(tmp_path, node("a1", labels={"name": "n"}), node_name="name") as stage:
        async with (
            muster.open_scheduler(store=store) as scheduler,
            followed(stage.ray, scheduler),
        ):
            await (await (await scheduler.add_app("a", "q")).add_ask("k", ONE)).bound()
        await relist(stage, node("a2", labels={"name": "n"}))
        async with muster.open_scheduler(store=store) as scheduler:
            allocation = await scheduler.ask("a", "k").bound()
            async with followed(stage.ray, scheduler):
                assert await allocation.ended() is Reason.NODE_LOST
                assert (await nodes(scheduler))["n"].attributes["ray.io/node-id"] == "a2"


async def test_a_selection_of_no_node_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = {"zone": "east", "ray.io/node-id": "a1"}
    async with following(
        tmp_path, node("a1", labels=made), select={"muster": "yes", "zone": "east"}
    ) as (scheduler, stage):
        assert await nodes(scheduler) == {}
        await relist(stage, node("a1", labels=made), node("a2"))
        message = "no node of Ray has the labels muster=yes, zone=east; there is zone=east"
        assert caplog.messages.count(message) == 1

        await relist(stage, node("a3", labels={"zone": "east", "muster": "yes"}))
        assert set(await nodes(scheduler)) == {"a3"}
        await relist(stage, node("a1", labels=made))
        assert caplog.messages.count(message) == 2


async def test_a_resource_that_no_node_has_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    message = "resources: 'licence': no node of Ray has a resource of this name now"
    names = {"CPU": "vcore", "licence": "seats"}
    rich = node("a2", resources={"CPU": 1.0, "licence": 3.0})
    async with following(tmp_path, node("a1"), resources=names) as (scheduler, stage):
        await relist(stage, node("a1", draining=True))
        assert caplog.messages.count(message) == 1
        await relist(stage, node("a1"), rich)
        assert (await nodes(scheduler))["a2"].capacity == {"vcore": 1000, "seats": 3}
    assert caplog.messages.count(message) == 1


async def test_a_cluster_serves_one_scheduler(tmp_path: Path) -> None:
    async with following(tmp_path, node("a1")) as (scheduler, stage):
        async with muster.open_scheduler() as other:
            with pytest.raises(muster.EventError, match="this connection is followed already"):
                await stage.ray.follow(other)
            assert await nodes(other) == {}
        assert set(await nodes(scheduler)) == {"a1"}


async def test_a_node_without_the_label_of_its_name_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listed = node("head", resources=HEAD, labels={}), node("a1", labels={"name": "left"})
    async with following(tmp_path, *listed, node_name="name") as (_, stage):
        assert not caplog.messages
        await relist(stage, *listed, node("a2"))
    assert caplog.messages == ["node a2 of Ray has no label 'name': its id is its name"]


RUNS: Final = 3
FAST: Final = 100
"""How many virtual seconds are one second, once no more messages come."""
ERRORS: Final[dict[str, type[Exception]]] = {
    "work": WorkError,
    "lost": RunFailedError,
    "not_started": RunFailedError,
    "gate": NotStartedError,
}

Step = tuple[str, int, str]

# Starts are reported often: then some come twice, and some too late.
steps = st.lists(
    st.tuples(
        st.sampled_from(["started"] * 4 + ["begin", "cancel", "ended", "failed", "cancelled"]),
        st.integers(0, RUNS - 1),
        st.sampled_from(sorted(ERRORS)),
    ),
    min_size=6,
    max_size=16,
)


@attrs.define
class Run:
    """A run, with what the test expects of it.

    Attributes:
        allocation: Its allocation.
        id: Its number in the order to the agent; None before it has begun.
        ended: How it should come back, if that is known.
        is_cancelled: Whether the program has cancelled it.
        begun: How often it should report its start.
        scope: Cancelled to cancel it.
        starts: How often it has reported its start.
        outcomes: How it has come back.
    """

    allocation: muster.Allocation
    id: int | None = None
    ended: object = None
    is_cancelled: bool = False
    begun: int = 0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    starts: int = 0
    outcomes: list[object] = attrs.field(factory=list[object])

    def tell(self) -> None:
        self.starts += 1

    async def go(self, binder: RayBinder, results: dict[str, Result]) -> None:
        with self.scope:
            try:
                await binder.run(self.allocation, self.tell)
            except (muster.MusterError, RuntimeError) as error:
                self.outcomes.append(type(error))
            else:
                self.outcomes.append(results[self.allocation.ask])
        if self.scope.cancelled_caught:
            self.outcomes.append("cancelled")


class World:
    """The runs, and the agent that reports them as a test wants."""

    def __init__(
        self,
        stage: Stage,
        nursery: trio.Nursery,
        allocations: Sequence[muster.Allocation],
        clock: MockClock,
    ) -> None:
        self.stage = stage
        self.clock = clock
        self.agent: Puppet = stage.agent
        self.nursery = nursery
        self.runs = [Run(allocation) for allocation in allocations]
        self.results: dict[str, Result] = {}
        self.is_dead = False
        self.binder = RayBinder(
            stage.ray,
            lambda _: "true",
            done=lambda held, result: self.results.update({held.ask: result}),
        )

    async def take(self, step: Step) -> None:
        what, number, how = step
        run = self.runs[number]
        match what:
            case _ if self.is_dead:
                return
            case "begin" if run.id is None:
                self.nursery.start_soon(run.go, self.binder, self.results)
                run.id = (await self.agent.expect("run"))["id"]
            case "cancel" if run.id is not None and not run.is_cancelled:
                run.is_cancelled = True
                run.scope.cancel()
                if run.ended is None:
                    assert (await self.agent.expect("cancel"))["id"] == run.id
            case "die":
                self.is_dead = True
                self.agent.kill()
                self.clock.rate = FAST  # a command that was lost has its grace period
                for one in self.runs:
                    self.end(one, RayLostError)
                return
            case "begin" | "cancel":
                return
            case _:
                await self.report(run, what, how)
        await self.settle()

    async def report(self, run: Run, what: str, how: str) -> None:
        """Let the agent report on a run, which may not have begun, or be over."""
        about = {"id": 10**6 if run.id is None else run.id}
        match what:
            case "started":
                await self.agent.started(about)
                if run.id is not None and run.ended is None and not run.is_cancelled:
                    run.begun = 1
            case "ended":
                status = len(how) + run.begun
                await self.agent.ended(about, status)
                self.end(run, Result(status=status))
            case "failed":
                await self.agent.failed(about, how)
                has_begun = how != "work" or run.begun
                self.end(run, ERRORS[how] if has_begun else RunFailedError)
            case _:
                await self.agent.cancelled(about)
                self.end(run, RunFailedError)

    def end(self, run: Run, how: object) -> None:
        if run.id is not None and run.ended is None:
            run.ended = "cancelled" if run.is_cancelled else how

    async def settle(self) -> None:
        """Wait until the program has read everything, and check how the runs came back."""
        await self.stage.ray.survivors()
        await trio.testing.wait_all_tasks_blocked()
        for run in self.runs:
            assert run.outcomes == ([] if run.ended is None else [run.ended])
            assert run.starts == run.begun


# Each example is a process: making a failure smaller would take longer than it is worth.
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, RUNS), steps)
def test_each_run_comes_back_once_and_as_was_reported_first(early: int, plan: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = MockClock()
        trio.run(play, Path(folder), early, plan, clock, clock=clock)


async def play(folder: Path, early: int, plan: list[Step], clock: MockClock) -> None:
    begun = [("begin", number, "") for number in range(RUNS)]
    async with (
        connected(folder, node("a1", resources={"CPU": float(RUNS)})) as stage,
        muster.open_scheduler() as scheduler,
        followed(stage.ray, scheduler),
    ):
        await stage.agent.order(cancels=False)
        app = await scheduler.add_app("a", "q")
        asks = [await app.add_ask(f"k-{number}", ONE) for number in range(RUNS)]
        async with trio.open_nursery() as nursery:
            world = World(stage, nursery, [await ask.bound() for ask in asks], clock)
            for step in begun[:early] + plan:
                await world.take(step)
            await world.take(("die", 0, ""))
        for run in world.runs:
            assert run.outcomes == ([] if run.id is None else [run.ended])
