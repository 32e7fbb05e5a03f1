"""``muster compare``: two configurations, two feeds, decision logs, and what is refused."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.feeds import RawEvent, read_raw
from tests.actors.cli.helpers import (
    COMMAND,
    FEED,
    LONGEST_S,
    PARTITIONS,
    QUEUES,
    RANKED,
    compare_both,
    run,
    run_json,
    started,
    written,
)


def without_reasons(text: str) -> str:
    """Leave the sentences of reasons out of a text: they are the scheduler's."""
    return re.sub(r"^(      \w+): .*", r"\1: …", text, flags=re.MULTILINE)


def test_what_is_printed(files: dict[str, Path]) -> None:
    result = run(*compare_both(files))
    folder = f"{files['feed'].parent}/"

    assert (result.exit_code, result.stderr) == (1, "")
    assert (
        without_reasons(result.stdout.replace(folder, ""))
        == """\
A  a.yaml
B  b.yaml

The decisions differ from 0 s on, after 4 equal decisions:

A  assigned a/x on n1 in root.east  (feed.yaml:3)
   in B a/x is pending
      NotYourTurn: …
      NoNodeFits: …
B  assigned b/y on n1 in root.west  (feed.yaml:5)
   in A b/y is pending
      NotYourTurn: …
      NoNodeFits: …


 all                            A         B      B - A
 ─────────────────────────────────────────────────────
 jobs                           2         2          =
 asks bound                     2         2          =
 pending                        0         0          =
 preempted                      0         0          =
 reclaimed                      0         0          =
 events refused                 0         0          =
 mean wait                    5 s     750 s     +745 s
 median                       5 s     750 s     +745 s
 95 %                        10 s   1,500 s   +1,490 s
 longest                     10 s   1,500 s   +1,490 s
 mean wait of jobs            5 s     750 s     +745 s
 makespan                 1,510 s   1,510 s          =
 vcore used                98.1 %    98.1 %          =
 bounded slowdown               1        76        +75
 slowdown: median               1        76        +75
 slowdown: 95 %              1.01       151       +150
 wait weighted by vcore    9.93 s    9.93 s          =
 fairness of queues           0.5       0.5          =


 queue               jobs   asks bound   mean wait     median       95 %    longest
 ──────────────────────────────────────────────────────────────────────────────────
 root.east   A          1            1         0 s        0 s        0 s        0 s
             B          1            1     1,500 s    1,500 s    1,500 s    1,500 s
             B - A      =            =    +1,500 s   +1,500 s   +1,500 s   +1,500 s
 root.west   A          1            1        10 s       10 s       10 s       10 s
             B          1            1         0 s        0 s        0 s        0 s
             B - A      =            =       -10 s      -10 s      -10 s      -10 s


 queue       vcore used: A        B   B - A
 ──────────────────────────────────────────
 root.east           0.6 %    0.6 %       =
 root.west          97.4 %   97.4 %       =


 priority           jobs   asks bound   mean wait   median       95 %    longest
 ───────────────────────────────────────────────────────────────────────────────
 0          A          2            2         5 s      5 s       10 s       10 s
            B          2            2       750 s    750 s    1,500 s    1,500 s
            B - A      =            =      +745 s   +745 s   +1,490 s   +1,490 s

Of 2 jobs, 1 waits less in B and 1 waits longer. Their ends change in the same way.


 job            wait: A         B      B - A    end: A         B      B - A
 ──────────────────────────────────────────────────────────────────────────
 wait less:
   b               10 s       0 s      -10 s   1,510 s   1,500 s      -10 s
 wait longer:
   a                0 s   1,500 s   +1,500 s      10 s   1,510 s   +1,500 s

"""
    )


# COMMAND-28
def test_a_summary_leaves_out_queues_priorities_and_jobs(files: dict[str, Path]) -> None:
    whole, summary = run(*compare_both(files)), run(*compare_both(files), "--summary")

    assert (summary.exit_code, summary.stderr) == (1, "")
    tables = whole.stdout.index("\n\n queue ")
    sentence = "Of 2 jobs, 1 waits less in B and 1 waits longer. Their ends change in the same way."
    assert summary.stdout == f"{whole.stdout[:tables]}\n{sentence}\n\n"
    assert run_json(*compare_both(files), "--summary") == run_json(*compare_both(files))
    same = "compare", files["feed"], "--config", files["b"], "--config", files["b"]
    assert run(*same, "--summary").stdout == run(*same).stdout


