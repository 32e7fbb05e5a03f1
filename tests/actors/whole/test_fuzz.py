"""Programs of many clients in every order of tasks; and whether these programs find anything.

More of it: ``make soak``; ``make mutants`` plants bugs and looks how long each is not found.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import attrs
import pytest
from click.testing import CliRunner, Result
from hypothesis import settings

import muster
from muster._pure import is_compiled
from muster.testing.fuzz import (
    Bind,
    Client,
    DrawnBytes,
    Fate,
    Leave,
    Outcome,
    Program,
    Session,
    Step,
    Store,
    Tally,
    UnknownTrioError,
    _determinism,
    draw_program,
    run_program,
)
from muster.testing.fuzz._cli import command
from muster.testing.fuzz._determinism import ordered
from muster.testing.fuzz._generator import FRAME_BYTES
from muster_core.decisions import Announced, Kind
from tests.fuzz.binders import Deaf, Good
from tests.fuzz.everything import BINDS, CLIENTS, CONFIG as WHOLE, S, everything
from tests.fuzz.mutants import MUTANTS, Mutant, bitten, planted
from tests.fuzz.naive_oracle import naive
from tests.share import every as every_nth

THOROUGH: Final = settings().max_examples > 1000
PROGRAMS: Final = 30
STRIDE: Final = 1 if THOROUGH else 20
"""In the suite a client is cancelled at every 20th step only: each of its calls takes several."""
BLOCK_STRIDE: Final = 1 if THOROUGH else 7
"""So is the block at every seventh one: ``test_leaving_cancelled`` cancels one at every step."""
STORED_STRIDE: Final = 1 if THOROUGH else 41
"""With a store each of these takes twice as long."""

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: batch
            properties: {priority.offset: "010"}
            resources: {max: {vcore: 4}}
          - name: team
            queues: [{name: dev}]
"""


def dumped(outcome: Outcome) -> tuple[object, ...]:
    """Return everything that can be seen of a run."""
    decisions = tuple(outcome.story.decisions)
    return decisions, outcome.transcript, outcome.faults, outcome.steps, outcome.order


# Nothing is found


def test_programs() -> None:
    tally = Tally()

    finding = Session(oracles=(naive,)).search(20, PROGRAMS, tally)

    assert finding is None, "\n".join([*finding.outcome.faults, str(finding.outcome.program)])
    # They are programs, and not only empty ones.
    assert tally.programs == PROGRAMS
    assert tally.calls.total() > 10 * PROGRAMS
    assert tally.decisions > 5 * PROGRAMS
    assert len(tally.orders) > PROGRAMS / 2
    assert tally.cancelled > PROGRAMS / 5


@pytest.mark.starts_early
def test_the_block_is_cancelled_at_any_step() -> None:
    chance = 1
    whole = run_program(everything(chance), oracles=(naive,))
    assert whole.faults == []
    kinds = {one.decision.kind for one in whole.story.decisions}
    assert kinds >= {Kind.BOUND, Kind.RELEASED, Kind.WAITING, Kind.GANG_SATISFIED}
    log = whole.story.decisions

    for at in range(1, whole.steps + 1, BLOCK_STRIDE):
        run = run_program(everything(chance, block_at=at))

        assert run.faults == [], f"cancelled at step {at}"
        # What was announced is a beginning of what would have been.
        assert run.story.decisions == log[: len(run.story.decisions)], f"cancelled at step {at}"


@pytest.mark.parametrize("client", every_nth(len(CLIENTS), range(len(CLIENTS))))
def test_a_client_is_cancelled_at_any_step(client: int) -> None:
    whole = run_program(everything(client))
    alone = run_program(everything(client, client=client, client_at=whole.steps))
    assert whole.faults == alone.faults == []

    for at in range(1 + client % STRIDE, whole.steps + 1, STRIDE):
        run = run_program(everything(client, client=client, client_at=at))

        assert run.faults == [], f"cancelled at step {at}"


@pytest.mark.starts_early
@pytest.mark.parametrize("every", [1, pytest.param(50_000, marks=pytest.mark.takes_long)])
def test_the_block_is_cancelled_at_any_step_and_goes_on_from_its_store(every: int) -> None:
    def stored(block_at: int | None = None) -> Program:
        store = Store(every, restarts=True)
        program = everything(1, block_at=block_at)
        return attrs.evolve(program, store=store, binds=(*BINDS, Bind()), bind_attempts=None)

    whole = run_program(stored(), oracles=(naive,))
    assert whole.faults == []
    alone = run_program(attrs.evolve(stored(), store=Store(every)))
    assert len(alone.story.decisions) > 20 < len(whole.story.decisions)

    for at in range(1, whole.steps + 1, STORED_STRIDE):
        run = run_program(stored(at), oracles=(naive,))

        assert run.faults == [], f"cancelled at step {at}"


