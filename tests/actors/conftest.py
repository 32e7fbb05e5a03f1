"""What tests of real processes have around them; others do not ask for it."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from tests.actors.processes import Fifo


@pytest.fixture
def watchdog() -> Generator[None]:
    """Fail what hangs, whatever trio's clock says."""

    def bark(_number: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
async def marks(tmp_path: Path) -> AsyncGenerator[Fifo]:
    """What jobs tell the test."""
    fifo = Fifo(tmp_path / "marks")
    yield fifo
    await fifo.stream.aclose()


@pytest.fixture
async def go(tmp_path: Path) -> AsyncGenerator[Fifo]:
    """What the test tells jobs."""
    fifo = Fifo(tmp_path / "go")
    yield fifo
    await fifo.stream.aclose()
