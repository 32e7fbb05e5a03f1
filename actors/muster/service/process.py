"""The process of the service: signals, open files, the heartbeat, and files that are read again.

The configuration, the tokens and the certificate are read again while the service runs.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, final

import attrs
import trio

from muster._collector import collect_new
from muster._errors import ClosedSchedulerError
from muster.config_files import read_configuration
from muster.service.access import Access, read_tokens
from muster.service.authentication import TokenAccess
from muster_core.errors import ConfigError, MusterError
from muster_core.events import Configure

if TYPE_CHECKING:
    from muster.service.server.server import Certificate
    from muster.service.state import Service
    from muster_core.config.model import Configuration
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps


_AT_LAST_S: Final = 9.5
"""When the process ends by all means after the first signal, in seconds."""

_BY_SIGNAL: Final = 128
"""What is added to the number of a signal for the exit status of a process that it has ended."""

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@final
class Signals:
    """What the signals of the process mean, as a context manager in its main thread.

    Ctrl-C counts also where it was ignored at the start, as in a background job of a script.

    Attributes:
        ends: Set at the first SIGTERM or SIGINT. A second one ends the process at once.
        rereads: Gives something at each SIGHUP.
    """

    def __init__(self) -> None:
        self.ends = trio.Event()
        self._rereads, self.rereads = trio.open_memory_channel[None](1)
        self._token: trio.lowlevel.TrioToken | None = None
        self._before: dict[int, Any] = {}
        self._is_ending = False

    def __enter__(self) -> Self:
        for number in _ENDING:
            self._before[number] = signal.signal(number, self._end)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reread)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, _leave)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)

    def start(self) -> None:
        """Notify the tasks of this run of trio from now on."""
        self._token = trio.lowlevel.current_trio_token()
        if self._is_ending:
            self.ends.set()

    # ACCESS-15
    def _end(self, number: int, _frame: FrameType | None) -> None:
        if self._is_ending:
            # What was answered is on disk, whenever the process ends.
            os._exit(_BY_SIGNAL + number)
        self._is_ending = True
        signal.setitimer(signal.ITIMER_REAL, _AT_LAST_S)
        if self._token is not None:
            self._token.run_sync_soon(self.ends.set)

    def _reread(self, _number: int, _frame: FrameType | None) -> None:
        if self._token is not None:
            self._token.run_sync_soon(self._request_reread)

    def _request_reread(self) -> None:
        try:
            self._rereads.send_nowait(None)
        except trio.WouldBlock:
            pass  # The files will be read again, after this moment.
        except trio.BrokenResourceError:
            pass  # The service ends.


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


_OTHERS: Final = 200
"""How many files the service has open besides its connections, at most."""


def raise_file_limit(connections: int) -> str | None:
    """Allow as many open files as connections need, as far as the system lets us.

    Args:
        connections: The most open connections.

    Returns:
        What to warn of if there is no room for all of them, or None.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft
    if allowed >= needed:
        return None
    return (
        f"the process may open {allowed} files, too few for {connections} connections: "
        f"raise the limit (ulimit -n, LimitNOFILE) to {needed}"
    )


_EVERY_S: Final = 1.0


# ACCESS-17
async def run_heartbeat(service: Service) -> None:
    """Send a heartbeat to the scheduler each second, and note its answer.

    Between two batches garbage is collected.
    """
    with suppress(ClosedSchedulerError):
        while True:
            service.health.note_probe()
            await service.scheduler.settle()
            service.health.note_answer(service.ledger.batch)
            collect_new()
            await trio.sleep(_EVERY_S)


_LOG: Final = logging.getLogger("muster.service")

LOOK_EVERY_S: Final = 0.5
"""How often files are checked for changes, in seconds."""

Mark: TypeAlias = tuple[int, int, int] | None
"""What changes with a file: its number, its size, and when it was written; None without one."""


