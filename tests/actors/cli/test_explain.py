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


def explained(*arguments: str, feed: str = FEED) -> tuple[int, Any]:
    return run_json("explain", "-", *arguments, given=feed)


def test_a_pending_ask() -> None:
    result = run("explain", "-", "--at", "6", "--ask", "a/x-2", given=FEED)

    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        result.stdout
        == """\
6 s: a/x-2 is pending in root.open since 5 s, for 1 s

NoNodeFits: of 1 node 1 has too little vcore; n1 is the closest and lacks 1 vcore

What would get it bound at once, each alone:

1. vcore 1 more on node n1
   It is bound on n1 then. Less does not do.
   - {op: settle, at: 6}
   - {op: update_node, node: n1, capacity: {vcore: 3}}

2. another node with vcore 1
   It is bound on another-node then. Less does not do.
   - {op: settle, at: 6}
   - {op: add_node, node: another-node, capacity: {vcore: 1}}

3. a/x-0 ends, which holds node n1
   It is bound on n1 then.
   - {op: settle, at: 6}
   - {op: release, app: a, ask: x-0}

4. a/x-1 ends, which holds node n1
   It is bound on n1 then.
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
        "first": "a/x-2",
        "levels": [],
        "exhausted": False,
    }
    assert [reason["code"] for reason in reasons] == ["NoNodeFits"]
    assert remedies[1] == {
        "kind": "node",
        "text": "another node with vcore 1",
        "node": "another-node",
        "smallest": {"vcore": 1000},
        "events": [
            {"op": "settle", "at": 6},
            {"op": "add_node", "node": "another-node", "capacity": {"vcore": 1}},
        ],
    }


@pytest.mark.parametrize(
    ("at", "ask", "said"),
    [
        ("4", "a/x-1", "4 s: a/x-1 is not there yet: it comes at 5 s (line 12)"),
        ("5", "a/x-0", "5 s: a/x-0 is bound on n1 in root.open since 5 s"),
        ("9", "a/x-2", "9 s: a/x-2 is over, removed at 8 s"),
        ("20", "a/x-0", "20 s: a/x-0 is over, completed at 15 s; it held n1"),
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
def test_an_ask_that_is_not_pending(at: str, ask: str, said: str) -> None:
    result = run("explain", "-", "--at", at, "--ask", ask, given=FEED)

    assert (result.exit_code, result.stdout) == (0, f"{said}\n")


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
    waiting = run("explain", "-", "--at", "3", "--ask", "a/x-0", "--why-only", given=feed)
    parked = run("explain", "-", "--at", "8", "--ask", "a/x-0", "--why-only", given=feed)

    assert waiting.stdout.startswith("3 s: a/x-0 is waiting on n1 in root.q since 1 s\n\nPermitW")
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
    assert answer["remedies"][0]["text"] == "vcore 1 more on node n1"


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
    assert answer["remedies"][0]["text"] == "another node with vcore 2"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ("a/zz", "no event brings it; the asks of 'a' then are: x-2, x-0, x-1"),
        ("zz/x", "no event brings it, and there is no application 'zz' then"),
    ],
)
def test_an_unknown_ask(ask: str, said: str) -> None:
    result = run("explain", "-", "--at", "6", "--ask", ask, given=FEED)
    status, answer = explained("--at", "6", "--ask", ask)

    assert (result.exit_code, result.stderr) == (1, f"standard input: {ask}: {said}\n")
    assert (status, answer["fate"], answer["message"]) == (1, "unknown", said)


def test_what_is_no_event_might_have_brought_it() -> None:
    bad = "- {op: add_ask, app: a, ask: bad, resources: {vcore: -1}, at: 70}\n"
    result = run("explain", "-", "--ask", "a/bad", given=FEED + bad)

    assert result.exit_code == 1
    assert "what is no event might have brought it: line 17 (resources.vcore: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either --ask APP/ASK or --all"),
        (("--all", "--ask", "a/x"), "give either --ask APP/ASK or --all"),
        (("--ask", "ax"), "'ax' is no ask: write it as application/ask"),
        (("--ask", "a/x/y"), "'a/x/y' is no ask"),
        (("--ask", "/x"), "'/x' is no ask"),
        (("--ask", "a/x", "--at", "soon"), "'soon' is not a duration"),
        (("--ask", "a/x", "--at", "-1"), "'-1' is negative"),
    ],
)
def test_unusable_arguments(arguments: tuple[str, ...], said: str) -> None:
    result = run("explain", "-", *arguments, given=FEED)

    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


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
    result = run("explain", "-", "--all", "--at", "1m", given=SEVERAL)

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
    result = run("explain", "-", "--all", given="")

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
    text = run("explain", "-", "--ask", "b/x", "--why-only", given=COMPARED).stdout
    _, _, table = text.partition("How it compares with what is tried first:\n")
    rows = [line.split() for line in table.splitlines() if line.strip()]

    assert rows[0] == ["at", "key", "b/x", "a/y"]
    assert ["root", "root.q", "root.q"] in rows
    assert ["root.q", "b", "a"] in rows
    assert ["creation", "5", "3", "decides"] in rows


def test_a_long_configuration_is_left_to_programs() -> None:
    queues = ", ".join(f"{{name: queue-{number}}}" for number in range(50))
    feed = COMPARED.replace("[{name: q,", f"[{queues}, {{name: q,")
    text = run("explain", "-", "--ask", "b/x", given=feed).stdout

    assert "   # configure, in " in text
    assert "characters: see --format json" in text


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
    text = run("explain", "-", "--ask", "a/x", given=feed).stdout

    assert status == 0
    assert answer["remedies"] == []
    assert text.endswith("\nNothing that was tried would get it bound at once.\n")


def test_help_has_an_example() -> None:
    text = run("explain", "-h").stdout

    assert "muster explain feed.yaml --at 1h30m --ask job/worker-3" in text