def test_a_share_of_programs_has_a_store() -> None:
    drawn = [DrawnBytes(Random(seed).randbytes(FRAME_BYTES)) for seed in range(300)]
    stores = [draw_program(one).store for one in drawn]

    assert {None if one is None else one.restarts for one in stores} == {None, False, True}
    assert 200 < stores.count(None) < 280


def test_a_store_changes_no_decision() -> None:
    plain = run_program(everything(2))
    stored = run_program(attrs.evolve(everything(2), store=Store(3)))

    first, *others = stored.story.decisions
    assert stored.faults == []
    assert first.decision.kind is Kind.CONFIG
    # A commit takes steps, so calls may come into later batches; what is bound is the same.
    assert {bound(one) for one in plain.story.decisions} == {bound(one) for one in others}


def bound(one: Announced) -> tuple[str | None, str | None] | None:
    """Return the ask that a decision binds."""
    decision = one.decision
    return (decision.app, decision.ask) if decision.kind is Kind.BOUND else None


# Something is found


@pytest.mark.skipif(is_compiled(), reason="bugs are planted in Python only")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_bug_can_be_planted(mutant: Mutant) -> None:
    before = inspect.getsource(mutant.function())
    with planted(mutant):
        assert mutant.function().__code__.co_filename != inspect.getsourcefile(bitten)
    assert inspect.getsource(mutant.function()) == before


def test_a_bug_is_found_and_made_small() -> None:
    with planted(MUTANTS[0]):
        finding = Session().search(1)
        assert finding is not None
        again = Session().replay(finding.token)
    assert again is not None
    assert dumped(again.outcome) == dumped(finding.outcome)
    assert sum(len(client.steps) for client in finding.outcome.program.clients) <= 2
    assert Session().replay(finding.token) is None


def test_a_watcher_may_read_between_the_journal_and_what_observers_are_offered() -> None:
    """Its buffer of five lost decisions of an earlier batch, and not yet of the last one."""
    token = (
        "eNrNU0FuxCAM_AvnHDAYA2-JcgAD_39CWUKzZclqS0-1FJHA2J4ZnF3IIRB_fEB9WN6HbqcfAuzwDi8VFoOQ"
        "6LFatL6txbV9V3xnGVsHk78zmG86ooydCRgyjaGruFDOJu1Adc54z0QppZWXQUWwYPWlCydPkGsvwGyMcT23"
        "qLOTtBPaDTuO5s7eXX6Wdz6FqiZipGhjQ3OvyoaviulCJ5t8qrVy15ybIzk86xU1XirFysP2-egjkrD6Cg91"
        "z9mB-OJa0lYPN0KZJhXO36uKAwsOnHnILY1NYbHtu1gZL7GJlSk84TD9DkvVtaY38GPbV-koWIJTWRX7eyv_"
        "wP4fwY_j-ALJEgDK"
    )

    assert Session().replay(token) is None


def test_a_gang_of_which_too_few_come_back_stays_satisfied() -> None:
    """Two members with ``once`` are lost with their nodes, and one came later."""
    # ONCE-4
    token = (
        "eNrNUksSwiAMvQtrF-Ejn7N0umiA3P8IpqmWVsURV3aGhpDPe3kwKfjL72p4IYAXz4ftNLiWEajtk_6mZz55"
        "jrtb3D1_x40tw8djfijrPy6bFxk9mSS8Ej3hUGH2JZxP68NK17ojV2rlJDHCoxBH8ho0K6BTC5sPk1tmYZ31"
        "P96A1HnB99jLit3ui1nc6ykKX7S4xjTyJFiRBcjsZ-6V75rnOsqXBI2CyAQJNwtwsI_d2luydekoN4CeOgo4"
        "LFBYvXJ6dkTqMk1KX8GkgeHURZntBcSBko9x-7aEGWsYI7Y_-55o5qUkhrG7VfM83wBUUu0_"
    )

    assert Session().replay(token) is None


