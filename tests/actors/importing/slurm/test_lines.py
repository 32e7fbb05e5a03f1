"""Lines of sacct."""

from __future__ import annotations

from pathlib import Path

from tests.actors.importing.helpers import of
from tests.actors.importing.slurm.dumps import SACCT
from tests.actors.importing.slurm.helpers import ask_of, causes, dump_of, of_rows, of_text, row


def test_steps_are_parts_of_their_jobs(tmp_path: Path) -> None:
    rows = [row(7), row("7.batch"), row("7.extern"), row("7.0")]
    events, summary = of_rows(tmp_path, *rows)
    assert len(of(events, "add_ask")) == 1
    assert summary["read"] == {"job": 1, "step": 3}
    assert causes(summary) == {"part of a job": 3}


def test_a_line_of_other_columns_is_counted_with_its_place(tmp_path: Path) -> None:
    _, summary = of_text(tmp_path, dump_of(row(7)) + "8|what|is\n|||||||||||\n")
    (cause,) = summary["left_out"]
    assert (cause["what"], cause["count"], cause["example"]) == ("line", 2, "8|what|is")
    assert cause["first"].endswith("sacct.txt:3")


def test_how_long_a_job_ran_is_elapsed_or_from_its_start_to_its_end(tmp_path: Path) -> None:
    assert ask_of(tmp_path, ElapsedRaw="77")["run_for"] == 77
    assert ask_of(tmp_path, ElapsedRaw="", Elapsed="1-00:00:01")["run_for"] == 86_401
    assert ask_of(tmp_path, ElapsedRaw="")["run_for"] == 100


# IMPORT-13: How long a job was expected to run
def test_the_limit_of_time_is_the_estimate(tmp_path: Path) -> None:
    assert ask_of(tmp_path, TimelimitRaw="90")["estimate"] == 5400
    assert ask_of(tmp_path, TimelimitRaw="", Timelimit="1-00:00:00")["estimate"] == 86_400
    assert ask_of(tmp_path, TimelimitRaw="90", Timelimit="1-00:00:00")["estimate"] == 5400
    for none in ("", "Partition_Limit", "00:00:00"):
        assert "estimate" not in ask_of(tmp_path, TimelimitRaw="", Timelimit=none)


def test_a_state_may_have_more_words(tmp_path: Path) -> None:
    _, summary = of_rows(
        tmp_path, row(1), row(2, State="CANCELLED by 1000", Start="None", ElapsedRaw="0")
    )
    assert causes(summary) == {"was cancelled before it started": 1}


def test_a_mixed_dump(tmp_path: Path) -> None:
    _, summary = of_text(tmp_path, SACCT)
    assert summary["read"] == {"job": 10, "step": 1}
    assert summary["taken"] == {"job": 8}
    assert (summary["apps"], summary["asks"], summary["gangs"]) == (6, 9, 2)
