"""``muster why`` against a real server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.feeds import read_feed
from muster_core.events import AddAsk
from tests.actors.cli.helpers import run
from tests.actors.samples import LATER, RESERVED
from tests.actors.serving.served import Served, ServiceThread
from tests.actors.serving.truth import fill

FEED = """
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: etl, queue: root.prod}
- {op: add_ask, app: etl, ask: load, resources: {vcore: 3}, count: 2}
"""

NEVER = (Path(__file__).parents[4] / "docs" / "feeds" / "never.yaml").read_text()
"""A gang that needs more than its queue may have, and asks that run."""

DATE = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture(scope="module", autouse=True)
def filled(served: Served, tmp_path_factory: pytest.TempPathFactory) -> None:
    feed = tmp_path_factory.mktemp("feed") / "feed.yaml"
    feed.write_text(FEED)
    assert run("submit", feed, "--server", served.urls[0]).exit_code == 0


def test_all_reasons() -> None:
    result = run("why", "etl/load-1")

    assert result.exit_code == 0, result.output
    head, _, reasons = result.stdout.partition("\n\n")
    assert re.fullmatch(rf"etl/load-1 is pending in root\.prod since {DATE}", head)
    assert reasons.startswith("NoNodeFits: of 1 node 1 has too little vcore; n1 ")


# OUTLOOK-1, OUTLOOK-2, OUTLOOK-3
def test_when_it_starts() -> None:
    place = "When will it start?\n- It is number 1 of all pending asks in order.\n"
    assert run("why", "etl/load-1").stdout.endswith(place)

    result = run("why", "etl/load-1", "--forecast")
    assert result.stdout.endswith(
        f"{place}- It would fit alone when an ask ends whose end nobody knows.\n"
        "- Its start is not known: it is still pending when every ask has ended whose end is known.\n"
    )


def test_what_would_help(tmp_path: Path) -> None:
    result = run("why", "etl/load-1", "--remedies")

    assert "Each of these changes alone would get it bound at once:" in result.stdout
    # OUTLOOK-33
    assert "another node like n1, with 4 vcore\n   It is then bound on" in result.stdout
    assert "   This is advice: it needs a machine, and no event makes one.\n" in result.stdout
    assert "_node" not in result.stdout
    event = "{op: release, app: etl, ask: load-0}"
    assert f"   - {event}\n" in result.stdout
    feed = tmp_path / "remedy.yaml"
    feed.write_text(f"- {event}\n")
    assert run("submit", feed).exit_code == 0
    output = run("why", "etl/load-1").stdout
    assert re.fullmatch(rf"etl/load-1 is bound on n1 in root\.prod since {DATE}\n", output)


# OUTLOOK-8, OUTLOOK-9
def test_when_an_ask_that_runs_ends_and_whom_it_passed() -> None:
    events = """
- op: configure
  config:
    partitions:
      - name: default
        queues:
          - name: root
            queues: [{name: fill, properties: {scheduling.order: backfill}}]
- {op: add_node, node: b1, capacity: {gpu: 4}}
- {op: add_app, app: sim, queue: root.fill}
- {op: add_ask, app: sim, ask: long, resources: {gpu: 3}, estimate: 1h}
- {op: add_ask, app: sim, ask: wide, resources: {gpu: 4}}
"""
    assert run("submit", "-", stdin=events).exit_code == 0
    small = "- {op: add_ask, app: sim, ask: small, resources: {gpu: 1}, estimate: 10m}\n"
    assert run("submit", "-", stdin=small).exit_code == 0

    first, *more = run("why", "sim/small").stdout.splitlines()
    assert re.fullmatch(rf"sim/small is bound on b1 in root\.fill since {DATE}", first)
    assert [re.sub(DATE, "DATE", line) for line in more] == [
        "It is expected to end at DATE.",
        "It passed sim/wide, with a reservation from DATE: it was expected to end by DATE.",
    ]


def test_as_json() -> None:
    huge = "- {op: add_ask, app: etl, ask: huge, resources: {vcore: 99}}\n"
    assert run("submit", "-", stdin=huge).exit_code == 0

    found = json.loads(run("why", "etl/huge", "-o", "json").stdout)

    assert found["item"]["reasons"][0]["code"] == "NeverFits"


@pytest.mark.parametrize(
    ("name", "status", "problem"),
    [
        ("etl/load-9", 1, "ask: 'etl/load-9' is unknown"),
        ("etl", 2, "'etl': write an ask as APP/ASK"),
    ],
)
def test_what_is_not_there(name: str, status: int, problem: str) -> None:
    # CLIENT-2
    result = run("why", name)

    assert result.exit_code == status
    assert problem in result.output


# REASON-6, OUTLOOK-31, OUTLOOK-32
def test_what_a_gang_can_never_have_and_what_lets_it_start(tmp_path: Path) -> None:
    path, state = tmp_path / "feed.yaml", tmp_path / "state"
    path.write_text(NEVER)
    fill(state, path)

    with ServiceThread(state) as service:
        server = ("--server", str(service.client.base_url))
        output = output_of("why", "vit/worker-0", "--remedies", *server)
    assert (
        "\n\nThe gang needs 32 nvidia.com/gpu in all; its queue root.vision may have 24.\n\n"
        in output
    )
    assert re.search(
        r"\nIt cannot start as things are. Each of these changes alone lets it start:\n\n"
        r"1\. 32 nvidia\.com/gpu instead of 24 as max of root\.vision\n"
        rf"   It then starts at {DATE} if nothing more comes\. Less is not enough\.\n   - ",
        output,
    )


def output_of(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


# LISTS-10, LISTS-13, REASON-6, OUTLOOK-2, OUTLOOK-3, OUTLOOK-6, OUTLOOK-7, OUTLOOK-8, OUTLOOK-9, OUTLOOK-10
@pytest.mark.parametrize("feed", [RESERVED, LATER, NEVER], ids=["reserved", "later", "never"])
def test_it_says_what_explain_says_of_the_same_state(tmp_path: Path, feed: str) -> None:
    path, state = tmp_path / "feed.yaml", tmp_path / "state"
    path.write_text(feed)
    fill(state, path)
    added = [item.content for item in read_feed(path) if isinstance(item.content, AddAsk)]
    names = [f"{one.app}/{one.ask}{'' if one.count is None else '-0'}" for one in added]
    explained = {
        name: output_of("explain", str(state), "--ask", name, "--why-only") for name in names
    }

    with ServiceThread(state) as service:
        server = ("--server", str(service.client.base_url))
        answers = {name: output_of("why", name, "--forecast", *server) for name in names}
    assert len(answers) > 1
    for name in names:
        # It begins with the instant, and says how long the ask has been waiting up to then.
        head, _, rest = explained[name].partition("\n")
        assert answers[name] == re.sub(rf"^{DATE}: |, for .*$", "", head) + f"\n{rest}"


# OUTLOOK-3
def test_when_it_starts_is_a_date() -> None:
    more = """
- {op: add_node, node: n2, capacity: {vcore: 1}}
- {op: add_ask, app: etl, ask: short, resources: {vcore: 1}, node: n2, run_for: 300}
- {op: add_ask, app: etl, ask: next, resources: {vcore: 1}, node: n2}
"""
    assert run("submit", "-", stdin=more).exit_code == 0

    result = run("why", "etl/next", "--forecast")
    assert re.search(rf"- It would fit alone at {DATE}\.\n- It starts at {DATE} if", result.stdout)
