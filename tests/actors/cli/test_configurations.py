"""A configuration given with ``--config``: to a replay, and several of them to a comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.cli._progress import ProgressLine
from muster.replay import Tally
from tests.actors.cli.helpers import FEED, QUEUES, RANKED, run, run_json, written
from tests.actors.state_directories import S, small

INLINE = "- {op: configure, config: {partitions: [{name: default, queues: [{name: root}]}]}}\n"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A feed that configures, a longer one, and three configurations."""
    more = "- {op: add_node, node: n0, capacity: {vcore: 2}}\n"
    third = RANKED.replace("{name: east}", "{name: east, resources: {max: {vcore: 1}}}")
    texts = {"feed": INLINE + FEED, "more": INLINE + more + FEED}
    texts |= {"a": QUEUES, "b": RANKED, "c": third}
    return {name: written(tmp_path / f"{name}.yaml", text) for name, text in texts.items()}


def config_options(files: dict[str, Path], letters: str) -> list[str | Path]:
    """Return the option for each of some configurations."""
    return [word for letter in letters for word in ("--config", files[letter])]


def decisions(*arguments: str | Path) -> list[dict[str, object]]:
    result = run("replay", *arguments, "--decisions", "-")
    assert result.exit_code in {0, 1}, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


# COMMAND-29: any number of configurations


def test_the_first_configuration_is_compared_with_each_of_the_others(
    files: dict[str, Path],
) -> None:
    status, found = run_json("compare", files["feed"], *config_options(files, "abc"))

    assert (status, found["same"]) == (1, False)
    assert [Path(name).name for name in found["sides"].values()] == ["a.yaml", "b.yaml", "c.yaml"]
    assert list(found["sides"]) == ["a", "b", "c"]
    for at, other in enumerate("bc"):
        _, pair = run_json("compare", files["feed"], *config_options(files, f"a{other}"))
        assert pair.pop("left_out") == found["left_out"]
        sides, warnings, origin = pair.pop("sides"), pair.pop("warnings"), pair.pop("origin")
        assert (len(sides), warnings, origin) == (2, [], None)
        assert found["comparisons"][at] == {"side": other, **pair}


def test_the_text_of_three_sides(files: dict[str, Path]) -> None:
    result = run("compare", files["feed"], *config_options(files, "abc"), "--summary")
    lines = result.stdout.replace(f"{files['a'].parent}/", "").splitlines()

    assert result.exit_code == 1
    assert lines[:3] == ["A  a.yaml", "B  b.yaml", "C  c.yaml"]
    assert [line for line in lines if "against" in line] == ["B against A", "C against A"]
    (titles,) = [line.split() for line in lines if line.startswith(" all ")]
    assert titles == ["all", "A", "B", "B", "-", "A", "C", "C", "-", "A"]
    (bound,) = [line.split() for line in lines if line.startswith(" asks bound ")]
    assert bound == ["asks", "bound", "2", "2", "=", "1", "-1"]
    assert "Of 2 jobs, 1 waits less in C and 1 waits longer." in result.stdout


def test_all_are_the_same(files: dict[str, Path]) -> None:
    result = run("compare", files["feed"], *config_options(files, "aaa"))

    assert result.exit_code == 0
    assert result.stdout.count("Both decide the same: 21 decisions.") == 2


def test_too_many_configurations(files: dict[str, Path]) -> None:
    result = run("compare", files["feed"], *config_options(files, "a" * 27))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "There are 27 configurations; compare 26 at most." in result.stderr


def test_one_configuration_beside_two_feeds_is_for_the_second(files: dict[str, Path]) -> None:
    _, found = run_json("compare", files["feed"], files["more"], "--config", files["c"])
    alone = files["more"].parent
    only = written(alone / "only.yaml", files["more"].read_text().replace(INLINE, ""))
    both = written(
        alone / "both.yaml", f"- {{op: configure, file: {files['c'].name}}}\n{only.read_text()}"
    )
    _, other = run_json("compare", files["feed"], both)

    folder = f"{files['c'].parent}/"
    names = [name.replace(folder, "") for name in found["sides"].values()]
    assert names == ["feed.yaml", "more.yaml with c.yaml"]
    assert [one["feed"] for one in found["left_out"]] == [str(files["more"])]
    assert found["all"] == other["all"]


def test_several_configurations_beside_two_feeds(files: dict[str, Path]) -> None:
    _, found = run_json("compare", files["feed"], files["more"], *config_options(files, "abc"))
    names = [name.replace(f"{files['a'].parent}/", "") for name in found["sides"].values()]

    assert names == ["feed.yaml with a.yaml", "more.yaml with b.yaml", "more.yaml with c.yaml"]
    pair = [files["feed"], files["more"], *config_options(files, "ab")]
    assert found["comparisons"][0]["all"] == run_json("compare", *pair)[1]["all"]
    assert {one["feed"] for one in found["left_out"]} == {str(files["feed"]), str(files["more"])}


