"""The agent is lost, and what it has run does not end at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.engines.cluster import Cluster
from tests.engines.scheduled.rig import lines, scheduling
from tests.engines.scheduled.test_losses import agents


async def test_command_that_is_deaf_has_ended_before_its_ask_begins_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    script = f"trap '' TERM; while echo $MUSTER_RUN >>{file}; do sleep 0.1; done"
    async with scheduling(cluster, lambda _: script, grace_period=8) as rig:
        app = await rig.scheduler.add_app("app", "root.q")
        await app.add_ask("it", {"vcore": 1})
        await rig.until(lambda: len(lines(file)) > 3)
        (agent,) = agents(cluster)
        os.kill(agent, signal.SIGKILL)

        await rig.until(lambda: len(set(lines(file))) > 1)
        await rig.until(lambda: lines(file).count(max(lines(file), key=lines(file).index)) > 10)
        said = lines(file)
        assert said == sorted(said, key=said.index), "the two have overlapped"
        assert said.count(said[0]) > 40, "it had its grace period"
        await app.remove()
