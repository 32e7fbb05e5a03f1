from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

import muster
from muster.config_files import parse_configuration
from muster.testing import Interleaving, Recording, check
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Configure,
    RemoveApp,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields, GangMode, GangState
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.values.application_states import AppState
from tests.actors.program import APP, NODE, ONE, ask, private_attribute

if TYPE_CHECKING:
    from muster._runtime.requests import Examined


SMALL = parse_configuration(
    "partitions: [{name: default, queues: [{name: root, queues: ["
    "{name: q, resources: {max: {vcore: 1m}}}]}]}]"
)


BACKS_OFF = parse_configuration(
    "partitions: [{name: default, queues: [{name: root, queues: ["
    "{name: q, properties: {bind.retry.delay: 1h}}]}]}]"
)


async def counted(interleaving: Interleaving, times: int) -> list[int]:
    counts: list[int] = []
    for _ in range(times):
        before = interleaving.checkpoints
        await interleaving()
        counts.append(interleaving.checkpoints - before)
    return counts


async def test_interleavings_of_one_seed_are_alike() -> None:
    first, second = [await counted(Interleaving(7), 50) for _ in range(2)]

    assert first == second
    assert set(first) == {0, 1, 2, 3}
    assert await counted(Interleaving(8), 50) != first


async def test_interleavings_have_a_limit() -> None:
    assert set(await counted(Interleaving(1, longest=1), 50)) == {0, 1}
    assert set(await counted(Interleaving(1, longest=0), 50)) == {0}


async def test_interleaving_lets_others_run() -> None:
    ran: list[int] = []

    async def other() -> None:
        while True:
            ran.append(1)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await counted(Interleaving(1), 20)
        nursery.cancel_scope.cancel()

    assert len(ran) > 10


def test_recording_keeps_everything_in_order() -> None:
    recording = Recording()
    first, second, third = (Announced(seq, 0, Decision(Kind.CONFIG)) for seq in (1, 2, 3))

    recording.write([first, second])
    recording.write([third])

    assert recording.decisions == [first, second, third]


# The invariants


async def test_check_gives_the_snapshot_and_closes_the_batch() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=6))
        before = await check(scheduler)
        await scheduler.submit(AddApp("b", "root.q"))
        after = await check(scheduler, before)

        assert after == await scheduler.snapshot()
        assert before.nodes["n"].used == {"vcore": 4}
        assert before.apps.keys() == {"a"}
        assert after.apps.keys() == {"a", "b"}


async def test_check_after_closing() -> None:
    async with muster.open_simulation() as scheduler:
        pass

    with pytest.raises(muster.ClosedSchedulerError):
        await check(scheduler)


async def test_lowering_what_is_in_use_is_no_violation() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=3))
        before = await check(scheduler)
        await scheduler.submit(UpdateNode("n", Resources({"vcore": 1})))
        await scheduler.submit(Configure(SMALL))
        after = await check(scheduler, before)

    assert after.nodes["n"].used == {"vcore": 3}
    assert after.queues["root.q"].allocated == {"vcore": 3}


async def test_what_only_limits_refuse_is_no_violation() -> None:
    entry = "{users: [u], maxresources: {vcore: 2}}"
    queues = f"[{{name: a, limits: [{entry}]}}]"
    config = parse_configuration(f"partitions: [{{name: default, queues: {queues}}}]")
    async with muster.open_simulation(config) as scheduler:
        await scheduler.submit(AddNode("n", Resources({"vcore": 90_000})))
        await scheduler.submit(AddApp("of-u", "root.a", "u"))
        await scheduler.submit(AddApp("of-w", "root.a", "w"))
        await scheduler.submit(AddGang("default/g", GangFields(min_member=3, mode=GangMode.STRICT)))
        one = Resources({"vcore": 1000})
        await scheduler.submit(AddAsk("of-u", "m", one, count=3, gang="default/g"))
        await check(scheduler)
        # A shape that comes after the limit was looked at, and that only others have.
        await scheduler.submit(AddAsk("of-w", "large", Resources({"vcore": 100_000})))
        await check(scheduler)

        snapshot = await check(scheduler)

    assert {ask.place for app in snapshot.apps.values() for ask in app.asks} == {AskPlace.PENDING}


async def test_a_queue_that_is_alone_again_is_no_violation() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(AddApp("other", "root.other"))
        await scheduler.submit(ask(count=4))
        await scheduler.submit(AddAsk("a", "elsewhere", ONE, node="nowhere"))
        await check(scheduler)
        await scheduler.submit(RemoveApp("other"))
        after = await check(scheduler)

    assert "root.other" not in after.queues


def take_the_node_too_much(state: Examined) -> None:
    state.machine.view.nodes.nodes["n"].used["vcore"] += 1


def forget_the_order_of_nodes(state: Examined) -> None:
    state.machine.view.nodes.nodes["n"].rank = (0.75, "n")


def let_the_view_forget_an_ask(state: Examined) -> None:
    app = next(iter(state.machine.view.apps.values()))
    app.bound.popitem()


def let_the_view_forget_a_state(state: Examined) -> None:
    app = next(iter(state.machine.view.apps.values()))
    app.state = AppState.ACCEPTED


def let_an_owner_forget_an_ask(state: Examined) -> None:
    private_attribute(next(iter(state.apps.values())), "_places").pending.popitem()


