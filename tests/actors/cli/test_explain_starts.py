"""``muster explain``: when an ask starts, what is reserved for it, and whom it passed."""

from __future__ import annotations

from typing import Final

import pytest

from tests.actors.cli.helpers import run
from tests.actors.cli.test_explain import explained
from tests.actors.samples import LATER, RESERVED

RUNNING: Final = """\
- op: configure
  config:
    partitions:
      - name: default
        queues:
          - name: root
            queues: [{name: known, properties: {estimate.default: 1h}}, {name: open}]
- {op: add_node, node: n1, capacity: {vcore: 5}}
- {op: add_app, app: a, queue: known}
- {op: add_ask, app: a, ask: run, resources: {vcore: 1}, run_for: 30}
- {op: add_ask, app: a, ask: said, resources: {vcore: 1}, estimate: 40, run_for: 500}
- {op: add_ask, app: a, ask: left, resources: {vcore: 1}}
- {op: add_app, app: b, queue: open}
- {op: add_ask, app: b, ask: open, resources: {vcore: 1}}
- {op: add_gang, gang: g, min_member: 2, mode: NonStrict}
- {op: add_ask, app: b, ask: m, gang: g, resources: {vcore: 1}, estimate: 20}
- {op: add_ask, app: b, ask: next, gang: g, resources: {vcore: 5}, estimate: 20}
"""
"""At 90 s a/run is over, b/m waits for b/next, which is pending, and there is no a/never."""


# OUTLOOK-1, OUTLOOK-2, OUTLOOK-3, OUTLOOK-5
@pytest.mark.parametrize(
    ("ask", "position", "fits_at", "starts_at"),
    [("new/wide", 1, 100, 100), ("new/next", 2, 100, 150), ("new/held", 3, 40, 150)],
)
def test_when_it_starts(ask: str, position: int, fits_at: int, starts_at: int) -> None:
    status, answer = explained("--at", "10", "--ask", ask, "--why-only", feed=RESERVED)

    assert status == 0
    assert (answer["position"], answer["fits_at"]) == (position, fits_at)
    assert (answer["starts_at"], answer["stopped_at"]) == (starts_at, None)


# OUTLOOK-6, OUTLOOK-7
def test_what_is_reserved_and_with_whose_end_it_starts() -> None:
    at = "--at", "10", "--why-only"
    output = run("explain", "-", *at, "--ask", "new/wide", stdin=RESERVED).stdout
    assert (
        "- Reserved for it: n1 from 00:01:40, when old/long on n1 is expected to end.\n" in output
    )
    output = run("explain", "-", *at, "--ask", "new/next", stdin=RESERVED).stdout
    assert (
        "- Reserved for it: n2 once old/open on n2 has ended, whose end is not known.\n" in output
    )
    output = run("explain", "-", *at, "--ask", "new/held", stdin=RESERVED).stdout
    assert "Reserved for it" not in output
    assert "- It would fit alone now.\n- It starts at 00:02:30 if" in output

    _, answer = explained(*at, "--ask", "new/wide", feed=RESERVED)
    assert answer["fits_now"] is False
    assert answer["reserved"] == {
        "scope": "root.q",
        "start": 100,
        "places": [{"ask": "new/wide", "node": "n1"}],
        "waits_for": [{"ask": "old/long", "node": "n1"}],
    }
    _, answer = explained(*at, "--ask", "new/held", feed=RESERVED)
    assert (answer["fits_now"], answer["fits_at"], answer["reserved"]) == (True, 40, None)
    _, answer = explained(*at, "--ask", "old/long", feed=RESERVED)
    assert answer["fits_now"] is answer["reserved"] is None


# OUTLOOK-8
def test_whom_an_ask_passed_and_why_it_could() -> None:
    output = run("explain", "-", "--at", "20", "--ask", "new/small", stdin=RESERVED).stdout
    assert output.splitlines()[1:] == [
        "It is expected to end at 40 s.",
        "It passed new/wide, with a reservation from 00:01:40: it was expected to end by 40 s.",
        (
            "It passed new/next, with a reservation whose start was not known: it was "
            "expected to end by 40 s."
        ),
    ]
    _, answer = explained("--at", "20", "--ask", "new/small", feed=RESERVED)
    assert answer["passed"] == [
        {"ask": "new/wide", "others": 0, "start": 100, "ends": 40},
        {"ask": "new/next", "others": 0, "start": None, "ends": 40},
    ]
    _, answer = explained("--at", "20", "--ask", "old/long", feed=RESERVED)
    assert answer["passed"] == []


