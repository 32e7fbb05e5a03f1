"""A state directory stands wherever a command takes a feed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import muster
from muster.config_files import parse_configuration
from muster.store import StateReader
from muster_core.decisions import Announced
from muster_core.events import AddApp, AddAsk, AddNode, Configure, RemoveApp
from tests.actors.cli.helpers import run, run_json, written
from tests.actors.program import SetClock
from tests.actors.state_directories import ONE, Keeper, S, decisions_in, small

# COMMAND-12


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with four batches and a checkpoint after the second one."""
    return small(tmp_path / "state").close()


@pytest.fixture
def directory_from_batch_2(tmp_path: Path) -> Path:
    """The same, but the first batch was removed."""
    keeper = small(tmp_path / "later")
    keeper.prune(2 * S)
    return keeper.close()


def as_lines(decisions: list[Announced]) -> list[object]:
    return [json.loads(json.dumps(one.as_map())) for one in decisions]


def logged(log: Path) -> list[object]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_replay(directory: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    status, found = run_json("replay", directory, "--decisions", log, "--until", "4")

    assert logged(log) == as_lines(decisions_in(directory))
    assert (status, found["asks_bound"], found["refused"]) == (1, 2, 1)
    assert found["virtual_s"] == 4
    # COMMAND-12: the ends of batches are no events
    assert found["events"] == run_json("store", directory)[1]["events"]


def test_replay_from_a_checkpoint(directory_from_batch_2: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    status, found = run_json("replay", directory_from_batch_2, "--decisions", log, "--until", "4")

    assert logged(log) == as_lines(decisions_in(directory_from_batch_2))[-len(logged(log)) :]
    assert logged(log)
    # The first ask was bound before.
    assert (status, found["asks_bound"], found["asks_running"]) == (1, 1, 1)
    assert (found["virtual_s"], found["utilisation"]) == (2, {"vcore": 0.5})
    assert [queue["jobs"] for queue in found["queues"]] == [1]


@pytest.mark.parametrize("since", ["3", "2023-11-14T22:13:23Z", "2023-11-14 23:13:23+01:00"])
def test_replay_since_an_instant(directory: Path, tmp_path: Path, since: str) -> None:
    # COMMAND-14
    log = tmp_path / "log.jsonl"
    status, found = run_json(
        "replay", directory, "--decisions", log, "--since", since, "--until", "4"
    )

    kept = [one for one in decisions_in(directory) if one.at_us >= 3 * S]
    assert logged(log) == as_lines(kept)
    assert (status, found["asks_bound"], found["asks_running"]) == (1, 1, 1)


@pytest.mark.parametrize("name", ["directory", "directory_from_batch_2"])
def test_a_report(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    result = run("replay", request.getfixturevalue(name), "--report", report)

    assert result.exit_code == 1, result.output
    assert "root.q" in report.read_text()


@pytest.mark.parametrize(
    ("name", "batches", "events"), [("directory", 4, 5), ("directory_from_batch_2", 2, 2)]
)
def test_check(name: str, batches: int, events: int, request: pytest.FixtureRequest) -> None:
    checked: Path = request.getfixturevalue(name)

    result = run("check", checked)
    assert result.stdout == f"{checked}: ok ({events} events, {batches} batches)\n"
    assert result.exit_code == 0
    status, found = run_json("check", checked)
    assert (status, found["feeds"][0]["batches"]) == (0, batches)


def test_check_finds_what_is_decided_otherwise(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.lie(5 * S)
    directory = keeper.close()

    result = run("check", directory)
    assert result.exit_code == 1
    place, found, last = result.stdout.partition(": expected ")[0], result.stdout, result.stdout
    assert place == f"{directory}: event 4: batch 5, decision 12"
    assert "kind='bound' app='a' ask='lie'" in found
    assert "found none" in found
    assert last.endswith(f"{directory}: 1 difference (5 events, 5 batches)\n")


def test_explain(directory: Path, directory_from_batch_2: Path) -> None:
    for place in (directory, directory_from_batch_2):
        status, found = run_json("explain", place, "--at", "2023-11-14T22:13:23Z", "--ask", "a/one")

        assert (status, found["at"], found["fate"], found["since"]) == (0, 3, "completed", 3)


def test_explain_what_is_bound(directory: Path) -> None:
    # The checkpoint is of the batch that has bound it.
    status, found = run_json("explain", directory, "--at", "2.5", "--ask", "a/one")

    assert (status, found["fate"], found["node"], found["since"]) == (0, "bound", "n", 2)
    assert found["index"] == 2


def test_explain_what_is_bound_since_before_what_is_kept(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.checkpoint()
    keeper.run(5 * S, [AddAsk("a", "three", ONE)])
    keeper.prune(5 * S)
    directory = keeper.close()

    status, found = run_json("explain", directory, "--ask", "a/two")
    assert (status, found["fate"], found["since"], found["index"]) == (0, "bound", None, None)
    result = run("explain", directory, "--ask", "a/two")
    assert result.stdout == (
        "2023-11-14T22:13:25Z: a/two is bound on n in root.q since before what is kept\n"
    )


@pytest.mark.parametrize("pruned", [False, True])
def test_explain_what_is_pending_since_before_a_checkpoint(tmp_path: Path, pruned: bool) -> None:
    keeper = small(tmp_path / "state")
    keeper.run(5 * S, [AddAsk("a", "three", ONE)])
    keeper.checkpoint()
    keeper.run(6 * S, [AddAsk("a", "four", ONE)])
    if pruned:
        keeper.prune(6 * S)
    directory = keeper.close()
    plain = tmp_path / "feed.jsonl"
    if not pruned:
        assert run("convert", directory, plain).exit_code == 0

    status, found = run_json("explain", directory, "--ask", "a/three", "--at", "6")
    assert (status, found["fate"], found["since"]) == (0, "pending", 5)
    assert found["remedies"]
    assert found["index"] == (None if pruned else 5)
    if not pruned:
        _, same = run_json("explain", plain, "--ask", "a/three", "--at", "6")
        assert found["remedies"] == same["remedies"]


def test_explain_all(directory: Path, directory_from_batch_2: Path) -> None:
    for place in (directory, directory_from_batch_2):
        result = run("explain", place, "--all")

        assert result.exit_code == 0
        assert result.stderr.startswith(f"{place}:event 4: refused: ask: ")


def test_explain_all_tells_what_was_refused_before_a_checkpoint(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.checkpoint()
    directory = keeper.close()

    result = run("explain", directory, "--all")
    assert result.stderr.startswith(f"{directory}:event 4: refused: ask: ")


def test_checking_one_in_use(tmp_path: Path) -> None:
    keeper: Keeper = small(tmp_path / "state")

    assert run("check", keeper.directory).exit_code == 0
    keeper.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "DIR"),
        ("check", "DIR"),
        ("explain", "DIR", "--all"),
        ("compare", "DIR", "DIR"),
        ("convert", "DIR", "-"),
    ],
)
def test_a_directory_that_is_no_state_directory(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*(str(tmp_path) if word == "DIR" else word for word in arguments))

    assert result.exit_code == 2
    assert result.stderr == f"{tmp_path}: is not a state directory: it has no file muster.db\n"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--since", "1", "--since needs a state directory"),
        ("--until", "2026-01-01", "--until: the feed has no dates"),
    ],
)
def test_options_that_a_feed_cannot_have(
    option: str, value: str, message: str, tmp_path: Path
) -> None:
    # COMMAND-14
    feed = written(tmp_path / "feed.yaml", "- {op: settle}\n")
    result = run("replay", feed, option, value)

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2023-11-14", "--until: 2023-11-14T00:00:00Z is before the start, 2023-11-14T22:13:20Z"),
        ("2023-13-14", "'2023-13-14' is no date: month must be in 1..12"),
        ("2023-11", "'2023-11' is no date: write it like 2026-01-31 or 2026-01-31T18:30:00Z"),
    ],
)
def test_dates_that_are_wrong(directory: Path, value: str, message: str) -> None:
    # COMMAND-14
    result = run("replay", directory, "--until", value)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", "").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "DIR", "--since", "1"),
        ("replay", "DIR", "--until", "1"),
        ("convert", "DIR", "-", "--since", "2"),
        ("convert", "DIR", "-", "--until", "1.5"),
        ("explain", "DIR", "--at", "1", "--all"),
        ("compare", "DIR", "DIR", "--until", "1"),
    ],
)
def test_an_instant_that_was_removed(
    directory_from_batch_2: Path, arguments: tuple[str, ...]
) -> None:
    # COMMAND-14
    result = run(*(str(directory_from_batch_2) if word == "DIR" else word for word in arguments))

    assert result.exit_code == 2
    assert result.stderr == (
        f"{directory_from_batch_2 / 'muster.db'}: batches up to 1 were removed, and the state is known only after "
        "batch 2, at 2 s: choose a later time\n"
    )


