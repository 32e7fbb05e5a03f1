"""What a user or a group has of a limit."""

from __future__ import annotations

import attrs

from muster_core.config.model import LimitEntry, Limits
from muster_core.structures.shapes import ShapeTable
from muster_core.values.application_states import AppState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import LimitKey, ViewLimit
from tests.core.building import ask, identity, shape


def limit(applications: int = 0, **most: int) -> ViewLimit[ViewApp]:
    entry = LimitEntry(users=("u",), max=Limits.of(most), max_applications=applications)
    return ViewLimit(LimitKey(1, of_group=False, name="u"), "root", entry)


def app(key: int = 1, *, runs: bool = False, **allocated: int) -> ViewApp:
    made = ViewApp(identity(key), allocated=dict(allocated))
    made.state = AppState.RUNNING if runs else AppState.ACCEPTED
    return made


def test_the_sum_of_all_applications_counts() -> None:
    made = limit(vcore=5)
    one, two = app(1, vcore=2), app(2, vcore=1, memory=7)
    made.add(one)
    made.add(two)
    made.check(ShapeTable())

    assert made.used == {"vcore": 3, "memory": 7}
    assert made.admits_more(ask(vcore=2))
    assert not made.admits_more(ask(vcore=3))

    made.remove(one)
    made.check(ShapeTable())
    assert made.admits_more(ask(vcore=3))


def test_a_type_that_is_not_named_is_not_limited_and_0_allows_nothing() -> None:
    made = limit(vcore=1, gpu=0)

    assert made.admits_more(ask(memory=10**15))
    assert not made.admits_more(ask(gpu=1))


def test_who_is_over_a_lowered_limit_may_ask_for_other_types() -> None:
    made = limit(vcore=1)
    made.add(app(vcore=9))

    assert not made.admits_more(ask(vcore=1))
    assert made.admits_more(ask(memory=1))


def test_it_refuses_the_shapes_that_do_not_fit() -> None:
    shapes, made = ShapeTable(), limit(vcore=5)
    small, large = shapes.add(shape(vcore=1)), shapes.add(shape(vcore=4))
    made.add(app(vcore=2))

    assert made.refresh(shapes)
    assert made.refuses == 1 << large != 1 << small
    assert not made.refresh(shapes), "nothing has changed"


def test_without_maxresources_it_refuses_nothing() -> None:
    shapes, made = ShapeTable(), limit(applications=1)
    shapes.add(shape(vcore=10**15))

    assert not made.refresh(shapes)
    assert made.refuses == 0


def test_gangs_that_are_offered_together_are_never_refused() -> None:
    shapes, made = ShapeTable(), limit(vcore=1)
    shapes.add(attrs.evolve(shape(vcore=9), members=9))

    assert not made.refresh(shapes)


def test_it_is_full_while_as_many_run_as_may() -> None:
    made = limit(applications=1)
    runs = app(1, runs=True)
    made.add(runs)
    assert made.refresh(ShapeTable()), "who does not run must wait"

    waits = app(2)
    waits.limits = runs.limits = (made,)
    assert waits.must_wait()
    assert not runs.must_wait()

    made.remove(runs)
    assert not waits.must_wait()


def test_0_applications_are_no_limit() -> None:
    made = limit(vcore=1)
    made.add(app(runs=True))

    assert not made.is_full
