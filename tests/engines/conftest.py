"""One small cluster of Ray for all tests that do not change it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engines import cluster as clusters
from tests.engines.cluster import Cluster


@pytest.fixture(scope="session")
def needs_ray() -> None:
    """Skip tests where no cluster of Ray can be had."""
    reason = clusters.why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(needs_ray: None) -> Generator[Cluster]:
    """A cluster with the nodes ``a`` and ``b``, each with 2 CPUs; no test kills anything there."""
    del needs_ray
    with clusters.cluster("a", "b") as running:
        yield running