def test_an_ask_that_does_not_come_back_leaves_its_name_to_another_one_of_the_same_batch() -> None:
    # ONCE-2
    token = (
        "eNq1k0FyGyAMRe_itReAhBBn8XgBSLr_EfLBSTvtJG3tSfU3iQ3S5335djHPniJlskq0SDiz"
        "Nu8-l2sd1aqr9NJrt7Qrp5I41dTwd08z4W6W3LPnKLnMYsUpERNzQqfMwo0Ho3fl2iD0FIKk"
        "tTa06VDraNTRojdo9NlXt-49egwaMtqYw4YfxcxTps451_RFqxoZG1qEJrFqAuGwTWg5ubji"
        "UgqGJFroFhzXLHBL8NlIyatUhSfVpNq516GYMVaBeNXHFGCqbu4ekaOW8Mb4cq6IQ2Vz2aKE"
        "JuCyIEued5VMYNRyf9fIBloJDhQC3DLKJNih7eihepx1AgKkEhTgWc5XzBVU-54OrqnmWqDN"
        "d5d8UIZgXJKUIxaFuixgSK3sQ22XAjoQtwk4hCP4QHd1JLMxrCMgVof1bRZ8jgRp2UgQ7J-c"
        "dKyTVJycaPLJSt_zihkrIzPaxkFVVns0X2Ot5ZYMy4M0H6rWTpLuDO4YDg3HsZ0BEkWIUIE2"
        "nIp0d74tFoZMyVwMjITmAuWiFSFRmvgYqYP5ps3gaSC1TuoyBhwNBOqYrGYYU7E_gkl0ko0d"
        "cl6ImLDA-3l7vys7Yx1wNBoro5ODSEOj89LzJts_DrgcYRGX6-12SU_W5XrBVn1V9NWVF6Y8"
        "fyXkySv360sAzP5-bPZfruTy89_S_hlApiT_-zUrfx7bn-acUYot_KSEvi_TF5_0vUv9W7A_"
        "rjR7Ftz9_gbCIJbA"
    )

    assert Session().replay(token) is None


def test_a_watcher_begins_while_a_batch_is_announced() -> None:
    """The journal has had it, and observers not yet."""
    token = "eNqLVjKAAGMgNjJAAGQ2bmBsMLiBEU73oskkW6SYAClDMMfQYBSMAhoBJZ3o6FgdMIqNBQCB0ann"

    assert Session().replay(token) is None


def test_a_binder_that_cannot_be_cancelled_is_found() -> None:
    finding = Session(binder=Deaf, shrink=False).search(1)

    assert finding is not None
    assert "nothing can go on" in "\n".join(finding.outcome.faults)
    assert Session(binder=Good).search(1, 10) is None


class FailingBinder:
    """Without a limit of attempts it is tried again and again, and no time passes."""

    async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
        raise OSError("no")


def test_a_run_that_never_blocks_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_determinism, "LONGEST_S", 0.5)
    finding = Session(binder=FailingBinder, shrink=False).search(1, 60)

    assert finding is not None
    assert "not over after 0.5 s" in "\n".join(finding.outcome.faults)


