"""``muster explain``: reasons, remedies, the forms of an instant, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.actors.cli.helpers import run, run_json, written

FEED = """\
- op: configure
  config:
    partitions:
      - name: default
        queues:
          - name: root
            queues:
              - {name: open, submitacl: "*"}
              - {name: team, submitacl: "ann"}
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: open}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, run_for: 10, at: 5}
- {op: add_app, app: no, queue: team, user: bob}
- {op: add_ask, app: no, ask: x, resources: {vcore: 1}}
- {op: remove_ask, app: a, ask: x-2, at: 8}
- {op: add_ask, app: a, ask: late, resources: {vcore: 1}, at: 60}
"""


REFUSED = """\
standard input:13: refused: user: 'team' does not admit 'bob'; no queue on its path names it
standard input:14: refused: app: 'no' is unknown
"""


def explained(*arguments: str, feed: str = FEED) -> tuple[int, Any]:
    return run_json("explain", "-", *arguments, stdin=feed)


def test_a_pending_ask() -> None:
    result = run("explain", "-", "--at", "6", "--ask", "a/x-2", stdin=FEED)

    assert (result.exit_code, result.stderr) == (0, REFUSED)
    assert (
        result.stdout
        == """\
6 s: a/x-2 is pending in root.open since 5 s, for 1 s

NoNodeFits: of 1 node 1 has too little vcore; n1 is the closest and lacks 1 vcore

When will it start?
- It is number 1 of all pending asks in order.
- It would fit alone at 15 s.
- It starts at 15 s if nothing more comes, and every ask takes as long as expected.

Each of these changes alone would get it bound at once:

1. 1 vcore more on node n1
   It is then bound on n1. Less is not enough.
   - {op: settle, at: 6}
   - {op: update_node, node: n1, capacity: {vcore: 3}}

2. another node like n1, with 2 vcore
   It is then bound on another-node. Less is not enough.
   - {op: settle, at: 6}
   - {op: add_node, node: another-node, capacity: {vcore: 2}}

3. a/x-0 ends and releases node n1
   It is then bound on n1.
   - {op: settle, at: 6}
   - {op: release, app: a, ask: x-0}

4. a/x-1 ends and releases node n1
   It is then bound on n1.
   - {op: settle, at: 6}
   - {op: release, app: a, ask: x-1}
"""
    )


def test_a_pending_ask_for_programs() -> None:
    status, answer = explained("--at", "6", "--ask", "a/x-2")
    remedies = answer.pop("remedies")
    reasons = answer.pop("reasons")

    assert status == 0
    assert answer.pop("trials") > 0
    assert answer == {
        "feed": "standard input",
        "origin": None,
        "at": 6,
        "app": "a",
        "ask": "x-2",
        "fate": "pending",
        "since": 5,
        "node": None,
        "queue": "root.open",
        "message": None,
        "code": None,
        "index": 3,
        "line": 12,
        "ended_by": None,
        "before": None,
        "refused": 2,
        "shortfalls": [],
        "first": "a/x-2",
        "levels": [],
        "position": 1,
        "reserved": None,
        "fits_now": False,
        "fits_at": 15,
        "starts_at": 15,
        "stopped_at": None,
        "exhausted": False,
        "passed": [],
        "ends_at": None,
        "gone_at": None,
        "held_back_later": None,
    }
    assert [reason["code"] for reason in reasons] == ["NoNodeFits"]
    assert reasons[0]["rules"] == ["ORDER-21"]
    assert remedies[1] == {
        "kind": "node",
        "text": "another node like n1, with 2 vcore",
        "starts": "at once",
        "applicable": False,
        "node": "another-node",
        "smallest": {"nodes": 1},
        "evicted": [],
        "events": [
            {"op": "settle", "at": 6},
            {"op": "add_node", "node": "another-node", "capacity": {"vcore": 2}},
        ],
    }


@pytest.mark.parametrize(
    ("at", "ask", "text"),
    [
        ("4", "a/x-1", "4 s: a/x-1 does not exist yet: it is added at 5 s (line 12)"),
        (
            "5",
            "a/x-0",
            "5 s: a/x-0 is bound on n1 in root.open since 5 s\nIt is expected to end at 15 s.",
        ),
        ("9", "a/x-2", "9 s: a/x-2 is over, removed at 8 s by `remove_ask` (line 15)"),
        (
            "20",
            "a/x-0",
            "20 s: a/x-0 is over, completed at 15 s when its `run_for` was over; it held n1",
        ),
        (
            "20",
            "no/x",
            (
                "20 s: no/x was refused at 5 s (line 14): UserNotAllowed: app: 'no' is unknown, "
                "since it was refused: user: 'team' does not admit 'bob'; no queue on its path "
                "names it"
            ),
        ),
        (
            "61",
            "a/late",
            "00:01:01: a/late was refused at 00:01:00 (line 16): app: 'a' has completed",
        ),
    ],
)
def test_an_ask_that_is_not_pending(at: str, ask: str, text: str) -> None:
    result = run("explain", "-", "--at", at, "--ask", ask, stdin=FEED)

    assert (result.exit_code, result.stdout) == (0, f"{text}\n")


def test_a_queue_that_drains() -> None:
    feed = """\