# OUTLOOK-8
def test_an_ask_passed_at_a_timer_beside_what_is_reserved() -> None:
    feed = """- op: configure
  config:
    partitions:
      - {name: default, queues: [{name: root, queues: [{name: q, properties: {scheduling.order: backfill}}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_node, node: n2, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: open, resources: {vcore: 3}}
- {op: add_ask, app: a, ask: short, resources: {vcore: 1}, run_for: 10, node: n2}
- {op: add_ask, app: a, ask: brief, resources: {vcore: 1}, run_for: 50, node: n1}
- {op: add_ask, app: a, ask: large, resources: {vcore: 4}, run_for: 60}
- {op: add_ask, app: a, ask: beside, resources: {vcore: 1}, node: n2}
- {op: add_ask, app: a, ask: later, resources: {vcore: 1}, at: 100}
"""
    output = run("explain", "-", "--ask", "a/beside", stdin=feed).stdout
    assert output.endswith(
        "since 10 s\nIt passed a/large, with a reservation whose start was not known: it fits "
        "its node beside what is reserved there.\n"
    )


# OUTLOOK-10
def test_an_ask_that_will_be_held_back_when_it_would_fit() -> None:
    output = run("explain", "-", "--ask", "a/later", "--why-only", stdin=LATER).stdout
    assert "\nNoNodeFits: " in output
    assert (
        "- It would fit alone at 20 s.\n"
        "- It will not start then: it fits on n1 and is held back: it would delay the reservation of "
        "a/wide on n1, which starts at 40 s. With a shorter estimate it may pass.\n"
        "- It starts at 00:02:00 if"
    ) in output
    _, answer = explained("--ask", "a/later", "--why-only", feed=LATER)
    later = answer["held_back_later"]
    assert (later["code"], later["facts"]["delays"]) == ("HeldBack", "a/wide")
    assert later["facts"]["start_us"] == 40_000_000

    # As it says: one that ends by then starts when it fits, and nothing holds it back.
    feed = LATER.replace("estimate: 90", "estimate: 20")
    _, answer = explained("--ask", "a/later", "--why-only", feed=feed)
    assert (answer["held_back_later"], answer["starts_at"]) == (None, 20)


# OUTLOOK-10
@pytest.mark.parametrize("ask", ["a/wide", "a/large", "a/half"])
def test_what_is_not_held_back_later(ask: str) -> None:
    _, answer = explained("--ask", ask, "--why-only", feed=LATER)
    assert (answer["fate"], answer["held_back_later"]) == ("pending", None)


# OUTLOOK-9, BACKFILL-12
@pytest.mark.parametrize(
    ("ask", "at", "ends_at", "text"),
    [
        ("a/run", "29.5", 30, "30 s"),  # its run_for
        ("a/said", "29.5", 40, "40 s"),  # its estimate, though its run_for is longer
        ("a/said", "40", 80, "00:01:20"),  # at the end of its estimate: twice
        ("a/said", "90", 160, "00:02:40"),
        ("a/left", "90", 3600, "01:00:00"),  # the estimate.default of its queue
    ],
)
def test_when_an_ask_that_runs_is_expected_to_end(
    ask: str, at: str, ends_at: int, text: str
) -> None:
    output = run("explain", "-", "--at", at, "--ask", ask, stdin=RUNNING)
    assert output.stdout.splitlines()[1:] == [f"It is expected to end at {text}."]
    _, answer = explained("--at", at, "--ask", ask, feed=RUNNING)
    assert (answer["fate"], answer["ends_at"]) == ("bound", ends_at)


# OUTLOOK-9, BACKFILL-13
@pytest.mark.parametrize(
    ("ask", "fate"),
    [
        ("b/open", "bound"),
        ("b/m", "waiting"),
        ("b/next", "pending"),
        ("a/run", "completed"),
        ("a/never", "unknown"),
    ],
)
def test_nobody_knows_when_an_ask_ends(ask: str, fate: str) -> None:
    output = run("explain", "-", "--at", "90", "--ask", ask, "--why-only", stdin=RUNNING)
    assert "expected to end" not in output.stdout
    _, answer = explained("--at", "90", "--ask", ask, "--why-only", feed=RUNNING)
    assert (answer["fate"], answer["ends_at"]) == (fate, None)


LIMITED: Final = """\
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: runs, resources: {vcore: 1}, run_for: 90, run_limit: 40}
- {op: add_ask, app: a, ask: waits, resources: {vcore: 2}, start_by: 30}
- {op: add_ask, app: a, ask: next, resources: {vcore: 1}, start_by: 50}
"""