# COMMAND-30: a configuration for a replay


def test_a_replay_under_another_configuration(files: dict[str, Path], tmp_path: Path) -> None:
    result = run("replay", files["feed"], "--config", files["b"], "--decisions", "-")
    bare = written(tmp_path / "bare.yaml", f"- {{op: configure, file: b.yaml}}\n{FEED}")
    wanted = [one for one in decisions(bare) if one["kind"] != "config"]
    found = [json.loads(line) for line in result.stdout.splitlines()]

    assert f"{files['feed']}:1: `configure` is left out" in result.stderr
    assert [{**one, "seq": 0} for one in found] == [{**one, "seq": 0} for one in wanted]
    assert found != decisions(files["feed"])


def test_its_beginning_is_under_it_too(files: dict[str, Path]) -> None:
    arguments = (files["feed"], "--config", files["b"])
    late = decisions(*arguments, "--start", "5")

    assert late == decisions(*arguments)[-len(late) :]
    assert late


def test_a_state_directory_is_configured_right_then(tmp_path: Path) -> None:
    keeper = small(tmp_path / "state")
    keeper.prune(2 * S)
    directory = keeper.close()
    closed = written(
        tmp_path / "closed.yaml",
        "partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]",
    )
    found = decisions(directory, "--config", closed)

    assert found[0]["kind"] == "config"
    refused = written(
        tmp_path / "leaf.yaml",
        "partitions: [{name: default, queues: [{name: root, queues: [{name: q, queues: [{name: r}]}]}]}]",
    )
    result = run("replay", directory, "--config", refused)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{refused}: cannot come into force: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["feed.yaml", "--partition", "x"], "--partition needs --config"),
        (["-", "--config", "-"], "Standard input can be read only once"),
        (["feed.yaml", "--config", "none.yaml"], "none.yaml: cannot be read"),
    ],
)
def test_what_cannot_be(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(files["feed"].parent)
    result = run("replay", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


# COMMAND-32: who leaves without a node has waited, too

LEFT = """\
- {op: configure, config: {partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]}}
- {op: add_node, node: n1, capacity: {vcore: 3}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, run_for: 1h}
- {op: remove_ask, app: a, ask: x-2, at: 100}
"""
TIGHTER = """\
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: q, resources: {max: {vcore: 2}}}]
"""


def test_what_leaves_without_a_node_has_waited_until_then(tmp_path: Path) -> None:
    feed = written(tmp_path / "left.yaml", LEFT)
    tighter = written(tmp_path / "tighter.yaml", TIGHTER)
    _, found = run_json("compare", feed, "--config", tighter)
    a, b = found["all"]["a"], found["all"]["b"]

    assert (a["asks_bound"], a["asks_unbound"], a["wait"]["mean_s"]) == (3, 0, 0)
    assert (b["asks_bound"], b["asks_unbound"], b["wait"]["longest_s"]) == (2, 1, 100)
    assert b["wait"]["mean_s"] == pytest.approx(100 / 3)
    assert found["queues"][0]["b"]["wait"] == b["wait"]
    assert found["priorities"][0]["b"]["wait"]["count"] == 2
    shown = run("compare", feed, "--config", tighter, "--summary").stdout
    assert re.search(r"\n ended without a node +0 +1 +\+1\n", shown)


def test_a_replay_says_what_left_without_a_node(tmp_path: Path) -> None:
    feed = written(tmp_path / "left.yaml", LEFT)
    tighter = written(tmp_path / "tighter.yaml", TIGHTER)
    shown = run("replay", feed, "--config", tighter).stdout

    assert re.search(r"\nasks bound +2\nasks ended without a node +1\n", shown)
    assert "ended without" not in run("replay", feed).stdout
    report = tmp_path / "report.html"
    run("replay", feed, "--config", tighter, "--report", report)
    assert "of 1 application, 1 ended without a node" in report.read_text()


# COMMAND-31: progress where there is no terminal


def test_progress_is_written_in_lines(capfd: pytest.CaptureFixture[str]) -> None:
    progress = ProgressLine(Tally(), shown=True, every_s=0)
    output = ""
    with progress.line():
        while "\n" not in output:
            output += capfd.readouterr().err

    assert output.startswith("0 events, 0 s, 0 decisions/s\n")


def test_no_progress_where_none_is_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(Tally(), shown=False, every_s=0).line():
        pass

    assert capfd.readouterr().err == ""
