"""``muster serve`` begins, answers, and ends as it is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.serving.served import PATIENCE_S, Served


def test_it_answers(tmp_path: Path) -> None:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        assert served.client.get("/readyz").json() == {"ready": True, "batch": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_a_signal(tmp_path: Path, number: int) -> None:
    with Served(tmp_path) as served:
        assert served.stop(number) == 0


# ACCESS-22: who does not serve needs none of its packages

WITHOUT = """
import sys
for name in ("starlette", "hypercorn", "httpx", "orjson", "prometheus_client"):
    sys.modules[name] = None
from muster.cli._main import main
main(sys.argv[1:])
"""


def without(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the packages of the service are missing."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_package_is_missing() -> None:
    told = without("serve")
    assert (told.returncode, told.stdout) == (2, "")
    assert "is missing: pip install '.[serve]' in a checkout of Muster" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["serve", "--help"], ["token", "new", "ci", "--role", "reader"]]
)
def test_others_do_not_need_it(arguments: list[str]) -> None:
    told = without(*arguments)
    assert told.returncode == 0, told.stderr
    assert told.stdout
