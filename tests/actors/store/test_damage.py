"""A file that was cut anywhere, or in which a byte changed anywhere, is no wrong state in silence.

Reading is tried at every seventh place, and writing at every 35th; ``make test-long`` reads at every
place and writes at every 29th, or at every place too with ``HYPOTHESIS_PROFILE=thorough``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import attrs
import pytest

from muster import StoreError
from muster.store import StateReader
from muster.store._rows import BatchRow
from muster.store._writer import StateWriter
from tests.actors.store.program import SMALL, copied, made, parts_of, put_checkpoint, rows

BATCHES = 4
CHECKPOINT = 2
WRITE_EACH = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 29

at_places = pytest.mark.parametrize(
    "each",
    [(7, 35), pytest.param((1, WRITE_EACH), marks=pytest.mark.takes_long)],
    ids=["some", "all"],
)
"""At which places a file is read, and at which it is written."""

FULL = rows(1, BATCHES)


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
        """Give the content of the files that are not spoilt."""
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
        for row in FULL[CHECKPOINT:]:
            writer.append([row])
        killed = copied(directory, copy)
    directory = killed if request.param == "killed" else copied(directory, copy)
    whole = {path.name: path.read_bytes() for path in directory.iterdir()}
    spoilt = "muster.db-wal" if request.param == "killed" else "muster.db"
    return State(directory, whole, spoilt)


def read(directory: Path) -> tuple[list[BatchRow], list[bytes] | None] | None:
    """Give the batches of a directory and the newest checkpoint; None if it says what is wrong."""
    try:
        with StateReader(directory) as reader:
            found = reader.newest_checkpoint()
            batches = [batch.row() for batch in reader.batches()]
    except StoreError:
        return None
    return batches, None if found is None else list(found.parts)


def written_on(directory: Path) -> list[BatchRow] | None:
    """Write one more batch, and give all; None if it says what is wrong."""
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
    """Spoil the file at such places; give how many directories open nevertheless."""
    opened = 0
    read_each, write_each = each
    whole = state.whole[state.spoilt]
    for place in range(0, len(whole), read_each):
        state.put(spoilt(whole, place))
        found = read(state.directory)
        if found is not None:
            opened += 1
            batches, checkpoint = found
            assert batches == FULL[: len(batches)], place
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

    assert read(state.directory) == (FULL, parts_of(CHECKPOINT))
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
