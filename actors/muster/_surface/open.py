"""Open a scheduler: create its parts and run them for a block."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final, get_args

import attrs

from muster._errors import ClosedSchedulerError
from muster._runtime.announcer import BatchObserver, Journal, Record
from muster._runtime.bindings import Bindings, Work
from muster._runtime.calls import AnyCall, Client, Note, TimerDue
from muster._runtime.clock import Clock, Meter, Pace, Timekeeper, TrioClock, WallClock
from muster._runtime.entry import EntryQueue, run_for_block
from muster._runtime.live_coordinator import LiveCoordinator
from muster._runtime.observers import Observers
from muster._runtime.owners import Interleave
from muster._runtime.store_options import Durability, StoreOptions
from muster._runtime.tracking import AllocationStatus, TrackedAsk
from muster._surface.allocation import BIND_ATTEMPTS, BIND_TIMEOUT_S, Binder, TrioAllocation
from muster._surface.context import opens_in
from muster._surface.conversion import Config, configuration_of
from muster._surface.scheduler import Scheduler
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import EventError, MusterError
from muster_core.snapshots import Statistics
from muster_core.values.resources import parse_age

if TYPE_CHECKING:
    from muster._runtime.storage import Mirror, Storage


CHECKPOINT_EVERY: Final = 50_000
"""The default for after how many events a checkpoint is taken."""

_Run = Callable[[TrioAllocation, Callable[[], None]], Awaitable[None]]


@opens_in("trio", "muster.open_scheduler", elsewhere="muster.asyncio.open_scheduler")
async def open_scheduler(  # noqa: PLR0913 - all that a program may choose
    config: Config | None = None,
    *,
    partition: str | None = None,
    binder: Binder | None = None,
    bind_timeout: float = BIND_TIMEOUT_S,
    bind_attempts: int | None = BIND_ATTEMPTS,
    clock: Clock | None = None,
    journal: Journal | None = None,
    record: Record | None = None,
    store: str | PathLike[str] | None = None,
    durability: Durability = "full",
    checkpoint_every: int = CHECKPOINT_EVERY,
    keep: float | str | None = None,
    interleave: Interleave | None = None,
) -> AsyncGenerator[Scheduler, None]:
    """Run a scheduler for the time of an ``async with`` block.

    When the block ends normally, the scheduler first carries out all calls that it has accepted.
    In any case, calls that still wait raise :class:`ClosedSchedulerError`, the work of the
    binder is cancelled, and no task is left.

    Args:
        config: The first configuration: a loaded one, a text (``str``), the path of a file
            (:class:`os.PathLike`), or maps and lists. Default: only ``root``, without limits.
        partition: The partition to run; default: ``default``, or else the only one.
        binder: Does the work of bound asks; default: none, the program does the work itself.
        bind_timeout: How long the binder may take to start work, in seconds.
        bind_attempts: How often in a row an ask may end as ``bind_failed``, because its work
            could not be started, before Muster removes the ask; None for no limit. Work that was
            started and failed (:class:`WorkFailedError`) does not count, but ends the row.
        clock: The source of the time; default: trio's clock.
        journal: Receives the decisions of each batch, before any caller or observer does. If it
            raises, the scheduler ends and the block raises the exception.
        record: Receives all accepted events and the ends of batches, for a replay.
        store: The state directory, which is made if it is missing. What the scheduler accepts is
            kept there, and nothing is announced before it is. If the directory has a state, the
            scheduler goes on from it; a ``config`` that differs from the one in force comes in as
            ``configure``. Instants then count from the first opening. Default: nothing is kept.
        durability: ``full``: what was announced survives a power cut. ``process``: it survives the
            end of the process, also by ``kill -9``, and costs less.
        checkpoint_every: After how many events a checkpoint is taken, from which the next start
            goes on. If the last one holds more nodes, queues, gangs, applications and asks than
            that, the next one is taken after as many events as it holds.
        keep: How long history is kept: a number of seconds, or a duration such as ``12h`` or
            ``30d``; default: for ever.
        interleave: Awaited by every owner before it reads its mailbox. Tests use it to change
            the order of tasks, on which no decision depends.

    Yields:
        The scheduler.

    Raises:
        OSError: If the configuration is a file that cannot be read.
        ConfigError: If the configuration is refused.
        EventError: If ``bind_timeout``, ``bind_attempts``, ``checkpoint_every`` or ``keep`` is not
            above zero, or ``durability`` is neither of the two.
        RefusedError: If the configuration cannot replace the one that is kept.
        StoreError: If the store cannot be opened, read or written, another process has it, or it
            is damaged. What was announced is kept: mend the cause, and open it again.
        BrokenSchedulerError: If an owner of state fails because of a bug.
    """
    async with open_parts(
        config,
        partition=partition,
        binder=binder,
        bind_timeout=bind_timeout,
        bind_attempts=bind_attempts,
        clock=clock,
        journal=journal,
        record=record,
        store=store_options(store, durability, checkpoint_every, keep),
        interleave=interleave,
    ) as parts:
        yield Scheduler(parts.statistics, parts.client, parts.observers.admit)


@final
@attrs.frozen
class Parts:
    """The parts of a running scheduler.

    Attributes:
        statistics: Returns how much was announced so far.
        client: Sends calls to the coordinator.
        observers: The observers.
        origin_us: Where its time begins, in microseconds of its clock.
        waiting: Returns how many calls wait at the entry.
    """

    statistics: Callable[[], Statistics]
    client: Client
    observers: Observers
    origin_us: int
    waiting: Callable[[], int]


@asynccontextmanager
async def open_parts(  # noqa: PLR0913 - all that a program or a service may choose
    config: Config | None,
    *,
    partition: str | None,
    binder: Binder | None,
    bind_timeout: float,
    bind_attempts: int | None,
    clock: Clock | None,
    journal: Journal | None,
    record: Record | None,
    store: StoreOptions | None,
    interleave: Interleave | None,
    companion: BatchObserver | None = None,
    meter: Meter | None = None,
    comes_in: Callable[[Configuration, int], bool] | None = None,
    mirror: Mirror | None = None,
    follows: bool = False,
) -> AsyncGenerator[Parts, None]:
    """Run the parts of a scheduler; see :func:`open_scheduler`.

    The companion, if there is one, receives every batch before callers and observers do. The meter,
    if there is one, measures batches. If the store has another configuration than the given one,
    ``comes_in`` decides whether the latter comes in; it gets the one in force, and the origin of
    time in microseconds since 1970. The mirror, if there is one, gets batches when they are on
    disk, before they are announced. With ``follows``, only the batches of :class:`Follow` are
    decided, until :class:`Lead`.
    """
    _check_limits(bind_timeout, bind_attempts)
    configuration = configuration_of(config, partition)
    entry: EntryQueue[AnyCall | Note] = EntryQueue()
    observers = Observers()
    pace = Pace()
    client = Client(entry, pace, keeps=store is not None)

    async def send_note(note: Note) -> None:
        # A scheduler that is being closed does not need notes any more.
        with suppress(ClosedSchedulerError):
            await entry.put(note)

    def work_of(run: _Run) -> Work:
        async def work(
            ask: TrackedAsk, held: AllocationStatus, started: Callable[[], None]
        ) -> None:
            await run(TrioAllocation(client, ask, held), started)

        return work

    def bindings_of(binder: Binder) -> Bindings:
        resume: _Run | None = getattr(binder, "resume", None)
        resumed = None if resume is None else work_of(resume)
        return Bindings(work_of(binder.run), bind_timeout, send_note, resumed)

    async def ring() -> None:
        await send_note(TimerDue())

    wanted = None if config is None else configuration.partition
    async with _storage(store, wanted, clock, pace, mirror) as (used_clock, storage):
        # With a store, the configuration is input as any other, so that a replay has it, too.
        facts = None if storage is None else storage.facts
        first = configuration if storage is None else default_configuration()
        machine = CoordinatorMachine(first if facts is None else facts.configuration)
        start_us = used_clock.now_us() if storage is None else storage.origin_us
        coordinator = LiveCoordinator(
            machine=machine,
            journal=journal,
            interleave=interleave,
            pace=pace,
            entry=entry,
            timekeeper=Timekeeper(used_clock, start_us, ring),
            observers=observers,
            bindings=None if binder is None else bindings_of(binder),
            attempts=bind_attempts,
            record=record,
            storage=storage,
            first=None if storage is None or config is None else configuration,
            comes_in=None if comes_in is None else lambda kept: comes_in(kept, start_us),
            companion=companion,
            meter=meter,
            follows=follows,
        )
        ready = None if storage is None else coordinator.ready
        async with run_for_block(coordinator.run, entry.close, ready):
            yield Parts(coordinator.statistics, client, observers, start_us, entry.__len__)


@asynccontextmanager
async def _storage(
    options: StoreOptions | None,
    partition: str | None,
    clock: Clock | None,
    pace: Pace,
    mirror: Mirror | None,
) -> AsyncGenerator[tuple[Clock, Storage | None], None]:
    """Open the store, if there is one; yield it with the clock to use."""
    if options is None:
        yield TrioClock() if clock is None else clock, None
        return
    used = WallClock() if clock is None else clock
    from muster._runtime.storage import open_storage  # noqa: PLC0415 - only who keeps state

    async with open_storage(options, partition, used, pace, mirror) as storage:
        yield used, storage


def store_options(
    store: str | PathLike[str] | None,
    durability: Durability,
    checkpoint_every: int,
    keep: float | str | None,
) -> StoreOptions | None:
    """Return how a store is kept; None without one.

    Raises:
        EventError: If an argument is invalid.
    """
    if durability not in get_args(Durability):
        msg = f"durability: {durability!r}: must be one of {', '.join(get_args(Durability))}"
        raise EventError(msg)
    if type(checkpoint_every) is not int or checkpoint_every < 1:
        msg = f"checkpoint_every: {checkpoint_every!r} events: must be a whole number, 1 or more"
        raise EventError(msg)
    try:
        keep_us = None if keep is None else parse_age(keep)
    except MusterError as error:
        msg = f"keep: {error}"
        raise EventError(msg) from None
    if keep_us == 0:
        msg = f"keep: {keep!r}: must be above 0, or None to keep everything"
        raise EventError(msg)
    if store is None:
        return None
    return StoreOptions(_folder(store), durability, checkpoint_every, keep_us)


def _folder(store: object) -> Path:
    """Return the state directory.

    Raises:
        EventError: If it cannot be the name of a folder.
    """
    try:
        name = os.fspath(cast("str | PathLike[str]", store))
    except TypeError:
        name = None
    if not isinstance(name, str):
        msg = f"store: {store!r}: must be the name of a folder"
        raise EventError(msg)
    if not name:
        msg = "store: the name of the folder is empty"
        raise EventError(msg)
    if "\0" in name:
        msg = f"store: {name!r}: the name of a folder has no character 0"
        raise EventError(msg)
    return Path(name)


def _check_limits(timeout: float, attempts: int | None) -> None:
    if type(timeout) not in {int, float} or not timeout > 0:
        msg = f"bind_timeout: {timeout!r} seconds: must be a number above 0"
        raise EventError(msg)
    if attempts is not None and (type(attempts) is not int or attempts < 1):
        msg = (
            f"bind_attempts: {attempts!r}: must be a whole number, 1 or more, or None for no limit"
        )
        raise EventError(msg)