# TIME-12
@pytest.mark.parametrize(
    ("ask", "at", "fate", "gone_at", "lines"),
    [
        (
            "a/runs",
            "29",
            "bound",
            40,
            ["It is expected to end at 00:01:30.", "It is gone at 40 s, at the latest."],
        ),
        ("a/waits", "29", "pending", 30, ["It is gone at 30 s, if it is not bound by then."]),
        ("a/next", "50", "bound", None, []),
    ],
)
def test_when_an_ask_is_gone(
    ask: str, at: str, fate: str, gone_at: int | None, lines: list[str]
) -> None:
    output = run("explain", "-", "--at", at, "--ask", ask, stdin=LIMITED).stdout.splitlines()
    assert [line for line in output[1:] if line.startswith(("It is gone", "It is exp"))] == lines
    _, answer = explained("--at", at, "--ask", ask, feed=LIMITED)
    assert (answer["fate"], answer["gone_at"]) == (fate, gone_at)


# TIME-12, OUTLOOK-3
def test_who_waits_for_an_ask_starts_at_its_run_limit() -> None:
    _, answer = explained("--at", "29", "--ask", "a/next", feed=LIMITED)
    assert (answer["fits_at"], answer["starts_at"]) == (90, 40)


# TIME-3, TIME-8
@pytest.mark.parametrize(
    ("ask", "fate", "text"),
    [
        (
            "a/runs",
            "run_limit",
            "run limit at 40 s when it had run for as long as it may; it held n1",
        ),
        ("a/waits", "expired", "expired at 30 s as it was not bound by its `start_by`"),
    ],
)
def test_how_an_ask_ended_whose_time_was_up(ask: str, fate: str, text: str) -> None:
    output = run("explain", "-", "--at", "60", "--ask", ask, stdin=LIMITED)
    assert output.stdout.strip() == f"00:01:00: {ask} is over, {text}"
    _, answer = explained("--at", "60", "--ask", ask, feed=LIMITED)
    assert (answer["fate"], answer["ended_by"]) == (fate, None)


# OUTLOOK-6
def test_what_is_reserved_for_a_gang() -> None:
    feed = """- op: configure
  config:
    partitions:
      - {name: default, queues: [{name: root, queues: [{name: q, properties: {scheduling.order: backfill}}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_node, node: n2, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: short, resources: {vcore: 1}, run_for: 60, node: n1}
- {op: add_ask, app: a, ask: long, resources: {vcore: 2}, run_for: 120, node: n2}
- {op: add_gang, gang: g, min_member: 2}
- {op: add_ask, app: a, ask: m, count: 3, gang: g, resources: {vcore: 2}, run_for: 60}
"""
    output = run("explain", "-", "--ask", "a/m-0", "--why-only", stdin=feed).stdout
    since = "from 00:02:00, when a/long on n2 is expected to end"
    assert f"; n1 and n2 are reserved for it {since}\n" in output
    assert f"Reserved for it: n1, and n2 for 1 other member of its group, {since}.\n" in output
    output = run("explain", "-", "--ask", "a/m-2", "--why-only", stdin=feed).stdout
    assert (
        f"Nothing is reserved for it, but n1 and n2 for 2 other members of its group, {since}.\n"
        in output
    )


# OUTLOOK-5
def test_when_it_starts_is_unknown_or_never() -> None:
    feed = """- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: open, resources: {vcore: 2}}
- {op: add_ask, app: a, ask: next, resources: {vcore: 2}}
- {op: add_ask, app: a, ask: large, resources: {vcore: 3}}
"""
    for ask, fits_at in (("a/next", "unknown"), ("a/large", None)):
        _, answer = explained("--ask", ask, "--why-only", feed=feed)
        assert (answer["fits_at"], answer["starts_at"]) == (fits_at, None)
    output = run("explain", "-", "--ask", "a/next", "--why-only", stdin=feed).stdout
    assert "- It would fit alone when an ask ends whose end nobody knows.\n" in output
    assert output.endswith(
        "- Its start is not known: it is still pending when every ask has ended whose end is known.\n"
    )
    output = run("explain", "-", "--ask", "a/large", "--why-only", stdin=feed).stdout
    assert "- It would not fit even if all others ended.\n" in output
    _, answer = explained("--ask", "a/open", feed=feed)
    assert answer["position"] is answer["fits_at"] is answer["starts_at"] is None
