"""A page is one file, well formed, that says what was recorded and nothing that is not text."""

from __future__ import annotations

import re

import attrs
import pytest

from muster.replay import Tally
from muster.report import Content, Ending, Recorder, page
from muster.report._node_records import MOST_BARS
from muster_core.decisions import Kind
from tests.actors.report.helpers import EVERYTHING, Reader, Recorded, known, recorded, tile

EVIL = "<script>alert(1)<!--\"'&amp;]]>\u202e\u0007"
EVIL_IN_YAML = '"<script>alert(1)<!--\\"\'&amp;]]>\\u202e\\u0007"'


@pytest.fixture
async def everything() -> Recorded:
    return await recorded(EVERYTHING)


async def test_it_is_well_formed(everything: Recorded) -> None:
    read = Reader(everything.page)

    assert read.tags["svg"] >= 5
    assert read.tags["section"] == 8
    ids = read.attributes["id"]
    assert len(ids) == len(set(ids))
    for link in read.attributes["href"]:
        assert link[1:] in ids


async def test_it_needs_nothing_else(everything: Recorded) -> None:
    html = everything.page
    read = Reader(html)

    assert re.findall(r"https?:|//\w|url\(|@import|\bfetch\b|XMLHttp|import\(", html) == []
    assert "src" not in read.attributes
    assert all(link.startswith("#") for link in read.attributes["href"])
    assert "default-src 'none'" in html


async def test_it_says_what_was_recorded(everything: Recorded) -> None:
    html, summary, text = everything.page, everything.tally.summary(), Reader(everything.page).text
    used = everything.recorder.used["vcore"]
    there = everything.recorder.there["vcore"]

    assert tile(html, "asks bound") == f"{summary.asks_bound}"
    assert tile(html, "asks pending at the end") == f"{summary.asks_pending}"
    assert tile(html, "gangs satisfied") == f"{summary.gangs_satisfied}"
    assert tile(html, "of vcore used") == f"{sum(used.areas) / sum(there.areas) * 100:.1f} %"
    assert "guaranteed 4 cores" in text
    assert "max 6 cores" in text
    assert "priority.offset 10" in text
    assert "preemption.delay 5 s" in text
    assert "NeverFits" in text
    assert "c/huge" in text


async def test_bars_in_the_page_are_those_of_the_decisions(everything: Recorded) -> None:
    bars = known(everything.page)["bars"]
    bound = [
        f"{announced.decision.app}/{announced.decision.ask}"
        for announced in everything.decisions
        if announced.decision.kind is Kind.BOUND
    ]

    assert sorted(bar[0] for bar in bars if bar[5] is not None) == sorted(bound)
    assert {bar[7] for bar in bars} >= {"completed", "node_lost"}
    read = Reader(everything.page)
    assert {int(number) for number in read.attributes["data-i"]} == set(range(len(bars)))


