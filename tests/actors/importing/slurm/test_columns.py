"""The columns of a dump."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.importing.helpers import of, refusal, written
from tests.actors.importing.slurm.helpers import NODES, dump_of, of_text, row


def test_columns_may_stand_in_any_order_and_case(tmp_path: Path) -> None:
    text = dump_of(row(7))
    names, values = (line.split("|") for line in text.splitlines())
    mixed = "|".join(name.upper() for name in reversed(names)) + "\n" + "|".join(reversed(values))
    assert of_text(tmp_path, mixed)[0] == of_text(tmp_path, text)[0]


def test_the_columns_of_parsable_end_with_one_more_bar(tmp_path: Path) -> None:
    text = dump_of(row(7), row(8))
    with_bars = "".join(f"{line}|\n" for line in text.splitlines())
    assert of_text(tmp_path, with_bars)[0] == of_text(tmp_path, text)[0]


def test_another_delimiter_is_found(tmp_path: Path) -> None:
    text = dump_of(row(7))
    assert of_text(tmp_path, text.replace("|", ";"))[0] == of_text(tmp_path, text)[0]


def test_names_of_jobs_and_constraints_may_have_bars_in_them(tmp_path: Path) -> None:
    names = {"JobID": "7", "JobName": "a|b||c"}
    events, summary = of_text(
        tmp_path, dump_of(names | row(7), names | row(8, JobName="x", Constraints="a|b"))
    )
    assert [app["user"] for app in of(events, "add_app")] == ["al", "al"]
    assert summary["taken"] == {"job": 2}
    assert summary["not_in_feed"][0]["example"] == "a|b"


def test_an_unknown_column_is_named_once(tmp_path: Path) -> None:
    rows = [row(job, Colour="red") for job in (1, 2)]
    _, summary = of_text(tmp_path, dump_of(*rows))
    (note,) = summary["not_in_feed"]
    assert (note["what"], note["count"]) == ("column", 1)
    assert "'Colour'" in note["cause"]


def test_columns_without_which_jobs_lack_something_are_named(tmp_path: Path) -> None:
    text = "JobID|State|Submit|Start|Elapsed|NCPUS|User\n"
    row_of = "7|COMPLETED|2026-01-31T10:00:00|2026-01-31T10:00:00|00:01:00|2|al\n"
    _, summary = of_text(tmp_path, text + row_of)

    assert summary["taken"] == {"job": 1}
    assert sorted(note["cause"].partition(": ")[2] for note in summary["not_in_feed"]) == [
        "each job has one node",
        "jobs ask for no memory",
    ]
    assert [note["cause"].partition(": ")[2] for note in summary["in_another_form"]] == [
        "a backfill plans with the time that it really ran"
    ]


def test_several_dumps_may_stand_in_one_file(tmp_path: Path) -> None:
    other = dump_of({"State": "COMPLETED"} | row(8, QOS="normal"))
    events, summary = of_text(tmp_path, dump_of(row(7)) + other)
    assert [app["app"] for app in of(events, "add_app")] == ["7", "8"]
    assert not summary["left_out"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7|2026-01-31T10:00:00|COMPLETED\n", "leave out --noheader"),
        ("JobID|State\n", "no column Submit or Eligible"),
        ("JobName|State\n", "no column JobID"),
        ("JobID|State|Submit|Elapsed|User\n", "no column ReqTRES or AllocTRES or ReqCPUS"),
        ("JobID           JobName  Partition\n------------ ---------- ----------\n", "padded"),
        ("\n", "is empty"),
        ("", "is empty"),
    ],
)
def test_what_is_no_such_dump_is_refused(tmp_path: Path, text: str, said: str) -> None:
    message = refusal("slurm", written(tmp_path / "sacct.txt", text), "--nodes", NODES)
    assert said in message
    assert "sacct --parsable2 --duplicates" in message
