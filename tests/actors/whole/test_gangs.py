"""What anybody outside sees of gangs, whatever comes in: the journal and the snapshots."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from hypothesis import given, strategies as st

import muster
from muster.testing import Interleaving, check
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Snapshot
from tests.actors import real
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.share import share


class Witness:
    """A journal that asserts, decision by decision, what no observer may ever see."""

    def __init__(self) -> None:
        self._satisfied: set[str] = set()
        self._holding: dict[tuple[str, str], str] = {}

    def write(self, batch: Sequence[Announced], /) -> None:
        """Look at the decisions of a batch, each as if it were the last one."""
        for announced in batch:
            self._see(announced.decision)

    def _see(self, decision: Decision) -> None:
        if decision.kind is Kind.GANG_SATISFIED:
            assert decision.gang is not None
            self._satisfied.add(decision.gang)
        if decision.app is None or decision.ask is None:
            return
        key = (decision.app, decision.ask)
        match decision.kind:
            case Kind.BOUND:
                # Nobody sees a member bound before its gang is satisfied.
                assert decision.gang is None or decision.gang in self._satisfied
                assert self._holding.get(key, decision.node) == decision.node
                self._holding[key] = decision.node or ""
            case Kind.WAITING:
                assert key not in self._holding
                self._holding[key] = decision.node or ""
            case Kind.RELEASED:
                # Who is released gives up what it held, and nothing else.
                assert self._holding.pop(key, decision.node) == decision.node
            case _:
                pass


def look(snapshot: Snapshot) -> None:
    """Assert what must be so of gangs between two batches."""
    for app in snapshot.apps.values():
        for ask in app.asks:
            # Who is released, or parked, holds nothing.
            assert (ask.node is None) == (ask.place in {AskPlace.PENDING, AskPlace.PARKED})
            if ask.gang is None:
                assert ask.place in {AskPlace.PENDING, AskPlace.BOUND}
                continue
            gang = snapshot.gangs[ask.gang]
            # Only members of gangs that have timed out are parked, and all that hold nothing.
            held = ask.place in {AskPlace.WAITING, AskPlace.BOUND}
            assert held or gang.timed_out == (ask.place is AskPlace.PARKED)
            assert not (ask.place is AskPlace.WAITING and (gang.satisfied or gang.timed_out))


async def run(scenario: list[Step], seed: int) -> None:
    witness = Witness()
    async with muster.open_simulation(journal=witness, interleave=Interleaving(seed)) as scheduler:

        async def settled() -> None:
            look(await check(scheduler))

        await real.play(scheduler, scenario, settled)
        await scheduler.finish()
        await settled()


@share(0.4)
@given(gang_scenarios(), st.integers(0, 2**16))
def test_what_no_observer_ever_sees(scenario: list[Step], seed: int) -> None:
    trio.run(run, scenario, seed)


async def test_a_gang_is_all_there_or_not_at_all() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(AddNode("n", Resources({"vcore": 3})))
        await scheduler.submit(AddApp("a", "root.q"))
        for name, count in (("default/large", 4), ("default/small", 3)):
            says = GangFields(min_member=count, mode=GangMode.STRICT)
            await scheduler.request(AddGang(name, says))
            ask = name.partition("/")[2]
            one = Resources({"vcore": 1})
            await scheduler.request(AddAsk("a", ask, one, count=count, gang=name))
        snapshot = await check(scheduler)

        assert not snapshot.gangs["default/large"].satisfied
        assert not snapshot.gangs["default/large"].bound
        assert len(snapshot.gangs["default/small"].bound) == 3
        reason = await scheduler.why_pending("a", "large-0")
        assert str(reason).startswith("GangCycleInvalid")