- {op: configure, config: {partitions: [{name: d, queues: [{name: root, queues: [{name: q}]}]}]}}
- {op: add_app, app: a, queue: q}
- {op: configure, config: {partitions: [{name: d, queues: [{name: root, queues: [{name: r}]}]}]}}
- {op: add_app, app: b, queue: q}
- {op: add_ask, app: b, ask: x, resources: {vcore: 1}}
"""
    status, answer = explained("--ask", "b/x", feed=feed)

    assert status == 0
    assert (answer["fate"], answer["code"]) == ("refused", "Draining")
    assert "'q' is draining" in answer["message"]


def test_a_waiting_and_a_parked_member() -> None:
    feed = """\
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_gang, gang: g, min_member: 2, mode: NonStrict, wait_time: 5}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, gang: g, count: 2, at: 1}
"""
    waiting = run("explain", "-", "--at", "3", "--ask", "a/x-0", "--why-only", stdin=feed)
    parked = run("explain", "-", "--at", "8", "--ask", "a/x-0", "--why-only", stdin=feed)

    # REASON-6
    lack = "The gang needs 2 vcore in all; all nodes together have 1."
    head = "3 s: a/x-0 is waiting on n1 in root.q since 1 s"
    assert waiting.stdout.startswith(f"{head}\n\n{lack}\n\nPermitWaiting: ")
    assert parked.stdout.startswith("8 s: a/x-0 is parked in root.q since ")
    assert "\nGangTimedOut: " in parked.stdout
    assert "each alone" not in waiting.stdout + parked.stdout


def test_an_ask_that_comes_again_is_the_later_one() -> None:
    feed = """\
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 5}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}, at: 10}
"""
    status, answer = explained("--ask", "a/x", feed=feed)

    assert status == 0
    assert (answer["fate"], answer["since"], answer["line"]) == ("pending", 10, 4)
    assert answer["remedies"][0]["text"] == "1 vcore more on node n1"


def test_a_pod_that_is_applied_again_is_the_same() -> None:
    pod = """\
- op: apply
  manifest:
    kind: Pod
    metadata: {name: x, labels: {applicationId: a, queue: root.q}}
    spec: {containers: [{name: c, resources: {requests: {cpu: "2"}}}]}
