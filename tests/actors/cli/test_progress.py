from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from rich.console import Console

from muster.cli._progress import CountedFile, ProgressLine, clock
from muster.feeds import FeedError
from muster.replay import Tally
from tests.actors.cli.helpers import ASK, SETUP, written

TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "100"}


@pytest.fixture
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (0.000001, "1e-06 s"),
        (12.5, "12.5 s"),
        (59.999999, "60 s"),
        (60, "00:01:00"),
        (3599.6, "01:00:00"),
        (86_399, "23:59:59"),
        (86_400, "1d 00:00:00"),
        (3 * 86_400 + 14_706, "3d 04:05:06"),
    ],
)
def test_clock(seconds: float, told: str) -> None:
    assert clock(seconds) == told


def test_how_far_a_file_is_read() -> None:
    stream = CountedFile("feed", io.BytesIO(b"abcdef"), 6)

    assert (stream.read(4), stream.done) == (b"abcd", 4)
    assert (stream.read(4), stream.done) == (b"ef", 6)
    assert (stream.read(4), stream.done) == (b"", 6)


def drawn(progress: ProgressLine) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(progress._view())  # pyright: ignore[reportPrivateUsage] - no terminal here
    return capture.get()


@pytest.mark.usefixtures("_terminal")
def test_the_line_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "feed.yaml.gz"
    path.write_bytes(gzip.compress((SETUP + ASK).encode()))
    tally = Tally()
    progress = ProgressLine(tally, shown=True)
    for item in progress.read(str(path)):
        tally.saw(item)
    line = drawn(progress)

    assert "━━━━" in line
    assert "3 events" in line
    assert "0 s" in line
    assert "0 decisions/s" in line


@pytest.mark.usefixtures("_terminal")
def test_the_line_of_what_has_no_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SETUP.encode())))
    progress = ProgressLine(Tally(), shown=True)

    assert len(list(progress.read("-"))) == 2
    assert "━━━━" not in drawn(progress)


@pytest.mark.usefixtures("_terminal")
def test_it_is_drawn_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(Tally(), shown=True).line():
        pass

    said = capsys.readouterr()
    assert said.out == ""
    assert "decisions/s" in said.err


@pytest.mark.usefixtures("_terminal")
def test_not_where_it_would_disturb(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(Tally(), shown=False).line():
        pass

    assert capsys.readouterr() == ("", "")


def test_only_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(Tally(), shown=True).line():
        pass

    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("_terminal")
def test_the_feed_is_read_alike_with_and_without(tmp_path: Path) -> None:
    config = "partitions: [{name: default, queues: [{name: root}]}]"
    written(tmp_path / "queues.yaml", config)
    feed = written(tmp_path / "feed.yaml", "- {op: configure, file: queues.yaml}\n" + SETUP)
    items = [list(ProgressLine(Tally(), shown=shown).read(str(feed))) for shown in (True, False)]

    assert items[0] == items[1]
    assert len(items[0]) == 3


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize("shown", [True, False])
def test_errors_are_alike_with_and_without(tmp_path: Path, shown: bool) -> None:
    feed = written(tmp_path / "feed.yaml", "- [\n")
    with pytest.raises(FeedError) as broken:
        list(ProgressLine(Tally(), shown=shown).read(str(feed)))
    with pytest.raises(FeedError) as missing:
        list(ProgressLine(Tally(), shown=shown).read(str(tmp_path / "missing")))

    assert broken.value.file == str(feed)
    assert str(missing.value) == f"{tmp_path}/missing: No such file or directory"
