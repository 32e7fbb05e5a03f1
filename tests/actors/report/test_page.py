"""A page is one file, well formed, that says what was recorded.

Devices, reservations, users (LISTS-24), and nothing that is not text.
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from muster.replay import Tally
from muster.report import Content, Ending, Recorder, page
from muster.report._node_records import MOST_BARS, ReservedBar
from muster.report._queue_records import MOST_USERS, OTHER_USERS, UserRecords
from muster_core.decisions import Kind
from tests.actors.report.helpers import EVERYTHING, Reader, RecordedReplay, known, recorded, tile
from tests.actors.samples import RESERVED

EVIL = "<script>alert(1)<!--\"'&amp;]]>\u202e\u0007"
EVIL_IN_YAML = '"<script>alert(1)<!--\\"\'&amp;]]>\\u202e\\u0007"'


@pytest.fixture
async def recording() -> RecordedReplay:
    return await recorded(EVERYTHING)


async def test_it_is_well_formed(recording: RecordedReplay) -> None:
    read = Reader(recording.page)

    assert read.tags["svg"] >= 5
    assert read.tags["section"] == 9
    ids = read.attributes["id"]
    assert len(ids) == len(set(ids))
    for link in read.attributes["href"]:
        assert link[1:] in ids


async def test_it_needs_nothing_else(recording: RecordedReplay) -> None:
    html = recording.page
    read = Reader(html)

    assert re.findall(r"https?:|//\w|url\(|@import|\bfetch\b|XMLHttp|import\(", html) == []
    assert "src" not in read.attributes
    assert all(link.startswith("#") for link in read.attributes["href"])
    assert "default-src 'none'" in html


async def test_it_says_what_was_recorded(recording: RecordedReplay) -> None:
    html, summary, text = recording.page, recording.tally.summary(), Reader(recording.page).text
    used = recording.recorder.used["vcore"]
    there = recording.recorder.there["vcore"]

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


async def test_bars_in_the_page_are_those_of_the_decisions(recording: RecordedReplay) -> None:
    bars = known(recording.page)["bars"]
    bound = [
        f"{announced.decision.app}/{announced.decision.ask}"
        for announced in recording.decisions
        if announced.decision.kind is Kind.BOUND
    ]

    assert sorted(bar[0] for bar in bars if bar[5] is not None) == sorted(bound)
    assert {bar[7] for bar in bars} >= {"completed", "node_lost"}
    read = Reader(recording.page)
    assert {int(number) for number in read.attributes["data-i"]} == set(range(len(bars)))


async def test_series_in_the_page_are_those_of_the_recorder(recording: RecordedReplay) -> None:
    data = known(recording.page)
    usage = data["charts"][0]["r"]
    rows = {row["n"]: row["v"] for row in usage}
    buckets = -(-(data["end"] - data["begin"]) // data["width"])

    assert set(rows) == {"there", "together", "root.batch", "root.web"}
    area = 0.0
    for value, count in zip(rows["together"][::2], rows["together"][1::2], strict=True):
        area += value * count * data["width"]
    exact = sum(recording.recorder.used["vcore"].areas) / 1000
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
    ("ending", "text"),
    [
        (Ending.COMPLETE, None),
        (Ending.UNTIL, "Ended at"),
        (Ending.INTERRUPTED, "Interrupted after"),
        (Ending.STOPPED, "Stopped at the first event that was refused (line 23): "),
    ],
)
async def test_how_it_ended(recording: RecordedReplay, ending: Ending, text: str | None) -> None:
    html = page(Content(recording.recorder, recording.tally.summary(), "f", ending))

    assert ('<p class="note">' in html) is (text is not None)
    assert (text or "") in Reader(html).text


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


async def test_an_event_without_a_line_has_its_index(recording: RecordedReplay) -> None:
    summary = recording.tally.summary()
    refusals = tuple(attrs.evolve(remark, line=None) for remark in summary.first_refusals)
    summary = attrs.evolve(summary, first_refusals=refusals)
    text = Reader(page(Content(recording.recorder, summary, "f", Ending.STOPPED))).text

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


S = 1_000_000

DEVICES_FEED = """\
- {op: add_node, node: g1, capacity: {vcore: 4}, devices: {gpu: 3}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: whole, devices: {gpu: 2}, run_for: 20}
- {op: add_ask, app: a, ask: half, devices: {gpu: {milli: 500}}, run_for: 30}
- {op: add_ask, app: a, ask: part, devices: {gpu: {milli: 250}}, run_for: 30}
- {op: add_ask, app: a, ask: cpu, resources: {vcore: 2}, run_for: 30}
- {op: add_ask, app: a, ask: next, at: 20, devices: {gpu: 1}, run_for: 10}
"""
PLAIN = "- {op: add_node, node: plain, capacity: {vcore: 8}}\n"

Drawn = dict[str, list[tuple[float, float]]]


def drawn(page: str) -> Drawn:
    """Return of each ask where its bar begins, from the top of the drawing, and how high it is."""
    bars: list[list[Any]] = known(page)["bars"]
    found: Drawn = {}
    for path, number in re.findall(r'class="bar [^"]*" d="([^"]+)" data-i="(\d+)"', page):
        pieces = re.findall(r"M\S+ ([\d.]+)H[\d.]+v([\d.]+)", path)
        found[bars[int(number)][0]] = [(float(top), float(high)) for top, high in pieces]
    return found


def devices_of_bars(page: str) -> dict[str, object]:
    return {bar[0]: bar[8] for bar in known(page)["bars"] if len(bar) > 8}


# COMMAND-27: a lane for each device, and one below them for asks without devices
async def test_each_device_has_a_lane() -> None:
    page = (await recorded(DEVICES_FEED)).page

    # A lane is 4.8 high, of which 0.6 stay empty; the last one is as high as two.
    assert drawn(page) == {
        "a/whole": [(0, 4.2), (4.8, 4.2)],
        "a/half": [(9.6, 2.1)],
        "a/part": [(11.7, 1.05)],
        "a/cpu": [(14.4, 4.5)],
        "a/next": [(0, 4.2)],
    }
    assert "each device has a lane" in page


# COMMAND-27: which devices an ask held
async def test_a_bar_says_which_devices_it_held() -> None:
    page = (await recorded(DEVICES_FEED, until_us=25 * S)).page

    assert devices_of_bars(page) == {
        "a/whole": "gpu 0, 1",
        "a/half": "500 milli of gpu 2",
        "a/part": "250 milli of gpu 2",
        "a/next": "gpu 0",
    }


# COMMAND-27: an ask that gets other devices on another node, and one of each type of devices
async def test_an_ask_that_moves_holds_other_devices_then() -> None:
    feed = """\
