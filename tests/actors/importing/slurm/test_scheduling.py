"""How Slurm schedules, in the configuration that is made: scopes, depths, the order of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.actors.cli.helpers import run
from tests.actors.importing.helpers import of, written
from tests.actors.importing.slurm.dumps import TREE
from tests.actors.importing.slurm.helpers import NODES, causes, dump_of, of_rows, row

_NO_ORDER = "no order of a queue is like it: the queues are greedy"
_PARAMETERS = "no queue has what it says of the scheduler"
_SPREADS = "has LLN=YES, and its jobs get the most used node first, as all do"
_LIMITS = "has jobs in several scopes, each of which may use all of its GrpTRES"

# Partitions `long` and `debug` share nodes; `gpu` has its own.
_CONF = """\
ClusterName=c
{options}
NodeName=n[1-2] CPUs=8 RealMemory=16000
NodeName=g1 CPUs=8 RealMemory=16000 Weight={weight}
PartitionName=long Nodes=n[1-2]
PartitionName=debug Nodes=n2 {debug}
PartitionName=gpu Nodes=g1
"""


def _made(
    folder: Path, conf: str, *options: object, nodes: object = NODES
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the partition of the configuration that is made, and the summary."""
    file = written(folder / "slurm.conf", conf)
    events, summary = of_rows(folder, row(1), options=("--slurm-conf", file, *options), nodes=nodes)
    (configure,) = of(events, "configure")
    (partition,) = configure["config"]["partitions"]
    return partition, summary


