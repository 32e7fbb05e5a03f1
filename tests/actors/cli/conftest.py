"""Fixtures for the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.cli.helpers import FEED, QUEUES, RANKED, written


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables be as wide as without a terminal, whatever the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Write a feed, and two configurations to compare it under."""
    return {
        "feed": written(tmp_path / "feed.yaml", FEED),
        "a": written(tmp_path / "a.yaml", QUEUES),
        "b": written(tmp_path / "b.yaml", RANKED),
    }