def test_one_configuration_against_itself(files: dict[str, Path]) -> None:
    result = run("compare", files["feed"], "--config", files["b"], "--config", files["b"])

    assert (result.exit_code, result.stderr) == (0, "")
    assert "\nBoth decide the same: 21 decisions.\n" in result.stdout
    assert "+" not in result.stdout
    assert re.search(r"\n asks bound +2 +2 +=\n", result.stdout)
    # Lines of queues, priorities and jobs would only repeat the one of all.
    assert result.stdout.count("───\n") == 1
    assert "root.east" not in result.stdout


def test_the_same_as_json(files: dict[str, Path]) -> None:
    status, answer = run_json(*compare_both(files))
    first, queue = answer["first"], answer["queues"][1]

    assert (status, answer["same"], answer["decisions"]) == (1, False, 5)
    assert answer["sides"] == {"a": str(files["a"]), "b": str(files["b"])}
    assert answer["left_out"] == []
    assert (first["at"], first["same"]) == (0, 4)
    assert first["a"]["decision"]["ask"] == "x"
    assert (first["a"]["index"], first["a"]["line"]) == (2, 3)
    assert {**first["a"]["elsewhere"], "turn": None, "reasons": []} == {
        "app": "a", "ask": "x", "place": "pending", "node": None, "reasons": [], "turn": None,
    }  # fmt: skip
    assert first["a"]["elsewhere"]["turn"].startswith("NotYourTurn: b/y is tried before it")
    assert first["a"]["elsewhere"]["reasons"][0].startswith("NoNodeFits: ")
    assert answer["first_priority"]["b"]["decision"]["queue"] == "root.east"
    assert answer["first_priority"]["b"]["elsewhere"] is None
    assert answer["all"]["difference"]["wait"]["mean_s"] == 745
    assert answer["all"]["a"]["utilisation"]["vcore"] == pytest.approx(1510 / 1540)
    assert queue["queue"] == "root.west"
    assert (queue["a"]["wait"]["mean_s"], queue["difference"]["wait"]["longest_s"]) == (10, -10)
    assert [(row["lowest"], row["highest"]) for row in answer["priorities"]] == [(0, 0)]
    assert (
        answer["jobs"]["wait"]["most_lost"]
        == answer["jobs"]["end"]["most_lost"]
        == [
            {
                "app": "a",
                "a": {"queue": "root.east", "wait_s": 0, "end_s": 10},
                "b": {"queue": "root.east", "wait_s": 1500, "end_s": 1510},
                "difference": {"wait_s": 1500, "end_s": 1500},
            }
        ]
    )


def test_the_same_as_json_of_equal_sides(files: dict[str, Path]) -> None:
    status, answer = run_json("compare", files["feed"], files["feed"])

    assert (status, answer["same"], answer["first"], answer["first_priority"]) == (
        0,
        True,
        None,
        None,
    )
    assert [row["queue"] for row in answer["queues"]] == ["root.east", "root.west"]
    assert len(answer["priorities"]) == 1


def test_a_queue_that_does_not_change_among_others_that_do(files: dict[str, Path]) -> None:
    more = "- {op: add_app, app: c, queue: root.other}\n"
    files["a"].write_text(QUEUES + "          - {name: other}\n", encoding="utf-8")
    files["b"].write_text(RANKED + "          - {name: other}\n", encoding="utf-8")
    files["feed"].write_text(FEED + more, encoding="utf-8")

    assert "\n root.other   A = B      1 " in run(*compare_both(files)).stdout


def test_configurations_stand_in_for_those_of_the_feed(files: dict[str, Path]) -> None:
    feed = f"- {{op: configure, file: gone.yaml}}\n{FEED}- {{op: configure, partition: p}}\n"
    files["feed"].write_text(feed, encoding="utf-8")
    result = run(*compare_both(files))

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{files['feed']}:1: `configure` is left out",
        f"{files['feed']}:7: `configure` is left out (of partition 'p')",
    ]
    assert run_json(*compare_both(files))[1]["left_out"] == [
        {"index": 0, "line": 1, "partition": None},
        {"index": 6, "line": 7, "partition": "p"},
    ]


