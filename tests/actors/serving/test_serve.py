"""``muster serve`` begins, answers, and ends as it is told."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.actors.serving.served import Served


def test_it_answers(tmp_path: Path) -> None:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        assert served.client.get("/readyz").json() == {"ready": True, "batch": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_a_signal(tmp_path: Path, number: int) -> None:
    with Served(tmp_path) as served:
        assert served.stop(number) == 0
