"""The machine that owns an application: binds that fail, and work that was not started."""

from __future__ import annotations

import pytest

from muster_core.decisions import Decision, Kind, Reason
from muster_core.owners.app_messages import BindsSpoilt, SpoilBinds, UndoBind, Values
from muster_core.owners.ask_moves import SPOILT_LIMIT
from muster_core.values.application_states import AppState
from tests.core.building import wish
from tests.core.owners.applications import Application, said

# Binds that will fail


def test_binds_that_will_fail_are_counted_down_by_commits() -> None:
    app = Application()
    app.add(wish())
    assert app.spoil("x", 2).actions == (BindsSpoilt("x", 2),)
    app.commit(failed=("x",))
    assert app.spoil("x").actions == (BindsSpoilt("x", 2),)
    app.commit("x", failed=("x", "x"))

    assert app.spoil("x").actions == (BindsSpoilt("x", 1),)


def test_an_ask_that_does_not_exist_cannot_be_spoilt() -> None:
    app = Application()

    message = app.refused(SpoilBinds(app.origin(), "x", 1))
    assert message == "ask: 'x' is no ask of application 'app'"


def test_too_many_failing_binds_are_refused() -> None:
    app = Application()
    app.add(wish())
    app.spoil("x", SPOILT_LIMIT)

    assert app.refused(SpoilBinds(app.origin(), "x", 1)).startswith("times: 1 more")


def test_what_goes_takes_its_failing_binds_along() -> None:
    app = Application()
    app.add(wish())
    app.spoil("x", 5)
    app.withdraw("x")
    app.add(wish())

    assert app.spoil("x").actions == (BindsSpoilt("x", 1),)


def test_what_completes_says_that_no_bind_will_fail() -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")
    app.spoil("x-0", 5)

    assert BindsSpoilt("x-0", 0) in app.release("x-0").actions


# Work that was not started


def test_a_bound_ask_that_was_not_started_is_pending_again() -> None:
    app = Application()
    app.add(wish(count=2, priority=4))
    app.commit("x-0", "x-1")
    before = app.asks["x-0"]
    report = app.undo("x-0")

    assert said(report) == [
        Decision(
            Kind.RELEASED,
            app="app",
            ask="x-0",
            node="n",
            queue="root.a",
            reason=Reason.BIND_FAILED,
        )
    ]
    assert report.values == Values(4, {"vcore": 1}, {"vcore": 1})
    assert (app.asks["x-0"], app.was_bound["x-0"]) == (before, True)
    assert not app.was_bound["x-1"]


def test_no_state_goes_back_when_nothing_was_started() -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")
    app.undo("x-0")
    assert app.state() is AppState.STARTING

    app.commit("x-0")
    app.undo("x-0")
    assert app.state() is AppState.RUNNING


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            "x-1",
            "ask: 'x-1' of application 'app' is not bound; use fail_bind to let its next bind fail",
        ),
        ("y", "ask: 'y' is no ask of application 'app'"),
    ],
)
def test_only_what_is_bound_can_fail_to_start(ask: str, message: str) -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")

    assert app.refused(UndoBind(app.origin(), ask)) == message


def test_what_is_not_started_keeps_the_binds_that_will_fail() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.spoil("x", 2)
    app.undo("x")

    assert app.spoil("x").actions == (BindsSpoilt("x", 3),)
