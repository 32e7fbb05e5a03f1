"""Files of feeds: where they come from and go to, and lines without an end, refused before they
fill the memory (FEED-81).
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
import tracemalloc
from io import RawIOBase
from pathlib import Path

import msgpack
import pytest
from typing_extensions import Buffer, override

from muster.feeds import Encoding, FeedError, RawEvent, _yaml, read_raw
from muster.feeds._encodings import detect, encoding_of
from muster.feeds._files import CHUNK_BYTES, Input, Output
from muster.feeds._json import MAX_LINE_BYTES
from muster.feeds._yaml import MAX_VALUE_CHARACTERS

YAML, JSON, JSONL, MSGPACK = (
    Encoding.YAML,
    Encoding.JSON,
    Encoding.JSON_LINES,
    Encoding.MSGPACK,
)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("a.yaml", YAML),
        ("a.b.YML.gz", YAML),
        ("dir.jsonl/a.ndjson", JSONL),
        ("a.jsonl.gz", JSONL),
        ("a.msgpack", MSGPACK),
        ("a.mp.gz", MSGPACK),
        ("a.json", None),
        ("a.gz", None),
        ("a", None),
        ("-", None),
        ("", None),
    ],
)
def test_what_a_name_says(name: str, encoding: Encoding | None) -> None:
    assert encoding_of(name) is encoding


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"", YAML),
        (b"- op: settle\n", YAML),
        (b"# a comment\n---\n", YAML),
        (b"op: settle\n", YAML),
        (b"{op: settle}\n", YAML),
        (b'[{"op": "settle"},\n', JSON),
        (b'\xef\xbb\xbf\n[\n  {\n    "op": "settle"', JSON),
        (b"[]", JSON),
        (b"[\n", YAML),
        (b"[{op: settle}]", YAML),
        (b"[settle]", YAML),
        (b'{\n  "op": "settle"\n}\n', YAML),
        (b"{" * 100_000, YAML),
        ("op: settle".encode("utf-16"), YAML),
        (b'{"op": "settle"}\n', JSONL),
        (b'\n\n{"op": "settle"}', JSONL),
        (b'\xef\xbb\xbf{"op": "settle"}', JSONL),
        (b'{"op": "settle"\n', JSONL),
        (b"{}\n", JSONL),
        (msgpack.packb({"op": "settle"}), MSGPACK),
        (msgpack.packb({str(number): 1 for number in range(20)}), MSGPACK),
        (msgpack.packb({str(number): 1 for number in range(70_000)}), MSGPACK),
        (msgpack.packb([1]), MSGPACK),
    ],
)
def test_what_the_content_says(head: bytes, encoding: Encoding) -> None:
    assert detect(head, "feed") is encoding


def test_the_name_decides_where_the_content_may_be_both() -> None:
    assert detect(b'{"op": "settle"}\n', "a.yaml") is YAML
    assert detect(b"{op: settle}\n", "a.jsonl") is JSONL
    assert detect(b"\x05", "a.msgpack.gz") is MSGPACK


def test_no_text_is_msgpack_whatever_its_name() -> None:
    assert detect(msgpack.packb({"op": "settle"}), "a.yaml") is MSGPACK


@pytest.mark.parametrize("name", ["a", "a.json", "a.txt", "a.msgpack", "a.yaml", "a.jsonl"])
@pytest.mark.parametrize(
    "data",
    [
        b'{"op": "settle"}\n',
        json.dumps([{"op": "settle"}]).encode(),
        json.dumps({"op": "settle"}, indent=2).encode(),
        b"- op: settle\n",
        msgpack.packb({"op": "settle"}),
    ],
)
def test_no_name_leads_to_anything_but_a_clean_end(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    if name in {"a", "a.json", "a.txt"}:
        [event] = read_raw(path)
        assert event.value == {"op": "settle"}


def test_the_encoding_may_be_said(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b'{"op": "settle"}\n{"op": "settle"}\n')

    assert list(read_raw(path, encoding=JSONL))[1] == RawEvent(1, 2, {"op": "settle"})


# FEED-90: a `.json` file holds a list or lines
def test_lines_where_a_list_may_stand(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"op": "settle"}\n{"op": "settle"}\n')

    assert list(read_raw(path)) == list(read_raw(path, encoding=JSON))
    assert [event.line for event in read_raw(path)] == [1, 2]


SETTLE = b'{"op": "settle"}\n'
# Of no particular time, so that the tests have the same names each time.
_NINE, _FOUR = gzip.compress(SETTLE * 9, mtime=0), gzip.compress(SETTLE * 4, mtime=0)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(SETTLE)

    assert len(list(read_raw(path))) == len(list(read_raw(str(path)))) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SETTLE)))

    assert len(list(read_raw("-"))) == 1
    assert not sys.stdin.closed


def test_a_stream_that_was_read_stays_open() -> None:
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
def test_what_cannot_be_read(name: str, problem: str) -> None:
    with pytest.raises(FeedError) as caught:
        list(read_raw(name))

    assert problem in caught.value.problem
    assert caught.value.file == name


def test_errors_name_the_file_as_it_was_given() -> None:
    assert str(FeedError("dir/x.yaml", "bad", 5)) == "dir/x.yaml:5: bad"
    assert str(FeedError("dir/x.yaml", "bad")) == "dir/x.yaml: bad"


class BrokenStream:
    name = "broken"

    def read(self, _size: int, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_stream_that_fails() -> None:
    with pytest.raises(FeedError, match="broken: cannot be read: Input/output error"):
        list(read_raw(BrokenStream()))


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


def test_a_file_is_written(tmp_path: Path) -> None:
    with Output(tmp_path / "x") as output:
        output.write(b"abc")

    assert (tmp_path / "x").read_bytes() == b"abc"


def test_gzip_by_name_gives_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("x.gz", "y.GZ"):
        with Output(str(tmp_path / name)) as output:
            output.write(b"abc")

    assert (tmp_path / "x.gz").read_bytes() == (tmp_path / "y.GZ").read_bytes()
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()) == b"abc"


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    under = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(under)))
    with Output("-") as output:
        output.write(b"abc")

    assert under.getvalue() == b"abc"
    assert not sys.stdout.closed


def test_a_stream_that_was_written_stays_open() -> None:
    stream = io.BytesIO()
    with Output(stream) as output:
        output.write(b"abc")

    assert stream.getvalue() == b"abc"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing/x", "No such file"), (".", "Is a directory"), ("\0", "embedded null byte")],
)
def test_what_cannot_be_written(name: str, problem: str) -> None:
    with pytest.raises(FeedError, match=f"cannot be written: .*{problem}"):
        Output(name)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_full_disk(size: int) -> None:
    def write() -> None:
        with Output("/dev/full") as output:
            output.write(b"x" * size)

    with pytest.raises(FeedError, match="/dev/full: cannot be written: No space left"):
        write()


class ClosedPipe:
    def write(self, _data: object, /) -> None:
        raise BrokenPipeError


def test_a_closed_pipe_is_reported_as_such() -> None:
    output = Output(ClosedPipe())
    with pytest.raises(BrokenPipeError):
        output.write(b"x")


def test_a_pipe_closed_at_the_end_is_reported_as_such() -> None:
    there, here = os.pipe()
    os.close(there)
    output = Output(f"/dev/fd/{here}")
    os.close(here)
    output.write(b"x")

    with pytest.raises(BrokenPipeError):
        output.close()


SIZE_BYTES = 300_000_000


class EndlessFile(RawIOBase):
    """A large file without a line end, which takes no room.

    Attributes:
        taken: How many bytes were read.
    """

    def __init__(self, begin: bytes, repeated: bytes) -> None:
        super().__init__()
        self.taken = 0
        self._begin = begin
        self._repeated = repeated * (64 * 1024 // len(repeated))

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        if self.taken >= SIZE_BYTES:
            return 0
        if self.taken == 0:
            piece = self._begin
        else:
            at = (self.taken - len(self._begin)) % len(self._repeated)
            piece = self._repeated[at : at + len(view)]
        view[: len(piece)] = piece
        self.taken += len(piece)
        return len(piece)


@pytest.mark.parametrize("begin", [b"aaaa", b'{op: "', b"# "])
def test_yaml_ends_at_a_value_that_is_too_long(begin: bytes) -> None:
    file = EndlessFile(begin, b"a")
    with pytest.raises(FeedError, match=f"^feed:1: a value is longer than {MAX_VALUE_CHARACTERS} "):
        list(read_raw(file, encoding=Encoding.YAML))

    assert file.taken < 1.1 * MAX_VALUE_CHARACTERS


def test_a_long_line_of_json_is_refused() -> None:
    file = EndlessFile(b'{"op": "', b"a")
    tracemalloc.start()
    [event] = read_raw(file, encoding=Encoding.JSON_LINES)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert event.problem == f"the line is longer than {MAX_LINE_BYTES} bytes"
    assert (event.index, event.line, event.value) == (0, 1, None)
    assert file.taken >= SIZE_BYTES
    assert peak_bytes < 2.5 * MAX_LINE_BYTES


def test_a_list_of_events_may_stand_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_yaml, "MAX_VALUE_CHARACTERS", 70_000)
    file = EndlessFile(b"[", b'{"op":"settle"}, ')
    for event in read_raw(file, encoding=Encoding.YAML):
        assert event.value == {"op": "settle"}
        if file.taken > 300_000:
            break

    assert file.taken > 300_000