@final
@attrs.frozen(eq=False)
class Reloader:
    """Reads files again.

    Attributes:
        service: The service.
        access: Who may do what.
        certificate: The certificate, or None.
        end_without: Ends the answers under way to those who have no token any more; returns how
            many these were.
    """

    service: Service
    access: Access
    certificate: Certificate | None
    end_without: Callable[[Access], int]

    # ACCESS-16
    async def run(self, wanted: trio.MemoryReceiveChannel[None]) -> None:
        """Read all files again whenever it is wanted."""
        async for _ in wanted:
            for what in self._readers():
                await self.read(what)

    # ACCESS-16
    async def watch(self) -> None:
        """Read a file again when it has changed, and has then stayed as it is for a moment."""
        files = self._files()
        known = await trio.to_thread.run_sync(_marks, files)
        before = known
        while True:
            await trio.sleep(LOOK_EVERY_S)
            now = await trio.to_thread.run_sync(_marks, files)
            for what in files:
                if now[what] == before[what] and now[what] != known[what]:
                    await self.read(what)
                    known = {**known, what: now[what]}
            before = now

    def _files(self) -> Mapping[str, Sequence[Path]]:
        options, certificate = self.service.options, self.certificate
        files: dict[str, list[Path | None]] = {
            "tokens": [options.tokens],
            "certificate": [] if certificate is None else [certificate.cert, certificate.key],
            # It waits for the scheduler, and that perhaps for a follower that needs a new token.
            "configuration": [options.config],
        }
        named = {what: [one for one in paths if one is not None] for what, paths in files.items()}
        return {what: paths for what, paths in named.items() if paths}

    def _readers(self) -> Mapping[str, Callable[[], Awaitable[str]]]:
        readers = {
            "configuration": self._read_configuration,
            "tokens": self._read_tokens,
            "certificate": self._read_certificate,
        }
        return {what: readers[what] for what in self._files()}

    async def read(self, what: str) -> None:
        """Read a file again; if it is refused, the content before stays in force.

        Args:
            what: ``configuration``, ``tokens`` or ``certificate``.
        """
        try:
            outcome = await self._readers()[what]()
        except ClosedSchedulerError:
            return  # The service ends.
        except (MusterError, OSError) as error:
            problems = _problems(error)
            self.service.health.note_problems(what, problems)
            for problem in problems:
                _LOG.error(
                    "%s: refused; the one before stays in force: %s", what, problem, extra=_CHANGE
                )
            return
        self.service.health.note_problems(what, ())
        _LOG.info("%s: read again: %s", what, outcome, extra=_CHANGE)

    async def _read_configuration(self) -> str:
        options = self.service.options
        path = options.config
        assert path is not None, "a configuration without a file"
        # REPLICA-7
        if self.service.leadership.leader is not None:
            return "left to the leader"

        def read() -> Configuration:
            return read_configuration(path, partition=options.partition)

        configuration = await trio.to_thread.run_sync(read)
        before = await self.service.inspect(configuration_of)
        file, applied_us = self.service.config_file, self.service.configured_us()

        def compare() -> tuple[bool, str]:
            return file.log_replacement(before, configuration, applied_us)

        # ACCESS-40
        file_replaces, outcome = await trio.to_thread.run_sync(compare)
        if file_replaces:
            await self.service.client.enter(Configure(configuration))
        if file_replaces or configuration == before:
            await trio.to_thread.run_sync(file.note, configuration)
        return outcome

    async def _read_tokens(self) -> str:
        access, path = self.access, self.service.options.tokens
        assert isinstance(access, TokenAccess), "tokens that nobody needs"
        assert path is not None, "tokens without a file"
        tokens = await trio.to_thread.run_sync(read_tokens, path)
        access.take(tokens)
        ended = self.end_without(access)
        cut = f", answers under way that were ended: {ended}" if ended else ""
        return f"in force: {len(tokens.tokens)}{cut}"

    async def _read_certificate(self) -> str:
        assert self.certificate is not None, "a certificate that nobody needs"
        await trio.to_thread.run_sync(self.certificate.read)
        return "new connections get it"


_CHANGE: Final = {"fields": {"what": "change"}}


def configuration_of(machine: CoordinatorMachine) -> Steps[Configuration]:
    """Return the configuration in force."""
    yield
    return machine.configuration


def _problems(error: MusterError | OSError) -> list[str]:
    if isinstance(error, ConfigError):
        return [str(problem) for problem in error.problems]
    if isinstance(error, OSError):
        return [f"{error.filename}: cannot be read: {error.strerror}"]
    return [str(error)]


def _marks(files: Mapping[str, Sequence[Path]]) -> dict[str, tuple[Mark, ...]]:
    return {what: tuple(map(_mark, paths)) for what, paths in files.items()}


def _mark(path: Path) -> Mark:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