async def test_series_in_the_page_are_those_of_the_recorder(everything: Recorded) -> None:
    data = known(everything.page)
    usage = data["charts"][0]["r"]
    rows = {row["n"]: row["v"] for row in usage}
    buckets = -(-(data["end"] - data["begin"]) // data["width"])

    assert set(rows) == {"there", "together", "root.batch", "root.web"}
    area = 0.0
    for value, count in zip(rows["together"][::2], rows["together"][1::2], strict=True):
        area += value * count * data["width"]
    exact = sum(everything.recorder.used["vcore"].areas) / 1000
    assert sum(rows["together"][1::2]) == buckets
    assert area == pytest.approx(exact, rel=0.01)


async def test_names_are_nothing_but_text() -> None:
    feed = EVERYTHING.replace("app: a,", f"app: {EVIL_IN_YAML},").replace(
        "node: n1,", f"node: {EVIL_IN_YAML},"
    )
    feed = feed.replace("node: n2,", "node: '</script></svg><b>',")
    found = await recorded(feed)
    content = Content(found.recorder, found.tally.summary(), EVIL, Ending.COMPLETE)
    html = page(content)
    read = Reader(html)

    assert found.tally.refused == 1  # `d`, which nobody has made
    assert read.tags["script"] == 2
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "b" in read.tags  # those of the page itself
    assert "</svg><b>" not in html
    assert "<script>alert(1)<!--\"'&amp;]]>\ufffd\ufffd" in read.text
    assert any(bar[0].startswith("<script>alert(1)<!--") for bar in known(html)["bars"])


async def test_very_many_allocations_are_drawn_as_how_full_nodes_were() -> None:
    many = MOST_BARS + 10
    feed = (
        "- {op: add_node, node: n1, capacity: {vcore: 100}}\n"
        "- {op: add_app, app: a, queue: root.q}\n"
        f"- {{op: add_ask, app: a, ask: x, count: {many}, resources: {{vcore: 1}}, run_for: 1}}\n"
    )
    found = await recorded(feed)
    html = found.page
    read = Reader(html)

    assert found.recorder.nodes.bars is None
    assert known(html)["bars"] == []
    assert "how full they were" in read.text
    assert "heat h8" in read.attributes["class"]
    assert len(html) < 500_000


async def test_it_is_never_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names and values that change in every span: less is kept until it fits."""
    monkeypatch.setattr("muster.report._page.page.MOST_BYTES", 200_000)
    name = "\\u6f22" * 100
    feed = "- {op: add_node, node: n, capacity: {vcore: 50}}\n" + "".join(
        f'- {{op: add_app, app: "{number}{name}", queue: root.q{number % 9}, at: {number}}}\n'
        f'- {{op: add_ask, app: "{number}{name}", ask: x, resources: {{vcore: 1}}, run_for: 30}}\n'
        for number in range(1_100)
    )
    found = await recorded(feed)
    width_us, used = found.recorder.timeline.width_us, sum(found.recorder.used["vcore"].areas)
    html = found.page

    assert 50_000 < len(html.encode()) <= 200_000
    assert found.recorder.nodes.bars is None
    assert found.recorder.timeline.width_us > width_us
    assert sum(found.recorder.used["vcore"].areas) == used == 1000 * 1_100 * 30_000_000
    assert Reader(html).tags["h1"] == 1


async def test_evictions_are_marked() -> None:
    feed = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: a, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}, {name: b}]}]}]}
- {op: add_node, node: n, capacity: {vcore: 2}}
- {op: add_app, app: poor, queue: root.b}
- {op: add_ask, app: poor, ask: x, count: 2, resources: {vcore: 1}, run_for: 60}
- {op: add_app, app: rich, queue: root.a, at: 10}
- {op: add_ask, app: rich, ask: x, resources: {vcore: 1}, run_for: 60}
"""
    html = (await recorded(feed)).page

    assert tile(html, "asks evicted") == "1"
    assert Reader(html).attributes["class"].count("mark reclaimed") == 1


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (Ending.COMPLETE, None),
        (Ending.UNTIL, "Ended at"),
        (Ending.INTERRUPTED, "Interrupted after"),
        (Ending.STOPPED, "Stopped at the first event that was refused (line 23): "),
    ],
)
async def test_how_it_ended(everything: Recorded, ending: Ending, said: str | None) -> None:
    html = page(Content(everything.recorder, everything.tally.summary(), "f", ending))

    assert ('<p class="note">' in html) is (said is not None)
    assert (said or "") in Reader(html).text


async def test_refusals_and_warnings_are_listed() -> None:
    name = "<b>" * 400
    feed = EVERYTHING + "".join(
        f"- {{op: add_ask, app: '{name}{number}', ask: x, resources: {{vcore: 1}}, at: 60}}\n"
        for number in range(11)
    )
    feed += (
        "- {op: configure, at: 60, config: {partitions: "
        "[{name: default, usergroupresolver: os, queues: [{name: root}]}]}}\n"
    )
    found = await recorded(feed)
    html, summary = found.page, found.tally.summary()
    listed = Reader(html[html.index('<section id="remarks">') : html.index("</main>")]).text

    assert (len(summary.first_refusals), summary.refused) == (10, 12)
    assert f"line 23refused{summary.first_refusals[0].message}" in listed
    assert "line 24refused" in listed
    assert "\N{HORIZONTAL ELLIPSIS} 12 refused events in all" in listed
    assert [warning.line for warning in summary.first_warnings] == [35]
    assert "line 35warningconfig.partitions[0].usergroupresolver: usergroupresolver: " in listed
    assert len(listed) < 8_000


async def test_there_is_no_list_of_no_remarks() -> None:
    assert 'id="remarks"' not in (await recorded("- {op: settle, at: 5}\n")).page


async def test_an_event_without_a_line_has_its_index(everything: Recorded) -> None:
    summary = everything.tally.summary()
    refusals = tuple(attrs.evolve(remark, line=None) for remark in summary.first_refusals)
    summary = attrs.evolve(summary, first_refusals=refusals)
    text = Reader(page(Content(everything.recorder, summary, "f", Ending.STOPPED))).text

    assert "refused (event 12): " in text
    assert "event 12refused" in text


async def test_axes_of_queues_name_their_top() -> None:
    feed = """\
- {op: add_node, node: n, capacity: {vcore: 7}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, count: 23, priority: 7, resources: {vcore: 1}, run_for: 60}
"""
    html = (await recorded(feed)).page
    axes = [
        re.findall(r">([^<]+)</span>", axis)
        for axis in re.findall(r'<div class="chart mini".*?<div class="ys">(.*?)</div>', html)
    ]

    assert axes == [["0", "5", "7"], ["0", "10", "16"], ["7"]] * 2


def test_a_page_of_nothing_is_well_formed() -> None:
    recorder = Recorder()
    recorder.close(0)

    assert (
        Reader(page(Content(recorder, Tally().summary(), "-", Ending.INTERRUPTED))).tags["h1"] == 1
    )