"""
    again = pod.replace("- op: apply\n", "- op: apply\n  at: 9\n")
    status, answer = explained("--ask", "a/x", feed=pod + again)

    assert status == 0
    assert (answer["fate"], answer["since"], answer["line"]) == ("pending", 0, 1)
    assert answer["remedies"][0]["text"] == "another node with 2 vcore"


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        ("a/zz", "no event brings it; the asks of 'a' then are: x-2, x-0, x-1"),
        ("zz/x", "no event brings it, and there is no application 'zz' then"),
        ("a/x0", "no event brings it; the asks of 'a' then are: x-2, x-0, x-1; did you mean x-0?"),
        (
            "a/lat",
            "no event brings it; the asks of 'a' then are: x-2, x-0, x-1; did you mean late?",
        ),
        ("n/x", "no event brings it, and there is no application 'n' then; did you mean no?"),
    ],
)
def test_an_unknown_ask(ask: str, text: str) -> None:
    result = run("explain", "-", "--at", "6", "--ask", ask, stdin=FEED)
    status, answer = explained("--at", "6", "--ask", ask)

    assert (result.exit_code, result.stderr) == (1, f"{REFUSED}standard input: {ask}: {text}\n")
    assert (status, answer["fate"], answer["message"]) == (1, "unknown", text)


ENDINGS = """\
- {op: add_node, node: n, capacity: {vcore: 9}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: k, count: 3, resources: {vcore: 1}, run_for: 10}
- {op: release, app: a, ask: k-0, at: 5}
- op: apply
  manifest: &pod
    kind: Pod
    metadata: {name: p, labels: {applicationId: a}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
- {op: settle}
- op: apply
  at: 6
  manifest: {<<: *pod, status: {phase: Succeeded}}
- op: apply
  manifest: {<<: *pod, metadata: {name: d, labels: {applicationId: a}}}
- {op: settle}
- op: delete
  at: 7
  manifest: {<<: *pod, metadata: {name: d, labels: {applicationId: a}}}
- {op: remove_app, app: a, at: 10}
"""


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        ("k-0", "completed at 5 s by `release` (line 4); it held n"),
        ("k-1", "completed at 10 s when its `run_for` was over; it held n"),
        ("p", "completed at 6 s by `apply` of its Pod, which has finished (line 11); it held n"),
        ("d", "removed at 7 s by `delete` (line 17); it held n"),
    ],
)
def test_how_an_ask_ended(ask: str, text: str) -> None:
    assert run("explain", "-", "--ask", f"a/{ask}", stdin=ENDINGS).stdout == (
        f"10 s: a/{ask} is over, {text}\n"
    )


FAILURES = """\
- {op: add_node, node: n, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, retries: 1}
- {op: add_ask, app: a, ask: y, resources: {vcore: 1}}
- {op: release, at: 5, app: a, ask: x, outcome: failed}
- {op: release, app: a, ask: y, outcome: failed, message: exit status 3}
- {op: release, at: 8, app: a, ask: x, outcome: failed}
- {op: settle, at: 10}
"""


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        ("x", "10 s: a/x is over, failed at 8 s by `release` (line 7); it held n"),
        ("y", "10 s: a/y is over, failed at 5 s by `release`: exit status 3 (line 6); it held n"),
    ],
)
def test_how_an_ask_failed(ask: str, text: str) -> None:
    assert run("explain", "-", "--ask", f"a/{ask}", stdin=FAILURES).stdout == f"{text}\n"


def test_an_ask_that_failed_and_runs_again() -> None:
    result = run("explain", "-", "--ask", "a/x", "--at", "6", stdin=FAILURES)

    assert result.stdout.startswith("6 s: a/x is bound on n in root.q since 5 s")


def test_the_end_with_the_application() -> None:
    feed = ENDINGS.replace(", run_for: 10", "")
    result = run("explain", "-", "--ask", "a/k-1", stdin=feed)
    status, answer = explained("--ask", "a/k-1", feed=feed)

    assert "removed at 10 s with its application, by `remove_app` (line " in result.stdout
    assert (status, answer["fate"], answer["since"]) == (0, "removed", 10)
    assert answer["ended_by"] == {"index": 10, "line": 20}


def test_a_refused_event_ends_nothing() -> None:
    feed = ENDINGS.replace("at: 5}", "at: 10}").partition("- op: apply")[0]

    assert "k-0 is over, completed at 10 s when its `run_for`" in (
        run("explain", "-", "--ask", "a/k-0", stdin=feed).stdout
    )


def test_what_is_no_event_might_have_brought_it() -> None:
    bad = "- {op: add_ask, app: a, ask: bad, resources: {vcore: -1}, at: 70}\n"
    result = run("explain", "-", "--ask", "a/bad", stdin=FEED + bad)

    assert result.exit_code == 1
    assert "what is no event might have brought it: line 17 (resources.vcore: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --ask APP/ASK, or --all for all asks that are not running"),
        (("--all", "--ask", "a/x"), "--ask and --all exclude each other: give one of them"),
        (("--ask", "ax"), "'ax' is not an ask: write it as application/ask"),
        (("--ask", "a/x/y"), "'a/x/y' is not an ask"),
        (("--ask", "/x"), "'/x' is not an ask"),
        (
            ("--ask", "a/x", "--at", "soon"),
            "'soon' is not a duration: write seconds, a duration such as '1h30m', or '2d 01:30:00'",
        ),
        (("--ask", "a/x", "--at", "-1"), "'-1' is negative"),
    ],
)
def test_unusable_arguments(arguments: tuple[str, ...], message: str) -> None:
    result = run("explain", "-", *arguments, stdin=FEED)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_feed_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    result = run("explain", missing, "--all")
    status, answer = run_json("explain", missing, "--ask", "a/x")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "none.yaml: " in result.stderr
    assert status == 2
    assert answer["error"]["file"] == str(missing)


def test_a_feed_that_breaks_off_matters_only_up_to_the_instant(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", FEED + "- {op: settle, at: 99\n")

    assert run("explain", feed, "--at", "6", "--ask", "a/x-2").exit_code == 0
    assert run("explain", feed, "--ask", "a/x-2").exit_code == 2


SEVERAL = """\
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: big, resources: {vcore: 3}, at: 1}
- {op: add_app, app: b, queue: r}
- {op: add_ask, app: b, ask: x, resources: {vcore: 1}, count: 4, at: 2}
- {op: add_ask, app: b, ask: huge, resources: {gpu: 1}, at: 4}
"""


def test_all_that_do_not_run() -> None:
    result = run("explain", "-", "--all", "--at", "1m", stdin=SEVERAL)

    assert (result.exit_code, result.stderr) == (0, "")
    _, answer = explained("--all", "--at", "1m", feed=SEVERAL)
    why = {one["ask"]: one["message"] for group in answer["groups"] for one in group["examples"]}
    assert (
        result.stdout
        == f"""\
