"""The unit of systemd and the container file: systemd accepts the unit, and the service runs by it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.install.environments import LIMIT_S, PROJECT, build

UNIT: Final = PROJECT / "deploy" / "systemd" / "muster.service"
CONTAINER: Final = PROJECT / "deploy" / "container" / "Dockerfile"
SCRIPT: Final = PROJECT / "tests" / "install" / "started.sh"
SYSTEMD: Final = Path("/lib/systemd/systemd")
NAMESPACES: Final = ("unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc")


def run(*command: str, timeout: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text("utf-8")
    # The program has to be there.
    there = tmp_path / UNIT.name
    there.write_text(text.replace("/opt/muster/bin/muster", shutil.which("true") or ""), "utf-8")

    done = run("systemd-analyze", "verify", str(there))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def can_start() -> bool:
    return (
        SYSTEMD.exists()
        and os.geteuid() == 0
        and all(shutil.which(name) for name in ("unshare", "ip", "systemctl"))
        and run(*NAMESPACES, "true").returncode == 0
    )


@pytest.mark.skipif(not can_start(), reason="systemd, or root who may make namespaces, is missing")
def test_systemd_starts_reloads_and_stops_the_service() -> None:
    where = (str(PROJECT), sys.base_prefix, sysconfig.get_path("purelib"))
    done = run(*NAMESPACES, "bash", str(SCRIPT), *where, timeout=300)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "root.batch" in done.stdout
    lines = done.stdout.splitlines()
    assert "active" in lines
    assert {"ProtectSystem=strict", "ProtectHome=yes", "NoNewPrivileges=yes"} < {*lines}
    assert {"ActiveState=inactive", "Result=success", "ExecMainStatus=0"} < {*lines}
    assert "muster.db" in lines


def test_the_container_is_made_of_what_a_wheel_needs(tmp_path: Path) -> None:
    """The copied files make the same wheel as the whole tree."""
    text = CONTAINER.read_text("utf-8")
    source = tmp_path / "source"
    for words in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE):
        *files, to = words.split()
        for name in files:
            origin, copy = PROJECT / name, source / to
            if origin.is_dir():
                shutil.copytree(origin, copy)
            else:
                copy.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, copy)

    of_the_tree = build("wheel", tmp_path / "tree")
    assert build("wheel", tmp_path / "copied", source).read_bytes() == of_the_tree.read_bytes()


def test_the_container_runs_as_the_user_of_the_manifests() -> None:
    user = re.search(r"^USER (\d+):(\d+)$", CONTAINER.read_text("utf-8"), re.MULTILINE)
    manifest = (PROJECT / "deploy" / "kubernetes" / "deployment.yaml").read_text("utf-8")

    assert user is not None
    assert f"runAsUser: {user[1]}\n" in manifest
    assert f"runAsGroup: {user[2]}\n" in manifest
