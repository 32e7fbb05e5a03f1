"""The example of a cluster is what its program makes, and is imported as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.actors.importing.helpers import imported, of

EXAMPLE = Path(__file__).parents[4] / "examples" / "kubernetes"


def test_the_example_is_what_its_program_makes() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "make.py"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == (EXAMPLE / "cluster.yaml").read_text(encoding="utf-8")


def test_every_pod_of_the_example_is_accounted_for(tmp_path: Path) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_bytes((EXAMPLE / "cluster.yaml").read_bytes())
    events, summary = imported("kubernetes", dump)

    left_out = {one["cause"]: one["count"] for one in summary["left_out"] if one["what"] == "pod"}
    assert summary["read"]["pod"] == len(of(events, "add_ask")) + sum(left_out.values())
    assert sorted(gang["min_member"] for gang in of(events, "add_gang")) == [3, 3, 3, 4, 4, 4]
