from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from muster.feeds import FeedError
from muster.feeds._files import Output


def test_a_file(tmp_path: Path) -> None:
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


def test_a_given_stream_stays_open() -> None:
    stream = io.BytesIO()
    with Output(stream) as output:
        output.write(b"abc")

    assert stream.getvalue() == b"abc"


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing/x", "No such file"), (".", "Is a directory"), ("\0", "embedded null byte")],
)
def test_what_cannot_be_opened(name: str, problem: str) -> None:
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


class Closed:
    def write(self, _data: object, /) -> None:
        raise BrokenPipeError


def test_a_closed_pipe_is_told_as_such() -> None:
    output = Output(Closed())
    with pytest.raises(BrokenPipeError):
        output.write(b"x")


def test_a_pipe_closed_at_the_end_is_told_as_such() -> None:
    there, here = os.pipe()
    os.close(there)
    output = Output(f"/dev/fd/{here}")
    os.close(here)
    output.write(b"x")

    with pytest.raises(BrokenPipeError):
        output.close()
