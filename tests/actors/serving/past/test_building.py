"""A state of the past is the state of then, whatever it is made from."""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Event as Flag

import pytest
from hypothesis import given, strategies as st

from muster.service.input.dry_runs import ClientGoneError
from muster.service.past.spans import history_extent
from muster.service.past.states import rebuild_state
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster.store import StateReader
from muster_core.events import AddApp, AddAsk, AddNode
from tests.actors.kept import ONE, S
from tests.actors.serving.past.keeping import Live, Shown, shown
from tests.naive.back_off_strategies import back_offs
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share


def then(directory: Path, at_us: int) -> Shown:
    """Return what every list says of an instant of the past."""
    with StateReader(directory) as reader:
        number = reader.batch_at(at_us)
    past = rebuild_state(directory, number, Flag())
    assert past.number == number
    # Whoever looks at a later instant before the next batch changes nothing.
    shown(ReadContext(past.machine_at(at_us + 1), past.ledger, past.roll))
    return shown(ReadContext(past.machine_at(at_us), past.ledger, past.roll))


def compare(steps: list[Step], checkpoints: list[int], pruned: float = 0) -> None:
    """Compare every instant of a scenario with what was shown then."""
    with tempfile.TemporaryDirectory() as folder:
        live = Live(Path(folder) / "state", checkpoints)
        live.play(steps)
        instants = list(live.shown)
        if pruned and instants:
            live.keeper.prune(instants[int(len(instants) * pruned)])
        directory = live.close()
        kept = history_extent(directory)
        for at_us, said in live.shown.items():
            if kept is not None and at_us >= kept.first_us:
                assert then(directory, at_us) == said


# PAGE-60
@share(0.2)
@given(scenarios() | operations(), st.lists(st.integers(1, 8), max_size=3))
def test_every_list_shows_what_it_showed_then(steps: list[Step], checkpoints: list[int]) -> None:
    compare(steps, checkpoints)


# PAGE-60
@share(0.2)
@given(gang_scenarios() | evictions() | back_offs(), st.lists(st.integers(1, 8), max_size=3))
def test_with_gangs_evictions_and_timers(steps: list[Step], checkpoints: list[int]) -> None:
    compare(steps, checkpoints)


# PAGE-60
@share(0.1)
@given(scenarios() | gang_scenarios(), st.lists(st.integers(1, 5), min_size=1, max_size=3))
def test_where_the_first_batches_were_removed(steps: list[Step], checkpoints: list[int]) -> None:
    compare(steps, checkpoints, 0.6)


def small(directory: Path) -> Live:
    live = Live(directory, [2])
    live.run(S, [AddNode("n", ONE), AddApp("a", "root.q")])
    live.run(2 * S, [AddAsk("a", "one", ONE, run_for_us=S)])
    live.run(4 * S, [AddAsk("a", "two", ONE)])
    return live


# PAGE-60
def test_decisions_that_are_others_today_are_said(tmp_path: Path) -> None:
    live = small(tmp_path / "state")
    live.keeper.lie(5 * S)
    directory = live.close()

    with pytest.raises(Problem, match="decides otherwise today") as refused:
        rebuild_state(directory, 5, Flag())
    assert refused.value.status == 409


# PAGE-61
def test_it_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()
    gone = Flag()
    gone.set()

    with pytest.raises(ClientGoneError):
        rebuild_state(directory, 4, gone)


def test_it_tells_how_far_it_is(tmp_path: Path) -> None:
    directory = small(tmp_path / "state").close()
    told: list[float] = []

    rebuild_state(directory, 4, Flag(), told.append)
    assert told == [0.5, 1.0]
