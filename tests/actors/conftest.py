"""Fixtures of several test modules: real processes, a binder, a journal."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from muster.testing import Recording
from tests.actors.processes import Fifo
from tests.actors.service import Worker


@pytest.fixture
def watchdog() -> Generator[None]:
    """Fail tests that hang, by the real clock."""

    def bark(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
async def marks(tmp_path: Path) -> AsyncGenerator[Fifo]:
    """A FIFO from jobs to the test."""
    fifo = Fifo(tmp_path / "marks")
    yield fifo
    await fifo.stream.aclose()


@pytest.fixture
async def go(tmp_path: Path) -> AsyncGenerator[Fifo]:
    """A FIFO from the test to jobs."""
    fifo = Fifo(tmp_path / "go")
    yield fifo
    await fifo.stream.aclose()


@pytest.fixture
def worker() -> Worker:
    """A binder."""
    return Worker()


@pytest.fixture
def log() -> Recording:
    """A journal."""
    return Recording()