00:01:00: 4 asks not running

 reason       asks   longest wait   queues
 ─────────────────────────────────────────────────────────
 NeverFits       2           59 s   root.q (1), root.r (1)
 NoNodeFits      2           58 s   root.r (2)

NeverFits, such as:
- a/big, for 59 s: {why["a/big"]}
- b/huge, for 56 s: {why["b/huge"]}

NoNodeFits, such as:
- b/x-2, for 58 s: {why["b/x-2"]}
- b/x-3, for 58 s: {why["b/x-3"]}
"""
    )


def test_all_that_do_not_run_for_programs() -> None:
    status, answer = explained("--all", feed=SEVERAL)

    assert status == 0
    assert (answer["at"], answer["count"]) == (4, 4)
    first = answer["groups"][0]
    assert (first["code"], first["count"], first["longest"]) == ("NeverFits", 2, 3)
    assert first["queues"] == {"root.q": 1, "root.r": 1}
    assert [one["ask"] for one in first["examples"]] == ["a/big", "b/huge"]
    assert first["examples"][0]["since"] == 1


def test_nothing_that_does_not_run() -> None:
    result = run("explain", "-", "--all", stdin="[]")

    assert (result.exit_code, result.stdout) == (0, "0 s: 0 asks not running\n")


COMPARED = """\
- {op: configure, config: {partitions: [{name: d, queues: [{name: root, queues: [{name: q,
    properties: {application.sort.blocking: enabled}}]}]}]}}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: y, resources: {vcore: 8}}
