"""A detached run in its worker: a callable in a thread that is not the main one."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.ray import runner

PATIENCE_S = 60.0


def job(function: Callable[..., object], *arguments: object) -> dict[str, Any]:
    # What runs in this process need not be sent.
    CALLS["now"] = lambda: function(*arguments)
    return {
        "kind": "call",
        "function": f"{__name__}:call",
        "arguments": pickle.dumps(((), {})),
        "env": {},
        "name": "a/k/1",
        "grace_s": 1.0,
        "gate": None,
    }


CALLS: dict[str, Callable[[], object]] = {}


def call() -> object:
    return CALLS["now"]()


@contextmanager
def begun(function: Callable[..., object], *arguments: object) -> Generator[runner.Detached]:
    """Have a detached run, as its actor has it: the work is in a thread of its own."""
    actor = runner.Detached("", job(function, *arguments), {"node": "n"})
    thread = threading.Thread(target=actor.begin, args=(None,), daemon=True)
    thread.start()
    try:
        yield actor
    finally:
        actor.end()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "it has ended"


def ends(actor: runner.Detached) -> runner.Item:
    """Wait for the last item."""
    (_, last) = actor.items(0, PATIENCE_S)[:1] + actor.items(1, PATIENCE_S)
    return last


def test_the_end_interrupts_a_callable_once() -> None:
    entered = threading.Event()
    leave = threading.Event()
    interrupted = threading.Event()

    def work() -> str:
        entered.set()
        try:
            while True:
                time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted.set()
        while not leave.is_set():  # it saves what it has
            time.sleep(0.001)
        return "saved"

    with begun(work) as actor:
        assert entered.wait(PATIENCE_S)
        actor.end()
        assert interrupted.wait(PATIENCE_S)
        for _ in range(3):  # the agent may ask several times
            actor.end()
        leave.set()

        assert ends(actor) == ("ended", None, pickle.dumps("saved"))


def test_an_interrupt_that_is_not_caught_ends_it() -> None:
    entered = threading.Event()

    def work() -> None:
        entered.set()
        while True:
            time.sleep(0.001)

    with begun(work) as actor:
        assert entered.wait(PATIENCE_S)
        actor.end()

        assert ends(actor)[:2] == ("failed", "KeyboardInterrupt")


def test_an_interrupt_that_python_drops_comes_again() -> None:
    dropped = threading.Event()

    class Drops:
        def __del__(self) -> None:
            dropped.set()
            while True:
                time.sleep(0.001)

    def work() -> None:
        drops = Drops()
        del drops
        while True:
            time.sleep(0.001)

    with begun(work) as actor:
        assert dropped.wait(PATIENCE_S)
        actor.end()

        assert ends(actor)[:2] == ("failed", "KeyboardInterrupt")


def test_an_interrupt_that_comes_too_late_changes_nothing() -> None:
    with begun(lambda: "done") as actor:
        assert ends(actor) == ("ended", None, pickle.dumps("done"))
        actor.end()
        assert actor.about()["state"] == "ended"
        assert ends(actor) == ("ended", None, pickle.dumps("done"))


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_asked_to_end_first_does_not_begin(times: int) -> None:
    actor = runner.Detached("", job(lambda: pytest.fail("it has begun")), {"node": "n"})
    for _ in range(times):
        actor.end()
    actor.begin(None)
    assert actor.items(0, 0.0) == []
