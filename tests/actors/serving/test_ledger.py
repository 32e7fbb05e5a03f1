"""The ledger has an entry for everything that exists, and for nothing else (REST-26).

The asks that have ended and what users have used, against a naive count (LISTS-15, LISTS-20),
and found in the kept batches (LISTS-16, LISTS-18).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event as Flag
from typing import final

import attrs
import pytest
from hypothesis import given, strategies as st

from muster.figures.usage import DAY_US, HOUR_US, hours_text
from muster.service.input.dry_runs import ClientGoneError
from muster.service.ledger.ledger import Ledger
from muster.service.ledger.records import AppEntry, EndedAsk, EndedAskFilter, EndedAsks
from muster.service.ledger.usage import MOST, NAMED, UserAccounts
from muster.service.past.states import EndedAskQuery, KeptEndedAsks
from muster_core.decisions import GONE, Kind, Reason
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    BindFailed,
    Exit,
    Outcome,
    Release,
    RemoveAsk,
)
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from tests.actors.serving.histories import (
    LedgerScheduler,
    StoredScheduler,
    in_ledger,
    in_state,
    play,
    reconcile_ledger,
    whole,
)
from tests.naive.back_off_strategies import back_offs
from tests.naive.device_strategies import devices
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share

_ANY = scenarios() | gang_scenarios() | evictions() | operations() | back_offs() | devices()


def _check_agreement(scheduler: LedgerScheduler) -> None:
    assert in_ledger(scheduler.ledger) == in_state(scheduler.plain.snapshot())
    assert not scheduler.ledger.book.is_stale
    assert not scheduler.ledger.book.ended
    assert not scheduler.ledger.book.leaving


def _check_running(scheduler: LedgerScheduler) -> None:
    snapshot, history = scheduler.plain.snapshot(), scheduler.ledger.book.history
    running = [app for app in snapshot.apps.values() if app.state in ("Starting", "Running")]
    held = [ask for app in snapshot.apps.values() for ask in app.asks if ask.node is not None]
    assert (history.apps, history.containers) == (len(running), len(held))


@share(0.3)
@given(scenarios())
def test_it_knows_what_exists(scenario: list[Step]) -> None:
    play(scenario, _check_agreement)


@share(0.3)
@given(gang_scenarios())
def test_it_knows_what_exists_with_gangs_and_objects(scenario: list[Step]) -> None:
    play(scenario, _check_agreement)


@share(0.3)
@given(evictions() | operations() | back_offs())
def test_it_knows_what_exists_with_evictions_operators_and_retries(scenario: list[Step]) -> None:
    play(scenario, _check_agreement)


@share(0.3)
@given(_ANY)
def test_it_counts_what_runs(scenario: list[Step]) -> None:
    play(scenario, _check_running)


@share(0.3)
@given(_ANY, st.floats(0, 1))
def test_saved_and_loaded_it_goes_on_as_if_never_saved(scenario: list[Step], part: float) -> None:
    scheduler = play(scenario, lambda _: None)
    first, second = Ledger(), Ledger()
    place = round(part * len(scheduler.batches))
    for one in scheduler.batches[:place]:
        all_at_once(first.observe(*one))
    all_at_once(second.load(all_at_once(first.save())))
    assert whole(second) == whole(first)
    for one in scheduler.batches[place:]:
        all_at_once(second.observe(*one))
    assert whole(second) == whole(scheduler.ledger)


@share(0.3)
@given(_ANY, st.floats(0, 1))
def test_what_it_never_heard_of_it_finds_in_the_state(scenario: list[Step], part: float) -> None:
    scheduler = play(scenario[: round(part * len(scenario))], lambda _: None)
    late = Ledger()
    reconcile_ledger(scheduler, late)
    known, state = in_ledger(late), in_state(scheduler.plain.snapshot())
    asks = [key for key in state if key[0] == "ask"]
    # A bound ask has an instant, which a later ledger does not know.
    assert [late.ask(*key[1:]) is not None for key in asks] == [True] * len(asks)
    for key in asks:
        del known[key], state[key]
    assert known == state


SECOND_US = 1_000_000
ONE = Resources({"vcore": 1000})
_HOLDS = (Kind.BOUND, Kind.WAITING)
_ANY_LIVES = scenarios() | gang_scenarios() | evictions() | operations() | back_offs()


@final
@attrs.define
class _Ask:
    """An ask in the naive count, from the log."""

    held_us: int = 0
    ran_us: int = 0
    since_us: int | None = None
    bound_us: int | None = None


def _naive_account(scheduler: LedgerScheduler) -> tuple[Counter[str], list[tuple[object, ...]]]:
    """Return for how long asks held nodes, by application, and how asks ended, from the log."""
    asks: dict[tuple[str | None, str | None], _Ask] = defaultdict(_Ask)
    held: Counter[str] = Counter()
    ended: list[tuple[object, ...]] = []
    for one in scheduler.plain.announced:
        decision, key = one.decision, (one.decision.app, one.decision.ask)
        if decision.kind in _HOLDS:
            ask = asks[key]
            ask.since_us = one.at_us if ask.since_us is None else ask.since_us
            if decision.kind is Kind.BOUND:
                ask.bound_us = one.at_us
        elif decision.kind is Kind.RELEASED:
            ask = asks[key]
            if ask.since_us is not None:
                ask.held_us += one.at_us - ask.since_us
                held[decision.app or ""] += one.at_us - ask.since_us
            if ask.bound_us is not None:
                ask.ran_us += one.at_us - ask.bound_us
            ask.since_us = ask.bound_us = None
            if decision.reason in GONE:
                ended.append(
                    (one.seq, *key, decision.node, decision.reason, ask.held_us, ask.ran_us)
                )
                if decision.reason is not Reason.FAILED:
                    del asks[key]
    now_us = scheduler.ledger.at_us
    for (app, _), ask in asks.items():
        held[app or ""] += 0 if ask.since_us is None else now_us - ask.since_us
    return held, ended


def _summary_of(life: EndedAsk) -> tuple[object, ...]:
    return life.seq, life.app, life.ask, life.node, life.held_us, life.ran_us


@share(0.3)
@given(_ANY_LIVES)
def test_each_life_is_as_the_log_says(scenario: list[Step]) -> None:
    scheduler = play(scenario, lambda _: None)
    _, ended = _naive_account(scheduler)
    lives = list(scheduler.ledger.book.lives.kept)
    by_seq = {seq: (seq, app, ask, node, us, ran) for seq, app, ask, node, _, us, ran in ended}
    failed = {seq for seq, *_, reason, _, _ in ended if reason is Reason.FAILED}
    # Who has failed may have had a retry left; the next test has those.
    sure = [life for life in lives if life.seq not in failed]
    assert {life.seq for life in sure} == {*by_seq} - failed
    if not failed:
        assert [_summary_of(life) for life in sure] == [by_seq[life.seq] for life in sure]
    assert [life.seq for life in lives] == sorted(life.seq for life in lives)
    for seq, _, _, _, reason, _, _ in ended:
        life = next((one for one in lives if one.seq == seq), None)
        if life is not None and life.ending != "failed":
            assert life.ending == ("completed" if reason is Reason.COMPLETED else "cancelled")


@share(0.3)
@given(_ANY_LIVES)
def test_users_have_used_what_their_asks_held(scenario: list[Step]) -> None:
    scheduler = play(scenario, lambda _: None)
    now_us = scheduler.ledger.at_us
    accounts = scheduler.ledger.accounts()
    naive: Counter[str] = Counter()
    for life in scheduler.ledger.book.lives.kept:
        naive.update({(life.user or "") + "/" + k: area for k, area in life.areas.items()})
    for app in scheduler.ledger.book.apps.values():
        user = app.event.user or ""
        for ask in app.asks.values():
            now = 0 if ask.taken_us is None else now_us - ask.taken_us
            now += 0 if ask.earlier is None else ask.earlier.held_us
            for kind, amount in ask.event.wanted.amounts.items():
                naive[f"{user}/{kind}"] += amount * now
    known = {
        f"{user}/{kind}": area
        for user, account in accounts.users.items()
        for kind, area in account.used(now_us).areas.items()
    }
    assert known == {name: area for name, area in naive.items() if area}
    ended = Counter((life.user or "", life.ending) for life in scheduler.ledger.book.lives.kept)
    assert ended == {
        (user, ending): count
        for user, account in accounts.users.items()
        for ending, count in account.ended.items()
    }


@share(0.3)
@given(
    st.lists(st.tuples(st.integers(1, 100 * HOUR_US), st.integers(0, 3)), max_size=40),
    st.integers(0, 3000 * HOUR_US),
)
def test_use_since_an_instant(changes: list[tuple[int, int]], since_us: int) -> None:
    accounts = UserAccounts()
    account, now_us, amount = accounts.of("sue"), 0, 0
    app = AppEntry(AddApp("a", "root.q", "sue"), 0, "root.q", account=account)
    spans: list[tuple[int, int, int]] = []
    for gap_us, after in changes:
        accounts.pass_until(now_us + gap_us, [app])
        spans.append((now_us, now_us + gap_us, amount))
        now_us += gap_us
        if amount:
            account.give_back({"gpu": amount}, now_us)
        if after:
            account.take({"gpu": after}, now_us)
        amount = after
        app.used = {"gpu": amount} if amount else {}
    later_us = now_us + 7 * HOUR_US // 2
    spans.append((now_us, later_us, amount))
    begin_us, used = accounts.since(since_us, later_us)
    naive = sum(held * max(0, end - max(begin, begin_us)) for begin, end, held in spans)
    assert used["sue"].areas == ({"gpu": naive} if naive else {})
    if since_us > later_us - 40 * HOUR_US:
        assert begin_us == min(since_us // HOUR_US * HOUR_US, later_us)
    assert begin_us <= max(since_us, later_us - 93 * DAY_US)
    assert len(account.marks) < 48 + 24 + 95


def _with_running_ask() -> LedgerScheduler:
    scheduler = LedgerScheduler()
    scheduler.batch(0, [AddApp("a", "root.q", "sue"), AddNode("n", ONE), AddAsk("a", "x", ONE)])
    return scheduler


def _last(scheduler: LedgerScheduler) -> EndedAsk:
    return scheduler.ledger.book.lives.kept[-1]


# DECISION-11
@pytest.mark.parametrize(
    ("release", "ending"),
    [
        (Release("a", "x", message="done"), "completed"),
        (Release("a", "x", Outcome.FAILED, "exit status 3", Exit(3)), "failed"),
        (
            Release("a", "x", Outcome.CANCELLED, "by sue", Exit(signal=15, cpu_us=SECOND_US)),
            "cancelled",
        ),
    ],
)
def test_how_a_release_ends_an_ask(release: Release, ending: str) -> None:
    scheduler = _with_running_ask()
    scheduler.batch(5 * SECOND_US, [release])
    life = _last(scheduler)
    assert (life.ending, life.message, life.exited) == (ending, release.message, release.exited)
    assert (life.came_us, life.started_us, life.ended_us) == (0, 0, 5 * SECOND_US)
    assert (life.wait_us, life.ran_us, life.areas) == (
        0,
        5 * SECOND_US,
        {"vcore": 5000 * SECOND_US},
    )
    assert (life.user, life.queue, life.node) == ("sue", "root.q", "n")


def test_an_ask_that_was_given_up_has_failed() -> None:
    scheduler = _with_running_ask()
    scheduler.batch(SECOND_US, [BindFailed("a", "x", "no such image"), RemoveAsk("a", "x")])
    assert (_last(scheduler).ending, _last(scheduler).message) == ("failed", "no such image")
    scheduler.batch(2 * SECOND_US, [AddAsk("a", "x", ONE)])
    scheduler.batch(3 * SECOND_US, [BindFailed("a", "x", "no such image")])
    scheduler.batch(3 * SECOND_US, [Release("a", "x", Outcome.CANCELLED)])
    assert (_last(scheduler).ending, _last(scheduler).message) == ("cancelled", None)


def test_a_name_that_is_used_again_has_several_lives() -> None:
    scheduler = _with_running_ask()
    scheduler.batch(SECOND_US, [Release("a", "x"), AddAsk("a", "x", ONE)])
    scheduler.batch(3 * SECOND_US, [Release("a", "x", Outcome.FAILED)])
    lives = scheduler.ledger.book.lives.kept
    assert [(one.ask, one.ending, one.ran_us) for one in lives] == [
        ("x", "completed", SECOND_US),
        ("x", "failed", 2 * SECOND_US),
    ]
    found = EndedAskFilter(app="a", ask="x").latest(reversed(lives), None, 1)
    assert [one.ending for one in found] == ["failed"]
    assert list(EndedAskFilter(user="bob").latest(reversed(lives), None, 9)) == []
    found = EndedAskFilter(queue="root", since_us=SECOND_US).latest(
        reversed(lives), lives[1].seq, 9
    )
    assert [one.ending for one in found] == ["completed"]


def test_only_the_latest_lives_are_kept() -> None:
    scheduler = _with_running_ask()
    lives = scheduler.ledger.book.lives = EndedAsks(3)
    for number in range(5):
        scheduler.batch(number * SECOND_US, [Release("a", "x"), AddAsk("a", "x", ONE)])
    assert [life.ended_us for life in lives.kept] == [2 * SECOND_US, 3 * SECOND_US, 4 * SECOND_US]
    assert 0 < lives.after_seq < lives.kept[0].seq
    again = Ledger()
    all_at_once(again.load(all_at_once(scheduler.ledger.save())))
    assert list(again.book.lives.kept) == list(lives.kept)
    assert again.book.lives.after_seq == lives.after_seq


# LISTS-23
def test_the_accounts_are_bounded_and_lose_nothing() -> None:
    accounts = UserAccounts()
    for number in range(MOST + NAMED):
        accounts.pass_until(number * SECOND_US, [])
        account = accounts.of(f"user-{number}")
        account.take({"vcore": 1}, number * SECOND_US)
        account.give_back({"vcore": 1}, number * SECOND_US + 1)
    assert len(accounts.users) == MOST
    labelled = list(accounts.labelled((MOST + NAMED) * SECOND_US))
    assert [name for name, _, _ in labelled] == [
        *(f"user-{number}" for number in range(NAMED)),
        None,
    ]
    assert sum(used.areas["vcore"] for _, _, used in labelled) == MOST + NAMED


def test_hours_are_reported_as_people_count_them() -> None:
    areas = {"nvidia.com/gpu": 2 * 3600, "vcore": 1500 * 3600, "memory": 3 * 2**30 * 1800}
    assert hours_text(areas) == "1.5 vcore h, 1.5 GiB h, 2 nvidia.com/gpu h"


_NOBODY = Flag()


def _all_lives(live: StoredScheduler) -> list[EndedAsk]:
    """Return all lives that the running service knows, latest first."""
    return [*reversed(live.ledger.book.lives.kept)]


def _position(live: StoredScheduler) -> tuple[int, int]:
    return live.machine.batches, live.machine.requests


def _pages(
    past: KeptEndedAsks, wanted: EndedAskFilter, entered: tuple[int, int], most: int
) -> list[EndedAsk]:
    found: list[EndedAsk] = []
    before = 10**9
    while page := past.find(EndedAskQuery(wanted, before, most, entered), _NOBODY):
        found += page
        before = page[-1].seq
    return found


@share(0.3)
@given(
    scenarios() | operations() | back_offs(),
    st.sets(st.integers(1, 12), max_size=4),
    st.integers(1, 7),
)
def test_pages_of_the_kept_history(scenario: list[Step], checkpoints: set[int], most: int) -> None:
    with TemporaryDirectory() as folder:
        live = StoredScheduler(Path(folder) / "state", checkpoints)
        live.play(scenario)
        known, entered = _all_lives(live), _position(live)
        past = KeptEndedAsks(live.close())
        assert _pages(past, EndedAskFilter(), entered, most) == known
        for life in known:
            query = EndedAskQuery(EndedAskFilter(app=life.app, ask=life.ask), 10**9, 1, entered)
            last = next(one for one in known if (one.app, one.ask) == (life.app, life.ask))
            assert past.last(life.app, life.ask, query, _NOBODY) == last
            since = EndedAskFilter(since_us=life.ended_us)
            expected = [one for one in known if one.ended_us >= life.ended_us]
            assert _pages(past, since, entered, 100) == expected


def _kept_lives(folder: Path) -> tuple[KeptEndedAsks, tuple[int, int]]:
    live = StoredScheduler(folder / "state", {2, 4})
    live.run(0, [AddNode("n", ONE), AddApp("a", "root.q", "sue")])
    for number in range(6):
        live.run((2 * number + 1) * SECOND_US, [AddAsk("a", "x", ONE)])
        live.run((2 * number + 2) * SECOND_US, [Release("a", "x", message=f"{number}")])
    entered = _position(live)
    return KeptEndedAsks(live.close()), entered


def test_each_life_of_a_name(tmp_path: Path) -> None:
    past, entered = _kept_lives(tmp_path)
    found = _pages(past, EndedAskFilter(user="sue", queue="root"), entered, 4)
    assert [life.message for life in found] == ["5", "4", "3", "2", "1", "0"]
    assert _pages(past, EndedAskFilter(user="bob"), entered, 4) == []
    query = EndedAskQuery(EndedAskFilter(app="a", ask="x"), found[2].seq, 1, entered)
    last = past.last("a", "x", query, _NOBODY)
    assert last is not None
    assert last.message == "2"
    assert past.last("a", "y", query, _NOBODY) is None


def test_it_ends_when_nobody_waits(tmp_path: Path) -> None:
    past, entered = _kept_lives(tmp_path)
    gone = Flag()
    gone.set()
    with pytest.raises(ClientGoneError):
        past.find(EndedAskQuery(EndedAskFilter(), 10**9, 1, entered), gone)
    with pytest.raises(ClientGoneError):
        past.last("a", "x", EndedAskQuery(EndedAskFilter(), 10**9, 1, entered), gone)
