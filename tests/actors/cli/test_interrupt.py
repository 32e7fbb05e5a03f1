from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
import trio

from muster.cli._replay import InterruptHandler


def raise_interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_nothing_happens() -> None:
    before = signal.getsignal(signal.SIGINT)
    with InterruptHandler() as interrupt:
        assert list(interrupt.reads([1, 2])) == [1, 2]

    assert not interrupt.hit
    assert signal.getsignal(signal.SIGINT) is before


def test_while_an_item_is_read() -> None:
    def feed() -> Iterator[int]:
        yield 1
        raise_interrupt()
        yield 2

    with InterruptHandler() as interrupt:
        items = interrupt.reads(feed())
        assert next(items) == 1
        with pytest.raises(KeyboardInterrupt):
            next(items)

    assert interrupt.hit


def test_between_two_items_nothing_more_is_read() -> None:
    """The next read might wait for ever, before the scope that is cancelled is looked at."""
    with InterruptHandler() as interrupt:
        items = interrupt.reads([1, 2])
        next(items)
        raise_interrupt()
        with pytest.raises(KeyboardInterrupt):
            next(items)

    assert interrupt.hit


def test_it_cancels_the_scope() -> None:
    interrupt = InterruptHandler()

    async def run() -> bool:
        with interrupt.scope() as scope:
            raise_interrupt()
            await trio.sleep_forever()
        return scope.cancelled_caught

    with interrupt:
        assert trio.run(run)
    assert interrupt.hit


def test_it_came_before_the_scope() -> None:
    interrupt = InterruptHandler()

    async def run() -> None:
        with interrupt.scope():
            await trio.sleep_forever()

    with interrupt:
        raise_interrupt()
        trio.run(run)


def test_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    interrupt = InterruptHandler()

    async def run() -> None:
        with interrupt.scope() as scope:
            raise_interrupt()
            with trio.CancelScope(shield=True):
                while not scope.cancel_called:
                    await trio.lowlevel.checkpoint()
            assert left == []
            raise_interrupt()

    with interrupt:
        trio.run(run)
    assert left == [130]


def test_where_it_is_ignored_it_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with InterruptHandler() as interrupt:
            raise_interrupt()
            assert list(interrupt.reads([1, 2])) == [1, 2]
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)

    assert not interrupt.hit


def test_in_another_thread_it_is_not_ours() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with InterruptHandler() as interrupt:
            seen.append(list(interrupt.reads([1])))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == [[1]]
    assert signal.getsignal(signal.SIGINT) is before
