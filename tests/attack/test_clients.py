"""Clients that do not behave, of a service that is killed; ``make soak-service`` does it longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.clients import Plan, Run


# STREAM-2, STREAM-3
@pytest.mark.starts_early
# A request that was given up leaves generators of httpx behind.
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_streams_miss_nothing_whatever_is_killed_or_cut(tmp_path: Path) -> None:
    run = Run(tmp_path, Plan(seed=1, answers=150, kills=3))

    await run.run()

    assert run.faults == []
    assert len(run.asks) >= 150
    assert all(len(seen) > 500 for seen in run.seen)
