"""The machine that owns an application: work that fails, retries, and rows of failed binds."""

from __future__ import annotations

import pytest

from muster_core.decisions import Decision, Kind, Reason
from muster_core.owners.app_messages import (
    AppReport,
    CommitApp,
    FailAsk,
    FailureCount,
    LoseNode,
    ReleaseAsk,
    UndoBind,
)
from muster_core.owners.asks import FailedBinds
from muster_core.values.application_states import AppState
from tests.core.building import wish
from tests.core.owners.applications import Application, said


def fail(app: Application, ask: str = "x", message: str | None = None) -> AppReport:
    return app.tell(FailAsk(app.origin(), ask, message))


def row(report: AppReport) -> list[FailureCount]:
    return [action for action in report.actions if isinstance(action, FailureCount)]


def released(reason: Reason, message: str | None = None) -> Decision:
    return Decision(
        Kind.RELEASED,
        app="app",
        ask="x",
        node="n",
        queue="root.a",
        reason=reason,
        message=message,
    )


def test_an_ask_that_failed_is_pending_again_with_one_retry_less() -> None:
    app = Application()
    app.add(wish(retries=2, run_for_us=7))
    app.commit("x")
    before = app.asks["x"]
    report = fail(app, message="exit status 3")

    assert said(report) == [released(Reason.FAILED, "exit status 3")]
    assert app.asks["x"] == before._replace(retries=1)
    assert app.was_bound["x"]
    assert app.state() is AppState.STARTING
    assert row(report) == [FailureCount("x", FailedBinds(1, 0))]


def test_an_ask_without_a_retry_is_gone() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.spoil("x")
    report = fail(app, message="exit status 3")

    assert said(report)[0] == released(Reason.FAILED, "exit status 3")
    assert app.machine.snapshot().asks == ()
    assert app.state() is AppState.COMPLETING


def test_the_last_retry() -> None:
    app = Application()
    app.add(wish(retries=1))
    app.commit("x")
    fail(app)
    app.commit("x")

    assert row(fail(app)) == [FailureCount("x", None)]
    assert app.machine.snapshot().asks == ()


# BACKOFF-11
@pytest.mark.parametrize("message", ["all done", " a\n", ""])
def test_what_a_completed_ask_has_to_say(message: str) -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    report = app.tell(ReleaseAsk(app.origin(), "x", message))

    assert said(report)[0] == released(Reason.COMPLETED, message)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ("x-1", "ask: 'x-1' of application 'app' is not bound; use remove_ask"),
        ("y", "ask: 'y' is no ask of application 'app'"),
    ],
)
def test_only_what_is_bound_can_fail(ask: str, message: str) -> None:
    app = Application()
    app.add(wish(count=2, retries=1))
    app.commit("x-0")

    assert app.refused(FailAsk(app.origin(), ask)) == message
    assert [one.retries for one in app.machine.snapshot().asks] == [1, 1]


def test_a_row_goes_on_until_the_ask_loses_its_node() -> None:
    app = Application()
    app.add(wish(retries=5))
    app.commit("x")
    assert row(app.undo("x")) == [FailureCount("x", FailedBinds(1, 0))]
    app.commit("x")
    assert row(fail(app)) == [FailureCount("x", FailedBinds(2, 0))]
    assert app.machine.snapshot().asks[0].failed_binds == 2

    app.commit("x")
    assert row(app.tell(LoseNode(app.origin(), "n"))) == [FailureCount("x", None)]
    app.commit("x")
    assert row(app.tell(UndoBind(app.origin(), "x"))) == [FailureCount("x", FailedBinds(1, 0))]


def test_commits_bring_the_rows_of_the_rounds() -> None:
    app = Application()
    app.add(wish())
    app.machine.handle(CommitApp(in_a_row=(("x", FailedBinds(3, 44)),)))
    shown = app.machine.snapshot().asks[0]
    assert (shown.failed_binds, shown.last_failed_us) == (3, 44)

    app.machine.handle(CommitApp(in_a_row=(("x", None),)))
    shown = app.machine.snapshot().asks[0]
    assert (shown.failed_binds, shown.last_failed_us) == (0, None)


def test_what_goes_takes_its_row_along() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.undo("x")

    assert row(app.withdraw("x")) == [FailureCount("x", None)]
    app.add(wish())
    app.commit("x")
    assert row(app.undo("x")) == [FailureCount("x", FailedBinds(1, 0))]
