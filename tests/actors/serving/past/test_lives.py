"""Asks that ended long ago are found in the kept batches (LISTS-16, LISTS-18)."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Flag

import pytest
from hypothesis import given, strategies as st

from muster.service.input.dry_runs import ClientGoneError
from muster.service.ledger.records import EndedAsk, EndedAskFilter
from muster.service.past.states import EndedAskQuery, KeptEndedAsks
from muster_core.events import AddApp, AddAsk, AddNode, Release
from muster_core.resources import Resources
from tests.actors.serving.past.keeping import Live
from tests.naive.back_off_strategies import back_offs
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share

S = 1_000_000
ONE = Resources({"vcore": 1000})
_NOBODY = Flag()


def _all(live: Live) -> list[EndedAsk]:
    """Return all lives that the running service knows, latest first."""
    return [*reversed(live.ledger.book.lives.kept)]


def _entered(live: Live) -> tuple[int, int]:
    return live.machine.batches, live.machine.requests


def _pages(
    past: KeptEndedAsks, wanted: EndedAskFilter, entered: tuple[int, int], most: int
) -> list[EndedAsk]:
    found: list[EndedAsk] = []
    before = 10**9
    while page := past.find(EndedAskQuery(wanted, before, most, entered), _NOBODY):
        found += page
        before = page[-1].seq
    return found


@share(0.3)
@given(
    scenarios() | operations() | back_offs(),
    st.sets(st.integers(1, 12), max_size=4),
    st.integers(1, 7),
)
def test_pages_of_the_kept_history(scenario: list[Step], checkpoints: set[int], most: int) -> None:
    with TemporaryDirectory() as folder:
        live = Live(Path(folder) / "state", checkpoints)
        live.play(scenario)
        known, entered = _all(live), _entered(live)
        past = KeptEndedAsks(live.close())
        assert _pages(past, EndedAskFilter(), entered, most) == known
        for life in known:
            asked = EndedAskQuery(EndedAskFilter(app=life.app, ask=life.ask), 10**9, 1, entered)
            last = next(one for one in known if (one.app, one.ask) == (life.app, life.ask))
            assert past.last(life.app, life.ask, asked, _NOBODY) == last
            since = EndedAskFilter(since_us=life.ended_us)
            expected = [one for one in known if one.ended_us >= life.ended_us]
            assert _pages(past, since, entered, 100) == expected


def _kept(folder: Path) -> tuple[KeptEndedAsks, tuple[int, int]]:
    live = Live(folder / "state", {2, 4})
    live.run(0, [AddNode("n", ONE), AddApp("a", "root.q", "sue")])
    for number in range(6):
        live.run((2 * number + 1) * S, [AddAsk("a", "x", ONE)])
        live.run((2 * number + 2) * S, [Release("a", "x", message=f"{number}")])
    entered = _entered(live)
    return KeptEndedAsks(live.close()), entered


def test_each_life_of_a_name(tmp_path: Path) -> None:
    past, entered = _kept(tmp_path)
    found = _pages(past, EndedAskFilter(user="sue", queue="root"), entered, 4)
    assert [life.message for life in found] == ["5", "4", "3", "2", "1", "0"]
    assert _pages(past, EndedAskFilter(user="bob"), entered, 4) == []
    asked = EndedAskQuery(EndedAskFilter(app="a", ask="x"), found[2].seq, 1, entered)
    last = past.last("a", "x", asked, _NOBODY)
    assert last is not None
    assert last.message == "2"
    assert past.last("a", "y", asked, _NOBODY) is None


def test_it_ends_when_nobody_waits(tmp_path: Path) -> None:
    past, entered = _kept(tmp_path)
    gone = Flag()
    gone.set()
    with pytest.raises(ClientGoneError):
        past.find(EndedAskQuery(EndedAskFilter(), 10**9, 1, entered), gone)
    with pytest.raises(ClientGoneError):
        past.last("a", "x", EndedAskQuery(EndedAskFilter(), 10**9, 1, entered), gone)
