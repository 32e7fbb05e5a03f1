"""The estimates of the pending asks of a leaf."""

from __future__ import annotations

from muster_core.values.configuration import Settings
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import Estimates
from tests.core.building import ask, identity

BIT = 3


def test_the_shortest_that_is_pending() -> None:
    app = ViewApp(identity())
    asks = [ask(f"k{s}")._replace(estimate_us=s) for s in (7, 3, 5)]
    for one in asks:
        app.add(one, BIT)
    estimates = Estimates(Settings(), ((app, one, BIT) for one in asks))
    assert estimates.shortest(BIT) == 3
    assert estimates.shortest(BIT + 1) is None

    app.remove(asks[1], BIT)

    assert estimates.shortest(BIT) == 5
    assert [found.name for _, found in estimates.below(BIT, 7)] == ["k5"]


def test_asks_without_an_estimate_have_that_of_the_leaf() -> None:
    app, settings = ViewApp(identity()), Settings(estimate_us=9)
    one = ask("k")
    app.add(one, BIT)

    assert Estimates(settings, [(app, one, BIT)]).shortest(BIT) == 9
    assert Estimates(Settings(), [(app, one, BIT)]).shortest(BIT) is None
    assert not Estimates(settings, []).is_for(Settings())


def test_what_is_added_again_and_again_is_kept_once() -> None:
    app = ViewApp(identity())
    one = ask("k")._replace(estimate_us=5)
    app.add(one, BIT)
    estimates = Estimates(Settings(), [])

    for _ in range(300):
        estimates.add(app, one, BIT)

    assert estimates.shortest(BIT) == 5
    assert len(list(estimates.below(BIT, 6))) < 300
