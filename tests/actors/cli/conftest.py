"""What every test of a command has around it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables be as wide as without a terminal, whatever the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)