def _root(folder: Path, conf: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the queue root of the configuration that is made, and what is counted."""
    partition, summary = _made(folder, conf)
    return partition["queues"][0], causes(summary, "not_in_feed")


def _orders(queue: dict[str, Any], path: str = "root") -> dict[str, dict[str, str]]:
    """Return the properties of each queue that has some."""
    found = {path: queue["properties"]} if "properties" in queue else {}
    for child in queue.get("queues", []):
        found |= _orders(child, f"{path}.{child['name']}")
    return found


def _several(
    folder: Path, *options: object, of_conf: str = "", debug: str = "", weight: int = 1
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Import jobs of three partitions; return the properties of queues, and the summary."""
    text = _CONF.format(options=of_conf, debug=debug, weight=weight)
    conf = written(folder / "slurm.conf", text)
    rows = [
        row(number, Account=account, Partition=partition)
        for number, (account, partition) in enumerate(
            [("phys", "long"), ("phys", "debug"), ("chem", "long"), ("phys", "gpu")], start=1
        )
    ]
    events, summary = of_rows(folder, *rows, options=options, nodes=conf)
    (configure,) = of(events, "configure")
    (partition,) = configure["config"]["partitions"]
    return _orders(partition["queues"][0]), summary


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
    assert root.get("properties", {}).get("scheduling.order") == order
    assert counted == ({_NO_ORDER: 1} if "hold" in conf else {})


def test_parameters_of_the_scheduler_are_counted(tmp_path: Path) -> None:
    conf = "ClusterName=c\nSchedulerParameters=bf_interval=1,bf_max_job_test=20\n"
    root, counted = _root(tmp_path, conf)
    assert counted == {_PARAMETERS: 1}
    assert root["properties"]["backfill.depth"] == "20"


def test_a_comment_says_where_order_and_nodes_come_from(tmp_path: Path) -> None:
    conf = written(tmp_path / "slurm.conf", "ClusterName=c\nSchedulerType=sched/backfill\n")
    made = tmp_path / "queues.yaml"
    of_rows(tmp_path, row(1), options=("--slurm-conf", conf, "--make-config", made))
    text = made.read_text(encoding="utf-8")
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("as SchedulerType is sched/backfill (" in line for line in comments)
    assert any("slurm.conf:2)" in line for line in comments)
    assert any("binpacking" in line and "CR_LLN" in line for line in comments)
    (partition,) = yaml.safe_load(text)["partitions"]
    assert partition["queues"][0]["properties"] == {
        "scheduling.order": "backfill",
        "backfill.depth": "100",
    }


# IMPORT-15
def test_without_a_slurm_conf_the_summary_says_that_the_queues_are_greedy(tmp_path: Path) -> None:
    _, summary = of_rows(tmp_path, row(1))
    nodes, order = summary["remarks"]
    assert nodes.startswith("nodes: the most used node first")
    assert order.startswith("the queues are greedy, as no file says the SchedulerType")
    assert "give --slurm-conf" in order


# IMPORT-15
def test_whoever_gives_a_configuration_has_chosen_the_order(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", "partitions: [{queues: [{name: root}]}]")
    assert of_rows(tmp_path, row(1), options=("--config", config))[1]["remarks"] == []


# IMPORT-16: Scopes of Slurm
def test_partitions_that_share_nodes_have_one_scope(tmp_path: Path) -> None:
    orders, summary = _several(tmp_path)
    assert summary["queues"] == [
        "root.debug-long.chem",
        "root.debug-long.phys",
        "root.gpu.phys",
    ]
    depth = {"scheduling.order": "backfill", "backfill.depth": "100"}
    assert orders == {"root.debug-long": depth, "root.gpu": depth}


# IMPORT-16
def test_with_builtin_each_partition_has_a_scope(tmp_path: Path) -> None:
    orders, summary = _several(tmp_path, of_conf="SchedulerType=sched/builtin")
    strict = {"scheduling.order": "strict"}
    assert orders == {"root.long": strict, "root.debug": strict, "root.gpu": strict}
    assert "root.long: strict (long)" in summary["remarks"]


# IMPORT-16
@pytest.mark.parametrize(
    ("path", "scopes"),
    [
        # Accounts above partitions: all jobs of a scope are only below root.
        ("root.{account}.{partition}", {"root"}),
        ("root.{partition}", {"root"}),
        ("root.all.{scope}", {"root.all.debug-long", "root.all.gpu"}),
        ("root.{scope}.{partition}", {"root.debug-long", "root.gpu"}),
        ("root.jobs", {"root"}),
    ],
)
def test_a_scope_is_where_all_its_jobs_are(tmp_path: Path, path: str, scopes: set[str]) -> None:
    text = f'queues: [{{partition: gpu, queue: "{path}"}}, {{queue: "{path}"}}]'
    mapping = written(tmp_path / "mapping.yaml", text)
    assert _several(tmp_path, "--mapping", mapping)[0].keys() == scopes


# IMPORT-16
def test_nodes_without_partitions_are_shared_by_all(tmp_path: Path) -> None:
    conf = written(tmp_path / "conf.txt", "ClusterName=c\n")
    rows = (row(1, Partition="a"), row(2, Partition="b", Account="chem"))
    events, summary = of_rows(tmp_path, *rows, options=("--slurm-conf", conf))
    assert summary["queues"] == ["root.chem", "root.phys"]
    (configure,) = of(events, "configure")
    assert _orders(configure["config"]["partitions"][0]["queues"][0]).keys() == {"root"}


# IMPORT-16
def test_a_limit_of_an_account_stands_in_each_scope_and_is_counted(tmp_path: Path) -> None:
    tree = written(tmp_path / "tree.txt", TREE)
    _, summary = _several(tmp_path, "--accounts", tree)
    assert "root.debug-long.science.phys" in summary["queues"]
    assert "root.gpu.science.phys" in summary["queues"]
    # The account `science` and `phys` below it have limits, and jobs in both scopes.
    assert causes(summary, "not_in_feed")[_LIMITS] == 2


# IMPORT-17: The depth of backfill
@pytest.mark.parametrize(
    ("parameters", "shared", "alone"),
    [
        ("defer", "100", "100"),
        ("bf_max_job_test=30", "30", "30"),
        ("bf_max_job_part=8", "16", "8"),  # for each partition, and two share nodes
        ("bf_job_part_count_reserve=3,bf_max_job_part=8", "6", "3"),
        ("bf_max_job_test=5,bf_job_part_count_reserve=4", "5", "4"),
        ("bf_job_part_count_reserve=0,bf_max_job_test=1000", "100", "100"),
        ("bf_max_job_test=many", "100", "100"),
    ],
)
def test_the_depth_is_that_of_the_site(
    tmp_path: Path, parameters: str, shared: str, alone: str
) -> None:
    orders, summary = _several(tmp_path, of_conf=f"SchedulerParameters={parameters}")
    assert orders["root.debug-long"]["backfill.depth"] == shared
    assert orders["root.gpu"]["backfill.depth"] == alone
    (said,) = (remark for remark in summary["remarks"] if remark.startswith("root.gpu: "))
    assert f"backfill with {alone} reservations at a time, from " in said


# IMPORT-18: The order of nodes
@pytest.mark.parametrize(
    ("conf", "policy", "counted"),
    [
        ("", "binpacking", {}),
        ("SelectTypeParameters=CR_Core_Memory", "binpacking", {}),
        ("SelectTypeParameters=CR_Core_Memory,CR_LLN", "fair", {}),
        ("PartitionName=a LLN=YES\nPartitionName=b", "binpacking", {_SPREADS: 1}),
        ("PartitionName=a LLN=YES\nPartitionName=b lln=yes", "fair", {}),
    ],
)
def test_slurm_fills_up_nodes_unless_it_says_otherwise(
    tmp_path: Path, conf: str, policy: str, counted: dict[str, int]
) -> None:
    partition, summary = _made(tmp_path, f"ClusterName=c\n{conf}\n")
    assert partition["nodesortpolicy"] == {"type": policy}
    assert causes(summary, "not_in_feed") == counted
    assert summary["remarks"][0].endswith(f"({policy})")


# IMPORT-18
def test_weights_of_nodes_are_counted(tmp_path: Path) -> None:
    text = "has a Weight above the lowest, and gets jobs as early as the others"
    assert text not in causes(_several(tmp_path)[1], "not_in_feed")
    assert causes(_several(tmp_path, weight=5)[1], "not_in_feed")[text] == 1


def test_the_summary_says_what_is_in_the_feed_in_another_form(tmp_path: Path) -> None:
    jobs = dump_of(row(7, Reservation="class", Suspended="00:00:10"))
    dump = written(tmp_path / "jobs.txt", jobs)
    said = run("import", "slurm", dump, "--nodes", NODES, "-o", tmp_path / "feed.jsonl").stdout

    assert "\nconfiguration:\n  nodes: the most used node first" in said
    assert "\n  the queues are greedy, as no file says" in said
    _, _, forms = said.partition("\nnot in the feed:\n  1 job: ran in a reservation")
    assert "\nin the feed in another form:\n  1 job: was suspended" in forms
