"""A lease in a file: several candidates, files that cannot be used, disks that fail or hang."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from muster._leases import TIMES, LeaseRecord, LeaseTimes
from muster.service.replication.election import FileLease, LeaseError, lease_of
from muster_core.errors import MusterError
from tests.actors.serving.served import PATIENCE_S
from tests.actors.store.faults import FULL, IOERR_FSYNC, READONLY, Disk, failing_disk, library

SHORT: Final = LeaseTimes(held_s=3, renewed_s=0.2, given_up_s=2.0)
"""The times of leases in processes, whose clocks are real."""

SLACK_S: Final = 10.0
"""How much longer anything may take on a busy machine."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lease"


@pytest.fixture
def disk() -> Generator[Disk]:
    sqlite = library()
    if sqlite is None:
        pytest.skip("SQLite is a part of Python here")
    with failing_disk(sqlite) as one:
        yield one


async def pass_until(clock: MockClock, condition: Callable[[], bool]) -> None:
    """Let virtual time pass until a condition holds; threads have time to answer meanwhile."""
    with trio.fail_after(10 * TIMES.held_s):
        while not condition():
            await wait_all_tasks_blocked(0.01)
            clock.jump(0.25)


# -- the holder ---------------------------------------------------------------------------------


# REPLICA-24, REPLICA-25
async def test_others_read_what_the_holder_writes(path: Path) -> None:
    a, b = FileLease(path, "a", "http://a"), FileLease(path, "b", "http://b")
    assert await b.look() == LeaseRecord()
    a.term = 7
    await a.acquire()

    assert await b.look() == LeaseRecord("a", "http://a", 7, TIMES.held_s)
    assert not b.is_held


# REPLICA-23, REPLICA-25
async def test_who_releases_it_lets_another_one_have_it(path: Path) -> None:
    a, b = FileLease(path, "a", "http://a"), FileLease(path, "b", "http://b")
    await a.acquire()
    await a.release()
    with trio.fail_after(PATIENCE_S):
        await b.acquire()

    assert b.is_held
    assert await a.look() == LeaseRecord("b", "http://b", 0, TIMES.held_s)


# REPLICA-20, REPLICA-25
async def test_of_many_who_exchange_a_record_at_once_one_does(
    path: Path, nursery: trio.Nursery
) -> None:
    leases = [FileLease(path, f"holder-{n}") for n in range(4)]
    done: list[str] = []

    async def exchange(lease: FileLease) -> None:
        for _ in range(20):
            found = await lease._read()  # pyright: ignore[reportPrivateUsage]
            version = None if found is None else found[1]
            if await lease._swap(version, LeaseRecord(lease.holder)):  # pyright: ignore[reportPrivateUsage]
                done.append(lease.holder)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as exchanging:
            for lease in leases:
                exchanging.start_soon(exchange, lease)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT writes FROM lease").fetchone() == (len(done),)


# REPLICA-25
async def test_the_file_is_one_that_machines_can_share(path: Path) -> None:
    await FileLease(path, "a").acquire()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [one.name for one in path.parent.iterdir()] == ["lease"]


