"""``muster replay --report``: where the page goes and what it says.

The line that shows progress.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import stat
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from muster.cli._progress import CountedFile, ProgressLine, clock
from muster.feeds import FeedError
from muster.figures.text import duration
from muster.replay import Tally
from tests.actors.cli.helpers import ASK, BAD, SETUP, Running, run, run_json, started, written
from tests.actors.report.helpers import EVERYTHING, Reader, known, tile

FEED = SETUP + ASK
OLD = "an older report"


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    return written(tmp_path / "feed.yaml", FEED)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def left_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_is_written(feed: Path, report: Path) -> None:
    result = run("replay", feed, "--report", report)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Replayed 3 events")
    assert result.stdout.endswith(f"\nReport written to {report}\n")
    read = Reader(report.read_text(encoding="utf-8"))
    assert "feed.yaml" in read.text
    assert "Interrupted" not in read.text
    assert left_in(feed.parent) == {"feed.yaml", "report.html"}


def test_the_same_feed_gives_the_same_bytes(tmp_path: Path, report: Path) -> None:
    feed = written(tmp_path / "feed.yaml", EVERYTHING)
    other = tmp_path / "other.html"
    run("replay", feed, "--report", report)
    run("replay", feed, "--report", other)

    assert report.read_bytes() == other.read_bytes()


def test_the_decisions_are_the_same_with_it(tmp_path: Path, report: Path) -> None:
    feed = written(tmp_path / "feed.yaml", EVERYTHING)
    without, beside = tmp_path / "without.jsonl", tmp_path / "beside.jsonl"
    run("replay", feed, "--decisions", without)
    run("replay", feed, "--decisions", beside, "--report", report)

    assert beside.read_bytes() == without.read_bytes()


def test_figures_are_those_of_a_recount_of_the_log(tmp_path: Path, report: Path) -> None:
    feed, log = written(tmp_path / "feed.yaml", EVERYTHING), tmp_path / "log.jsonl"
    run("replay", feed, "--decisions", log, "--report", report)
    decisions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    html = report.read_text(encoding="utf-8")
    kinds = Counter(str(decision["kind"]) for decision in decisions)
    first: dict[str, float] = {}
    since: dict[str, float] = {}
    used_s = 0.0
    ends: Counter[str] = Counter()
    end_s = max(float(decision["at"]) for decision in decisions)
    for decision in decisions:
        name = f"{decision.get('app')}/{decision.get('ask')}"
        if decision["kind"] in {"bound", "waiting"}:
            since.setdefault(name, float(decision["at"]))
            if decision["kind"] == "bound":
                first.setdefault(name, float(decision["at"]))
        elif decision["kind"] == "released" and name in since:
            used_s += float(decision["at"]) - since.pop(name)
            ends[str(decision["reason"])] += 1
    used_s += sum(end_s - at for at in since.values())

    assert tile(html, "asks bound") == str(len(first))
    assert tile(html, "gangs satisfied") == str(kinds["gang_satisfied"])
    assert tile(html, "events refused") == str(kinds["rejected"])
    # Every ask that runs has one core; of two nodes with 4 of them one is lost at 30 s.
    assert tile(html, "of vcore used") == f"{used_s / (4 * (end_s + 30)):.1%}".replace("%", " %")
    shown = Counter(bar[7] for bar in known(html)["bars"])
    assert {reason: shown[reason] for reason in ends} == dict(ends)
    arrivals = {"a": 0.0, "b": 10.0, "c": 12.0}
    longest = max(at - arrivals[name[0]] for name, at in first.items())
    assert f"longest {duration(longest * 1e6)}" in html


def test_on_standard_output(feed: Path) -> None:
    result = run("replay", feed, "--report", "-")

    assert result.exit_code == 0
    assert Reader(result.stdout).tags["h1"] == 1
    assert result.stderr.startswith("Replayed 3 events")
    assert "written to" not in result.stderr


def test_the_summary_names_it(tmp_path: Path, feed: Path, report: Path) -> None:
    _, answer = run_json("replay", feed, "--report", report)
    beside = run("replay", feed, "--report", report, "--decisions", "-")
    without = run("replay", feed)

    assert answer["report"] == str(report)
    assert beside.stderr.endswith(f"Report written to {report}\n")
    assert "written to" not in beside.stdout + without.stdout


def test_of_standard_input(report: Path) -> None:
    assert run("replay", "-", "--report", report, stdin=FEED).exit_code == 0
    assert "<h1>standard input</h1>" in report.read_text(encoding="utf-8")


def test_not_both_on_standard_output(feed: Path) -> None:
    result = run("replay", feed, "--report", "-", "--decisions", "-")

    assert result.exit_code == 2
    assert "--decisions and --report cannot both be standard output" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "wrong", "message"),
    [
        (
            ["--report", "feed.yaml"],
            "feed.yaml",
            "is also the feed: write the report to another",
        ),
        (["--report", "./feed.yaml"], "./feed.yaml", "is also the feed"),
        (["--report", "link"], "link", "is also the feed"),
        (
            ["--report", "new.html", "--decisions", "new.html"],
            "new.html",
            "is also the log: write the report to another file",
        ),
        (["--report", "."], ".", "directory"),
        (["--report", "nowhere/report.html"], "nowhere/report.html", "No such file"),
    ],
)
def test_a_file_that_cannot_be_the_report(
    feed: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    wrong: str,
    message: str,
) -> None:
    monkeypatch.chdir(feed.parent)
    (feed.parent / "link").symlink_to("feed.yaml")
    before = left_in(feed.parent)
    result = run("replay", "feed.yaml", *arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(wrong)
    assert message in result.stderr
    assert feed.read_text(encoding="utf-8") == FEED
    assert left_in(feed.parent) == before


def test_the_error_for_programs(feed: Path) -> None:
    status, answer = run_json("replay", feed, "--report", feed)

    assert status == 2
    assert answer["error"]["file"] == str(feed)


@pytest.mark.parametrize("text", ["{", "- {op: settle}\n- {op: settle\n"], ids=["at once", "later"])
def test_a_feed_that_cannot_be_read_costs_no_older_report(
    tmp_path: Path, report: Path, text: str
) -> None:
    report.write_text(OLD, encoding="utf-8")
    result = run("replay", written(tmp_path / "feed.yaml", text), "--report", report)

    assert result.exit_code == 2
    assert report.read_text(encoding="utf-8") == OLD
    assert left_in(tmp_path) == {"feed.yaml", "report.html"}


def test_an_older_report_is_replaced_where_a_link_leads(feed: Path, report: Path) -> None:
    report.write_text(OLD, encoding="utf-8")
    link = report.with_name("link.html")
    link.symlink_to(report)
    run("replay", feed, "--report", link)

    assert link.is_symlink()
    assert Reader(report.read_text(encoding="utf-8")).tags["h1"] == 1


def test_a_device_stays_a_device(feed: Path) -> None:
    assert run("replay", feed, "--report", os.devnull).exit_code == 0
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_it_says_when_it_stopped_at_a_refusal(tmp_path: Path, report: Path) -> None:
    feed = written(tmp_path / "feed.yaml", SETUP + BAD + ASK)
    result = run("replay", feed, "--report", report, "--strict")
    text = Reader(report.read_text(encoding="utf-8")).text

    assert result.exit_code == 1
    assert "Stopped at the first event that was refused (line 3): app: 'a'" in text


def test_it_says_when_it_was_to_end(feed: Path, report: Path) -> None:
    run("replay", feed, "--report", report, "--until", "5")

    assert "Ended at 5 s" in Reader(report.read_text(encoding="utf-8")).text


def write_for_long(running: Running) -> None:
    with suppress(OSError):  # it is left when nobody reads on
        for number in range(10_000_000):
            line = {"op": "add_app", "app": f"a{number}", "queue": "root.q", "at": number}
            running.stdin.write(json.dumps(line).encode() + b"\n")


def test_it_is_written_after_ctrl_c(report: Path) -> None:
    with started("replay", "-", "--decisions", "-", "--report", report) as running:
        threading.Thread(target=write_for_long, args=[running], daemon=True).start()
        assert running.out.readline()
        assert not report.exists()
        running.process.send_signal(signal.SIGINT)
        running.out.read()

    assert running.process.returncode == 130
    text = Reader(report.read_text(encoding="utf-8")).text
    assert "Interrupted after" in text
    assert left_in(report.parent) == {"report.html"}


def test_help_tells_of_it() -> None:
    assert "--report FILE" in run("replay", "--help").stdout


TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "100"}


@pytest.fixture
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("seconds", "text"),
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
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


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

    output = capsys.readouterr()
    assert output.out == ""
    assert "decisions/s" in output.err


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
