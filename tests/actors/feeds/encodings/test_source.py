from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from muster.feeds import FeedError, read_raw
from muster.feeds._files import CHUNK_BYTES, Input

SETTLE = b'{"op": "settle"}\n'
# Of no particular time, so that the tests have the same names each time.
_NINE, _FOUR = gzip.compress(SETTLE * 9, mtime=0), gzip.compress(SETTLE * 4, mtime=0)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(SETTLE)

    assert len(list(read_raw(path))) == len(list(read_raw(str(path)))) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SETTLE)))

    assert len(list(read_raw("-"))) == 1
    assert not sys.stdin.closed


def test_a_given_stream_stays_open() -> None:
    stream = io.BytesIO(SETTLE)
    list(read_raw(stream))

    assert not stream.closed


@pytest.mark.parametrize("data", [_NINE, _FOUR * 2 + b"\0" * 9])
def test_gzip_is_known_by_its_content(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "feed"
    path.write_bytes(data)

    assert len(list(read_raw(path))) in {8, 9}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (_NINE[:-4], "cannot be read: Compressed file ended before"),
        (_NINE[:5], "cannot be read: Compressed file ended before"),
        (_NINE[:-8] + b"\0" * 8, "cannot be read: CRC check failed"),
        (_NINE + b"x", "cannot be read: Not a gzipped file"),
        (b"\x1f\x8b\x08\x00\0\0\0\0\0\0" + b"\xff" * 99, "cannot be read: Error -3"),
        (b"\x1f\x8b\x99", "cannot be read: "),
    ],
)
def test_broken_gzip(data: bytes, problem: str) -> None:
    with pytest.raises(FeedError) as caught:
        list(read_raw(io.BytesIO(data)))

    assert caught.value.problem.startswith(problem)


def test_what_is_good_of_a_broken_gzip_is_given_out() -> None:
    random = b"".join(b'{"op": "%d"}\n' % (number * 7919 % 99991) for number in range(50_000))
    reading = read_raw(io.BytesIO(gzip.compress(random)[:-100]))

    with pytest.raises(FeedError):
        assert len([next(reading) for _ in range(30_000)]) == len(list(reading))


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing.yaml", "No such file or directory"), (".", "Is a directory"), ("\0", "null")],
)
def test_what_cannot_be_opened(name: str, problem: str) -> None:
    with pytest.raises(FeedError) as caught:
        list(read_raw(name))

    assert problem in caught.value.problem
    assert caught.value.file == name


def test_errors_name_the_file_as_it_was_given() -> None:
    assert str(FeedError("dir/x.yaml", "bad", 5)) == "dir/x.yaml:5: bad"
    assert str(FeedError("dir/x.yaml", "bad")) == "dir/x.yaml: bad"


class Broken:
    name = "broken"

    def read(self, _size: int, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_stream_that_fails() -> None:
    with pytest.raises(FeedError, match="broken: cannot be read: Input/output error"):
        list(read_raw(Broken()))


def test_a_feed_is_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(SETTLE)
    feed = Input(tmp_path / "a.yaml")
    feed.close()

    assert feed.base == tmp_path
    assert Input(io.BytesIO()).base == Path()


def test_the_start_is_given_again() -> None:
    data = SETTLE * (2 * CHUNK_BYTES // len(SETTLE))
    feed = Input(io.BytesIO(data))

    assert data.startswith(feed.head)
    assert feed.stream.read() == data


def test_a_long_first_line_is_not_read_to_its_end() -> None:
    feed = Input(io.BytesIO(b"x" * 10 * CHUNK_BYTES))

    assert len(feed.head) == CHUNK_BYTES


@pytest.mark.parametrize("event", [SETTLE, b"- op: settle\n" * 3, b"\x81\xa2op\xa6settle"])
def test_an_event_is_given_out_while_its_writer_waits(event: bytes) -> None:
    there, here = os.pipe()
    answered = threading.Event()

    def write() -> None:
        os.write(here, event)
        answered.wait(60)
        os.close(here)

    writer = threading.Thread(target=write)
    writer.start()
    with open(there, "rb") as stream:
        reading = read_raw(stream)
        assert next(reading).value == {"op": "settle"}
        answered.set()
        list(reading)
    writer.join()
