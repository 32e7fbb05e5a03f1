"""One Slurm for all tests that do not change it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engines.slurm import cluster as clusters
from tests.engines.slurm.cluster import Cluster


@pytest.fixture(scope="session")
def slurm_daemons() -> Generator[Cluster]:
    """A Slurm; skips the test where none can be had."""
    reason = clusters.why_not()
    if reason is not None:
        pytest.skip(reason)
    with clusters.cluster() as running:
        yield running


@pytest.fixture
def cluster(slurm_daemons: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The same Slurm, without jobs, and as that of this program."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_daemons.conf))
    monkeypatch.chdir(slurm_daemons.folder / "work")
    slurm_daemons.reset()
    return slurm_daemons
