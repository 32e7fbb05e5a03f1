"""No wrong state in silence: a file that was cut or changed anywhere, no room, an I/O error, a
sync that fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Generator
from functools import partial
from itertools import count
from pathlib import Path

import attrs
import pytest

from muster import StoreError
from muster.store import StateReader
from muster.store._rows import BatchRow
from muster.store._writer import NewState, StateWriter
from tests.actors.store.faults import (
    FULL,
    IOERR_FSYNC,
    IOERR_TRUNCATE,
    IOERR_WRITE,
    READONLY,
    Disk,
    failing_disk,
    library,
)
from tests.actors.store.program import (
    NEW,
    SMALL,
    S,
    copied,
    made,
    numbers,
    parts_of,
    put_checkpoint,
    rows,
)

BATCHES = 4
CHECKPOINT = 2
WRITE_EACH = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 29

at_places = pytest.mark.parametrize(
    "each",
    [(7, 35), pytest.param((1, WRITE_EACH), marks=pytest.mark.takes_long)],
    ids=["some", "all"],
)
"""At which places a file is read, and at which it is written."""

ALL_ROWS = rows(1, BATCHES)


@attrs.frozen
class State:
    """A state directory that is spoilt again and again.

    Attributes:
        directory: The directory.
        whole: The content of its files.
        spoilt: The name of the file that is spoilt.
    """

    directory: Path
    whole: dict[str, bytes]
    spoilt: str

    def put(self, data: bytes) -> None:
        """Spoil the file; what a reader has left beside the files is removed."""
        for path in self.directory.iterdir():
            if path.name not in self.whole:
                path.unlink()
        (self.directory / self.spoilt).write_bytes(data)

    def restore(self) -> None:
        """Make the directory as it was, after it was written."""
        for path in self.directory.iterdir():
            path.unlink()
        for name, content in self.whole.items():
            (self.directory / name).write_bytes(content)

    def others(self) -> dict[str, bytes]:
        """Return the content of the files that are not spoilt."""
        names = self.whole.keys() - {self.spoilt}
        return {name: (self.directory / name).read_bytes() for name in names}


@pytest.fixture
def memory(tmp_path: Path) -> Generator[Path]:
    """A folder in memory if there is one, as many a thousand files are written."""
    room = Path("/dev/shm")
    if not os.access(room, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="muster-damage-", dir=room) as folder:
        yield Path(folder)


@pytest.fixture(params=["closed", "killed"])
def state(request: pytest.FixtureRequest, memory: Path) -> State:
    """A directory that was closed, or one whose process was killed, so that it has a WAL."""
    directory = memory / "state"
    copy = memory / "copy"
    with made(directory, CHECKPOINT, SMALL) as writer:
        put_checkpoint(writer, CHECKPOINT, parts_of(CHECKPOINT))
    with StateWriter.open(directory, durability="process") as writer:
        for row in ALL_ROWS[CHECKPOINT:]:
            writer.append([row])
        killed = copied(directory, copy)
    directory = killed if request.param == "killed" else copied(directory, copy)
    whole = {path.name: path.read_bytes() for path in directory.iterdir()}
    spoilt = "muster.db-wal" if request.param == "killed" else "muster.db"
    return State(directory, whole, spoilt)


def read(directory: Path) -> tuple[list[BatchRow], list[bytes] | None] | None:
    """Return the batches and the newest checkpoint of a directory; None if it reports damage."""
    try:
        with StateReader(directory) as reader:
            found = reader.newest_checkpoint()
            batches = [batch.row() for batch in reader.batches()]
    except StoreError:
        return None
    return batches, None if found is None else list(found.parts)


def written_on(directory: Path) -> list[BatchRow] | None:
    """Write one more batch, and return all; None if damage is reported."""
    try:
        with StateWriter.open(directory, durability="process") as writer:
            following = writer.last.batch + 1
            writer.append(rows(following, following))
    except StoreError:
        return None
    # Only the last batch is looked at for writing; a reader says what is wrong before it.
    found = read(directory)
    return None if found is None else found[0]


def assert_no_wrong_state(
    state: State, spoilt: Callable[[bytes, int], bytes], each: tuple[int, int]
) -> int:
    """Spoil the file at such places; return how many directories open nevertheless."""
    opened = 0
    read_each, write_each = each
    whole = state.whole[state.spoilt]
    for place in range(0, len(whole), read_each):
        state.put(spoilt(whole, place))
        found = read(state.directory)
        if found is not None:
            opened += 1
            batches, checkpoint = found
            assert batches == ALL_ROWS[: len(batches)], place
            assert checkpoint is None or checkpoint == parts_of(CHECKPOINT), place
        if place % write_each == 0:
            assert state.others().items() <= state.whole.items(), "nobody has written"
            written = written_on(state.directory)
            assert written is None or written == rows(1, len(written)), place
            state.restore()
    return opened


def cut(data: bytes, place: int) -> bytes:
    return data[:place]


def changed(data: bytes, place: int) -> bytes:
    other = bytes([data[place] ^ 1 << place % 8])
    return data[:place] + other + data[place + 1 :]


def test_the_whole_one_has_everything(state: State) -> None:
    state.put(state.whole[state.spoilt])

    assert read(state.directory) == (ALL_ROWS, parts_of(CHECKPOINT))
    assert written_on(state.directory) == rows(1, BATCHES + 1)


@pytest.mark.starts_early
@at_places
def test_a_file_that_was_cut_anywhere(state: State, each: tuple[int, int]) -> None:
    # STORE-17
    opened = assert_no_wrong_state(state, cut, each)

    # A file that is cut is refused; a WAL that is cut has fewer batches, but whole ones.
    places = range(0, len(state.whole[state.spoilt]), each[0])
    assert opened == (len(places) if "wal" in state.spoilt else 0)


@pytest.mark.starts_early
@at_places
def test_a_byte_that_changed_anywhere(state: State, each: tuple[int, int]) -> None:
    # STORE-17
    opened = assert_no_wrong_state(state, changed, each)

    # Free room in pages and fields that SQLite does not look at may change.
    assert opened > 0


SQLITE = library()
PROJECT = Path(__file__).parents[3]

FAULTS = [
    pytest.param("write", FULL, "there is no room on the disk", id="no room"),
    pytest.param("write", IOERR_WRITE, "the disk or the file system reports", id="writing fails"),
    pytest.param("write", READONLY, "it cannot be written", id="read-only"),
    pytest.param("sync", IOERR_FSYNC, "the disk or the file system reports", id="sync fails"),
]


@pytest.fixture
def disk() -> Generator[Disk]:
    """The disk of files that are opened from now on."""
    if SQLITE is None:
        pytest.skip("SQLite is a part of Python here, no shared library: no fault can be injected")
    with failing_disk(SQLITE) as made_disk:
        yield made_disk


def error_of(call: Callable[[], object]) -> StoreError | None:
    """Return the error with which a call ends, or None if it succeeds."""
    try:
        call()
    except StoreError as error:
        return error
    return None


@pytest.mark.parametrize(("name", "code", "message"), FAULTS)
@pytest.mark.parametrize("forever", [True, False], ids=["forever", "once"])
def test_a_commit_that_fails_is_kept_whole_or_not_at_all(
    disk: Disk, tmp_path: Path, name: str, code: int, message: str, forever: bool
) -> None:
    # STORE-15
    for commit in range(1, 4):
        for at in count():
            directory = tmp_path / f"{commit}-{at}"
            with StateWriter.create(directory, NEW) as writer:
                for row in rows(1, commit - 1):
                    writer.append([row])
                disk.fail(at, code, name=name, forever=forever)
                error = error_of(partial(writer.append, rows(commit, commit)))
                if error is None:
                    assert disk.calls.count(name) == at > 0  # it makes no more calls than those
                    disk.mend()
                    break
                assert message in str(error)
                assert f"cannot write batch {commit}: " in str(error)
                assert error.path == directory / "muster.db"
                killed = copied(directory, tmp_path / f"{commit}-{at}-killed")
                disk.mend()
            assert_goes_on(directory, commit)
            assert_goes_on(killed, commit)


def assert_goes_on(directory: Path, failed: int) -> None:
    """Check that a directory is where it was before a commit or after it, and goes on."""
    with StateWriter.open(directory) as writer:
        last = writer.last.batch
        assert last in {failed - 1, failed}
        writer.append(rows(last + 1, failed + 2))
    assert numbers(directory) == list(range(1, failed + 3))


def test_after_a_fault_nothing_more_is_written(disk: Disk, tmp_path: Path) -> None:
    # STORE-15: what the disk has is not known after a sync that failed, so to go on is to guess.
    writer = made(tmp_path / "state", 2)
    writer.close()
    writer = StateWriter.open(tmp_path / "state")
    disk.fail(0, IOERR_FSYNC, name="sync", forever=False)
    with pytest.raises(StoreError, match="SQLITE_IOERR_FSYNC"):
        writer.append(rows(3, 3))

    with pytest.raises(StoreError, match="nothing more is written after an error"):
        writer.append(rows(3, 3))
    with pytest.raises(StoreError, match="nothing more is written after an error"):
        put_checkpoint(writer, 2, [b"x"])
    writer.close()

    assert numbers(tmp_path / "state")[:2] == [1, 2]


@pytest.mark.parametrize(("name", "code", "message"), FAULTS)
def test_a_checkpoint_that_fails_takes_nothing_away(
    disk: Disk, tmp_path: Path, name: str, code: int, message: str
) -> None:
    failed = 0
    for at in range(6):
        directory = tmp_path / str(at)
        made(directory, 4).close()
        writer = StateWriter.open(directory)
        put_checkpoint(writer, 2, parts_of(2))
        disk.fail(at, code, name=name)
        error = error_of(partial(put_checkpoint, writer, 4, parts_of(4)))
        assert error is None or message in str(error)
        failed += error is not None
        disk.mend()
        writer.close()

        with StateReader(directory) as reader:
            found = reader.newest_checkpoint()
        assert found is not None
        assert found.batch == (4 if error is None else 2)
        assert list(found.parts) == parts_of(found.batch)
        assert numbers(directory) == [1, 2, 3, 4]
    assert failed > 0


def prune_all(writer: StateWriter) -> None:
    while writer.prune(9 * S, most=2):
        pass


@pytest.mark.parametrize(("name", "code", "message"), FAULTS)
def test_pruning_that_fails_leaves_a_chain(
    disk: Disk, tmp_path: Path, name: str, code: int, message: str
) -> None:
    # STORE-16
    failed = 0
    for at in range(4):
        directory = tmp_path / str(at)
        made(directory, 6).close()
        writer = StateWriter.open(directory)
        put_checkpoint(writer, 4, parts_of(4))
        disk.fail(at, code, name=name)
        error = error_of(partial(prune_all, writer))
        assert error is None or message in str(error)
        failed += error is not None
        disk.mend()
        writer.close()

        found = numbers(directory)
        assert found == list(range(found[0], 7))
        assert found[0] in {1, 3, 5}
    assert failed > 0


def create_and_close(directory: Path) -> None:
    StateWriter.create(directory, NEW).close()


@pytest.mark.parametrize(("name", "code", "message"), FAULTS)
def test_what_cannot_be_made_can_be_made_later(
    disk: Disk, tmp_path: Path, name: str, code: int, message: str
) -> None:
    # STORE-1
    failed = 0
    for at in range(30):
        directory = tmp_path / str(at)
        disk.fail(at, code, name=name)
        error = error_of(partial(create_and_close, directory))
        assert error is None or message in str(error)
        failed += error is not None
        disk.mend()

        with StateWriter.open(directory, new=NEW) as writer:
            writer.append(rows(1, 1))
        assert numbers(directory) == [1]
    assert 0 < failed < 30


def test_a_wal_that_cannot_be_copied_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    writer = made(directory, 3)
    disk.fail(0, IOERR_WRITE)
    with pytest.raises(StoreError, match="cannot close the file"):
        writer.close()
    disk.mend()

    assert numbers(directory) == [1, 2, 3]
    with StateWriter.open(directory) as writer:
        writer.append(rows(4, 4))
    assert numbers(directory) == [1, 2, 3, 4]


def test_a_copy_of_the_wal_that_fails_in_between_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    with StateWriter.create(directory, NewState("default", 0, page_bytes=512)) as writer:
        disk.fail(0, IOERR_TRUNCATE, name="truncate")
        for row in rows(1, 800):  # SQLite copies the WAL after 1000 pages
            writer.append([row])
        disk.mend()

    assert numbers(directory) == list(range(1, 801))


def test_compacting_that_fails_changes_nothing(disk: Disk, tmp_path: Path) -> None:
    directory = tmp_path / "state"
    made(directory, 6).close()
    for at in count():
        writer = StateWriter.open(directory)
        disk.fail(at, FULL)
        error = error_of(writer.compact)
        disk.mend()
        writer.close()
        assert numbers(directory) == [1, 2, 3, 4, 5, 6]
        if error is None:
            assert at > 0
            break
        assert "cannot compact the file: there is no room on the disk" in str(error)


LIMITED = """
    import resource, signal, sys
    from pathlib import Path
    from muster import StoreError
    from muster.store._writer import StateWriter
    from tests.actors.store.program import made, rows

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = made(Path(sys.argv[1]), 3)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        for row in rows(4, 5000):
            writer.append([row])
    except StoreError as error:
        print(error)
"""


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    # STORE-15: with the usual layer of SQLite, wherever it comes from.
    directory = tmp_path / "state"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(directory), str(100_000)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )

    assert "cannot write batch" in done.stdout
    assert "mend it and start again" in done.stdout or "make room" in done.stdout
    found = numbers(directory)
    assert found == list(range(1, len(found) + 1))
    with StateWriter.open(directory) as writer:
        writer.append(rows(len(found) + 1, len(found) + 1))
    assert numbers(directory)[-1] == len(found) + 1