- {op: add_node, node: g1, capacity: {vcore: 4}, devices: {gpu: 2}}
- {op: add_node, node: g2, capacity: {vcore: 4}, devices: {gpu: 2, nic: 1}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: first, node: g2, devices: {gpu: 1}}
- {op: add_ask, app: a, ask: moves, node: g1, devices: {gpu: 1}}
- {op: release, at: 10, app: a, ask: moves, outcome: completed}
- {op: add_ask, at: 10, app: a, ask: moves, node: g2, devices: {gpu: 1, nic: {milli: 100}}}
- {op: settle, at: 20}
"""
    bars = known((await recorded(feed)).page)["bars"]

    assert sorted((bar[0], bar[1], bar[4] // S, bar[8]) for bar in bars) == [
        ("a/first", "g2", 0, "gpu 0"),
        ("a/moves", "g1", 0, "gpu 0"),
        ("a/moves", "g2", 10, "gpu 1; 100 milli of nic 0"),
    ]


# COMMAND-27: with the state of an instant a report begins with the devices that are held then
async def test_a_report_begins_with_what_is_held() -> None:
    page = (await recorded(DEVICES_FEED, start_us=10 * S)).page

    assert drawn(page)["a/whole"] == [(0, 4.2), (4.8, 4.2)]
    assert devices_of_bars(page)["a/part"] == "250 milli of gpu 2"
    assert devices_of_bars(page)["a/next"] == "gpu 0"


async def test_nodes_without_devices_are_drawn_by_share() -> None:
    plain = "- {op: add_ask, app: a, ask: cores, node: plain, resources: {vcore: 2}, run_for: 9}\n"
    page = (await recorded(PLAIN + DEVICES_FEED + plain)).page
    without = (await recorded(PLAIN + DEVICES_FEED.splitlines(keepends=True)[1] + plain)).page

    assert drawn(page)["a/cores"] == drawn(without)["a/cores"] == [(0, 6)]
    assert drawn(page)["a/whole"] == [(26, 4.2), (30.8, 4.2)]
    assert "lane" not in without.partition("<body>")[2].partition("<script")[0]


# COMMAND-27: with too many devices for lanes a bar is as thick as its share
async def test_very_many_devices_have_no_lanes() -> None:
    feed = DEVICES_FEED.replace("devices: {gpu: 3}", "devices: {gpu: 64, nic: 1}")
    page = (await recorded(feed)).page

    assert drawn(page)["a/whole"] == [(14, 1)]
    assert devices_of_bars(page)["a/whole"] == "gpu 0, 1"
    assert "each device has a lane" not in page


#: At 20 s a reservation is given up without another: its queue has another order.
GIVEN_UP = """\
- op: configure
  at: 20
  config:
    partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]
