"""Clients that clash with a real server; many more of them: ``make clash MINUTES=…``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from muster.store import StateReader
from muster_core.config import default_configuration
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddNode, Event, RemoveApp
from muster_core.resources import Resources
from tests.actors.state_directories import Keeper
from tests.clash.clients import Follower, passes
from tests.clash.requests import Answer, Draft, Drawing, Request
from tests.clash.rounds import faults_between
from tests.clash.world import Account, Tally, World

PROJECT = Path(__file__).parents[2]


# Nothing is found


@pytest.mark.starts_early
def test_answers_and_streams_agree_with_the_store() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.clash", "--minutes=0.15", "--round=9", "--seed=1"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(
        r"1 rounds, (\d+) kills.* (\d+) x 200.*; ([\d,]+) requests with events answered, "
        r"([\d,]+) batches, ([\d,]+) decisions; .* have got ([\d,]+) decisions; ([\d,]+) items",
        done.stdout,
    )
    assert found is not None, done.stdout
    assert all(int(one.replace(",", "")) > 0 for one in found.groups()), done.stdout


# Something would be found

MARK = RemoveApp("mark-x-1")
APP = AddApp("a", "root.q")
OK: dict[str, object] = {"index": 1, "ok": True, "error": None, "asks": []}
NO: dict[str, object] = {"index": 0, "ok": False, "error": "app: 'mark-x-1' is unknown", "asks": []}


def drafted(*events: Event) -> Draft:
    request = Request("POST", "/api/v1/events")
    return Draft("mark-x-1", request, [True] * len(events), events, was_sent=True, tries=1)


def answer(batch: int = 1, *results: object) -> Answer:
    headers = {"muster-batch": str(batch), "muster-first-seq": "1", "muster-last-seq": "1"}
    return Answer(200, headers, json.dumps(results or (NO, OK)).encode())


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    made = Keeper(tmp_path / "state")
    yield made
    made.close()


def faults_in(keeper: Keeper, draft: Draft | None, *answers: Answer) -> str:
    """Return the faults of a store after a request and its answers."""
    account = Account([default_configuration()])
    faults: list[str] = []
    if draft is not None:
        account.begin(draft)
        for one in answers:
            faults += account.answer(draft, one)
    return "\n".join([*faults, *account.read(keeper.directory)])


def test_what_is_as_it_should_be_has_no_faults(keeper: Keeper) -> None:
    keeper.run(0, [MARK, APP])
    with StateReader(keeper.directory) as reader:
        (batch,) = reader.batches()
    (rejected,) = (one.decision for one in batch.decisions if one.decision.kind is Kind.REJECTED)
    no = {**NO, "error": rejected.message}
    headers = {
        "muster-batch": "1",
        "muster-first-seq": str(batch.first_seq),
        "muster-last-seq": str(batch.last_seq),
    }
    right = Answer(200, headers, json.dumps([no, OK]).encode())

    assert not faults_in(keeper, drafted(MARK, APP))
    assert not faults_in(keeper, drafted(MARK, APP), right)
    assert not faults_in(keeper, drafted(MARK, APP), right, right)
    assert "and before as" in faults_in(keeper, drafted(MARK, APP), right, answer())


def test_an_event_that_nobody_has_sent_is_a_fault(keeper: Keeper) -> None:
    keeper.run(0, [MARK, APP])

    assert "nobody has sent RemoveApp" in faults_in(keeper, None)
    assert "is kept 1 times, and was sent 0 times" in faults_in(keeper, None)
    unsent = drafted(MARK, APP)
    unsent.was_sent = False
    assert "as if sent once more" in faults_in(keeper, unsent)


def test_events_that_are_kept_otherwise_are_a_fault(keeper: Keeper) -> None:
    keeper.run(0, [MARK, APP])

    assert "or not in order" in faults_in(keeper, drafted(MARK, AddApp("b", "root.q")))
    assert "and kept in" in faults_in(keeper, drafted(MARK, APP), answer(1))
    assert "3 was answered, and 1 are kept" in faults_in(keeper, drafted(MARK, APP), answer(3))
    wrong = answer(1, {**NO, "error": "because"}, OK)
    assert "'because'" in faults_in(keeper, drafted(MARK, APP), wrong)


def test_events_that_are_kept_twice_or_not_at_all_are_a_fault(keeper: Keeper) -> None:
    keeper.run(0, [APP])
    assert "is not kept" in faults_in(keeper, drafted(MARK, APP), answer())
    keeper.run(1, [MARK])
    keeper.run(2, [MARK])
    assert "as if sent once more" in faults_in(keeper, drafted(MARK))


def test_an_answer_that_is_wrong_by_itself_is_a_fault(keeper: Keeper) -> None:
    keeper.run(0, [MARK])

    assert "1 events were answered" in faults_in(keeper, drafted(MARK), answer(1, NO, OK))
    without = Answer(200, {}, json.dumps([NO]).encode())
    assert "and batch None" in faults_in(keeper, drafted(MARK), without)
    contrary = answer(1, {**NO, "ok": True})
    assert "an event was answered with" in faults_in(keeper, drafted(MARK), contrary)


def test_a_lease_that_no_node_had_is_a_fault(keeper: Keeper) -> None:
    keeper.run(0, [AddNode("n", Resources({"vcore": 1}))])
    account = Account([])

    assert "is kept 1 times" in "\n".join(account.read(keeper.directory))


def bound(seq: int) -> Announced:
    return Announced(seq, 5, Decision(Kind.BOUND, "a", "k", "n", "root.q"))


@pytest.mark.parametrize(
    ("seen", "fault"),
    [
        ([1, 2, 3], None),
        ([1, 3], "2 decisions seen, 3 kept"),
        ([1, 2], "2 decisions seen, 3 kept"),
        ([1, 2, 2, 3], "decision 2 came after 2"),
        ([1, 3, 2], "decision 2 came after 3"),
    ],
)
def test_streams_are_compared(tmp_path: Path, seen: list[int], fault: str | None) -> None:
    world = World(tmp_path, Random(1), Tally())
    follower = Follower(world, Random(1), 0)
    decisions = [bound(seq) for seq in (1, 2, 3)]

    for seq in seen:
        follower.add(decisions[seq - 1])
    faults = [*world.faults, *follower.faults(decisions, 3)]

    assert (fault is None) == (not faults)
    assert fault is None or any(fault in one for one in faults)


def test_filters_know_what_passes() -> None:
    one = {"kind": "bound", "app": "a", "queue": "root.team.a"}
    for right in ({}, {"kinds": "bound,released"}, {"app": "a"}, {"queue": "root.team"}):
        assert passes(right, one)
    for wrong in ({"kinds": "rejected"}, {"app": "b"}, {"queue": "root.te"}, {"gang": "default/g"}):
        assert not passes(wrong, one)


def test_a_different_answer_after_a_kill_is_a_fault() -> None:
    assert not [*faults_between({"apps": [1]}, {"apps": [1]})]
    assert [*faults_between({"apps": [1]}, {"apps": [2]})]
    assert [*faults_between({"apps": [1]}, {"apps": [1, 2]})]
    history = "/ws/v1/history/apps"
    assert not [*faults_between({history: [1]}, {history: [1, 2]})]
    assert [*faults_between({history: [1, 2]}, {history: [1]})]
    assert [*faults_between({history: [1]}, {history: [2, 2]})]


def test_drafts_have_all_kinds_of_events() -> None:
    drawing = Drawing(Random(1), "x")
    drafts = [drawing.draft() for _ in range(500)]

    kinds = {type(event).__name__ for draft in drafts for event in draft.events}
    assert len(kinds) >= 13, kinds
    assert any(not all(draft.is_valid) for draft in drafts)
    assert len({draft.request.headers["Content-Type"] for draft in drafts}) == 3
    assert any(draft.key for draft in drafts)
    assert any(not draft.marker for draft in drafts)
    assert any(draft.request.chunked for draft in drafts)
