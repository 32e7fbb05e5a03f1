"""The table of users of a report (LISTS-24)."""

from __future__ import annotations

import re

from muster.report._queue_records import MOST_USERS, OTHER_USERS, UserRecords
from tests.actors.report.helpers import Reader, recorded

FEED = """
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
    html = (await recorded(FEED)).page
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
    html = (await recorded(FEED.replace(", user: sue", "").replace(', user: "<bob>"', ""))).page
    assert 'id="users"' not in html


def test_the_records_are_bounded() -> None:
    records = UserRecords()
    for number in range(MOST_USERS + 2):
        records.of(f"user-{number}").bound(1_000_000)
    assert len(records.records) == MOST_USERS + 1
    assert records.of(OTHER_USERS).asks == 2
    assert records.counted(["user-0", "stranger", "stranger"]) == {"user-0": 1, OTHER_USERS: 2}