def test_an_instant_of_a_checkpoint_with_which_history_begins(tmp_path: Path) -> None:
    # COMMAND-14: the first batches were removed up to the checkpoint itself
    keeper = small(tmp_path / "state")
    keeper.prune(3 * S)
    directory = keeper.close()
    with StateReader(directory) as reader:
        assert reader.meta.anchor.batch == reader.checkpoints()[0].batch

    assert run("convert", directory, "-", "--since", "1").exit_code == 2
    assert run("convert", directory, "-", "--since", "2.5").exit_code == 0


@pytest.mark.parametrize("command", ["replay", "convert"])
def test_an_end_before_the_beginning(directory: Path, command: str) -> None:
    # COMMAND-14
    target = ["-"] if command == "convert" else []
    result = run(command, directory, *target, "--since", "3", "--until", "2")

    assert result.exit_code == 2
    assert "--until: 2 s is before --since, 3 s" in result.stderr


def test_instants_outside_of_the_history(directory: Path, tmp_path: Path) -> None:
    # COMMAND-14: the last state, and nothing
    late, directory_from_batch_2 = tmp_path / "late.jsonl", tmp_path / "later.jsonl"
    for target, since in ((late, "10"), (directory_from_batch_2, "1000")):
        assert run("convert", directory, target, "--since", since).exit_code == 0
        assert target.read_bytes()
    before = tmp_path / "before.jsonl"
    assert run("convert", directory, before, "--until", "0").exit_code == 0
    assert before.read_bytes() == b""


