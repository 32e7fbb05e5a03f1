"""The two servers of a storm, and the disks under their state."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import httpx
import trio

from tests.actors.serving.served import Served
from tests.pair.proxy import Proxy

PATIENCE_S: Final = 60.0
"""How long a server may take for anything, in seconds."""

SYNC_S: Final = 1.0
"""The ``--sync-timeout``, in seconds."""

_DISK: Final = "512m"
_ROOM: Final = 16 * 1024
_WRONG: Final = re.compile(r"Traceback|\ba bug\b|decides otherwise|damaged")
_OVER: Final = re.compile(r"this one's term \d+ is over|that server is over")
_FULL: Final = re.compile("there is no room on the disk")  # It may take its time to end.


async def becomes_true(
    condition: Callable[[], Awaitable[bool]], within_s: float, pause_s: float = 0.1
) -> bool:
    """Check a condition again and again; return whether it became true in time."""
    with trio.move_on_after(within_s):
        while True:
            if await condition():
                return True
            await trio.sleep(pause_s)
    return False


@final
class Disk:
    """The disk under a state directory, which can be made full where it can be mounted.

    Args:
        folder: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)]
        self.can_be_full = (
            os.geteuid() == 0 and shutil.which("mount") is not None and _succeeds(mount)
        )

    def fill(self) -> None:
        """Leave nearly no room on it."""
        found = os.statvfs(self.folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        self._resize(str(used + _ROOM))

    def free(self) -> None:
        """Make room on it."""
        self._resize(_DISK)

    def _resize(self, size: str) -> None:
        subprocess.run(
            ["mount", "-o", f"remount,size={size}", str(self.folder)],
            check=True,
            timeout=PATIENCE_S,
        )

    def close(self) -> None:
        """Unmount it; all that is on it is lost."""
        if self.can_be_full:
            _succeeds(["umount", str(self.folder)])
            self.can_be_full = False


def _succeeds(command: Sequence[str]) -> bool:
    done = subprocess.run(command, check=False, capture_output=True, timeout=PATIENCE_S)
    return done.returncode == 0


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@final
class Node:
    """One of the two servers, in one life after the other.

    Args:
        name: Its name.
        folder: Where its files are.
        port: Where it listens.
        proxy: The proxy in front of it, for the other server.

    Attributes:
        state: Its state directory.
        disk: The disk under that.
        served: Its process; None if it does not run.
        may_end: Whether it may end by itself.
        fault: Called with a description of each fault.
    """

    def __init__(self, name: str, folder: Path, port: int, proxy: Proxy) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self.proxy = proxy
        self.served: Served | None = None
        self.may_end = False
        self.fault: Callable[[str], None] = print
        self._folder = folder
        self._port = port
        folder.mkdir()
        self.disk = Disk(folder / "disk")
        self.state = self.disk.folder / "state"

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self.served is not None and self.served.process.poll() is None

    async def start(self, leader: Node | None = None) -> None:
        """Start it, to lead or to follow a leader; return when it listens."""
        follow = () if leader is None else ("--follow", leader.proxy.url)
        made = partial(
            Served,
            self._folder,
            *("--state", str(self.state), *follow),
            *("--sync", "strict", "--sync-timeout", f"{SYNC_S:g}s", "--checkpoint-every", "400"),
            listen=(f"127.0.0.1:{self._port}",),
            until_ready=False,
        )
        self.may_end = False
        self.served = await trio.to_thread.run_sync(made)

    async def end(self, number: int = signal.SIGKILL) -> int | None:
        """End it by a signal, unless it has ended; return its exit status, and check its log."""
        served = self.served
        if served is None:
            return None
        had = served.process.poll()
        if number == signal.SIGKILL or had is not None:
            await trio.to_thread.run_sync(served.kill)
        else:
            await trio.to_thread.run_sync(served.stop, number)
        self.served = None
        with (self._folder / "log").open("a", encoding="utf-8") as log:
            log.writelines(
                f"{line}\n" for line in (*served.lines, f"-- {served.process.returncode}")
            )
        wrong = [line for line in served.lines if _WRONG.search(line) and not _OVER.search(line)]
        is_explained = any(_OVER.search(line) or _FULL.search(line) for line in served.lines)
        if had is not None and not self.may_end and not is_explained:
            wrong.append(f"it has ended by itself, with {had}")
        if wrong:
            last = "\n    ".join(served.lines[-12:])
            self.fault(f"{self.name}: {wrong[0]}; its log ends with\n    {last}")
        return served.process.returncode

    def signal(self, number: int) -> None:
        """Send its process a signal, if that runs."""
        if self.served is not None and self.runs:
            self.served.process.send_signal(number)

    def remove_set_aside(self) -> None:
        """Remove the stores that it has set aside."""
        for one in self.state.glob("muster.db.aside-*"):
            one.unlink()

    async def ask(
        self, path: str, method: str = "GET", patience_s: float = 2.0
    ) -> httpx.Response | None:
        """Ask it; return its answer, or None if there is none."""
        try:
            async with httpx.AsyncClient(
                base_url=self.url, timeout=patience_s, trust_env=False
            ) as it:
                return await it.request(method, path)
        except httpx.TransportError:
            return None

    async def replica(self) -> dict[str, Any]:
        """Return what it reports of its role; an empty map if it does not answer."""
        answer = await self.ask("/healthz", patience_s=1.0)
        found: dict[str, Any] = {} if answer is None else answer.json().get("replica", {})
        return found

    async def until_ready(self) -> bool:
        """Wait until it is ready; return whether it is, in time."""

        async def has_answered() -> bool:
            answer = await self.ask("/readyz")
            return not self.runs or (answer is not None and answer.status_code == 200)

        return await becomes_true(has_answered, PATIENCE_S, 0.05) and self.runs