def test_many_configurations_of_a_feed_are_counted(files: dict[str, Path]) -> None:
    many = "".join(f"- {{op: configure, config: {{}}, at: {at}}}\n" for at in range(12))
    files["feed"].write_text(FEED + many, encoding="utf-8")
    lines = run(*compare_both(files)).stderr.splitlines()

    assert len(lines) == 11
    assert lines[-1] == f"{files['feed']}: … 12 `configure` events left out in all"


def test_one_configuration_against_the_feed_as_it_is(files: dict[str, Path]) -> None:
    files["feed"].write_text(f"- {{op: configure, file: a.yaml}}\n{FEED}", encoding="utf-8")
    same = run("compare", files["feed"], "--config", files["a"])
    other = run("compare", files["feed"], "--config", files["b"])

    assert same.exit_code == 0
    assert same.stdout.startswith(f"A  {files['feed']} as it is\nB  {files['a']}\n")
    assert other.exit_code == 1
    assert f"assigned b/y on n1 in root.west  ({files['feed']}:6)" in other.stdout


def test_two_feeds(files: dict[str, Path], tmp_path: Path) -> None:
    shorter = written(tmp_path / "shorter.yaml", FEED.replace("1500", "700"))
    result = run("compare", files["feed"], shorter)

    assert result.exit_code == 1
    assert result.stdout.startswith(f"A  {files['feed']}\nB  {shorter}\n")
    assert "\nThe decisions differ from 00:11:50 on, after 14 equal decisions:\n" in result.stdout
    assert "\nA  nothing more at this instant\n" in result.stdout
    assert "\nB  released b/y from n1 in root.west: completed\n" in result.stdout
    assert "   in A b/y is bound on n1\n" in result.stdout
    assert "Of 2 jobs, 1 ends earlier in B and 0 end later.\n" in result.stdout


def test_an_ask_of_one_feed_alone(files: dict[str, Path], tmp_path: Path) -> None:
    renamed = written(tmp_path / "renamed.yaml", FEED.replace("ask: x", "ask: z"))
    text = run("compare", files["feed"], renamed).stdout

    assert "\n   in B a/x does not exist\n" in text
    assert "\n   in A a/z does not exist\n" in text


def test_priorities_alone(files: dict[str, Path]) -> None:
    shifted = RANKED.replace("queue.priority", "priority.offset").replace('"5"', '"-5"')
    files["b"].write_text(shifted, encoding="utf-8")
    result = run(*compare_both(files))

    assert result.exit_code == 1
    assert "The decisions differ" not in result.stdout
    assert (
        "\nThe priorities of queues differ from 0 s on, after 0 equal changes:\n" in result.stdout
    )
    assert "\nA  queue_priority of root: 0\nB  queue_priority of root: -5\n" in result.stdout


def test_jobs_of_one_side_alone(files: dict[str, Path], tmp_path: Path) -> None:
    fewer = written(tmp_path / "fewer.yaml", "".join(FEED.splitlines(keepends=True)[:3]))
    text = run("compare", files["feed"], fewer).stdout

    assert "\nOnly in A: 1 job.\n" in text


def test_standard_input(files: dict[str, Path]) -> None:
    arguments = compare_both(files)
    arguments[1] = "-"
    result = run(*arguments, stdin=FEED)

    assert result.exit_code == 1
    assert "(standard input:3)" in result.stdout


def test_a_configuration_from_standard_input(files: dict[str, Path]) -> None:
    result = run("compare", files["feed"], "--config", "-", "--config", files["b"], stdin=QUEUES)

    assert result.exit_code == 1
    assert result.stdout.startswith("A  standard input\n")


def test_the_partition_that_runs(files: dict[str, Path]) -> None:
    files["b"].write_text(PARTITIONS, encoding="utf-8")
    other = run(*compare_both(files), "--partition", "default")
    files["a"].write_text(PARTITIONS, encoding="utf-8")
    same = run(*compare_both(files), "--partition", "other")

    assert (other.exit_code, same.exit_code) == (0, 0)
    assert run(*compare_both(files), "--partition", "none").exit_code == 2


