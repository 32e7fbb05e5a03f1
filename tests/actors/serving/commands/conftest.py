"""Fixtures for tests of commands: one server for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.actors.serving.served import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with Served(folder, "--state", str(folder / "state"), "--durability", "process") as one:
        yield one


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, served: Served) -> None:
    """Set the environment so that commands ask the server of the module."""
    monkeypatch.setenv("MUSTER_SERVER", served.urls[0])
    monkeypatch.delenv("MUSTER_TOKEN", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
