"""The same source makes the same files, wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.install.environments import PROJECT, build

pytestmark = pytest.mark.takes_long

LEFT_OUT = (".git", ".venv*", "build", "dist", "__pycache__", "*.so", ".*_cache", "_build")
DAY_S = 86_400
#: 2026-01-01
EPOCH = 1_767_225_600


def copied(to: Path, *, at: int) -> Path:
    """Copy the source tree to a folder, as if it were made at another instant."""
    shutil.copytree(PROJECT, to, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for path in to.rglob("*"):
        os.utime(path, (at, at))
    return to


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("variables", [{}, {"SOURCE_DATE_EPOCH": str(EPOCH)}])
def test_two_builds_are_the_same(tmp_path: Path, kind: str, variables: dict[str, str]) -> None:
    files: list[Path] = []
    for name, at, mask in (("one", EPOCH, 0o022), ("of another length", EPOCH + 90 * DAY_S, 0o077)):
        source = copied(tmp_path / name, at=at)
        before = os.umask(mask)
        try:
            files.append(build(kind, tmp_path / f"{name} made", source, **variables))
        finally:
            os.umask(before)

    assert files[0].name == files[1].name
    assert digest(files[0]) == digest(files[1])


def test_the_instant_that_is_asked_for_is_that_of_every_file(tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path, SOURCE_DATE_EPOCH=str(EPOCH))
    assert {one.date_time for one in zipfile.ZipFile(wheel).infolist()} == {(2026, 1, 1, 0, 0, 0)}
    with tarfile.open(build("sdist", tmp_path, SOURCE_DATE_EPOCH=str(EPOCH))) as source:
        assert {one.mtime for one in source.getmembers()} == {EPOCH}


def test_a_wheel_of_the_source_distribution_is_that_of_the_tree(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("muster_scheduler-*/")

    made = build("wheel", tmp_path / "of the tree")
    assert digest(build("wheel", tmp_path / "of the source", source)) == digest(made)