def test_the_progress_bar(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    result = run(*compare_both(files))

    assert result.exit_code == 1
    assert "decisions/s" in result.stderr


def test_ctrl_c_says_nothing(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def raws(_name: str, *, logs: bool) -> Iterator[RawEvent]:
        assert logs
        yield from read_raw(io.BytesIO(FEED.encode()))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("muster.cli._progress.read_events", raws)
    result = run("compare", files["feed"], "--config", files["a"])

    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


def test_nobody_reads_on(files: dict[str, Path]) -> None:
    with started(*compare_both(files)) as running:
        running.out.close()
        assert running.process.wait(timeout=LONGEST_S) == 141


LARGE = "".join(
    f"- {{op: add_app, app: large-{app}, queue: root.{queue}}}\n"
    f"- {{op: add_ask, app: large-{app}, ask: x, resources: {{vcore: 2, memory: 1, gpu: 1}},"
    f" run_for: {1_234_567 + app}}}\n"
    for app, queue in enumerate(("east", "west") * 6)
)


@pytest.mark.parametrize("columns", [80, 60])
def test_a_narrow_page_cuts_nothing(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    node = "- {op: add_node, node: n1, capacity: {vcore: 2, memory: 4, gpu: 1}}\n"
    files["feed"].write_text(node + LARGE, encoding="utf-8")
    wide = run(*compare_both(files)).stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    narrow = run(*compare_both(files)).stdout

    assert numbers(narrow) == numbers(wide)
    assert {"14,814,870", "+1,234,578"} <= numbers(wide)
    assert "…" not in narrow
    tables = narrow.partition("\n all ")[2].splitlines()
    assert max(len(line) for line in tables if not line.startswith("Of 12 jobs")) <= columns


def numbers(text: str) -> set[str]:
    """Return the numbers in a text."""
    return set(re.findall(r"[-+]?\d[\d,.]*", text))


def test_warnings_of_configurations(files: dict[str, Path]) -> None:
    limited = QUEUES.replace("{name: east}", "{name: east, properties: {theirs: x}}")
    files["b"].write_text(limited, encoding="utf-8")
    message = "root.east: unknown property 'theirs' is kept, without effect"
    path = "partitions[0].queues[0].queues[0].properties.theirs"

    assert run(*compare_both(files)).stderr == f"{files['b']}:6: warning: {path}: {message}\n"
    assert run_json(*compare_both(files))[1]["warnings"] == [
        {"file": str(files["b"]), "line": 6, "path": path, "message": message}
    ]
    files["a"].write_text(limited, encoding="utf-8")
    twice = run("compare", files["feed"], "--config", files["a"], "--config", files["a"])
    assert twice.stderr == f"{files['a']}:6: warning: {path}: {message}\n"


def logs(tmp_path: Path, files: dict[str, Path], ending: str) -> list[Path]:
    """Write the decision logs of both configurations."""
    made: list[Path] = []
    for name in ("a", "b"):
        feed = f"- {{op: configure, file: {files[name].name}}}\n{FEED}"
        log = tmp_path / f"{name}-log{ending}"
        run("replay", written(tmp_path / f"{name}-feed.yaml", feed), "--decisions", log)
        made.append(log)
    return made


@pytest.mark.parametrize("ending", [".jsonl", ".msgpack", ".jsonl.gz", ".msgpack.gz", ".log"])
def test_two_logs(files: dict[str, Path], tmp_path: Path, ending: str) -> None:
    a, b = logs(tmp_path, files, ending)
    status, answer = run_json("compare", a, b)
    by_feed = run_json(*compare_both(files))[1]
    in_lines = "msgpack" not in ending

    assert status == 1
    assert answer["first"]["a"]["decision"]["app"] == "a"
    assert answer["first"]["a"]["line"] == (6 if in_lines else None)
    assert answer["first"]["a"]["elsewhere"] is None
    assert answer["all"]["a"]["wait"] is None
    assert answer["all"]["a"]["job_wait"] == by_feed["all"]["a"]["job_wait"]
    assert answer["jobs"] == by_feed["jobs"]
    assert answer["priorities"] == []
    assert run("compare", a, a).exit_code == 0


def test_two_logs_in_words(files: dict[str, Path], tmp_path: Path) -> None:
    a, b = logs(tmp_path, files, ".msgpack")
    text = run("compare", a, b).stdout

    assert f"\nA  assigned a/x on n1 in root.east  ({a}: event 5)\nB  assigned" in text
    assert re.search(r"\n mean wait of jobs +5 s +750 s +\+745 s\n", text)
    assert re.search(r"\n queue +jobs   asks bound   mean wait of jobs +median ", text)
    assert "vcore" not in text


def test_a_log_and_a_feed_are_not_compared(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    for pair in ((log, files["feed"]), (files["feed"], log)):
        result = run("compare", *pair)
        assert result.exit_code == 2
        assert result.stderr == f"{log}: is a decision log, and the other is a feed\n"


def test_a_log_has_no_configuration_to_change(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    result = run("compare", log, "--config", files["a"])

    assert result.exit_code == 2
    assert result.stderr == f"{log}: is a decision log: a configuration cannot change it\n"


def test_what_is_empty_is_what_the_other_is(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    empty = written(tmp_path / "empty.yaml", "[]")

    assert run_json("compare", empty, log)[1]["jobs"]["only_b"] == 2
    assert run_json("compare", files["feed"], empty)[1]["jobs"]["only_a"] == 2
    assert run("compare", empty, empty).exit_code == 0


def test_a_log_that_breaks_off(files: dict[str, Path], tmp_path: Path) -> None:
    (log, _) = logs(tmp_path, files, ".jsonl")
    broken = written(tmp_path / "broken.jsonl", log.read_text(encoding="utf-8")[:-9])
    result = run("compare", log, broken)

    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(rf"{broken}:\d+: no decision of a log: the line is .*\n", result.stderr)


# What cannot be compared


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["{feed}"],
            "There is only one feed: name a second one, or a configuration with --config.",
        ),
        (["{feed}"] * 3, "There are 3 feeds; compare two."),
        (["{feed}", *["--config", "{a}"] * 27], "There are 27 configurations; compare 26 at most."),
        (["{feed}", "{feed}", "--partition", "p"], "--partition needs --config"),
        (["-", "-"], "Standard input can be read only once: name a file."),
        (["-", "--config", "-"], "Standard input can be read only once: name a file."),
        ([], "Missing argument 'FEED...'"),
    ],
)
def test_arguments_that_make_no_sense(
    files: dict[str, Path], arguments: list[str], problem: str
) -> None:
    names = {name: str(path) for name, path in files.items()}
    result = run("compare", *(argument.format(**names) for argument in arguments))

    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


def test_a_configuration_that_is_refused(files: dict[str, Path]) -> None:
    files["b"].write_text(QUEUES.replace("west", "east").replace("root", "root!"), encoding="utf-8")
    result = run(*compare_both(files))
    status, answer = run_json(*compare_both(files))

    assert (result.exit_code, result.stdout, status) == (2, "", 2)
    assert result.stderr.startswith(f"{files['b']}:4: partitions[0].queues[0].name: ")
    assert answer["error"]["file"] == str(files["b"])
    assert answer["error"]["line"] == 4


@pytest.mark.parametrize("which", ["feed", "a"])
def test_a_file_that_is_not_there(files: dict[str, Path], which: str) -> None:
    files[which].unlink()
    result = run(*compare_both(files))

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{files[which]}: ")


def test_standard_input_that_is_closed(files: dict[str, Path]) -> None:
    command = [*COMMAND, *map(str, ["compare", files["feed"], "--config", "-"])]
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "standard input: cannot be read: it is closed\n"


def test_what_is_no_feed(files: dict[str, Path], tmp_path: Path) -> None:
    problem = f"{files['a']}: is a configuration, not a feed: check it with `muster validate {files['a']}`\n"
    lines = written(tmp_path / "lines.jsonl", '{"op": "bogus"}\n{}\n')

    for arguments in (
        [files["a"], files["b"]],
        [files["feed"], files["a"]],
        [files["a"], "--config", files["b"]],
        [files["a"], "--config", files["b"], "--config", files["b"]],
    ):
        result = run("compare", *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", problem)
    result = run("compare", lines, files["feed"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{lines}:1: op: 'bogus' ")


def test_a_feed_of_which_something_can_be_read(files: dict[str, Path], tmp_path: Path) -> None:
    bogus = written(tmp_path / "bogus.yaml", "- {op: bogus}\n- {op: settle}\n")
    result = run("compare", bogus, bogus)

    assert result.exit_code == 0
    assert result.stderr.startswith(f"{bogus}:1: refused: op: 'bogus' ")


# Events that are refused


REFUSING = (
    QUEUES.replace("- {name: west}", "- {name: west, submitacl: alice}")
    .replace("- name: root", "- name: root\n        submitacl: ' '")
    .replace("{name: east}", "{name: east, submitacl: '*'}")
)
STRANGE = "- {op: add_app, app: z, queue: root.east}\n- {op: add_app, app: z, queue: root.east}\n"


def test_a_configuration_that_refuses_jobs(files: dict[str, Path]) -> None:
    files["b"].write_text(REFUSING, encoding="utf-8")
    files["feed"].write_text(FEED + STRANGE, encoding="utf-8")
    result = run(*compare_both(files))
    feed = files["feed"]

    assert result.exit_code == 1
    assert (
        f"\nOnly B refuses 2 events:\n\n   {feed}:4: queue: 'root.west' does not admit "
    ) in result.stdout
    assert f"\n   {feed}:5: app: 'b' is unknown\n" in result.stdout
    assert "Only A refuses" not in result.stdout
    assert re.search(r"\n events refused +1 +3 +\+2\n", result.stdout)
    assert "\nOnly in A: 1 job; B refused it.\n" in result.stdout
    # COMMAND-28
    summary = run(*compare_both(files), "--summary").stdout
    assert "\nOnly B refuses 2 events.\n" in summary
    assert "app: 'b' is unknown" not in summary
    assert summary.endswith("\nOnly in A: 1 job; B refused it.\n\n")
    # Refusals of both sides are shown once, as a replay shows them.
    assert result.stderr == f"{feed}:7: refused: app: 'z' is already an application\n"


def test_refused_jobs_as_json(files: dict[str, Path]) -> None:
    files["b"].write_text(REFUSING, encoding="utf-8")
    files["feed"].write_text(FEED + STRANGE, encoding="utf-8")
    answer = run_json(*compare_both(files))[1]
    refused = answer["refused"]

    assert (refused["both"], refused["only_a"], refused["only_b"]) == (1, 0, 2)
    assert [(one["index"], one["line"]) for one in refused["first_b"]] == [(3, 4), (4, 5)]
    assert refused["first_b"][1]["message"] == "app: 'b' is unknown"
    assert refused["first_a"] == []
    assert refused["first_both"][0]["a"] == refused["first_both"][0]["b"]
    assert refused["first_both"][0]["a"]["line"] == 7
    assert answer["all"]["b"]["events_refused"] == 3
    assert answer["all"]["difference"]["events_refused"] == 2
    assert (answer["jobs"]["only_a"], answer["jobs"]["refused_a"]) == (1, 1)
    assert (answer["jobs"]["only_b"], answer["jobs"]["refused_b"]) == (0, 0)


def test_many_refusals_are_counted(files: dict[str, Path], tmp_path: Path) -> None:
    repeated = STRANGE.splitlines(keepends=True)[0] * 13
    files["feed"].write_text(FEED + repeated, encoding="utf-8")
    lines = run(*compare_both(files)).stderr.splitlines()
    other = written(tmp_path / "other.yaml", FEED)
    text = run("compare", files["feed"], other).stdout

    assert len(lines) == 11
    assert lines[-1] == f"{files['feed']}: refused: … 12 in all on both sides"
    assert "\nOnly A refuses 12 events:\n" in text
    assert "\n   … and 2 more\n" in text


def test_refusals_of_two_feeds(files: dict[str, Path], tmp_path: Path) -> None:
    files["feed"].write_text(FEED + STRANGE, encoding="utf-8")
    other = written(tmp_path / "other.yaml", f"# The same.\n{FEED}{STRANGE}")
    result = run("compare", files["feed"], other)

    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        f"{files['feed']}:7: refused: app: 'z' is already an application",
        f"{other}:8: refused: app: 'z' is already an application",
    ]


def test_an_event_refused_for_two_reasons(files: dict[str, Path]) -> None:
    files["a"].write_text(
        REFUSING.replace("{name: east,", "{name: east, queues: [{name: leaf}],"), encoding="utf-8"
    )
    files["b"].write_text(REFUSING.replace("submitacl: '*'", "submitacl: bob"), encoding="utf-8")
    result = run(*compare_both(files))

    lines = [line for line in result.stderr.splitlines() if f"{files['feed']}:2: " in line]
    assert len(set(lines)) == 2
    assert "Only" not in result.stdout


# COMMAND-34
def test_how_far_queues_were_from_their_parts(tmp_path: Path) -> None:
    root = "{name: root, properties: {usage.half.life: 100s}, queues: [{name: a}, {name: b}]}"
    config = f"partitions: [{{name: default, queues: [{root}]}}]\n"
    written(tmp_path / "a.yaml", config)
    written(
        tmp_path / "b.yaml", config.replace("name: a", 'name: a, properties: {queue.weight: "3"}')
    )
    feed = written(
        tmp_path / "feed.yaml",
        "- {op: add_node, node: n, capacity: {vcore: 2}}\n"
        "- {op: add_app, app: x, queue: root.a}\n"
        "- {op: add_ask, app: x, ask: x, resources: {vcore: 1}, run_for: 500}\n",
    )
    options = ("--config", tmp_path / "a.yaml", "--config", tmp_path / "b.yaml")
    lines = run("compare", feed, *options).stdout.splitlines()
    assert [line.split() for line in lines if "furthest" in line] == [
        ["furthest", "from", "its", "part:", "root.a", "50.0", "%", "25.0", "%", "-25.0", "points"],
        ["furthest", "from", "its", "part:", "root.b", "50.0", "%", "25.0", "%", "-25.0", "points"],
    ]


@pytest.fixture
def past_and_now(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return a feed with a past, a configuration that counts it, and one that does not."""
    root = "{name: root, properties: {usage.half.life: 100s}, queues: [{name: a}, {name: b}]}"
    config = f"partitions: [{{name: default, queues: [{root}]}}]\n"
    past = written(tmp_path / "past.yaml", config)
    now = written(tmp_path / "now.yaml", config.replace("100s", '"0"'))
    feed = written(
        tmp_path / "feed.yaml",
        "- {op: add_node, node: n, capacity: {vcore: 1}}\n"
        "- {op: set_usage, queue: root.a, usage: {vcore: 100}}\n"
        "- {op: add_app, app: x, queue: root.a}\n"
        "- {op: add_ask, app: x, ask: x, resources: {vcore: 1}, run_for: 50}\n"
        "- {op: add_app, app: y, queue: root.b}\n"
        "- {op: add_ask, app: y, ask: x, resources: {vcore: 1}, run_for: 50}\n",
    )
    return feed, past, now


# COMMAND-35
def test_a_side_without_a_half_life_has_no_past(past_and_now: tuple[Path, Path, Path]) -> None:
    feed, past, now = past_and_now
    result = run("compare", feed, "--config", past, "--config", now)
    note = "1 `set_usage` left out, as no usage.half.life or usage.users counts it"
    assert result.stderr == f"{now}: warning: {note}\n"
    assert "refuses" not in result.stdout
    # With its past `a` comes after `b`, without it is first.
    status, compared = run_json("compare", feed, "--config", past, "--config", now)
    assert status == 1
    assert compared["refused"]["only_b"] == 0
    assert [warned["message"] for warned in compared["warnings"]] == [note]
    placed = [compared["first"][side]["decision"]["app"] for side in "ab"]
    assert placed == ["y", "x"]


# COMMAND-35
def test_a_replay_without_a_half_life_has_no_past(past_and_now: tuple[Path, Path, Path]) -> None:
    feed, past, now = past_and_now
    first: dict[Path, tuple[str, str]] = {}
    for config in (past, now):
        result = run("replay", feed, "--config", config, "--decisions", "-")
        assert result.exit_code == 0
        assigned = [one for one in map(json.loads, result.stdout.splitlines()) if "node" in one]
        first[config] = (assigned[0]["app"], result.stderr)

    message = "1 `set_usage` left out, as no usage.half.life or usage.users counts it"
    assert {config: app for config, (app, _) in first.items()} == {past: "y", now: "x"}
    assert "left out" not in first[past][1]
    assert f"{now}: warning: {message}\n" in first[now][1]
