"""The states of an application in the naive model, and its two timers."""

from __future__ import annotations

from muster_core.decisions import Decision, Kind
from tests.naive.directory import remove_empty
from tests.naive.state import App, World

STARTING_US = 300_000_000
"""A Starting application runs after five minutes, in microseconds."""

COMPLETING_US = 30_000_000
"""A Completing application has completed after 30 seconds, in microseconds."""


def enter(world: World, app: App, state: str, deadline: int | None = None) -> None:
    """Change the state of an application, and say so."""
    app.state = state
    app.deadline = deadline
    world.log.append(Decision(Kind.APP_STATE, app=app.name, queue=app.queue, state=state))


def ask_came(world: World, app: App) -> None:
    """An ask was added."""
    if app.state == "New":
        enter(world, app, "Accepted")
    elif app.state == "Completing":
        enter(world, app, "Running")


def ask_bound(world: World, app: App, now_us: int) -> None:
    """An ask was bound."""
    if app.state == "Accepted" and not app.skips_starting:
        enter(world, app, "Starting", now_us + STARTING_US)
    elif app.state in {"Accepted", "Starting"}:
        enter(world, app, "Running")


def undo_bound(world: World, app: App, now_us: int) -> None:
    """An ask that the rounds of this batch had bound is not: it did not count."""
    rounds = world.rounds
    lines = [
        index
        for index, one in enumerate(world.log)
        if index >= rounds.said and one.kind is Kind.APP_STATE and one.app == app.name
    ]
    app.state, app.deadline = rounds.states[app.name]
    length = len(world.log)
    for ask in rounds.bound:
        if ask.app is app:
            ask_bound(world, app, now_us)
    hold = len(world.log) - length
    del world.log[length:]
    for index in reversed(lines[hold:]):
        del world.log[index]


def ask_gone(world: World, app: App, now_us: int) -> None:
    """An ask completed or was removed."""
    if not app.asks and app.state in {"Accepted", "Starting", "Running"}:
        enter(world, app, "Completing", now_us + COMPLETING_US)


def timers(world: World, now_us: int) -> None:
    """Fire the timers of applications that are due."""
    for app in world.in_queues():
        if app.deadline is None or app.deadline > now_us:
            continue
        if app.state == "Starting":
            enter(world, app, "Running")
        else:
            enter(world, app, "Completed")
            remove_empty(world)