- {op: add_app, app: b, queue: q}
- {op: add_ask, app: b, ask: x, resources: {vcore: 1}}
"""


def test_the_keys_that_are_compared() -> None:
    text = run("explain", "-", "--ask", "b/x", "--why-only", stdin=COMPARED).stdout
    _, _, table = text.partition("How it compares with the ask that is tried first:\n")
    rows = [line.split() for line in table.splitlines() if line.strip()]

    assert rows[0] == ["at", "key", "b/x", "a/y"]
    assert ["root", "root.q", "root.q"] in rows
    assert ["root.q", "b", "a"] in rows
    assert ["creation", "5", "3", "decides"] in rows


def test_a_long_configuration_can_be_pasted_as_it_is(tmp_path: Path) -> None:
    queues = ", ".join(f"{{name: queue-{number}}}" for number in range(50))
    feed = COMPARED.replace("[{name: q,", f"[{queues}, {{name: q,")
    text = run("explain", "-", "--ask", "b/x", stdin=feed).stdout
    (configured,) = (line for line in text.splitlines() if "op: configure" in line)
    pasted = written(tmp_path / "feed.yaml", f"{feed}{configured.strip()}\n")

    assert len(configured) > 1_000
    assert "b/x is bound on n1" in run("explain", pasted, "--ask", "b/x").stdout


def test_nothing_helps() -> None:
    feed = """\
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: q}
- op: add_ask
  app: a
  ask: x
  resources: {vcore: 1}
  annotations:
    gang.scheduling.koordinator.sh/name: g
    gang.scheduling.koordinator.sh/min-available: 20000