def test_a_run_that_cannot_be_cancelled_is_ended() -> None:
    code = """
from muster.testing.fuzz import Session, _determinism
from tests.fuzz.binders import Stubborn
_determinism.LONGEST_S, _determinism.AGAIN_S = 0.5, 0.2
print(Session(binder=Stubborn, shrink=False).search(1, 20).outcome.faults[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )

    assert done.stdout.startswith("not over after 0.5 s")


def test_a_binder_that_is_not_alike_each_time() -> None:
    always = Session(binder=Deaf, shrink=False).search(1)
    assert always is not None
    first = always.first
    made: list[muster.Binder] = []

    def make() -> muster.Binder:
        made.append(Deaf() if len(made) < first else Good())
        return made[-1]

    finding = Session(binder=make).search(1)

    assert finding is not None
    assert "does not run alike" in "".join(finding.outcome.faults)


def test_a_call_that_raises_what_it_should_not_is_found() -> None:
    program = attrs.evolve(everything(0), prelude=(Step("add_node", {"what": 1}),))

    assert "unexpected keyword argument" in run_program(program).faults[0]


ASKS: Final = (
    Step("add_node", {"node": "n", "capacity": {"vcore": 4}}, (("AddNode", "n"),)),
    Step("add_app", {"app": "a", "queue": "root.q"}, (("AddApp", "a"),)),
    Step(
        "add_asks",
        {"app": "a", "ask": "k", "resources": {"vcore": 1}, "count": 2},
        (("AddAsk", "a", "k"),),
    ),
    Step(
        "submit_many",
        {
            "events": (
                {"op": "release", "app": "a", "ask": "no"},
                {"op": "add_node", "node": "m", "capacity": {"vcore": 1}},
            )
        },
        (("Release", "a", "no"), ("AddNode", "m")),
    ),
    Step("bound", {"app": "a", "ask": "k-1", "then": "keep", "by_handle": True}, within_us=9 * S),
)
"""Asks, and a task that waits for one of them."""


@pytest.mark.parametrize(
    ("bug", "bind", "fault"),
    [
        ("bound does not wait until", Bind(start_us=S), "has not started"),
        ("the handles of many asks", Bind(), "the handles are those of"),
        ("the refusals of many events", Bind(), "the refusals are"),
        ("an ask is tried once too often", Bind(Fate.FAILS_BEFORE), "it says 3 attempts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_is_not_that_of_the_decisions(bug: str, bind: Bind, fault: str) -> None:
    (mutant,) = [one for one in MUTANTS if one.name.startswith(bug)]
    program = Program(WHOLE, clients=(Client(ASKS),), binds=(bind,), bind_attempts=2)
    assert run_program(program).faults == []

    with planted(mutant):
        assert fault in "".join(run_program(program).faults)


# The same seed is the same run


def test_the_same_program_runs_alike() -> None:
    for chance in range(5):
        first, second = (run_program(everything(chance)) for _ in range(2))
        assert dumped(first) == dumped(second)
    assert run_program(everything(1)).order != run_program(everything(2)).order


def test_the_same_seed_gives_the_same_programs() -> None:
    def programs(seed: int) -> list[tuple[object, ...]]:
        seen: list[tuple[object, ...]] = []

        def note(outcome: Outcome) -> list[str]:
            seen.append((str(outcome.program), *dumped(outcome)))
            return []

        Session(oracles=(note,)).search(seed, 10)
        return seen

    assert programs(5) == programs(5) != programs(6)


def test_a_program_as_a_text() -> None:
    drawn = DrawnBytes(b"\x01\x02", ((b"\x03", b""), ()))

    assert DrawnBytes.of_token(drawn.token()) == drawn
    for bad in ("", "eJ", "#", "eNoDAAAAAAE="):
        with pytest.raises(ValueError, match="no program"):
            DrawnBytes.of_token(bad)


def test_the_simplest_program() -> None:
    program = draw_program(DrawnBytes())

    assert (program.clients, program.watchers, program.leave) == ((), (), Leave())
    assert run_program(program).faults == []


def test_a_trio_that_cannot_be_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING")

    with pytest.raises(UnknownTrioError, match="does not let"), ordered(Program(None).order):
        pytest.fail("it was seeded")


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_command_that_finds_nothing() -> None:
    result = run("--seed", "4", "--programs", "5")

    assert result.exit_code == 0
    assert result.output.startswith("seed 4: 5 programs, ")
    assert result.output.endswith(": nothing found\n")
    assert result.output == run("--seed", "4", "--programs", "5").output


def test_command_for_some_time() -> None:
    assert run("--time", "0", "--programs", "2").output.count("seed ") == 1


def test_command_that_finds_something() -> None:
    result = run("--binder", "tests.fuzz.binders:Deaf", "--no-shrink")

    assert result.exit_code == 1
    assert "nothing can go on" in result.output
    lines = result.output.splitlines()
    (replay,) = [line for line in lines if "--replay" in line]
    again = run(*replay.split()[3:])
    assert again.exit_code == 1
    assert "nothing can go on" in again.output
    good = run(*replay.replace("Deaf", "Good").split()[3:])
    assert (good.exit_code, good.output) == (0, "nothing found\n")


def test_command_for_programs(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(
        "partitions: [{name: default, queues: "
        "[{name: root, queues: [{name: team, queues: [{name: dev}]}]}]}]"
    )
    options = ("--config", str(file), "--format", "json", "--programs", "20", "--no-shrink")
    found = json.loads(run("--binder", "tests.fuzz.binders:Deaf", *options).output)
    fine = json.loads(run("--binder", "tests.fuzz.binders:Good", *options).output)

    assert found["finding"]["seed"] == 0
    assert f"--config {file} --binder" in found["finding"]["replay"]
    assert fine["finding"] is None
    assert fine["programs"] == 20
    # It is that configuration which is used.
    assert "root.team.dev" in "".join(found["finding"]["program"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed", "-1"), "--seed"),
        (("--replay", "nonsense"), "no program"),
        (("--binder", "tests.fuzz.binders:Nobody"), "Nobody"),
        (("--binder", "tests.fuzz.nowhere:Good"), "nowhere"),
        (("--binder", "tests.fuzz.binders"), "--binder"),
        (("--binder", "tests.fuzz.everything:PRELUDE"), "cannot be called"),
        (("--config", __file__), "--config"),
        (("--config", "/nowhere"), "--config"),
    ],
    ids=" ".join,
)
def test_command_that_cannot_be_carried_out(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["", "- a list", "partitions: []", "queues: []", "\t"])
def test_command_with_a_configuration_that_is_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)

    result = run("--config", str(file))

    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_without_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hypothesis", None)

    result = run("--programs", "1")

    assert result.exit_code == 2
    assert "pip install 'muster-scheduler[fuzz]'" in result.output