async def test_an_ask_that_was_given_up(tmp_path: Path) -> None:
    class FailingBinder:
        async def run(self, allocation: muster.Allocation, _: Callable[[], None]) -> None:
            raise ValueError(allocation.ask)

    async with muster.open_scheduler(
        store=tmp_path / "state", clock=SetClock(), binder=FailingBinder(), bind_attempts=2
    ) as scheduler:
        await scheduler.add_node("n", {"vcore": 1})
        await scheduler.add_app("a", "root.q")
        given_up = await scheduler.add_ask("a", "k", {"vcore": 1})
        with pytest.raises(muster.BindFailedError):
            await given_up.bound()

    result = run("explain", tmp_path / "state", "--ask", "a/k")
    assert (
        "by `remove_ask`, given up as its work could not be started: ValueError: k" in result.stdout
    )


# Comparing

SLOW = "partitions: [{name: default, queues: [{name: q, resources: {max: {vcore: 0}}}]}]"
PLAIN = "partitions: [{name: default, queues: [{name: q}]}]"


def configured(directory: Path) -> Keeper:
    """Keep three batches; the first one has the configuration."""
    keeper = Keeper(directory)
    keeper.run(S, [as_event(PLAIN), AddNode("n", ONE), AddApp("a", "root.q")])
    keeper.run(2 * S, [AddAsk("a", "one", ONE, run_for_us=S)])
    keeper.run(4 * S, [AddAsk("a", "two", ONE, run_for_us=S)])
    return keeper


def as_event(text: str) -> Configure:
    return Configure(parse_configuration(text.encode(), file="x"))


def test_compare_with_another_configuration(tmp_path: Path) -> None:
    directory = configured(tmp_path / "state").close()
    status, found = run_json(
        "compare", directory, "--config", written(tmp_path / "slow.yaml", SLOW)
    )

    assert (status, found["first"]["at"]) == (1, 2)
    assert [found["all"][side]["asks_bound"] for side in ("a", "b")] == [2, 0]
    assert [one["index"] for one in found["left_out"]] == [0]