"""
    status, answer = explained("--ask", "a/x", feed=feed)
    text = run("explain", "-", "--ask", "a/x", stdin=feed).stdout

    assert status == 0
    assert answer["remedies"] == []
    assert text.endswith(
        "\nNo single change or combination that was tried would get it bound at once.\n"
    )


EVICTED = """\
- {op: configure, config: {partitions: [{name: d, queues: [{name: root, queues: [
    {name: q, resources: {guaranteed: {vcore: 1}}, properties: {preemption.delay: 0s}},
    {name: r}]}]}]}}
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: r}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, at: 5}
- {op: add_app, app: b, queue: q, at: 65.5}
- {op: add_ask, app: b, ask: y, resources: {vcore: 1}}
- {op: settle, at: 74.999999}
"""


def test_an_ask_that_ran_before() -> None:
    text = run("explain", "-", "--ask", "a/x", "--why-only", stdin=EVICTED).stdout
    _, answer = explained("--ask", "a/x", "--why-only", feed=EVICTED)

    assert text.splitlines()[:2] == [
        "00:01:14.999999: a/x is pending in root.r since 00:01:05.5, for 9.499999 s",
        "It ran on n1 from 5 s to 00:01:05.5: reclaimed for b/y: root.q is below its guaranteed",
    ]
    assert answer["before"] == {
        "node": "n1",
        "from": 5,
        "until": 65.5,
        "waiting": False,
        "reason": "reclaimed",
        "message": "for b/y: root.q is below its guaranteed",
    }


def test_what_it_held_before_does_not_matter_once_it_is_bound_or_comes_anew() -> None:
    again = "- {op: remove_ask, app: a, ask: x}\n- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}\n"
    node = "- {op: add_node, node: n2, capacity: {vcore: 1}}\n"

    assert explained("--ask", "a/x", feed=EVICTED + again)[1]["before"] is None
    assert explained("--ask", "a/x", feed=EVICTED + node)[1]["before"] is None


def test_a_member_that_waited_before() -> None:
    feed = """\
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: add_gang, gang: g, min_member: 2, mode: NonStrict, wait_time: 5}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, gang: g, count: 2, at: 1}
"""
    text = run("explain", "-", "--at", "8", "--ask", "a/x-0", "--why-only", stdin=feed).stdout

    assert text.splitlines()[1] == "It waited on n1 from 1 s to 6 s: gang timeout"


def test_who_has_to_go_for_a_remedy() -> None:
    feed = EVICTED.replace("delay: 0s", "delay: 1h")
    text = run("explain", "-", "--ask", "b/y", stdin=feed).stdout
    _, answer = explained("--ask", "b/y", feed=feed)

    assert "   It is then bound on n1, and a/x loses its node.\n" in text
    evicted = {remedy["kind"]: remedy["evicted"] for remedy in answer["remedies"]}
    assert evicted["property"] == ["a/x"]
    assert evicted["node"] == evicted["capacity"] == []


@pytest.mark.parametrize("question", [("--all",), ("--ask", "a/x")])
def test_a_feed_of_refused_events_is_asked_about(question: tuple[str, ...]) -> None:
    result = run("explain", "-", *question, stdin="- {op: bogus}\n")

    assert result.exit_code == 1
    assert "standard input:1: refused: op: 'bogus' is no operation" in result.stderr
    assert "standard input: every event was refused: is it a feed?\n" in result.stderr


def test_help_has_an_example() -> None:
    text = run("explain", "-h").stdout

    assert "muster explain feed.yaml --at 1h30m --ask job/worker-3" in text


@pytest.mark.parametrize(
    ("at", "us"),
    [
        ("00:04:30", 270_000_000),
        ("2d 01:30:00.5", 178_200_500_000),
        ("100d", 8_640_000_000_000),
        ("120:00:00", 432_000_000_000),
        ("4.5 s", 4_500_000),
        ("4.5s", 4_500_000),
        ("90", 90_000_000),
        ("1h30m", 5_400_000_000),
    ],
)
def test_an_instant_may_be_written_as_it_is_shown(at: str, us: int) -> None:
    status, answer = run_json("explain", "-", "--all", "--at", at, stdin="[]")

    assert (status, answer["at"]) == (0, us / 1_000_000)


@pytest.mark.parametrize("at", ["", "12:30", "01:60:00", "00:00:61", "1:2:3", "1.5d", "1d 12"])
def test_what_is_no_instant(at: str) -> None:
    result = run("explain", "-", "--all", "--at", at, stdin="")

    assert result.exit_code == 2
    message = (
        f"{at!r} is not a duration: write seconds, a duration such as '1h30m', or '2d 01:30:00'"
    )
    assert message in " ".join(result.stderr.split())


def test_the_first_ten_refusals_are_shown() -> None:
    bad = "- {op: bogus}\n"
    result = run("explain", "-", "--all", "--at", "1", stdin=f"{bad * 12}{SEVERAL}{bad}")
    _, answer = run_json("explain", "-", "--all", "--at", "1", stdin=f"{bad * 12}{SEVERAL}")

    lines = result.stderr.splitlines()
    assert result.exit_code == 0
    assert len(lines) == 11
    assert lines[0].startswith("standard input:1: refused: op: ")
    assert lines[-1] == "standard input: refused: … 12 in all"
    assert answer["refused"] == 12


PAST = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, properties: {usage.half.life: 100s}, queues: [
    {name: a}, {name: b}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 1}}
- {op: set_usage, queue: root.a, usage: {vcore: 100}}
- {op: add_app, app: y, queue: root.b}
- {op: add_ask, app: y, ask: x, resources: {vcore: 1}, run_for: 50, count: 3}
- {op: add_app, app: x, queue: root.a}
- {op: add_ask, app: x, ask: x, resources: {vcore: 1}, run_for: 50}
"""
_BEHIND = "y/x-1 is tried before it: root.b in root, as its past share"
_USED = "root.a has used 2 times its part in the last 1m40s"


# REASON-11: also where all asks are explained, whatever their dominant reason
def test_an_overview_names_the_past() -> None:
    lines = run("explain", "-", "--all", "--at", "0", stdin=PAST).stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("- x/x, for"))
    assert "too little vcore" in lines[at]
    assert lines[at + 1].startswith(f"  {_BEHIND}")
    assert _USED in lines[at + 1]
    assert not any(line.startswith("  ") and "y/x-2" in line for line in lines)
    (group,) = run_json("explain", "-", "--all", "--at", "0", stdin=PAST)[1]["groups"]
    past = {one["ask"]: one.get("past_share") for one in group["examples"]}
    assert past["x/x"].startswith(_BEHIND)
    assert past["y/x-2"] is None


def test_keys_say_what_they_count() -> None:
    output = run("explain", "-", "--ask", "x/x", "--at", "0", "--why-only", stdin=PAST).stdout
    assert "pastShare (ticks of all nodes, by weight)" in output
    assert "pending (of all nodes)" in output
    _, found = run_json("explain", "-", "--ask", "x/x", "--at", "0", "--why-only", stdin=PAST)
    assert "pastShare" in [key["name"] for key in found["levels"][0]["keys"]]