- {op: settle, at: 30}
"""


def bar_rows(bars: list[ReservedBar] | None) -> list[tuple[object, ...]]:
    assert bars is not None
    return [
        (one.ask.key[1], one.node, one.since_us, one.start_us, one.end_us)
        for one in sorted(bars, key=lambda one: (one.since_us, one.ask.key))
    ]


async def test_reservations_last_until_their_asks_get_nodes() -> None:
    found = await recorded(RESERVED)

    assert bar_rows(found.recorder.reserved.bars)[:2] == [
        ("next", "n2", 10 * S, None, 100 * S),
        ("wide", "n1", 10 * S, 100 * S, 100 * S),
    ]
    assert found.recorder.reserved.present == {}


async def test_reservations_that_are_given_up_end() -> None:
    found = await recorded(RESERVED + GIVEN_UP)

    assert bar_rows(found.recorder.reserved.bars)[:2] == [
        ("next", "n2", 10 * S, None, 20 * S),
        ("wide", "n1", 10 * S, 100 * S, 20 * S),
    ]


async def test_they_are_drawn_hatched_with_a_legend() -> None:
    found = await recorded(RESERVED)
    page = found.page
    bars: list[list[Any]] = known(page)["bars"]

    hatched = [bar for bar in bars if len(bar) == 10]
    drawn = re.findall(r'class="bar reserved" d="[^"]+" data-i="(\d+)"', page)
    assert [bars[int(number)] for number in drawn] == hatched
    assert ["new/wide", "n1", "root.q", None, 10 * S, None, 100 * S, None, None, 100 * S] in hatched
    assert ["new/next", "n2", "root.q", None, 10 * S, None, 100 * S, None, None, None] in hatched
    assert page.count('id="hatch"') == page.count('class="hatched"') == 1
    assert "reserved for an ask that does not run yet" in page


@pytest.mark.parametrize("feed", [EVERYTHING, RESERVED.replace("backfill,", "greedy,")])
async def test_without_them_nothing_is_hatched(feed: str) -> None:
    body = (await recorded(feed)).page.partition("<body>")[2].partition("<script")[0]

    assert "reserved" not in body
    assert "hatch" not in body


async def test_who_waits_has_the_start_of_its_reservation() -> None:
    page = (await recorded(RESERVED, until_us=60 * S)).page

    assert "reserved: n1 from 1:40 min" in page
    assert "reserved: n2 from an end that is not known" in page
    assert "which starts at 1:40 min" in page


USERS_FEED = """
- {op: add_node, node: n, capacity: {vcore: 4, nvidia.com/gpu: 2}}
- {op: add_app, app: a, queue: q, user: sue}
- {op: add_app, app: b, queue: q, user: "<bob>"}
- {op: add_app, app: c, queue: q}
- {op: add_ask, app: a, ask: x, count: 4, resources: {vcore: 1, nvidia.com/gpu: 1}, run_for: 2h}
- {op: add_ask, app: b, ask: y, count: 3, resources: {vcore: 2}, run_for: 30m}
- {op: add_ask, app: b, ask: z, resources: {vcore: 8}}
- {op: remove_app, app: c, at: 4h}
"""


def rows(html: str) -> list[list[str]]:
    """Return the cells of the table."""
    (section,) = re.findall(r'<section id="users">.*?</section>', html, re.DOTALL)
    return [re.findall(r"<td>(.*?)</td>", row) for row in section.split("<tr>")[2:]]


async def test_it_says_who_waited_and_used() -> None:
    html = (await recorded(USERS_FEED)).page
    # Two GPUs for four hours; sue's last two asks wait two hours, and bob's last one half an hour
    # more than the others, which share the two cores that are left.
    assert [row[:-1] for row in rows(html)] == [
        ["sue", "4", "0", "1 h", "2 h", "8 vcore h, 8 nvidia.com/gpu h"],
        ["&lt;bob&gt;", "3", "1", "30 min", "1 h", "3 vcore h"],
    ]
    # The replay ends with the applications, half a minute after the last ask.
    assert [row[-1] for row in rows(html)] == ["99.8 %", "18.7 %"]
    assert "Users" in Reader(html).text


async def test_without_users_there_is_no_table() -> None:
    html = (
        await recorded(USERS_FEED.replace(", user: sue", "").replace(', user: "<bob>"', ""))
    ).page
    assert 'id="users"' not in html


def test_the_records_are_bounded() -> None:
    records = UserRecords()
    for number in range(MOST_USERS + 2):
        records.of(f"user-{number}").bound(1_000_000)
    assert len(records.records) == MOST_USERS + 1
    assert records.of(OTHER_USERS).asks == 2
    assert records.counted(["user-0", "stranger", "stranger"]) == {"user-0": 1, OTHER_USERS: 2}


# COMMAND-33
async def test_parts_of_queues_over_time() -> None:
    feed = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, properties: {usage.half.life: 100s}, queues: [
    {name: a, properties: {queue.weight: "3"}}, {name: b}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: root.a}
- {op: add_app, app: b, queue: root.b}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 1000}
- {op: add_ask, at: 400, app: b, ask: x, resources: {vcore: 2}, run_for: 400}
"""
    found = await recorded(feed)
    content = Content(found.recorder, found.tally.summary(), "f", Ending.COMPLETE)
    text = Reader(found.page).text
    a, b = (record for record in content.queues if record.path != "root")

    assert (content.due_part(a), content.due_part(b)) == (0.75, 0.25)
    of_a, of_b = content.parts_over_time(a), content.parts_over_time(b)
    # Alone until 400 s; then a third of what both have, one half-life later.
    buckets_per_s = content.frame.buckets / (content.frame.span_us / 1_000_000)
    assert of_a[int(300 * buckets_per_s)] == 1
    assert of_a[int(700 * buckets_per_s)] == pytest.approx(1 / 3, abs=0.01)
    assert all(
        one + other == pytest.approx(1)
        for one, other in zip(of_a, of_b, strict=True)
        if one and other
    )
    assert "75.0 % are its due" in text
    assert "Fair share over time" in text
    without = await recorded(feed.replace("100s", '"0"'))
    assert "Fair share over time" not in without.page


async def test_the_longest_waits_name_the_past() -> None:
    feed = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, properties: {usage.half.life: 1h}, queues: [
    {name: a}, {name: b}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: set_usage, queue: root.a, usage: {vcore: 36000}}
- {op: add_app, app: y, queue: root.b}
- {op: add_ask, app: y, ask: x, resources: {vcore: 1}, run_for: 10m, count: 6}
- {op: add_app, app: x, queue: root.a}
- {op: add_ask, app: x, ask: x, resources: {vcore: 1}, run_for: 1m}
"""
    text = Reader((await recorded(feed)).page).text
    assert "is tried before it: root.b in root, as its past share" in text
    assert "root.a has used" in text
