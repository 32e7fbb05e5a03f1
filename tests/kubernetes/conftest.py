from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

import pytest

from tests.kubernetes.cluster import ControlPlane, control_plane, why_not
from tests.kubernetes.proxy import Proxy, proxy_of
from tests.kubernetes.world import Outside

_LACKS = why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder where there is no API server; one line says why."""
    if _LACKS is not None:
        for item in items:
            if "tests/kubernetes/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason=_LACKS))


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Yield a control plane that the tests of a process share."""
    with control_plane() as one:
        yield one


@pytest.fixture
async def proxy(plane: ControlPlane) -> AsyncGenerator[Proxy]:
    async with proxy_of(plane) as one:
        yield one


@pytest.fixture
async def outside(plane: ControlPlane) -> AsyncGenerator[Outside]:
    """Yield the other users of an empty cluster, beside Muster."""
    outside = Outside(plane)
    await outside.clear()
    yield outside
    await outside.clear()
