"""A service in this process, in a thread of its own, with a real socket and a client for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self, final

import httpx
import trio

from muster.service.backends.ray import RayOptions
from muster.service.options import ServeOptions
from muster.service.serve import serve
from tests.actors.serving.served import PATIENCE_S


@final
class Here:
    """A running service, as a context manager.

    Args:
        state: The state directory, or None to keep nothing.
        config: The file of the configuration, or None.
        ray: How commands run on Ray; None if nothing runs commands.
    """

    def __init__(
        self,
        state: Path | None = None,
        config: Path | None = None,
        ray: RayOptions | None = None,
    ) -> None:
        self._options = ServeOptions(
            config=config,
            state=state,
            listen=("127.0.0.1:0",),
            backend=ray,
        )
        self._told: queue.Queue[str | BaseException] = queue.Queue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._ends: trio.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.client: httpx.Client

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._told.put(error)

    async def _serve(self) -> None:
        self._token, self._ends = trio.lowlevel.current_trio_token(), trio.Event()
        await serve(self._options, ends=self._ends, listening=self._listening)

    def _listening(self, addresses: Sequence[str]) -> None:
        self._told.put(addresses[0])

    def __enter__(self) -> Self:
        self._thread.start()
        told = self._told.get(timeout=PATIENCE_S)
        if isinstance(told, BaseException):
            raise told
        self.client = httpx.Client(base_url=told, timeout=PATIENCE_S, trust_env=False)
        self._wait_until_ready()
        return self

    def _wait_until_ready(self) -> None:
        until = monotonic() + PATIENCE_S
        while self.client.get("/readyz").status_code != 200:
            assert monotonic() < until, "the state is not loaded"
            assert self._thread.is_alive(), "the service has ended"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        assert self._token is not None
        assert self._ends is not None
        self._token.run_sync_soon(self._ends.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        while error is None and not self._told.empty():
            left = self._told.get()
            if isinstance(left, BaseException):
                raise left

    def get(self, path: str, status: int = 200, /, **parameters: object) -> dict[str, Any]:
        """Return the answer to a request."""
        known = {name: f"{one}" for name, one in parameters.items() if one is not None}
        response = self.client.get(path, params=known)
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    def all(self, path: str, limit: int = 1000, /, **parameters: object) -> list[dict[str, Any]]:
        """Return all items of a list, page by page."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = self.get(path, 200, limit=limit, after=after, **parameters)
            assert len(page["items"]) <= limit
            found += page["items"]
            after = page["next"]
            if after is None:
                return found
            assert len(page["items"]) == limit
            assert len(found) < 10_000_000

    def post(self, *events: dict[str, object]) -> list[dict[str, Any]]:
        """Send events, all of which are accepted; return the answers."""
        response = self.client.post("/api/v1/events", json=list(events))
        assert response.status_code == 200, response.text
        answers: list[dict[str, Any]] = response.json()
        assert all(one["ok"] for one in answers), answers
        return answers