class LineReader:
    """The lines that a process prints."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._read = b""

    async def next(self) -> str:
        with trio.fail_after(PATIENCE_S):
            while b"\n" not in self._read:
                some = await self._stream.receive_some()
                assert some, "the process has ended"
                self._read += some
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()


@asynccontextmanager
async def lease_process(path: Path, name: str) -> AsyncGenerator[tuple[trio.Process, LineReader]]:
    """Start a process that waits for a lease, until it waits; end it afterwards."""
    words = [str(path), name, *map(str, (SHORT.held_s, SHORT.renewed_s, SHORT.given_up_s))]
    command = [sys.executable, "-m", "tests.actors.serving.replication.holder", *words]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        lines = LineReader(process.stdout)
        assert await lines.next() == "waits"
        yield process, lines
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


@asynccontextmanager
async def holder_and_next(
    path: Path,
) -> AsyncGenerator[tuple[trio.Process, LineReader, LineReader]]:
    """Yield the process that holds a lease, its output, and the output of the next one."""
    async with lease_process(path, "a") as (a, of_a):
        assert await of_a.next() == "holds"
        async with lease_process(path, "b") as (_, of_b):
            yield a, of_a, of_b


# REPLICA-20, REPLICA-25
async def test_another_one_has_it_after_the_holder_was_killed(path: Path) -> None:
    async with holder_and_next(path) as (a, _, of_b):
        a.send_signal(signal.SIGKILL)
        killed_s = trio.current_time()
        assert await of_b.next() == "holds"

    assert trio.current_time() - killed_s < SHORT.held_s + SHORT.renewed_s + SLACK_S


# REPLICA-20, REPLICA-25
async def test_who_was_stopped_for_long_has_lost_it(path: Path) -> None:
    async with holder_and_next(path) as (a, of_a, of_b):
        with closing(sqlite3.connect(path, isolation_level=None)) as shell:
            shell.execute("BEGIN IMMEDIATE")  # Nobody else is in the middle of a transaction now.
            a.send_signal(signal.SIGSTOP)
        assert await of_b.next() == "holds"
        a.send_signal(signal.SIGCONT)
        assert await of_a.next() == "lost"


# -- disks --------------------------------------------------------------------------------------


# REPLICA-20, REPLICA-25
async def test_who_cannot_write_the_file_gives_it_up_before_another_one_takes_it(
    path: Path, mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    a, b = FileLease(path, "a"), FileLease(path, "b")
    given_up_s: list[float] = []
    await a.acquire()
    await b.look()
    seen_s = trio.current_time()

    async def hold() -> None:
        await a.hold()
        given_up_s.append(trio.current_time())

    async def take() -> None:
        await b.acquire()
        assert not a.is_held

    await trio.Path(path).unlink()
    await trio.Path(path).mkdir()
    nursery.start_soon(hold)
    nursery.start_soon(take)
    await pass_until(mock_clock, lambda: bool(given_up_s))
    assert given_up_s[0] - seen_s <= TIMES.given_up_s + 0.25
    assert a.trouble is not None
    assert a.trouble.startswith(f"the lease file {path} is a folder: name a file")

    await trio.Path(path).rmdir()
    await pass_until(mock_clock, lambda: b.is_held)
    assert trio.current_time() - seen_s >= TIMES.held_s


# REPLICA-25
@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (FULL, "cannot be written: make room on its file system"),
        (READONLY, "cannot be written: let this user write it and its folder"),
        (IOERR_FSYNC, "cannot be used: its file system reports an error; mend it"),
    ],
    ids=["full", "read-only", "failing"],
)
async def test_a_disk_that_fails_and_is_mended(
    path: Path, disk: Disk, mock_clock: MockClock, nursery: trio.Nursery, code: int, trouble: str
) -> None:
    a, b = FileLease(path, "a"), FileLease(path, "b")
    await a.acquire()
    nursery.start_soon(a.hold)
    disk.fail(0, code)
    await pass_until(mock_clock, lambda: not a.is_held)
    assert a.trouble is not None
    assert a.trouble.startswith(f"the lease file {path} {trouble} (")

    disk.mend()
    nursery.start_soon(b.acquire)
    await pass_until(mock_clock, lambda: b.is_held)
    assert b.trouble is None
    assert await a.look() == b.seen


# REPLICA-25
async def test_a_disk_that_hangs_holds_up_nothing_else(
    path: Path, disk: Disk, mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    a, b = FileLease(path, "a"), FileLease(path, "b")
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(PATIENCE_S)

    await a.acquire()
    nursery.start_soon(a.hold)
    try:
        disk.stop(0, hang, after=False)
        await pass_until(mock_clock, lambda: not a.is_held)
        assert hangs.is_set()
        assert a.trouble == f"there is no answer within {TIMES.attempt_s:g} s"
        assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    finally:
        goes_on.set()
    nursery.start_soon(b.acquire)
    await pass_until(mock_clock, lambda: b.is_held)
    assert not a.is_held


# REPLICA-25
async def test_a_lock_of_somebody_else_ends_an_attempt_and_no_more(path: Path) -> None:
    lease = FileLease(path, "a", times=LeaseTimes(3, 0.1, 0.2))
    await lease.check()
    with closing(sqlite3.connect(path, isolation_level=None)) as shell:
        shell.execute("BEGIN EXCLUSIVE")
        assert await lease.look() is None
    with trio.fail_after(PATIENCE_S):
        while lease.trouble is None or await lease.look() is None:
            pass


# -- how it is named ----------------------------------------------------------------------------


# REPLICA-25
async def test_what_is_no_lease_file_is_left_as_it_is(tmp_path: Path) -> None:
    text, table = tmp_path / "text", tmp_path / "table"
    text.write_text("This is no file of SQLite, and it is long enough to see that.\n" * 20)
    with closing(sqlite3.connect(table)) as connection:
        connection.execute("CREATE TABLE other (x)")
    for path in (text, table):
        before = path.read_bytes()
        with pytest.raises(LeaseError) as raised:
            await FileLease(path, "a").check()
        message = (
            f"the lease file {path} is no lease file: name another one, or one that is not there"
        )
        assert str(raised.value).startswith(message)
        assert path.read_bytes() == before


# REPLICA-25
@pytest.mark.parametrize("statement", ["DELETE FROM lease", "DROP TABLE lease"])
async def test_a_lease_file_that_somebody_has_changed(path: Path, statement: str) -> None:
    await FileLease(path, "a").check()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)

    with pytest.raises(LeaseError, match="is no lease file: name another one"):
        await FileLease(path, "a").check()


# REPLICA-25
async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "shared" / "lease"

    with pytest.raises(LeaseError) as raised:
        await FileLease(path, "a").check()
    assert str(raised.value) == (
        f"the lease file {path} cannot be made: make the folder {path.parent}, or mount what has it"
    )


# REPLICA-25
async def test_a_disk_that_hangs_at_the_start(
    path: Path, disk: Disk, mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    goes_on, messages = threading.Event(), list[str]()

    def hang() -> None:
        goes_on.wait(PATIENCE_S)

    async def check() -> None:
        try:
            await FileLease(path, "a").check()
        except LeaseError as error:
            messages.append(str(error))

    disk.stop(0, hang, after=False)
    nursery.start_soon(check)
    try:
        await pass_until(mock_clock, lambda: bool(messages))
    finally:
        goes_on.set()
    assert messages == [
        f"the lease file {path} does not answer within 5 s: see whether its file system hangs"
    ]


# REPLICA-25
async def test_an_option_names_a_file(path: Path) -> None:
    async with lease_of(f"file:{path}", "a", "http://a") as lease:
        assert await trio.Path(path).exists()
        await lease.acquire()
        assert lease.seen == LeaseRecord("a", "http://a", 0, TIMES.held_s)

    with pytest.raises(LeaseError, match="is a folder: name a file"):
        async with lease_of(f"file:{path.parent}", "a", ""):
            pytest.fail("it is a folder")


# REPLICA-25
@pytest.mark.parametrize(
    "text", ["", "file", "file:", "kubernetes:", "kubernetes:a", "kubernetes:a/", "x:a/b", "a/b/c"]
)
def test_an_option_that_names_nothing(text: str) -> None:
    with pytest.raises(MusterError) as raised:
        lease_of(text, "a", "")
    assert str(raised.value) == (
        f"{text}: must be file:PATH, a file that all servers share, or kubernetes:NAMESPACE/NAME, "
        f"a Lease of a cluster"
    )