@pytest.mark.parametrize("pruned", [False, True])
def test_compare_what_came_since_an_instant(tmp_path: Path, pruned: bool) -> None:
    # COMMAND-14, COMMAND-15
    keeper = configured(tmp_path / "state")
    if pruned:
        keeper.checkpoint()
        keeper.run(6 * S, [AddAsk("a", "three", ONE, run_for_us=S)])
        keeper.prune(6 * S)
    directory = keeper.close()
    since = () if pruned else ("--since", "2023-11-14T22:13:22.5Z")
    slow = written(tmp_path / "slow.yaml", SLOW)
    status, found = run_json("compare", directory, *since, "--config", slow)

    # What was bound before stays bound until it has ended.
    assert status == 1
    assert [found["all"][side]["asks_bound"] for side in ("a", "b")] == [1, 0]
    assert [found["all"][side]["jobs"] for side in ("a", "b")] == [1, 1]
    assert found["first"]["at"] == (6 if pruned else 4)
    assert found["left_out"] == []
    same = run("compare", directory, *since, "--config", written(tmp_path / "same.yaml", PLAIN))
    assert same.exit_code == 0, same.output


def test_compare_two(tmp_path: Path) -> None:
    a = configured(tmp_path / "a").close()
    keeper = configured(tmp_path / "b")
    keeper.run(4 * S, [RemoveApp("a")])
    b = keeper.close()

    assert run("compare", a, a).exit_code == 0
    assert run("compare", a, b).exit_code == 1
    assert run("compare", a, b, "--until", "3").exit_code == 0


def test_compare_with_a_configuration_that_cannot_come_in(tmp_path: Path) -> None:
    directory = configured(tmp_path / "state").close()
    other = written(
        tmp_path / "other.yaml", PLAIN.replace("name: q", "name: q, queues: [{name: r}]")
    )
    result = run("compare", directory, "--since", "3", "--config", other)

    assert result.exit_code == 2
    assert "no configuration given can come into force" in result.stderr


# Converting


def test_convert(directory: Path, tmp_path: Path) -> None:
    # COMMAND-13
    for name in ("feed.yaml", "feed.msgpack", "feed.jsonl.gz"):
        result = run("convert", directory, tmp_path / name, "--expect")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"{tmp_path / name}: 9 events from {directory}\n"
        checked = run("check", tmp_path / name)
        assert checked.stdout == f"{tmp_path / name}: ok (9 events, 4 expects)\n"


def test_convert_since_an_instant(directory: Path, tmp_path: Path) -> None:
    # COMMAND-14
    feed = tmp_path / "feed.jsonl"
    status, found = run_json(
        "convert", directory, feed, "--expect", "--since", "2.5", "--until", "2023-11-14T22:13:24Z"
    )

    assert (status, len(found["notes"])) == (0, 2)
    notes = run("convert", directory, feed, "--expect", "--since", "2.5").stderr.splitlines()
    assert notes == [f"{directory}: {note}" for note in found["notes"]]
    assert run("check", feed).exit_code == 0
    log, same = tmp_path / "log.jsonl", tmp_path / "same.jsonl"
    run("replay", feed, "--decisions", log, "--until", "4")
    run("replay", directory, "--decisions", same, "--until", "4")
    binds = [
        [
            (line["at"], line["ask"])
            for line in map(json.loads, one.read_text().splitlines())
            if line["kind"] == "bound"
        ]
        for one in (log, same)
    ]
    assert binds == [[(2, "one"), (4, "two")]] * 2


@pytest.mark.parametrize("option", [("--since", "1"), ("--until", "1"), ("--expect",)])
def test_convert_options_that_a_feed_cannot_have(option: tuple[str, ...], tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", "- {op: settle}\n")
    result = run("convert", feed, tmp_path / "out.jsonl", *option)

    assert (result.exit_code, f"{option[0]} needs a state directory" in result.stderr) == (2, True)


def test_a_directory_has_no_encoding(directory: Path) -> None:
    result = run("convert", directory, "-", "--from", "yaml")

    assert (result.exit_code, "--from: a state directory has no" in result.stderr) == (2, True)


@pytest.mark.parametrize("option", ["--decisions", "--report"])
def test_nothing_is_written_into_a_state_directory(directory: Path, option: str) -> None:
    result = run("replay", directory, option, directory / "muster.db")

    assert result.exit_code == 2
    assert "is in the state directory" in result.stderr
    assert run("check", directory).exit_code == 0
