"""What is said to help does help, in a replay by the command; and one less does not do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from muster.feeds import Raw
from tests.actors.cli.helpers import run, run_json, written
from tests.actors.explain.feeds import CASES
from tests.actors.explain.helpers import take_one


def answered(feed: Path, ask: str, *more: str) -> dict[str, Any]:
    status, answer = run_json("explain", feed, "--ask", ask, *more)
    assert status == 0
    found: dict[str, Any] = answer
    return found


def bound_at(feed: Path, text: str, events: Sequence[Mapping[str, Raw]]) -> dict[str, int | float]:
    """Put events behind a feed; give when each ask is bound for the last time in the replay."""
    more = "".join(f"- {json.dumps(event)}\n" for event in events)
    changed = written(feed.with_name("changed.yaml"), text + more)
    log = run("replay", changed, "--decisions", "-", "--strict", "--until", "20s").stdout
    bound: dict[str, int | float] = {}
    for line in map(json.loads, log.splitlines()):
        if line["kind"] == "bound":
            bound[f"{line['app']}/{line['ask']}"] = line["at"]
    return bound


@pytest.mark.parametrize("name", CASES)
def test_the_reason_and_the_kinds_of_remedies(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    answer = answered(written(tmp_path / "feed.yaml", case.feed), case.ask)

    assert answer["reasons"][0]["code"] == case.code
    kinds = list(dict.fromkeys(remedy["kind"] for remedy in answer["remedies"]))
    assert tuple(kinds) == case.kinds


@pytest.mark.parametrize("name", CASES)
def test_every_remedy_gets_the_ask_bound_at_once(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    feed = written(tmp_path / "feed.yaml", case.feed)
    answer = answered(feed, case.ask)

    assert answer["remedies"]
    assert case.ask not in bound_at(feed, case.feed, [])
    for remedy in answer["remedies"]:
        bound = bound_at(feed, case.feed, remedy["events"])
        assert bound.get(case.ask) == answer["at"], remedy["text"]


def one_less(remedy: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Give the events of a remedy, each time with another one of its amounts one less."""
    found: list[list[dict[str, Any]]] = []
    for name in remedy["smallest"] or ():
        events: list[dict[str, Any]] = json.loads(json.dumps(remedy["events"]))
        lower(events, name, guaranteed=remedy["kind"] == "guaranteed")
        found.append(events)
    return found


def lower(events: list[dict[str, Any]], name: str, *, guaranteed: bool) -> None:
    last = events[-1]
    path, slash, kind = name.partition("/")
    if name == "priority":
        last["priority"] -= 1
    elif slash:
        configured = next(event for event in events if event["op"] == "configure")
        what = "guaranteed" if guaranteed else "max"
        take_one(named(configured, path)["resources"][what], kind)
    elif name.startswith("root"):
        named(last, name)["maxapplications"] -= 1
    else:
        take_one(last["capacity"], name)


def named(event: Mapping[str, Any], path: str) -> dict[str, Any]:
    names = path.split(".")
    below = event["config"]["partitions"][0]["queues"]
    queue: dict[str, Any] = {}
    for name in names:
        queue = next(one for one in below if one["name"] == name)
        below = queue.get("queues", [])
    return queue


MEASURED = {"priority", "guaranteed", "max", "maxapplications", "capacity", "node", "combined"}


@pytest.mark.parametrize("name", CASES)
def test_one_less_does_not_do(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    feed = written(tmp_path / "feed.yaml", case.feed)
    answer = answered(feed, case.ask)

    for remedy in answer["remedies"]:
        if remedy["kind"] in MEASURED:
            assert remedy["smallest"] or remedy["kind"] == "combined", remedy["text"]
            for events in one_less(remedy):
                bound = bound_at(feed, case.feed, events)
                assert bound.get(case.ask) != answer["at"], remedy["text"]
