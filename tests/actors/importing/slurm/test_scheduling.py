"""The scheduler of Slurm as the order of the root queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actors.cli.helpers import run
from tests.actors.importing.helpers import of, written
from tests.actors.importing.slurm.helpers import NODES, causes, dump_of, of_rows, row

_NO_ORDER = "no order of a queue is like it: the queues are greedy"


def _root(folder: Path, conf: str, *options: object) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the queue root of the configuration that is made, and what is counted."""
    file = written(folder / "slurm.conf", conf)
    events, summary = of_rows(folder, row(1), options=("--slurm-conf", file, *options))
    (configure,) = of(events, "configure")
    (partition,) = configure["config"]["partitions"]
    return partition["queues"][0], causes(summary, "not_in_feed")


# IMPORT-15: The scheduler of Slurm
@pytest.mark.parametrize(
    ("conf", "order"),
    [
        ("ClusterName=c\nSchedulerType=sched/backfill\n", "backfill"),
        ("ClusterName=c\n", "backfill"),
        ("ClusterName=c\nschedulertype = sched/builtin # first come\n", "strict"),
        ("ClusterName=c\nSchedulerType=sched/hold\n", None),
        ("PartitionName=p MaxTime=5\n", None),  # a part of a slurm.conf does not say it
        (
            "Configuration data as of 2026-01-31\nSchedulerType           = sched/builtin\n",
            "strict",
        ),
    ],
)
def test_the_type_of_the_scheduler_is_the_order_of_root(
    tmp_path: Path, conf: str, order: str | None
) -> None:
    root, counted = _root(tmp_path, conf)
    properties = None if order is None else {"scheduling.order": order}
    assert root.get("properties") == properties
    assert counted == ({_NO_ORDER: 1} if "hold" in conf else {})


def test_parameters_of_the_scheduler_are_counted(tmp_path: Path) -> None:
    conf = "ClusterName=c\nSchedulerParameters=bf_interval=1,bf_window=60\n"
    assert _root(tmp_path, conf)[1] == {"no queue has it": 1}


def test_a_comment_says_where_the_order_comes_from(tmp_path: Path) -> None:
    conf = written(tmp_path / "slurm.conf", "ClusterName=c\nSchedulerType=sched/backfill\n")
    made = tmp_path / "queues.yaml"
    of_rows(tmp_path, row(1), options=("--slurm-conf", conf, "--make-config", made))
    text = made.read_text(encoding="utf-8")
    assert "as SchedulerType is sched/backfill (" in text
    assert "slurm.conf:2)" in text
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("backfill.depth" in line for line in comments)
    (partition,) = yaml.safe_load(text)["partitions"]
    assert partition["queues"][0]["properties"] == {"scheduling.order": "backfill"}


# IMPORT-15
def test_without_a_slurm_conf_the_summary_says_that_the_queues_are_greedy(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(1))
    (remark,) = summary["remarks"]
    assert remark.startswith("the queues are greedy, as no file says the SchedulerType")
    assert "give --slurm-conf" in remark

    conf = written(tmp_path / "slurm.conf", "ClusterName=c\n")
    assert of_rows(tmp_path, row(1), options=("--slurm-conf", conf))[1]["remarks"] == []


# IMPORT-15
def test_whoever_gives_a_configuration_has_chosen_the_order(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", "partitions: [{queues: [{name: root}]}]")
    assert of_rows(tmp_path, row(1), options=("--config", config))[1]["remarks"] == []


def test_the_summary_says_what_is_in_the_feed_in_another_form(tmp_path: Path) -> None:
    jobs = dump_of(row(7, Reservation="class", Suspended="00:00:10"))
    dump = written(tmp_path / "jobs.txt", jobs)
    said = run("import", "slurm", dump, "--nodes", NODES, "-o", tmp_path / "feed.jsonl").stdout

    assert "\norder: the queues are greedy, as no file says" in said
    _, _, forms = said.partition("\nnot in the feed:\n  1 job: ran in a reservation")
    assert "\nin the feed in another form:\n  1 job: was suspended" in forms