def let_a_queue_forget_a_child(state: Examined) -> None:
    private_attribute(state.queues[1], "_children").popitem()


def let_the_view_forget_a_priority(state: Examined) -> None:
    state.machine.view.queues[1].priority = 7


def let_a_queue_forget_a_sum(state: Examined) -> None:
    private_attribute(state.queues[2], "_pending").clear()


def let_a_name_go(state: Examined) -> None:
    private_attribute(state.machine.registry, "_apps").clear()


def let_a_queue_go(state: Examined) -> None:
    del state.machine.registry.tree.entries["root.q"]


def give_a_node_room(state: Examined) -> None:
    node = state.machine.view.nodes.nodes["n"]
    node.capacity = Resources({"vcore": 9})


@pytest.mark.parametrize(
    "spoil",
    [
        take_the_node_too_much,
        forget_the_order_of_nodes,
        let_the_view_forget_an_ask,
        let_the_view_forget_a_state,
        let_an_owner_forget_an_ask,
        let_a_queue_forget_a_child,
        let_the_view_forget_a_priority,
        let_a_queue_forget_a_sum,
        let_a_name_go,
        let_a_queue_go,
        give_a_node_room,
    ],
)
async def test_check_finds_what_is_wrong(spoil: Callable[[Examined], None]) -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask(count=6))
        await check(scheduler)

        await scheduler.examine(spoil)

        with pytest.raises(AssertionError):
            await check(scheduler)


def let_a_gang_forget_a_member(state: Examined) -> None:
    (gang,) = state.gangs.values()
    private_attribute(gang, "_members").popitem()


def let_a_gang_be_satisfied(state: Examined) -> None:
    (gang,) = state.gangs.values()
    gang.state = GangState.SATISFIED


def let_the_view_forget_that_one_waits(state: Examined) -> None:
    state.machine.view.gangs["default/g"].waiting.popitem()


def let_the_view_forget_that_one_is_parked(state: Examined) -> None:
    state.machine.view.gangs["default/g"].parked[5, "nobody"] = None


def let_the_view_have_another_cycle(state: Examined) -> None:
    state.machine.view.gangs["default/g"].cycle_valid = False


def let_the_register_forget_a_gang(state: Examined) -> None:
    state.machine.admission.gangs.gangs.clear()


def let_a_wait_have_begun_earlier(state: Examined) -> None:
    state.machine.view.gangs["default/g"].since_us = -1


@pytest.mark.parametrize(
    "spoil",
    [
        let_a_gang_forget_a_member,
        let_a_gang_be_satisfied,
        let_the_view_forget_that_one_waits,
        let_the_view_forget_that_one_is_parked,
        let_the_view_have_another_cycle,
        let_the_register_forget_a_gang,
        let_a_wait_have_begun_earlier,
    ],
)
async def test_check_finds_what_is_wrong_with_gangs(spoil: Callable[[Examined], None]) -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        fields = GangFields(6, mode=GangMode.NON_STRICT)
        await scheduler.submit(AddGang("default/g", fields))
        await scheduler.submit(attrs.evolve(ask(count=6), gang="default/g"))
        snapshot = await check(scheduler)
        assert len(snapshot.gangs["default/g"].waiting) == 4

        await scheduler.examine(spoil)

        with pytest.raises((AssertionError, KeyError)):
            await check(scheduler)


async def test_check_finds_what_was_placed_beyond_the_capacity() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        before = await check(scheduler)
        await scheduler.submit(ask(count=3))
        await scheduler.settle()
        await scheduler.submit(UpdateNode("n", Resources({"vcore": 2})))  # a second batch

        with pytest.raises(AssertionError):
            await check(scheduler, before)


async def test_check_finds_what_was_placed_beyond_a_max() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        before = await check(scheduler)
        await scheduler.submit(ask(count=3))
        await scheduler.settle()
        await scheduler.submit(Configure(SMALL))  # a second batch

        with pytest.raises(AssertionError):
            await check(scheduler, before)


async def test_an_examiner_that_asserts_in_vain_does_not_end_the_scheduler() -> None:
    def deny(state: Examined) -> None:
        raise AssertionError(state.snapshot.at_us)

    recording = Recording()
    async with muster.open_simulation(journal=recording) as scheduler:
        with pytest.raises(AssertionError, match=r"^0$"):
            await scheduler.examine(deny)
        await scheduler.submit(AddAsk("nobody", "k", ONE))
        await scheduler.submit(RemoveNode("n"))
    assert [one.decision._replace(message=None).kind for one in recording.decisions] == [
        Kind.REJECTED,
        Kind.REJECTED,
    ]


async def test_an_ask_that_backs_off_is_in_order() -> None:
    async with muster.open_scheduler(BACKS_OFF) as scheduler:
        await scheduler.submit_many(
            [
                AddNode("n", Resources({"vcore": 1000})),
                AddApp("a", "root.q"),
                AddAsk("a", "k", Resources({"vcore": 1000})),
            ]
        )
        await scheduler.submit({"op": "fail_bind", "app": "a", "ask": "k"})
        await scheduler.submit({"op": "bind_failed", "app": "a", "ask": "k"})

        snapshot = await check(scheduler)

    assert [one.place for one in snapshot.apps["a"].asks] == [AskPlace.PENDING]
