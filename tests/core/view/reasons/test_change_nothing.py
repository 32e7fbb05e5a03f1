"""Explaining asks changes nothing: neither what is known nor what is decided afterwards."""

from __future__ import annotations

from hypothesis import given
from typing_extensions import override

from muster_core.reasons import Code, Explanation
from muster_core.snapshots import AskPlace
from tests.core.tree import Tree
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Scenario
from tests.naive.strategies import scenarios
from tests.share import share

NOTES = {Code.DRAINING, Code.USER_NOT_ALLOWED}
SOLE = {AskPlace.WAITING: Code.PERMIT_WAITING, AskPlace.PARKED: Code.GANG_TIMED_OUT}


class Asking(Tree):
    """A scheduler that is asked of everything after each batch, twice."""

    @override
    def _end(self) -> None:
        super()._end()
        if not self._open:
            first = self.explain_all()
            self.check()
            assert self.explain_all() == first

    def explain_all(self) -> list[Explanation]:
        found: list[Explanation] = []
        for app, ask in self.machine.pending():
            explanation = self.machine.explain(app, ask)
            assert explanation is not None
            make_sense_of(explanation)
            self._compare_code(explanation)
            found.append(explanation)
        return found

    def _compare_code(self, explanation: Explanation) -> None:
        """Compare the dominant reason with what is found for many asks together."""
        view, dominant = self.machine.view, explanation.dominant.code
        key = self.machine.registry.app_key(explanation.app)
        app, ask = view.apps[key], explanation.ask
        assert view.explainer.dominant(app, ask, self.machine.now_us) is dominant
        if explanation.place is AskPlace.PENDING:
            found = app.find(ask)
            assert found is not None
            possible = view.explainer.dominants.possible(app, found)
            assert possible is None or dominant in possible


def make_sense_of(explanation: Explanation) -> None:
    codes = [reason.code for reason in explanation.reasons]
    # Each once, in the order in which they matter, and one at least that keeps it from running.
    assert codes == [code for code in Code if code in codes]
    assert set(codes) - NOTES
    sole = SOLE.get(explanation.place)
    assert codes == [sole] if sole else not set(codes) & set(SOLE.values())
    # The ways are compared where another one is tried before it, and they part in the end.
    assert bool(explanation.levels) == (Code.NOT_YOUR_TURN in codes)
    for level in explanation.levels[:-1]:
        assert level.own == level.other
        assert not any(key.decides or key.own != key.other for key in level.keys)
    for level in explanation.levels[-1:]:
        assert level.own != level.other
        (decisive,) = (key for key in level.keys if key.decides)
        assert decisive.own != decisive.other
    assert all(reason.message for reason in explanation.reasons)


@share(0.15)
@given(scenarios() | gang_scenarios() | evictions())
def test_the_same_is_decided_whether_anybody_asks_or_not(scenario: Scenario) -> None:
    assert Asking().run(scenario) == Tree().run(scenario)
