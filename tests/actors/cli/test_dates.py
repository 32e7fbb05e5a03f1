"""Commands on feeds that have dates."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from muster.feeds import DecisionLog, Encoding, date_text, parse_date, read_feed
from muster.replay import replay
from tests.actors.cli.helpers import run, run_json, written

START = "2026-01-31T12:00:00Z"
NUMBERS = """\
- {op: add_node, node: n, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q, at: 0}
- {op: add_ask, app: a, ask: x, count: 3, resources: {vcore: 1}, run_for: 1h}
- {op: add_ask, app: a, ask: huge, resources: {vcore: 3}, at: 30m}
- {op: add_ask, app: none, ask: y, resources: {vcore: 1}, at: 5400}
- {op: remove_app, app: a, at: 4h}
"""
AT = {"0": START, "30m": "2026-01-31T13:30:00+01:00", "5400": "'2026-01-31 13:30'"}
DATES = re.sub("at: ([0-9m]+)}", lambda found: f"at: {AT[found[1]]}}}", NUMBERS)
SLOW = """\
partitions: [{name: default, queues: [{name: root, queues: [{name: q, resources: {max: {vcore: 1}}}]}]}]
"""


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    return written(tmp_path / "dates.yaml", DATES)


def test_replay(feed: Path, tmp_path: Path) -> None:
    result = run("replay", feed, "--decisions", tmp_path / "log.jsonl")

    head, dates, *_ = result.stdout.splitlines()
    assert head.startswith("Replayed 6 events, 04:00:00 of virtual time: ")
    assert dates == f"From {START} to 2026-01-31T16:00:00Z"
    same = written(tmp_path / "numbers.yaml", NUMBERS)
    assert "From " not in run("replay", same, "--decisions", tmp_path / "same.jsonl").stdout
    assert (tmp_path / "log.jsonl").read_bytes() == (tmp_path / "same.jsonl").read_bytes()


# Which of the events' times are written as dates; before the first one, nothing has a time.
@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 10**15),
)
def test_dates_give_the_log_of_numbers(steps: list[tuple[int, bool]], origin_us: int) -> None:
    # FEED-86
    numbers = [
        "- {op: add_node, node: n, capacity: {vcore: 2}}\n",
        "- {op: add_app, app: a, queue: root.q, at: 0}\n",
    ]
    dates = [numbers[0], f"- {{op: add_app, app: a, queue: root.q, at: {date_text(origin_us)}}}\n"]
    at_s = 0
    for number, (later_s, is_date) in enumerate(steps):
        at_s += later_s
        event = f"- {{op: add_ask, app: a, ask: x{number % 9}, resources: {{vcore: 1}}, run_for: 3"
        numbers.append(f"{event}, at: {at_s}}}\n")
        at = date_text(origin_us + at_s * 1_000_000) if is_date else at_s
        dates.append(f"{event}, at: {at}}}\n")
    assert log_of("".join(dates)) == log_of("".join(numbers))


def log_of(feed: str) -> bytes:
    found = io.BytesIO()
    with DecisionLog(found, encoding=Encoding.JSON_LINES) as log:
        items = read_feed(io.BytesIO(feed.encode()), encoding=Encoding.YAML)
        trio.run(lambda: replay(items, journals=[log]))
    return found.getvalue()


def test_json(feed: Path) -> None:
    _, found = run_json("replay", feed)

    assert (found["origin"], found["virtual_s"]) == (START, 4 * 3600)


@pytest.mark.parametrize(
    ("until", "virtual_s"), [("2026-01-31T13:00:01Z", 3601), ("1h", 3600), (START, 0)]
)
@pytest.mark.parametrize("how", ["file", "gzip", "stdin"])
def test_until(feed: Path, tmp_path: Path, until: str, virtual_s: int, how: str) -> None:
    # COMMAND-14
    source: str | Path = feed
    if how == "gzip":
        source = tmp_path / "dates.yaml.gz"
        source.write_bytes(gzip.compress(DATES.encode()))
    given = DATES if how == "stdin" else None
    _, found = run_json("replay", "-" if given else source, "--until", until, given=given)

    assert found["virtual_s"] == virtual_s


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--until", "2026-01-31", f"--until: 2026-01-31T00:00:00Z is before the start, {START}"),
        ("--start", "2026-01-31T11:59:59Z", "--start: 2026-01-31T11:59:59Z is before the start"),
        ("--since", "2026-01-31T13:00:00Z", "--since needs a state directory"),
        ("--until", "2026-02-30", "'2026-02-30' is no date: day is out of range for month"),
    ],
)
def test_dates_that_cannot_be(feed: Path, option: str, value: str, message: str) -> None:
    # COMMAND-14
    result = run("replay", feed, option, value)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("command", [("replay", "--until"), ("explain", "--all", "--at")])
def test_a_date_needs_dates(command: tuple[str, ...], tmp_path: Path) -> None:
    # COMMAND-14
    log = written(tmp_path / "log.jsonl", "kept\n")
    name, *options = command
    more = ("--decisions", log) if name == "replay" else ()
    result = run(name, "-", *more, *options, START, given=NUMBERS)

    assert result.exit_code == 2
    assert f"{options[-1]}: the feed has no dates: give a time since the start" in result.stderr
    assert log.read_text() == "kept\n"


def test_a_feed_that_cannot_be_read_up_to_its_first_date() -> None:
    result = run("replay", "-", "--until", START, given="- {op: settle}\n- [")

    assert result.exit_code == 2
    assert "standard input:" in result.stderr


# COMMAND-16


def test_start(feed: Path, tmp_path: Path) -> None:
    _, found = run_json("replay", feed, "--start", "2026-01-31T13:00:00Z", "--until", "2h")

    # Two asks have ended, the third is bound right then.
    assert (found["asks_bound"], found["refused"], found["virtual_s"]) == (1, 1, 3600)
    assert found["wait"]["longest_s"] == 3600
    assert found["utilisation"] == {"vcore": 0.5}
    logs = [tmp_path / "whole.jsonl", tmp_path / "later.jsonl"]
    run("replay", feed, "--decisions", logs[0])
    result = run("replay", feed, "--start", "1h", "--decisions", logs[1])
    assert "\nFrom 2026-01-31T13:00:00Z to 2026-01-31T16:00:00Z\n" in result.stdout
    later = logs[1].read_text()
    assert '"seq": 1,' not in later
    assert logs[0].read_text().endswith(later)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--start", "2h", "--until", "1h"), "--until: 3600 s is before --start, 7200 s"),
        (("--start", "soon"), "'soon' is not a duration"),
    ],
)
def test_a_start_that_cannot_be(feed: Path, options: tuple[str, ...], message: str) -> None:
    result = run("replay", feed, *options)

    assert result.exit_code == 2
    assert message in result.stderr


# The other commands


@pytest.mark.parametrize(
    ("at", "ask", "said"),
    [
        (
            "2026-01-31T12:30:00Z",
            "a/x-2",
            f"2026-01-31T12:30:00Z: a/x-2 is pending in root.q since {START}, for 00:30:00",
        ),
        (
            "2026-01-31T14:00:00+01:00",
            "a/x-0",
            "2026-01-31T13:00:00Z: a/x-0 is over, completed at 2026-01-31T13:00:00Z",
        ),
        (
            "1",
            "a/huge",
            (
                "2026-01-31T12:00:01Z: a/huge does not exist yet: it is added at "
                "2026-01-31T12:30:00Z (line 4)"
            ),
        ),
    ],
)
def test_explain(feed: Path, at: str, ask: str, said: str) -> None:
    # COMMAND-14
    assert run("explain", feed, "--at", at, "--ask", ask, "--why-only").stdout.startswith(said)
    _, found = run_json("explain", feed, "--at", at, "--ask", ask, "--why-only")
    assert found["origin"] == START
    assert isinstance(found["at"], int)


def test_explain_all(feed: Path) -> None:
    at = "2026-01-31T12:45:00Z"

    assert run("explain", feed, "--at", at, "--all").stdout.startswith(f"{at}: 2 asks not running")
    assert run_json("explain", feed, "--at", at, "--all")[1]["origin"] == START


def test_compare(feed: Path, tmp_path: Path) -> None:
    slow = written(tmp_path / "slow.yaml", SLOW)
    other = written(tmp_path / "other.yaml", NUMBERS.replace("at: 0", f"at: {START}"))
    result = run("compare", feed, "--config", slow)

    assert f"The decisions differ from {START} on" in result.stdout
    assert run_json("compare", feed, "--config", slow)[1]["origin"] == START
    assert run_json("compare", feed, other)[1]["origin"] == START


def test_compare_ends_of_jobs(tmp_path: Path) -> None:
    ask = "- {op: add_ask, app: a, ask: x, count: 2, resources: {vcore: 1}, run_for: 1h}\n"
    text = "".join(NUMBERS.splitlines(keepends=True)[:2]).replace("at: 0", f"at: {START}") + ask
    feed = written(tmp_path / "feed.yaml", text)
    result = run("compare", feed, "--config", written(tmp_path / "slow.yaml", SLOW))

    titles = r"end: A +B +B - A"
    assert re.search(titles, result.stdout)
    assert re.search(
        r"a .* 2026-01-31T13:00:00Z +2026-01-31T14:00:00Z +\+3,600 s \(1 h\)\n", result.stdout
    )


def test_compare_feeds_that_begin_at_different_dates(feed: Path, tmp_path: Path) -> None:
    later = DATES.replace("2026-01-31", "2026-02-28").replace("vcore: 2", "vcore: 1")
    status, found = run_json("compare", feed, written(tmp_path / "later.yaml", later))

    assert (status, found["origin"], found["first"]["at"]) == (1, None, 0)
    assert "differ from 0 s on" in run("compare", feed, tmp_path / "later.yaml").stdout


def test_check(tmp_path: Path) -> None:
    expects = "- {op: expect, at: 2026-01-31T12:59:59.999999Z, bound: [a/x-0, a/x-1]}\n"
    text = "".join(DATES.splitlines(keepends=True)[:4]) + expects
    result = run("check", written(tmp_path / "feed.yaml", text))

    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize("name", ["x.yaml", "x.jsonl", "x.msgpack.gz"])
def test_convert(feed: Path, tmp_path: Path, name: str) -> None:
    # FEED-85
    assert run("convert", feed, tmp_path / name).exit_code == 0
    back = tmp_path / "back.jsonl"
    assert run("convert", tmp_path / name, back).exit_code == 0

    dates = re.findall('"at": ("[^"]*")', back.read_text())
    assert dates == [f'"{START}"', '"2026-01-31T12:30:00Z"', '"2026-01-31T13:30:00Z"', '"4h"']
    logs = [run("replay", one, "--decisions", "-").stdout for one in (feed, tmp_path / name)]
    assert len({re.sub(r', "line": \d+', "", log) for log in logs}) == 1


def test_a_report(feed: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    run("replay", feed, "--report", report, "--until", "2026-01-31T15:00:00Z")
    html = report.read_text()

    assert "from 2026-01-31 12:00 to 2026-01-31 15:00" in html
    assert "Ended at 2026-01-31 15:00, as was asked for." in html
    assert ">2026-01-31 13:00</span>" in html
    assert "Times are in UTC." in html
    assert f'"origin":{parse_date(START)}' in html
