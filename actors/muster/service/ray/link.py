"""The connection of the service to Ray: it is made anew until it stands."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster.ray import Cluster, RayLostError, connect
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster.service.options import RayOptions

_LOG: Final = logging.getLogger("muster.service")

_LONGEST_S: Final = 30.0
"""How long it rests at most between two attempts to connect, in seconds."""

NAMESPACE: Final = "muster"
"""The namespace of the runs in Ray, if none is named."""


class NoRayError(MusterError):
    """Ray cannot be reached, or what speaks to it cannot run."""


@final
@attrs.frozen
class RayState:
    """How the service stands with Ray.

    Attributes:
        connected: Whether it is connected.
        restarts: How often what speaks to Ray was started again, after it was lost.
        detail: Why it is not connected, as far as that is known; None if it is.
    """

    connected: bool
    restarts: int
    detail: str | None

    # RAY-7
    def as_map(self) -> dict[str, object]:
        """Return it as ``/healthz`` tells it."""
        told: dict[str, object] = {"connected": self.connected, "restarts": self.restarts}
        return told if self.detail is None else {**told, "detail": self.detail}


@final
class RayLink:
    """The connection to Ray.

    Args:
        options: Where the cluster is, and how it is spoken to.
    """

    def __init__(self, options: RayOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None
        self._connected = trio.Event()
        self._failure = "no attempt has ended yet"

    def state(self) -> RayState:
        """Return how the service stands with Ray."""
        cluster = self._cluster
        if cluster is None:
            return RayState(False, 0, self._failure)
        return RayState(cluster.is_connected, cluster.restarts, cluster.trouble)

    # RAY-6
    async def run(
        self,
        *,
        insists: bool,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Connect to Ray, and stay so until this is cancelled.

        Args:
            insists: Whether Ray must be there now; otherwise it is tried again and again.
            task_status: Told when it is connected.

        Raises:
            NoRayError: If Ray must be there and is not.
        """
        for rest_s in _rests():
            try:
                await self._stay(task_status)
            except (MusterError, OSError, ImportError) as error:
                if self._cluster is not None:
                    raise
                self._failure = self._told(error)
                if insists:
                    raise NoRayError(self._failure) from None
                _LOG.error("%s; it is tried again in %g s", self._failure, rest_s)
            await trio.sleep(rest_s)

    async def _stay(self, task_status: trio.TaskStatus[None]) -> None:
        options = self._options
        async with connect(
            self.address,
            namespace=options.namespace or NAMESPACE,
            python=sys.executable if options.python is None else str(options.python),
            node_name=options.node_name,
            select=dict(options.select),
            warm=options.warm,
            log_to_driver=False,  # it is the output of all commands
        ) as cluster:
            self._cluster = cluster
            self._connected.set()
            task_status.started()
            await trio.sleep_forever()

    @property
    def address(self) -> str:
        """The address of the cluster."""
        return self._options.address or "auto"

    def _told(self, error: Exception) -> str:
        """Return in words why Ray cannot be reached."""
        if isinstance(error, ImportError) and self._options.python is None:
            return (
                f"the package {error.name or 'ray'} is missing: "
                "pip install '.[serve,ray]' in a checkout of Muster"
            )
        return f"--run ray: {error}"

    async def cluster(self) -> Cluster:
        """Wait until there is a connection, and return it.

        Raises:
            RayLostError: If there is none for too long.
        """
        with trio.move_on_after(self._options.patience_s):
            await self._connected.wait()
        if self._cluster is None:
            raise RayLostError(self._failure)
        return self._cluster

    async def connected(self) -> Cluster:
        """Wait until there is a connection, however long that takes, and return it."""
        await self._connected.wait()
        assert self._cluster is not None, "it is noted before"
        return self._cluster


def _rests() -> Iterator[float]:
    rest_s = 1.0
    while True:
        yield rest_s
        rest_s = min(2 * rest_s, _LONGEST_S)
