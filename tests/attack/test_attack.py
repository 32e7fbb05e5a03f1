"""The service survives requests that make no sense; ``make attack`` sends many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.serving.served import Served
from tests.attack.client import attack, faults_after, faults_in_log, read_state
from tests.attack.requests import CONFIG

REQUESTS = 13_000
MALFORMED = 10_000
"""How many of these have a body or a head that makes no sense; others have an odd path or query."""


@pytest.mark.starts_early
async def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    arguments = ("--state", str(tmp_path / "state"), "--durability", "process")
    with Served(tmp_path, *arguments, config=CONFIG) as served:
        host, _, port = served.urls[0].removeprefix("http://").rpartition(":")
        warm = await attack(host, int(port), 99, 500)
        before = read_state(served)

        found = await attack(host, int(port), 1, REQUESTS)

        assert warm.faults + found.faults == []
        assert found.sent == REQUESTS
        kinds = {kind for kind, _ in found.statuses} - {"query_odd", "path_odd"}
        assert sum(n for (kind, _), n in found.statuses.items() if kind in kinds) >= MALFORMED
        assert faults_after(served, before, found.sent) == []
        answers = {status for _, status in found.statuses}
        assert {200, 400, 404, 405, 413, 415, 422} <= answers
        assert served.stop() == 0
    assert faults_in_log(served) == []
